use alloc::vec;

use units::Ticks;

use super::*;

fn up(start: u64, end: u64, rate: u64) -> Phase {
    Phase { start: Ticks(start), end: Ticks(end), rate: Rate(rate) }
}

fn job(period: u64, shift: u64) -> FluidJob {
    FluidJob { iteration: Nanos(period), period: Nanos(period), shift: Nanos(shift) }
}

fn times(jobs: &[FluidJob], links: &[FluidLink<'_>]) -> Vec<(u64, u64, u64)> {
    predict(jobs, links, TOLERANCE_PERMILLE).iter().map(|t| (t.solo.0, t.contended.0, t.all_held.0)).collect()
}

const MS: u64 = 1_000_000;

#[test]
fn two_equal_jobs_take_turns_or_halve_each_other() {
    // VGG16 of the paper: Down 141 ms, Up 114 ms at the whole link. Together each Up gets half: 141 + 2 * 114 = 369 ms.
    // Shifted by 127.5 ms the Up phases are apart, and both run as if alone.
    let phase = [up(141 * MS, 255 * MS, 50_000)];
    let link = FluidLink { capacity: Rate(50_000), demands: vec![(0, &phase[..]), (1, &phase[..])] };
    let jobs = [job(255 * MS, 0), job(255 * MS, 127_500_000)];
    assert_eq!(times(&jobs, &[link]), [(255 * MS, 369 * MS, 255 * MS); 2]);
}

#[test]
fn a_job_that_exceeds_a_link_alone_stretches_by_demand_over_capacity() {
    // Up 40 of 100 at twice the capacity: 60 + 80. Its slots are as far apart as its own iteration, so no slips.
    let phase = [up(60, 100, 2_000)];
    let link = FluidLink { capacity: Rate(1_000), demands: vec![(0, &phase[..])] };
    assert_eq!(times(&[job(100, 0)], &[link]), [(140, 140, 140)]);
}

#[test]
fn the_slowest_link_sets_the_speed() {
    // Alone: link a gives 1/2, link b 1/3. Up 30 takes 90.
    let (a, b) = ([up(0, 30, 20)], [up(0, 30, 60)]);
    let links =
        [FluidLink { capacity: Rate(10), demands: vec![(0, &a[..])] }, FluidLink { capacity: Rate(20), demands: vec![(0, &b[..])] }];
    assert_eq!(times(&[job(100, 0)], &links)[0].0, 160);
}

/// Two links: b's own link holds it to 30 of its 100, so a gets 90 of the 120 that they share, and its Up 90 take
/// 100. With half of the 120 they would take 150. b sends all the time and is as slow as alone, 100 * 100 / 30.
#[test]
fn what_another_link_keeps_a_job_from_using_is_handed_on() {
    let (a, b) = ([up(10 * MS, 100 * MS, 100)], [up(0, 100 * MS, 100)]);
    let shared = FluidLink { capacity: Rate(120), demands: vec![(0, &a[..]), (1, &b[..])] };
    let own = FluidLink { capacity: Rate(30), demands: vec![(1, &b[..])] };
    let found = times(&[job(100 * MS, 0), job(100 * MS, 0)], &[shared, own]);
    assert_eq!((found[0].0, found[0].1), (100 * MS, 110 * MS));
    assert!(found[1].0 == found[1].1 && found[1].0.abs_diff(333_333_333) < 2, "{found:?}");
}

#[test]
fn a_small_demand_is_served_in_full_beside_a_large_one() {
    // 10 of 100 is below the fair share of 50: that job is never slowed. The other gets 90 of 100 while both are Up.
    // Both are Up from 0: the large one has done 45 of its 50 when the small one ends at 50, then runs alone: 55, and
    // 50 Down: 105. The small one repeats every 100, so the large one drifts through it; alone it would take 100.
    let (small, large) = ([up(0, 50, 10)], [up(0, 50, 100)]);
    let link = FluidLink { capacity: Rate(100), demands: vec![(0, &small[..]), (1, &large[..])] };
    let found = times(&[job(100, 0), job(100, 50)], &[link]);
    assert_eq!(found[0], (100, 100, 100));
    assert_eq!((found[1].0, found[1].2), (100, 100));
    // It drifts until its Up phase starts when the small one's ends; from then on nothing touches.
    assert!((100..=105).contains(&found[1].1), "{found:?}");
}

#[test]
fn what_no_shift_can_separate_stretches_and_slips() {
    // Two jobs with 80 of 100 Up at the whole link need 160 of every period of the pair.
    let phase = [up(20, 100, 10)];
    let link = FluidLink { capacity: Rate(10), demands: vec![(0, &phase[..]), (1, &phase[..])] };
    let found = predict(&[job(100, 0), job(100, 50)], &[link], TOLERANCE_PERMILLE);
    for t in &found {
        // Unshifted: 20 + 160. Gated with slots of 100, every iteration is late by more than 15: it waits for slot 200 at most.
        assert_eq!(t.contended.0, 180);
        assert!((160..=200).contains(&t.all_held.0) && t.slips > 0.5, "{t:?}");
    }
}

#[test]
fn periods_that_do_not_lock_end_at_the_bound() {
    let (a, b) = ([up(0, 400_003, 10)], [up(0, 300_007, 10)]);
    let link = FluidLink { capacity: Rate(10), demands: vec![(0, &a[..]), (1, &b[..])] };
    for (solo, unshifted, shifted) in times(&[job(1_000_003, 0), job(699_931, 0)], &[link]) {
        assert!(unshifted >= solo && shifted >= solo && unshifted < 2 * solo, "{solo} {unshifted} {shifted}");
    }
}

#[test]
fn extreme_ratios_of_periods_are_bounded() {
    let (a, b) = ([up(0, 1 << 40, 10)], [up(0, 1, 10)]);
    let link = FluidLink { capacity: Rate(10), demands: vec![(0, &a[..]), (1, &b[..])] };
    let found = times(&[job(1 << 41, 0), job(2, 0)], &[link]);
    assert_eq!(found[0].0, 1 << 41);
    // Nothing to share and nobody at all are fine too.
    assert_eq!(times(&[job(7, 3)], &[]), [(7, 7, 7)]);
    assert_eq!(times(&[], &[]), []);
}

#[test]
fn a_component_of_ten_jobs_is_quick_and_repeats_exactly() {
    let phases: Vec<[Phase; 1]> = (0..10u64).map(|j| [up(50 * MS, (65 + j) * MS, 50_000)]).collect();
    let links: Vec<FluidLink<'_>> =
        (0..9).map(|l| FluidLink { capacity: Rate(50_000), demands: vec![(l, &phases[l][..]), (l + 1, &phases[l + 1][..])] }).collect();
    let jobs: Vec<FluidJob> = (0..10u64).map(|j| job(100 * MS, (j % 4) * 25 * MS)).collect();
    let first = predict(&jobs, &links, TOLERANCE_PERMILLE);
    assert_eq!(first, predict(&jobs, &links, TOLERANCE_PERMILLE));
    assert!(first.iter().all(|t| t.all_held == t.solo), "{first:?}");
}

/// Periods of 1 ms and 60 s: the run ends before the slow job's second start. Alone the fast one sends for half of the time; beside
/// the slow one both get 25 of 30, so it takes 1.1 ms and slows the slow one for 0.6 of those: by 1.1 over the 20 s that it sends.
#[test]
fn a_job_of_which_no_whole_iteration_was_seen_takes_what_it_took_and_the_rest() {
    let (fast, slow) = ([up(0, 500_000, 30_000)], [up(0, 20_000 * MS, 30_000)]);
    let link = FluidLink { capacity: Rate(50_000), demands: vec![(0, &fast[..]), (1, &slow[..])] };
    let found = times(&[job(MS, 0), job(60_000 * MS, 0)], &[link]);
    assert_eq!((found[0].0, found[1].0), (MS, 60_000 * MS));
    assert!((61_900 * MS..62_100 * MS).contains(&found[1].1), "{found:?}");
    // Held, the fast one misses slots and is in the way less often.
    assert!((60_000 * MS..62_000 * MS).contains(&found[1].2), "{found:?}");
    // Of 5,000 s less than one of the slow job's phases is seen, and a job that a link holds back even alone is no faster.
    let (fast, slow) = ([up(0, 50_000, 30_000)], [up(0, 2_000_000 * MS, 100_000)]);
    let link = FluidLink { capacity: Rate(50_000), demands: vec![(0, &fast[..]), (1, &slow[..])] };
    let found = times(&[job(100_000, 0), job(5_000_000 * MS, 0)], &[link]);
    assert!(found.iter().all(|(solo, unshifted, shifted)| unshifted >= solo && shifted >= solo), "{found:?}");
}
