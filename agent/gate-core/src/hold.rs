//! A wait whose schedule may change, expire or vanish while it lasts.

use units::NodeTime;

use crate::{Decision, PhaseLock, Reason, Schedule};

/// One hold of one start, made by [`PhaseLock::hold`]. The bound of a hold's end is fixed when the hold begins, and no later
/// schedule moves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    lock: PhaseLock,
    until: NodeTime,
    deadline: NodeTime,
}

/// What to do in a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Start now.
    Start(Reason),
    /// Wait until then, and ask again meanwhile.
    Wait(NodeTime),
}

impl Hold {
    /// A hold that begins at `now`, because `lock` said to wait until `until` under `schedule`.
    pub(crate) fn new(lock: PhaseLock, now: NodeTime, until: NodeTime, schedule: &Schedule) -> Self {
        // The deadline is fixed here and nothing changes it later: point 2 of the bound in ADR 2.
        let deadline = now.saturating_add(lock.hold_bound(now, schedule));
        // `decide` keeps `until` within the bound already; `min` makes it an invariant of the hold for any caller.
        Self { lock, until: until.min(deadline), deadline }
    }

    /// The start that is waited for.
    #[must_use]
    pub const fn until(&self) -> NodeTime {
        self.until
    }

    /// Asks at `now`, with the schedule as it reads now or the reason why it does not.
    ///
    /// A plan that moved moves the start within the deadline. A start whose slot has come goes, however late the thread
    /// woke: the hold was long enough.
    pub fn check(&mut self, now: NodeTime, schedule: Result<&Schedule, Reason>) -> Verdict {
        let schedule = match schedule {
            Ok(schedule) => schedule,
            // A page that cannot be read any more ends the hold at once: fail-open, with its reason in the report.
            Err(reason) => return Verdict::Start(reason),
        };
        // This test stands before `decide`, which would send a thread that woke beyond the tolerance on to the next slot.
        // Distrust changes only the reason in the report here: the start goes in any case.
        if now >= self.until {
            return Verdict::Start(schedule.distrust(now).unwrap_or(Reason::OnTime));
        }
        match self.lock.decide(now, schedule) {
            Decision::Go { because, .. } => Verdict::Start(because),
            // Plans that move the slot back again and again end here: the job goes rather than wait beyond its deadline.
            Decision::Wait { until, .. } if until > self.deadline => Verdict::Start(Reason::HoldTooLong),
            Decision::Wait { until, .. } => {
                self.until = until;
                Verdict::Wait(until)
            }
        }
    }
}

impl PhaseLock {
    /// The hold of a start for which [`Self::decide`] said at `now` to wait until `until` under `schedule`.
    #[must_use]
    pub fn hold(&self, now: NodeTime, until: NodeTime, schedule: &Schedule) -> Hold {
        Hold::new(*self, now, until, schedule)
    }
}

#[cfg(test)]
mod tests {
    use units::Nanos;

    use super::*;
    use crate::Mode;

    fn schedule() -> Schedule {
        Schedule {
            mode: Mode::Hold,
            slot: NodeTime(1_000),
            period: Nanos(100),
            tolerance: Nanos(10),
            hold_max: Nanos(100),
            expires: NodeTime(10_000),
            written: NodeTime(900),
            stale_after: Nanos(150),
            ..Schedule::default()
        }
    }

    #[test]
    fn a_hold_ends_at_its_slot() {
        let mut hold = PhaseLock::default().hold(NodeTime(920), NodeTime(1_000), &schedule());
        assert_eq!(hold.check(NodeTime(930), Ok(&schedule())), Verdict::Wait(NodeTime(1_000)));
        assert_eq!(hold.check(NodeTime(1_000), Ok(&schedule())), Verdict::Start(Reason::OnTime));
        // Stopped and continued: late by more than the tolerance, but not held again.
        assert_eq!(hold.check(NodeTime(1_040), Ok(&schedule())), Verdict::Start(Reason::OnTime));
    }

    #[test]
    fn a_plan_that_moves_moves_the_start_but_not_the_deadline() {
        let mut hold = PhaseLock::default().hold(NodeTime(920), NodeTime(1_000), &schedule());
        let later = Schedule { slot: NodeTime(1_015), ..schedule() };
        assert_eq!(hold.check(NodeTime(930), Ok(&later)), Verdict::Wait(NodeTime(1_015)));
        assert_eq!(hold.check(NodeTime(1_000), Ok(&later)), Verdict::Wait(NodeTime(1_015)));
        // 1,021 is after 920 + 100.
        let too_late = Schedule { slot: NodeTime(1_021), ..schedule() };
        assert_eq!(hold.check(NodeTime(1_001), Ok(&too_late)), Verdict::Start(Reason::HoldTooLong));
    }

    #[test]
    fn a_page_that_goes_bad_ends_the_hold() {
        let mut hold = PhaseLock::default().hold(NodeTime(920), NodeTime(1_000), &schedule());
        assert_eq!(hold.check(NodeTime(930), Err(Reason::Torn)), Verdict::Start(Reason::Torn));
        let pass = Schedule { mode: Mode::Pass, ..schedule() };
        assert_eq!(hold.check(NodeTime(930), Ok(&pass)), Verdict::Start(Reason::NotHeld));
        let silent = Schedule { written: NodeTime(700), ..schedule() };
        assert_eq!(hold.check(NodeTime(930), Ok(&silent)), Verdict::Start(Reason::Stale));
    }
}
