//! One face for the two oracles: looked up where all shifts can be tried, folded where they cannot.

use super::{
    fast::Fast,
    folded::FoldedLinks,
    oracle::{Instance, Random},
};

/// A score and shifts that have it.
pub type Found = (f64, Vec<u64>);

/// What is true of an instance.
#[derive(Clone, Debug)]
pub enum Truth {
    /// All shifts can be tried.
    Small(Fast),
    /// Scores are exact, but the best of them is only estimated, from below.
    Long(FoldedLinks),
}

impl Truth {
    /// The truth, or nothing where neither oracle can tell it in good time.
    pub fn try_of(instance: &Instance) -> Option<Self> {
        Fast::try_new(instance).map(Self::Small).or_else(|| FoldedLinks::try_new(instance).map(Self::Long))
    }

    pub const fn is_exhaustive(&self) -> bool {
        matches!(self, Self::Small(_))
    }

    pub fn link_score(&self, link: usize, shifts: &[u64]) -> f64 {
        match self {
            Self::Small(fast) => fast.link_score(link, shifts),
            Self::Long(folded) => folded.link_score(link, shifts),
        }
    }

    pub fn mean(&self, shifts: &[u64]) -> f64 {
        match self {
            Self::Small(fast) => fast.mean_of(fast.cost(shifts)),
            Self::Long(folded) => folded.mean(shifts),
        }
    }

    /// The best mean score that is known; not below that of the given shifts.
    pub fn best(&self, shifts: &[u64], random: &mut Random) -> Found {
        match self {
            Self::Small(fast) => {
                let here = fast.cost(shifts);
                let (cost, best) = fast.best_below(here).unwrap_or_else(|| (here, shifts.to_vec()));
                (fast.mean_of(cost), best)
            }
            Self::Long(folded) => folded.good(shifts, random),
        }
    }

    /// The worst mean score while one job drifts, and whether it is known to be the worst.
    pub fn worst(&self, shifts: &[u64], drift: u64, random: &mut Random) -> (f64, bool) {
        match self {
            Self::Small(fast) => (fast.mean_of(fast.worst(shifts, drift, u64::MAX)), true),
            Self::Long(folded) => folded.worst(shifts, drift, random),
        }
    }

    /// The best worst case over all shifts, not below that of the given ones. `None`: there are too many shifts to try.
    pub fn best_worst(&self, shifts: &[u64], drift: u64) -> Option<Found> {
        let Self::Small(fast) = self else { return None };
        let here = fast.worst(shifts, drift, u64::MAX);
        let (cost, best) = fast.best_worst_below(here, drift).unwrap_or_else(|| (here, shifts.to_vec()));
        Some((fast.mean_of(cost), best))
    }
}
