//! What an agent does for one job that takes turns.

use alloc::collections::VecDeque;

use units::{Nanos, NodeTime};

use crate::{
    Note, NoteKind, Order, OrderKind, Permit, Told, ToldKind, Turn,
    turn::{ends::Ends, operations::Operations},
};

/// How long what was told waits for its answer before it is told again. An answer takes less than a millisecond in one building, and a
/// start waits for [`SERVICE_WITHIN`]: three repeats still come in time. Each later one waits twice as long.
pub const REPEAT_FIRST: Nanos = Nanos::from_millis(3);
/// Repeats of one thing told: after 96 ms and six losses in a row nobody is there.
pub const REPEATS_MAX: u32 = 5;
/// Where nobody has answered for as long as all repeats of one thing take, and as much was told, nobody is there, also if other things
/// were told meanwhile: a job of short iterations tells something new before the repeats of the old are over. An agent that was held up
/// has told little, and finds its answers next.
const SILENT_AFTER: Nanos = Nanos(REPEAT_FIRST.0 << REPEATS_MAX);
/// How long a start waits for a service that does not answer: twice the way to one 5 ms away, and a repeat. After
/// [`REPEATS_MAX`] the service counts as silent, and no start waits for it any more.
pub const SERVICE_WITHIN: Nanos = Nanos::from_millis(25);
/// A start that waits asks again when all but this part of what it was told is over. By then its grant has come, because leases are a
/// quarter longer than what they stand for; if it was lost, this costs a little and not the whole rest.
const ASK_AGAIN_BEFORE: u64 = 8;
/// What waits to be told. The daemon takes it after each event, and what is newer says more.
const OUT_MAX: usize = 4;

/// Whether the page has to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageChange {
    /// At once; no gate waits for it.
    Write,
    /// At once, and then the gate that waits has to be woken.
    WriteAndWake,
}

/// Counts since the agent began to follow the job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TurnCounts {
    /// Starts for which the service was asked.
    pub asked: u64,
    /// Of these, starts that it granted.
    pub granted: u64,
    /// Starts that went with a permission given ahead.
    pub ahead: u64,
    /// Starts that the agent let go because there was no service.
    pub alone: u64,
    /// Things told to which no answer came, whatever the repeats.
    pub unanswered: u64,
    /// Ends that the gate did not tell and that bytes showed.
    pub ended_by_bytes: u64,
    /// Ends that the gate did not tell and that the communication library showed.
    pub ended_by_operations: u64,
    /// Ends that the gate did not tell, and that were taken to be there after the time that a start takes.
    pub ended_by_length: u64,
}

/// Whose permission is on the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The service's, for a start that asked.
    Granted,
    /// The service's, for a start that had not asked.
    Ahead,
    /// Our own: there is no service.
    Alone,
}

/// The last thing that the gate said.
#[derive(Clone, Copy, Debug)]
struct Seen {
    note: Note,
    /// When this start went, once it has.
    started: Option<NodeTime>,
}

/// Something told that waits for its answer.
#[derive(Clone, Copy, Debug)]
struct Pending {
    told: Told,
    repeats: u32,
    due: NodeTime,
}

/// What an agent does for one job that takes turns: from the notes of its gate and the orders of the service to the page, and to what
/// the service is told.
///
/// Everything is state and nothing a command, so lost, doubled and late messages do no harm: a message about a start other than that of
/// now says nothing. Without a service, or with one that does not answer, each start has its permission on the page before it asks.
///
/// Where the gate tells no ends, the agent tells the service when what a start sends has ended: by the bytes of the host's ports, if
/// its caller has bytes that are this job's alone ([`Self::look_at`], [`Self::handle_bytes`]), by what a plugin in the job says of its
/// operations ([`Self::handle_operations`]), else after the time that a start takes.
#[derive(Clone, Debug)]
pub struct TurnAgent {
    connected: bool,
    /// Nobody answers, though there is a session.
    silent: bool,
    seen: Option<Seen>,
    turn: Turn,
    source: Source,
    /// The last start whose permission was taken back: a grant ahead that comes late gives it none.
    withdrawn: (u64, u64),
    /// Starts until then need not ask, if they are of that run of the gate.
    open: (u64, NodeTime),
    /// The last start of which the service said otherwise: what it said of an earlier one is old.
    closed: (u64, u64),
    pending: Option<Pending>,
    /// Since when something that was told waits for an answer, and how much was told since, where the service has said nothing.
    unanswered: Option<(NodeTime, u32)>,
    out: VecDeque<Told>,
    change: Option<PageChange>,
    ends: Ends,
    operations: Operations,
    counts: TurnCounts,
}

impl TurnAgent {
    /// Nothing is known of the gate; its next note tells the number of its start.
    #[must_use]
    pub fn new(connected: bool) -> Self {
        Self {
            connected,
            silent: false,
            seen: None,
            turn: Turn::default(),
            source: Source::Alone,
            withdrawn: (0, 0),
            open: (0, NodeTime(0)),
            closed: (0, 0),
            pending: None,
            unanswered: None,
            out: VecDeque::new(),
            change: None,
            ends: Ends::default(),
            operations: Operations::default(),
            counts: TurnCounts::default(),
        }
    }

    /// What is on the page now, but for [`Turn::max`], which is the plan's.
    #[must_use]
    pub const fn turn(&self) -> Turn {
        self.turn
    }

    /// Whether the page has to be written anew since the last call.
    pub fn poll_page(&mut self) -> Option<PageChange> {
        self.change.take()
    }

    /// What to tell the service next.
    pub fn poll_told(&mut self) -> Option<Told> {
        self.out.pop_front()
    }

    /// When to call [`Self::handle_tick`].
    #[must_use]
    pub fn deadline(&self) -> Option<NodeTime> {
        let repeat = self.pending.map(|pending| pending.due);
        repeat.into_iter().chain(self.ends.deadline().filter(|_| !self.awaits_operations())).min()
    }

    /// When to call [`Self::handle_bytes`], where somebody has bytes. Nobody without a service waits for an end.
    #[must_use]
    pub fn look_at(&self) -> Option<NodeTime> {
        // Operations say it more exactly, and cost less, while they may still say it.
        self.ends.look_at().filter(|_| !self.is_alone() && !self.awaits_operations())
    }

    /// When to read what the job's communication library did ([`Self::handle_operations`]), where it has a plugin.
    #[must_use]
    pub fn look_at_operations(&self) -> Option<NodeTime> {
        self.operations.look_at().filter(|_| !self.is_alone() && self.ends.is_mute())
    }

    /// Counts so far.
    #[must_use]
    pub const fn counts(&self) -> TurnCounts {
        self.counts
    }

    /// The gate said something.
    pub fn handle_note(&mut self, now: NodeTime, note: Note) {
        if note.kind == NoteKind::Ended && self.seen.is_some_and(|seen| seen.note.writer == note.writer) {
            self.ends.told();
        }
        self.take(now, note, true);
        // A start may be over before its note was read.
        self.end_by_operations(now);
    }

    /// Another process of the job tells what its communication library does: its counts begin anew.
    pub fn forget_operations(&mut self) {
        self.operations = Operations::default();
    }

    /// The communication library's operations began or ceased at each of these times, when so many had finished; the flag says that
    /// they ceased. To be called with all that happened before a note is handed over.
    pub fn handle_operations(&mut self, now: NodeTime, changes: impl IntoIterator<Item = (NodeTime, u64, bool)>) {
        for (at, finished, is_idle) in changes {
            self.operations.changed(at.min(now), finished, is_idle);
        }
        self.operations.looked(now);
        self.end_by_operations(now);
    }

    /// Whether operations will say when the start has ended; where they do not in twice its time, its length says it.
    fn awaits_operations(&self) -> bool {
        self.look_at_operations().is_some()
    }

    fn end_by_operations(&mut self, now: NodeTime) {
        if self.ends.is_mute()
            && let Some(end) = self.operations.end()
        {
            self.counts.ended_by_operations += u64::from(self.end_untold(now, end, true));
        }
    }

    /// All ports of the host, whose traffic is this job's alone, had carried so many bytes at `at`, by counters that are renewed every
    /// `renewed`.
    pub fn handle_bytes(&mut self, now: NodeTime, at: NodeTime, bytes: u64, renewed: Nanos) {
        if let Some(end) = self.ends.end_by_bytes(at, bytes, renewed) {
            self.counts.ended_by_bytes += u64::from(self.end_untold(now, end, true));
        }
    }

    /// The start that sends has ended, though its gate does not tell it. Whether there is one.
    fn end_untold(&mut self, now: NodeTime, at: NodeTime, measured: bool) -> bool {
        let Some(note) = self.seen.map(|seen| seen.note).filter(|note| note.kind == NoteKind::Started) else { return false };
        self.take(now, Note { kind: NoteKind::Ended, at: at.max(note.at), ..note }, measured);
        true
    }

    /// `measured`: whether the time of an end was seen, and not expected.
    fn take(&mut self, now: NodeTime, note: Note, measured: bool) {
        let before = self.seen.filter(|seen| seen.note.writer == note.writer);
        // Of one run the pair only grows: what came before, or twice, says nothing.
        if before.is_some_and(|seen| (note.number, note.kind) <= (seen.note.number, seen.note.kind)) {
            return;
        }
        let note = Note { at: note.at.min(now), ..note };
        if before.is_none() {
            self.ends = Ends::default();
        }
        let started = match note.kind {
            NoteKind::Ready => None,
            NoteKind::Started => Some(note.at),
            NoteKind::Ended => before.filter(|seen| measured && seen.note.number == note.number).and_then(|seen| seen.started),
        };
        self.seen = Some(Seen { note, started });
        let permit = self.turn.permit_for(note.writer, note.number);
        match note.kind {
            // The gate will see the permission that is there, and say that it went.
            // It may have looked at the page before that, and waits.
            NoteKind::Ready if permit == Permit::Go => self.change = Some(PageChange::WriteAndWake),
            NoteKind::Ready if self.is_open(now, note.writer) => self.let_go(Source::Ahead),
            NoteKind::Ready => {
                self.counts.asked += u64::from(self.connected);
                self.tell_seen(now);
                if self.is_alone() {
                    self.let_go(Source::Alone);
                } else {
                    // The gate hears at once that it was heard: how far away the service is, is the agent's to know.
                    let until = now.saturating_add(SERVICE_WITHIN);
                    self.permit(note.writer, note.number, Permit::NotBefore(until), Source::Granted);
                }
            }
            NoteKind::Started => {
                self.count_start(permit);
                self.ends.started(note.at, note.phase);
                self.operations.started(note.at, note.phase);
                // Of a start that it granted the service knows already.
                if permit == Permit::Go && self.source == Source::Granted {
                    self.pending = None;
                } else {
                    self.tell_seen(now);
                }
                self.let_next_go(now);
            }
            NoteKind::Ended => {
                self.tell_seen(now);
                self.let_next_go(now);
            }
        }
    }

    /// The service said something.
    pub fn handle_order(&mut self, now: NodeTime, order: Order) {
        if !self.connected {
            return;
        }
        self.unanswered = None;
        if self.silent {
            // There is somebody after all, and the next start has to ask.
            self.silent = false;
            self.take_back(Source::Alone);
        }
        let last = self.seen.map(|seen| seen.note).filter(|note| note.writer == order.writer);
        let is_of_last = last.is_some_and(|note| note.number == order.number);
        let waits = is_of_last && last.is_some_and(|note| note.kind == NoteKind::Ready);
        self.follow_open(now, order);
        match order.kind {
            OrderKind::Heard(kind) if is_of_last => self.answered(order.number, kind),
            OrderKind::Grant if waits => {
                self.answered(order.number, ToldKind::Ready);
                self.ends.expects(last.map_or(0, |note| note.phase), order.at_most);
                if self.turn.permit_for(order.writer, order.number) != Permit::Go {
                    self.counts.granted += 1;
                    self.permit(order.writer, order.number, Permit::Go, Source::Granted);
                }
            }
            OrderKind::Hold if waits => self.hold(now, order),
            OrderKind::GrantAhead => {
                let follows = last.is_some_and(|note| note.kind == NoteKind::Ended && note.number.checked_add(1) == Some(order.number));
                if follows {
                    self.answered(order.number - 1, ToldKind::Ended);
                }
                if follows && self.withdrawn != (order.writer, order.number) {
                    self.permit(order.writer, order.number, Permit::Go, Source::Ahead);
                }
            }
            OrderKind::Withdraw => self.withdraw(now, order),
            OrderKind::Heard(_) | OrderKind::Grant | OrderKind::Hold => {}
        }
    }

    /// Time has passed: [`Self::deadline`], or more.
    pub fn handle_tick(&mut self, now: NodeTime) {
        if !self.awaits_operations()
            && let Some(end) = self.ends.end_by_length(now)
        {
            // A length is no measurement: the service would learn what it said itself, and a little less each time.
            self.counts.ended_by_length += u64::from(self.end_untold(now, end, false));
        }
        let Some(pending) = self.pending.filter(|pending| pending.due <= now) else { return };
        if pending.repeats == REPEATS_MAX || self.is_unanswered(now) {
            self.falls_silent();
            self.let_all_go(now);
            return;
        }
        let repeats = pending.repeats + 1;
        // The last repeat gets as long for its answer as the first note.
        let wait = if repeats == REPEATS_MAX { REPEAT_FIRST } else { Nanos(REPEAT_FIRST.0 << repeats) };
        self.pending = Some(Pending { repeats, due: now.saturating_add(wait), ..pending });
        self.say(pending.told);
    }

    fn is_unanswered(&self, now: NodeTime) -> bool {
        self.unanswered.is_some_and(|(since, told)| now.since(since) >= SILENT_AFTER && told > REPEATS_MAX)
    }

    /// Nobody answers: from here on everything is told once, so that whoever comes back can answer.
    fn falls_silent(&mut self) {
        (self.pending, self.silent) = (None, true);
        self.counts.unanswered += 1;
    }

    /// Whether there is a session with the service, from now on. A session that follows another at once is told as one that ended and
    /// one that began.
    pub fn set_connected(&mut self, now: NodeTime, connected: bool) {
        if self.connected == connected {
            return;
        }
        (self.connected, self.silent, self.pending, self.unanswered) = (connected, false, None, None);
        self.open = (0, NodeTime(0));
        self.out.clear();
        if !connected {
            self.let_all_go(now);
            return;
        }
        // The new service knows of no permission, so the next start has to ask.
        self.take_back(Source::Alone);
        self.take_back(Source::Ahead);
        // It hears at once who sends and who waits. A start that has a permission says itself that it went.
        let is_going = |note: Note| note.kind == NoteKind::Ready && self.turn.permit_for(note.writer, note.number) == Permit::Go;
        if self.seen.is_some_and(|seen| !is_going(seen.note)) {
            self.tell_seen(now);
        }
    }

    const fn is_alone(&self) -> bool {
        !self.connected || self.silent
    }

    fn count_start(&mut self, permit: Permit) {
        match self.source {
            Source::Ahead if permit == Permit::Go => self.counts.ahead += 1,
            Source::Alone if permit == Permit::Go => self.counts.alone += 1,
            _ => {}
        }
    }

    /// Tells what the gate said last, until it is answered.
    fn tell_seen(&mut self, now: NodeTime) {
        let Some(Seen { note, started }) = self.seen.filter(|_| self.connected) else { return };
        let kind = match note.kind {
            NoteKind::Ready => ToldKind::Ready,
            NoteKind::Started => ToldKind::Started,
            NoteKind::Ended => ToldKind::Ended,
        };
        let sent = if note.kind == NoteKind::Ended { started.map_or(Nanos(0), |at| note.at.since(at)) } else { Nanos(0) };
        let told = Told { kind, writer: note.writer, number: note.number, phase: note.phase, at: note.at, sent };
        self.unanswered.get_or_insert((now, 0));
        self.say(told);
        if !self.silent && self.is_unanswered(now) {
            self.falls_silent();
        }
        // Nobody has answered so far, so one question at a time is enough.
        self.pending = (!self.silent).then_some(Pending { told, repeats: 0, due: now.saturating_add(REPEAT_FIRST) });
    }

    fn say(&mut self, told: Told) {
        if let Some((_, count)) = &mut self.unanswered {
            *count = count.saturating_add(1);
        }
        if self.out.len() == OUT_MAX {
            self.out.pop_front();
        }
        self.out.push_back(told);
    }

    /// The service knows of this and of everything before.
    fn answered(&mut self, number: u64, kind: ToldKind) {
        self.pending = self.pending.filter(|pending| (pending.told.number, pending.told.kind) > (number, kind));
    }

    fn hold(&mut self, now: NodeTime, order: Order) {
        // A permission stays: the gate may have gone with it.
        if self.turn.permit_for(order.writer, order.number) == Permit::Go {
            return;
        }
        self.permit(order.writer, order.number, Permit::NotBefore(now.saturating_add(order.at_most)), Source::Granted);
        let again = Nanos(order.at_most.0 - order.at_most.0 / ASK_AGAIN_BEFORE).max(REPEAT_FIRST);
        if let Some(told) = self.pending.map(|pending| pending.told).or_else(|| self.waiting()) {
            self.pending = Some(Pending { told, repeats: 0, due: now.saturating_add(again) });
        }
    }

    /// The question of a start that waits.
    fn waiting(&self) -> Option<Told> {
        let note = self.seen?.note;
        let Note { writer, number, phase, at, kind } = note;
        (kind == NoteKind::Ready).then_some(Told { kind: ToldKind::Ready, writer, number, phase, at, sent: Nanos(0) })
    }

    fn withdraw(&mut self, now: NodeTime, order: Order) {
        // A start that was announced needs its permission. Of another run of the gate, what we know says that the asked one is gone.
        if self.seen.is_some_and(|seen| seen.note.writer != order.writer || seen.note.number >= order.number) {
            return self.tell_seen(now);
        }
        // A withdrawal of this start proves that the service knows the end of the start before.
        self.answered(order.number.saturating_sub(1), ToldKind::Ended);
        if (self.turn.writer, self.turn.number) == (order.writer, order.number) {
            self.permit(order.writer, order.number, Permit::None, Source::Ahead);
        }
        self.withdrawn = (order.writer, order.number);
        // The service asks again if this is lost.
        let (writer, number) = (order.writer, order.number);
        self.say(Told { kind: ToldKind::Withdrawn, writer, number, phase: 0, at: now, sent: Nanos(0) });
    }

    /// Takes a permission of this source off the page, if its start has not been announced.
    fn take_back(&mut self, source: Source) {
        let Turn { writer, number, permit, .. } = self.turn;
        let is_next = self.seen.is_none_or(|seen| seen.note.writer != writer || seen.note.number < number);
        if permit == Permit::Go && self.source == source && is_next {
            self.permit(writer, number, Permit::None, source);
        }
    }

    /// Lets the start that waits go, or the next one.
    fn let_all_go(&mut self, now: NodeTime) {
        match self.seen.map(|seen| seen.note.kind) {
            Some(NoteKind::Ready) => self.let_go(if self.is_alone() { Source::Alone } else { Source::Ahead }),
            Some(NoteKind::Started | NoteKind::Ended) => self.let_next_go(now),
            None => {}
        }
    }

    fn let_go(&mut self, source: Source) {
        if let Some(Note { writer, number, .. }) = self.seen.map(|seen| seen.note)
            && self.turn.permit_for(writer, number) != Permit::Go
        {
            self.permit(writer, number, Permit::Go, source);
        }
    }

    fn let_next_go(&mut self, now: NodeTime) {
        if let Some(Note { writer, number, .. }) = self.seen.map(|seen| seen.note)
            && (self.is_alone() || self.is_open(now, writer))
        {
            // A permission that the service gave ahead is as good.
            let next = number.saturating_add(1);
            if self.turn.permit_for(writer, next) != Permit::Go {
                let source = if self.is_alone() { Source::Alone } else { Source::Ahead };
                self.permit(writer, next, Permit::Go, source);
            }
        }
    }

    fn is_open(&self, now: NodeTime, writer: u64) -> bool {
        self.open.0 == writer && now < self.open.1
    }

    /// Whether starts need not ask for a while, by what the service said last of the latest start.
    fn follow_open(&mut self, now: NodeTime, order: Order) {
        let place = (order.writer, order.number);
        let is_old = self.closed.0 == order.writer && order.number <= self.closed.1;
        match order.kind {
            OrderKind::GrantAhead if order.at_most.0 > 0 => {
                let is_ours = self.seen.is_some_and(|seen| seen.note.writer == order.writer);
                if is_ours && !is_old {
                    self.open = (order.writer, now.saturating_add(order.at_most));
                    self.let_all_go(now);
                }
            }
            OrderKind::GrantAhead | OrderKind::Withdraw | OrderKind::Hold | OrderKind::Heard(ToldKind::Ended) if !is_old => {
                self.closed = place;
                // What was permitted by itself goes with it; a permission of this order comes after this.
                if core::mem::replace(&mut self.open, (0, NodeTime(0))).1 > now {
                    self.take_back(Source::Ahead);
                }
            }
            _ => {}
        }
    }

    fn permit(&mut self, writer: u64, number: u64, permit: Permit, source: Source) {
        self.turn = Turn { writer, number, permit, ..self.turn };
        self.source = source;
        // A hold needs no wake: the gate looks at the page before it goes without an answer, and before it goes at the time it knows.
        let waits = self.seen.is_some_and(|seen| seen.note.kind == NoteKind::Ready && seen.note.number == number);
        let wakes = (waits && permit == Permit::Go) || self.change == Some(PageChange::WriteAndWake);
        self.change = Some(if wakes { PageChange::WriteAndWake } else { PageChange::Write });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> NodeTime {
        NodeTime(ms * 1_000_000)
    }

    fn note(ms: u64, kind: NoteKind, number: u64) -> Note {
        Note { kind, writer: 7, number, phase: 0, at: at(ms) }
    }

    fn order(kind: OrderKind, number: u64) -> Order {
        // A permission ahead of one start and no more.
        let at_most = if kind == OrderKind::GrantAhead { Nanos(0) } else { Nanos::from_millis(80) };
        Order { kind, writer: 7, number, at_most }
    }

    fn told(agent: &mut TurnAgent) -> Vec<(ToldKind, u64)> {
        core::iter::from_fn(|| agent.poll_told()).map(|told| (told.kind, told.number)).collect()
    }

    /// Its gate waits with start 3, and the service has been asked.
    fn asked() -> TurnAgent {
        let mut agent = TurnAgent::new(true);
        agent.handle_note(at(100), note(100, NoteKind::Ready, 3));
        assert_eq!(told(&mut agent), [(ToldKind::Ready, 3)]);
        agent
    }

    /// The service has given a permission for start 4 ahead.
    fn ahead() -> TurnAgent {
        let mut agent = TurnAgent::new(true);
        agent.handle_note(at(100), note(100, NoteKind::Ended, 3));
        agent.handle_order(at(101), order(OrderKind::GrantAhead, 4));
        assert_eq!((told(&mut agent), agent.deadline()), (vec![(ToldKind::Ended, 3)], None));
        assert_eq!(agent.poll_page(), Some(PageChange::Write), "nobody waits for it");
        assert_eq!(agent.turn().permit_for(7, 4), Permit::Go);
        agent
    }

    #[test]
    fn a_start_is_asked_held_granted_and_told_to_its_end() {
        let mut agent = asked();
        agent.handle_order(at(101), order(OrderKind::Hold, 3));
        assert_eq!((agent.turn().permit_for(7, 3), agent.poll_page()), (Permit::NotBefore(at(181)), Some(PageChange::Write)));
        assert_eq!(agent.deadline(), Some(at(171)), "it asks again when 70 of 80 ms are over");
        agent.handle_order(at(140), order(OrderKind::Grant, 3));
        assert_eq!((agent.turn().permit_for(7, 3), agent.poll_page()), (Permit::Go, Some(PageChange::WriteAndWake)));
        assert_eq!(agent.poll_page(), None);
        agent.handle_note(at(141), note(140, NoteKind::Started, 3));
        assert_eq!((told(&mut agent), agent.deadline()), (vec![], None), "who granted knows");
        agent.handle_note(at(190), note(185, NoteKind::Ended, 3));
        let ended = agent.poll_told().unwrap();
        assert_eq!((ended.kind, ended.at, ended.sent), (ToldKind::Ended, at(185), Nanos::from_millis(45)));
        agent.handle_order(at(191), order(OrderKind::Heard(ToldKind::Ended), 3));
        assert_eq!(agent.deadline(), None);
        assert_eq!(agent.counts(), TurnCounts { asked: 1, granted: 1, ..TurnCounts::default() });
    }

    #[test]
    fn a_gate_that_tells_no_ends_has_them_told() {
        let mut agent = TurnAgent::new(true);
        let start = |agent: &mut TurnAgent, number: u64| {
            let ms = 1_000 * number;
            agent.handle_note(at(ms), note(ms, NoteKind::Ready, number));
            agent.handle_order(at(ms), order(OrderKind::Grant, number));
            agent.handle_note(at(ms), note(ms, NoteKind::Started, number));
            told(agent);
        };
        for number in 1..=2 {
            start(&mut agent, number);
            assert_eq!(agent.deadline(), None, "it may still tell one");
        }
        start(&mut agent, 3);
        assert_eq!(agent.deadline(), Some(at(3_080)), "as long as the service expects");
        agent.handle_tick(at(3_081));
        let ended = agent.poll_told().unwrap();
        assert_eq!(
            (ended.kind, ended.number, ended.at, ended.sent),
            (ToldKind::Ended, 3, at(3_080), Nanos(0)),
            "an expected time is no measured one"
        );
        agent.handle_order(at(3_082), order(OrderKind::GrantAhead, 4));
        assert_eq!(agent.turn().permit_for(7, 4), Permit::Go, "as after any end");
        // The gate tells it after all: the service knows, and the next ends are the gate's to tell.
        agent.handle_note(at(3_100), note(3_100, NoteKind::Ended, 3));
        assert_eq!(told(&mut agent), []);
        start(&mut agent, 4);
        assert_eq!((agent.deadline(), agent.look_at()), (Some(at(4_003)), None), "the repeat of what it said, and no end");
        start(&mut agent, 5);
        assert_eq!(agent.look_at(), Some(at(5_000)));
        start(&mut agent, 6);
        // Another run of the gate is another program.
        agent.handle_note(at(7_000), Note { writer: 8, ..note(7_000, NoteKind::Started, 1) });
        assert_eq!((agent.deadline(), agent.look_at()), (Some(at(7_003)), None), "the repeat of what it said");
        assert_eq!((agent.counts().ended_by_length, agent.counts().ended_by_bytes), (1, 0));
    }

    #[test]
    fn the_operations_of_a_plugin_end_a_start_before_its_length_does() {
        let mut agent = TurnAgent::new(true);
        agent.handle_operations(at(1), [(at(1), 0, true)]);
        let mut ends = Vec::new();
        for number in 1..=8 {
            let ms = 1_000 * number;
            agent.handle_note(at(ms), note(ms, NoteKind::Ready, number));
            agent.handle_order(at(ms), order(OrderKind::Grant, number));
            agent.handle_note(at(ms), note(ms, NoteKind::Started, number));
            told(&mut agent);
            // 24 operations in 60 ms; the last start hangs.
            let finished = 24 * (number - 1);
            agent.handle_operations(at(ms + 10), [(at(ms + 10), finished, false)]);
            let look = agent.look_at_operations();
            assert_eq!(look.is_some(), number > 2, "start {number}");
            if number == 8 {
                break;
            }
            agent.handle_operations(at(ms + 70), [(at(ms + 60), finished + 24, true)]);
            ends.extend(agent.poll_told().map(|told| (told.number, told.at, told.sent)));
            assert_eq!(agent.look_at_operations(), None, "start {number}");
            // What comes after the end says no other.
            agent.handle_tick(at(ms + 500));
        }
        let sent = Nanos::from_millis(60);
        assert_eq!(ends, (3..8).map(|number| (number, at(1_000 * number + 60), sent)).collect::<Vec<_>>());
        // The service expects 80 ms, and operations get 120 ms: then the length says it.
        while let Some(look) = agent.look_at_operations() {
            assert!(agent.deadline().is_none_or(|due| due > at(8_080)));
            agent.handle_operations(look, []);
        }
        assert_eq!(agent.deadline(), Some(at(8_080)));
        agent.handle_tick(at(8_121));
        assert_eq!((agent.counts().ended_by_operations, agent.counts().ended_by_length), (5, 1));
    }

    #[test]
    fn a_grant_that_was_lost_is_asked_for_again() {
        let mut agent = asked();
        agent.handle_order(at(101), order(OrderKind::Hold, 3));
        agent.handle_tick(at(170));
        assert_eq!(told(&mut agent), []);
        agent.handle_tick(at(171));
        assert_eq!((told(&mut agent), agent.deadline()), (vec![(ToldKind::Ready, 3)], Some(at(177))));
    }

    #[test]
    fn what_nobody_answers_is_repeated_and_then_the_job_goes_alone() {
        let mut agent = asked();
        let mut repeats = Vec::new();
        while let Some(due) = agent.deadline() {
            agent.handle_tick(due);
            repeats.extend(told(&mut agent).iter().map(|_| due.since(at(100)).0 / 1_000_000));
        }
        assert_eq!(repeats, [3, 9, 21, 45, 93]);
        assert_eq!((agent.turn().permit_for(7, 3), agent.poll_page()), (Permit::Go, Some(PageChange::WriteAndWake)));
        // Told once each, in case that somebody comes back; the next start has its permission already.
        agent.handle_note(at(300), note(300, NoteKind::Started, 3));
        agent.handle_note(at(350), note(350, NoteKind::Ended, 3));
        assert_eq!((told(&mut agent).len(), agent.deadline(), agent.turn().permit_for(7, 4)), (2, None, Permit::Go));
        // Somebody is back.
        agent.handle_order(at(360), order(OrderKind::Heard(ToldKind::Ended), 3));
        assert_eq!(agent.turn().permit_for(7, 4), Permit::None);
        agent.handle_note(at(400), note(400, NoteKind::Ready, 4));
        assert!(agent.deadline().is_some());
        assert_eq!(agent.counts(), TurnCounts { asked: 2, alone: 1, unanswered: 1, ..TurnCounts::default() });
    }

    /// Found by a stranger: 24 ms iterations took 53 while the service hung, because each note began the repeats anew.
    #[test]
    fn a_service_that_hangs_keeps_short_iterations_waiting_for_a_tenth_of_a_second() {
        let mut agent = asked();
        let (mut asks, mut now) = (0, 100);
        for number in 3..40 {
            if number > 3 {
                agent.handle_note(at(now), note(now, NoteKind::Ready, number));
            }
            // A start that has no permission goes after 25 ms.
            let waits = agent.turn().permit_for(7, number) != Permit::Go;
            asks += u64::from(waits);
            let go = now + if waits { 25 } else { 0 };
            let end = go + 9;
            for (time, kind) in [(go, NoteKind::Started), (end, NoteKind::Ended)] {
                while let Some(due) = agent.deadline().filter(|due| *due <= at(time)) {
                    agent.handle_tick(due);
                }
                agent.handle_note(at(time), note(time, kind, number));
            }
            now = end + 15;
        }
        assert!((2..=3).contains(&asks), "{asks} starts waited");
        assert_eq!(agent.counts().unanswered, 1);
        // One that hears every second thing is not gone.
        let mut agent = asked();
        for number in 3..40 {
            let now = 100 + 50 * number;
            agent.handle_note(at(now), note(now, NoteKind::Started, number));
            agent.handle_order(at(now + 1), order(OrderKind::Heard(ToldKind::Started), number));
            agent.handle_note(at(now + 10), note(now + 10, NoteKind::Ended, number));
        }
        assert_eq!(agent.counts().unanswered, 0);
    }

    #[test]
    fn without_a_service_every_start_has_its_permission_before_it_asks() {
        let mut agent = asked();
        agent.set_connected(at(110), false);
        assert_eq!(
            (agent.turn().permit_for(7, 3), agent.poll_page(), agent.deadline()),
            (Permit::Go, Some(PageChange::WriteAndWake), None)
        );
        agent.handle_note(at(111), note(111, NoteKind::Started, 3));
        assert_eq!((agent.turn().permit_for(7, 4), agent.poll_page()), (Permit::Go, Some(PageChange::Write)));
        agent.handle_order(at(112), order(OrderKind::Withdraw, 4));
        assert_eq!(agent.turn().permit_for(7, 4), Permit::Go, "of a session that is gone");
        // One that was never seen before asks, and goes as well.
        let other = Note { writer: 8, ..note(120, NoteKind::Ready, 1) };
        agent.handle_note(at(120), other);
        assert_eq!((agent.turn().permit_for(8, 1), agent.poll_page()), (Permit::Go, Some(PageChange::WriteAndWake)));
        assert_eq!(told(&mut agent), []);
    }

    #[test]
    fn a_new_session_hears_who_sends_and_the_next_start_has_to_ask() {
        let mut agent = ahead();
        agent.set_connected(at(200), false);
        assert_eq!((agent.turn().permit_for(7, 4), agent.poll_page()), (Permit::Go, None), "the permission stays");
        agent.set_connected(at(300), true);
        assert_eq!((agent.turn().permit_for(7, 4), agent.poll_page()), (Permit::None, Some(PageChange::Write)));
        assert_eq!(told(&mut agent), [(ToldKind::Ended, 3)]);
        // One that sends while there is no session.
        agent.set_connected(at(400), false);
        agent.handle_note(at(410), note(410, NoteKind::Started, 4));
        agent.set_connected(at(420), true);
        assert_eq!((told(&mut agent), agent.turn().permit_for(7, 5)), (vec![(ToldKind::Started, 4)], Permit::None));
        // One that has its permission and not said that it went says it later.
        agent.handle_note(at(500), note(500, NoteKind::Ready, 5));
        agent.set_connected(at(501), false);
        told(&mut agent);
        agent.set_connected(at(502), true);
        assert_eq!((told(&mut agent), agent.turn().permit_for(7, 5)), (vec![], Permit::Go));
    }

    #[test]
    fn a_permission_ahead_is_taken_back_unless_the_start_was_announced() {
        let mut agent = ahead();
        agent.handle_order(at(110), order(OrderKind::Withdraw, 4));
        assert_eq!((agent.turn().permit_for(7, 4), agent.poll_page()), (Permit::None, Some(PageChange::Write)));
        assert_eq!(told(&mut agent), [(ToldKind::Withdrawn, 4)]);
        agent.handle_order(at(111), order(OrderKind::GrantAhead, 4));
        assert_eq!(agent.turn().permit_for(7, 4), Permit::None, "late or doubled");
        // The word that the withdrawal was heard is none about the question that follows it.
        agent.handle_note(at(112), note(112, NoteKind::Ready, 4));
        agent.handle_order(at(113), order(OrderKind::Heard(ToldKind::Withdrawn), 4));
        assert!(agent.deadline().is_some());
        let mut agent = ahead();
        agent.handle_note(at(120), note(120, NoteKind::Started, 4));
        agent.handle_order(at(121), order(OrderKind::Withdraw, 4));
        assert_eq!(told(&mut agent), [(ToldKind::Started, 4), (ToldKind::Started, 4)]);
        assert_eq!(agent.counts().ahead, 1);
    }

    /// The service is 40 ms away and lets the job's group run free.
    fn open() -> TurnAgent {
        let mut agent = asked();
        agent.handle_note(at(125), note(125, NoteKind::Started, 3));
        agent.handle_order(at(140), Order { at_most: Nanos::from_millis(1_000), ..order(OrderKind::GrantAhead, 4) });
        told(&mut agent);
        assert_eq!(agent.turn().permit_for(7, 4), Permit::Go);
        agent
    }

    #[test]
    fn starts_that_nobody_holds_need_not_ask_until_the_service_says_otherwise() {
        let mut agent = open();
        for (number, ms) in [(4, 200), (5, 300), (6, 400)] {
            assert_eq!(agent.turn().permit_for(7, number), Permit::Go);
            agent.handle_note(at(ms), note(ms, NoteKind::Started, number));
            agent.handle_note(at(ms + 50), note(ms + 50, NoteKind::Ended, number));
            assert_eq!(told(&mut agent), [(ToldKind::Started, number), (ToldKind::Ended, number)]);
        }
        // The answer to an end before the last says the same.
        agent.handle_order(at(460), Order { at_most: Nanos::from_millis(1_000), ..order(OrderKind::GrantAhead, 6) });
        assert_eq!(agent.turn().permit_for(7, 7), Permit::Go);
        // A gate that looked at its page too early is woken.
        agent.poll_page();
        agent.handle_note(at(470), note(470, NoteKind::Ready, 7));
        assert_eq!((agent.poll_page(), told(&mut agent)), (Some(PageChange::WriteAndWake), vec![]));
        agent.handle_note(at(471), note(470, NoteKind::Started, 7));
        let closing = [order(OrderKind::Withdraw, 8), order(OrderKind::Heard(ToldKind::Ended), 7), order(OrderKind::GrantAhead, 7)];
        for order in closing {
            let mut agent = agent.clone();
            agent.handle_order(at(480), order);
            assert_eq!(agent.turn().permit_for(7, 8), Permit::None, "{order:?}");
            let late = Order { kind: OrderKind::GrantAhead, at_most: Nanos::from_millis(1_000), ..order };
            agent.handle_order(at(481), late);
            assert_eq!(agent.turn().permit_for(7, 8), Permit::None, "it overtook {order:?}");
        }
        // Nobody says anything any more.
        agent.handle_note(at(1_600), note(1_600, NoteKind::Ended, 7));
        agent.handle_note(at(1_700), note(1_700, NoteKind::Started, 8));
        assert_eq!(agent.turn().permit_for(7, 9), Permit::None);
    }

    #[test]
    fn another_session_and_another_run_of_the_gate_ask() {
        let mut agent = open();
        agent.set_connected(at(200), false);
        agent.set_connected(at(201), true);
        agent.handle_note(at(210), note(210, NoteKind::Started, 4));
        assert_eq!(agent.turn().permit_for(7, 5), Permit::None);
        let mut agent = open();
        agent.handle_note(at(210), Note { writer: 8, ..note(210, NoteKind::Ready, 1) });
        assert_eq!(told(&mut agent), [(ToldKind::Ready, 1)]);
    }

    #[test]
    fn an_agent_that_was_restarted_learns_from_the_next_note() {
        let mut agent = TurnAgent::new(true);
        for kind in [OrderKind::Grant, OrderKind::GrantAhead, OrderKind::Hold, OrderKind::Heard(ToldKind::Ended)] {
            agent.handle_order(at(1), order(kind, 4));
        }
        assert_eq!((agent.turn(), agent.poll_page()), (Turn::default(), None));
        // Nobody can start with a permission that is not on the page.
        agent.handle_order(at(2), order(OrderKind::Withdraw, 4));
        assert_eq!(told(&mut agent), [(ToldKind::Withdrawn, 4)]);
        agent.handle_note(at(3), note(3, NoteKind::Started, 9));
        assert_eq!(told(&mut agent), [(ToldKind::Started, 9)]);
        // The start of this end was not heard of.
        agent.handle_note(at(4), note(4, NoteKind::Ended, 10));
        assert_eq!(agent.poll_told().unwrap().sent, Nanos(0));
    }

    #[test]
    fn notes_that_come_twice_or_of_earlier_starts_say_nothing() {
        let mut agent = asked();
        for late in [note(90, NoteKind::Ended, 2), note(100, NoteKind::Ready, 3), note(90, NoteKind::Started, 1)] {
            agent.handle_note(at(101), late);
        }
        assert_eq!(told(&mut agent), []);
        // A gate whose clock is ahead of ours does not start in the future.
        agent.handle_note(at(102), note(999, NoteKind::Started, 3));
        assert_eq!(agent.poll_told().unwrap().at, at(102));
    }
}
