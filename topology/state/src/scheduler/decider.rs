//! The policy at work: it is told of submissions, and says which of them run from now on.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::{String, ToString},
    sync::Arc,
    vec,
    vec::Vec,
};

use policy::{
    muri::{Profile, RESTART_S, Stages, Timing},
    schedule::{Capacity, Decision, InfeasibleError, Job, JobIndex, LEASE_S, Reason, Rule, Scheduler},
};
use units::{FabricTime, Nanos};

use super::settings::Hosts;
use crate::submission::{Submission, SubmissionState};

/// Nanoseconds in a second.
const NS: f64 = 1e9;
/// The soonest that a decision asks for the next one, so that a policy that never rests keeps nobody busy.
const REST: Nanos = Nanos::from_millis(1_000);
/// Indices of jobs that are gone are taken back when there are this many, and more of them than of others.
const GONE_MIN: usize = 1_024;

/// Who runs from now on, and why, in the policy's order.
pub(super) type Target = Vec<(Arc<str>, String)>;

/// Why a decision is not carried out.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(super) enum Unfit {
    /// It does not fit the cluster.
    #[error("{source}{}", named(.job.as_deref()))]
    Infeasible {
        source: InfeasibleError,
        /// The job's name, where the error has its number.
        job: Option<String>,
    },
    /// Jobs were to share GPUs.
    #[error("jobs {0:?} and {1:?} were to share GPUs")]
    Shared(String, String),
}

fn named(job: Option<&str>) -> String {
    job.map_or_else(String::new, |job| format!(" (job {job:?})"))
}

/// A policy, and the jobs as it knows them.
#[derive(Debug)]
pub(super) struct Decider {
    rule: Rule,
    policy: Scheduler,
    /// What tests decide in the policy's place.
    #[cfg(test)]
    script: Option<fn(&[Job]) -> Decision>,
    /// The hosts that the policy counts on, by number, with their GPUs: those on which nobody else committed jobs.
    hosts: Vec<(String, u32)>,
    numbers: BTreeMap<String, u32>,
    /// Hosts with jobs of others, and their GPUs.
    taken: BTreeMap<String, u32>,
    jobs: Vec<Job>,
    names: Vec<Arc<str>>,
    index: BTreeMap<Arc<str>, JobIndex>,
    /// Seconds count from here, so that they are exact.
    origin: FabricTime,
    decision: Decision,
    /// Why those wait on whom the policy decided.
    passed: BTreeMap<Arc<str>, String>,
}

impl Decider {
    pub(super) fn new(rule: Rule, origin: FabricTime) -> Self {
        Self {
            rule,
            policy: scheduler(rule, Capacity::of_hosts(Vec::new())),
            #[cfg(test)]
            script: None,
            hosts: Vec::new(),
            numbers: BTreeMap::new(),
            taken: BTreeMap::new(),
            jobs: Vec::new(),
            names: Vec::new(),
            index: BTreeMap::new(),
            origin,
            decision: Decision::default(),
            passed: BTreeMap::new(),
        }
    }

    #[cfg(test)]
    pub(super) fn script(&mut self, script: fn(&[Job]) -> Decision) {
        self.script = Some(script);
    }

    /// Decides who runs on `hosts` from now on. Opportunistic jobs are no matter of the policy's: they get what it leaves. Neither are
    /// jobs that stand on hosts of others alone, which stay, and jobs that do not fit on the other hosts, which wait.
    ///
    /// # Errors
    /// [`Unfit`]: nothing of the decision may be carried out.
    pub(super) fn decide(
        &mut self,
        now: FabricTime,
        hosts: &Hosts,
        submissions: &BTreeMap<Arc<str>, Arc<Submission>>,
    ) -> Result<Target, Unfit> {
        self.follow(now, hosts, submissions);
        self.policy.decide(seconds(self.origin, now), &self.jobs, &mut self.decision);
        #[cfg(test)]
        if let Some(script) = self.script {
            self.decision = script(&self.jobs);
        }
        self.check()?;
        let runs = self.decision.runs.iter().enumerate();
        let mut target: Target = runs
            .filter_map(|(at, run)| Some((Arc::clone(self.names.get(run.job as usize)?), self.says(now, self.decision.reasons.get(at)))))
            .collect();
        let passed = self.decision.passed.iter();
        self.passed = passed
            .filter_map(|(job, had)| Some((Arc::clone(self.names.get(*job as usize)?), self.says_of_one_that_waits(now, had))))
            .collect();
        let used: u32 = self.decision.runs.iter().filter_map(|run| self.jobs.get(run.job as usize)).map(|job| job.gpus).sum();
        let stays = |s: &&Arc<Submission>| decided(s) && active(s) && self.gpus_here(s) == 0;
        let stay = submissions.values().filter(stays).map(|s| (Arc::clone(&s.name), "stands on hosts with jobs of others".to_string()));
        target.extend(stay);
        self.fill(self.gpus().saturating_sub(used), submissions, &mut target);
        Ok(target)
    }

    /// What a job that waits had in the policy's order; `None` where the policy did not decide on it.
    pub(super) fn passed(&self, name: &str) -> Option<&str> {
        self.passed.get(name).map(String::as_str)
    }

    /// GPUs on which the policy counts.
    pub(super) fn gpus(&self) -> u32 {
        self.hosts.iter().fold(0, |sum, (_, gpus)| sum.saturating_add(*gpus))
    }

    /// When the policy would decide otherwise though no job comes or ends.
    pub(super) fn next_change(&self, now: FabricTime) -> Option<FabricTime> {
        let next_s = self.policy.next_change_s(seconds(self.origin, now), &self.jobs);
        // A saturated conversion is a time that nobody waits for.
        next_s.is_finite().then(|| self.origin.saturating_add(Nanos((next_s.max(0.0) * NS) as u64)).max(now.saturating_add(REST)))
    }

    fn check(&self) -> Result<(), Unfit> {
        self.decision.check(self.policy.capacity(), &self.jobs).map_err(|source| {
            let job = match &source {
                InfeasibleError::Job { job } | InfeasibleError::Gpus { job, .. } | InfeasibleError::Iteration { job, .. } => Some(*job),
                _ => None,
            };
            let job = job.and_then(|job| self.names.get(job as usize)).map(|name| name.to_string());
            Unfit::Infeasible { source, job }
        })?;
        let mut groups: BTreeMap<u32, JobIndex> = BTreeMap::new();
        for run in &self.decision.runs {
            if let Some(other) = groups.insert(run.group, run.job) {
                let name = |job: JobIndex| self.names.get(job as usize).map_or_else(String::new, |name| name.to_string());
                return Err(Unfit::Shared(name(other), name(run.job)));
            }
        }
        Ok(())
    }

    /// Tells the policy who came, who is gone, and how far everybody is.
    fn follow(&mut self, now: FabricTime, hosts: &Hosts, submissions: &BTreeMap<Arc<str>, Arc<Submission>>) {
        let (taken, usable): (Vec<_>, Vec<_>) =
            hosts.all.iter().map(|host| (host.name.clone(), host.gpus)).partition(|(name, _)| hosts.taken.contains(name));
        let is_new = self.hosts != usable;
        if is_new {
            self.numbers = usable.iter().map(|(name, _)| name.clone()).zip(0..).collect();
            self.hosts = usable;
        }
        self.taken = taken.into_iter().collect();
        let seen: Vec<(&Arc<Submission>, u32)> = submissions.values().filter_map(|s| Some((s, self.sees(s)?))).collect();
        // A job that gives up hosts of which the policy knew only some is another one to it.
        let changed = |(s, gpus): &(&Arc<Submission>, u32)| {
            self.index.get(&s.name).and_then(|job| self.jobs.get(*job as usize)).is_some_and(|job| job.gpus != *gpus)
        };
        if is_new || seen.iter().any(changed) || self.jobs.len() > GONE_MIN + 2 * self.index.len() {
            self.begin_anew(now, seen);
            return;
        }
        let live: BTreeSet<&Arc<str>> = seen.iter().map(|(s, _)| &s.name).collect();
        let gone: Vec<Arc<str>> = self.index.keys().filter(|name| !live.contains(name)).cloned().collect();
        for name in gone {
            if let Some(job) = self.index.remove(&name) {
                self.policy.leave(job, &self.jobs);
            }
        }
        let mut arrived: Vec<(&Arc<Submission>, u32)> = Vec::new();
        for (submission, gpus) in seen {
            match self.index.get(&submission.name).and_then(|job| self.jobs.get_mut(*job as usize)) {
                Some(job) => *job = job_at(self.origin, now, submission, gpus),
                None => arrived.push((submission, gpus)),
            }
        }
        arrived.sort_by_key(|(s, _)| (s.submitted, Arc::clone(&s.name)));
        for (submission, gpus) in arrived {
            let job = self.enter(now, submission, gpus);
            self.policy.arrive(job);
        }
    }

    /// A new policy on other hosts, to which the jobs that are there come with what they have. A lease that it gave goes on; after a
    /// restart every lease begins anew.
    fn begin_anew(&mut self, now: FabricTime, mut seen: Vec<(&Arc<Submission>, u32)>) {
        let now_s = seconds(self.origin, now);
        let until = |(name, job): (&Arc<str>, &JobIndex)| Some((Arc::clone(name), self.policy.until_s(*job)?));
        let untils: BTreeMap<Arc<str>, f64> = self.index.iter().filter_map(until).collect();
        self.policy = scheduler(self.rule, Capacity::of_hosts(self.hosts.iter().map(|(_, gpus)| *gpus).collect()));
        (self.jobs, self.names, self.index) = (Vec::new(), Vec::new(), BTreeMap::new());
        seen.sort_by_key(|(s, _)| (s.submitted, Arc::clone(&s.name)));
        for (submission, gpus) in seen {
            let job = self.enter(now, submission, gpus);
            // Who is told to stop keeps nothing: its lease is over.
            let places = self.places(submission).filter(|_| active(submission)).unwrap_or_default();
            let until_s = if places.is_empty() {
                // A job that waits has had no GPUs since then; a time to come would be a lease.
                seconds(self.origin, submission.since).min(now_s)
            } else {
                untils.get(&submission.name).copied().filter(|until| *until > now_s).unwrap_or(now_s + LEASE_S)
            };
            self.policy.resume(now_s, job, &self.jobs, &places, until_s);
        }
    }

    fn enter(&mut self, now: FabricTime, submission: &Arc<Submission>, gpus: u32) -> JobIndex {
        // Indices are taken back long before there are as many.
        let job = self.jobs.len() as JobIndex;
        self.jobs.push(job_at(self.origin, now, submission, gpus));
        self.names.push(Arc::clone(&submission.name));
        self.index.insert(Arc::clone(&submission.name), job);
        job
    }

    /// How many GPUs the policy gives a job if it runs; `None` where it does not decide on it. A job that does not fit would keep all
    /// others waiting for GPUs that are not there.
    fn sees(&self, submission: &Submission) -> Option<u32> {
        let gpus = if active(submission) { self.gpus_here(submission) } else { submission.spec.gpus };
        (decided(submission) && gpus > 0 && gpus <= self.gpus()).then_some(gpus)
    }

    /// What a job that runs has of the GPUs on which the policy counts: not those on hosts of others, which nobody would get after it.
    /// One whose place is no more needs another one, for all of it.
    fn gpus_here(&self, submission: &Submission) -> u32 {
        let sum = |places: Vec<(u32, u32)>| places.iter().map(|(_, gpus)| gpus).sum();
        self.places(submission).map_or(submission.spec.gpus, sum)
    }

    /// What a job holds of the policy's hosts, by its numbers; `None` when its place is no more.
    fn places(&self, submission: &Submission) -> Option<Vec<(u32, u32)>> {
        let mut places = Vec::new();
        for held in &submission.place {
            let number = self.numbers.get(&held.host);
            let of = number.and_then(|number| self.hosts.get(*number as usize)).map(|(_, gpus)| gpus);
            if !of.or_else(|| self.taken.get(&held.host)).is_some_and(|gpus| held.fits(*gpus)) {
                return None;
            }
            places.extend(number.map(|number| (*number, u32::try_from(held.gpus.len()).unwrap_or(u32::MAX))));
        }
        Some(places)
    }

    /// Gives GPUs that the policy leaves to opportunistic jobs: first to those that have some, then in order of submission.
    fn fill(&self, mut free: u32, submissions: &BTreeMap<Arc<str>, Arc<Submission>>, target: &mut Target) {
        let mut waiting: Vec<&Arc<Submission>> = submissions.values().filter(|s| s.spec.opportunistic && s.state.is_live()).collect();
        waiting.sort_by_key(|s| (!active(s), s.submitted, Arc::clone(&s.name)));
        for submission in waiting.into_iter().filter(|s| !matches!(s.state, SubmissionState::Stopping(_))) {
            let gpus = if active(submission) { self.gpus_here(submission) } else { submission.spec.gpus };
            if gpus <= free {
                free -= gpus;
                target.push((Arc::clone(&submission.name), "opportunistic: nobody else wants these GPUs".into()));
            }
        }
    }

    /// What a job that waits had, in words.
    fn says_of_one_that_waits(&self, now: FabricTime, had: &Reason) -> String {
        match had {
            Reason::Fairness { before, after, .. } => {
                format!("with its GPUs now it would take {after:.2} times its time on a fair share, {before:.2} one lease later")
            }
            other => self.says(now, Some(other)),
        }
    }

    /// Why a job runs, in words.
    fn says(&self, now: FabricTime, reason: Option<&Reason>) -> String {
        let now_s = seconds(self.origin, now);
        match (reason, self.rule) {
            (Some(Reason::Rank { before, value }), Rule::Fifo) => format!("{before} jobs before it; it came {:.0} s ago", now_s - value),
            (Some(Reason::Rank { before, value }), Rule::Srtf) => format!("{before} jobs before it; {value:.0} s are left of it"),
            (Some(Reason::Rank { before, value }), Rule::Tiresias(_)) => format!("{before} jobs before it; it had {value:.0} GPU seconds"),
            (Some(Reason::Rank { before, value }), _) => format!("{before} jobs before it; {value:.0} GPU seconds are left of it"),
            (Some(Reason::Fairness { before, after, until_s }), _) => {
                let lasts = (until_s - now_s).max(0.0);
                format!("won its GPUs for {lasts:.0} s: {after:.2} times its time on a fair share, {before:.2} one lease later")
            }
            (Some(other), _) => format!("{other:?}"),
            (None, _) => "the policy chose it".to_string(),
        }
    }
}

/// Whether the policy decides on a job.
fn decided(submission: &Submission) -> bool {
    submission.state.is_live() && !submission.spec.opportunistic
}

/// Whether a job runs, or is told to.
fn active(submission: &Submission) -> bool {
    matches!(submission.state, SubmissionState::Starting | SubmissionState::Running)
}

fn scheduler(rule: Rule, hosts: Capacity) -> Scheduler {
    let profile = Profile { iteration_s: 1.0, stages: Stages { load_s: 0.0, gpu_s: 1.0, net_s: 0.0 }, restart_s: RESTART_S };
    let settings = policy::schedule::Settings { timing: Timing::Paper, profiles: vec![profile], explain: true };
    Scheduler::new(rule, hosts, settings)
}

fn seconds(origin: FabricTime, at: FabricTime) -> f64 {
    at.minus(origin) as f64 / NS
}

fn job_at(origin: FabricTime, now: FabricTime, submission: &Submission, gpus: u32) -> Job {
    let of = |time: Nanos| time.0 as f64 / NS;
    let alone_s = of(submission.spec.iteration);
    Job {
        gpus,
        gpus_max: gpus,
        profile: 0,
        opportunistic: false,
        weight: 1,
        submitted_s: seconds(origin, submission.submitted),
        declared_s: of(submission.spec.total),
        alone_s,
        left: of(submission.left_at(now)) / alone_s,
        ran_s: of(submission.ran_at(now)),
        running: active(submission),
        started: submission.attempt > 0,
    }
}
