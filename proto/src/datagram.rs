//! Datagrams of a session: clock probes, turn notes and turn orders.
//!
//! [`AgentDatagram`] begins with the fields of `ClockProbe` and [`ServiceDatagram`] with those of `ClockEcho`, so peers from before turns
//! read what they know and leave the rest.

use std::collections::VecDeque;

use prost::{Message, length_delimiter_len};

use crate::v1alpha1::{AgentDatagram, ServiceDatagram};

/// Most notes or orders in one datagram. Of jobs with names of 20 bytes about as many fit into a packet.
pub const ITEMS_MAX: usize = 32;
/// Longest datagram that is decoded: a packet on Ethernet has no room for more.
pub const DATAGRAM_BYTES_MAX: usize = 1_500;
/// What either side buffers of datagrams each way: probes of the clock take 40 bytes, and turn notes or orders of one moment some packets.
/// The oldest is dropped when the buffer is full.
pub const BUFFER_BYTES: usize = 16 * 1024;
/// The tag of a field with a number below 16.
const TAG_BYTES: usize = 1;

/// Takes from the front as many as fit together into `bytes`. What does not fit even alone is dropped, so that it keeps nobody waiting;
/// whoever needs it sent repeats it, and so finds out.
pub fn pack<M: Message>(waiting: &mut VecDeque<M>, bytes: usize) -> Vec<M> {
    let (mut packed, mut left) = (Vec::new(), bytes);
    while packed.len() < ITEMS_MAX
        && let Some(next) = waiting.front()
    {
        let length = next.encoded_len();
        let needed = TAG_BYTES + length_delimiter_len(length) + length;
        if needed > left && !packed.is_empty() {
            break;
        }
        let next = waiting.pop_front();
        if needed <= left {
            left -= needed;
            packed.extend(next);
        }
    }
    packed
}

/// A datagram of an agent; `None` for one that no agent sends.
#[must_use]
pub fn from_agent(bytes: &[u8]) -> Option<AgentDatagram> {
    // The length comes first, because it bounds what decoding allocates.
    let datagram = AgentDatagram::decode((bytes.len() <= DATAGRAM_BYTES_MAX).then_some(bytes)?).ok()?;
    (datagram.notes.len() <= ITEMS_MAX).then_some(datagram)
}

/// A datagram of the service; `None` for one that no service sends.
#[must_use]
pub fn from_service(bytes: &[u8]) -> Option<ServiceDatagram> {
    let datagram = ServiceDatagram::decode((bytes.len() <= DATAGRAM_BYTES_MAX).then_some(bytes)?).ok()?;
    (datagram.orders.len() <= ITEMS_MAX).then_some(datagram)
}
