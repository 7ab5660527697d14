//! Records as bytes: a key and a JSON document each, so that `store dump` shows what is there and a person can read it.

use serde::{Deserialize, Serialize};
use state::{Commitment, Record, Slot};
use units::{FabricTime, Nanos};

/// Version of the documents below. A file of a higher one is refused, and one of a lower one is converted here.
pub const SCHEMA: u32 = 1;

const FABRIC: &str = "fabric";
const EPOCH: &str = "epoch";
const JOB: &str = "job/";
const SLOT: &str = "slot/";
const KEY: &str = "key/";

/// What a record does to the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Sets a key.
    Put {
        /// The key.
        key: String,
        /// Its document.
        value: Vec<u8>,
    },
    /// Removes keys, whether or not they are there.
    Remove {
        /// The keys.
        keys: Vec<String>,
    },
}

/// What cannot be read back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("record {key:?}: {problem}")]
pub struct RecordError {
    /// Its key.
    pub key: String,
    /// What is wrong.
    pub problem: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FabricDoc {
    version: u64,
    text: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EpochDoc {
    epoch: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct JobDoc {
    document: String,
    lease: Option<LeaseDoc>,
    headroom_permille: u32,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LeaseDoc {
    length_ns: u64,
    until_ns: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SlotDoc {
    epoch: u64,
    period_ns: u64,
    offset_ns: u64,
    tolerance_ns: u64,
    slack_ns: u64,
    hold_max_ns: u64,
    hold: bool,
    leader_host: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyDoc {
    at_ns: u64,
    epoch: u64,
    slots: Vec<(String, SlotDoc)>,
    moved: Vec<String>,
    score: f64,
}

/// The change that a record stands for.
///
/// # Errors
/// [`RecordError`]: the document cannot be written, which would be our own bug.
pub fn change(record: &Record) -> Result<Change, RecordError> {
    match record {
        Record::Fabric { version, text } => put(FABRIC.into(), &FabricDoc { version: *version, text: text.as_ref().to_owned() }),
        Record::Epoch { epoch } => put(EPOCH.into(), &EpochDoc { epoch: *epoch }),
        Record::Job { name, document, lease, headroom_permille } => {
            let lease = lease.map(|(length, until)| LeaseDoc { length_ns: length.0, until_ns: until.0 });
            put(format!("{JOB}{name}"), &JobDoc { document: document.clone(), lease, headroom_permille: *headroom_permille })
        }
        Record::Slot(slot) => put(format!("{SLOT}{}", slot.job), &slot_doc(slot)),
        Record::JobGone { name } => Ok(Change::Remove { keys: vec![format!("{JOB}{name}"), format!("{SLOT}{name}")] }),
        Record::Key { key, at, answer } => {
            let slots = answer.slots.iter().map(|slot| (slot.job.clone(), slot_doc(slot))).collect();
            let (moved, score) = (answer.moved.clone(), answer.score);
            put(format!("{KEY}{key}"), &KeyDoc { at_ns: at.0, epoch: answer.epoch, slots, moved, score })
        }
        Record::KeyGone { key } => Ok(Change::Remove { keys: vec![format!("{KEY}{key}")] }),
    }
}

/// The record of a key and its document.
///
/// # Errors
/// [`RecordError`] names the key.
pub fn record(key: &str, value: &[u8]) -> Result<Record, RecordError> {
    if key == FABRIC {
        let doc: FabricDoc = read(key, value)?;
        return Ok(Record::Fabric { version: doc.version, text: doc.text.into() });
    }
    if key == EPOCH {
        return read(key, value).map(|doc: EpochDoc| Record::Epoch { epoch: doc.epoch });
    }
    if let Some(name) = key.strip_prefix(JOB) {
        let doc: JobDoc = read(key, value)?;
        let lease = doc.lease.map(|l| (Nanos(l.length_ns), FabricTime(l.until_ns)));
        return Ok(Record::Job { name: name.into(), document: doc.document, lease, headroom_permille: doc.headroom_permille });
    }
    if let Some(job) = key.strip_prefix(SLOT) {
        return read(key, value).map(|doc: SlotDoc| Record::Slot(slot(job, doc)));
    }
    if let Some(name) = key.strip_prefix(KEY) {
        let doc: KeyDoc = read(key, value)?;
        let slots = doc.slots.into_iter().map(|(job, doc)| slot(&job, doc)).collect();
        let answer = Commitment { epoch: doc.epoch, slots, moved: doc.moved, score: doc.score };
        return Ok(Record::Key { key: name.into(), at: FabricTime(doc.at_ns), answer });
    }
    Err(RecordError { key: key.into(), problem: "unknown kind".into() })
}

fn put<D: Serialize>(key: String, doc: &D) -> Result<Change, RecordError> {
    match serde_json::to_vec(doc) {
        Ok(value) => Ok(Change::Put { key, value }),
        Err(e) => Err(RecordError { key, problem: e.to_string() }),
    }
}

fn read<'a, D: Deserialize<'a>>(key: &str, value: &'a [u8]) -> Result<D, RecordError> {
    serde_json::from_slice(value).map_err(|e| RecordError { key: key.into(), problem: e.to_string() })
}

fn slot_doc(slot: &Slot) -> SlotDoc {
    SlotDoc {
        epoch: slot.epoch,
        period_ns: slot.period.0,
        offset_ns: slot.offset.0,
        tolerance_ns: slot.tolerance.0,
        slack_ns: slot.slack.0,
        hold_max_ns: slot.hold_max.0,
        hold: slot.hold,
        leader_host: slot.leader_host.clone(),
    }
}

fn slot(job: &str, doc: SlotDoc) -> Slot {
    Slot {
        job: job.into(),
        epoch: doc.epoch,
        period: Nanos(doc.period_ns),
        offset: Nanos(doc.offset_ns),
        tolerance: Nanos(doc.tolerance_ns),
        slack: Nanos(doc.slack_ns),
        hold_max: Nanos(doc.hold_max_ns),
        hold: doc.hold,
        // Expiry is not kept: nobody trusts a plan before it is sent again.
        expires: FabricTime(0),
        leader_host: doc.leader_host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_comes_back() {
        let sample = Slot {
            job: "a/b".into(),
            epoch: 3,
            period: Nanos(5),
            offset: Nanos(4),
            tolerance: Nanos(1),
            slack: Nanos(2),
            hold_max: Nanos(5),
            hold: true,
            expires: FabricTime(0),
            leader_host: "h1".into(),
        };
        let records = [
            Record::Fabric { version: 7, text: "schema: x\n".into() },
            Record::Epoch { epoch: u64::MAX },
            Record::Job { name: "a".into(), document: "{}".into(), lease: Some((Nanos(1), FabricTime(2))), headroom_permille: 50 },
            Record::Job { name: "b".into(), document: "{}".into(), lease: None, headroom_permille: 0 },
            Record::Slot(sample.clone()),
            Record::Key {
                key: "k\u{0}".into(),
                at: FabricTime(9),
                answer: Commitment { epoch: 1, slots: vec![sample], moved: vec!["a".into()], score: 0.75 },
            },
        ];
        for before in records {
            let Change::Put { key, value } = change(&before).unwrap() else { panic!("not a put") };
            assert_eq!(record(&key, &value).unwrap(), before);
        }
        let gone = change(&Record::JobGone { name: "a".into() }).unwrap();
        assert_eq!(gone, Change::Remove { keys: vec!["job/a".into(), "slot/a".into()] });
    }

    #[test]
    fn what_is_not_ours_is_named() {
        assert_eq!(record("planet/x", b"{}").unwrap_err().to_string(), "record \"planet/x\": unknown kind");
        assert!(record("epoch", b"{\"epoch\": 1, \"moon\": 2}").unwrap_err().problem.contains("moon"));
        assert!(record("job/a", b"\xff").is_err());
    }
}
