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
    /// Neighbouring stages exchange activations forwards and gradients backwards; consecutive
    /// ranks on one host are one stage. No traffic from the last stage to the first.
    Pipeline,
    /// Reduce-scatter inside each host, then one ring across the hosts per local rank: the k-th
    /// ranks of all hosts form the k-th ring.
    Hierarchical,
}

impl Collective {
    /// All of them, in the order in which help texts list them.
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
