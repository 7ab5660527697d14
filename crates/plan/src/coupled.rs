//! A component by itself: for callers that keep jobs and their demands, and plan again only the jobs that meet.

use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};
use core::ops::Range;

use circle::{Cancel, Phase, Problem, ProblemError, Solution};
use job::Hold;
use units::{LinkId, Nanos, Ticks};

use crate::{
    LinkDemands, Options, SolverRefusal,
    classes::{self, Classes},
    component::{Content, content_links},
    demand::Demands,
    groups::coupled_groups,
    hold::Advice,
    predict::{Fluid, Gates, Holding, JobTimes, Prediction, predict},
    solved::{answer, solve_group, solve_whole},
    table::{self, State},
    turns,
};

/// A job of a component.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// How long its iteration takes alone; its phases lie within.
    pub iteration: Nanos,
    /// Scheduled length of its iterations.
    pub period: Nanos,
    /// GPUs that it holds, its weight.
    pub gpus: u32,
    /// Whether and where gates may delay it.
    pub hold: Hold,
    /// What it demands of its links.
    pub demands: &'a LinkDemands,
    /// Highest rate of each of these demands in Mbit/s.
    pub peaks: &'a [u64],
}

/// Links of equal capacity on which the same jobs demand the same, which they can exceed together, or one of them alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exceeded<'a> {
    /// The links, by id.
    pub links: &'a [LinkId],
    /// (score, score without shifts); `None` for links of one job, which are in no mean.
    pub scores: Option<(f64, f64)>,
}

/// Jobs that meet, and where: a component, or several side by side.
#[derive(Debug)]
pub struct Coupled {
    content: Content,
    /// Links of each of [`Content::links`].
    links: Vec<Vec<LinkId>>,
    demands: Demands,
    problem: Problem,
}

/// Shifts of a component, and what they are worth.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    /// Per member.
    pub shifts: Vec<Nanos>,
    /// How far each member alone may drift, either way, before a score falls.
    pub slacks: Vec<Nanos>,
    /// Mean over the links of two and more jobs.
    pub score: f64,
    /// The same when no job is shifted.
    pub zero_shift_score: f64,
    /// (score, score without shifts) of each of [`Content::links`]; `None` for links of one job.
    links: Vec<Option<(f64, f64)>>,
}

impl Coupled {
    /// Where `members` meet; `capacity` is that of a link in Mbit/s.
    ///
    /// # Errors
    /// The limits of the circle, and at which link.
    pub fn new(members: &[Member<'_>], capacity: impl Fn(LinkId) -> u64) -> Result<Self, (Option<LinkId>, ProblemError)> {
        // In order of content, as the planner numbers demands, so that both state one problem alike.
        let demands = members.iter().flat_map(|m| m.demands.demands.iter().map(Vec::as_slice).zip(m.peaks.iter().copied()));
        // Equal phases have equal peaks, so the entry that comes last in the map is as good as any.
        let mut numbers: BTreeMap<&[Phase], (u32, u64)> = demands.map(|(phases, peak)| (phases, (0, peak))).collect();
        numbers.values_mut().zip(0..).for_each(|((number, _), n)| *number = n);
        let phases = numbers.keys().map(|phases| Arc::from(*phases)).collect();
        let demands = Demands { phases, peaks: numbers.values().map(|(_, peak)| *peak).collect() };
        let mut on: Vec<(LinkId, classes::Member)> = Vec::new();
        for (job, member) in (0..).zip(members) {
            let number: Vec<u32> = member.demands.demands.iter().map(|d| numbers[d.as_slice()].0).collect();
            on.extend(member.demands.links.iter().map(|&(link, d)| (link, classes::Member { job, demand: number[d as usize] })));
        }
        on.sort_unstable();
        let pool: Vec<classes::Member> = on.iter().map(|(_, m)| *m).collect();
        let mut hot: Vec<(LinkId, u64, Range<u32>)> = Vec::new();
        let mut from = 0;
        // Members are in order of link, so each link is one chunk, and its members are one range of the pool.
        for chunk in on.chunk_by(|a, b| a.0 == b.0) {
            let (link, range) = (chunk[0].0, from..from + chunk.len());
            from = range.end;
            let capacity = capacity(link);
            if table::state_of(&pool[range.clone()], &demands.peaks, capacity).is_exceeded() {
                hot.push((link, capacity, range.start as u32..range.end as u32));
            }
        }
        let classes = Classes::group(&pool, &mut hot);
        let content = Content {
            periods: members.iter().map(|m| m.period.0).collect(),
            iterations: members.iter().map(|m| m.iteration.0).collect(),
            gpus: members.iter().map(|m| m.gpus).collect(),
            hold: members.iter().map(|m| m.hold).collect(),
            links: content_links(&classes),
        };
        let links: Vec<Vec<LinkId>> = classes.classes.iter().map(|c| classes.links_of(c).to_vec()).collect();
        let problem =
            content.problem(|d| &demands.phases[d as usize]).map_err(|(link, e)| (link.and_then(|l| links[l].first().copied()), e))?;
        Ok(Self { content, links, demands, problem })
    }

    /// The circle problem of the shared links; job `i` is the member `i`.
    #[must_use]
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// The best shifts, found as [`crate::rank`] finds them: coupled group by coupled group, and put together.
    ///
    /// # Errors
    /// What the solver refuses.
    pub fn solve(&self, options: &Options) -> Result<Standing, SolverRefusal> {
        let groups = coupled_groups(&self.content, solve_whole(options));
        let cancel = Cancel::default();
        let each = Options { work_max: options.work_max.map(|work| work / groups.len().max(1) as u64), ..*options };
        let mut found = Vec::with_capacity(groups.len());
        for group in &groups {
            found.push(solve_group(&group.content, &self.demands, &each, &cancel).map_err(|refused| refused.error)?);
        }
        let answer = answer(&self.content, &groups.iter().zip(&found).collect::<Vec<_>>(), &self.demands, options);
        let shifts: Vec<Ticks> = answer.shifts.iter().map(|s| Ticks(s.shift)).collect();
        // The shifts are scored again as every later reader scores them, so that both get the same score to the last bit.
        let scored = circle::evaluate_within(&self.problem, &shifts, options.work_max).map_err(SolverRefusal::Solve)?;
        Ok(Standing { slacks: answer.shifts.iter().map(|s| Nanos(s.slack)).collect(), ..self.standing(&scored) })
    }

    /// What the shifts of a solution of [`Coupled::problem`] are worth.
    #[must_use]
    pub fn standing(&self, solution: &Solution) -> Standing {
        let scores = |copy: Option<usize>| copy.and_then(|c| solution.links.get(c)).map(|s| (s.score, s.zero_shift_score));
        Standing {
            shifts: solution.shifts.iter().map(|s| Nanos(s.shift.0)).collect(),
            slacks: solution.shifts.iter().map(|s| Nanos(s.slack.0)).collect(),
            score: solution.mean_score,
            zero_shift_score: solution.zero_shift_mean_score,
            links: self.content.first_copies().map(scores).collect(),
        }
    }

    /// The links that the jobs can exceed, with their scores.
    pub fn exceeded<'s>(&'s self, standing: &'s Standing) -> impl Iterator<Item = Exceeded<'s>> {
        self.links.iter().zip(&standing.links).map(|(links, scores)| Exceeded { links, scores: *scores })
    }

    /// What the iterations take under these shifts, and which jobs to hold.
    #[must_use]
    pub fn predict(&self, standing: &Standing, gates: Gates, holding: Holding<'_>) -> (Vec<JobTimes>, Advice) {
        let shifts: Vec<u64> = standing.shifts.iter().map(|s| s.0).collect();
        let Prediction { times, advice, .. } = predict(&self.content, |d| &self.demands.phases[d as usize], &shifts, gates, holding, false);
        (times, advice)
    }

    /// Which members should take turns with which, and what their iterations take then. The parameters are those of
    /// [`turns::Question`].
    #[must_use]
    pub fn take_turns(&self, jitter_permille: u32, limits: turns::Limits) -> turns::Advice {
        let Fluid { jobs, links, free, asks } = &self.fluid();
        turns::advise(&turns::Question { jobs, gpus: &self.content.gpus, free, links, asks, jitter_permille, limits })
    }

    /// What iterations take with nobody kept apart, as [`Self::take_turns`] says it of `free`, and nothing else is tried.
    #[must_use]
    pub fn take_none(&self, jitter_permille: u32) -> Vec<Nanos> {
        let Fluid { jobs, links, free, asks } = &self.fluid();
        let question =
            turns::Question { jobs, gpus: &self.content.gpus, free, links, asks, jitter_permille, limits: turns::Limits::tried(0) };
        turns::predicted(&question, turns::Taking::default()).times
    }

    /// The arbiters that this choice needs, each with its members.
    #[must_use]
    pub fn arbitrated(&self, taking: &turns::Taking) -> Vec<turns::Arbitrated> {
        let fluid = self.fluid();
        taking.groups(&fluid.jobs, &fluid.links)
    }

    /// The members as the fluid model takes them, each with its first start at 0.
    fn fluid(&self) -> Fluid<'_> {
        let unshifted: Vec<u64> = self.content.periods.iter().map(|_| 0).collect();
        Fluid::new(&self.content, |d| &self.demands.phases[d as usize], &unshifted)
    }
}

impl State {
    /// Whether the jobs of a link can exceed it, together or one alone.
    pub(crate) fn is_exceeded(self) -> bool {
        matches!(self, Self::Overrun | Self::Contended)
    }
}
