//! What reads need: the durable plan, and what agents say.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};

use circle::Phase;
use fabric::{Fabric, route::Routing};
use job::MeasuredProfile;
use plan::JobTimes;
use units::{FabricTime, LinkId, Nanos, Rate};

use crate::{
    ClockQuality, Config, Forecast, GateReport, GateTotals, JobDefinition, Outlook, SessionId, Slot,
    agents::{Agent, Agents},
    audit::{AuditEntry, AuditTrail},
    leases::Leases,
    plan::{Job, Name, Plan, Presence},
    submission::Submission,
    turns::{Comparison, TurnGroup},
    watch::Watch,
};

/// Periods for which a report holds: a job of long iterations has few starts to report.
const REPORT_PERIODS: u64 = 4;
/// Iterations before a job is judged by them: the first ones of a training job are others.
const FAR_ITERATIONS_MIN: u64 = 20;

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

/// How a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobState {
    /// No report of its gate yet, or none of late.
    Committed,
    /// Its gate holds it to the slot.
    Held,
    /// Runs as it comes: nobody holds it.
    Free,
    /// Further from its slot than the slack.
    Drifting,
    /// Its gate fails open.
    Open,
}

/// A committed job.
#[derive(Clone, Copy, Debug)]
pub struct JobView<'a> {
    view: &'a View,
    job: &'a Job,
}

/// A link with demand.
#[derive(Clone, Copy, Debug)]
pub struct LinkView<'a> {
    view: &'a View,
    /// The link, of the present fabric.
    pub id: LinkId,
    /// Its capacity.
    pub capacity: Rate,
    /// As its jobs are kept apart now: under the committed slots, or unshifted where they were let go. `None` with fewer than two jobs; 1
    /// where the jobs can never exceed the link.
    pub score: Option<f64>,
    /// If nobody were shifted.
    pub zero_shift_score: Option<f64>,
    /// What keeps its jobs apart; `None`: nothing has to.
    pub apart: Option<Apart>,
    /// Sum of the jobs' highest demands.
    pub peak: Rate,
    here: &'a [Presence],
}

/// What keeps jobs apart that can exceed a link together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Apart {
    /// Their slots, as far as the score says.
    Shifts,
    /// They take turns.
    Turns,
    /// Nothing: their group was let go, so they run as they come, whatever the plan says of slots.
    Free,
}

/// What one job demands of one link.
#[derive(Clone, Copy, Debug)]
pub struct DemandView<'a> {
    /// The job.
    pub job: &'a str,
    /// Scheduled period.
    pub period: Nanos,
    /// Offset of its slot.
    pub shift: Nanos,
    /// Over one period from its own start; ticks are nanoseconds.
    pub phases: &'a [Phase],
}

/// How an agent does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentState {
    /// The agent has a session.
    Connected,
    /// The agent has no session; its pages live until the plan expires.
    Lost,
    /// Its clock is worse than the slack of a job that it leads.
    Quarantined,
}

/// An agent.
#[derive(Clone, Copy, Debug)]
pub struct AgentView<'a> {
    view: &'a View,
    agent: &'a Agent,
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

    /// The links with demand, by id.
    pub fn links(&self) -> impl ExactSizeIterator<Item = LinkView<'_>> {
        self.plan.links().map(|(id, here)| self.link_view(id, here))
    }

    /// One link; `None` where there is no demand.
    #[must_use]
    pub fn link(&self, id: LinkId) -> Option<LinkView<'_>> {
        Some(self.plan.on(id)).filter(|h| !h.is_empty()).map(|here| self.link_view(id, here))
    }

    fn link_view<'a>(&'a self, id: LinkId, here: &'a [Presence]) -> LinkView<'a> {
        // All jobs of a link that can be exceeded are in one component, so the first one speaks for all.
        let shared = here.first().filter(|_| here.len() > 1).and_then(|p| self.plan.job(&p.job));
        // A shared link outside every component can never be exceeded: it scores 1 whatever the shifts.
        let scores = shared.map(|j| j.component.as_ref().and_then(|c| c.scores(id)).unwrap_or((1.0, 1.0)));
        let apart = scores.filter(|(_, unshifted)| *unshifted < 1.0 - circle::PROOF_TOLERANCE).map(|_| self.apart(here));
        LinkView {
            view: self,
            id,
            capacity: Rate(self.plan.capacity(id)),
            score: scores.map(|(shifted, unshifted)| if apart == Some(Apart::Free) { unshifted } else { shifted }),
            zero_shift_score: scores.map(|s| s.1),
            apart,
            peak: Rate(here.iter().fold(0, |sum, p| sum.saturating_add(p.peak))),
            here,
        }
    }

    /// What keeps these jobs of a link apart. Two who were let go meet as they come, whoever else is there.
    fn apart(&self, here: &[Presence]) -> Apart {
        let jobs = || here.iter().filter_map(|presence| self.plan.job(&presence.job)).filter(|job| job.slot.turns);
        match (jobs().count(), jobs().filter(|job| self.let_go.contains(&job.name)).count()) {
            (_, 2..) => Apart::Free,
            (2.., _) => Apart::Turns,
            _ => Apart::Shifts,
        }
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

impl<'a> JobView<'a> {
    /// The job as it is planned: as committed, or as measured.
    #[must_use]
    pub fn planned(&self) -> &'a JobDefinition {
        &self.job.planned
    }

    /// What was measured of it, where it is planned with that and not with what was declared.
    #[must_use]
    pub fn measured(&self) -> Option<MeasuredProfile> {
        self.job.measured
    }

    /// The job as committed.
    #[must_use]
    pub fn committed(&self) -> &'a JobDefinition {
        &self.job.definition
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'a str {
        &self.job.name
    }

    /// The host of its rank 0, whose agent holds it.
    pub(crate) fn leader_host(&self) -> &'a str {
        &self.job.slot.leader_host
    }

    /// The job's slot. The slot expires as told to the leader's agent, at 0 if no agent was told yet.
    #[must_use]
    pub fn slot(&self) -> Slot {
        // The expiry is what the leader's agent was told with its latest plan: the plan itself keeps none.
        let expires = self.view.agents.at(&self.job.slot.leader_host).map_or(FabricTime(0), |a| a.expires);
        Slot { expires, ..self.job.slot.clone() }
    }

    /// Headroom of its period in thousandths.
    #[must_use]
    pub fn headroom_permille(&self) -> u32 {
        self.job.headroom_permille
    }

    /// Whether it takes turns now: it is to, and its group was not let go.
    fn takes_turns(&self) -> bool {
        self.job.slot.turns && !self.view.let_go.contains(&self.job.name)
    }

    /// How it does.
    #[must_use]
    pub fn state(&self) -> JobState {
        let watch = self.view.watches.get(&self.job.name);
        match watch.zip(self.report().map(|(_, report)| report)) {
            // The order of the arms is the order of weight: no fresh report, then no hold, then a gate that is open, then a drift.
            None => JobState::Committed,
            Some(_) if !self.job.slot.hold && !self.takes_turns() => JobState::Free,
            Some((_, last)) if last.fail_opens.saturating_mul(2) > last.iterations => JobState::Open,
            Some((watch, _)) if watch.drifting => JobState::Drifting,
            Some(_) => JobState::Held,
        }
    }

    /// The last report of its gate, and when it came; `None` once it is older than the silence after which an agent is given up
    /// and than a few periods: what the report said is no longer so.
    #[must_use]
    pub fn report(&self) -> Option<(FabricTime, &'a GateReport)> {
        // The age is measured on the view's time, which the events move: the same events give the same answer.
        let last = self.view.watches.get(&self.job.name).and_then(|w| w.last.as_ref());
        // The product saturates: a period too long to multiply is a report that never grows old.
        let holds = self.view.config.idle_timeout.0.max(self.job.slot.times.period.0.saturating_mul(REPORT_PERIODS));
        last.filter(|(at, _)| self.view.now.since(*at).0 <= holds).map(|(at, report)| (*at, report))
    }

    /// What its gate counted; `None` before the first report.
    #[must_use]
    pub fn totals(&self) -> Option<GateTotals> {
        self.view.watches.get(&self.job.name).filter(|w| w.last.is_some()).map(|w| w.totals)
    }

    /// The period that was learned, while it is not the expected one: further from it than [`crate::config::MISMATCH_PERMILLE`], in
    /// several reports.
    #[must_use]
    pub fn period_mismatch(&self) -> Option<Nanos> {
        // Of a job that takes turns nothing is learned here: what was learned before is old.
        self.view.watches.get(&self.job.name).filter(|_| !self.job.slot.turns).and_then(|w| w.period.mismatch)
    }

    /// The iterations by the gate of a job that takes turns, and what they would be by the plan, where the one is more than half as long
    /// again as the other. What is nearer is measured by the turns, and then planned with; before they have, or where what they see
    /// varies too much, this says so.
    #[must_use]
    pub fn far_from_plan(&self) -> Option<(Nanos, Nanos)> {
        let measured = self.report().filter(|_| self.job.slot.turns).and_then(|(_, report)| report.iteration)?;
        let has_just_begun = self.totals().is_some_and(|totals| totals.iterations < FAR_ITERATIONS_MIN);
        let solo = self.planned().job.period;
        let longest = self.times().map_or(solo, |times| times.contended.max(solo));
        let half_as_long_again = |long: Nanos, short: Nanos| long.0 > short.0.saturating_add(short.0 / 2);
        let is_far = half_as_long_again(measured, longest) || half_as_long_again(solo, measured);
        (is_far && !has_just_begun).then_some((measured, solo))
    }

    /// Why the job is not held to a slot any more: its slot did not fit it, in one line with the figures. `None` where that is not so.
    #[must_use]
    pub fn hold_ended(&self) -> Option<&'a str> {
        // What ended a hold in a slot is nothing to jobs that take turns.
        self.job.hold_ended.as_deref().filter(|_| self.view.config.control == plan::Control::Slots)
    }

    /// When the job's lease ends; `None`: the job stays until it is released.
    #[must_use]
    pub fn lease_until(&self) -> Option<FabricTime> {
        self.view.leases.of(&self.job.name)
    }

    /// Predicted iteration times; `None` when it meets nobody: then they are its period.
    #[must_use]
    pub fn times(&self) -> Option<JobTimes> {
        self.job.component.as_ref().and_then(|c| c.times(&self.job.name)).map(|t| t.0)
    }

    /// Predicted iteration when the jobs of its component are held whose slots say so; `None` when it meets nobody.
    #[must_use]
    pub fn interleaved(&self) -> Option<Nanos> {
        self.job.component.as_ref().and_then(|c| c.times(&self.job.name)).map(|t| t.1)
    }

    /// What turns would bring it; `None` unless nobody is to be held, and where it meets nobody.
    #[must_use]
    pub fn forecast(&self) -> Option<Forecast> {
        self.job.component.as_ref().and_then(|c| c.forecast(&self.job.name))
    }

    /// The jobs that this job meets, directly or through others, itself included, by name; empty when the job meets nobody.
    pub fn component(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.job.component.iter().flat_map(|c| &c.members).map(|n| &**n)
    }

    /// Mean score over the links that its component can exceed, and that without shifts; `None` when it meets nobody.
    #[must_use]
    pub fn component_scores(&self) -> Option<(f64, f64)> {
        self.job.component.as_ref().map(|c| (c.score, c.zero_shift_score))
    }

    /// The links that it shares with other jobs, by id.
    pub fn shared_links(&self) -> impl Iterator<Item = LinkId> + use<'a> {
        let plan = &self.view.plan;
        self.job.load.demands.links.iter().map(|(l, _)| *l).filter(|l| plan.on(*l).len() > 1)
    }
}

impl<'a> LinkView<'a> {
    /// The jobs on it, by name.
    pub fn jobs(&self) -> impl ExactSizeIterator<Item = &'a str> + use<'a> {
        self.here.iter().map(|p| &*p.job)
    }

    /// What each of them demands.
    pub fn demands(&self) -> impl Iterator<Item = DemandView<'a>> + use<'a> {
        let plan = &self.view.plan;
        // Both look-ups succeed in a consistent plan; an index in error must not end the service, so such a job is left out.
        self.here.iter().filter_map(|p| {
            let job = plan.job(&p.job)?;
            let phases = job.load.demands.demands.get(p.demand as usize)?;
            Some(DemandView { job: &job.name, period: job.slot.times.period, shift: job.slot.times.offset, phases })
        })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> String {
        self.view.fabric().map_or_else(|| self.id.to_string(), |f| f.link_name(self.id))
    }
}

impl<'a> AgentView<'a> {
    pub(crate) fn view(&self) -> &'a View {
        self.view
    }

    pub(crate) fn agent(&self) -> &'a Agent {
        self.agent
    }

    /// The host.
    #[must_use]
    pub fn host(&self) -> &'a str {
        &self.agent.host
    }

    /// How it does.
    #[must_use]
    pub fn state(&self) -> AgentState {
        match self.agent.session {
            None => AgentState::Lost,
            Some(_) if !self.agent.quarantined.is_empty() => AgentState::Quarantined,
            Some(_) => AgentState::Connected,
        }
    }

    /// Its session.
    #[must_use]
    pub fn session(&self) -> Option<SessionId> {
        self.agent.session
    }

    /// Version of its program.
    #[must_use]
    pub fn version(&self) -> &'a str {
        &self.agent.version
    }

    /// Its ports.
    #[must_use]
    pub fn ports(&self) -> &'a [String] {
        &self.agent.ports
    }

    /// Version of the plan that it acknowledged; 0: none.
    #[must_use]
    pub fn plan_version(&self) -> u64 {
        self.agent.acknowledged
    }

    /// How well it knows fabric time; `None` while it has no session.
    #[must_use]
    pub fn clock(&self) -> Option<ClockQuality> {
        // The clock of an agent that is gone drifts on: its last bound says nothing any more.
        self.agent.clock.filter(|_| self.agent.session.is_some())
    }

    /// When it was heard last.
    #[must_use]
    pub fn last_seen(&self) -> FabricTime {
        self.agent.last_seen
    }

    /// Jobs with ranks on its host, by name.
    pub fn jobs(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.view.plan.at(&self.agent.host).map(|j| &*j.name)
    }

    /// Jobs that it leads but may not hold because of its clock, by name.
    pub fn quarantined(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.agent.quarantined.iter().map(|n| &**n)
    }
}
