//! What the callbacks of one process make: events in a ring, and the ring to the agent.

use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering},
};

use gate::{Config, Teller, events::EventKind, now};

use crate::{
    flight::{Change, Flight},
    hold::Hold,
};

/// Observes the communicators of this process.
#[derive(Debug)]
pub(crate) struct Observer {
    teller: Teller,
    flight: Flight,
    communicators: AtomicU64,
    config: Config,
    hold: OnceLock<Option<Hold>>,
}

impl Observer {
    /// What the environment asks for; `None` where this process is of no job, the gate is off, or the kernel gives no memory.
    pub(crate) fn from_env() -> Option<Self> {
        Self::new(&Config::from_env().ok()?)
    }

    fn new(config: &Config) -> Option<Self> {
        let teller = Teller::new(config)?;
        let flight = Flight::new(teller.writer());
        Some(Self { teller, flight, communicators: AtomicU64::new(0), config: config.clone(), hold: OnceLock::new() })
    }

    /// A communicator is there.
    pub(crate) fn opened(&self) {
        self.communicators.fetch_add(1, Ordering::Relaxed);
        self.teller.greet(now());
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
        self.teller.called(what);
    }

    /// What holds the calls of the job, where it asked for that.
    #[inline]
    pub(crate) fn hold(&self) -> Option<&Hold> {
        self.hold.get().and_then(Option::as_ref)
    }

    /// A communicator of several hosts is there, in which this process has that rank: with the first one it is known who is held.
    pub(crate) fn spans_hosts(&self, rank: i32) {
        self.hold.get_or_init(|| Hold::from_env(&self.config, rank));
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
        match change {
            Some(Change::Busy(finished)) => self.teller.tell(EventKind::Busy, finished),
            Some(Change::Idle(finished)) => self.teller.tell(EventKind::Idle, finished),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use gate::JobName;

    use super::*;

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
}
