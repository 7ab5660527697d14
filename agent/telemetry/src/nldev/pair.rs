//! Queue pairs and whose they are: what `rdma resource show qp` prints.

use super::{PORT_INDEX, RES_LQPN, RES_PID, RES_QP, RES_QP_ENTRY, attributes, number};

pub(super) const RES_RQPN: u16 = 22;
pub(super) const RES_TYPE: u16 = 26;
pub(super) const RES_STATE: u16 = 27;

/// One queue pair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueuePair {
    /// The device.
    pub device: String,
    /// The device's port, once the queue pair has one.
    pub port: Option<u32>,
    /// Its number.
    pub number: u32,
    /// Number of the queue pair at the other end, where the kernel tells it: of a connection.
    pub remote: Option<u32>,
    /// Such as `RC`.
    pub kind: Option<&'static str>,
    /// Such as `RTS`, in which it sends.
    pub state: Option<&'static str>,
    /// The process that made it; none for the kernel's own, and for a process that is gone.
    pub pid: Option<u32>,
}

/// The queue pairs in a message, without their device.
pub(super) fn of(payload: &[u8]) -> impl Iterator<Item = QueuePair> {
    let tables = attributes(payload).filter(|(kind, _)| *kind == RES_QP);
    let entries = tables.flat_map(|(_, table)| attributes(table).filter(|(kind, _)| *kind == RES_QP_ENTRY));
    // One without a number is none.
    entries.filter_map(|(_, entry)| pair(entry))
}

fn pair(entry: &[u8]) -> Option<QueuePair> {
    let mut pair = QueuePair::default();
    let mut is_numbered = false;
    for (kind, value) in attributes(entry) {
        match kind {
            PORT_INDEX => pair.port = number(value),
            RES_LQPN => (pair.number, is_numbered) = (number(value)?, true),
            RES_RQPN => pair.remote = number(value),
            RES_TYPE => pair.kind = value.first().and_then(|kind| kind_of(*kind)),
            RES_STATE => pair.state = value.first().and_then(|state| state_of(*state)),
            RES_PID => pair.pid = number(value),
            _ => {}
        }
    }
    is_numbered.then_some(pair)
}

/// `enum ib_qp_type` of the kernel.
fn kind_of(kind: u8) -> Option<&'static str> {
    let names = ["SMI", "GSI", "RC", "UC", "UD"];
    match kind {
        8 => Some("RAW_PACKET"),
        9 => Some("XRC_INI"),
        10 => Some("XRC_TGT"),
        255 => Some("DRIVER"),
        _ => names.get(usize::from(kind)).copied(),
    }
}

/// `enum ib_qp_state` of the kernel.
fn state_of(state: u8) -> Option<&'static str> {
    ["RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"].get(usize::from(state)).copied()
}
