//! A file that the service of an earlier schema wrote is opened, and everything that was in force is in force.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use antiphase_store::{Change, Key, Record, Revision, SCHEMA, StateFile, Store as _, StoreError};
use redb::{Database, ReadableDatabase as _, TableDefinition};
use serde_json::Value;

const META: TableDefinition<'_, &str, u32> = TableDefinition::new("meta");
const RECORDS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("records");
/// Batches that the service of schema 3 wrote: the fabric, two commits, a release, two submissions, a start and a report.
const BATCHES_OF_3: u64 = 8;
/// The same of schemas 5 and 6, and a comparison.
const BATCHES_OF_5: u64 = 9;
/// More syncs than opening a file takes.
const SYNCS_MAX: u32 = 50;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// A copy of the file of schema 1.
fn old(folder: &Path) -> PathBuf {
    let path = folder.join("state.redb");
    fs::copy(fixture("schema-1.redb"), &path).unwrap();
    path
}

/// What schema 1 called an epoch is a plan version.
fn renamed(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if let Some(version) = map.remove("epoch") {
                map.insert("plan_version".into(), version);
            }
            map.values_mut().for_each(renamed);
        }
        Value::Array(all) => all.iter_mut().for_each(renamed),
        _ => {}
    }
}

/// What `store dump` said of it, with the documents of jobs as documents, and the words of today.
fn expected() -> Vec<(String, Value)> {
    let text = fs::read_to_string(fixture("schema-1.dump.jsonl")).unwrap();
    let one = |line: &str| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        let mut value = line["value"].take();
        if let Some(text) = value["document"].as_str().map(str::to_owned) {
            value["document"] = serde_json::from_str(&text).unwrap();
        }
        renamed(&mut value);
        (line["key"].as_str().unwrap().replace("epoch", "plan_version"), value)
    };
    let mut all: Vec<(String, Value)> = text.lines().map(one).collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

fn dump(file: &StateFile) -> Vec<(String, Value)> {
    file.dump().map(|(key, value)| (key.to_owned(), serde_json::from_slice(value).unwrap())).collect()
}

fn schema(path: &Path) -> u32 {
    let database = Database::open(path).unwrap();
    let table = database.begin_read().unwrap().open_table(META).unwrap();
    table.get("schema").unwrap().unwrap().value()
}

#[test]
fn everything_in_a_file_of_schema_1_is_in_force_after_its_migration() {
    let folder = tempfile::tempdir().unwrap();
    let path = old(folder.path());
    assert_eq!(schema(&path), 1);
    let mut file = StateFile::open(&path).unwrap();
    assert_eq!(dump(&file), expected());
    let loaded = file.load().unwrap();
    let count = |kind: fn(&Record) -> bool| loaded.records.iter().filter(|r| kind(r)).count();
    assert_eq!(loaded.records.len(), expected().len());
    assert_eq!((count(|r| matches!(r, Record::Job(_))), count(|r| matches!(r, Record::Slot(_, slot) if slot.hold))), (5, 5));
    assert_eq!((count(|r| matches!(r, Record::Answer(..))), count(|r| matches!(r, Record::Job(job) if job.lease.is_some()))), (2, 1));
    drop(file);

    // The second time there is nothing to migrate, and the file goes on as one of today's.
    assert_eq!(schema(&path), SCHEMA);
    let mut again = StateFile::open(&path).unwrap();
    assert_eq!(again.load().unwrap(), loaded);
    let revision = again.append(loaded.revision, &[Change::Remove(Key::Job("vgg-a".into()))]).unwrap();
    drop(again);
    let after = StateFile::open(&path).unwrap().load().unwrap();
    assert_eq!((loaded.revision, revision, after.revision), (Revision(0), Revision(1), Revision(1)));
    assert_eq!(after.records.len(), loaded.records.len() - 1);
}

#[test]
fn files_of_schemas_2_to_6_keep_their_records_and_their_count_of_batches() {
    // The fabric, commits, a release, what became of submissions, and comparisons, before the files were migrated.
    for (earlier, batches) in [(2, 5), (3, BATCHES_OF_3), (4, 4), (5, BATCHES_OF_5), (6, BATCHES_OF_5)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.redb");
        fs::copy(fixture(&format!("schema-{earlier}.redb")), &path).unwrap();
        assert_eq!(schema(&path), earlier);
        let mut file = StateFile::open(&path).unwrap();
        let text = fs::read_to_string(fixture(&format!("schema-{earlier}.dump.jsonl"))).unwrap();
        let one = |line: &str| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            (line["key"].as_str().unwrap().to_owned(), line["value"].take())
        };
        let expected: Vec<(String, Value)> = text.lines().map(one).collect();
        assert_eq!(dump(&file), expected);
        let loaded = file.load().unwrap();
        assert_eq!((loaded.records.len(), loaded.revision), (expected.len(), Revision(batches)));
        let compared = loaded.records.iter().filter(|record| matches!(record, Record::Comparison(..))).count();
        assert_eq!(compared, usize::from(earlier >= 5));
        drop(file);
        assert_eq!(schema(&path), SCHEMA);
        assert_eq!(StateFile::open(&path).unwrap().load().unwrap(), loaded);
    }
}

#[test]
fn a_file_of_schema_1_with_a_damaged_record_is_refused_and_not_migrated() {
    for (key, bytes, problem) in [
        ("job/vgg-a", &br#"{"document":"{","lease":null,"headroom_permille":50}"#[..], r#"record "job/vgg-a": document: EOF"#),
        ("job/vgg-a", br#"{"document":"{\"id\":\"b\"}","lease":null,"headroom_permille":50}"#, r#"the job in it is "b""#),
        ("slot/vgg-a", b"{}", r#"record "slot/vgg-a": missing field"#),
        ("moon", b"{}", r#"record "moon": unknown kind"#),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = old(folder.path());
        let database = Database::open(&path).unwrap();
        let transaction = database.begin_write().unwrap();
        transaction.open_table(RECORDS).unwrap().insert(key, bytes).unwrap();
        transaction.commit().unwrap();
        drop(database);
        let error = StateFile::open(&path).unwrap_err();
        assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
        let said = error.to_string();
        assert!(said.contains(problem) && said.contains("state.redb") && !said.contains('\n'), "{said}");
        assert_eq!(schema(&path), 1);
    }
}

/// Whichever sync fails: there is no start, the next one has everything, and the file is of one schema or the other.
#[test]
fn a_migration_that_a_disk_refuses_is_done_by_the_next_start() {
    let mut refused = 0;
    for passes in 0..SYNCS_MAX {
        let folder = tempfile::tempdir().unwrap();
        let path = old(folder.path());
        let left = AtomicU32::new(passes);
        let guard = move || match left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)) {
            Ok(_) => Ok(()),
            Err(_) => Err(io::Error::other("EIO")),
        };
        let opened = StateFile::open_guarded(&path, Arc::new(guard));
        let failed = opened.map(drop).err();
        if let Some(error) = &failed {
            assert!(matches!(error, StoreError::Io { .. }), "{passes}: {error}");
            refused += 1;
        }
        assert_eq!(dump(&StateFile::open(&path).unwrap()), expected(), "{passes}");
        if failed.is_none() {
            break;
        }
    }
    assert!((2..SYNCS_MAX).contains(&refused), "{refused} syncs");
}

#[test]
fn a_store_takes_a_batch_only_on_the_revision_that_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let mut file = StateFile::open(&folder.path().join("state.redb")).unwrap();
    let change = [Change::Remove(Key::PlanVersion)];
    let first = file.append(Revision(0), &change).unwrap();
    let error = file.append(Revision(0), &change).unwrap_err();
    assert_eq!(error.to_string(), "the store is at revision 1, not 0: somebody else wrote to it");
    assert_eq!((file.load().unwrap().revision, file.doubt()), (first, None));
}
