//! Themis with leases and auctions: who has GPUs keeps them for the lease, and nobody is kept out for ever.

use std::collections::BTreeMap;

use antiphase_policy::{
    muri::Timing,
    schedule::{Job, JobIndex, Place, Reason, Rule},
};
use proptest::prelude::*;

use crate::{
    ONE_HOST, TWO_HOSTS, decide, job, ran, scheduler_timed,
    world::{Decided, World},
};

/// The term of a lease, in seconds.
const LEASE_S: f64 = 1_200.0;

fn world(cluster: antiphase_policy::schedule::Cluster, jobs: Vec<Job>) -> World {
    World::new(scheduler_timed(Rule::Themis, cluster, Timing::Paper), jobs)
}

/// What each job that runs has, and until when.
fn leases(decided: &Decided) -> BTreeMap<JobIndex, (Vec<Place>, f64)> {
    let runs = decided.decision.runs.iter().zip(&decided.decision.reasons);
    let lease = runs.map(|(run, reason)| {
        let Reason::Fairness { before, after, until_s } = *reason else { panic!("{reason:?}") };
        assert!(after > 0.0 && before > after, "GPUs now are better than later: {reason:?}");
        assert!(until_s > decided.at_s && until_s <= decided.at_s + LEASE_S, "{until_s} at {}", decided.at_s);
        let places = decided.decision.places.iter().filter(|place| place.group == run.group);
        (run.job, (places.map(|place| Place { group: 0, ..*place }).collect(), until_s))
    });
    lease.collect()
}

#[test]
fn a_lease_ends_after_its_term_and_the_latest_has_the_next() {
    let mut jobs = [job(8, 1, 1e5), Job { submitted_s: 100.0, ..job(8, 1, 10.0) }];
    let mut scheduler = scheduler_timed(Rule::Themis, ONE_HOST, Timing::Paper);
    scheduler.arrive(0);
    let decision = decide(&mut scheduler, 0.0, &mut jobs);
    assert_eq!((ran(&decision), scheduler.next_change_s(0.0, &jobs)), (vec![0], LEASE_S));
    // One lease later it would be later by 1,200 s, and by its restart of 10 s in any case, over the 100,000 iterations that it takes alone.
    let alone_s = jobs[0].alone_s * 1e5;
    let expected = Reason::Fairness { before: (1_210.0 + alone_s) / alone_s, after: (10.0 + alone_s) / alone_s, until_s: LEASE_S };
    assert_eq!(decision.reasons, [expected]);
    // The short job waits for the end of the lease, and has the next.
    scheduler.arrive(1);
    assert_eq!(ran(&decide(&mut scheduler, 100.0, &mut jobs)), [0]);
    assert_eq!(ran(&decide(&mut scheduler, LEASE_S, &mut jobs)), [1]);
    scheduler.leave(1, &jobs);
    // Free GPUs are auctioned at once.
    assert_eq!(ran(&decide(&mut scheduler, LEASE_S + 20.0, &mut jobs)), [0]);
}

#[test]
fn who_wins_again_stays_where_it_is() {
    // The first job leaves host 0 free. The second one's lease ends, nobody else wants GPUs, and it stays on host 1.
    let mut jobs = [job(8, 1, 100.0), job(8, 1, 1e5), job(16, 1, 1e5)];
    let mut scheduler = scheduler_timed(Rule::Themis, TWO_HOSTS, Timing::Paper);
    (0..2).for_each(|job| scheduler.arrive(job));
    decide(&mut scheduler, 0.0, &mut jobs);
    scheduler.leave(0, &jobs);
    decide(&mut scheduler, 100.0, &mut jobs);
    let decision = decide(&mut scheduler, LEASE_S, &mut jobs);
    assert_eq!(decision.places.iter().map(|place| (place.host, place.gpus)).collect::<Vec<_>>(), [(1, 8)]);
    // A job that wants both hosts has them when the lease ends, for it is later by then; the other one is stopped.
    scheduler.arrive(2);
    jobs[2].left = 10.0;
    assert_eq!(ran(&decide(&mut scheduler, LEASE_S + 1.0, &mut jobs)), [1]);
    assert_eq!(ran(&decide(&mut scheduler, 2.0 * LEASE_S, &mut jobs)), [2]);
}

#[test]
fn who_keeps_gpus_that_others_want_pays_with_a_part_of_its_lease() {
    // Ten jobs of 8 GPUs and one host: two are offered it. The first wins over the second and costs it a lease.
    let jobs: Vec<Job> = (1..=10).map(|n| job(8, 1, 1_000.0 * f64::from(n))).collect();
    let mut world = world(ONE_HOST, jobs.clone());
    let mut first = None;
    world.play(1, |decided| first = leases(decided).into_iter().next());
    let (winner, (_, until_s)) = first.expect("a winner");
    // All take 10 s to restart; alone on a tenth of the cluster each takes ten times as long, so the shortest are the latest without GPUs.
    let gain = |n: f64| {
        let left_s = 10.0 + n * 1_000.0 * jobs[0].alone_s;
        (left_s + LEASE_S) / left_s
    };
    assert_eq!(winner, 0);
    // Without the winner the second had won, and the product had been larger by its gain.
    assert!((until_s - LEASE_S * (1.0 / gain(2.0)).max(0.25)).abs() < 1e-6, "{until_s} {}", 1.0 / gain(2.0));
}

#[test]
fn small_jobs_do_not_keep_out_a_large_one_for_ever() {
    // A job of 30 minutes on 1 GPU comes each 3 minutes, which is more than 8 GPUs do; and one that wants all of them for a minute.
    let minute = 60.0 / job(8, 1, 1.0).alone_s;
    let mut jobs: Vec<Job> = (0..600).map(|n| Job { submitted_s: 180.0 * f64::from(n), ..job(1, 1, 30.0 * minute) }).collect();
    let large = Job { submitted_s: 10_000.0, ..job(8, 1, minute) };
    jobs.push(large);
    let mut world = world(ONE_HOST, jobs);
    world.play(100_000, |_| {});
    assert!(world.ended_s.iter().all(Option::is_some));
    // It is the worst at once and waits for a term; then the host is kept for it until the last lease on it ends.
    let ended_s = world.ended_s[600].expect("an end");
    assert!(ended_s <= 10_000.0 + 2.0 * LEASE_S + 60.0 + 1e-6, "{ended_s}");
}

#[test]
fn short_jobs_do_not_keep_out_a_long_large_one_for_ever() {
    // A job of 100 s on 1 GPU comes each 14 s, which is nearly what 8 GPUs do. One lease more is always worse to such a job than to the long one, so
    // by rho the long one is never the worst.
    let second = 1.0 / job(8, 1, 1.0).alone_s;
    let mut jobs: Vec<Job> = (0..8_000).map(|n| Job { submitted_s: 14.0 * f64::from(n), ..job(1, 1, 100.0 * second) }).collect();
    jobs.push(Job { submitted_s: 10.0, ..job(8, 1, 10_000.0 * second) });
    let mut world = world(ONE_HOST, jobs);
    let mut began_s = None;
    world.play(100_000, |decided| {
        if began_s.is_none() && leases(decided).contains_key(&8_000) {
            began_s = Some(decided.at_s);
        }
    });
    let (began_s, ended_s) = (began_s.expect("a start"), world.ended_s[8_000].expect("an end"));
    assert!(began_s <= 10.0 + 8.0 * LEASE_S, "it waits for six terms, and then for leases to end: {began_s}");
    // Between its leases it waits again, behind those who have waited for longer.
    assert!(ended_s < 8_000.0 * 14.0, "{ended_s}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn leases_are_kept_where_they_are_and_every_job_ends(
        parts in prop::collection::vec((0_usize..6, 0_u16..3, 1.0_f64..2e4, 0.0_f64..2e4), 1..40),
    ) {
        let jobs: Vec<Job> = parts.iter().map(|&(size, profile, left, submitted_s)| {
            Job { submitted_s, ..job([1, 2, 3, 4, 8, 16][size], profile, left) }
        }).collect();
        let mut world = world(TWO_HOSTS, jobs);
        let mut before: BTreeMap<JobIndex, (Vec<Place>, f64)> = BTreeMap::new();
        world.play(20_000, |decided| {
            let now = leases(decided);
            for (job, lease) in &before {
                // A lease ends at its end, or with its job.
                if lease.1 > decided.at_s && decided.jobs[*job as usize].left > 1e-9 {
                    assert_eq!(now.get(job), Some(lease), "job {job} at {}", decided.at_s);
                }
            }
            // Free GPUs are auctioned at once: nobody who would fit beside the others waits, but where hosts are kept.
            assert!(!now.is_empty() || decided.jobs.iter().all(|job| job.left <= 1e-9 || job.submitted_s > decided.at_s));
            before = now;
        });
        prop_assert!(world.ended_s.iter().all(Option::is_some), "{:?}", world.ended_s);
    }
}
