//! A start for which the disk has no room.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

use std::{
    fs, io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

use antiphase_store::{Change, ControlRecord, PlanVersionRecord, Record, Revision, StateFile, Store as _, StoreError};

fn put(plan_version: u64) -> Change {
    Change::Put(Record::PlanVersion(PlanVersionRecord { plan_version, control: Some(ControlRecord::Turns) }))
}

/// What a process that was killed leaves has to be repaired, and a full disk has no room for that. What was read is on the disk, because
/// the first sync speaks of it; so it can be served, and is written anew when there is room.
#[test]
fn what_finds_no_room_at_the_start_is_served_in_doubt() {
    let folder = tempfile::tempdir().unwrap();
    let (path, killed) = (folder.path().join("state.redb"), folder.path().join("killed.redb"));
    let mut file = StateFile::open(&path).unwrap();
    let revision = file.append(Revision::default(), &[put(7)]).unwrap();
    fs::copy(&path, &killed).unwrap();
    drop(file);
    let bytes = fs::read(&killed).unwrap();

    let (full, syncs) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicU32::new(0)));
    let (is_full, count) = (Arc::clone(&full), Arc::clone(&syncs));
    let guard = move || match count.fetch_add(1, Ordering::Relaxed) {
        0 => Ok(()),
        _ if is_full.load(Ordering::Relaxed) => Err(io::ErrorKind::StorageFull.into()),
        _ => Ok(()),
    };
    let mut file = StateFile::open_guarded(&killed, Arc::new(guard)).unwrap();
    assert!(file.doubt().is_some_and(|doubt| doubt.contains("killed.redb")), "{:?}", file.doubt());
    let loaded = file.load().unwrap();
    assert_eq!((loaded.revision, loaded.records.len()), (revision, 1));
    assert!(matches!(StateFile::open(&killed), Err(StoreError::InUse { .. })), "it stays locked");
    assert!(file.append(revision, &[put(8)]).is_err() && file.verify_and_resync().is_err());
    // There is room again: nothing was lost, and what was refused is not there.
    full.store(false, Ordering::Relaxed);
    let revision = file.append(revision, &[put(9)]).unwrap();
    assert_eq!((file.doubt(), file.resyncs()), (None, 1));
    drop(file);
    let loaded = StateFile::open(&killed).unwrap().load().unwrap();
    assert_eq!(
        (loaded.revision, loaded.records),
        (revision, vec![Record::PlanVersion(PlanVersionRecord { plan_version: 9, control: Some(ControlRecord::Turns) })])
    );

    // A disk that cannot say that what was read is on it starts nothing.
    fs::write(&killed, &bytes).unwrap();
    let refused = StateFile::open_guarded(&killed, Arc::new(|| Err(io::ErrorKind::StorageFull.into()))).unwrap_err();
    assert!(matches!(refused, StoreError::Io { .. }), "{refused}");
    StateFile::open(&killed).unwrap();
}
