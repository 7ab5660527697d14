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

use crate::{
    AppendError, Change, Loaded, Record, Revision, SCHEMA, Store, StoreError,
    disk::{self, Fresh, OpenError, Own, Standing, SyncGuard, Taken},
    migrate, one_line,
    record::RecordError,
};

const META: TableDefinition<'_, &str, u32> = TableDefinition::new("meta");
const COUNTS: TableDefinition<'_, &str, u64> = TableDefinition::new("counts");
const RECORDS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("records");
const SCHEMA_KEY: &str = "schema";
const REVISION_KEY: &str = "revision";

/// What a [`Change`] does to the file.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Edit {
    Put { key: String, value: Vec<u8> },
    Remove { key: String },
}

impl Edit {
    fn of(change: &Change) -> Result<Self, RecordError> {
        match change {
            Change::Put(record) => Ok(Self::Put { key: record.key().to_string(), value: record.encode()? }),
            Change::Remove(key) => Ok(Self::Remove { key: key.to_string() }),
        }
    }
}

/// An open state file: the [`Store`] of a service that has its own.
pub struct StateFile {
    path: PathBuf,
    guard: SyncGuard,
    /// Stays open while the file is in doubt, because it holds the lock. Of a file that was opened in doubt it is a trial.
    database: Database,
    /// Which file that is.
    own: Own,
    /// What was acknowledged, by key.
    kept: BTreeMap<String, Vec<u8>>,
    /// Of the last batch that was acknowledged.
    revision: Revision,
    /// Why the file may not say what was acknowledged.
    doubt: Option<String>,
    resyncs: u64,
}

impl std::fmt::Debug for StateFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StateFile")
            .field("path", &self.path)
            .field("revision", &self.revision)
            .field("doubt", &self.doubt)
            .finish_non_exhaustive()
    }
}

impl StateFile {
    /// Opens the file, or makes an empty one where none is. A file of an earlier schema is migrated: earlier versions of the
    /// service refuse it from then on. A file for which the disk has no room, or whose file
    /// system is read-only, is open and in doubt.
    ///
    /// # Errors
    /// [`StoreError`] names the file, which then is as it was.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_guarded(path, Arc::new(|| Ok(())))
    }

    /// As [`StateFile::open`], on a disk whose syncs fail when `guard` says so.
    ///
    /// # Errors
    /// As [`StateFile::open`].
    pub fn open_guarded(path: &Path, guard: SyncGuard) -> Result<Self, StoreError> {
        let io = |source| StoreError::Io { place: place(path), source };
        let exists = path.try_exists().map_err(io)?;
        // A symbolic link stays, because the file that it leads to is the one that a rewrite replaces.
        let path = if exists { path.canonicalize().map_err(io)? } else { path.into() };
        // A start that finds no file makes an empty one; `open` refuses one that is there but empty.
        let made = if exists { None } else { create(&path, &guard)? };
        // Where another process made the file first, this one opens it as any other, and finds it locked while that process lives.
        let Opened { database, own, kept, revision, doubt } = match made {
            Some((database, own)) => Opened { database, own, kept: BTreeMap::new(), revision: Revision::default(), doubt: None },
            None => open(&path, &guard)?,
        };
        Ok(Self { path, guard, database, own, kept, revision, doubt, resyncs: 0 })
    }

    /// Keys and documents of a file that nobody has open, in today's schema. The file stays as it is, and its records need not be ours.
    ///
    /// # Errors
    /// As [`StateFile::open`].
    pub fn look(path: &Path) -> Result<BTreeMap<String, Vec<u8>>, StoreError> {
        Ok(look(path, &take(path)?.file)?.kept)
    }

    /// Keys and documents as they stand in the file.
    pub fn dump(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.kept.iter().map(|(key, value)| (key.as_str(), value.as_slice()))
    }

    /// Writes edits in one transaction and returns when the disk has them. When that fails, a new file with them is tried at once.
    fn write(&mut self, edits: &[Edit]) -> Result<Revision, AppendError> {
        let next = self.revision.next();
        if self.doubt.is_none() && self.stands() {
            // `kept` is empty here: the file has the records already, and only the edits are written.
            match transact(&self.database, &BTreeMap::new(), edits, next) {
                // What was written where no start finds it is not acknowledged: it may have been taken away since.
                Ok(()) if self.stands() => {
                    // Memory follows the disk: `kept` never holds an edit whose sync has not returned (P86).
                    self.keep(edits, next);
                    return Ok(next);
                }
                Ok(()) => {}
                Err(e) => {
                    let doubt = format!("{}: {}", self.path.display(), one_line(&e));
                    tracing::error!(doubt, "a write of the state file failed, so it is in doubt; it is written anew as a whole");
                    self.doubt = Some(doubt);
                }
            }
        }
        // A file in doubt is not written again, because no later sync of it says what the disk has (docs/operating.md).
        self.write_anew(edits, next)
    }

    /// Whether the file still stands under its name; one that does not is in doubt.
    fn stands(&mut self) -> bool {
        let doubt = match self.own.standing(&self.path) {
            Ok(Standing::Own) => return true,
            Ok(Standing::Nothing) => format!("{}: it was moved or deleted while it was open", self.path.display()),
            Ok(Standing::Other) => other(&self.path),
            Err(e) => format!("{}: {}", self.path.display(), one_line(&e)),
        };
        tracing::error!(doubt, "the state file is not where a start looks for it; it is written anew as a whole");
        self.doubt = Some(doubt);
        false
    }

    /// Puts a new file with all that was acknowledged, and with the edits, in the place of this one.
    fn write_anew(&mut self, edits: &[Edit], revision: Revision) -> Result<Revision, AppendError> {
        // The file stays in doubt and keeps its lock; memory keeps what was acknowledged, without these edits (P117).
        if let Err(doubt) = self.replace(edits, revision) {
            self.doubt = Some(doubt.clone());
            return Err(AppendError::Failed(doubt));
        }
        self.keep(edits, revision);
        self.doubt = None;
        self.resyncs += 1;
        tracing::warn!(path = %self.path.display(), "the state file was written anew and is well");
        Ok(revision)
    }

    fn replace(&mut self, edits: &[Edit], revision: Revision) -> Result<(), String> {
        let refuse = |problem: &dyn std::fmt::Display| format!("{}: written anew: {}", self.path.display(), one_line(problem));
        // The new file holds everything and is synced before it gets the name: a crash in between leaves the old file in its place.
        let fresh = Fresh::create(&self.path, Some(&self.own), &self.guard).map_err(|e| refuse(&failed(&self.path, e)))?;
        // Under the lock of the new file no other service makes one. A file that somebody else has put there is not ours to replace.
        let problem = match self.own.standing(&self.path) {
            Ok(Standing::Own | Standing::Nothing) => None,
            Ok(Standing::Other) => Some(other(&self.path)),
            Err(e) => Some(refuse(&e)),
        };
        if let Some(problem) = problem {
            fresh.discard();
            return Err(problem);
        }
        if let Err(e) = transact(&fresh.database, &self.kept, edits, revision) {
            fresh.discard();
            return Err(refuse(&e));
        }
        // The old file gives its lock up here: the new one, which is locked, has its name.
        (self.database, self.own) = fresh.rename().map_err(|e| refuse(&e))?;
        // A rename is durable only once the folder is synced: without it a crash may bring the old file back.
        disk::sync_folder(&self.path, &self.guard).map_err(|e| format!("{}: its folder: {}", self.path.display(), one_line(&e)))
    }

    fn keep(&mut self, edits: &[Edit], revision: Revision) {
        for edit in edits {
            match edit {
                Edit::Put { key, value } => drop(self.kept.insert(key.clone(), value.clone())),
                Edit::Remove { key } => drop(self.kept.remove(key)),
            }
        }
        self.revision = revision;
    }
}

impl Store for StateFile {
    fn load(&mut self) -> Result<Loaded, StoreError> {
        let records = self.dump().map(|(key, value)| Record::decode(key, value).map_err(|e| damaged(&self.path, e)));
        Ok(Loaded { records: records.collect::<Result<_, _>>()?, revision: self.revision })
    }

    fn append(&mut self, after: Revision, changes: &[Change]) -> Result<Revision, AppendError> {
        // The file is locked against other processes, so a different revision means that the caller's count is wrong.
        if after != self.revision {
            return Err(AppendError::Moved { expected: after, found: self.revision });
        }
        // Every record is encoded before anything is written, so a record that cannot be encoded costs no doubt.
        let edits = changes.iter().map(Edit::of).collect::<Result<Vec<_>, _>>()?;
        self.write(&edits)
    }

    fn doubt(&self) -> Option<&str> {
        self.doubt.as_deref()
    }

    fn verify_and_resync(&mut self) -> Result<Revision, AppendError> {
        if self.doubt.is_none() && self.stands() { Ok(self.revision) } else { self.write_anew(&[], self.revision) }
    }

    fn resyncs(&self) -> u64 {
        self.resyncs
    }
}

/// One durable transaction: all of `kept`, then the edits, marked with today's schema and the revision.
fn transact(database: &Database, kept: &BTreeMap<String, Vec<u8>>, edits: &[Edit], revision: Revision) -> Result<(), redb::Error> {
    let mut transaction = database.begin_write()?;
    // `Immediate` makes `commit` return only after the sync: what is acknowledged next is on the disk (P86).
    transaction.set_durability(Durability::Immediate)?;
    {
        let mut table = transaction.open_table(RECORDS)?;
        for (key, value) in kept {
            table.insert(key.as_str(), value.as_slice())?;
        }
        for edit in edits {
            match edit {
                Edit::Put { key, value } => drop(table.insert(key.as_str(), value.as_slice())?),
                Edit::Remove { key } => drop(table.remove(key.as_str())?),
            }
        }
    }
    // Schema and revision are part of the transaction: no crash leaves records under the marks of others.
    transaction.open_table(META)?.insert(SCHEMA_KEY, SCHEMA)?;
    transaction.open_table(COUNTS)?.insert(REVISION_KEY, revision.0)?;
    transaction.commit()?;
    Ok(())
}

fn records(database: &Database) -> Result<BTreeMap<String, Vec<u8>>, redb::Error> {
    let mut out = BTreeMap::new();
    for entry in database.begin_read()?.open_table(RECORDS)?.iter()? {
        let (key, value) = entry?;
        out.insert(key.value().to_owned(), value.value().to_vec());
    }
    Ok(out)
}

fn revision(database: &Database) -> Result<Revision, redb::Error> {
    let counts = database.begin_read()?.open_table(COUNTS)?;
    // A file without a count holds no batch yet.
    Ok(Revision(counts.get(REVISION_KEY)?.map_or(0, |v| v.value())))
}

/// The schema of a file; `None` if it has none.
fn schema(database: &Database) -> Result<Option<u32>, redb::Error> {
    let transaction = database.begin_read()?;
    match transaction.open_table(META) {
        // A redb database of another program has no such table: the file is foreign and not unreadable.
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        table => Ok(table?.get(SCHEMA_KEY)?.map(|v| v.value())),
    }
}

/// Makes an empty file under another name and renames it, so that a service killed meanwhile leaves no half-made one. `None`:
/// another process was faster.
fn create(path: &Path, guard: &SyncGuard) -> Result<Option<(Database, Own)>, StoreError> {
    let io = |source| StoreError::Io { place: place(path), source };
    let fresh = Fresh::create(path, None, guard).map_err(|e| failed(path, e))?;
    // Under the lock of the new file nobody else makes one.
    if path.try_exists().map_err(io)? {
        fresh.discard();
        return Ok(None);
    }
    if let Err(e) = transact(&fresh.database, &BTreeMap::new(), &[], Revision::default()) {
        fresh.discard();
        return Err(io(io::Error::other(one_line(&e))));
    }
    let renamed = fresh.rename().map_err(io)?;
    disk::sync_folder(path, guard).map_err(io)?;
    Ok(Some(renamed))
}

/// A file that was opened, and what it holds.
struct Opened {
    database: Database,
    own: Own,
    kept: BTreeMap<String, Vec<u8>>,
    revision: Revision,
    /// Why the file cannot be written now.
    doubt: Option<String>,
}

/// What a file holds, and the database in which it was seen.
struct Seen {
    trial: Database,
    /// Its schema.
    found: u32,
    /// Its records, as today's schema has them.
    kept: BTreeMap<String, Vec<u8>>,
    /// Keys that today's schema lacks.
    gone: Vec<Edit>,
    revision: Revision,
}

fn open(path: &Path, guard: &SyncGuard) -> Result<Opened, StoreError> {
    let Taken { file, unwritable } = take(path)?;
    let own = Own::of(&file).map_err(|e| failed(path, e.into()))?;
    // All that can be wrong with the file is found in a trial: one that is refused has not been written to.
    let Seen { trial, found, kept, gone, revision } = look(path, &file)?;
    check_records(path, &kept)?;
    let in_doubt = |database, kept, error: &dyn std::fmt::Display| {
        let doubt = format!("{}: {}", path.display(), one_line(error));
        tracing::error!(doubt, "the state file cannot be written, so it is in doubt; what it holds is served");
        Opened { database, own: own.clone(), kept, revision, doubt: Some(doubt) }
    };
    // Nobody can say whether the disk has what was read. It needs no sync: nothing builds on it before all of it stands in a new file.
    if let Some(error) = unwritable {
        return Ok(in_doubt(trial, kept, &error));
    }
    // The bytes become durable before anything builds on them: a start must not go on from pages that the disk may not have.
    disk::verify_and_sync(&file, guard).map_err(|e| failed(path, e.into()))?;
    let opened = disk::open(&file, guard).map_err(|e| failed(path, e)).and_then(|database| {
        if found < SCHEMA {
            // One transaction: a service that is killed meanwhile finds the old file or the new one.
            transact(&database, &kept, &gone, revision).map_err(|e| unwritten(path, e))?;
            tracing::info!(path = %path.display(), from = found, to = SCHEMA, "the state file was migrated to a later schema");
        }
        Ok(database)
    });
    match opened {
        Ok(database) => Ok(Opened { database, own: own.clone(), kept, revision, doubt: None }),
        // What the file says is on the disk, and only what comes next finds no room: reads can be served, as after a failed write.
        Err(StoreError::Io { source, .. }) if is_full(&source) => Ok(in_doubt(trial, kept, &source)),
        Err(e) => Err(e),
    }
}

/// The file under its lock, if it can be a state file at all.
fn take(path: &Path) -> Result<Taken, StoreError> {
    let taken = disk::take(path).map_err(|e| failed(path, e))?;
    // A file of 0 bytes may be what a failed disk left of a good one: redb would make a database of it, so it is refused before.
    if taken.file.metadata().map_err(|e| failed(path, e.into()))?.len() == 0 {
        return Err(damaged(path, "it is empty"));
    }
    Ok(taken)
}

/// Reads a file and checks all of it, without a change to it.
fn look(path: &Path, file: &fs::File) -> Result<Seen, StoreError> {
    let mut trial = disk::on_trial(file).map_err(|e| failed(path, e))?;
    let found = match schema(&trial).map_err(|e| damaged(path, e))? {
        None | Some(0) => return Err(damaged(path, "it has no schema")),
        // A later schema is known before any record is read: this program could not read them, and must not touch them.
        Some(found) if found > SCHEMA => return Err(StoreError::Newer { place: place(path), found }),
        Some(found) => found,
    };
    // Opening does not read every page, and a slot with a flipped bit is still a slot. The file is small: the check takes milliseconds.
    match trial.check_integrity() {
        Ok(true) => {}
        // The database repaired what it found, and may have gone back behind a change that was acknowledged. In a trial the file
        // itself is not repaired, so it is refused at the next start as well.
        Ok(false) => return Err(damaged(path, "a checksum does not match")),
        Err(e) => return Err(failed(path, OpenError::Database(e))),
    }
    // All records are read into memory: after a failed write this copy says what was acknowledged, and the file does not.
    let old = records(&trial).map_err(|e| damaged(path, e))?;
    let names: Vec<String> = old.keys().cloned().collect();
    // Schemas 3 to 6 only add kinds of records, and who set a lease: what a file of schema 2 holds stays as it is, and so does its count of
    // batches.
    // Schema 1 has none.
    let (kept, revision) = if found == 1 {
        (migrate::from_1(old).map_err(|e| damaged(path, e))?, Revision::default())
    } else {
        (old, revision(&trial).map_err(|e| damaged(path, e))?)
    };
    // Keys that the migration renamed would stay beside their new names, so they are removed in the same transaction.
    let gone = names.into_iter().filter(|name| !kept.contains_key(name)).map(|key| Edit::Remove { key }).collect();
    Ok(Seen { trial, found, kept, gone, revision })
}

/// Checks that every record is one of ours.
fn check_records(path: &Path, kept: &BTreeMap<String, Vec<u8>>) -> Result<(), StoreError> {
    kept.iter().try_for_each(|(key, value)| Record::decode(key, value).map(drop).map_err(|e| damaged(path, e)))
}

/// Whether an error says that there is no room, which may come back.
fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge)
}

/// Why a file that was read well could not be migrated.
fn unwritten(path: &Path, error: redb::Error) -> StoreError {
    match error {
        // A disk that refuses a write leaves a good file: the operator is told of the disk and not of damage.
        redb::Error::Io(source) if !is_content(&source) => StoreError::Io { place: place(path), source },
        e => damaged(path, e),
    }
}

fn failed(path: &Path, error: OpenError) -> StoreError {
    match error {
        OpenError::InUse => StoreError::InUse { place: place(path) },
        OpenError::Io(source) => StoreError::Io { source: with_folder(path, source), place: place(path) },
        // An error of the disk may pass, damage does not: the two give the operator different advice.
        OpenError::Database(DatabaseError::Storage(StorageError::Io(source))) if !is_content(&source) => {
            StoreError::Io { place: place(path), source }
        }
        OpenError::Database(e) => damaged(path, e),
    }
}

/// "No such file" of a file that is to be made means its folder, which the error does not name.
fn with_folder(path: &Path, error: io::Error) -> io::Error {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.exists());
    match folder {
        Some(folder) if error.kind() == io::ErrorKind::NotFound => {
            io::Error::new(error.kind(), format!("the folder {} is not there: make it, or name another state file", folder.display()))
        }
        _ => error,
    }
}

/// Whether the error is about what stands in the file, and not about reading it.
fn is_content(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
}

/// Why a file that is open is not written anew: another one stands under its name.
fn other(path: &Path) -> String {
    format!(
        "{}: another file stands there since this one was opened; stop the service, and leave the file there that is to count",
        path.display()
    )
}

fn place(path: &Path) -> String {
    path.display().to_string()
}

fn damaged(path: &Path, problem: impl std::fmt::Display) -> StoreError {
    StoreError::Damaged { place: place(path), problem: one_line(&problem) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AnswerRecord, Key, PlanVersionRecord};

    fn plan_version(n: u64) -> Record {
        Record::PlanVersion(PlanVersionRecord { plan_version: n, control: None })
    }

    /// Any record, of any name.
    fn put(key: &str) -> Change {
        let answer = AnswerRecord { at_ns: 1, content: None, by: None, plan_version: 1, slots: Vec::new(), moved: Vec::new(), score: 1.0 };
        Change::Put(Record::Answer(key.into(), answer))
    }

    fn remove(key: &str) -> Change {
        Change::Remove(Key::Answer(key.into()))
    }

    fn append(file: &mut StateFile, changes: &[Change]) -> Result<Revision, AppendError> {
        file.append(file.revision, changes)
    }

    #[test]
    fn what_was_written_is_there_after_opening_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.redb");
        let mut file = StateFile::open(&path).unwrap();
        assert!(matches!(StateFile::open(&path), Err(StoreError::InUse { .. })));
        append(&mut file, &[Change::Put(plan_version(1)), put("k")]).unwrap();
        append(&mut file, &[Change::Put(plan_version(2)), remove("k")]).unwrap();
        drop(file);
        let loaded = StateFile::open(&path).unwrap().load().unwrap();
        assert_eq!(loaded, Loaded { revision: Revision(2), records: vec![plan_version(2)] });
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("none");
        let said = StateFile::open(&missing.join("state.redb")).err().unwrap().to_string();
        assert!(said.ends_with(&format!("the folder {} is not there: make it, or name another state file", missing.display())), "{said}");
        assert!(!missing.exists());
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
        let bytes = fs::read(&newer).unwrap();
        assert!(matches!(StateFile::open(&newer), Err(StoreError::Newer { found, .. }) if found == SCHEMA + 1));
        assert_eq!(fs::read(&newer).unwrap(), bytes);

        let other = folder.path().join("other");
        drop(Database::create(&other).unwrap());
        assert!(matches!(StateFile::open(&other), Err(StoreError::Damaged { .. })));
    }

    /// Places at which one byte of a file is changed.
    const FLIPS: usize = 100;

    /// One byte changed anywhere: a file that is refused has not been touched, says so again, and does not lose a change by it.
    #[test]
    fn a_damaged_file_is_left_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let good = folder.path().join("good.redb");
        let mut file = StateFile::open(&good).unwrap();
        for n in 0..20 {
            append(&mut file, &[put(&format!("n{n}"))]).unwrap();
        }
        // A file of a process that was killed: it has to be repaired before it can be used.
        let killed = fs::read(&good).unwrap();
        drop(file);
        let closed = fs::read(&good).unwrap();
        let path = folder.path().join("flipped.redb");
        // redb panics at some damage, and the tests' output should not show that.
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let (mut refused, mut wrong) = (0, Vec::new());
        for (bytes, name) in [(&closed, "closed"), (&killed, "killed")] {
            let used: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] != 0).collect();
            for at in used.iter().copied().step_by((used.len() / FLIPS).max(1)) {
                let mut flipped = bytes.clone();
                flipped[at] ^= 0x55;
                fs::write(&path, &flipped).unwrap();
                let opens = || std::panic::catch_unwind(|| StateFile::open(&path).map(|file| file.kept.len()));
                // A file that is taken has all 20 records. Only in the file of a service that was killed damage to the last batch looks like
                // a batch that the kill cut off, which redb takes back.
                let least = if name == "killed" { 19 } else { 20 };
                match opens() {
                    Ok(Ok(records)) if records >= least => continue,
                    Ok(Ok(records)) => wrong.push(format!("{name} {at}: {records} records")),
                    Ok(Err(StoreError::Damaged { .. } | StoreError::Newer { .. })) | Err(_) => refused += 1,
                    Ok(Err(other)) => wrong.push(format!("{name} {at}: {other}")),
                }
                if fs::read(&path).unwrap() != flipped {
                    wrong.push(format!("{name} {at}: the file was changed"));
                }
                if matches!(opens(), Ok(Ok(_))) {
                    wrong.push(format!("{name} {at}: refused once and taken then"));
                }
            }
        }
        std::panic::set_hook(hook);
        assert!(wrong.is_empty() && refused > 4, "{refused} refused; {wrong:#?}");
    }

    #[test]
    fn a_look_changes_nothing_and_needs_no_record_of_ours() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.redb");
        drop(StateFile::open(&path).unwrap());
        let database = Database::open(&path).unwrap();
        let foreign = Edit::Put { key: "moon".into(), value: b"no JSON".to_vec() };
        transact(&database, &BTreeMap::new(), &[foreign], Revision(7)).unwrap();
        drop(database);
        let bytes = fs::read(&path).unwrap();
        assert_eq!(StateFile::look(&path).unwrap(), BTreeMap::from([("moon".to_owned(), b"no JSON".to_vec())]));
        assert!(matches!(StateFile::open(&path), Err(StoreError::Damaged { .. })));
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }

    #[test]
    fn a_service_killed_while_it_made_its_file_begins_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.redb");
        fs::write(folder.path().join("state.redb.new"), b"half").unwrap();
        assert!(StateFile::open(&path).unwrap().load().unwrap() == Loaded::default());
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

    fn keys(file: &StateFile) -> Vec<&str> {
        file.dump().filter_map(|(key, _)| key.strip_prefix("key/")).collect()
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
            append(&mut file, &[put("a")]).unwrap();
            *fuse.lock().unwrap() = Some(passes);
            // Until one is refused; those before were acknowledged.
            let taken = (0..9).take_while(|n| append(&mut file, &[put(&format!("n{n}")), remove("a"), put("refused")]).is_ok()).count();
            assert!(taken < 9 && file.doubt().is_some(), "{passes}");
            if taken == 0 {
                assert_eq!(keys(&file), ["a"], "{passes}: the refused change counts");
            }
            assert!(file.verify_and_resync().is_err());
            *fuse.lock().unwrap() = None;
            append(&mut file, &[put("b"), remove("refused")]).unwrap();
            assert_eq!((file.doubt(), file.resyncs()), (None, 1));
            let expected: Vec<String> = keys(&file).into_iter().map(str::to_owned).collect();
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
        append(&mut file, &[put("a")]).unwrap();
        once.store(true, std::sync::atomic::Ordering::Relaxed);
        append(&mut file, &[remove("a"), put("b")]).unwrap();
        assert_eq!((file.resyncs(), file.doubt()), (1, None));
        assert!(matches!(StateFile::open(&path), Err(StoreError::InUse { .. })), "the new file is not locked");
        append(&mut file, &[put("c")]).unwrap();
        assert_eq!(keys(&killed(&path, file)), ["b", "c"]);
    }

    /// Moved, deleted, and away while nobody changes anything: what was acknowledged is where the next start looks.
    #[test]
    fn a_file_that_is_taken_away_is_written_anew_in_its_place() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let (path, away, copy) = (folder.path().join("state.redb"), folder.path().join("away.redb"), folder.path().join("copy.redb"));
        drop(StateFile::open(&path).unwrap());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let mut file = StateFile::open(&path).unwrap();
        append(&mut file, &[put("a")]).unwrap();
        fs::rename(&path, &away).unwrap();
        append(&mut file, &[put("b")]).unwrap();
        fs::copy(&path, &copy).unwrap();
        assert_eq!(keys(&StateFile::open(&copy).unwrap()), ["a", "b"]);
        fs::remove_file(&path).unwrap();
        file.verify_and_resync().unwrap();
        assert_eq!((file.doubt(), file.resyncs(), fs::metadata(&path).unwrap().permissions().mode() & 0o777), (None, 2, 0o600));
        assert!(matches!(StateFile::open(&path), Err(StoreError::InUse { .. })), "the new file is not locked");
        file.verify_and_resync().unwrap();
        assert_eq!(file.resyncs(), 2, "a file that is well was written anew");
        StateFile::open(&away).expect("the one that was moved is nobody's any more");
        assert_eq!(keys(&killed(&path, file)), ["a", "b"]);
    }

    #[test]
    fn another_file_in_the_place_is_not_replaced_and_nothing_is_acknowledged_before_it_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.redb");
        let mut file = StateFile::open(&path).unwrap();
        append(&mut file, &[put("a")]).unwrap();
        fs::rename(&path, folder.path().join("away.redb")).unwrap();
        let mut other = StateFile::open(&path).unwrap();
        append(&mut other, &[put("x")]).unwrap();
        for _ in 0..2 {
            let refused = append(&mut file, &[put("b")]).unwrap_err().to_string();
            assert!(refused.contains("another file stands there"), "{refused}");
        }
        assert!(file.doubt().is_some() && file.verify_and_resync().is_err());
        append(&mut other, &[put("y")]).unwrap();
        drop(other);
        assert_eq!(keys(&StateFile::open(&path).unwrap()), ["x", "y"]);
        fs::remove_file(&path).unwrap();
        append(&mut file, &[put("c")]).unwrap();
        assert_eq!(keys(&killed(&path, file)), ["a", "c"]);
    }

    #[test]
    fn a_file_in_doubt_stays_locked_and_a_disk_that_cannot_sync_starts_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.redb");
        let (fuse, guard) = fused();
        let mut file = StateFile::open_guarded(&path, Arc::clone(&guard)).unwrap();
        *fuse.lock().unwrap() = Some(0);
        append(&mut file, &[put("a")]).unwrap_err();
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
