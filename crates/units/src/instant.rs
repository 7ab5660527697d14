//! Points in time on the two clocks that Antiphase knows. Times of different clocks never mix without a [`ClockOffset`].

use core::fmt;

use crate::Nanos;

macro_rules! instant {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl $name {
            /// This much later, `None` on overflow.
            #[must_use]
            pub fn checked_add(self, by: Nanos) -> Option<Self> {
                self.0.checked_add(by.0).map(Self)
            }

            /// This much later, or the end of time (584 years).
            #[must_use]
            pub const fn saturating_add(self, by: Nanos) -> Self {
                Self(self.0.saturating_add(by.0))
            }

            /// Time since an earlier point; zero when that is later.
            #[must_use]
            pub const fn since(self, earlier: Self) -> Nanos {
                Nanos(self.0.saturating_sub(earlier.0))
            }

            /// This point minus another in nanoseconds, saturating: negative when the other is later.
            #[must_use]
            pub const fn minus(self, other: Self) -> i64 {
                // The difference of two 64-bit times needs 65 bits, and 128 are the next size.
                let difference = self.0 as i128 - other.0 as i128;
                if difference > i64::MAX as i128 {
                    i64::MAX
                } else if difference < i64::MIN as i128 {
                    i64::MIN
                } else {
                    difference as i64
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{} ns", self.0)
            }
        }
    };
}

instant! {
    /// Nanoseconds since the Unix epoch on the clock of the topology service, which does not step while it runs.
    FabricTime
}

instant! {
    /// Nanoseconds of one node's `CLOCK_MONOTONIC`.
    NodeTime
}

/// Fabric time minus one node's time, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClockOffset(pub i64);

impl ClockOffset {
    /// The node's time at a point of fabric time; `None` before the node's clock began or past its end.
    #[must_use]
    pub fn node(self, at: FabricTime) -> Option<NodeTime> {
        // In 128 bits neither sum nor difference overflows; the conversion refuses what is no time of the other clock.
        u64::try_from(i128::from(at.0) - i128::from(self.0)).ok().map(NodeTime)
    }

    /// The fabric's time at a point of the node's; `None` where there is none.
    #[must_use]
    pub fn fabric(self, at: NodeTime) -> Option<FabricTime> {
        u64::try_from(i128::from(at.0) + i128::from(self.0)).ok().map(FabricTime)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_goes_both_ways() {
        let offset = ClockOffset(1_700_000_000_000_000_000);
        let node = NodeTime(5_000);
        let fabric = offset.fabric(node).unwrap();
        assert_eq!(fabric, FabricTime(1_700_000_000_000_005_000));
        assert_eq!(offset.node(fabric), Some(node));
        assert_eq!(ClockOffset(10).node(FabricTime(9)), None);
        assert_eq!(ClockOffset(i64::MAX).fabric(NodeTime(u64::MAX)), None);
    }

    #[test]
    fn differences_saturate() {
        assert_eq!(NodeTime(3).minus(NodeTime(5)), -2);
        assert_eq!(NodeTime(0).minus(NodeTime(u64::MAX)), i64::MIN);
        assert_eq!(NodeTime(3).since(NodeTime(5)), Nanos(0));
    }
}
