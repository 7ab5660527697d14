//! Rounds: who stops, who starts, and where.

use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    format,
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};

use policy::schedule::{CANDIDATES, Rule};
use units::FabricTime;

use super::{
    Scheduling, SchedulingAction, Shares,
    decider::Target,
    draft::Draft,
    places::{self, Occupied},
    requests::{self, LEARNED, LEARNS},
    settings::{MOVED_MAX, STOPS_MAX},
};
use crate::{
    NoticeKind, Refusal, Ticket,
    change::listed,
    submission::{HostGpus, Submission, SubmissionState},
};

/// A job that is to start, and where.
#[derive(Clone, Debug)]
pub(super) struct Start {
    name: Arc<str>,
    shares: Shares,
    why: String,
    /// Why it runs without a place in the plan, where that was found out.
    free: Option<String>,
}

impl Start {
    pub(super) fn is_free(&self) -> bool {
        self.free.is_some()
    }
}

/// Places that the caller compares.
#[derive(Debug)]
struct Ranking {
    ticket: Ticket,
    jobs: Target,
    candidates: Vec<Vec<Shares>>,
}

/// Where the present round stands, and when the next one is.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    wanted: bool,
    looking: bool,
    ranking: Option<Ranking>,
    starts: VecDeque<Start>,
    /// When the policy decides otherwise by itself.
    change_at: Option<FabricTime>,
    /// When jobs may be stopped that the policy would have stopped before.
    stops_at: Option<FabricTime>,
    last_stops: Option<FabricTime>,
    /// Rounds in a row whose starts found another plan.
    moved: u32,
    waits: BTreeMap<Arc<str>, String>,
    /// What was said last of decisions that cannot be carried out.
    infeasible: Option<String>,
    /// Counts rounds: which of equal places are drawn differs from round to round, and is the same in every run.
    count: u64,
}

impl Rounds {
    pub(super) fn want(&mut self) {
        self.wanted = true;
    }

    /// Whether a round can begin at once.
    pub(super) fn waits(&self) -> bool {
        self.wanted && !self.looking && self.ranking.is_none()
    }

    /// Whether the caller looks at the cluster.
    pub(super) fn looks(&self) -> bool {
        self.looking
    }

    pub(super) fn waits_for(&self, name: &str) -> Option<&str> {
        self.waits.get(name).map(String::as_str)
    }

    /// A job has another state: what was said of its place in the queue is old.
    pub(super) fn changed(&mut self, name: &str) {
        self.waits.remove(name);
    }

    /// Begins the next round if it is time for it.
    pub(super) fn look(&mut self, now: FabricTime) -> bool {
        let due = self.due().is_some_and(|due| due <= now);
        if self.looking || self.ranking.is_some() || !(self.wanted || due) {
            return false;
        }
        (self.looking, self.wanted) = (true, false);
        true
    }

    /// When the next round is, if nothing happens before.
    pub(super) fn due(&self) -> Option<FabricTime> {
        if self.looking || self.ranking.is_some() {
            return None;
        }
        [self.change_at, self.stops_at].into_iter().flatten().min()
    }

    pub(super) fn next_start(&mut self) -> Option<Start> {
        self.starts.pop_front()
    }

    /// A change was written, in which jobs had to stop at a time.
    pub(super) fn kept(&mut self, stops: Option<FabricTime>) {
        self.moved = 0;
        self.last_stops = stops.or(self.last_stops);
    }

    /// Somebody else changed the plan: what was chosen is chosen anew.
    pub(super) fn moved(&mut self) {
        self.moved = self.moved.saturating_add(1);
        self.starts.clear();
        self.wanted = true;
    }

    /// A start without a place in the plan, because the plan refused it.
    pub(super) fn again_free(&mut self, start: Start, refusal: &Refusal) {
        self.starts.push_front(Start { free: Some(refusal.to_string()), ..start });
    }

    pub(super) fn ranked(&mut self, ticket: Ticket, chosen: usize, why: &str) {
        let Some(ranking) = self.ranking.take_if(|ranking| ranking.ticket == ticket) else { return };
        // Somebody who knows no best one leaves the most compact.
        let chosen = ranking.candidates.get(chosen).or_else(|| ranking.candidates.first()).cloned().unwrap_or_default();
        self.start(ranking.jobs, chosen, why);
    }

    fn start(&mut self, jobs: Target, places: Vec<Shares>, ranked: &str) {
        let start = |((name, why), shares): ((Arc<str>, String), Shares)| {
            let why = if ranked.is_empty() { why } else { format!("{why}; {ranked}") };
            Start { name, shares, why, free: None }
        };
        self.starts.extend(jobs.into_iter().zip(places).map(start));
    }
}

impl Scheduling {
    /// Decides on the cluster as it is, stops those who are no longer to run, and places those who start.
    pub(super) fn begin_round(&mut self, now: FabricTime) {
        self.rounds.looking = false;
        self.rounds.count += 1;
        let decided = self.decider.decide(now, &self.hosts, &self.submissions);
        self.rounds.change_at = self.decider.next_change(now);
        let target = match decided {
            Ok(target) => target,
            Err(unfit) => return self.say_infeasible(unfit.to_string()),
        };
        self.rounds.infeasible = None;
        self.stop_others(now, &target);
        self.place_those_who_start(target);
    }

    /// A decision that does not fit changes nothing; the next change of the queue brings another one.
    fn say_infeasible(&mut self, problem: String) {
        if self.rounds.infeasible.as_ref() != Some(&problem) {
            self.actions.push_back(SchedulingAction::Infeasible { problem: problem.clone() });
        }
        self.rounds.infeasible = Some(problem);
    }

    /// Stops jobs that are no longer to run, and those whose hosts are gone.
    fn stop_others(&mut self, now: FabricTime, target: &Target) {
        let stays: BTreeSet<&str> = target.iter().map(|(name, _)| &**name).collect();
        let there = self.hosts.by_name();
        let next = self.rounds.last_stops.map(|last| last.saturating_add(self.settings.round));
        // A policy with leases stops nobody before its lease has ended; the others would at any event.
        let early =
            matches!(self.settings.rule, Rule::Srtf | Rule::Srsf | Rule::Tiresias(_)).then_some(next).flatten().filter(|next| now < *next);
        let instead = target.iter().filter(|(name, _)| self.submissions.get(name).is_some_and(|s| s.state == SubmissionState::Queued));
        let instead: Vec<&str> = instead.map(|(name, _)| &**name).collect();
        let why =
            if instead.is_empty() { "others run".to_string() } else { format!("{} run", listed(instead.iter().copied(), instead.len())) };
        let (mut draft, mut later) = (Draft::default(), false);
        for known in self.submissions.values().filter(|s| matches!(s.state, SubmissionState::Starting | SubmissionState::Running)) {
            if draft.changed.len() >= STOPS_MAX {
                // Every order is told: the others stop in the next round, which has the same reason to stop them.
                self.rounds.want();
                draft.stops = None;
                break;
            }
            let is_no_more = |place: &&HostGpus| !there.get(place.host.as_str()).is_some_and(|gpus| place.fits(*gpus));
            if let Some(gone) = known.place.iter().find(is_no_more) {
                let host = &gone.host;
                let why = if there.contains_key(host.as_str()) {
                    format!("host {host:?} has fewer GPUs")
                } else {
                    format!("host {host:?} is gone")
                };
                requests::move_away(&mut draft, now, &self.settings, known, &why);
            } else if stays.contains(&*known.name) {
                continue;
            } else if known.spec.opportunistic || early.is_none() {
                if !known.spec.opportunistic {
                    draft.stops = Some(now);
                }
                requests::preempt(&mut draft, now, &self.settings, known, &why);
            } else {
                later = true;
            }
        }
        self.rounds.stops_at = early.filter(|_| later);
        if !draft.changed.is_empty() {
            self.begin(draft, None, None);
        }
    }

    /// Places the first jobs of the target that fit on GPUs that nobody holds.
    fn place_those_who_start(&mut self, target: Target) {
        let occupied = Occupied::of(self.submissions.values());
        let mut free = places::free(&self.hosts, &occupied);
        let (mut waits, mut starts) = (BTreeMap::new(), Target::new());
        let chosen: BTreeSet<Arc<str>> = target.iter().map(|(name, _)| Arc::clone(name)).collect();
        for (name, why) in target {
            let Some(known) = self.submissions.get(&name).filter(|s| s.state == SubmissionState::Queued) else { continue };
            let gpus = known.spec.gpus;
            if gpus <= free {
                free -= gpus;
                starts.push((name, why));
            } else {
                waits.insert(name, format!("is next: wants {gpus} GPUs, {free} are free, others have to stop"));
            }
        }
        for known in self.submissions.values().filter(|s| s.state == SubmissionState::Queued && !chosen.contains(&s.name)) {
            let (wants, has) = (known.spec.gpus, self.decider.gpus());
            let why = if wants > has {
                format!("waits: needs {wants} GPUs; {has} are there, without hosts with jobs of others")
            } else {
                let had = self.decider.passed(&known.name).map_or_else(String::new, |had| format!("; {had}"));
                format!("waits: the policy runs others now; it wants {wants} GPUs{had}")
            };
            waits.insert(Arc::clone(&known.name), why);
        }
        self.rounds.waits = waits;
        if starts.is_empty() {
            return;
        }
        let known: Vec<Arc<Submission>> = starts.iter().filter_map(|(name, _)| self.submissions.get(name).cloned()).collect();
        let sizes: Vec<u32> = known.iter().map(|s| s.spec.gpus).collect();
        // Without a profile nobody can say which place is better.
        let n = if known.iter().any(|s| s.is_known()) { CANDIDATES } else { 1 };
        let mut candidates = places::candidates(&self.hosts, &occupied, &sizes, n, self.rounds.count);
        if candidates.len() > 1 {
            self.last_ticket += 1;
            let ticket = Ticket(self.last_ticket);
            self.actions.push_back(SchedulingAction::Rank { ticket, jobs: known, candidates: candidates.clone() });
            self.rounds.ranking = Some(Ranking { ticket, jobs: starts, candidates });
        } else if let Some(only) = candidates.pop() {
            self.rounds.start(starts, only, "");
        }
    }

    /// Sends a start on its way, if the job still waits and its GPUs are still free.
    pub(super) fn begin_start(&mut self, now: FabricTime, start: Start) {
        let occupied = Occupied::of(self.submissions.values());
        let known = self.submissions.get(&start.name).filter(|s| s.state == SubmissionState::Queued).cloned();
        let free = start.shares.iter().all(|(host, _)| !self.hosts.taken.contains(host));
        let place = occupied.take(&start.shares, &self.hosts).filter(|_| free);
        let (Some(known), Some(place)) = (known, place) else {
            self.rounds.want();
            return;
        };
        let why = match &start.free {
            Some(refused) => format!("{}; runs free, the plan refused it: {refused}", start.why),
            None if known.learned.is_some() => format!("{}{LEARNED}", start.why),
            None if known.spec.has_profile => start.why.clone(),
            None if known.spec.learn => format!("{}{LEARNS}", start.why),
            None => format!("{}; runs free, without a profile and not to be learned", start.why),
        };
        let planned = (known.is_known() || known.spec.learn) && start.free.is_none();
        let next = known.enter(now, SubmissionState::Starting, why);
        let next = Submission { place, planned, attempt: known.attempt.saturating_add(1), ..next };
        let mut draft = Draft::default();
        let hosts: Vec<String> = next.place.iter().map(|place| format!("{} ({} GPUs)", place.host, place.gpus.len())).collect();
        let message = format!("job {} starts on {}: {}", next.name, listed(hosts.iter().map(String::as_str), hosts.len()), next.why);
        draft.order(now, NoticeKind::JobStart, &next, now.saturating_add(self.settings.start_within), message);
        draft.put(Some(&known), next.clone());
        // Somebody who changes the plan all the time keeps nobody from starting.
        let guard = (planned && self.rounds.moved < MOVED_MAX).then_some(self.hosts.plan_version);
        self.begin(draft, Some((start, Arc::new(next))), guard);
    }
}
