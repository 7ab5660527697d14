//! The control of the CASSINI paper: a job begins at its time-shift, runs as it comes, and delays one start when it has drifted.

use state::Slot;

/// A job may drift from its time-shift by one part in so many of its period: 5 %.
const DRIFT_PART: u64 = 20;

/// The control of one job.
#[derive(Clone, Debug)]
pub(crate) struct Drift {
    period: u64,
    offset: u64,
    has_begun: bool,
}

impl Drift {
    pub(crate) fn new(slot: &Slot) -> Self {
        Self { period: slot.period.0.max(1), offset: slot.offset.0, has_begun: false }
    }

    /// When a job starts that is ready at `now`.
    pub(crate) fn start(&mut self, now: u64) -> u64 {
        let into = (now % self.period + self.period - self.offset % self.period) % self.period;
        let drift = into.min(self.period - into);
        let goes = core::mem::replace(&mut self.has_begun, true) && drift <= self.period / DRIFT_PART;
        if goes || into == 0 { now } else { now.saturating_add(self.period - into) }
    }
}

#[cfg(test)]
mod tests {
    use units::Nanos;

    use super::*;

    #[test]
    fn a_job_is_shifted_once_and_then_only_if_it_drifted() {
        let slot = Slot { period: Nanos(1_000), offset: Nanos(300), hold: true, ..Slot::none("a") };
        let mut drift = Drift::new(&slot);
        assert_eq!([0, 1_350, 2_250, 3_351, 4_249].map(|now| drift.start(now)), [300, 1_350, 2_250, 4_300, 4_300]);
    }
}
