//! Turns in virtual time: what agents do for jobs that take turns, the service's side of turns, and the datagrams between them.
//!
//! The machines are those of production: [`TurnAgent`] here, [`gate_core::TurnGate`] in the event loop, [`state::turns::Turns`] in
//! [`desk`]. This room owns only the way between them.

mod belief;
mod desk;
mod groups;
mod log;
mod planned;
mod referee;

use alloc::{collections::BTreeMap, sync::Arc, vec, vec::Vec};

use gate_core::{Note, Order, PageChange, Permit, Told, Turn, TurnAgent};
use state::{SessionId, turns as service};
use units::Nanos;

use crate::testbed::{
    Case, Config, TurnsControl,
    agenda::{Agenda, SimEvent, TurnEvent},
    agents::Agents,
    config::Way,
    noise::Noise,
};

use self::desk::Desk;
pub use self::{
    groups::turn_groups,
    log::{Belief, Over, TurnStart, TurnsReport, Went},
    planned::planned_groups,
    referee::{Overlap, Why, overlaps},
};

/// How long an agent without a session waits before it tries again.
const RETRY: Nanos = crate::testbed::RECONNECT;
/// A gate that waits looks at its page so often though nobody wakes it.
const LOOK: Nanos = Nanos::from_millis(10);
/// The stream of random numbers that datagrams draw from.
const STREAM: u64 = u64::MAX - 1;

/// One agent's end of its session.
#[derive(Clone, Copy, Debug, Default)]
struct Peer {
    session: Option<SessionId>,
    /// It has asked for a session.
    asks: bool,
    is_cut: bool,
}

/// What the agent of a job's first rank does for it.
#[derive(Debug)]
struct Led {
    agent: u32,
    name: Arc<str>,
    /// Empty while the agent is dead.
    machine: Option<TurnAgent>,
    /// As on the page.
    turn: Turn,
    went: Went,
    tick: Option<u64>,
    /// The bytes of its host are this job's.
    has_bytes: bool,
}

/// Agents and service, as far as turns go.
#[derive(Debug)]
pub(crate) struct TurnSystem<'a> {
    control: &'a TurnsControl,
    peers: Vec<Peer>,
    jobs: Vec<Option<Led>>,
    numbers: BTreeMap<Arc<str>, u32>,
    desk: Desk,
    last_session: u64,
    noise: Noise,
    /// Gates that may read something new: which job, and when.
    looks: Vec<(u32, u64)>,
    report: TurnsReport,
}

impl<'a> TurnSystem<'a> {
    pub(crate) fn new(case: &Case<'_>, control: &'a TurnsControl, config: &Config, agents: &Agents, agenda: &mut Agenda) -> Self {
        let hosts = agents.hosts(case);
        let numbers: BTreeMap<Arc<str>, u32> = case.jobs.iter().map(|j| Arc::from(j.job.name.as_str())).zip(0..).collect();
        let mut jobs: Vec<Option<Led>> = case.jobs.iter().map(|_| None).collect();
        for job in control.groups.iter().flat_map(|g| &g.jobs) {
            let Some(&number) = numbers.get(&job.name) else { continue };
            let Some(agent) = agents.leader(number) else { continue };
            let (machine, turn) = (Some(TurnAgent::new(false)), Turn::default());
            let host = |j: &crate::testbed::SimJob| j.placement.ranks.first().map(|rank| rank.host);
            let here = host(&case.jobs[number as usize]);
            let others = case.jobs.iter().filter(|j| j.placement.ranks.iter().any(|rank| Some(rank.host) == here)).count();
            let has_bytes = control.byte_counters && others == 1;
            let led = Led { agent, name: job.name.clone(), machine, turn, went: Went::Granted, tick: None, has_bytes };
            jobs[number as usize] = Some(led);
        }
        // The first start is a restart, so that both take the same way.
        agenda.add(0, SimEvent::ServiceReturns);
        for agent in 0..hosts.len() as u32 {
            agenda.add(0, SimEvent::Turns(TurnEvent::Connect(agent)));
        }
        Self {
            control,
            peers: vec![Peer::default(); hosts.len()],
            desk: Desk::new(control, hosts, numbers.clone()),
            jobs,
            numbers,
            last_session: 0,
            noise: Noise::new(config.seed, STREAM, 0),
            looks: Vec::new(),
            report: TurnsReport::default(),
        }
    }

    /// Whether the job takes turns.
    pub(crate) fn takes(&self, job: u32) -> bool {
        self.jobs[job as usize].is_some()
    }

    /// What the page of a job says about turns.
    pub(crate) fn turn(&self, job: u32) -> Turn {
        let turn = self.jobs[job as usize].as_ref().map_or_else(Turn::default, |led| led.turn);
        Turn { max: self.control.turn_max, ..turn }
    }

    /// Whose permission is on the page of a job.
    pub(crate) fn went(&self, job: u32) -> Went {
        self.jobs[job as usize].as_ref().map_or(Went::Itself, |led| led.went)
    }

    /// A gate that should look at its page again, and when.
    pub(crate) fn next_look(&mut self) -> Option<(u32, u64)> {
        self.looks.pop()
    }

    /// The gate of a job tells its agent something; whether there is an agent.
    pub(crate) fn tell(&mut self, now: u64, job: u32, note: Note, agents: &mut Agents, agenda: &mut Agenda) -> bool {
        let node = agents.node(job, now);
        let Some(machine) = self.jobs[job as usize].as_mut().and_then(|led| led.machine.as_mut()) else { return false };
        machine.handle_note(node, note);
        self.drain(now, job, Went::Alone, agents, agenda);
        true
    }

    /// Handles what happens at `now`.
    pub(crate) fn happen(&mut self, now: u64, event: TurnEvent, agents: &mut Agents, agenda: &mut Agenda) {
        match event {
            TurnEvent::Connect(agent) => self.connect(now, agent, agents, agenda),
            TurnEvent::Hello(agent, session) => {
                if !self.peers[agent as usize].is_cut && self.desk.admit(now, agent, session) {
                    let at = now.saturating_add(self.control.way.message(&mut self.noise));
                    agenda.add(at, SimEvent::Turns(TurnEvent::Welcome(agent, session)));
                }
                self.answer(now, agenda);
            }
            TurnEvent::Welcome(agent, session) => {
                let peer = &mut self.peers[agent as usize];
                // It died or lost the way meanwhile, and asks again.
                if peer.asks && !peer.is_cut && !agents.is_dead(agent) {
                    (peer.session, peer.asks) = (Some(session), false);
                    self.set_connected(now, agent, true, agents, agenda);
                }
            }
            TurnEvent::Note(session, note) => {
                if !self.desk.agent_of(session).is_none_or(|agent| self.peers[agent as usize].is_cut) {
                    let job = self.numbers.get(&note.job).copied();
                    self.desk.note(now, session, note, job);
                    self.answer(now, agenda);
                }
            }
            TurnEvent::Order(agent, session, order) => self.order(now, agent, session, &order, agents, agenda),
            TurnEvent::Lost(agent, session) => {
                // A way that was cut for less than that has lost datagrams and no session.
                let is_over = self.peers[agent as usize].is_cut || self.desk.agent_of(session).is_none();
                if self.peers[agent as usize].session == Some(session) && is_over {
                    self.peers[agent as usize].session = None;
                    self.set_connected(now, agent, false, agents, agenda);
                    self.connect(now, agent, agents, agenda);
                }
            }
            TurnEvent::Gone(session) => {
                let lives = |agent: u32| self.peers[agent as usize].session == Some(session) && !self.peers[agent as usize].is_cut;
                if !self.desk.agent_of(session).is_some_and(lives) {
                    self.desk.gone(now, session);
                }
                self.answer(now, agenda);
            }
            TurnEvent::Tick => {
                self.desk.tick(now);
                self.answer(now, agenda);
            }
        }
    }

    /// No message passes between an agent and the service from now on, or it does again.
    pub(crate) fn cut(&mut self, now: u64, agent: u32, is_cut: bool, agenda: &mut Agenda) {
        self.peers[agent as usize].is_cut = is_cut;
        if is_cut {
            self.break_session(now, agent, agenda);
        }
    }

    /// The service is killed: what it knew is lost. Agents notice by its silence.
    pub(crate) fn service_dies(&mut self, now: u64, agenda: &mut Agenda) {
        self.desk.die(now);
        for (agent, peer) in (0..).zip(&self.peers) {
            if let Some(session) = peer.session {
                agenda.add(now.saturating_add(self.control.lost_after.0), SimEvent::Turns(TurnEvent::Lost(agent, session)));
            }
        }
    }

    /// The service is started again.
    pub(crate) fn service_returns(&mut self, now: u64, agenda: &mut Agenda) {
        self.desk.start(now, &self.control.groups);
        self.answer(now, agenda);
    }

    /// An agent is killed; its pages stay.
    pub(crate) fn agent_dies(&mut self, now: u64, agent: u32, agenda: &mut Agenda) {
        self.break_session(now, agent, agenda);
        (self.peers[agent as usize].session, self.peers[agent as usize].asks) = (None, false);
        self.jobs.iter_mut().flatten().filter(|led| led.agent == agent).for_each(|led| led.machine = None);
    }

    /// It is started again, and knows nothing.
    pub(crate) fn agent_returns(&mut self, now: u64, agent: u32, agents: &mut Agents, agenda: &mut Agenda) {
        for led in self.jobs.iter_mut().flatten().filter(|led| led.agent == agent && led.machine.is_none()) {
            (led.machine, led.turn) = (Some(TurnAgent::new(false)), Turn::default());
        }
        self.connect(now, agent, agents, agenda);
    }

    pub(crate) fn report(mut self) -> TurnsReport {
        self.desk.tell_report(&mut self.report);
        self.report
    }

    /// What the service believed of the starts of a job, and the starts that it granted though they were not free.
    pub(crate) fn beliefs(&self) -> &belief::Beliefs {
        &self.desk.beliefs
    }

    fn connect(&mut self, now: u64, agent: u32, agents: &Agents, agenda: &mut Agenda) {
        let peer = &mut self.peers[agent as usize];
        if peer.session.is_some() || agents.is_dead(agent) {
            return;
        }
        // Asked again until it is answered; a second answer changes nothing.
        peer.asks = true;
        agenda.add(now.saturating_add(RETRY.0), SimEvent::Turns(TurnEvent::Connect(agent)));
        if self.desk.is_up() && !peer.is_cut {
            self.last_session += 1;
            let at = now.saturating_add(self.control.way.message(&mut self.noise));
            agenda.add(at, SimEvent::Turns(TurnEvent::Hello(agent, SessionId(self.last_session))));
        }
    }

    /// From now on nothing passes, and both ends notice by the silence of the other.
    fn break_session(&mut self, now: u64, agent: u32, agenda: &mut Agenda) {
        let Some(session) = self.peers[agent as usize].session else { return };
        let at = now.saturating_add(self.control.lost_after.0);
        agenda.add(at, SimEvent::Turns(TurnEvent::Lost(agent, session)));
        agenda.add(at, SimEvent::Turns(TurnEvent::Gone(session)));
    }

    fn set_connected(&mut self, now: u64, agent: u32, connected: bool, agents: &mut Agents, agenda: &mut Agenda) {
        for job in 0..self.jobs.len() as u32 {
            let Some(led) = self.jobs[job as usize].as_mut().filter(|led| led.agent == agent) else { continue };
            let Some(machine) = led.machine.as_mut() else { continue };
            machine.set_connected(agents.node(job, now), connected);
            self.drain(now, job, Went::Alone, agents, agenda);
        }
    }

    fn order(&mut self, now: u64, agent: u32, session: SessionId, order: &service::Order, agents: &mut Agents, agenda: &mut Agenda) {
        let peer = &self.peers[agent as usize];
        if peer.session != Some(session) || peer.is_cut {
            return;
        }
        let Some(&job) = self.numbers.get(&order.job) else { return };
        let node = agents.node(job, now);
        let Some(machine) = self.jobs[job as usize].as_mut().filter(|led| led.agent == agent).and_then(|led| led.machine.as_mut()) else {
            return;
        };
        machine.handle_order(node, order_of(order));
        let went = if order.kind == service::OrderKind::GrantAhead { Went::Ahead } else { Went::Granted };
        self.drain(now, job, went, agents, agenda);
    }

    /// The deadline of a job's agent, or its time to look at the bytes that its host has carried. Whether the agent took the job's start for
    /// ended, though the gate did not say so.
    pub(crate) fn tick(&mut self, now: u64, job: u32, carried: u64, agents: &mut Agents, agenda: &mut Agenda) -> bool {
        let node = agents.node(job, now);
        let Some(led) = self.jobs[job as usize].as_mut() else { return false };
        // An entry that an earlier one has overtaken: whoever answered it too would plan two, and these four.
        if led.tick.is_none_or(|planned| planned > now) {
            return false;
        }
        led.tick = None;
        let has_bytes = led.has_bytes;
        let Some(machine) = led.machine.as_mut() else { return false };
        let found = |machine: &TurnAgent| machine.counts().ended_by_bytes + machine.counts().ended_by_length;
        let before = found(machine);
        machine.handle_tick(node);
        if has_bytes && machine.look_at().is_some_and(|at| at <= node) {
            machine.handle_bytes(node, node, carried, Nanos(0));
        }
        let has_ended = found(machine) > before;
        self.drain(now, job, Went::Alone, agents, agenda);
        has_ended
    }

    /// Does what the agent of a job says: writes its page, and sends what the service is to be told.
    fn drain(&mut self, now: u64, job: u32, went: Went, agents: &mut Agents, agenda: &mut Agenda) {
        let Some(led) = self.jobs[job as usize].as_mut() else { return };
        let Some(machine) = led.machine.as_mut() else { return };
        if let Some(change) = machine.poll_page() {
            if machine.turn().permit == Permit::Go && led.turn != machine.turn() {
                led.went = went;
            }
            led.turn = machine.turn();
            agents.touch(job, now);
            let after = if change == PageChange::WriteAndWake { self.control.wake } else { LOOK };
            self.looks.push((job, now.saturating_add(after.0)));
        }
        let look_at = machine.look_at().filter(|_| led.has_bytes);
        let due = machine.deadline().into_iter().chain(look_at).min().map(|at| agents.time_of(job, at).max(now.saturating_add(1)));
        if let Some(due) = due.filter(|due| led.tick.is_none_or(|planned| *due < planned)) {
            led.tick = Some(due);
            agenda.add(due, SimEvent::TurnTick(job));
        }
        let node = agents.node(job, now);
        let (agent, name) = (led.agent, led.name.clone());
        let told: Vec<Told> = core::iter::from_fn(|| machine.poll_told()).collect();
        let Some(session) = self.peers[agent as usize].session else { return };
        for told in told {
            let note = note_of(&told, &name, node.since(told.at));
            self.datagram(now, SimEvent::Turns(TurnEvent::Note(session, note)), agenda);
        }
    }

    /// Sends what the service says, and sets its timer.
    fn answer(&mut self, now: u64, agenda: &mut Agenda) {
        for (agent, session, order) in self.desk.take_orders() {
            self.datagram(now, SimEvent::Turns(TurnEvent::Order(agent, session, order)), agenda);
        }
        if let Some(due) = self.desk.due(now) {
            agenda.add(due, SimEvent::Turns(TurnEvent::Tick));
        }
    }

    /// A datagram takes its own time, comes late, twice or not at all.
    fn datagram(&mut self, now: u64, what: SimEvent, agenda: &mut Agenda) {
        let Way { delay, jitter, loss_permille, .. } = self.control.way;
        let mut draw = |of: u32| self.noise.below(1_000) < u64::from(of);
        let (lost, doubled) = (draw(loss_permille), draw(self.control.doubled_permille));
        self.report.sent += 1;
        self.report.lost += u64::from(lost);
        for _ in 0..u32::from(!lost) + u32::from(doubled && !lost) {
            let late = self.noise.below(1_000) < u64::from(self.control.late_permille);
            let more = if late { self.noise.below(3 * (delay.0 + jitter.0)) } else { 0 };
            let at = now.saturating_add(delay.0).saturating_add(self.noise.below(jitter.0)).saturating_add(more);
            agenda.add(at, what.clone());
        }
    }
}

/// An order of the service as an agent knows it.
fn order_of(order: &service::Order) -> Order {
    let kind = match order.kind {
        service::OrderKind::Heard(kind) => gate_core::OrderKind::Heard(match kind {
            service::NoteKind::Withdrawn => gate_core::ToldKind::Withdrawn,
            service::NoteKind::Ready => gate_core::ToldKind::Ready,
            service::NoteKind::Started => gate_core::ToldKind::Started,
            service::NoteKind::Ended => gate_core::ToldKind::Ended,
        }),
        service::OrderKind::Grant => gate_core::OrderKind::Grant,
        service::OrderKind::GrantAhead => gate_core::OrderKind::GrantAhead,
        service::OrderKind::Hold => gate_core::OrderKind::Hold,
        service::OrderKind::Withdraw => gate_core::OrderKind::Withdraw,
    };
    Order { kind, writer: order.writer, number: order.number, at_most: order.at_most }
}

/// What an agent tells as the service knows it.
fn note_of(told: &Told, job: &Arc<str>, age: Nanos) -> service::Note {
    let kind = match told.kind {
        gate_core::ToldKind::Withdrawn => service::NoteKind::Withdrawn,
        gate_core::ToldKind::Ready => service::NoteKind::Ready,
        gate_core::ToldKind::Started => service::NoteKind::Started,
        gate_core::ToldKind::Ended => service::NoteKind::Ended,
    };
    let phase = u32::try_from(told.phase).unwrap_or(u32::MAX);
    service::Note { job: job.clone(), writer: told.writer, number: told.number, kind, phase, age, sent: told.sent }
}
