//! Tiers of switches: as declared, or by distance from the hosts where nobody declared them.

use alloc::{collections::VecDeque, vec, vec::Vec};

use units::NodeId;

use crate::{Fabric, NodeKind};

/// Tier of each node, indexed by node id: 0 for hosts, otherwise the declared tier, and for
/// switches of unknown tier 1 plus the fewest cables between them and a switch with hosts.
/// A switch that no host can reach counts as tier 1.
#[must_use]
pub fn tiers(fabric: &Fabric) -> Vec<u8> {
    let hosts = fabric.hosts().map(NodeId::index);
    let neighbours = |node| fabric.links_from(NodeId(node as u32)).iter().map(|&link| fabric.link(link).to.node.index());
    let tier = |(node, hops): (&crate::Node, Option<u8>)| match node.kind {
        NodeKind::Host => 0,
        NodeKind::Switch { tier: 0 } => hops.unwrap_or(1),
        NodeKind::Switch { tier } => tier,
    };
    fabric.nodes().iter().zip(hops_from_hosts(fabric.nodes().len(), hosts, neighbours)).map(tier).collect()
}

/// Fewest cables between each of `nodes` nodes and a host, by breadth-first search; `None` where
/// no cable leads.
pub(crate) fn hops_from_hosts<I: IntoIterator<Item = usize>>(
    nodes: usize,
    hosts: impl Iterator<Item = usize>,
    neighbours: impl Fn(usize) -> I,
) -> Vec<Option<u8>> {
    let mut hops: Vec<Option<u8>> = vec![None; nodes];
    let mut queue: VecDeque<usize> = hosts.collect();
    // All hosts start at distance 0, so the first visit of a node comes from its nearest host.
    for &host in &queue {
        hops[host] = Some(0);
    }
    while let Some(at) = queue.pop_front() {
        // A tier is a u8, so a longer chain keeps the highest tier.
        let next = hops[at].map(|hops| hops.saturating_add(1));
        for to in neighbours(at) {
            if hops[to].is_none() {
                hops[to] = next;
                queue.push_back(to);
            }
        }
    }
    hops
}
