//! Phase lock: when the next iteration may start.

/// The gate of one job.
#[derive(Clone, Debug)]
pub(super) struct Gate {
    /// Slot of the iteration under way.
    pub(super) slot: u64,
    period: u64,
    tolerance: u64,
    pub(super) slips: u64,
}

impl Gate {
    pub(super) fn new(shift: u64, period: u64, tolerance_permille: u32) -> Self {
        let tolerance = u128::from(period) * u128::from(tolerance_permille) / 1_000;
        Self { slot: shift, period, tolerance: u64::try_from(tolerance).unwrap_or(u64::MAX), slips: 0 }
    }

    /// The gate of a job that nobody holds: it lets go at once.
    pub(super) fn open() -> Self {
        Self { slot: 0, period: 0, tolerance: 0, slips: 0 }
    }

    /// When the iteration may start that is ready at `now`.
    pub(super) fn release(&mut self, now: u64) -> u64 {
        if self.period == 0 {
            self.slot = now;
            return now;
        }
        self.slot += self.period;
        let late = now.saturating_sub(self.slot);
        if late > self.tolerance {
            self.slot += late.div_ceil(self.period) * self.period;
            self.slips += 1;
        }
        now.max(self.slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_gate_lets_go_at_once_and_never_slips() {
        let mut gate = Gate::open();
        assert_eq!([0, 7, 1_000].map(|now| gate.release(now)), [0, 7, 1_000]);
        assert_eq!(gate.slips, 0);
    }

    #[test]
    fn early_waits_late_goes_and_too_late_slips_to_the_next_slot() {
        let mut gate = Gate::new(30, 100, 150);
        assert_eq!(gate.release(120), 130, "early: the slot at 130");
        assert_eq!(gate.release(245), 245, "15 late of 15 allowed: at once");
        assert_eq!(gate.release(346), 430, "16 late: the slot after 330");
        assert_eq!(gate.release(530), 530, "on time");
        assert_eq!(gate.release(845), 930, "two and a half periods long: the slot at 830 is 15 past, but 630 was due");
        assert_eq!(gate.slips, 2);
    }
}
