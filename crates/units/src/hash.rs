//! A hash that is equal on every machine and in every version, which that of the standard library does not promise.

/// The hash of nothing: FNV's offset basis for 64 bits.
pub const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;

/// Takes bytes into a hash, which begins as [`FNV_OFFSET`]: FNV-1a with 64 bits (Fowler, Noll and Vo, RFC 9923). It finds no malice.
///
/// ```
/// use antiphase_units::{FNV_OFFSET, fnv1a};
/// assert_eq!(fnv1a(FNV_OFFSET, b"foobar"), 0x8594_4171_f739_67e8);
/// ```
#[must_use]
pub fn fnv1a(hash: u64, bytes: &[u8]) -> u64 {
    // The hash is defined modulo 2^64, so wrapping is the arithmetic that is meant.
    bytes.iter().fold(hash, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}
