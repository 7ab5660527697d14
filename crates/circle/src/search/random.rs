//! Random numbers of a search: from a fixed seed, so that equal inputs get equal answers.

/// SplitMix64: a search needs variety, not quality.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new() -> Self {
        Self(0x5eed)
    }

    pub(super) fn next(&mut self) -> u64 {
        units::splitmix64(&mut self.0)
    }

    /// Below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        // The modulo prefers small numbers by at most `end` in 2^64, which is of no weight for a search.
        self.next() % end
    }

    /// From 0 up to, but not 1.
    pub(super) fn unit(&mut self) -> f64 {
        units::unit_interval(self.next())
    }

    /// Fisher-Yates.
    pub(super) fn shuffle(&mut self, order: &mut [usize]) {
        for i in (1..order.len()).rev() {
            order.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}
