//! What trains both models, in Harmony's order: a log of what was seen, the model of speeds, imitation of a rule, and an actor with its critic
//! against the model of speeds; then, with the truth, refitting.

mod course;
mod imitate;
mod improve;
mod log;
mod speeds;

pub(crate) use imitate::{Lesson, imitate};
pub(crate) use improve::Actor;

pub use course::{Course, Judged, Setup, train};
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

/// How far a stage is, and what is known of it then.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Which stage.
    pub stage: Stage,
    /// Steps done: mixes that were played, steps of learning, or rounds of tries.
    pub done: usize,
    /// All steps.
    pub of: usize,
    /// The loss of the step, or the mean of the round: of the model of speeds the square of how far it is off, of imitation the cross entropy, of
    /// the critic the square of how far it is off, in standard deviations of what choices bring.
    pub loss: Option<f64>,
    /// The reward of the round's tries: the mean over tries and jobs, later being worth less.
    pub reward: Option<f64>,
    /// The policy's mean completion time over that of the greedy rule, where it was judged.
    pub over_greedy: Option<f64>,
}

impl Progress {
    /// Nothing is known but how far it is.
    pub(crate) fn new(stage: Stage, done: usize, of: usize) -> Self {
        Self { stage, done, of, loss: None, reward: None, over_greedy: None }
    }
}
