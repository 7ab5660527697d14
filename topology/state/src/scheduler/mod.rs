//! A scheduler that runs: jobs are submitted, a policy decides who runs, and an executor is told what to start and to stop.
//!
//! [`Scheduling`] is sans-IO. Submissions come in, and reports of the executor; out come changes of the plan and of the submissions
//! ([`Step`]), which the caller takes down the path of every other change, so that nothing is told before it is durable and a start
//! stands in the store together with the job's place in the plan. One step is on its way at a time.
//!
//! A round begins with a look at the cluster. The policy decides ([`policy::schedule`], the same code as in the simulator of traces), and
//! its decision is checked before anything of it is done (`decider`). Jobs that run and are no longer to, are told to stop, and hold their
//! GPUs until the executor says that they have, or has said nothing for too long (`requests`). Jobs that are to run are placed on GPUs
//! that nobody holds (`places`); where several places are open the caller ranks them ([`SchedulingAction::Rank`]) by what the jobs would
//! take there. The order in which jobs are started is the policy's.
//!
//! What the executor is told are notices with an [`Order`]: `job_start`, `job_preempt`, `job_move`. Notices may be missed; what holds is
//! the state of a submission, so an executor that comes back reads these and does what they say.

mod decider;
mod draft;
mod places;
mod report;
mod requests;
mod rounds;
mod settings;
#[cfg(test)]
mod tests;

use alloc::{
    collections::{BTreeMap, VecDeque},
    string::String,
    sync::Arc,
    vec::Vec,
};

use units::{FabricTime, Nanos};

use self::{decider::Decider, draft::Draft, requests::Asked, rounds::Rounds, settings::REQUESTS_PER_CHANGE};
pub use self::{
    report::{RunReport, SubmissionRefusal},
    settings::{
        FAILURES_MAX, Hosts, OVER_BYTES_MAX, OVER_MAX, OWNER_PART, REQUESTS_MAX, SUBMISSIONS_MAX, SUBMITTED_BYTES_MAX, SchedulerHost,
        Settings,
    },
};
pub use crate::submission::{After, HostGpus, Order, Submission, SubmissionSpec, SubmissionState};
use crate::{Document, Notice, Refusal, RequestId, Ticket, config::WAITING};

/// A change that the scheduler wants made, whole or not at all.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// A job that is to be committed where it stands; its document and its place are in it.
    pub start: Option<Arc<Submission>>,
    /// Refuse unless the plan is at this version.
    pub if_plan_version: Option<u64>,
    /// Jobs that leave the plan, by name.
    pub release: Vec<String>,
    /// Submissions as they are from then on; `None` are forgotten.
    pub submissions: Vec<(Arc<str>, Option<Arc<Submission>>)>,
    /// What is told when the change is durable.
    pub notices: Vec<Notice>,
}

/// A place that a job could have: the host and how many of its GPUs, the host with most first.
pub type Shares = Vec<(String, u32)>;

/// What the scheduler has to have done.
#[derive(Clone, Debug, PartialEq)]
pub enum SchedulingAction {
    /// Make this change, then hand back [`Scheduling::handle_done`].
    Change {
        /// Names the change.
        ticket: Ticket,
        /// What to change.
        step: Step,
    },
    /// Look at the cluster, then hand back [`Scheduling::handle_hosts`].
    Look,
    /// Say which of these places are best for jobs that start, then hand back [`Scheduling::handle_ranked`].
    Rank {
        /// Names the question.
        ticket: Ticket,
        /// The jobs, in the policy's order.
        jobs: Vec<Arc<Submission>>,
        /// By candidate: the place of each of the jobs.
        candidates: Vec<Vec<Shares>>,
    },
    /// Answer a request.
    Answer {
        /// Which.
        request: RequestId,
        /// The submission as it is now, or why not.
        result: Result<Arc<Submission>, SubmissionRefusal>,
    },
    /// A policy decided something that cannot be carried out: nothing of it is.
    Infeasible {
        /// Why, on one line.
        problem: String,
    },
}

/// A change that is on its way.
#[derive(Debug)]
struct UnderWay {
    ticket: Ticket,
    draft: Draft,
    /// The start in it, to be tried otherwise when it is refused.
    start: Option<rounds::Start>,
}

/// The scheduler.
#[derive(Debug)]
pub struct Scheduling {
    settings: Settings,
    /// As they are durable.
    submissions: BTreeMap<Arc<str>, Arc<Submission>>,
    /// When somebody spoke of a job last that runs. Not durable: after a restart all patience begins anew, as if all had been heard.
    heard: BTreeMap<Arc<str>, FabricTime>,
    asked: VecDeque<(RequestId, Asked)>,
    /// What was learned of jobs, at which start: one of each job.
    learned: BTreeMap<Arc<str>, (u32, Document)>,
    under_way: Option<UnderWay>,
    rounds: Rounds,
    decider: Decider,
    hosts: Hosts,
    actions: VecDeque<SchedulingAction>,
    last_ticket: u64,
    /// The store failed: nothing is written before this.
    not_before: FabricTime,
}

impl Scheduling {
    /// A scheduler of what was kept. Jobs that hold GPUs go on, and whoever has to speak of them has all of the time for it anew.
    #[must_use]
    pub fn new(settings: Settings, now: FabricTime, kept: impl IntoIterator<Item = Arc<Submission>>) -> Self {
        let submissions: BTreeMap<Arc<str>, Arc<Submission>> = kept.into_iter().map(|s| (Arc::clone(&s.name), by(now, s))).collect();
        let origin = submissions.values().map(|s| s.submitted).min().unwrap_or(now).min(now);
        let heard = submissions.values().filter(|s| s.state.holds()).map(|s| (Arc::clone(&s.name), now)).collect();
        let decider = Decider::new(settings.rule, origin);
        let mut scheduling = Self {
            settings,
            submissions,
            heard,
            asked: VecDeque::new(),
            learned: BTreeMap::new(),
            under_way: None,
            rounds: Rounds::default(),
            decider,
            hosts: Hosts::default(),
            actions: VecDeque::new(),
            last_ticket: 0,
            not_before: FabricTime(0),
        };
        scheduling.rounds.want();
        scheduling.advance(now);
        scheduling
    }

    /// The caller could not say for so long what happened: it was stopped, or slept, and so may reports wait for it. Nobody's silence
    /// counts for that time.
    pub fn handle_stalled(&mut self, lasted: Nanos) {
        for submission in self.submissions.values().filter(|s| s.state.holds()) {
            let heard = self.heard.entry(Arc::clone(&submission.name)).or_insert(submission.since);
            *heard = (*heard).max(submission.since).saturating_add(lasted);
        }
    }

    /// `by` submits a job. Repeated with the same content it changes nothing.
    pub fn handle_submit(&mut self, now: FabricTime, request: RequestId, by: Arc<str>, name: Arc<str>, spec: Arc<SubmissionSpec>) {
        self.ask(now, request, Asked::Submit { by, name, spec });
    }

    /// `by` takes a job back.
    pub fn handle_withdraw(&mut self, now: FabricTime, request: RequestId, by: Arc<str>, name: String) {
        self.ask(now, request, Asked::Withdraw { by, name });
    }

    /// The executor tells of start `attempt` of a job.
    pub fn handle_report(&mut self, now: FabricTime, request: RequestId, name: String, attempt: u32, report: RunReport) {
        // A sign of life renews a lease, and does not put off a start or a stop.
        if self.submissions.get(&*name).is_some_and(|s| s.state == SubmissionState::Running && s.attempt == attempt) {
            self.heard.insert(name.as_str().into(), now);
        }
        self.ask(now, request, Asked::Report { name, attempt, report });
    }

    /// The plan has start `attempt` of a job as it was learned: the document that says so is kept for its next start.
    pub fn handle_learned(&mut self, now: FabricTime, name: Arc<str>, attempt: u32, document: Document) {
        if self.submissions.contains_key(&name) {
            self.learned.insert(name, (attempt, document));
            self.advance(now);
        }
    }

    /// The answer to [`SchedulingAction::Look`]; welcome at any time.
    pub fn handle_hosts(&mut self, now: FabricTime, hosts: Hosts) {
        let is_news = (&self.hosts.all, &self.hosts.taken) != (&hosts.all, &hosts.taken);
        self.hosts = hosts;
        if self.rounds.looks() {
            self.begin_round(now);
        } else if is_news {
            self.rounds.want();
        }
        self.advance(now);
    }

    /// The answer to [`SchedulingAction::Rank`]: the best candidate, and what there is to say of it.
    pub fn handle_ranked(&mut self, now: FabricTime, ticket: Ticket, chosen: usize, why: &str) {
        self.rounds.ranked(ticket, chosen, why);
        self.advance(now);
    }

    /// What became of a change: the version of the plan that has it, or why it was refused.
    pub fn handle_done(&mut self, now: FabricTime, ticket: Ticket, result: Result<u64, Refusal>) {
        let Some(done) = self.under_way.take_if(|under_way| under_way.ticket == ticket) else { return };
        match result {
            Ok(plan_version) => self.keep(plan_version, done),
            Err(refusal) => self.refused(now, done, refusal),
        }
        self.advance(now);
    }

    /// Time passed.
    pub fn handle_timeout(&mut self, now: FabricTime) {
        self.advance(now);
    }

    /// What to do next.
    pub fn poll(&mut self) -> Option<SchedulingAction> {
        self.actions.pop_front()
    }

    /// When to call [`Scheduling::handle_timeout`], if nothing happens before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<FabricTime> {
        if self.under_way.is_some() {
            return None;
        }
        let overdue = self.submissions.values().filter_map(|s| self.due(s)).min();
        // A round that is wanted waits for nothing but a store that failed, and for the answer to a question.
        let due = [overdue, self.rounds.due(), self.rounds.waits().then_some(self.not_before)].into_iter().flatten().min();
        due.map(|due| due.max(self.not_before))
    }

    /// The submissions, by name.
    pub fn submissions(&self) -> impl ExactSizeIterator<Item = &Arc<Submission>> {
        self.submissions.values()
    }

    /// What a job in the queue waits for, as of the last round.
    #[must_use]
    pub fn waits_for(&self, name: &str) -> Option<&str> {
        self.rounds.waits_for(name)
    }

    fn ask(&mut self, now: FabricTime, request: RequestId, asked: Asked) {
        let waiting = self.asked.len();
        if waiting < REQUESTS_MAX {
            self.asked.push_back((request, asked));
            self.advance(now);
            return;
        }
        let refusal = SubmissionRefusal::Limit { what: "requests of the scheduler", value: waiting as u64 + 1, max: REQUESTS_MAX as u64 };
        self.actions.push_back(SchedulingAction::Answer { request, result: Err(refusal) });
    }

    /// When a job's place is given back if nobody speaks of it.
    fn due(&self, submission: &Submission) -> Option<FabricTime> {
        let patience = requests::patience(&self.settings, submission)?;
        let heard = self.heard.get(&submission.name).copied().unwrap_or(submission.since);
        Some(heard.max(submission.since).saturating_add(patience))
    }

    /// Does what can be done until a change is on its way or nothing is left.
    fn advance(&mut self, now: FabricTime) {
        // Each turn takes requests, overdue jobs or a start off their lists, or begins what waits for an answer. Nothing changes between a
        // look at the cluster and the decision on it.
        while self.under_way.is_none() && !self.rounds.looks() {
            if !self.asked.is_empty() {
                self.take_requests(now);
            } else if now < self.not_before {
                return;
            } else if let Some((name, (attempt, document))) = self.learned.pop_first() {
                self.keep_learned(&name, attempt, document);
            } else if let Some(late) = self.submissions.values().find(|s| self.due(s).is_some_and(|due| due <= now)).cloned() {
                let mut draft = Draft::default();
                requests::overdue(&mut draft, now, &self.submissions, &self.settings, &late);
                self.begin(draft, None, None);
            } else if let Some(start) = self.rounds.next_start() {
                self.begin_start(now, start);
            } else {
                if self.rounds.look(now) {
                    self.actions.push_back(SchedulingAction::Look);
                }
                return;
            }
        }
    }

    fn keep_learned(&mut self, name: &str, attempt: u32, document: Document) {
        let mut draft = Draft::default();
        if let Some(known) = self.submissions.get(name) {
            requests::learned(&mut draft, known, attempt, document);
        }
        self.begin(draft, None, None);
    }

    fn take_requests(&mut self, now: FabricTime) {
        let mut draft = Draft::default();
        for _ in 0..REQUESTS_PER_CHANGE {
            let Some(asked) = self.asked.pop_front() else { break };
            requests::apply(&mut draft, now, &self.submissions, &self.settings, &self.hosts, asked);
        }
        self.begin(draft, None, None);
    }

    /// Sends a change on its way; one that changes nothing is done.
    fn begin(&mut self, draft: Draft, start: Option<(rounds::Start, Arc<Submission>)>, if_plan_version: Option<u64>) {
        if draft.changed.is_empty() {
            self.answer(draft);
            return;
        }
        self.last_ticket += 1;
        let ticket = Ticket(self.last_ticket);
        let (start, committed) = start.map_or((None, None), |(start, submission)| (Some(start), Some(submission)));
        let step = Step {
            start: committed.filter(|submission| submission.planned),
            if_plan_version,
            release: draft.release.clone(),
            submissions: draft.changed.iter().map(|(name, s)| (Arc::clone(name), s.clone())).collect(),
            notices: draft.notices.clone(),
        };
        self.actions.push_back(SchedulingAction::Change { ticket, step });
        self.under_way = Some(UnderWay { ticket, draft, start });
    }

    /// A change is durable.
    fn keep(&mut self, plan_version: u64, done: UnderWay) {
        // Only a hint: others may have changed the plan as well, which the service sees when it starts a job.
        self.hosts.plan_version = plan_version;
        for (name, submission) in &done.draft.changed {
            let before = match submission {
                Some(submission) => self.submissions.insert(Arc::clone(name), Arc::clone(submission)),
                None => self.submissions.remove(name),
            };
            let (was, is) = (before.map(|s| s.state), submission.as_ref().map(|s| s.state));
            if was != is {
                self.heard.remove(name);
                self.rounds.changed(name);
                // Whoever came, ended or gave GPUs back may let others start; a start that was confirmed does not.
                if !matches!(is, Some(SubmissionState::Running | SubmissionState::Starting)) {
                    self.rounds.want();
                }
            }
        }
        self.rounds.kept(done.draft.stops);
        self.answer(done.draft);
    }

    /// A change was refused: all is as before.
    fn refused(&mut self, now: FabricTime, done: UnderWay, refusal: Refusal) {
        match (refusal, done.start) {
            (Refusal::PlanVersionMoved { .. } | Refusal::FabricMoved { .. }, Some(_)) => self.rounds.moved(),
            (Refusal::Store(_) | Refusal::Limit { what: WAITING, .. }, Some(_)) => {
                self.not_before = now.saturating_add(settings::RETRY);
                self.rounds.moved();
            }
            // Nobody can plan the job there, or a plan that is full has no room for it; it runs as a job does of which nobody knows
            // how it communicates. A job that runs free already waits for another round.
            (refusal, Some(start)) if !start.is_free() => self.rounds.again_free(start, &refusal),
            (refusal, _) => {
                self.not_before = now.saturating_add(settings::RETRY);
                // Whoever was to stop still has to, and whoever waits for the place still waits.
                self.rounds.want();
                self.answer_refused(done.draft, refusal);
            }
        }
    }

    fn answer(&mut self, draft: Draft) {
        for (request, result) in draft.answers {
            let unknown = |name: Arc<str>| SubmissionRefusal::Unknown(String::from(&*name));
            let result = result.and_then(|name| self.submissions.get(&name).cloned().ok_or_else(|| unknown(name)));
            self.actions.push_back(SchedulingAction::Answer { request, result });
        }
    }

    fn answer_refused(&mut self, draft: Draft, refusal: Refusal) {
        for (request, result) in draft.answers {
            // What was refused for a reason of its own says that.
            let result = Err(result.err().unwrap_or_else(|| refusal.clone().into()));
            self.actions.push_back(SchedulingAction::Answer { request, result });
        }
    }
}

/// A submission at a time that is not before anything that is said of it: the clock may have gone back over a restart, and a time to
/// come would be a lease, or put off the end of a wait.
fn by(now: FabricTime, submission: Arc<Submission>) -> Arc<Submission> {
    let latest = submission.since.max(submission.submitted).max(submission.started.unwrap_or(now));
    if latest <= now {
        return submission;
    }
    let started = submission.started.map(|started| started.min(now));
    Arc::new(Submission { submitted: submission.submitted.min(now), since: submission.since.min(now), started, ..(*submission).clone() })
}
