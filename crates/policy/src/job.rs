//! Jobs, placements, candidates, and the cluster they are judged on.

use alloc::{string::String, sync::Arc, vec::Vec};

use circle::{Effort, Mode, PERIOD_TICKS_MAX, PHASES_PER_DEMAND_MAX};
use fabric::{
    Fabric,
    collective::{Collective, Endpoint},
    route::Router,
};
use units::{JobId, Nanos, Rate};

use crate::{
    PolicyError,
    fluid::{TOLERANCE_PERMILLE, jitter::JITTER_PERMILLE},
};

/// A training job as the network sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Unique name.
    pub name: String,
    /// GPUs it holds: its weight in [`Objective::Time`]. A job that declares none counts as one.
    pub gpus: u32,
    /// Scheduled length of one iteration.
    pub period: Nanos,
    /// When it sends during an iteration, in any order; phases may overlap and then add up.
    pub phases: Vec<TrafficPhase>,
}

/// A span of an iteration in which groups of ranks run a collective.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrafficPhase {
    /// First nanosecond, counted from the start of the iteration.
    pub start: Nanos,
    /// One past the last nanosecond; at most the period.
    pub end: Nanos,
    /// Rate of the busiest NIC during the phase.
    pub rate: Rate,
    /// What the groups run.
    pub collective: Collective,
    /// Groups of ranks, by index into [`Placement::ranks`]; each group runs its own collective.
    /// Phases that share the allocation share their routes.
    pub groups: Arc<[Vec<u32>]>,
}

/// Where the ranks of one job stand; empty = the job is not running.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Placement {
    /// One host and NIC per rank.
    pub ranks: Vec<Endpoint>,
}

/// One placement of the cluster under evaluation: what differs from the base placements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Candidate {
    /// Name for people.
    pub id: String,
    /// The jobs that stand elsewhere than in the base; each job at most once.
    pub placements: Vec<(JobId, Placement)>,
}

/// What candidates are judged on.
#[derive(Clone, Copy, Debug)]
pub struct Cluster<'a> {
    /// The fabric.
    pub fabric: &'a Fabric,
    /// Its routes.
    pub router: &'a Router<'a>,
    /// The jobs; a [`JobId`] indexes this slice.
    pub jobs: &'a [Job],
    /// The base placement of every job.
    pub placements: &'a [Placement],
}

/// What candidates are ranked by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Objective {
    /// Highest mean link score over the links with two or more jobs (CASSINI, Algorithm 2).
    #[default]
    Score,
    /// Lowest GPU-weighted iteration time: sum over jobs of `gpus * predicted / period`, divided by the sum of
    /// `gpus` ([`crate::MeanTimes::advised`]). `predicted` is the mean iteration of the [`crate::fluid`] model when jobs
    /// are held where that helps ([`crate::hold`]). The declared period is the yardstick, not the solo run in this placement, so that a placement which makes a
    /// job exceed a link on its own is not excused.
    Time,
}

/// How to evaluate and rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Rules of the solver.
    pub mode: Mode,
    /// Robust mode of the solver: allow for this much drift of any one job.
    pub robust: Option<Nanos>,
    /// How much work the solver may spend on each component. [`Effort::Fast`] by default: candidates are many.
    pub effort: Effort,
    /// What [`crate::rank`] sorts by.
    pub objective: Objective,
    /// Whether to predict iteration times even where the objective does not need them.
    pub predict: bool,
    /// How late a job may be and still start at once, in thousandths of its period.
    pub tolerance_permille: u32,
    /// How much Down phases vary where nobody holds the jobs, in thousandths: see [`crate::fluid::jitter`]. 0 takes jobs that
    /// repeat themselves to the nanosecond.
    pub jitter_permille: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            mode: Mode::Exact,
            robust: None,
            effort: Effort::Fast,
            objective: Objective::Score,
            predict: true,
            tolerance_permille: TOLERANCE_PERMILLE,
            jitter_permille: JITTER_PERMILLE,
        }
    }
}

impl Options {
    /// Whether the fluid model has to run.
    pub(crate) fn predicts(&self) -> bool {
        self.predict || self.objective == Objective::Time
    }
}

impl Job {
    /// Refuses what cannot be a periodic job.
    pub(crate) fn validate(&self) -> Result<(), PolicyError> {
        let refuse = |problem: &'static str, value: u64| Err(PolicyError::Job { job: self.name.clone(), problem, value });
        if self.period.0 == 0 || self.period.0 > PERIOD_TICKS_MAX {
            return refuse("its period is out of range (ns)", self.period.0);
        }
        if self.phases.len() > PHASES_PER_DEMAND_MAX {
            return refuse("it has too many phases", self.phases.len() as u64);
        }
        for (i, phase) in self.phases.iter().enumerate() {
            if phase.start >= phase.end || phase.end > self.period {
                return refuse("a phase does not satisfy start < end <= period; phase", i as u64);
            }
        }
        Ok(())
    }
}
