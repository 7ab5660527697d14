//! How the agent gets a ring of events: a datagram to its socket of notes, which carries the memory.

use std::{
    io::IoSlice,
    mem::MaybeUninit,
    os::fd::AsFd,
    path::{Path, PathBuf},
};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use super::{NOTE_BYTES, SOCKET, name_of, put_name, sender::connect};
use crate::{
    directory::JobName,
    events::{EventWriter, LAYOUT, MAGIC},
};

/// The datagram of one ring: magic, layout, 0, writer, then zeros, the length of the job's name and the name, as in a note.
#[derive(Clone, Debug)]
pub struct Greeting {
    directory: PathBuf,
    socket: PathBuf,
    bytes: [u8; NOTE_BYTES],
}

impl Greeting {
    /// What the ring of a job says to the agent of a directory.
    #[must_use]
    pub fn new(directory: &Path, job: &JobName, ring: &EventWriter) -> Self {
        let mut bytes = [0; NOTE_BYTES];
        for (bytes, word) in bytes.chunks_exact_mut(8).zip([MAGIC, LAYOUT, 0, ring.writer()]) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        put_name(&mut bytes, job);
        Self { directory: directory.to_owned(), socket: directory.join(SOCKET), bytes }
    }

    /// Passes the ring, and says whether the agent's kernel has it. Never waits and never allocates; some six calls of the kernel, so
    /// that nothing is kept open and an agent that restarted is found.
    pub fn send(&self, ring: &EventWriter) -> bool {
        let Some(socket) = connect(&self.directory, &self.socket) else { return false };
        let passed = [ring.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut with = SendAncillaryBuffer::new(&mut space);
        // NOSIGNAL: an agent that closed its end must not end the job with a SIGPIPE.
        with.push(SendAncillaryMessage::ScmRights(&passed))
            && sendmsg(&socket, &[IoSlice::new(&self.bytes)], &mut with, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)
                .is_ok_and(|sent| sent == self.bytes.len())
    }
}

/// The job that a datagram passes a ring of, and the run that writes it; `None` for any other datagram.
#[must_use]
pub(super) fn decode_greeting(bytes: &[u8]) -> Option<(JobName, u64)> {
    let bytes: &[u8; NOTE_BYTES] = bytes.try_into().ok()?;
    let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at * 8..at * 8 + 8)?.try_into().ok()?));
    if (word(0)?, word(1)?, word(2)?) != (MAGIC, LAYOUT, 0) {
        return None;
    }
    Some((name_of(bytes)?, word(3)?))
}
