//! What reads see: the state at one moment, shared and never changed.

use std::sync::Arc;

use fabric::{Fabric, route::Routing};
use job::{Hold, Job, MeasuredProfile};
use proto::v1alpha1 as pb;
use state::{JobDefinition, Slot, scheduler::Submission};

/// The state at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Version of the plan.
    pub plan_version: u64,
    /// The fabric, once there is one.
    pub fabric: Option<FabricView>,
    /// Committed jobs, by name.
    pub jobs: Vec<JobView>,
    /// Agents that were ever connected, by host.
    pub agents: Vec<pb::Agent>,
    /// What was submitted to the scheduler, by name.
    pub submissions: Vec<Arc<Submission>>,
    /// What turns would bring, where the service only observes; else empty.
    pub outlook: String,
}

/// The fabric as set.
#[derive(Clone, Debug)]
pub struct FabricView {
    /// Counts replacements.
    pub version: u64,
    /// The graph.
    pub fabric: Arc<Fabric>,
    /// Its routes, prepared once for all requests.
    pub routing: Routing,
    /// Its document.
    pub text: Arc<str>,
}

/// A committed job.
#[derive(Clone, Debug)]
pub struct JobView {
    /// As it is planned, on the snapshot's fabric: as committed, or as measured.
    pub definition: Arc<JobDefinition>,
    /// What was measured of it and the job as committed, where it is planned as measured.
    pub measured: Option<(MeasuredProfile, Arc<Job>)>,
    /// As clients read it.
    pub message: pb::Job,
}

impl JobView {
    /// The job as a commit would plan it: what is not held to a slot any more would not be held by a commit either.
    #[must_use]
    pub fn as_held(&self) -> Job {
        let job = &self.definition.job;
        let hold = if self.message.hold_ended.is_empty() { job.hold } else { Hold::Never };
        Job { hold, ..job.clone() }
    }
}

impl Snapshot {
    /// The job of that name.
    #[must_use]
    pub fn job(&self, name: &str) -> Option<&JobView> {
        self.jobs.binary_search_by(|j| j.definition.job.name.as_str().cmp(name)).ok().map(|i| &self.jobs[i])
    }
}

/// A slot as a message.
#[must_use]
pub fn slot_message(slot: &Slot) -> pb::Slot {
    pb::Slot {
        job: slot.job.clone(),
        plan_version: slot.plan_version,
        period_ns: slot.times.period.0,
        offset_ns: slot.times.offset.0,
        tolerance_ns: slot.times.tolerance.0,
        slack_ns: slot.times.slack.0,
        hold_max_ns: slot.times.hold_max.0,
        hold: slot.hold,
        expires_ns: slot.expires.0,
        leader_host: slot.leader_host.clone(),
        turns: slot.turns,
    }
}
