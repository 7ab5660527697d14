//! From shifts to what is reported of them: scores, slacks, locks.

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet},
    vec,
    vec::Vec,
};

use num_integer::Integer as _;

use super::{
    solution::{JobShift, LinkScore, Optimality, Outcome, Solution},
    solve::{Part, View},
    walk,
};
use crate::{
    Effort, JobId, LinkId, Ticks,
    budget::Budget,
    demand::{
        allowance::Allowance,
        circle::Circle,
        distribution::{self, DemandDistribution},
        sum::Workspace,
    },
    model::{
        affinity::{self, Affinity},
        problem::{Problem, ProblemLink},
    },
};

/// Work on the exact scores of all links on whose circles couplings were dropped, in units of 10 ns.
const EXACT_WORK: u64 = 60_000_000;
/// Most jobs on a link for that by sums: of more, hardly any is short.
const UNCUT_JOBS_MAX: usize = 128;
/// The same where placements are ranked.
const EXACT_WORK_FAST: u64 = 200_000;
/// The part of the work on a problem, as a divisor, that such scores take at most on top.
const EXACT_SHARE: u64 = 5;
/// Most gcds for the locks that are told of the jobs on such links: half a second.
const GCDS_MAX: usize = 1 << 23;

/// Score of a link, and how far it may be off.
#[derive(Clone, Copy, Debug)]
struct Score {
    score: f64,
    uncertainty: f64,
}

impl View<'_> {
    /// Score of every link under one shift per job. Where the circle of the search is not quite the true one, all couplings are
    /// counted if that is possible.
    fn scores(&self, parts: &[Part], shifts: &[u64], uncut: &mut Uncut<'_>) -> Vec<Score> {
        let links = self.problem.links();
        let mut scores: Vec<Option<Score>> = vec![None; links.len()];
        let mut workspace = Workspace::default();
        let mut take = |class: usize, circle: &Circle, excess: f64| {
            let class = &self.classes[class];
            let (excess, blur) = uncut.excess(class.link, shifts).unwrap_or((excess, circle.blur));
            let score = Score { score: 1.0 - excess / circle.capacity, uncertainty: circle.uncertainty(excess, blur) / circle.capacity };
            // Links of a class have equal capacities and members, hence equal scores.
            class.links.iter().for_each(|&l| scores[l] = Some(score));
        };
        for part in parts {
            for (c, (circle, &class)) in part.group.circles.iter().zip(&part.classes).enumerate() {
                take(class, circle, part.group.excess(c, |local| shifts[part.jobs[local]], &mut workspace));
            }
        }
        self.settled.iter().for_each(|s| take(s.class, &s.circle, s.excess));
        let constant = |link| Score { score: constant_score(self.problem, link), uncertainty: 0.0 };
        scores.into_iter().zip(links).map(|(score, link)| score.unwrap_or_else(|| constant(link))).collect()
    }

    /// Those links whose circle lacks couplings.
    fn uncut(&self, parts: &[Part]) -> Uncut<'_> {
        let circles = parts.iter().flat_map(|p| p.group.circles.iter().zip(p.classes.iter().copied()));
        let all = circles.chain(self.settled.iter().map(|s| (&s.circle, s.class)));
        let links: BTreeSet<usize> = all.filter(|(circle, _)| circle.blur > 0.0).map(|(_, class)| self.classes[class].link).collect();
        let most = if self.options.effort == Effort::Fast { EXACT_WORK_FAST } else { EXACT_WORK };
        let work = most.min(self.options.problem_work() / EXACT_SHARE);
        // Each link is summed twice: under the shifts of the answer, and without shifts.
        let each = work / (2 * links.len().max(1)) as u64;
        Uncut {
            problem: self.problem,
            methods: links.into_iter().map(|link| (link, Method::Walk)).collect(),
            each,
            allowance: self.allowance,
        }
    }

    /// Assembles the answer from one shift per job.
    pub(crate) fn report(&self, outcome: Outcome, parts: &[Part], shifts: &[u64], optimality: Optimality) -> Solution {
        let mut uncut = self.uncut(parts);
        let scores = self.scores(parts, shifts, &mut uncut);
        let zeros = vec![0; shifts.len()];
        // Equal shifts have equal scores, and the sums are what costs.
        let zero_scores = if shifts == zeros { scores.clone() } else { self.scores(parts, &zeros, &mut uncut) };
        let link = |(l, (own, zero)): (usize, (&Score, &Score))| LinkScore {
            link: LinkId(l as u32),
            score: own.score,
            true_score: own.score,
            zero_shift_score: zero.score,
            uncertainty: own.uncertainty.max(zero.uncertainty),
        };
        let means = |scores: &[Score]| self.mean(&scores.iter().map(|s| s.score).collect::<Vec<_>>());
        Solution {
            outcome,
            mean_score: means(&scores),
            zero_shift_mean_score: means(&zero_scores),
            optimality,
            links: scores.iter().zip(&zero_scores).enumerate().map(link).collect(),
            shifts: self.job_shifts(parts, shifts),
            affinity: self.affinity(),
            robust: None,
        }
    }

    fn job_shifts(&self, parts: &[Part], shifts: &[u64]) -> Vec<JobShift> {
        let periods = self.problem.periods();
        let mut out: Vec<JobShift> = (0..shifts.len())
            .map(|j| JobShift { job: JobId(j as u32), shift: Ticks(shifts[j]), slack: Ticks(periods[j].0 / 2), lock: Ticks(1) })
            .collect();
        for part in parts {
            for (local, &job) in part.jobs.iter().enumerate() {
                let o = &mut out[job];
                // A shift that matters in no part is a multiple of all locks, and a drift costs as soon as it costs in one part.
                o.lock = Ticks(o.lock.0.lcm(&part.group.jobs[local].lock));
                if let Some(slack) = part.slacks.get(local).copied().flatten() {
                    o.slack = o.slack.min(Ticks(slack));
                }
            }
        }
        let circles = parts.iter().flat_map(|p| p.group.circles.iter().zip(p.classes.iter().copied()));
        let all = circles.chain(self.settled.iter().map(|s| (&s.circle, s.class)));
        let mut gcds_left = GCDS_MAX;
        for (circle, class) in all.filter(|c| c.0.blur > 0.0) {
            let link = &self.problem.links()[self.classes[class].link];
            self.lock_as_given(link, &mut gcds_left, &mut out);
            if !circle.is_faithful() {
                // Jobs without edges on the circle are meant as well: only the couplings that the circle lacks tell how far these
                // may drift.
                link.members.iter().for_each(|m| out[m.job.index()].slack = Ticks(0));
            }
        }
        out
    }

    /// The locks of the jobs on a link whose circle does not have all couplings. Once no gcds are left, the shift of a job counts modulo its
    /// period, of which its lock is a part.
    fn lock_as_given(&self, link: &ProblemLink, gcds_left: &mut usize, out: &mut [JobShift]) {
        let count = link.members.len().saturating_mul(link.members.len());
        let left = gcds_left.checked_sub(count);
        // A link of fewer jobs may still have its gcds.
        *gcds_left = left.unwrap_or(*gcds_left);
        for on in &link.members {
            let others = link.members.iter().filter(|o| o.job != on.job);
            let own = self.problem.period(on.job);
            // The LCM of the gcds with all others is `G_j` of docs/model.md, section 2, which needs no circle.
            let exact = || others.fold(1_u64, |l, other| l.lcm(&own.gcd(&self.problem.period(other.job))));
            let lock = if left.is_some() { exact() } else { own };
            let o = &mut out[on.job.index()];
            o.lock = Ticks(o.lock.0.lcm(&lock));
        }
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

/// Links whose circle lacks couplings, with all of them.
struct Uncut<'a> {
    problem: &'a Problem,
    methods: BTreeMap<usize, Method>,
    /// Work on one score of one link.
    each: u64,
    /// What the circle of a link may take.
    allowance: Allowance,
}

/// How a link is summed with all its couplings.
enum Method {
    /// Edge by edge.
    Walk,
    /// By sums of what its jobs demand.
    Sum(Box<Circle>),
}

impl Uncut<'_> {
    /// Mean excess of a link under one shift per job, and how far it may be off; `None` if it is not here, or too much work.
    fn excess(&mut self, link: usize, shifts: &[u64]) -> Option<(f64, f64)> {
        let on = &self.problem.links()[link];
        // The work depends on the jobs and hardly on their shifts, so what failed once is not tried a second time.
        if let Method::Walk = self.methods.get(&link)? {
            if let Some(excess) = walk::excess(self.problem, on, shifts, walk::EDGES_MAX.min(self.each / walk::WORK_PER_EDGE)) {
                return Some((excess, 0.0));
            }
            if on.members.len() > UNCUT_JOBS_MAX {
                self.methods.remove(&link);
                return None;
            }
            self.methods.insert(link, Method::Sum(Box::new(Circle::uncut(self.problem, on, self.allowance))));
        }
        let Method::Sum(circle) = self.methods.get(&link)? else { return None };
        let jobs = circle.members.iter().map(|on| DemandDistribution::job(&on.folded, shifts[on.job])).collect();
        let excess = distribution::excess(jobs, circle, &mut Budget::new(self.each, None));
        let blur = circle.blur;
        if excess.is_none() {
            self.methods.remove(&link);
        }
        Some((excess?, blur))
    }
}

/// Score of a link on which shifts change nothing: no overload, or one job that alone exceeds it.
fn constant_score(problem: &Problem, link: &ProblemLink) -> f64 {
    let capacity = link.capacity.0;
    // The sum fits: there are at most 1,024 jobs of 2^40 Mbit/s on a link.
    let peaks: u64 = link.members.iter().map(|m| problem.phases(m.demand).iter().map(|p| p.rate.0).max().unwrap_or(0)).sum();
    if peaks <= capacity {
        return 1.0;
    }
    // At most one job sends here (`Circle::of_link`), so the excess of each job alone adds up to that of the link.
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
