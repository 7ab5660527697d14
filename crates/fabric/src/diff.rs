//! Differences between the cabling of a plan and the cabling that is there.

use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    string::{String, ToString},
    vec::Vec,
};
use core::fmt;

use serde::Serialize;
use units::Rate;

use crate::{Fabric, Link, NodeKind, Port};

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
        nodes + self.missing.len() + self.extra.len() + self.moved.len() + self.capacities.len() + self.one_way.len()
    }
}

/// The differences between a plan and what is there.
#[must_use]
pub fn diff(intended: &Fabric, observed: &Fabric, by: MatchBy) -> Diff {
    let mut diff = Diff::default();
    compare_nodes(intended, observed, &mut diff);
    let (mut ours, mut theirs) = (cables(intended), cables(observed));
    // Pairs come before moved cables: a cable that has a partner stands where it should.
    let pairs = match by {
        MatchBy::Ports => pair_by_ports(&ours, &theirs),
        MatchBy::Nodes => pair_by_nodes(&ours, &theirs),
    };
    for (our_key, their_key) in pairs {
        // Compared cables leave both maps, so the rest at the end is missing or extra.
        if let (Some(our), Some(their)) = (ours.remove(&our_key), theirs.remove(&their_key)) {
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
    diff
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

fn cables(fabric: &Fabric) -> Cables {
    let end = |port: &Port| End { node: fabric.node(port.node).name.clone(), port: port.name.clone(), numbered: fabric.is_numbered(port) };
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

impl fmt::Display for Diff {
    /// One line per difference, its kind first.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for node in &self.missing_nodes {
            writeln!(f, "missing node   {node}")?;
        }
        for node in &self.extra_nodes {
            writeln!(f, "extra node     {node}")?;
        }
        for KindMismatch { node, intended, observed } in &self.kinds {
            writeln!(f, "other kind     {node}: intended {intended}, observed {observed}")?;
        }
        for CableEnds { a, b } in &self.missing {
            writeln!(f, "missing cable  {a} -- {b}")?;
        }
        for CableEnds { a, b } in &self.extra {
            writeln!(f, "extra cable    {a} -- {b}")?;
        }
        for Moved { kept, intended, observed } in &self.moved {
            writeln!(f, "moved cable    {kept}: intended to {intended}, observed to {observed}")?;
        }
        for CapacityMismatch { from, to, intended_mbps, observed_mbps } in &self.capacities {
            let (intended, observed) = (Rate(*intended_mbps).to_string(), Rate(*observed_mbps).to_string());
            writeln!(f, "capacity       {from} -> {to}: intended {intended}, observed {observed}")?;
        }
        for OneWay { from, to, missing_in } in &self.one_way {
            writeln!(f, "one way        {from} -> {to}: not in {missing_in}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::read;

    const PLAN: &str = "schema: antiphase.fabric/v1
hosts: [h1, h2, h3]
switches: [{name: leaf1, tier: 1}, {name: spine1, tier: 2}]
cables:
  - {ends: ['h1:e', 'leaf1:p1'], capacity: 100G}
  - {ends: ['h2:e', 'leaf1:p2'], capacity: 100G}
  - {ends: ['h3:e', 'leaf1:p3'], capacity: 100G}
  - {ends: ['leaf1:up', 'spine1:p1'], capacity: 400G}
";

    fn lines(observed: &str, by: MatchBy) -> Vec<String> {
        let diff = diff(&read(PLAN).unwrap(), &read(observed).unwrap(), by);
        assert_eq!(diff.count(), diff.to_string().lines().count());
        diff.to_string().lines().map(String::from).collect()
    }

    #[test]
    fn a_fabric_does_not_differ_from_itself() {
        assert_eq!(lines(PLAN, MatchBy::Ports), [""; 0]);
        assert!(diff(&read(PLAN).unwrap(), &read(PLAN).unwrap(), MatchBy::Nodes).is_empty());
    }

    #[test]
    fn swapped_cables_are_moved_not_missing() {
        let swapped = PLAN.replace("'leaf1:p1'", "'leaf1:px'").replace("'leaf1:p2'", "'leaf1:p1'").replace("'leaf1:px'", "'leaf1:p2'");
        assert_eq!(
            lines(&swapped, MatchBy::Ports),
            [
                "moved cable    h1:e: intended to leaf1:p1, observed to leaf1:p2",
                "moved cable    h2:e: intended to leaf1:p2, observed to leaf1:p1"
            ]
        );
        assert_eq!(lines(&swapped, MatchBy::Nodes), [""; 0]);
    }

    #[test]
    fn a_moved_cable_is_still_compared() {
        // h1 sorts before leaf1 and after aaa: the ends of the observed cable change places.
        let observed = PLAN.replace("['h1:e', 'leaf1:p1'], capacity: 100G", "['h1:e', 'aaa:x'], capacity: 100G, reverse: {capacity: 10G}");
        let observed = observed.replace("switches: [", "switches: [{name: aaa}, ");
        assert_eq!(
            lines(&observed, MatchBy::Ports),
            [
                "extra node     aaa",
                "moved cable    h1:e: intended to leaf1:p1, observed to aaa:x",
                "capacity       aaa:x -> h1:e: intended 100 Gb/s, observed 10 Gb/s"
            ]
        );
    }

    #[test]
    fn every_kind_of_difference_is_named() {
        let observed = "schema: antiphase.fabric/v1
hosts: [h1, h2, spine1, h9]
switches: [{name: leaf1, tier: 2}]
cables:
  - {ends: ['h1:e', 'leaf1:p1'], capacity: 100G, reverse: {capacity: 25G}}
  - {ends: ['h2:e', 'leaf1:p2'], one_way: true}
  - {ends: ['h9:e', 'leaf1:p9']}
  - {ends: ['leaf1:up', 'spine1:p1'], capacity: unknown}
";
        assert_eq!(
            lines(observed, MatchBy::Ports),
            [
                "missing node   h3",
                "extra node     h9",
                "other kind     leaf1: intended switch of tier 1, observed switch of tier 2",
                "other kind     spine1: intended switch of tier 2, observed host",
                "missing cable  h3:e -- leaf1:p3",
                "extra cable    h9:e -- leaf1:p9",
                "capacity       leaf1:p1 -> h1:e: intended 100 Gb/s, observed 25 Gb/s",
                "one way        leaf1:p2 -> h2:e: not in observed",
            ]
        );
    }

    /// A plan that names no ports, and what LLDP saw: the numbers p0, p1 of the plan say nothing.
    const PORTLESS: &str = "schema: antiphase.fabric/v1
hosts: [h1, h2]
switches: [{name: leaf1, tier: 1}, {name: spine1, tier: 2}]
cables:
  - {ends: ['h1:eth0', leaf1], capacity: 100G}
  - {ends: ['h2:eth0', leaf1], capacity: 100G}
  - {ends: [leaf1, spine1], capacity: 400G, parallel: 2}
";
    const SEEN: &str = "schema: antiphase.fabric/v1
hosts: [h1, h2]
switches: [{name: leaf1, tier: 1}, {name: spine1, tier: 2}]
cables:
  - {ends: ['h1:eth0', 'leaf1:Ethernet8'], capacity: 100G}
  - {ends: ['h2:eth0', 'leaf1:Ethernet0'], capacity: 100G}
  - {ends: ['leaf1:Ethernet16', 'spine1:p1'], capacity: 400G}
  - {ends: ['leaf1:Ethernet20', 'spine1:p0'], capacity: 400G}
";

    fn between(intended: &str, observed: &str) -> Vec<String> {
        let diff = diff(&read(intended).unwrap(), &read(observed).unwrap(), MatchBy::Ports);
        assert_eq!(diff.count(), diff.to_string().lines().count());
        diff.to_string().lines().map(String::from).collect()
    }

    #[test]
    fn ports_that_a_plan_does_not_name_are_matched_by_their_peer() {
        assert_eq!(between(PORTLESS, SEEN), [""; 0]);
        assert_eq!(between(SEEN, PORTLESS), [""; 0]);
        // Written and read again, a number is still a number.
        let again = |text: &str| crate::native::write_yaml(&read(text).unwrap());
        assert_eq!(between(&again(PORTLESS), &again(SEEN)), [""; 0]);
    }

    #[test]
    fn what_differs_is_named_as_far_as_it_has_a_name() {
        assert_eq!(
            between(PORTLESS, &SEEN.replace("'leaf1:Ethernet8'], capacity: 100G", "'leaf1:Ethernet8'], capacity: 25G")),
            [
                "capacity       h1:eth0 -> leaf1:Ethernet8: intended 100 Gb/s, observed 25 Gb/s",
                "capacity       leaf1:Ethernet8 -> h1:eth0: intended 100 Gb/s, observed 25 Gb/s"
            ]
        );
        assert_eq!(
            between(PORTLESS, &SEEN.replace("['h2:eth0', 'leaf1:Ethernet0']", "['h2:eth0', 'spine1:p7']")),
            ["moved cable    h2:eth0: intended to leaf1, observed to spine1:p7"]
        );
        assert_eq!(
            between(PORTLESS, &SEEN.replace("  - {ends: ['leaf1:Ethernet20', 'spine1:p0'], capacity: 400G}\n", "")),
            ["missing cable  leaf1 -- spine1"]
        );
        // Another NIC of the host is another cable, whatever the leaf's port.
        assert_eq!(
            between(PORTLESS, &SEEN.replace("h2:eth0", "h2:eth1")),
            ["missing cable  h2:eth0 -- leaf1", "extra cable    h2:eth1 -- leaf1:Ethernet0"]
        );
    }

    #[test]
    fn matching_by_nodes_counts_parallel_cables() {
        let observed = PLAN.replace(
            "  - {ends: ['leaf1:up', 'spine1:p1']",
            "  - {ends: ['leaf1:up9', 'spine1:p2'], capacity: 400G}\n  - {ends: ['leaf1:upX', 'spine1:p1']",
        );
        assert_eq!(lines(&observed, MatchBy::Nodes), ["extra cable    leaf1:upX -- spine1:p1"]);
    }
}
