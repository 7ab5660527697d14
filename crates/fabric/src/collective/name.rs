//! The names of the collectives.

use alloc::string::String;
use core::{fmt, str::FromStr};

/// How the ranks of a job talk to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Collective {
    /// Ring all-reduce, all-gather or reduce-scatter: each host sends to the next one, hosts in
    /// order of their first rank, one ring per NIC.
    Ring,
    /// Double binary tree all-reduce (Sanders, Speck, Träff 2009; used by NCCL since 2.4): each
    /// host talks both ways with its parent and its children in both trees, one pair of trees
    /// per NIC.
    Tree,
    /// Every rank sends the same amount to every other rank (expert parallelism).
    AllToAll,
    /// Activations of a forward pass: each rank is a stage and sends to the next one, in rank order, from
    /// its own NIC to that of the next. The last sends nothing, and a hop inside a host touches no link.
    PipelineForward,
    /// Gradients of the activations in a backward pass: as [`Self::PipelineForward`], from each stage
    /// to the one before it.
    PipelineBackward,
    /// Both directions at once, equally: for a profile that knows what the NIC of a stage sends, and
    /// not to whom. A stage between two others sends half of it each way.
    Pipeline,
    /// Reduce-scatter inside each host, then one ring across the hosts per local rank: the k-th
    /// ranks of all hosts form the k-th ring.
    Hierarchical,
}

impl Collective {
    /// All of them, in the order in which help texts list them.
    pub const ALL: [Self; 7] =
        [Self::Ring, Self::Tree, Self::AllToAll, Self::PipelineForward, Self::PipelineBackward, Self::Pipeline, Self::Hierarchical];

    const fn name(self) -> &'static str {
        match self {
            Self::Ring => "ring",
            Self::Tree => "tree",
            Self::AllToAll => "all-to-all",
            Self::PipelineForward => "pipeline-forward",
            Self::PipelineBackward => "pipeline-backward",
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
#[error("unknown collective {0:?}: expected ring, tree, all-to-all, pipeline-forward, pipeline-backward, pipeline or hierarchical")]
pub struct UnknownCollective(pub String);

impl FromStr for Collective {
    type Err = UnknownCollective;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        // Names are read from the list that writes them, so the two cannot differ.
        Self::ALL.into_iter().find(|c| c.name() == s).ok_or_else(|| UnknownCollective(s.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_others_are_refused_with_the_value() {
        for c in Collective::ALL {
            assert_eq!(c.to_string().parse(), Ok(c));
        }
        assert!("AllToAll".parse::<Collective>().unwrap_err().to_string().contains("\"AllToAll\""));
    }
}
