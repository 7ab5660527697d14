//! The job's side of the socket.

use std::path::Path;

use gate_core::Note;
use rustix::{
    fd::OwnedFd,
    fs::{FileType, lstat},
    io::Errno,
    net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect as connect_to, send, socket_with},
};

use super::{SOCKET, encode};
use crate::directory::{JobName, is_believed};

/// Sends notes; the socket is opened with the first.
#[derive(Debug, Default)]
pub(crate) struct NoteSender {
    socket: Option<OwnedFd>,
}

impl NoteSender {
    /// Sends a note, and says whether it is with the agent's kernel. Never waits.
    pub(crate) fn send(&mut self, directory: &Path, job: &JobName, note: &Note) -> bool {
        let bytes = encode(job, note);
        // Twice, because an agent that restarted has another socket of the same name.
        for _ in 0..2 {
            if self.socket.is_none() {
                self.socket = connect(directory, &directory.join(SOCKET));
            }
            let Some(socket) = &self.socket else { return false };
            // NOSIGNAL: an agent that closed its end must not end the job with a SIGPIPE.
            match send(socket, &bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(sent) => return sent == bytes.len(),
                // The agent is there and does not read: another socket would be as full.
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM | Errno::INTR) => return false,
                Err(_) => self.socket = None,
            }
        }
        false
    }
}

/// A socket that sends to the agent's at `path` in its directory; `None` where there is none that may be believed.
pub(super) fn connect(directory: &Path, path: &Path) -> Option<OwnedFd> {
    let found = lstat(path).ok()?;
    // Between this look and the connection, somebody who may write the directory could put another socket there. He would hear
    // when this job starts, and could not answer: answers are on the page, which is checked when it is open.
    if FileType::from_raw_mode(found.st_mode) != FileType::Socket || !is_believed(directory, found.st_uid).ok()? {
        return None;
    }
    let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None).ok()?;
    connect_to(&socket, &SocketAddrUnix::new(path).ok()?).ok()?;
    Some(socket)
}
