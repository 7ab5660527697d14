//! From a problem to a solution: merge, split into jointly solved sets, optimise, centre, compose, report.

use alloc::{vec, vec::Vec};

use rayon::prelude::*;

use crate::{
    Affinity, JobId, JobShift, LinkId, LinkScore, Mode, Optimality, Options, Outcome, PROOF_TOLERANCE, Solution, SolveError, Ticks,
    affinity::{self, LinkClass, Rotated},
    cassini,
    exact::{Optimum, optimum},
    group::{Group, edges},
    mixed,
    problem::{Problem, ProblemLink},
    residue::{Folded, perimeter},
    robust::{self, Robustness},
    slack,
    solution::{Effort, Robust},
    total::{Circle, OnCircle, Total},
};

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
/// [`SolveError::PerimeterOverflow`] in paper mode.
pub fn solve(problem: &Problem, options: &Options) -> Result<Solution, SolveError> {
    Ok(solve_counted(problem, options)?.0)
}

/// [`solve`], and about how much work the search for the optimum was, in units of 10 ns.
pub(crate) fn solve_counted(problem: &Problem, options: &Options) -> Result<(Solution, u64), SolveError> {
    let view = View::new(problem, options.effort);
    match options.mode {
        Mode::Exact => {
            let parts = view.solved_parts(options);
            let work = parts.iter().map(|p| p.spent).sum();
            Ok((view.combine(parts, options), work))
        }
        // The grid has a bound of its own.
        Mode::Cassini => Ok((cassini::solve(&view)?, 0)),
    }
}

/// Scores given shifts; `shifts[j]` is the delay of job `j`, taken modulo its period.
///
/// # Errors
/// [`SolveError::ShiftCount`].
pub fn evaluate(problem: &Problem, shifts: &[Ticks]) -> Result<Solution, SolveError> {
    if shifts.len() != problem.periods().len() {
        return Err(SolveError::ShiftCount { given: shifts.len(), jobs: problem.periods().len() });
    }
    let view = View::new(problem, Effort::Thorough);
    let shifts: Vec<u64> = shifts.iter().zip(problem.periods()).map(|(s, t)| s.0 % t.0).collect();
    let mut parts = view.parts();
    let work_max = share(Effort::Thorough, parts.len());
    for part in &mut parts {
        part.group.limit(Effort::Thorough, work_max);
        part.stand_at(&shifts, work_max);
    }
    let optimality = Optimality { proven: false, bound_gap: 0.0 };
    let mut solution = view.report(Outcome::Evaluated, &parts, &shifts, optimality);
    solution.optimality.bound_gap = (1.0 - solution.mean_score).max(0.0);
    Ok(solution)
}

/// A problem with its links merged and the constant ones recognised.
pub(crate) struct View<'a> {
    pub(crate) problem: &'a Problem,
    effort: Effort,
    /// Links that two or more jobs cross, merged.
    pub(crate) classes: Vec<LinkClass>,
    /// Which of them some shift could overload, with its circle.
    contended: Vec<(usize, Circle)>,
}

/// A jointly solved set and its answer. Rotations are modulo the jobs' locks.
pub(crate) struct Part {
    pub(crate) jobs: Vec<usize>,
    pub(crate) group: Group,
    /// Class of each circle of the group.
    classes: Vec<usize>,
    pub(crate) rotations: Vec<u64>,
    pub(crate) slacks: Vec<Option<u64>>,
    bound: f64,
    proven: bool,
    /// Work of the last solution.
    spent: u64,
}

impl Part {
    fn solve(&mut self, options: &Options, work_max: u64) {
        let mut total = Total::default();
        self.group.limit(options.effort, work_max);
        let Optimum { found, bound } = optimum(&self.group, options.effort, work_max, &mut total);
        // An earlier bound holds as well.
        let bound = bound.max(self.bound);
        self.bound = bound;
        self.proven = Optimum { found: found.clone(), bound }.proven();
        self.rotations = found.shifts;
        let work_end = total.work + work_max;
        self.slacks = slack::centre(&self.group, &mut self.rotations, |_| true, work_end, &mut total);
        self.spent = total.work;
    }

    /// Takes over the shifts of all jobs; at most `work_max` is spent on their slacks.
    fn stand_at(&mut self, shifts: &[u64], work_max: u64) {
        self.rotations = self.jobs.iter().zip(&self.group.jobs).map(|(&j, own)| shifts[j] % own.lock).collect();
        self.slacks = slack::slacks(&self.group, &self.rotations, work_max, &mut Total::default());
    }
}

/// Work for each of so many parts that are all looked at once.
fn share(effort: Effort, parts: usize) -> u64 {
    effort.work_max().min(effort.problem_work_max() / parts.max(1) as u64)
}

/// Solves all parts with about `work_max` of work together, and no part with more than the effort allows for one. First all get
/// the same half; what they leave goes to those that are not proven, in equal shares. Work is counted, not timed, so the shares
/// are the same on any machine.
fn solve_parts(parts: &mut [Part], options: &Options, work_max: u64) {
    let most = options.effort.work_max();
    let all = |parts: &mut [&mut Part], share: u64| {
        if parts.len() >= PARALLEL_SETS_MIN {
            parts.par_iter_mut().for_each(|part| part.solve(options, share));
        } else {
            parts.iter_mut().for_each(|part| part.solve(options, share));
        }
    };
    let share = if parts.len() == 1 { most.min(work_max) } else { most.min(work_max / 2 / parts.len().max(1) as u64) };
    all(&mut parts.iter_mut().collect::<Vec<_>>(), share);
    let left = work_max.saturating_sub(parts.iter().map(|p| p.spent).sum());
    let mut open: Vec<&mut Part> = parts.iter_mut().filter(|p| !p.proven).collect();
    let again = most.min(left / open.len().max(1) as u64);
    if again >= 2 * share.max(1) {
        all(&mut open, again);
    }
}

impl<'a> View<'a> {
    pub(crate) fn new(problem: &'a Problem, effort: Effort) -> Self {
        let classes = affinity::merge(problem, 2);
        let contended = classes
            .iter()
            .enumerate()
            .filter_map(|(c, class)| circle(problem, &problem.links()[class.link], class.links.len(), effort).map(|circle| (c, circle)))
            .collect();
        Self { problem, effort, classes, contended }
    }

    /// How many links two or more jobs cross.
    pub(crate) fn shared_links(&self) -> usize {
        self.classes.iter().map(|c| c.links.len()).sum()
    }

    /// The contended links, split into sets that must be solved jointly.
    pub(crate) fn parts(&self) -> Vec<Part> {
        self.split(affinity::joint_sets)
    }

    /// The contended links, split into connected components: where some jobs stand still, others cannot be
    /// turned set by set.
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
                    m.job = jobs.partition_point(|&j| j < m.job);
                }
                let group = Group::new(jobs.len(), circles, self.effort);
                let classes = set.iter().map(|&i| self.contended[i].0).collect();
                Part { jobs, group, classes, rotations: vec![], slacks: vec![], bound: 0.0, proven: false, spent: 0 }
            })
            .collect()
    }

    pub(crate) fn solve_exact(&self, options: &Options) -> Solution {
        self.combine(self.solved_parts(options), options)
    }

    fn solved_parts(&self, options: &Options) -> Vec<Part> {
        let mut parts = self.parts();
        solve_parts(&mut parts, options, options.effort.problem_work_max());
        parts
    }

    fn combine(&self, mut parts: Vec<Part>, options: &Options) -> Solution {
        let rotated: Vec<Rotated> = parts.iter().map(|p| Rotated { jobs: p.jobs.clone(), rotations: p.rotations.clone() }).collect();
        let mut shifts = self.compose(&rotated);
        let shared = self.shared_links().max(1) as f64;
        let bound: f64 = parts.iter().map(|p| p.bound).sum();
        let approximate = parts.iter().any(|p| p.group.circles.iter().any(|c| c.approximate));
        let Some(drift) = options.robust else {
            let cost: f64 = parts.iter().map(|p| p.group.cost(&p.rotations, &mut Total::default())).sum();
            let proven = parts.iter().all(|p| p.proven) && !approximate;
            let bound_gap = if proven { 0.0 } else { ((cost - bound) / shared).max(0.0) };
            return self.report(Outcome::Solved, &parts, &shifts, Optimality { proven, bound_gap });
        };
        let worst = self.harden(&mut parts, &mut shifts, drift.0, options.effort);
        let gap = ((worst.cost + worst.added - worst.bound) / shared).max(0.0);
        let proven = gap <= PROOF_TOLERANCE && !approximate;
        let optimality = Optimality { proven, bound_gap: if proven { 0.0 } else { gap } };
        let mut solution = self.report(Outcome::Solved, &parts, &shifts, optimality);
        solution.robust = Some(Robust {
            mean_score: solution.mean_score - worst.added / shared,
            exact: worst.exact,
            plain_gap: ((worst.cost - bound) / shared).max(0.0),
        });
        solution
    }

    /// Moves the shifts to lower the worst case of a drift, component by component: a job may drift on the links of several sets.
    fn harden(&self, parts: &mut [Part], shifts: &mut [u64], drift: u64, effort: Effort) -> Robustness {
        let own = |component: &Part| {
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
        let worst = robust::harden(&mut stands, drift, effort);
        let rotated: Vec<Rotated> =
            components.into_iter().zip(stands).map(|(c, stand)| Rotated { jobs: c.jobs, rotations: stand.shifts }).collect();
        shifts.copy_from_slice(&self.compose(&rotated));
        let work_max = share(effort, parts.len());
        parts.iter_mut().for_each(|part| part.stand_at(shifts, work_max));
        worst
    }

    /// One shift per job.
    fn compose(&self, rotated: &[Rotated]) -> Vec<u64> {
        affinity::compose(&self.problem.periods().iter().map(|t| t.0).collect::<Vec<_>>(), rotated)
    }

    /// Exact score of every link under one shift per job.
    pub(crate) fn true_scores(&self, parts: &[Part], shifts: &[u64]) -> Vec<f64> {
        let links = self.problem.links();
        let mut scores = vec![f64::NAN; links.len()];
        let mut total = Total::default();
        for part in parts {
            for (c, (circle, &class)) in part.group.circles.iter().zip(&part.classes).enumerate() {
                let score = 1.0 - part.group.excess(c, |local| shifts[part.jobs[local]], &mut total) / circle.capacity;
                for &l in &self.classes[class].links {
                    scores[l] = score;
                }
            }
        }
        for (score, link) in scores.iter_mut().zip(links) {
            if score.is_nan() {
                *score = constant_score(self.problem, link);
            }
        }
        scores
    }

    /// Assembles the answer from one shift per job.
    pub(crate) fn report(&self, outcome: Outcome, parts: &[Part], shifts: &[u64], optimality: Optimality) -> Solution {
        let scores = self.true_scores(parts, shifts);
        let zeros = vec![0; shifts.len()];
        let zero_scores = if shifts == zeros { scores.clone() } else { self.true_scores(parts, &zeros) };
        let links: Vec<LinkScore> = scores
            .iter()
            .zip(&zero_scores)
            .enumerate()
            .map(|(l, (&score, &zero))| LinkScore {
                link: LinkId(l as u32),
                score,
                true_score: score,
                zero_shift_score: zero,
                approximate: false,
            })
            .collect();
        let mut solution = Solution {
            outcome,
            mean_score: self.mean(&scores),
            zero_shift_mean_score: self.mean(&zero_scores),
            optimality,
            links,
            shifts: self.job_shifts(parts, shifts),
            affinity: self.affinity(),
            robust: None,
        };
        for part in parts {
            for (circle, &class) in part.group.circles.iter().zip(&part.classes) {
                for &l in self.classes[class].links.iter().filter(|_| circle.approximate) {
                    solution.links[l].approximate = true;
                }
            }
        }
        solution
    }

    fn job_shifts(&self, parts: &[Part], shifts: &[u64]) -> Vec<JobShift> {
        let periods = self.problem.periods();
        let mut out: Vec<JobShift> = (0..shifts.len())
            .map(|j| JobShift { job: JobId(j as u32), shift: Ticks(shifts[j]), slack: Ticks(periods[j].0 / 2), lock: Ticks(1) })
            .collect();
        for part in parts {
            for (local, &job) in part.jobs.iter().enumerate() {
                let o = &mut out[job];
                o.lock = Ticks(num_integer::lcm(o.lock.0, part.group.jobs[local].lock));
                if let Some(slack) = part.slacks.get(local).copied().flatten() {
                    o.slack = o.slack.min(Ticks(slack));
                }
            }
        }
        out
    }

    /// Mean over the links that two or more jobs cross; 1 when there is none.
    pub(crate) fn mean(&self, scores: &[f64]) -> f64 {
        let shared = self.shared_links();
        if shared == 0 {
            return 1.0;
        }
        self.classes.iter().map(|c| scores[c.link] * c.links.len() as f64).sum::<f64>() / shared as f64
    }

    fn affinity(&self) -> Affinity {
        affinity::affinity(self.problem, &self.classes)
    }
}

/// The circle of a link that some shifts could overload; `None` when its score does not depend
/// on shifts: at most one job sends, or all peaks together fit.
fn circle(problem: &Problem, link: &ProblemLink, multiplicity: usize, effort: Effort) -> Option<Circle> {
    let active: Vec<_> = link.members.iter().filter(|m| !problem.phases(m.demand).is_empty()).collect();
    let peak = |m: &crate::Member| problem.phases(m.demand).iter().map(|p| p.rate.0).max().unwrap_or(0);
    if active.len() < 2 || active.iter().map(|m| peak(m)).sum::<u64>() <= link.capacity.0 {
        return None;
    }
    let periods: Vec<(u64, usize)> = active.iter().map(|m| (problem.period(m.job), 2 * problem.phases(m.demand).len() + 1)).collect();
    let around = |perimeter: u64, dropped: bool| {
        let mut approximate = dropped;
        let members: Vec<OnCircle> = active
            .iter()
            .map(|m| {
                let (phases, period) = (problem.phases(m.demand), problem.period(m.job));
                let folded = Folded::new(phases, period, num_integer::gcd(period, perimeter));
                approximate |= folded.approximate;
                OnCircle { job: m.job.index(), folded, edges: edges(phases, period) }
            })
            .collect();
        let capacity = link.capacity.0 as f64;
        let mut circle = Circle { perimeter, capacity, weight: multiplicity as f64 / (capacity * perimeter as f64), members, approximate };
        circle.approximate |= circle.may_cut();
        circle
    };
    let (short, dropped) = perimeter(&periods, effort.pieces_max());
    // Around a circle that is too long to be swept, sums on smaller ones can still be short.
    if dropped && effort != Effort::Fast {
        let (whole, dropped) = perimeter(&periods, crate::LONG_CIRCLE_PIECES_MAX);
        let circle = (!dropped).then(|| around(whole, false)).filter(|c| !c.approximate && mixed::are_short(&c.members));
        if circle.is_some() {
            return circle;
        }
    }
    Some(around(short, dropped))
}

/// Score of a link on which shifts change nothing: no overload, or one job that alone exceeds it.
fn constant_score(problem: &Problem, link: &ProblemLink) -> f64 {
    let capacity = link.capacity.0;
    let peaks: u64 = link.members.iter().map(|m| problem.phases(m.demand).iter().map(|p| p.rate.0).max().unwrap_or(0)).sum();
    if peaks <= capacity {
        return 1.0;
    }
    let lost: f64 = link
        .members
        .iter()
        .map(|m| {
            let over = |p: &crate::Phase| p.rate.0.saturating_sub(capacity) as f64 * (p.end.0 - p.start.0) as f64;
            problem.phases(m.demand).iter().map(over).sum::<f64>() / (problem.period(m.job) as f64 * capacity as f64)
        })
        .sum();
    1.0 - lost
}
