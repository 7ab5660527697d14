//! Turns in the service: [`state::turns::Turns`] behind a lock, which hears the agents' notes and sends orders to their sessions.
//!
//! A session's task handles its notes itself and hands the answers to the sessions that they are for. A thread between them would have
//! to be woken for each note, and would have to wake the runtime for each answer: with 1,000 agents that was a sixth of the service's
//! processor time. Each call takes microseconds, or milliseconds where 10,000 jobs get other groups or are looked at, and orders are sent
//! after it: nothing waits under the lock. A thread of its own only handles what is due by the clock.

mod giver;
mod message;

use std::{
    fmt, io,
    sync::{Arc, Condvar, Mutex, Once},
    thread::JoinHandle,
};

use quinn::Connection;
use state::{
    Event, SessionId,
    turns::{Comparison, GroupView, Note, TurnGroup},
};
use units::FabricTime;

use crate::{FabricClock, metrics::Metrics};
use giver::Giver;

pub(crate) use message::note;

/// The turns of all groups at one moment.
#[derive(Clone, Debug, Default)]
pub struct TurnsSnapshot {
    /// Which.
    pub at: FabricTime,
    /// Every group.
    pub groups: Vec<GroupView>,
}

/// The way to an agent. Must not wait.
pub trait Way: Send + Sync + 'static {
    /// Longest datagram that goes; `None` if none does.
    fn room(&self) -> Option<usize>;
    /// Sends a datagram, or loses it.
    fn send(&self, datagram: Vec<u8>);
}

impl Way for Connection {
    fn room(&self) -> Option<usize> {
        self.max_datagram_size()
    }

    fn send(&self, datagram: Vec<u8>) {
        // An order that finds no room is as good as lost: it is said again, or asked for again.
        let _ = self.send_datagram(datagram.into());
    }
}

/// That turns have broken down is said once.
static BROKEN: Once = Once::new();

/// What the sessions and the clock's thread share.
struct Shared {
    clock: FabricClock,
    metrics: Arc<Metrics>,
    giver: Mutex<Giver>,
    /// Something is due before that thread would wake.
    earlier: Condvar,
}

/// Gives turns. Clones give the same ones.
#[derive(Clone)]
pub struct TurnsHandle {
    shared: Arc<Shared>,
}

impl fmt::Debug for TurnsHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TurnsHandle").finish_non_exhaustive()
    }
}

impl TurnsHandle {
    /// These groups take turns from now on; of those that begin, comparisons of before are known.
    pub fn groups(&self, groups: Vec<Arc<TurnGroup>>, known: Vec<Arc<Comparison>>) {
        self.with(|giver| giver.groups(groups, known));
    }

    /// A session was admitted; orders for it go by `way`.
    pub fn session(&self, session: SessionId, host: Arc<str>, way: impl Way) {
        self.with(|giver| giver.session(session, host, Arc::new(way)));
    }

    /// A session ended.
    pub fn gone(&self, session: SessionId) {
        self.with(|giver| giver.gone(session));
    }

    /// Notes of one datagram, which came at `came`.
    pub fn notes(&self, session: SessionId, came: FabricTime, notes: Vec<Note>) {
        self.with(|giver| giver.notes(session, came, notes));
    }

    /// The turns now, or up to half a second ago; `None` where turns have broken down.
    #[must_use]
    pub fn look(&self) -> Option<Arc<TurnsSnapshot>> {
        self.with(Giver::snapshot)
    }

    fn with<T>(&self, call: impl FnOnce(&mut Giver) -> T) -> Option<T> {
        // A panic under the lock leaves turns in an unknown state: no more are given, and jobs go as they come.
        let Ok(mut giver) = self.shared.giver.lock() else {
            BROKEN.call_once(|| tracing::error!("turns have broken down and are given no more until the service is started again"));
            return None;
        };
        let done = call(&mut giver);
        let (outgoing, is_late) = (giver.outgoing(), giver.is_due_before_it_wakes());
        drop(giver);
        outgoing.send(self.shared.clock, &self.shared.metrics);
        if is_late {
            self.shared.earlier.notify_one();
        }
        Some(done)
    }
}

/// Turns, and the running thread that handles what is due by the clock.
#[derive(Debug)]
pub struct TurnsThread {
    /// Gives turns.
    pub handle: TurnsHandle,
    thread: JoinHandle<()>,
}

impl TurnsThread {
    /// Starts it. `found` hears what iterations showed of turns and of jobs; it must not wait.
    ///
    /// # Errors
    /// The thread cannot be had.
    pub fn start(clock: FabricClock, metrics: Arc<Metrics>, found: impl FnMut(Event) + Send + 'static) -> io::Result<Self> {
        let giver = Mutex::new(Giver::new(clock, Arc::clone(&metrics), Box::new(found)));
        let shared = Arc::new(Shared { clock, metrics, giver, earlier: Condvar::new() });
        let handle = TurnsHandle { shared: Arc::clone(&shared) };
        let thread = std::thread::Builder::new().name("turns".into()).spawn(move || run(&shared))?;
        Ok(Self { handle, thread })
    }

    /// Ends it. Blocks for what it is about to finish.
    pub fn stop(self) {
        self.handle.with(|giver| giver.stops = true);
        self.handle.shared.earlier.notify_one();
        let _ = self.thread.join();
    }
}

/// Handles what is due until it is told to stop.
fn run(shared: &Shared) {
    loop {
        let Ok(mut giver) = shared.giver.lock() else { return };
        if giver.stops {
            return;
        }
        let wait = giver.tick();
        let outgoing = giver.outgoing();
        if outgoing.is_empty() {
            // Whoever makes something due earlier does so under the lock, which is let go of only in this sleep: no wake is lost.
            if shared.earlier.wait_timeout(giver, wait).is_err() {
                return;
            }
        } else {
            drop(giver);
            outgoing.send(shared.clock, &shared.metrics);
        }
    }
}
