//! Counters of a port as netlink has them, and which of its optional ones are on: what `rdma statistic show` and `rdma statistic mode`
//! print. An optional counter, such as `cc_rx_ce_pkts` of mlx5, stands in no file of sysfs.

use super::{OF_COUNTER_MAX, PORT_INDEX, STAT_HWCOUNTER_ENTRY, STAT_HWCOUNTERS, attributes, find, named, number, text};

pub(super) const STAT_HWCOUNTER_DYNAMIC: u16 = 95;

/// A port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortStatistics {
    /// The device.
    pub device: String,
    /// The device's port.
    pub port: u32,
    /// The driver's names, and values: those that are always on, and optional ones that somebody has switched on.
    pub values: Vec<(String, u64)>,
    /// Optional counters, and whether they are on.
    pub optional: Vec<(String, bool)>,
}

/// The counters of a port in a message, without its device; `None` for a message of something else.
pub(super) fn of(payload: &[u8]) -> Option<PortStatistics> {
    let table = find(payload, STAT_HWCOUNTERS)?;
    let port = number(find(payload, PORT_INDEX)?)?;
    let entries = || attributes(table).filter(|(kind, _)| *kind == STAT_HWCOUNTER_ENTRY).map(|(_, entry)| entry).take(OF_COUNTER_MAX);
    let values = entries().filter_map(named).collect();
    // A counter that is always on says nothing of being on.
    let optional = entries().filter_map(|entry| Some((text(name(entry)?)?, *find(entry, STAT_HWCOUNTER_DYNAMIC)?.first()? != 0))).collect();
    Some(PortStatistics { device: String::new(), port, values, optional })
}

fn name(entry: &[u8]) -> Option<&[u8]> {
    find(entry, super::STAT_HWCOUNTER_ENTRY_NAME)
}
