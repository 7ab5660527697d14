//! What was submitted, and what became of it.

use alloc::{string::String, sync::Arc, vec::Vec};

use units::{FabricTime, Nanos};

use crate::Document;

/// What somebody submits: a job that the scheduler starts when it may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubmissionSpec {
    /// A digest of the request. Whether a job is submitted again with the same content is told by it: what is derived from a request
    /// may differ on another fabric.
    pub asked: [u8; 32],
    /// Who asked, where callers can be told apart. It is not kept: after a restart nobody is charged for what was submitted before.
    pub owner: Option<Arc<str>>,
    /// What the document holds, in bytes.
    pub bytes: u64,
    /// GPUs that it needs, all or none.
    pub gpus: u32,
    /// What the job was made from: a value of the caller's.
    pub document: Document,
    /// Whether the document says how the job communicates. A job of which nobody knows, and that nobody is to learn, runs free: it holds
    /// GPUs, and has no place in the plan.
    pub has_profile: bool,
    /// Whether the job's agent learns how it communicates. Agents learn what is in the plan, so the job has a place there from its start on.
    pub learn: bool,
    /// Whether it may only use what other jobs leave, and is the first to be stopped.
    pub opportunistic: bool,
    /// One iteration alone, as declared; above zero.
    pub iteration: Nanos,
    /// How long all of it takes alone, as declared; above zero.
    pub total: Nanos,
    /// How long it keeps its GPUs while nobody reports of it; `None`: until it is reported to have ended.
    pub lease: Option<Nanos>,
}

/// Where a submission stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubmissionState {
    /// It waits for GPUs.
    Queued,
    /// The executor was told to start it.
    Starting,
    /// The executor started it.
    Running,
    /// The executor was told to stop it; it holds its GPUs until that is done.
    Stopping(After),
    /// It ran to its end.
    Finished,
    /// Somebody took it back.
    Withdrawn,
    /// It was started in vain too often.
    Failed,
}

/// What becomes of a job when it has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// It waits again.
    Queue,
    /// It is withdrawn.
    Withdrawn,
}

impl SubmissionState {
    /// As messages name it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Stopping(_) => "stopping",
            Self::Finished => "finished",
            Self::Withdrawn => "withdrawn",
            Self::Failed => "failed",
        }
    }

    /// Whether the job holds GPUs.
    #[must_use]
    pub const fn holds(self) -> bool {
        matches!(self, Self::Starting | Self::Running | Self::Stopping(_))
    }

    /// Whether nothing will become of it any more.
    #[must_use]
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Finished | Self::Withdrawn | Self::Failed)
    }

    /// Whether a policy decides on it.
    pub(crate) const fn is_live(self) -> bool {
        !self.is_over() && !matches!(self, Self::Stopping(After::Withdrawn))
    }
}

/// GPUs of one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostGpus {
    /// The host.
    pub host: String,
    /// Which of its GPUs, from 0, ascending.
    pub gpus: Vec<u32>,
}

impl HostGpus {
    /// Whether a host of so many GPUs has these.
    pub(crate) fn fits(&self, gpus_per_host: u32) -> bool {
        self.gpus.iter().all(|gpu| *gpu < gpus_per_host)
    }
}

/// A submission. Values are replaced, never changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission {
    /// Name of the job.
    pub name: Arc<str>,
    /// What was submitted.
    pub spec: Arc<SubmissionSpec>,
    /// When.
    pub submitted: FabricTime,
    /// Where it stands.
    pub state: SubmissionState,
    /// Since when.
    pub since: FabricTime,
    /// Why, on one line.
    pub why: String,
    /// The GPUs that it holds, the host of rank 0 first.
    pub place: Vec<HostGpus>,
    /// Whether it has a place in the plan.
    pub planned: bool,
    /// The document with what was learned of the job, in which it is planned when it starts again; a value of the caller's.
    pub learned: Option<Document>,
    /// Counts its starts. A report of another start than the present one is refused.
    pub attempt: u32,
    /// Starts that came to nothing: nobody answered, or it stopped by itself.
    pub failures: u32,
    /// How long it ran before the present start.
    pub ran: Nanos,
    /// Since when it runs; `None` while it does not.
    pub started: Option<FabricTime>,
}

impl Submission {
    /// How long it has run, all starts together.
    #[must_use]
    pub fn ran_at(&self, now: FabricTime) -> Nanos {
        let present = self.started.map_or(Nanos(0), |started| now.since(started));
        Nanos(self.ran.0.saturating_add(present.0))
    }

    /// Whether it is known how the job communicates, because somebody declared it or because it was learned.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.spec.has_profile || self.learned.is_some()
    }

    /// How long it still takes alone, as declared. A job that runs on beyond that has nothing left, and runs on.
    #[must_use]
    pub fn left_at(&self, now: FabricTime) -> Nanos {
        Nanos(self.spec.total.0.saturating_sub(self.ran_at(now).0))
    }

    /// The same job in another state, which it enters now.
    pub(crate) fn enter(&self, now: FabricTime, state: SubmissionState, why: String) -> Self {
        let mut next = Self { state, since: now, why, ..self.clone() };
        if !state.holds() {
            // Whoever holds no GPUs does not run.
            (next.ran, next.started) = (self.ran_at(now), None);
            next.place = Vec::new();
            next.planned = false;
        }
        next
    }
}

/// What the executor is told to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// Which start of the job.
    pub attempt: u32,
    /// Where it stands, or is to stand.
    pub place: Vec<HostGpus>,
    /// When it has to be done: then the place is given back.
    pub until: FabricTime,
}
