//! The job's side of the ring.

use std::{
    fs::File,
    io,
    os::fd::{AsFd, BorrowedFd},
    sync::atomic::{AtomicU64, Ordering, fence},
};

use rustix::{
    fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create},
    process::{Resource, getrlimit},
};

use super::{BEGUN_AT, EVENT_WORDS, EVENTS_AT, Event, LAYOUT, MAGIC, RING_BYTES, VALUE_BITS, WRITER_AT, check, place};
use crate::{report::new_writer, words::Words};

/// Writes events. Threads share it, and none of them ever waits, allocates or calls the kernel.
#[derive(Debug)]
pub struct EventWriter {
    file: File,
    words: Words,
    writer: u64,
}

impl EventWriter {
    /// Makes the memory of a ring.
    ///
    /// # Errors
    /// What the kernel says; `FileTooLarge` where the process may make no file of that size, since the attempt would be a signal.
    pub fn create() -> io::Result<Self> {
        // Growing beyond RLIMIT_FSIZE is a signal (SIGXFSZ) that kills the job, for memory too.
        if getrlimit(Resource::Fsize).current.is_some_and(|limit| limit < RING_BYTES as u64) {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let file = File::from(memfd_create(c"antiphase-events", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
        file.set_len(RING_BYTES as u64)?;
        // From here on nobody can make the memory smaller under the mapping, which would be a fault in the job.
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let words = Words::writable_of(&file, RING_BYTES)?;
        let writer = new_writer();
        if let Some([magic, layout, by, ..]) = words.slice().first_chunk::<{ WRITER_AT + 1 }>() {
            layout.store(LAYOUT, Ordering::Relaxed);
            by.store(writer, Ordering::Relaxed);
            magic.store(MAGIC, Ordering::Release);
        }
        Ok(Self { file, words, writer })
    }

    /// Tells this run of a plugin from another.
    #[must_use]
    pub const fn writer(&self) -> u64 {
        self.writer
    }

    /// Writes an event; of its value [`VALUE_BITS`] bits count.
    #[inline]
    pub fn push(&self, event: Event) {
        let words = self.words.slice();
        let Some(begun) = words.get(BEGUN_AT) else { return };
        let number = begun.fetch_add(1, Ordering::Relaxed);
        let at = EVENTS_AT / 8 + place(number) * EVENT_WORDS;
        let Some([stamp, time, tagged, checked]) = words.get(at..).and_then(<[AtomicU64]>::first_chunk) else { return };
        let word = Event { value: event.value & ((1 << VALUE_BITS) - 1), ..event }.tagged();
        // Whoever reads meanwhile finds no check, or one that does not fit.
        checked.store(0, Ordering::Relaxed);
        fence(Ordering::Release);
        stamp.store(number, Ordering::Relaxed);
        time.store(event.at.0, Ordering::Relaxed);
        tagged.store(word, Ordering::Relaxed);
        checked.store(check(number, event.at.0, word), Ordering::Release);
    }
}

impl AsFd for EventWriter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
