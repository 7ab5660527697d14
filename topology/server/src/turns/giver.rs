//! What gives turns: notes in, orders out, in one call.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use prost::Message as _;
use proto::{
    datagram::pack,
    v1alpha1::{ServiceDatagram, TurnOrder},
};
use state::{
    Event, SessionId,
    turns::{Comparison, Note, Order, OrderKind, TurnEvent, TurnGroup, Turns},
};
use units::{FabricTime, Nanos};

use super::{TurnsSnapshot, Way, message};
use crate::{FabricClock, metrics::Metrics};

/// The longest sleep of the clock's thread: a gauge that nobody moves is looked at as often.
const SLEEP_MAX: Nanos = Nanos::from_millis(1_000);
/// The shortest one. Deadlines are ends of leases and repetitions, which count in milliseconds, and most are taken back before they come.
const SLEEP_MIN: Nanos = Nanos(500_000);
/// How often the jobs that wait are counted.
const COUNT_EVERY: Nanos = Nanos::from_millis(1_000);
/// How old a snapshot may be. However many look, two are made a second at most, and none while nobody looks.
const SNAPSHOT_AGE_MAX: Nanos = Nanos::from_millis(500);

pub(super) struct Giver {
    turns: Turns,
    clock: FabricClock,
    metrics: Arc<Metrics>,
    found: Box<dyn FnMut(Event) + Send>,
    ways: BTreeMap<SessionId, Arc<dyn Way>>,
    /// Orders that go out after this call.
    orders: BTreeMap<SessionId, VecDeque<TurnOrder>>,
    /// When the notes came that were granted at once.
    granted: Vec<FabricTime>,
    counted: FabricTime,
    snapshot: Option<Arc<TurnsSnapshot>>,
    /// When the clock's thread wakes, whatever happens before.
    wakes: FabricTime,
    /// It is time for that thread to end.
    pub(super) stops: bool,
}

impl Giver {
    pub(super) fn new(clock: FabricClock, metrics: Arc<Metrics>, found: Box<dyn FnMut(Event) + Send>) -> Self {
        Self {
            turns: Turns::default(),
            clock,
            metrics,
            found,
            ways: BTreeMap::new(),
            orders: BTreeMap::new(),
            granted: Vec::new(),
            counted: FabricTime(0),
            snapshot: None,
            wakes: FabricTime(0),
            stops: false,
        }
    }

    /// Other groups take turns from now on.
    pub(super) fn groups(&mut self, groups: Vec<Arc<TurnGroup>>, known: Vec<Arc<Comparison>>) {
        // Whoever has committed jobs and then looks sees them.
        self.snapshot = None;
        self.handle(TurnEvent::Known(known));
        self.handle(TurnEvent::Groups(groups));
    }

    /// A session was admitted; orders for it go by `way`.
    pub(super) fn session(&mut self, session: SessionId, host: Arc<str>, way: Arc<dyn Way>) {
        self.ways.insert(session, way);
        self.handle(TurnEvent::Session { session, host });
    }

    /// A session ended.
    pub(super) fn gone(&mut self, session: SessionId) {
        self.ways.remove(&session);
        self.handle(TurnEvent::Gone { session });
    }

    /// Notes of one datagram, which came at `came`. Their orders share datagrams.
    pub(super) fn notes(&mut self, session: SessionId, came: FabricTime, notes: Vec<Note>) {
        self.metrics.turn_notes(notes.len());
        let now = self.clock.now();
        for note in notes {
            self.note(now, session, came, note);
        }
    }

    /// Handles what is due, and says how long the clock's thread may sleep.
    pub(super) fn tick(&mut self) -> Duration {
        let now = self.clock.now();
        if self.turns.deadline().is_some_and(|due| due <= now) {
            self.handle(TurnEvent::Tick);
        }
        self.count(now);
        let wait = self.turns.deadline().map_or(SLEEP_MAX, |due| due.since(now).clamp(SLEEP_MIN, SLEEP_MAX));
        self.wakes = now.saturating_add(wait);
        Duration::from_nanos(wait.0)
    }

    /// Whether the clock's thread would wake too late for what is due next.
    pub(super) fn is_due_before_it_wakes(&self) -> bool {
        self.turns.deadline().is_some_and(|due| due.saturating_add(SLEEP_MIN) < self.wakes)
    }

    fn note(&mut self, now: FabricTime, session: SessionId, came: FabricTime, note: Note) {
        let (job, number) = (Arc::clone(&note.job), note.number);
        self.turns.handle(now, TurnEvent::Note { session, note });
        while let Some((to, order)) = self.turns.poll() {
            let answers = to == session && order.job == job && order.number == number;
            if answers && order.kind == OrderKind::Grant {
                self.granted.push(came);
            }
            self.order(to, &order);
        }
        self.tell_found();
    }

    fn handle(&mut self, event: TurnEvent) {
        self.turns.handle(self.clock.now(), event);
        while let Some((to, order)) = self.turns.poll() {
            self.order(to, &order);
        }
        self.tell_found();
    }

    fn order(&mut self, to: SessionId, order: &Order) {
        if let Some(granted) = order.granted {
            self.metrics.turn_start(granted);
        }
        self.orders.entry(to).or_default().push_back(message::order(order));
    }

    /// Tells what the iterations showed.
    fn tell_found(&mut self) {
        while let Some(judged) = self.turns.poll_judged() {
            self.metrics.turn_verdict(&judged.verdict);
            (self.found)(Event::Judged(judged));
        }
        while let Some(measured) = self.turns.poll_measured() {
            (self.found)(Event::Measured(measured));
        }
    }

    /// The orders of this call, to be sent once nobody is kept waiting by that.
    pub(super) fn outgoing(&mut self) -> Outgoing {
        let orders = core::mem::take(&mut self.orders);
        // A session that has ended hears nothing.
        let to = |(session, orders)| Some((Arc::clone(self.ways.get(&session)?), orders));
        Outgoing { orders: orders.into_iter().filter_map(to).collect(), granted: core::mem::take(&mut self.granted) }
    }

    fn count(&mut self, now: FabricTime) {
        if now.since(self.counted) < COUNT_EVERY {
            return;
        }
        self.counted = now;
        self.metrics.turns_waiting(self.turns.waiting());
    }

    /// The turns now, or a short while ago.
    pub(super) fn snapshot(&mut self) -> Arc<TurnsSnapshot> {
        let now = self.clock.now();
        if let Some(last) = &self.snapshot
            && now.since(last.at) < SNAPSHOT_AGE_MAX
        {
            return Arc::clone(last);
        }
        let made = Arc::new(TurnsSnapshot { at: now, groups: self.turns.groups().collect() });
        self.snapshot = Some(Arc::clone(&made));
        made
    }
}

/// Orders on their way.
#[derive(Default)]
pub(super) struct Outgoing {
    orders: Vec<(Arc<dyn Way>, VecDeque<TurnOrder>)>,
    granted: Vec<FabricTime>,
}

impl Outgoing {
    pub(super) fn is_empty(&self) -> bool {
        self.orders.is_empty()
    }

    /// Sends the orders: those for one session in as few datagrams as they fit in.
    pub(super) fn send(self, clock: FabricClock, metrics: &Metrics) {
        for (way, mut orders) in self.orders {
            let Some(room) = way.room() else { continue };
            metrics.turn_orders(orders.len());
            // Each turn takes an order off, at least.
            while !orders.is_empty() {
                let packed = pack(&mut orders, room);
                if !packed.is_empty() {
                    way.send(ServiceDatagram { orders: packed, ..ServiceDatagram::default() }.encode_to_vec());
                }
            }
        }
        if !self.granted.is_empty() {
            let now = clock.now();
            for came in self.granted {
                metrics.turn_granted(Duration::from_nanos(now.since(came).0));
            }
        }
    }
}
