//! Marks that IP saw, of the whole network namespace: `/proc/net/netstat`.
//!
//! The marks are of TCP, QUIC and Soft-RoCE alike. RoCE that a NIC handles itself passes IP by; its marks are RDMA counters.

use crate::{
    counter::{Counter, Width},
    file::{Root, TableFile},
};

/// The name under which these counters appear beside those of ports: they belong to no single one.
pub const IP_PORT: &str = "ip";

/// Section and name in the table.
const NAMES: [(Counter, &str, &str); 7] = [
    (Counter::EcnMarkedRx, "IpExt:", "InCEPkts"),
    (Counter::Ect0Rx, "IpExt:", "InECT0Pkts"),
    (Counter::Ect1Rx, "IpExt:", "InECT1Pkts"),
    (Counter::NotEctRx, "IpExt:", "InNoECTPkts"),
    (Counter::RxBytes, "IpExt:", "InOctets"),
    (Counter::TxBytes, "IpExt:", "OutOctets"),
    (Counter::EcnEchoed, "TcpExt:", "TCPDeliveredCE"),
];

/// The open table.
#[derive(Debug)]
pub struct IpCounters {
    table: TableFile,
    present: Vec<Counter>,
}

impl IpCounters {
    /// Opens the table of this thread's network namespace. `None` when the kernel has none, or none of the names.
    #[must_use]
    pub fn open(root: &Root) -> Option<Self> {
        let mut table = TableFile::open(&root.proc.join("net/netstat")).ok()?;
        let present: Vec<Counter> = counters(table.read()?).into_iter().map(|(counter, _)| counter).collect();
        (!present.is_empty()).then_some(Self { table, present })
    }

    pub(crate) fn counters(&self) -> Vec<(Counter, Width)> {
        self.present.iter().map(|&counter| (counter, Width::Bits64)).collect()
    }

    pub(crate) fn read(&mut self, into: &mut Vec<Option<u64>>) {
        // Each name is looked up anew: a table that lost one gives an absent value, and the values stay parallel to `present`.
        let now = self.table.read().map(counters).unwrap_or_default();
        into.extend(self.present.iter().map(|wanted| now.iter().find(|(counter, _)| counter == wanted).map(|(_, value)| *value)));
    }
}

/// Each section is a line of names and a line of values, both beginning with the section's name.
fn counters(table: &str) -> Vec<(Counter, u64)> {
    let mut found = Vec::with_capacity(NAMES.len());
    let mut lines = table.lines();
    // The loop ends with the table, which has at most 64 KiB (`TABLE_BYTES_MAX` of file.rs).
    while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
        let mut columns = names.split_ascii_whitespace().zip(values.split_ascii_whitespace());
        let Some((section, same)) = columns.next() else { continue };
        // Two lines that are no pair mean another format (net/ipv4/proc.c writes pairs), so nothing of it is believed.
        if section != same {
            return Vec::new();
        }
        for (name, value) in columns {
            let wanted = NAMES.iter().find(|(_, of, wanted)| *of == section && *wanted == name);
            if let (Some(&(counter, ..)), Ok(value)) = (wanted, value.parse()) {
                found.push((counter, value));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_told_apart() {
        // InCEPkts under another section is not the one of IP.
        let table = "TcpExt: InCEPkts TCPDeliveredCE\nTcpExt: 9 7\nIpExt: InOctets InCEPkts InECT0Pkts\nIpExt: 1000 3 5\n";
        assert_eq!(counters(table), [(Counter::EcnEchoed, 7), (Counter::RxBytes, 1000), (Counter::EcnMarkedRx, 3), (Counter::Ect0Rx, 5)]);
    }

    #[test]
    fn a_table_of_another_shape_has_no_counters() {
        assert_eq!(counters("IpExt: InCEPkts\nTcpExt: 3\n"), []);
        assert_eq!(counters("IpExt: InCEPkts\n"), []);
        assert_eq!(counters("IpExt: InCEPkts\nIpExt: x\n"), []);
        assert_eq!(counters(""), []);
    }

    #[test]
    fn this_kernel_has_them() {
        if !std::path::Path::new("/proc/net/netstat").exists() {
            println!("skipped: no /proc/net/netstat");
            return;
        }
        let mut counters = IpCounters::open(&Root::default()).unwrap();
        let mut values = Vec::new();
        counters.read(&mut values);
        let at = counters.counters().iter().position(|(counter, _)| *counter == Counter::EcnMarkedRx).unwrap();
        assert!(values[at].is_some());
    }
}
