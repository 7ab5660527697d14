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

use gate::{
    JobName,
    events::{Event, EventKind, EventReader},
    notes::{Heard, NoteReader, Received},
    report_owner,
};
use gate_core::{HELD_PERIOD_MAX, NoteKind, Order, OrderKind, Told, ToldKind, TurnAgent, TurnCounts};
use proto::v1alpha1::{TurnNote, TurnOrder, turn_note, turn_order};
use telemetry::Root;
use tokio::{
    io::Interest,
    net::UnixDatagram,
    sync::mpsc,
    time::{Instant, sleep_until},
};
use units::{Nanos, NodeTime};

use crate::{
    bytes::ByteCounters,
    calls::{Calls, Iteration},
    clock::ClockEstimate,
    config::CountersConfig,
    pages::Pages,
};

/// Notes read at once. All jobs of a node are ready at the same time at worst, and anybody on the node may send any number.
const NOTES_AT_ONCE: usize = 64;
/// Notes of one job within a second that are told on: those of 60 starts. A job that starts more often than that, or somebody who
/// writes in its name, is not heard, and its gate goes by itself after some milliseconds and then without asking.
const NOTES_PER_JOB_MAX: u32 = 200;
/// Events of one job's ring within a second that are read: those of 60 starts with 500 collectives each, twice. What a job writes beyond
/// that is not read until the next second, and the ends of its starts follow from other signs.
const EVENTS_PER_JOB_MAX: u32 = 1 << 16;
/// After so much silence of the user who speaks for a job, another one may: two of the longest iterations. A job that is submitted anew by
/// somebody else is heard after that, and goes unheard before.
const SPEAKER_FORGOTTEN: Nanos = Nanos(2 * HELD_PERIOD_MAX.0);
const ROOT: u32 = 0;
/// Starts without a word of a plugin after which the ring of another rank is read in its place: that process has ended, or sends nothing.
const SILENT_STARTS_MAX: u32 = 8;
/// Least pause after [`NOTES_AT_ONCE`] notes.
const REST: Duration = Duration::from_millis(1);
/// The pause is this many times the reading, so a flood of notes takes a tenth of the loop.
const REST_PER_READING: u32 = 9;
/// How long it rests at most where the socket cannot be read. The notes that come meanwhile fill the socket; then gates find no room and go at once.
const UNREAD_REST_MAX: Duration = Duration::from_millis(100);
/// The socket must be left unread for this long before the log says so; closing files takes milliseconds.
const UNREAD_SAID: Duration = Duration::from_secs(1);
/// It is said no more often.
const UNREAD_SAID_AGAIN: Duration = Duration::from_secs(60);

/// Counts of all jobs together since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoteCounts {
    /// Notes of gates of this node's jobs.
    pub heard: u64,
    /// Datagrams that were no note of a job that takes turns here, came from a user who does not speak for it, or were past the limit of one.
    pub strange: u64,
    /// Notes for the service that found no room; each is repeated, or overtaken by a later one.
    pub dropped: u64,
}

/// The jobs that this host leads: their turns, and what those call that have a library which tells it.
#[derive(Debug)]
pub struct Turns {
    jobs: BTreeMap<String, Job>,
    /// Where bytes are counted; `None` once no thread could be made for that.
    counters: Option<(Root, CountersConfig)>,
    /// The bytes of this host are those of the one job that is here.
    are_bytes_ours: bool,
    /// Read while the job tells no ends.
    bytes: Option<ByteCounters>,
    /// Bound while a job is led here.
    socket: Option<Socket>,
    /// The last error, so that it is said once.
    error: Option<ErrorKind>,
    unread: Unread,
    rest_until: Option<Instant>,
    connected: bool,
    sessions: u64,
    counts: NoteCounts,
}

#[derive(Debug)]
struct Job {
    /// Only then notes are heard and the agent has anything to say.
    takes_turns: bool,
    agent: TurnAgent,
    /// What of each second's room the job has taken: notes, and events of its ring.
    notes: PerSecond,
    events_read: PerSecond,
    /// The user who speaks for the job, and when he did last.
    speaker: Option<(u32, NodeTime)>,
    /// What a plugin in the job sees of its communication.
    events: Option<EventReader>,
    /// Starts in a row in which it told nothing.
    silent_starts: u32,
    calls: Calls,
}

/// How much of something there was in the second under way.
#[derive(Clone, Copy, Debug, Default)]
struct PerSecond {
    began: NodeTime,
    taken: u32,
}

impl PerSecond {
    /// Takes more, and says how much was taken in this second.
    fn take(&mut self, now: NodeTime, more: u32) -> u32 {
        if now.since(self.began) >= Nanos::from_millis(1_000) {
            *self = Self { began: now, taken: 0 };
        }
        self.taken = self.taken.saturating_add(more);
        self.taken
    }
}

/// Since when the notes cannot be read, and when that was said.
#[derive(Clone, Copy, Debug, Default)]
struct Unread {
    since: Option<Instant>,
    rest: Duration,
    said: Option<Instant>,
}

impl Unread {
    /// They could not be read once more: for how long to rest, and whether to say it.
    fn again(&mut self, now: Instant) -> (Duration, bool) {
        self.rest = if self.since.is_some() { (self.rest * 2).min(UNREAD_REST_MAX) } else { REST };
        let since = *self.since.get_or_insert(now);
        let is_said = now - since >= UNREAD_SAID && self.said.is_none_or(|said| now - said >= UNREAD_SAID_AGAIN);
        if is_said {
            self.said = Some(now);
        }
        (self.rest, is_said)
    }
}

impl Job {
    fn new(connected: bool, takes_turns: bool) -> Self {
        Self {
            takes_turns,
            agent: TurnAgent::new(connected),
            notes: PerSecond::default(),
            events_read: PerSecond::default(),
            speaker: None,
            events: None,
            silent_starts: 0,
            calls: Calls::default(),
        }
    }

    /// The same job under a plan that gives it turns, or no more: what it calls is the same.
    fn under(self, connected: bool, takes_turns: bool) -> Self {
        let Self { events, calls, speaker, .. } = self;
        Self { events, calls, speaker, ..Self::new(connected, takes_turns) }
    }

    /// Takes a ring that the job passed, unless it is known: a plugin passes its ring again and again, for agents that begin anew. The
    /// ranks of a job pass one each, and the first that came is read as long as it tells something.
    fn take_events(&mut self, passed: EventReader, now: NodeTime) {
        let is_silent = if self.takes_turns { self.is_silent() } else { self.calls.is_quiet(now) };
        let is_read = self.events.as_ref().is_some_and(|events| events.writer() == passed.writer() || !is_silent);
        if !is_read {
            (self.events, self.silent_starts) = (Some(passed), 0);
            self.calls.begin(now);
            self.agent.forget_operations();
        }
    }

    /// Whether the ring that is read told nothing while several starts went.
    const fn is_silent(&self) -> bool {
        self.silent_starts > SILENT_STARTS_MAX
    }

    /// What the plugin saw since the last call.
    fn changes(&mut self, now: NodeTime) -> Vec<(NodeTime, u64, bool)> {
        let Some(events) = self.events.as_mut().filter(|_| self.events_read.take(now, 0) < EVENTS_PER_JOB_MAX) else { return Vec::new() };
        let mut read = Vec::new();
        let places = events.read(&mut read);
        self.calls.take(&read, events.lost(), now);
        self.events_read.take(now, u32::try_from(places).unwrap_or(u32::MAX));
        let change = |event: &Event| match event.kind {
            EventKind::Busy => Some((event.at, event.value, false)),
            EventKind::Idle => Some((event.at, event.value, true)),
            EventKind::Called => None,
        };
        let changes: Vec<_> = read.iter().filter_map(change).collect();
        // A rank that has no network beside it calls collectives too, and sees none of their operations: its ring says no end.
        if !changes.is_empty() {
            self.silent_starts = 0;
        }
        changes
    }

    /// Whether one more note of this user is heard: the job is his, or he spoke first, or is root, and is within the limit.
    ///
    /// A report that belongs to one user says whose a job is. Without one nothing on the node does: its page is the agent's. Then whoever
    /// spoke first is believed, and nobody can end the turns of a job that has them.
    fn may_say(&mut self, now: NodeTime, from: u32, owner: impl FnOnce() -> Option<u32>) -> bool {
        match self.speaker {
            Some((user, _)) if user == from => self.speaker = Some((from, now)),
            // Root is heard beside the speaker, and takes nobody's place.
            Some(_) if from == ROOT => {}
            before => match owner() {
                Some(owner) if owner != from && from != ROOT => return false,
                None if before.is_some_and(|(_, at)| now.since(at) < SPEAKER_FORGOTTEN) => return false,
                // Whose job it is takes the place of whoever spoke before.
                _ => self.speaker = Some((from, now)),
            },
        }
        self.notes.take(now, 1) <= NOTES_PER_JOB_MAX
    }
}

/// The socket of the notes, and the same socket as the loop waits for it.
#[derive(Debug)]
struct Socket {
    /// Dropped before the reader, which has to have the last descriptor.
    readiness: UnixDatagram,
    reader: NoteReader,
}

impl Socket {
    fn bind(directory: &Path) -> io::Result<Self> {
        let reader = NoteReader::bind(directory)?;
        let twin = reader.as_fd().try_clone_to_owned()?;
        Ok(Self { readiness: UnixDatagram::from_std(twin.into())?, reader })
    }

    fn recv(&self) -> io::Result<Option<Received>> {
        match self.reader.recv_any() {
            // Reading through the reactor tells it that nothing is left, so that it says when something comes.
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.readiness.try_io(Interest::READABLE, || self.reader.recv_any()),
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
    /// No job takes turns yet. Ports are looked for under `root`, when a job tells no ends.
    pub(crate) fn new(root: Root, counters: CountersConfig) -> Self {
        Self {
            jobs: BTreeMap::new(),
            counters: Some((root, counters)),
            are_bytes_ours: false,
            bytes: None,
            socket: None,
            error: None,
            unread: Unread::default(),
            rest_until: None,
            connected: false,
            sessions: 0,
            counts: NoteCounts::default(),
        }
    }

    /// Follows the jobs of the pages, and forgets others. The socket is bound with the first of them; where it cannot be, gates find
    /// nobody and go, and the next call tries again.
    pub(crate) fn follow(&mut self, pages: &Pages) {
        let mut before = core::mem::take(&mut self.jobs);
        for (job, takes_turns) in pages.led_by_turns() {
            let kept = match before.remove(job) {
                Some(kept) if kept.takes_turns == takes_turns => kept,
                Some(other) => other.under(self.connected, takes_turns),
                None => Job::new(self.connected, takes_turns),
            };
            self.jobs.insert(job.to_owned(), kept);
        }
        // Bytes do not say whose they are.
        self.are_bytes_ours = pages.jobs_here() == 1;
        if !self.are_bytes_ours || !self.jobs.values().any(|job| job.takes_turns) {
            self.bytes = None;
        }
        if self.jobs.is_empty() {
            self.close();
            return;
        }
        if self.socket.as_ref().is_some_and(|socket| !socket.reader.is_there()) {
            tracing::warn!("the socket for the notes of gates is gone, or another file is in its place: it is made anew");
            self.close();
        }
        if self.socket.is_none() {
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
        let Some(Socket { readiness, reader }) = self.socket.take() else { return };
        drop(readiness);
        if let Err(error) = reader.remove() {
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
        self.turning().map(|(name, job)| (name.clone(), job.agent.counts())).collect()
    }

    /// Reads what libraries in the jobs told, and looks for iterations in it.
    pub(crate) fn listen(&mut self, around: &mut Around<'_>) {
        let told: Vec<String> = self.jobs.iter().filter(|(_, job)| job.events.is_some()).map(|(name, _)| name.clone()).collect();
        for name in told {
            self.with(&name, around, |_, _| ());
            if let Some(job) = self.jobs.get_mut(&name) {
                job.calls.look(around.now);
            }
        }
    }

    /// The iterations that jobs show in what they call, in order of their names; jobs that show none are left out.
    #[must_use]
    pub fn iterations(&self) -> Vec<(String, Iteration)> {
        self.jobs.iter().filter_map(|(name, job)| Some((name.clone(), job.calls.iteration()?))).collect()
    }

    fn turning(&self) -> impl Iterator<Item = (&String, &Job)> {
        self.jobs.iter().filter(|(_, job)| job.takes_turns)
    }

    /// When the bytes of this host are wanted.
    fn look_at(&self) -> Option<NodeTime> {
        self.jobs.values().find_map(|job| job.agent.look_at()).filter(|_| self.are_bytes_ours && self.counters.is_some())
    }

    /// Waits until there are notes to read, a repeat is due, or bytes are. Never ends where no job takes turns.
    pub(crate) async fn due(&self, now: NodeTime) {
        let is_asked = self.bytes.as_ref().is_some_and(ByteCounters::is_asked);
        let looks = self.look_at().filter(|_| !is_asked);
        let events = self.jobs.values().filter(|job| job.events.is_some()).filter_map(|job| job.agent.look_at_operations());
        let deadline = self.jobs.values().filter_map(|job| job.agent.deadline()).chain(looks).chain(events).min();
        let bytes = async {
            match &self.bytes {
                Some(bytes) => bytes.answered().await,
                None => std::future::pending().await,
            }
        };
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
            () = bytes => {}
        }
    }

    /// Reads what gates said, takes in what ports carried, and repeats what is due.
    pub(crate) fn work(&mut self, around: &mut Around<'_>) {
        self.read(around);
        self.count_bytes(around);
        let wanted = |job: &Job| job.events.is_some() && job.agent.look_at_operations().is_some_and(|at| at <= around.now);
        let wanted: Vec<String> = self.jobs.iter().filter(|(_, job)| wanted(job)).map(|(name, _)| name.clone()).collect();
        for job in wanted {
            self.with(&job, around, |_, _| ());
        }
        let due = |job: &Job| job.agent.deadline().is_some_and(|at| at <= around.now);
        let due: Vec<String> = self.jobs.iter().filter(|(_, job)| due(job)).map(|(name, _)| name.clone()).collect();
        for job in due {
            self.with(&job, around, |agent, now| agent.handle_tick(now));
        }
    }

    /// Hands over the bytes that were read, and asks for others where they are wanted.
    fn count_bytes(&mut self, around: &mut Around<'_>) {
        let job = self.turning().next().map(|(name, _)| name.clone());
        if let Some(carried) = self.bytes.as_mut().and_then(ByteCounters::take)
            && let Some(job) = job
        {
            self.with(&job, around, |agent, now| agent.handle_bytes(now, carried.at, carried.bytes, carried.renewed));
        }
        if self.look_at().is_none_or(|at| at > around.now) {
            return;
        }
        if let (None, Some((root, counters))) = (&self.bytes, &self.counters) {
            match ByteCounters::start(root.clone(), counters.clone()) {
                Ok(bytes) => self.bytes = Some(bytes),
                Err(error) => {
                    tracing::warn!(%error, "no thread to count bytes: ends that no gate tells follow from lengths");
                    self.counters = None;
                }
            }
        }
        if let Some(bytes) = &mut self.bytes {
            bytes.ask();
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
        let jobs: Vec<String> = self.turning().map(|(name, _)| name.clone()).collect();
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
                Ok(Some(Received::Note(Heard { job, note, from }))) if self.hears(&job) && self.may_say(&job, around, from) => {
                    self.counts.heard += 1;
                    if let Some(job) = self.jobs.get_mut(job.as_str()) {
                        job.silent_starts = job.silent_starts.saturating_add(u32::from(note.kind == NoteKind::Started));
                    }
                    self.with(job.as_str(), around, |agent, now| agent.handle_note(now, note));
                }
                Ok(Some(Received::Events { job, events, from })) if self.may_say(&job, around, from) => {
                    self.counts.heard += 1;
                    if let Some(job) = self.jobs.get_mut(job.as_str()) {
                        job.take_events(events, around.now);
                    }
                }
                Ok(_) => self.counts.strange += 1,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.unread.since = None;
                    return;
                }
                Err(error) => {
                    let (rest, is_said) = self.unread.again(now);
                    if is_said {
                        tracing::error!(%error, "the notes of gates cannot be read: jobs that take turns go as they come");
                    }
                    self.rest_until = Some(now + rest);
                    return;
                }
            }
            self.unread.since = None;
        }
        // A datagram may carry hundreds of files, and takes as long as a hundred others.
        self.rest_until = Some(Instant::now() + REST.max(now.elapsed() * REST_PER_READING));
    }

    /// Whether notes of the job mean something: it takes turns.
    fn hears(&self, name: &JobName) -> bool {
        self.jobs.get(name.as_str()).is_some_and(|job| job.takes_turns)
    }

    fn may_say(&mut self, name: &JobName, around: &Around<'_>, from: u32) -> bool {
        let owner = || report_owner(around.pages.directory(), name);
        self.jobs.get_mut(name.as_str()).is_some_and(|job| job.may_say(around.now, from, owner))
    }

    /// Gives a job's agent something, and does at once what it wants.
    fn with(&mut self, job: &str, around: &mut Around<'_>, act: impl FnOnce(&mut TurnAgent, NodeTime)) {
        let Some(job_here) = self.jobs.get_mut(job) else { return };
        // What a plugin saw came before what is handed over now.
        let changes = job_here.changes(around.now);
        if !job_here.takes_turns {
            return;
        }
        let Job { agent, .. } = job_here;
        if !changes.is_empty() || agent.look_at_operations().is_some() {
            agent.handle_operations(around.now, changes);
        }
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

#[cfg(test)]
mod tests {
    use gate::events::{EVENTS, EventWriter};

    use super::*;

    #[test]
    fn a_job_of_one_user_is_spoken_for_by_him_whoever_was_first() {
        let at = |ms: u64| NodeTime(ms * 1_000_000);
        let mut job = Job::new(true, true);
        let his = || Some(7);
        assert!(job.may_say(at(1_000), 8, || None), "its report is not there yet");
        assert!(job.may_say(at(1_100), 7, his) && !job.may_say(at(1_200), 8, his));
        assert!(job.may_say(at(1_300), ROOT, his) && job.may_say(at(1_400), 7, || None));
        let mut job = Job::new(true, true);
        assert!(!job.may_say(at(1_000), 8, his) && job.may_say(at(1_001), ROOT, his) && job.may_say(at(1_002), 7, his));
        // Root, which was first, does not keep him out, and is heard beside him.
        assert!(job.may_say(at(1_003), ROOT, his) && !job.may_say(at(500_000), 8, his));
    }

    #[test]
    fn whoever_speaks_first_is_heard_and_root() {
        let at = |ms: u64| NodeTime(ms * 1_000_000);
        let mut job = Job::new(true, true);
        assert!(job.may_say(at(1_000), 7, || None));
        assert!(!job.may_say(at(2_000), 8, || None), "another user");
        assert!(job.may_say(at(2_000), ROOT, || None) && job.may_say(at(3_000), 7, || None), "root takes nobody's place");
        assert!(!job.may_say(at(3_000 + 119_999), 8, || None));
        assert!(
            job.may_say(at(3_000 + 120_000), 8, || None) && !job.may_say(at(124_000), 7, || None),
            "the one before was silent for two minutes"
        );
        let mut of_root = Job::new(true, true);
        assert!(of_root.may_say(at(1_000), ROOT, || None) && !of_root.may_say(at(1_001), 7, || None));
        // Who is not heard takes nothing of the limit.
        let mut job = Job::new(true, true);
        assert!(job.may_say(at(1_000), 7, || None));
        (0..1_000).for_each(|_| assert!(!job.may_say(at(1_100), 8, || None)));
        assert!(job.may_say(at(1_200), 7, || None));
        assert!((0..NOTES_PER_JOB_MAX).any(|_| !job.may_say(at(1_300), 7, || None)));
    }
    /// A job that writes a whole ring between two looks costs so many readings of it in a second, and no more.
    #[test]
    fn a_ring_that_is_always_full_is_read_so_often_in_a_second() {
        let ring = EventWriter::create().unwrap();
        let mut job = Job::new(true, true);
        job.take_events(EventReader::open(&mut vec![ring.as_fd().try_clone_to_owned().unwrap()]).unwrap(), NodeTime(0));
        let mut read_in = |second: u64| {
            let read = |ms: u64| {
                (0..EVENTS).for_each(|_| ring.push(Event { kind: EventKind::Busy, at: NodeTime(1), value: 1 }));
                job.changes(NodeTime((second * 1_000 + ms) * 1_000_000)).len()
            };
            (0..100).map(read).sum::<usize>()
        };
        let most = EVENTS_PER_JOB_MAX as usize..EVENTS_PER_JOB_MAX as usize + EVENTS;
        assert!(most.contains(&read_in(1)));
        assert!(most.contains(&read_in(2)), "and is read again in the next second");
    }
}
