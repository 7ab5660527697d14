//! A ring of events and the way on which the agent gets it: what every library in a job that watches its communication needs.

use std::sync::atomic::{AtomicU64, Ordering};

use units::{Nanos, NodeTime};

use crate::{
    clock::now,
    directory::Config,
    events::{Event, EventKind, EventWriter, VALUE_BITS},
    notes::Greeting,
};

/// How often the ring is passed to the agent, when the job calls a collective: an agent that was started again has the ring within this time. Passing costs some
/// ten microseconds of the thread that calls.
const GREET_EVERY: Nanos = Nanos::from_millis(1_000);

/// Writes events, and passes the ring again and again, because an agent may begin anew. Threads share it; none of them ever waits or
/// allocates.
#[derive(Debug)]
pub struct Teller {
    ring: EventWriter,
    greeting: Greeting,
    greeted: AtomicU64,
}

impl Teller {
    /// `None` where this process is of no job, the gate is off, or the kernel gives no memory.
    #[must_use]
    pub fn new(config: &Config) -> Option<Self> {
        let job = config.job.as_ref().filter(|_| !config.off)?;
        let ring = EventWriter::create().ok()?;
        let greeting = Greeting::new(&config.directory, job, &ring);
        Some(Self { ring, greeting, greeted: AtomicU64::new(0) })
    }

    /// Tells this run of a library from another.
    #[must_use]
    pub const fn writer(&self) -> u64 {
        self.ring.writer()
    }

    /// The job called a collective, or a send or a receive; `what` is a hash of what it called ([`mix`]), whose upper bits count.
    #[inline]
    pub fn called(&self, what: u64) {
        let at = now();
        self.ring.push(Event { kind: EventKind::Called, at, value: what >> (u64::BITS - VALUE_BITS) });
        self.greet(at);
    }

    /// Something else happened, now.
    #[inline]
    pub fn tell(&self, kind: EventKind, value: u64) {
        self.ring.push(Event { kind, at: now(), value });
    }

    /// Passes the ring, if that was not done within a second.
    #[inline]
    pub fn greet(&self, at: NodeTime) {
        let last = self.greeted.load(Ordering::Relaxed);
        // Of several threads one passes it.
        if at.since(NodeTime(last)) >= GREET_EVERY
            && self.greeted.compare_exchange(last, at.0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            self.greeting.send(&self.ring);
        }
    }
}

/// Takes one more word into a hash of a call: multiply, rotate so that low bits of one word meet high bits of the next, multiply. It is of no
/// standard; the first factor is 2^64 over the golden ratio, the second one FNV's prime. The upper bits are the better ones.
#[inline]
#[must_use]
pub const fn mix(hash: u64, word: u64) -> u64 {
    (hash ^ word).wrapping_mul(units::GOLDEN).rotate_left(29).wrapping_mul(0x0000_0100_0000_01b3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        directory::JobName,
        notes::{NoteReader, Received},
    };

    #[test]
    fn an_agent_that_begins_anew_gets_the_ring_again() {
        let directory = tempfile::tempdir().unwrap();
        let teller = Teller::new(&Config::new(directory.path(), JobName::try_new("j").unwrap())).unwrap();
        // Nobody is there yet.
        teller.called(1);
        let agent = NoteReader::bind(directory.path()).unwrap();
        teller.called(2);
        assert!(agent.recv_any().is_err(), "within the second nobody is looked for");
        teller.greeted.store(0, Ordering::Relaxed);
        teller.called(3 << 8);
        let Ok(Some(Received::Events { mut events, .. })) = agent.recv_any() else { panic!("no ring") };
        let mut read = Vec::new();
        events.read(&mut read);
        assert_eq!(read.iter().map(|event| (event.kind, event.value)).next_back(), Some((EventKind::Called, 3)));
        assert_eq!(read.len(), 3, "what was called before anybody looked is there");
    }

    #[test]
    fn a_process_of_no_job_tells_nothing() {
        let none = Config { directory: "/nowhere".into(), job: None, off: false };
        assert!(Teller::new(&none).is_none());
        assert!(Teller::new(&Config { off: true, ..Config::new("/nowhere", JobName::try_new("j").unwrap()) }).is_none());
    }
}
