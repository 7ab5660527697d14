//! One component, solved: time-shifts, scores, predicted iteration times.

use alloc::{sync::Arc, vec, vec::Vec};

use circle::{Affinity, Cancel, Optimality, Phase, ProblemError, SolveError};
use num_integer::lcm;
use petgraph::unionfind::UnionFind;
use units::Ticks;

use crate::{
    Options, Predictions,
    component::Content,
    demand::Demands,
    groups::{CoupledGroup, compose},
    hold::Advice,
    predict::{Comparison, Holding, JobTimes, Prediction, predict},
    table::overrun_score,
};

/// The scores of a class of links.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scores {
    pub(crate) score: f64,
    pub(crate) true_score: f64,
    pub(crate) zero_shift_score: f64,
    /// How far the scores may be off.
    pub(crate) uncertainty: f64,
}

/// What came of a component. Jobs are named by their number in the component.
#[derive(Debug)]
pub(crate) struct Solved {
    pub(crate) content: Content,
    /// The phases of every member of every link of `content`.
    pub(crate) demands: Vec<Vec<Arc<[Phase]>>>,
    pub(crate) answer: Result<Answer, Unsolved>,
}

/// The solver refused: which link, as an index into the content's links, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unsolved {
    pub(crate) link: Option<usize>,
    pub(crate) error: UnsolvedBecause,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum UnsolvedBecause {
    Solve(SolveError),
    Problem(ProblemError),
}

/// A solved component's answer.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Per job; a job that shares nothing has shift 0.
    pub(crate) shifts: Vec<Shift>,
    /// Per link of the content.
    pub(crate) scores: Vec<Scores>,
    pub(crate) optimality: Optimality,
    pub(crate) affinity: Affinity,
    /// What a drift of one of its jobs does to the mean of this component: robust mode only.
    pub(crate) robust_loss: Option<RobustLoss>,
    /// Per job; empty unless asked for.
    pub(crate) times: Vec<JobTimes>,
    /// Which jobs to hold to their slots, because that is predicted to beat leaving them alone; empty unless asked for.
    pub(crate) advice: Advice,
    /// What each control brings, where that is asked for.
    pub(crate) comparison: Option<Comparison>,
}

/// Time-shift of one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shift {
    pub(crate) shift: u64,
    pub(crate) slack: u64,
    pub(crate) lock: u64,
}

/// The solution of a coupled group; jobs and links by their number in the set.
#[derive(Debug)]
pub(crate) struct SolvedGroup {
    shifts: Vec<Shift>,
    scores: Vec<Scores>,
    optimality: Optimality,
    /// What a drift of one of its jobs does to the mean of this set: robust mode only.
    robust_loss: Option<RobustLoss>,
}

/// What a drift of one job does to a mean.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RobustLoss {
    /// By how much it falls.
    pub(crate) loss: f64,
    /// Otherwise the mean falls by no more than that.
    pub(crate) exact: bool,
    /// How much better the mean can be at most while no job drifts.
    pub(crate) plain_gap: f64,
}

/// Whether a component has to be solved as one set: in robust mode the loss of a job counts over all its links.
pub(crate) fn solve_whole(options: &Options) -> bool {
    options.robust.is_some()
}

/// Solves a coupled group.
pub(crate) fn solve_group(content: &Content, demands: &Demands, options: &Options, cancel: &Cancel) -> Result<SolvedGroup, Unsolved> {
    let problem =
        content.problem(|d| &demands.phases[d as usize]).map_err(|(link, e)| Unsolved { link, error: UnsolvedBecause::Problem(e) })?;
    let circle_options = circle::Options {
        mode: options.mode,
        robust: options.robust.map(|n| Ticks(n.0)),
        effort: options.effort,
        work_max: options.work_max,
    };
    let solution = circle::solve_until(&problem, &circle_options, cancel).map_err(|e| {
        // The circle names one of the copies that a link has there for its weight; callers know the link only.
        let link = match &e {
            SolveError::PerimeterOverflow { link } => content.link_of_copy(link.index()),
            _ => None,
        };
        Unsolved { link, error: UnsolvedBecause::Solve(e) }
    })?;
    let mut shifts: Vec<Shift> = content.periods.iter().map(Shift::free).collect();
    for s in &solution.shifts {
        shifts[s.job.index()] = Shift { shift: s.shift.0, slack: s.slack.0, lock: s.lock.0 };
    }
    let scores = content.first_copies().map(|copy| {
        let copy = copy.and_then(|c| solution.links.get(c));
        copy.map_or(Scores::FULL, |s| Scores {
            score: s.score,
            true_score: s.true_score,
            zero_shift_score: s.zero_shift_score,
            uncertainty: s.uncertainty,
        })
    });
    let scores = scores.collect();
    let robust_loss =
        solution.robust.map(|r| RobustLoss { loss: solution.mean_score - r.mean_score, exact: r.exact, plain_gap: r.plain_gap });
    Ok(SolvedGroup { shifts, scores, optimality: solution.optimality, robust_loss })
}

/// Puts a component together from its solved sets.
pub(crate) fn assemble<'s>(
    content: &Content,
    sets: &[CoupledGroup],
    solved: impl Fn(&Content) -> Option<&'s Result<SolvedGroup, Unsolved>>,
    demands: &Demands,
    options: &Options,
    cancel: &Cancel,
) -> Solved {
    let phases: Vec<Vec<Arc<[Phase]>>> =
        content.links.iter().map(|l| l.members.iter().map(|(_, d)| demands.phases[*d as usize].clone()).collect()).collect();
    let mut found: Vec<(&CoupledGroup, &SolvedGroup)> = Vec::with_capacity(sets.len());
    // After a cancel no caller waits for the predictions, so the component counts as refused.
    let cancelled = Unsolved { link: None, error: UnsolvedBecause::Solve(SolveError::Cancelled) };
    let mut refused = cancel.is_cancelled().then_some(cancelled);
    for set in sets {
        match solved(&set.content) {
            Some(Ok(solved)) => found.push((set, solved)),
            Some(Err(e)) if refused.is_none() => {
                refused = Some(Unsolved { link: e.link.map(|l| set.links[l] as usize), error: e.error.clone() });
            }
            _ => {}
        }
    }
    let answer = refused.map_or_else(|| Ok(answer(content, &found, demands, options)), Err);
    Solved { content: content.clone(), demands: phases, answer }
}

pub(crate) fn answer(content: &Content, sets: &[(&CoupledGroup, &SolvedGroup)], demands: &Demands, options: &Options) -> Answer {
    let own: Vec<_> = sets.iter().map(|(set, solved)| (*set, solved.shifts.iter().map(|s| s.shift).collect())).collect();
    let mut shifts: Vec<Shift> = content.periods.iter().map(Shift::free).collect();
    for (shift, composed) in shifts.iter_mut().zip(compose(&content.periods, &own)) {
        // The sets were solved apart, so their own shifts of a common job differ; composition makes them one.
        shift.shift = composed;
    }
    let mut scores = vec![Scores::FULL; content.links.len()];
    let mut optimality = Optimality { proven: true, bound_gap: 0.0 };
    let mut robust_loss = None;
    let all: u64 = content.links.iter().map(|l| u64::from(l.weight)).sum();
    // A job's first lock replaces the whole period that stands for no lock at all.
    let mut locked = vec![false; content.periods.len()];
    for (set, solved) in sets {
        for (&job, s) in set.jobs.iter().zip(&solved.shifts) {
            let shift = &mut shifts[job as usize];
            // A drift costs as soon as it costs in one of the sets. A shift that matters in none of the sets is a multiple of
            // every lock.
            shift.slack = shift.slack.min(s.slack);
            let first = !core::mem::replace(&mut locked[job as usize], true);
            shift.lock = if first { s.lock } else { lcm(shift.lock, s.lock) };
        }
        for (&link, s) in set.links.iter().zip(&solved.scores) {
            scores[link as usize] = *s;
        }
        let links: u64 = set.links.iter().map(|l| u64::from(content.links[*l as usize].weight)).sum();
        optimality.proven &= solved.optimality.proven;
        // The gap of a set is one of the mean over its own links, so it counts by their part of the component.
        optimality.bound_gap += solved.optimality.bound_gap * links as f64 / all as f64;
        // In robust mode the component is one set (`solve_whole`), so there is one loss at most.
        robust_loss = robust_loss.or(solved.robust_loss);
    }
    for (link, scores) in content.links.iter().zip(&mut scores).filter(|(l, _)| l.weight == 0) {
        // A link of one job is in no set: its score follows from the job alone, whatever the shift.
        let (job, demand) = link.members[0];
        let score = overrun_score(&demands.phases[demand as usize], content.periods[job as usize], link.capacity);
        *scores = Scores { score, true_score: score, zero_shift_score: score, uncertainty: 0.0 };
    }
    let predictions = options.predictions();
    let predicted = if predictions == Predictions::Needed {
        Prediction::default()
    } else {
        let shifts: Vec<u64> = shifts.iter().map(|s| s.shift).collect();
        let phases = |d: u32| &*demands.phases[d as usize];
        predict(content, phases, &shifts, options.gates(), Holding::Advised(&[]), predictions == Predictions::Compared)
    };
    let Prediction { times, advice, comparison } = predicted;
    Answer { shifts, scores, optimality, affinity: affinity(content), robust_loss, times, advice, comparison }
}

/// The share of these jobs in the affinity graph: edges - vertices + components loops over their shared links. Callers may have put several
/// components side by side ([`crate::Coupled`]).
fn affinity(content: &Content) -> Affinity {
    let mut joined: UnionFind<u32> = UnionFind::new(content.periods.len());
    let mut shares = vec![false; content.periods.len()];
    let (mut links, mut edges, mut joins) = (0, 0, 0);
    for link in content.links.iter().filter(|l| l.weight > 0) {
        links += 1;
        edges += link.members.len();
        for (job, _) in &link.members {
            shares[*job as usize] = true;
            joins += usize::from(joined.union(link.members[0].0, *job));
        }
    }
    // Each join makes two components of jobs one.
    let jobs = shares.iter().filter(|s| **s).count();
    let components = jobs - joins;
    Affinity { components, loops: edges + components - links - jobs, merged_links: 0 }
}

impl Scores {
    const FULL: Self = Self { score: 1.0, true_score: 1.0, zero_shift_score: 1.0, uncertainty: 0.0 };
}

impl Shift {
    /// Of a job that shares nothing.
    fn free(period: &u64) -> Self {
        Self { shift: 0, slack: period / 2, lock: *period }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::component::ContentLink;

    /// Three pairs side by side, the first on two links, and a job that meets nobody.
    #[test]
    fn components_side_by_side_have_their_own_loops() {
        let link = |members: &[u32], weight: u32| ContentLink { members: members.iter().map(|j| (*j, 0)).collect(), capacity: 1, weight };
        let links = vec![link(&[0, 1], 1), link(&[0, 1], 1), link(&[2, 3], 1), link(&[4, 5], 1), link(&[6], 0)];
        let content = Content { periods: vec![100; 7], iterations: vec![100; 7], gpus: vec![1; 7], hold: vec![job::Hold::Auto; 7], links };
        assert_eq!(affinity(&content), Affinity { components: 3, loops: 1, merged_links: 0 });
        assert_eq!(affinity(&Content::default()), Affinity::default());
    }
}
