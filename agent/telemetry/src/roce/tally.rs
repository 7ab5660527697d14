//! Marks and notifications by queue pair, of the frames that a port shows.

use std::{collections::BTreeMap, io, net::IpAddr, time::Duration};

use pnet::datalink::{self, Channel, DataLinkReceiver};

use super::{CNP, Ecn, Packet, parse};

/// Most queue pairs that are told apart; what comes later is counted together.
pub const QUEUE_PAIRS_MAX: usize = 65_536;
/// Room for a frame: jumbo frames, and what a kernel with GRO puts together.
const FRAME_BYTES_MAX: usize = 65_536;
/// How long a look waits for a frame.
const LOOK: Duration = Duration::from_millis(100);

/// A queue pair as its packets name it: the one that they are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueuePair {
    /// Who sends to it.
    pub source: IpAddr,
    /// Where it is.
    pub destination: IpAddr,
    /// Its number there.
    pub number: u32,
}

/// What was seen of a queue pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Packets for it that are no notifications.
    pub packets: u64,
    /// Bytes of their payloads.
    pub payload_bytes: u64,
    /// Those that were marked.
    pub marked: u64,
    /// Notifications for it: those that it received as a sender.
    pub notifications: u64,
    /// Packets whose checksum is not theirs.
    pub broken: u64,
}

/// Counts by queue pair, in bounded memory.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// By queue pair.
    pub queue_pairs: BTreeMap<QueuePair, Seen>,
    /// Of all queue pairs beyond [`QUEUE_PAIRS_MAX`].
    pub others: Seen,
    /// Frames of something else.
    pub foreign: u64,
}

impl Tally {
    /// Counts a frame.
    pub fn add(&mut self, frame: &[u8]) {
        let Ok(packet) = parse(frame) else {
            self.foreign += 1;
            return;
        };
        let Packet { source, destination, bth, .. } = packet;
        let key = QueuePair { source, destination, number: bth.queue_pair };
        let is_known = self.queue_pairs.len() < QUEUE_PAIRS_MAX || self.queue_pairs.contains_key(&key);
        let seen = if is_known { self.queue_pairs.entry(key).or_default() } else { &mut self.others };
        seen.broken += u64::from(!packet.is_whole);
        if bth.opcode == CNP {
            seen.notifications += 1;
        } else {
            seen.packets += 1;
            seen.payload_bytes = seen.payload_bytes.saturating_add(packet.payload_bytes as u64);
            seen.marked += u64::from(packet.ecn == Ecn::Marked);
        }
    }
}

/// Listens to a port: a mirror of a switch, or one of Soft-RoCE. A NIC that offloads RoCE shows none of its own frames.
pub struct Listener {
    frames: Box<dyn DataLinkReceiver>,
}

impl core::fmt::Debug for Listener {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Listener").finish_non_exhaustive()
    }
}

impl Listener {
    /// Opens a socket for every frame of the port. Needs `CAP_NET_RAW`.
    ///
    /// # Errors
    /// There is no such interface, or the kernel refuses.
    pub fn open(name: &str) -> io::Result<Self> {
        let missing = || io::Error::new(io::ErrorKind::NotFound, format!("no interface {name:?}"));
        let interface = datalink::interfaces().into_iter().find(|interface| interface.name == name).ok_or_else(missing)?;
        let config =
            datalink::Config { read_buffer_size: FRAME_BYTES_MAX, read_timeout: Some(LOOK), promiscuous: true, ..Default::default() };
        match datalink::channel(&interface, config)? {
            Channel::Ethernet(_, frames) => Ok(Self { frames }),
            _ => Err(io::Error::other("not an Ethernet channel")),
        }
    }

    /// Counts a frame, if one comes within a tenth of a second.
    ///
    /// # Errors
    /// The port is gone.
    pub fn look(&mut self, tally: &mut Tally) -> io::Result<()> {
        match self.frames.next() {
            Ok(frame) => tally.add(frame),
            Err(error) if matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::roce::{CnpFrame, cnp};

    fn notification(queue_pair: u32) -> Vec<u8> {
        let (source, destination) = (Ipv4Addr::new(10, 9, 0, 2), Ipv4Addr::new(10, 9, 0, 1));
        cnp(&CnpFrame { destination_mac: [2; 6], source_mac: [4; 6], source, destination, source_port: 49_152, queue_pair }).to_vec()
    }

    #[test]
    fn marks_and_notifications_are_counted_by_queue_pair() {
        let mut tally = Tally::default();
        // A frame like a notification with another operation is a packet of data: RC write only, here with CE.
        let mut marked = notification(0xd2);
        (marked[15], marked[42]) = (marked[15] | 3, 0x0a);
        [&notification(0xd2), &notification(0xd3), &marked, &b"no frame".to_vec()].iter().for_each(|frame| tally.add(frame));
        let seen: Vec<_> =
            tally.queue_pairs.iter().map(|(pair, seen)| (pair.number, seen.packets, seen.marked, seen.notifications)).collect();
        assert_eq!(seen, [(0xd2, 1, 1, 1), (0xd3, 0, 0, 1)]);
        // The checksum covers the operation.
        let broken: u64 = tally.queue_pairs.values().map(|seen| seen.broken).sum();
        assert_eq!((broken, tally.foreign), (1, 1));
    }

    #[test]
    fn ever_new_queue_pairs_take_no_more_memory() {
        let mut tally = Tally::default();
        let mut frame = notification(0);
        for number in 0..QUEUE_PAIRS_MAX as u32 + 10 {
            frame[47..50].copy_from_slice(&number.to_be_bytes()[1..]);
            tally.add(&frame);
        }
        assert_eq!((tally.queue_pairs.len(), tally.others.notifications), (QUEUE_PAIRS_MAX, 10));
    }
}
