//! The state file: one redb database of records.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use redb::{Database, DatabaseError, Durability, ReadableDatabase, ReadableTable, StorageError, TableDefinition, TableError};
use state::Record;

use super::record::{self, Change, SCHEMA};
use crate::resolve::one_line;

const META: TableDefinition<'_, &str, u32> = TableDefinition::new("meta");
const RECORDS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("records");
const SCHEMA_KEY: &str = "schema";
/// Memory for pages. A fabric of 100,000 NICs takes 11 MiB; the rest is small.
const CACHE_BYTES: usize = 32 << 20;

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
#[derive(Debug)]
pub struct StateFile {
    path: PathBuf,
    /// Closed after a failed write: the database refuses all work then, and opening it again repairs it.
    database: Option<Database>,
}

impl StateFile {
    /// Opens the file, or makes an empty one where none is.
    ///
    /// # Errors
    /// [`StoreError`] names the file.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        if !path.try_exists().map_err(|source| StoreError::Io { path: path.into(), source })? {
            create(path)?;
        }
        Ok(Self { path: path.into(), database: Some(open(path)?) })
    }

    /// Everything that is kept, by key.
    ///
    /// # Errors
    /// [`StoreError`] names the file; a record that cannot be read is [`StoreError::Damaged`].
    pub fn records(&self) -> Result<Vec<Record>, StoreError> {
        let raw = self.dump()?;
        raw.iter().map(|(key, value)| record::record(key, value).map_err(|e| damaged(&self.path, e))).collect()
    }

    /// Keys and documents as they stand in the file.
    ///
    /// # Errors
    /// As [`StateFile::records`].
    pub fn dump(&self) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let Some(database) = &self.database else { return Ok(Vec::new()) };
        let all = || -> Result<Vec<(String, Vec<u8>)>, redb::Error> {
            let table = database.begin_read()?.open_table(RECORDS)?;
            let mut out = Vec::new();
            for entry in table.iter()? {
                let (key, value) = entry?;
                out.push((key.value().to_owned(), value.value().to_vec()));
            }
            Ok(out)
        };
        all().map_err(|e| damaged(&self.path, e))
    }

    /// Writes changes in one transaction and returns when the disk has them. After an error none of them is there.
    ///
    /// # Errors
    /// The reason on one line. The next call tries again from the last good state.
    pub fn write(&mut self, changes: &[Change]) -> Result<(), String> {
        let database = match self.database.take() {
            Some(database) => database,
            None => open(&self.path).map_err(|e| e.to_string())?,
        };
        match write(&database, changes) {
            Ok(()) => {
                self.database = Some(database);
                Ok(())
            }
            Err(e) => Err(format!("{}: {}", self.path.display(), one_line(&e))),
        }
    }
}

fn write(database: &Database, changes: &[Change]) -> Result<(), redb::Error> {
    let mut transaction = database.begin_write()?;
    transaction.set_durability(Durability::Immediate)?;
    {
        let mut table = transaction.open_table(RECORDS)?;
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

/// Makes an empty file under another name and renames it, so that a service killed meanwhile leaves no half-made one.
fn create(path: &Path) -> Result<(), StoreError> {
    let io = |source| StoreError::Io { path: path.into(), source };
    let mut name = path.file_name().ok_or_else(|| io(io::Error::new(io::ErrorKind::InvalidInput, "names no file")))?.to_owned();
    name.push(".new");
    let new = path.with_file_name(name);
    match fs::remove_file(&new) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(io(e)),
        _ => {}
    }
    let fill = || -> Result<(), redb::Error> {
        let database = builder().create(&new)?;
        let transaction = database.begin_write()?;
        transaction.open_table(META)?.insert(SCHEMA_KEY, SCHEMA)?;
        transaction.open_table(RECORDS)?;
        transaction.commit()?;
        Ok(())
    };
    fill().map_err(|e| io(io::Error::other(one_line(&e))))?;
    fs::rename(&new, path).map_err(io)?;
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::File::open(folder).and_then(|f| f.sync_all()).map_err(io)
}

fn open(path: &Path) -> Result<Database, StoreError> {
    // A database of redb is whole pages and begins with its mark; redb itself would make one of an empty file.
    let length = fs::metadata(path).map_err(|source| StoreError::Io { path: path.into(), source })?.len();
    if length == 0 {
        return Err(damaged(path, "it is empty"));
    }
    let mut database = builder().open(path).map_err(|e| match e {
        DatabaseError::DatabaseAlreadyOpen => StoreError::InUse { path: path.into() },
        DatabaseError::Storage(StorageError::Io(source)) if !is_content(&source) => StoreError::Io { path: path.into(), source },
        e => damaged(path, e),
    })?;
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

fn builder() -> redb::Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    builder
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
}
