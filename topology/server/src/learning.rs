//! Jobs that are learned: what agents found in the counters of their hosts becomes the profile with which a job is planned.
//!
//! A job that is committed to be learned runs free until its agent has told the same twice in a row. Then it is committed anew with that
//! profile, as a client would do it, but for its lease, which stays. While it runs free, what its agent tells later replaces the profile
//! where it is another job's; a job that is held, or takes turns, keeps another time than its own, and is judged by its gates.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use job::{Job, JobDoc};
use profile::LearnedIteration;
use proto::v1alpha1::LearnedJob;
use state::{
    Change, Commit, Notice, NoticeKind, Refusal, Reply, Severity,
    config::{MISMATCH_PERMILLE, measured_apart},
};
use units::{Nanos, OneLine, Rate};

use crate::{
    controller::{ControllerHandle, JobView, Snapshot, Surroundings},
    quic,
    resolve::{self, one_line},
    tls::Subject,
};

/// How often what was told is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Times in a row that an agent has to tell the same.
const AGREE: u32 = 2;
/// Phases taken of one job: what a port shows at a few milliseconds has a dozen.
const PHASES_MAX: usize = 64;
/// Two tellings are the same within so much: the period, in thousandths of it, and what is sent, in thousandths of the period.
const SAME_PERMILLE: u32 = 30;
/// A rate is another from so much on: what is beside the job on its port counts in it.
const RATE_PERMILLE: u32 = 250;
/// Shortest and longest iteration that is believed: counters show none that is shorter, and none of an hour repeats in what is kept.
const PERIOD_NS: std::ops::RangeInclusive<u64> = 1_000_000..=3_600_000_000_000;

/// Takes what agents learned. Cloning it shares it.
#[derive(Clone, Debug, Default)]
pub struct Learning(Arc<Mutex<Shared>>);

#[derive(Debug, Default)]
struct Shared {
    /// The host that leads each job which is to be learned, in the plan that was looked at last. What others tell is not taken: an agent
    /// speaks for the jobs of its host.
    leaders: BTreeMap<String, String>,
    /// By host and job.
    told: BTreeMap<(String, String), Told>,
    /// When a job that was planned as learned may be planned anew, and how long it was told to wait.
    planned: BTreeMap<String, (Instant, Nanos)>,
}

/// What was told of a job last.
#[derive(Clone, Debug)]
struct Told {
    job: LearnedJob,
    /// Tellings in a row that are the same.
    agree: u32,
    /// Not looked at yet.
    new: bool,
}

impl Learning {
    /// Takes what the agent of a host learned. What no agent would tell is nobody's.
    pub fn take(&self, host: &str, told: LearnedJob) {
        if !is_sound(&told) {
            return;
        }
        let mut shared = self.shared();
        if shared.leaders.get(&told.job).is_none_or(|leader| leader != host) {
            return;
        }
        // There are at most as many as leaders, so at most as many as jobs.
        let key = (host.to_owned(), told.job.clone());
        let agree = match shared.told.get(&key) {
            Some(before) if same(&before.job, &told) => before.agree.saturating_add(1),
            _ => 1,
        };
        shared.told.insert(key, Told { job: told, agree, new: true });
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes from these leaders from now on, and forgets what others told.
    fn follow(&self, leaders: BTreeMap<String, String>) {
        let mut shared = self.shared();
        shared.told.retain(|(host, job), _| leaders.get(job) == Some(host));
        shared.planned.retain(|job, _| leaders.contains_key(job));
        shared.leaders = leaders;
    }

    /// What was told twice alike and not looked at yet, of jobs that may be planned anew.
    fn news(&self, now: Instant) -> Vec<((String, String), LearnedJob)> {
        let mut shared = self.shared();
        let Shared { told, planned, .. } = &mut *shared;
        let may = |job: &str| planned.get(job).is_none_or(|(until, _)| *until <= now);
        let new = told.iter_mut().filter(|((_, job), told)| told.new && told.agree >= AGREE && may(job));
        new.map(|(key, told)| {
            told.new = false;
            (key.clone(), told.job.clone())
        })
        .collect()
    }

    /// The job was planned as learned. Each time it stays so for longer: an agent may tell another job every few seconds, and each of them
    /// makes a plan and a line of the trail.
    fn is_planned(&self, job: &str, now: Instant) {
        let mut shared = self.shared();
        let apart = measured_apart(shared.planned.get(job).map(|(_, apart)| *apart));
        shared.planned.insert(job.to_owned(), (now + Duration::from_nanos(apart.0), apart));
    }

    /// Looks at it again.
    fn again(&self, key: &(String, String)) {
        if let Some(told) = self.shared().told.get_mut(key) {
            told.new = true;
        }
    }

    /// Looks, until it is stopped.
    pub async fn run(self, controller: ControllerHandle, around: Surroundings) {
        let mut looked = None;
        loop {
            let Ok(snapshot) = controller.snapshot().await else { return };
            // Jobs are the same as long as plan and fabric are.
            let is_now = Some((snapshot.plan_version, snapshot.fabric.as_ref().map(|fabric| fabric.version)));
            if is_now != looked {
                looked = is_now;
                self.follow(leaders(&snapshot));
            }
            // Each commit makes a plan of the next version, on which the next one stands.
            let mut plan_version = snapshot.plan_version;
            for (key, told) in self.news(Instant::now()) {
                match learn(&controller, &around, &snapshot, plan_version, (&key.0, &told)).await {
                    Outcome::Planned(version) => {
                        plan_version = version;
                        self.is_planned(&key.1, Instant::now());
                    }
                    Outcome::Left => {}
                    // Whoever changed the plan meanwhile comes first; the next look has it.
                    Outcome::Moved => self.again(&key),
                }
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// The host that leads each job which is to be learned. A job on one host sends nothing that a plan could move.
fn leaders(snapshot: &Snapshot) -> BTreeMap<String, String> {
    let is_learned = |view: &&JobView| {
        let name = &view.definition.job.name;
        view.definition.hosts.len() > 1 && resolve::kept(name, &view.definition.document).is_ok_and(|document| document.learn)
    };
    let leader = |view: &JobView| Some((view.definition.job.name.clone(), view.definition.hosts.first()?.clone()));
    snapshot.jobs.iter().filter(is_learned).filter_map(leader).collect()
}

/// What became of something that was learned.
enum Outcome {
    /// The job is planned with it, in the plan of this version.
    Planned(u64),
    /// The job stays as it is.
    Left,
    /// The plan is another by now.
    Moved,
}

fn is_sound(told: &LearnedJob) -> bool {
    let mut before = 0;
    let phases = told.phases.iter().all(|phase| {
        let follows = before <= phase.start_ns && phase.start_ns < phase.end_ns && phase.end_ns <= told.period_ns && phase.rate_mbps > 0;
        before = phase.end_ns;
        follows
    });
    units::check_name(&told.job).is_ok()
        && quic::is_port(&told.port)
        && PERIOD_NS.contains(&told.period_ns)
        && (1..=PHASES_MAX).contains(&told.phases.len())
        && told.iterations > 0
        && phases
}

fn sent(told: &LearnedJob) -> u64 {
    told.phases.iter().map(|phase| phase.end_ns - phase.start_ns).sum()
}

fn within(a: u64, b: u64, permille: u32, of: u64) -> bool {
    u128::from(a.abs_diff(b)) * 1_000 <= u128::from(permille) * u128::from(of)
}

fn same(a: &LearnedJob, b: &LearnedJob) -> bool {
    within(a.period_ns, b.period_ns, SAME_PERMILLE, a.period_ns) && within(sent(a), sent(b), 2 * SAME_PERMILLE, a.period_ns)
}

/// Whether what was learned is another job than the planned one.
fn is_another(planned: &Job, told: &LearnedJob) -> bool {
    let fastest = |rates: &mut dyn Iterator<Item = u64>| rates.max().unwrap_or(0);
    let (ours, theirs) =
        (fastest(&mut planned.phases.iter().map(|phase| phase.rate.mbps())), fastest(&mut told.phases.iter().map(|phase| phase.rate_mbps)));
    planned.phases.is_empty()
        || !within(planned.period.0, told.period_ns, MISMATCH_PERMILLE, planned.period.0)
        || !within(planned.up(), sent(told), 2 * MISMATCH_PERMILLE, planned.period.0)
        || !within(ours, theirs, RATE_PERMILLE, ours)
}

/// Commits the job anew with what its leader learned, where that is another job than the planned one.
async fn learn(
    controller: &ControllerHandle,
    around: &Surroundings,
    snapshot: &Snapshot,
    plan_version: u64,
    (host, told): (&String, &LearnedJob),
) -> Outcome {
    let name = &told.job;
    let (Some(view), Some(fabric)) = (snapshot.job(name), &snapshot.fabric) else { return Outcome::Left };
    let planned = &view.definition.job;
    let Ok(document) = resolve::kept(name, &view.definition.document) else { return Outcome::Left };
    let gated = view.message.slot.as_ref().is_some_and(|slot| slot.hold || slot.turns);
    let leads = view.definition.hosts.first() == Some(host);
    if !document.learn || gated || !leads || view.definition.hosts.len() < 2 || !is_another(planned, told) {
        return Outcome::Left;
    }
    let learned = self::document(&document, &view.definition.hosts, told);
    let jobs = match resolve::definitions(&fabric.fabric, &[Arc::new(learned)]) {
        Ok(jobs) => jobs,
        Err(problem) => {
            tracing::warn!(job = name, problem, "what was learned of the job cannot be its profile");
            return Outcome::Left;
        }
    };
    let commit = Commit {
        jobs,
        if_fabric: Some(fabric.version),
        if_plan_version: Some(plan_version),
        learned: true,
        by: Some(Subject::learning().told),
        ..Commit::default()
    };
    match controller.change(Change::Commit(commit)).await {
        Ok(Ok(Reply::Committed(done))) => {
            tell(around, planned, told, host);
            Outcome::Planned(done.plan_version)
        }
        Ok(Err(Refusal::PlanVersionMoved { .. } | Refusal::FabricMoved { .. })) => Outcome::Moved,
        Ok(Err(refusal)) => {
            tracing::info!(job = name, problem = %one_line(&refusal), "the job is not planned as learned");
            Outcome::Left
        }
        Ok(Ok(_)) | Err(_) => Outcome::Left,
    }
}

/// The document of the job with the profile that was learned.
fn document(before: &JobDoc, hosts: &[String], told: &LearnedJob) -> JobDoc {
    let share = |ppm: u64| (ppm as f64 / 1e6).min(1.0);
    let found = LearnedIteration {
        period_ns: told.period_ns,
        phases: told.phases.iter().map(|phase| (phase.start_ns, phase.end_ns, phase.rate_mbps)).collect(),
        variance: share(told.jitter_ppm),
        confidence: share(told.confidence_ppm),
        iterations: told.iterations,
    };
    JobDoc { model: None, profile: Some(found.profile(&told.job, hosts.len())), ..before.clone() }
}

fn tell(around: &Surroundings, planned: &Job, told: &LearnedJob, host: &str) {
    let fastest = told.phases.iter().map(|phase| phase.rate_mbps).max().unwrap_or(0);
    let before = if planned.phases.is_empty() { String::new() } else { format!("; it was planned with {}", planned.period) };
    let message = format!(
        "job {} was learned: {} an iteration, of which it sends for {} at {} at most, from {} iterations at {}{before}",
        told.job,
        Nanos(told.period_ns),
        Nanos(sent(told)),
        Rate(fastest),
        told.iterations,
        OneLine(&told.port)
    );
    tracing::info!(kind = NoticeKind::Learned.word(), job = told.job, "{message}");
    around.metrics.notice(NoticeKind::Learned);
    around.events.push(Notice {
        by: None,
        at: around.clock.now(),
        severity: Severity::Info,
        kind: NoticeKind::Learned,
        message,
        job: Some(told.job.clone()),
        host: None,
        agent: Some(host.into()),
        plan_version: 0,
        order: None,
    });
}

/// Documents as they are to be committed: a job that is committed again to be learned keeps what was learned, whatever is declared of it, where
/// it has as many hosts.
pub(crate) fn keep_learned(document: Arc<JobDoc>, snapshot: &Snapshot) -> Arc<JobDoc> {
    if !document.learn {
        return document;
    }
    let known = snapshot.job(&document.id).and_then(|view| resolve::kept(&document.id, &view.definition.document).ok());
    let hosts = |document: &JobDoc| document.hosts.as_ref().map_or(0, Vec::len);
    match known {
        Some(known) if known.is_learned() && hosts(&known) == hosts(&document) => {
            Arc::new(JobDoc { model: None, profile: known.profile.clone(), ..(*document).clone() })
        }
        _ => document,
    }
}

#[cfg(test)]
mod tests {
    use proto::v1alpha1::Phase;

    use super::*;

    fn told(period_ms: u64, up_ms: u64, rate_mbps: u64) -> LearnedJob {
        let phases = vec![Phase { start_ns: 0, end_ns: up_ms * 1_000_000, rate_mbps }];
        let (job, port) = ("a".into(), "ens1".into());
        LearnedJob { job, port, period_ns: period_ms * 1_000_000, jitter_ppm: 20_000, confidence_ppm: 900_000, iterations: 40, phases }
    }

    fn led(leaders: &[(&str, &str)]) -> BTreeMap<String, String> {
        leaders.iter().map(|(job, host)| ((*job).into(), (*host).into())).collect()
    }

    #[test]
    fn only_what_is_told_twice_alike_counts() {
        let learning = Learning::default();
        learning.follow(led(&[("a", "h1")]));
        let agree = |told: LearnedJob| {
            learning.take("h1", told);
            learning.shared().told.values().next().map(|told| told.agree)
        };
        assert_eq!(agree(told(100, 40, 8_000)), Some(1));
        assert!(learning.news(Instant::now()).is_empty());
        assert_eq!(agree(told(102, 41, 8_000)), Some(2));
        assert_eq!((learning.news(Instant::now()).len(), learning.news(Instant::now()).len()), (1, 0), "each telling is looked at once");
        assert_eq!(agree(told(120, 41, 8_000)), Some(1), "another period");
        assert_eq!(agree(told(120, 60, 8_000)), Some(1), "another length");
        // What no agent tells changes nothing.
        let mut backwards = told(120, 60, 8_000);
        backwards.phases.push(Phase { start_ns: 10, end_ns: 20, rate_mbps: 5 });
        let named = |port: &str| LearnedJob { port: port.into(), ..told(120, 60, 8_000) };
        let forged = [named(""), named("eth0\u{1b}[2J"), named("eth0\n2026 ERROR forged"), named(&"x".repeat(50_000))];
        let strange = [told(0, 0, 1), told(100, 0, 1), told(100, 101, 1), told(100, 40, 0), backwards, LearnedJob::default()];
        for told in strange.into_iter().chain(forged) {
            assert_eq!(agree(told), Some(1));
        }
        assert_eq!(learning.shared().told.len(), 1);
    }

    #[test]
    fn only_the_leader_of_a_job_that_is_learned_is_heard() {
        let learning = Learning::default();
        let of = |job: &str| LearnedJob { job: job.into(), ..told(100, 40, 8_000) };
        // Nothing is known of the plan, or nobody is to be learned: an agent that makes names up fills nothing.
        learning.take("h1", of("a"));
        assert!(learning.shared().told.is_empty());
        learning.follow(led(&[("a", "h1"), ("b", "h2")]));
        learning.take("h1", of("a"));
        for job in 0..100 {
            learning.take("h2", of(&format!("job{job}")));
        }
        // Another host's agent neither stops nor resets what is learned of a job.
        learning.take("h2", LearnedJob { period_ns: 900_000_000, ..of("a") });
        learning.take("h1", of("a"));
        learning.take("h2", LearnedJob { period_ns: 900_000_000, ..of("a") });
        let news = learning.news(Instant::now());
        assert_eq!((learning.shared().told.len(), news.len()), (1, 1));
        assert_eq!(news[0].0, ("h1".into(), "a".into()));
        // What had to wait is looked at again; what is not in the plan any more, or led by another host, is forgotten.
        learning.again(&news[0].0);
        assert_eq!(learning.news(Instant::now()).len(), 1);
        learning.take("h2", of("b"));
        learning.follow(led(&[("a", "h3"), ("b", "h2")]));
        assert_eq!(learning.shared().told.keys().cloned().collect::<Vec<_>>(), [("h2".into(), "b".into())]);
    }

    /// An agent that tells another job every few seconds plans for everybody a few times a day.
    #[test]
    fn a_job_that_changes_all_the_time_is_planned_ever_more_rarely() {
        let learning = Learning::default();
        learning.follow(led(&[("a", "h1"), ("b", "h1")]));
        let start = Instant::now();
        let (mut planned, mut at) = (Vec::new(), Duration::ZERO);
        for telling in 0..86_400_u64 / 2 {
            at += LOOK_EVERY;
            learning.take("h1", told(if telling / 4 % 2 == 0 { 100 } else { 200 }, 40, 8_000));
            for (key, _) in learning.news(start + at) {
                learning.is_planned(&key.1, start + at);
                planned.push(at.as_secs());
            }
        }
        assert!(planned.len() <= 10, "in a day: {planned:?}");
        let waits: Vec<u64> = planned.windows(2).map(|two| (two[1] - two[0]) / 60).collect();
        assert_eq!(waits[..4], [1, 4, 16, 64]);
        // Another job of the same agent does not wait, nor one that is committed after it was gone.
        let twice = |job: &str| {
            (0..2).for_each(|_| learning.take("h1", LearnedJob { job: job.into(), ..told(300, 40, 8_000) }));
            learning.news(start + at).len()
        };
        assert_eq!((twice("a"), twice("b")), (0, 1));
        learning.follow(led(&[("b", "h1")]));
        learning.follow(led(&[("a", "h1"), ("b", "h1")]));
        assert_eq!(twice("a"), 1);
    }

    #[test]
    fn a_learned_profile_is_one_that_can_be_committed() {
        let fabric = fabric::generate::cassini24().unwrap();
        let hosts: Vec<String> = ["h1", "h2"].map(String::from).to_vec();
        let before = JobDoc { id: "a".into(), hosts: Some(hosts.clone()), learn: true, ..JobDoc::default() };
        let unknown = resolve::definitions(&fabric, &[Arc::new(before.clone())]).unwrap();
        assert!(unknown[0].job.phases.is_empty() && unknown[0].placement.ranks.len() == 2);
        let learned = LearnedJob { period_ns: 255_137_291, ..told(255, 114, 38_000) };
        let made = document(&before, &hosts, &learned);
        let planned = resolve::definitions(&fabric, &[Arc::new(made.clone())]).unwrap();
        assert_eq!((planned[0].job.period, planned[0].job.up()), (Nanos(255_000_000), 114_000_000));
        // The same again is no other job; a longer one is, and so is one that sends for longer, or faster.
        let another = |told: LearnedJob| is_another(&planned[0].job, &told);
        assert!(is_another(&unknown[0].job, &learned) && !another(learned));
        assert_eq!([another(told(280, 114, 38_000)), another(told(255, 150, 38_000)), another(told(255, 114, 60_000))], [true; 3]);
        assert!(made.is_learned() && !before.is_learned());
    }
}
