//! Turns on this node: notes of gates and orders of the service in, pages and notes for the service out.
//!
//! What each job's messages mean is [`gate_core::TurnAgent`]'s to say. Here they are read, found their job, and sent on at once: a
//! gate waits for the answer.

use std::{
    collections::BTreeMap,
    io::{self, ErrorKind},
    os::fd::AsFd,
    path::Path,
    time::Duration,
};

use gate::notes::{JobNote, NoteReader};
use gate_core::{Order, OrderKind, Told, ToldKind, TurnAgent, TurnCounts};
use proto::v1alpha1::{TurnNote, TurnOrder, turn_note, turn_order};
use tokio::{
    io::Interest,
    net::UnixDatagram,
    sync::mpsc,
    time::{Instant, sleep_until},
};
use units::{Nanos, NodeTime};

use crate::{clock::ClockEstimate, pages::Pages};

/// Notes read at once. All jobs of a node are ready at the same time at worst, and anybody on the node may send any number.
const NOTES_AT_ONCE: usize = 64;
/// How long reading rests after so many: who floods the socket then takes a tenth of the loop, and not all of it.
const REST: Duration = Duration::from_millis(1);

/// Counts of all jobs together since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoteCounts {
    /// Notes of gates of this node's jobs.
    pub heard: u64,
    /// Datagrams that were no note of a job that takes turns here.
    pub strange: u64,
    /// Notes for the service that found no room; each is repeated, or overtaken by a later one.
    pub dropped: u64,
}

/// The turns of the jobs that this host leads.
#[derive(Debug, Default)]
pub struct Turns {
    jobs: BTreeMap<String, TurnAgent>,
    /// Bound while a job takes turns: a node without turns has no socket.
    socket: Option<Socket>,
    /// The last error, so that it is said once.
    error: Option<ErrorKind>,
    rest_until: Option<Instant>,
    connected: bool,
    sessions: u64,
    counts: NoteCounts,
}

/// The socket of the notes, and the same socket as the loop waits for it.
#[derive(Debug)]
struct Socket {
    reader: NoteReader,
    readiness: UnixDatagram,
}

impl Socket {
    fn bind(directory: &Path) -> io::Result<Self> {
        let reader = NoteReader::bind(directory)?;
        let twin = reader.as_fd().try_clone_to_owned()?;
        Ok(Self { reader, readiness: UnixDatagram::from_std(twin.into())? })
    }

    fn recv(&self) -> io::Result<Option<JobNote>> {
        match self.reader.recv() {
            // Reading through the reactor tells it that nothing is left, so that it says when something comes.
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.readiness.try_io(Interest::READABLE, || self.reader.recv()),
            read => read,
        }
    }
}

/// What the turns need of the rest of the agent.
#[derive(Debug)]
pub(crate) struct Around<'a> {
    pub(crate) pages: &'a mut Pages,
    pub(crate) notes: &'a mpsc::Sender<TurnNote>,
    pub(crate) clock: Option<ClockEstimate>,
    pub(crate) now: NodeTime,
}

impl Turns {
    /// Follows the jobs of the pages that take turns, and forgets others. The socket is bound with the first of them; where it cannot
    /// be, gates find nobody and go, and the next call tries again.
    pub(crate) fn follow(&mut self, pages: &Pages) {
        let mut before = core::mem::take(&mut self.jobs);
        for job in pages.turning() {
            let agent = before.remove(job).unwrap_or_else(|| TurnAgent::new(self.connected));
            self.jobs.insert(job.to_owned(), agent);
        }
        if self.jobs.is_empty() {
            self.close();
        } else if self.socket.is_none() {
            match Socket::bind(pages.directory()) {
                Ok(socket) => (self.socket, self.error) = (Some(socket), None),
                Err(error) => {
                    if self.error.replace(error.kind()) != Some(error.kind()) {
                        tracing::error!(%error, "no socket for the notes of gates: jobs that take turns go as they come");
                    }
                }
            }
        }
    }

    /// Takes the socket away.
    pub(crate) fn close(&mut self) {
        if let Some(socket) = self.socket.take()
            && let Err(error) = socket.reader.remove()
        {
            tracing::warn!(%error, "the socket for the notes of gates stays");
        }
    }

    /// Counts of the socket.
    #[must_use]
    pub const fn counts(&self) -> NoteCounts {
        self.counts
    }

    /// Counts of each job, in order of their names.
    #[must_use]
    pub fn totals(&self) -> Vec<(String, TurnCounts)> {
        self.jobs.iter().map(|(job, agent)| (job.clone(), agent.counts())).collect()
    }

    /// Waits until there are notes to read, or a repeat is due. Never ends where no job takes turns.
    pub(crate) async fn due(&self, now: NodeTime) {
        let deadline = self.jobs.values().filter_map(TurnAgent::deadline).min();
        let tick = async {
            match deadline {
                Some(at) => tokio::time::sleep(Duration::from_nanos(at.since(now).0)).await,
                None => std::future::pending().await,
            }
        };
        let readable = async {
            let Some(socket) = &self.socket else { return std::future::pending().await };
            if let Some(until) = self.rest_until {
                sleep_until(until).await;
            }
            // An error of the reactor shows at the next read.
            drop(socket.readiness.readable().await);
        };
        tokio::select! {
            () = readable => {}
            () = tick => {}
        }
    }

    /// Reads what gates said, and repeats what is due.
    pub(crate) fn work(&mut self, around: &mut Around<'_>) {
        self.read(around);
        let due = |agent: &TurnAgent| agent.deadline().is_some_and(|at| at <= around.now);
        let due: Vec<String> = self.jobs.iter().filter(|(_, agent)| due(agent)).map(|(job, _)| job.clone()).collect();
        for job in due {
            self.with(&job, around, |agent, now| agent.handle_tick(now));
        }
    }

    /// Takes an order of the service. Notes that came before it are read first: whoever started already must not be told otherwise.
    pub(crate) fn order(&mut self, order: &TurnOrder, around: &mut Around<'_>) {
        self.read(around);
        if let Some(said) = from_wire(order) {
            self.with(&order.job, around, |agent, now| agent.handle_order(now, said));
        }
    }

    /// Whether there is a session, and the how manyth.
    pub(crate) fn session(&mut self, connected: bool, sessions: u64, around: &mut Around<'_>) {
        let is_new = connected && self.sessions != sessions;
        (self.connected, self.sessions) = (connected, sessions);
        let jobs: Vec<String> = self.jobs.keys().cloned().collect();
        for job in jobs {
            self.with(&job, around, |agent, now| {
                if is_new {
                    agent.set_connected(now, false);
                }
                agent.set_connected(now, connected);
            });
        }
    }

    fn read(&mut self, around: &mut Around<'_>) {
        let now = Instant::now();
        if self.rest_until.is_some_and(|until| now < until) {
            return;
        }
        self.rest_until = None;
        for _ in 0..NOTES_AT_ONCE {
            let Some(socket) = &self.socket else { return };
            match socket.recv() {
                Ok(Some(JobNote { job, note })) if self.jobs.contains_key(job.as_str()) => {
                    self.counts.heard += 1;
                    self.with(job.as_str(), around, |agent, now| agent.handle_note(now, note));
                }
                Ok(_) => self.counts.strange += 1,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => {
                    tracing::warn!(%error, "the socket for the notes of gates cannot be read");
                    break;
                }
            }
        }
        self.rest_until = Some(now + REST);
    }

    /// Gives a job's agent something, and does at once what it wants.
    fn with(&mut self, job: &str, around: &mut Around<'_>, act: impl FnOnce(&mut TurnAgent, NodeTime)) {
        let Some(agent) = self.jobs.get_mut(job) else { return };
        act(agent, around.now);
        if let Some(change) = agent.poll_page() {
            // The page comes before the note: the gate waits for the page, and the service for the network anyway.
            around.pages.write_turn(job, agent.turn(), change, around.clock.as_ref(), around.now);
        }
        while let Some(told) = agent.poll_told() {
            self.counts.dropped += u64::from(around.notes.try_send(to_wire(job, &told, around.now)).is_err());
        }
    }
}

fn to_wire(job: &str, told: &Told, now: NodeTime) -> TurnNote {
    let kind = match told.kind {
        ToldKind::Withdrawn => turn_note::Kind::Withdrawn,
        ToldKind::Ready => turn_note::Kind::Ready,
        ToldKind::Started => turn_note::Kind::Started,
        ToldKind::Ended => turn_note::Kind::Ended,
    };
    TurnNote {
        job: job.to_owned(),
        writer: told.writer,
        number: told.number,
        kind: kind.into(),
        // A job that counts further says nothing that a profile has.
        phase: u32::try_from(told.phase).unwrap_or(u32::MAX),
        age_ns: now.since(told.at).0,
        up_ns: told.sent.0,
    }
}

/// `None` for an order of a later service.
fn from_wire(order: &TurnOrder) -> Option<Order> {
    let kind = match order.kind() {
        turn_order::Kind::Heard => OrderKind::Heard(match order.heard() {
            turn_note::Kind::Withdrawn => ToldKind::Withdrawn,
            turn_note::Kind::Ready => ToldKind::Ready,
            turn_note::Kind::Started => ToldKind::Started,
            turn_note::Kind::Ended => ToldKind::Ended,
            turn_note::Kind::Unspecified => return None,
        }),
        turn_order::Kind::Grant => OrderKind::Grant,
        turn_order::Kind::GrantAhead => OrderKind::GrantAhead,
        turn_order::Kind::Hold => OrderKind::Hold,
        turn_order::Kind::Withdraw => OrderKind::Withdraw,
        turn_order::Kind::Unspecified => return None,
    };
    Some(Order { kind, writer: order.writer, number: order.number, at_most: Nanos(order.at_most_ns) })
}
