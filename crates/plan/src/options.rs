//! The cluster that candidates are judged on, and how they are judged.

use circle::{Effort, Mode};
use fabric::{Fabric, route::Router};
use fluid::{TOLERANCE_PERMILLE, jitter::JITTER_PERMILLE};
use job::{Job, Placement};
use units::Nanos;

use crate::{Control, Gates, turns};

/// What candidates are judged on.
#[derive(Clone, Copy, Debug)]
pub struct Cluster<'a> {
    /// The fabric.
    pub fabric: &'a Fabric,
    /// Its routes.
    pub router: &'a Router<'a>,
    /// The jobs; a [`units::JobId`] indexes this slice.
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
    /// `gpus` ([`crate::MeanTimes::interleaved`]). `predicted` is the mean iteration of the [`fluid`] model when jobs
    /// are held where that helps ([`crate::hold`]). The declared period is the yardstick, not the solo run in this placement, so
    /// that a placement which makes a job exceed a link on its own is not excused.
    Time,
    /// Links that are least above capacity: [`crate::ControlMean::overlap`] under the control, in steps of [`QUIET_STEP`], and among
    /// equals the lowest iteration time.
    Quiet,
}

/// Shares of the time above capacity that are closer than this are equal for a ranking: predictions of few runs are no better.
pub const QUIET_STEP: f64 = 0.01;

/// What to predict of iteration times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Predictions {
    /// What [`Options::objective`] needs.
    Needed,
    /// What the jobs take as they come, and under [`Options::control`].
    #[default]
    Control,
    /// The same, and what they take as they come, by turns and by slots in the same runs ([`crate::ByControl`]).
    Compared,
}

/// How to evaluate and rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Rules of the solver.
    pub mode: Mode,
    /// Robust mode of the solver: allow for this much drift of any one job.
    pub robust: Option<Nanos>,
    /// How much work the solver may spend on each component. The default is [`Effort::Fast`], because candidates are many.
    pub effort: Effort,
    /// Most work of the solver on one component, in units of about 10 ns, where that is less than the effort allows:
    /// [`circle::Options::work_max`].
    pub work_max: Option<u64>,
    /// What [`crate::rank`] sorts by.
    pub objective: Objective,
    /// What to predict of iteration times.
    pub predict: Predictions,
    /// What a scheduled period is longer than the iteration alone, in thousandths: [`crate::slot::periods`]. 0, the default, takes
    /// the periods as they are declared.
    pub headroom_permille: u32,
    /// How late a job may be and still start at once, in thousandths of its period.
    pub tolerance_permille: u32,
    /// How jobs are kept apart that gain by it.
    pub control: Control,
    /// What turns are chosen for.
    pub turns_objective: turns::Objective,
    /// How much Down phases vary where no gate holds the jobs, in thousandths: see [`fluid::jitter`]. 0 takes jobs that
    /// repeat themselves to the nanosecond.
    pub jitter_permille: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            mode: Mode::Exact,
            robust: None,
            effort: Effort::Fast,
            work_max: None,
            objective: Objective::Score,
            predict: Predictions::default(),
            headroom_permille: 0,
            tolerance_permille: TOLERANCE_PERMILLE,
            control: Control::default(),
            turns_objective: turns::Objective::default(),
            jitter_permille: JITTER_PERMILLE,
        }
    }
}

impl Options {
    /// How gates and jobs behave, for a prediction.
    pub(crate) fn gates(&self) -> Gates {
        let Self { tolerance_permille, jitter_permille, control, turns_objective: objective, .. } = *self;
        Gates { tolerance_permille, jitter_permille, control, limits: turns::Limits::RANKING, objective }
    }

    /// Whether the times with all jobs held to slots are predicted.
    pub(crate) fn predicts_all_held(&self) -> bool {
        self.control == Control::Slots || self.predictions() == Predictions::Compared
    }

    /// What the fluid model has to predict.
    pub(crate) fn predictions(&self) -> Predictions {
        match (self.predict, self.objective) {
            // The time above capacity is known of runs by which controls are compared.
            (_, Objective::Quiet) => Predictions::Compared,
            (Predictions::Needed, Objective::Time) => Predictions::Control,
            (predict, _) => predict,
        }
    }
}
