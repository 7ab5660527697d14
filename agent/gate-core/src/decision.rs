//! The rule of the gate.

use units::{Nanos, NodeTime};

use crate::{Mode, Reason, Schedule};

/// No start is held longer than this, whatever a schedule says. Communication libraries give a rank up after minutes (ten
/// by default in PyTorch with NCCL); the gate must stay far below the shortest such limit that people set.
pub const HOLD_LIMIT: Nanos = Nanos(60_000_000_000);

/// Longest scheduled period of a job that is held. With a longer period a start may have to wait for longer than
/// [`HOLD_LIMIT`]; the start then goes at once, and the job never finds its slot. Plans hold no such job, and agents refuse
/// a slot that does.
pub const HELD_PERIOD_MAX: Nanos = HOLD_LIMIT;

/// What a rank that is ready to start does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Start at once.
    Go {
        /// Why.
        because: Reason,
        /// Time since the last due start; zero where the schedule is not followed.
        late: Nanos,
    },
    /// Start at `until`.
    Wait {
        /// The due start, after now by at most the period, the schedule's `hold_max` and [`HOLD_LIMIT`].
        until: NodeTime,
        /// The rank is nearer to the due start that it missed than to the one that it waits for.
        slip: bool,
    },
}

impl Schedule {
    /// The longest time that a start may be held.
    #[must_use]
    pub fn hold_bound(&self) -> Nanos {
        self.period.min(self.hold_max).min(HOLD_LIMIT)
    }

    /// Decides for a start that is `late` for one slot: the start waits for the next slot if it may be held for so long.
    #[inline]
    pub(crate) fn wait_for_next(&self, now: NodeTime, late: Nanos, slip: bool) -> Decision {
        // The phase is below the period, so the wait is above zero.
        let wait = Nanos(self.period.0 - late.0);
        // A slot beyond the end of u64 counts as a wait that is too long: an overflow must never become a slot in the past.
        let until = now.checked_add(wait).filter(|_| wait <= self.hold_bound());
        match until {
            None => Decision::Go { because: Reason::HoldTooLong, late },
            // The plan would no longer be trusted at the slot: waiting for it could only cost time.
            Some(until) if until >= self.expires => Decision::Go { because: Reason::Expired, late: Nanos(0) },
            Some(until) => Decision::Wait { until, slip },
        }
    }
}

/// Decides for a rank that is ready to start at `now`, whatever it did before; [`PhaseLock`](crate::PhaseLock) remembers.
///
/// Total: any numbers give an answer, and an answer never waits longer than [`Schedule::hold_bound`].
#[must_use]
#[inline]
pub fn decide(now: NodeTime, schedule: &Schedule) -> Decision {
    let open = |because| Decision::Go { because, late: Nanos(0) };
    // Trust comes before arithmetic: the numbers of a page that must not be followed cannot delay the job (ADR 2).
    if let Some(because) = schedule.distrust(now) {
        return open(because);
    }
    // A job that takes turns has no slot, so no slot holds it; `TurnGate` decides for it.
    if schedule.mode == Mode::Turn {
        return open(Reason::NotHeld);
    }
    // `distrust` has refused a period of zero already; this branch keeps `decide` total without that knowledge.
    let Some(late) = schedule.phase(now) else { return open(Reason::Malformed) };
    if late <= schedule.tolerance {
        return Decision::Go { because: Reason::OnTime, late };
    }
    // A start that is nearer to the slot behind, or as near to both, missed the slot behind: that is a slip.
    // The subtraction is safe, because a phase is below its period.
    schedule.wait_for_next(now, late, late.0 <= schedule.period.0 - late.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Turn;

    /// Due at 1,000,000 and every 100,000; late by up to 15,000 may go.
    fn schedule() -> Schedule {
        Schedule {
            mode: Mode::Hold,
            plan_version: 7,
            slot: NodeTime(1_000_000),
            period: Nanos(100_000),
            tolerance: Nanos(15_000),
            hold_max: Nanos(100_000),
            slack: Nanos(50),
            expires: NodeTime(9_000_000),
            written: NodeTime(900_000),
            stale_after: Nanos(500_000),
            clock_bound: Nanos(50),
            turn: Turn::default(),
        }
    }

    fn go(because: Reason, late: u64) -> Decision {
        Decision::Go { because, late: Nanos(late) }
    }

    #[test]
    fn early_waits_a_little_late_goes_and_late_slips() {
        let at = |now| decide(NodeTime(now), &schedule());
        assert_eq!(at(990_000), Decision::Wait { until: NodeTime(1_000_000), slip: false });
        assert_eq!(at(1_000_000), go(Reason::OnTime, 0));
        assert_eq!(at(1_015_000), go(Reason::OnTime, 15_000));
        assert_eq!(at(1_015_001), Decision::Wait { until: NodeTime(1_100_000), slip: true });
        // Halfway is still the missed slot's; beyond it the job is early for the next.
        assert_eq!(at(1_050_000), Decision::Wait { until: NodeTime(1_100_000), slip: true });
        assert_eq!(at(1_050_001), Decision::Wait { until: NodeTime(1_100_000), slip: false });
    }

    #[test]
    fn whatever_cannot_be_trusted_goes_at_once() {
        let now = NodeTime(990_000);
        let with = |change: fn(&mut Schedule)| {
            let mut changed = schedule();
            change(&mut changed);
            decide(now, &changed)
        };
        assert_eq!(with(|s| s.mode = Mode::Pass), go(Reason::NotHeld, 0));
        assert_eq!(with(|s| s.mode = Mode::Turn), go(Reason::NotHeld, 0), "by turns, so no slot holds it");
        assert_eq!(with(|s| s.period = Nanos(0)), go(Reason::Malformed, 0));
        assert_eq!(with(|s| s.tolerance = s.period), go(Reason::Malformed, 0));
        assert_eq!(with(|s| s.written = NodeTime(489_999)), go(Reason::Stale, 0));
        assert_eq!(with(|s| s.written = NodeTime(490_000)), Decision::Wait { until: NodeTime(1_000_000), slip: false });
        assert_eq!(with(|s| s.written = NodeTime(990_000 + 1_000_001)), go(Reason::ClockStep, 0));
        assert_eq!(with(|s| s.expires = NodeTime(990_000)), go(Reason::Expired, 0));
        assert_eq!(with(|s| s.expires = NodeTime(1_000_000)), go(Reason::Expired, 0), "expired when the slot comes");
        assert_eq!(with(|s| s.clock_bound = Nanos(51)), go(Reason::ClockBound, 0));
        assert_eq!(with(|s| s.hold_max = Nanos(9_999)), go(Reason::HoldTooLong, 90_000));
    }

    #[test]
    fn no_plan_holds_a_job_for_minutes() {
        let hour = Nanos(3_600_000_000_000);
        let plan = Schedule { period: hour, hold_max: hour, expires: NodeTime(u64::MAX), slot: NodeTime(0), ..schedule() };
        assert_eq!(decide(NodeTime(1_000_000), &plan), go(Reason::HoldTooLong, 1_000_000));
    }
}
