//! Waiting for a slot: sleep until shortly before it, then spin.
//!
//! How shortly is learned: a sleep ends late by what the timer, the processor's way out of its idle state and the scheduler
//! take, and the spin covers the lateness of this gate's recent sleeps.
//!
//! A wait for a turn ([`wait_for_turn`]) is for the agent's word and for no moment, so it sleeps until the agent wakes it, and does
//! not spin.

use std::{hint, num::NonZeroU64};

use gate_core::{Hold, Reason, Schedule, TurnWait, Verdict};
use rustix::thread::{current_timer_slack, set_current_timer_slack};
use units::{Nanos, NodeTime};

use crate::{
    clock::{now, sleep_until},
    page::PageReader,
};

/// The shortest spin. The last look at the page and the way back from a sleep fit into it on an idle machine.
pub const SPIN_MIN: Nanos = Nanos::from_micros(50);

/// The spin of a gate that has not slept yet: a timer with a slack of 1 ns wakes 30 to 100 us late on a machine with work.
pub const SPIN_FIRST: Nanos = Nanos::from_micros(200);

/// The longest spin: processors come out of their deepest idle state within some hundreds of microseconds. Sleeps that end
/// later than this were kept waiting by other work, and to spin against that takes time from it and gains nothing: nothing is
/// learned from them.
pub const SPIN_MAX: Nanos = Nanos::from_micros(500);

/// By what part of itself the learned spin falls at a sleep that it would have covered. A lateness that comes back after so many
/// sleeps is still covered to nearly a half: 5/4 of it, over e.
const FORGET: u64 = 256;

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

/// How long before a slot a gate stops sleeping, and how its last wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wake {
    /// The spin that covers the lateness of recent sleeps.
    pub spin: Nanos,
    /// How late the last sleep of the last wait ended; `None` if that wait did not sleep.
    pub overslept: Option<Nanos>,
    /// When that sleep ended.
    pub awake: NodeTime,
}

impl Default for Wake {
    fn default() -> Self {
        Self { spin: SPIN_FIRST, overslept: None, awake: NodeTime(0) }
    }
}

impl Wake {
    /// Takes in a sleep that was to end at `until` and ended at `awake`.
    fn learn(&mut self, until: NodeTime, awake: NodeTime) {
        let late = awake.since(until);
        // A quarter more covers a next sleep that ends a little later than this one. The sum is small, as `late` is at most SPIN_MAX.
        let wanted = if late <= SPIN_MAX { Nanos(late.0 + late.0 / 4) } else { Nanos(0) };
        // The spin falls by one part in FORGET per sleep, so a single quick sleep does not undo what many have taught.
        let kept = Nanos(self.spin.0 - self.spin.0 / FORGET);
        self.spin = wanted.max(kept).max(SPIN_MIN).min(SPIN_MAX);
        (self.overslept, self.awake) = (Some(late), awake);
    }
}

/// Waits until `hold` says go and returns why. `read` reads the page.
///
/// Ends, whatever `read` returns: every turn of the loop either starts or sleeps towards a time that is at most the hold's
/// deadline, and the clock does not stand still.
pub(crate) fn wait(hold: &mut Hold, wake: &mut Wake, mut read: impl FnMut() -> Result<Schedule, Reason>) -> Reason {
    let mut tight = None;
    wake.overslept = None;
    loop {
        // A turn sleeps for SLICE at most or spins for the learned spin, so the page is read every 10 ms (ADR 2, point 3).
        let before = now();
        if hold.until().since(before) > wake.spin {
            // The slot is more than the spin away here, so the subtraction does not underflow.
            let nap = NodeTime(hold.until().0 - wake.spin.0).min(before.saturating_add(SLICE));
            tight.get_or_insert_with(TightTimer::new);
            if sleep_until(nap).is_err() {
                // Without sleep the loop would burn a processor until the slot: the job goes instead.
                return Reason::Internal;
            }
            wake.learn(nap, now());
        } else {
            // The restored timer slack is a system call, so it comes before the spin and not at the slot.
            tight = None;
            // The spin ends by itself: the slot is at most `wake.spin` away, and CLOCK_MONOTONIC neither stops nor steps.
            while now() < hold.until() {
                hint::spin_loop();
            }
        }
        // The page is read after the spin as well: the start's reason is that of the page as it is at the slot.
        let page = read();
        if let Verdict::Start(because) = hold.check(now(), page.as_ref().map_err(|&reason| reason)) {
            return because;
        }
    }
}

/// Waits until `turn` says go and returns why.
///
/// Ends, whatever is on the page: every turn of the loop either starts or sleeps for [`SLICE`] at most towards a time that is at
/// most the deadline of the wait.
pub(crate) fn wait_for_turn(turn: &mut TurnWait, page: &PageReader) -> Reason {
    loop {
        // The sequence is read before the page: a write between the two ends the sleep at once, so no answer is slept through.
        let seen = page.sequence();
        let schedule = page.read();
        let at = now();
        match turn.check(at, schedule.as_ref().map_err(|&reason| reason)) {
            Verdict::Start(because) => return because,
            Verdict::Wait(until) => {
                // Without sleep the loop would burn a processor until the answer: the job goes instead.
                if page.sleep(seen, until.since(at).min(SLICE)).is_err() {
                    return Reason::Internal;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use gate_core::{Mode, PhaseLock};

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
        let mut hold = PhaseLock::default().hold(began, plan.slot, &plan);
        let mut wake = Wake::default();
        assert_eq!(wait(&mut hold, &mut wake, || Ok(plan)), Reason::OnTime);
        assert!(now() >= plan.slot);
        assert!(wake.overslept.is_some() && (SPIN_MIN..=SPIN_MAX).contains(&wake.spin), "{wake:?}");
    }

    #[test]
    fn a_wait_looks_at_the_page_meanwhile() {
        let began = now();
        let plan = schedule(began);
        let mut hold = PhaseLock::default().hold(began, plan.slot, &plan);
        let mut looks = 0;
        let because = wait(&mut hold, &mut Wake::default(), || {
            looks += 1;
            if looks < 3 { Ok(plan) } else { Err(Reason::Torn) }
        });
        assert_eq!((because, looks), (Reason::Torn, 3));
    }

    #[test]
    fn the_spin_covers_what_sleeps_were_late_and_forgets_slowly() {
        let mut wake = Wake::default();
        let mut sleep = |late: u64| {
            wake.learn(NodeTime(1_000), NodeTime(1_000 + late));
            wake.spin.0
        };
        assert_eq!(sleep(240_000), 300_000, "a quarter more than it was late");
        assert_eq!(sleep(10_000), 300_000 - 300_000 / 256);
        assert_eq!(sleep(900_000_000), 298_829 - 298_829 / 256, "other work is not spun against");
        assert_eq!(sleep(450_000), SPIN_MAX.0);
        // 255/256 to the power of 256 is 1/e.
        assert!((180_000..190_000).contains(&(0..256).map(|_| sleep(0)).last().unwrap()));
        assert_eq!((0..2_000).map(|_| sleep(0)).last(), Some(SPIN_MIN.0));
        // A sleep that a signal ended early was not late.
        wake.learn(NodeTime(1_000), NodeTime(900));
        assert_eq!((wake.overslept, wake.spin), (Some(Nanos(0)), SPIN_MIN));
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
