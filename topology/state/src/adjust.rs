//! Shifts after a change that leave as many running jobs as possible where they are.

use alloc::{collections::BTreeMap, vec, vec::Vec};

use circle::{DemandId, JobId, Options, PERIOD_TICKS_MAX, PHASES_PER_DEMAND_MAX, Phase, Problem, ProblemBuilder, Rate, SolveError, Ticks};

use crate::config::MOVE_TOLERANCE;

/// Most placements tried to find out which running jobs have to move; then the best joint solution is taken.
const TRIES_MAX: usize = 32;

/// One shift per job. `current` holds the shifts of running jobs; `None` is a job to be placed. The mean score is within
/// [`MOVE_TOLERANCE`] of the best joint solution that the solver finds; within that, few running jobs move.
///
/// # Errors
/// As [`circle::solve`].
pub(crate) fn adjust(problem: &Problem, options: &Options, current: &[Option<Ticks>]) -> Result<Vec<Ticks>, SolveError> {
    let score = |shifts: &[Ticks]| circle::evaluate(problem, shifts).map(|s| s.mean_score);
    let running: Vec<usize> = (0..current.len()).filter(|j| current[*j].is_some()).collect();
    if running.is_empty() {
        return Ok(circle::solve(problem, options)?.shifts.iter().map(|s| s.shift).collect());
    }
    let kept = place(problem, options, current)?;
    if let Some(kept) = &kept
        && score(kept)? >= 1.0 - MOVE_TOLERANCE
    {
        return Ok(kept.clone());
    }
    let best = circle::solve(problem, options)?;
    let enough = best.mean_score - MOVE_TOLERANCE;
    if let Some(kept) = kept
        && score(&kept)? >= enough
    {
        return Ok(kept);
    }
    let locks: Vec<u64> = best.shifts.iter().map(|s| s.lock.0.max(1)).collect();
    let turned = turn(problem, &best.shifts.iter().map(|s| s.shift.0).collect::<Vec<_>>(), &locks, current);
    let moves = running.iter().filter(|j| current[**j] != Some(turned[**j])).count();
    Ok(free_few(problem, options, current, moves, enough)?.unwrap_or(turned))
}

/// Frees running jobs one by one, always the one whose freedom helps most, as long as fewer than `moves` are free.
fn free_few(
    problem: &Problem,
    options: &Options,
    current: &[Option<Ticks>],
    moves: usize,
    enough: f64,
) -> Result<Option<Vec<Ticks>>, SolveError> {
    let mut held = current.to_vec();
    let mut tries = TRIES_MAX;
    for _ in 1..moves {
        let mut found: Option<(f64, usize, Vec<Ticks>)> = None;
        for j in nearest_first(problem, &held) {
            let Some(shift) = held[j].take() else { continue };
            let placed = if tries > 0 { place(problem, options, &held)? } else { None };
            held[j] = Some(shift);
            tries = tries.saturating_sub(1);
            let Some(placed) = placed else { continue };
            let score = circle::evaluate(problem, &placed)?.mean_score;
            if found.as_ref().is_none_or(|f| score > f.0) {
                found = Some((score, j, placed));
            }
        }
        let Some((score, j, placed)) = found else { return Ok(None) };
        if score >= enough {
            return Ok(Some(placed));
        }
        held[j] = None;
    }
    Ok(None)
}

/// The jobs that stand, first those that share a link with one that does not: tries are few, and these are worth most.
fn nearest_first(problem: &Problem, held: &[Option<Ticks>]) -> Vec<usize> {
    let mut near = vec![false; held.len()];
    for link in problem.links().iter().filter(|l| l.members.iter().any(|m| held[m.job.index()].is_none())) {
        link.members.iter().for_each(|m| near[m.job.index()] = true);
    }
    let mut jobs: Vec<usize> = (0..held.len()).filter(|j| held[*j].is_some()).collect();
    jobs.sort_by_key(|j| (!near[*j], *j));
    jobs
}

/// The solution `best`, turned as a whole so that most running jobs stay where they are. Those whose distance is a multiple
/// of their lock stay exactly: it changes no score.
fn turn(problem: &Problem, best: &[u64], locks: &[u64], current: &[Option<Ticks>]) -> Vec<Ticks> {
    let period = |j: usize| problem.periods()[j].0;
    let turned = |by: u64| -> Vec<Ticks> {
        let one = |j: usize| {
            let shift = (best[j] % period(j) + by % period(j)) % period(j);
            match current[j] {
                Some(here) if here.0.abs_diff(shift).is_multiple_of(locks[j]) => here,
                _ => Ticks(shift),
            }
        };
        (0..best.len()).map(one).collect()
    };
    let stay = |shifts: &[Ticks]| shifts.iter().zip(current).filter(|(s, c)| Some(**s) == **c).count();
    let distance = |j: usize| current[j].map(|here| (here.0 + period(j) - best[j] % period(j)) % period(j));
    let mut found: Option<(usize, Vec<Ticks>)> = None;
    for by in (0..best.len()).filter_map(distance) {
        let shifts = turned(by);
        let stay = stay(&shifts);
        // The first of equally good ones, so that the order of jobs decides and not chance.
        if found.as_ref().is_none_or(|f| stay > f.0) {
            found = Some((stay, shifts));
        }
    }
    found.map_or_else(|| turned(0), |f| f.1)
}

/// Places the jobs without a shift and moves nobody: those that stand are one job as far as the others are concerned.
/// `None`: they cannot be stated as one, because their common circle is too long.
fn place(problem: &Problem, options: &Options, current: &[Option<Ticks>]) -> Result<Option<Vec<Ticks>>, SolveError> {
    let free: Vec<usize> = (0..current.len()).filter(|j| current[*j].is_none()).collect();
    let stay = |j: usize| current[j].unwrap_or_default();
    let mut shifts: Vec<Ticks> = (0..current.len()).map(stay).collect();
    if free.is_empty() {
        return Ok(Some(shifts));
    }
    let Some((reduced, standing)) = reduce(problem, current, &free) else { return Ok(None) };
    let solution = circle::solve(&reduced, options)?;
    let turn = standing.map_or(0, |s| solution.shifts[s.index()].shift.0);
    for (local, &j) in free.iter().enumerate() {
        let period = problem.periods()[j].0;
        shifts[j] = Ticks((solution.shifts[local].shift.0 % period + period - turn % period) % period);
    }
    Ok(Some(shifts))
}

/// The free jobs, and one job that stands for all that stay.
fn reduce(problem: &Problem, current: &[Option<Ticks>], free: &[usize]) -> Option<(Problem, Option<JobId>)> {
    let mut local = vec![None; current.len()];
    let mut builder = ProblemBuilder::new();
    for &j in free {
        local[j] = Some(builder.job(problem.periods()[j]).ok()?);
    }
    let links = || problem.links().iter().filter(|l| l.members.iter().any(|m| current[m.job.index()].is_none()));
    let mut perimeter = 1u64;
    let mut stays = false;
    for m in links().flat_map(|l| &l.members).filter(|m| current[m.job.index()].is_some()) {
        perimeter = lcm(perimeter, problem.period(m.job)).filter(|p| *p <= PERIOD_TICKS_MAX)?;
        stays = true;
    }
    let standing = if stays { Some(builder.job(Ticks(perimeter)).ok()?) } else { None };
    let mut known: BTreeMap<Vec<(JobId, DemandId)>, circle::Member> = BTreeMap::new();
    for link in links() {
        let mut members = Vec::with_capacity(link.members.len());
        let mut here = Vec::new();
        for m in &link.members {
            match local[m.job.index()] {
                Some(job) => members.push(builder.demand(job, problem.phases(m.demand)).ok()?),
                None => here.push((m.job, m.demand)),
            }
        }
        if let (Some(standing), false) = (standing, here.is_empty()) {
            let member = match known.get(&here) {
                Some(member) => *member,
                None => builder.demand(standing, &sum(problem, current, &here, perimeter)?).ok()?,
            };
            known.insert(here, member);
            members.push(member);
        }
        builder.link(link.capacity, members).ok()?;
    }
    Some((builder.build(), standing))
}

/// What the jobs that stand demand together over their common perimeter; `None` when that has too many phases.
fn sum(problem: &Problem, current: &[Option<Ticks>], members: &[(JobId, DemandId)], perimeter: u64) -> Option<Vec<Phase>> {
    let turns = |job: JobId| perimeter / problem.period(job);
    let phases: u64 = members.iter().map(|(j, d)| turns(*j).saturating_mul(problem.phases(*d).len() as u64)).fold(0, u64::saturating_add);
    if phases > PHASES_PER_DEMAND_MAX as u64 {
        return None;
    }
    // (time, rate that begins, rate that ends)
    let mut edges: Vec<(u64, u64, u64)> = Vec::new();
    for &(job, demand) in members {
        let shift = current[job.index()].unwrap_or_default().0;
        for turn in 0..turns(job) {
            for p in problem.phases(demand) {
                let from = (turn * problem.period(job) + shift + p.start.0) % perimeter;
                let length = p.end.0 - p.start.0;
                let mut add = |from: u64, to: u64| edges.extend([(from, p.rate.0, 0), (to, 0, p.rate.0)]);
                if from + length <= perimeter {
                    add(from, from + length);
                } else {
                    add(from, perimeter);
                    add(0, from + length - perimeter);
                }
            }
        }
    }
    edges.sort_unstable();
    let mut out: Vec<Phase> = Vec::new();
    let (mut level, mut since) = (0u64, 0u64);
    for chunk in edges.chunk_by(|a, b| a.0 == b.0) {
        let time = chunk[0].0;
        if level > 0 && time > since {
            out.push(Phase { start: Ticks(since), end: Ticks(time), rate: Rate(level) });
        }
        for &(_, up, _) in chunk {
            level = level.checked_add(up)?;
        }
        for &(_, _, down) in chunk {
            level = level.checked_sub(down)?;
        }
        since = time;
    }
    (out.len() <= PHASES_PER_DEMAND_MAX).then_some(out)
}

fn lcm(a: u64, b: u64) -> Option<u64> {
    (a / gcd(a, b)).checked_mul(b)
}

/// Greatest common divisor; `a` when `b` is 0.
pub(crate) fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Jobs of (period, Up from 0 to this) that all send 10 on every one of `links`, which hold 10.
    fn problem(jobs: &[(u64, u64)], links: &[&[usize]]) -> Problem {
        let mut b = ProblemBuilder::new();
        let up = |end: u64| [Phase { start: Ticks(0), end: Ticks(end), rate: Rate(10) }];
        let members: Vec<_> = jobs
            .iter()
            .map(|&(period, end)| {
                let job = b.job(Ticks(period)).unwrap();
                b.demand(job, &up(end)).unwrap()
            })
            .collect();
        for link in links {
            b.link(Rate(10), link.iter().map(|j| members[*j]).collect()).unwrap();
        }
        b.build()
    }

    fn adjusted(problem: &Problem, current: &[Option<u64>]) -> Vec<u64> {
        let current: Vec<Option<Ticks>> = current.iter().map(|c| c.map(Ticks)).collect();
        adjust(problem, &Options::default(), &current).unwrap().iter().map(|t| t.0).collect()
    }

    #[test]
    fn a_new_job_goes_to_the_gap_and_nobody_moves() {
        // 30 of 100 each. Two stand at 10 and 40: the gap is [70, 110), so the third goes to its middle, 75.
        let p = problem(&[(100, 30), (100, 30), (100, 30)], &[&[0, 1, 2]]);
        assert_eq!(adjusted(&p, &[Some(10), Some(40), None]), [10, 40, 75]);
    }

    #[test]
    fn one_moves_when_the_gaps_are_too_small() {
        // Two of 30 stand at 0 and 50: gaps of 20. A third of 30 fits when one of the two moves by 10 or more.
        let p = problem(&[(100, 30), (100, 30), (100, 30)], &[&[0, 1, 2]]);
        let found = adjusted(&p, &[Some(0), Some(50), None]);
        assert_eq!(circle::evaluate(&p, &found.iter().map(|t| Ticks(*t)).collect::<Vec<_>>()).unwrap().mean_score, 1.0);
        assert_eq!([found[0] == 0, found[1] == 50].iter().filter(|s| **s).count(), 1, "{found:?}");
    }

    #[test]
    fn slots_within_the_tolerance_of_the_best_stay() {
        // Up 50 of 100 each, apart by 50.5 would be perfect at 50; they stand 0.4 % off.
        let p = problem(&[(1_000, 500), (1_000, 500)], &[&[0, 1]]);
        assert_eq!(adjusted(&p, &[Some(0), Some(496)]), [0, 496]);
        // 100 off: 10 % of the time over by 1: one of them moves, the first stays.
        assert_eq!(adjusted(&p, &[Some(0), Some(400)]), [0, 500]);
    }

    #[test]
    fn jobs_of_other_periods_are_placed_around_those_that_stand() {
        // A stands with 40 of 100 at 20; B of period 200 is Up for 50: anywhere in [60, 120) of either turn.
        let p = problem(&[(100, 40), (200, 50)], &[&[0, 1]]);
        let found = adjusted(&p, &[Some(20), None]);
        assert_eq!(found[0], 20);
        assert_eq!(circle::evaluate(&p, &[Ticks(20), Ticks(found[1])]).unwrap().mean_score, 1.0, "{found:?}");
    }

    #[test]
    fn neighbours_of_the_newcomer_are_tried_first() {
        let p = problem(&[(100, 10); 5], &[&[0, 1], &[1, 2], &[2, 4]]);
        let held = [Some(Ticks(0)), Some(Ticks(0)), Some(Ticks(0)), Some(Ticks(0)), None];
        assert_eq!(nearest_first(&p, &held), [2, 0, 1, 3]);
    }

    #[test]
    fn standing_jobs_add_up_over_their_common_circle() {
        let p = problem(&[(4, 1), (6, 2), (12, 1)], &[&[0, 1, 2]]);
        let current = [Some(Ticks(3)), Some(Ticks(5)), None];
        let members: Vec<_> = p.links()[0].members.iter().take(2).map(|m| (m.job, m.demand)).collect();
        let found = sum(&p, &current, &members, 12).unwrap();
        // Job 0 at [3,4) [7,8) [11,12); job 1 at [5,7) and [11,12)+[0,1).
        let spans: Vec<_> = found.iter().map(|p| (p.start.0, p.end.0, p.rate.0)).collect();
        assert_eq!(spans, [(0, 1, 10), (3, 4, 10), (5, 7, 10), (7, 8, 10), (11, 12, 20)]);
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig { cases: 128, ..Default::default() })]

        /// The promise: never worse than the best joint solution by more than the tolerance, and never more moves than
        /// turning that solution as a whole; nobody moves where standing still is good enough.
        #[test]
        fn it_is_good_enough_and_moves_few(
            jobs in proptest::collection::vec((1..5u64, 5..95u64, proptest::option::weighted(0.7, 0..400u64)), 2..6),
            links in proptest::collection::vec(proptest::collection::btree_set(0..6usize, 2..5), 1..4),
        ) {
            let shapes: Vec<(u64, u64)> = jobs.iter().map(|(turns, up, _)| (turns * 100, turns * up)).collect();
            let links: Vec<Vec<usize>> =
                links.iter().map(|l| l.iter().map(|j| j % jobs.len()).collect::<alloc::collections::BTreeSet<_>>().into_iter().collect()).collect();
            let p = problem(&shapes, &links.iter().map(Vec::as_slice).collect::<Vec<_>>());
            let current: Vec<Option<Ticks>> = jobs.iter().map(|(turns, _, at)| at.map(|at| Ticks(at % (turns * 100)))).collect();
            let options = Options::default();
            let found = adjust(&p, &options, &current).unwrap();
            let score = |shifts: &[Ticks]| circle::evaluate(&p, shifts).unwrap().mean_score;
            let best = circle::solve(&p, &options).unwrap();
            assert!(score(&found) >= best.mean_score - MOVE_TOLERANCE - 1e-9, "{} of {}", score(&found), best.mean_score);
            let moves = |shifts: &[Ticks]| shifts.iter().zip(&current).filter(|(s, c)| c.is_some_and(|c| c != **s)).count();
            let shifts: Vec<u64> = best.shifts.iter().map(|s| s.shift.0).collect();
            let locks: Vec<u64> = best.shifts.iter().map(|s| s.lock.0).collect();
            let turned = turn(&p, &shifts, &locks, &current);
            // Turning as a whole, and by locks, changes no score.
            assert!((score(&turned) - best.mean_score).abs() < 1e-9);
            assert!(moves(&found) <= moves(&turned));
            if let Some(all) = current.iter().copied().collect::<Option<Vec<Ticks>>>()
                && score(&all) >= best.mean_score - MOVE_TOLERANCE
            {
                assert_eq!(found, all);
            }
        }
    }
}
