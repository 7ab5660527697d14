//! Which file of which driver holds which counter.
//!
//! Names, widths and units come from the kernel's sources and documentation (`hw_counters` of mlx5, bnxt_re, irdma, efa and
//! rxe; `counters` as in the InfiniBand sysfs ABI). Only the names of rxe were ever read from a live device by this project.

use crate::counter::{Counter, Width};

/// A driver of RDMA devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Driver {
    /// NVIDIA ConnectX.
    Mlx5,
    /// Broadcom.
    BnxtRe,
    /// Intel.
    Irdma,
    /// AWS: SRD, which has neither marks nor CNPs.
    Efa,
    /// Soft-RoCE, which neither sends nor obeys CNPs.
    Rxe,
    /// Another: every name that is known is tried.
    Unknown,
}

impl Driver {
    /// The driver, from the name of the kernel module behind the device, or from its absence: Soft-RoCE has no device.
    #[must_use]
    pub fn of(module: Option<&str>) -> Self {
        // The link names the driver of the PCI device, which for Broadcom and Intel is the Ethernet driver below the RDMA one.
        match module {
            Some("mlx5_core") => Self::Mlx5,
            Some("bnxt_en" | "bnxt_re") => Self::BnxtRe,
            Some("ice" | "i40e" | "irdma" | "idpf") => Self::Irdma,
            Some("efa") => Self::Efa,
            None => Self::Rxe,
            Some(_) => Self::Unknown,
        }
    }
}

/// One file that holds one canonical counter.
#[derive(Clone, Copy, Debug)]
pub struct Alias {
    /// What it counts.
    pub counter: Counter,
    /// The driver that has this name; `None`: every driver (the InfiniBand port counters).
    pub driver: Option<Driver>,
    /// Below `ports/<n>/`.
    pub file: &'static str,
    /// Another file, whose value is added where there is one: the device counts one kind of packets here and the rest there.
    pub more: Option<&'static str>,
    /// Bits in the device.
    pub width: Width,
    /// Bytes or events per unit: `port_rcv_data` counts words of four bytes.
    pub unit: u64,
}

const fn port(counter: Counter, file: &'static str, unit: u64) -> Alias {
    Alias { counter, driver: None, file, more: None, width: Width::Bits64, unit }
}

const fn hw(counter: Counter, driver: Driver, file: &'static str) -> Alias {
    Alias { counter, driver: Some(driver), file, more: None, width: Width::Bits64, unit: 1 }
}

/// Octets of IPv4 and of IPv6: which of them RoCE sends is a matter of the GID.
const fn octets(counter: Counter, v4: &'static str, v6: &'static str) -> Alias {
    Alias { counter, driver: Some(Driver::Irdma), file: v4, more: Some(v6), width: Width::Bits64, unit: 1 }
}

/// A q-counter of mlx5, which the driver reads from the firmware as 32 bits.
const fn q(counter: Counter, file: &'static str) -> Alias {
    Alias { counter, driver: Some(Driver::Mlx5), file, more: None, width: Width::Bits32, unit: 1 }
}

/// Of several aliases of one counter the first whose file can be read counts: later aliases are names of other versions. The later ones of
/// bnxt_re are those of Broadcom's own releases from 2023 on (`bnxt_re/hw_counters.c`), which took mlx5's names; `rx_bytes` counts CNPs too.
const TABLE: &[Alias] = &[
    port(Counter::RxBytes, "counters/port_rcv_data", 4),
    port(Counter::TxBytes, "counters/port_xmit_data", 4),
    port(Counter::RxPackets, "counters/port_rcv_packets", 1),
    port(Counter::TxPackets, "counters/port_xmit_packets", 1),
    port(Counter::RxDrops, "counters/port_rcv_errors", 1),
    port(Counter::TxDrops, "counters/port_xmit_discards", 1),
    port(Counter::TxWait, "counters/port_xmit_wait", 1),
    hw(Counter::EcnMarkedRx, Driver::Mlx5, "hw_counters/np_ecn_marked_roce_packets"),
    hw(Counter::CnpTx, Driver::Mlx5, "hw_counters/np_cnp_sent"),
    hw(Counter::CnpRxHandled, Driver::Mlx5, "hw_counters/rp_cnp_handled"),
    hw(Counter::CnpRxIgnored, Driver::Mlx5, "hw_counters/rp_cnp_ignored"),
    q(Counter::OutOfOrder, "hw_counters/out_of_sequence"),
    q(Counter::SeqErr, "hw_counters/packet_seq_err"),
    q(Counter::AckTimeout, "hw_counters/local_ack_timeout_err"),
    q(Counter::Rnr, "hw_counters/rnr_nak_retry_err"),
    q(Counter::Retrans, "hw_counters/roce_adp_retrans"),
    q(Counter::Duplicate, "hw_counters/duplicate_request"),
    q(Counter::NoBuffer, "hw_counters/out_of_buffer"),
    hw(Counter::EcnMarkedRx, Driver::BnxtRe, "hw_counters/rx_ecn_marked_pkts"),
    hw(Counter::EcnMarkedRx, Driver::BnxtRe, "hw_counters/np_ecn_marked_roce_packets"),
    hw(Counter::CnpTx, Driver::BnxtRe, "hw_counters/tx_cnp_pkts"),
    hw(Counter::CnpTx, Driver::BnxtRe, "hw_counters/cnp_tx_pkts"),
    hw(Counter::CnpTx, Driver::BnxtRe, "hw_counters/np_cnp_sent"),
    hw(Counter::CnpTx, Driver::BnxtRe, "hw_counters/np_cnp_pkts"),
    hw(Counter::CnpRxHandled, Driver::BnxtRe, "hw_counters/rx_cnp_pkts"),
    hw(Counter::CnpRxHandled, Driver::BnxtRe, "hw_counters/cnp_rx_pkts"),
    hw(Counter::CnpRxHandled, Driver::BnxtRe, "hw_counters/rp_cnp_handled"),
    hw(Counter::CnpRxIgnored, Driver::BnxtRe, "hw_counters/rp_cnp_ignored"),
    hw(Counter::RxBytes, Driver::BnxtRe, "hw_counters/rx_roce_only_bytes"),
    hw(Counter::RxBytes, Driver::BnxtRe, "hw_counters/rx_bytes"),
    hw(Counter::TxBytes, Driver::BnxtRe, "hw_counters/tx_roce_only_bytes"),
    hw(Counter::TxBytes, Driver::BnxtRe, "hw_counters/tx_bytes"),
    hw(Counter::OutOfOrder, Driver::BnxtRe, "hw_counters/oos_drop_count"),
    hw(Counter::OutOfOrder, Driver::BnxtRe, "hw_counters/out_of_sequence"),
    hw(Counter::SeqErr, Driver::BnxtRe, "hw_counters/seq_err_naks_rcvd"),
    hw(Counter::SeqErr, Driver::BnxtRe, "hw_counters/packet_seq_err"),
    hw(Counter::AckTimeout, Driver::BnxtRe, "hw_counters/to_retransmits"),
    hw(Counter::AckTimeout, Driver::BnxtRe, "hw_counters/local_ack_timeout_err"),
    hw(Counter::Rnr, Driver::BnxtRe, "hw_counters/rnr_naks_rcvd"),
    hw(Counter::Rnr, Driver::BnxtRe, "hw_counters/rnr_nak_retry_err"),
    hw(Counter::Duplicate, Driver::BnxtRe, "hw_counters/dup_req"),
    hw(Counter::Duplicate, Driver::BnxtRe, "hw_counters/duplicate_request"),
    hw(Counter::NoBuffer, Driver::BnxtRe, "hw_counters/rx_out_of_buffer"),
    hw(Counter::NoBuffer, Driver::BnxtRe, "hw_counters/out_of_buffer"),
    hw(Counter::RxDrops, Driver::BnxtRe, "hw_counters/rx_roce_discards"),
    hw(Counter::EcnMarkedRx, Driver::Irdma, "hw_counters/RxECNMrkd"),
    hw(Counter::CnpTx, Driver::Irdma, "hw_counters/cnpSent"),
    hw(Counter::CnpRxHandled, Driver::Irdma, "hw_counters/cnpHandled"),
    hw(Counter::CnpRxIgnored, Driver::Irdma, "hw_counters/cnpIgnored"),
    hw(Counter::Retrans, Driver::Irdma, "hw_counters/RetransSegs"),
    hw(Counter::Retrans, Driver::Irdma, "hw_counters/tcpRetransSegs"),
    octets(Counter::RxBytes, "hw_counters/ip4InOctets", "hw_counters/ip6InOctets"),
    octets(Counter::TxBytes, "hw_counters/ip4OutOctets", "hw_counters/ip6OutOctets"),
    hw(Counter::RxBytes, Driver::Efa, "hw_counters/rx_bytes"),
    hw(Counter::TxBytes, Driver::Efa, "hw_counters/tx_bytes"),
    hw(Counter::RxPackets, Driver::Efa, "hw_counters/rx_pkts"),
    hw(Counter::TxPackets, Driver::Efa, "hw_counters/tx_pkts"),
    hw(Counter::RxDrops, Driver::Efa, "hw_counters/rx_drops"),
    hw(Counter::Retrans, Driver::Efa, "hw_counters/retrans_pkts"),
    hw(Counter::AckTimeout, Driver::Efa, "hw_counters/retrans_timeout_events"),
    hw(Counter::RxPackets, Driver::Rxe, "hw_counters/rcvd_pkts"),
    hw(Counter::TxPackets, Driver::Rxe, "hw_counters/sent_pkts"),
    hw(Counter::Duplicate, Driver::Rxe, "hw_counters/duplicate_request"),
    hw(Counter::OutOfOrder, Driver::Rxe, "hw_counters/out_of_seq_request"),
    hw(Counter::SeqErr, Driver::Rxe, "hw_counters/rcvd_seq_err"),
    hw(Counter::Rnr, Driver::Rxe, "hw_counters/rcvd_rnr_err"),
    hw(Counter::Retrans, Driver::Rxe, "hw_counters/completer_retry_err"),
];

/// The aliases to try for a driver, best first per counter.
pub fn aliases(driver: Driver) -> impl Iterator<Item = &'static Alias> {
    // An unknown driver gets every name: a file that is not there costs one failed open.
    TABLE.iter().filter(move |alias| driver == Driver::Unknown || alias.driver.is_none_or(|of| of == driver))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_table_names_no_file_twice_for_a_driver() {
        for driver in [Driver::Mlx5, Driver::BnxtRe, Driver::Irdma, Driver::Efa, Driver::Rxe] {
            let files: Vec<&str> = aliases(driver).map(|alias| alias.file).collect();
            assert_eq!(files.iter().collect::<BTreeSet<_>>().len(), files.len(), "{driver:?}");
        }
    }

    #[test]
    fn drivers_without_marks_do_not_claim_them() {
        for driver in [Driver::Efa, Driver::Rxe] {
            assert!(aliases(driver).all(|alias| !matches!(alias.counter, Counter::EcnMarkedRx | Counter::CnpTx)), "{driver:?}");
        }
    }

    #[test]
    fn a_module_names_its_driver() {
        assert_eq!(Driver::of(Some("mlx5_core")), Driver::Mlx5);
        assert_eq!(Driver::of(None), Driver::Rxe);
        assert_eq!(Driver::of(Some("hns_roce")), Driver::Unknown);
    }
}
