//! From a solution to slots: scheduled periods, and how strictly a gate keeps to them.

use alloc::vec::Vec;

use num_integer::Integer as _;
use units::Nanos;

/// What a scheduled period is longer than the iteration alone, in thousandths, unless told otherwise. A gate needs room to catch
/// up after a late iteration: 5 to 8 % was enough on busy machines (docs/lab.md).
pub const HEADROOM_PERMILLE: u32 = 50;
/// Smallest slack of a slot in thousandths of the period. An optimum without a plateau has none, and a gate that trusted
/// its clock to the nanosecond would never hold; drifting this far costs at most this share of a link.
pub const SLACK_FLOOR_PERMILLE: u32 = 10;
/// Periods that do not lock are whole microseconds.
const PERIOD_STEP_NS: u64 = 1_000;
/// Periods whose common divisor is smaller do not lock in any way that matters, and lengthening it by whole nanoseconds would
/// add more than a ten-thousandth.
const LOCK_MIN: Nanos = Nanos(10_000);

/// The scheduled periods of jobs that meet and take these times alone: longer by the headroom, and in the same ratio.
///
/// Rounding each for itself would make 2 : 1 into 2.000001 : 1, and jobs of such periods slide through each other. So their
/// common divisor is lengthened and the periods are what they were in multiples of it, unless it is below
/// 10 us: then they do not lock anyway, and each is rounded up to a microsecond. Without headroom they stay as they are.
#[must_use]
pub fn periods(solos: &[Nanos], headroom_permille: u32) -> Vec<Nanos> {
    let longer = |time: Nanos, grain: u64| {
        let long = u128::from(time.0) * (1_000 + u128::from(headroom_permille));
        let steps = long.div_ceil(1_000 * u128::from(grain));
        Nanos(u64::try_from(steps.saturating_mul(u128::from(grain))).unwrap_or(u64::MAX))
    };
    let divisor = solos.iter().fold(0, |divisor: u64, solo| divisor.gcd(&solo.0));
    if headroom_permille == 0 {
        return solos.to_vec();
    }
    // A divisor of zero, of no jobs or of jobs without length, ends here too, so the division below is safe.
    if divisor < LOCK_MIN.0 {
        return solos.iter().map(|&solo| longer(solo, PERIOD_STEP_NS)).collect();
    }
    // Only the unit is rounded, so the periods keep their ratio to the nanosecond.
    let unit = longer(Nanos(divisor), 1);
    solos.iter().map(|solo| Nanos((solo.0 / divisor).saturating_mul(unit.0))).collect()
}

/// The scheduled period of one job alone.
#[must_use]
pub fn period(solo: Nanos, headroom_permille: u32) -> Nanos {
    periods(&[solo], headroom_permille).pop().unwrap_or(solo)
}

/// `permille` thousandths of `of`, rounded down.
#[must_use]
pub fn share(of: Nanos, permille: u32) -> Nanos {
    Nanos(u64::try_from(u128::from(of.0) * u128::from(permille) / 1_000).unwrap_or(u64::MAX))
}

/// The due starts of a job, and how strictly its gate keeps to them: what the slots of the service, the simulator and the lab
/// have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotTimes {
    /// Scheduled length of an iteration, the distance of two due starts.
    pub period: Nanos,
    /// A due start, below the period.
    pub offset: Nanos,
    /// How late a start may be and still go at once.
    pub tolerance: Nanos,
    /// How far the job may drift before a score falls, at least [`SLACK_FLOOR_PERMILLE`] and at most half of the period.
    pub slack: Nanos,
    /// Longest time that a start may be held: a period.
    pub hold_max: Nanos,
}

impl SlotTimes {
    /// The slot of a job whose solution has this shift and slack.
    #[must_use]
    pub fn new(period: Nanos, shift: Nanos, slack: Nanos, tolerance_permille: u32) -> Self {
        // The upper limit comes last: half of the period wins over the floor.
        let slack = slack.max(share(period, SLACK_FLOOR_PERMILLE)).min(Nanos(period.0 / 2));
        let offset = Nanos(shift.0.checked_rem(period.0).unwrap_or(0));
        Self { period, offset, tolerance: share(period, tolerance_permille), slack, hold_max: period }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_that_lock_keep_their_ratio() {
        let (one, two) = (Nanos(215_764_273), Nanos(2 * 215_764_273));
        assert_eq!(periods(&[one, two], 50), [Nanos(226_552_487), Nanos(2 * 226_552_487)]);
        let three = periods(&[Nanos(6_000_000), Nanos(10_000_000), Nanos(15_000_000)], 70);
        assert_eq!(three, [Nanos(6_420_000), Nanos(10_700_000), Nanos(16_050_000)]);
        // Divisor 1 ns: each for itself.
        assert_eq!(periods(&[Nanos(100_000_001), Nanos(100_000_000)], 50), [Nanos(105_001_000), Nanos(105_000_000)]);
        assert_eq!(periods(&[Nanos(100_000_001), Nanos(7)], 0), [Nanos(100_000_001), Nanos(7)]);
    }

    #[test]
    fn a_period_is_the_iteration_with_headroom() {
        assert_eq!(period(Nanos(255_000_000), 50), Nanos(267_750_000));
        // 1,001 ns * 1.05 = 1,051.05 ns.
        assert_eq!(period(Nanos(1_001), 50), Nanos(2_000));
        // 215,764,273 ns * 1.05 = 226,552,486.65 ns.
        assert_eq!(period(Nanos(215_764_273), 50), Nanos(226_552_487));
        assert_eq!(period(Nanos(3_000), 0), Nanos(3_000));
        assert_eq!(periods(&[], 50), []);
        assert_eq!(share(Nanos(u64::MAX), 1_000), Nanos(u64::MAX));
    }

    #[test]
    fn a_slot_has_some_slack_and_no_more_than_half_of_its_period() {
        let slot = SlotTimes::new(Nanos(1_000), Nanos(2_300), Nanos(0), 150);
        let expected =
            SlotTimes { period: Nanos(1_000), offset: Nanos(300), tolerance: Nanos(150), slack: Nanos(10), hold_max: Nanos(1_000) };
        assert_eq!(slot, expected);
        assert_eq!(SlotTimes::new(Nanos(1_000), Nanos(0), Nanos(800), 0).slack, Nanos(500));
        assert_eq!(SlotTimes::new(Nanos(0), Nanos(5), Nanos(5), 150), SlotTimes::default());
    }
}
