//! What jobs demand of links, laid out flat, and the fixed point in which their speeds are counted.

use alloc::vec::Vec;
use core::ops::Range;

/// Most bits after the point of a speed: below 1 ns in a second.
pub const SPEED_BITS_MAX: u32 = 30;

/// Capacities of links, and the demands that jobs can have of them: what [`Sharing`](crate::Sharing) shares by.
#[derive(Clone, Debug, Default)]
pub struct Rates {
    /// (link, demand in Mbit/s).
    uses: Vec<(u32, u64)>,
    /// Capacity of each link in Mbit/s.
    capacities: Vec<u64>,
    /// Speeds are counted in 2^-`bits`.
    bits: u32,
}

impl Rates {
    /// Links of these capacities in Mbit/s, numbered from 0, and speeds of so many bits after the point, at most [`SPEED_BITS_MAX`].
    #[must_use]
    pub fn new(capacities: Vec<u64>, speed_bits: u32) -> Self {
        Self { uses: Vec::new(), capacities, bits: speed_bits.min(SPEED_BITS_MAX) }
    }

    /// Adds what a job demands at one time: (link, Mbit/s at full speed), each link at most once. A link that does not exist and a
    /// demand of nothing are left out. The range stands for them from then on.
    pub fn add(&mut self, uses: impl Iterator<Item = (u32, u64)>) -> Range<u32> {
        let first = self.uses.len() as u32;
        let links = self.capacities.len();
        self.uses.extend(uses.filter(|(link, demand)| (*link as usize) < links && *demand > 0));
        first..self.uses.len() as u32
    }

    /// Forgets what was added last, if it is the same as what was added before it; the range of both.
    pub(crate) fn merge_last(&mut self, before: &Range<u32>, last: &Range<u32>) -> bool {
        let same = self.used(before) == self.used(last);
        if same {
            // `last` is the end of the list, so no other range refers to what is cut off.
            self.uses.truncate(last.start as usize);
        }
        same
    }

    pub(crate) fn set_speed_bits(&mut self, bits: u32) {
        self.bits = bits.min(SPEED_BITS_MAX);
    }

    /// Capacity of each link in Mbit/s.
    #[must_use]
    pub fn capacities(&self) -> &[u64] {
        &self.capacities
    }

    /// (link, demand in Mbit/s) of what [`Rates::add`] returned.
    #[must_use]
    pub fn used(&self, uses: &Range<u32>) -> &[(u32, u64)] {
        &self.uses[uses.start as usize..uses.end as usize]
    }

    /// The number of (link, demand) of everything that was added.
    pub(crate) fn entries(&self) -> usize {
        self.uses.len()
    }

    /// Full speed.
    #[must_use]
    pub fn one(&self) -> u64 {
        1 << self.bits
    }

    /// Bits after the point of a speed.
    #[must_use]
    pub fn speed_bits(&self) -> u32 {
        self.bits
    }

    /// The part `numerator / denominator` of full speed, at most all of it, never none. Rounded up, so that an end that
    /// falls on a whole nanosecond is not pushed to the next one.
    pub(crate) fn speed(&self, numerator: u64, denominator: u64) -> u64 {
        if numerator >= denominator {
            return self.one();
        }
        // `checked_shl` refuses only a shift that is too far; the filter finds bits that were shifted out.
        let scaled = match numerator.checked_shl(self.bits).filter(|s| s >> self.bits == numerator) {
            Some(scaled) => scaled.div_ceil(denominator),
            None => (u128::from(numerator) << self.bits).div_ceil(u128::from(denominator)) as u64,
        };
        // A job without any speed would never end its segment.
        scaled.max(1)
    }

    /// How long that much work takes at a speed, rounded up.
    pub(crate) fn time_of(&self, work: u64, speed: u64) -> u64 {
        // Half of all changes are to full speed, and a division takes longer than the rest of such a change. The layout leaves a bit to
        // spare, so the sum does not saturate.
        if speed == self.one() { work.saturating_add(speed - 1) >> self.bits } else { work.div_ceil(speed) }
    }

    /// A speed that is counted in 2^-`bits` of full speed, `bits` at least [`SPEED_BITS_MAX`]; rounded up, never none.
    pub(crate) fn speed_of(&self, pace: u64, bits: u32) -> u64 {
        // A pace is rounded down by far less than a unit of speed, so rounding up here hides that.
        pace.div_ceil(1 << (bits - self.bits)).clamp(1, self.one())
    }
}
