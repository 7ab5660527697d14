//! How a job is split, in one word.

use alloc::string::String;
use core::{fmt, str::FromStr};

/// The main idea of how a job is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Strategy {
    /// Whole replicas.
    Data,
    /// ZeRO-3 or FSDP.
    Sharded,
    /// Pipeline stages.
    Pipeline,
    /// Tensor halves, quarters, ...
    Tensor,
    /// Experts on different ranks.
    Expert,
    /// Several of them.
    Hybrid,
}

impl Strategy {
    /// All of them, in the order in which help texts list them.
    pub const ALL: [Self; 6] = [Self::Data, Self::Sharded, Self::Pipeline, Self::Tensor, Self::Expert, Self::Hybrid];

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Data => "dp",
            Self::Sharded => "fsdp",
            Self::Pipeline => "pp",
            Self::Tensor => "tp",
            Self::Expert => "ep",
            Self::Hybrid => "hybrid",
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is no strategy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown strategy {0:?}: expected dp, fsdp, pp, tp, ep or hybrid")]
pub struct UnknownStrategy(pub String);

impl FromStr for Strategy {
    type Err = UnknownStrategy;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|x| x.name() == s).ok_or_else(|| UnknownStrategy(s.into()))
    }
}
