//! A slice of the fuzzer with fixed seeds, and the documents that it once found. `examples/fuzz.rs` runs as many as one likes.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod fuzzing;
mod oracle;

use antiphase_circle::{Effort, Options, solve};
use fuzzing::{
    Case, check,
    fast::Fast,
    folded::FoldedLinks,
    kinds::{Kind, draw, is_beyond_64_bits},
    shrink::shrink,
};
use oracle::{Instance, Random};

/// Documents of each kind: together about 15 seconds on one core at the optimisation of test builds.
const COUNT: u64 = 5_000;
/// Documents of an LCM beyond 64 bits, and of loose jobs.
const COUNT_LONG: u64 = 200;
const COUNT_LOOSE: u64 = 50;
const SEED: u64 = 0xa17;
/// Rounding of the oracles' last divisions.
const TOLERANCE: f64 = 1e-12;

/// Fails with the smallest document that breaks the first false claim.
fn holds(case: &Case) {
    let Some(first) = check(case).failures.into_iter().next() else { return };
    let small = shrink(case, first.claim);
    let said: Vec<String> = check(&small).failures.into_iter().map(|f| format!("{}: {}", f.claim.name(), f.text)).collect();
    panic!("{case}\nshrunk:\n{small}\n{}", said.join("\n"));
}

fn slice(kind: Kind) {
    for number in 0..COUNT {
        holds(&draw(kind, SEED, number));
    }
}

#[test]
fn every_claim_holds_of_plain_documents() {
    slice(Kind::Plain);
}

#[test]
fn every_claim_holds_where_pairs_have_no_common_factor() {
    slice(Kind::Gcd1);
}

#[test]
fn every_claim_holds_of_equal_and_harmonic_periods() {
    slice(Kind::Equal);
}

#[test]
fn every_claim_holds_of_periods_that_are_nearly_equal() {
    slice(Kind::Measured);
}

#[test]
fn every_claim_holds_of_several_levels() {
    slice(Kind::Levels);
}

/// These solves are longer, and so are their oracle's searches for good shifts.
#[test]
fn every_claim_holds_where_no_64_bits_hold_the_lcm() {
    let mut beyond = 0;
    for number in 0..COUNT_LONG {
        let case = draw(Kind::LongLcm, SEED, number);
        beyond += u64::from(is_beyond_64_bits(&case.instance));
        holds(&case);
    }
    assert_eq!(beyond, COUNT_LONG);
}

#[test]
fn every_claim_holds_where_jobs_hardly_lock() {
    for number in 0..COUNT_LOOSE {
        holds(&draw(Kind::Loose, SEED, number));
    }
}

/// Periods 10, 2 and 5: the two short ones have gcd 1 and meet only through the long one.
/// The optimum, without any shift too, is 0.69, and 0.62 was once called proven.
#[test]
fn jobs_that_meet_only_through_a_third_are_not_falsely_proven() {
    let members = vec![(0, vec![(4, 10, 7)]), (1, vec![(0, 1, 10)]), (2, vec![(1, 2, 10)])];
    let instance = Instance { periods: vec![10, 2, 5], links: vec![(10, members)] };
    assert!((instance.optimum() - 0.69).abs() < TOLERANCE, "{}", instance.optimum());
    holds(&Case::of(instance));
}

/// The same periods with other phases: the optimum, without any shift too, is 0.63, and 0.56 was once called proven.
#[test]
fn p17_is_not_falsely_proven() {
    let members = vec![(0, vec![(0, 6, 10)]), (1, vec![(0, 1, 10)]), (2, vec![(4, 5, 7)])];
    let instance = Instance { periods: vec![10, 2, 5], links: vec![(10, members)] };
    assert!((instance.optimum() - 0.63).abs() < TOLERANCE, "{}", instance.optimum());
    holds(&Case::of(instance));
}

/// Periods of 1:2, odd and even, beside one that shares 5 ticks with the one and 10 with the other. Apart, the first two send for
/// three quarters of the time and never together, and the third one is 1 above the capacity half of that time: 1 - 0.75 * 0.5 / 10. Once
/// nobody was moved, because the circle that keeps all couplings was taken for too long.
#[test]
fn periods_of_one_to_two_beside_a_measured_one_are_kept_apart() {
    let (period, other) = (39_355_705, 142_234_790);
    let members = vec![(0, vec![(0, period / 2, 10)]), (1, vec![(0, period / 2, 10)]), (2, vec![(0, other / 2, 1)])];
    let case = Case::of(Instance { periods: vec![period, 2 * period, other], links: vec![(10, members)] });
    let found = solve(&case.problem().unwrap(), &Options::default()).unwrap();
    assert!((found.mean_score - 0.9625).abs() < 1e-6, "{}", found.mean_score);
    holds(&case);
}

/// Six jobs of which a fast search drops couplings. The shifts that it found beside the running job had 0.736, though the best, and no shifts
/// at all, have 0.756. (Document 7189 of seed 20261123 of `long-lcm`, shrunk.)
#[test]
fn adjusting_is_no_worse_than_solving_where_couplings_are_dropped() {
    let jobs = [
        (1_731_881_000, 227_434_969, 227_435_001, 1),
        (153_498_000, 101_170_540, 101_173_051, 120),
        (5_905_964_000, 551_133_597, 3_244_884_750, 50),
        (37_824_000, 1_941_425, 18_563_961, 70),
        (2_952_982_000, 1_210_855_009, 2_268_862_073, 70),
        (75_648_000, 26_998_634, 72_078_521, 40),
    ];
    let members = jobs.iter().enumerate().map(|(j, job)| (j, vec![(job.1, job.2, job.3)])).collect();
    let instance = Instance { periods: jobs.iter().map(|job| job.0).collect(), links: vec![(100, members)] };
    let current = Some(vec![None, None, None, None, None, Some(55_266_605)]);
    holds(&Case { effort: Effort::Fast, current, ..Case::of(instance) });
}

/// Pairs of three periods, and four of the jobs on a second link: of two jobs that are bounded alone nobody is on that
/// link, whose circle cannot be walked around.
#[test]
fn a_link_without_any_job_of_a_subset_is_not_walked_around() {
    let periods = [1_000_000_007, 1_000_000_007, 999_999_937, 999_999_937, 998_244_353, 998_244_353];
    let member = |j: usize| (j, vec![(0, periods[j] / 3, 60)]);
    let links = vec![(100, (0..6).map(member).collect()), (100, (0..4).map(member).collect())];
    holds(&Case::of(Instance { periods: periods.to_vec(), links }));
}

/// Three pairs of equal periods, whose LCM is 2^90: each pair sends 120 for half of the time, or never more than 60 where it is
/// apart, and the pairs are independent.
#[test]
fn the_oracle_knows_scores_beyond_64_bits_by_hand() {
    let periods = [1 << 30, 1 << 30, 1_000_000_007, 1_000_000_007, 999_999_937, 999_999_937];
    let members = (0..6).map(|j| (j, vec![(0, periods[j] / 2, 60)])).collect();
    let instance = Instance { periods: periods.to_vec(), links: vec![(100, members)] };
    assert!(is_beyond_64_bits(&instance));
    let folded = FoldedLinks::try_new(&instance).unwrap();
    // In step k of 3 pairs send 120 k: excess 20, 140, 260 in 3, 3 and 1 of 8 cases.
    let in_step = 1.0 - f64::from(3 * 20 + 3 * 140 + 260) / 8.0 / 100.0;
    assert!((folded.link_score(0, &[0; 6]) - in_step).abs() < 1e-7, "{}", folded.link_score(0, &[0; 6]));
    // Apart each pair sends 60 all the time: 80 too much.
    let apart: Vec<u64> = (0..6).map(|j| if j % 2 == 0 { 0 } else { periods[j] / 2 }).collect();
    assert!((folded.link_score(0, &apart) - 0.2).abs() < 1e-7, "{}", folded.link_score(0, &apart));
}

/// The oracle of the fuzzer is itself held against the slow walk over every tick and all shifts.
#[test]
fn looked_up_scores_and_optima_are_those_of_the_walk() {
    for number in 0..400 {
        let kind = Kind::of(number);
        let case = draw(kind, SEED ^ 0xfa57, number);
        let Some(fast) = Fast::try_new(&case.instance) else { continue };
        for shifts in [&case.evaluated, &vec![0; case.evaluated.len()]] {
            let (said, walked) = (fast.mean_of(fast.cost(shifts)), case.instance.mean(shifts));
            assert!((said - walked).abs() < TOLERANCE, "number {number}: {said} is {walked}: {case}");
            for link in 0..case.instance.links.len() {
                let (said, walked) = (fast.link_score(link, shifts), case.instance.link_score(link, shifts));
                assert!((said - walked).abs() < TOLERANCE, "number {number}, link {link}: {said} is {walked}: {case}");
            }
        }
        let assignments: u64 = case.instance.periods.iter().skip(1).product();
        if assignments <= 2_000 {
            let (cost, with) = fast.best_below(u64::MAX).unwrap();
            let (best, walked) = (fast.mean_of(cost), case.instance.optimum());
            assert!((best - walked).abs() < TOLERANCE, "number {number}: {best} is {walked}: {case}");
            assert!((case.instance.mean(&with) - best).abs() < TOLERANCE, "number {number}: {with:?}");
        }
    }
}

/// The best worst case of the oracle, against a search that repeats all its scores.
#[test]
fn looked_up_worst_cases_are_those_of_the_walk() {
    let mut compared = 0;
    for number in 0..2_000 {
        let mut random = Random(number ^ 0x3057);
        let instance = random.instance(3, 2, &[2, 3, 4, 5, 6]);
        let drift = random.range(1, 2);
        let Some(fast) = Fast::try_new(&instance).filter(|_| instance.periods.len() > 1) else { continue };
        let mut best = f64::NEG_INFINITY;
        let assignments: u64 = instance.periods.iter().product();
        for mut at in 0..assignments {
            let mut shifts = vec![];
            for &t in &instance.periods {
                shifts.push(at % t);
                at /= t;
            }
            let mut worst = instance.mean(&shifts);
            for (job, &t) in instance.periods.iter().enumerate() {
                for d in 0..=2 * drift {
                    let mut moved = shifts.clone();
                    moved[job] = (moved[job] + t * drift + d - drift) % t;
                    worst = worst.min(instance.mean(&moved));
                }
            }
            let said = fast.mean_of(fast.worst(&shifts, drift, u64::MAX));
            assert!((said - worst).abs() < TOLERANCE, "number {number}: {said} is {worst} at {shifts:?}: {instance:?}");
            best = best.max(worst);
        }
        let (cost, _) = fast.best_worst_below(u64::MAX, drift).unwrap();
        assert!((fast.mean_of(cost) - best).abs() < TOLERANCE, "number {number}: {} is {best}: {instance:?}", fast.mean_of(cost));
        compared += 1;
        if compared == 150 {
            return;
        }
    }
    panic!("only {compared} instances are small enough");
}

#[test]
fn folded_scores_are_those_of_the_walk() {
    for number in 0..1_000 {
        let kind = Kind::of(number);
        let case = draw(kind, SEED ^ 0xf01d, number);
        let Some(fast) = Fast::try_new(&case.instance) else { continue };
        let folded = FoldedLinks::try_new(&case.instance).unwrap();
        let mut random = Random(number);
        for link in 0..case.instance.links.len() {
            let (said, walked) = (folded.link_score(link, &case.evaluated), fast.link_score(link, &case.evaluated));
            assert!((said - walked).abs() < TOLERANCE, "number {number}, link {link}: {said} is {walked}: {case}");
        }
        let (worst, complete) = folded.worst(&case.evaluated, 1 + number % 3, &mut random);
        let truth = fast.mean_of(fast.worst(&case.evaluated, 1 + number % 3, u64::MAX));
        assert!(worst >= truth - TOLERANCE, "number {number}: {worst} is {truth}: {case}");
        assert!(!complete || worst < truth + TOLERANCE, "number {number}: {worst} is {truth}: {case}");
        let (good, with) = folded.good(&case.evaluated, &mut random);
        assert!((folded.mean(&with) - good).abs() < TOLERANCE && good >= folded.mean(&case.evaluated), "number {number}");
    }
}
