//! What reads need: the durable plan, and what agents say.

mod agent;
mod job;
mod link;

use alloc::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    vec::Vec,
};

use fabric::{Fabric, route::Routing};
use units::FabricTime;

pub use self::{
    agent::{AgentState, AgentView},
    job::{JobState, JobView},
    link::{Apart, DemandView, LinkView},
};
use crate::{
    Config, Outlook, Slot,
    agents::Agents,
    audit::{AuditEntry, AuditTrail},
    leases::Leases,
    plan::{Job, Name, Plan},
    submission::Submission,
    turns::{Comparison, TurnGroup},
    watch::Watch,
};

/// What is durable, and what agents say. Reads never see a change that could still be lost.
#[derive(Debug)]
pub struct View {
    /// Of the last event.
    pub(crate) now: FabricTime,
    pub(crate) config: Config,
    pub(crate) plan: Plan,
    pub(crate) agents: Agents,
    pub(crate) leases: Leases,
    pub(crate) watches: BTreeMap<Name, Watch>,
    /// Jobs that are to take turns, and were let go: what was measured was no better.
    pub(crate) let_go: BTreeSet<Name>,
    /// How often a verdict changed that.
    pub(crate) verdicts: u64,
    pub(crate) audit: AuditTrail,
}

impl View {
    pub(crate) fn new(config: Config, plan: Plan) -> Self {
        Self {
            now: FabricTime(0),
            config,
            plan,
            agents: Agents::default(),
            leases: Leases::default(),
            watches: BTreeMap::new(),
            let_go: BTreeSet::new(),
            verdicts: 0,
            audit: AuditTrail::default(),
        }
    }

    /// The version of the plan; 0 before the first change.
    #[must_use]
    pub fn plan_version(&self) -> u64 {
        self.plan.version
    }

    /// Counts the fabrics that were set; 0: none.
    #[must_use]
    pub fn fabric_version(&self) -> u64 {
        self.plan.installed.as_ref().map_or(0, |i| i.version)
    }

    /// The fabric.
    #[must_use]
    pub fn fabric(&self) -> Option<&Arc<Fabric>> {
        self.plan.installed.as_ref().map(|i| i.routing.fabric())
    }

    /// The fabric with its routes, as they were prepared when it was set. Cheap to clone.
    #[must_use]
    pub fn routing(&self) -> Option<&Routing> {
        self.plan.installed.as_ref().map(|i| &i.routing)
    }

    /// The fabric's document.
    #[must_use]
    pub fn fabric_text(&self) -> Option<&Arc<str>> {
        self.plan.installed.as_ref().map(|i| &i.text)
    }

    /// The committed jobs, by name.
    pub fn jobs(&self) -> impl ExactSizeIterator<Item = JobView<'_>> {
        self.plan.jobs().map(|job| JobView { view: self, job })
    }

    /// One job.
    #[must_use]
    pub fn job(&self, name: &str) -> Option<JobView<'_>> {
        self.plan.job(name).map(|job| JobView { view: self, job })
    }

    /// What was submitted to the scheduler, by name.
    pub fn submissions(&self) -> impl ExactSizeIterator<Item = &Arc<Submission>> {
        self.plan.submissions()
    }

    /// Who changed what: the first entries after a number, of at most [`crate::AUDIT_MAX`] that are kept.
    pub fn audit(&self, after: u64) -> impl Iterator<Item = &Arc<AuditEntry>> {
        self.audit.after(after)
    }

    /// How many entries [`View::audit`] has.
    #[must_use]
    pub fn audit_len(&self) -> usize {
        self.audit.len()
    }

    /// What turns would bring to all jobs; `None` unless nobody is to be held, and without jobs.
    #[must_use]
    pub fn outlook(&self) -> Option<Outlook> {
        let observes = self.config.control == plan::Control::Observe && self.plan.jobs().len() > 0;
        observes.then(|| Outlook::of(self.jobs().map(|job| job.forecast())))
    }

    /// All agents, by host.
    pub fn agents(&self) -> impl ExactSizeIterator<Item = AgentView<'_>> {
        self.agents.iter().map(|agent| AgentView { view: self, agent })
    }

    /// The agent of a host.
    #[must_use]
    pub fn agent(&self, host: &str) -> Option<AgentView<'_>> {
        self.agents.at(host).map(|agent| AgentView { view: self, agent })
    }

    /// The groups of jobs that take turns, in order of their first jobs.
    #[must_use]
    pub fn turn_groups(&self) -> Vec<Arc<TurnGroup>> {
        // A component is shared by its members, so the first of them speaks for all.
        let first = |job: &Arc<Job>| job.component.clone().filter(|c| c.members.first() == Some(&job.name));
        self.plan.jobs().filter_map(first).flat_map(|component| component.turns.clone()).collect()
    }

    /// Counts verdicts on groups that take turns: links read before the last one may say otherwise what keeps their jobs apart.
    #[must_use]
    pub fn verdicts(&self) -> u64 {
        self.verdicts
    }

    /// What comparisons of these groups found.
    pub(crate) fn known(&self, groups: &[Arc<TurnGroup>]) -> Vec<Arc<Comparison>> {
        let of = |group: &Arc<TurnGroup>| self.plan.comparison(&group.jobs.first()?.name).filter(|found| found.is_of(group));
        groups.iter().filter_map(of).cloned().collect()
    }

    /// Whether somebody who is to keep to a slot beside this job does not at present: the agent is gone or its clock is bad, or the
    /// gate fails open. A job that has no gate is no passing trouble.
    pub(crate) fn is_disturbed(&self, job: &Job) -> bool {
        let others = job.component.iter().flat_map(|c| &c.members).filter(|name| **name != job.name);
        let held = others.filter_map(|name| self.job(name)).filter(|other| other.job.slot.hold);
        let strays = |other: JobView<'_>| {
            let agent = self.agents.at(&other.job.slot.leader_host).filter(|a| a.session.is_some());
            agent.is_none_or(|a| a.quarantined.contains(&other.job.name)) || other.state() == JobState::Open
        };
        held.into_iter().any(strays)
    }

    /// The plan as a host gets it. Jobs led with too bad a clock are not held.
    pub(crate) fn host_plan(&self, host: &str, expires: FabricTime) -> Vec<Slot> {
        let agent = self.agents.at(host);
        let slot = |job: &Arc<Job>| {
            // The committed slot stays as it is: quarantine is of the agent and ends without a change of the plan.
            let hold = job.slot.hold && !agent.is_some_and(|a| a.quarantined.contains(&job.name));
            Slot { hold, expires, ..job.slot.clone() }
        };
        self.plan.at(host).map(slot).collect()
    }
}
