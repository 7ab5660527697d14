//! How long an iteration of a group takes, and how well it uses the resources.

use super::{Stages, artifact, paper};

/// Most jobs in a group: one for each of storage, CPU, GPU and network.
pub const GROUP_MAX: usize = 4;

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

/// Which of the orders of the members counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The order with the shortest iteration.
    #[default]
    Best,
    /// The one with the longest: what a scheduler loses that does not choose.
    Worst,
}

/// A group in an order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interleaving {
    /// One iteration of every member, without the cost of sharing, in seconds.
    pub period_s: f64,
    /// The member in each slot, by its place in the list that was given.
    pub slots: [Option<u8>; GROUP_MAX],
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

/// The orders of `n` members, n at most [`GROUP_MAX`], in lexicographic order.
pub(super) fn orders(n: usize) -> impl Iterator<Item = [usize; GROUP_MAX]> {
    // There are at most 4^4 words, so going through all of them costs less than keeping state.
    let words = GROUP_MAX.pow(n as u32);
    (0..words).filter_map(move |word| {
        let mut order = [0; GROUP_MAX];
        let (mut rest, mut seen) = (word, 0_u32);
        for at in (0..n).rev() {
            let member = rest % GROUP_MAX;
            rest /= GROUP_MAX;
            if member >= n || seen & (1 << member) != 0 {
                return None;
            }
            seen |= 1 << member;
            order[at] = member;
        }
        Some(order)
    })
}

/// Keeps the better of what was found: strictly better only, so the first of equals stays.
pub(super) fn keep(found: &mut Option<Interleaving>, next: Interleaving, order: Order) {
    let better = found.is_none_or(|held| match order {
        Order::Best => next.period_s < held.period_s,
        Order::Worst => next.period_s > held.period_s,
    });
    if better {
        *found = Some(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_all_permutations_in_lexicographic_order() {
        let three: Vec<[usize; 3]> = orders(3).map(|o| [o[0], o[1], o[2]]).collect();
        assert_eq!(three, [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]]);
        assert_eq!(orders(4).count(), 24);
        assert_eq!(orders(0).count(), 1);
    }

    #[test]
    fn an_iteration_in_which_each_resource_is_always_used_has_efficiency_one() {
        // Three stages of 1 s each in three jobs use three of the four resources all the time.
        let job = Stages { load_s: 1.0, gpu_s: 1.0, net_s: 1.0 };
        assert!((efficiency(&[job; 3], 3.0) - 0.75).abs() < 1e-12);
    }
}
