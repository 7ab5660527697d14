//! When the next iteration of a job may start: the rule of the gates themselves (`gate-core`), asked in the model's time.

use gate_core::{Decision, Mode, PhaseLock, Reason, Schedule, StepOutcome, Turn};
use units::{Nanos, NodeTime};

/// The gate of one job.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    /// `None` for a job that is not held.
    schedule: Option<Schedule>,
    lock: PhaseLock,
    /// The due start that the iteration under way took; 0 for a job that is not held.
    due: u64,
    pub(crate) slips: u64,
}

impl Gate {
    /// The gate of a job whose first iteration starts at `shift`, on time.
    pub(crate) fn new(shift: u64, period: u64, tolerance_permille: u32) -> Self {
        let tolerance = u128::from(period) * u128::from(tolerance_permille) / 1_000;
        // The tolerance of a gate is below its period.
        let tolerance = u64::try_from(tolerance).unwrap_or(u64::MAX).min(period.saturating_sub(1));
        // Trusted for ever: no heartbeat is late, no plan expires, and the clock is exact.
        let forever = Nanos(u64::MAX);
        let schedule = Schedule {
            mode: Mode::Hold,
            plan_version: 1,
            slot: NodeTime(shift),
            period: Nanos(period),
            tolerance: Nanos(tolerance),
            hold_max: forever,
            slack: forever,
            expires: NodeTime(u64::MAX),
            written: NodeTime(0),
            stale_after: forever,
            clock_bound: Nanos(0),
            turn: Turn::default(),
        };
        let mut gate = Self { schedule: Some(schedule), lock: PhaseLock::default(), due: shift, slips: 0 };
        // The first iteration starts in the first slot, so that slot is taken from the beginning.
        gate.take(shift, 0);
        gate
    }

    /// The gate of a job that is not held: every start goes at once.
    pub(crate) fn open() -> Self {
        Self { schedule: None, lock: PhaseLock::default(), due: 0, slips: 0 }
    }

    /// When the job's first iteration starts.
    pub(crate) fn first(&self) -> u64 {
        self.due
    }

    /// When the iteration starts that is ready at `now`. A start in a slot takes it.
    pub(crate) fn release(&mut self, now: u64) -> u64 {
        let Some(schedule) = &self.schedule else { return now };
        match self.lock.decide(NodeTime(now), schedule) {
            Decision::Wait { until, slip } => {
                self.slips += u64::from(slip);
                self.take(until.0, 0);
                until.0
            }
            Decision::Go { because: Reason::OnTime, late } => {
                self.take(now, late.0);
                now
            }
            // A start that is let through for another reason, as one that would have to wait too long, takes no slot.
            Decision::Go { .. } => now,
        }
    }

    /// Notes a start at `start`, that much after a due start.
    fn take(&mut self, start: u64, late: u64) {
        let Some(schedule) = &self.schedule else { return };
        self.due = start - late;
        let start = NodeTime(start);
        let late = schedule.phase_error(start);
        let outcome =
            StepOutcome { because: Reason::OnTime, start, held: Nanos(0), slip: false, late, plan_version: schedule.plan_version };
        self.lock.started(&outcome, schedule);
    }

    /// What decides the gate's future answers, relative to `now`: equal numbers, equal answers.
    pub(crate) fn state(&self, now: u64) -> u64 {
        let Some(schedule) = &self.schedule else { return 0 };
        // A due start that lies ahead wraps to a huge number, which still is one number for each distance.
        let (since, period) = (now.wrapping_sub(self.due), schedule.period.0);
        // A slot that was taken two periods ago is past: only where `now` is between two slots matters.
        if self.due <= now && since / period >= 2 { 2 * period + since % period } else { since }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_gate_lets_go_at_once_and_never_slips() {
        let mut gate = Gate::open();
        assert_eq!([0, 7, 1_000].map(|now| gate.release(now)), [0, 7, 1_000]);
        assert_eq!((gate.first(), gate.slips), (0, 0));
    }

    #[test]
    fn early_waits_late_goes_and_too_late_slips_to_the_next_slot() {
        let mut gate = Gate::new(30, 100, 150);
        assert_eq!(gate.release(120), 130, "early: the slot at 130");
        assert_eq!(gate.release(245), 245, "15 late of 15 allowed: at once");
        assert_eq!(gate.release(346), 430, "16 late: the slot after 330");
        assert_eq!(gate.release(530), 530, "on time");
        assert_eq!(gate.release(845), 845, "two and a half periods long, and 15 past the slot at 830: on time");
        assert_eq!(gate.release(850), 930, "20 past the slot at 830");
        assert_eq!(gate.slips, 2, "the starts at 346 and 850 were nearer to the slot behind");
        let mut wide = Gate::new(0, 100, 400);
        assert_eq!([20, 120].map(|now| wide.release(now)), [100, 200], "a slot is taken once");
        assert_eq!(wide.slips, 0);
    }

    /// A gate holds no start for longer than [`gate_core::HOLD_LIMIT`]: the start goes at once, and is in no slot.
    #[test]
    fn a_wait_beyond_the_limit_is_none() {
        let second = 1_000_000_000;
        let mut gate = Gate::new(0, 90 * second, 150);
        assert_eq!(gate.release(20 * second), 20 * second, "70 s to wait: it goes");
        assert_eq!(gate.release(40 * second), 90 * second, "50 s to wait");
        assert_eq!(gate.release(550 * second), 550 * second, "10 s after the slot at 540");
        // What is remembered of a slot long past is only where the next one is.
        assert_eq!(gate.state(900 * second), gate.state(990 * second));
        assert_ne!(gate.state(900 * second), gate.state(991 * second));
    }
}
