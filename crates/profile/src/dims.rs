//! The parallel dimensions of a job and the groups of ranks that they form.
//!
//! Ranks are numbered in Megatron-LM's default order (`--use-tp-pp-dp-mapping` off): tensor
//! fastest, then context, then data, pipeline slowest; expert parallelism splits the data
//! dimension, expert index fastest:
//!
//! `rank = t + TP * (c + CP * (d + DP * p))` with `d = e + EP * x`.
//!
//! Hosts are filled in rank order: rank r runs on host r / gpus_per_host.

use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Serialize};

/// Most ranks of one job: ten times the largest training run known, and 4 MiB of group lists.
pub const RANKS_MAX: u32 = 1 << 20;
/// Most GPUs of one host: an NVL576 rack counted as one host is the largest on sale.
pub const GPUS_PER_HOST_MAX: u32 = 1_024;

/// Which groups of ranks run a collective: one group per value of the other dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// Replicas of the same piece of the model: gradients, or shards of them.
    Data,
    /// Stages of one replica, in stage order.
    Pipeline,
    /// Ranks that split the tensors of one layer.
    Tensor,
    /// Ranks that hold different experts.
    Expert,
    /// Ranks that split one sequence.
    Context,
    /// All ranks of the job as one group.
    All,
}

impl Scope {
    /// All scopes, in the order in which help texts list them.
    pub const ALL: [Self; 6] = [Self::Data, Self::Pipeline, Self::Tensor, Self::Expert, Self::Context, Self::All];
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Data => "data",
            Self::Pipeline => "pipeline",
            Self::Tensor => "tensor",
            Self::Expert => "expert",
            Self::Context => "context",
            Self::All => "all",
        })
    }
}

/// Degrees of parallelism. A plain record: whoever uses it calls [`Dims::check`] first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dims {
    /// Tensor parallel degree.
    #[serde(default = "one")]
    pub tp: u32,
    /// Context parallel degree.
    #[serde(default = "one")]
    pub cp: u32,
    /// Pipeline stages.
    #[serde(default = "one")]
    pub pp: u32,
    /// Data parallel degree.
    #[serde(default = "one")]
    pub dp: u32,
    /// Expert parallel degree; divides `dp`.
    #[serde(default = "one")]
    pub ep: u32,
    /// Ranks on each host; the last host may have fewer.
    #[serde(default = "one")]
    pub gpus_per_host: u32,
}

const fn one() -> u32 {
    1
}

impl Default for Dims {
    fn default() -> Self {
        Self { tp: 1, cp: 1, pp: 1, dp: 1, ep: 1, gpus_per_host: 1 }
    }
}

/// Why dimensions were refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DimsError {
    /// A degree outside its range.
    #[error("{name}: {value}; must be 1 to {limit}")]
    Degree {
        /// Which one: `tp`, `cp`, `pp`, `dp`, `ep` or `gpus_per_host`.
        name: &'static str,
        /// The value given.
        value: u32,
        /// Largest allowed value.
        limit: u32,
    },
    /// The product of the degrees is too large.
    #[error("tp x cp x pp x dp: {ranks} ranks; the limit is {RANKS_MAX}")]
    TooManyRanks {
        /// The product.
        ranks: u128,
    },
    /// The experts do not divide the replicas evenly.
    #[error("ep: {ep}; must divide dp ({dp})")]
    ExpertSplit {
        /// Expert parallel degree.
        ep: u32,
        /// Data parallel degree.
        dp: u32,
    },
}

impl Dims {
    /// Number of ranks of valid dimensions; saturates on others.
    #[must_use]
    pub const fn ranks(&self) -> u32 {
        self.tp.saturating_mul(self.cp).saturating_mul(self.pp).saturating_mul(self.dp)
    }

    /// Refuses degrees of zero, more than [`RANKS_MAX`] ranks, and an `ep` that does not divide `dp`.
    ///
    /// # Errors
    /// [`DimsError`].
    pub fn check(&self) -> Result<(), DimsError> {
        let degrees = [("tp", self.tp), ("cp", self.cp), ("pp", self.pp), ("dp", self.dp), ("ep", self.ep)];
        for (name, value) in degrees {
            if value == 0 || value > RANKS_MAX {
                return Err(DimsError::Degree { name, value, limit: RANKS_MAX });
            }
        }
        if self.gpus_per_host == 0 || self.gpus_per_host > GPUS_PER_HOST_MAX {
            return Err(DimsError::Degree { name: "gpus_per_host", value: self.gpus_per_host, limit: GPUS_PER_HOST_MAX });
        }
        // Each degree is at most 2^20 by now, so the product fits in 128 bits.
        let ranks = [self.tp, self.cp, self.pp, self.dp].into_iter().map(u128::from).product();
        if ranks > u128::from(RANKS_MAX) {
            return Err(DimsError::TooManyRanks { ranks });
        }
        if !self.dp.is_multiple_of(self.ep) {
            return Err(DimsError::ExpertSplit { ep: self.ep, dp: self.dp });
        }
        Ok(())
    }

    /// Ranks in one group of `scope`.
    #[must_use]
    pub const fn degree(&self, scope: Scope) -> u32 {
        match scope {
            Scope::Tensor => self.tp,
            Scope::Context => self.cp,
            Scope::Expert => self.ep,
            Scope::Data => self.dp,
            Scope::Pipeline => self.pp,
            Scope::All => self.ranks(),
        }
    }

    /// Hosts under the first group of `scope`.
    pub(crate) const fn hosts_of_group(&self, scope: Scope) -> u32 {
        // Neighbours that are further apart than a host is wide stand on different hosts.
        let (degree, stride) = (self.degree(scope), self.stride(scope));
        // The first group begins at rank 0, so its last rank stands on host (degree - 1) x stride / gpus_per_host.
        if stride >= self.gpus_per_host { degree } else { degree.saturating_sub(1).saturating_mul(stride) / self.gpus_per_host + 1 }
    }

    /// Distance between two neighbouring ranks of a group of `scope`.
    const fn stride(&self, scope: Scope) -> u32 {
        // Tensor is fastest and pipeline slowest (module text), so a stride is the product of the faster degrees.
        match scope {
            Scope::Tensor | Scope::All => 1,
            Scope::Context => self.tp,
            // Expert ranks are neighbours in the data dimension, so the two have one stride.
            Scope::Expert | Scope::Data => self.tp.saturating_mul(self.cp),
            Scope::Pipeline => self.tp.saturating_mul(self.cp).saturating_mul(self.dp),
        }
    }
}

/// The groups of ranks that run a collective of `scope`: disjoint, together all ranks, each in
/// ascending order (for a pipeline that is stage order), by ascending first rank.
///
/// ```
/// use antiphase_profile::{Dims, Scope, groups};
/// let dims = Dims { tp: 2, dp: 2, pp: 2, ..Dims::default() };
/// assert_eq!(groups(&dims, Scope::Data)?, [[0, 2], [1, 3], [4, 6], [5, 7]]);
/// # Ok::<(), antiphase_profile::DimsError>(())
/// ```
///
/// # Errors
/// [`DimsError`], as [`Dims::check`].
pub fn groups(dims: &Dims, scope: Scope) -> Result<Vec<Vec<u32>>, DimsError> {
    dims.check()?;
    let (degree, stride, ranks) = (dims.degree(scope), dims.stride(scope), dims.ranks());
    // A rank leads its group if its index in the dimension of the scope is 0; each group has one such rank.
    let leads = (0..ranks).filter(|rank| (rank / stride).is_multiple_of(degree));
    Ok(leads.map(|lead| (0..degree).map(|i| lead + i * stride).collect()).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn groups_follow_the_megatron_order() {
        // 16 ranks: tp 2, dp 4, pp 2; the worked example of Megatron-LM's parallel_state.py has
        // the same sizes with pp and dp exchanged (its older tp-pp-dp order), so this is by hand.
        let d = Dims { tp: 2, dp: 4, pp: 2, ep: 2, gpus_per_host: 8, ..Dims::default() };
        assert_eq!(groups(&d, Scope::Tensor).unwrap()[..2], [[0, 1], [2, 3]]);
        assert_eq!(groups(&d, Scope::Data).unwrap(), [[0, 2, 4, 6], [1, 3, 5, 7], [8, 10, 12, 14], [9, 11, 13, 15]]);
        assert_eq!(groups(&d, Scope::Pipeline).unwrap()[..3], [[0, 8], [1, 9], [2, 10]]);
        // Experts are neighbours within the data dimension.
        assert_eq!(groups(&d, Scope::Expert).unwrap()[..4], [[0, 2], [1, 3], [4, 6], [5, 7]]);
        assert_eq!(groups(&d, Scope::All).unwrap(), [(0..16).collect::<Vec<_>>()]);
    }

    #[test]
    fn context_lies_between_tensor_and_data() {
        let d = Dims { tp: 2, cp: 2, dp: 2, ..Dims::default() };
        assert_eq!(groups(&d, Scope::Context).unwrap(), [[0, 2], [1, 3], [4, 6], [5, 7]]);
        assert_eq!(groups(&d, Scope::Data).unwrap(), [[0, 4], [1, 5], [2, 6], [3, 7]]);
    }

    #[test]
    fn hosts_of_a_group_are_those_of_its_ranks() {
        for (tp, pp, gpus_per_host) in (1..5).flat_map(|t| (1..6).flat_map(move |p| (1..9).map(move |g| (t, p, g)))) {
            let d = Dims { tp, pp, gpus_per_host, ..Dims::default() };
            let mut hosts: Vec<u32> = groups(&d, Scope::Pipeline).unwrap()[0].iter().map(|r| r / gpus_per_host).collect();
            hosts.dedup();
            assert_eq!(d.hosts_of_group(Scope::Pipeline) as usize, hosts.len(), "{d:?}");
        }
    }

    #[test]
    fn hostile_degrees_are_refused_with_the_value() {
        let check = |d: Dims| d.check().unwrap_err().to_string();
        assert_eq!(check(Dims { tp: 0, ..Dims::default() }), "tp: 0; must be 1 to 1048576");
        assert_eq!(
            check(Dims { tp: 1 << 20, dp: 1 << 20, ..Dims::default() }),
            "tp x cp x pp x dp: 1099511627776 ranks; the limit is 1048576"
        );
        assert_eq!(check(Dims { dp: 4, ep: 3, ..Dims::default() }), "ep: 3; must divide dp (4)");
        assert_eq!(check(Dims { gpus_per_host: 2000, ..Dims::default() }), "gpus_per_host: 2000; must be 1 to 1024");
    }

    proptest! {
        #[test]
        fn groups_partition_the_ranks(tp in 1u32..4, cp in 1u32..3, pp in 1u32..4, ep in 1u32..4, x in 1u32..4) {
            let d = Dims { tp, cp, pp, dp: ep * x, ep, gpus_per_host: 8 };
            for scope in Scope::ALL {
                let groups = groups(&d, scope).unwrap();
                prop_assert!(groups.iter().all(|g| g.len() == d.degree(scope) as usize && g.is_sorted()));
                let mut all: Vec<u32> = groups.concat();
                all.sort_unstable();
                prop_assert_eq!(all, (0..d.ranks()).collect::<Vec<_>>());
            }
        }
    }
}
