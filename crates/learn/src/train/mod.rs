//! What trains both models, in Harmony's order: a log of what was seen, the model of speeds, imitation of a rule, and an actor with its critic
//! against the model of speeds; then, with the truth, refitting.

mod course;
mod imitate;
mod improve;
mod log;
mod speeds;

pub use course::{Course, Judged, Setup, judge, train};
pub use log::Log;
pub use speeds::{fit, off};

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Mixes are played, and speeds seen.
    Log,
    /// The model of speeds learns from the log.
    Speeds,
    /// The policy learns to do what a rule does.
    Imitate,
    /// The policy tries, and learns from what comes of it.
    Improve,
    /// Both go on with what is seen while the policy places.
    Refit,
}

impl Stage {
    /// In a word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Speeds => "speeds",
            Self::Imitate => "imitate",
            Self::Improve => "improve",
            Self::Refit => "refit",
        }
    }
}

/// How far a stage is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Which stage.
    pub stage: Stage,
    /// Steps done, and of how many.
    pub done: usize,
    /// All steps.
    pub of: usize,
    /// The mean loss of the last steps, or the mean completion time over that of the greedy rule.
    pub value: f64,
}
