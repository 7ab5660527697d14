//! What the scheduler's thread does.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use job::{CANDIDATES_SCHEMA, CandidateDoc, CandidatesDoc, JobDoc, data_nics};
use state::{
    Change, Commit, Document, Notice, NoticeKind, Refusal, Reply, RequestId, Schedule, Severity, Ticket,
    scheduler::{Hosts, SchedulerHost, Scheduling, SchedulingAction, Shares, Step, Submission, SubmissionRefusal},
};
use tokio::sync::{mpsc, watch};
use units::{FabricTime, Nanos, NodeId};

use crate::{
    api::Api,
    config::SchedulerConfig,
    controller::{ControllerHandle, Snapshot, Stopped, Surroundings},
    events::EventReader,
    placed::submitted,
    queue::{Answer, Command, QUEUE_MAX, Queue},
    resolve,
};

/// The longest time between two looks at the clock.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// The shortest, so that a deadline that does not move cannot keep the thread busy.
const WAIT_MIN: Duration = Duration::from_millis(1);
/// How long jobs wait for a ranking of their places: longer, and the most compact one is as good.
const RANK_MAX: Duration = Duration::from_secs(30);
/// How long what was seen of the cluster holds without news of it: events may be lost with the whole ring of them.
const LOOK_EVERY: Nanos = Nanos(60_000_000_000);
/// Events of others after which the cluster may be another.
const NEWS: [NoticeKind; 4] = [NoticeKind::Committed, NoticeKind::Released, NoticeKind::Expired, NoticeKind::Fabric];

/// A turn of the thread that is late by more in nanoseconds was held up: a busy machine is late by less.
const LATE_MAX: u64 = 500_000_000;

/// Why the thread has something to do.
enum Woken {
    Done(Done),
    Asked(Command),
    /// Whether the cluster may be another.
    News(bool),
    Timeout,
}

/// What was begun, when it is done.
enum Done {
    Looked(Option<Arc<Snapshot>>),
    Ranked { ticket: Ticket, chosen: usize, why: String },
    Changed { ticket: Ticket, result: Result<u64, Refusal> },
    Stopped,
}

pub(super) struct Driver {
    scheduling: Scheduling,
    config: SchedulerConfig,
    api: Api,
    controller: ControllerHandle,
    around: Surroundings,
    answers: BTreeMap<RequestId, Answer>,
    last_request: u64,
    begun: FuturesUnordered<BoxFuture<'static, Done>>,
    /// GPUs of the hosts at the last look.
    gpus: u32,
    news: EventReader,
    /// The cluster may have changed since the last look.
    stale: bool,
    /// When the last look was begun.
    looked: FabricTime,
}

impl Driver {
    pub(super) fn new(
        scheduling: Scheduling,
        config: SchedulerConfig,
        api: Api,
        controller: ControllerHandle,
        around: Surroundings,
    ) -> Self {
        let news = around.events.reader(None);
        let (answers, begun, looked) = (BTreeMap::new(), FuturesUnordered::new(), around.clock.now());
        Self { scheduling, config, api, controller, around, answers, last_request: 0, begun, gpus: 0, news, stale: false, looked }
    }

    pub(super) async fn run(mut self, mut commands: mpsc::Receiver<Command>, mut stop: watch::Receiver<bool>) {
        // The first look comes before the first request: a job is measured against the cluster.
        self.look();
        let mut woke = self.around.clock.now();
        loop {
            self.act();
            let now = self.around.clock.now();
            let wait =
                self.scheduling.poll_timeout().map_or(WAIT_MAX, |due| Duration::from_nanos(due.since(now).0).clamp(WAIT_MIN, WAIT_MAX));
            let woken = tokio::select! {
                biased;
                _ = stop.changed() => return,
                Some(done) = self.begun.next(), if !self.begun.is_empty() => Woken::Done(done),
                command = commands.recv() => match command {
                    Some(command) => Woken::Asked(command),
                    None => return,
                },
                Some(events) = self.news.next() => Woken::News(events.iter().any(|event| NEWS.iter().any(|kind| kind.word() == event.kind))),
                () = tokio::time::sleep(wait) => Woken::Timeout,
            };
            let (before, now) = (woke, self.around.clock.now());
            woke = now;
            self.stalled(now.since(before), wait);
            match woken {
                Woken::Done(done) => {
                    if self.done(done) {
                        return;
                    }
                }
                Woken::Asked(command) => self.command(command),
                Woken::News(news) => self.stale |= news,
                Woken::Timeout => {}
            }
            // What was reported in time counts, however long it had to wait here: so all of it comes before anybody's silence does.
            for _ in 0..QUEUE_MAX {
                let Ok(command) = commands.try_recv() else { break };
                self.command(command);
            }
            self.stale |= self.around.clock.now().since(self.looked) > LOOK_EVERY;
            // A look that was begun before the news may not have seen it.
            if self.stale && self.begun.is_empty() {
                self.stale = false;
                self.look();
            }
            self.scheduling.handle_timeout(self.around.clock.now());
        }
    }

    /// Judges how long a turn took that was to take no longer than `wait`: a process that was stopped, a decision that computed for
    /// long, or a clock that was set hold up the reports as well.
    fn stalled(&mut self, took: Nanos, wait: Duration) {
        let late = took.0.saturating_sub(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX));
        if late > LATE_MAX {
            tracing::warn!(late_ms = late / 1_000_000, "the scheduler was held up; nobody's silence counts for that time");
            // All of the turn: nobody knows when in it the thread was held up, and what was reported since is still on its way.
            self.scheduling.handle_stalled(took);
        }
    }

    fn command(&mut self, command: Command) {
        let now = self.around.clock.now();
        self.last_request += 1;
        let request = RequestId(self.last_request);
        match command {
            Command::Submit { by, name, spec, answer } => {
                self.answers.insert(request, answer);
                self.scheduling.handle_submit(now, request, by, name, spec);
            }
            Command::Withdraw { by, name, answer } => {
                self.answers.insert(request, answer);
                self.scheduling.handle_withdraw(now, request, by, name);
            }
            Command::Report { name, attempt, report, answer } => {
                self.answers.insert(request, answer);
                self.scheduling.handle_report(now, request, name, attempt, report);
            }
            // A client that went away needs no answer.
            Command::Queue { answer } => drop(answer.send(self.queue())),
            #[cfg(test)]
            Command::Panic => panic!("as a defect would"),
        }
    }

    fn queue(&self) -> Queue {
        let waits = |s: &Arc<Submission>| self.scheduling.waits_for(&s.name).map(str::to_owned);
        let mut submissions: Vec<_> = self.scheduling.submissions().map(|s| (Arc::clone(s), waits(s))).collect();
        submissions.sort_by(|(a, _), (b, _)| (a.submitted, &a.name).cmp(&(b.submitted, &b.name)));
        Queue { submissions, now: self.around.clock.now(), gpus: self.gpus, gpus_held: self.gpus_held() }
    }

    fn gpus_held(&self) -> u32 {
        self.scheduling.submissions().filter(|s| s.state.holds()).map(|s| s.spec.gpus).sum()
    }

    /// Takes in what was begun and is done; true when the service stops.
    fn done(&mut self, done: Done) -> bool {
        let now = self.around.clock.now();
        match done {
            Done::Looked(Some(snapshot)) => {
                for (name, attempt, document) in learned(&snapshot, self.scheduling.submissions()) {
                    self.scheduling.handle_learned(now, name, attempt, document);
                }
                let hosts = hosts(&snapshot, &self.config, self.scheduling.submissions());
                self.gpus = hosts.gpus();
                let began = Instant::now();
                self.scheduling.handle_hosts(now, hosts);
                self.around.metrics.scheduler_decided(began.elapsed());
            }
            Done::Ranked { ticket, chosen, why } => self.scheduling.handle_ranked(now, ticket, chosen, &why),
            Done::Changed { ticket, result } => self.scheduling.handle_done(now, ticket, result),
            Done::Looked(None) | Done::Stopped => return true,
        }
        false
    }

    /// Does everything that the scheduler wants done.
    fn act(&mut self) {
        let mut acted = false;
        while let Some(action) = self.scheduling.poll() {
            acted = true;
            match action {
                SchedulingAction::Change { ticket, step } => {
                    let controller = self.controller.clone();
                    self.begun.push(async move { change(&controller, ticket, step).await.unwrap_or(Done::Stopped) }.boxed());
                }
                SchedulingAction::Look => self.look(),
                SchedulingAction::Rank { ticket, jobs, candidates } => {
                    let api = self.api.clone();
                    self.begun.push(
                        async move {
                            let ranked = tokio::time::timeout(RANK_MAX, rank(&api, &jobs, &candidates)).await;
                            let late = || (0, format!("the most compact place: no ranking within {} s", RANK_MAX.as_secs()));
                            let (chosen, why) = ranked.unwrap_or_else(|_| late());
                            Done::Ranked { ticket, chosen, why }
                        }
                        .boxed(),
                    );
                }
                SchedulingAction::Answer { request, result } => self.answer(request, result),
                SchedulingAction::Infeasible { problem } => self.infeasible(problem),
            }
        }
        if acted {
            self.count();
        }
    }

    fn look(&mut self) {
        self.looked = self.around.clock.now();
        let controller = self.controller.clone();
        self.begun.push(async move { Done::Looked(controller.snapshot().await.ok()) }.boxed());
    }

    fn answer(&mut self, request: RequestId, result: Result<Arc<Submission>, SubmissionRefusal>) {
        if let Some(answer) = self.answers.remove(&request) {
            // A client that went away needs no answer.
            let _ = answer.send(result);
        }
    }

    fn infeasible(&self, problem: String) {
        let message =
            format!("the policy {} decided what cannot be carried out, and nothing of it is: {problem}", self.config.policy.word());
        tracing::error!(kind = NoticeKind::Infeasible.word(), "{message}");
        self.around.metrics.notice(NoticeKind::Infeasible);
        let at = self.around.clock.now();
        let (severity, kind) = (Severity::Error, NoticeKind::Infeasible);
        self.around.events.push(Notice {
            by: None,
            at,
            severity,
            kind,
            message,
            job: None,
            host: None,
            agent: None,
            plan_version: 0,
            order: None,
        });
    }

    fn count(&self) {
        let mut states: BTreeMap<&str, usize> =
            ["queued", "starting", "running", "stopping", "finished", "withdrawn", "failed"].map(|state| (state, 0)).into();
        self.scheduling.submissions().for_each(|s| *states.entry(s.state.word()).or_default() += 1);
        states.into_iter().for_each(|(state, count)| self.around.metrics.submissions(state, count));
        self.around.metrics.scheduler_gpus(self.gpus, self.gpus_held());
    }
}

/// The cluster as the scheduler sees it.
fn hosts<'a>(snapshot: &Snapshot, config: &SchedulerConfig, submissions: impl Iterator<Item = &'a Arc<Submission>>) -> Hosts {
    let own: BTreeSet<&str> = submissions.filter(|s| s.planned).map(|s| &*s.name).collect();
    let others = snapshot.jobs.iter().filter(|job| !own.contains(job.definition.job.name.as_str()));
    let (mut taken, mut names) = (BTreeSet::new(), BTreeSet::new());
    for job in others {
        taken.extend(job.definition.hosts.iter().cloned());
        names.insert(job.definition.job.name.clone());
    }
    let Some(view) = &snapshot.fabric else {
        return Hosts { plan_version: snapshot.plan_version, all: Vec::new(), taken, others: names };
    };
    let fabric = &view.fabric;
    // A host hangs on the switch of its first NIC that training uses; leaves are numbered in order of their first host.
    let mut leaves: BTreeMap<Option<NodeId>, u32> = BTreeMap::new();
    let mut all = Vec::new();
    for host in fabric.hosts() {
        let nic = data_nics(fabric, host).first().and_then(|nic| fabric.links_from(host).get(usize::from(*nic)).copied());
        let next = u32::try_from(leaves.len()).unwrap_or(u32::MAX);
        let leaf = *leaves.entry(nic.map(|link| fabric.link(link).to.node)).or_insert(next);
        let name = fabric.node(host).name.clone();
        if !config.without.contains(&name) {
            all.push(SchedulerHost { name, leaf, gpus: config.gpus(fabric, host) });
        }
    }
    Hosts { plan_version: snapshot.plan_version, all, taken, others: names }
}

/// What the plan has of submissions as it was learned, and is not kept with them yet.
fn learned<'a>(snapshot: &Snapshot, submissions: impl Iterator<Item = &'a Arc<Submission>>) -> Vec<(Arc<str>, u32, Document)> {
    let one = |submission: &Arc<Submission>| {
        let document = &snapshot.job(&submission.name)?.definition.document;
        let is_learned = resolve::kept(&submission.name, document).is_ok_and(|doc| doc.is_learned());
        let is_new = is_learned && submission.learned.as_ref() != Some(document);
        is_new.then(|| (Arc::clone(&submission.name), submission.attempt, document.clone()))
    };
    submissions.filter(|s| s.spec.learn && s.planned).filter_map(one).collect()
}

/// Makes a step.
async fn change(controller: &ControllerHandle, ticket: Ticket, step: Step) -> Result<Done, Stopped> {
    let Step { start, if_plan_version, release, submissions, notices } = step;
    let commit = match start {
        None => None,
        Some(start) => match commit(controller, &start).await? {
            Ok(commit) => Some(Commit { if_plan_version, ..commit }),
            Err(refusal) => return Ok(Done::Changed { ticket, result: Err(refusal) }),
        },
    };
    let schedule = Schedule { commit, release, submissions, notices };
    let result = match controller.change(Change::Schedule(Box::new(schedule))).await? {
        Ok(Reply::Scheduled { plan_version }) => Ok(plan_version),
        Ok(other) => {
            tracing::error!(?other, "the controller gave the answer of another request");
            Err(Refusal::Store("an answer of another kind".into()))
        }
        Err(refusal) => Err(refusal),
    };
    Ok(Done::Changed { ticket, result })
}

/// A job where it is to start, on the fabric of now.
async fn commit(controller: &ControllerHandle, start: &Submission) -> Result<Result<Commit, Refusal>, Stopped> {
    let Some(view) = controller.fabric().await? else { return Ok(Err(Refusal::NoFabric)) };
    let made = submitted(start, &shares(start)).and_then(|doc| resolve::definitions(&view.fabric, &[Arc::new(doc)]));
    let commit = |jobs| Commit { jobs, if_fabric: Some(view.version), ..Commit::default() };
    Ok(made.map(commit).map_err(Refusal::Policy))
}

fn shares(submission: &Submission) -> Shares {
    let count = |gpus: &Vec<u32>| u32::try_from(gpus.len()).unwrap_or(u32::MAX);
    submission.place.iter().map(|place| (place.host.clone(), count(&place.gpus))).collect()
}

/// Which of these places is best: its index, and why.
async fn rank(api: &Api, jobs: &[Arc<Submission>], candidates: &[Vec<Shares>]) -> (usize, String) {
    let shape =
        |places: &Vec<Shares>| -> Vec<Vec<u32>> { places.iter().map(|shares| shares.iter().map(|(_, gpus)| *gpus).collect()).collect() };
    let Some(first) = candidates.first() else { return (0, String::new()) };
    // A profile is that of a shape: places on other numbers of GPUs of a host are other jobs to the network.
    let alike = candidates.iter().enumerate().filter(|(_, places)| shape(places) == shape(first));
    let placed_docs: Vec<JobDoc> = jobs
        .iter()
        .zip(first)
        .filter_map(|(job, shares)| submitted(job, shares).ok().filter(resolve::has_profile))
        .map(|doc| JobDoc { hosts: None, ..doc })
        .collect();
    let names: BTreeSet<&str> = placed_docs.iter().map(|doc| doc.id.as_str()).collect();
    let candidate = |(index, places): (usize, &Vec<Shares>)| {
        let of = |(job, shares): (&Arc<Submission>, &Shares)| {
            let hosts = shares.iter().map(|(host, _)| host.clone()).collect::<Vec<_>>();
            names.contains(&*job.name).then(|| (job.name.to_string(), hosts))
        };
        CandidateDoc { id: index.to_string(), hosts: jobs.iter().zip(places).filter_map(of).collect() }
    };
    let candidates: Vec<CandidateDoc> = alike.map(candidate).collect();
    if placed_docs.is_empty() || candidates.len() < 2 {
        return (0, "the most compact place".into());
    }
    let ids: Vec<usize> = candidates.iter().filter_map(|candidate| candidate.id.parse().ok()).collect();
    match api.best_place(placed_docs, CandidatesDoc { schema: CANDIDATES_SCHEMA.into(), candidates }).await {
        Ok(best) => (ids.get(best.index).copied().unwrap_or(0), best.says),
        Err(error) => (0, format!("the most compact place, others were not ranked: {error}")),
    }
}
