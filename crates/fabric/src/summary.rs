//! The parts of a fabric in numbers: nodes per tier, links per class, oversubscription.

use alloc::{collections::BTreeMap, string::String, vec, vec::Vec};

use petgraph::unionfind::UnionFind;
use serde::Serialize;
use units::{LinkId, NodeId, Rate};

use crate::{Fabric, HostGpus, NodeKind, capacity, tier::tiers};

/// Most links of unknown capacity that a summary names; the rest is counted.
pub const UNKNOWN_NAMED_MAX: usize = 20;

/// A summary of a fabric, ready for people and for JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// The fabric's name.
    pub name: String,
    /// Hosts.
    pub hosts: usize,
    /// Hosts per number of NICs.
    pub hosts_by_nics: BTreeMap<usize, usize>,
    /// Hosts by type and number of GPUs, where anything was stated of them, with their NICs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts_by_gpus: Vec<HostClass>,
    /// Switches.
    pub switches: usize,
    /// Directed links.
    pub links: usize,
    /// Links whose opposite direction is unknown.
    pub one_way_links: usize,
    /// Separate pieces: groups of nodes that no cable joins.
    pub pieces: usize,
    /// Tiers from the hosts upwards.
    pub tiers: Vec<TierSummary>,
    /// Links in groups of equal tiers, capacity and provenance.
    pub classes: Vec<LinkClass>,
    /// How many links have no stated capacity.
    pub unknown_capacities: usize,
    /// Names of the first [`UNKNOWN_NAMED_MAX`] of them.
    pub unknown: Vec<String>,
}

/// Hosts that have the same GPUs and NICs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct HostClass {
    /// The type of their GPUs, where it was stated.
    pub gpu_type: Option<String>,
    /// GPUs of each, where that was stated.
    pub gpus: Option<u32>,
    /// NICs of each.
    pub nics: usize,
    /// The rate of each NIC: `400G`, `unknown`, or several joined by `+`.
    pub rate: String,
    /// How many hosts.
    pub hosts: usize,
}

/// The switches of a tier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TierSummary {
    /// 1 = leaf.
    pub tier: u8,
    /// How many switches it has.
    pub switches: usize,
    /// Oversubscription of the most oversubscribed switch; `None` when no switch of the tier has
    /// links both ways, or a capacity is unknown.
    pub oversubscription: Option<Oversubscription>,
}

/// Capacity towards the hosts over capacity away from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Oversubscription {
    /// Sum of the links that come up from lower tiers, Mbit/s.
    pub down_mbps: u64,
    /// Sum of the links that go up to higher tiers, Mbit/s.
    pub up_mbps: u64,
}

impl Oversubscription {
    /// The ratio; above 1 the hosts below can send more than the uplinks carry.
    #[must_use]
    pub fn ratio(self) -> f64 {
        self.down_mbps as f64 / self.up_mbps as f64
    }

    /// Whether `self` is more oversubscribed than `other`, without rounding.
    fn worse_than(self, other: Self) -> bool {
        u128::from(self.down_mbps) * u128::from(other.up_mbps) > u128::from(other.down_mbps) * u128::from(self.up_mbps)
    }
}

impl core::fmt::Display for Oversubscription {
    /// `2:1`, `1.33:1`.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        // A summary makes ratios of switches with uplinks only; the maximum guards values that others make.
        if self.down_mbps.is_multiple_of(self.up_mbps.max(1)) {
            write!(f, "{}:1", self.down_mbps / self.up_mbps.max(1))
        } else {
            write!(f, "{:.2}:1", self.ratio())
        }
    }
}

/// Links that look alike.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct LinkClass {
    /// Tier of the sender, 0 = host.
    pub from_tier: u8,
    /// Tier of the receiver, 0 = host.
    pub to_tier: u8,
    /// `400G`, or `unknown`.
    pub capacity: String,
    /// `observed`, `intended` or `asserted`.
    pub provenance: String,
    /// How many directed links.
    pub links: usize,
}

/// Hosts by GPUs and NICs; nothing where nobody stated any GPUs.
fn hosts_by_gpus(fabric: &Fabric) -> Vec<HostClass> {
    let none = HostGpus::default();
    let mut classes: BTreeMap<(&HostGpus, usize, Vec<Option<Rate>>), usize> = BTreeMap::new();
    for host in fabric.hosts() {
        let nics = fabric.links_from(host);
        // Hosts with the same rates in another order are alike.
        let mut rates: Vec<Option<Rate>> = nics.iter().map(|nic| fabric.link(*nic).capacity).collect();
        rates.sort_unstable();
        rates.dedup();
        *classes.entry((fabric.gpus(host).unwrap_or(&none), nics.len(), rates)).or_insert(0) += 1;
    }
    if classes.keys().all(|(gpus, ..)| **gpus == none) {
        return Vec::new();
    }
    let class = |((gpus, nics, rates), hosts): ((&HostGpus, usize, Vec<Option<Rate>>), usize)| {
        let rates: Vec<String> = rates.into_iter().map(|rate| rate.map_or_else(|| "unknown".into(), capacity::text)).collect();
        HostClass { gpu_type: gpus.gpu_type.clone(), gpus: gpus.count, nics, rate: rates.join("+"), hosts }
    };
    let mut found: Vec<HostClass> = classes.into_iter().map(class).collect();
    found.sort_unstable();
    found
}

/// Summarises a fabric.
#[must_use]
pub fn summarise(fabric: &Fabric) -> Summary {
    use alloc::string::ToString;
    let tier_of = tiers(fabric);
    let ids = (0..fabric.links().len()).filter_map(LinkId::from_index);
    let unknown: Vec<LinkId> = ids.clone().filter(|&l| fabric.link(l).capacity.is_none()).collect();
    // The order of the keys (tiers, capacity, provenance) is the order of the result.
    let mut classes: BTreeMap<_, usize> = BTreeMap::new();
    for link in fabric.links() {
        let tiers = (tier_of[link.from.node.index()], tier_of[link.to.node.index()]);
        *classes.entry((tiers, link.capacity, link.provenance)).or_insert(0) += 1;
    }
    let class = |(((from_tier, to_tier), rate, provenance), links): ((_, Option<_>, crate::Provenance), _)| LinkClass {
        from_tier,
        to_tier,
        capacity: rate.map_or_else(|| "unknown".into(), capacity::text),
        provenance: provenance.to_string(),
        links,
    };
    let mut hosts_by_nics = BTreeMap::new();
    for host in fabric.hosts() {
        *hosts_by_nics.entry(fabric.links_from(host).len()).or_insert(0) += 1;
    }
    let hosts = fabric.hosts().count();
    Summary {
        name: fabric.name().into(),
        hosts,
        hosts_by_nics,
        hosts_by_gpus: hosts_by_gpus(fabric),
        switches: fabric.nodes().len() - hosts,
        links: fabric.links().len(),
        one_way_links: ids.filter(|&l| fabric.reverse(l).is_none()).count(),
        pieces: pieces(fabric),
        tiers: summarise_tiers(fabric, &tier_of),
        classes: classes.into_iter().map(class).collect(),
        unknown_capacities: unknown.len(),
        unknown: unknown.into_iter().take(UNKNOWN_NAMED_MAX).map(|l| fabric.link_name(l)).collect(),
    }
}

/// Number of connected pieces, directions aside.
fn pieces(fabric: &Fabric) -> usize {
    let mut sets = UnionFind::<u32>::new(fabric.nodes().len());
    // Each union of two sets leaves one piece fewer than before.
    let joins = fabric.links().iter().filter(|l| sets.union(l.from.node.0, l.to.node.0)).count();
    fabric.nodes().len() - joins
}

fn summarise_tiers(fabric: &Fabric, tier_of: &[u8]) -> Vec<TierSummary> {
    // Per switch: capacity from below and to above; `None` once a capacity is unknown.
    let mut sums = vec![Some((0_u64, 0_u64)); fabric.nodes().len()];
    for link in fabric.links() {
        let (from, to) = (link.from.node.index(), link.to.node.index());
        // Only the direction upwards is summed: the lower switch sends it up, and the upper one gets it from below.
        if tier_of[from] < tier_of[to] {
            for (switch, is_up) in [(from, true), (to, false)] {
                // One unknown capacity makes the sum of its switch unknown for good.
                sums[switch] = sums[switch].zip(link.capacity).map(|((down, up), rate)| match is_up {
                    true => (down, up.saturating_add(rate.mbps())),
                    false => (down.saturating_add(rate.mbps()), up),
                });
            }
        }
    }
    let mut by_tier: BTreeMap<u8, Vec<NodeId>> = BTreeMap::new();
    for (i, node) in fabric.nodes().iter().enumerate() {
        if node.kind != NodeKind::Host {
            by_tier.entry(tier_of[i]).or_default().push(NodeId(i as u32));
        }
    }
    let summary = |(tier, switches): (u8, Vec<NodeId>)| {
        // A single switch without a sum leaves the whole tier without a ratio.
        let sums: Option<Vec<_>> = switches.iter().map(|s| sums[s.index()]).collect();
        let both_ways = sums.into_iter().flatten().filter(|&(down, up)| down > 0 && up > 0);
        let ratios = both_ways.map(|(down_mbps, up_mbps)| Oversubscription { down_mbps, up_mbps });
        let oversubscription = ratios.reduce(|worst, o| if o.worse_than(worst) { o } else { worst });
        TierSummary { tier, switches: switches.len(), oversubscription }
    };
    by_tier.into_iter().map(summary).collect()
}
