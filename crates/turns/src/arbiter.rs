//! The arbiter of one group.

mod activity;

use alloc::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
    vec::Vec,
};

use units::{FabricTime, Nanos, Rate};

use crate::{
    Action, Ask, Because, Event, Group, Timers,
    demand::{Demand, Left, Profile},
    learned::{Learned, lease},
    links::{Links, Present},
    opponents::Opponents,
    room::Room,
};

pub use activity::Activity;

/// How long a permission that was given ahead may stay unanswered when it is withdrawn. After this the job counts as one that has not
/// started: its agent is gone, or its messages are lost.
pub const WITHDRAW_WITHIN: Nanos = Nanos::from_millis(10);

/// Longest wait of a job of which nothing was measured, whatever it declares: one that dies in its first start, with a period in a wrong
/// unit, would else keep others waiting for a minute.
pub const FIRST_WAIT_MAX: Nanos = Nanos::from_millis(2_000);

/// What a job is doing, as far as is known.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Doing {
    /// It computes, or nobody knows.
    Away,
    /// It computes and has the permission for its next start; the time from which the permission is asked back.
    Ahead { withdrawn: Option<FabricTime> },
    /// It is ready. It goes at `until` at the latest, and was told that those ahead end at `told`.
    Waiting { since: FabricTime, until: FabricTime, ask: Ask, overtaken_by: Vec<u32>, told: Option<FabricTime> },
    /// It sends, for others at most until its lease ends.
    Sending { start: FabricTime, lease: FabricTime, demand: Arc<Demand> },
}

#[derive(Clone, Debug)]
struct Job {
    profile: Profile,
    /// As declared.
    iteration: Nanos,
    opponents: Opponents,
    learned: Learned,
    doing: Doing,
    /// What its last start was for.
    asked: Ask,
    /// When it was let go last.
    begun: FabricTime,
    /// When it ended last, if no permission was given ahead since.
    ended: Option<FabricTime>,
}

impl Job {
    /// What a start demands, stretched to what was measured.
    fn demand(&mut self, ask: Ask) -> Arc<Demand> {
        self.profile.demand(ask, self.learned.sent(ask))
    }
}

/// Gives turns to the jobs of one group. It reads no clock: time comes with the events, and never goes back.
#[derive(Clone, Debug)]
pub struct Arbiter {
    jobs: Vec<Job>,
    limits: Vec<Rate>,
    links: Links,
    ahead: bool,
    /// Whether those that wait are told how long.
    tells: bool,
    open: bool,
    /// Those that wait, in the order in which they came.
    queue: BTreeSet<(FabricTime, u32)>,
    /// When each job is looked at again.
    timers: Timers,
    actions: VecDeque<Action>,
    /// Reused, so that asking allocates nothing.
    room: Room,
    now: FabricTime,
}

impl Arbiter {
    /// Nobody sends and nobody waits. Opponents and links that do not exist are left out.
    #[must_use]
    pub fn new(group: Group) -> Self {
        let (n, links) = (group.members.len() as u32, group.limits.len() as u32);
        let job = |(index, member): (u32, crate::Member)| {
            let opponents = Opponents::new(member.opponents.into_iter().filter(|&o| o < n && o != index).collect());
            let uses = member.uses.into_iter().filter(|u| u.link < links).collect();
            let profile = Profile::new(uses);
            let learned = Learned::default();
            let (asked, begun, doing) = (Ask::Iteration, FabricTime(0), Doing::Away);
            Job { profile, iteration: member.iteration, opponents, learned, doing, asked, begun, ended: None }
        };
        Self {
            jobs: (0..).zip(group.members).map(job).collect(),
            links: Links::new(group.limits.len()),
            limits: group.limits,
            ahead: group.ahead,
            tells: true,
            open: false,
            queue: BTreeSet::new(),
            timers: Timers::stopped(n as usize),
            actions: VecDeque::new(),
            room: Room::default(),
            now: FabricTime(0),
        }
    }

    /// As [`Arbiter::new`], for models in which nobody has to be told how long it will wait: the grants are the same, and no
    /// [`Action::Hold`] is given.
    #[must_use]
    pub fn without_holds(group: Group) -> Self {
        Self { tells: false, ..Self::new(group) }
    }

    /// How much was looked at so far to tell who may go: it grows with the square of the jobs that send at the same time. Models end by it.
    #[must_use]
    pub fn work(&self) -> u64 {
        self.room.work()
    }

    /// Takes in what happened at `now`. Then call [`Arbiter::poll`] until it has nothing more.
    pub fn handle(&mut self, now: FabricTime, event: Event) {
        // A caller whose clock goes back must not make a lease longer than it is.
        self.now = self.now.max(now);
        let known = |job: u32, jobs: &[Job]| (job as usize) < jobs.len();
        match event {
            Event::Ready { job, ask } if known(job, &self.jobs) => self.ready(job, ask),
            Event::Started { job, ask, age } if known(job, &self.jobs) => self.started(job, ask, age),
            Event::Ended { job, sent } if known(job, &self.jobs) => self.ended(job, sent),
            Event::Withdrawn { job } if known(job, &self.jobs) => {
                if matches!(self.jobs[job as usize].doing, Doing::Ahead { .. }) {
                    self.away(job);
                }
            }
            // What an absent job sends ends with its lease.
            Event::Absent { job } if known(job, &self.jobs) && self.sends_until(job).is_none() => self.leave(job),
            Event::Left { job } if known(job, &self.jobs) => self.leave(job),
            Event::Tick => self.tick(),
            _ => {}
        }
    }

    /// Lets the group run free from now on, or holds it again. While it is open, whoever asks goes at once; that is for measuring what
    /// turns bring.
    pub fn set_open(&mut self, now: FabricTime, open: bool) {
        self.now = self.now.max(now);
        if core::mem::replace(&mut self.open, open) == open {
            return;
        }
        if open {
            let waiting: Vec<u32> = self.queue.iter().map(|(_, job)| *job).collect();
            waiting.into_iter().for_each(|job| self.consider(job));
        } else {
            // While the group was open, permissions ahead were given to anybody.
            (0..self.jobs.len() as u32).for_each(|job| self.withdraw(job));
        }
    }

    /// Whether the group runs free.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// What to tell next.
    pub fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When to call [`Arbiter::handle`] with [`Event::Tick`], if nothing happens before.
    #[must_use]
    pub fn deadline(&self) -> Option<FabricTime> {
        Some(FabricTime(self.timers.first())).filter(|at| at.0 < u64::MAX)
    }

    /// Whether the job sends now, as far as is known, and when its lease ends.
    #[must_use]
    pub fn sends_until(&self, job: u32) -> Option<FabricTime> {
        match self.jobs.get(job as usize)?.doing {
            Doing::Sending { lease, .. } => Some(lease),
            _ => None,
        }
    }

    /// Since when the job waits.
    #[must_use]
    pub fn waits_since(&self, job: u32) -> Option<FabricTime> {
        match self.jobs.get(job as usize)?.doing {
            Doing::Waiting { since, .. } => Some(since),
            _ => None,
        }
    }

    /// Until when those ahead of a waiting job have something left at most, as it was told last.
    #[must_use]
    pub fn waits_until(&self, job: u32) -> Option<FabricTime> {
        match self.jobs.get(job as usize)?.doing {
            Doing::Waiting { told, until, .. } => Some(told.unwrap_or(until)),
            _ => None,
        }
    }

    /// The opponents of a job that send, and so are in the way of its next start or may be.
    pub fn ahead_of(&self, job: u32) -> impl Iterator<Item = u32> {
        let state = self.jobs.get(job as usize);
        let near = state.map_or_else(Vec::new, |state| self.opponents_present(state));
        near.into_iter().filter(|o| matches!(self.jobs[*o as usize].doing, Doing::Sending { .. }))
    }

    /// The opponents of a job that send or have a permission ahead on one of its links, ascending.
    fn opponents_present(&self, of: &Job) -> Vec<u32> {
        let mut near: Vec<u32> = of.profile.links().flat_map(|link| self.links.on(link)).collect();
        near.retain(|o| of.opponents.has(*o));
        near.sort_unstable();
        near.dedup();
        near
    }

    /// Whether nobody tells the ends of the job's starts, so that it takes no turns.
    #[must_use]
    pub fn has_no_ends(&self, job: u32) -> bool {
        self.jobs.get(job as usize).is_some_and(|j| j.learned.is_mute())
    }

    /// Longest wait of the job: one iteration, as measured, or as declared while nothing is, and then at most [`FIRST_WAIT_MAX`].
    #[must_use]
    pub fn bound(&self, job: u32) -> Nanos {
        self.jobs.get(job as usize).map_or(Nanos(0), |j| j.learned.iteration.unwrap_or(j.iteration.min(FIRST_WAIT_MAX)))
    }

    /// One iteration of the job, as measured, or as declared while nothing is.
    #[must_use]
    pub fn iteration(&self, job: u32) -> Nanos {
        self.jobs.get(job as usize).map_or(Nanos(0), |j| j.learned.iteration.unwrap_or(j.iteration))
    }

    /// Takes over what an arbiter of an earlier plan knows of a job: who sends goes on sending, who waits goes on waiting. To be called
    /// for each job that stays, before any event; `there` is its index in `from`. A permission that was given ahead is withdrawn.
    pub fn take_over(&mut self, job: u32, from: &Self, there: u32) {
        let Some(old) = from.jobs.get(there as usize) else { return };
        let Some(new) = self.jobs.get_mut(job as usize) else { return };
        self.now = self.now.max(from.now);
        (new.learned, new.asked, new.begun) = (old.learned.clone(), old.asked, old.begun);
        match &old.doing {
            Doing::Away => {}
            Doing::Ahead { .. } => {
                self.set_doing(job, Doing::Ahead { withdrawn: None });
                self.withdraw(job);
            }
            Doing::Waiting { since, until, ask, .. } => {
                self.wait(job, *since, *until, *ask);
                // The first tick of the new group decides.
                self.set_timer(job, Some(from.now));
            }
            Doing::Sending { start, lease, .. } => {
                let demand = new.demand(new.asked);
                self.set_doing(job, Doing::Sending { start: *start, lease: *lease, demand });
                self.set_timer(job, Some(*lease));
            }
        }
    }

    fn ready(&mut self, job: u32, ask: Ask) {
        let (now, at) = (self.now, job as usize);
        match self.jobs[at].doing {
            // Said twice.
            Doing::Waiting { .. } => return,
            // Who has the permission already needs no other.
            Doing::Ahead { withdrawn: None } => {
                self.jobs[at].learned.ready(now, Profile::is_first(ask));
                return self.grant(job, ask, Because::Free);
            }
            // Whoever is ready again has ended, though nobody said so. Whoever asks gives a permission back that was asked back.
            Doing::Sending { .. } | Doing::Ahead { .. } => self.away(job),
            Doing::Away => {}
        }
        self.jobs[at].learned.ready(now, Profile::is_first(ask));
        if self.jobs[at].learned.is_mute() {
            return self.grant(job, ask, Because::NoEnds);
        }
        if self.open {
            return self.grant(job, ask, Because::Open);
        }
        let until = now.saturating_add(self.bound(job));
        self.wait(job, now, until, ask);
        self.withdraw_from_opponents(job);
        self.consider(job);
    }

    fn wait(&mut self, job: u32, since: FabricTime, until: FabricTime, ask: Ask) {
        self.set_doing(job, Doing::Waiting { since, until, ask, overtaken_by: Vec::new(), told: None });
        self.queue.insert((since, job));
    }

    fn started(&mut self, job: u32, ask: Ask, age: Nanos) {
        match self.jobs[job as usize].doing {
            Doing::Waiting { since, .. } => {
                self.leave_queue(job, since);
            }
            // A start that asked has been counted as an iteration already; this one has not asked.
            _ => {
                let at = FabricTime(self.now.0.saturating_sub(age.0));
                self.jobs[job as usize].learned.ready(at, Profile::is_first(ask));
            }
        }
        self.send(job, ask);
        // Who waited because this job was permitted to start at any time may fit beside it now that it did.
        self.consider_opponents(job);
        // The permission of an opponent that was given ahead would now be in conflict.
        self.withdraw_from_opponents(job);
    }

    fn ended(&mut self, job: u32, sent: Nanos) {
        let now = self.now;
        let state = &mut self.jobs[job as usize];
        // An end that comes after its lease is late, and still says how long the job sends: no longer than since it was let go.
        state.learned.ended(state.asked, sent.min(now.since(state.begun)));
        // A job that waits again has told of an earlier end late. The end of a start that was permitted ahead uses the permission up.
        if !matches!(state.doing, Doing::Waiting { .. }) {
            state.ended = Some(now);
            self.away(job);
        }
    }

    /// Nothing is heard of the job: it is given no permission ahead either.
    fn leave(&mut self, job: u32) {
        self.jobs[job as usize].ended = None;
        self.away(job);
    }

    /// The job is in nobody's way any more.
    fn away(&mut self, job: u32) {
        if let Doing::Waiting { since, .. } = self.jobs[job as usize].doing {
            self.leave_queue(job, since);
        }
        self.set_doing(job, Doing::Away);
        self.set_timer(job, None);
        self.consider_opponents(job);
        self.offer_around(job);
    }

    /// Looks at those that may go now that `job` is out of the way, in the order in which they came.
    fn consider_opponents(&mut self, job: u32) {
        let opponents = &self.jobs[job as usize].opponents;
        let waiting: Vec<u32> = self.queue.iter().map(|(_, j)| *j).filter(|j| opponents.has(*j)).collect();
        for next in waiting {
            self.consider(next);
        }
    }

    /// Lets a job that waits go, or says how long it has to wait at most.
    fn consider(&mut self, job: u32) {
        let Doing::Waiting { since, until, ask, .. } = self.jobs[job as usize].doing else { return };
        if self.open {
            return self.release(job, since, ask, Because::Open);
        }
        if self.now >= until {
            return self.release(job, since, ask, Because::Bound);
        }
        let demand = self.jobs[job as usize].demand(ask);
        // Where somebody may start at any time, no time can be told.
        let fits_at = if self.look_at_links(job, &demand) { self.room.first_fit(&demand, self.now, until, &self.limits) } else { until };
        if fits_at == self.now && self.may_overtake(job, since) {
            self.overtake(job, since);
            return self.release(job, since, ask, Because::Free);
        }
        // Whoever fits and may not go hears when the one that it overtook leaves the queue.
        let again = if fits_at > self.now { fits_at } else { until };
        self.set_timer(job, Some(again));
        self.tell(job, since, until);
    }

    /// Says how long a job has to wait at most: at first, when it became longer, and when it became much shorter. Smaller news are
    /// not worth a message, because the grant comes by itself.
    fn tell(&mut self, job: u32, since: FabricTime, until: FabricTime) {
        if !self.tells {
            return;
        }
        let now = self.now;
        let at_most = Nanos(self.ahead_left(job, since, until.since(now).0));
        let Doing::Waiting { told, .. } = &mut self.jobs[job as usize].doing else { return };
        let end = now.saturating_add(at_most);
        if told.is_none_or(|before| end > before || at_most.0 < before.since(now).0 / 2) {
            *told = Some(end);
            self.actions.push_back(Action::Hold { job, at_most });
        }
    }

    fn release(&mut self, job: u32, since: FabricTime, ask: Ask, because: Because) {
        self.leave_queue(job, since);
        self.grant(job, ask, because);
    }

    fn leave_queue(&mut self, job: u32, since: FabricTime) {
        self.queue.remove(&(since, job));
        // Whoever was not to overtake this job once more is looked at again: no end may come that does so before its bound.
        if let Doing::Waiting { overtaken_by, .. } = &mut self.jobs[job as usize].doing {
            for other in core::mem::take(overtaken_by) {
                if self.waits_since(other).is_some() {
                    self.set_timer(other, Some(self.now));
                }
            }
        }
        let waited = self.now.since(since);
        self.jobs[job as usize].learned.waited(waited);
    }

    fn grant(&mut self, job: u32, ask: Ask, because: Because) {
        let lease = self.send(job, ask);
        // With this start, too many have gone without an end.
        let learned = &self.jobs[job as usize].learned;
        let because = if learned.is_mute() { Because::NoEnds } else { because };
        // A declared length is no end: where it is wrong, turns would cost what they cannot bring.
        let expected = learned.sent(ask);
        self.actions.push_back(Action::Grant { job, lease, expected, because });
        self.tell_waiting(job);
    }

    /// `job` begins to send: those of its opponents that wait hear if that is longer than they were told.
    fn tell_waiting(&mut self, job: u32) {
        if !self.tells {
            return;
        }
        let opponents = &self.jobs[job as usize].opponents;
        let waiting: Vec<(FabricTime, u32)> = self.queue.iter().filter(|(_, j)| opponents.has(*j)).copied().collect();
        for (since, next) in waiting {
            if let Doing::Waiting { until, .. } = self.jobs[next as usize].doing {
                self.tell(next, since, until);
            }
        }
    }

    /// The job sends from now on; returns its lease.
    fn send(&mut self, job: u32, ask: Ask) -> Nanos {
        let (now, state) = (self.now, &mut self.jobs[job as usize]);
        state.learned.started();
        (state.ended, state.asked, state.begun) = (None, ask, now);
        let demand = state.demand(ask);
        let lease = lease(demand.expected());
        if state.learned.is_mute() {
            // Nobody would tell its end, so it is in nobody's way.
            self.set_doing(job, Doing::Away);
            self.set_timer(job, None);
        } else {
            let until = now.saturating_add(lease);
            self.set_doing(job, Doing::Sending { start: now, lease: until, demand });
            self.set_timer(job, Some(until));
        }
        lease
    }

    /// Gathers what the opponents of `job` still send on the links of a start; false where one of them has a permission ahead, which
    /// was asked back when this job came.
    fn look_at_links(&mut self, job: u32, demand: &Demand) -> bool {
        let Self { jobs, links, room, now, .. } = self;
        let opponents = &jobs[job as usize].opponents;
        let left = |here: Present, out: &mut Vec<Left>| match &jobs[here.job as usize].doing {
            Doing::Sending { start, lease, demand } => {
                demand.left(here.nth, *start, *lease, *now, out);
                true
            }
            // It may start at any time.
            Doing::Ahead { .. } => false,
            Doing::Away | Doing::Waiting { .. } => true,
        };
        room.clear();
        demand.links.iter().all(|(link, _)| links.look(*link, *now, |other| opponents.has(other), left, room))
    }

    /// Whether no opponent that came before and still waits was overtaken by this job already.
    fn may_overtake(&self, job: u32, since: FabricTime) -> bool {
        !self.earlier_opponents(job, since).any(|earlier| match &self.jobs[earlier as usize].doing {
            Doing::Waiting { overtaken_by, .. } => overtaken_by.contains(&job),
            _ => false,
        })
    }

    fn overtake(&mut self, job: u32, since: FabricTime) {
        let earlier: Vec<u32> = self.earlier_opponents(job, since).collect();
        for opponent in earlier {
            if let Doing::Waiting { overtaken_by, .. } = &mut self.jobs[opponent as usize].doing {
                overtaken_by.push(job);
            }
        }
    }

    fn earlier_opponents(&self, job: u32, since: FabricTime) -> impl Iterator<Item = u32> {
        let opponents = &self.jobs[job as usize].opponents;
        self.queue.range(..(since, job)).map(|(_, j)| *j).filter(|j| opponents.has(*j))
    }

    /// What those ahead of a waiting job have left together, at most `most`: the leases of those that send, and of those that came
    /// before.
    fn ahead_left(&mut self, job: u32, since: FabricTime, most: u64) -> u64 {
        let sending = self.ahead_of(job).filter_map(|o| self.sends_until(o)).map(|lease| lease.since(self.now).0);
        let mut sum = sending.fold(0, u64::saturating_add);
        let earlier: Vec<u32> = self.earlier_opponents(job, since).collect();
        for earlier in earlier {
            // A long queue needs not be walked to its end.
            if sum >= most {
                break;
            }
            let state = &mut self.jobs[earlier as usize];
            let Doing::Waiting { ask, .. } = state.doing else { continue };
            sum = sum.saturating_add(lease(state.demand(ask).expected()).0);
        }
        // With nobody ahead, it is a permission that was asked back and is not answered yet.
        if sum == 0 { WITHDRAW_WITHIN.0.min(most) } else { sum.min(most) }
    }

    /// Asks permissions back that opponents of `job` were given ahead.
    fn withdraw_from_opponents(&mut self, job: u32) {
        if self.open {
            return;
        }
        let near = self.opponents_present(&self.jobs[job as usize]);
        near.into_iter().for_each(|opponent| self.withdraw(opponent));
    }

    /// Asks a permission back that a job was given ahead.
    fn withdraw(&mut self, job: u32) {
        if let Doing::Ahead { withdrawn: withdrawn @ None } = &mut self.jobs[job as usize].doing {
            *withdrawn = Some(self.now);
            self.actions.push_back(Action::Withdraw { job });
            self.set_timer(job, Some(self.now.saturating_add(WITHDRAW_WITHIN)));
        }
    }

    /// Gives permissions ahead to `job` and its opponents where nobody is in the way: first to whoever will be ready first.
    fn offer_around(&mut self, job: u32) {
        if !self.ahead {
            return;
        }
        let around = core::iter::once(job).chain(self.jobs[job as usize].opponents.iter());
        let mut near: Vec<(FabricTime, u32)> = around
            .filter_map(|j| {
                let state = &self.jobs[j as usize];
                let ended = state.ended.filter(|_| state.doing == Doing::Away && !state.learned.is_mute())?;
                Some((state.learned.next_ready(ended), j))
            })
            .collect();
        near.sort_unstable();
        for (_, next) in near {
            // Somebody who sends, waits or has a permission is in the way, whatever the demands: the start may be at any time.
            let opponents = &self.jobs[next as usize].opponents;
            if self.open || opponents.iter().all(|o| self.jobs[o as usize].doing == Doing::Away) {
                self.jobs[next as usize].ended = None;
                self.set_doing(next, Doing::Ahead { withdrawn: None });
                self.actions.push_back(Action::GrantAhead { job: next });
            }
        }
    }

    fn tick(&mut self) {
        // Ends: a timer is set for now only for a job in a list `overtaken_by`, and each list is emptied once. All others are set for later.
        while let Some(due) = self.timers.take_due(self.now.0) {
            let job = due as u32;
            match self.jobs[due].doing {
                Doing::Waiting { .. } => self.consider(job),
                // The lease is over, or the permission was never given back.
                Doing::Sending { .. } | Doing::Ahead { withdrawn: Some(_) } => self.away(job),
                Doing::Ahead { withdrawn: None } | Doing::Away => {}
            }
        }
    }

    /// Changes what a job does, and keeps who is on its links.
    fn set_doing(&mut self, job: u32, doing: Doing) {
        let is_present = |d: &Doing| matches!(d, Doing::Sending { .. } | Doing::Ahead { .. });
        let state = &mut self.jobs[job as usize];
        let before = core::mem::replace(&mut state.doing, doing);
        let (was, is) = (is_present(&before), is_present(&state.doing));
        if was || is {
            let nth_links = (0..).zip(state.profile.links());
            nth_links.for_each(|(nth, link)| self.links.change(link, Present { job, nth }, is));
        }
    }

    fn set_timer(&mut self, job: u32, due: Option<FabricTime>) {
        self.timers.set(job as usize, due.map_or(u64::MAX, |at| at.0));
    }
}
