//! What happens to the service.

use alloc::{boxed::Box, string::String, sync::Arc, vec::Vec};

use fabric::Fabric;
use job::{Job, Placement};
use units::Nanos;

use crate::{
    Content, Document, Notice, RequestId, SessionId, Ticket,
    submission::Submission,
    turns::{Judged, MeasuredJobs},
};

/// A job as committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobDefinition {
    /// Its name, period and traffic, before headroom.
    pub job: Job,
    /// Where its ranks stand.
    pub placement: Placement,
    /// Its hosts in rank order, by name.
    pub hosts: Vec<String>,
    /// What it was made from, kept to make the job again on another fabric and after a restart.
    pub document: Document,
}

/// What an agent saw since its last report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentReport {
    /// Bound of the error of its clock offset, and the round trip; `None` before the first estimate.
    pub clock: Option<ClockQuality>,
    /// One per job that it leads and whose gate was called.
    pub gates: Vec<GateReport>,
}

/// Which program says hello for a host, and where it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Drawn by the program at its start; 0: an earlier version, which draws none.
    pub instance: u64,
    /// Its address, for people.
    pub from: String,
}

/// How well an agent knows fabric time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockQuality {
    /// The offset is wrong by at most this.
    pub bound: Nanos,
    /// Of the best sample.
    pub rtt: Nanos,
}

/// What the gate of one job did since the last report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GateReport {
    /// The job.
    pub job: String,
    /// Of the slot that the gate followed.
    pub plan_version: u64,
    /// Starts.
    pub iterations: u64,
    /// Starts that were held.
    pub holds: u64,
    /// Starts so late that they waited for the next slot.
    pub slips: u64,
    /// Starts let through because the plan could not be trusted.
    pub fail_opens: u64,
    /// Median start minus slot in nanoseconds: positive is late.
    pub phase_error: Option<i64>,
    /// Median iteration.
    pub iteration: Option<Nanos>,
    /// Mean iteration without pauses; `None` too where the agent does not measure it.
    pub iteration_mean: Option<Nanos>,
    /// Upper quartile of the iteration without the hold.
    pub solo: Option<Nanos>,
    /// A period found in byte counters.
    pub observed_period: Option<Nanos>,
    /// How long the job sends, at its shortest, and how long it does not, where it tells its ends and the agent measures it.
    pub up_down: Option<(Nanos, Nanos)>,
}

impl GateReport {
    /// What an iteration took, to be compared with what was predicted, and what figure that is: predictions are means, and agents before
    /// those that measure a mean tell a median alone.
    #[must_use]
    pub fn measured(&self) -> Option<(Nanos, &'static str)> {
        let mean = self.iteration_mean.map(|mean| (mean, "mean"));
        mean.or(self.iteration.map(|median| (median, "median")))
    }
}

/// What a gate counted since the job was committed, or since the service started if that was later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GateTotals {
    /// Starts.
    pub iterations: u64,
    /// Starts so late that they waited for the next slot.
    pub slips: u64,
    /// Starts let through because the plan could not be trusted.
    pub fail_opens: u64,
}

impl GateTotals {
    pub(crate) fn add(&mut self, report: &GateReport) {
        // Counts are what agents say: totals stop at the end of the range, because a counter must never go back.
        self.iterations = self.iterations.saturating_add(report.iterations);
        self.slips = self.slips.saturating_add(report.slips);
        self.fail_opens = self.fail_opens.saturating_add(report.fail_opens);
    }
}

/// Jobs to commit, or new definitions of committed ones.
#[derive(Clone, Debug, Default)]
pub struct Commit {
    /// All or nothing.
    pub jobs: Vec<JobDefinition>,
    /// Refuse unless this version of the fabric is in force: the one on which the jobs were placed.
    pub if_fabric: Option<u64>,
    /// Refuse unless the plan is at this plan version.
    pub if_plan_version: Option<u64>,
    /// How long they stay without renewal; `None`: until released.
    pub lease: Option<Nanos>,
    /// Repeating a commit under the same key answers as the first did. Empty: no key.
    pub key: String,
    /// A digest of what is committed, by which a repetition is told from another commit under the same key. `None`: by the names of the
    /// jobs only.
    pub content: Option<Content>,
    /// The jobs are committed ones of which their agents learned more: their leases stay, also those of the scheduler's jobs, and a job that
    /// is not committed refuses the change.
    pub learned: bool,
    /// Who asks, as notices say it.
    pub by: Option<Arc<str>>,
}

/// What the scheduler changes, whole or not at all.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    /// A job that starts, or none. A step that commits releases nobody.
    pub commit: Option<Commit>,
    /// Jobs that leave the plan, by name.
    pub release: Vec<String>,
    /// Submissions as they are from then on; `None` are forgotten.
    pub submissions: Vec<(Arc<str>, Option<Arc<Submission>>)>,
    /// What is told when it is durable.
    pub notices: Vec<Notice>,
}

/// What a client asks to be changed.
#[derive(Clone, Debug)]
pub enum Change {
    /// Commit jobs.
    Commit(Commit),
    /// Forget jobs.
    Release {
        /// By name.
        jobs: Vec<String>,
        /// Who asks, as notices say it.
        by: Option<Arc<str>>,
    },
    /// Replace the fabric.
    SetFabric {
        /// The fabric.
        fabric: Arc<Fabric>,
        /// Its document.
        text: Arc<str>,
        /// The committed jobs, resolved again on the new fabric: node and NIC ids differ between fabrics.
        jobs: Vec<JobDefinition>,
        /// The version of the fabric that it may replace, 0 where there may be none; `None`: any.
        if_fabric: Option<u64>,
        /// Who asks, as notices say it.
        by: Option<Arc<str>>,
    },
    /// A step of the scheduler.
    Schedule(Box<Schedule>),
}

/// What happens to the service.
#[derive(Clone, Debug)]
pub enum Event {
    /// A client asks for a change.
    Asked {
        /// The request to answer.
        request: RequestId,
        /// For what.
        change: Change,
    },
    /// An agent said hello.
    AgentHello {
        /// Its session.
        session: SessionId,
        /// Its host.
        host: String,
        /// Of its program.
        version: String,
        /// Its ports.
        ports: Vec<String>,
        /// Version of the plan on its pages.
        plan_version: u64,
        /// Which program it is.
        origin: Origin,
    },
    /// A session ended.
    AgentGone {
        /// The session.
        session: SessionId,
    },
    /// An agent wrote its pages.
    PlanAck {
        /// The session.
        session: SessionId,
        /// Version of the plan that it wrote.
        plan_version: u64,
    },
    /// An agent reported; also its heartbeat.
    Report {
        /// The session.
        session: SessionId,
        /// What it saw.
        report: AgentReport,
    },
    /// The turns of a group were compared with running free ([`crate::turns::Turns::poll_judged`]).
    Judged(Judged),
    /// Jobs that take turns were measured ([`crate::turns::Turns::poll_measured`]).
    Measured(MeasuredJobs),
    /// A batch is durable.
    Persisted {
        /// The batch.
        ticket: Ticket,
    },
    /// A batch could not be written.
    PersistFailed {
        /// The batch.
        ticket: Ticket,
        /// Why, for people.
        reason: String,
    },
    /// The loop that runs the service was stalled for so long and handed nothing over, so agents that spoke meanwhile were not heard. That
    /// time does not count as their silence.
    Stalled {
        /// How long.
        lasted: Nanos,
    },
    /// Time passed.
    Tick,
}
