//! TEMPORARY: the names of the collectives, until the fabric branch brings the real module.

use alloc::string::String;
use core::{fmt, str::FromStr};

/// How the ranks of a job talk to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Collective {
    /// Ring all-reduce, all-gather or reduce-scatter.
    Ring,
    /// Double binary tree all-reduce.
    Tree,
    /// Every rank sends to every other rank.
    AllToAll,
    /// Neighbouring stages exchange activations and gradients.
    Pipeline,
    /// Reduce-scatter inside each host, then rings across the hosts.
    Hierarchical,
}

impl Collective {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Ring, Self::Tree, Self::AllToAll, Self::Pipeline, Self::Hierarchical];

    const fn name(self) -> &'static str {
        match self {
            Self::Ring => "ring",
            Self::Tree => "tree",
            Self::AllToAll => "all-to-all",
            Self::Pipeline => "pipeline",
            Self::Hierarchical => "hierarchical",
        }
    }
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is no collective.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown collective {0:?}: expected ring, tree, all-to-all, pipeline or hierarchical")]
pub struct UnknownCollective(pub String);

impl FromStr for Collective {
    type Err = UnknownCollective;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|c| c.name() == s).ok_or_else(|| UnknownCollective(s.into()))
    }
}
