//! Counters of a network interface.

use std::{
    fs::{self, File},
    ops::Range,
    os::unix::fs::FileExt,
};

use units::Rate;

use crate::{
    counter::{Counter, Width},
    file::{NumberFile, Root, names, text},
};

/// What a seq_file hands out in one reading at most: a page. That is some thirty interfaces; a host with more reads files one by one,
/// because the kernel would write the first page again to come to the second.
const TABLE_BYTES: usize = 4_096;
/// Lines above the interfaces.
const TABLE_HEADER: usize = 2;
/// Where a line has the sent bytes, counted from the received bytes (net/core/net-procfs.c, `dev_seq_printf_stats`).
const SENT_AT: usize = 8;

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

/// What an interface negotiated, as its driver says in `speed` (Documentation/ABI/testing/sysfs-class-net); `None` where the driver does not
/// know, as while the cable is down.
#[must_use]
pub fn link_rate(root: &Root, name: &str) -> Option<Rate> {
    // Unknown is -1, or 2^32 - 1 in older kernels, or an error.
    let mbps = text(&root.net().join(name).join("speed"))?.parse().ok()?;
    (mbps > 0 && mbps < u64::from(u32::MAX)).then_some(Rate(mbps))
}

/// The bridge of which an interface is a port.
#[must_use]
pub fn bridge_of(root: &Root, name: &str) -> Option<String> {
    let bridge = fs::read_link(root.net().join(name).join("brport/bridge")).ok()?;
    bridge.file_name()?.to_str().map(str::to_owned)
}

/// The open counters of one interface.
#[derive(Debug)]
pub struct Interface {
    files: Vec<(Counter, NumberFile)>,
}

impl Interface {
    /// Opens the counters of `name`. `None` when there are none: the interface is gone, or the name is of something else.
    #[must_use]
    pub fn open(root: &Root, name: &str) -> Option<Self> {
        let statistics = root.net().join(name).join("statistics");
        let files: Vec<_> =
            FILES.iter().filter_map(|&(counter, file)| Some((counter, NumberFile::open(&statistics.join(file))?))).collect();
        // A file that cannot be read makes its counter absent, which is not 0; the others count all the same.
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
        // A sum that wraps goes back, and `Series` then begins anew: no false rush of bytes.
        Some(bytes(Counter::RxBytes)?.wrapping_add(bytes(Counter::TxBytes)?))
    }
}

/// Bytes of all interfaces of the network namespace in one reading, `/proc/net/dev`: for several interfaces that takes about half
/// the time of their files, and for one more.
#[derive(Debug)]
pub struct InterfaceTable {
    file: File,
    buffer: Box<[u8; TABLE_BYTES]>,
    /// The interfaces of the last reading: where the name is in the buffer, and the bytes both ways.
    listed: Vec<(Range<usize>, u64)>,
}

impl InterfaceTable {
    /// Opens the table, and reads it once. `None` where the file is missing or empty.
    #[must_use]
    pub fn open(root: &Root) -> Option<Self> {
        let file = File::open(root.proc.join("net/dev")).ok()?;
        let mut table = Self { file, buffer: Box::new([0; TABLE_BYTES]), listed: Vec::new() };
        table.read().then_some(table)
    }

    /// Reads the table again. After a failure nothing is listed.
    pub fn read(&mut self) -> bool {
        self.listed.clear();
        let length = self.file.read_at(&mut self.buffer[..], 0).unwrap_or(0);
        // A table that is not UTF-8 lists nothing, and the caller reads the files of its interfaces.
        let text = str::from_utf8(&self.buffer[..length]).unwrap_or_default();
        let mut at = 0;
        for (index, line) in text.split_inclusive('\n').enumerate() {
            // A last line without its end was cut at TABLE_BYTES, and so may be its numbers.
            if index >= TABLE_HEADER && line.ends_with('\n') {
                self.listed.extend(interface_of(line).map(|(name, bytes)| (at + name.start..at + name.end, bytes)));
            }
            at += line.len();
        }
        length > 0
    }

    /// How many interfaces the last reading listed.
    #[must_use]
    pub fn listed(&self) -> usize {
        self.listed.len()
    }

    /// Received and sent bytes together of an interface at the last reading, wrapping. `None` if it was not listed.
    #[must_use]
    pub fn bytes(&self, name: &str) -> Option<u64> {
        // A search from the front is enough: TABLE_BYTES holds some thirty interfaces.
        self.listed.iter().find(|(listed, _)| &self.buffer[listed.clone()] == name.as_bytes()).map(|&(_, bytes)| bytes)
    }
}

/// Where a line has its name, and the bytes of both directions. The name is right-aligned; it may hold a colon itself, as aliases
/// do, and the numbers hold none.
fn interface_of(line: &str) -> Option<(Range<usize>, u64)> {
    let (name, numbers) = line.rsplit_once(':')?;
    let mut numbers = numbers.split_ascii_whitespace();
    let received: u64 = numbers.next()?.parse().ok()?;
    // `next` has taken the received bytes already, so the distance is one less.
    let sent: u64 = numbers.nth(SENT_AT - 1)?.parse().ok()?;
    Some((name.len() - name.trim_start().len()..name.len(), received.wrapping_add(sent)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_that_the_driver_does_not_know_is_absent() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::under(folder.path());
        let eth = root.net().join("eth0");
        fs::create_dir_all(&eth).unwrap();
        assert_eq!(link_rate(&root, "eth0"), None);
        let of = |text: &str| {
            fs::write(eth.join("speed"), text).unwrap();
            link_rate(&root, "eth0").map(Rate::mbps)
        };
        assert_eq!(["400000\n", "-1\n", "4294967295\n", "0\n", ""].map(of), [Some(400_000), None, None, None, None]);
        assert_eq!(bridge_of(&root, "eth0"), None);
        fs::create_dir_all(eth.join("brport")).unwrap();
        std::os::unix::fs::symlink("../../br0", eth.join("brport/bridge")).unwrap();
        assert_eq!(bridge_of(&root, "eth0").as_deref(), Some("br0"));
    }

    #[test]
    fn a_table_says_what_the_files_say() {
        let root = Root::default();
        let Some(mut table) = InterfaceTable::open(&root) else {
            println!("skipped: no /proc/net/dev");
            return;
        };
        let mut seen = 0;
        for name in interface_names(&root) {
            let Some(interface) = Interface::open(&root, &name) else { continue };
            let before = interface.read_bytes().unwrap();
            assert!(table.read());
            let (listed, after) = (table.bytes(&name), interface.read_bytes().unwrap());
            // A table longer than a page lacks the last ones.
            if let Some(listed) = listed {
                assert!(listed.wrapping_sub(before) <= after.wrapping_sub(before), "{name}: {before} {listed} {after}");
                seen += 1;
            }
        }
        assert!(seen > 0 && table.listed() >= seen);
    }

    #[test]
    fn odd_tables_list_what_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::under(folder.path());
        assert!(InterfaceTable::open(&root).is_none());
        fs::create_dir_all(root.proc.join("net")).unwrap();
        let header = "Inter-|   Receive  |  Transmit\n face |bytes packets|bytes packets\n";
        let lines =
            "  eth0: 10 1 0 0 0 0 0 0 20 2 0 0 0 0 0 0\neth0:1: 5 0 0 0 0 0 0 0 6 0 0 0 0 0 0 0\n  bad: x\n short: 1 2 3\n cut: 1 2";
        fs::write(root.proc.join("net/dev"), format!("{header}{lines}")).unwrap();
        let table = InterfaceTable::open(&root).unwrap();
        assert_eq!((table.bytes("eth0"), table.bytes("eth0:1"), table.listed()), (Some(30), Some(11), 2));
        assert_eq!(["bad", "short", "cut", "eth", ""].map(|name| table.bytes(name)), [None; 5]);
    }
}
