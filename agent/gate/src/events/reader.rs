//! The agent's side of the ring.

use std::{
    fs::File,
    os::{fd::OwnedFd, unix::fs::FileExt},
};

use rustix::fs::{SealFlags, fcntl_get_seals};

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
    /// A ring that a job passed; `None` for anything but memory of that layout whose size is sealed.
    #[must_use]
    pub fn open(passed: OwnedFd) -> Option<Self> {
        // Only memory has seals: a file of a file system that does not answer, a FIFO or a device has none, and is not read.
        let sealed = fcntl_get_seals(&passed).is_ok_and(|seals| seals.contains(SealFlags::SHRINK | SealFlags::GROW));
        let file = File::from(passed);
        if !sealed || file.metadata().ok()?.len() != RING_BYTES as u64 {
            return None;
        }
        let mut reader = Self { file, writer: 0, next: 0, lost: 0 };
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

    /// Adds the events since the last reading, at most [`EVENTS`].
    pub fn read(&mut self, into: &mut Vec<Event>) {
        let Some(begun) = self.word(BEGUN_AT) else { return };
        // A number that went back is of a job that wrote it by hand.
        if begun < self.next {
            self.next = begun;
            return;
        }
        if begun - self.next > EVENTS as u64 {
            // Half of the ring is left to the writer, so that it does not overtake the reading.
            let next = begun - EVENTS as u64 / 2;
            self.lost = self.lost.saturating_add(next.wrapping_sub(self.next));
            self.next = next;
        }
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
