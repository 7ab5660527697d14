//! What the callbacks of one process make: events in a ring, and the ring to the agent.

use std::sync::atomic::{AtomicU64, Ordering};

use gate::{
    Config,
    events::{Event, EventKind, EventWriter, VALUE_BITS},
    notes::Greeting,
    now,
};
use units::{Nanos, NodeTime};

use crate::flight::{Change, Flight};

/// How often the ring is passed to the agent, when the job calls a collective: one that began anew has it after that. Passing costs some
/// ten microseconds of the thread that calls.
const GREET_EVERY: Nanos = Nanos::from_millis(1_000);

/// Observes the communicators of this process.
#[derive(Debug)]
pub(crate) struct Observer {
    ring: EventWriter,
    greeting: Greeting,
    greeted: AtomicU64,
    flight: Flight,
    communicators: AtomicU64,
}

impl Observer {
    /// What the environment asks for; `None` where this process is of no job, the gate is off, or the kernel gives no memory.
    pub(crate) fn from_env() -> Option<Self> {
        Self::new(&Config::from_env().ok()?)
    }

    fn new(config: &Config) -> Option<Self> {
        let job = config.job.as_ref().filter(|_| !config.off)?;
        let ring = EventWriter::create().ok()?;
        let greeting = Greeting::new(&config.directory, job, &ring);
        let (greeted, communicators) = (AtomicU64::new(0), AtomicU64::new(0));
        let flight = Flight::new(ring.writer());
        Some(Self { ring, greeting, greeted, flight, communicators })
    }

    /// A communicator is there.
    pub(crate) fn opened(&self) {
        self.communicators.fetch_add(1, Ordering::Relaxed);
        self.greet(now());
    }

    /// A communicator is gone, and with the last one every operation that never ended.
    pub(crate) fn closed(&self) {
        let fewer = |count: u64| count.checked_sub(1);
        if self.communicators.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer) == Ok(1) {
            self.tell(self.flight.end_all());
        }
    }

    /// The job called a collective, or a send or a receive; `what` is a hash of what it called.
    #[inline]
    pub(crate) fn called(&self, what: u64) {
        let at = now();
        self.ring.push(Event { kind: EventKind::Called, at, value: what >> (u64::BITS - VALUE_BITS) });
        self.greet(at);
    }

    /// An operation of the network begins; gives its handle.
    #[inline]
    pub(crate) fn begin(&self) -> u64 {
        let (handle, change) = self.flight.begin();
        self.tell(change);
        handle
    }

    /// An operation ends, if the handle is that of one.
    #[inline]
    pub(crate) fn end(&self, handle: u64) {
        self.tell(self.flight.end(handle));
    }

    #[inline]
    fn tell(&self, change: Option<Change>) {
        let (kind, value) = match change {
            Some(Change::Busy(finished)) => (EventKind::Busy, finished),
            Some(Change::Idle(finished)) => (EventKind::Idle, finished),
            None => return,
        };
        self.ring.push(Event { kind, at: now(), value });
    }

    #[inline]
    fn greet(&self, at: NodeTime) {
        let last = self.greeted.load(Ordering::Relaxed);
        // Of several threads one passes it.
        if at.since(NodeTime(last)) >= GREET_EVERY
            && self.greeted.compare_exchange(last, at.0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            self.greeting.send(&self.ring);
        }
    }
}

#[cfg(test)]
mod tests {
    use gate::{JobName, NoteReader, Received};

    use super::*;

    #[test]
    fn an_agent_that_begins_anew_gets_the_ring_again() {
        let directory = tempfile::tempdir().unwrap();
        let observer = Observer::new(&Config::new(directory.path(), JobName::try_new("j").unwrap())).unwrap();
        // Nobody is there yet.
        observer.called(1);
        let agent = NoteReader::bind(directory.path()).unwrap();
        observer.called(2);
        assert!(agent.recv_any().is_err(), "within the second nobody is looked for");
        observer.greeted.store(0, Ordering::Relaxed);
        observer.called(3 << 8);
        let Ok(Some(Received::Events { mut events, .. })) = agent.recv_any() else { panic!("no ring") };
        let mut read = Vec::new();
        events.read(&mut read);
        assert_eq!(read.iter().map(|event| (event.kind, event.value)).next_back(), Some((EventKind::Called, 3)));
        assert_eq!(read.len(), 3, "what was called before anybody looked is there");
    }

    #[test]
    fn with_the_last_communicator_nothing_is_under_way() {
        let directory = tempfile::tempdir().unwrap();
        let observer = Observer::new(&Config::new(directory.path(), JobName::try_new("j").unwrap())).unwrap();
        observer.closed();
        observer.opened();
        observer.opened();
        let handle = observer.begin();
        observer.closed();
        let (_, change) = observer.flight.begin();
        assert_eq!(change, None, "the other communicator's is under way");
        observer.closed();
        assert_eq!(observer.flight.begin().1, Some(Change::Busy(2)));
        observer.end(handle);
        observer.closed();
        assert_eq!(observer.flight.begin().1, None, "the late end ended nothing, and a communicator that was never there neither");
    }

    #[test]
    fn a_process_of_no_job_observes_nothing() {
        let none = Config { directory: "/nowhere".into(), job: None, off: false };
        assert!(Observer::new(&none).is_none());
        assert!(Observer::new(&Config { off: true, ..Config::new("/nowhere", JobName::try_new("j").unwrap()) }).is_none());
    }
}
