//! The job's side of a page.

use std::{path::Path, sync::atomic::Ordering};

use gate_core::{Reason, Schedule};
use rustix::io::Errno;
use units::Nanos;

use super::{LAYOUT, LAYOUT_AT, LAYOUT_FIRST, MAGIC, MAGIC_AT, SEQUENCE_AT, decode, lock};
use crate::{
    directory::{JobName, open_page},
    futex,
    words::Words,
};

/// A schedule page, mapped for reading.
#[derive(Debug)]
pub struct PageReader {
    words: Words,
}

impl PageReader {
    /// Maps the page of a job.
    ///
    /// # Errors
    /// [`Reason::NoPage`] if there is none, and [`Reason::Unreadable`] if it cannot be opened or is not to be believed: not a
    /// regular file of 4096 bytes, on a remote file system, writable by others, or of another user than root, ourselves
    /// and the directory's owner.
    pub fn open(directory: &Path, job: &JobName) -> Result<Self, Reason> {
        let file = open_page(directory, &job.file("page"))?;
        // `open_page` has seen 4096 bytes, and only users whose pages are believed may shrink them: an access does not fault.
        let words = Words::read_only(&file).map_err(|_| Reason::Unreadable)?;
        Ok(Self { words })
    }

    /// The schedule as it is now. Bounded: at most some tens of microseconds beside a writer that was stopped.
    ///
    /// # Errors
    /// [`Reason::Layout`] for another layout, [`Reason::Torn`] if the agent was in the middle of a write all the time,
    /// [`Reason::NoPage`] if it took the page back, and [`Reason::Malformed`] for values that no agent of this layout writes.
    #[inline]
    pub fn read(&self) -> Result<Schedule, Reason> {
        let all = self.words.all();
        // Magic and layout are written before the file has its name and never again, so they need no order with the sequence.
        let layout = all[LAYOUT_AT].load(Ordering::Relaxed);
        if all[MAGIC_AT].load(Ordering::Relaxed) != MAGIC || !(LAYOUT_FIRST..=LAYOUT).contains(&layout) {
            return Err(Reason::Layout);
        }
        decode(layout, lock(&self.words).read().ok_or(Reason::Torn)?)
    }

    /// Which write the page has now, for [`Self::sleep`]. To be asked before the page is read.
    pub(crate) fn sequence(&self) -> u32 {
        // The low half is enough: 2^31 writes do not happen between a look and the sleep after it.
        self.words.all()[SEQUENCE_AT].load(Ordering::Relaxed) as u32
    }

    /// Sleeps until the agent wakes those who wait for the page, for `at_most` otherwise; not at all if the page was written
    /// since `seen`.
    pub(crate) fn sleep(&self, seen: u32, at_most: Nanos) -> Result<(), Errno> {
        futex::wait(&self.words.all()[SEQUENCE_AT], seen, at_most)
    }
}
