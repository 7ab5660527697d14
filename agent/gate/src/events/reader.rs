//! The agent's side of the ring.

use std::{
    fs::File,
    os::{fd::OwnedFd, unix::fs::FileExt},
};

use rustix::fs::{SealFlags, fcntl_get_seals, fstat};

use super::{BEGUN_AT, EVENT_BYTES, EVENTS, EVENTS_AT, Event, LAYOUT, MAGIC, RING_BYTES, WRITER_AT, place};

/// Events that are read with one call of the kernel.
const AT_ONCE: usize = 64;

/// Reads the events of one ring. The job writes it, so every number in it could be anything; a reading is bounded by the ring.
#[derive(Debug)]
pub struct EventReader {
    file: File,
    writer: u64,
    next: u64,
    lost: u64,
}

impl EventReader {
    /// Takes the first of the files that a job passed, if it is memory of that layout whose size is sealed. Other files stay where
    /// they are and are only asked for their seals: closing them, and whatever else touches them, could take any time.
    #[must_use]
    pub fn open(passed: &mut Vec<OwnedFd>) -> Option<Self> {
        // Only memory has seals: a file of a file system that does not answer, a FIFO or a device has none.
        let sealed = |file: &OwnedFd| fcntl_get_seals(file).is_ok_and(|seals| seals.contains(SealFlags::SHRINK | SealFlags::GROW));
        let of_this_size = |file: &OwnedFd| fstat(file).is_ok_and(|found| u64::try_from(found.st_size) == Ok(RING_BYTES as u64));
        passed.first().filter(|file| sealed(file) && of_this_size(file))?;
        let mut reader = Self { file: File::from(passed.swap_remove(0)), writer: 0, next: 0, lost: 0 };
        if (reader.word(0)?, reader.word(1)?) != (MAGIC, LAYOUT) {
            return None;
        }
        reader.writer = reader.word(WRITER_AT)?;
        Some(reader)
    }

    /// The run of a plugin that writes it.
    #[must_use]
    pub const fn writer(&self) -> u64 {
        self.writer
    }

    /// Events that were overwritten, or never whole, before they were read.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// Adds the events since the last reading, at most [`EVENTS`], and says how many places of the ring it read for them.
    pub fn read(&mut self, into: &mut Vec<Event>) -> usize {
        let Some(begun) = self.word(BEGUN_AT) else { return 0 };
        // A number that went back is of a job that wrote it by hand.
        if begun < self.next {
            self.next = begun;
            return 0;
        }
        if begun - self.next > EVENTS as u64 {
            // Half of the ring is left to the writer, so that it does not overtake the reading.
            let next = begun - EVENTS as u64 / 2;
            self.lost = self.lost.saturating_add(next.wrapping_sub(self.next));
            self.next = next;
        }
        let from = self.next;
        self.read_until(begun, into);
        // At most EVENTS.
        (self.next - from) as usize
    }

    fn read_until(&mut self, begun: u64, into: &mut Vec<Event>) {
        let mut bytes = [0; AT_ONCE * EVENT_BYTES];
        while self.next < begun {
            let count = (begun - self.next).min(AT_ONCE as u64).min((EVENTS - place(self.next)) as u64);
            // At most AT_ONCE events, so the length is that of the buffer or less.
            let Some(bytes) = bytes.get_mut(..count as usize * EVENT_BYTES) else { return };
            let at = EVENTS_AT + place(self.next) * EVENT_BYTES;
            if self.file.read_exact_at(bytes, at as u64).is_err() {
                return;
            }
            for event in bytes.chunks_exact(EVENT_BYTES) {
                match Event::of(self.next, words(event)) {
                    Some(event) => into.push(event),
                    // It may be under way; later ones wait for it, but not for ever: its thread may have ended.
                    None if begun - self.next < EVENTS as u64 / 2 => return,
                    None => self.lost = self.lost.saturating_add(1),
                }
                self.next += 1;
            }
        }
    }

    fn word(&self, at: usize) -> Option<u64> {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, at as u64 * 8).ok()?;
        Some(u64::from_le_bytes(bytes))
    }
}

fn words<const N: usize>(bytes: &[u8]) -> [u64; N] {
    let mut words = [0; N];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
    }
    words
}
