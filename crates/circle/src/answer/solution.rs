//! What a solver is asked for and what it answers.

use alloc::vec::Vec;

use units::{JobId, LinkId, Ticks};

/// Which rules the solver follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Continuous time, merged links, loops solved jointly, optimum proven where small.
    #[default]
    Exact,
    /// The CASSINI paper's rules: 5-degree grid on the LCM circle, every link alone, loops refused.
    Cassini,
}

/// How much work a solver may spend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effort {
    /// Prove the optimum of a group where that takes one to two seconds, and of all groups where it takes about three:
    /// `antiphase solve`.
    #[default]
    Thorough,
    /// Prove the optimum where that takes up to about three minutes: `antiphase solve --prove`.
    Proof,
    /// Bound the work per set of links to about a millisecond: ranking many placements.
    Fast,
}

impl Effort {
    /// Most pieces on one reduced circle before weak couplings are dropped.
    pub(crate) const fn pieces_max(self) -> u64 {
        match self {
            Self::Thorough | Self::Proof => crate::CIRCLE_PIECES_MAX,
            Self::Fast => 4_096,
        }
    }

    /// Most work on all groups of one problem together, in units of about 10 ns: a document is answered in seconds, whatever is
    /// in it.
    pub(crate) const fn problem_work_max(self) -> u64 {
        match self {
            Self::Thorough | Self::Fast => 300_000_000,
            Self::Proof => 24_000_000_000,
        }
    }

    /// Most work in one search for proof, in units of about 10 ns.
    pub(crate) const fn work_max(self) -> u64 {
        match self {
            Self::Thorough => 150_000_000,
            Self::Proof => 24_000_000_000,
            Self::Fast => 50_000,
        }
    }

    /// Most lookups spent on the alignments of one pair of jobs. A lookup takes about 10 ns.
    pub(crate) const fn lookups_max(self) -> u64 {
        match self {
            Self::Thorough | Self::Proof => 1 << 19,
            Self::Fast => 1 << 14,
        }
    }
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
    /// That score can be at most this much better; 0 when proven.
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
    /// Its shift matters only modulo this: gcd of its period with those it meets. Small against
    /// its period means that the periods do not lock and no shift can help this job much.
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
    /// Exact score when nobody is shifted.
    pub zero_shift_score: f64,
    /// The scores may be off by this much either way, where so many periods entangle that weak couplings had to be averaged out
    /// (docs/model.md, section 2); 0 where they are exact.
    pub uncertainty: f64,
}

/// Shape of the affinity graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Affinity {
    /// Connected components that hold at least one shared link.
    pub components: usize,
    /// Independent loops (edges - vertices + components) over shared links, after merging in
    /// exact mode, unmerged in paper mode.
    pub loops: usize,
    /// Shared links that were folded into an equal one.
    pub merged_links: usize,
}

/// The answer to a [`crate::Problem`].
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    /// What came of it.
    pub outcome: Outcome,
    /// Mean of `score` over the links with two or more jobs; 1 when there is none.
    pub mean_score: f64,
    /// Mean exact score of the same links when nobody is shifted.
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
    /// It is the worst mean score. Otherwise there was too much to look at, and it is only never lower than `mean_score`.
    pub exact: bool,
    /// The mean score while nobody drifts can be at most this much better.
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
    /// [`crate::Cancel::cancel`] was called.
    #[error("cancelled")]
    Cancelled,
}
