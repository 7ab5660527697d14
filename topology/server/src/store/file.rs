//! The state file: one redb database of records.
//!
//! A transaction that failed leaves the file in doubt: redb writes the header that names it before the sync that failed, so a
//! restart may find it, and `disk` says why no later sync helps. All that was acknowledged is kept in memory as well, and goes
//! into a new file before anything else is acknowledged.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use redb::{Database, DatabaseError, Durability, ReadableDatabase, ReadableTable, StorageError, TableDefinition, TableError};
use state::Record;

use super::{
    disk::{self, Fresh, OpenError, SyncGuard},
    record::{self, Change, SCHEMA},
};
use crate::resolve::one_line;

const META: TableDefinition<'_, &str, u32> = TableDefinition::new("meta");
const RECORDS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("records");
const SCHEMA_KEY: &str = "schema";

/// Why the state file cannot be used. It is never replaced or emptied because of an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Another process has it open.
    #[error("{}: another process has it open", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// Not one of ours, or damaged.
    #[error("{}: not a state file of this service, or damaged: {problem}; restore a backup, or move it away to begin anew", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found.
        problem: String,
    },
    /// Written by a later version.
    #[error("{}: written by a later version (schema {found}; this program knows {SCHEMA})", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: u32,
    },
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// An open state file.
pub struct StateFile {
    path: PathBuf,
    guard: SyncGuard,
    /// Stays open while the file is in doubt, because it holds the lock.
    database: Database,
    /// What was acknowledged, by key.
    kept: BTreeMap<String, Vec<u8>>,
    /// Why the file may not say what was acknowledged.
    doubt: Option<String>,
    rewrites: u64,
}

impl std::fmt::Debug for StateFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StateFile").field("path", &self.path).field("doubt", &self.doubt).finish_non_exhaustive()
    }
}

impl StateFile {
    /// Opens the file, or makes an empty one where none is.
    ///
    /// # Errors
    /// [`StoreError`] names the file.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_guarded(path, Arc::new(|| Ok(())))
    }

    /// As [`StateFile::open`], on a disk whose syncs fail when `guard` says so.
    ///
    /// # Errors
    /// As [`StateFile::open`].
    pub fn open_guarded(path: &Path, guard: SyncGuard) -> Result<Self, StoreError> {
        let io = |source| StoreError::Io { path: path.into(), source };
        let exists = path.try_exists().map_err(io)?;
        // A link stays: what it leads to is replaced.
        let path = if exists { path.canonicalize().map_err(io)? } else { path.into() };
        let made = if exists { None } else { create(&path, &guard)? };
        let database = match made {
            Some(database) => database,
            None => open(&path, &guard)?,
        };
        let kept = read(&database).map_err(|e| damaged(&path, e))?;
        Ok(Self { path, guard, database, kept, doubt: None, rewrites: 0 })
    }

    /// Everything that is kept, by key.
    ///
    /// # Errors
    /// [`StoreError`] names the file; a record that cannot be read is [`StoreError::Damaged`].
    pub fn records(&self) -> Result<Vec<Record>, StoreError> {
        self.dump().map(|(key, value)| record::record(key, value).map_err(|e| damaged(&self.path, e))).collect()
    }

    /// Keys and documents as they stand in the file.
    pub fn dump(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.kept.iter().map(|(key, value)| (key.as_str(), value.as_slice()))
    }

    /// Why the file may not say what was acknowledged; `None` while it does.
    #[must_use]
    pub fn doubt(&self) -> Option<&str> {
        self.doubt.as_deref()
    }

    /// How often the whole file was written anew.
    #[must_use]
    pub fn rewrites(&self) -> u64 {
        self.rewrites
    }

    /// Writes changes in one transaction and returns when the disk has them. When that fails, a new file with them is tried at
    /// once.
    ///
    /// # Errors
    /// The reason on one line. The changes do not count, but until [`StateFile::doubt`] is `None` again a process that opens the
    /// file may find them. The next call writes the whole file anew.
    pub fn write(&mut self, changes: &[Change]) -> Result<(), String> {
        if self.doubt.is_none() {
            match transact(&self.database, false, &BTreeMap::new(), changes) {
                Ok(()) => {
                    self.keep(changes);
                    return Ok(());
                }
                Err(e) => {
                    let doubt = format!("{}: {}", self.path.display(), one_line(&e));
                    tracing::error!(doubt, "a write of the state file failed, so it is in doubt; it is written anew as a whole");
                    self.doubt = Some(doubt);
                }
            }
        }
        self.rewrite(changes)
    }

    /// Puts a new file with all that was acknowledged in the place of one that is in doubt.
    ///
    /// # Errors
    /// The reason on one line; the file stays in doubt.
    pub fn heal(&mut self) -> Result<(), String> {
        if self.doubt.is_some() { self.rewrite(&[]) } else { Ok(()) }
    }

    fn rewrite(&mut self, changes: &[Change]) -> Result<(), String> {
        let refuse = |problem: &dyn std::fmt::Display| format!("{}: written anew: {}", self.path.display(), one_line(problem));
        let done = Fresh::create(&self.path, &self.guard).map_err(|e| refuse(&failed(&self.path, e))).and_then(|fresh| {
            match transact(&fresh.database, true, &self.kept, changes) {
                Ok(()) => fresh.rename().map_err(|e| refuse(&e)),
                Err(e) => {
                    fresh.discard();
                    Err(refuse(&e))
                }
            }
        });
        match done {
            // The old file gives its lock up here: the new one, which is locked, has its name.
            Ok(database) => self.database = database,
            Err(doubt) => {
                self.doubt = Some(doubt.clone());
                return Err(doubt);
            }
        }
        if let Err(e) = disk::sync_folder(&self.path, &self.guard) {
            let doubt = format!("{}: its folder: {}", self.path.display(), one_line(&e));
            self.doubt = Some(doubt.clone());
            return Err(doubt);
        }
        self.keep(changes);
        self.doubt = None;
        self.rewrites += 1;
        tracing::warn!(path = %self.path.display(), "the state file was written anew and is well");
        Ok(())
    }

    fn keep(&mut self, changes: &[Change]) {
        for change in changes {
            match change {
                Change::Put { key, value } => drop(self.kept.insert(key.clone(), value.clone())),
                Change::Remove { keys } => keys.iter().for_each(|key| drop(self.kept.remove(key))),
            }
        }
    }
}

/// One durable transaction: the mark of a file of ours if it is new, then all of `kept`, then the changes.
fn transact(database: &Database, new: bool, kept: &BTreeMap<String, Vec<u8>>, changes: &[Change]) -> Result<(), redb::Error> {
    let mut transaction = database.begin_write()?;
    transaction.set_durability(Durability::Immediate)?;
    if new {
        transaction.open_table(META)?.insert(SCHEMA_KEY, SCHEMA)?;
    }
    {
        let mut table = transaction.open_table(RECORDS)?;
        for (key, value) in kept {
            table.insert(key.as_str(), value.as_slice())?;
        }
        for change in changes {
            match change {
                Change::Put { key, value } => drop(table.insert(key.as_str(), value.as_slice())?),
                Change::Remove { keys } => {
                    for key in keys {
                        table.remove(key.as_str())?;
                    }
                }
            }
        }
    }
    transaction.commit()?;
    Ok(())
}

fn read(database: &Database) -> Result<BTreeMap<String, Vec<u8>>, redb::Error> {
    let table = database.begin_read()?.open_table(RECORDS)?;
    let mut out = BTreeMap::new();
    for entry in table.iter()? {
        let (key, value) = entry?;
        out.insert(key.value().to_owned(), value.value().to_vec());
    }
    Ok(out)
}

/// Makes an empty file under another name and renames it, so that a service killed meanwhile leaves no half-made one. `None`:
/// another process was faster.
fn create(path: &Path, guard: &SyncGuard) -> Result<Option<Database>, StoreError> {
    let io = |source| StoreError::Io { path: path.into(), source };
    let fresh = Fresh::create(path, guard).map_err(|e| failed(path, e))?;
    // Under the lock of the new file nobody else makes one.
    if path.try_exists().map_err(io)? {
        fresh.discard();
        return Ok(None);
    }
    if let Err(e) = transact(&fresh.database, true, &BTreeMap::new(), &[]) {
        fresh.discard();
        return Err(io(io::Error::other(one_line(&e))));
    }
    let database = fresh.rename().map_err(io)?;
    disk::sync_folder(path, guard).map_err(io)?;
    Ok(Some(database))
}

fn open(path: &Path, guard: &SyncGuard) -> Result<Database, StoreError> {
    // A database of redb is whole pages and begins with its mark; redb itself would make one of an empty file.
    let length = fs::metadata(path).map_err(|source| StoreError::Io { path: path.into(), source })?.len();
    if length == 0 {
        return Err(damaged(path, "it is empty"));
    }
    let mut database = disk::open(path, guard).map_err(|e| failed(path, e))?;
    let schema = || -> Result<u32, redb::Error> {
        let transaction = database.begin_read()?;
        let table = match transaction.open_table(META) {
            Err(TableError::TableDoesNotExist(_)) => return Ok(0),
            table => table?,
        };
        Ok(table.get(SCHEMA_KEY)?.map_or(0, |v| v.value()))
    };
    match schema().map_err(|e| damaged(path, e))? {
        0 => return Err(damaged(path, "it has no schema")),
        SCHEMA => {}
        found => return Err(StoreError::Newer { path: path.into(), found }),
    }
    // Opening does not read every page, and a slot with a flipped bit is still a slot. The file is small: the check takes milliseconds.
    match database.check_integrity() {
        Ok(true) => Ok(database),
        Ok(false) => Err(damaged(path, "a checksum does not match")),
        Err(e) => Err(damaged(path, e)),
    }
}

fn failed(path: &Path, error: OpenError) -> StoreError {
    match error {
        OpenError::InUse => StoreError::InUse { path: path.into() },
        OpenError::Io(source) => StoreError::Io { path: path.into(), source },
        OpenError::Database(DatabaseError::Storage(StorageError::Io(source))) if !is_content(&source) => {
            StoreError::Io { path: path.into(), source }
        }
        OpenError::Database(e) => damaged(path, e),
    }
}

/// Whether the error is about what stands in the file, and not about reading it.
fn is_content(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
}

fn damaged(path: &Path, problem: impl std::fmt::Display) -> StoreError {
    StoreError::Damaged { path: path.into(), problem: one_line(&problem) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epoch(n: u64) -> Change {
        record::change(&Record::Epoch { epoch: n }).unwrap()
    }

    #[test]
    fn what_was_written_is_there_after_opening_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.redb");
        let mut file = StateFile::open(&path).unwrap();
        assert!(matches!(StateFile::open(&path), Err(StoreError::InUse { .. })));
        file.write(&[epoch(1), Change::Put { key: "key/k".into(), value: b"{}".to_vec() }]).unwrap();
        file.write(&[epoch(2), Change::Remove { keys: vec!["key/k".into()] }]).unwrap();
        drop(file);
        assert_eq!(StateFile::open(&path).unwrap().records().unwrap(), [Record::Epoch { epoch: 2 }]);
    }

    #[test]
    fn foreign_damaged_and_newer_files_are_refused_and_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let refuse = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            fs::write(&path, bytes).unwrap();
            let error = StateFile::open(&path).unwrap_err();
            assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
            assert_eq!(fs::read(&path).unwrap(), bytes, "{name} was changed");
        };
        refuse("empty", b"");
        refuse("text", "schema: antiphase.fabric/v1\n".repeat(1_000).as_bytes());
        refuse("zeroes", &[0; 1 << 16]);

        let newer = folder.path().join("newer");
        drop(StateFile::open(&newer).unwrap());
        let database = Database::open(&newer).unwrap();
        let transaction = database.begin_write().unwrap();
        transaction.open_table(META).unwrap().insert(SCHEMA_KEY, SCHEMA + 1).unwrap();
        transaction.commit().unwrap();
        drop(database);
        assert!(matches!(StateFile::open(&newer), Err(StoreError::Newer { found, .. }) if found == SCHEMA + 1));

        let other = folder.path().join("other");
        drop(Database::create(&other).unwrap());
        assert!(matches!(StateFile::open(&other), Err(StoreError::Damaged { .. })));
    }

    #[test]
    fn a_service_killed_while_it_made_its_file_begins_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.redb");
        fs::write(folder.path().join("state.redb.new"), b"half").unwrap();
        assert!(StateFile::open(&path).unwrap().records().unwrap().is_empty());
    }

    /// A disk of which a test makes syncs fail: `Some(n)` lets n more pass.
    type Fuse = Arc<std::sync::Mutex<Option<u32>>>;

    fn fused() -> (Fuse, SyncGuard) {
        let fuse = Fuse::default();
        let burn = Arc::clone(&fuse);
        let guard = move || match &mut *burn.lock().unwrap() {
            Some(0) => Err(io::Error::other("EIO")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        };
        (fuse, Arc::new(guard))
    }

    fn put(key: &str) -> Change {
        Change::Put { key: key.into(), value: b"{}".to_vec() }
    }

    fn remove(key: &str) -> Change {
        Change::Remove { keys: vec![key.into()] }
    }

    fn keys(file: &StateFile) -> Vec<&str> {
        file.dump().map(|(key, _)| key).collect()
    }

    /// What a process that is killed now leaves behind, and another one finds.
    fn killed(path: &Path, file: StateFile) -> StateFile {
        let copy = path.with_extension("copy");
        fs::copy(path, &copy).unwrap();
        std::mem::forget(file);
        StateFile::open(&copy).unwrap()
    }

    #[test]
    fn what_a_failed_write_refused_is_not_there_and_what_was_acknowledged_is() {
        // Every sync of a rewrite in turn is the one that fails; the first is that of the change itself.
        for passes in 0..6 {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("state.redb");
            let (fuse, guard) = fused();
            let mut file = StateFile::open_guarded(&path, guard).unwrap();
            file.write(&[put("a")]).unwrap();
            *fuse.lock().unwrap() = Some(passes);
            // Until one is refused; those before were acknowledged.
            let taken = (0..9).take_while(|n| file.write(&[put(&format!("n{n}")), remove("a"), put("refused")]).is_ok()).count();
            assert!(taken < 9 && file.doubt().is_some(), "{passes}");
            if taken == 0 {
                assert_eq!(keys(&file), ["a"], "{passes}: the refused change counts");
            }
            assert!(file.heal().is_err());
            *fuse.lock().unwrap() = None;
            file.write(&[put("b"), remove("refused")]).unwrap();
            assert_eq!((file.doubt(), file.rewrites()), (None, 1));
            let expected: Vec<String> = file.dump().map(|(key, _)| key.to_owned()).collect();
            assert!(expected.iter().any(|key| key == "b") && expected.iter().any(|key| key == "a") == (taken == 0), "{expected:?}");
            assert_eq!(keys(&killed(&path, file)), expected, "{passes}");
        }
    }

    #[test]
    fn a_sync_that_fails_once_costs_no_change() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.redb");
        let once = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let fail = Arc::clone(&once);
        let guard = move || if fail.swap(false, std::sync::atomic::Ordering::Relaxed) { Err(io::Error::other("EIO")) } else { Ok(()) };
        let mut file = StateFile::open_guarded(&path, Arc::new(guard)).unwrap();
        file.write(&[put("a")]).unwrap();
        once.store(true, std::sync::atomic::Ordering::Relaxed);
        file.write(&[remove("a"), put("b")]).unwrap();
        assert_eq!((file.rewrites(), file.doubt()), (1, None));
        assert!(matches!(StateFile::open(&path), Err(StoreError::InUse { .. })), "the new file is not locked");
        file.write(&[put("c")]).unwrap();
        assert_eq!(keys(&killed(&path, file)), ["b", "c"]);
    }

    #[test]
    fn a_file_in_doubt_stays_locked_and_a_disk_that_cannot_sync_starts_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.redb");
        let (fuse, guard) = fused();
        let mut file = StateFile::open_guarded(&path, Arc::clone(&guard)).unwrap();
        *fuse.lock().unwrap() = Some(0);
        file.write(&[put("a")]).unwrap_err();
        assert!(matches!(StateFile::open(&path), Err(StoreError::InUse { .. })));
        drop(file);
        assert!(matches!(StateFile::open_guarded(&path, guard), Err(StoreError::Io { .. })), "what was read is not known to be durable");
        StateFile::open(&path).unwrap();
    }

    #[test]
    fn of_those_that_make_the_first_file_at_once_one_has_it() {
        for _ in 0..50 {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("state.redb");
            let start = std::sync::Barrier::new(4);
            let opened: Vec<Result<StateFile, StoreError>> = std::thread::scope(|scope| {
                let one = || {
                    start.wait();
                    StateFile::open(&path)
                };
                let all: Vec<_> = (0..4).map(|_| scope.spawn(one)).collect();
                all.into_iter().map(|t| t.join().unwrap()).collect()
            });
            let in_use = opened.iter().filter(|o| matches!(o, Err(StoreError::InUse { .. }))).count();
            let won = opened.iter().filter(|o| o.is_ok()).count();
            assert_eq!((won, in_use), (1, 3), "{opened:?}");
        }
    }
}
