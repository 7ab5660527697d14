//! Turns on the service's side: numbered messages of agents in, orders to agents out, an arbiter for each group in between.
//!
//! Messages are datagrams: they come late, twice, out of order or not at all. So each says a state and not a change: of one job,
//! (number, kind) only grows, a note that says less than is known is old, and one that says the same is answered again. Every
//! note has an answer, so an agent repeats what was not answered; [`OrderKind::Withdraw`], which answers nothing, is repeated here.
//!
//! Nothing of this is durable but what comparisons found ([`Comparison`]). After a restart agents say again where their jobs are.

mod comparison;
mod entry;
mod judge;
mod measure;
mod message;
mod recent;
mod starts;
mod view;

use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    vec::Vec,
};

use turns::{Action, Arbiter, Ask, Because, Event};
use units::{FabricTime, Nanos};

use crate::SessionId;

use entry::{Entry, Place};
use judge::Judge;

pub use comparison::{ComparedJob, Comparison, MeanOf};
pub use judge::{Judged, Verdict};
pub use measure::MeasuredJobs;
pub use message::{Granted, Note, NoteKind, Order, OrderKind};
pub use recent::{Measured, SPREAD_PARTS};
pub use starts::TurnStart;
pub use turns::Activity;
pub use view::{GroupState, GroupView, JobTurns};

/// How many times a withdrawal is sent, [`WITHDRAW_EVERY`] apart: all within the time for which the arbiter waits for the answer.
const WITHDRAWALS: u32 = 3;
/// Above the way there and back within a data centre, and well below [`turns::WITHDRAW_WITHIN`].
const WITHDRAW_EVERY: Nanos = Nanos::from_millis(3);

/// Jobs that take turns, and the rules among them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnGroup {
    /// In the order of [`turns::Group::members`].
    pub jobs: Vec<TurnJob>,
    /// What they demand, and who takes turns with whom.
    pub group: turns::Group,
}

/// A job that takes turns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnJob {
    /// Its name.
    pub name: Arc<str>,
    /// The host whose agent speaks for it.
    pub leader_host: Arc<str>,
}

/// How many iterations a job that nobody holds may start without asking. The permission is renewed at each end that the job tells. So a job
/// without ends asks once in so many iterations, and a renewal that is lost costs no more.
const OPEN_ITERATIONS: u64 = 16;

/// What happens to the turns.
#[derive(Clone, Debug)]
pub enum TurnEvent {
    /// These groups are in force, in place of all before. Groups that stay are the same by identity and go on as they were.
    Groups(Vec<Arc<TurnGroup>>),
    /// These comparisons were found before the service started. Groups that begin with the next [`TurnEvent::Groups`] go on from them.
    Known(Vec<Arc<Comparison>>),
    /// An agent was admitted.
    Session {
        /// Its session, greater than every earlier one.
        session: SessionId,
        /// Its host.
        host: Arc<str>,
    },
    /// A session ended.
    Gone {
        /// The session.
        session: SessionId,
    },
    /// An agent says where a job is.
    Note {
        /// Its session.
        session: SessionId,
        /// What it says.
        note: Note,
    },
    /// [`Turns::deadline`] has come.
    Tick,
}

/// Where a job is in its turns, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnView<'a> {
    /// The job.
    pub job: &'a str,
    /// Since when it waits.
    pub waits_since: Option<FabricTime>,
    /// Until when its start keeps others waiting at most.
    pub sends_until: Option<FabricTime>,
    /// Those that are in its way.
    pub ahead: Vec<&'a str>,
    /// Nobody tells the ends of its starts, so it takes no turns.
    pub has_no_ends: bool,
    /// Whether its group is held now; else it runs free, to measure what turns bring or because they bring nothing.
    pub holds: bool,
    /// Whether turns were found to be worth it in its group, or nothing is known yet.
    pub is_worth_it: bool,
    /// Iterations of the last stretch in which the group was held, and of the last in which it ran free.
    pub held: MeanOf,
    /// See `held`.
    pub free: MeanOf,
    /// Starts that asked, were granted ahead, and waited, since the job came.
    pub counts: TurnCounts,
}

/// Totals of one job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TurnCounts {
    /// Starts that asked.
    pub asked: u64,
    /// Starts that did not ask: permitted ahead, or gone by themselves.
    pub unasked: u64,
    /// Starts that asked and did not go at once.
    pub waited: u64,
    /// Time from asking to the grant, summed.
    pub waiting: Nanos,
    /// Starts that were granted though somebody may have been in the way: they had waited for as long as an iteration takes, nobody
    /// tells the job's ends, or the group runs free.
    pub let_go: u64,
    /// Those of them that had waited for as long as an iteration takes.
    pub bound: u64,
    /// Permissions that were given ahead.
    pub ahead: u64,
}

#[derive(Debug)]
struct Running {
    of: Arc<TurnGroup>,
    arbiter: Arbiter,
    judge: Judge,
    /// What its last comparison came to, and when.
    judged: Option<(FabricTime, Verdict)>,
    due: Option<FabricTime>,
    /// How often a job went though others may have been in its way: what iterations took then, they took beside others.
    broken: u64,
}

/// The turns of all groups. It reads no clock and does no input or output.
#[derive(Debug, Default)]
pub struct Turns {
    groups: BTreeMap<u64, Running>,
    jobs: BTreeMap<Arc<str>, Entry>,
    sessions: BTreeMap<SessionId, Arc<str>>,
    /// Deadlines of groups.
    due: BTreeSet<(FabricTime, u64)>,
    /// Withdrawals that are to be said again.
    again: BTreeSet<(FabricTime, Arc<str>)>,
    orders: VecDeque<(SessionId, Order)>,
    judged: VecDeque<Judged>,
    measured: VecDeque<MeasuredJobs>,
    /// By the name under which each is kept, until the first groups are there.
    known: BTreeMap<Arc<str>, Arc<Comparison>>,
    last_group: u64,
    now: FabricTime,
}

impl Turns {
    /// Takes in what happened at `now`. Then call [`Turns::poll`] until it has nothing more.
    pub fn handle(&mut self, now: FabricTime, event: TurnEvent) {
        self.now = self.now.max(now);
        match event {
            TurnEvent::Groups(groups) => self.replace(groups),
            TurnEvent::Known(found) => self.known.extend(found.into_iter().filter_map(|found| Some((found.name()?.clone(), found)))),
            TurnEvent::Session { session, host } => drop(self.sessions.insert(session, host)),
            TurnEvent::Gone { session } => self.gone(session),
            TurnEvent::Note { session, note } => self.note(session, &note),
            TurnEvent::Tick => self.tick(),
        }
    }

    /// What to send next, and to whom.
    pub fn poll(&mut self) -> Option<(SessionId, Order)> {
        self.orders.pop_front()
    }

    /// What was found out of the turns of a group, since this was asked last.
    pub fn poll_judged(&mut self) -> Option<Judged> {
        self.judged.pop_front()
    }

    /// What was measured of the jobs of a group, since this was asked last; of each group once in some dozens of iterations.
    pub fn poll_measured(&mut self) -> Option<MeasuredJobs> {
        self.measured.pop_front()
    }

    /// When to call [`Turns::handle`] with [`TurnEvent::Tick`], if nothing happens before.
    #[must_use]
    pub fn deadline(&self) -> Option<FabricTime> {
        let group = self.due.first().map(|(at, _)| *at);
        let again = self.again.first().map(|(at, _)| *at);
        group.into_iter().chain(again).min()
    }

    /// Every job that takes turns, by name.
    pub fn view(&self) -> impl Iterator<Item = TurnView<'_>> {
        self.jobs.values().filter_map(|entry| {
            let running = self.groups.get(&entry.group)?;
            let (held, free) = running.judge.means(entry.index);
            let name = |job: u32| running.of.jobs.get(job as usize).map(|j| &*j.name);
            Some(TurnView {
                job: &entry.name,
                waits_since: running.arbiter.waits_since(entry.index),
                sends_until: running.arbiter.sends_until(entry.index),
                ahead: running.arbiter.ahead_of(entry.index).filter_map(name).collect(),
                has_no_ends: running.arbiter.has_no_ends(entry.index),
                holds: running.judge.holds(),
                is_worth_it: running.judge.is_worth_it(),
                held,
                free,
                counts: entry.counts,
            })
        })
    }

    /// Puts other groups in force. Jobs keep what is known of them and where they are.
    fn replace(&mut self, groups: Vec<Arc<TurnGroup>>) {
        let (mut before, known) = (core::mem::take(&mut self.groups), core::mem::take(&mut self.known));
        let mut fresh = Vec::new();
        for of in groups {
            // A commit plans again whom it meets, and mostly nothing changes for them: then the group goes on, and so does its judge.
            let id = of.jobs.first().and_then(|job| self.jobs.get(&job.name)).map(|entry| entry.group);
            let same = id.filter(|id| before.get(id).is_some_and(|r| Arc::ptr_eq(&r.of, &of) || r.of == of));
            match same.and_then(|id| Some((id, before.remove(&id)?))) {
                Some((id, running)) => drop(self.groups.insert(id, Running { of, ..running })),
                None => fresh.push(of),
            }
        }
        let mut left: BTreeSet<Arc<str>> = before.values().flat_map(|r| r.of.jobs.iter().map(|j| j.name.clone())).collect();
        self.due.retain(|(_, id)| !before.contains_key(id));
        for of in fresh {
            self.last_group += 1;
            let id = self.last_group;
            let found = of.jobs.first().and_then(|job| known.get(&job.name)).filter(|found| found.is_of(&of));
            let mut judge = found.map_or_else(|| Judge::of(&of.group.members), |found| Judge::resume(found));
            if found.is_none() {
                judge.take_over(&self.earlier(&of, &before));
            }
            let mut arbiter = Arbiter::new(of.group.clone());
            arbiter.set_open(self.now, !judge.holds());
            for (index, job) in (0..).zip(&of.jobs) {
                left.remove(&job.name);
                let entry = self.jobs.entry(job.name.clone()).or_insert_with(|| Entry::new(job));
                if let Some(running) = before.get(&entry.group) {
                    arbiter.take_over(index, &running.arbiter, entry.index);
                }
                if entry.leader_host != job.leader_host {
                    // Another agent speaks for the job from now on, of another process.
                    (entry.leader_host, entry.session, entry.known) = (job.leader_host.clone(), None, None);
                    arbiter.handle(self.now, Event::Left { job: index });
                }
                (entry.group, entry.index) = (id, index);
                entry.measure.restart();
            }
            self.groups.insert(id, Running { of, arbiter, judge, judged: None, due: None, broken: 0 });
            self.settle(id);
        }
        for name in left {
            // A job that takes no turns any more must not wait for one.
            let Some(entry) = self.jobs.remove(&name) else { continue };
            if let Some((number, NoteKind::Ready)) = entry.known {
                self.orders.extend(entry.order(number, OrderKind::Grant, Nanos(0)));
            }
        }
        self.again.retain(|(_, name)| self.jobs.contains_key(name));
    }

    /// The judges of the groups in which jobs of this one were `before`, with the index of each job in both.
    fn earlier<'b>(&self, of: &TurnGroup, before: &'b BTreeMap<u64, Running>) -> Vec<(&'b Judge, Vec<(u32, u32)>)> {
        let mut stay: BTreeMap<u64, Vec<(u32, u32)>> = BTreeMap::new();
        for (index, entry) in (0..).zip(&of.jobs).filter_map(|(index, job)| Some((index, self.jobs.get(&job.name)?))) {
            stay.entry(entry.group).or_default().push((index, entry.index));
        }
        stay.into_iter().filter_map(|(id, stay)| Some((&before.get(&id)?.judge, stay))).collect()
    }

    fn gone(&mut self, session: SessionId) {
        self.sessions.remove(&session);
        let mut lost = Vec::new();
        for entry in self.jobs.values_mut().filter(|e| e.session == Some(session)) {
            (entry.session, entry.began) = (None, None);
            entry.measure.restart();
            lost.push((entry.group, entry.index));
        }
        for (group, job) in lost {
            self.tell(group, Event::Absent { job });
        }
    }

    fn note(&mut self, session: SessionId, note: &Note) {
        let Some(host) = self.sessions.get(&session) else { return };
        let Some(entry) = self.jobs.get_mut(&note.job) else {
            // The job takes no turns here, or not yet.
            return self.orders.push_back((session, note.answer_without_turns()));
        };
        // Only the leader's agent speaks for a job, and only in its last session.
        if entry.leader_host != *host || entry.session.is_some_and(|last| last > session) {
            return;
        }
        entry.session = Some(session);
        if entry.writer != note.writer {
            if entry.writer_before == Some(note.writer) {
                // Another gate of the job, or a late message of a process that is gone.
                return self.orders.push_back((session, note.answer_without_turns()));
            }
            entry.begin(note.writer);
            entry.measure.restart();
            let (group, job) = (entry.group, entry.index);
            self.tell(group, Event::Left { job });
        }
        let place = (note.number, note.kind);
        let Some(entry) = self.jobs.get_mut(&note.job) else { return };
        match entry.known {
            Some(known) if place < known => return,
            Some(known) if place == known => return self.answer_again(note),
            _ => {}
        }
        let known = entry.known.replace(place);
        // A start in between was never heard of, so nobody knows when the iteration under way began.
        if known.is_some_and(|(number, _)| note.number > number.saturating_add(1)) {
            entry.began = None;
        }
        let is_granted = entry.ordered.take() == Some((note.number, OrderKind::Grant));
        if let Some((at, _)) = entry.again.take() {
            self.again.remove(&(at, note.job.clone()));
        }
        // A start that went by itself while its grant was under way has been counted with the grant.
        if note.kind != NoteKind::Started || !is_granted {
            self.take(note, known);
        }
        // What the arbiter said is the answer; where it said nothing, this is.
        let unanswered = self.jobs.get(&note.job).filter(|entry| entry.ordered.is_none());
        self.orders.extend(unanswered.and_then(|entry| entry.order(note.number, OrderKind::Heard(note.kind), Nanos(0))));
    }

    /// Tells the arbiter what a note says beyond what was known.
    fn take(&mut self, note: &Note, known: Option<Place>) {
        let ask = note.phase.checked_sub(1).map_or(Ask::Iteration, Ask::Phase);
        // A note may come late or again; what it tells of happened when it says.
        let at = FabricTime(self.now.0.saturating_sub(note.age.0));
        let Some(entry) = self.jobs.get_mut(&note.job) else { return };
        let (group, job) = (entry.group, entry.index);
        let asked = known == Some((note.number, NoteKind::Ready));
        let started = asked || known == Some((note.number, NoteKind::Started));
        match note.kind {
            NoteKind::Withdrawn => self.tell(group, Event::Withdrawn { job }),
            NoteKind::Ready => {
                entry.counts.asked += 1;
                (entry.asked_at, entry.waits) = (at, None);
                entry.starts.ready(at);
                if note.phase <= 1 {
                    self.iterates(&note.job, at);
                }
                self.begins(&note.job);
                self.tell(group, Event::Ready { job, ask });
            }
            NoteKind::Started => {
                entry.counts.unasked += u64::from(!asked);
                if !asked {
                    entry.starts.ready(at);
                }
                entry.starts.began(at);
                if asked {
                    entry.waited_until(at);
                    // It went by itself, and who was in its way is not known.
                    if let Some(running) = self.groups.get_mut(&group) {
                        running.broken += 1;
                    }
                } else {
                    if note.phase <= 1 {
                        self.iterates(&note.job, at);
                    }
                    self.begins(&note.job);
                }
                self.tell(group, Event::Started { job, ask, age: note.age });
            }
            NoteKind::Ended => {
                entry.counts.unasked += u64::from(!started);
                entry.starts.ended(at, note.sent);
                // When it began, where its agent knows.
                let began = (note.sent.0 > 0).then(|| FabricTime(at.0.saturating_sub(note.sent.0)));
                began.into_iter().for_each(|began| entry.started_at(began));
                if !started {
                    // What told its start was lost, or this overtook it: iterations that are missed make others seem twice as long.
                    match began {
                        Some(began) if note.phase <= 1 => self.iterates(&note.job, began),
                        None if note.phase <= 1 => entry.began = None,
                        _ => {}
                    }
                    self.begins(&note.job);
                }
                let Some(entry) = self.jobs.get_mut(&note.job) else { return };
                entry.measure.sent(note.sent);
                // It started by itself, and the note that said so was lost. A start whose lease is over is no news.
                let waits = self.groups.get(&group).is_some_and(|r| r.arbiter.waits_since(job).is_some());
                if waits {
                    self.tell(group, Event::Started { job, ask, age: Nanos(0) });
                }
                // Of a start that nobody heard of, only that it is over matters.
                let sent = if waits || started { note.sent } else { Nanos(0) };
                self.tell(group, Event::Ended { job, sent });
            }
        }
    }

    /// A start of a job was heard of, which may tell how long it sends.
    fn begins(&mut self, job: &Arc<str>) {
        if let Some(entry) = self.jobs.get_mut(job) {
            entry.measure.starts();
        }
    }

    /// An iteration of a job begins: the judge of its group hears how long the one before took.
    fn iterates(&mut self, job: &Arc<str>, at: FabricTime) {
        let Some(entry) = self.jobs.get_mut(job) else { return };
        let (index, id) = (entry.index, entry.group);
        let Some((took, waited)) = entry.iterates(at) else { return };
        let Some(running) = self.groups.get_mut(&id) else { return };
        let holds = running.judge.holds();
        if !holds {
            entry.measure.restart();
        }
        let is_measured = holds && entry.measure.iteration(took, waited, running.broken);
        if let Some(verdict) = running.judge.iteration(self.now, index, took, waited) {
            running.judged = Some((self.now, verdict));
            self.judged.push_back(Judged { verdict, comparison: running.judge.comparison(&running.of) });
        }
        running.arbiter.set_open(self.now, !running.judge.holds());
        if is_measured {
            self.tell_measured(id);
        }
        self.settle(id);
    }

    /// Tells what was measured of a group's jobs, once for each window in which each of them was measured.
    fn tell_measured(&mut self, group: u64) {
        let Some(running) = self.groups.get(&group) else { return };
        // A job without known ends disturbs the others even under turns, so its group is not measured.
        let found = |(index, job): (u32, &TurnJob)| {
            let found = self.jobs.get(&job.name)?.measure.found()?;
            (!running.arbiter.has_no_ends(index)).then(|| (job.name.clone(), found))
        };
        let Some(found) = (0..).zip(&running.of.jobs).map(found).collect::<Option<Vec<_>>>() else { return };
        for (name, _) in &found {
            if let Some(entry) = self.jobs.get_mut(name) {
                entry.measure.told();
            }
        }
        self.measured.push_back(MeasuredJobs(found));
    }

    /// The answer to a note that was heard before: the last order, or that it was heard.
    fn answer_again(&mut self, note: &Note) {
        let Some(entry) = self.jobs.get(&note.job) else { return };
        let (number, kind) = entry.ordered.unwrap_or((note.number, OrderKind::Heard(note.kind)));
        let running = self.groups.get(&entry.group);
        let at_most = match kind {
            OrderKind::Hold => running.and_then(|r| r.arbiter.waits_until(entry.index)).map(|until| until.since(self.now)),
            OrderKind::GrantAhead => running.map(|r| r.open_for(entry.index)),
            _ => None,
        };
        let at_most = at_most.unwrap_or_default();
        self.orders.extend(entry.order(number, kind, at_most));
    }

    /// Gives an event to the arbiter of a group and sends what it says.
    fn tell(&mut self, group: u64, event: Event) {
        if let Some(running) = self.groups.get_mut(&group) {
            running.arbiter.handle(self.now, event);
        }
        self.settle(group);
    }

    /// Sends what an arbiter says, and notes its deadline.
    fn settle(&mut self, group: u64) {
        // Each action is taken off the arbiter, and sending gives it none.
        while let Some(action) = self.groups.get_mut(&group).and_then(|r| r.arbiter.poll()) {
            self.act(group, action);
        }
        let Some(running) = self.groups.get_mut(&group) else { return };
        let due = running.arbiter.deadline();
        let before = core::mem::replace(&mut running.due, due);
        if before != due {
            before.map(|at| self.due.remove(&(at, group)));
            due.map(|at| self.due.insert((at, group)));
        }
    }

    fn act(&mut self, group: u64, action: Action) {
        let let_go = matches!(action, Action::Grant { because: Because::Bound | Because::NoEnds | Because::Open, .. });
        let (job, kind, at_most) = match action {
            Action::Grant { job, expected, .. } => (job, OrderKind::Grant, expected.unwrap_or_default()),
            Action::GrantAhead { job } => {
                (job, OrderKind::GrantAhead, self.groups.get(&group).map_or(Nanos(0), |running| running.open_for(job)))
            }
            Action::Hold { job, at_most } => (job, OrderKind::Hold, at_most),
            Action::Withdraw { job } => (job, OrderKind::Withdraw, Nanos(0)),
        };
        let now = self.now;
        let name = self.groups.get(&group).and_then(|r| r.of.jobs.get(job as usize)).map(|j| j.name.clone());
        let Some((name, entry)) = name.and_then(|name| Some((name.clone(), self.jobs.get_mut(&name)?))) else { return };
        let Some((known, _)) = entry.known else { return };
        // Grants and holds answer the number that asked; what is given or taken ahead is about the next one.
        let ahead = matches!(kind, OrderKind::GrantAhead | OrderKind::Withdraw);
        let number = known.saturating_add(u64::from(ahead));
        let before = entry.ordered.replace((number, kind)).map(|(_, kind)| kind);
        entry.counts.let_go += u64::from(let_go);
        if let Some(running) = self.groups.get_mut(&group) {
            running.broken += u64::from(matches!(action, Action::Grant { because: Because::Bound | Because::NoEnds, .. }));
        }
        entry.counts.bound += u64::from(matches!(action, Action::Grant { because: Because::Bound, .. }));
        entry.counts.ahead += u64::from(kind == OrderKind::GrantAhead);
        match kind {
            OrderKind::Hold => entry.counts.waited += u64::from(before != Some(OrderKind::Hold)),
            OrderKind::Grant => {
                entry.waited_until(now);
                entry.starts.began(now);
            }
            _ => {}
        }
        let waited = (before == Some(OrderKind::Hold)).then(|| now.since(entry.asked_at));
        let granted = Granted::of(&action, waited);
        self.orders.extend(entry.order(number, kind, at_most).map(|(session, order)| (session, Order { granted, ..order })));
        // Nobody holds this job. It needs not ask before its next starts either: where the service is far, that would cost more than turns.
        let open_for = match action {
            Action::Grant { because: Because::NoEnds | Because::Open, .. } => self.groups.get(&group).map(|running| running.open_for(job)),
            _ => None,
        };
        if let Some(open_for) = open_for.filter(|time| time.0 > 0) {
            self.orders.extend(entry.order(number.saturating_add(1), OrderKind::GrantAhead, open_for));
        }
        if kind == OrderKind::Withdraw {
            entry.again = Some((now.saturating_add(WITHDRAW_EVERY), WITHDRAWALS - 1));
            self.again.insert((now.saturating_add(WITHDRAW_EVERY), name));
        }
    }

    fn tick(&mut self) {
        while let Some(&(at, group)) = self.due.first()
            && at <= self.now
        {
            // The arbiter's next deadline is later than now, or it has none.
            self.tell(group, Event::Tick);
        }
        let next = self.now.saturating_add(WITHDRAW_EVERY);
        while let Some((at, name)) = self.again.first().filter(|(at, _)| *at <= self.now).cloned() {
            self.again.remove(&(at, name.clone()));
            let Some(entry) = self.jobs.get_mut(&name) else { continue };
            let Some((_, left @ 1..)) = entry.again.take() else { continue };
            entry.again = Some((next, left - 1));
            if let Some((number, kind)) = entry.ordered {
                self.orders.extend(entry.order(number, kind, Nanos(0)));
            }
            self.again.insert((next, name));
        }
    }
}

impl Running {
    /// For how long a job may start without asking: zero where it takes turns.
    fn open_for(&self, job: u32) -> Nanos {
        let is_open = self.arbiter.is_open() || self.arbiter.has_no_ends(job);
        Nanos(if is_open { self.arbiter.iteration(job).0.saturating_mul(OPEN_ITERATIONS) } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use alloc::{vec, vec::Vec};

    use job::MeasuredProfile;
    use turns::{Group, Member, Up, Use, WITHDRAW_WITHIN};
    use units::Rate;

    use super::*;

    const MS: u64 = 1_000_000;

    /// Jobs a, b, c of hosts ha, hb, hc: each sends 40 of 100 ms at the rate of the one link, and takes turns with the others.
    fn group(names: &[&str], ahead: bool) -> Arc<TurnGroup> {
        let up = Up { start: Nanos(0), end: Nanos(40 * MS), rate: Rate(50_000) };
        let others = |index: usize| (0..names.len() as u32).filter(|&o| o != index as u32).collect();
        let member = |index| Member { iteration: Nanos(100 * MS), uses: vec![Use { link: 0, ups: vec![up] }], opponents: others(index) };
        let job = |name: &&str| TurnJob { name: (*name).into(), leader_host: alloc::format!("h{name}").into() };
        let members = (0..names.len()).map(member).collect();
        Arc::new(TurnGroup { jobs: names.iter().map(job).collect(), group: Group { members, limits: vec![Rate(50_000)], ahead } })
    }

    struct World {
        turns: Turns,
        now: u64,
    }

    impl World {
        fn new(ahead: bool) -> Self {
            let mut world = Self { turns: Turns::default(), now: 0 };
            world.handle(TurnEvent::Groups(vec![group(&["a", "b", "c"], ahead)]));
            for (session, host) in [(1, "ha"), (2, "hb"), (3, "hc")] {
                world.handle(TurnEvent::Session { session: SessionId(session), host: host.into() });
            }
            world
        }

        fn handle(&mut self, event: TurnEvent) -> Vec<(u64, u64, OrderKind)> {
            self.turns.handle(FabricTime(self.now * MS), event);
            core::iter::from_fn(|| self.turns.poll()).map(|(session, order)| (session.0, order.number, order.kind)).collect()
        }

        fn note(&mut self, session: u64, job: &str, number: u64, kind: NoteKind) -> Vec<(u64, u64, OrderKind)> {
            self.say(session, job, 7, number, kind)
        }

        fn say(&mut self, session: u64, job: &str, writer: u64, number: u64, kind: NoteKind) -> Vec<(u64, u64, OrderKind)> {
            let note = Note { job: job.into(), writer, number, kind, phase: 0, age: Nanos(0), sent: Nanos(40 * MS) };
            self.handle(TurnEvent::Note { session: SessionId(session), note })
        }
    }

    use NoteKind::{Ended, Ready, Started, Withdrawn};
    use OrderKind::{Grant, GrantAhead, Heard, Hold, Withdraw};

    #[test]
    fn one_after_the_other() {
        let mut world = World::new(false);
        assert_eq!(world.note(1, "a", 1, Ready), [(1, 1, Grant)]);
        assert_eq!(world.note(2, "b", 1, Ready), [(2, 1, Hold)]);
        world.now = 40;
        assert_eq!(world.note(1, "a", 1, Ended), [(2, 1, Grant), (1, 1, Heard(Ended))]);
        let b = world.turns.view().find(|view| view.job == "b").unwrap();
        assert_eq!((b.counts.asked, b.counts.waited, b.counts.waiting), (1, 1, Nanos(40 * MS)));
        assert_eq!(b.sends_until, Some(FabricTime((40 + 52) * MS)));
    }

    #[test]
    fn a_note_that_comes_again_is_answered_again_and_an_old_one_is_not() {
        let mut world = World::new(false);
        world.note(1, "a", 1, Ready);
        assert_eq!(world.note(1, "a", 1, Ready), [(1, 1, Grant)]);
        world.note(2, "b", 1, Ready);
        assert_eq!(world.note(2, "b", 1, Ready), [(2, 1, Hold)]);
        assert_eq!(world.note(1, "a", 2, Ready), [(2, 1, Grant), (1, 2, Hold)], "whoever is ready again has ended");
        assert_eq!(world.note(1, "a", 1, Ended), [], "older than what is known");
        let asked = world.turns.view().find(|view| view.job == "a").unwrap().counts.asked;
        assert_eq!(asked, 2);
    }

    #[test]
    fn an_end_whose_start_was_lost_is_a_start_and_an_end() {
        let mut world = World::new(false);
        world.note(1, "a", 1, Ready);
        world.note(2, "b", 1, Ready);
        // b waited in vain and went by itself.
        assert_eq!(world.note(2, "b", 1, Ended), [(2, 1, Heard(Ended))]);
        let b = world.turns.view().find(|view| view.job == "b").unwrap();
        assert_eq!((b.waits_since, b.sends_until), (None, None));
        assert_eq!(world.note(3, "c", 4, Ended), [(3, 4, Heard(Ended))]);
        assert_eq!(world.turns.view().find(|view| view.job == "c").unwrap().counts.unasked, 1);
    }

    /// Found by the simulator: the grant and the word that the start went crossed, the start counted as another iteration, and its job had a
    /// bound of a millisecond from then on.
    #[test]
    fn a_start_that_crosses_its_grant_is_no_second_one() {
        let mut world = World::new(false);
        world.note(1, "a", 1, Ready);
        world.now = 1;
        assert_eq!(world.note(1, "a", 1, Started), [(1, 1, Heard(Started))]);
        world.now = 40;
        world.note(1, "a", 1, Ended);
        world.now = 99;
        world.note(2, "b", 1, Ready);
        world.now = 100;
        let note = Note { job: "a".into(), writer: 7, number: 2, kind: Ready, phase: 0, age: Nanos(0), sent: Nanos(0) };
        world.turns.handle(FabricTime(100 * MS), TurnEvent::Note { session: SessionId(1), note });
        let (_, order) = world.turns.poll().unwrap();
        assert_eq!((order.kind, order.at_most), (Hold, Nanos(51 * MS)), "the rest of the lease of b");
    }

    /// A service that ended every minute would else have its jobs try turns that harm them for as long.
    #[test]
    fn a_group_goes_on_from_what_was_found_before_the_service_started() {
        let group = group(&["a", "b", "c"], false);
        let found = |hold, iteration| {
            let mean = |ms| MeanOf { count: 24, mean: Nanos(ms * MS) };
            let job =
                |job: &TurnJob| ComparedJob { name: job.name.clone(), iteration: Nanos(iteration * MS), held: mean(110), free: mean(100) };
            Arc::new(Comparison { jobs: group.jobs.iter().map(job).collect(), hold, left: 64, apart: 32, let_go: u32::from(!hold) })
        };
        // Held, as after another job was compared, or none.
        for (known, holds) in [(found(false, 100), false), (found(true, 100), true), (found(false, 90), true)] {
            let mut turns = Turns::default();
            turns.handle(FabricTime(0), TurnEvent::Known(vec![known.clone()]));
            turns.handle(FabricTime(0), TurnEvent::Groups(vec![group.clone()]));
            let running = turns.groups.values().next().unwrap();
            assert_eq!((running.judge.holds(), running.arbiter.is_open()), (holds, !holds));
            let now = running.judge.comparison(&group);
            assert_eq!(now == *known, known.jobs[0].iteration == Nanos(100 * MS), "kept again as it was");
            // It is not known for ever: another group of these jobs is compared from its beginning.
            turns.handle(FabricTime(0), TurnEvent::Groups(Vec::new()));
            turns.handle(FabricTime(0), TurnEvent::Groups(vec![group.clone()]));
            assert!(turns.groups.values().all(|running| running.judge.holds()));
        }
    }

    /// Found by random jobs: a job that sends next to nothing, so that its end overtakes its start, seemed to take two iterations for one.
    #[test]
    fn an_iteration_whose_start_was_not_heard_of_is_one() {
        let mut world = World::new(false);
        for number in 1..=100 {
            world.now = 100 * number;
            world.note(1, "a", number, Ready);
            world.note(1, "a", number, Ended);
            world.now += 40;
            world.note(2, "b", number, Ended);
            world.note(2, "b", number, Started);
        }
        let mean = |world: &World, job: usize| world.turns.groups.values().next().unwrap().judge.recent(job as u32).0.mean;
        assert_eq!([mean(&world, 0), mean(&world, 1)], [Nanos(100 * MS); 2]);
        // Of starts in between nobody heard.
        for number in 101..=200 {
            world.now = 100 * number;
            if number % 3 == 0 {
                world.note(1, "a", number, Ready);
            }
        }
        assert_eq!(mean(&world, 0), Nanos(100 * MS));
    }

    /// Found by random jobs: iterations of 6 ms asked a service 0.15 ms away, of which no wait was known, and were never compared with free ones.
    #[test]
    fn what_a_grant_takes_on_its_way_is_a_wait() {
        let mut world = World::new(false);
        world.note(1, "a", 1, Ready);
        // It had asked at 0 and began at 6, by its end of 46 after 40 of sending.
        world.now = 46;
        world.note(1, "a", 1, Ended);
        assert_eq!(world.turns.jobs["a"].waited, Nanos(6 * MS));
        // Granted after 14, and on its way for 2: the end comes 2 later than it was.
        world.now = 100;
        world.note(2, "b", 1, Ready);
        world.note(1, "a", 2, Ready);
        world.now = 114;
        world.note(2, "b", 1, Ended);
        assert_eq!(world.turns.jobs["a"].waited, Nanos(14 * MS));
        world.now = 156;
        world.note(1, "a", 2, Ended);
        assert_eq!(world.turns.jobs["a"].waited, Nanos(16 * MS));
    }

    #[test]
    fn whoever_nobody_holds_is_told_that_later_starts_need_not_ask() {
        let orders = |world: &mut World, number, kind| {
            let note = Note { job: "a".into(), writer: 7, number, kind, phase: 0, age: Nanos(0), sent: Nanos(0) };
            world.turns.handle(FabricTime(world.now * MS), TurnEvent::Note { session: SessionId(1), note });
            let all = core::iter::from_fn(|| world.turns.poll()).filter(|(session, _)| *session == SessionId(1));
            all.map(|(_, order)| (order.number, order.kind, order.at_most.0 / MS)).collect::<Vec<_>>()
        };
        let open_for = 100 * OPEN_ITERATIONS;
        // Nobody tells its ends.
        let mut world = World::new(false);
        for number in 1..=3 {
            world.now = 100 * number;
            assert_eq!(orders(&mut world, number, Ready).len(), 1);
        }
        world.now = 400;
        assert_eq!(orders(&mut world, 4, Ready), [(4, Grant, 0), (5, GrantAhead, open_for)]);
        // Its group runs free.
        let mut world = World::new(true);
        let running = world.turns.groups.values_mut().next().unwrap();
        running.arbiter.set_open(FabricTime(0), true);
        assert_eq!(orders(&mut world, 1, Ready), [(1, Grant, 0), (2, GrantAhead, open_for)]);
        assert_eq!(orders(&mut world, 1, Ended), [(2, GrantAhead, open_for)]);
        assert_eq!(orders(&mut world, 1, Ended), [(2, GrantAhead, open_for)], "said again");
        // And is held again.
        world.turns.groups.values_mut().next().unwrap().arbiter.set_open(FabricTime(0), false);
        world.note(2, "b", 1, Ready);
        assert_eq!(orders(&mut world, 2, Started), [(2, Heard(Started), 0)]);
        assert_eq!(orders(&mut world, 2, Ended)[0].1, Heard(Ended));
    }

    #[test]
    fn whoever_takes_no_turns_is_never_kept_waiting() {
        let mut world = World::new(false);
        assert_eq!(world.note(1, "x", 1, Ready), [(1, 1, Grant)]);
        assert_eq!(world.note(1, "x", 1, Ended), [(1, 1, Heard(Ended))]);
        world.note(1, "a", 1, Ready);
        world.note(2, "b", 1, Ready);
        assert_eq!(world.handle(TurnEvent::Groups(vec![group(&["a", "c"], false)])), [(2, 1, Grant)]);
        assert_eq!(world.note(3, "c", 1, Ready), [(3, 1, Hold)], "a goes on sending in the new group");
    }

    #[test]
    fn only_the_leaders_agent_speaks_for_a_job() {
        let mut world = World::new(false);
        assert_eq!(world.note(2, "a", 1, Ready), []);
        assert_eq!(world.note(9, "a", 1, Ready), []);
        world.handle(TurnEvent::Session { session: SessionId(9), host: "ha".into() });
        assert_eq!(world.note(9, "a", 1, Ready), [(9, 1, Grant)]);
        assert_eq!(world.note(1, "a", 2, Ready), [], "an earlier session of the host");
    }

    #[test]
    fn another_run_of_a_gate_takes_the_place_of_the_one_before() {
        let mut world = World::new(false);
        world.note(1, "a", 5, Ready);
        world.note(2, "b", 1, Ready);
        // The process of a died while it sent.
        assert_eq!(world.say(1, "a", 8, 1, Ready), [(2, 1, Grant), (1, 1, Hold)]);
        assert_eq!(world.say(1, "a", 7, 5, Ended), [(1, 5, Heard(Ended))], "a late message of the dead process");
        let a = world.turns.view().find(|view| view.job == "a").unwrap();
        assert!(a.waits_since.is_some(), "it changed nothing");
    }

    #[test]
    fn a_permission_ahead_is_asked_back_until_it_is_answered() {
        let mut world = World::new(true);
        world.note(1, "a", 1, Ready);
        world.now = 40;
        assert_eq!(world.note(1, "a", 1, Ended), [(1, 2, GrantAhead)]);
        assert_eq!(world.note(2, "b", 1, Ready), [(1, 2, Withdraw), (2, 1, Hold)]);
        let mut said = 0;
        while let Some(at) = world.turns.deadline().filter(|at| at.0 < 40 * MS + WITHDRAW_WITHIN.0) {
            world.now = at.0 / MS;
            said += world.handle(TurnEvent::Tick).iter().filter(|order| order.2 == Withdraw).count();
        }
        assert_eq!(said, 2);
        assert_eq!(world.note(1, "a", 2, Withdrawn), [(2, 1, Grant), (1, 2, Heard(Withdrawn))]);
        // And if it started meanwhile, the start counts.
        let mut world = World::new(true);
        world.note(1, "a", 1, Ready);
        world.note(1, "a", 1, Ended);
        world.note(2, "b", 1, Ready);
        assert_eq!(world.note(1, "a", 2, Started), [(2, 1, Hold), (1, 2, Heard(Started))], "b hears that it takes longer");
        assert!(world.turns.view().find(|view| view.job == "b").unwrap().waits_since.is_some());
    }

    #[test]
    fn an_agent_that_is_gone_blocks_nobody_for_longer_than_a_lease() {
        let mut world = World::new(false);
        world.note(1, "a", 1, Ready);
        world.note(2, "b", 1, Ready);
        assert_eq!(world.handle(TurnEvent::Gone { session: SessionId(1) }), []);
        let due = world.turns.deadline().unwrap();
        assert_eq!(due, FabricTime(52 * MS), "the lease of a");
        world.now = 52;
        assert_eq!(world.handle(TurnEvent::Tick), [(2, 1, Grant)]);
    }

    /// Iterations of 100 ms one after the other, of which each job sends 30; what they tell, and how many orders there were.
    fn iterate(world: &mut World, numbers: core::ops::Range<u64>, ends: impl Fn(u64, &str) -> bool) -> Vec<MeasuredJobs> {
        let mut told = Vec::new();
        for number in numbers {
            for (job, at) in [("a", 0), ("b", 33), ("c", 66)] {
                let session = u64::from(job.as_bytes()[0] - b'a') + 1;
                world.now = number * 100 + at;
                world.note(session, job, number, Ready);
                if ends(number, job) {
                    world.now += 30;
                    let note = Note { job: job.into(), writer: 7, number, kind: Ended, phase: 0, age: Nanos(0), sent: Nanos(30 * MS) };
                    world.handle(TurnEvent::Note { session: SessionId(session), note });
                }
                told.extend(core::iter::from_fn(|| world.turns.poll_measured()));
            }
        }
        told
    }

    #[test]
    fn a_group_is_measured_as_a_whole_once_in_a_window() {
        let mut world = World::new(false);
        let told = iterate(&mut world, 1..200, |_, _| true);
        let expected = MeasuredProfile { iteration: Nanos(100 * MS), sent: Some(Nanos(30 * MS)) };
        let all = ["a", "b", "c"].map(|job| (job.into(), expected)).to_vec();
        // 198 iterations less those of settling are eight windows, and the first is not trusted alone.
        assert_eq!(told, vec![MeasuredJobs(all); 7]);
    }

    /// Nobody tells the ends of c, so others wait for its lease or go beside it: what they take then is not what they take alone.
    #[test]
    fn what_is_taken_beside_a_job_that_tells_no_ends_is_not_measured() {
        let mut world = World::new(false);
        assert_eq!(iterate(&mut world, 1..1_000, |_, job| job != "c"), []);
    }
}
