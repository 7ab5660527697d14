//! What became of a candidate: scores, time-shifts, predicted iteration times, link by link and job by job.

use alloc::{string::String, sync::Arc, vec::Vec};

use circle::{Affinity, Phase, ProblemError, SolveError};
use fluid::HeldTime;
use units::{JobId, LinkId, Nanos, Rate};

use crate::{
    Cluster,
    predict::{ByControl, Control, JobTimes},
    slot::{self, SlotTimes},
    solved::{Solved, UnsolvedBecause},
    turns,
};

/// What became of a candidate. Only a solved candidate has means; all others rank last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Shifts were found; they may all be zero.
    Solved,
    /// CASSINI mode: the affinity graph has a loop, so Algorithm 2 discards the candidate.
    Loop {
        /// The link at which the loop closes.
        link: LinkId,
        /// Two jobs on it that already meet elsewhere, directly or through others.
        jobs: [JobId; 2],
    },
    /// The solver refused a link of the candidate.
    Unsolved {
        /// The link, where it is one link.
        link: Option<LinkId>,
        /// Why.
        error: SolverRefusal,
    },
}

/// Why a component could not be solved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SolverRefusal {
    /// The component cannot be stated as a circle problem.
    #[error(transparent)]
    Problem(#[from] ProblemError),
    /// The problem can be stated but not solved.
    #[error(transparent)]
    Solve(#[from] SolveError),
}

/// Means over all links with two or more jobs, those that can never be over capacity (score 1) included; 1 when
/// there is no such link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeanScores {
    /// By the rules of the mode.
    pub score: f64,
    /// Exact, under the reported shifts, whatever the mode.
    pub true_score: f64,
    /// Exact, when no job is shifted.
    pub zero_shift_score: f64,
    /// Robust mode: the worst mean while any one job drifts by up to the asked amount.
    pub robust_score: Option<f64>,
    /// The work limit ended the look at all drifts: the worst mean is not below `robust_score`, and may be better.
    pub robust_is_bound: bool,
    /// No shifts give a better mean; in robust mode, a better worst mean.
    pub proven: bool,
    /// How much better that mean can be at most.
    pub bound_gap: f64,
}

/// GPU-weighted means over the placed jobs of an iteration time divided by the job's period
/// ([`crate::Objective::Time`]).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeanTimes {
    /// Each job alone in this placement: above 1 where a job exceeds a link by itself.
    pub solo: f64,
    /// Nobody kept apart: from time 0 where slots are the control, and else begun anywhere, so that it can be compared with
    /// `interleaved`.
    pub contended: f64,
    /// All jobs shifted and gated; `None` where that is not predicted ([`crate::JobTimes::all_held`]).
    pub all_held: Option<f64>,
    /// Under the control: jobs shifted and gated only where that is predicted to help ([`crate::hold`]), or by the turns that
    /// are chosen ([`crate::turns`]); the others run as they come.
    /// Where some overlap remains, a gate that makes late jobs slip can cost more than the overlap.
    pub interleaved: f64,
}

/// What a control brings to a candidate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ControlMean {
    /// Mean over the placed jobs of iteration over period, weighted by GPUs, as [`MeanTimes`].
    pub time: f64,
    /// Of the time in which links of a component are in use, equal links counted once and those of one job too, the share in which two or
    /// more jobs want more than there is; components are weighted by their shared links, and links that are never overloaded count 0.
    pub overlap: f64,
}

/// A component as it stands in a candidate.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) solved: Arc<Solved>,
    /// The jobs that the component's numbers stand for.
    pub(crate) jobs: Vec<JobId>,
    /// Links of each class, one class after the other, and where each class ends.
    pub(crate) links: Vec<LinkId>,
    pub(crate) ends: Vec<u32>,
}

/// A candidate, judged.
#[derive(Clone, Debug)]
pub struct Evaluation {
    /// The candidate's id.
    pub id: String,
    /// Its index among the candidates given.
    pub index: usize,
    /// What became of it.
    pub outcome: Outcome,
    /// Mean scores, when solved.
    pub scores: Option<MeanScores>,
    /// Mean iteration times, when solved and asked for.
    pub times: Option<MeanTimes>,
    /// What each control brings, when solved and asked for.
    pub compared: Option<ByControl<ControlMean>>,
    /// Links with two or more jobs.
    pub shared_links: usize,
    /// Those of them whose jobs can never be over capacity together, whatever their shifts: score 1.
    pub never_overloaded_links: usize,
    /// Shape of the affinity graph over the other shared links.
    pub affinity: Affinity,
    pub(crate) headroom_permille: u32,
    pub(crate) control: Control,
    pub(crate) turns_objective: turns::Objective,
    /// Whether what is proven is so of all shifts: not where the paper's rules decide.
    pub(crate) searches_all: bool,
    pub(crate) parts: Vec<Part>,
}

/// Links of equal capacity with the same jobs and the same demands: they share one score. Only links that can be
/// over capacity are reported.
#[derive(Clone, Debug)]
pub struct LinkReport<'a> {
    /// The links, by id.
    pub links: &'a [LinkId],
    /// Capacity of each.
    pub capacity: Rate,
    /// The jobs on each; a single one exceeds the link by itself, and its score is in no mean.
    pub jobs: Vec<JobId>,
    /// What each of the jobs demands, parallel to `jobs`.
    pub demands: &'a [Arc<[Phase]>],
    /// Score by the rules of the mode.
    pub score: f64,
    /// Exact score under the reported shifts.
    pub true_score: f64,
    /// Exact score when no job is shifted.
    pub zero_shift_score: f64,
    /// How far the scores may be off, either way: the periods of the jobs entangle so much that the solver did not tell all
    /// alignments apart. 0 where they are exact.
    pub uncertainty: f64,
}

/// One job in a candidate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JobReport {
    /// The job.
    pub job: JobId,
    /// Scheduled length of its iterations: the period of its profile, with the headroom of the options.
    pub period: Nanos,
    /// Whether it meets another job on a link that can be over capacity. If not, every shift is as good: 0.
    pub meets_others: bool,
    /// Delay of its iterations.
    pub shift: Nanos,
    /// How far the job alone may drift, either way, before a score falls.
    pub slack: Nanos,
    /// The shift of the job matters only modulo this.
    pub lock: Nanos,
    /// Whether to hold this job to its slots: with those of its coupled groups that are held, all together are predicted to be
    /// faster so.
    pub hold: bool,
    /// Predicted iteration times, when asked for. `contended` is as in [`MeanTimes`].
    pub times: Option<JobTimes>,
    /// Whether this job takes turns with others ([`crate::turns`]), where turns are the control; then `hold` is false.
    pub turns: bool,
    /// Predicted iteration when exactly the jobs with `hold` are held, or those with `turns` take turns, when asked for.
    pub interleaved: Option<Nanos>,
    /// Predicted iteration under each control, when asked for.
    pub compared: Option<ByControl<Nanos>>,
}

impl From<UnsolvedBecause> for SolverRefusal {
    fn from(because: UnsolvedBecause) -> Self {
        match because {
            UnsolvedBecause::Problem(e) => Self::Problem(e),
            UnsolvedBecause::Solve(e) => Self::Solve(e),
        }
    }
}

impl JobReport {
    /// The job's slot, for gates of that tolerance in thousandths of the period.
    #[must_use]
    pub fn slot(&self, tolerance_permille: u32) -> SlotTimes {
        SlotTimes::new(self.period, self.shift, self.slack, tolerance_permille)
    }
}

impl Part {
    pub(crate) fn links_of(&self, class: usize) -> &[LinkId] {
        // The first class begins at 0, and every other one where the class before ends.
        let from = class.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        &self.links[from..self.ends[class] as usize]
    }

    /// Links that two or more of the jobs can exceed together.
    pub(crate) fn shared_links(&self) -> usize {
        let shared = self.solved.content.links.iter().enumerate().filter(|(_, link)| link.weight > 0);
        shared.map(|(class, _)| self.links_of(class).len()).sum()
    }
}

impl Evaluation {
    /// The share of the time in use in which shared links are above capacity under the control, where it is known
    /// ([`ControlMean::overlap`]).
    #[must_use]
    pub fn overlap(&self) -> Option<f64> {
        self.compared.map(|compared| compared.of(self.control).overlap)
    }

    /// The links that can be over capacity, equal ones together, component by component. Empty unless solved.
    pub fn links(&self) -> impl Iterator<Item = LinkReport<'_>> {
        self.parts.iter().flat_map(|part| {
            let scores = part.solved.answer.iter().flat_map(|a| &a.scores);
            part.solved.content.links.iter().zip(&part.solved.demands).zip(scores).enumerate().map(|(i, ((link, demands), scores))| {
                LinkReport {
                    links: part.links_of(i),
                    capacity: Rate(link.capacity),
                    jobs: link.members.iter().map(|(j, _)| part.jobs[*j as usize]).collect(),
                    demands,
                    score: scores.score,
                    true_score: scores.true_score,
                    zero_shift_score: scores.zero_shift_score,
                    uncertainty: scores.uncertainty,
                }
            })
        })
    }

    /// Every job of the cluster, by id. `cluster` is the one that was evaluated.
    #[must_use]
    pub fn jobs(&self, cluster: &Cluster<'_>) -> Vec<JobReport> {
        let untouched = |(i, job): (usize, &job::Job)| {
            let (alone, period) = (job.period, slot::period(job.period, self.headroom_permille));
            // A job in no component meets no limit: it runs as alone, and a gate would hold it to its period.
            let times = self.times.map(|t| JobTimes {
                solo: alone,
                contended: alone,
                all_held: t.all_held.map(|_| HeldTime { time: period, slips: 0.0 }),
            });
            JobReport {
                job: JobId(i as u32),
                period,
                meets_others: false,
                shift: Nanos(0),
                slack: Nanos(period.0 / 2),
                lock: period,
                hold: false,
                turns: false,
                times,
                interleaved: times.map(|t| t.contended),
                compared: self.compared.map(|_| ByControl { free: alone, turns: alone, slots: alone }),
            }
        };
        let mut out: Vec<JobReport> = cluster.jobs.iter().enumerate().map(untouched).collect();
        for part in &self.parts {
            let Ok(answer) = &part.solved.answer else { continue };
            for (i, (job, shift)) in part.jobs.iter().zip(&answer.shifts).enumerate() {
                if let Some(report) = out.get_mut(job.index()) {
                    // A link of one job joins no jobs, so in a component with a shared link every job is on one.
                    report.meets_others = part.solved.content.links.iter().any(|l| l.weight > 0);
                    report.period = Nanos(part.solved.content.periods[i]);
                    report.shift = Nanos(shift.shift);
                    report.slack = Nanos(shift.slack);
                    report.lock = Nanos(shift.lock);
                    // Advice is empty unless predictions were asked for, and without a prediction no job is held.
                    report.hold = answer.advice.hold.get(i).copied().unwrap_or(false);
                    report.times = answer.times.get(i).copied();
                    report.turns = answer.advice.turns.opponents.get(i).is_some_and(|opponents| !opponents.is_empty());
                    report.interleaved = answer.advice.times.get(i).copied();
                    report.compared = answer.comparison.as_ref().and_then(|c| c.times(i, self.turns_objective));
                }
            }
        }
        out
    }
}
