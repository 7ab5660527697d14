//! What a plugin of the job's communication library saw, as a ring of events in memory that the agent can read.
//!
//! The job makes the memory (`memfd_create`), seals its size, and passes it to the agent's socket of notes; so it has no name that others
//! could write or shorten, and no file system that could hang. The job maps it; the agent reads copies and believes nothing in them.
//! All words are 64 bits, little-endian; `docs/schedule-page.md` is the contract:
//!
//! ```text
//! 0 magic   1 layout   2 writer   3 events begun   then from word 512 on 4,096 events: number, at, kind and value, check
//! ```
//!
//! Whoever writes an event takes a number, and no thread waits for another. An event that is half written, or half of another, fails its
//! check.

mod reader;
mod writer;

use units::NodeTime;

use crate::words::FILE_BYTES;

pub use reader::EventReader;
pub use writer::EventWriter;

/// `ANTIPHEV` as bytes in the memory, and in the datagram that passes it.
pub const MAGIC: u64 = u64::from_le_bytes(*b"ANTIPHEV");
/// The layout that this library writes and reads.
pub const LAYOUT: u64 = 1;
/// Events that are kept: an iteration of some hundred collectives, each of which is called, busy and idle, several times over.
pub const EVENTS: usize = 4_096;

const EVENT_WORDS: usize = 4;
const EVENT_BYTES: usize = EVENT_WORDS * 8;
/// The first event has a page of its own, so that readers of the header and writers of events meet in no line of the cache.
const EVENTS_AT: usize = FILE_BYTES;
const WRITER_AT: usize = 2;
const BEGUN_AT: usize = 3;
/// Size of the memory.
const RING_BYTES: usize = EVENTS_AT + EVENTS * EVENT_BYTES;
/// Bits of an event's value.
pub const VALUE_BITS: u32 = 56;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The job called a collective; the value is a hash of what it called.
    Called,
    /// The first of the network's operations under way began; the value counts those that had finished until then.
    Busy,
    /// The last of the operations under way finished; the value counts those that have finished.
    Idle,
}

impl EventKind {
    const fn code(self) -> u64 {
        match self {
            Self::Called => 1,
            Self::Busy => 2,
            Self::Idle => 3,
        }
    }

    const fn from_code(code: u64) -> Option<Self> {
        match code {
            1 => Some(Self::Called),
            2 => Some(Self::Busy),
            3 => Some(Self::Idle),
            _ => None,
        }
    }
}

/// One event of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// When, in the node's time.
    pub at: NodeTime,
    /// Of [`VALUE_BITS`] bits; what it says depends on the kind.
    pub value: u64,
}

impl Event {
    /// Kind and value in one word.
    const fn tagged(&self) -> u64 {
        self.value << 8 | self.kind.code()
    }

    fn of(number: u64, [stamp, at, tagged, check]: [u64; EVENT_WORDS]) -> Option<Self> {
        if stamp != number || check != self::check(number, at, tagged) {
            return None;
        }
        Some(Self { kind: EventKind::from_code(tagged & 0xff)?, at: NodeTime(at), value: tagged >> 8 })
    }
}

/// The check of an event. It finds an event that is not whole, and no malice; it is never 0, which stands for one that is being written.
const fn check(number: u64, at: u64, tagged: u64) -> u64 {
    let mixed = (MAGIC ^ number).wrapping_mul(units::GOLDEN).rotate_left(29) ^ at;
    let mixed = mixed.wrapping_mul(units::GOLDEN).rotate_left(29) ^ tagged;
    mixed.wrapping_mul(units::GOLDEN) | 1
}

/// Where the words of an event are.
const fn place(number: u64) -> usize {
    // EVENTS is a power of two far below 2^32, so the remainder is an index.
    (number % EVENTS as u64) as usize
}

#[cfg(test)]
mod tests {
    use std::{fs::File, os::fd::AsFd, os::unix::fs::FileExt, thread};

    use super::*;

    fn reader(writer: &EventWriter) -> EventReader {
        EventReader::open(&mut vec![writer.as_fd().try_clone_to_owned().unwrap()]).unwrap()
    }

    fn read(reader: &mut EventReader) -> Vec<Event> {
        let mut events = Vec::new();
        reader.read(&mut events);
        events
    }

    fn event(n: u64) -> Event {
        Event { kind: EventKind::Idle, at: NodeTime(n), value: n & 0xff }
    }

    #[test]
    fn events_go_through_the_ring_in_order() {
        let writer = EventWriter::create().unwrap();
        let mut reader = reader(&writer);
        assert!(read(&mut reader).is_empty());
        let first = Event { kind: EventKind::Called, at: NodeTime(u64::MAX), value: (1 << VALUE_BITS) - 1 };
        writer.push(first);
        (1..100).for_each(|n| writer.push(event(n)));
        assert_eq!(read(&mut reader), [vec![first], (1..100).map(event).collect()].concat());
        assert!(read(&mut reader).is_empty());
        assert_eq!((reader.lost(), reader.writer()), (0, writer.writer()));
    }

    #[test]
    fn a_reader_that_was_overtaken_goes_on_with_the_newer_half() {
        let writer = EventWriter::create().unwrap();
        let mut reader = reader(&writer);
        let written = 3 * EVENTS as u64 + 17;
        (0..written).for_each(|n| writer.push(event(n)));
        let kept = EVENTS as u64 / 2;
        assert_eq!(read(&mut reader), (written - kept..written).map(event).collect::<Vec<_>>());
        assert_eq!(reader.lost(), written - kept);
    }

    #[test]
    fn an_event_that_is_not_whole_is_waited_for_and_then_left_out() {
        let writer = EventWriter::create().unwrap();
        let mut reader = reader(&writer);
        (0..3).for_each(|n| writer.push(event(n)));
        // The second is being written: its check is 0.
        let file = File::from(writer.as_fd().try_clone_to_owned().unwrap());
        let at = (EVENTS_AT + EVENT_BYTES + 24) as u64;
        file.write_all_at(&[0; 8], at).unwrap();
        assert_eq!(read(&mut reader), [event(0)]);
        assert!(read(&mut reader).is_empty());
        (3..EVENTS as u64 / 2 + 2).for_each(|n| writer.push(event(n)));
        assert_eq!(read(&mut reader), (2..EVENTS as u64 / 2 + 2).map(event).collect::<Vec<_>>());
        assert_eq!(reader.lost(), 1);
    }

    /// Whatever the job writes, a reading ends, and takes no more than the ring holds.
    #[test]
    fn a_header_that_lies_costs_one_ring_at_most() {
        let writer = EventWriter::create().unwrap();
        let mut reader = reader(&writer);
        writer.push(event(0));
        let file = File::from(writer.as_fd().try_clone_to_owned().unwrap());
        for begun in [u64::MAX, 0, 1 << 40, 5, u64::MAX - 5_000, 100, 7_000] {
            file.write_all_at(&begun.to_le_bytes(), BEGUN_AT as u64 * 8).unwrap();
            assert!(read(&mut reader).len() <= EVENTS);
        }
    }

    #[test]
    fn what_is_no_sealed_memory_of_a_ring_is_refused() {
        let writer = EventWriter::create().unwrap();
        let mut passed = vec![tempfile::tempfile().unwrap().into(), writer.as_fd().try_clone_to_owned().unwrap()];
        assert!(EventReader::open(&mut passed).is_none(), "a file, which could hang or shrink");
        assert_eq!(passed.len(), 2, "and it is left for somebody who has the time to close it");
        assert!(EventReader::open(&mut Vec::new()).is_none());
        let file = File::from(writer.as_fd().try_clone_to_owned().unwrap());
        assert!(file.set_len(10).is_err() && file.set_len(1 << 30).is_err(), "the size is sealed");
        file.write_all_at(b"B", 0).unwrap();
        assert!(EventReader::open(&mut vec![file.into()]).is_none());
    }

    /// Threads write at once, faster than anybody reads: what is read was written, each event once and in order of numbers.
    #[test]
    fn threads_that_write_at_once_mix_no_events() {
        const EACH: u64 = 50_000;
        let writer = EventWriter::create().unwrap();
        let mut reader = reader(&writer);
        let (mut seen, mut events) = (0, Vec::new());
        thread::scope(|scope| {
            let write = |thread: u64| (0..EACH).for_each(|n| writer.push(Event { at: NodeTime(thread << 32 | n), ..event(n) }));
            let threads = [scope.spawn(move || write(1)), scope.spawn(move || write(2)), scope.spawn(move || write(3))];
            while !threads.iter().all(thread::ScopedJoinHandle::is_finished) {
                reader.read(&mut events);
                let mut last = [None; 4];
                for event in events.drain(..) {
                    let (thread, n) = ((event.at.0 >> 32) as usize, event.at.0 & 0xffff_ffff);
                    assert_eq!(event.value, n & 0xff, "half of one event and half of another");
                    assert!(last[thread].replace(n).is_none_or(|before| before < n));
                    seen += 1;
                }
            }
        });
        reader.read(&mut events);
        assert_eq!(seen + events.len() as u64 + reader.lost(), 3 * EACH);
    }
}
