//! The loop of the thread.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::Duration,
};

use prost::Message as _;
use proto::{
    datagram::pack,
    v1alpha1::{ServiceDatagram, TurnOrder},
};
use state::{
    SessionId,
    turns::{Judged, Note, Order, OrderKind, TurnEvent, Turns},
};
use units::{FabricTime, Nanos};

use super::{Message, TurnsSnapshot, Way, message};
use crate::{FabricClock, metrics::Metrics};

/// Messages that are taken before their orders go out. Orders of one wake-up share datagrams, and none of them waits for longer than
/// this many messages take, some 100 us.
const AT_ONCE: usize = 64;
/// The longest sleep: a gauge that nobody moves is looked at as often.
const SLEEP_MAX: Duration = Duration::from_secs(1);
/// How often the jobs that wait are counted.
const COUNT_EVERY: Nanos = Nanos::from_millis(1_000);
/// How old a snapshot may be. However many look, the thread makes two a second at most, and none while nobody looks.
const SNAPSHOT_AGE_MAX: Nanos = Nanos::from_millis(500);

pub(super) struct Loop {
    turns: Turns,
    clock: FabricClock,
    metrics: Arc<Metrics>,
    waiting: Arc<AtomicUsize>,
    judged: Box<dyn FnMut(Judged) + Send>,
    ways: BTreeMap<SessionId, Box<dyn Way>>,
    /// Orders that go out at the end of this wake-up.
    orders: BTreeMap<SessionId, VecDeque<TurnOrder>>,
    /// When the notes came that this wake-up granted at once.
    granted: Vec<FabricTime>,
    counted: FabricTime,
    snapshot: Option<Arc<TurnsSnapshot>>,
}

impl Loop {
    pub(super) fn new(clock: FabricClock, metrics: Arc<Metrics>, waiting: Arc<AtomicUsize>, judged: Box<dyn FnMut(Judged) + Send>) -> Self {
        Self {
            turns: Turns::default(),
            clock,
            metrics,
            waiting,
            judged,
            ways: BTreeMap::new(),
            orders: BTreeMap::new(),
            granted: Vec::new(),
            counted: FabricTime(0),
            snapshot: None,
        }
    }

    pub(super) fn run(mut self, messages: &Receiver<Message>) {
        loop {
            let now = self.clock.now();
            let wait = self.turns.deadline().map_or(SLEEP_MAX, |due| Duration::from_nanos(due.since(now).0).min(SLEEP_MAX));
            match messages.recv_timeout(wait) {
                Ok(message) => {
                    if !self.message(message) {
                        return;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            for message in messages.try_iter().take(AT_ONCE) {
                if !self.message(message) {
                    return;
                }
            }
            let now = self.clock.now();
            if self.turns.deadline().is_some_and(|due| due <= now) {
                self.handle(now, TurnEvent::Tick);
            }
            self.send();
            self.count(now);
        }
    }

    /// False when it is time to end.
    fn message(&mut self, message: Message) -> bool {
        let now = self.clock.now();
        match message {
            Message::Stop => return false,
            Message::Groups(groups) => {
                // Whoever has committed jobs and then looks sees them.
                self.snapshot = None;
                self.handle(now, TurnEvent::Groups(groups));
            }
            Message::Session { session, host, way } => {
                self.ways.insert(session, way);
                self.handle(now, TurnEvent::Session { session, host });
            }
            Message::Gone { session } => {
                self.ways.remove(&session);
                self.handle(now, TurnEvent::Gone { session });
            }
            // Whoever asked may be gone.
            Message::Look { reply } => drop(reply.send(self.snapshot(now))),
            Message::Notes { session, came, notes } => {
                self.waiting.fetch_sub(notes.len(), Ordering::Relaxed);
                self.metrics.turn_notes(notes.len());
                for note in notes {
                    self.note(now, session, came, note);
                }
            }
        }
        true
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
        self.judge();
    }

    fn handle(&mut self, now: FabricTime, event: TurnEvent) {
        self.turns.handle(now, event);
        while let Some((to, order)) = self.turns.poll() {
            self.order(to, &order);
        }
        self.judge();
    }

    fn order(&mut self, to: SessionId, order: &Order) {
        if let Some(granted) = order.granted {
            self.metrics.turn_start(granted);
        }
        self.orders.entry(to).or_default().push_back(message::order(order));
    }

    fn judge(&mut self) {
        while let Some(judged) = self.turns.poll_judged() {
            self.metrics.turn_verdict(&judged.verdict);
            (self.judged)(judged);
        }
    }

    /// Sends the orders of this wake-up: those for one session in as few datagrams as they fit in.
    fn send(&mut self) {
        while let Some((session, mut orders)) = self.orders.pop_first() {
            // A session that has ended hears nothing.
            let Some((way, room)) = self.ways.get(&session).and_then(|way| Some((way, way.room()?))) else { continue };
            self.metrics.turn_orders(orders.len());
            // Each turn takes an order off, at least.
            while !orders.is_empty() {
                let packed = pack(&mut orders, room);
                if !packed.is_empty() {
                    way.send(ServiceDatagram { orders: packed, ..ServiceDatagram::default() }.encode_to_vec());
                }
            }
        }
        if !self.granted.is_empty() {
            let now = self.clock.now();
            for came in self.granted.drain(..) {
                self.metrics.turn_granted(Duration::from_nanos(now.since(came).0));
            }
        }
    }

    fn count(&mut self, now: FabricTime) {
        if now.since(self.counted) < COUNT_EVERY {
            return;
        }
        self.counted = now;
        self.metrics.turns_waiting(self.turns.waiting());
    }

    fn snapshot(&mut self, now: FabricTime) -> Arc<TurnsSnapshot> {
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
