//! The production service in virtual time: its store, the sessions of its agents, and the way between them.

use alloc::{
    collections::BTreeMap,
    format,
    string::{String, ToString},
    sync::Arc,
    vec,
    vec::Vec,
};

use fabric::Fabric;
use gate_core::{Counters, RING, Summary};
use state::{
    Action, AgentReport, Change, ClockQuality, Commit, Document, Event, GateReport, JobDefinition, Notice, Origin, Record, Reply,
    RequestId, Restored, Service, SessionId, Slot,
};
use units::{FabricTime, Nanos};

use crate::testbed::{
    Case, Config, ServiceControl, SimError,
    agenda::{Agenda, Down, SimEvent, Up},
    agents::Agents,
    noise::Noise,
};

/// How long an agent waits before it tries to reach the service again.
pub const RECONNECT: Nanos = Nanos::from_millis(1_000);
/// Most notices kept for the report.
const NOTICES_MAX: usize = 10_000;
/// The request that sets the fabric, those that release jobs, the one that commits the jobs of the beginning, and from
/// [`ARRIVALS`] on those that commit a job that arrives.
const SET_FABRIC: RequestId = RequestId(1);
const RELEASE: RequestId = RequestId(2);
const COMMIT: RequestId = RequestId(3);
const ARRIVALS: u64 = 4;

/// State and notices of the service at the end of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServiceReport {
    /// Plan version of its plan at the end; 0 when it was down.
    pub plan_version: u64,
    /// Plans that it sent.
    pub plans: u64,
    /// Mean score that the commit was answered with.
    pub score: Option<f64>,
    /// Notices of the service, the first 10,000.
    pub notices: Vec<Notice>,
}

/// One agent's end of the connection.
#[derive(Clone, Debug, Default)]
struct Peer {
    session: Option<SessionId>,
    is_cut: bool,
    plan_version: u64,
    /// Counters of each job that it leads at the last report.
    reported: BTreeMap<u32, Counters>,
    /// When the last message of each direction arrives: a session keeps their order.
    up: u64,
    down: u64,
}

#[derive(Debug)]
pub(crate) struct ControlPlane<'a> {
    control: &'a ServiceControl,
    fabric: Arc<Fabric>,
    jobs: Vec<JobDefinition>,
    /// Whether each job is there: from the beginning, or since it arrived and until it departs.
    present: Vec<bool>,
    /// The jobs that are there from the beginning.
    initial: Vec<JobDefinition>,
    hosts: Vec<String>,
    service: Option<Service>,
    /// Counts starts of the service: writes of an earlier start are lost.
    incarnation: u64,
    /// The durable records.
    store: Vec<Record>,
    /// Batches on their way to the store.
    writing: BTreeMap<u64, Vec<Record>>,
    peers: Vec<Peer>,
    /// The agent of each session.
    agents: BTreeMap<u64, u32>,
    last_session: u64,
    tick: Option<u64>,
    noise: Noise,
    report: ServiceReport,
    refused: Option<SimError>,
}

/// The stream of random numbers that messages draw from; jobs have the lower ones.
const STREAM: u64 = u64::MAX;

/// The jobs of a case as they are committed.
pub(crate) fn definitions(case: &Case<'_>) -> Vec<JobDefinition> {
    let fabric = case.router.fabric();
    let definition = |j: &crate::testbed::SimJob| JobDefinition {
        job: j.job.clone(),
        placement: j.placement.clone(),
        hosts: j.placement.ranks.iter().map(|r| fabric.node(r.host).name.clone()).collect(),
        document: Document::new(Arc::new(j.job.name.clone())),
    };
    case.jobs.iter().map(definition).collect()
}

impl<'a> ControlPlane<'a> {
    pub(crate) fn new(case: &Case<'_>, control: &'a ServiceControl, config: &Config, hosts: Vec<String>, agenda: &mut Agenda) -> Self {
        let jobs = definitions(case);
        // The first start is a restart from an empty store, so that both take the same way.
        agenda.add(0, SimEvent::ServiceReturns);
        agenda.add(control.commit_at.0, SimEvent::Commit);
        let every = control.report_every.0.max(1);
        for agent in 0..hosts.len() as u32 {
            agenda.add(0, SimEvent::Connect(agent));
            // Spread over the interval, as agents that were not started together are.
            agenda.add(every / hosts.len() as u64 * u64::from(agent) + every, SimEvent::Report(agent));
        }
        let mut present = vec![true; case.jobs.len()];
        config.lifetimes.iter().for_each(|life| present[life.job as usize] = false);
        Self {
            control,
            fabric: Arc::new(case.router.fabric().clone()),
            initial: jobs.iter().zip(&present).filter(|(_, there)| **there).map(|(job, _)| job.clone()).collect(),
            jobs,
            present,
            peers: vec![Peer::default(); hosts.len()],
            hosts,
            service: None,
            incarnation: 0,
            store: Vec::new(),
            writing: BTreeMap::new(),
            agents: BTreeMap::new(),
            last_session: 0,
            tick: None,
            noise: Noise::new(config.seed, STREAM, 0),
            report: ServiceReport::default(),
            refused: None,
        }
    }

    /// Handles what happens at `now`; returns the agent whose pages may have changed.
    pub(crate) fn happen(&mut self, now: u64, what: SimEvent, agents: &mut Agents, agenda: &mut Agenda) -> Option<u32> {
        match what {
            SimEvent::ServiceDies => self.die(now, agenda),
            SimEvent::ServiceReturns => self.come_back(now, agenda),
            SimEvent::Commit => self.commit(now, agenda),
            SimEvent::Arrives(job) => {
                self.present[job as usize] = true;
                self.commit_one(now, job, agenda);
            }
            SimEvent::Departs(job) => {
                self.present[job as usize] = false;
                self.release(now, job, agenda);
            }
            // The job may have left while there was no service: what the scheduler wants now is what decides, and not what it asked first.
            SimEvent::Again(job) if self.present[job as usize] => self.commit_one(now, job, agenda),
            SimEvent::Again(job) => self.release(now, job, agenda),
            SimEvent::ToService(session, message) => self.receive(now, session, message, agenda),
            SimEvent::ToAgent(agent, session, message) => return self.deliver(now, agent, session, message, agents, agenda),
            SimEvent::Connect(agent) => self.connect(now, agent, agents, agenda),
            SimEvent::Report(agent) => self.send_report(now, agent, agents, agenda),
            SimEvent::Persisted(incarnation, ticket) => {
                // A write that a killed service began must not become durable for the next incarnation.
                if incarnation == self.incarnation
                    && let Some(records) = self.writing.remove(&ticket.0)
                {
                    self.store.extend(records);
                    self.handle(now, Event::Persisted { ticket }, agenda);
                }
            }
            SimEvent::Tick => {
                self.tick = None;
                self.handle(now, Event::Tick, agenda);
            }
            SimEvent::AgentDies(agent) => self.peers[agent as usize].session = None,
            SimEvent::AgentReturns(agent) => {
                // Gates go on counting without an agent; the new agent reports only what happens from here on.
                let reported = agents.led_by(agent).map(|job| (job, *agents.tracker(job).counters())).collect();
                self.peers[agent as usize] = Peer { reported, ..Peer::default() };
                agenda.add(now, SimEvent::Connect(agent));
            }
            SimEvent::Cut(agent, is_cut) => {
                // The service notices by its own deadline, the agent tries again until the way is free.
                let peer = &mut self.peers[agent as usize];
                peer.is_cut = is_cut;
                if is_cut && peer.session.take().is_some() {
                    agenda.add(now.saturating_add(RECONNECT.0), SimEvent::Connect(agent));
                }
            }
            SimEvent::Count
            | SimEvent::ClockStep(..)
            | SimEvent::Turns(_)
            | SimEvent::TurnTick(_)
            | SimEvent::TellsEnd(..)
            | SimEvent::JobRestarts(..) => {}
        }
        None
    }

    /// The commit that was refused, if it was.
    pub(crate) fn refusal(&mut self) -> Option<SimError> {
        self.refused.take()
    }

    pub(crate) fn report(mut self) -> ServiceReport {
        self.report.plan_version = self.service.map_or(0, |s| s.view().plan_version());
        self.report
    }

    /// The process is gone; connections break, which agents see at once.
    fn die(&mut self, now: u64, agenda: &mut Agenda) {
        // Batches on their way are lost and the store keeps what is durable, as after the kill of a real process.
        self.service = None;
        self.incarnation += 1;
        self.writing.clear();
        self.agents.clear();
        for (agent, peer) in (0..).zip(&mut self.peers) {
            if peer.session.take().is_some() {
                agenda.add(now.saturating_add(RECONNECT.0), SimEvent::Connect(agent));
            }
        }
    }

    /// Starts the service from its store.
    fn come_back(&mut self, now: u64, agenda: &mut Agenda) {
        if self.service.is_some() {
            return;
        }
        let (fabric, jobs) = (&self.fabric, &self.jobs);
        let job = |_: &Fabric, name: &str, _: &Document| {
            jobs.iter().find(|j| j.job.name == name).cloned().ok_or_else(|| format!("there is no job {name}"))
        };
        let config = self.control.config.clone();
        let restored = Restored::from_records(self.store.iter().cloned(), |_| Ok(Fabric::clone(fabric)), job);
        match restored.and_then(|r| Service::restore(config, FabricTime(now), r)) {
            Ok(service) => self.service = Some(service),
            // A store that cannot be read leaves the service down, as in production.
            Err(error) => return self.refused = Some(SimError::Refused(error.to_string())),
        }
        // A service that died before its first batch was durable begins anew, and needs its fabric again.
        if self.store.is_empty() {
            let change =
                Change::SetFabric { by: None, if_fabric: None, fabric: Arc::clone(&self.fabric), text: Arc::from(""), jobs: Vec::new() };
            self.handle(now, Event::Asked { request: SET_FABRIC, change }, agenda);
        } else {
            self.tick_when_due(now, agenda);
        }
    }

    fn commit(&mut self, now: u64, agenda: &mut Agenda) {
        if self.service.is_none() {
            // The scheduler tries again.
            return agenda.add(now.saturating_add(RECONNECT.0), SimEvent::Commit);
        }
        let jobs = self.initial.clone();
        if !jobs.is_empty() {
            // The key makes a commit that is asked twice count once; the jobs of the beginning have one key, and each arrival has its own.
            let change = Change::Commit(Commit { jobs, key: "commit".into(), ..Commit::default() });
            self.handle(now, Event::Asked { request: COMMIT, change }, agenda);
        }
    }

    /// A job that arrived; asked again until there is a service.
    fn commit_one(&mut self, now: u64, job: u32, agenda: &mut Agenda) {
        if self.service.is_none() {
            // The retry carries the job alone; `happen` decides when it fires whether to commit or to release.
            return agenda.add(now.saturating_add(RECONNECT.0), SimEvent::Again(job));
        }
        let definition = self.jobs[job as usize].clone();
        let (request, key) = (RequestId(ARRIVALS + u64::from(job)), format!("commit {}", definition.job.name));
        let change = Change::Commit(Commit { jobs: vec![definition], key, ..Commit::default() });
        self.handle(now, Event::Asked { request, change }, agenda);
    }

    /// A job that is gone. One that never came to be committed is refused, and nobody minds.
    fn release(&mut self, now: u64, job: u32, agenda: &mut Agenda) {
        if self.service.is_none() {
            return agenda.add(now.saturating_add(RECONNECT.0), SimEvent::Again(job));
        }
        let change = Change::Release { by: None, jobs: vec![self.jobs[job as usize].job.name.clone()] };
        self.handle(now, Event::Asked { request: RELEASE, change }, agenda);
    }

    /// Hands the service an event and does what it says.
    fn handle(&mut self, now: u64, event: Event, agenda: &mut Agenda) {
        // The service leaves `self` for the loop, because `act` changes the rest of `self` for each action.
        let Some(mut service) = self.service.take() else { return };
        service.handle(FabricTime(now), event);
        while let Some(action) = service.poll() {
            self.act(now, action, agenda);
        }
        self.service = Some(service);
        self.tick_when_due(now, agenda);
    }

    fn tick_when_due(&mut self, now: u64, agenda: &mut Agenda) {
        // A deadline in the past ticks 1 ns from now: a tick at this instant could follow itself without end.
        let due = self.service.as_ref().and_then(Service::deadline).map(|at| at.0.max(now.saturating_add(1)));
        // Only an earlier deadline needs another entry; the entry for a later one stays on the agenda and ticks as well.
        if let Some(due) = due.filter(|due| self.tick.is_none_or(|planned| *due < planned)) {
            self.tick = Some(due);
            agenda.add(due, SimEvent::Tick);
        }
    }

    fn act(&mut self, now: u64, action: Action, agenda: &mut Agenda) {
        match action {
            Action::Persist { ticket, records } => {
                self.writing.insert(ticket.0, records);
                agenda.add(now.saturating_add(self.control.persist.0), SimEvent::Persisted(self.incarnation, ticket));
            }
            Action::Reply { request, result } => match result {
                Ok(Reply::Committed(commitment)) => self.report.score = Some(commitment.score),
                Ok(_) => {}
                // Only a refused commit ends the run: the release of a job that was never committed is refused and changes nothing.
                Err(refusal) if request >= COMMIT => self.refused = Some(SimError::Refused(refusal.to_string())),
                Err(_) => {}
            },
            Action::SendPlan { session, plan_version, slots } => {
                self.report.plans += 1;
                self.send_down(now, session, Down::Plan { plan_version, slots }, agenda);
            }
            Action::Disconnect { session, .. } => {
                // The message goes first, because `send_down` finds the agent by its session.
                self.send_down(now, session, Down::Closed, agenda);
                self.agents.remove(&session.0);
            }
            // A run by turns has its groups from the beginning (`planned_groups`), and no plans are sent in it.
            Action::Turns { .. } => {}
            Action::Notice(notice) => {
                if self.report.notices.len() < NOTICES_MAX {
                    self.report.notices.push(notice);
                }
            }
        }
    }

    fn send_down(&mut self, now: u64, session: SessionId, message: Down, agenda: &mut Agenda) {
        let Some(&agent) = self.agents.get(&session.0) else { return };
        let arrives = now.saturating_add(self.control.way.message(&mut self.noise));
        let peer = &mut self.peers[agent as usize];
        // A session is a stream: no message overtakes the one before it. The agenda keeps the order of messages at one instant.
        peer.down = peer.down.max(arrives);
        agenda.add(peer.down, SimEvent::ToAgent(agent, session, message));
    }

    fn send_up(&mut self, now: u64, agent: u32, session: SessionId, message: Up, agenda: &mut Agenda) {
        let arrives = now.saturating_add(self.control.way.message(&mut self.noise));
        let peer = &mut self.peers[agent as usize];
        peer.up = peer.up.max(arrives);
        agenda.add(peer.up, SimEvent::ToService(session, message));
    }

    fn receive(&mut self, now: u64, session: SessionId, message: Up, agenda: &mut Agenda) {
        if self.service.is_none() {
            return;
        }
        let event = match message {
            Up::Hello { agent, plan_version } => {
                self.agents.insert(session.0, agent);
                let host = self.hosts[agent as usize].clone();
                Event::AgentHello { session, host, version: "virtual".into(), ports: Vec::new(), plan_version, origin: Origin::default() }
            }
            Up::Ack { plan_version } => Event::PlanAck { session, plan_version },
            Up::Report(report) => Event::Report { session, report },
        };
        self.handle(now, event, agenda);
    }

    fn deliver(
        &mut self,
        now: u64,
        agent: u32,
        session: SessionId,
        message: Down,
        agents: &mut Agents,
        agenda: &mut Agenda,
    ) -> Option<u32> {
        // A message of an earlier session is dropped, as the bytes of a closed connection are.
        if self.peers[agent as usize].session != Some(session) || agents.is_dead(agent) {
            return None;
        }
        match message {
            Down::Closed => {
                self.peers[agent as usize].session = None;
                agenda.add(now.saturating_add(RECONNECT.0), SimEvent::Connect(agent));
                None
            }
            Down::Plan { plan_version, slots } => {
                self.write_pages(now, agent, &slots, agents);
                // The acknowledgement follows the pages, so a plan that the service counts as received is one that gates can read.
                self.peers[agent as usize].plan_version = plan_version;
                self.send_up(now, agent, session, Up::Ack { plan_version }, agenda);
                Some(agent)
            }
        }
    }

    /// The plan is the whole plan of the host: what it does not name has no page.
    fn write_pages(&self, now: u64, agent: u32, slots: &[Slot], agents: &mut Agents) {
        let host = &self.hosts[agent as usize];
        for (job, definition) in (0..).zip(&self.jobs) {
            let mine = slots.iter().find(|s| s.job == definition.job.name && s.leader_host == *host);
            // Only the agent of a job's first rank writes its page; the other agents of the job get no slot to write.
            if agents.is_led_by(job, agent) {
                agents.write(job, mine.cloned(), now);
            }
        }
    }

    fn connect(&mut self, now: u64, agent: u32, agents: &Agents, agenda: &mut Agenda) {
        if self.peers[agent as usize].session.is_some() || agents.is_dead(agent) {
            return;
        }
        if self.service.is_none() || self.peers[agent as usize].is_cut {
            return agenda.add(now.saturating_add(RECONNECT.0), SimEvent::Connect(agent));
        }
        self.last_session += 1;
        let session = SessionId(self.last_session);
        let peer = &mut self.peers[agent as usize];
        // A new connection orders its own messages; those of the old one do not delay it.
        (peer.session, peer.up, peer.down) = (Some(session), 0, 0);
        let plan_version = peer.plan_version;
        self.send_up(now, agent, session, Up::Hello { agent, plan_version }, agenda);
    }

    fn send_report(&mut self, now: u64, agent: u32, agents: &Agents, agenda: &mut Agenda) {
        // The next report is planned first, so an agent that is dead or cut off leaves out this report and not all later ones.
        agenda.add(now.saturating_add(self.control.report_every.0.max(1)), SimEvent::Report(agent));
        let Some(session) = self.peers[agent as usize].session.filter(|_| !agents.is_dead(agent)) else { return };
        let mut gates = Vec::new();
        for job in agents.led_by(agent) {
            let tracker = agents.tracker(job);
            let earlier = self.peers[agent as usize].reported.insert(job, *tracker.counters()).unwrap_or_default();
            let since = tracker.counters().since(&earlier);
            if since.iterations == 0 {
                continue;
            }
            // One more than happened since, for the time from the last of the report before to the first of this.
            // `RING` samples are all that a gate keeps, so a report after a long silence covers the last ones only.
            let summary = Summary::of(tracker.last((since.iterations + 1).min(RING as u64)));
            gates.push(GateReport {
                job: self.jobs[job as usize].job.name.clone(),
                plan_version: tracker.plan_version(),
                iterations: since.iterations,
                holds: since.holds,
                slips: since.slips,
                fail_opens: since.fail_opens(),
                phase_error: summary.phase_error,
                iteration: summary.iteration_p50,
                iteration_mean: gate_core::mean_iteration(tracker.last(RING as u64)),
                solo: summary.solo_p75,
                observed_period: None,
                up_down: gate_core::up_and_down(tracker.last(RING as u64)).map(|is| (is.up, is.down)),
            });
        }
        let rtt = Nanos(2 * self.control.way.delay.0);
        let clock = Some(ClockQuality { bound: agents.bound(agent), rtt });
        self.send_up(now, agent, session, Up::Report(AgentReport { clock, gates }), agenda);
    }
}
