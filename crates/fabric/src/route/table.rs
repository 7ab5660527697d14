//! Shortest-path next hops from every switch towards every leaf.
//!
//! The table is dense over (leaf, switch), and the sets of next hops are interned: towards most
//! leaves a switch uses the same uplinks, so a fabric of 10,000 hosts needs about a megabyte.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec,
    vec::Vec,
};

use petgraph::csr::Csr;
use units::{LinkId, NodeId};

use crate::{Fabric, FabricError, NodeKind, collective::Endpoint};

/// Longest path between two switches: IP packets die after 255 hops, so a longer path
/// carries nothing.
pub const HOPS_MAX: u8 = 254;
/// Most (leaf, switch) pairs in one routing table: 160 MiB. A Clos of 100,000 hosts has half of it.
pub const TABLE_CELLS_MAX: usize = 1 << 25;
/// Most (leaf, link between switches) visits while the table is built: a few seconds. A Clos of
/// 100,000 hosts needs a third of it, and about a second.
pub const TABLE_WORK_MAX: usize = 1 << 30;

/// "No such switch, leaf or distance".
pub(super) const NONE: u32 = u32::MAX;
const UNREACHABLE: u8 = u8::MAX;

/// A link between two switches and the number of the switch it leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hop {
    pub(super) link: LinkId,
    pub(super) to: u32,
}

/// A NIC of a host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nic {
    /// `None` while it carries nothing ([`Table::without`]).
    pub(super) out: Option<LinkId>,
    /// `None` where only the outgoing direction is known.
    pub(super) into: Option<LinkId>,
}

/// Next hops and NICs of a fabric, by compact numbers.
#[derive(Clone, Debug)]
pub(super) struct Table {
    /// Node to switch number, [`NONE`] for hosts.
    switch_of: Vec<u32>,
    /// Switch number to leaf number, [`NONE`] where no wanted host hangs.
    leaf_of: Vec<u32>,
    /// First NIC of each node in `nics`, and one more entry for the end.
    nic_start: Vec<u32>,
    nics: Vec<Nic>,
    /// Ranges of `pool`; set 0 is empty.
    sets: Vec<(u32, u32)>,
    pool: Vec<Hop>,
    /// Set of next hops of (leaf, switch).
    next: Vec<u32>,
    /// Hops from (leaf, switch) to the leaf.
    dist: Vec<u8>,
}

impl Table {
    /// Builds the table for the leaves of `hosts`, or of all hosts.
    pub(super) fn build(fabric: &Fabric, hosts: Option<&[NodeId]>) -> Result<Self, FabricError> {
        let (switch_of, switches) = number_switches(fabric);
        let into = incoming(fabric);
        let (nic_start, nics) = list_nics(fabric, &into);
        let (leaf_of, leaves) = number_leaves(fabric, &switch_of, switches.len(), hosts);
        let upstream = upstream(fabric, &switch_of, switches.len());
        let between = |l: &&crate::Link| [l.from.node, l.to.node].iter().all(|n| switch_of[n.index()] != NONE);
        // The limits stand before the two dense arrays, which are the memory of the table.
        refuse_large(leaves.len(), switches.len(), fabric.links().iter().filter(between).count())?;
        let mut table =
            Self { switch_of, leaf_of, nic_start, nics, sets: vec![(0, 0)], pool: Vec::new(), next: Vec::new(), dist: Vec::new() };
        table.fill(fabric, &switches, &leaves, &upstream);
        Ok(table)
    }

    fn fill(&mut self, fabric: &Fabric, switches: &[NodeId], leaves: &[u32], upstream: &Upstream) {
        let count = switches.len();
        self.next = vec![0; leaves.len() * count];
        self.dist = vec![UNREACHABLE; leaves.len() * count];
        let hops: Vec<Vec<Hop>> = switches.iter().map(|&s| self.hops_from(fabric, s)).collect();
        // Equal sets are stored once: `known` finds them, and set 0 is the empty one.
        let mut known: BTreeMap<Vec<LinkId>, u32> = BTreeMap::new();
        let mut last = vec![0_u32; count];
        let (mut queue, mut set) = (Vec::new(), Vec::new());
        for (row, &leaf) in leaves.iter().enumerate() {
            let dist = &mut self.dist[row * count..(row + 1) * count];
            distances(upstream, leaf, dist, &mut queue);
            for at in 0..count {
                if dist[at] == UNREACHABLE || dist[at] == 0 {
                    continue;
                }
                set.clear();
                // The hops keep the order of link ids, so equal sets are equal lists.
                set.extend(hops[at].iter().filter(|h| dist[h.to as usize] == dist[at] - 1));
                // Towards the next leaf most switches use the same hops again.
                let (start, end) = self.sets[last[at] as usize];
                if self.pool[start as usize..end as usize] != set[..] {
                    // The links alone identify a set, because each leads to one switch.
                    let key: Vec<LinkId> = set.iter().map(|h| h.link).collect();
                    last[at] = *known.entry(key).or_insert_with(|| {
                        let start = self.pool.len() as u32;
                        self.pool.extend(&set);
                        self.sets.push((start, self.pool.len() as u32));
                        self.sets.len() as u32 - 1
                    });
                }
                self.next[row * count + at] = last[at];
            }
        }
    }

    /// The same without some links: next hops that lead on by what is left of the shortest routes, and nothing where none of them is left.
    pub(super) fn without(&self, down: &BTreeSet<LinkId>) -> Self {
        let mut left = self.clone();
        for nic in &mut left.nics {
            nic.out = nic.out.filter(|link| !down.contains(link));
            nic.into = nic.into.filter(|link| !down.contains(link));
        }
        let count = self.switch_count();
        (left.sets, left.pool) = (vec![(0, 0)], Vec::new());
        let mut known: BTreeMap<Vec<LinkId>, u32> = BTreeMap::new();
        let mut by_distance: Vec<u32> = (0..count as u32).collect();
        for leaf in 0..(self.next.len() / count.max(1)) as u32 {
            // Nearer switches come first, so it is known of each next hop whether it leads anywhere.
            by_distance.sort_by_key(|at| self.distance(leaf, *at));
            for &at in &by_distance {
                let cell = self.cell(leaf, at);
                if matches!(self.dist[cell], 0 | UNREACHABLE) {
                    continue;
                }
                let leads = |hop: &&Hop| !down.contains(&hop.link) && left.dist[self.cell(leaf, hop.to)] != UNREACHABLE;
                let set: Vec<Hop> = self.next_hops(leaf, at).iter().filter(leads).copied().collect();
                if set.is_empty() {
                    (left.next[cell], left.dist[cell]) = (0, UNREACHABLE);
                    continue;
                }
                left.next[cell] = *known.entry(set.iter().map(|hop| hop.link).collect()).or_insert_with(|| {
                    let start = left.pool.len() as u32;
                    left.pool.extend(&set);
                    left.sets.push((start, left.pool.len() as u32));
                    left.sets.len() as u32 - 1
                });
            }
        }
        left
    }

    fn hops_from(&self, fabric: &Fabric, switch: NodeId) -> Vec<Hop> {
        let hop = |&link: &LinkId| self.switch(fabric.link(link).to.node).map(|to| Hop { link, to });
        fabric.links_from(switch).iter().filter_map(hop).collect()
    }

    /// How many switches there are.
    pub(super) fn switch_count(&self) -> usize {
        self.leaf_of.len()
    }

    /// The number of a switch.
    pub(super) fn switch(&self, node: NodeId) -> Option<u32> {
        self.switch_of.get(node.index()).copied().filter(|&s| s != NONE)
    }

    /// The number of a switch as a destination.
    pub(super) fn leaf(&self, node: NodeId) -> Option<u32> {
        self.switch(node).map(|s| self.leaf_of[s as usize]).filter(|&l| l != NONE)
    }

    /// Hops from a switch to a leaf, [`NONE`] without a route.
    pub(super) fn distance(&self, leaf: u32, switch: u32) -> u32 {
        match self.dist[self.cell(leaf, switch)] {
            UNREACHABLE => NONE,
            hops => u32::from(hops),
        }
    }

    /// Equally short next hops from a switch to a leaf, in order of link id; empty at the leaf
    /// itself and without a route.
    pub(super) fn next_hops(&self, leaf: u32, switch: u32) -> &[Hop] {
        let (start, end) = self.sets[self.next[self.cell(leaf, switch)] as usize];
        &self.pool[start as usize..end as usize]
    }

    fn cell(&self, leaf: u32, switch: u32) -> usize {
        leaf as usize * self.switch_count() + switch as usize
    }

    /// The NIC of an endpoint; `None` for a node without NICs or one that is no host.
    pub(super) fn nic(&self, endpoint: Endpoint) -> Option<Nic> {
        let start = *self.nic_start.get(endpoint.host.index())? as usize;
        let end = *self.nic_start.get(endpoint.host.index() + 1)? as usize;
        let nics = self.nics.get(start..end)?;
        nics.get(usize::from(endpoint.rail).checked_rem(nics.len())?).copied()
    }
}

fn refuse_large(leaves: usize, switches: usize, links: usize) -> Result<(), FabricError> {
    let refuse = |what, count, limit| if count > limit { Err(FabricError::TooLarge { what, count, limit }) } else { Ok(()) };
    refuse("routing table cells", leaves.saturating_mul(switches), TABLE_CELLS_MAX)?;
    refuse("routing table work", leaves.saturating_mul(links), TABLE_WORK_MAX)
}

fn number_switches(fabric: &Fabric) -> (Vec<u32>, Vec<NodeId>) {
    let mut switches = Vec::new();
    // Numbers of their own keep hosts, the most of all nodes, out of the dense table.
    let number = |(i, node): (usize, &crate::Node)| {
        if node.kind == NodeKind::Host {
            return NONE;
        }
        switches.push(NodeId(i as u32));
        switches.len() as u32 - 1
    };
    let switch_of = fabric.nodes().iter().enumerate().map(number).collect();
    (switch_of, switches)
}

/// Leaves are the switches that have a link to a wanted host.
fn number_leaves(fabric: &Fabric, switch_of: &[u32], switches: usize, hosts: Option<&[NodeId]>) -> (Vec<u32>, Vec<u32>) {
    let mut wanted = vec![hosts.is_none(); fabric.nodes().len()];
    for host in hosts.unwrap_or(&[]) {
        // Ids of another fabric are passed over; a route to them fails later.
        if let Some(wanted) = wanted.get_mut(host.index()) {
            *wanted = true;
        }
    }
    let (mut leaf_of, mut leaves) = (vec![NONE; switches], Vec::new());
    for link in fabric.links() {
        let (from, to) = (switch_of[link.from.node.index()], link.to.node.index());
        if from != NONE && switch_of[to] == NONE && wanted[to] && leaf_of[from as usize] == NONE {
            leaf_of[from as usize] = leaves.len() as u32;
            leaves.push(from);
        }
    }
    (leaf_of, leaves)
}

/// The incoming link of each (host, port).
fn incoming(fabric: &Fabric) -> BTreeMap<(NodeId, &str), LinkId> {
    let to_hosts = fabric.links().iter().enumerate().filter(|(_, l)| fabric.node(l.to.node).kind == NodeKind::Host);
    to_hosts.map(|(i, l)| ((l.to.node, l.to.name.as_str()), LinkId(i as u32))).collect()
}

fn list_nics(fabric: &Fabric, into: &BTreeMap<(NodeId, &str), LinkId>) -> (Vec<u32>, Vec<Nic>) {
    let (mut start, mut nics) = (vec![0], Vec::new());
    for (i, node) in fabric.nodes().iter().enumerate() {
        let id = NodeId(i as u32);
        if node.kind == NodeKind::Host {
            // A NIC is one port, so its incoming link is the one of the same port.
            let nic = |&out: &LinkId| Nic { out: Some(out), into: into.get(&(id, fabric.link(out).from.name.as_str())).copied() };
            nics.extend(fabric.links_from(id).iter().map(nic));
        }
        // Switches have entries too, of no NICs, so that a node's id is its index.
        start.push(nics.len() as u32);
    }
    (start, nics)
}

/// For each switch number, the switches that have a cable to it; parallel cables once.
type Upstream = Csr<(), ()>;

fn upstream(fabric: &Fabric, switch_of: &[u32], switches: usize) -> Upstream {
    let ends = |link: &crate::Link| (switch_of[link.to.node.index()], switch_of[link.from.node.index()]);
    let mut edges: Vec<(u32, u32)> = fabric.links().iter().map(ends).filter(|&(to, from)| to != NONE && from != NONE).collect();
    edges.sort_unstable();
    // Parallel cables are one step of the search, and petgraph refuses repeated edges here.
    edges.dedup();
    let mut upstream = Upstream::from_sorted_edges(&edges).expect("invariant: edges are sorted and unique");
    // The graph from edges stops at the last switch that has one, so the others are added.
    while upstream.node_count() < switches {
        upstream.add_node(());
    }
    upstream
}

/// Hops from each switch to `leaf`, by breadth-first search against the links.
fn distances(upstream: &Upstream, leaf: u32, dist: &mut [u8], queue: &mut Vec<u32>) {
    dist[leaf as usize] = 0;
    // The queue is read by index and never popped, so its memory serves all leaves.
    queue.clear();
    queue.push(leaf);
    let mut next = 0;
    while let Some(&at) = queue.get(next) {
        next += 1;
        let hops = dist[at as usize];
        // One hop more than HOPS_MAX would be the mark for unreachable.
        if hops >= HOPS_MAX {
            continue;
        }
        for &from in upstream.neighbors_slice(at) {
            if dist[from as usize] == UNREACHABLE {
                dist[from as usize] = hops + 1;
                queue.push(from);
            }
        }
    }
}
