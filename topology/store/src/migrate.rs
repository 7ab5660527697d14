//! Records of earlier schemas, made into those of today.

use std::{collections::BTreeMap, sync::Arc};

use job::JobDoc;
use serde::Deserialize;

use crate::record::{self, JobRecord, Key, LeaseRecord, Record, RecordError};

/// A job under schema 1.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct JobRecord1 {
    document: String,
    lease: Option<LeaseRecord>,
    headroom_permille: u32,
}

/// The key of the plan version under schema 1.
const EPOCH: &str = "epoch";

/// From schema 1 to today's, by key: the documents of jobs are no longer text, and what was an epoch is a plan version. Everything else is
/// as it was.
///
/// # Errors
/// The first record that cannot be read.
pub(crate) fn from_1(old: BTreeMap<String, Vec<u8>>) -> Result<BTreeMap<String, Vec<u8>>, RecordError> {
    let one = |(key, bytes): (String, Vec<u8>)| {
        if record::is_job(&key) {
            // The record is read back as today's: a job that this schema cannot read fails now, while the old file is still whole.
            let bytes = job_from_1(&key, &bytes)?;
            return Record::decode(&key, &bytes).map(|_| (key, bytes));
        }
        // The types of today read the old name of their field, and write the new one.
        let key = if key == EPOCH { Key::PlanVersion.to_string() } else { key };
        let bytes = Record::decode(&key, &bytes)?.encode()?;
        Ok((key, bytes))
    };
    old.into_iter().map(one).collect()
}

/// The bytes of today's record of a job.
fn job_from_1(key: &str, bytes: &[u8]) -> Result<Vec<u8>, RecordError> {
    let old: JobRecord1 = record::read(key, bytes)?;
    // Schema 1 kept the document as a text inside the JSON, so it is parsed a second time.
    let document: JobDoc = serde_json::from_str(&old.document).map_err(|e| RecordError::new(key, &format!("document: {e}")))?;
    let JobRecord1 { lease, headroom_permille, .. } = old;
    Record::Job(JobRecord { document: Arc::new(document), lease, headroom_permille, hold_ended: None, measured: None }).encode()
}
