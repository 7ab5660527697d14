//! Agents that follow the protocol and nothing else.

use antiphase_state::{AgentReport, ClockQuality, Event, GateReport, Origin, SessionId, Slot};
use units::{FabricTime, Nanos};

use crate::{
    Dice,
    world::{MS, S},
};

/// Silence after which an agent connects again.
const PATIENCE: Nanos = Nanos(50 * S);
const REPORT_EVERY: Nanos = Nanos(4 * S);

/// A message to an agent.
#[derive(Clone, Debug)]
pub(crate) enum ToAgent {
    Plan { session: SessionId, plan_version: u64, slots: Vec<Slot> },
    Goodbye { session: SessionId },
}

#[derive(Debug)]
pub(crate) struct Agent {
    pub(crate) host: String,
    pub(crate) session: Option<SessionId>,
    /// What is on its pages.
    pub(crate) plan_version: u64,
    pub(crate) slots: Vec<Slot>,
    /// Of the plan that it holds, because an empty plan has no slot that says so.
    newest: FabricTime,
    heard: FabricTime,
    next: FabricTime,
}

#[derive(Debug)]
pub(crate) struct Fleet {
    pub(crate) agents: Vec<Agent>,
    sessions: u64,
}

impl Fleet {
    pub(crate) fn new(hosts: u32) -> Self {
        let agent = |h| Agent {
            host: format!("h{h}"),
            session: None,
            plan_version: 0,
            slots: Vec::new(),
            newest: FabricTime(0),
            heard: FabricTime(0),
            next: FabricTime(0),
        };
        Self { agents: (1..=hosts).map(agent).collect(), sessions: 0 }
    }

    /// When one of them says something.
    pub(crate) fn next(&self) -> Option<FabricTime> {
        self.agents.iter().map(|a| a.next).min()
    }

    /// What those say whose time it is.
    pub(crate) fn speak(&mut self, now: FabricTime, dice: &mut Dice, calm: bool) -> Vec<Event> {
        let mut said = Vec::new();
        for agent in self.agents.iter_mut().filter(|a| a.next <= now) {
            agent.next = now.saturating_add(REPORT_EVERY);
            if agent.session.is_some() && now.since(agent.heard) > PATIENCE {
                said.extend(agent.session.take().map(|session| Event::AgentGone { session }));
            }
            let Some(session) = agent.session else {
                self.sessions += 1;
                let session = SessionId(self.sessions);
                agent.session = Some(session);
                agent.heard = now;
                said.push(Event::AgentHello {
                    session,
                    host: agent.host.clone(),
                    version: "1".into(),
                    ports: vec![],
                    plan_version: agent.plan_version,
                    origin: Origin::default(),
                });
                continue;
            };
            said.push(Event::Report { session, report: agent.report(dice, calm) });
        }
        said
    }

    pub(crate) fn receive(&mut self, now: FabricTime, message: ToAgent) -> Vec<Event> {
        let (ToAgent::Plan { session, .. } | ToAgent::Goodbye { session }) = message;
        let Some(agent) = self.agents.iter_mut().find(|a| a.session == Some(session)) else { return Vec::new() };
        let ToAgent::Plan { plan_version, slots, .. } = message else {
            agent.session = None;
            agent.next = now;
            return Vec::new();
        };
        agent.heard = now;
        // Out of order: an older plan must not replace a newer one. Of one plan version, the one that holds longer is newer.
        let expires = slots.iter().map(|s| s.expires).max().unwrap_or(agent.newest);
        if plan_version < agent.plan_version || (plan_version == agent.plan_version && expires < agent.newest) {
            return Vec::new();
        }
        (agent.plan_version, agent.newest, agent.slots) = (plan_version, expires, slots);
        vec![Event::PlanAck { session, plan_version }]
    }
}

impl Agent {
    fn report(&self, dice: &mut Dice, calm: bool) -> AgentReport {
        let bound = if calm { 1 } else { [100, 1_000 * MS, 5 * MS][dice.below(3) as usize] };
        let led = self.slots.iter().filter(|s| s.leader_host == self.host);
        let gate = |slot: &Slot| {
            let far = !calm && dice.chance(30);
            let error = if far { dice.below(slot.times.period.0) as i64 - (slot.times.period.0 / 2) as i64 } else { 0 };
            let slips = if calm { 0 } else { dice.below(40) / 37 };
            GateReport {
                job: slot.job.clone(),
                plan_version: slot.plan_version,
                iterations: 10,
                holds: 10 * u64::from(slot.hold),
                slips,
                phase_error: Some(error),
                ..GateReport::default()
            }
        };
        let gates = led.map(gate).collect();
        AgentReport { clock: Some(ClockQuality { bound: Nanos(bound), rtt: Nanos(2 * bound) }), gates }
    }
}
