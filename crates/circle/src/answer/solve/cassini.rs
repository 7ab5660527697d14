//! Paper mode: the rules of CASSINI (NSDI'24) as written, for comparison.
//!
//! Every shared link is its own vertex, directions and all; a graph with a loop is discarded
//! (Algorithm 2). Each link is sampled at 72 angles of 5 degrees on the LCM circle (section 3,
//! equations 1 to 5) and the best rotations of that grid are found exactly; Algorithm 1 turns
//! rotations into shifts. What the paper leaves open is settled as follows: demand is sampled at
//! the angle and right-continuous; `Delta_j` runs over [0, 2 pi / r_j); the first job of a link
//! does not rotate; the first of equal answers wins, starting from no rotation at all; the root of
//! Algorithm 1 is the smallest job id instead of a random one.

use alloc::{vec, vec::Vec};

use num_integer::Integer as _;

use super::View;
use crate::{
    LinkId,
    answer::solution::{Optimality, Outcome, Solution, SolveError},
    budget::Budget,
    model::{
        affinity::{self, Affinity, Rotated},
        problem::{Problem, ProblemLink},
    },
};

/// 360 / 5 degrees.
const ANGLES: usize = 72;
/// Work on one link before the search settles for the best found: about half a second.
const LINK_WORK: u64 = 50_000_000;
/// Angles that are compared in a unit of work.
const ANGLES_PER_UNIT: u64 = 8;

/// A link on the paper's grid.
struct Grid {
    capacity: i64,
    /// Demand of each job at each angle.
    waves: Vec<[i64; ANGLES]>,
    /// How many rotations each job has; 1 for the first.
    ranges: Vec<usize>,
    /// LCM of the periods.
    perimeter: u128,
}

impl Grid {
    fn new(problem: &Problem, id: LinkId, link: &ProblemLink) -> Result<Self, SolveError> {
        let overflow = SolveError::PerimeterOverflow { link: id };
        let mut perimeter: u128 = 1;
        for m in &link.members {
            let t = u128::from(problem.period(m.job));
            // The division comes first, so only an LCM that is itself beyond 128 bits is refused.
            perimeter = (perimeter / perimeter.gcd(&t)).checked_mul(t).ok_or_else(|| overflow.clone())?;
        }
        // Angles and rotations are computed as up to 72 perimeters, so that product must fit too.
        if perimeter.checked_mul(ANGLES as u128).is_none() {
            return Err(overflow);
        }
        let mut waves = Vec::with_capacity(link.members.len());
        let mut ranges = Vec::with_capacity(link.members.len());
        for (i, m) in link.members.iter().enumerate() {
            let t = u128::from(problem.period(m.job));
            let phases = problem.phases(m.demand);
            let mut wave = [0; ANGLES];
            for (k, sample) in wave.iter_mut().enumerate() {
                // Demand changes at whole ticks only, so rounding an angle down to a tick changes no sample.
                let at = (k as u128 * perimeter / ANGLES as u128 % t) as u64;
                *sample = phases.iter().find(|p| p.start.0 <= at && at < p.end.0).map_or(0, |p| p.rate.0 as i64);
            }
            waves.push(wave);
            let turns = perimeter / t;
            // Only differences of rotations matter, so the first job stands still; job `j` has gone around its own circle after
            // 2 pi / r_j, and its rotations repeat from there (paper, section 3).
            ranges.push(if i == 0 { 1 } else { (ANGLES as u128).div_ceil(turns) as usize });
        }
        Ok(Self { capacity: link.capacity.0 as i64, waves, ranges, perimeter })
    }

    fn excess(&self, demand: &[i64; ANGLES]) -> i64 {
        demand.iter().map(|d| (d - self.capacity).max(0)).sum()
    }

    fn rotated(&self, demand: &[i64; ANGLES], job: usize, rotation: usize) -> [i64; ANGLES] {
        let wave = &self.waves[job];
        // A rotation is below 72, so the place exists. The last samples of the wave come round to the front.
        let (tail, head) = wave.split_at(ANGLES - rotation);
        let mut out = *demand;
        for (sum, d) in out.iter_mut().zip(head.iter().chain(tail)) {
            *sum += d;
        }
        out
    }
}

/// Branch and bound over the grid. Excess is convex in the demand, so the unplaced jobs together
/// add at least the sum of what each adds alone at its best rotation.
struct GridSearch<'a> {
    grid: &'a Grid,
    best: i64,
    rotations: Vec<usize>,
    placed: Vec<Option<usize>>,
    budget: &'a mut Budget,
}

/// A job that is being placed, beside those that are.
struct Level {
    /// Of the jobs that are placed.
    demand: [i64; ANGLES],
    /// At least so much excess comes of this level.
    bound: i64,
    job: usize,
    /// What each rotation of the job adds, and the least of these.
    added: Vec<i64>,
    least: i64,
    /// Its rotations, the cheapest first, and how many were tried.
    order: Vec<usize>,
    tried: usize,
}

impl GridSearch<'_> {
    /// Searches in depth. The levels are on the heap: a link has up to a thousand jobs, and threads have small stacks.
    fn search(&mut self) {
        let mut levels = Vec::from_iter(self.open([0; ANGLES]));
        while let Some(level) = levels.last_mut() {
            self.placed[level.job] = None;
            let next = level.order.get(level.tried).copied();
            // Later rotations add more, so the first that is cut cuts all of them.
            let is_cut = |rotation: &usize| level.bound - level.least + level.added[*rotation] >= self.best || self.budget.is_spent();
            let Some(rotation) = next.filter(|rotation| !is_cut(rotation)) else {
                levels.pop();
                continue;
            };
            level.tried += 1;
            self.placed[level.job] = Some(rotation);
            let demand = self.grid.rotated(&level.demand, level.job, rotation);
            levels.extend(self.open(demand));
        }
    }

    /// The next job to place; `None` where nothing better can come of it, or none is left.
    fn open(&mut self, demand: [i64; ANGLES]) -> Option<Level> {
        if self.budget.is_spent() {
            return None;
        }
        let base = self.grid.excess(&demand);
        let mut pending: Vec<(usize, Vec<i64>, i64)> = Vec::new();
        for job in 0..self.placed.len() {
            if self.placed[job].is_none() {
                let added: Vec<i64> =
                    (0..self.grid.ranges[job]).map(|r| self.grid.excess(&self.grid.rotated(&demand, job, r)) - base).collect();
                self.budget.charge((added.len() * ANGLES) as u64 / ANGLES_PER_UNIT);
                let least = added.iter().copied().min().unwrap_or(0);
                pending.push((job, added, least));
            }
        }
        let bound = base + pending.iter().map(|p| p.2).sum::<i64>();
        // A tie is cut too: the first of equal answers wins, and no rotation at all is the first of all.
        if bound >= self.best {
            return None;
        }
        // Fewest rotations first: the tree stays narrow where it is cut last.
        let Some((job, added, least)) = pending.into_iter().min_by_key(|p| p.1.len()) else {
            self.best = base;
            self.rotations = self.placed.iter().map(|r| r.unwrap_or(0)).collect();
            return None;
        };
        let mut order: Vec<usize> = (0..added.len()).collect();
        // The sort is stable, so of equal rotations the smaller one is tried first.
        order.sort_by_key(|&r| added[r]);
        Some(Level { demand, bound, job, added, least, order, tried: 0 })
    }
}

/// The best rotations of one link: (score as the grid sees it, rotation of each member in angles, exhausted).
fn best_rotations(grid: &Grid, budget: &mut Budget) -> (f64, Vec<usize>, bool) {
    let jobs = grid.waves.len();
    let unrotated = (0..jobs).fold([0; ANGLES], |demand, job| grid.rotated(&demand, job, 0));
    let mut search = GridSearch { grid, best: grid.excess(&unrotated), rotations: vec![0; jobs], placed: vec![None; jobs], budget };
    search.search();
    let score = 1.0 - search.best as f64 / (ANGLES as f64 * grid.capacity as f64);
    let exhausted = !search.budget.is_spent();
    (score, search.rotations, exhausted)
}

/// Solves by the paper's rules.
pub(crate) fn solve(view: &View<'_>, mut budget: Budget) -> Result<Solution, SolveError> {
    let problem = view.problem;
    let jobs = problem.periods().len();
    let shared: Vec<usize> = (0..problem.links().len()).filter(|&l| problem.links()[l].members.len() > 1).collect();
    let (components, loops) = affinity::shape(jobs, shared.iter().map(|&l| &problem.links()[l].members[..]));
    let parts = view.parts();
    let unproven = Optimality { proven: false, bound_gap: 0.0 };
    if loops > 0 {
        let mut solution = view.report(Outcome::Loop, &parts, &vec![0; jobs], unproven);
        solution.shifts.clear();
        solution.affinity = Affinity { components, loops, merged_links: 0 };
        // A placement that the paper discards has no shifts; what is reported is the score of zero shifts.
        solution.optimality.bound_gap = (1.0 - solution.mean_score).max(0.0);
        return Ok(solution);
    }
    let mut grid_scores: Vec<Option<f64>> = vec![None; problem.links().len()];
    let mut rotated = Vec::with_capacity(shared.len());
    let mut exhausted = true;
    for &l in &shared {
        let link = &problem.links()[l];
        let grid = Grid::new(problem, LinkId(l as u32), link)?;
        // One hard link must not take the work of the links after it.
        let outer = budget.narrow(LINK_WORK);
        let (score, rotations, complete) = best_rotations(&grid, &mut budget);
        budget.restore(outer);
        grid_scores[l] = Some(score);
        exhausted &= complete;
        // Equation 5: t = Delta / 2 pi * p mod T, rounded to the nearest tick.
        let to_ticks = |(m, r): (&crate::Member, usize)| {
            let exact = r as u128 * grid.perimeter;
            ((exact + ANGLES as u128 / 2) / ANGLES as u128 % u128::from(problem.period(m.job))) as u64
        };
        rotated.push(Rotated {
            jobs: link.members.iter().map(|m| m.job.index()).collect(),
            rotations: link.members.iter().zip(rotations).map(to_ticks).collect(),
        });
    }
    let shifts = affinity::compose(&problem.periods().iter().map(|t| t.0).collect::<Vec<_>>(), &rotated);
    let mut solution = view.report(Outcome::Solved, &parts, &shifts, unproven);
    // The report has scored the shifts exactly; the score of the paper takes the place of `score`, and `true_score` stays.
    for link in &mut solution.links {
        if let Some(score) = grid_scores[link.link.index()] {
            link.score = score;
        }
    }
    let scores: Vec<f64> = solution.links.iter().map(|l| l.score).collect();
    solution.mean_score = view.mean(&scores);
    solution.affinity = Affinity { components, loops, merged_links: 0 };
    // Proven means: no rotation of the grid is better. The true optimum may well be.
    solution.optimality = Optimality { proven: exhausted, bound_gap: if exhausted { 0.0 } else { 1.0 - solution.mean_score } };
    Ok(solution)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mode, Options, Phase, ProblemBuilder, Rate, Ticks};

    /// As many jobs as a link may have: the search goes through all of them, on a thread with a stack as small as any.
    #[test]
    fn a_link_of_a_thousand_jobs_needs_no_deep_stack() {
        let mut b = ProblemBuilder::new();
        let mut members = Vec::new();
        // Periods of 720 and 10: on the grid of 72 angles the long ones have 72 rotations, and the short ones one.
        for n in 0..crate::model::problem::JOBS_PER_LINK_MAX {
            let (period, rate) = if n < 2 { (720, 600) } else { (10, 1) };
            let job = b.job(Ticks(period)).unwrap();
            members.push(b.demand(job, &[Phase { start: Ticks(0), end: Ticks(period / 2), rate: Rate(rate) }]).unwrap());
        }
        // Both at once, and all the others, are above the capacity at some angle; one after the other they are not.
        b.link(Rate(1_700), members).unwrap();
        let problem = b.build();
        let options = Options { mode: Mode::Cassini, ..Options::default() };
        let solve = move || crate::solve(&problem, &options).unwrap().mean_score;
        let score = std::thread::Builder::new().stack_size(256 << 10).spawn(solve).unwrap().join().unwrap();
        assert!(score > 0.99, "{score}");
    }
}
