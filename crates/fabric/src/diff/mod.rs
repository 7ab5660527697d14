//! Differences between the cabling of a plan and the cabling that is there.

use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    format,
    string::{String, ToString},
    vec::Vec,
};
use core::fmt;

use serde::Serialize;
use units::{NodeId, Rate};

use crate::{Fabric, Link, NodeKind, Port};

mod observe;

pub use observe::{OBSERVED_NAME, Observation, observe};

/// How cables of the two fabrics are paired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchBy {
    /// By node and port at both ends; where one of the two documents names no port and its reader numbered it
    /// ([`Fabric::is_numbered`]), by the node at that end.
    Ports,
    /// By the nodes at both ends, in order of port names: for a plan that names no ports.
    Nodes,
}

/// The differences, each list in order of names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Diff {
    /// Nodes of the intention that were not seen.
    pub missing_nodes: Vec<String>,
    /// Nodes that nobody intended.
    pub extra_nodes: Vec<String>,
    /// Nodes that are something else: host or switch, or of another known tier.
    pub kinds: Vec<KindMismatch>,
    /// Cables that were not seen.
    pub missing: Vec<CableEnds>,
    /// Cables that nobody intended.
    pub extra: Vec<CableEnds>,
    /// Cables of which one end is in another place.
    pub moved: Vec<Moved>,
    /// Directions whose stated capacities differ; unknown ones are no mismatch.
    pub capacities: Vec<CapacityMismatch>,
    /// Cables that only one of the two fabrics knows in both directions.
    pub one_way: Vec<OneWay>,
    /// Hosts whose stated GPUs differ; what only one states is no mismatch.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpusMismatch>,
}

/// One end: `node:port`, or `node` where the document names no port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct End {
    /// Node name.
    pub node: String,
    /// Port name.
    pub port: String,
    /// The name is a number of ours, not one of the device's.
    #[serde(skip_serializing_if = "is_false")]
    pub numbered: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's skip_serializing_if passes a reference")]
fn is_false(flag: &bool) -> bool {
    !*flag
}

/// A cable, smaller end first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct CableEnds {
    /// One end.
    pub a: End,
    /// The other end.
    pub b: End,
}

/// A node that is something else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KindMismatch {
    /// Its name.
    pub node: String,
    /// Its kind in the plan.
    pub intended: String,
    /// Its kind as observed.
    pub observed: String,
}

/// A cable of which one end is in another place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Moved {
    /// The end that is where it should be.
    pub kept: End,
    /// Where the other end should be.
    pub intended: End,
    /// Where it is.
    pub observed: End,
}

/// A direction with two capacities.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CapacityMismatch {
    /// Sender.
    pub from: End,
    /// Receiver.
    pub to: End,
    /// Mbit/s.
    pub intended_mbps: u64,
    /// Mbit/s.
    pub observed_mbps: u64,
}

/// A host with other GPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GpusMismatch {
    /// Its name.
    pub host: String,
    /// Its GPUs in the plan: count and type, as far as both state them.
    pub intended: String,
    /// Its GPUs as observed.
    pub observed: String,
}

/// A direction that only one side knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OneWay {
    /// Sender.
    pub from: End,
    /// Receiver.
    pub to: End,
    /// The fabric that lacks it: `intended` or `observed`.
    pub missing_in: &'static str,
}

impl Diff {
    /// Whether the two fabrics agree.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Number of differences.
    #[must_use]
    pub fn count(&self) -> usize {
        let nodes = self.missing_nodes.len() + self.extra_nodes.len() + self.kinds.len();
        nodes + self.missing.len() + self.extra.len() + self.moved.len() + self.capacities.len() + self.one_way.len() + self.gpus.len()
    }
}

/// The differences between a plan and what is there.
#[must_use]
pub fn diff(intended: &Fabric, observed: &Fabric, by: MatchBy) -> Diff {
    compare(intended, observed, by, &BTreeSet::new()).0
}

/// The differences, and which cables of the plan are which of those that are there. Of the nodes in `nameless` the plan's port names are
/// none of the devices'.
fn compare(intended: &Fabric, observed: &Fabric, by: MatchBy, nameless: &BTreeSet<NodeId>) -> (Diff, Pairs) {
    let mut diff = Diff::default();
    compare_nodes(intended, observed, &mut diff);
    compare_gpus(intended, observed, &mut diff);
    let (mut ours, mut theirs) = (cables(intended, nameless), cables(observed, &BTreeSet::new()));
    // Pairs come before moved cables: a cable that has a partner stands where it should.
    let pairs = match by {
        MatchBy::Ports => pair_by_ports(&ours, &theirs),
        MatchBy::Nodes => pair_by_nodes(&ours, &theirs),
    };
    for (our_key, their_key) in &pairs {
        // Compared cables leave both maps, so the rest at the end is missing or extra.
        if let (Some(our), Some(their)) = (ours.remove(our_key), theirs.remove(their_key)) {
            // A port that our plan does not name is shown by the name that was observed.
            let [a, b] =
                [(&our_key.a, &their_key.a), (&our_key.b, &their_key.b)].map(|(our, their)| if our.numbered { their } else { our });
            compare_sides(a, b, &our, &their, &mut diff);
        }
    }
    // A match by nodes ignores ports, so one kept end would prove nothing there.
    if by == MatchBy::Ports {
        take_moved(&mut ours, &mut theirs, &mut diff);
    }
    diff.missing = ours.into_keys().collect();
    diff.extra = theirs.into_keys().collect();
    (diff, pairs)
}

fn compare_nodes(intended: &Fabric, observed: &Fabric, diff: &mut Diff) {
    let kinds = |f: &Fabric| f.nodes().iter().map(|n| (n.name.clone(), n.kind)).collect::<BTreeMap<_, _>>();
    let (ours, theirs) = (kinds(intended), kinds(observed));
    diff.extra_nodes = theirs.keys().filter(|name| !ours.contains_key(*name)).cloned().collect();
    for (node, &kind) in &ours {
        match theirs.get(node) {
            None => diff.missing_nodes.push(node.clone()),
            Some(&other) if !alike(kind, other) => {
                diff.kinds.push(KindMismatch { node: node.clone(), intended: describe(kind), observed: describe(other) });
            }
            Some(_) => {}
        }
    }
}

fn compare_gpus(intended: &Fabric, observed: &Fabric, diff: &mut Diff) {
    for host in intended.hosts() {
        let name = &intended.node(host).name;
        let theirs = observed.find(name).and_then(|id| observed.gpus(id));
        let (Some(ours), Some(theirs)) = (intended.gpus(host), theirs) else { continue };
        let counts = ours.count.zip(theirs.count).filter(|(ours, theirs)| ours != theirs);
        let types = ours.gpu_type.as_ref().zip(theirs.gpu_type.as_ref()).filter(|(ours, theirs)| ours != theirs);
        let words = |count: Option<u32>, gpu_type: Option<&String>| {
            let count = count.map(|count| count.to_string());
            [count, gpu_type.cloned()].into_iter().flatten().collect::<Vec<_>>().join(" ")
        };
        if counts.is_some() || types.is_some() {
            let (intended, observed) = (words(counts.map(|c| c.0), types.map(|t| t.0)), words(counts.map(|c| c.1), types.map(|t| t.1)));
            diff.gpus.push(GpusMismatch { host: name.clone(), intended, observed });
        }
    }
    diff.gpus.sort_by(|a, b| a.host.cmp(&b.host));
}

fn alike(a: NodeKind, b: NodeKind) -> bool {
    match (a, b) {
        // Tier 0 means unknown, and an unknown tier contradicts none.
        (NodeKind::Switch { tier: a }, NodeKind::Switch { tier: b }) => a == 0 || b == 0 || a == b,
        _ => a == b,
    }
}

fn describe(kind: NodeKind) -> String {
    match kind {
        NodeKind::Host => "host".into(),
        NodeKind::Switch { tier: 0 } => "switch".into(),
        NodeKind::Switch { tier } => alloc::format!("switch of tier {tier}"),
    }
}

/// The two directions of a cable: from `a` to `b`, and back. The outer option says whether the direction is known, the inner
/// one whether its capacity is.
#[derive(Clone, Copy, Debug, Default)]
struct Directions {
    there: Option<Option<Rate>>,
    back: Option<Option<Rate>>,
}

impl Directions {
    /// The same, seen from `end`.
    fn seen_from(self, end: &End, cable: &CableEnds) -> Self {
        if cable.a == *end { self } else { Self { there: self.back, back: self.there } }
    }
}

type Cables = BTreeMap<CableEnds, Directions>;

fn cables(fabric: &Fabric, nameless: &BTreeSet<NodeId>) -> Cables {
    let end = |port: &Port| End {
        node: fabric.node(port.node).name.clone(),
        port: port.name.clone(),
        numbered: fabric.is_numbered(port) || nameless.contains(&port.node),
    };
    let mut cables = Cables::new();
    let mut add = |link: &Link| {
        let (from, to) = (end(&link.from), end(&link.to));
        // Both directions of a cable have the same key, the smaller end first, so they meet in one entry.
        let forward = from <= to;
        let (a, b) = if forward { (from, to) } else { (to, from) };
        let directions = cables.entry(CableEnds { a, b }).or_default();
        let side = if forward { &mut directions.there } else { &mut directions.back };
        *side = Some(link.capacity);
    };
    fabric.links().iter().for_each(&mut add);
    cables
}

type Pairs = Vec<(CableEnds, CableEnds)>;

/// Cables whose ports agree as far as both fabrics name them: first those that a port named by both tells apart, then the
/// others between the same nodes, in order.
fn pair_by_ports(ours: &Cables, theirs: &Cables) -> Pairs {
    // A numbered port says nothing about the port of that name on the device, so it finds no partner.
    let mut by_end: BTreeMap<(&str, &str), Vec<&CableEnds>> = BTreeMap::new();
    for key in theirs.keys() {
        for end in [&key.a, &key.b].into_iter().filter(|end| !end.numbered) {
            by_end.entry((&end.node, &end.port)).or_default().push(key);
        }
    }
    let mut taken: BTreeSet<&CableEnds> = BTreeSet::new();
    let mut pairs = Pairs::new();
    let mut rest: Vec<&CableEnds> = Vec::new();
    for key in ours.keys() {
        // A port that both fabrics name holds one cable in each, so it tells parallel cables apart.
        let named = [&key.a, &key.b].into_iter().filter(|end| !end.numbered);
        // The index spares a comparison of every cable of ours with every cable of theirs.
        let found = named.filter_map(|end| by_end.get(&(&end.node[..], &end.port[..]))).flatten();
        match found.copied().find(|their| alike_ends(key, their) && !taken.contains(their)) {
            Some(their) => {
                taken.insert(their);
                pairs.push((key.clone(), their.clone()));
            }
            None => rest.push(key),
        }
    }
    // Two cables that are left and may be a pair have a number at each end, in one fabric or in both. Which ends are named
    // makes four kinds of cables.
    let mut left: BTreeMap<(&str, &str, bool, bool), VecDeque<&CableEnds>> = BTreeMap::new();
    for key in theirs.keys().filter(|key| !taken.contains(key)) {
        left.entry((&key.a.node, &key.b.node, key.a.numbered, key.b.numbered)).or_default().push_back(key);
    }
    for key in rest {
        // An end that we name needs a number on their side. Their cables with most names go first, because they fit fewest of ours.
        let kinds = [(false, false), (false, true), (true, false), (true, true)];
        let fits = kinds.into_iter().filter(|(a, b)| (*a || key.a.numbered) && (*b || key.b.numbered));
        // The queues keep the order of names, so the result does not depend on the order of a document.
        let found = fits.into_iter().find_map(|(a, b)| left.get_mut(&(&key.a.node[..], &key.b.node[..], a, b))?.pop_front());
        pairs.extend(found.map(|their| (key.clone(), their.clone())));
    }
    pairs
}

/// Whether two cables join the same nodes by the same ports, as far as both name them.
fn alike_ends(ours: &CableEnds, theirs: &CableEnds) -> bool {
    // A numbered port agrees with every name, because its document names none.
    let alike = |a: &End, b: &End| a.node == b.node && (a.numbered || b.numbered || a.port == b.port);
    alike(&ours.a, &theirs.a) && alike(&ours.b, &theirs.b)
}

/// The k-th cable between two nodes of the one fabric with the k-th of the other.
fn pair_by_nodes(ours: &Cables, theirs: &Cables) -> Pairs {
    fn group(cables: &Cables) -> BTreeMap<(&str, &str), Vec<&CableEnds>> {
        let mut groups: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for key in cables.keys() {
            groups.entry((key.a.node.as_str(), key.b.node.as_str())).or_default().push(key);
        }
        groups
    }
    let theirs = group(theirs);
    // The shorter list ends a group, so surplus parallel cables stay behind as missing or extra.
    let pairs = group(ours).into_iter().filter_map(|(nodes, ours)| Some((ours, theirs.get(&nodes)?)));
    pairs.flat_map(|(ours, theirs)| ours.into_iter().zip(theirs).map(|(a, b)| (a.clone(), (*b).clone())).collect::<Vec<_>>()).collect()
}

/// Both directions of a cable between `a` and `b`; `there` goes from `a` to `b` in both.
fn compare_sides(a: &End, b: &End, our: &Directions, their: &Directions, diff: &mut Diff) {
    let sides = [(a, b, our.there, their.there), (b, a, our.back, their.back)];
    for (from, to, intended, observed) in sides {
        let (from, to) = (from.clone(), to.clone());
        match (intended, observed) {
            (Some(_), None) => diff.one_way.push(OneWay { from, to, missing_in: "observed" }),
            (None, Some(_)) => diff.one_way.push(OneWay { from, to, missing_in: "intended" }),
            (Some(Some(a)), Some(Some(b))) if a != b => {
                diff.capacities.push(CapacityMismatch { from, to, intended_mbps: a.mbps(), observed_mbps: b.mbps() });
            }
            // An unknown capacity contradicts nothing.
            _ => {}
        }
    }
}

/// Joins a missing and an extra cable that share one end: a port, and not a number of ours.
fn take_moved(ours: &mut Cables, theirs: &mut Cables, diff: &mut Diff) {
    let mut by_end: BTreeMap<&End, BTreeSet<&CableEnds>> = BTreeMap::new();
    for key in theirs.keys() {
        for end in [&key.a, &key.b].into_iter().filter(|end| !end.numbered) {
            by_end.entry(end).or_default().insert(key);
        }
    }
    let mut taken: BTreeSet<&CableEnds> = BTreeSet::new();
    let (mut ours_gone, mut theirs_gone) = (Vec::new(), Vec::new());
    for (key, our) in ours.iter() {
        // Either end may be the one that stayed; the smaller end is tried first, so the outcome is fixed.
        let shared = [(&key.a, &key.b), (&key.b, &key.a)].into_iter().find_map(|(kept, intended)| {
            let found = by_end.get(kept)?.iter().copied().find(|found| !taken.contains(found))?;
            Some((kept, intended, found))
        });
        if let Some((kept, intended, found)) = shared {
            let observed = if found.a == *kept { &found.b } else { &found.a };
            diff.moved.push(Moved { kept: kept.clone(), intended: intended.clone(), observed: observed.clone() });
            if let Some(their) = theirs.get(found) {
                // A moved cable may differ in capacity too, so both fabrics are turned to face the end that stayed.
                compare_sides(kept, observed, &our.seen_from(kept, key), &their.seen_from(kept, found), diff);
            }
            taken.insert(found);
            ours_gone.push(key.clone());
            theirs_gone.push(found.clone());
        }
    }
    // The loop above borrows both maps, so the removal waits for its end.
    for key in &ours_gone {
        ours.remove(key);
    }
    for key in &theirs_gone {
        theirs.remove(key);
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A numbered port has no name on the device that a person could look for.
        if self.numbered { f.write_str(&self.node) } else { write!(f, "{}:{}", self.node, self.port) }
    }
}

impl Diff {
    /// Each difference: its kind, and where it is.
    #[must_use]
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let rate = |mbps: u64| Rate(mbps).to_string();
        let nodes = self.missing_nodes.iter().map(|node| ("missing node", node.clone()));
        let extra = self.extra_nodes.iter().map(|node| ("extra node", node.clone()));
        let kinds = self
            .kinds
            .iter()
            .map(|KindMismatch { node, intended, observed }| ("other kind", format!("{node}: intended {intended}, observed {observed}")));
        let cable = |kind| move |CableEnds { a, b }: &CableEnds| (kind, format!("{a} -- {b}"));
        let moved = self
            .moved
            .iter()
            .map(|Moved { kept, intended, observed }| ("moved cable", format!("{kept}: intended to {intended}, observed to {observed}")));
        let capacities = self.capacities.iter().map(|CapacityMismatch { from, to, intended_mbps, observed_mbps }| {
            let (intended, observed) = (rate(*intended_mbps), rate(*observed_mbps));
            ("capacity", format!("{from} -> {to}: intended {intended}, observed {observed}"))
        });
        let one_way =
            self.one_way.iter().map(|OneWay { from, to, missing_in }| ("one way", format!("{from} -> {to}: not in {missing_in}")));
        let gpus = self
            .gpus
            .iter()
            .map(|GpusMismatch { host, intended, observed }| ("other GPUs", format!("{host}: intended {intended}, observed {observed}")));
        let cables = self.missing.iter().map(cable("missing cable")).chain(self.extra.iter().map(cable("extra cable"))).chain(moved);
        nodes.chain(extra).chain(kinds).chain(cables).chain(capacities).chain(one_way).chain(gpus).collect()
    }
}

impl fmt::Display for Diff {
    /// One line per difference, its kind first.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines().iter().try_for_each(|(kind, place)| writeln!(f, "{kind:<15}{place}"))
    }
}

#[cfg(test)]
mod tests;
