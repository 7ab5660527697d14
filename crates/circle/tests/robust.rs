//! What robust mode says of its own answers, checked against exhaustive search over shifts and drifts.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod oracle;

use antiphase_circle::{Effort, JobId, Member, Options, Phase, Problem, ProblemBuilder, Rate, Solution, Ticks, solve};
use oracle::{Instance, Phases, Random};

const TOLERANCE: f64 = 1e-9;

fn problem(instance: &Instance) -> Problem {
    let mut b = ProblemBuilder::new();
    for &t in &instance.periods {
        b.job(Ticks(t)).unwrap();
    }
    for (capacity, members) in &instance.links {
        let phases =
            |p: &Phases| -> Vec<Phase> { p.iter().map(|&(s, e, r)| Phase { start: Ticks(s), end: Ticks(e), rate: Rate(r) }).collect() };
        let members: Vec<Member> = members.iter().map(|(j, p)| b.demand(JobId(*j as u32), &phases(p)).unwrap()).collect();
        b.link(Rate(*capacity), members).unwrap();
    }
    b.build()
}

fn robust(instance: &Instance, drift: u64, effort: Effort) -> Solution {
    solve(&problem(instance), &Options { robust: Some(Ticks(drift)), effort, ..Options::default() }).unwrap()
}

fn shifts(solution: &Solution) -> Vec<u64> {
    solution.shifts.iter().map(|s| s.shift.0).collect()
}

/// The worst mean score while one job drifts.
fn worst(instance: &Instance, shifts: &[u64], drift: u64) -> f64 {
    let mut worst = instance.mean(shifts);
    for (job, &period) in instance.periods.iter().enumerate() {
        for d in 0..=2 * drift {
            let mut moved = shifts.to_vec();
            moved[job] = (moved[job] + d + period * drift - drift) % period;
            worst = worst.min(instance.mean(&moved));
        }
    }
    worst
}

/// The best of [`worst`] over all shifts, each link's scores looked up: jobs `2l` and `2l + 1` are alone on link `l`, all of one period.
fn best_of_pairs(instance: &Instance, drift: u64) -> f64 {
    let period = instance.periods[0];
    let losses = |link: usize| -> Vec<f64> {
        let at = |x| {
            let mut shifts = vec![0; instance.periods.len()];
            shifts[2 * link + 1] = x;
            1.0 - instance.link_score(link, &shifts)
        };
        (0..period).map(at).collect()
    };
    let drifted = |losses: &[f64]| -> Vec<f64> {
        let around = |x: u64| (0..=2 * drift).map(move |d| (x + d + period * drift - drift) % period);
        (0..period).map(|x| around(x).map(|y| losses[y as usize]).fold(0.0, f64::max)).collect()
    };
    // By level of the addition that the links share: the least loss of each link that adds no more.
    let links: Vec<(Vec<f64>, Vec<f64>)> = (0..instance.links.len()).map(losses).map(|l| (drifted(&l), l)).collect();
    let added = |(worst, loss): &(Vec<f64>, Vec<f64>)| worst.iter().zip(loss).map(|(w, l)| w - l).collect::<Vec<_>>();
    let additions: Vec<Vec<f64>> = links.iter().map(added).collect();
    let mut best = f64::INFINITY;
    for &level in additions.iter().flatten() {
        let least = |(l, additions): (usize, &Vec<f64>)| {
            additions.iter().zip(&links[l].1).filter(|(a, _)| **a <= level + 1e-12).map(|(_, loss)| *loss).fold(f64::INFINITY, f64::min)
        };
        best = best.min(level + additions.iter().enumerate().map(least).sum::<f64>());
    }
    1.0 - best / instance.links.len() as f64
}

fn pairs(random: &mut Random, links: usize, period: u64, phases_max: u64) -> Instance {
    let link = |l| {
        (
            10,
            vec![
                (2 * l, random.phases(period, phases_max, &[4, 6, 8, 10])),
                (2 * l + 1, random.phases(period, phases_max, &[4, 6, 8, 10])),
            ],
        )
    };
    Instance { periods: vec![period; 2 * links], links: (0..links).map(link).collect() }
}

/// So many edges meet that a pair has thousands of shifts at which the slope may change.
#[test]
fn two_jobs_of_many_phases_reach_the_best_worst_case() {
    for seed in 0..6 {
        let mut random = Random(seed ^ 0xc0b);
        let mut comb = |offset: u64| -> Phases {
            (0..45).map(|i| (i * 20 + offset, i * 20 + offset + random.range(1, 9), *random.pick(&[4, 6, 8]))).collect()
        };
        let instance = Instance { periods: vec![900; 2], links: vec![(10, vec![(0, comb(0)), (1, comb(3))])] };
        let drift = 1 + seed;
        let solution = robust(&instance, drift, Effort::Thorough);
        let reported = solution.robust.unwrap();
        let best = best_of_pairs(&instance, drift);
        assert!(reported.exact && (reported.mean_score - worst(&instance, &shifts(&solution), drift)).abs() < TOLERANCE, "seed {seed}");
        assert!((reported.mean_score - best).abs() < TOLERANCE, "seed {seed}: {} but exhaustive {best}", reported.mean_score);
        assert!(solution.optimality.proven, "seed {seed}");
    }
}

/// The drift of one job falls on one link only, so links share the price of robustness.
#[test]
fn proven_over_several_sets_means_that_nothing_is_better() {
    let (mut proven, mut reached) = (0, 0);
    for seed in 0..600 {
        let mut random = Random(seed ^ 0x9a12);
        let links = random.range(1, 3) as usize;
        let instance = pairs(&mut random, links, 24, 2);
        let drift = random.range(1, 12);
        let solution = robust(&instance, drift, Effort::Thorough);
        let (reported, best) = (solution.robust.unwrap(), best_of_pairs(&instance, drift));
        let truth = worst(&instance, &shifts(&solution), drift);
        assert!(reported.exact && (reported.mean_score - truth).abs() < TOLERANCE, "seed {seed}: {} is {truth}", reported.mean_score);
        let reach = reported.mean_score + solution.optimality.bound_gap;
        assert!(best <= reach + TOLERANCE, "seed {seed}: the optimum {best} is above the worst score plus gap {reach}: {instance:?}");
        let is_best = reported.mean_score >= best - TOLERANCE;
        assert!(is_best || !solution.optimality.proven, "seed {seed}: falsely proven, {best} exists: {instance:?}");
        assert!(solution.optimality.proven || links > 1, "seed {seed}: one link with two jobs is exact");
        proven += u32::from(solution.optimality.proven);
        reached += u32::from(is_best);
    }
    println!("{proven} of 600 proven, {reached} best");
    assert!(proven > 400 && reached > 580, "{proven} proven, {reached} best: robust mode has become weak");
}

#[test]
fn three_jobs_state_a_true_bound_of_the_worst_case() {
    for seed in 0..150 {
        let mut random = Random(seed ^ 0x3b0);
        let members = (0..3).map(|job| (job, random.phases(12, 2, &[4, 6, 8, 10]))).collect();
        let instance = Instance { periods: vec![12; 3], links: vec![(10, members)] };
        let drift = 1 + seed % 2;
        let solution = robust(&instance, drift, Effort::Thorough);
        let best = (0..144).map(|s| worst(&instance, &[0, s / 12, s % 12], drift)).fold(f64::NEG_INFINITY, f64::max);
        let reached = solution.robust.unwrap().mean_score;
        let reach = reached + solution.optimality.bound_gap;
        assert!(best <= reach + TOLERANCE, "seed {seed}: the optimum {best} is above the worst score plus gap {reach}");
        assert!(!solution.optimality.proven || (reached - best).abs() < TOLERANCE, "seed {seed}: falsely proven");
        let plain = solve(&problem(&instance), &Options::default()).unwrap();
        assert!(plain.mean_score <= solution.mean_score + solution.robust.unwrap().plain_gap + TOLERANCE, "seed {seed}");
    }
}

/// With too many meetings to look at, the worst case is stated as a bound, and as nothing more.
#[test]
fn what_is_not_looked_at_is_stated_as_a_bound() {
    let mut random = Random(0xb0d);
    let mut comb =
        |step: u64| -> Phases { (0..300).map(|i| (i * step, i * step + random.range(1, step / 2), *random.pick(&[4, 6, 8]))).collect() };
    let instance = Instance { periods: vec![300 * 401, 300 * 401], links: vec![(10, vec![(0, comb(401)), (1, comb(397))])] };
    let drift = 50_000;
    let solution = robust(&instance, drift, Effort::Fast);
    let reported = solution.robust.unwrap();
    assert!(!reported.exact && !solution.optimality.proven);
    let here = shifts(&solution);
    for d in (0..=2 * drift).step_by(9_973) {
        let moved = [here[0], (here[1] + d + 120_300 - drift) % 120_300];
        assert!(instance.mean(&moved) >= reported.mean_score - TOLERANCE, "drift {d}");
    }
}
