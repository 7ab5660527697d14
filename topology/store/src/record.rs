//! The records, their keys and their encoding: a JSON document each, so that `store dump` shows what is there and a person can
//! read it.

use std::{fmt, sync::Arc};

use job::JobDoc;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Version of the encoding below. A store of a later one is refused, and one of an earlier one is migrated when it is opened.
///
/// - 1: the document of a job was JSON text inside the JSON of its record.
/// - 2: the document of a job is part of its record, and the store counts its batches.
/// - 3: there are submissions, which a service of before would not start or stop.
/// - 4: there is a trail of who changed what, which a service of before would not go on with.
/// - 5: there is what comparisons of turns found, which a service of before would not know.
/// - 6: leases and answers say who set or asked for them, which a service of before would take for damage.
/// - 7: there is what was learned of submissions, which a service of before would take for damage.
pub const SCHEMA: u32 = 7;

const FABRIC: &str = "fabric";
const PLAN_VERSION: &str = "plan_version";
const JOB: &str = "job/";
const SLOT: &str = "slot/";
const COMPARISON: &str = "comparison/";
const ANSWER: &str = "key/";
const SUBMISSION: &str = "submission/";
const AUDIT: &str = "audit/";

/// Something that is kept. A later record of the same [`Key`] takes the place of the earlier one.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// The fabric.
    Fabric(FabricRecord),
    /// The plan version.
    PlanVersion(PlanVersionRecord),
    /// A committed job; its name is the id in its document.
    Job(JobRecord),
    /// The slot of the job of that name.
    Slot(String, SlotRecord),
    /// What the last comparison found of the group of jobs that take turns whose first job has that name.
    Comparison(String, ComparisonRecord),
    /// What was answered under that idempotency key.
    Answer(String, AnswerRecord),
    /// What was submitted to the scheduler; its name is the id in its document.
    Submission(SubmissionRecord),
    /// The change of that number, and who asked for it.
    Audit(u64, AuditRecord),
}

/// The key under which a record is kept.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// Of [`Record::Fabric`].
    Fabric,
    /// Of [`Record::PlanVersion`].
    PlanVersion,
    /// Of [`Record::Job`]: the name of the job.
    Job(String),
    /// Of [`Record::Slot`]: the name of the job.
    Slot(String),
    /// Of [`Record::Comparison`]: the name of the first job.
    Comparison(String),
    /// Of [`Record::Answer`]: the idempotency key.
    Answer(String),
    /// Of [`Record::Submission`]: the name of the job.
    Submission(String),
    /// Of [`Record::Audit`]: its number.
    Audit(u64),
}

/// One step of a batch.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Keeps a record.
    Put(Record),
    /// Forgets the record of a key, whether or not there is one.
    Remove(Key),
}

/// What cannot be written or read back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("record {key:?}: {problem}")]
pub struct RecordError {
    /// Its key.
    pub key: String,
    /// What is wrong.
    pub problem: String,
}

/// The fabric.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FabricRecord {
    /// Counts replacements.
    pub version: u64,
    /// Its document.
    #[serde(serialize_with = "inside", deserialize_with = "text")]
    pub text: Arc<str>,
}

/// The plan version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanVersionRecord {
    /// The plan version.
    #[serde(alias = "epoch")]
    pub plan_version: u64,
    /// How jobs were kept apart when this was written; absent in records of services that did not keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<ControlRecord>,
}

/// How jobs are kept apart that gain by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ControlRecord {
    /// By turns.
    Turns,
    /// By slots.
    Slots,
    /// Not at all.
    Observe,
}

/// A committed job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobRecord {
    /// The job as it was committed.
    #[serde(serialize_with = "inside", deserialize_with = "document")]
    pub document: Arc<JobDoc>,
    /// `None`: the job stays until it is released.
    pub lease: Option<LeaseRecord>,
    /// Headroom of its period in thousandths.
    pub headroom_permille: u32,
    /// Why it is not held to a slot any more; absent where that is not so, and in records of before that could be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold_ended: Option<String>,
    /// What was measured of it, where it is planned with that; absent otherwise, and in records of before that could be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<MeasuredRecord>,
}

/// What was measured of a job. Times are nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredRecord {
    /// One iteration, without its waits.
    pub iteration_ns: u64,
    /// How long it sends in an iteration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_ns: Option<u64>,
}

/// The lease of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeaseRecord {
    /// How long the job stays without renewal, in nanoseconds.
    pub length_ns: u64,
    /// Until when as of the commit, in nanoseconds of fabric time. Renewals are not kept.
    pub until_ns: u64,
    /// Who set the length; absent where nobody said so, and in records of before that was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// The slot of a job, without its expiry: nobody trusts a plan before it is sent again. Times are nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlotRecord {
    /// Plan version in which the slot was last changed.
    #[serde(alias = "epoch")]
    pub plan_version: u64,
    /// Scheduled length of an iteration.
    pub period_ns: u64,
    /// A start is due when fabric time modulo the period is this.
    pub offset_ns: u64,
    /// How late a start may be and still go at once.
    pub tolerance_ns: u64,
    /// How far the job may drift before a score falls.
    pub slack_ns: u64,
    /// Longest time that a start may be held.
    pub hold_max_ns: u64,
    /// Whether the job is held to its slot.
    pub hold: bool,
    /// Whether the job takes turns; false in records of before there were turns.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub turns: bool,
    /// The host of rank 0.
    pub leader_host: String,
}

/// What the last comparison found of a group of jobs that take turns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComparisonRecord {
    /// The jobs, in the order of the group.
    pub jobs: Vec<ComparedJobRecord>,
    /// Whether they take turns since; else they run free.
    pub hold: bool,
    /// Stretches of iterations until the next trial.
    pub left: u64,
    /// Stretches between the last trial and the next one.
    pub apart: u64,
    /// How often turns were let go.
    pub let_go: u32,
}

/// A job of a group that was compared. Times are nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComparedJobRecord {
    /// Its name.
    pub job: String,
    /// One iteration alone, as it was planned.
    pub iteration_ns: u64,
    /// How many iterations were counted while it took turns, and their mean.
    pub held: (u64, u64),
    /// The same while it ran free.
    pub free: (u64, u64),
}

/// What was answered to a commit with an idempotency key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerRecord {
    /// When the key was used, in nanoseconds of fabric time.
    pub at_ns: u64,
    /// A digest of what was committed, in hexadecimal digits; missing in records of schema 2 and before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// Who used the key; absent where nobody said so, and in records of before that was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The plan version of the commit.
    #[serde(alias = "epoch")]
    pub plan_version: u64,
    /// Slots of the jobs that were committed, by their names; none of a renewal.
    pub slots: Vec<(String, SlotRecord)>,
    /// Names of running jobs whose slot moved.
    pub moved: Vec<String>,
    /// Mean score.
    pub score: f64,
}

/// What was submitted to the scheduler, and what became of it. Times are nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubmissionRecord {
    /// The job as it was submitted: without hosts, and without a profile where nobody knows it.
    #[serde(serialize_with = "inside", deserialize_with = "document")]
    pub document: Arc<JobDoc>,
    /// The digest of the request, in hexadecimal digits: the same request again is no other job.
    pub asked: String,
    /// GPUs that it needs.
    pub gpus: u32,
    /// Whether it may only use what others leave.
    pub opportunistic: bool,
    /// One iteration alone, as declared.
    pub iteration_ns: u64,
    /// All of it alone, as declared.
    pub total_ns: u64,
    /// How long it keeps its GPUs while nobody reports of it; `None`: until it ends.
    pub lease_ns: Option<u64>,
    /// When it was submitted, in fabric time.
    pub submitted_ns: u64,
    /// Where it stands.
    pub state: SubmissionStateRecord,
    /// Since when.
    pub since_ns: u64,
    /// Why.
    pub why: String,
    /// GPUs that it holds: host, and which of its GPUs.
    pub place: Vec<(String, Vec<u32>)>,
    /// Whether it has a place in the plan.
    pub planned: bool,
    /// The job as it was learned, on the hosts on which it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learned: Option<Box<JobDoc>>,
    /// Counts its starts.
    pub attempt: u32,
    /// Starts that came to nothing.
    pub failures: u32,
    /// How long it ran before the present start.
    pub ran_ns: u64,
    /// Since when it runs; `None` while it does not.
    pub started_ns: Option<u64>,
}

/// Who changed what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditRecord {
    /// When, in fabric time.
    pub at_ns: u64,
    /// Who asked for it.
    pub by: String,
    /// One word: committed, released, fabric.
    pub kind: String,
    /// What was said of it.
    pub message: String,
    /// The version of the plan from then on.
    pub plan_version: u64,
}

/// Where a submission stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubmissionStateRecord {
    /// It waits for GPUs.
    Queued,
    /// The executor was told to start it.
    Starting,
    /// It runs.
    Running,
    /// The executor was told to stop it, and then it waits again.
    Stopping,
    /// The executor was told to stop it, and then it is withdrawn.
    Withdrawing,
    /// It ran to its end.
    Finished,
    /// Somebody took it back.
    Withdrawn,
    /// It was started in vain too often.
    Failed,
}

impl Record {
    /// The key under which the record is kept.
    #[must_use]
    pub fn key(&self) -> Key {
        match self {
            Self::Fabric(_) => Key::Fabric,
            Self::PlanVersion(_) => Key::PlanVersion,
            // The name of a job is the id in its document and is kept nowhere else in the record.
            Self::Job(job) => Key::Job(job.document.id.clone()),
            Self::Slot(job, _) => Key::Slot(job.clone()),
            Self::Comparison(job, _) => Key::Comparison(job.clone()),
            Self::Answer(key, _) => Key::Answer(key.clone()),
            Self::Submission(submission) => Key::Submission(submission.document.id.clone()),
            Self::Audit(number, _) => Key::Audit(*number),
        }
    }

    /// The bytes of the record.
    ///
    /// # Errors
    /// [`RecordError`]: the record cannot be encoded, which would be our own bug.
    pub fn encode(&self) -> Result<Vec<u8>, RecordError> {
        let bytes = match self {
            Self::Fabric(fabric) => serde_json::to_vec(fabric),
            Self::PlanVersion(plan_version) => serde_json::to_vec(plan_version),
            Self::Job(job) => serde_json::to_vec(job),
            Self::Slot(_, slot) => serde_json::to_vec(slot),
            Self::Comparison(_, found) => serde_json::to_vec(found),
            Self::Answer(_, answer) => serde_json::to_vec(answer),
            Self::Submission(submission) => serde_json::to_vec(submission),
            Self::Audit(_, audit) => serde_json::to_vec(audit),
        };
        bytes.map_err(|e| RecordError::new(&self.key().to_string(), &e))
    }

    /// The record of a key and its bytes.
    ///
    /// # Errors
    /// [`RecordError`] names the key.
    pub fn decode(key: &str, bytes: &[u8]) -> Result<Self, RecordError> {
        let name = |prefix| key.strip_prefix(prefix).map(str::to_owned);
        match key {
            // The two fixed keys come first; all other kinds are known by their prefix.
            FABRIC => return read(key, bytes).map(Self::Fabric),
            PLAN_VERSION => return read(key, bytes).map(Self::PlanVersion),
            _ => {}
        }
        if let Some(name) = name(JOB) {
            // The name stands twice, in the key and in the document; two that differ are damage and not a choice.
            let job: JobRecord = read(key, bytes)?;
            let id = &job.document.id;
            return if *id == name { Ok(Self::Job(job)) } else { Err(RecordError::new(key, &format!("the job in it is {id:?}"))) };
        }
        if let Some(job) = name(SLOT) {
            return read(key, bytes).map(|slot| Self::Slot(job, slot));
        }
        if let Some(first) = name(COMPARISON) {
            let found: ComparisonRecord = read(key, bytes)?;
            return if found.jobs.first().is_some_and(|job| job.job == first) {
                Ok(Self::Comparison(first, found))
            } else {
                Err(RecordError::new(key, &"it is not the first job in it"))
            };
        }
        if let Some(used) = name(ANSWER) {
            return read(key, bytes).map(|answer| Self::Answer(used, answer));
        }
        if let Some(name) = name(SUBMISSION) {
            let submission: SubmissionRecord = read(key, bytes)?;
            let id = &submission.document.id;
            return if *id == name {
                Ok(Self::Submission(submission))
            } else {
                Err(RecordError::new(key, &format!("the job in it is {id:?}")))
            };
        }
        if let Some(number) = name(AUDIT) {
            let number = number.parse().map_err(|_| RecordError::new(key, &"not a number"))?;
            return read(key, bytes).map(|audit| Self::Audit(number, audit));
        }
        // A kind that this schema does not know is refused: without it the service would run on a part of its state.
        Err(RecordError::new(key, &"unknown kind"))
    }
}

impl RecordError {
    pub(crate) fn new(key: &str, problem: &dyn fmt::Display) -> Self {
        Self { key: key.into(), problem: problem.to_string() }
    }
}

/// As it stands in the store.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fabric => f.write_str(FABRIC),
            Self::PlanVersion => f.write_str(PLAN_VERSION),
            Self::Job(name) => write!(f, "{JOB}{name}"),
            Self::Slot(job) => write!(f, "{SLOT}{job}"),
            Self::Comparison(job) => write!(f, "{COMPARISON}{job}"),
            Self::Answer(key) => write!(f, "{ANSWER}{key}"),
            Self::Submission(name) => write!(f, "{SUBMISSION}{name}"),
            // In the order of their numbers.
            Self::Audit(number) => write!(f, "{AUDIT}{number:020}"),
        }
    }
}

pub(crate) fn read<'a, D: Deserialize<'a>>(key: &str, bytes: &'a [u8]) -> Result<D, RecordError> {
    // Every record type denies unknown fields, so a field that this version would drop is an error here.
    serde_json::from_slice(bytes).map_err(|e| RecordError::new(key, &e))
}

/// The name of the job of a key, if it is a job's.
pub(crate) fn is_job(key: &str) -> bool {
    key.starts_with(JOB)
}

fn inside<T: Serialize + ?Sized, S: Serializer>(value: &Arc<T>, serializer: S) -> Result<S::Ok, S::Error> {
    T::serialize(value, serializer)
}

fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<str>, D::Error> {
    String::deserialize(deserializer).map(Into::into)
}

fn document<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<JobDoc>, D::Error> {
    JobDoc::deserialize(deserializer).map(Arc::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot() -> SlotRecord {
        let leader_host = "h1".into();
        SlotRecord {
            plan_version: 3,
            period_ns: 5,
            offset_ns: 4,
            tolerance_ns: 1,
            slack_ns: 2,
            hold_max_ns: 5,
            hold: true,
            turns: false,
            leader_host,
        }
    }

    fn compared(job: &str) -> ComparedJobRecord {
        ComparedJobRecord { job: job.into(), iteration_ns: 3, held: (24, 5), free: (8, 6) }
    }

    fn job(text: &str, lease: Option<LeaseRecord>) -> Record {
        Record::Job(JobRecord {
            document: Arc::new(JobDoc::parse(text).unwrap()),
            lease,
            headroom_permille: 50,
            hold_ended: None,
            measured: None,
        })
    }

    #[test]
    fn every_record_comes_back() {
        let profile = "{schema: antiphase.profile/v1, name: p, period_ns: 7, phases: [], ranks: {dp: 2}, source: declared, variance: 0.1}";
        let records = [
            Record::Audit(
                7,
                AuditRecord { at_ns: 1, by: "ann (admin)".into(), kind: "committed".into(), message: "a \u{1b}".into(), plan_version: 3 },
            ),
            Record::Fabric(FabricRecord { version: 7, text: "schema: x\n".into() }),
            Record::PlanVersion(PlanVersionRecord { plan_version: u64::MAX, control: None }),
            Record::PlanVersion(PlanVersionRecord { plan_version: 1, control: Some(ControlRecord::Observe) }),
            job(
                "{id: a, model: {name: vgg16, batch: 1700}, hosts: [h1, h2]}",
                Some(LeaseRecord { length_ns: 1, until_ns: 2, by: Some("ann (admin)".into()) }),
            ),
            job(&format!("{{id: b, profile: {profile}}}"), None),
            Record::Slot("a/b".into(), slot()),
            Record::Comparison(
                "a".into(),
                ComparisonRecord { jobs: vec![compared("a"), compared("b/c")], hold: true, left: 7, apart: 8, let_go: 1 },
            ),
            Record::Answer(
                "k\u{0}".into(),
                AnswerRecord {
                    at_ns: 9,
                    content: Some("a5".repeat(32)),
                    by: Some("ann (admin)".into()),
                    plan_version: 1,
                    slots: vec![("a".into(), slot())],
                    moved: vec!["a".into()],
                    score: 0.75,
                },
            ),
            Record::Submission(SubmissionRecord {
                document: Arc::new(JobDoc::parse("{id: s}").unwrap()),
                asked: "5a".repeat(32),
                gpus: 8,
                opportunistic: true,
                iteration_ns: 1,
                total_ns: 2,
                lease_ns: Some(3),
                submitted_ns: 4,
                state: SubmissionStateRecord::Withdrawing,
                since_ns: 5,
                why: "was withdrawn".into(),
                place: vec![("h1".into(), vec![0, 3])],
                planned: true,
                learned: Some(Box::new(JobDoc::parse("{id: s, learn: true, model: {name: vgg16}, hosts: [h1]}").unwrap())),
                attempt: 6,
                failures: 1,
                ran_ns: 7,
                started_ns: Some(8),
            }),
        ];
        for before in records {
            let (key, bytes) = (before.key().to_string(), before.encode().unwrap());
            assert_eq!(Record::decode(&key, &bytes).unwrap(), before);
        }
    }

    #[test]
    fn a_document_is_encoded_once() {
        let bytes = job("{id: a, model: {name: vgg16}, hosts: [h1]}", None).encode().unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(text, r#"{"document":{"id":"a","model":{"name":"vgg16"},"hosts":["h1"]},"lease":null,"headroom_permille":50}"#);
    }

    #[test]
    fn what_is_not_ours_is_named() {
        let error = |key: &str, bytes: &[u8]| Record::decode(key, bytes).unwrap_err().to_string();
        assert_eq!(error("planet/x", b"{}"), "record \"planet/x\": unknown kind");
        assert!(error("plan_version", b"{\"plan_version\": 1, \"moon\": 2}").contains("moon"));
        assert!(error("job/a", b"\xff").starts_with("record \"job/a\": "));
        let other = job("{id: b, model: {name: vgg16}}", None).encode().unwrap();
        assert_eq!(error("job/a", &other), "record \"job/a\": the job in it is \"b\"");
        let found = ComparisonRecord { jobs: vec![compared("b")], hold: true, left: 7, apart: 8, let_go: 1 };
        let found = Record::Comparison("b".into(), found).encode().unwrap();
        assert_eq!(error("comparison/a", &found), "record \"comparison/a\": it is not the first job in it");
    }
}
