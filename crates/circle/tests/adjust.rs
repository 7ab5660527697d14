//! Shifts for a cluster that runs: few running jobs move, and the score is what was asked for. Small cases are compared
//! with every assignment of shifts there is; a failure prints the seed that replays it.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod oracle;

use antiphase_circle::{
    Adjustment, EXACT_JOBS_MAX, Effort, Member, Options, Phase, Problem, ProblemBuilder, Rate, SolveError, Ticks, adjust, solve,
};
use oracle::{Instance, Random};

const TOLERANCE: f64 = 1e-9;

fn problem(instance: &Instance) -> Problem {
    let mut b = ProblemBuilder::new();
    let jobs: Vec<_> = instance.periods.iter().map(|&t| b.job(Ticks(t)).unwrap()).collect();
    for (capacity, members) in &instance.links {
        let phases = |p: &oracle::Phases| -> Vec<Phase> {
            p.iter().map(|&(s, e, r)| Phase { start: Ticks(s), end: Ticks(e), rate: Rate(r) }).collect()
        };
        let members: Vec<Member> = members.iter().map(|(j, p)| b.demand(jobs[*j], &phases(p)).unwrap()).collect();
        b.link(Rate(*capacity), members).unwrap();
    }
    b.build()
}

fn shifts(adjustment: &Adjustment) -> Vec<u64> {
    adjustment.solution.shifts.iter().map(|s| s.shift.0).collect()
}

/// The fewest running jobs that must move for a mean score of `enough`, over every assignment.
fn fewest_moves(instance: &Instance, current: &[Option<u64>], enough: f64) -> usize {
    let mut shifts = vec![0; current.len()];
    let mut fewest = usize::MAX;
    loop {
        let moved = current.iter().zip(&shifts).filter(|(c, s)| c.is_some_and(|c| c != **s)).count();
        if moved < fewest && instance.mean(&shifts) >= enough - TOLERANCE {
            fewest = moved;
        }
        let Some(j) = (0..shifts.len()).find(|&j| shifts[j] + 1 < instance.periods[j]) else { return fewest };
        shifts[..j].fill(0);
        shifts[j] += 1;
    }
}

/// Everything that holds for every answer; returns it.
fn check(seed: u64, instance: &Instance, current: &[Option<u64>], tolerance: f64, effort: Effort) -> Adjustment {
    let p = problem(instance);
    let options = Options { effort, ..Options::default() };
    let given: Vec<Option<Ticks>> = current.iter().map(|c| c.map(Ticks)).collect();
    let found = adjust(&p, &options, &given, tolerance).unwrap();
    let best = solve(&p, &options).unwrap().mean_score;
    // Large components that are well as they stand are shown to be so by an upper bound.
    let bounded = current.len() > EXACT_JOBS_MAX && found.moved.is_empty() && found.fewest && found.best_mean_score > best;
    assert!(bounded || (found.best_mean_score - best).abs() < TOLERANCE, "seed {seed}");
    let mean = found.solution.mean_score;
    assert!(mean >= best - tolerance - TOLERANCE, "seed {seed}: {mean} is more than {tolerance} below {best}: {instance:?} {current:?}");
    let now = shifts(&found);
    assert!((mean - instance.mean(&now)).abs() < TOLERANCE, "seed {seed}: reported {mean}, walked {}", instance.mean(&now));
    let moved: Vec<usize> = (0..now.len()).filter(|&j| current[j].is_some_and(|c| c != now[j])).collect();
    assert_eq!(found.moved.iter().map(|j| j.index()).collect::<Vec<_>>(), moved, "seed {seed}");
    // Nobody could be put back alone; with little effort the search may end before that is seen.
    for &j in moved.iter().filter(|_| effort == Effort::Thorough) {
        let mut back = now.clone();
        back[j] = current[j].unwrap();
        assert!(instance.mean(&back) < best - tolerance + TOLERANCE, "seed {seed}: job {j} moved for nothing");
    }
    found
}

/// One phase of at most half the period: dense, but often there is room for all.
fn burst(random: &mut Random, period: u64) -> oracle::Phases {
    let length = random.range(1, period / 2);
    let start = random.range(0, period - length);
    vec![(start, start + length, *random.pick(&[25, 30, 50]))]
}

fn current(random: &mut Random, instance: &Instance, new_percent: u64) -> Vec<Option<u64>> {
    instance.periods.iter().map(|&t| (random.range(1, 100) > new_percent).then(|| random.range(0, t - 1))).collect()
}

#[test]
fn no_assignment_moves_fewer_jobs() {
    let (mut moved, mut unknown) = ([0; 5], 0);
    for seed in 0..700 {
        let mut random = Random(seed ^ 0xad10);
        let periods: Vec<u64> = (0..random.range(2, 4)).map(|_| *random.pick(&[3, 4, 6, 6, 6])).collect();
        let links = (0..random.range(1, 2))
            .map(|_| {
                let members: Vec<usize> = (0..periods.len()).filter(|_| random.range(0, 4) > 0).collect();
                (50, members.into_iter().map(|j| (j, burst(&mut random, periods[j]))).collect())
            })
            .collect();
        let instance = Instance { periods, links };
        let current = current(&mut random, &instance, 15);
        let tolerance = *random.pick(&[0.0, 0.0, 0.01, 0.1]);
        let found = check(seed, &instance, &current, tolerance, Effort::Thorough);
        let fewest = fewest_moves(&instance, &current, found.best_mean_score - tolerance);
        assert!(found.moved.len() >= fewest, "seed {seed}: the brute force is wrong");
        if found.fewest || found.solution.affinity.components <= 1 {
            assert!(found.fewest, "seed {seed}: one small component, yet not known to be the fewest");
            assert_eq!(found.moved.len(), fewest, "seed {seed}: {instance:?} {current:?} {tolerance}");
        } else {
            unknown += 1;
        }
        moved[found.moved.len()] += 1;
    }
    println!("moved 0, 1, 2, ..: {moved:?}; several components moving: {unknown}");
    assert!(moved[1] > 20 && moved[2] > 20, "too few instances move anything: {moved:?}");
}

#[test]
fn larger_components_keep_the_promises() {
    for seed in 0..30 {
        let mut random = Random(seed ^ 0xad11);
        let periods: Vec<u64> = (0..random.range(6, 9)).map(|_| *random.pick(&[12, 16, 24, 48])).collect();
        let links = (0..random.range(1, 4))
            .map(|_| {
                let members: Vec<usize> = (0..periods.len()).filter(|_| random.range(0, 2) > 0).collect();
                (50, members.into_iter().map(|j| (j, random.phases(periods[j], 2, &[10, 25, 50]))).collect())
            })
            .collect();
        let instance = Instance { periods, links };
        let current = current(&mut random, &instance, 20);
        let mut before = usize::MAX;
        for tolerance in [0.0, 0.02, 0.1, 1.0] {
            check(seed, &instance, &current, tolerance, Effort::Fast);
            let found = check(seed, &instance, &current, tolerance, Effort::Thorough);
            before = before.min(found.moved.len());
            if tolerance == 1.0 {
                assert_eq!(before, 0, "seed {seed}: a tolerance of one needs no move here");
            }
        }
    }
}

/// Two jobs fill a link of 100 ticks but for a gap of 20; a third of 20 fits only there. A fourth of 10 fits nowhere
/// unless somebody moves.
#[test]
fn a_new_job_takes_the_gap_and_moves_nobody() {
    let job = |length: u64| vec![(0, length, 50)];
    let link = |jobs: &[u64]| vec![(50, jobs.iter().map(|&l| job(l)).enumerate().collect())];
    let two_and_one = Instance { periods: vec![100; 3], links: link(&[40, 40, 20]) };
    let found = check(0, &two_and_one, &[Some(30), Some(90), None], 0.0, Effort::Thorough);
    assert_eq!((shifts(&found), found.moved.len(), found.fewest), (vec![30, 90, 70], 0, true));
    // The gap is split 10 + 10: one of the two running jobs must move, and one is enough.
    let found = check(0, &two_and_one, &[Some(30), Some(80), None], 0.0, Effort::Thorough);
    assert_eq!((found.moved.len(), found.fewest, found.solution.mean_score), (1, true, 1.0));
    // With a tolerance of the 10 ticks that do not fit, nobody moves.
    let found = check(0, &two_and_one, &[Some(30), Some(80), None], 0.1, Effort::Thorough);
    assert_eq!((found.moved.len(), shifts(&found)[0]), (0, 30));
}

/// All running, and well: the answer is what they do, not another optimum.
#[test]
fn what_runs_well_is_left_alone() {
    for seed in 0..120 {
        let mut random = Random(seed ^ 0xad12);
        let instance = random.instance(5, 3, &[12, 16, 18, 24, 48]);
        let best = solve(&problem(&instance), &Options::default()).unwrap();
        let turn = random.range(0, 500);
        let current: Vec<Option<u64>> = best.shifts.iter().zip(&instance.periods).map(|(s, t)| Some((s.shift.0 + turn) % t)).collect();
        let found = check(seed, &instance, &current, 0.0, Effort::Thorough);
        assert!(found.moved.is_empty() && found.fewest, "seed {seed}: moved {:?}", found.moved);
    }
}

#[test]
fn shifts_of_another_number_of_jobs_are_refused() {
    let p = problem(&Instance { periods: vec![10, 10], links: vec![] });
    let refused = adjust(&p, &Options::default(), &[None], 0.0).unwrap_err();
    assert_eq!(refused, SolveError::ShiftCount { given: 1, jobs: 2 });
    assert!(adjust(&p, &Options::default(), &[Some(Ticks(3)), None], f64::NAN).unwrap().moved.is_empty());
}

/// Nobody can be moved where nobody runs, so the answer is that of `solve`, to the last tick, also for components above the exact limit.
#[test]
fn without_running_jobs_it_is_solve() {
    for seed in 0..60 {
        let mut random = Random(seed ^ 0x50_1e);
        let jobs = if seed % 6 == 0 { EXACT_JOBS_MAX as u64 + 2 } else { 4 };
        let instance = random.instance(jobs, 3, &[12, 16, 18, 24, 48]);
        let p = problem(&instance);
        let options = Options::default();
        let found = adjust(&p, &options, &vec![None; instance.periods.len()], 0.0).unwrap();
        let solved = solve(&p, &options).unwrap();
        assert_eq!(
            found,
            Adjustment { best_mean_score: solved.mean_score, solution: solved, moved: Vec::new(), fewest: true },
            "seed {seed}"
        );
    }
}
