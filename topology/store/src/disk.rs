//! The state file as a file: locked, verified and synced when it is opened, and replaced whole when a write failed.
//!
//! `fsync` tells once that a page could not be written; Linux then counts the page as clean, keeps what it holds in memory and
//! tells nothing more. After such an error neither the file, nor a later `fsync` of it, nor what a new process reads from it says
//! what the disk has. So two things are never done: going on with a file of which a write failed, and building on a file whose
//! bytes were not made durable since it was opened.
//!
//! - [`verify_and_sync`] writes every byte of a file back in place and syncs, under the lock. The write marks the pages as not
//!   written, so the sync speaks of them. What a start sees is on the disk, or there is no start.
//! - [`Fresh`] is a new file. All its pages are new, so its sync speaks of all of them; then it takes the place of the old one by
//!   a rename and a sync of the folder. A rename that could not be synced is done anew, with another file.
//!
//! The lock is on the file that stands under the name: a new file is locked before it gets the name, and the old one until then.
//!
//! A name can be taken away from a file that is open: whoever moves or deletes it meets no lock, and writes go on into a file that no
//! start finds. So after each write it is looked whether the file still stands under its name ([`Own::standing`]).

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io,
    ops::{Bound, Range},
    os::unix::fs::{FileExt as _, MetadataExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use redb::{BackendError, Builder, Database, DatabaseError, StorageBackend, backends::FileBackend};

use rustix::{fs::SeekFrom, io::Errno};

use crate::trial::Trial;

/// Memory for pages. A fabric of 100,000 NICs takes 11 MiB; the rest is small.
const CACHE_BYTES: usize = 32 << 20;
/// Bytes that are read and written back at a time.
const VERIFY_BYTES: usize = 1 << 20;

/// Asked before each sync of a file or a folder; an error is taken for the sync's. For tests of failing disks.
pub type SyncGuard = Arc<dyn Fn() -> io::Result<()> + Send + Sync>;

/// A file under redb whose syncs can be made to fail.
struct Disk {
    file: FileBackend,
    guard: SyncGuard,
}

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.file.fmt(f)
    }
}

type Bounds = (Bound<u64>, Bound<u64>);

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        // The guard stands in for a disk that fails: in the service it always passes.
        (self.guard)()?;
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        let range: Bounds = (start, end);
        self.file.query_lock_range(range.0, range.1)
    }
}

/// Why a file could not be opened.
#[derive(Debug)]
pub(super) enum OpenError {
    /// Somebody else has it.
    InUse,
    /// The operating system refused.
    Io(io::Error),
    /// The database refused.
    Database(DatabaseError),
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A file that exists, locked.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) file: File,
    /// Why it is open for reads only: its file system is read-only.
    pub(super) unwritable: Option<io::Error>,
}

/// Opens a file that exists, and locks it. Nothing is written.
pub(super) fn take(path: &Path) -> Result<Taken, OpenError> {
    let (file, unwritable) = match OpenOptions::new().read(true).write(true).open(path) {
        Ok(file) => (file, None),
        // An operating system mounts a file system so after an error, and what stands in it can still be served.
        Err(e) if e.kind() == io::ErrorKind::ReadOnlyFilesystem => (File::open(path)?, Some(e)),
        Err(e) => return Err(e.into()),
    };
    lock(&file)?;
    // Between opening and locking, the file's owner may have put another file in its place, and ended.
    if !stands_at(&file, path)? {
        return Err(OpenError::InUse);
    }
    Ok(Taken { file, unwritable })
}

/// The database in a file that [`take`] gave, for a look: whatever is done with it, the file stays as it is, and locked.
pub(super) fn on_trial(file: &File) -> Result<Database, OpenError> {
    builder().create_with_backend(Trial::of(file.try_clone()?)?).map_err(OpenError::Database)
}

/// The database in a file that [`take`] gave and [`verify_and_sync`] made durable.
pub(super) fn open(file: &File, guard: &SyncGuard) -> Result<Database, OpenError> {
    let opened = database(file.try_clone()?, guard);
    if opened.is_err() {
        // Closing what it could not open, redb gave up the lock, which is on the file and not on its copy of the descriptor.
        lock(file)?;
    }
    opened
}

/// A new file beside the one that it will replace.
pub(super) struct Fresh {
    /// Empty at first, and locked.
    pub(super) database: Database,
    /// Which file it is.
    pub(super) own: Own,
    new: PathBuf,
    path: PathBuf,
}

impl Fresh {
    /// Makes the file, with the permissions of `old`. What a killed process left under this name is overwritten; a process that lives
    /// keeps its file.
    pub(super) fn create(path: &Path, old: Option<&Own>, guard: &SyncGuard) -> Result<Self, OpenError> {
        let mut name = path.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "names no file"))?.to_owned();
        // The new file is in the same folder, because a rename is one step only within a file system.
        name.push(".new");
        let new = path.with_file_name(name);
        // The file is emptied only under its lock: another process may hold it as its new state file.
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&new)?;
        lock(&file)?;
        // The file may have been renamed since it was opened: then it is a state file, and must not be emptied.
        if !stands_at(&file, &new)? {
            return Err(OpenError::InUse);
        }
        file.set_len(0)?;
        // The rewrite keeps the permissions: a file that only its owner could read stays so.
        if let Some(old) = old {
            file.set_permissions(old.permissions.clone())?;
        }
        let own = Own::of(&file)?;
        // A file that redb could not begin would only take room; its error matters and the removal's does not.
        let made = database(file, guard);
        if made.is_err() {
            let _ = fs::remove_file(&new);
        }
        Ok(Self { database: made?, own, new, path: path.into() })
    }

    /// Takes the file's place, once its transactions are synced. The rename is not yet durable.
    pub(super) fn rename(self) -> io::Result<(Database, Own)> {
        match fs::rename(&self.new, &self.path) {
            Ok(()) => Ok((self.database, self.own)),
            Err(e) => {
                self.discard();
                Err(e)
            }
        }
    }

    /// Gives its room on the disk back.
    pub(super) fn discard(self) {
        // A file that cannot be removed is overwritten by the next rewrite.
        let _ = fs::remove_file(&self.new);
    }
}

/// Makes a rename durable.
pub(super) fn sync_folder(path: &Path, guard: &SyncGuard) -> io::Result<()> {
    guard()?;
    // The parent of a bare file name is the empty path, which no system call takes.
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

fn database(file: File, guard: &SyncGuard) -> Result<Database, OpenError> {
    let disk = Disk { file: FileBackend::new(file).map_err(OpenError::Database)?, guard: Arc::clone(guard) };
    builder().create_with_backend(disk).map_err(|e| match e {
        DatabaseError::DatabaseAlreadyOpen => OpenError::InUse,
        e => OpenError::Database(e),
    })
}

fn builder() -> Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    builder
}

/// The same lock that the database takes, a moment earlier.
fn lock(file: &File) -> Result<(), OpenError> {
    file.try_lock().map_err(|e| match e {
        TryLockError::WouldBlock => OpenError::InUse,
        TryLockError::Error(e) => OpenError::Io(e),
    })
}

/// Which file it is that is open, and what others may do with it.
#[derive(Clone, Debug)]
pub(super) struct Own {
    device: u64,
    inode: u64,
    permissions: fs::Permissions,
}

/// What stands under the name of a file that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// The file.
    Own,
    /// Nothing.
    Nothing,
    /// Another file.
    Other,
}

impl Own {
    pub(super) fn of(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        // While the file is open no other one gets its inode.
        Ok(Self { device: metadata.dev(), inode: metadata.ino(), permissions: metadata.permissions() })
    }

    /// What stands under the name now.
    pub(super) fn standing(&self, path: &Path) -> io::Result<Standing> {
        match fs::metadata(path) {
            Ok(there) if (there.dev(), there.ino()) == (self.device, self.inode) => Ok(Standing::Own),
            Ok(_) => Ok(Standing::Other),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Standing::Nothing),
            Err(e) => Err(e),
        }
    }
}

fn stands_at(file: &File, path: &Path) -> io::Result<bool> {
    // A name may lead to another file at any moment; device and inode say which file the lock is on.
    Ok(Own::of(file)?.standing(path)? == Standing::Own)
}

/// Reads every byte, writes it back as it is, and syncs: what was read is on the disk then, or this is an error.
pub(super) fn verify_and_sync(file: &File, guard: &SyncGuard) -> io::Result<()> {
    // One buffer of `VERIFY_BYTES` serves a file of any length. The lock keeps others from writing between the read and the write.
    let mut bytes = vec![0; VERIFY_BYTES];
    let mut at = 0;
    // Holes have no page that could be lost, and filling them would need room on a disk that may be full.
    while let Some(data) = stretch(file, at)? {
        at = data.start;
        while at < data.end {
            let most = usize::try_from(data.end - at).unwrap_or(VERIFY_BYTES).min(VERIFY_BYTES);
            let read = match file.read_at(&mut bytes[..most], at) {
                // The end of the file, which writing back in place does not move.
                Ok(0) => break,
                Ok(read) => read,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            file.write_all_at(&bytes[..read], at)?;
            at += read as u64;
        }
        at = data.end;
    }
    guard()?;
    // Every page was just written, so this sync answers for every page (see the head of this file).
    file.sync_all()
}

/// The next bytes from `at` on that are no hole; `None` if there are none.
fn stretch(file: &File, at: u64) -> io::Result<Option<Range<u64>>> {
    let start = match rustix::fs::seek(file, SeekFrom::Data(at)) {
        Ok(start) => start,
        // Nothing but a hole up to the end, or the end itself (lseek(2)).
        Err(Errno::NXIO) => return Ok(None),
        Err(e) => return Err(e.into()),
    };
    // The end of a file counts as a hole.
    Ok(Some(start..rustix::fs::seek(file, SeekFrom::Hole(start))?))
}
