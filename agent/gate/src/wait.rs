//! Waiting for a slot: sleep until shortly before it, then spin.

use std::{hint, num::NonZeroU64};

use gate_core::{Hold, Reason, Schedule, Verdict};
use rustix::thread::{current_timer_slack, set_current_timer_slack};
use units::{Nanos, NodeTime};

use crate::clock::{now, sleep_until};

/// How long before the slot the thread stops sleeping and spins: a timer with a slack of 1 ns wakes 30 to 100 us late on a
/// machine with work, and 200 us of one core are below 0.1 % of an iteration.
pub const SPIN: Nanos = Nanos::from_micros(200);

/// How long a wait sleeps before it looks at the page again. A tenth of the agent's heartbeat, so that a plan that went
/// away is noticed as soon as it counts as stale.
pub const SLICE: Nanos = Nanos::from_millis(10);

/// The kernel may delay a timer of an ordinary thread by 50 us to save wake-ups; during a wait by this much only.
const TIGHT: Option<NonZeroU64> = NonZeroU64::new(1);

/// Restores the thread's timer slack when it goes.
struct TightTimer {
    before: Option<u64>,
}

impl TightTimer {
    fn new() -> Self {
        let before = current_timer_slack().ok();
        // Where the kernel refuses, the wait is less exact and still right.
        let set = before.is_some_and(|_| set_current_timer_slack(TIGHT).is_ok());
        Self { before: before.filter(|_| set) }
    }
}

impl Drop for TightTimer {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            let _ = set_current_timer_slack(NonZeroU64::new(before));
        }
    }
}

/// Waits until `hold` says go and returns why. `read` reads the page.
///
/// Ends, whatever `read` returns: every turn of the loop either starts or sleeps towards a time that is at most the hold's
/// deadline, and the clock does not stand still.
pub(crate) fn wait(hold: &mut Hold, mut read: impl FnMut() -> Result<Schedule, Reason>) -> Reason {
    let mut tight = None;
    loop {
        let before = now();
        if hold.until().since(before) > SPIN {
            let nap = NodeTime(hold.until().0 - SPIN.0).min(before.saturating_add(SLICE));
            tight.get_or_insert_with(TightTimer::new);
            if sleep_until(nap).is_err() {
                return Reason::Internal;
            }
        } else {
            // A system call, so now and not at the slot.
            tight = None;
            while now() < hold.until() {
                hint::spin_loop();
            }
        }
        let page = read();
        if let Verdict::Start(because) = hold.check(now(), page.as_ref().map_err(|&reason| reason)) {
            return because;
        }
    }
}

#[cfg(test)]
mod tests {
    use gate_core::Mode;

    use super::*;

    fn schedule(now: NodeTime) -> Schedule {
        Schedule {
            mode: Mode::Hold,
            slot: now.saturating_add(Nanos::from_millis(50)),
            period: Nanos::from_millis(1_000),
            tolerance: Nanos::from_millis(100),
            hold_max: Nanos::from_millis(1_000),
            expires: NodeTime(u64::MAX),
            written: now,
            stale_after: Nanos::from_millis(60_000),
            ..Schedule::default()
        }
    }

    #[test]
    fn a_wait_ends_at_the_slot_and_never_before() {
        let began = now();
        let plan = schedule(began);
        let mut hold = Hold::new(began, plan.slot, &plan);
        assert_eq!(wait(&mut hold, || Ok(plan)), Reason::OnTime);
        assert!(now() >= plan.slot);
    }

    #[test]
    fn a_wait_looks_at_the_page_meanwhile() {
        let began = now();
        let plan = schedule(began);
        let mut hold = Hold::new(began, plan.slot, &plan);
        let mut looks = 0;
        let because = wait(&mut hold, || {
            looks += 1;
            if looks < 3 { Ok(plan) } else { Err(Reason::Torn) }
        });
        assert_eq!((because, looks), (Reason::Torn, 3));
    }

    #[test]
    fn the_timer_slack_is_restored() {
        let before = current_timer_slack().unwrap();
        {
            let _tight = TightTimer::new();
            assert_eq!(current_timer_slack().unwrap(), 1);
        }
        assert_eq!(current_timer_slack().unwrap(), before);
    }
}
