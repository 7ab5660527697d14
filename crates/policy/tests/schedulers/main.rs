//! Decisions of the schedulers, on clusters small enough to work them out by hand.

mod antman;
mod auction;
mod fifo;
mod growth;
mod tiresias;
mod world;

use antiphase_policy::{
    muri::{Order, Profile, Timing, measured},
    schedule::{Cluster, Decision, GandivaOptions, Job, JobIndex, MuriOptions, Reason, Rule, Scheduler, Settings, Trial},
};
use proptest::prelude::*;

const ONE_HOST: Cluster = Cluster { hosts: 1, gpus_per_host: 8 };
const TWO_HOSTS: Cluster = Cluster { hosts: 2, gpus_per_host: 8 };

/// Profiles that the jobs below have, on 8 GPUs: one that loads, one that computes, one that does neither for long.
const MODELS: [&str; 3] = ["dqn", "gpt2", "vgg16"];

fn profiles() -> Vec<Profile> {
    MODELS.map(|name| measured(name).expect("a model").profile(8).expect("a size")).to_vec()
}

fn job(gpus: u32, profile: u16, left: f64) -> Job {
    let alone_s = Timing::Artifact.alone_s(profiles()[usize::from(profile)].iteration_s);
    Job {
        gpus,
        gpus_max: gpus,
        profile,
        opportunistic: false,
        weight: 1,
        submitted_s: 0.0,
        declared_s: alone_s * left,
        alone_s,
        left,
        ran_s: 0.0,
        running: false,
        started: false,
    }
}

fn scheduler(rule: Rule, cluster: Cluster) -> Scheduler {
    scheduler_timed(rule, cluster, Timing::Artifact)
}

fn scheduler_timed(rule: Rule, cluster: Cluster, timing: Timing) -> Scheduler {
    Scheduler::new(rule, cluster, Settings { timing, profiles: profiles(), explain: true })
}

/// Decides, and does what was decided.
fn decide(scheduler: &mut Scheduler, now_s: f64, jobs: &mut [Job]) -> Decision {
    let mut out = Decision::default();
    scheduler.decide(now_s, jobs, &mut out);
    out.check(scheduler.capacity(), jobs).expect("a decision that can be carried out");
    assert_eq!(out.reasons.len(), out.runs.len(), "each run has a reason");
    jobs.iter_mut().for_each(|job| job.running = false);
    for run in &out.runs {
        (jobs[run.job as usize].running, jobs[run.job as usize].started) = (true, true);
    }
    out
}

fn ran(decision: &Decision) -> Vec<JobIndex> {
    let mut jobs: Vec<JobIndex> = decision.runs.iter().map(|run| run.job).collect();
    jobs.sort_unstable();
    jobs
}

#[test]
fn srtf_and_srsf_differ_in_what_is_short() {
    // Job 0 is shorter; times its GPUs it is longer.
    let mut jobs = [job(8, 1, 100.0), job(1, 1, 200.0)];
    for (rule, first) in [(Rule::Srtf, 0), (Rule::Srsf, 1)] {
        let mut scheduler = scheduler(rule, ONE_HOST);
        (0..2).for_each(|job| scheduler.arrive(job));
        assert_eq!(ran(&decide(&mut scheduler, 0.0, &mut jobs)), [first], "{rule:?}");
        jobs.iter_mut().for_each(|job| job.running = false);
    }
}

#[test]
fn tiresias_lets_a_job_fall_when_it_has_had_its_service() {
    let mut jobs = [job(8, 1, 1e6), job(8, 1, 1e6)];
    let mut scheduler = scheduler(Rule::TIRESIAS, ONE_HOST);
    scheduler.arrive(0);
    assert_eq!(ran(&decide(&mut scheduler, 0.0, &mut jobs)), [0]);
    // 3,250 GPU seconds are 406.25 s on 8 GPUs, rounded up to whole seconds.
    assert_eq!(scheduler.next_change_s(0.0, &jobs), 407.0);
    scheduler.arrive(1);
    jobs[0].ran_s = 406.0;
    assert_eq!(ran(&decide(&mut scheduler, 406.0, &mut jobs)), [0], "who runs stays ahead within a queue");
    jobs[0].ran_s = 407.0;
    assert_eq!(ran(&decide(&mut scheduler, 407.0, &mut jobs)), [1]);
}

/// A service that is started again: what a policy promised goes on, and what a job has had counts.
#[test]
fn a_scheduler_that_begins_with_running_jobs_goes_on_with_them() {
    let mut jobs = [job(8, 1, 1e6), job(8, 1, 1e6), job(8, 1, 1e6)];
    let mut before = scheduler_timed(Rule::Themis, TWO_HOSTS, Timing::Paper);
    (0..3).for_each(|job| before.arrive(job));
    let decision = decide(&mut before, 0.0, &mut jobs);
    let runs = ran(&decision);
    let mut after = scheduler_timed(Rule::Themis, TWO_HOSTS, Timing::Paper);
    for job in 0..3 {
        let group = decision.runs.iter().find(|run| run.job == job).map(|run| run.group);
        let of = decision.places.iter().filter(|place| Some(place.group) == group);
        let places: Vec<(u32, u32)> = of.map(|place| (place.host, place.gpus)).collect();
        let until_s = before.until_s(job).unwrap_or(0.0);
        assert_eq!(until_s > 0.0, runs.contains(&job));
        after.resume(300.0, job, &jobs, &places, until_s);
    }
    assert_eq!(ran(&decide(&mut after, 300.0, &mut jobs)), runs);
    assert_eq!(after.next_change_s(300.0, &jobs), before.next_change_s(300.0, &jobs));
    // What follows is what would have followed.
    let ends_s = after.next_change_s(300.0, &jobs);
    let mut same = jobs;
    assert_eq!(ran(&decide(&mut after, ends_s, &mut jobs)), ran(&decide(&mut before, ends_s, &mut same)));

    let mut jobs = [Job { ran_s: 407.0, running: true, started: true, ..job(8, 1, 1e6) }, job(8, 1, 1e6)];
    let mut tiresias = scheduler(Rule::TIRESIAS, ONE_HOST);
    (0..2).for_each(|job| tiresias.resume(0.0, job, &jobs, &[], 0.0));
    assert_eq!(ran(&decide(&mut tiresias, 0.0, &mut jobs)), [1], "3,256 GPU seconds are the second queue");
}

#[test]
fn antman_lets_opportunistic_jobs_use_what_guaranteed_ones_leave() {
    let mut jobs = [job(8, 1, 100.0), Job { opportunistic: true, ..job(8, 0, 100.0) }, Job { opportunistic: true, ..job(8, 2, 100.0) }];
    let mut scheduler = scheduler(Rule::AntMan, ONE_HOST);
    (0..3).for_each(|job| scheduler.arrive(job));
    let decision = decide(&mut scheduler, 0.0, &mut jobs);
    // The second opportunistic job finds the GPUs tracked as used.
    assert_eq!(ran(&decision), [0, 1]);
    assert!(decision.groups_share);
    assert_eq!(decision.runs[0].iteration_s, jobs[0].alone_s, "a guaranteed job is never slowed");
    assert!(decision.runs[1].iteration_s >= jobs[1].alone_s);
    scheduler.leave(1, &jobs);
    assert_eq!(ran(&decide(&mut scheduler, 1.0, &mut jobs)), [0, 2]);
}

#[test]
fn themis_gives_gpus_to_who_had_none() {
    let mut jobs = [job(8, 1, 1_000.0), job(8, 1, 1_000.0)];
    let mut scheduler = scheduler(Rule::Themis, ONE_HOST);
    scheduler.arrive(0);
    assert_eq!(ran(&decide(&mut scheduler, 0.0, &mut jobs)), [0]);
    scheduler.arrive(1);
    (jobs[0].ran_s, jobs[1].submitted_s) = (100.0, 100.0);
    assert_eq!(ran(&decide(&mut scheduler, 100.0, &mut jobs)), [1]);
}

#[test]
fn themis_in_artifact_timing_draws_who_of_jobs_alike_is_first() {
    // Eight alike and one with longer iterations, hence a larger fraction, want one host; nobody ran yet.
    let mut jobs = vec![job(8, 1, 1_000.0); 8];
    let firsts = |jobs: &[Job]| -> Vec<JobIndex> {
        let mut scheduler = scheduler(Rule::Themis, ONE_HOST);
        (0..jobs.len() as JobIndex).for_each(|job| scheduler.arrive(job));
        let mut out = Decision::default();
        let mut first = || {
            scheduler.decide(0.0, jobs, &mut out);
            out.runs[0].job
        };
        (0..40).map(|_| first()).collect()
    };
    let alike = firsts(&jobs);
    assert!((0..8).all(|job| alike.contains(&job)), "each is first at times: {alike:?}");
    assert_eq!(alike, firsts(&jobs), "the same jobs give the same decisions");
    jobs.push(job(8, 0, 1_000.0));
    assert_eq!(firsts(&jobs), [8; 40], "a difference above the solver's error is never drawn away");
}

#[test]
fn muri_pairs_a_job_that_loads_with_one_that_computes() {
    // Two that load and two that compute on two hosts: four jobs want twice the GPUs, so two pairs form, and no pair of a kind.
    let mut jobs = [job(8, 0, 100.0), job(8, 0, 100.0), job(8, 1, 100.0), job(8, 1, 100.0)];
    let mut scheduler = scheduler(Rule::Muri(MuriOptions { group_max: 2, ..MuriOptions::default() }), TWO_HOSTS);
    (0..4).for_each(|job| scheduler.arrive(job));
    let decision = decide(&mut scheduler, 0.0, &mut jobs);
    assert_eq!(ran(&decision), [0, 1, 2, 3]);
    let group = |job: JobIndex| decision.runs.iter().find(|run| run.job == job).map(|run| run.group);
    assert!(group(0) != group(1) && group(2) != group(3), "{decision:?}");
}

#[test]
fn a_long_queue_that_came_at_once_is_decided() {
    // 200,000 jobs of 1 GPU for 50,000 GPUs: groups of four neighbours. Looking for each reserved job among all that came took 5 billion steps.
    let cluster = Cluster { hosts: 6_250, gpus_per_host: 8 };
    let jobs = vec![job(1, 0, 100.0); 200_000];
    let options = MuriOptions { matching: false, autopack: false, ..MuriOptions::default() };
    let mut scheduler = scheduler(Rule::Muri(options), cluster);
    (0..200_000).for_each(|job| scheduler.arrive(job));
    let mut out = Decision::default();
    scheduler.decide(0.0, &jobs, &mut out);
    assert_eq!((out.runs.len(), out.runs.iter().filter(|run| run.group == 0).count()), (200_000, 4));
}

#[test]
fn gandivas_turns_are_as_long_as_jobs_weigh() {
    let shares = |weights: [u32; 3], gpus: [u32; 3]| {
        let mut scheduler = scheduler(Rule::Gandiva(GandivaOptions { packing: false, ..GandivaOptions::default() }), ONE_HOST);
        let mut jobs: Vec<Job> = weights.iter().zip(gpus).map(|(weight, gpus)| Job { weight: *weight, ..job(gpus, 1, 100.0) }).collect();
        (0..3).for_each(|job| scheduler.arrive(job));
        let decision = decide(&mut scheduler, 0.0, &mut jobs);
        decision
            .runs
            .iter()
            .zip(&decision.reasons)
            .map(|(run, reason)| match reason {
                Reason::Turns { members: 1, share } => {
                    let switch = if *share < 1.0 { 1.02 } else { 1.0 };
                    assert_eq!(run.iteration_s, jobs[run.job as usize].alone_s / share * switch);
                    *share
                }
                other => panic!("{other:?}"),
            })
            .collect::<Vec<f64>>()
    };
    assert_eq!(shares([1, 1, 2], [8, 8, 8]), [0.25, 0.25, 0.5]);
    // All alike, whatever they weigh, have a third.
    assert_eq!(shares([5, 5, 5], [8, 8, 8]), shares([1, 1, 1], [8, 8, 8]));
    // The third would have more than all of the time; the others have half of what it leaves.
    assert_eq!(shares([1, 1, 9], [4, 4, 4]), [0.5, 0.5, 1.0]);
}

#[test]
fn gandiva_keeps_kinds_apart_then_takes_turns_packs_and_moves() {
    let mut scheduler = scheduler(Rule::Gandiva(GandivaOptions::default()), TWO_HOSTS);
    // A job of 4 and one of 8 GPUs: each kind has a host of its own.
    let mut jobs = vec![job(4, 1, 100.0), job(8, 1, 100.0), job(4, 1, 100.0), job(8, 1, 100.0), job(8, 0, 100.0)];
    (0..3).for_each(|job| scheduler.arrive(job));
    let decision = decide(&mut scheduler, 0.0, &mut jobs);
    let host = |decision: &Decision, job: JobIndex| decision.places.iter().find(|place| place.group == job).map(|place| place.host);
    assert_eq!([host(&decision, 0), host(&decision, 1), host(&decision, 2)], [Some(0), Some(1), Some(0)]);
    // A second one of 8 GPUs over-subscribes the host of its kind. Both compute, so together they do no more than in turns: half each.
    scheduler.arrive(3);
    let decision = decide(&mut scheduler, 1.0, &mut jobs);
    let iteration = |decision: &Decision, job: JobIndex| decision.runs.iter().find(|run| run.job == job).map(|run| run.iteration_s);
    assert_eq!((host(&decision, 3), iteration(&decision, 3)), (Some(1), Some(jobs[3].alone_s / 0.5 * 1.02)));
    // One that loads fits beside one that computes: they become a pair, in turns with the third.
    scheduler.arrive(4);
    let decision = decide(&mut scheduler, 2.0, &mut jobs);
    assert_eq!(decision.runs.iter().filter(|run| decision.runs.iter().filter(|other| other.group == run.group).count() == 2).count(), 2);
    // When the jobs of 4 GPUs leave, the job that shares nothing moves to their host, and everybody runs all the time.
    (0..3).filter(|job| *job != 1).for_each(|job| scheduler.leave(job, &jobs));
    let decision = decide(&mut scheduler, 3.0, &mut jobs);
    assert!(decision.places.iter().any(|place| place.host == 0), "{decision:?}");
    assert_eq!(ran(&decision), [1, 3, 4]);
    // When that one has left too, nobody waits for its host: the pair parts, and each runs as it does alone.
    let is_lone = |job: &JobIndex| decision.runs.iter().filter(|run| run.group == *job).count() == 1;
    let lone: Vec<JobIndex> = ran(&decision)
        .into_iter()
        .filter(|job| decision.runs.iter().any(|run| run.job == *job && run.group == *job) && is_lone(job))
        .collect();
    assert_eq!(lone.len(), 1);
    scheduler.leave(lone[0], &jobs);
    let decision = decide(&mut scheduler, 4.0, &mut jobs);
    assert_eq!((decision.runs.len(), decision.places.len()), (2, 2));
    assert!(decision.runs.iter().all(|run| run.group == run.job && run.iteration_s == jobs[run.job as usize].alone_s), "{decision:?}");
    assert_ne!(decision.places[0].host, decision.places[1].host);
}

/// What a pair of 8 GPUs does over turns, from the profiles by hand: both iterations alone over one of both.
fn rate_of_pair(a: u16, b: u16) -> f64 {
    let of = |profile: u16| profiles()[usize::from(profile)];
    let timing = Timing::Artifact;
    let both_s = timing.shared_s(&[of(a), of(b)], Order::Best, timing.sharing(2));
    (timing.alone_s(of(a).iteration_s) + timing.alone_s(of(b).iteration_s)) / both_s
}

#[test]
fn pairs_that_were_tried_say_what_they_would_do() {
    let mut scheduler = scheduler(Rule::Gandiva(GandivaOptions::default()), ONE_HOST);
    // Two that compute do less together than in turns; one that loads is worth it beside one of them.
    let mut jobs = vec![job(8, 1, 100.0), job(8, 1, 100.0), job(8, 0, 100.0)];
    (0..2).for_each(|job| scheduler.arrive(job));
    let (poor, good) = (rate_of_pair(1, 1), rate_of_pair(0, 1));
    assert!(poor < 1.0 && good > 1.0, "{poor} {good}");
    let rejected = Trial { members: vec![0, 1], rate: poor, shares: false };
    assert_eq!(decide(&mut scheduler, 0.0, &mut jobs).tried, [rejected]);
    scheduler.arrive(2);
    let first = decide(&mut scheduler, 1.0, &mut jobs);
    let [Trial { members, rate, shares: true }] = first.tried.as_slice() else { panic!("{:?}", first.tried) };
    assert!((rate - good).abs() < 1e-12 && members.contains(&2), "{first:?}");
    // A pair that goes on says so again, and nobody is left to be tried with.
    let mut second = decide(&mut scheduler, 2.0, &mut jobs).tried;
    second[0].members.sort_unstable();
    assert!(second.len() == 1 && second[0].shares && (second[0].rate - good).abs() < 1e-12, "{second:?}");
    // Who does not ask is not told.
    let settings = Settings { timing: Timing::Artifact, profiles: profiles(), explain: false };
    let mut silent = Scheduler::new(Rule::Gandiva(GandivaOptions::default()), ONE_HOST, settings);
    (0..3).for_each(|job| silent.arrive(job));
    let mut out = Decision::default();
    silent.decide(0.0, &jobs, &mut out);
    assert!(out.tried.is_empty() && out.runs.len() == 3);
}

#[test]
fn groups_that_muri_splits_say_what_they_would_do() {
    let mut scheduler = scheduler(Rule::Muri(MuriOptions::default()), ONE_HOST);
    let mut jobs = vec![job(8, 1, 100.0), job(8, 1, 200.0)];
    (0..2).for_each(|job| scheduler.arrive(job));
    let decision = decide(&mut scheduler, 0.0, &mut jobs);
    let [Trial { members, rate, shares: false }] = decision.tried.as_slice() else { panic!("{:?}", decision.tried) };
    assert!(*members == [0, 1] && (rate - rate_of_pair(1, 1)).abs() < 1e-12, "{decision:?}");
    assert_eq!((decision.runs.len(), decision.passed.len()), (1, 1));
}

#[test]
fn gandiva_parts_pairs_where_they_are_without_moving_anybody() {
    let options = GandivaOptions { migration: false, ..GandivaOptions::default() };
    let mut scheduler = scheduler(Rule::Gandiva(options), ONE_HOST);
    // Three jobs of 4 GPUs on 8: one that loads and one that computes become a pair beside the third.
    let mut jobs = vec![job(4, 1, 100.0), job(4, 1, 100.0), job(4, 0, 100.0)];
    (0..3).for_each(|job| scheduler.arrive(job));
    let decision = decide(&mut scheduler, 0.0, &mut jobs);
    let groups = |decision: &Decision| decision.runs.iter().map(|run| run.group).collect::<std::collections::BTreeSet<u32>>();
    assert_eq!((decision.runs.len(), groups(&decision).len()), (3, 2));
    let lone = groups(&decision).into_iter().find(|group| decision.runs.iter().filter(|run| run.group == *group).count() == 1);
    scheduler.leave(lone.expect("one that shares nothing"), &jobs);
    let decision = decide(&mut scheduler, 1.0, &mut jobs);
    assert_eq!((decision.runs.len(), groups(&decision).len()), (2, 2));
    assert!(decision.runs.iter().all(|run| run.iteration_s == jobs[run.job as usize].alone_s));
}

#[test]
fn gandiva_gathers_what_is_left_of_hosts() {
    // Nine jobs of one GPU fill a host and begin another. Three of the first leave, so the one of the second has room beside the others, and a job of 8
    // GPUs that comes has a host for itself.
    let hosts_of_eight = |options| {
        let mut scheduler = scheduler(Rule::Gandiva(options), TWO_HOSTS);
        let mut jobs: Vec<Job> = (0..10).map(|at| job(if at < 9 { 1 } else { 8 }, 1, 100.0)).collect();
        (0..9).for_each(|job| scheduler.arrive(job));
        let decision = decide(&mut scheduler, 0.0, &mut jobs);
        let host = |decision: &Decision, job: JobIndex| decision.places.iter().find(|place| place.group == job).map(|place| place.host);
        assert_eq!((host(&decision, 7), host(&decision, 8)), (Some(0), Some(1)));
        (0..3).for_each(|job| scheduler.leave(job, &jobs));
        let decision = decide(&mut scheduler, 1.0, &mut jobs);
        scheduler.arrive(9);
        let last = decide(&mut scheduler, 2.0, &mut jobs);
        (host(&decision, 8), last.places.iter().filter(|place| place.group == 9).count())
    };
    assert_eq!(hosts_of_eight(GandivaOptions::default()), (Some(0), 1));
    // Without, it takes what is free of both hosts.
    assert_eq!(hosts_of_eight(GandivaOptions { migration: false, ..GandivaOptions::default() }), (Some(1), 2));
}

#[test]
fn only_muri_in_paper_timing_offers_other_groups() {
    let jobs: Vec<Job> = (0..12).map(|at| job(8, at % 3, 100.0 + f64::from(at))).collect();
    let blind = Rule::Muri(MuriOptions { offers: false, ..MuriOptions::default() });
    let muri = Rule::Muri(MuriOptions::default());
    for (rule, timing, offers) in
        [(muri, Timing::Paper, true), (blind, Timing::Paper, false), (muri, Timing::Artifact, false), (Rule::Srsf, Timing::Paper, false)]
    {
        let mut scheduler = scheduler_timed(rule, TWO_HOSTS, timing);
        (0..12).for_each(|job| scheduler.arrive(job));
        let mut out = Decision::default();
        scheduler.decide(0.0, &jobs, &mut out);
        assert_eq!(!scheduler.alternatives(&jobs).is_empty(), offers, "{rule:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// In paper timing nobody gains by company but GPUs: an iteration beside others takes at least what it takes alone.
    #[test]
    fn in_paper_timing_nobody_is_faster_beside_others(
        rows in prop::collection::vec((0_usize..4, 0_u16..3, 1.0_f64..1e4, any::<bool>()), 2..40),
        which in 0_usize..4,
    ) {
        let muri = |durations_known| Rule::Muri(MuriOptions { durations_known, ..MuriOptions::default() });
        let rule = [muri(true), muri(false), Rule::Gandiva(GandivaOptions::default()), Rule::AntMan][which];
        let paper = |job: Job| Job { alone_s: profiles()[usize::from(job.profile)].iteration_s, ..job };
        let mut jobs: Vec<Job> = rows.iter().map(|(size, profile, left, opportunistic)| {
            Job { opportunistic: *opportunistic, ..paper(job([1, 2, 4, 8][*size], *profile, *left)) }
        }).collect();
        let mut scheduler = scheduler_timed(rule, TWO_HOSTS, Timing::Paper);
        for at in 0..jobs.len() {
            scheduler.arrive(at as JobIndex);
            let decision = decide(&mut scheduler, 100.0 * at as f64, &mut jobs);
            let faster = decision.runs.iter().find(|run| run.iteration_s < jobs[run.job as usize].alone_s);
            prop_assert!(faster.is_none(), "{:?}: {:?}", rule, faster);
        }
    }

    /// What Muri offers fits, and asking for it changes nothing.
    #[test]
    fn other_groups_can_be_carried_out_and_asking_changes_nothing(sizes in prop::collection::vec((0_usize..4, 0_u16..3, 1.0_f64..1e4), 1..40)) {
        let play = |ask: bool| {
            let mut jobs: Vec<Job> = sizes.iter().map(|(size, profile, left)| job([1, 2, 4, 8][*size], *profile, *left)).collect();
            let mut scheduler = scheduler_timed(Rule::Muri(MuriOptions::default()), TWO_HOSTS, Timing::Paper);
            let mut decisions = Vec::new();
            for at in 0..jobs.len() {
                scheduler.arrive(at as JobIndex);
                decisions.push(decide(&mut scheduler, 100.0 * at as f64, &mut jobs));
                if ask {
                    let offered = scheduler.alternatives(&jobs);
                    assert!(offered.iter().all(|decision| decision.check(&TWO_HOSTS.into(), &jobs) == Ok(()) && !decision.runs.is_empty()));
                }
            }
            decisions
        };
        prop_assert_eq!(play(true), play(false));
    }

    /// Jobs that come and go: each decision can be carried out, and is the same when asked again from the start.
    #[test]
    fn every_decision_can_be_carried_out(
        sizes in prop::collection::vec((0_usize..5, 0_u16..3, 1.0_f64..1e4, any::<bool>()), 1..40),
        leaves in prop::collection::vec(0_usize..40, 0..10),
        which in 0_usize..8,
    ) {
        let rules = [Rule::Fifo, Rule::Srtf, Rule::Srsf, Rule::TIRESIAS, Rule::AntMan, Rule::Themis, Rule::Gandiva(GandivaOptions::default()), Rule::Muri(MuriOptions::default())];
        let rule = rules[which];
        let play = || {
            let mut jobs: Vec<Job> = sizes.iter().map(|(size, profile, left, opportunistic)| {
                Job { opportunistic: *opportunistic, weight: 1 + u32::from(*profile), ..job([1, 2, 4, 8, 16][*size], *profile, *left) }
            }).collect();
            let mut scheduler = scheduler(rule, TWO_HOSTS);
            let (mut decisions, mut gone, mut now) = (Vec::new(), vec![false; jobs.len()], 0.0);
            for at in 0..jobs.len() {
                scheduler.arrive(at as JobIndex);
                decisions.push(decide(&mut scheduler, now, &mut jobs));
                if let Some(&leaver) = leaves.get(at).filter(|leaver| **leaver <= at && !gone[**leaver]) {
                    (gone[leaver], jobs[leaver].running) = (true, false);
                    scheduler.leave(leaver as JobIndex, &jobs);
                }
                now += 500.0;
                jobs.iter_mut().filter(|job| job.running).for_each(|job| job.ran_s += 500.0);
            }
            let last = decide(&mut scheduler, now, &mut jobs);
            assert!(last.runs.iter().all(|run| !gone[run.job as usize]), "who left does not run");
            // Somebody runs while somebody waits that would fit into an empty cluster, which all do.
            assert!(!last.runs.is_empty() || gone.iter().all(|gone| *gone) || rule == Rule::AntMan, "{rule:?}");
            // Each job runs or is said to wait, with what it had.
            let mut all: Vec<JobIndex> = last.runs.iter().map(|run| run.job).chain(last.passed.iter().map(|(job, _)| *job)).collect();
            all.sort_unstable();
            let present: Vec<JobIndex> = (0..jobs.len() as JobIndex).filter(|job| !gone[*job as usize]).collect();
            assert_eq!(all, present, "{rule:?}");
            decisions.push(last);
            decisions
        };
        prop_assert_eq!(play(), play());
    }
}
