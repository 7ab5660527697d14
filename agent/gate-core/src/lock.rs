//! The rule with a memory: one start per slot.

use units::{Nanos, NodeTime};

use crate::{Decision, Reason, Schedule, StepOutcome, decide};

/// What a gate remembers of its job from start to start.
///
/// [`decide`] lets a start go that is late by no more than the tolerance. An iteration shorter than that would come back
/// within the tolerance of the slot that it already used, and the job would send twice where the plan has room for once. So
/// a slot that was taken is passed over, and the start waits for the next one.
///
/// The passed slot costs no more than a slip: the wait is at most a period, and it never ends in the slot that was taken, so
/// one start goes in every period. A new plan (another plan version) has other slots, and none of them is taken.
///
/// A schedule may have a period in a wrong unit, and the job knows better how long its iterations are: no start is held for longer than
/// twice the time since the start before, or [`HOLD_FLOOR`] if that is longer. A job that has its period finds its slot within an iteration,
/// so the bound keeps none out. Of the first start nothing is known, and it may be the only one (`gate exec`): it waits for its slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PhaseLock {
    taken: Option<Taken>,
    last: Option<NodeTime>,
}

/// A start may be held for so long, if its schedule says so, however short the iterations of its job are: the service ends a hold that
/// does not fit after 15 starts, and 15 s are not much. A job that comes back too soon does not send twice in a slot.
pub const HOLD_FLOOR: Nanos = Nanos::from_millis(1_000);

/// A slot in which the job started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Taken {
    plan_version: u64,
    due: NodeTime,
}

impl PhaseLock {
    /// Decides for a rank that is ready to start at `now`: as [`decide`], but never twice for the same slot.
    ///
    /// Total, and bounded as [`decide`] is.
    #[must_use]
    #[inline]
    pub fn decide(&self, now: NodeTime, schedule: &Schedule) -> Decision {
        let decision = match decide(now, schedule) {
            // Only a start that is on time can use a slot twice: fail-open starts go whatever the slots are.
            Decision::Go { because: Reason::OnTime, late } if self.has_taken(now, late, schedule) => {
                schedule.wait_for_next(now, late, false)
            }
            decision => decision,
        };
        match decision {
            Decision::Wait { until, .. } if until.since(now) > self.hold_bound(now, schedule) => {
                Decision::Go { because: Reason::HoldTooLong, late: schedule.phase(now).unwrap_or_default() }
            }
            decision => decision,
        }
    }

    /// The longest time that a start may be held which is ready at `now`.
    #[must_use]
    pub fn hold_bound(&self, now: NodeTime, schedule: &Schedule) -> Nanos {
        let bound = schedule.hold_bound();
        self.last.map_or(bound, |last| bound.min(HOLD_FLOOR.max(Nanos(now.since(last).0.saturating_mul(2)))))
    }

    /// Remembers a start that went under `schedule`. Starts that were let through take no slot.
    #[inline]
    pub fn started(&mut self, outcome: &StepOutcome, schedule: &Schedule) {
        self.last = Some(outcome.start);
        let (Reason::OnTime, Some(late)) = (outcome.because, outcome.late) else { return };
        // Lateness is to the nearest due start. With a tolerance above half of the period, a start can be in the slot
        // before that one.
        // Lateness is at most half a period either way, so the subtraction saturates only for outcomes that no gate makes.
        let behind = if late < 0 { schedule.period.0.saturating_sub(late.unsigned_abs()) } else { late.unsigned_abs() };
        let due = if late >= 0 || behind <= schedule.tolerance.0 {
            NodeTime(outcome.start.0.saturating_sub(behind))
        } else {
            outcome.start.saturating_add(Nanos(late.unsigned_abs()))
        };
        self.taken = Some(Taken { plan_version: schedule.plan_version, due });
    }

    /// The same memory that much later: for a simulator that leaves out cycles of a run that repeats itself.
    #[must_use]
    pub fn later(self, by: Nanos) -> Self {
        let taken = self.taken.map(|taken| Taken { due: taken.due.saturating_add(by), ..taken });
        Self { taken, last: self.last.map(|last| last.saturating_add(by)) }
    }

    /// Whether the slot `late` before `now` is the one taken. The agent moves due starts a little as it learns the time, so
    /// the nearest counts and not the equal.
    #[inline]
    fn has_taken(&self, now: NodeTime, late: Nanos, schedule: &Schedule) -> bool {
        // The due start may lie before the clock's zero soon after boot; `min` then takes zero for it.
        self.taken.is_some_and(|taken| {
            taken.plan_version == schedule.plan_version && (now.0 - late.0.min(now.0)).abs_diff(taken.due.0) < schedule.period.0 / 2
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mode;

    /// Due at 1,000 and every 100; late by up to 15 may go.
    fn schedule() -> Schedule {
        Schedule {
            mode: Mode::Hold,
            plan_version: 7,
            slot: NodeTime(1_000),
            period: Nanos(100),
            tolerance: Nanos(15),
            hold_max: Nanos(100),
            expires: NodeTime(9_000),
            written: NodeTime(900),
            stale_after: Nanos(5_000),
            ..Schedule::default()
        }
    }

    fn started(start: u64, schedule: &Schedule) -> PhaseLock {
        let mut lock = PhaseLock::default();
        let late = schedule.phase_error(NodeTime(start));
        let outcome = StepOutcome { because: Reason::OnTime, start: NodeTime(start), held: Nanos(0), slip: false, late, plan_version: 7 };
        lock.started(&outcome, schedule);
        lock
    }

    const fn wait(until: u64) -> Decision {
        Decision::Wait { until: NodeTime(until), slip: false }
    }

    const fn go(because: Reason, late: u64) -> Decision {
        Decision::Go { because, late: Nanos(late) }
    }

    #[test]
    fn a_slot_is_taken_once() {
        let lock = started(1_003, &schedule());
        let at = |now| lock.decide(NodeTime(now), &schedule());
        assert_eq!([at(1_005), at(1_015), at(1_016)], [wait(1_100), wait(1_100), Decision::Wait { until: NodeTime(1_100), slip: true }]);
        assert_eq!([at(1_100), at(1_115)], [go(Reason::OnTime, 0), go(Reason::OnTime, 15)]);
        // A due start that moved by 4 is the same slot, one of another plan is not.
        let moved = Schedule { slot: NodeTime(1_004), ..schedule() };
        assert_eq!(lock.decide(NodeTime(1_010), &moved), wait(1_104));
        let newer = Schedule { plan_version: 8, ..schedule() };
        assert_eq!(lock.decide(NodeTime(1_010), &newer), go(Reason::OnTime, 10));
    }

    /// Found by a stranger: a period in a wrong unit held starts of a job of 0.1 s for 31 s each.
    #[test]
    fn a_hold_is_no_longer_than_a_second_or_two_iterations_of_the_job_itself() {
        const S: u64 = 1_000_000_000;
        let schedule = Schedule {
            slot: NodeTime(100 * S),
            period: Nanos(31 * S),
            hold_max: Nanos(31 * S),
            expires: NodeTime(u64::MAX),
            stale_after: Nanos(u64::MAX),
            ..schedule()
        };
        let at = |lock: PhaseLock, now: u64| lock.decide(NodeTime(now), &schedule);
        // Nothing is known of the job yet.
        let new = PhaseLock::default();
        assert_eq!(at(new, 99 * S), wait(100 * S));
        assert_eq!(at(new, 98 * S), wait(100 * S));
        // It is seen to come back after 0.1 s, also from a start that was let through: no more than that.
        let mut lock = new;
        let begun =
            StepOutcome { because: Reason::HoldTooLong, start: NodeTime(98 * S), held: Nanos(0), slip: false, late: None, plan_version: 7 };
        lock.started(&begun, &schedule);
        assert_eq!(at(lock, 98 * S + S / 10), go(Reason::HoldTooLong, 29 * S + S / 10));
        // After 0.7 s.
        lock.started(&StepOutcome { start: NodeTime(97 * S + 9 * S / 10), ..begun }, &schedule);
        let ready = 98 * S + 6 * S / 10;
        assert_eq!(at(lock, ready), wait(100 * S));
        let mut hold = lock.hold(NodeTime(ready), NodeTime(100 * S), &schedule);
        let moved = Schedule { slot: NodeTime(101 * S), ..schedule };
        assert_eq!(hold.check(NodeTime(ready + 1), Ok(&schedule)), crate::Verdict::Wait(NodeTime(100 * S)));
        assert_eq!(hold.check(NodeTime(ready + 2), Ok(&moved)), crate::Verdict::Start(Reason::HoldTooLong));
        // After a pause it may be held as after any other.
        assert_eq!(at(lock.later(Nanos(0)), 120 * S), wait(131 * S));
    }

    #[test]
    fn a_slot_that_is_taken_opens_as_any_other_does() {
        let lock = started(1_000, &schedule());
        let with = |changed: Schedule| lock.decide(NodeTime(1_010), &changed);
        assert_eq!(with(Schedule { hold_max: Nanos(89), ..schedule() }), go(Reason::HoldTooLong, 10));
        assert_eq!(with(Schedule { expires: NodeTime(1_100), ..schedule() }), go(Reason::Expired, 0));
        assert_eq!(with(Schedule { written: NodeTime(0), stale_after: Nanos(1), ..schedule() }), go(Reason::Stale, 0));
    }

    #[test]
    fn a_wide_tolerance_belongs_to_the_slot_behind() {
        let wide = Schedule { tolerance: Nanos(80), ..schedule() };
        // 70 late for 1,000, though nearer to 1,100.
        let lock = started(1_070, &wide);
        assert_eq!(lock.decide(NodeTime(1_075), &wide), wait(1_100));
        assert_eq!(lock.decide(NodeTime(1_105), &wide), go(Reason::OnTime, 5));
        // Woken 90 after its slot, it is in nobody's tolerance and all but in the next slot, which it takes.
        assert_eq!(started(1_090, &wide).decide(NodeTime(1_105), &wide), wait(1_200));
    }

    #[test]
    fn a_hold_does_not_end_in_the_slot_that_was_taken() {
        let lock = started(1_002, &schedule());
        let mut hold = lock.hold(NodeTime(1_005), NodeTime(1_100), &schedule());
        assert_eq!(hold.check(NodeTime(1_006), Ok(&schedule())), crate::Verdict::Wait(NodeTime(1_100)));
        assert_eq!(hold.check(NodeTime(1_100), Ok(&schedule())), crate::Verdict::Start(Reason::OnTime));
    }
}
