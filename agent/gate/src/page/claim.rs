//! The right to write a job's page: a lock on a file that nobody but the agent can open.
//!
//! The lock is not on the page itself. Everybody who may read a file may lock it (flock(2)), gates have to read the page, and so
//! any user of the node could keep a restarted agent from taking its pages over.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{FileType, FlockOperation, Mode, OFlags, flock, fstat},
    io::Errno,
    process::geteuid,
};

use crate::directory::Stem;

/// Times that the file may be another one each time we look before we say so. Two agents that start at once need two.
const TAKE_TRIES: usize = 4;
/// The agent alone: whoever can open the file can lock it.
const PERMISSIONS: u32 = 0o600;

/// Held until it is dropped; the kernel lets go of it when the agent dies.
#[derive(Debug)]
pub(super) struct Claim {
    path: PathBuf,
    /// Locked for as long as it is open.
    _file: File,
}

impl Claim {
    /// Takes the right, or says that another agent has it.
    pub(super) fn take(directory: &Path, stem: &Stem) -> io::Result<Self> {
        let path = directory.join(stem.lock_file());
        for _ in 0..TAKE_TRIES {
            if let Some(claim) = Self::try_take(&path)? {
                return Ok(claim);
            }
        }
        Err(io::Error::new(ErrorKind::ResourceBusy, format!("{} keeps changing under us", path.display())))
    }

    /// `None` if what was there could not be used, and is there no more.
    fn try_take(path: &Path) -> io::Result<Option<Self>> {
        // NOFOLLOW turns a link into ELOOP, and NONBLOCK keeps the open of whatever else is there from waiting.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(PERMISSIONS).custom_flags(flags.bits().cast_signed());
        let file = match options.open(path) {
            Ok(file) => file,
            // The directory is the agent's own, so a link under this name is of no use to anybody: it is removed and never followed.
            Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => return fs::remove_file(path).map(|()| None),
            Err(error) => return Err(error),
        };
        let found = fstat(&file)?;
        let ours = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile && found.st_uid == geteuid().as_raw();
        if !ours || Mode::from_raw_mode(found.st_mode).intersects(Mode::RWXG | Mode::RWXO) {
            // Other users may have opened the file and may lock it, so a lock on it says nothing.
            return fs::remove_file(path).map(|()| None);
        }
        // The kernel drops the lock when the last descriptor closes (flock(2)), so a lock that is held means an agent that lives.
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
            Errno::WOULDBLOCK => io::Error::new(ErrorKind::ResourceBusy, format!("another agent holds {}", path.display())),
            other => other.into(),
        })?;
        // The agent that had the lock may have removed the file between our open and our flock, and another may have made a new
        // one. A lock on an unlinked file keeps nobody out.
        let same = fs::symlink_metadata(path).is_ok_and(|there| (there.dev(), there.ino()) == (found.st_dev, found.st_ino));
        Ok(same.then(|| Self { path: path.to_owned(), _file: file }))
    }

    /// Gives the right up for good: the file goes while the lock is still held, so that nobody removes the next one's.
    pub(super) fn remove(self) -> io::Result<()> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}
