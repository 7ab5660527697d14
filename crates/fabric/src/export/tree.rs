//! A fabric as the tree that schedulers know: which hosts are near each other.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::String,
    vec::Vec,
};

use petgraph::unionfind::UnionFind;
use units::NodeId;

use crate::{Fabric, FabricError, Finding, NodeKind, tier::tiers};

/// Most names listed in one finding.
const NAMES_MAX: usize = 8;

/// Most levels of a tree; tiers beyond join the last one. Nobody builds more than four, and the
/// work grows with hosts times levels.
pub const LEVELS_MAX: usize = 16;

/// Levels from the hosts upwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// The first level holds the leaves; each further one joins groups of the one before.
    pub levels: Vec<Level>,
    /// The parts of the fabric that the tree leaves out.
    pub findings: Vec<Finding>,
}

/// Groups of hosts that reach each other through switches up to a tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    /// The tier.
    pub tier: u8,
    /// The groups, in order of their first host.
    pub groups: Vec<Group>,
}

/// One logical switch of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The switch's name, or `tierT-N` where several switches are one here.
    pub name: String,
    /// The switches that are new at this level.
    pub switches: Vec<NodeId>,
    /// All hosts below.
    pub hosts: Vec<NodeId>,
    /// Groups of the level before, by index; empty at the first level.
    pub children: Vec<usize>,
}

impl Tree {
    /// The tree of a fabric. Equal spines become one logical switch, because two parents of one
    /// leaf have no place in a tree; leaves that share a host (rails, dual homing) become one,
    /// because two parents of one host have no place either. Hosts without cables stay out.
    ///
    /// # Errors
    /// [`FabricError::NotExportable`] without any host that has a cable to a switch.
    pub fn of(fabric: &Fabric) -> Result<Self, FabricError> {
        let tier_of = tiers(fabric);
        let is_host = |n: NodeId| fabric.node(n).kind == NodeKind::Host;
        let mut sets = UnionFind::<u32>::new(fabric.nodes().len());
        let mut leaves = BTreeSet::new();
        let mut cabled = BTreeSet::new();
        for link in fabric.links() {
            // Both directions are tried, so a link that is known one way only still joins its host.
            for (host, switch) in [(link.from.node, link.to.node), (link.to.node, link.from.node)] {
                if is_host(host) && !is_host(switch) {
                    sets.union(host.0, switch.0);
                    leaves.insert(switch);
                    cabled.insert(host);
                }
            }
        }
        if cabled.is_empty() {
            let problem = "no host has a cable to a switch, and an empty topology would stop a scheduler".into();
            return Err(FabricError::NotExportable { what: "fabric", name: fabric.name().into(), problem });
        }
        let mut names = Names::new(fabric);
        let mut tree = Self { levels: Vec::new(), findings: Vec::new() };
        tree.push_level(fabric, 1, &mut sets, &cabled, &leaves, &mut names);
        // Tiers come in ascending order, so each level unites groups of the level before.
        for (tier, links) in joining_links(fabric, &tier_of) {
            for (a, b) in links {
                sets.union(a.0, b.0);
            }
            // Switches of tier 1 belong to the first level, whatever links join them later.
            let of_tier = |i: &usize| tier_of[*i] >= 2 && level_of(tier_of[*i]) == tier;
            let switches = (0..tier_of.len()).filter(of_tier).map(|i| NodeId(i as u32)).collect();
            tree.push_level(fabric, tier, &mut sets, &cabled, &switches, &mut names);
        }
        tree.find_losses(fabric, &cabled);
        Ok(tree)
    }

    /// Adds the level that `sets` describe, unless it joins nothing that was apart before.
    fn push_level(
        &mut self,
        fabric: &Fabric,
        tier: u8,
        sets: &mut UnionFind<u32>,
        hosts: &BTreeSet<NodeId>,
        switches: &BTreeSet<NodeId>,
        names: &mut Names,
    ) {
        let mut groups: Vec<Group> = Vec::new();
        let mut at: BTreeMap<u32, usize> = BTreeMap::new();
        for &host in hosts {
            // Hosts come in order of id, so groups come in order of their first host.
            let i = *at.entry(sets.find_mut(host.0)).or_insert_with(|| {
                groups.push(Group { name: String::new(), switches: Vec::new(), hosts: Vec::new(), children: Vec::new() });
                groups.len() - 1
            });
            groups[i].hosts.push(host);
        }
        // Unions only merge, so an equal number of groups means the same groups.
        if self.levels.last().is_some_and(|below| below.groups.len() == groups.len()) {
            return;
        }
        for &switch in switches {
            if let Some(&i) = at.get(&sets.find_mut(switch.0)) {
                groups[i].switches.push(switch);
            }
        }
        // The first host speaks for its whole group, because a group is never parted again.
        for (child, below) in self.levels.last().iter().flat_map(|l| l.groups.iter().enumerate()) {
            if let Some(&i) = below.hosts.first().and_then(|h| at.get(&sets.find_mut(h.0))) {
                groups[i].children.push(child);
            }
        }
        for (i, group) in groups.iter_mut().enumerate() {
            group.name = names.choose(fabric, tier, i + 1, &group.switches);
        }
        self.levels.push(Level { tier, groups });
    }

    fn find_losses(&mut self, fabric: &Fabric, cabled: &BTreeSet<NodeId>) {
        let mut found = |kind, message| self.findings.push(Finding { kind, message });
        let stated = fabric.links().iter().filter(|l| l.capacity.is_some()).count();
        found("tree-loses-links", format!("{} links, {stated} of them with a capacity, are not in the tree", fabric.links().len()));
        let with_gpus = fabric.hosts().filter(|host| fabric.gpus(*host).is_some()).count();
        if with_gpus > 0 {
            found("gpus-left-out", format!("the GPUs that {with_gpus} hosts state are not in the tree"));
        }
        let mut held: BTreeSet<NodeId> = BTreeSet::new();
        for level in &self.levels {
            for group in &level.groups {
                held.extend(&group.switches);
                if group.switches.len() > 1 {
                    let names = list(fabric, group.switches.iter());
                    found("tree-merges-switches", format!("{} stands for {} switches: {names}", group.name, group.switches.len()));
                }
            }
        }
        // A cabled host is in every level, so only switches and hosts without cables can be left out.
        let apart = |n: &NodeId, host: bool| (fabric.node(*n).kind == NodeKind::Host) == host && !held.contains(n) && !cabled.contains(n);
        let all = || (0..fabric.nodes().len()).map(|i| NodeId(i as u32));
        for (host, kind, what) in
            [(true, "host-left-out", "hosts without a cable to a switch"), (false, "switch-left-out", "switches that join no hosts")]
        {
            let out: Vec<NodeId> = all().filter(|n| apart(n, host)).collect();
            if !out.is_empty() {
                found(kind, format!("{} {what}: {}", out.len(), list(fabric, out.iter())));
            }
        }
        let tops = self.levels.last().map_or(0, |l| l.groups.len());
        if tops > 1 {
            found("separate-pieces", format!("the tree has {tops} roots, so no job can span them"));
        }
    }
}

/// The level at which switches of a tier join; links among leaves join at level 2.
fn level_of(tier: u8) -> u8 {
    tier.clamp(2, LEVELS_MAX as u8)
}

/// Links between switches, by the level at which both ends take part.
fn joining_links(fabric: &Fabric, tier_of: &[u8]) -> BTreeMap<u8, Vec<(NodeId, NodeId)>> {
    let mut joining: BTreeMap<u8, Vec<_>> = BTreeMap::new();
    for link in fabric.links() {
        let (a, b) = (link.from.node, link.to.node);
        if [a, b].iter().all(|&n| fabric.node(n).kind != NodeKind::Host) {
            // A link joins at the tier of its higher end, from which on both ends take part.
            joining.entry(level_of(tier_of[a.index()].max(tier_of[b.index()]))).or_default().push((a, b));
        }
    }
    joining
}

/// The first few names of a list.
fn list<'n>(fabric: &Fabric, nodes: impl ExactSizeIterator<Item = &'n NodeId>) -> String {
    let more = nodes.len().saturating_sub(NAMES_MAX);
    let names: Vec<&str> = nodes.take(NAMES_MAX).map(|&n| fabric.node(n).name.as_str()).collect();
    if more > 0 { format!("{} and {more} more", names.join(", ")) } else { names.join(", ") }
}

/// Names of groups, none twice and none of a node that is not the group.
struct Names {
    nodes: BTreeSet<String>,
    used: BTreeSet<String>,
}

impl Names {
    fn new(fabric: &Fabric) -> Self {
        Self { nodes: fabric.nodes().iter().map(|n| n.name.clone()).collect(), used: BTreeSet::new() }
    }

    fn choose(&mut self, fabric: &Fabric, tier: u8, number: usize, switches: &[NodeId]) -> String {
        if let [only] = switches {
            let name = &fabric.node(*only).name;
            // A switch may be alone in groups of several levels; the lowest of them keeps its name.
            if self.used.insert(name.clone()) {
                return name.clone();
            }
        }
        let mut name = format!("tier{tier}-{number}");
        // Each try is longer than the one before, so a name that nobody uses is found.
        while self.nodes.contains(&name) || !self.used.insert(name.clone()) {
            name.push_str("-x");
        }
        name
    }
}
