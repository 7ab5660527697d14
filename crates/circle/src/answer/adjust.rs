//! Shifts for a cluster that runs: new jobs find their place while few running ones move.
//!
//! A move costs a running job a pause, so the question is not which shifts are best but which are good enough
//! and nearest to those that hold. Only jobs that meet matter to each other, directly or through others, and of
//! their shifts only the differences: what stands still is a rigid body around which the others are placed.
//! Component by component the number of moved jobs grows until the mean score is within the tolerance: first none
//! moves, then one, and so on, up to the optimum of [`crate::solve`], rotated as a whole so that most jobs stay.

use alloc::vec::Vec;

use num_integer::{ExtendedGcd, Integer as _};

use super::{
    slack,
    solve::{Part, View},
};
use crate::{
    Effort, JobId, Mode, Optimality, Options, Outcome, PROOF_TOLERANCE, Problem, Solution, SolveError, Ticks,
    budget::Budget,
    demand::sum::{Presence, Workspace},
    search::{EXACT_JOBS_MAX, couplings::Couplings, descent::best_shift, group::Group, optimum_around},
};

/// Work on one set of moved jobs, as a part of what a whole component may take: 2^5 sets of five jobs
/// mostly need far less, and one hard set must not starve the others.
const WORK_SHARE: u64 = 8;
/// In a large component, how many of the running jobs that gain most alone are tried together with those already free.
const TRIED_MAX: usize = 3;
/// Jobs from whose place the common rotation is sought; each is followed by all others.
const ROTATIONS_MAX: usize = 64;

/// Rounds of putting back and centring; the second mostly finds nothing to do.
const FINISHES_MAX: usize = 4;

/// The answer of [`adjust`].
#[derive(Clone, Debug, PartialEq)]
pub struct Adjustment {
    /// Scores and shifts. A running job that is not among the moved ones has its own shift, unchanged. The gap is that to
    /// the best mean score possible, whatever moves.
    pub solution: Solution,
    /// Running jobs with another shift than before, ascending.
    pub moved: Vec<JobId>,
    /// The mean score of [`crate::solve`], which is free to move everything; where a large component was shown to be good
    /// enough without asking it, an upper bound of any mean score.
    pub best_mean_score: f64,
    /// It is known that no shifts within the tolerance move fewer running jobs.
    pub fewest: bool,
}

/// Finds shifts whose mean score is within `tolerance` of the best that [`crate::solve`] finds, and that move few running jobs:
/// `current[j]` is the shift of job `j` if it runs (taken modulo its period), `None` if it is new.
///
/// What is promised: the mean score is at least the best less `tolerance`. If no running job needs to move, none does, as
/// long as at most four new jobs meet (or the descent finds them a place); no moved job could be put back alone; and where
/// only one component needs moves and has at most [`EXACT_JOBS_MAX`] jobs, no smaller set of jobs would do, as
/// [`Adjustment::fewest`] then says. Larger components grow the set greedily. The work limit of the effort may end the
/// proofs and the putting back early; the score holds regardless.
///
/// Paper mode and robust mode know no running jobs: of `options` only effort and work count.
///
/// ```
/// use antiphase_circle::{adjust, Options, Phase, ProblemBuilder, Rate, Ticks};
/// let mut b = ProblemBuilder::new();
/// let up = [Phase { start: Ticks(0), end: Ticks(40), rate: Rate(50_000) }];
/// let mut members = vec![];
/// for _ in 0..2 {
///     let job = b.job(Ticks(100)).unwrap();
///     members.push(b.demand(job, &up).unwrap());
/// }
/// b.link(Rate(50_000), members).unwrap();
/// // The first job runs; the second finds the middle of the room that is left.
/// let found = adjust(&b.build(), &Options::default(), &[Some(Ticks(17)), None], 0.0).unwrap();
/// assert!(found.moved.is_empty());
/// assert_eq!((found.solution.shifts[0].shift, found.solution.shifts[1].shift), (Ticks(17), Ticks(67)));
/// ```
///
/// # Errors
/// [`SolveError::ShiftCount`] and [`SolveError::TooManyPhases`].
pub fn adjust(problem: &Problem, options: &Options, current: &[Option<Ticks>], tolerance: f64) -> Result<Adjustment, SolveError> {
    if current.len() != problem.periods().len() {
        return Err(SolveError::ShiftCount { given: current.len(), jobs: problem.periods().len() });
    }
    let view = View::new(problem, options)?;
    let tolerance = tolerance.max(0.0);
    if let Some(adjusted) = in_place(&view, problem, options, current, tolerance) {
        return Ok(adjusted);
    }
    let best = view.solve_exact(&Options { mode: Mode::Exact, robust: None, ..*options });
    if current.iter().all(Option::is_none) {
        // No job runs, so no job can be moved: the answer is that of solve, to the last tick.
        return Ok(Adjustment { best_mean_score: best.mean_score, solution: best, moved: Vec::new(), fewest: true });
    }
    let mut shifts = standing(problem, current);
    let best_shifts: Vec<u64> = best.shifts.iter().map(|s| s.shift.0).collect();
    let mut components = Component::all(view.components(), &shifts, current, Some(&best_shifts), options);
    let shared = view.shared_links() as f64;
    let best_cost: f64 = components.iter().map(|c| c.best.cost).sum();
    // The tolerance is one of the mean score, and costs are sums over the shared links.
    let budget = best_cost + tolerance * shared + PROOF_TOLERANCE;
    grow_until(budget, &mut components);
    let fewest = no_fewer(&components, budget, best.optimality.bound_gap * shared);
    let mut moved = Vec::new();
    let parts: Vec<Part> = components.into_iter().map(|c| c.settle(&mut shifts, &mut moved)).collect();
    moved.sort_unstable();
    let mut solution = view.report(Outcome::Solved, &parts, &shifts, Optimality { proven: false, bound_gap: 0.0 });
    if solution.mean_score < best.mean_score - tolerance - PROOF_TOLERANCE {
        // On circles from which couplings were dropped, shifts can look better than they are; scores count all couplings.
        return Ok(as_solved(&view, best, current));
    }
    // Where the best is not proven, the shifts found here can be better than it, and the difference is below zero.
    let gap = best.mean_score - solution.mean_score + best.optimality.bound_gap;
    let proven = best.optimality.proven && gap <= PROOF_TOLERANCE;
    solution.optimality = Optimality { proven, bound_gap: if proven { 0.0 } else { gap.max(0.0) } };
    Ok(Adjustment { solution, moved, best_mean_score: best.mean_score, fewest })
}

/// The shifts of the best, with all jobs rotated by the same time, which changes no score: so that most running jobs stay.
fn as_solved(view: &View<'_>, best: Solution, current: &[Option<Ticks>]) -> Adjustment {
    let periods = view.problem.periods();
    let at = |job: usize, rotation: u64| (best.shifts[job].shift.0 + rotation % periods[job].0) % periods[job].0;
    let runs = |job: usize| current[job].map(|c| c.0 % periods[job].0);
    let moves = |rotation: u64| (0..current.len()).filter(move |&j| runs(j).is_some_and(|r| r != at(j, rotation)));
    // Periods are below 2^48, so the sum does not overflow.
    let rotations = (0..current.len()).filter_map(|j| Some((runs(j)? + periods[j].0 - best.shifts[j].shift.0) % periods[j].0));
    // `min_by_key` keeps the first of equals, so the answer does not depend on anything but the order of jobs.
    let rotation = rotations.take(ROTATIONS_MAX).min_by_key(|rotation| moves(*rotation).count()).unwrap_or(0);
    let shifts: Vec<u64> = (0..current.len()).map(|j| at(j, rotation)).collect();
    let moved = moves(rotation).map(|j| JobId(j as u32)).collect();
    let mut solution = view.standing(Outcome::Solved, &shifts);
    solution.optimality.bound_gap = (best.mean_score - solution.mean_score + best.optimality.bound_gap).max(0.0);
    Adjustment { solution, moved, best_mean_score: best.mean_score, fewest: false }
}

/// The shifts that hold, and 0 for new jobs.
fn standing(problem: &Problem, current: &[Option<Ticks>]) -> Vec<u64> {
    current.iter().zip(problem.periods()).map(|(c, t)| c.map_or(0, |c| c.0 % t.0)).collect()
}

/// New jobs placed among running ones that all stay, where a bound shows that this is good enough whatever else could be
/// done: then the best need not be found. Only asked of large components, for whose best there is a bound at most anyway.
fn in_place(view: &View<'_>, problem: &Problem, options: &Options, current: &[Option<Ticks>], tolerance: f64) -> Option<Adjustment> {
    let parts = view.components();
    if current.iter().all(Option::is_none) || parts.iter().all(|part| part.jobs.len() <= EXACT_JOBS_MAX) {
        return None;
    }
    let mut shifts = standing(problem, current);
    // This bound holds for any shifts (bound 2 of docs/model.md, section 6), so no search is needed to judge by it.
    let bound: f64 = parts.iter().map(|part| part.group.least_cost()).sum();
    let mut components = Component::all(parts, &shifts, current, None, options);
    let shared = view.shared_links() as f64;
    let above = cost(&components) - bound;
    if above > tolerance * shared + PROOF_TOLERANCE {
        return None;
    }
    for component in &mut components {
        component.finish(component.choice.cost);
    }
    let settled: f64 = view.settled.iter().map(|s| s.circle.cost(s.circle.blur)).sum();
    let blur: f64 = settled + components.iter().map(|c| c.part.group.blur()).sum::<f64>();
    let mut moved = Vec::new();
    let parts: Vec<Part> = components.into_iter().map(|c| c.settle(&mut shifts, &mut moved)).collect();
    // The blur counts twice: the cost and the bound are both off by it at most.
    let gap = if above + blur > PROOF_TOLERANCE { (above + 2.0 * blur) / shared.max(1.0) } else { 0.0 };
    let solution = view.report(Outcome::Solved, &parts, &shifts, Optimality { proven: gap == 0.0, bound_gap: gap });
    let best_mean_score = solution.mean_score + gap;
    // `finish` moves only new jobs here, and no answer moves fewer running jobs than none.
    Some(Adjustment { solution, moved, best_mean_score, fewest: true })
}

fn cost(components: &[Component]) -> f64 {
    components.iter().map(|c| c.choice.cost).sum()
}

/// Moves jobs until all components together cost at most `budget`, the jobs first that gain most per move; then puts back
/// the jobs that the budget allows.
fn grow_until(budget: f64, components: &mut [Component]) {
    // The loop ends: each round lowers the cost of one component, and a component at the cost of its optimum has no step
    // left that is worth something.
    while cost(components) > budget {
        let worth = |(i, c): (usize, &mut Component)| c.worth().map(|gain| (gain, i));
        // `max_by` keeps the last of equals, so indices are compared the other way round and the first component wins.
        let Some((_, i)) = components.iter_mut().enumerate().filter_map(worth).max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)))
        else {
            break;
        };
        components[i].take();
    }
    for i in 0..components.len() {
        // What one component leaves of the budget is there for the components after it.
        let others = cost(components) - components[i].choice.cost;
        components[i].finish(budget - others);
    }
}

/// Whether it is known that nothing within the budget moves fewer jobs. `gap`: how much the components' optima may be above
/// the true ones, in sum.
fn no_fewer(components: &[Component], budget: f64, gap: f64) -> bool {
    let mut moving = components.iter().filter(|c| c.moved() > 0);
    // With moves in two components, a move less in one could be paid for in the other, and such trades are not tried.
    let (Some(only), None) = (moving.next(), moving.next()) else {
        return components.iter().all(|c| c.moved() == 0);
    };
    let others = components.iter().map(|c| c.best.cost).sum::<f64>() - only.best.cost - gap;
    only.least_with_fewer() + others > budget
}

/// Shifts of the jobs of a component, modulo their locks, and what they cost.
#[derive(Clone, Debug)]
struct Choice {
    shifts: Vec<u64>,
    cost: f64,
}

/// Jobs that meet, directly or through others.
struct Component {
    part: Part,
    /// Where each job runs, modulo its lock; `None`: it is new.
    running: Vec<Option<u64>>,
    /// The optimum, rotated so that most running jobs stay.
    best: Choice,
    choice: Choice,
    /// The next step towards the optimum, where it has been looked for.
    next: Option<Choice>,
    /// By number of moved jobs: no shifts that move so many cost less.
    least: Vec<f64>,
    effort: Effort,
    /// Work for searches.
    work_max: u64,
    workspace: Workspace,
}

impl Component {
    /// Of those parts, which share the work of one problem. `best`: the shifts of the optimum; `None`: it is not wanted, and each component
    /// stands as it does, with its new jobs placed.
    fn all(parts: Vec<Part>, shifts: &[u64], current: &[Option<Ticks>], best: Option<&[u64]>, options: &Options) -> Vec<Self> {
        // Searches get one half of what a component may take (`out_of_work`); the other half is for putting back and for centring.
        let work_max = options.work_each(2 * parts.len());
        let component = |mut part: Part| {
            if work_max < options.effort.work_max() {
                part.group.limit(options.effort, work_max);
            }
            Self::new(part, shifts, current, best, (options.effort, work_max))
        };
        parts.into_iter().map(component).collect()
    }

    fn new(part: Part, shifts: &[u64], current: &[Option<Ticks>], best: Option<&[u64]>, (effort, work_max): (Effort, u64)) -> Self {
        let locks: Vec<u64> = part.group.jobs.iter().map(|j| j.lock).collect();
        let local = |shifts: &[u64]| -> Vec<u64> { part.jobs.iter().zip(&locks).map(|(&j, lock)| shifts[j] % lock).collect() };
        let running: Vec<Option<u64>> = part.jobs.iter().zip(local(shifts)).map(|(&j, s)| current[j].map(|_| s)).collect();
        let mut workspace = Workspace::new(Budget::new(2 * work_max, None));
        let best_is_known = best.is_some();
        let shifts = best.map_or_else(|| local(shifts), |best| rotated(&local(best), &running, &locks));
        let best = Choice { cost: part.group.cost(&shifts, &mut workspace), shifts };
        let mut component = Self { part, running, choice: best.clone(), best, next: None, least: Vec::new(), effort, work_max, workspace };
        // No job of this component runs, so its optimum moves none and is the answer.
        if best_is_known && component.running.iter().all(Option::is_none) {
            return component;
        }
        // The first choice moves no running job, so its bound is the one for zero moves.
        let (unmoved, least) = component.around(&component.running.clone());
        component.least.push(least);
        component.choice = unmoved;
        component
    }

    /// How many running jobs a choice moves.
    fn moves(&self, choice: &Choice) -> usize {
        // Both sides are modulo the lock, so a difference is a move that matters.
        self.running.iter().zip(&choice.shifts).filter(|(r, s)| r.is_some_and(|r| r != **s)).count()
    }

    fn moved(&self) -> usize {
        self.moves(&self.choice)
    }

    fn out_of_work(&self) -> bool {
        self.workspace.budget.spent() >= self.work_max
    }

    /// The best shifts of the jobs that `fixed` leaves free, and a lower bound of their cost.
    fn around(&mut self, fixed: &[Option<u64>]) -> (Choice, f64) {
        let left = self.work_max.saturating_sub(self.workspace.budget.spent());
        let (group, effort) = (&self.part.group, self.effort);
        let found =
            self.workspace.within(left.min(self.work_max / WORK_SHARE), |workspace| optimum_around(group, fixed, effort, workspace));
        (Choice { shifts: found.found.shifts, cost: found.found.cost }, found.bound)
    }

    /// What the next step gains per job that it moves; `None` if there is none.
    fn worth(&mut self) -> Option<f64> {
        if self.next.is_none() && self.choice.cost > self.best.cost + PROOF_TOLERANCE {
            // A step is kept until it is taken, because `grow_until` asks every component for its worth in every round.
            self.next = Some(self.step());
        }
        let next = self.next.as_ref()?;
        // A step may move no more jobs than before, or fewer; it counts as one move then.
        let more = self.moves(next).saturating_sub(self.moved()).max(1);
        Some((self.choice.cost - next.cost) / more as f64)
    }

    fn take(&mut self) {
        if let Some(next) = self.next.take() {
            self.choice = next;
        }
    }

    /// Something cheaper that moves few more jobs, at last the optimum.
    fn step(&mut self) -> Choice {
        let mut best = self.best.clone();
        // The optimum may move jobs without need. Once these are back, its number of moves bounds the numbers worth a try.
        self.put_back_in(&mut best, self.best.cost + PROOF_TOLERANCE);
        let most = self.moves(&best);
        let small = self.running.len() <= EXACT_JOBS_MAX;
        while self.least.len() < most && !self.out_of_work() {
            let found = if small { self.any_of(self.least.len()) } else { self.one_more() };
            if found.cost < self.choice.cost - PROOF_TOLERANCE {
                return found;
            }
            // A large component frees one more job at a time; where no single job helps, only the optimum is left.
            if !small {
                break;
            }
        }
        best
    }

    /// The best that moves at most `count` running jobs: every set of them is tried.
    fn any_of(&mut self, count: usize) -> Choice {
        let jobs = self.running.len();
        // The present choice stays unless a set is better by more than rounding; the bounds count in any case.
        let (mut best, mut least) = (self.choice.clone(), f64::INFINITY);
        // Only components of up to `EXACT_JOBS_MAX` jobs come here, so there are 32 sets at most. A set names running jobs;
        // new jobs are free in any case.
        for set in 0_u32..1 << jobs {
            let free = |j: usize| set >> j & 1 == 1;
            if set.count_ones() as usize != count || (0..jobs).any(|j| free(j) && self.running[j].is_none()) {
                continue;
            }
            let fixed: Vec<Option<u64>> = (0..jobs).map(|j| self.running[j].filter(|_| !free(j))).collect();
            let (found, bound) = self.around(&fixed);
            least = least.min(bound);
            if found.cost < best.cost - PROOF_TOLERANCE {
                best = found;
            }
        }
        self.least.push(least);
        best
    }

    /// The best found that frees one more running job beside those already moved: of those that gain most alone.
    fn one_more(&mut self) -> Choice {
        let here = self.choice.shifts.clone();
        let stays: Vec<usize> = (0..here.len()).filter(|&j| self.running[j] == Some(here[j])).collect();
        let placed: Vec<Option<u64>> = here.iter().copied().map(Some).collect();
        let couplings = Couplings::new(&self.part.group);
        let mut gains: Vec<(f64, usize)> = Vec::new();
        for &job in &stays {
            if self.out_of_work() {
                break;
            }
            let group = &self.part.group;
            let (_, there) = best_shift(group, &couplings, job, &placed, here[job], &mut self.workspace);
            gains.push((added(group, job, &here, here[job], &mut self.workspace) - there, job));
        }
        // Of equal gains the job of the smaller number comes first, so that the order does not depend on the sort.
        gains.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut best = self.choice.clone();
        for &(_, job) in gains.iter().take(TRIED_MAX) {
            let stays = |j: usize| j != job && self.running[j] == Some(here[j]);
            let fixed: Vec<Option<u64>> = (0..here.len()).map(|j| Some(here[j]).filter(|_| stays(j))).collect();
            let (found, _) = self.around(&fixed);
            if found.cost < best.cost - PROOF_TOLERANCE {
                best = found;
            }
        }
        best
    }

    /// Puts back the jobs that `limit` allows and centres the jobs that are new or moved; both again while the one makes room
    /// for the other.
    fn finish(&mut self, limit: f64) {
        let mut choice = self.choice.clone();
        for _ in 0..FINISHES_MAX {
            let before = self.moves(&choice);
            self.put_back_in(&mut choice, limit);
            // The first round always centres; later rounds only if putting back changed something.
            if before == self.moves(&choice) && !self.part.slacks.is_empty() {
                break;
            }
            let stays: Vec<bool> = self.running.iter().zip(&choice.shifts).map(|(r, s)| *r == Some(*s)).collect();
            self.part.slacks = slack::centre(&self.part.group, &mut choice.shifts, |j| !stays[j], &mut self.workspace);
        }
        self.choice = choice;
    }

    /// Puts back moved jobs while the component costs at most `limit`, the cheapest first.
    fn put_back_in(&mut self, choice: &mut Choice, limit: f64) {
        let group = &self.part.group;
        // Each round puts one job back for good, so there are at most as many rounds as jobs.
        loop {
            let mut cheapest: Option<(f64, usize, u64)> = None;
            for (job, running) in self.running.iter().enumerate() {
                let Some(back) = running.filter(|r| *r != choice.shifts[job]) else { continue };
                if self.workspace.budget.is_spent() {
                    return;
                }
                let now = added(group, job, &choice.shifts, choice.shifts[job], &mut self.workspace);
                let cost = choice.cost - now + added(group, job, &choice.shifts, back, &mut self.workspace);
                if cost <= limit && cheapest.is_none_or(|c| cost < c.0) {
                    cheapest = Some((cost, job, back));
                }
            }
            let Some((cost, job, back)) = cheapest else { return };
            choice.shifts[job] = back;
            choice.cost = cost;
        }
    }

    /// No shifts that move fewer running jobs than the choice cost less than this.
    fn least_with_fewer(&self) -> f64 {
        // Without a bound for every smaller number of moves nothing is known, and minus infinity claims nothing.
        let known = self.least.get(..self.moved());
        known.map_or(f64::NEG_INFINITY, |least| least.iter().copied().fold(f64::INFINITY, f64::min))
    }

    /// Writes the shifts of all jobs and the ids of the moved.
    fn settle(mut self, shifts: &mut [u64], moved: &mut Vec<JobId>) -> Part {
        for ((&job, &rotation), running) in self.part.jobs.iter().zip(&self.choice.shifts).zip(&self.running) {
            // A job that stays keeps its shift as given; the rotation is only what is left of it modulo the lock.
            if *running == Some(rotation) {
                continue;
            }
            shifts[job] = rotation;
            if running.is_some() {
                moved.push(JobId(job as u32));
            }
        }
        self.part.rotations = self.choice.shifts;
        self.part
    }
}

/// What `job` adds at `shift` to the cost of the others where they are.
fn added(group: &Group, job: usize, shifts: &[u64], shift: u64, workspace: &mut Workspace) -> f64 {
    group.response(job, |other| Presence::At(shifts[other]), workspace).at(shift)
}

/// Rotates all jobs together so that many of the running ones stand where they run. A job stays if the rotation agrees with it
/// modulo its lock; rotations that agree pairwise agree all at once (Chinese remainder theorem), so from each job in turn the
/// others are added as they fit.
fn rotated(shifts: &[u64], running: &[Option<u64>], locks: &[u64]) -> Vec<u64> {
    let wanted = |job: usize| running[job].map(|r| (r + locks[job] - shifts[job] % locks[job]) % locks[job]);
    let jobs: Vec<(u64, u64)> = (0..shifts.len()).filter_map(|j| wanted(j).map(|w| (w, locks[j]))).collect();
    let mut best = (0, 0_u128);
    // The choice is greedy: jobs are added in order of number, and one that disagrees with those before it stays out.
    for root in 0..jobs.len().min(ROTATIONS_MAX) {
        let mut agreed = (u128::from(jobs[root].0), u128::from(jobs[root].1));
        let mut count = 0;
        for &(wanted, lock) in &jobs {
            if let Some(joined) = join(agreed, (u128::from(wanted), u128::from(lock))) {
                agreed = joined;
                count += 1;
            }
        }
        if count > best.0 {
            best = (count, agreed.0);
        }
    }
    shifts.iter().zip(locks).map(|(&s, &lock)| (s % lock + (best.1 % u128::from(lock)) as u64) % lock).collect()
}

/// The number that is `a.0` modulo `a.1` and `b.0` modulo `b.1`, and the modulus of both; `None` if there is none or it is
/// too large to go on with. `b.1` is below 2^48.
fn join(a: (u128, u128), b: (u128, u128)) -> Option<(u128, u128)> {
    // Chinese remainder theorem for moduli with a common factor: both congruences agree only if the gcd divides their
    // difference. All operands of the division are below 2^48.
    let ExtendedGcd { gcd, x, .. } = ((a.1 % b.1) as i128).extended_gcd(&(b.1 as i128));
    let apart = b.0 as i128 - (a.0 % b.1) as i128;
    if apart % gcd != 0 {
        return None;
    }
    let rest = b.1 as i128 / gcd;
    // Both factors are below 2^48, so their product fits 128 bits.
    let steps = (apart / gcd).rem_euclid(rest) * x.rem_euclid(rest) % rest;
    let modulus = a.1.checked_mul(rest as u128).filter(|m| *m < 1 << 100)?;
    // The sum is below the new modulus, and so below 2^100.
    Some((a.0 + a.1 * steps as u128, modulus))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn congruences_join_where_they_agree() {
        assert_eq!(join((3, 10), (1, 4)), Some((13, 20)));
        assert_eq!(join((3, 10), (2, 4)), None);
        assert_eq!(join((7, 20), (7, 10)), Some((7, 20)));
        assert_eq!(join((2, 7), (3, 11)), Some((58, 77)));
        assert_eq!(join((0, 1), (5, 6)), Some((5, 6)));
    }

    #[test]
    fn the_common_rotation_keeps_most_jobs() {
        // Two of three agree on a rotation of 7; the third would need 3.
        assert_eq!(rotated(&[0, 10, 20], &[Some(3), Some(17), Some(27)], &[100, 100, 100]), [7, 17, 27]);
        // Locks of 10 and 15: a rotation of 13 suits both.
        assert_eq!(rotated(&[0, 0], &[Some(3), Some(13)], &[10, 15]), [3, 13]);
        assert_eq!(rotated(&[1, 2], &[None, None], &[10, 15]), [1, 2]);
    }
}
