//! The service's side of turns in virtual time: [`state::turns::Turns`] as it is, its sessions, and what it says.

use alloc::{collections::BTreeMap, string::String, sync::Arc, vec::Vec};

use state::{
    SessionId,
    turns::{Judged, Note, Order, OrderKind, TurnEvent, TurnGroup, TurnView, Turns},
};
use units::{FabricTime, Nanos};

use super::{
    belief::{Beliefs, Cause, View},
    log::TurnsReport,
};
use crate::testbed::TurnsControl;

#[derive(Debug)]
pub(super) struct Desk {
    /// `None` while the service is down.
    turns: Option<Turns>,
    hosts: Vec<String>,
    agents: BTreeMap<u64, u32>,
    numbers: BTreeMap<Arc<str>, u32>,
    orders: Vec<(u32, SessionId, Order)>,
    tick: Option<u64>,
    pub(super) beliefs: Beliefs,
    back: Vec<(Nanos, Option<Nanos>)>,
    judged: Vec<(Nanos, Judged)>,
}

impl Desk {
    pub(super) fn new(control: &TurnsControl, hosts: Vec<String>, numbers: BTreeMap<Arc<str>, u32>) -> Self {
        Self {
            turns: None,
            hosts,
            agents: BTreeMap::new(),
            orders: Vec::new(),
            tick: None,
            beliefs: Beliefs::new(if control.log { numbers.len() } else { 0 }),
            numbers,
            back: Vec::new(),
            judged: Vec::new(),
        }
    }

    pub(super) fn is_up(&self) -> bool {
        self.turns.is_some()
    }

    pub(super) fn agent_of(&self, session: SessionId) -> Option<u32> {
        self.agents.get(&session.0).copied()
    }

    /// The service's starts and judgements go to the report.
    pub(super) fn tell_report(&mut self, report: &mut TurnsReport) {
        (report.back, report.judged) = (core::mem::take(&mut self.back), core::mem::take(&mut self.judged));
    }

    /// The service begins, with these groups and nothing else.
    pub(super) fn start(&mut self, now: u64, groups: &[Arc<TurnGroup>]) {
        if self.turns.is_none() {
            self.turns = Some(Turns::default());
            self.tick = None;
            self.back.push((Nanos(now), None));
            self.handle(now, TurnEvent::Groups(groups.to_vec()), Cause::Other);
        }
    }

    pub(super) fn die(&mut self, now: u64) {
        self.turns = None;
        self.agents.clear();
        self.orders.clear();
        self.beliefs.forget(now);
    }

    /// An agent comes; false while the service is down.
    pub(super) fn admit(&mut self, now: u64, agent: u32, session: SessionId) -> bool {
        if self.turns.is_none() {
            return false;
        }
        self.agents.insert(session.0, agent);
        let host = self.hosts[agent as usize].as_str().into();
        self.handle(now, TurnEvent::Session { session, host }, Cause::Other);
        true
    }

    pub(super) fn gone(&mut self, now: u64, session: SessionId) {
        if self.agents.remove(&session.0).is_some() {
            self.handle(now, TurnEvent::Gone { session }, Cause::Other);
        }
    }

    pub(super) fn note(&mut self, now: u64, session: SessionId, note: Note, job: Option<u32>) {
        let cause = job.map_or(Cause::Other, |job| Cause::Note { job, place: (note.writer, note.number), kind: note.kind });
        self.handle(now, TurnEvent::Note { session, note }, cause);
    }

    pub(super) fn tick(&mut self, now: u64) {
        self.tick = None;
        self.handle(now, TurnEvent::Tick, Cause::Other);
    }

    pub(super) fn take_orders(&mut self) -> Vec<(u32, SessionId, Order)> {
        core::mem::take(&mut self.orders)
    }

    /// When the service wants to be asked next, if that is earlier than was planned.
    pub(super) fn due(&mut self, now: u64) -> Option<u64> {
        // Only an earlier deadline needs another entry; the entry for a later one stays on the agenda and ticks as well.
        let due = self.turns.as_ref()?.deadline()?.0.max(now.saturating_add(1));
        let is_news = self.tick.is_none_or(|planned| due < planned);
        is_news.then(|| *self.tick.insert(due))
    }

    fn handle(&mut self, now: u64, event: TurnEvent, cause: Cause) {
        let Some(turns) = &mut self.turns else { return };
        turns.handle(FabricTime(now), event);
        let first = self.orders.len();
        while let Some((session, order)) = turns.poll() {
            if let Some(&agent) = self.agents.get(&session.0) {
                self.orders.push((agent, session, order));
            }
        }
        while let Some(judged) = turns.poll_judged() {
            self.judged.push((Nanos(now), judged));
        }
        // Groups are given here, and nobody plans them anew.
        while turns.poll_measured().is_some() {}
        let said = &self.orders[first..];
        if said.iter().any(|(_, _, order)| matches!(order.kind, OrderKind::Grant | OrderKind::GrantAhead))
            && let Some((_, back @ None)) = self.back.last_mut()
        {
            *back = Some(Nanos(now));
        }
        if self.beliefs.is_kept() {
            let granted = said.iter().filter(|(_, _, order)| order.kind == OrderKind::Grant);
            let granted: Vec<(u32, (u64, u64))> =
                granted.filter_map(|(_, _, o)| Some((*self.numbers.get(&o.job)?, (o.writer, o.number)))).collect();
            let view = |v: TurnView<'_>| {
                let job = *self.numbers.get(v.job)?;
                Some(View { job, sends_until: v.sends_until.map(|at| at.0), let_go: v.counts.let_go, is_held: v.holds })
            };
            let views = turns.view().filter_map(view);
            self.beliefs.update(now, cause, &granted, views);
        }
    }
}
