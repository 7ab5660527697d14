//! Tiers of switches: as declared, or by distance from the hosts where nobody declared them.

use alloc::{collections::VecDeque, vec, vec::Vec};

use units::NodeId;

use crate::{Fabric, NodeKind};

/// Tier of each node, indexed by node id: 0 for hosts, otherwise the declared tier, and for
/// switches of unknown tier 1 plus the fewest cables between them and a switch with hosts.
/// A switch that no host can reach counts as tier 1.
#[must_use]
pub fn tiers(fabric: &Fabric) -> Vec<u8> {
    let mut from_hosts: Vec<Option<u8>> = vec![None; fabric.nodes().len()];
    let mut queue: VecDeque<NodeId> = fabric.hosts().collect();
    for &host in &queue {
        from_hosts[host.index()] = Some(0);
    }
    while let Some(at) = queue.pop_front() {
        let hops = from_hosts[at.index()].unwrap_or(0);
        for &link in fabric.links_from(at) {
            let to = fabric.link(link).to.node;
            if from_hosts[to.index()].is_none() {
                from_hosts[to.index()] = Some(hops.saturating_add(1));
                queue.push_back(to);
            }
        }
    }
    let tier = |(node, hops): (&crate::Node, Option<u8>)| match node.kind {
        NodeKind::Host => 0,
        NodeKind::Switch { tier: 0 } => hops.unwrap_or(1),
        NodeKind::Switch { tier } => tier,
    };
    fabric.nodes().iter().zip(from_hosts).map(tier).collect()
}
