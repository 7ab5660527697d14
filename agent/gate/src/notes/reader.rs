//! The agent's side of the socket.

use std::{
    fs::{self, Permissions},
    io::{self, ErrorKind, IoSliceMut},
    mem::{ManuallyDrop, MaybeUninit},
    net::Shutdown,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
        unix::{
            fs::{FileTypeExt, MetadataExt, PermissionsExt},
            net::UnixDatagram,
        },
    },
    path::{Path, PathBuf},
    process,
};

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg, sockopt::set_socket_passcred};

use super::{
    JobNote, NOTE_BYTES, SOCKET,
    closer::{self, FILES_MAX, PASSED_MAX},
    decode,
    greeting::decode_greeting,
};
use crate::events::EventReader;

/// Open files that the process of a reader must be able to have beside its own: what no number is left for, the kernel closes
/// in the thread that receives.
pub const OPEN_FILES: usize = FILES_MAX;

/// Everybody may send: jobs run as other users than the agent.
const PERMISSIONS: u32 = 0o666;

/// A note and who sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// The job that it is about.
    pub job: crate::JobName,
    /// What it says.
    pub note: gate_core::Note,
    /// The user who sent it, as the kernel says: root, or the one that the sending process runs as.
    pub from: u32,
}

/// A datagram that a job sent.
#[derive(Debug)]
pub enum Received {
    /// A note of a gate.
    Note(Heard),
    /// The ring of a plugin's events, as it was passed.
    Events {
        /// The job that it is of.
        job: crate::JobName,
        /// The ring.
        events: EventReader,
        /// The user who sent it, as in [`Heard::from`].
        from: u32,
    },
}

/// The socket to which the gates of a node send their notes. It never blocks, whatever is passed to it: what is no ring of events
/// is closed by threads of their own, and so is the socket with what waits in it. It needs [`OPEN_FILES`].
///
/// Whoever has copies of its descriptor drops them before the reader: closing the last one closes what waits in it.
///
/// A reader that ends takes the name away. Where a process died and left it, gates find nobody behind it and go at once, and the next agent
/// replaces it.
#[derive(Debug)]
pub struct NoteReader {
    /// Taken out where the reader is dropped.
    socket: ManuallyDrop<UnixDatagram>,
    path: PathBuf,
    /// Device and inode of the name, so that another agent's is not removed.
    id: (u64, u64),
}

impl NoteReader {
    /// Binds the socket of a directory, in the place of one that an earlier agent left.
    ///
    /// # Errors
    /// `ResourceBusy` if another agent reads it, `AlreadyExists` if something else than a socket has its name, `InvalidInput` for
    /// a directory whose path is too long for a socket (some 85 bytes), and what the file system says.
    pub fn bind(directory: &Path) -> io::Result<Self> {
        let path = directory.join(SOCKET);
        match fs::symlink_metadata(&path) {
            Ok(there) if !there.file_type().is_socket() => {
                return Err(io::Error::new(ErrorKind::AlreadyExists, format!("{} is not a socket", path.display())));
            }
            // Behind the name of a socket whose agent has ended there is nobody, and a connection to it is refused.
            Ok(_) if UnixDatagram::unbound()?.connect(&path).is_ok() => {
                return Err(io::Error::new(ErrorKind::ResourceBusy, format!("another agent reads {}", path.display())));
            }
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let temporary = directory.join(format!(".{SOCKET}.{}", process::id()));
        // An agent that died at this point and had our process id left its temporary name.
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let bound = Self::bind_as(&temporary, &path);
        if bound.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        bound
    }

    /// Binds under a temporary name, so that nobody finds a socket to which only some may send: the umask cuts the mode of a bind.
    fn bind_as(temporary: &Path, path: &Path) -> io::Result<Self> {
        let socket = UnixDatagram::bind(temporary)?;
        // Before anybody finds the name, so that the kernel says of every datagram who sent it.
        set_socket_passcred(&socket, true)?;
        socket.set_nonblocking(true)?;
        fs::set_permissions(temporary, Permissions::from_mode(PERMISSIONS))?;
        let made = fs::symlink_metadata(temporary)?;
        fs::rename(temporary, path)?;
        Ok(Self { socket: ManuallyDrop::new(socket), path: path.to_owned(), id: (made.dev(), made.ino()) })
    }

    /// Whether the socket's name still stands for it: somebody may have removed or replaced it. Costs a system call.
    #[must_use]
    pub fn is_there(&self) -> bool {
        fs::symlink_metadata(&self.path).is_ok_and(|there| (there.dev(), there.ino()) == self.id)
    }

    /// The next datagram; `Ok(None)` for one that is no note. Anybody may send any number of datagrams, so the caller bounds how
    /// many it reads before it does something else.
    ///
    /// # Errors
    /// `WouldBlock` if there is none, and what the kernel says.
    pub fn recv(&self) -> io::Result<Option<Heard>> {
        Ok(self.recv_any()?.and_then(|received| match received {
            Received::Note(heard) => Some(heard),
            Received::Events { .. } => None,
        }))
    }

    /// As [`Self::recv`], and takes rings of events too.
    ///
    /// # Errors
    /// As [`Self::recv`], and `ResourceBusy` as long as files that were passed before do not close; nothing is read meanwhile.
    pub fn recv_any(&self) -> io::Result<Option<Received>> {
        if let Some(behind) = closer::is_behind() {
            return Err(io::Error::new(ErrorKind::ResourceBusy, behind.to_string()));
        }
        // One byte more than a note has, so that a longer datagram does not look like a note.
        let mut bytes = [0; NOTE_BYTES + 1];
        // Room for the sender and for all that a sender can pass, so that the kernel closes nothing here.
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PASSED_MAX), ScmCredentials(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let length = recvmsg(&*self.socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)?.bytes;
        let (mut from, mut passed) = (None, Vec::new());
        for message in control.drain() {
            match message {
                RecvAncillaryMessage::ScmCredentials(sender) => from = Some(sender.uid.as_raw()),
                RecvAncillaryMessage::ScmRights(files) => passed.extend(files),
                _ => {}
            }
        }
        let received = from.zip(bytes.get(..length)).and_then(|(from, bytes)| read(bytes, from, &mut passed));
        closer::close(passed, from);
        Ok(received)
    }

    /// Ends as a drop does, and says what the file system said when the name was removed.
    ///
    /// # Errors
    /// What the file system says.
    pub fn remove(self) -> io::Result<()> {
        self.remove_name()
    }

    fn remove_name(&self) -> io::Result<()> {
        match fs::symlink_metadata(&self.path) {
            Ok(there) if (there.dev(), there.ino()) == self.id => fs::remove_file(&self.path),
            // Another agent's, or none.
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl Drop for NoteReader {
    fn drop(&mut self) {
        // Nobody is to find a socket that is closed late, and to those who have found it no more may be sent.
        drop(self.remove_name());
        drop(self.socket.shutdown(Shutdown::Read));
        // SAFETY: nothing uses the field after this, because the reader is being dropped.
        let socket = unsafe { ManuallyDrop::take(&mut self.socket) };
        // What waits in a socket that is closed is closed with it, by whoever closes it.
        closer::close(vec![socket.into()], None);
    }
}

/// What a datagram says, which `passed` these files. A ring is taken from them.
fn read(bytes: &[u8], from: u32, passed: &mut Vec<OwnedFd>) -> Option<Received> {
    if let Some(JobNote { job, note }) = decode(bytes) {
        return Some(Received::Note(Heard { job, note, from }));
    }
    let (job, writer) = decode_greeting(bytes)?;
    let events = EventReader::open(passed)?;
    (events.writer() == writer).then_some(Received::Events { job, events, from })
}

impl AsFd for NoteReader {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for NoteReader {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}
