//! Tiresias with what its authors' runs have off: promotion, and consolidation.

use antiphase_policy::schedule::TiresiasOptions;

use super::*;

/// The jobs run on from one time to another.
fn pass(jobs: &mut [Job], seconds: f64) {
    jobs.iter_mut().filter(|job| job.running).for_each(|job| job.ran_s += seconds);
}

/// Two jobs that want all GPUs. The first has 3,256 GPU seconds at 407 s, and makes way; the second then has as many at 814 s.
#[test]
fn a_job_that_waited_for_as_long_as_it_ran_is_promoted_and_counts_from_zero() {
    for (knob, promoted) in [(Some(1_000), true), (None, false)] {
        let rule = Rule::Tiresias(TiresiasOptions { promote_permille: knob, ..TiresiasOptions::default() });
        let mut scheduler = scheduler(rule, ONE_HOST);
        let mut jobs = [job(8, 1, 1e6), job(8, 1, 1e6), job(8, 1, 1e6)];
        (0..2).for_each(|job| scheduler.arrive(job));
        assert_eq!(ran(&decide(&mut scheduler, 0.0, &mut jobs)), [0]);
        pass(&mut jobs, 407.0);
        assert_eq!(ran(&decide(&mut scheduler, 407.0, &mut jobs)), [1]);
        // The first may rise when it has waited for 407 s; at that time the second falls, which comes first.
        assert_eq!(scheduler.next_change_s(407.0, &jobs), 814.0);
        pass(&mut jobs, 407.0);
        scheduler.arrive(2);
        let decision = decide(&mut scheduler, 814.0, &mut jobs);
        // The third, which is new, is before it in the first queue.
        assert_eq!(ran(&decision), [2]);
        pass(&mut jobs, 407.0);
        // At 1,221 s the third falls, and the second has waited for as long as it ran. Promoted the first is first, with no service.
        let decision = decide(&mut scheduler, 1_221.0, &mut jobs);
        assert_eq!(ran(&decision), [0]);
        let value = decision.reasons[0];
        let (before, counts) = if promoted { (0, 0.0) } else { (0, 8.0 * 407.0) };
        assert_eq!(value, Reason::Rank { before, value: counts });
        pass(&mut jobs, 300.0);
        // Its 300 s of now are 2,400 GPU seconds: it falls after 107 s more, or when all of its 7,200 are done, after 193 s.
        assert_eq!(scheduler.next_change_s(1_521.0, &jobs), if promoted { 1_628.0 } else { 1_714.0 });
    }
}

#[test]
fn half_a_knob_promotes_after_half_the_time_and_never_who_has_not_run() {
    let rule = Rule::Tiresias(TiresiasOptions { promote_permille: Some(500), ..TiresiasOptions::default() });
    let mut scheduler = scheduler(rule, ONE_HOST);
    // The first falls at once; the second keeps the GPUs for 3,250 s, for it wants only one.
    let mut jobs = [job(8, 1, 1e6), job(1, 1, 1e6), job(8, 1, 1e6)];
    scheduler.arrive(0);
    decide(&mut scheduler, 0.0, &mut jobs);
    pass(&mut jobs, 410.0);
    (1..3).for_each(|job| scheduler.arrive(job));
    assert_eq!(ran(&decide(&mut scheduler, 410.0, &mut jobs)), [1]);
    // The third has never run: nothing is owed to it.
    assert_eq!(scheduler.next_change_s(410.0, &jobs), 615.0);
    pass(&mut jobs, 205.0);
    assert_eq!(ran(&decide(&mut scheduler, 615.0, &mut jobs)), [1], "promoted it waits behind who runs");
    // Nobody is promoted from the first queue, so the next event is that the second falls.
    assert_eq!(scheduler.next_change_s(615.0, &jobs), 3_660.0);
}

#[test]
fn consolidated_jobs_wait_for_a_host_that_holds_them() {
    let gpus = [6, 6, 4, 2];
    for (consolidate, runs) in [(false, vec![0, 1, 2]), (true, vec![0, 1, 3])] {
        let rule = Rule::Tiresias(TiresiasOptions { consolidate, ..TiresiasOptions::default() });
        let mut scheduler = scheduler(rule, TWO_HOSTS);
        let mut jobs = gpus.map(|gpus| job(gpus, 1, 1e6));
        (0..4).for_each(|job| scheduler.arrive(job));
        let decision = decide(&mut scheduler, 0.0, &mut jobs);
        // Two GPUs are free on each host: four of them are nobody's host.
        assert_eq!(ran(&decision), runs, "{consolidate}");
        let places: Vec<(u32, u32)> = decision.places.iter().map(|place| (place.host, place.gpus)).collect();
        assert_eq!(places, if consolidate { vec![(0, 6), (1, 6), (0, 2)] } else { vec![] });
    }
}
