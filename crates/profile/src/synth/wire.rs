//! How the groups of a scope use the NICs of their hosts.

use alloc::collections::BTreeMap;

use crate::dims::{Dims, DimsError, Scope, groups};

/// The NICs under one group of ranks that spans hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wire {
    pub(super) scope: Scope,
    /// Ranks in the group.
    degree: u128,
    /// Ranks of the group on the host that has fewest of them.
    local: u128,
    /// NICs of a host that one group uses.
    channels: u128,
    /// Groups that use one NIC at the same time.
    pub(super) sharers: u64,
}

impl Wire {
    /// `None` when every group stays inside a host: then nothing touches the network.
    ///
    /// # Errors
    /// As [`groups`].
    pub(super) fn of(dims: &Dims, scope: Scope, nics_per_host: u32) -> Result<Option<Self>, DimsError> {
        let mut groups_on: BTreeMap<u32, u32> = BTreeMap::new();
        let (mut fewest, mut most) = (u32::MAX, 0);
        for group in groups(dims, scope)? {
            let host = |rank: &u32| rank / dims.gpus_per_host;
            let runs = || group.chunk_by(|a, b| host(a) == host(b));
            // Groups ascend and hosts are filled in rank order, so one run means one host.
            if runs().nth(1).is_none() {
                continue;
            }
            for run in runs() {
                let ranks = run.len() as u32;
                (fewest, most) = (fewest.min(ranks), most.max(ranks));
                // A run is never empty; the default only spares a panic.
                *groups_on.entry(run.first().map_or(0, host)).or_insert(0) += 1;
            }
        }
        let Some(&crowd) = groups_on.values().max() else { return Ok(None) };
        // The most crowded host decides: its groups use so many NICs each, divided over the NICs that it has.
        let sharers = (u64::from(crowd) * u64::from(most.min(nics_per_host))).div_ceil(nics_per_host.into());
        Ok(Some(Self {
            scope,
            degree: dims.degree(scope).into(),
            local: fewest.into(),
            channels: fewest.min(nics_per_host).max(1).into(),
            sharers: sharers.max(1),
        }))
    }

    /// As [`Self::of`], of the hops of a pipeline: each leaves by the NIC of its rank, and those that one NIC sends in
    /// one direction share it.
    ///
    /// # Errors
    /// As [`groups`].
    pub(super) fn of_hops(dims: &Dims, nics_per_host: u32) -> Result<Option<Self>, DimsError> {
        let mut hops: BTreeMap<(u32, u32, bool), u64> = BTreeMap::new();
        for group in groups(dims, Scope::Pipeline)? {
            let host = |rank: u32| rank / dims.gpus_per_host;
            // Where a host has fewer NICs than ranks, neighbouring ranks share one.
            let nic = |rank: u32| {
                let nic = u64::from(rank % dims.gpus_per_host) * u64::from(nics_per_host) / u64::from(dims.gpus_per_host);
                nic as u32
            };
            for two in group.windows(2).filter(|two| host(two[0]) != host(two[1])) {
                for (from, forward) in [(two[0], true), (two[1], false)] {
                    *hops.entry((host(from), nic(from), forward)).or_insert(0) += 1;
                }
            }
        }
        let sharers = hops.into_values().max();
        Ok(sharers.map(|sharers| Self { scope: Scope::Pipeline, degree: dims.pp.into(), local: 1, channels: 1, sharers }))
    }

    /// Bits per NIC of a ring all-gather, or reduce-scatter, of `bits` over the group.
    pub(super) const fn gather(&self, bits: u128) -> u128 {
        // A ring sends (N - 1) / N of the data past each rank (docs/profiles.md), divided over its channels.
        (bits * (self.degree - 1)).div_ceil(self.degree * self.channels)
    }

    /// Bits per NIC of a ring all-reduce of `bits`: a reduce-scatter and an all-gather.
    pub(super) const fn all_reduce(&self, bits: u128) -> u128 {
        self.gather(2 * bits)
    }

    /// Bits per NIC when every rank spreads `bits` evenly over the group, itself included: only
    /// the part for ranks on other hosts leaves.
    pub(super) const fn all_to_all(&self, bits: u128) -> u128 {
        // Each local rank sends to the ranks of the group that stand on other hosts.
        (bits * self.local * (self.degree - self.local)).div_ceil(self.degree * self.channels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(dims: Dims, scope: Scope, nics: u32) -> Option<Wire> {
        Wire::of(&dims, scope, nics).unwrap()
    }

    #[test]
    fn one_gpu_per_host_sends_the_textbook_volume() {
        // 2 (N-1)/N S: N = 4, S = 8 gives 12. All-to-all keeps a quarter: 6.
        let w = wire(Dims { dp: 4, ..Dims::default() }, Scope::Data, 1).unwrap();
        assert_eq!((w.all_reduce(8), w.gather(8), w.all_to_all(8), w.sharers), (12, 6, 6, 1));
    }

    #[test]
    fn groups_inside_a_host_send_nothing() {
        assert_eq!(wire(Dims { tp: 8, dp: 4, gpus_per_host: 8, ..Dims::default() }, Scope::Tensor, 8), None);
        assert_eq!(wire(Dims { dp: 1, ..Dims::default() }, Scope::Data, 1), None);
    }

    #[test]
    fn a_group_with_many_ranks_on_a_host_spreads_over_its_nics() {
        // 16 ranks on 2 hosts of 8: one ring per NIC, each an eighth of 2 x 15/16 S.
        let dims = Dims { dp: 16, gpus_per_host: 8, ..Dims::default() };
        let w = wire(dims, Scope::Data, 8).unwrap();
        assert_eq!((w.all_reduce(128), w.sharers), (30, 1));
        // Half of every rank's traffic stays: 8 ranks x 128 x 8/16 over 8 NICs.
        assert_eq!(w.all_to_all(128), 64);
        assert_eq!(wire(dims, Scope::Data, 1).unwrap().all_reduce(128), 240);
    }

    #[test]
    fn groups_that_share_a_nic_are_counted() {
        // 8 tensor ranks per host, so 8 data groups of one rank each on every host.
        let dims = Dims { tp: 8, dp: 2, gpus_per_host: 8, ..Dims::default() };
        assert_eq!(wire(dims, Scope::Data, 8).unwrap().sharers, 1);
        assert_eq!(wire(dims, Scope::Data, 4).unwrap().sharers, 2);
    }

    #[test]
    fn hops_leave_by_the_nic_of_their_rank() {
        let sharers = |dims, nics| Wire::of_hops(&dims, nics).unwrap().map(|w| w.sharers);
        // One stage per host.
        assert_eq!(sharers(Dims { pp: 4, ..Dims::default() }, 1), Some(1));
        // Two stages per host of two NICs: one hop leaves it forward, one backward, each by its own NIC.
        let two = Dims { pp: 4, gpus_per_host: 2, ..Dims::default() };
        assert_eq!((sharers(two, 2), sharers(two, 1)), (Some(1), Some(1)));
        // Eight tensor halves per host and stage: eight hops, on eight NICs, or four on each of two.
        let wide = Dims { tp: 8, pp: 2, gpus_per_host: 8, ..Dims::default() };
        assert_eq!((sharers(wide, 8), sharers(wide, 2)), (Some(1), Some(4)));
        // Two replicas of four stages on two hosts of four: ranks 2 and 3 send forward, 4 and 5 back, all four NICs of a host in
        // use by one each; of two NICs the second carries both.
        let both = Dims { dp: 2, pp: 4, gpus_per_host: 4, ..Dims::default() };
        assert_eq!((sharers(both, 4), sharers(both, 2)), (Some(1), Some(2)));
        // All stages on one host.
        assert_eq!(sharers(Dims { pp: 4, gpus_per_host: 4, ..Dims::default() }, 4), None);
    }
}
