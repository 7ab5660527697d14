//! Power that goes at any moment, and disks that rot.
//!
//! A disk promises nothing of what was written since the last sync: of each sector it has the old bytes or the new ones, in any
//! combination, and it may have the old length. So the bytes of a state file are recorded at each sync, files are made of them that a
//! machine could find after a power cut, and a service has to open each with all that it acknowledged.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod sectors;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use antiphase_store::{AnswerRecord, Change, Key, PlanVersionRecord, Record, Revision, StateFile, Store as _, StoreError, SyncGuard};

/// Files of each kind, unless `ANTIPHASE_FAULTS` says otherwise.
const FAULTS: usize = 60;
/// Batches of one life of a file.
const BATCHES: usize = 24;

/// Marsaglia, "Xorshift RNGs", 2003.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

type Contents = BTreeMap<String, Vec<u8>>;

fn faults() -> usize {
    std::env::var("ANTIPHASE_FAULTS").ok().map_or(FAULTS, |n| n.parse().unwrap())
}

/// Some changes to few keys, of documents that are small and, now and then, as large as a fabric.
fn batch(random: &mut Random, number: usize) -> Vec<Change> {
    let mut changes: Vec<Change> = (0..1 + random.below(4))
        .map(|_| {
            let key = format!("k{}", random.below(12));
            if random.below(3) == 0 {
                return Change::Remove(Key::Answer(key));
            }
            let moved = vec!["x".repeat(1 + random.below(300)); if random.below(8) == 0 { 400 } else { 1 }];
            let answer =
                AnswerRecord { at_ns: 1, content: None, by: None, plan_version: number as u64, slots: Vec::new(), moved, score: 1.0 };
            Change::Put(Record::Answer(key, answer))
        })
        .collect();
    changes.push(Change::Put(Record::PlanVersion(PlanVersionRecord { plan_version: number as u64, control: None })));
    changes
}

/// What an open file holds.
fn contents(file: &StateFile) -> Contents {
    file.dump().map(|(key, value)| (key.to_owned(), value.to_vec())).collect()
}

/// The file at a moment: what is durable, and what was written since.
#[derive(Clone, Debug)]
struct Moment {
    durable: Vec<u8>,
    written: Vec<u8>,
    /// What is acknowledged, and what may be there as well because it is on its way.
    acknowledged: Contents,
    under_way: Option<Contents>,
}

#[derive(Debug, Default)]
struct Recorder {
    durable: Vec<u8>,
    /// At each sync of the batch that is under way: what is durable by then, and what was written.
    syncs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// A guard that records the file before each sync of it.
fn recording(path: PathBuf) -> (Arc<Mutex<Recorder>>, SyncGuard) {
    let recorder = Arc::new(Mutex::new(Recorder::default()));
    let records = Arc::clone(&recorder);
    let guard = move || {
        // Before its first rename the file is not there.
        let Ok(now) = fs::read(&path) else { return Ok(()) };
        let mut recorder = records.lock().unwrap();
        let before = std::mem::replace(&mut recorder.durable, now.clone());
        recorder.syncs.push((before, now));
        Ok(())
    };
    (recorder, Arc::new(guard))
}

/// The moments of one life: each sync of each batch, and the time after it.
fn life(folder: &Path, random: &mut Random) -> Vec<Moment> {
    let path = folder.join(format!("life-{}.redb", random.next()));
    let (recorder, guard) = recording(path.clone());
    let mut file = StateFile::open_guarded(&path, guard).unwrap();
    recorder.lock().unwrap().durable = fs::read(&path).unwrap();
    let (mut moments, mut revision) = (Vec::new(), Revision::default());
    for number in 0..BATCHES {
        let before = contents(&file);
        recorder.lock().unwrap().syncs.clear();
        revision = file.append(revision, &batch(random, number)).unwrap();
        let after = contents(&file);
        let mut recorder = recorder.lock().unwrap();
        let syncs = std::mem::take(&mut recorder.syncs);
        assert!(!syncs.is_empty(), "a batch was acknowledged without a sync");
        moments.extend(syncs.into_iter().map(|(durable, written)| Moment {
            durable,
            written,
            acknowledged: before.clone(),
            under_way: Some(after.clone()),
        }));
        let (durable, written) = (recorder.durable.clone(), fs::read(&path).unwrap());
        moments.push(Moment { durable, written, acknowledged: after, under_way: None });
    }
    drop(file);
    fs::remove_file(&path).unwrap();
    moments
}

#[test]
fn power_that_goes_at_any_moment_costs_nothing_that_was_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("found.redb");
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let (mut made, mut before, mut after, mut moments) = (0, 0, 0, Vec::new());
    while made < faults() {
        if made % (4 * BATCHES) == 0 {
            moments = life(folder.path(), &mut random);
        }
        let moment = &moments[random.below(moments.len())];
        let found = sectors::after_power_cut(&moment.durable, &moment.written, &mut |bound| random.below(bound));
        fs::write(&path, &found).unwrap();
        let opened = StateFile::open(&path).unwrap_or_else(|e| panic!("file {made} is refused: {e}"));
        let there = contents(&opened);
        if there == moment.acknowledged {
            before += 1;
        } else {
            assert!(moment.under_way.as_ref() == Some(&there), "file {made} holds neither what was acknowledged nor what was under way");
            after += 1;
        }
        made += 1;
    }
    println!("{made} power cuts: {before} files as acknowledged, {after} with the batch that was under way, none refused");
    assert!(before > 0 && after > 0, "{before} {after}");
}

/// A sector that reads as something else: the file is refused and left as it is, or all of it is there.
#[test]
fn rotten_sectors_are_found_or_do_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rotten.redb");
    let mut random = Random(0x2545_F491_4F6C_DD1D);
    // redb panics at some damage, and the tests' output should not show that.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let (mut refused, mut whole, mut wrong, mut moments) = (0, 0, Vec::new(), Vec::new());
    for made in 0..faults() {
        if made % (4 * BATCHES) == 0 {
            moments = life(folder.path(), &mut random);
        }
        let at_rest: Vec<&Moment> = moments.iter().filter(|moment| moment.under_way.is_none()).collect();
        let which = 1 + random.below(at_rest.len() - 1);
        let moment = at_rest[which];
        let mut rotten = moment.written.clone();
        let sector = sectors::rot(&mut rotten, &mut |bound| random.below(bound));
        fs::write(&path, &rotten).unwrap();
        match std::panic::catch_unwind(|| StateFile::open(&path).map(|file| contents(&file))) {
            Ok(Ok(there)) if there == moment.acknowledged => whole += 1,
            // The file is of a process that was killed. Damage to the last batch looks there like a batch that a power cut tore.
            Ok(Ok(there)) if there == at_rest[which - 1].acknowledged => whole += 1,
            Ok(Ok(_)) => wrong.push(format!("{made}: sector {sector}: other contents")),
            Ok(Err(StoreError::Damaged { .. } | StoreError::Newer { .. })) | Err(_) => {
                refused += 1;
                if fs::read(&path).unwrap() != rotten {
                    wrong.push(format!("{made}: refused and changed"));
                }
            }
            Ok(Err(other)) => wrong.push(format!("{made}: {other}")),
        }
    }
    std::panic::set_hook(hook);
    println!("{} rotten files: {refused} refused and left as they are, {whole} taken", refused + whole);
    assert!(wrong.is_empty() && refused > 0, "{refused} refused, {whole} taken; {wrong:#?}");
}
