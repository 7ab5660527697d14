//! Random numbers of a search: from a fixed seed, so that equal inputs get equal answers.

/// `SplitMix64` (Steele, Lea, Flood 2014): a search needs variety, not quality.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new() -> Self {
        Self(0x5eed)
    }

    pub(super) fn next(&mut self) -> u64 {
        // An odd increment (2^64 over the golden ratio) leads through all 2^64 states. SplitMix64 is defined modulo 2^64, hence
        // wrapping.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        // The mixer is variant 13 of Stafford, with the constants of the published code.
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `end`, which is not 0.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        // The modulo prefers small numbers by at most `end` in 2^64, which is of no weight for a search.
        self.next() % end
    }

    /// From 0 up to, but not 1.
    pub(super) fn unit(&mut self) -> f64 {
        // An f64 holds 53 bits exactly, so the quotient is never rounded up to 1.
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Fisher-Yates.
    pub(super) fn shuffle(&mut self, order: &mut [usize]) {
        for i in (1..order.len()).rev() {
            order.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}
