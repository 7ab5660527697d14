//! One component, solved: time-shifts, scores, predicted iteration times.

use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};

use circle::{Affinity, Member, Optimality, Phase, Problem, ProblemBuilder, ProblemError, SolveError};
use units::{JobId, Nanos, Rate, Ticks};

use crate::{
    Options,
    component::{Content, ContentLink},
    demand::Demands,
    fluid::{FluidJob, FluidLink, IterationTimes, predict},
    table::overrun_score,
};

/// The scores of a class of links.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scores {
    pub(crate) score: f64,
    pub(crate) true_score: f64,
    pub(crate) zero_shift_score: f64,
    pub(crate) approximate: bool,
}

/// What came of a component. It refers to jobs by their number in the component.
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
    /// By how much the mean of this component falls when one of its jobs drifts: robust mode only.
    pub(crate) robust_loss: Option<f64>,
    /// Per job; empty unless asked for.
    pub(crate) times: Vec<IterationTimes>,
    /// Whether holding the jobs to their slots is predicted to beat leaving them alone.
    pub(crate) hold: bool,
}

/// Time-shift of one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shift {
    pub(crate) shift: u64,
    pub(crate) slack: u64,
    pub(crate) lock: u64,
}

/// Solves a component.
pub(crate) fn solve(content: &Content, demands: &Demands, options: &Options) -> Solved {
    let phases: Vec<Vec<Arc<[Phase]>>> =
        content.links.iter().map(|l| l.members.iter().map(|(_, d)| demands.phases[*d as usize].clone()).collect()).collect();
    let answer = answer(content, &phases, options);
    Solved { content: content.clone(), demands: phases, answer }
}

fn answer(content: &Content, phases: &[Vec<Arc<[Phase]>>], options: &Options) -> Result<Answer, Unsolved> {
    let shared = content.links.iter().any(|l| l.weight > 0);
    let mut answer = if shared { solve_shared(content, phases, options)? } else { nothing_shared(content) };
    for ((link, members), scores) in content.links.iter().zip(phases).zip(&mut answer.scores) {
        if link.weight == 0 {
            let score = overrun_score(&members[0], content.periods[link.members[0].0 as usize], link.capacity);
            *scores = Scores { score, true_score: score, zero_shift_score: score, approximate: false };
        }
    }
    if options.predicts() {
        answer.times = times(content, phases, &answer.shifts, options);
        let gained = |(times, period): (&IterationTimes, &u64)| (times.unshifted.0 as f64 - times.shifted.0 as f64) / *period as f64;
        answer.hold = answer.times.iter().zip(&content.periods).map(gained).sum::<f64>() > 0.0;
    }
    Ok(answer)
}

fn nothing_shared(content: &Content) -> Answer {
    let unshifted = |period: &u64| Shift { shift: 0, slack: period / 2, lock: *period };
    Answer {
        shifts: content.periods.iter().map(unshifted).collect(),
        scores: content.links.iter().map(|_| Scores { score: 1.0, true_score: 1.0, zero_shift_score: 1.0, approximate: false }).collect(),
        optimality: Optimality { proven: true, bound_gap: 0.0 },
        affinity: Affinity::default(),
        robust_loss: None,
        times: Vec::new(),
        hold: false,
    }
}

/// Tells which link of the content a link of the problem stands for.
fn link_of(content: &Content, problem_link: usize) -> Option<usize> {
    let mut before = 0;
    content.links.iter().position(|l| {
        before += l.weight as usize;
        problem_link < before
    })
}

fn solve_shared(content: &Content, phases: &[Vec<Arc<[Phase]>>], options: &Options) -> Result<Answer, Unsolved> {
    let problem = problem(content, phases).map_err(|(link, e)| Unsolved { link, error: UnsolvedBecause::Problem(e) })?;
    let circle_options = circle::Options { mode: options.mode, robust: options.robust.map(|n| Ticks(n.0)), effort: options.effort };
    let solution = circle::solve(&problem, &circle_options).map_err(|e| {
        let link = match &e {
            SolveError::PerimeterOverflow { link } => link_of(content, link.index()),
            _ => None,
        };
        Unsolved { link, error: UnsolvedBecause::Solve(e) }
    })?;
    let mut answer = nothing_shared(content);
    for s in &solution.shifts {
        answer.shifts[s.job.index()] = Shift { shift: s.shift.0, slack: s.slack.0, lock: s.lock.0 };
    }
    let mut first_copy = 0;
    for (link, scores) in content.links.iter().zip(&mut answer.scores) {
        if let Some(s) = solution.links.get(first_copy).filter(|_| link.weight > 0) {
            *scores = Scores { score: s.score, true_score: s.true_score, zero_shift_score: s.zero_shift_score, approximate: s.approximate };
        }
        first_copy += link.weight as usize;
    }
    answer.optimality = solution.optimality;
    answer.affinity = solution.affinity;
    answer.robust_loss = solution.robust_mean_score.map(|r| solution.mean_score - r);
    Ok(answer)
}

/// The shared links of a component as a circle problem with ticks of one nanosecond; on failure, at which link.
fn problem(content: &Content, phases: &[Vec<Arc<[Phase]>>]) -> Result<Problem, (Option<usize>, ProblemError)> {
    let mut builder = ProblemBuilder::new();
    for period in &content.periods {
        builder.job(Ticks(*period)).map_err(|e| (None, e))?;
    }
    // A job demands the same of many links: hand each demand to the builder once.
    let mut known: BTreeMap<(u32, u32), Member> = BTreeMap::new();
    for (i, (link, phases)) in content.links.iter().zip(phases).enumerate().filter(|(_, (l, _))| l.weight > 0) {
        let mut members = Vec::with_capacity(phases.len());
        for (&(job, demand), phases) in link.members.iter().zip(phases) {
            let member = match known.get(&(job, demand)) {
                Some(member) => *member,
                None => builder.demand(JobId(job), phases).map_err(|e| (Some(i), e))?,
            };
            known.insert((job, demand), member);
            members.push(member);
        }
        for _ in 0..link.weight {
            builder.link(Rate(link.capacity), members.clone()).map_err(|e| (Some(i), e))?;
        }
    }
    Ok(builder.build())
}

fn fluid_link<'a>((link, phases): (&ContentLink, &'a Vec<Arc<[Phase]>>)) -> FluidLink<'a> {
    FluidLink {
        capacity: Rate(link.capacity),
        demands: link.members.iter().zip(phases).map(|((job, _), p)| (*job as usize, &p[..])).collect(),
    }
}

fn times(content: &Content, phases: &[Vec<Arc<[Phase]>>], shifts: &[Shift], options: &Options) -> Vec<IterationTimes> {
    let job = |(period, shift): (&u64, &Shift)| FluidJob { iteration: Nanos(*period), period: Nanos(*period), shift: Nanos(shift.shift) };
    let jobs: Vec<FluidJob> = content.periods.iter().zip(shifts).map(job).collect();
    let links: Vec<FluidLink<'_>> = content.links.iter().zip(phases).map(fluid_link).collect();
    predict(&jobs, &links, options.tolerance_permille)
}
