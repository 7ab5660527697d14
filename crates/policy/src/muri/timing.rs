//! How long an iteration of a group takes, and how well it uses the resources.

use super::{
    Stages, artifact,
    order::{GROUP_MAX, Interleaving, Order},
    paper,
};

/// How groups are timed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Timing {
    /// Equations 2 to 4 as printed. Load counts as CPU and storage as nothing, because the published profiles do not split them.
    #[default]
    Paper,
    /// The authors' simulator (Rivendile/Muri, commit 4e69a78): a recurrence in which the loads of neighbours may overlap, and a
    /// measured cost of sharing.
    Artifact,
}

impl Timing {
    /// Tries all orders of up to [`GROUP_MAX`] members, further ones being left out; of equally good orders the first.
    #[must_use]
    pub fn interleave(self, members: &[Stages], order: Order) -> Interleaving {
        let members = &members[..members.len().min(GROUP_MAX)];
        match self {
            Self::Paper => paper::interleave(members, order),
            Self::Artifact => artifact::interleave(members, order),
        }
    }

    /// One iteration of a job that runs alone, given what its profile says.
    #[must_use]
    pub fn alone_s(self, profile_s: f64) -> f64 {
        match self {
            Self::Paper => profile_s,
            Self::Artifact => profile_s * artifact::ALONE,
        }
    }

    /// What sharing multiplies the iteration of `members` jobs by.
    #[must_use]
    pub fn sharing(self, members: usize) -> f64 {
        match (self, members) {
            (Self::Paper, _) | (_, 0 | 1) => 1.0,
            (Self::Artifact, 2) => artifact::SHARING[0],
            (Self::Artifact, 3) => artifact::SHARING[1],
            (Self::Artifact, _) => artifact::SHARING[2],
        }
    }
}

/// The efficiency gamma of a group whose iteration takes `iteration_s`: the mean share of the time in which a resource is used
/// (equation 4), with four resources.
#[must_use]
pub fn efficiency(members: &[Stages], iteration_s: f64) -> f64 {
    members.iter().map(Stages::sum).sum::<f64>() / (iteration_s * GROUP_MAX as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_iteration_in_which_each_resource_is_always_used_has_efficiency_one() {
        // Three stages of 1 s each in three jobs use three of the four resources all the time.
        let job = Stages { load_s: 1.0, gpu_s: 1.0, net_s: 1.0 };
        assert!((efficiency(&[job; 3], 3.0) - 0.75).abs() < 1e-12);
    }
}
