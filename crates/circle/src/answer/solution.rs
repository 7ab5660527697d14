//! What a solver is asked for and what it answers.

use alloc::vec::Vec;

use units::{JobId, LinkId, Ticks};

use crate::{budget::Effort, model::affinity::Affinity};

/// Which rules the solver follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Continuous time, merged links, loops solved jointly, optimum proven where small.
    #[default]
    Exact,
    /// The CASSINI paper's rules: 5-degree grid on the LCM circle, every link alone, loops refused.
    Cassini,
}

/// Options of [`crate::solve`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Which rules to follow.
    pub mode: Mode,
    /// Robust mode: maximise the worst score while any one job drifts by up to this much.
    pub robust: Option<Ticks>,
    /// How much work to spend.
    pub effort: Effort,
    /// Most work of the search on all groups of the problem together, in units of about 10 ns, where that is less than the effort allows.
    /// What is made before the search, the scores that are told, robust mode and [`crate::adjust`] have limits in proportion.
    pub work_max: Option<u64>,
}

impl Options {
    /// Most work on all groups of one problem together.
    pub(crate) fn problem_work(&self) -> u64 {
        self.effort.problem_work_max().min(self.work_max.unwrap_or(u64::MAX))
    }

    /// Work for each of so many parts that are all looked at once.
    pub(crate) fn work_each(&self, parts: usize) -> u64 {
        self.effort.work_max().min(self.problem_work() / parts.max(1) as u64)
    }
}

/// What came of it. A loop is a result, not an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Shifts were found (they may be all zero).
    Solved,
    /// Shifts were given and only evaluated.
    Evaluated,
    /// Paper mode only: the affinity graph has a loop, so CASSINI discards the placement.
    Loop,
}

/// How sure the answer is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Optimality {
    /// No assignment of shifts has a better mean score, or in robust mode a better worst one (to [`crate::PROOF_TOLERANCE`]).
    pub proven: bool,
    /// How much better that score can be at most; 0 when proven.
    pub bound_gap: f64,
}

/// One job's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobShift {
    /// The job.
    pub job: JobId,
    /// Delay of its iterations, below its period.
    pub shift: Ticks,
    /// How far it alone may drift, either way, before the mean score falls; at most half its period.
    pub slack: Ticks,
    /// The shift of the job matters only modulo its lock: the gcd of its period with the periods of those that it meets. A lock
    /// that is small against the period means that the periods do not lock and no shift can help this job much. Where links of hundreds of
    /// jobs lack couplings, it may be a multiple of that: the whole period.
    pub lock: Ticks,
}

impl LinkScore {
    /// Whether the scores are only known to [`Self::uncertainty`].
    #[must_use]
    pub fn is_approximate(&self) -> bool {
        self.uncertainty > 0.0
    }
}

/// One link's answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkScore {
    /// The link.
    pub link: LinkId,
    /// Score under the reported shifts by the rules of the mode: exact in continuous time, or,
    /// in paper mode, what the 5-degree grid reports.
    pub score: f64,
    /// Exact score under the reported shifts, whatever the mode.
    pub true_score: f64,
    /// Exact score when no job is shifted.
    pub zero_shift_score: f64,
    /// The scores may be off by this much either way, where so many periods entangle that weak couplings had to be averaged out
    /// (docs/model.md, section 2); 0 where they are exact.
    pub uncertainty: f64,
}

/// The answer to a [`crate::Problem`].
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    /// What came of it.
    pub outcome: Outcome,
    /// Mean of `score` over the links with two or more jobs; 1 when there is none.
    pub mean_score: f64,
    /// Mean exact score of the same links when no job is shifted.
    pub zero_shift_mean_score: f64,
    /// How sure the answer is.
    pub optimality: Optimality,
    /// Every link, by id.
    pub links: Vec<LinkScore>,
    /// Every job, by id; empty when the outcome is [`Outcome::Loop`].
    pub shifts: Vec<JobShift>,
    /// Shape of the affinity graph.
    pub affinity: Affinity,
    /// Robust mode only: the worst case, to which `optimality` refers then.
    pub robust: Option<Robust>,
}

/// What is left while any one job drifts by up to the asked amount and all others hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Robust {
    /// Worst mean score, or no more than it.
    pub mean_score: f64,
    /// `mean_score` is the worst mean score. Otherwise there was too much to look at, and the worst is only never lower.
    pub exact: bool,
    /// How much better the mean score can be at most while no job drifts.
    pub plain_gap: f64,
}

/// Why a problem could not be solved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SolveError {
    /// Paper mode: the LCM of the periods overflows.
    #[error("link {link}: the LCM of the periods overflows, so the paper's unified circle does not exist; use exact mode")]
    PerimeterOverflow {
        /// The link.
        link: LinkId,
    },
    /// Shifts were given for the wrong number of jobs.
    #[error("{given} shifts for {jobs} jobs")]
    ShiftCount {
        /// How many were given.
        given: usize,
        /// How many jobs there are.
        jobs: usize,
    },
    /// More phases than [`crate::PHASES_ON_LINKS_MAX`] on all links.
    #[error("{phases} phases on all links, of which equal ones count once; at most {}", crate::PHASES_ON_LINKS_MAX)]
    TooManyPhases {
        /// How many there are.
        phases: u64,
    },
    /// [`crate::Cancel::cancel`] was called.
    #[error("cancelled")]
    Cancelled,
}
