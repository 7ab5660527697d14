//! LLDP neighbours of the host's own ports (IEEE 802.1AB).
//!
//! Neighbours come from lldpd, which needs no privilege of ours, or from frames captured here, which needs `CAP_NET_RAW`.

mod capture;
mod frame;
mod lldpctl;
mod mau;

pub use capture::{Capture, CaptureError, HELD_MAX};
pub use frame::{Advert, FrameError, TLVS_MAX, encode, parse};
pub use lldpctl::{TABLE_BYTES_MAX, TableError, neighbours};

use units::Rate;

/// Longest name that is believed: LLDP allows 255 bytes.
pub(crate) const NAME_BYTES_MAX: usize = 255;
/// EtherType of LLDP.
pub const ETHERTYPE: u16 = 0x88cc;

/// What is plugged into one port of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Neighbour {
    /// The host's port.
    pub port: String,
    /// The other system: its name, else its chassis id.
    pub chassis: String,
    /// The other system's port.
    pub remote_port: String,
    /// The chassis id, where `chassis` is a name.
    pub chassis_id: Option<String>,
    /// What the other system's port is also called: its description.
    pub description: Option<String>,
    /// Whether the other system forwards between cables, as a switch does; `None` where it does not say.
    pub forwards: Option<bool>,
    /// What both ends agreed on, as the other system says.
    pub rate: Option<Rate>,
}

/// Text of a neighbour, which anybody on the cable can choose: printable, or nothing.
pub(crate) fn name(bytes: &[u8]) -> Option<String> {
    // A control character in a name could rewrite the terminal or the log of whoever reads it.
    let text = str::from_utf8(bytes).ok()?.trim();
    let plain = !text.is_empty() && text.len() <= NAME_BYTES_MAX && !text.chars().any(char::is_control);
    plain.then(|| text.to_owned())
}
