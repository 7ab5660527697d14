//! Numbers that look random, of a seed: for variety, where equal inputs must get equal answers. They are no secrets.

/// 2^64 over the golden ratio: it is odd, so multiples of it go through all 64-bit numbers, and lie evenly spread.
pub const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Mixes the bits of a number: each bit of it changes about half of the bits of the answer, and no two numbers have the same.
///
/// The finaliser of SplitMix64 with the constants of its published code (variant 13 of Stafford). Zero stays zero.
#[must_use]
pub const fn mix64(number: u64) -> u64 {
    // The generator is defined modulo 2^64, so wrapping is the arithmetic that is meant.
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// A float from 0 up to, but not 1, of 64 bits that were drawn: its upper 53, which are what a float holds, so none is rounded up to 1.
///
/// ```
/// use antiphase_units::unit_interval;
/// assert_eq!([0, 1 << 63, u64::MAX].map(unit_interval), [0.0, 0.5, 1.0 - f64::EPSILON / 2.0]);
/// ```
#[must_use]
pub const fn unit_interval(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

/// The next number of a sequence: SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
///
/// ```
/// let mut state = 1_234_567;
/// assert_eq!(antiphase_units::splitmix64(&mut state), 6_457_827_717_110_365_317);
/// assert_eq!(antiphase_units::splitmix64(&mut state), 3_203_168_211_198_807_973);
/// ```
pub const fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(GOLDEN);
    mix64(*state)
}
