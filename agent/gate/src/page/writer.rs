//! The agent's side of a page.

use std::{
    fs::{self, File, Metadata, OpenOptions},
    io::{self, ErrorKind, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    process,
    sync::atomic::Ordering,
};

use gate_core::Schedule;
use rustix::{
    fs::{Mode, OFlags, fchmod, fstat},
    io::Errno,
    process::geteuid,
};

use super::{BODY_AT, LAYOUT, LAYOUT_AT, MAGIC, MAGIC_AT, RETIRED, SEQUENCE_AT, claim::Claim, encode, lock};
use crate::{
    directory::{JobName, Stem, is_sized},
    futex,
    words::{FILE_BYTES, Words},
};

/// Times that a page may appear or vanish while we take it before we say so. With the claim in our hand no agent does that.
const CREATE_TRIES: usize = 4;

/// Everybody reads, the agent writes.
const PERMISSIONS: u32 = 0o644;

/// The schedule page of one job, mapped for writing and claimed against other agents while this lives.
///
/// A dropped writer leaves the page in place: an agent that is restarted finds it again, and until then its heartbeat grows old.
#[derive(Debug)]
pub struct PageWriter {
    path: PathBuf,
    /// Device and inode; the mapping keeps the inode from being another file's.
    id: (u64, u64),
    words: Words,
    claim: Claim,
}

impl PageWriter {
    /// Makes the page of a job, or takes over the one that an earlier agent left. A job that has it mapped keeps following
    /// it: the file stays the same. A page of another layout is replaced, and jobs that have it mapped look for the new file once
    /// its heartbeat is old. A new page lets everything pass until the first [`Self::write`].
    ///
    /// # Errors
    /// `InvalidInput` for a name that no job can have, `ResourceBusy` if another agent has the page, and what the file system
    /// says.
    pub fn create(directory: &Path, job: &str) -> io::Result<Self> {
        let job = JobName::try_new(job).map_err(|error| io::Error::new(ErrorKind::InvalidInput, error))?;
        Self::create_of(directory, &job.stem())
    }

    /// As [`Self::create`], for a page whose job is known by its files only: what an earlier agent left.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub fn create_of(directory: &Path, stem: &Stem) -> io::Result<Self> {
        let claim = Claim::take(directory, stem)?;
        match Self::take_or_make(directory, stem) {
            Ok((path, id, words)) => Ok(Self { path, id, words, claim }),
            Err(error) => {
                // A lock file that cannot be removed is swept later, or found again at the next try.
                let _ = claim.remove();
                Err(error)
            }
        }
    }

    /// The page, with the claim to it in our hand.
    fn take_or_make(directory: &Path, stem: &Stem) -> io::Result<(PathBuf, (u64, u64), Words)> {
        let name = stem.file("page");
        let path = directory.join(&name);
        let temporary = directory.join(format!(".{name}.{}", process::id()));
        for _ in 0..CREATE_TRIES {
            if let Some((file, words)) = take_over(&path)? {
                return Ok((path, id(&file.metadata()?), words));
            }
            if let Some((file, words)) = make(&path, &temporary)? {
                return Ok((path, id(&file.metadata()?), words));
            }
        }
        Err(io::Error::new(ErrorKind::ResourceBusy, format!("{} keeps changing under us", path.display())))
    }

    /// Publishes a schedule. Writing it again with a newer `written` is the heartbeat. A gate that waits for its turn sees it
    /// within [`SLICE`](crate::SLICE).
    pub fn write(&mut self, schedule: &Schedule) {
        lock(&self.words).write(&encode(schedule, 0));
    }

    /// As [`Self::write`], and wakes the gates that wait for the page: for what changes how long a start waits for its turn.
    /// Costs a system call more.
    pub fn write_and_wake(&mut self, schedule: &Schedule) {
        self.write(schedule);
        self.wake();
    }

    fn wake(&self) {
        futex::wake_all(&self.words.all()[SEQUENCE_AT]);
    }

    /// Whether the page's name still stands for the page: somebody may have removed or replaced the file, or mounted over its directory. Costs
    /// a system call.
    #[must_use]
    pub fn is_there(&self) -> bool {
        fs::symlink_metadata(&self.path).is_ok_and(|there| id(&there) == self.id)
    }

    /// Takes the page back: gates that have it mapped go, and look for a new one.
    ///
    /// # Errors
    /// What the file system says; the gates have been told all the same.
    pub fn remove(self) -> io::Result<()> {
        // The flag comes before the unlink: gates that have the page mapped see no names, only words.
        lock(&self.words).write(&encode(&Schedule::default(), RETIRED));
        self.wake();
        match fs::symlink_metadata(&self.path) {
            Ok(there) if id(&there) == self.id => fs::remove_file(&self.path)?,
            // Somebody replaced the file behind our back; the file that is there now is not ours to remove.
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        // The claim goes last, so that its next holder finds nothing of ours.
        self.claim.remove()
    }
}

/// Device and inode: which file it is.
fn id(of: &Metadata) -> (u64, u64) {
    (of.dev(), of.ino())
}

/// The page that is there, `None` if there is none that can be used (and then there is none any more).
fn take_over(path: &Path) -> io::Result<Option<(File, Words)>> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = match OpenOptions::new().read(true).write(true).custom_flags(flags.bits().cast_signed()).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => return fs::remove_file(path).map(|()| None),
        Err(error) => return Err(error),
    };
    let found = fstat(&file)?;
    // A user who may write the file may also shrink it under our mapping, and our next write would be a SIGBUS.
    let others_write = Mode::from_raw_mode(found.st_mode).intersects(Mode::WGRP | Mode::WOTH);
    if is_sized(&found) && found.st_uid == geteuid().as_raw() && !others_write {
        let words = Words::writable(&file)?;
        let header = [MAGIC_AT, LAYOUT_AT].map(|at| words.all()[at].load(Ordering::Relaxed));
        if header == [MAGIC, LAYOUT] {
            clear(&words);
            return Ok(Some((file, words)));
        }
    }
    // The file is no page of ours, so no gate follows it. An unlink and no truncation, because somebody may have it mapped.
    fs::remove_file(path).map(|()| None)
}

/// Lets everything pass on a page whose agent died in the middle of a write or of a removal: its words cannot be kept.
fn clear(words: &Words) {
    // The claim makes this process the only writer, so no word changes between these loads.
    let retired = words.all()[BODY_AT].load(Ordering::Relaxed) != 0;
    if retired || lock(words).is_torn() {
        lock(words).write(&encode(&Schedule::default(), 0));
    }
}

/// A new page; `None` if somebody else made one meanwhile.
fn make(path: &Path, temporary: &Path) -> io::Result<Option<(File, Words)>> {
    // An agent that died at this point and had our process id left its temporary file.
    match fs::remove_file(temporary) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().read(true).write(true).create_new(true).mode(PERMISSIONS).open(temporary)?;
    // link(2) fails where the name exists, and never replaces a page that a gate may have mapped as rename(2) would.
    let made = fill(&mut file).and_then(|words| match fs::hard_link(temporary, path) {
        Ok(()) => Ok(Some(words)),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(None),
        Err(error) => Err(error),
    });
    fs::remove_file(temporary)?;
    Ok(made?.map(|words| (file, words)))
}

/// The whole page before anybody can see it, every byte written: a hole in a full tmpfs would be a fault later.
fn fill(file: &mut File) -> io::Result<Words> {
    let mut bytes = [0; FILE_BYTES];
    bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
    bytes[8..16].copy_from_slice(&LAYOUT.to_le_bytes());
    file.write_all(&bytes)?;
    // The umask may have cut the mode of the open; jobs of other users have to read the page.
    fchmod(&*file, Mode::from_raw_mode(PERMISSIONS))?;
    Words::writable(file)
}
