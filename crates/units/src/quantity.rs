//! Quantities: time, size, rate and the fraction of a flow that a link carries.

use core::fmt;

/// Integer time in the caller's tick. A scenario says how many nanoseconds one tick lasts;
/// `plan` uses ticks of one nanosecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticks(pub u64);

impl fmt::Display for Ticks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ticks", self.0)
    }
}

/// Time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// Nanoseconds in a millisecond.
    pub const PER_MILLI: u64 = 1_000_000;
    /// Nanoseconds in a second.
    pub const PER_SECOND: u64 = 1_000_000_000;

    /// Whole microseconds, saturating at the largest representable time (584 years).
    #[must_use]
    pub const fn from_micros(us: u64) -> Self {
        Self(us.saturating_mul(1_000))
    }

    /// Whole milliseconds, saturating at the largest representable time (584 years).
    #[must_use]
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms.saturating_mul(Self::PER_MILLI))
    }

    /// Milliseconds as a float, for people.
    #[must_use]
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Sum, `None` on overflow.
    #[must_use]
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }

    /// Difference, `None` when `other` is later.
    #[must_use]
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        self.0.checked_sub(other.0).map(Self)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ns if ns < 1_000 => write!(f, "{ns} ns"),
            ns if ns < 1_000_000 => write!(f, "{:.3} us", ns as f64 / 1e3),
            ns if ns < 1_000_000_000 => write!(f, "{:.3} ms", ns as f64 / 1e6),
            ns => write!(f, "{:.3} s", ns as f64 / 1e9),
        }
    }
}

/// A size in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

impl Bytes {
    /// Sum, `None` on overflow.
    #[must_use]
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            b if b < 10_000 => write!(f, "{b} B"),
            b if b < 10_000_000 => write!(f, "{:.1} kB", b as f64 / 1e3),
            b if b < 10_000_000_000 => write!(f, "{:.1} MB", b as f64 / 1e6),
            b => write!(f, "{:.1} GB", b as f64 / 1e9),
        }
    }
}

/// A rate or a capacity in whole Mbit/s: exact, ordered and hashable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(pub u64);

impl Rate {
    /// No demand at all.
    pub const ZERO: Self = Self(0);

    /// The rate in Mbit/s.
    #[must_use]
    pub const fn mbps(self) -> u64 {
        self.0
    }

    /// Sum, `None` on overflow.
    #[must_use]
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }

    /// This rate times `share`, rounded to the nearest Mbit/s but never down to zero, because
    /// a flow that exists must not vanish from a link; `None` on overflow.
    #[must_use]
    pub fn scaled(self, share: Share) -> Option<Self> {
        let product = u128::from(self.0) * u128::from(share.0);
        let one = u128::from(Share::ONE.0);
        // The product of two 64-bit numbers is at most 2^128 - 2^65 + 1, so half of the divisor can be added.
        let rounded = (product + one / 2) / one;
        let floor = u128::from(product > 0);
        u64::try_from(rounded.max(floor)).ok().map(Self)
    }

    /// What passes at this rate in `time`, rounded down to a byte; saturating. 1 Mbit/s for 1 ns is 1/1000 bit.
    #[must_use]
    pub fn bytes_in(self, time: Nanos) -> Bytes {
        let bytes = u128::from(self.0) * u128::from(time.0) / 8_000;
        Bytes(u64::try_from(bytes).unwrap_or(u64::MAX))
    }

    /// How long `size` takes at this rate, rounded up to a nanosecond; `None` at rate zero or
    /// on overflow. 1 Mbit/s moves one bit in 1000 ns, so the product is exact.
    #[must_use]
    pub fn time_for(self, size: Bytes) -> Option<Nanos> {
        // The product has at most 77 bits. The rate is in bits per microsecond, hence the factor to nanoseconds.
        let bit_ns = u128::from(size.0) * 8 * 1_000;
        let rate = u128::from(self.0);
        if rate == 0 {
            return None;
        }
        u64::try_from(bit_ns.div_ceil(rate)).ok().map(Nanos)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 >= 1_000 && self.0.is_multiple_of(1_000) {
            write!(f, "{} Gb/s", self.0 / 1_000)
        } else if self.0 >= 1_000 {
            write!(f, "{:.1} Gb/s", self.0 as f64 / 1e3)
        } else {
            write!(f, "{} Mb/s", self.0)
        }
    }
}

/// How much of a rank's NIC rate a link carries, in units of 1/720720.
///
/// 720720 is divisible by every integer up to 16, so ECMP spread over up to 16 equal paths and
/// all-to-all among up to 17 ranks add up without rounding. A share may exceed one: two ranks
/// of a job may cross the same link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Share(pub u64);

impl Share {
    /// The whole rate of one NIC.
    pub const ONE: Self = Self(720_720);

    /// Sum, saturating: a share that large is refused later as a rate that overflows.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// One part of this share split evenly `ways` ways; unchanged for `ways` = 0.
    #[must_use]
    pub const fn split(self, ways: u64) -> Self {
        match ways {
            0 | 1 => self,
            n => Self(self.0 / n),
        }
    }

    /// The share as a fraction of one NIC, for people.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / Self::ONE.0 as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scaled_rate_rounds_to_nearest_but_never_vanishes() {
        assert_eq!(Rate(50_000).scaled(Share::ONE.split(3)), Some(Rate(16_667)));
        assert_eq!(Rate(1).scaled(Share(1)), Some(Rate(1)));
        assert_eq!(Rate(0).scaled(Share::ONE), Some(Rate(0)));
        assert_eq!(Rate(u64::MAX).scaled(Share(Share::ONE.0 * 2)), None);
    }

    #[test]
    fn time_rounds_up_and_refuses_rate_zero() {
        assert_eq!(Rate(1_000).time_for(Bytes(1)), Some(Nanos(8)));
        assert_eq!(Rate(3_000).time_for(Bytes(1)), Some(Nanos(3)));
        assert_eq!(Rate(0).time_for(Bytes(1)), None);
        assert_eq!(Rate(1).time_for(Bytes(u64::MAX)), None);
    }

    #[test]
    fn bytes_round_down_and_stop_at_the_end_of_the_range() {
        assert_eq!(Rate(1_000).bytes_in(Nanos(15)), Bytes(1));
        assert_eq!(Rate(25_000).bytes_in(Nanos(Nanos::PER_SECOND)), Bytes(25_000 * 125_000));
        assert_eq!(Rate(u64::MAX).bytes_in(Nanos(u64::MAX)), Bytes(u64::MAX));
    }
}
