//! Pairs of NICs that talk to each other, in whole units of traffic per pair of NICs.

use alloc::{collections::BTreeMap, vec::Vec};

use units::NodeId;

use super::{Collective, Endpoint};

/// Units of traffic from one NIC to another.
pub(super) type Pair = (Endpoint, Endpoint, u64);

/// The pairs of a collective, unsorted, possibly with repetitions.
pub(super) fn pairs(collective: Collective, ranks: &[Endpoint]) -> Vec<Pair> {
    match collective {
        Collective::Ring => rings(&hosts_once(ranks, true)),
        Collective::Hierarchical => rings(&hosts_once(ranks, false)),
        Collective::Tree => trees(&hosts_once(ranks, true)),
        Collective::AllToAll => all_to_all(ranks),
        Collective::PipelineForward => hops(ranks, |from, to| [(from, to, 1)]),
        Collective::PipelineBackward => hops(ranks, |from, to| [(to, from, 1)]),
        Collective::Pipeline => hops(ranks, |from, to| [(from, to, 1), (to, from, 1)]),
    }
}

/// Never less than the number of [`pairs`].
pub(super) fn pairs_bound(collective: Collective, ranks: &[Endpoint]) -> usize {
    // Each channel visits each stop once. A saturated product is above FLOWS_MAX, so overflow ends in a refusal.
    let channels = |stops: &[Stop], per_stop: usize| stops.len().saturating_mul(channel_count(stops)).saturating_mul(per_stop);
    match collective {
        Collective::Ring => channels(&hosts_once(ranks, true), 1),
        Collective::Hierarchical => channels(&hosts_once(ranks, false), 1),
        // Two trees, both directions.
        Collective::Tree => channels(&hosts_once(ranks, true), 4),
        Collective::PipelineForward | Collective::PipelineBackward => ranks.len(),
        Collective::Pipeline => ranks.len().saturating_mul(2),
        Collective::AllToAll => {
            // Ranks that share a NIC are merged, so the number of NICs is squared and not that of ranks.
            let nics = rank_counts(ranks).len();
            nics.saturating_mul(nics)
        }
    }
}

/// A host on the way of a ring or a tree, with the NIC of each of its channels.
struct Stop {
    host: NodeId,
    rails: Vec<u16>,
}

impl Stop {
    /// The NIC of channel `c`; a host with fewer NICs than others uses them again in turn.
    fn nic(&self, c: usize) -> Endpoint {
        Endpoint { host: self.host, rail: self.rails[c % self.rails.len()] }
    }
}

fn channel_count(stops: &[Stop]) -> usize {
    stops.iter().map(|s| s.rails.len()).max().unwrap_or(0)
}

/// Each host once, in order of its first rank. With `distinct` a NIC shared by several ranks
/// is one channel; otherwise each rank is one.
fn hosts_once(ranks: &[Endpoint], distinct: bool) -> Vec<Stop> {
    let mut stops: Vec<Stop> = Vec::new();
    let mut seen: BTreeMap<NodeId, usize> = BTreeMap::new();
    let mut seen_nics = BTreeMap::new();
    for &rank in ranks {
        // The first rank of a host fixes its place, so rings and trees follow the rank order.
        let at = *seen.entry(rank.host).or_insert_with(|| {
            stops.push(Stop { host: rank.host, rails: Vec::new() });
            stops.len() - 1
        });
        // A second rank on the same NIC opens no further channel: libraries run one channel per NIC.
        if !distinct || seen_nics.insert(rank, ()).is_none() {
            stops[at].rails.push(rank.rail);
        }
    }
    stops
}

fn rings(stops: &[Stop]) -> Vec<Pair> {
    let mut pairs = Vec::new();
    // A ring of one host would send to itself, and that touches no link.
    if stops.len() < 2 {
        return pairs;
    }
    for c in 0..channel_count(stops) {
        // The cycle closes the ring: the last stop sends to the first.
        let next = stops.iter().cycle().skip(1);
        pairs.extend(stops.iter().zip(next).map(|(a, b)| (a.nic(c), b.nic(c), 1)));
    }
    pairs
}

/// The pairs that `pairs_of` makes of each rank and the next one, where the two stand on different hosts.
fn hops<const N: usize>(ranks: &[Endpoint], pairs_of: impl Fn(Endpoint, Endpoint) -> [Pair; N]) -> Vec<Pair> {
    ranks.windows(2).filter(|two| two[0].host != two[1].host).flat_map(|two| pairs_of(two[0], two[1])).collect()
}

fn trees(stops: &[Stop]) -> Vec<Pair> {
    let n = stops.len();
    let mut pairs = Vec::new();
    for c in 0..channel_count(stops) {
        for i in 0..n {
            // An edge carries the reduction up and the broadcast down, so it makes a pair each way; a root has no parent.
            for parent in [tree_parent(i, n), second_tree_parent(i, n)].into_iter().flatten() {
                let (a, b) = (stops[i].nic(c), stops[parent].nic(c));
                pairs.extend([(a, b, 1), (b, a, 1)]);
            }
        }
    }
    pairs
}

/// Parent of node `i` in a binary tree over 0..n whose root is 0: the lowest set bit of `i`
/// moves up by one place, or is cleared where that leaves the range.
fn tree_parent(i: usize, n: usize) -> Option<usize> {
    if i == 0 {
        return None;
    }
    // The negative in two's complement isolates the lowest set bit, which exists because `i` is not 0.
    let low = i & i.wrapping_neg();
    let up = (i ^ low) | (low << 1);
    // The lowest set bit rises with every step, so each chain of parents ends at 0.
    Some(if up < n { up } else { i ^ low })
}

/// The second tree is the first one mirrored (n even) or shifted by one (n odd), so that a node
/// with children in one tree has none in the other.
fn second_tree_parent(i: usize, n: usize) -> Option<usize> {
    // Adding `n - 1` instead of subtracting 1 keeps the index of node 0 above zero.
    if n.is_multiple_of(2) { tree_parent(n - 1 - i, n).map(|p| n - 1 - p) } else { tree_parent((i + n - 1) % n, n).map(|p| (p + 1) % n) }
}

fn rank_counts(ranks: &[Endpoint]) -> BTreeMap<Endpoint, u64> {
    let mut counts = BTreeMap::new();
    for &rank in ranks {
        *counts.entry(rank).or_insert(0) += 1;
    }
    counts
}

fn all_to_all(ranks: &[Endpoint]) -> Vec<Pair> {
    let counts = rank_counts(ranks);
    let mut pairs = Vec::new();
    for (&a, &from) in &counts {
        // A pair of NICs carries one unit per pair of ranks behind it. Ranks of one host exchange without a link.
        pairs.extend(counts.iter().filter(|(b, _)| b.host != a.host).map(|(&b, &to)| (a, b, from.saturating_mul(to))));
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tree_spans_and_inner_nodes_of_one_are_leaves_of_the_other() {
        for n in 1..200 {
            let first: Vec<_> = (0..n).map(|i| tree_parent(i, n)).collect();
            let second: Vec<_> = (0..n).map(|i| second_tree_parent(i, n)).collect();
            for tree in [&first, &second] {
                assert_eq!(tree.iter().filter(|p| p.is_none()).count(), 1, "one root, n={n}");
                for start in 0..n {
                    // Reaches the root within n steps: no cycle.
                    let mut at = start;
                    let steps = core::iter::from_fn(|| tree[at].inspect(|&p| at = p)).take(n + 1).count();
                    assert!(steps < n, "cycle from {start}, n={n}");
                }
                for i in 0..n {
                    assert!(tree.iter().filter(|p| **p == Some(i)).count() <= 2, "binary, n={n}");
                }
            }
            // Both trees together send at most three units down from one node, so that no NIC
            // carries more than twice the data of the collective.
            for i in 0..n {
                let children = first.iter().chain(&second).filter(|p| **p == Some(i)).count();
                assert!(children <= 3, "node {i} of {n} has {children} children");
            }
        }
    }
}
