//! The scheduler beside a shadow that keeps count of every GPU, in random schedules with faults.

mod fifo;
mod learned;
mod room;
mod trouble;

use alloc::{collections::BTreeSet, format, string::ToString, sync::Arc, vec::Vec};

use policy::schedule::{Decision, Job, Place, Rule, Run};
use proptest::prelude::*;
use units::Nanos;

use super::*;
use crate::{Document, Severity};

const S: u64 = 1_000_000_000;
const GPUS_PER_HOST: u32 = 4;
const HOSTS: u32 = 6;

fn settings(rule: Rule) -> Settings {
    let seconds = |n: u64| Nanos(n * S);
    Settings { rule, round: seconds(360), start_within: seconds(60), stop_within: seconds(120) }
}

/// Hosts of [`GPUS_PER_HOST`] GPUs each.
fn hosts(n: u32) -> Hosts {
    let all = (0..n).map(|host| SchedulerHost { name: format!("h{host}"), leaf: host / 2, gpus: GPUS_PER_HOST }).collect();
    Hosts { plan_version: 1, all, ..Hosts::default() }
}

fn spec(gpus: u32, seconds: u64) -> SubmissionSpec {
    SubmissionSpec {
        asked: [u8::try_from(gpus % 251).unwrap(); 32],
        owner: None,
        bytes: 1_000,
        gpus,
        document: Document::new(Arc::new(gpus)),
        has_profile: true,
        learn: false,
        opportunistic: false,
        iteration: Nanos(S),
        total: Nanos(seconds * S),
        lease: None,
    }
}

/// What the caller does: the plan, the store, and what was told.
struct World {
    now: FabricTime,
    scheduling: Scheduling,
    hosts: Hosts,
    /// What is durable.
    kept: BTreeMap<Arc<str>, Arc<Submission>>,
    committed: BTreeSet<String>,
    told: Vec<Notice>,
    answers: BTreeMap<RequestId, Result<Arc<Submission>, SubmissionRefusal>>,
    asked: u64,
    infeasible: Vec<String>,
    /// Refusals of the next changes, last first.
    faults: Vec<Option<Refusal>>,
    chosen: usize,
    /// Whether a ranking takes its time, and the one that does: its ticket, and how many candidates it has.
    slow_ranking: bool,
    ranking: Option<(Ticket, usize)>,
}

impl World {
    fn new(rule: Rule, hosts: Hosts) -> Self {
        let now = FabricTime(1_000_000 * S);
        let mut world = Self {
            now,
            scheduling: Scheduling::new(settings(rule), now, []),
            hosts,
            kept: BTreeMap::new(),
            committed: BTreeSet::new(),
            told: Vec::new(),
            answers: BTreeMap::new(),
            asked: 0,
            infeasible: Vec::new(),
            faults: Vec::new(),
            chosen: 0,
            slow_ranking: false,
            ranking: None,
        };
        world.act();
        world
    }

    fn act(&mut self) {
        while let Some(action) = self.scheduling.poll() {
            match action {
                SchedulingAction::Look => self.scheduling.handle_hosts(self.now, self.hosts.clone()),
                SchedulingAction::Rank { ticket, jobs, candidates } => {
                    assert!(candidates.iter().all(|places| places.len() == jobs.len()));
                    assert!(self.ranking.replace((ticket, candidates.len())).is_none(), "one question at a time");
                    if !self.slow_ranking {
                        self.ranked();
                    }
                }
                SchedulingAction::Change { ticket, step } => self.change(ticket, step),
                SchedulingAction::Answer { request, result } => {
                    assert!(self.answers.insert(request, result).is_none(), "{request:?} is answered twice");
                }
                SchedulingAction::Infeasible { problem } => self.infeasible.push(problem),
            }
            self.check();
        }
    }

    /// Answers the question for the best places.
    fn ranked(&mut self) {
        if let Some((ticket, candidates)) = self.ranking.take() {
            self.chosen += 1;
            self.scheduling.handle_ranked(self.now, ticket, self.chosen % (candidates + 1), "ranked");
        }
    }

    /// Others commit on a host or release it, of which the scheduler hears when it looks.
    fn take(&mut self, host: &str) {
        if !self.hosts.taken.remove(host) {
            self.hosts.taken.insert(host.into());
        }
        self.hosts.plan_version += 1;
    }

    /// The scheduler hears of the cluster.
    fn look(&mut self) {
        self.scheduling.handle_hosts(self.now, self.hosts.clone());
        self.act();
    }

    fn change(&mut self, ticket: Ticket, step: Step) {
        let moved = |expected| Refusal::PlanVersionMoved { plan_version: self.hosts.plan_version, expected };
        let guard = step.if_plan_version.filter(|expected| *expected != self.hosts.plan_version).map(moved);
        // As the service does, which knows the plan as it is.
        let starts = step.submissions.iter().filter_map(|(_, s)| s.as_ref()).filter(|s| s.state == SubmissionState::Starting);
        let beside = starts.flat_map(|s| &s.place).any(|place| self.hosts.taken.contains(&place.host));
        let guard = guard.or_else(|| beside.then(|| moved(0)));
        if let Some(refusal) = guard.or_else(|| self.faults.pop().flatten()) {
            self.scheduling.handle_done(self.now, ticket, Err(refusal));
            return;
        }
        self.shadow(&step);
        assert!(step.notices.len() <= crate::config::NOTICES_MAX, "{} notices", step.notices.len());
        for (name, submission) in &step.submissions {
            match submission {
                Some(submission) => self.kept.insert(Arc::clone(name), Arc::clone(submission)),
                None => self.kept.remove(name),
            };
        }
        step.release.iter().for_each(|job| assert!(self.committed.remove(job), "{job} was not committed"));
        self.committed.extend(step.start.iter().map(|s| s.name.to_string()));
        self.hosts.plan_version += u64::from(step.start.is_some() || !step.release.is_empty());
        self.told.extend(step.notices);
        self.scheduling.handle_done(self.now, ticket, Ok(self.hosts.plan_version));
    }

    /// Every start was told with its place, is the next of its job, and stands on hosts that are free.
    fn shadow(&self, step: &Step) {
        for (name, next) in step.submissions.iter().filter_map(|(name, s)| Some((name, s.as_ref()?))) {
            let before = self.kept.get(name);
            if next.state == SubmissionState::Starting {
                let before = before.unwrap();
                assert_eq!((before.state, next.attempt), (SubmissionState::Queued, before.attempt + 1));
                assert!(next.place.iter().all(|place| !self.hosts.taken.contains(&place.host)), "{next:?}");
                let order = step.notices.iter().find(|n| n.kind.word() == "job_start").and_then(|n| n.order.clone()).unwrap();
                assert_eq!((order.attempt, &order.place), (next.attempt, &next.place));
                assert_eq!(step.start.as_ref().map(|s| &s.name), next.planned.then_some(name));
            } else if let Some(before) = before {
                assert_eq!(next.attempt, before.attempt);
                assert!(next.ran >= before.ran && (next.place == before.place || next.place.is_empty()));
            } else {
                assert_eq!(next.state, SubmissionState::Queued);
            }
        }
    }

    /// No GPU is held twice, everybody holds what was asked for, and the plan has those who are planned.
    fn check(&self) {
        let mut held = BTreeSet::new();
        for s in self.kept.values() {
            let gpus: u32 = s.place.iter().map(|place| place.gpus.len() as u32).sum();
            assert_eq!(gpus, if s.state.holds() { s.spec.gpus } else { 0 }, "{s:?}");
            for place in &s.place {
                for gpu in &place.gpus {
                    assert!(*gpu < GPUS_PER_HOST && held.insert((place.host.clone(), *gpu)), "{} {gpu} is held twice", place.host);
                }
            }
        }
        let planned: BTreeSet<String> = self.kept.values().filter(|s| s.planned).map(|s| s.name.to_string()).collect();
        assert_eq!(planned, self.committed);
    }

    fn request(&mut self) -> RequestId {
        self.asked += 1;
        RequestId(self.asked)
    }

    fn submit(&mut self, name: &str, spec: SubmissionSpec) -> RequestId {
        let request = self.request();
        self.scheduling.handle_submit(self.now, request, "ann".into(), name.into(), Arc::new(spec));
        self.act();
        request
    }

    fn withdraw(&mut self, name: &str) {
        let request = self.request();
        self.scheduling.handle_withdraw(self.now, request, "ann".into(), name.into());
        self.act();
    }

    fn report(&mut self, name: &str, report: RunReport) -> Result<Arc<Submission>, SubmissionRefusal> {
        let attempt = self.kept.get(name).map_or(0, |s| s.attempt);
        self.report_of(name, attempt, report)
    }

    fn report_of(&mut self, name: &str, attempt: u32, report: RunReport) -> Result<Arc<Submission>, SubmissionRefusal> {
        let request = self.request();
        self.scheduling.handle_report(self.now, request, name.into(), attempt, report);
        self.act();
        self.answers[&request].clone()
    }

    fn pass(&mut self, seconds: u64) {
        let until = self.now.saturating_add(Nanos(seconds * S));
        while let Some(due) = self.scheduling.poll_timeout().filter(|due| *due <= until) {
            self.now = self.now.max(due);
            self.scheduling.handle_timeout(self.now);
            self.act();
        }
        self.now = until;
        self.scheduling.handle_timeout(self.now);
        self.act();
    }

    fn state(&self, name: &str) -> SubmissionState {
        self.kept[name].state
    }

    /// Every second host has so many GPUs from now on, beginning with the first; the fabric is another one.
    fn unequal(&mut self, gpus: u32) {
        self.hosts.all.iter_mut().step_by(2).for_each(|host| host.gpus = gpus);
    }

    /// The service ends at once and begins again.
    fn restart(&mut self) {
        let settings = self.scheduling.settings.clone();
        self.ranking = None;
        // What lies in the future was written before the clock went back.
        self.kept.values_mut().for_each(|s| *s = by(self.now, Arc::clone(s)));
        self.scheduling = Scheduling::new(settings, self.now, self.kept.values().cloned());
        self.act();
    }

    /// Time passes, and the executor does what it is told.
    fn run(&mut self, seconds: u64) {
        for _ in 0..seconds / 50 {
            self.pass(50);
            self.obey();
        }
    }

    fn kinds(&self, job: &str) -> Vec<&'static str> {
        self.told.iter().filter(|n| n.job.as_deref() == Some(job)).map(|n| n.kind.word()).collect()
    }

    /// An executor that does what it is told; jobs end when they have run as long as they were declared.
    fn obey(&mut self) {
        let all: Vec<Arc<Submission>> = self.kept.values().cloned().collect();
        for s in all {
            let _ = match s.state {
                SubmissionState::Starting => self.report(&s.name, RunReport::Started),
                SubmissionState::Stopping(_) => self.report(&s.name, RunReport::Stopped),
                SubmissionState::Running if s.left_at(self.now) == Nanos(0) => self.report(&s.name, RunReport::Finished),
                SubmissionState::Running => self.report(&s.name, RunReport::Started),
                _ => continue,
            };
        }
    }
}

#[test]
fn a_job_is_queued_started_preempted_and_ends() {
    let mut world = World::new(Rule::Srtf, hosts(2));
    world.submit("long", spec(8, 10_000));
    assert_eq!(world.state("long"), SubmissionState::Starting);
    world.report("long", RunReport::Started).unwrap();
    world.pass(400);
    world.submit("short", spec(4, 100));
    // Nobody stopped a job before, so this one is stopped at once; its GPUs are not free before it has.
    assert_eq!((world.state("long"), world.state("short")), (SubmissionState::Stopping(After::Queue), SubmissionState::Queued));
    assert_eq!(world.scheduling.waits_for("short"), Some("is next: wants 4 GPUs, 0 are free, others have to stop"));
    world.report("long", RunReport::Stopped).unwrap();
    assert_eq!((world.state("long"), world.state("short")), (SubmissionState::Queued, SubmissionState::Starting));
    assert_eq!(world.kept["long"].ran, Nanos(400 * S));
    world.report("short", RunReport::Started).unwrap();
    world.pass(100);
    world.report("short", RunReport::Finished).unwrap();
    assert_eq!((world.state("short"), world.kept["long"].attempt), (SubmissionState::Finished, 2));
    assert_eq!(world.kinds("long"), ["submitted", "job_start", "job_running", "job_preempt", "job_stopped", "job_start"]);
    assert_eq!(world.kinds("short"), ["submitted", "job_start", "job_running", "job_finished"]);
    assert!(world.told.iter().all(|told| (told.by.as_deref() == Some("ann")) == (told.kind.word() == "submitted")), "{:?}", world.told);
    // What an executor that was away says of the first start is refused, and told why.
    let refused = world.report_of("long", 1, RunReport::Finished).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "job \"long\" is starting at start 2, and this report is of start 1; what still runs of that one has to stop"
    );
}

#[test]
fn leases_of_themis_outlast_a_restart_and_a_host_that_others_take() {
    let mut world = World::new(Rule::Themis, hosts(2));
    world.submit("a", spec(8, 10_000));
    world.report("a", RunReport::Started).unwrap();
    world.submit("b", spec(4, 100));
    world.pass(600);
    world.restart();
    world.pass(600);
    // The lease of 1,200 s began anew with the restart.
    assert_eq!((world.state("a"), world.state("b")), (SubmissionState::Running, SubmissionState::Queued));
    world.hosts.taken.insert("h1".into());
    world.scheduling.handle_hosts(world.now, world.hosts.clone());
    world.act();
    assert_eq!(world.state("a"), SubmissionState::Running);
    world.pass(700);
    assert_eq!(world.state("a"), SubmissionState::Stopping(After::Queue), "{:?}", world.kept["a"]);
    world.report("a", RunReport::Stopped).unwrap();
    // The host that others took gives nothing any more.
    assert_eq!(world.kept["b"].place, [HostGpus { host: "h0".into(), gpus: (0..4).collect() }]);
}

#[test]
fn who_never_answers_loses_the_place_and_in_the_end_the_job() {
    let mut world = World::new(Rule::Srsf, hosts(1));
    world.submit("a", spec(2, 100));
    for failures in 1..FAILURES_MAX {
        world.pass(60);
        assert_eq!((world.state("a"), world.kept["a"].failures), (SubmissionState::Starting, failures));
    }
    world.pass(60);
    assert_eq!(world.state("a"), SubmissionState::Failed);
    assert_eq!(world.kept["a"].why, "was not started within 60 s, at the last of 3 starts in vain");
    // Who does not say that it stopped: its place is given back after the bound.
    world.submit("b", spec(2, 100));
    world.report("b", RunReport::Started).unwrap();
    world.withdraw("b");
    world.pass(119);
    assert_eq!(world.state("b"), SubmissionState::Stopping(After::Withdrawn));
    world.pass(1);
    assert_eq!(world.state("b"), SubmissionState::Withdrawn);
    assert!(world.kinds("b").contains(&"job_overdue"));
    // A lease holds for as long as somebody renews it.
    world.submit("c", SubmissionSpec { lease: Some(Nanos(50 * S)), ..spec(2, 1_000) });
    world.report("c", RunReport::Started).unwrap();
    for _ in 0..4 {
        world.pass(40);
        world.report("c", RunReport::Started).unwrap();
        assert_eq!(world.state("c"), SubmissionState::Running);
    }
    world.pass(51);
    assert_eq!((world.state("c"), world.kept["c"].attempt, world.kept["c"].ran), (SubmissionState::Starting, 2, Nanos(210 * S)));
}

#[test]
fn an_infeasible_decision_is_named_and_nothing_of_it_is_done() {
    fn runs(jobs: &[Job], place: Option<Place>) -> Decision {
        let run = |job: usize| Run { job: job as u32, group: job as u32, iteration_s: 1.0, restart_s: 0.0 };
        Decision { runs: (0..jobs.len()).map(run).collect(), places: place.into_iter().collect(), ..Decision::default() }
    }
    type Script = fn(&[Job]) -> Decision;
    let scripts: [(Script, &str); 5] = [
        // Two jobs of 4 GPUs on one host of 4.
        (|jobs| runs(jobs, None), "the cluster has 4 GPUs and gives 8"),
        (|jobs| runs(jobs, Some(Place { group: 0, host: 7, gpus: 4 })), "host 7 has 0 GPUs and gives 4"),
        (|jobs| runs(&jobs[..1], Some(Place { group: 0, host: 0, gpus: 2 })), "job 0 needs 4 GPUs, its group has 2 (job \"a\")"),
        (
            |jobs| Decision { runs: runs(jobs, None).runs.iter().map(|run| Run { group: 0, ..*run }).collect(), ..Decision::default() },
            "jobs \"a\" and \"b\" were to share GPUs",
        ),
        (
            |jobs| Decision {
                runs: runs(jobs, None).runs.iter().map(|run| Run { job: 9 + run.job, ..*run }).collect(),
                ..Decision::default()
            },
            "job 9 does not exist or runs twice",
        ),
    ];
    for (script, problem) in scripts {
        let mut world = World::new(Rule::Srtf, hosts(1));
        world.scheduling.decider.script(|_| Decision::default());
        world.submit("a", spec(4, 100));
        world.submit("b", spec(4, 100));
        world.scheduling.decider.script(script);
        world.submit("c", SubmissionSpec { opportunistic: true, ..spec(1, 100) });
        assert_eq!(world.infeasible, [problem]);
        assert!(world.kept.values().all(|s| s.state == SubmissionState::Queued), "{problem}");
        // The next decision that fits is carried out.
        world.scheduling.decider.script(|jobs| runs(&jobs[..1], None));
        world.withdraw("c");
        assert_eq!(world.state("a"), SubmissionState::Starting);
    }
}

#[test]
fn bad_requests_change_nothing() {
    let mut world = World::new(Rule::Srtf, hosts(2));
    world.hosts.others.insert("theirs".into());
    world.scheduling.handle_hosts(world.now, world.hosts.clone());
    world.act();
    world.submit("a", spec(4, 100));
    let before = world.kept.clone();
    let mut refused = |name: &str, spec: SubmissionSpec| {
        let request = world.submit(name, spec);
        world.answers[&request].clone().map(|s| s.name.to_string()).map_err(|e| e.to_string())
    };
    assert_eq!(refused("a", spec(4, 100)), Ok("a".into()), "the same again");
    // What was derived from what was asked may be another on another fabric.
    assert_eq!(refused("a", SubmissionSpec { iteration: Nanos(7), total: Nanos(8), ..spec(4, 100) }), Ok("a".into()));
    assert_eq!(refused("a", spec(3, 100)), Err("job \"a\" was submitted with another content".into()));
    assert_eq!(refused("b", spec(9, 100)), Err("job \"b\" needs 9 GPUs; the cluster has 8".into()));
    assert_eq!(refused("b", spec(0, 100)), Err("job \"b\" needs 0 GPUs; the cluster has 8".into()));
    assert_eq!(refused("theirs", spec(1, 1)), Err("job \"theirs\" was committed by somebody else".into()));
    assert_eq!(world.report("moon", RunReport::Started), Err(SubmissionRefusal::Unknown("moon".into())));
    for attempt in [0, 2, u32::MAX] {
        assert!(matches!(world.report_of("a", attempt, RunReport::Finished), Err(SubmissionRefusal::Stale { .. })), "{attempt}");
    }
    assert_eq!(world.kept, before);
}

#[test]
fn a_job_without_a_profile_and_one_that_the_plan_refuses_run_free() {
    let mut world = World::new(Rule::Srtf, hosts(2));
    world.submit("a", SubmissionSpec { has_profile: false, ..spec(4, 100) });
    assert!(world.kept["a"].why.ends_with("; runs free, without a profile and not to be learned") && !world.kept["a"].planned);
    // The submission is written, and the start refused.
    world.faults = alloc::vec![Some(Refusal::Policy("no capacity".into())), None];
    world.submit("b", spec(4, 100));
    assert_eq!((world.state("b"), world.kept["b"].planned), (SubmissionState::Starting, false));
    assert!(world.kept["b"].why.ends_with("; runs free, the plan refused it: no capacity"), "{:?}", world.kept["b"]);
    // A store that fails is an error to whoever asks, and no start is lost.
    world.faults = alloc::vec![Some(Refusal::Store("disk".into()))];
    let request = world.submit("c", spec(1, 100));
    assert_eq!(world.answers[&request], Err(Refusal::Store("disk".into()).into()));
    world.report("a", RunReport::Finished).unwrap();
    world.pass(1);
    world.faults = alloc::vec![Some(Refusal::Store("disk".into())), None];
    world.submit("c", spec(1, 100));
    assert_eq!(world.state("c"), SubmissionState::Queued);
    world.pass(1);
    assert_eq!(world.state("c"), SubmissionState::Starting);
}

#[derive(Clone, Debug)]
enum Op {
    Submit {
        gpus: u32,
        seconds: u64,
        profile: bool,
        opportunistic: bool,
        lease: bool,
    },
    Withdraw(usize),
    Report(usize, RunReport),
    Obey,
    Pass(u64),
    Fault(u8),
    Taken(u32),
    /// The same, and the scheduler has not heard of it.
    TakenUnseen(u32),
    /// Rankings take their time from now on, or no more.
    SlowRanking(bool),
    /// The ranking is done.
    Ranked,
    /// The service begins again, its clock so many seconds earlier, and its hosts have so many GPUs.
    Restart(u64, u32),
    /// The fabric is another one, and every second of its hosts has so many GPUs.
    Unequal(u32),
    /// Somebody else changes the plan.
    Other,
}

fn op() -> impl Strategy<Value = Op> {
    let report = prop_oneof![Just(RunReport::Started), Just(RunReport::Finished), Just(RunReport::Stopped)];
    prop_oneof![
        6 => (1_u32..20, 1_u64..3_000, any::<bool>(), prop::bool::weighted(0.2), prop::bool::weighted(0.2)).prop_map(
            |(gpus, seconds, profile, opportunistic, lease)| Op::Submit { gpus, seconds, profile, opportunistic, lease }
        ),
        1 => (0_usize..40).prop_map(Op::Withdraw),
        3 => (0_usize..40, report).prop_map(|(job, report)| Op::Report(job, report)),
        4 => Just(Op::Obey),
        4 => (1_u64..500).prop_map(Op::Pass),
        1 => (0_u8..3).prop_map(Op::Fault),
        1 => (0_u32..HOSTS).prop_map(Op::Taken),
        1 => (0_u32..HOSTS).prop_map(Op::TakenUnseen),
        1 => any::<bool>().prop_map(Op::SlowRanking),
        1 => Just(Op::Ranked),
        1 => (prop_oneof![2 => Just(0_u64), 1 => 1_u64..5_000], 2_u32..=GPUS_PER_HOST).prop_map(|(back, gpus)| Op::Restart(back, gpus)),
        1 => (2_u32..=GPUS_PER_HOST).prop_map(Op::Unequal),
        1 => Just(Op::Other),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    /// In any schedule with faults: no GPU is held twice, every start was decided and told, every request is answered once, what was
    /// acknowledged stays over restarts; and in the end, when nothing fails any more, everybody has run.
    #[test]
    fn no_gpu_is_held_twice_and_nothing_is_lost(ops in prop::collection::vec(op(), 1..120), rule in 0_usize..5) {
        let rule = [Rule::Fifo, Rule::Srtf, Rule::Srsf, Rule::TIRESIAS, Rule::Themis][rule];
        let mut world = World::new(rule, hosts(HOSTS));
        let mut names: BTreeMap<Arc<str>, SubmissionSpec> = BTreeMap::new();
        for op in ops {
            let job = |at: usize| format!("j{}", at % names.len().max(1));
            match op {
                Op::Submit { gpus, seconds, profile, opportunistic, lease } => {
                    let name = format!("j{}", names.len());
                    let lease = lease.then_some(Nanos(200 * S));
                    let spec = SubmissionSpec { has_profile: profile, opportunistic, lease, ..spec(gpus, seconds) };
                    let request = world.submit(&name, spec.clone());
                    if world.answers.get(&request).is_some_and(Result::is_ok) {
                        names.insert(name.into(), spec);
                    }
                }
                Op::Withdraw(at) => { let name = job(at); world.withdraw(&name) }
                Op::Report(at, report) => { let name = job(at); let _ = world.report(&name, report); }
                Op::Obey => world.obey(),
                Op::Pass(seconds) => world.pass(seconds),
                Op::Fault(kind) => world.faults.push(Some(match kind {
                    0 => Refusal::Store("disk".into()),
                    1 => Refusal::Policy("no".into()),
                    _ => Refusal::FabricMoved { version: 2, expected: 1 },
                })),
                Op::Taken(host) => {
                    world.take(&format!("h{host}"));
                    world.look();
                }
                Op::TakenUnseen(host) => world.take(&format!("h{host}")),
                Op::SlowRanking(slow) => world.slow_ranking = slow,
                Op::Ranked => { world.ranked(); world.act(); }
                Op::Restart(back, gpus) => {
                    world.now = FabricTime(world.now.0 - back * S);
                    world.unequal(gpus);
                    world.restart();
                }
                Op::Unequal(gpus) => {
                    world.unequal(gpus);
                    world.look();
                }
                Op::Other => world.hosts.plan_version += 1,
            }
            world.check();
            for (name, spec) in &names {
                prop_assert_eq!(&*world.kept[name].spec, spec);
            }
            let shown: BTreeMap<Arc<str>, Arc<Submission>> = world.scheduling.submissions().map(|s| (s.name.clone(), s.clone())).collect();
            prop_assert_eq!(&shown, &world.kept);
        }
        world.faults.clear();
        world.slow_ranking = false;
        world.ranked();
        world.act();
        world.unequal(GPUS_PER_HOST);
        world.restart();
        let mut turns = 0;
        // As long as others keep their hosts, everybody runs who fits on the other ones; then they give them back.
        for given_back in [false, true] {
            if given_back {
                world.hosts.taken.clear();
                world.look();
            }
            let fits = (HOSTS - world.hosts.taken.len() as u32) * GPUS_PER_HOST;
            while world.kept.values().any(|s| !s.state.is_over() && s.spec.gpus <= fits) {
                world.obey();
                world.pass(30);
                turns += 1;
                prop_assert!(turns < 20_000, "{:?}", world.kept);
            }
        }
        prop_assert!(world.infeasible.is_empty(), "{:?}", world.infeasible);
        prop_assert_eq!(world.answers.len() as u64, world.asked);
        // A job that has failed may turn out to have run to its end.
        let warned: BTreeSet<&str> = world.told.iter().filter(|n| n.severity == Severity::Error).filter_map(|n| n.job.as_deref()).collect();
        let ended = |name: &&str| matches!(world.kept[*name].state, SubmissionState::Failed | SubmissionState::Finished);
        prop_assert!(warned.iter().all(ended));
        prop_assert!(world.kept.values().filter(|s| s.state == SubmissionState::Failed).all(|s| warned.contains(&*s.name)));
    }
}
