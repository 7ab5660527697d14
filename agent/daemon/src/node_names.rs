//! Counters of ports under the names that node_exporter gives them, for dashboards that know those: its collectors `netdev`, `infiniband`
//! and `ethtool`, the last one for pauses alone.
//!
//! Values are those of our own series: they count from the agent's start, and none goes back. Drivers whose names node_exporter does not
//! know (bnxt_re, irdma, efa, Soft-RoCE) are shown by what they count. Series of `ethtool` have no type there, and are counters here.

use telemetry::Counter;

use crate::{
    counters::{CountersView, PortView},
    pauses::PausesView,
};

/// What a series shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Shown {
    /// A counter of ours.
    Counter(Counter, u64),
    /// A counter of the driver.
    Statistic(u64),
    /// A value that comes and goes, with its help.
    Gauge(&'static str, f64),
}

/// One series.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Series<'v> {
    pub(crate) name: String,
    pub(crate) labels: Vec<(&'static str, &'v str)>,
    pub(crate) shown: Shown,
}

/// All of them.
pub(crate) fn series<'v>(counters: &'v CountersView, pauses: &'v PausesView) -> Vec<Series<'v>> {
    let mut all = Vec::new();
    for port in &counters.ports {
        match (port.kind, port.name.split_once('/')) {
            ("rdma", Some((device, number))) => rdma(&mut all, port, vec![("device", device), ("port", number)]),
            ("interface", _) => all.extend(port.totals.iter().filter_map(|(counter, total)| {
                let name = format!("node_network_{}_total", network(*counter)?);
                Some(Series { name, labels: vec![("device", &port.name)], shown: Shown::Counter(*counter, *total) })
            })),
            _ => {}
        }
    }
    for (interface, totals) in pauses {
        all.extend(totals.by_name.iter().map(|(name, total)| {
            let labels = vec![("device", interface.as_str())];
            Series { name: ethtool(name), labels, shown: Shown::Statistic(*total) }
        }));
    }
    all
}

fn rdma<'v>(all: &mut Vec<Series<'v>>, port: &'v PortView, labels: Vec<(&'static str, &'v str)>) {
    let mut push = |name: String, shown| all.push(Series { name: format!("node_infiniband_{name}"), labels: labels.clone(), shown });
    for (counter, total) in &port.totals {
        if let Some(name) = infiniband(*counter) {
            push(format!("{name}_total"), Shown::Counter(*counter, *total));
        }
    }
    let link = port.link.unwrap_or_default();
    let gauges = [
        ("state_id", "State of the port; 4: packets pass.", link.state.map(|state| state as f64)),
        ("physical_state_id", "Physical state of the port; 5: the link is up.", link.physical_state.map(|state| state as f64)),
        ("rate_bytes_per_second", "What the port negotiated.", link.bytes_per_second.map(|rate| rate as f64)),
        ("lifespan_seconds", "How long the driver keeps values of counters.", port.lifespan.map(|life| life.0 as f64 / 1e9)),
    ];
    for (name, help, value) in gauges {
        // What the kernel does not tell has no series.
        if let Some(value) = value {
            push(name.to_owned(), Shown::Gauge(help, value));
        }
    }
}

/// What stands between `node_network_` and `_total`.
const fn network(counter: Counter) -> Option<&'static str> {
    Some(match counter {
        Counter::RxBytes => "receive_bytes",
        Counter::TxBytes => "transmit_bytes",
        Counter::RxPackets => "receive_packets",
        Counter::TxPackets => "transmit_packets",
        Counter::RxDrops => "receive_drop",
        Counter::TxDrops => "transmit_drop",
        _ => return None,
    })
}

/// What stands between `node_infiniband_` and `_total`. Names of the congestion control and of errors are those of node_exporter 1.12.
const fn infiniband(counter: Counter) -> Option<&'static str> {
    Some(match counter {
        Counter::RxBytes => "port_data_received_bytes",
        Counter::TxBytes => "port_data_transmitted_bytes",
        Counter::RxPackets => "port_packets_received",
        Counter::TxPackets => "port_packets_transmitted",
        Counter::RxDrops => "port_errors_received",
        Counter::TxDrops => "port_discards_transmitted",
        Counter::TxWait => "port_transmit_wait",
        Counter::EcnMarkedRx => "np_ecn_marked_roce_packets_received",
        Counter::CnpTx => "np_cnp_packets_sent",
        Counter::CnpRxHandled => "rp_cnp_packets_handled",
        Counter::CnpRxIgnored => "rp_cnp_ignored_packets_received",
        Counter::OutOfOrder => "out_of_sequence_packets_received",
        Counter::SeqErr => "packet_sequence_errors",
        Counter::AckTimeout => "local_ack_timeout_errors",
        Counter::Rnr => "rnr_nak_retry_packets_received",
        Counter::Retrans => "roce_adp_retransmits",
        Counter::Duplicate => "duplicate_requests_packets",
        Counter::NoBuffer => "out_of_buffer_drops",
        _ => return None,
    })
}

/// The name that node_exporter makes of a driver's: other characters than letters and digits become one `_`, and the words `rx` and `tx`
/// are written out.
fn ethtool(name: &str) -> String {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let written = words.map(|word| match word.to_ascii_lowercase() {
        word if word == "rx" => "received".to_owned(),
        word if word == "tx" => "transmitted".to_owned(),
        word => word,
    });
    format!("node_ethtool_{}", written.collect::<Vec<_>>().join("_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_drivers_are_written_as_node_exporter_writes_them() {
        let names = [
            ("rx_prio3_pause", "received_prio3_pause"),
            ("tx_prio3_pause_duration", "transmitted_prio3_pause_duration"),
            ("rx_pfc_ena_frames_pri5", "received_pfc_ena_frames_pri5"),
            ("pfc_pri5_rx_duration_us", "pfc_pri5_received_duration_us"),
            ("tx_priority_4_xoff.nic", "transmitted_priority_4_xoff_nic"),
            ("port.rx_priority_4_xoff", "port_received_priority_4_xoff"),
        ];
        for (driver, told) in names {
            assert_eq!(ethtool(driver), format!("node_ethtool_{told}"));
        }
    }

    /// Of counters of an RDMA port only those have no name there that IP counts.
    #[test]
    fn each_counter_of_a_driver_has_a_name_of_its_own() {
        let named: Vec<_> = Counter::ALL.into_iter().filter_map(infiniband).collect();
        assert_eq!(named.iter().collect::<std::collections::BTreeSet<_>>().len(), named.len());
        let nameless: Vec<_> = Counter::ALL.into_iter().filter(|counter| infiniband(*counter).is_none()).collect();
        assert_eq!(nameless, [Counter::Ect0Rx, Counter::Ect1Rx, Counter::NotEctRx, Counter::EcnEchoed]);
    }
}
