//! What happened: the last notices in a ring, with sequence numbers that a reader can come back to.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use proto::v1alpha1::{self as pb, Event, ListEventsResponse, Severity};
use state::{
    Notice,
    scheduler::{HostGpus, Order},
};
use tokio::sync::watch;
use units::{FabricTime, Nanos};

use crate::tally::Tally;

/// Notices held: at one a second, the last hour; 1 MiB of memory.
pub const EVENTS_MAX: usize = 4_096;
/// The part of them, one in so many, that may be of agents, which come, go and report as they like, and of one agent: those about its
/// host, and those about jobs that came by its reports. The oldest of these go first, so no agent makes the service forget what others
/// did.
const HOSTS_PART: usize = 2;
const HOST_PART: usize = 32;
/// Events of one answer when the caller names no number, and at most.
const LIST_DEFAULT: usize = 100;
const LIST_MAX: usize = 1_000;

/// The log. Cloning it shares it.
#[derive(Clone, Debug)]
pub struct EventLog(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    ring: Mutex<Ring>,
    /// The newest sequence number.
    newest: watch::Sender<u64>,
}

#[derive(Debug)]
struct Ring {
    events: VecDeque<Held>,
    next: u64,
    /// How many are of the agent of each host.
    agents: Tally<Arc<str>>,
    of_agents: usize,
}

/// An event, and of whose agent it is.
#[derive(Debug)]
struct Held {
    event: Event,
    agent: Option<Arc<str>>,
}

impl Ring {
    /// Makes room for an event of this host's agent, or of none.
    fn make_room(&mut self, agent: Option<&Arc<str>>) {
        let is_full = |held: usize, part: usize| held >= EVENTS_MAX / part;
        let oldest = match agent {
            Some(agent) if is_full(self.agents.of(agent), HOST_PART) => {
                self.events.iter().position(|held| held.agent.as_ref() == Some(agent))
            }
            Some(_) if is_full(self.of_agents, HOSTS_PART) => self.events.iter().position(|held| held.agent.is_some()),
            _ => (self.events.len() == EVENTS_MAX).then_some(0),
        };
        if let Some(agent) = oldest.and_then(|at| self.events.remove(at)).and_then(|gone| gone.agent) {
            self.agents.take(&agent, 1);
            self.of_agents -= 1;
        }
    }

    fn push(&mut self, held: Held) {
        self.make_room(held.agent.as_ref());
        if let Some(agent) = &held.agent {
            self.agents.add(Arc::clone(agent), 1);
            self.of_agents += 1;
        }
        self.events.push_back(held);
    }
}

impl EventLog {
    /// An empty log. Sequence numbers begin at the milliseconds of `now`, so that they go on rising over restarts and stay exact in
    /// a JSON reader with 53 bits.
    #[must_use]
    pub fn new(now: FabricTime) -> Self {
        // A service that logs less than an event a millisecond never reaches the numbers with which its next run begins.
        let first = now.0 / Nanos::PER_MILLI;
        let ring = Ring { events: VecDeque::with_capacity(EVENTS_MAX), next: first + 1, agents: Tally::default(), of_agents: 0 };
        Self(Arc::new(Shared { ring: Mutex::new(ring), newest: watch::Sender::new(first) }))
    }

    /// Adds a notice and wakes the readers.
    pub fn push(&self, notice: Notice) {
        let mut ring = self.ring();
        let sequence = ring.next;
        ring.next += 1;
        // An old event goes: a reader that is too slow sees a gap in the numbers and holds nothing back.
        let agent = notice.host.as_deref().map(Arc::from).or_else(|| notice.agent.clone());
        ring.push(Held { event: event(sequence, notice), agent });
        // The event is in the ring before readers wake, and the lock is free when they look.
        drop(ring);
        self.0.newest.send_replace(sequence);
    }

    /// The oldest events after a sequence number, `limit` of them (0: the default). After 0: the newest ones.
    #[must_use]
    pub fn list(&self, after: u64, limit: u32) -> ListEventsResponse {
        // `LIST_MAX` bounds the copy that is made under the lock.
        let limit = if limit == 0 { LIST_DEFAULT } else { (limit as usize).min(LIST_MAX) };
        let ring = self.ring();
        let from = match after {
            0 => ring.events.len().saturating_sub(limit),
            // Numbers rise along the ring, so the search is binary.
            _ => ring.events.partition_point(|held| held.event.sequence <= after),
        };
        let events = ring.events.iter().skip(from).take(limit).map(|held| held.event.clone()).collect();
        ListEventsResponse { events, oldest: ring.events.front().map_or(ring.next, |held| held.event.sequence) }
    }

    /// The newest sequence number.
    #[must_use]
    pub fn newest(&self) -> u64 {
        *self.0.newest.borrow()
    }

    /// A reader that begins after a sequence number, or with what comes next.
    #[must_use]
    pub fn reader(&self, after: Option<u64>) -> EventReader {
        EventReader { log: self.clone(), newest: self.0.newest.subscribe(), after: after.unwrap_or_else(|| self.newest()).max(1) }
    }

    fn ring(&self) -> std::sync::MutexGuard<'_, Ring> {
        self.0.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in the log, which holds nothing back: a reader that is too slow misses events and sees the gap in the numbers.
#[derive(Debug)]
pub struct EventReader {
    log: EventLog,
    newest: watch::Receiver<u64>,
    after: u64,
}

impl EventReader {
    /// The next events; waits for at least one. `None`: there will be no more.
    pub async fn next(&mut self) -> Option<Vec<Event>> {
        loop {
            // Seen before looked at, so that an event between the two wakes the wait below.
            self.newest.borrow_and_update();
            let events = self.log.list(self.after, 0).events;
            if let Some(last) = events.last() {
                self.after = last.sequence;
                return Some(events);
            }
            self.newest.changed().await.ok()?;
        }
    }
}

fn event(sequence: u64, notice: Notice) -> Event {
    let severity = match notice.severity {
        state::Severity::Info => Severity::Info,
        state::Severity::Warning => Severity::Warning,
        state::Severity::Error => Severity::Error,
    };
    Event {
        sequence,
        at_ns: notice.at.0,
        severity: severity.into(),
        kind: notice.kind.word().into(),
        message: notice.message,
        job: notice.job.unwrap_or_default(),
        host: notice.host.unwrap_or_default(),
        plan_version: notice.plan_version,
        order: notice.order.as_deref().map(order),
        by: notice.by.as_deref().unwrap_or_default().into(),
    }
}

fn order(order: &Order) -> pb::Order {
    pb::Order { attempt: order.attempt, place: order.place.iter().map(place_message).collect(), until_ns: order.until.0 }
}

/// GPUs of a host as a message.
pub(crate) fn place_message(place: &HostGpus) -> pb::HostGpus {
    pb::HostGpus { host: place.host.clone(), gpus: place.gpus.clone() }
}

#[cfg(test)]
mod tests {
    use state::NoticeKind;

    use super::*;

    fn notice(n: u64) -> Notice {
        let message = n.to_string();
        Notice {
            by: None,
            at: FabricTime(n),
            severity: state::Severity::Info,
            kind: NoticeKind::Committed,
            message,
            job: None,
            host: None,
            agent: None,
            plan_version: n,
            order: None,
        }
    }

    #[test]
    fn the_ring_forgets_the_oldest() {
        let log = EventLog::new(FabricTime(0));
        for n in 1..=EVENTS_MAX as u64 + 10 {
            log.push(notice(n));
        }
        let all = log.list(1, 0);
        assert_eq!((all.oldest, all.events.len(), all.events[0].sequence), (11, LIST_DEFAULT, 11));
        assert_eq!(log.list(0, 2).events[1].sequence, EVENTS_MAX as u64 + 10);
        assert_eq!(log.list(EVENTS_MAX as u64 + 8, 50).events.len(), 2);
        assert_eq!(log.list(u64::MAX, 5).events.len(), 0);
    }

    #[test]
    fn agents_that_come_and_go_push_out_each_others_events_and_no_others() {
        let log = EventLog::new(FabricTime(0));
        let of = |n: u64, host: String| Notice { host: Some(host), ..notice(n) };
        log.push(notice(0));
        log.push(of(1, "quiet".into()));
        for n in 0..3 * EVENTS_MAX as u64 {
            log.push(of(n, "loud".into()));
        }
        let held = |what: &dyn Fn(&Event) -> bool| log.ring().events.iter().filter(|held| what(&held.event)).count();
        assert_eq!((held(&|e| e.host == "loud"), held(&|e| e.host == "quiet")), (EVENTS_MAX / HOST_PART, 1));
        for n in 0..3 * EVENTS_MAX as u64 {
            log.push(of(n, format!("h{n}")));
        }
        assert_eq!((held(&|e| !e.host.is_empty()), held(&|e| e.host.is_empty())), (EVENTS_MAX / HOSTS_PART, 1));
        for n in 0..2 * EVENTS_MAX as u64 {
            log.push(notice(n));
        }
        let ring = log.ring();
        assert_eq!((ring.events.len(), ring.of_agents, ring.agents.len()), (EVENTS_MAX, 0, 0));
        assert!(ring.events.iter().is_sorted_by_key(|held| held.event.sequence));
    }

    /// What reports of an agent bring about jobs counts as what is about its host.
    #[test]
    fn events_of_an_agent_that_name_no_host_count_as_its() {
        let log = EventLog::new(FabricTime(0));
        log.push(notice(0));
        for n in 0..3 * EVENTS_MAX as u64 {
            let about_host = Notice { host: Some("loud".into()), ..notice(n) };
            let about_job = Notice { agent: Some("loud".into()), kind: NoticeKind::Measured, ..notice(n) };
            log.push(if n % 2 == 0 { about_host } else { about_job });
        }
        let all = log.list(0, 1_000).events;
        assert_eq!((all.len(), &all[0].message[..]), (1 + EVENTS_MAX / HOST_PART, "0"));
        assert_eq!(all.iter().filter(|event| event.host.is_empty()).count(), 1 + EVENTS_MAX / HOST_PART / 2);
    }

    #[tokio::test]
    async fn a_reader_continues_where_it_was() {
        let log = EventLog::new(FabricTime(5_000_000));
        log.push(notice(1));
        let mut from_start = log.reader(Some(1));
        let mut from_now = log.reader(None);
        assert_eq!(from_start.next().await.unwrap()[0].sequence, 6);
        log.push(notice(2));
        assert_eq!(from_now.next().await.unwrap()[0].message, "2");
        assert_eq!(from_start.next().await.unwrap().len(), 1);
    }
}
