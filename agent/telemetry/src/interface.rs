//! Counters of a network interface.

use crate::{
    counter::{Counter, Width},
    file::{NumberFile, Root, names},
};

/// Files of `statistics/` (Documentation/ABI/testing/sysfs-class-net-statistics).
const FILES: [(Counter, &str); 6] = [
    (Counter::RxBytes, "rx_bytes"),
    (Counter::TxBytes, "tx_bytes"),
    (Counter::RxPackets, "rx_packets"),
    (Counter::TxPackets, "tx_packets"),
    (Counter::RxDrops, "rx_dropped"),
    (Counter::TxDrops, "tx_dropped"),
];

/// Names of the interfaces of the network namespace, sorted.
#[must_use]
pub fn interface_names(root: &Root) -> Vec<String> {
    names(&root.net())
}

/// The open counters of one interface.
#[derive(Debug)]
pub struct Interface {
    files: Vec<(Counter, NumberFile)>,
}

impl Interface {
    /// Opens the counters of `name`. `None` when it has none: it is gone, or not an interface.
    #[must_use]
    pub fn open(root: &Root, name: &str) -> Option<Self> {
        let statistics = root.net().join(name).join("statistics");
        let files: Vec<_> =
            FILES.iter().filter_map(|&(counter, file)| Some((counter, NumberFile::open(&statistics.join(file))?))).collect();
        (!files.is_empty()).then_some(Self { files })
    }

    pub(crate) fn counters(&self) -> Vec<(Counter, Width)> {
        self.files.iter().map(|&(counter, _)| (counter, Width::Bits64)).collect()
    }

    pub(crate) fn read(&self, into: &mut Vec<Option<u64>>) {
        into.extend(self.files.iter().map(|(_, file)| file.read()));
    }

    pub(crate) fn read_bytes(&self) -> Option<u64> {
        let bytes = |wanted| self.files.iter().find(|(counter, _)| *counter == wanted).and_then(|(_, file)| file.read());
        Some(bytes(Counter::RxBytes)?.wrapping_add(bytes(Counter::TxBytes)?))
    }
}
