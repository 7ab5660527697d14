//! What the service has to do.

use alloc::{format, string::String, sync::Arc, vec, vec::Vec};

use units::FabricTime;

use crate::{Document, Notice, RequestId, SessionId, Slot, Ticket, audit::AuditEntry, leases::Lease, submission::Submission};

/// A digest of what is committed, made by who asks; equal commits have equal ones.
pub type Content = [u8; 32];

/// What the service has to do. The order matters: nothing that depends on a batch comes before it is durable.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Make these durable, in one transaction, then hand back [`crate::Event::Persisted`].
    Persist {
        /// Names the batch.
        ticket: Ticket,
        /// What to write.
        records: Vec<Record>,
    },
    /// Answer a request.
    Reply {
        /// Which.
        request: RequestId,
        /// With what.
        result: Result<Reply, Refusal>,
    },
    /// Send a host its whole plan.
    SendPlan {
        /// To whom.
        session: SessionId,
        /// Version of the plan.
        plan_version: u64,
        /// Slots of all jobs with a rank on the host.
        slots: Vec<Slot>,
    },
    /// These groups take turns from now on, in place of all before. Those that did not change are the same by identity.
    Turns {
        /// For [`crate::turns::TurnEvent::Groups`].
        groups: Vec<Arc<crate::turns::TurnGroup>>,
        /// For [`crate::turns::TurnEvent::Known`], before them; of a service that starts only.
        known: Vec<Arc<crate::turns::Comparison>>,
    },
    /// End a session.
    Disconnect {
        /// Which.
        session: SessionId,
        /// Why, for the agent's log.
        reason: String,
    },
    /// Something that people want to know.
    Notice(Notice),
}

/// What to keep. Each has a key ([`Record::key`]); a later record of the same key replaces the earlier one, and
/// [`Record::erases`] names the keys that one takes away. [`crate::Restored`] is what the kept ones add up to.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// The fabric.
    Fabric {
        /// Counts replacements.
        version: u64,
        /// Its document.
        text: Arc<str>,
    },
    /// The plan version.
    PlanVersion {
        /// The plan version.
        plan_version: u64,
        /// How jobs are kept apart, for a start whose configuration does not say.
        control: plan::Control,
    },
    /// A committed job.
    Job {
        /// Its name.
        name: String,
        /// What it was made from.
        document: Document,
        /// Lease: how long it stays without renewal, and until when as of now.
        lease: Option<Lease>,
        /// Headroom of its period in thousandths.
        headroom_permille: u32,
        /// Why it is not held to a slot any more, where that is so.
        hold_ended: Option<Arc<str>>,
        /// What was measured of it, where it is planned with that.
        measured: Option<job::MeasuredProfile>,
    },
    /// A job's slot; its expiry is not kept.
    Slot(Slot),
    /// A job is gone, and its slot with it.
    JobGone {
        /// Its name.
        name: String,
    },
    /// The answer to a commit with a key, to be given again.
    Key {
        /// The key.
        key: String,
        /// When it was used.
        at: FabricTime,
        /// What was committed.
        content: Option<Content>,
        /// Who used it.
        by: Option<Arc<str>>,
        /// What was answered, without what can be read from the plan.
        answer: Commitment,
    },
    /// Somebody changed something.
    Audit(Arc<AuditEntry>),
    /// An entry made room for a later one.
    AuditGone {
        /// Its number.
        number: u64,
    },
    /// A key is old enough to be forgotten.
    KeyGone {
        /// The key.
        key: String,
    },
    /// What the last comparison of a group of jobs that take turns found.
    Comparison(Arc<crate::turns::Comparison>),
    /// A submitted job, and what became of it.
    Submission(Arc<Submission>),
    /// A submission is forgotten.
    SubmissionGone {
        /// Name of its job.
        name: String,
    },
}

/// What a commit came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Commitment {
    /// The new plan version.
    pub plan_version: u64,
    /// Slots of the jobs in the components that the commit touched, by name.
    pub slots: Vec<Slot>,
    /// Running jobs whose slot moved, by name.
    pub moved: Vec<String>,
    /// Mean score over the links of those components that can be over capacity; 1 when there is none.
    pub score: f64,
    /// A sentence for each host on which these jobs and others use more GPUs than there are. Not kept with the answer.
    pub crowded: Vec<String>,
}

/// Keys of entries are in the order of their numbers.
fn audit_key(number: u64) -> String {
    format!("audit/{number:020}")
}

impl Record {
    /// The key of the record. `JobGone` and `KeyGone` are not kept: such a record only erases.
    #[must_use]
    pub fn key(&self) -> String {
        match self {
            Self::Fabric { .. } => "fabric".into(),
            Self::PlanVersion { .. } => "plan_version".into(),
            Self::Job { name, .. } | Self::JobGone { name } => format!("job/{name}"),
            Self::Slot(slot) => format!("slot/{}", slot.job),
            Self::Comparison(found) => format!("comparison/{}", found.name().map_or("", |name| name)),
            Self::Key { key, .. } | Self::KeyGone { key } => format!("key/{key}"),
            Self::Submission(submission) => format!("submission/{}", submission.name),
            Self::SubmissionGone { name } => format!("submission/{name}"),
            Self::Audit(entry) => audit_key(entry.number),
            Self::AuditGone { number } => audit_key(*number),
        }
    }

    /// The keys that the record takes away; empty for a record that is to be kept.
    #[must_use]
    pub fn erases(&self) -> Vec<String> {
        match self {
            // What belongs to a job lives as long as it: a slot without a job would be found by no later release.
            Self::JobGone { name } => ["job", "slot", "comparison"].map(|kind| format!("{kind}/{name}")).to_vec(),
            Self::KeyGone { .. } | Self::SubmissionGone { .. } | Self::AuditGone { .. } => vec![self.key()],
            _ => Vec::new(),
        }
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// To [`crate::Change::Commit`].
    Committed(Commitment),
    /// To [`crate::Change::Release`].
    Released {
        /// The new plan version.
        plan_version: u64,
        /// Names that were not committed.
        unknown: Vec<String>,
    },
    /// To [`crate::Change::SetFabric`].
    FabricSet {
        /// Its version.
        version: u64,
        /// The new plan version.
        plan_version: u64,
    },
    /// To [`crate::Change::Schedule`].
    Scheduled {
        /// The plan version.
        plan_version: u64,
    },
}

/// Why a request was refused; nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The caller decided on an older plan.
    #[error("the plan is at version {plan_version}, not {expected}; evaluate again")]
    PlanVersionMoved {
        /// The present plan version.
        plan_version: u64,
        /// The one that the caller knew.
        expected: u64,
    },
    /// The jobs were placed on an earlier fabric.
    #[error("fabric {version} is in force, not {expected}; place the jobs again")]
    FabricMoved {
        /// The version in force.
        version: u64,
        /// The one on which the jobs were placed.
        expected: u64,
    },
    /// There is no fabric yet.
    #[error("no fabric is set")]
    NoFabric,
    /// A job cannot be placed or judged.
    #[error("{0}")]
    Policy(String),
    /// The idempotency key stands for another commit.
    #[error("the key {key:?} was used for another commit")]
    KeyUsed {
        /// The key.
        key: String,
    },
    /// What was committed under the idempotency key is not committed any more.
    #[error("the key {key:?} was used for a commit of job {job:?}, which is not committed any more")]
    KeyGone {
        /// The key.
        key: String,
        /// A job that was released since, or whose lease ended.
        job: String,
    },
    /// The scheduler commits and releases this job.
    #[error("job {job:?} is the scheduler's; withdraw it there")]
    Submitted {
        /// The job.
        job: String,
    },
    /// A limit of the service.
    #[error("{what}: {value}; at most {max}")]
    Limit {
        /// What there is too much of.
        what: &'static str,
        /// How much.
        value: u64,
        /// The limit.
        max: u64,
    },
    /// The store failed; the service keeps its old state.
    #[error("the store failed: {0}")]
    Store(String),
}
