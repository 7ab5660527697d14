//! The control of the CASSINI paper: a job begins at its time-shift, runs as it comes, and delays one start when it has drifted.

use units::Nanos;

/// A job may drift from its time-shift by one part in so many of its period: 5 %.
const DRIFT_PART: u64 = 20;

/// The control of one job.
#[derive(Clone, Debug)]
pub struct Drift {
    period: u64,
    offset: u64,
    has_begun: bool,
}

impl Drift {
    /// A job that starts at `shift` modulo `period`.
    #[must_use]
    pub fn new(period: Nanos, shift: Nanos) -> Self {
        Self { period: period.0.max(1), offset: shift.0, has_begun: false }
    }

    /// When a job starts that is ready at `now`, both in ns of one clock.
    pub fn start(&mut self, now: u64) -> u64 {
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
        let mut drift = Drift::new(Nanos(1_000), Nanos(300));
        assert_eq!([0, 1_350, 2_250, 3_351, 4_249].map(|now| drift.start(now)), [300, 1_350, 2_250, 4_300, 4_300]);
    }
}
