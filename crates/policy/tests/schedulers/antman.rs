//! AntMan: who waits for GPUs waits for an end.

use antiphase_policy::{
    muri::Timing,
    schedule::{GandivaOptions, Job, Reason, Rule},
};
use proptest::prelude::*;

use crate::{TWO_HOSTS, job, scheduler_timed, world::World};

/// Two jobs that leave 2 GPUs of each host, and two that want one host and a half: each holds the rest of a host, and wants the other whole.
fn crossed() -> Vec<Job> {
    vec![job(6, 1, 100.0), job(6, 1, 200.0), job(12, 1, 100.0), job(12, 1, 100.0)]
}

#[test]
fn jobs_that_hold_parts_of_hosts_wait_for_each_other_only_as_published() {
    for (timing, done) in [(Timing::Artifact, [true, true, false, false]), (Timing::Paper, [true; 4])] {
        let mut world = World::new(scheduler_timed(Rule::AntMan, TWO_HOSTS, timing), crossed());
        world.play(1_000, |_| {});
        assert_eq!(world.ended_s.iter().map(Option::is_some).collect::<Vec<_>>(), done, "{timing:?}");
    }
}

#[test]
fn a_job_that_waits_and_is_withdrawn_leaves_its_gpus_as_they_were() {
    // The second job holds the 2 GPUs that are left, and goes; so an opportunistic one finds them unused, and then a third job has them.
    let mut jobs = [job(6, 1, 100.0), job(8, 1, 100.0), Job { opportunistic: true, ..job(8, 0, 100.0) }];
    let mut scheduler = scheduler_timed(Rule::AntMan, crate::ONE_HOST, Timing::Artifact);
    (0..2).for_each(|job| scheduler.arrive(job));
    assert_eq!(crate::ran(&crate::decide(&mut scheduler, 0.0, &mut jobs)), [0]);
    scheduler.leave(1, &jobs);
    scheduler.arrive(2);
    assert_eq!(crate::ran(&crate::decide(&mut scheduler, 1.0, &mut jobs)), [0, 2]);
}

#[test]
fn a_reason_of_turns_is_no_efficiency() {
    // Two jobs that compute take turns on one host: half of the time each.
    let mut jobs = [job(8, 1, 100.0), job(8, 1, 100.0)];
    let mut scheduler = scheduler_timed(Rule::Gandiva(GandivaOptions::default()), crate::ONE_HOST, Timing::Artifact);
    (0..2).for_each(|job| scheduler.arrive(job));
    let decision = crate::decide(&mut scheduler, 0.0, &mut jobs);
    assert_eq!(decision.reasons, [Reason::Turns { members: 1, share: 0.5 }; 2]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn in_paper_mode_every_job_ends(
        parts in prop::collection::vec((1_u32..17, 1.0_f64..1e3, any::<bool>(), 0.0_f64..200.0), 1..30),
    ) {
        let jobs: Vec<Job> = parts.iter().map(|&(gpus, left, opportunistic, submitted_s)| {
            // Opportunistic jobs need GPUs that are hardly used, so one may not want more than there are.
            Job { opportunistic, submitted_s, ..job(gpus, 1, left) }
        }).collect();
        let mut world = World::new(scheduler_timed(Rule::AntMan, TWO_HOSTS, Timing::Paper), jobs);
        world.play(1_000, |_| {});
        prop_assert!(world.ended_s.iter().all(Option::is_some), "{:?}", world.ended_s);
    }
}
