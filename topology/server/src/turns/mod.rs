//! The thread that gives turns: it owns [`state::turns::Turns`], hears the agents' notes and sends orders to their sessions.
//!
//! It is a thread of its own and no task, and it waits on a channel of the standard library: a commit that computes for 40 ms, or a
//! request that keeps a worker of the runtime busy, delays no turn, and the kernel wakes a thread within some 50 us. A task on a
//! runtime of its own would wake by the same means and add a reactor that nothing here needs.

mod message;
mod thread;

use std::{
    fmt, io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::{self, Sender},
    },
    thread::JoinHandle,
};

use quinn::Connection;
use state::{
    SessionId,
    turns::{GroupView, Judged, Note, TurnGroup},
};
use tokio::sync::oneshot;
use units::FabricTime;

use crate::{FabricClock, metrics::Metrics};

pub(crate) use message::note;

/// Notes that wait for the thread. Each takes microseconds, so this is some 10 ms of work, after which the answer comes too late to help;
/// what finds no room is dropped and counted, and the agent says it again.
const NOTES_WAITING_MAX: usize = 8_192;

/// What the thread is told.
enum Message {
    Groups(Vec<Arc<TurnGroup>>),
    Session { session: SessionId, host: Arc<str>, way: Box<dyn Way> },
    Gone { session: SessionId },
    Notes { session: SessionId, came: FabricTime, notes: Vec<Note> },
    Look { reply: oneshot::Sender<Arc<TurnsSnapshot>> },
    Stop,
}

/// The turns of all groups at one moment.
#[derive(Clone, Debug, Default)]
pub struct TurnsSnapshot {
    /// Which.
    pub at: FabricTime,
    /// Every group.
    pub groups: Vec<GroupView>,
}

/// The way to an agent. Must not wait.
pub trait Way: Send + 'static {
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

/// Speaks to the thread, and never waits for it. Clones speak to the same one.
#[derive(Clone)]
pub struct TurnsHandle {
    inbox: Sender<Message>,
    /// Notes in the inbox.
    waiting: Arc<AtomicUsize>,
    metrics: Arc<Metrics>,
}

impl fmt::Debug for TurnsHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TurnsHandle").field("waiting", &self.waiting).finish_non_exhaustive()
    }
}

impl TurnsHandle {
    /// These groups take turns from now on.
    pub fn groups(&self, groups: Vec<Arc<TurnGroup>>) {
        self.tell(Message::Groups(groups));
    }

    /// A session was admitted; orders for it go by `way`.
    pub fn session(&self, session: SessionId, host: Arc<str>, way: impl Way) {
        self.tell(Message::Session { session, host, way: Box::new(way) });
    }

    /// A session ended.
    pub fn gone(&self, session: SessionId) {
        self.tell(Message::Gone { session });
    }

    /// Notes of one datagram, which came at `came`. All of them are dropped where they find no room.
    pub fn notes(&self, session: SessionId, came: FabricTime, notes: Vec<Note>) {
        let count = notes.len();
        // The count guards no memory of its own, and may be passed by what other sessions add in this moment.
        if self.waiting.load(Ordering::Relaxed) + count > NOTES_WAITING_MAX {
            return self.metrics.turn_notes_dropped(count);
        }
        self.waiting.fetch_add(count, Ordering::Relaxed);
        self.tell(Message::Notes { session, came, notes });
    }

    /// The turns now, or up to half a second ago; `None` when the service is going down.
    pub async fn look(&self) -> Option<Arc<TurnsSnapshot>> {
        let (reply, answer) = oneshot::channel();
        self.tell(Message::Look { reply });
        answer.await.ok()
    }

    fn tell(&self, message: Message) {
        // The thread is gone only when the service is going down.
        let _ = self.inbox.send(message);
    }
}

/// The running thread.
#[derive(Debug)]
pub struct TurnsThread {
    /// Speaks to it.
    pub handle: TurnsHandle,
    thread: JoinHandle<()>,
}

impl TurnsThread {
    /// Starts it. `judged` hears what was found of a group's turns.
    ///
    /// # Errors
    /// The thread cannot be had.
    pub fn start(clock: FabricClock, metrics: Arc<Metrics>, judged: impl FnMut(Judged) + Send + 'static) -> io::Result<Self> {
        // Notes are bounded by `waiting`, sessions by the limits of their endpoint, and groups come one plan at a time.
        let (inbox, messages) = mpsc::channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let handle = TurnsHandle { inbox, waiting: Arc::clone(&waiting), metrics: Arc::clone(&metrics) };
        let loop_ = thread::Loop::new(clock, metrics, waiting, Box::new(judged));
        let thread = std::thread::Builder::new().name("turns".into()).spawn(move || loop_.run(&messages))?;
        Ok(Self { handle, thread })
    }

    /// Ends it. Blocks for the message that it is about to finish.
    pub fn stop(self) {
        self.handle.tell(Message::Stop);
        let _ = self.thread.join();
    }
}
