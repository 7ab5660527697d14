//! From a problem to a solution: merge, split into jointly solved sets, optimise, centre, compose, report.

mod cassini;

use alloc::{vec, vec::Vec};

use rayon::prelude::*;

use super::{
    robust::{self, Robustness},
    slack,
    solution::{Mode, Optimality, Options, Outcome, Robust, Solution, SolveError},
};
use crate::{
    PROOF_TOLERANCE, Ticks,
    budget::{Budget, Cancel},
    demand::{
        allowance::Allowance,
        circle::Circle,
        sum::{Presence, Workspace},
    },
    model::{
        affinity::{self, LinkClass, Rotated},
        problem::{PHASES_ON_LINKS_MAX, Problem},
    },
    search::{
        Optimum,
        group::{Group, GroupJob},
        optimum,
    },
};

/// What part of the work of the search may be spent on centring its answer, on top.
const CENTRING_SHARE: u64 = 4;
/// How far the rounding of thousands of sums can move a cost that should stay, as a part of it.
const COST_TOLERANCE: f64 = 1e-9;
/// Below this many sets threads cost more than they save.
const PARALLEL_SETS_MIN: usize = 16;

/// Finds the time-shifts that maximise the mean link score.
///
/// ```
/// use antiphase_circle::{solve, Options, Phase, ProblemBuilder, Rate, Ticks};
/// // Two VGG16 of the CASSINI paper: 255 ms, 141 ms down, then 114 ms at 45 of 50 Gb/s.
/// let mut b = ProblemBuilder::new();
/// let up = [Phase { start: Ticks(141), end: Ticks(255), rate: Rate(45_000) }];
/// let mut members = vec![];
/// for _ in 0..2 {
///     let job = b.job(Ticks(255)).unwrap();
///     members.push(b.demand(job, &up).unwrap());
/// }
/// b.link(Rate(50_000), members).unwrap();
/// let solution = solve(&b.build(), &Options::default()).unwrap();
/// assert_eq!(solution.mean_score, 1.0);
/// assert!(solution.optimality.proven);
/// // 255 - 2 * 114 ms are free: 27 ms, so either may drift 13 ms.
/// assert_eq!(solution.shifts[1].slack, Ticks(13));
/// ```
///
/// # Errors
/// [`SolveError::TooManyPhases`], and [`SolveError::PerimeterOverflow`] in paper mode.
pub fn solve(problem: &Problem, options: &Options) -> Result<Solution, SolveError> {
    Ok(solve_counted(problem, options, None)?.0)
}

/// [`solve`], which ends soon after `cancel` says so.
///
/// # Errors
/// As [`solve`], and [`SolveError::Cancelled`].
pub fn solve_until(problem: &Problem, options: &Options, cancel: &Cancel) -> Result<Solution, SolveError> {
    let answer = solve_counted(problem, options, Some(cancel))?.0;
    // Where a search was cut short depends on the clock, so such an answer is not repeatable and is dropped.
    if cancel.is_cancelled() { Err(SolveError::Cancelled) } else { Ok(answer) }
}

/// [`solve`], and about how much work the search for the optimum was, in units of 10 ns.
pub(crate) fn solve_counted(problem: &Problem, options: &Options, cancel: Option<&Cancel>) -> Result<(Solution, u64), SolveError> {
    let view = View::new_until(problem, options, cancel)?;
    match options.mode {
        Mode::Exact => {
            let parts = view.solved_parts(options);
            let work = parts.iter().map(|p| p.spent).sum();
            Ok((view.combine(parts, options), work))
        }
        // The grid has a bound of its own.
        Mode::Cassini => Ok((cassini::solve(&view, Budget::new(options.problem_work(), cancel))?, 0)),
    }
}

/// Scores given shifts; `shifts[j]` is the delay of job `j`, taken modulo its period.
///
/// # Errors
/// [`SolveError::ShiftCount`] and [`SolveError::TooManyPhases`].
pub fn evaluate(problem: &Problem, shifts: &[Ticks]) -> Result<Solution, SolveError> {
    evaluate_within(problem, shifts, None)
}

/// [`evaluate`] with no more than that work, as [`Options::work_max`]: scores may be less certain for it.
///
/// # Errors
/// As [`evaluate`].
pub fn evaluate_within(problem: &Problem, shifts: &[Ticks], work_max: Option<u64>) -> Result<Solution, SolveError> {
    if shifts.len() != problem.periods().len() {
        return Err(SolveError::ShiftCount { given: shifts.len(), jobs: problem.periods().len() });
    }
    let view = View::new(problem, &Options { work_max, ..Options::default() })?;
    let shifts: Vec<u64> = shifts.iter().zip(problem.periods()).map(|(s, t)| s.0 % t.0).collect();
    let mut solution = view.standing(Outcome::Evaluated, &shifts);
    // No score exceeds 1, so no shifts can be better by more than what is missing to 1; and these may be worse than they seem.
    let least = view.mean(&solution.links.iter().map(|link| link.score - link.uncertainty).collect::<Vec<_>>());
    solution.optimality.bound_gap = (1.0 - least).max(0.0);
    Ok(solution)
}

/// A problem with its links merged and the constant ones recognised.
pub(crate) struct View<'a> {
    pub(crate) problem: &'a Problem,
    /// What may be spent on it.
    pub(super) options: Options,
    cancel: Option<Cancel>,
    /// Links that two or more jobs cross, merged.
    pub(crate) classes: Vec<LinkClass>,
    /// What the circle of one of them may take.
    pub(super) allowance: Allowance,
    /// Which of them some shift could overload, with its circle.
    contended: Vec<(usize, Circle)>,
    /// Those that are over capacity but whose score no shift changes, because at most one job has edges on the circle.
    pub(super) settled: Vec<Settled>,
}

/// A link over capacity whose score no shift changes.
pub(super) struct Settled {
    pub(super) class: usize,
    pub(super) circle: Circle,
    /// Mean excess in Mbit/s.
    pub(super) excess: f64,
}

impl Settled {
    fn new((class, circle): (usize, Circle)) -> Self {
        let mut workspace = Workspace::default();
        // No shift changes this excess, so shift 0 stands for all shifts.
        workspace.sum.sweep(&circle, |_| Presence::At(0), &mut workspace.budget);
        let excess = workspace.sum.excess(&circle) / circle.perimeter as f64;
        Self { class, circle, excess }
    }
}

/// A jointly solved set and its answer. Rotations are modulo the jobs' locks.
pub(crate) struct Part {
    pub(crate) jobs: Vec<usize>,
    pub(crate) group: Group,
    /// Class of each circle of the group.
    pub(super) classes: Vec<usize>,
    pub(crate) rotations: Vec<u64>,
    pub(crate) slacks: Vec<Option<u64>>,
    bound: f64,
    proven: bool,
    /// Work of the last solution.
    spent: u64,
}

impl Part {
    fn solve(&mut self, options: &Options, work_max: u64, cancel: Option<&Cancel>) {
        // Beside the search, its last part is kept for centring: no more than a quarter on top.
        let mut workspace = Workspace::new(Budget::new(work_max + work_max / CENTRING_SHARE, cancel));
        self.group.limit(options.effort, work_max);
        let Optimum { found, bound } = workspace.within(work_max, |workspace| optimum(&self.group, options.effort, workspace));
        // The bound of an earlier search of the part holds as well: both bound the same optimum.
        self.bound = bound.max(self.bound);
        self.proven = found.cost <= self.bound + PROOF_TOLERANCE;
        self.rotations = found.shifts;
        let found = found.cost;
        self.slacks = slack::centre(&self.group, &mut self.rotations, |_| true, &mut workspace);
        self.spent = workspace.budget.spent();
        debug_assert!(
            self.group.cost(&self.rotations, &mut Workspace::default()) <= found + COST_TOLERANCE * (1.0 + found),
            "invariant: no step after the search raises the cost"
        );
    }

    /// Its rotations, rotated as a whole so that the first job stands at 0, and each modulo what the job locks with. So a set that is
    /// solved by itself is composed with others as one that is solved among them.
    fn rotated(&self) -> Rotated {
        let first = self.rotations.first().copied().unwrap_or(0);
        // One lock is added before the subtraction, so the difference of two residues stays above zero.
        let rotate = |(rotation, own): (&u64, &GroupJob)| (rotation + own.lock - first % own.lock) % own.lock;
        Rotated { jobs: self.jobs.clone(), rotations: self.rotations.iter().zip(&self.group.jobs).map(rotate).collect() }
    }

    /// Takes over the shifts of all jobs, and looks for their slacks.
    pub(super) fn stand_at(&mut self, shifts: &[u64], workspace: &mut Workspace) {
        // What a shift holds beyond the lock changes nothing on the links of the part (docs/model.md, section 3).
        self.rotations = self.jobs.iter().zip(&self.group.jobs).map(|(&j, own)| shifts[j] % own.lock).collect();
        self.slacks = slack::slacks(&self.group, &self.rotations, workspace);
    }
}

/// Solves all parts with about `work_max` of work together, and no part with more than the effort allows for one. First all get
/// the same half; what they leave goes to those that are not proven, in equal shares. Work is counted, not timed, so the shares
/// are the same on any machine.
fn solve_parts(parts: &mut [Part], options: &Options, cancel: Option<&Cancel>) {
    let work_max = options.problem_work();
    let most = options.effort.work_max().min(work_max);
    let all = |parts: &mut [&mut Part], share: u64| {
        if parts.len() >= PARALLEL_SETS_MIN {
            // Every part has its own budget, so threads change the time that this takes and not the answer.
            parts.par_iter_mut().for_each(|part| part.solve(options, share, cancel));
        } else {
            parts.iter_mut().for_each(|part| part.solve(options, share, cancel));
        }
    };
    // A single part has no other to leave work to, so there is no second half to keep for later.
    let share = if parts.len() == 1 { most.min(work_max) } else { most.min(work_max / 2 / parts.len().max(1) as u64) };
    all(&mut parts.iter_mut().collect::<Vec<_>>(), share);
    let left = work_max.saturating_sub(parts.iter().map(|p| p.spent).sum());
    let mut open: Vec<&mut Part> = parts.iter_mut().filter(|p| !p.proven).collect();
    // Proven parts have nothing to gain, so what they leave is shared among the open parts only.
    let again = most.min(left / open.len().max(1) as u64);
    // A second search starts from nothing, so with less than twice the work of the first it would mostly repeat it.
    if again >= 2 * share.max(1) {
        all(&mut open, again);
    }
}

impl<'a> View<'a> {
    pub(crate) fn new(problem: &'a Problem, options: &Options) -> Result<Self, SolveError> {
        Self::new_until(problem, options, None)
    }

    /// # Errors
    /// [`SolveError::TooManyPhases`], and [`SolveError::Cancelled`].
    fn new_until(problem: &'a Problem, options: &Options, cancel: Option<&Cancel>) -> Result<Self, SolveError> {
        // A link of one job is in no mean, and no shift changes its score.
        let classes = affinity::merge(problem, 2);
        let members = classes.iter().flat_map(|class| &problem.links()[class.link].members);
        let phases = members.map(|member| problem.phases(member.demand).len() as u64).sum();
        if phases > PHASES_ON_LINKS_MAX {
            return Err(SolveError::TooManyPhases { phases });
        }
        let allowance = Allowance::of_each(classes.len(), options.problem_work());
        Self::of_classes(problem, options, classes, allowance, cancel)
    }

    fn of_classes(
        problem: &'a Problem,
        options: &Options,
        classes: Vec<LinkClass>,
        allowance: Allowance,
        cancel: Option<&Cancel>,
    ) -> Result<Self, SolveError> {
        let (mut contended, mut settled) = (Vec::new(), Vec::new());
        for (c, class) in classes.iter().enumerate() {
            if cancel.is_some_and(Cancel::is_cancelled) {
                return Err(SolveError::Cancelled);
            }
            match Circle::of_link(problem, &problem.links()[class.link], class.links.len(), options.effort, allowance) {
                // Jobs without edges are in the background of a circle (docs/model.md, section 2). Where at most one job is left, no
                // shift changes the score.
                Some(circle) if circle.members.len() > 1 => contended.push((c, circle)),
                Some(circle) => settled.push(Settled::new((c, circle))),
                None => {}
            }
        }
        Ok(Self { problem, options: *options, cancel: cancel.cloned(), classes, allowance, contended, settled })
    }

    /// How many links two or more jobs cross.
    pub(crate) fn shared_links(&self) -> usize {
        self.classes.iter().map(|c| c.links.len()).sum()
    }

    /// The contended links, split into sets that must be solved jointly.
    pub(crate) fn parts(&self) -> Vec<Part> {
        self.split(affinity::coupled_groups)
    }

    /// The contended links, split into connected components: where some jobs stand still, others cannot be
    /// rotated set by set.
    pub(crate) fn components(&self) -> Vec<Part> {
        self.split(affinity::connected)
    }

    fn split(&self, into_sets: impl Fn(usize, &[Vec<usize>]) -> Vec<Vec<usize>>) -> Vec<Part> {
        let members: Vec<Vec<usize>> = self.contended.iter().map(|(_, circle)| circle.members.iter().map(|m| m.job).collect()).collect();
        into_sets(self.problem.periods().len(), &members)
            .into_iter()
            .map(|set| {
                let mut jobs: Vec<usize> = set.iter().flat_map(|&i| members[i].iter().copied()).collect();
                jobs.sort_unstable();
                jobs.dedup();
                let mut circles: Vec<Circle> = set.iter().map(|&i| self.contended[i].1.clone()).collect();
                for m in circles.iter_mut().flat_map(|c| &mut c.members) {
                    // `jobs` is sorted and names every member, so the point is the place of the job in the part.
                    m.job = jobs.partition_point(|&j| j < m.job);
                }
                let group = Group::new(jobs.len(), circles, self.options.effort);
                let classes = set.iter().map(|&i| self.contended[i].0).collect();
                Part { jobs, group, classes, rotations: vec![], slacks: vec![], bound: 0.0, proven: false, spent: 0 }
            })
            .collect()
    }

    /// What these shifts are worth, and their slacks; nothing is said of others.
    pub(super) fn standing(&self, outcome: Outcome, shifts: &[u64]) -> Solution {
        let mut parts = self.parts();
        let work_max = self.options.work_each(parts.len());
        // Every part has a budget of its own, so the slacks of one do not depend on the work of another.
        for part in &mut parts {
            part.group.limit(self.options.effort, work_max);
            part.stand_at(shifts, &mut Workspace::new(Budget::new(work_max, None)));
        }
        self.report(outcome, &parts, shifts, Optimality { proven: false, bound_gap: 0.0 })
    }

    pub(crate) fn solve_exact(&self, options: &Options) -> Solution {
        self.combine(self.solved_parts(options), options)
    }

    fn solved_parts(&self, options: &Options) -> Vec<Part> {
        let mut parts = self.parts();
        solve_parts(&mut parts, options, self.cancel.as_ref());
        parts
    }

    fn combine(&self, mut parts: Vec<Part>, options: &Options) -> Solution {
        let rotated: Vec<Rotated> = parts.iter().map(Part::rotated).collect();
        // Composition rotates each part as a whole, so every part keeps its cost (docs/model.md, section 7).
        let mut shifts = self.compose(&rotated);
        let shared = self.shared_links().max(1) as f64;
        let bound: f64 = parts.iter().map(|p| p.bound).sum();
        let settled: f64 = self.settled.iter().map(|s| s.circle.cost(s.circle.blur)).sum();
        let blur = settled + parts.iter().map(|p| p.group.blur()).sum::<f64>();
        let Some(drift) = options.robust else {
            // With a blur the search looked at circles that are not the true ones, so nothing is called proven (section 2).
            let proven = parts.iter().all(|p| p.proven) && blur == 0.0;
            let optimality = Optimality { proven, bound_gap: 0.0 };
            let mut solution = self.report(Outcome::Solved, &parts, &shifts, optimality);
            if solution.mean_score < solution.zero_shift_mean_score {
                // Dropped couplings can make the shifts that were found worse than none; the reported scores count all couplings
                // where they can, and so zero shifts are the better answer.
                shifts.fill(0);
                let mut workspace = Workspace::new(Budget::new(options.work_each(1), self.cancel.as_ref()));
                parts.iter_mut().for_each(|part| part.stand_at(&shifts, &mut workspace));
                solution = self.report(Outcome::Solved, &parts, &shifts, optimality);
            }
            if !proven {
                let gap = self.gap(&solution, &parts);
                // Where the scores are true ones and a bound that holds on any circle is met, no shifts are better.
                let met = gap * shared <= PROOF_TOLERANCE && solution.links.iter().all(|link| link.uncertainty == 0.0);
                solution.optimality = Optimality { proven: met, bound_gap: if met { 0.0 } else { gap } };
            }
            return solution;
        };
        let worst = self.harden(&mut parts, &mut shifts, drift.0);
        let gap = ((worst.cost + worst.added - worst.bound) / shared).max(0.0);
        let proven = gap <= PROOF_TOLERANCE && blur == 0.0;
        let optimality = Optimality { proven, bound_gap: if proven { 0.0 } else { gap } };
        let mut solution = self.report(Outcome::Solved, &parts, &shifts, optimality);
        let mut plain_gap = ((worst.cost - bound) / shared).max(0.0);
        // The addition is a difference of two costs, and each of them is off by the blur at most.
        let added = worst.added + 2.0 * blur;
        if blur > 0.0 {
            // Reported scores count couplings that the search does not see, so what they lose takes the place of the cost that was measured.
            plain_gap = self.gap(&solution, &parts);
            let lower = |circle: &Circle, excess: f64| f64::max(circle.cost(excess - circle.blur), circle.cost(circle.overfull));
            let settled = |s: &Settled| self.lost(&solution, s.class) - lower(&s.circle, s.excess);
            let lost: f64 = parts.iter().flat_map(|part| &part.classes).map(|&class| self.lost(&solution, class)).sum();
            let unseen: f64 = parts.iter().map(|part| part.group.blur()).sum();
            let gap = lost + self.settled.iter().map(settled).sum::<f64>() + added - (worst.bound - unseen);
            solution.optimality.bound_gap = (gap / shared).max(0.0);
        }
        let mean_score = solution.mean_score - added / shared;
        solution.robust = Some(Robust { mean_score, exact: worst.exact && blur == 0.0, plain_gap });
        solution
    }

    /// What the links of a class lose by their reported scores.
    fn lost(&self, solution: &Solution, class: usize) -> f64 {
        self.classes[class].links.iter().map(|&link| 1.0 - solution.links[link].score).sum()
    }

    /// How much better than the reported ones the scores of other shifts can be. A bound holds on circles that are off by their
    /// blur; that demand beyond the capacity must exceed it holds on any.
    fn gap(&self, solution: &Solution, parts: &[Part]) -> f64 {
        // A reported score may be off by its uncertainty, so the loss is taken at its largest.
        let lost = |class: usize| -> f64 {
            self.classes[class].links.iter().map(|&l| 1.0 - solution.links[l].score + solution.links[l].uncertainty).sum()
        };
        let part = |part: &Part| {
            let overfull = part.group.circles.iter().map(|c| c.cost(c.overfull)).sum();
            part.classes.iter().map(|&class| lost(class)).sum::<f64>() - f64::max(part.bound - part.group.blur(), overfull)
        };
        let settled = |s: &Settled| lost(s.class) - f64::max(s.circle.cost(s.excess - s.circle.blur), s.circle.cost(s.circle.overfull));
        let gap = parts.iter().map(part).sum::<f64>() + self.settled.iter().map(settled).sum::<f64>();
        (gap / self.shared_links().max(1) as f64).max(0.0)
    }

    /// Moves the shifts to lower the worst case of a drift, component by component: a job may drift on the links of several sets.
    fn harden(&self, parts: &mut [Part], shifts: &mut [u64], drift: u64) -> Robustness {
        let own = |component: &Part| {
            // A component is a union of sets (docs/model.md, section 7), so their bounds add up to one of the component, and the
            // first job of a set tells in which component the set lies.
            let sets = parts.iter().filter(|p| p.jobs.first().is_some_and(|j| component.jobs.binary_search(j).is_ok()));
            sets.map(|p| p.bound).sum()
        };
        let components = self.components();
        let mut stands: Vec<robust::Component> = components
            .iter()
            .map(|c| robust::Component {
                group: c.group.clone(),
                shifts: c.jobs.iter().zip(&c.group.jobs).map(|(&j, own)| shifts[j] % own.lock).collect(),
                bound: own(c),
            })
            .collect();
        let work_max = self.options.work_each(components.len().max(parts.len()));
        let worst = robust::harden(&mut stands, drift, &Budget::new(work_max, self.cancel.as_ref()));
        let rotated: Vec<Rotated> =
            components.into_iter().zip(stands).map(|(c, stand)| Rotated { jobs: c.jobs, rotations: stand.shifts }).collect();
        // Components share no job, so this only rotates each of them as a whole.
        shifts.copy_from_slice(&self.compose(&rotated));
        parts.iter_mut().for_each(|part| part.stand_at(shifts, &mut Workspace::new(Budget::new(work_max, self.cancel.as_ref()))));
        worst
    }

    /// One shift per job.
    fn compose(&self, rotated: &[Rotated]) -> Vec<u64> {
        affinity::compose(&self.problem.periods().iter().map(|t| t.0).collect::<Vec<_>>(), rotated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Effort, JobId, Phase, ProblemBuilder, Rate};

    const CAPACITY: u64 = 13;
    const DRIFT: u64 = 10;

    /// A job: its period, and what it sends from and to.
    type Job = (u64, Vec<(u64, u64, u64)>);

    /// The score of the link under those shifts, tick by tick.
    fn score(jobs: &[Job], shifts: &[u64]) -> f64 {
        let whole = jobs.iter().fold(1, |whole: u64, job| whole / num_integer::gcd(whole, job.0) * job.0);
        let sent = |(job, shift): (&Job, &u64), at: u64| -> u64 {
            let at = (at + job.0 - shift % job.0) % job.0;
            job.1.iter().filter(|p| (p.0..p.1).contains(&at)).map(|p| p.2).sum()
        };
        let excess = |at: u64| jobs.iter().zip(shifts).map(|of| sent(of, at)).sum::<u64>().saturating_sub(CAPACITY);
        1.0 - (0..whole).map(excess).sum::<u64>() as f64 / (whole * CAPACITY) as f64
    }

    /// The worst score while one job drifts.
    fn worst(jobs: &[Job], shifts: &[u64]) -> f64 {
        let drifted = |job: usize, by: u64| {
            let mut moved = shifts.to_vec();
            moved[job] = (moved[job] + by + jobs[job].0 * DRIFT - DRIFT) % jobs[job].0;
            score(jobs, &moved)
        };
        (0..jobs.len()).flat_map(|job| (0..=2 * DRIFT).map(move |by| (job, by))).map(|(job, by)| drifted(job, by)).fold(1.0, f64::min)
    }

    #[test]
    fn a_solve_whose_client_is_gone_ends_before_the_search() {
        let mut builder = ProblemBuilder::new();
        let up = [Phase { start: Ticks(0), end: Ticks(6), rate: Rate(9) }];
        let job = |builder: &mut ProblemBuilder| builder.job(Ticks(10)).and_then(|job| builder.demand(job, &up)).unwrap();
        let members = vec![job(&mut builder), job(&mut builder)];
        builder.link(Rate(CAPACITY), members).unwrap();
        let (problem, cancel) = (builder.build(), Cancel::default());
        assert!(View::new_until(&problem, &Options::default(), Some(&cancel)).is_ok());
        cancel.cancel();
        assert_eq!(View::new_until(&problem, &Options::default(), Some(&cancel)).err(), Some(SolveError::Cancelled));
    }

    /// Demands that are cut to their means, by a limit far below the real one: of 216 such links the gap once excluded shifts that exist,
    /// because the score that is reported and the cost that the search sees are off in different ways.
    #[test]
    fn a_robust_gap_holds_where_demands_are_cut_to_their_means() {
        let mut state = 1_u64;
        let mut random = |from: u64, to: u64| from + units::splitmix64(&mut state) % (to - from);
        for number in 0..300 {
            let job = |random: &mut dyn FnMut(u64, u64) -> u64, period: u64| {
                let (start, rate) = (random(0, period / 3), random(5, 13));
                let (middle, end) = (start + random(1, period / 4), period - random(0, period / 3));
                (period, vec![(start, middle, rate), (middle, end, rate + random(0, 2))])
            };
            let jobs: Vec<Job> = if number == 0 {
                vec![(24, vec![(7, 20, 12)]), (30, vec![(5, 16, 11), (16, 17, 12), (17, 18, 11)])]
            } else {
                [[24, 30], [12, 18], [20, 30], [24, 36]][number % 4].map(|period| job(&mut random, period)).to_vec()
            };
            let mut builder = ProblemBuilder::new();
            for job in &jobs {
                builder.job(Ticks(job.0)).unwrap();
            }
            let phases =
                |job: &Job| job.1.iter().map(|p| Phase { start: Ticks(p.0), end: Ticks(p.1), rate: Rate(p.2) }).collect::<Vec<_>>();
            let members = (0..2).map(|j| builder.demand(JobId(j), &phases(&jobs[j as usize])).unwrap()).collect();
            builder.link(Rate(CAPACITY), members).unwrap();
            let problem = builder.build();
            let options = Options { robust: Some(Ticks(DRIFT)), effort: Effort::Fast, ..Options::default() };
            let allowance = Allowance { pairs: 24, ..Allowance::ALONE };
            let view = View::of_classes(&problem, &options, affinity::merge(&problem, 2), allowance, None).unwrap();
            let solution = view.combine(view.solved_parts(&options), &options);
            let shifts: Vec<u64> = solution.shifts.iter().map(|own| own.shift.0).collect();
            let (stated, gap) = (solution.robust.unwrap().mean_score, solution.optimality.bound_gap);
            assert!(stated <= worst(&jobs, &shifts) + 1e-9, "{stated} at {shifts:?}: {jobs:?}");
            let best = (0..jobs[1].0).map(|shift| worst(&jobs, &[0, shift])).fold(0.0, f64::max);
            assert!(stated + gap >= best - 1e-9, "{stated} and a gap of {gap}, but {best} exists: {jobs:?}");
        }
    }
}
