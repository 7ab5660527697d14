//! First come, first served: against starts that are computed job by job, without a scheduler.

use antiphase_policy::schedule::{Decision, Job, JobIndex, Rule, Scheduler};
use proptest::prelude::*;

use crate::{ONE_HOST, TWO_HOSTS, decide, job, ran, scheduler, world::World};

/// A job with iterations of one second, so that all times are whole and exact.
fn whole(gpus: u32, submitted_s: u32, seconds: u32) -> Job {
    Job { alone_s: 1.0, declared_s: f64::from(seconds), submitted_s: f64::from(submitted_s), ..job(gpus, 0, f64::from(seconds)) }
}

/// When each job ends, by the definition: a job starts at the first instant at which it has come, all that came before it have started, and
/// those of them that have not ended leave enough GPUs.
fn ends_by_definition(jobs: &[Job], gpus: u32) -> Vec<f64> {
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by(|a, b| jobs[*a].submitted_s.total_cmp(&jobs[*b].submitted_s));
    let mut ends = vec![0.0; jobs.len()];
    let mut last_start_s = 0.0_f64;
    for (at, &job) in order.iter().enumerate() {
        let before = &order[..at];
        let fits = |start_s: f64| {
            let used: u32 = before.iter().filter(|other| ends[**other] > start_s).map(|other| jobs[*other].gpus).sum();
            used + jobs[job].gpus <= gpus
        };
        let earliest_s = jobs[job].submitted_s.max(last_start_s);
        let mut starts: Vec<f64> = before.iter().map(|other| ends[*other]).filter(|end_s| *end_s > earliest_s).collect();
        starts.push(earliest_s);
        starts.sort_by(f64::total_cmp);
        last_start_s = starts.into_iter().find(|start_s| fits(*start_s)).expect("when all have ended there is room");
        ends[job] = last_start_s + jobs[job].left;
    }
    ends
}

/// Plays jobs on two hosts; nobody who runs may be stopped. When each ended.
fn played(rule: Rule, jobs: &[Job]) -> Vec<f64> {
    let mut world = World::new(scheduler(rule, TWO_HOSTS), jobs.to_vec());
    let mut before: Vec<JobIndex> = Vec::new();
    world.play(10_000, |decided| {
        if rule == Rule::Fifo {
            let stopped = before.iter().find(|job| decided.jobs[**job as usize].left > 0.0 && !ran(&decided.decision).contains(job));
            assert_eq!(stopped, None, "at {} s", decided.at_s);
        }
        before = ran(&decided.decision);
    });
    world.ended_s.iter().map(|end| end.expect("all end")).collect()
}

#[test]
fn a_large_job_at_the_head_keeps_all_behind_it_waiting() {
    // Twelve of 16 GPUs run for 100 s. A job of 8 waits for them, and one of 4 that would fit waits behind it: no backfill.
    let jobs = [whole(12, 0, 100), whole(8, 1, 50), whole(4, 2, 10)];
    assert_eq!(played(Rule::Fifo, &jobs), [100.0, 150.0, 110.0]);
    // Shortest first stops the first one for the second, and lets the small one run at once.
    assert_eq!(played(Rule::Srtf, &jobs), [150.0, 51.0, 12.0]);
}

#[test]
fn who_lost_its_gpus_is_the_first_to_get_some() {
    let start = |jobs: &mut [Job]| -> (Scheduler, Decision) {
        let mut scheduler = scheduler(Rule::Fifo, TWO_HOSTS);
        (0..jobs.len() as JobIndex).for_each(|job| scheduler.arrive(job));
        let decision = decide(&mut scheduler, 0.0, jobs);
        (scheduler, decision)
    };
    // Two jobs fill the hosts, a third one waits. The host of the first goes down: the first waits, before the third.
    let mut jobs = [whole(8, 0, 100), whole(8, 0, 100), whole(2, 0, 100)];
    let (mut scheduler, first) = start(&mut jobs);
    assert_eq!(ran(&first), [0, 1]);
    scheduler.lose(0);
    jobs[0].running = false;
    scheduler.fall(1.0, 0, &jobs);
    assert_eq!(ran(&decide(&mut scheduler, 1.0, &mut jobs)), [1]);
    scheduler.leave(1, &jobs);
    jobs[1].running = false;
    assert_eq!(ran(&decide(&mut scheduler, 2.0, &mut jobs)), [0]);
    scheduler.regain(0);
    assert_eq!(ran(&decide(&mut scheduler, 3.0, &mut jobs)), [0, 2]);
}

#[test]
fn on_a_cluster_that_became_smaller_the_first_that_fit_go_on() {
    let mut jobs = [whole(4, 0, 100), whole(4, 1, 100), whole(2, 2, 100), whole(1, 3, 100)];
    jobs[..3].iter_mut().for_each(|job| job.running = true);
    let mut scheduler = scheduler(Rule::Fifo, ONE_HOST);
    (0..4).for_each(|job| scheduler.resume(0.0, job, &jobs, &[], 0.0));
    // Ten GPUs run on eight: the last of them stops. Nothing is free, so nobody starts.
    assert_eq!(ran(&decide(&mut scheduler, 0.0, &mut jobs)), [0, 1]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn jobs_start_when_all_before_them_have_and_they_fit(
        rows in prop::collection::vec((prop::sample::select(vec![1_u32, 2, 3, 4, 8, 12, 16]), 0_u32..300, 1_u32..200), 1..40),
    ) {
        let jobs: Vec<Job> = rows.iter().map(|(gpus, submitted_s, seconds)| whole(*gpus, *submitted_s, *seconds)).collect();
        prop_assert_eq!(played(Rule::Fifo, &jobs), ends_by_definition(&jobs, TWO_HOSTS.gpus()));
    }
}
