//! What a gate must know to decide, and whether it may be believed.

use units::{Nanos, NodeTime};

use crate::{Reason, Turn};

/// How far in the future a heartbeat may lie. A reader takes the time after it read the page, so on one clock a heartbeat
/// is never in the future; this is room for clocks of processors that differ a little. More means another clock: a
/// container with a time namespace, or a page that outlived a reboot.
pub const FUTURE_MAX: Nanos = Nanos::from_millis(1);

/// Whether the gate may hold the job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Run as it comes.
    #[default]
    Pass,
    /// Keep to the slots.
    Hold,
    /// Take turns: wait for those ahead ([`TurnGate`](crate::TurnGate)).
    Turn,
}

/// The slots of one job in the node's time, and how long they may be believed. The default holds nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Schedule {
    /// Whether the gate may hold the job at all.
    pub mode: Mode,
    /// Version of the plan that the slots come from.
    pub plan_version: u64,
    /// One due start, past or future. Starts are due every `period` before and after it.
    pub slot: NodeTime,
    /// Scheduled length of an iteration.
    pub period: Nanos,
    /// How late a start may be and still go at once; below the period.
    pub tolerance: Nanos,
    /// Longest time that a start may be held. A period and [`HOLD_LIMIT`](crate::HOLD_LIMIT) bound it too.
    pub hold_max: Nanos,
    /// How far the job may drift before a score falls.
    pub slack: Nanos,
    /// The plan must not be trusted from here on.
    pub expires: NodeTime,
    /// The agent's heartbeat: when it last wrote this.
    pub written: NodeTime,
    /// Age of the heartbeat beyond which the agent counts as gone.
    pub stale_after: Nanos,
    /// Bound of the error of the agent's conversion from fabric time.
    pub clock_bound: Nanos,
    /// The answer to one start of a job that takes turns.
    pub turn: Turn,
}

impl Schedule {
    /// Why this schedule must not be followed at `now`; `None` if it may be.
    #[must_use]
    #[inline]
    pub fn distrust(&self, now: NodeTime) -> Option<Reason> {
        // The order is that of the table in docs/schedule-page.md: the first check that fails gives the reason.
        if self.mode == Mode::Pass {
            return Some(Reason::NotHeld);
        }
        // With a tolerance of a period every moment would be on time, and a page with such numbers is a defect of its writer.
        // Turns need neither: they wait for an event.
        if self.mode == Mode::Hold && (self.period.0 == 0 || self.tolerance >= self.period) {
            return Some(Reason::Malformed);
        }
        // The sum saturates only in the last millisecond of u64, where no heartbeat can be later.
        if self.written > now.saturating_add(FUTURE_MAX) {
            return Some(Reason::ClockStep);
        }
        if self.is_stale(now) {
            return Some(Reason::Stale);
        }
        if now >= self.expires {
            return Some(Reason::Expired);
        }
        (self.mode == Mode::Hold && self.clock_bound > self.slack).then_some(Reason::ClockBound)
    }

    /// Whether the agent that wrote this counts as gone.
    #[must_use]
    #[inline]
    pub const fn is_stale(&self, now: NodeTime) -> bool {
        // `since` gives zero for a heartbeat in the future, which is therefore never stale; `distrust` has refused it before.
        now.since(self.written).0 > self.stale_after.0
    }

    /// How far `now` is past the last due start, below the period; `None` with a period of zero.
    #[must_use]
    #[inline]
    pub fn phase(&self, now: NodeTime) -> Option<Nanos> {
        let period = self.period.0;
        // A gate computes the phase at every start, so each way has one division only.
        if now >= self.slot {
            return now.since(self.slot).0.checked_rem(period).map(Nanos);
        }
        // Before the slot the phase counts backwards, and a whole number of periods before it is phase 0, not a period.
        let before = self.slot.since(now).0.checked_rem(period)?;
        Some(Nanos(if before == 0 { 0 } else { period - before }))
    }

    /// `now` minus the due start nearest to it in nanoseconds: negative is early. `None` with a period of zero.
    #[must_use]
    pub fn phase_error(&self, now: NodeTime) -> Option<i64> {
        self.phase(now).map(|phase| self.signed(phase))
    }

    /// A [`Self::phase`] as the distance to the nearest due start in nanoseconds: negative is early.
    #[must_use]
    #[inline]
    pub const fn signed(&self, phase: Nanos) -> i64 {
        let ahead = self.period.0.saturating_sub(phase.0);
        // The smaller of the two is at most half of the largest u64, so it fits an i64, and its negation does not wrap.
        if phase.0 <= ahead { phase.0.cast_signed() } else { ahead.cast_signed().wrapping_neg() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(slot: u64, period: u64) -> Schedule {
        Schedule { slot: NodeTime(slot), period: Nanos(period), ..Schedule::default() }
    }

    #[test]
    fn phases_wrap_on_both_sides_of_the_slot() {
        let schedule = slots(1_000, 100);
        let phase = |now| schedule.phase(NodeTime(now)).map(|phase| phase.0);
        assert_eq!([phase(1_000), phase(1_030), phase(1_100), phase(970), phase(900)], [0, 30, 0, 70, 0].map(Some));
        let error = |now| schedule.phase_error(NodeTime(now));
        assert_eq!([error(1_030), error(970), error(1_050), error(1_051)], [30, -30, 50, -49].map(Some));
        assert_eq!(slots(5, 0).phase(NodeTime(9)), None);
    }

    #[test]
    fn the_ends_of_time_have_a_phase() {
        assert_eq!(slots(u64::MAX, u64::MAX).phase(NodeTime(0)), Some(Nanos(0)));
        assert_eq!(slots(0, u64::MAX).phase_error(NodeTime(u64::MAX - 1)), Some(-1));
        assert_eq!(slots(0, u64::MAX).phase_error(NodeTime(u64::MAX / 2)), Some(i64::MAX));
    }
}
