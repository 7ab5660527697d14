//! From units of traffic to shares of the busiest NIC.

use alloc::{collections::BTreeMap, vec::Vec};

use units::Share;

use super::{Endpoint, Flow, pattern::Pair};

/// Merges pairs of the same NICs and scales them so that the busiest NIC sends
/// [`Share::ONE`].
pub(super) fn normalise(mut pairs: Vec<Pair>) -> Vec<Flow> {
    // The order by sender and receiver serves the merge here, the chunks below and the promised order of the result.
    pairs.sort_unstable();
    pairs.dedup_by(|next, kept| {
        let same = (kept.0, kept.1) == (next.0, next.1);
        if same {
            kept.2 = kept.2.saturating_add(next.2);
        }
        same
    });
    // The profile's rate is that of the busiest NIC, so its units are the measure of all shares.
    let busiest = busiest_units(&pairs);
    let mut flows = Vec::with_capacity(pairs.len());
    for sender in pairs.chunk_by(|a, b| a.0 == b.0) {
        scale_sender(sender, busiest, &mut flows);
    }
    flows
}

/// Units of the NIC that sends most.
fn busiest_units(pairs: &[Pair]) -> u64 {
    let mut sums: BTreeMap<Endpoint, u64> = BTreeMap::new();
    for &(from, _, units) in pairs {
        let sum = sums.entry(from).or_insert(0);
        *sum = sum.saturating_add(units);
    }
    sums.into_values().max().unwrap_or(0)
}

/// Scales all pairs of one sender by running totals, so that nothing is lost to rounding. The
/// totals start at the first receiver after the sender itself: in an all-to-all the rounding
/// then falls on each receiver equally too.
fn scale_sender(sender: &[Pair], busiest: u64, flows: &mut Vec<Flow>) {
    // The product of two 64-bit numbers fits in 128 bits. Each pair has at least one unit, so the maximum only guards the division.
    let shares = |units: u64| u128::from(units) * u128::from(Share::ONE.0) / u128::from(busiest.max(1));
    // The pairs of one sender are sorted by receiver, so bisection finds the first receiver after the sender.
    let start = sender.partition_point(|p| p.1 <= p.0);
    let first = flows.len();
    flows.extend(sender.iter().map(|&(from, to, _)| Flow { from, to, share: Share(0) }));
    let mut total = 0_u64;
    for i in (start..sender.len()).chain(0..start) {
        // Differences of rounded totals add up to the rounded sum, so the busiest NIC sends exactly `Share::ONE`.
        let before = shares(total);
        total = total.saturating_add(sender[i].2);
        flows[first + i].share = Share(u64::try_from(shares(total) - before).unwrap_or(u64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use units::NodeId;

    use super::*;
    use crate::collective::{Collective, flows, try_flows};

    fn at(host: u32, rail: u16) -> Endpoint {
        Endpoint { host: NodeId(host), rail }
    }

    fn sums(flows: &[Flow]) -> (BTreeMap<Endpoint, u64>, BTreeMap<Endpoint, u64>) {
        let (mut out, mut into) = (BTreeMap::new(), BTreeMap::new());
        for f in flows {
            *out.entry(f.from).or_insert(0) += f.share.0;
            *into.entry(f.to).or_insert(0) += f.share.0;
        }
        (out, into)
    }

    #[test]
    fn a_ring_of_three_sends_all_to_the_next() {
        let ranks = [at(0, 0), at(1, 0), at(2, 0)];
        let expect = [(0, 1), (1, 2), (2, 0)].map(|(a, b)| Flow { from: at(a, 0), to: at(b, 0), share: Share::ONE });
        assert_eq!(flows(Collective::Ring, &ranks), expect);
    }

    #[test]
    fn ranks_inside_a_host_make_no_flow_and_each_nic_gets_its_own_ring() {
        assert_eq!(flows(Collective::Ring, &[at(0, 0), at(0, 1)]), []);
        let ranks = [at(0, 0), at(0, 1), at(1, 0), at(1, 1)];
        let got: Vec<_> = flows(Collective::Ring, &ranks).iter().map(|f| (f.from, f.to, f.share)).collect();
        let one = Share::ONE;
        assert_eq!(got, [(at(0, 0), at(1, 0), one), (at(0, 1), at(1, 1), one), (at(1, 0), at(0, 0), one), (at(1, 1), at(0, 1), one)]);
    }

    fn hops(collective: Collective, ranks: &[Endpoint]) -> Vec<(Endpoint, Endpoint, Share)> {
        flows(collective, ranks).iter().map(|f| (f.from, f.to, f.share)).collect()
    }

    #[test]
    fn activations_go_forward_and_gradients_back() {
        let (one, stages) = (Share::ONE, [at(0, 0), at(1, 0), at(2, 0)]);
        assert_eq!(hops(Collective::PipelineForward, &stages), [(stages[0], stages[1], one), (stages[1], stages[2], one)]);
        assert_eq!(hops(Collective::PipelineBackward, &stages), [(stages[1], stages[0], one), (stages[2], stages[1], one)]);
        // Both at once: the middle sends half each way, and the ends half of what it sends.
        let both = hops(Collective::Pipeline, &stages);
        assert!(both.len() == 4 && both.iter().all(|h| h.2 == Share(one.0 / 2)), "{both:?}");
    }

    #[test]
    fn stages_that_share_a_host_hop_once_from_the_nic_of_the_last_to_that_of_the_first() {
        // Four stages on two hosts of two NICs: only the hop from the second stage to the third leaves a host, on one NIC.
        let stages = [at(0, 0), at(0, 1), at(1, 0), at(1, 1)];
        assert_eq!(hops(Collective::PipelineForward, &stages), [(at(0, 1), at(1, 0), Share::ONE)]);
        assert_eq!(hops(Collective::PipelineBackward, &stages), [(at(1, 0), at(0, 1), Share::ONE)]);
        assert_eq!(hops(Collective::PipelineForward, &stages[..2]), []);
    }

    #[test]
    fn stages_that_come_back_to_a_host_send_twice_from_it() {
        // Hosts 0, 1, 0, 2: host 0 sends to 1 and to 2, so what it sends is two halves.
        let half = Share(Share::ONE.0 / 2);
        let got = hops(Collective::PipelineForward, &[at(0, 0), at(1, 0), at(0, 0), at(2, 0)]);
        assert_eq!(got, [(at(0, 0), at(1, 0), half), (at(0, 0), at(2, 0), half), (at(1, 0), at(0, 0), half)]);
    }

    #[test]
    fn all_to_all_counts_the_ranks_behind_each_nic() {
        // Hosts 0 (two ranks), 1 and 2 (one each). Host 0 sends 2 x (1 + 1) = 4 units, host 1
        // sends 2 to host 0 and 1 to host 2.
        let got = flows(Collective::AllToAll, &[at(0, 0), at(0, 0), at(1, 0), at(2, 0)]);
        let find = |a, b| got.iter().find(|f| f.from == at(a, 0) && f.to == at(b, 0)).unwrap().share.0 * 4 / Share::ONE.0;
        assert_eq!((find(0, 1), find(0, 2), find(1, 0), find(1, 2)), (2, 2, 2, 1));
    }

    #[test]
    fn a_tree_of_two_is_an_exchange_and_hierarchical_follows_local_ranks() {
        assert_eq!(flows(Collective::Tree, &[at(0, 0), at(1, 0)]).len(), 2);
        // Two ranks of host 0 share one NIC, host 1 has two: ring 0 uses rails 0-0, ring 1 uses 0-1.
        let got = flows(Collective::Hierarchical, &[at(0, 0), at(0, 0), at(1, 0), at(1, 1)]);
        assert_eq!(got.len(), 4);
        assert!(got.iter().all(|f| f.share.0 == Share::ONE.0 / 2));
    }

    #[test]
    fn too_many_flows_are_refused_before_they_exist() {
        let ranks: Vec<_> = (0..3000).map(|i| at(i, 0)).collect();
        assert!(try_flows(Collective::AllToAll, &ranks).is_err());
        assert_eq!(try_flows(Collective::Ring, &ranks).unwrap().len(), 3000);
    }

    proptest! {
        #[test]
        fn the_busiest_nic_sends_exactly_one_and_nobody_more(
            which in 0..Collective::ALL.len(), ranks in prop::collection::vec((0_u32..12, 0_u16..3), 0..40),
        ) {
            let ranks: Vec<_> = ranks.into_iter().map(|(h, r)| at(h, r)).collect();
            let flows = flows(Collective::ALL[which], &ranks);
            prop_assert!(flows.windows(2).all(|w| (w[0].from, w[0].to) < (w[1].from, w[1].to)));
            prop_assert!(flows.iter().all(|f| f.from.host != f.to.host && f.share.0 > 0));
            let (out, into) = sums(&flows);
            let hosts: alloc::collections::BTreeSet<_> = ranks.iter().map(|r| r.host).collect();
            prop_assert_eq!(out.values().max().copied().unwrap_or(0), if hosts.len() > 1 { Share::ONE.0 } else { 0 });
            let one_way = [Collective::PipelineForward, Collective::PipelineBackward].contains(&Collective::ALL[which]);
            prop_assert!(one_way || into.values().all(|&s| s <= Share::ONE.0 + flows.len() as u64));
        }

        /// Each direction of a pipeline is the other one turned round, and both together are what goes both ways.
        #[test]
        fn the_directions_of_a_pipeline_mirror_each_other(ranks in prop::collection::vec((0_u32..6, 0_u16..3), 0..20)) {
            let ranks: Vec<_> = ranks.into_iter().map(|(h, r)| at(h, r)).collect();
            let turned: Vec<_> = ranks.iter().rev().copied().collect();
            prop_assert_eq!(flows(Collective::PipelineForward, &ranks), flows(Collective::PipelineBackward, &turned));
            let links = |c| flows(c, &ranks).iter().map(|f| (f.from, f.to)).collect::<Vec<_>>();
            let mut both = [links(Collective::PipelineForward), links(Collective::PipelineBackward)].concat();
            both.sort_unstable();
            both.dedup();
            prop_assert_eq!(links(Collective::Pipeline), both);
        }

        #[test]
        fn an_even_all_to_all_is_exact_in_both_directions(hosts in 2_u32..60) {
            let ranks: Vec<_> = (0..hosts).map(|h| at(h, 0)).collect();
            let (out, into) = sums(&flows(Collective::AllToAll, &ranks));
            prop_assert!(out.values().chain(into.values()).all(|&s| s == Share::ONE.0));
        }
    }
}
