//! What an iteration of a job asks of each resource.

/// Longest iteration or stage, in seconds: an hour, far above any that was measured, so that sums of them stay exact enough to compare.
const SECONDS_MAX: f64 = 3_600.0;

/// The stages of one iteration of a job that runs alone, in seconds.
///
/// Floats, because the efficiencies made of them are scores, and because the figures of the authors' simulator are floats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stages {
    /// Reading and preparing data, on storage and CPU; what was published does not split the two.
    pub load_s: f64,
    /// Computing.
    pub gpu_s: f64,
    /// Communicating.
    pub net_s: f64,
}

impl Stages {
    /// All stages one after the other.
    #[must_use]
    pub fn sum(&self) -> f64 {
        // From the left, as the authors' simulator adds: another order gives other last bits, and ties fall otherwise.
        self.load_s + self.gpu_s + self.net_s
    }
}

/// A job as Muri sees it: its iteration alone, its stages, and what a restart costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Profile {
    /// One iteration of the job alone. Less than the sum of the stages where they overlap within the job.
    pub iteration_s: f64,
    /// Its stages.
    pub stages: Stages,
    /// From the decision to run until the first iteration begins.
    pub restart_s: f64,
}

/// Why measured times are not a profile.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StagesError {
    /// A time that is negative, too long or not a number.
    #[error("{what} of {seconds} s; must be from 0 to {SECONDS_MAX} s")]
    Time {
        /// Which time.
        what: &'static str,
        /// The value given.
        seconds: f64,
    },
    /// An iteration that takes no time.
    #[error("an iteration of 0 s")]
    NoIteration,
    /// No stage takes time.
    #[error("no stage takes time")]
    NoStages,
}

impl Profile {
    /// Checks measured times.
    ///
    /// # Errors
    /// [`StagesError`].
    pub fn try_new(iteration_s: f64, stages: Stages, restart_s: f64) -> Result<Self, StagesError> {
        let times =
            [("iteration", iteration_s), ("load", stages.load_s), ("gpu", stages.gpu_s), ("net", stages.net_s), ("restart", restart_s)];
        for (what, seconds) in times {
            // The range also refuses what is not a number.
            if !(0.0..=SECONDS_MAX).contains(&seconds) {
                return Err(StagesError::Time { what, seconds });
            }
        }
        if iteration_s == 0.0 {
            return Err(StagesError::NoIteration);
        }
        if stages.sum() == 0.0 {
            return Err(StagesError::NoStages);
        }
        Ok(Self { iteration_s, stages, restart_s })
    }
}
