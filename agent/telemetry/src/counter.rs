//! Canonical counters, and what passed between two readings of them.

use units::Nanos;

/// What a counter counts, whatever the driver calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Counter {
    /// Bytes received.
    RxBytes,
    /// Bytes sent.
    TxBytes,
    /// Packets received.
    RxPackets,
    /// Packets sent.
    TxPackets,
    /// Packets dropped on reception.
    RxDrops,
    /// Packets dropped on sending.
    TxDrops,
    /// Packets received with an ECN mark: what a notification point sees.
    EcnMarkedRx,
    /// Packets received as ECT(0).
    Ect0Rx,
    /// Packets received as ECT(1).
    Ect1Rx,
    /// Packets received that were not ECN-capable.
    NotEctRx,
    /// Packets that receivers of ours said were marked (TCP's echo).
    EcnEchoed,
    /// CNPs sent by the notification point.
    CnpTx,
    /// CNPs that slowed this reaction point down.
    CnpRxHandled,
    /// CNPs received and ignored: rises when rate control is off here.
    CnpRxIgnored,
    /// Packets received out of order.
    OutOfOrder,
    /// Sequence errors that the other side reported.
    SeqErr,
    /// Acknowledgements that did not come in time.
    AckTimeout,
    /// Receiver-not-ready answers received.
    Rnr,
    /// Packets sent again.
    Retrans,
    /// Requests received twice.
    Duplicate,
    /// Packets dropped because no receive buffer was posted.
    NoBuffer,
    /// Ticks of the device in which the port had data and sent none. A trend, not a time.
    TxWait,
}

impl Counter {
    /// Every counter.
    pub const ALL: [Self; 22] = [
        Self::RxBytes,
        Self::TxBytes,
        Self::RxPackets,
        Self::TxPackets,
        Self::RxDrops,
        Self::TxDrops,
        Self::EcnMarkedRx,
        Self::Ect0Rx,
        Self::Ect1Rx,
        Self::NotEctRx,
        Self::EcnEchoed,
        Self::CnpTx,
        Self::CnpRxHandled,
        Self::CnpRxIgnored,
        Self::OutOfOrder,
        Self::SeqErr,
        Self::AckTimeout,
        Self::Rnr,
        Self::Retrans,
        Self::Duplicate,
        Self::NoBuffer,
        Self::TxWait,
    ];

    /// The canonical name: on the wire and in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RxBytes => "rx_bytes",
            Self::TxBytes => "tx_bytes",
            Self::RxPackets => "rx_packets",
            Self::TxPackets => "tx_packets",
            Self::RxDrops => "rx_drops",
            Self::TxDrops => "tx_drops",
            Self::EcnMarkedRx => "ecn_marked_rx",
            Self::Ect0Rx => "ect0_rx",
            Self::Ect1Rx => "ect1_rx",
            Self::NotEctRx => "not_ect_rx",
            Self::EcnEchoed => "ecn_echoed",
            Self::CnpTx => "cnp_tx",
            Self::CnpRxHandled => "cnp_rx_handled",
            Self::CnpRxIgnored => "cnp_rx_ignored",
            Self::OutOfOrder => "out_of_order",
            Self::SeqErr => "seq_err",
            Self::AckTimeout => "ack_timeout",
            Self::Rnr => "rnr",
            Self::Retrans => "retrans",
            Self::Duplicate => "duplicate",
            Self::NoBuffer => "no_buffer",
            Self::TxWait => "tx_wait",
        }
    }
}

/// Bits of a counter in its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// Wraps at 2^32: q-counters of mlx5.
    Bits32,
    /// At 50 GB/s it would wrap after eleven years: going back means a reset.
    Bits64,
}

/// What passed between two readings of one counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Increment {
    /// So many.
    By(u64),
    /// The counter went back: its driver or device began anew. What passed is not known.
    Reset,
    /// At least one of the two readings has no such counter.
    Absent,
}

impl Increment {
    /// The number, if there is one.
    #[must_use]
    pub const fn known(self) -> Option<u64> {
        match self {
            Self::By(by) => Some(by),
            Self::Reset | Self::Absent => None,
        }
    }
}

/// Most events of one counter in a second: 64-byte packets at 400 Gb/s are 0.6 billion. A 32-bit counter that seems to
/// have wrapped by more than this began anew.
pub const EVENTS_PER_SECOND_MAX: u64 = 600_000_000;

/// What passed between two readings, `elapsed` apart, of counters of one device.
///
/// Going back is a wrap only of a 32-bit counter, only by as much as `elapsed` allows, and only when no other counter
/// of the device gives a reset away: a device begins anew as a whole.
///
/// # Panics
/// Never: the shortest slice counts.
#[must_use]
pub fn increments(widths: &[Width], before: &[Option<u64>], after: &[Option<u64>], elapsed: Nanos) -> Vec<Increment> {
    // A u128 holds the product of any two u64, so an absurd time between readings does not overflow.
    let wrap_max = u128::from(elapsed.0) * u128::from(EVENTS_PER_SECOND_MAX) / 1_000_000_000;
    let readings = || widths.iter().zip(before.iter().zip(after));
    let wrapped = |width: Width, before: u64, after: u64| {
        // A value above 32 bits is not of a 32-bit counter, and half of the range is as far as forward and back can be told apart.
        let by = (after.wrapping_sub(before)) & u64::from(u32::MAX);
        let fits = width == Width::Bits32 && before <= u64::from(u32::MAX) && u128::from(by) <= wrap_max.min(1 << 31);
        fits.then_some(by)
    };
    // A device begins anew as a whole, so one counter that went back without a wrap casts doubt on every wrap beside it.
    let device_reset = readings().any(|(&width, pair)| match pair {
        (&Some(before), &Some(after)) => after < before && wrapped(width, before, after).is_none(),
        _ => false,
    });
    readings()
        .map(|(&width, pair)| match pair {
            (&Some(before), &Some(after)) if after >= before => Increment::By(after - before),
            (&Some(before), &Some(after)) if !device_reset => wrapped(width, before, after).map_or(Increment::Reset, Increment::By),
            (Some(_), Some(_)) => Increment::Reset,
            _ => Increment::Absent,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Nanos = Nanos(1_000_000_000);

    fn one(width: Width, before: u64, after: u64) -> Increment {
        increments(&[width], &[Some(before)], &[Some(after)], SECOND)[0]
    }

    #[test]
    fn a_32_bit_counter_wraps_and_a_reset_is_not_taken_for_a_wrap() {
        let near_end = u64::from(u32::MAX) - 9;
        assert_eq!(one(Width::Bits32, near_end, 5), Increment::By(15));
        // Modulo 2^32 this would be 4,294,966,296 events in a second.
        assert_eq!(one(Width::Bits32, 1_000, 0), Increment::Reset);
        assert_eq!(one(Width::Bits32, 3_000_000_000, 0), Increment::Reset);
        assert_eq!(one(Width::Bits64, near_end, 5), Increment::Reset);
    }

    #[test]
    fn a_reset_of_one_counter_is_a_reset_of_the_device() {
        let widths = [Width::Bits64, Width::Bits32, Width::Bits32];
        let before = [Some(9_000_000_000), Some(u64::from(u32::MAX)), Some(0)];
        let after = [Some(100), Some(3), Some(0)];
        // The second alone would pass for a wrap by 4.
        assert_eq!(increments(&widths, &before, &after, SECOND), [Increment::Reset, Increment::Reset, Increment::By(0)]);
    }

    #[test]
    fn absent_is_not_zero() {
        let widths = [Width::Bits64; 3];
        let found = increments(&widths, &[None, Some(1), None], &[Some(1), None, None], SECOND);
        assert_eq!(found, [Increment::Absent; 3]);
        assert_eq!(found[0].known(), None);
    }

    #[test]
    fn names_are_unique() {
        let names: std::collections::BTreeSet<&str> = Counter::ALL.iter().map(|counter| counter.name()).collect();
        assert_eq!(names.len(), Counter::ALL.len());
    }

    proptest! {
        #[test]
        fn increments_are_found_again_across_wraps(start in any::<u32>(), steps in prop::collection::vec(0_u64..500_000_000, 1..20)) {
            let mut value = u64::from(start);
            for step in steps {
                let next = (value + step) & u64::from(u32::MAX);
                prop_assert_eq!(one(Width::Bits32, value, next), Increment::By(step));
                value = next;
            }
        }

        #[test]
        fn no_increment_is_beyond_what_time_allows_after_going_back(before in any::<u64>(), after in any::<u64>(), ms in 0_u64..10_000) {
            let found = increments(&[Width::Bits32], &[Some(before)], &[Some(after)], Nanos::from_millis(ms))[0];
            if let (Increment::By(by), true) = (found, after < before) {
                prop_assert!(by <= ms * (EVENTS_PER_SECOND_MAX / 1_000));
            }
        }
    }
}
