//! A fabric beside what is seen of it now, by systems of which each sees its own ports only.

use alloc::collections::{BTreeMap, BTreeSet};

use units::NodeId;

use super::{CableEnds, Diff, End, MatchBy, compare};
use crate::{Fabric, FabricBuilder, FabricError, Link, NodeKind, Port, Provenance};

/// Name of a fabric that is made of what was seen and of nothing else: it grows with what is seen, and one of another name does not.
pub const OBSERVED_NAME: &str = "observed";

/// What an observation says of a fabric.
#[derive(Clone, Debug)]
pub struct Observation {
    /// The fabric, with what was seen of it.
    pub merged: Fabric,
    /// The differences. What nobody could have seen is none.
    pub diff: Diff,
    /// Cables of the fabric that were seen where they should be.
    pub confirmed: usize,
    /// Cables of the fabric that nobody could have seen.
    pub unseen: usize,
}

/// Compares a fabric with what was seen of it. `looked` has the systems that told what they see, and whether they looked for long enough
/// that a cable which they did not see is not there.
///
/// In the merged fabric, cables that were seen where they should be are `observed`, with the capacity that was seen where nobody stated one;
/// nodes and cables that only an observation knows come last, as far as their ports are free. A node is a host or a switch as its own system
/// says. Cables in another place stay where they were, and nodes that only such a cable names are none.
///
/// Names of ports are compared on nodes where the fabric and the observation have one in common: names that a plan made up are none.
///
/// # Errors
/// [`FabricError::TooLarge`] when both together exceed the limits of a fabric.
pub fn observe(intended: &Fabric, observed: &Fabric, looked: &BTreeMap<&str, bool>) -> Result<Observation, FabricError> {
    let (mut diff, pairs) = compare(intended, observed, MatchBy::Ports, &nameless(intended, observed));
    let merged = merge(intended, observed, &pairs, &diff, looked)?;
    let sees = |node: &str| looked.get(node) == Some(&true);
    let count = diff.missing.len();
    diff.missing.retain(|cable| sees(&cable.a.node) || sees(&cable.b.node));
    let seen_from = |node: &str| {
        let links = intended.find(node).map_or(&[][..], |id| intended.links_from(id));
        links.iter().any(|&link| sees(&intended.node(intended.link(link).to.node).name))
    };
    diff.missing_nodes.retain(|node| sees(node) || seen_from(node));
    // A tier is a distance from hosts, of which some may not be seen.
    diff.kinds.retain(|kind| kind.intended == "host" || kind.observed == "host");
    let unseen = count - diff.missing.len();
    Ok(Observation { merged, confirmed: pairs.len(), unseen, diff })
}

/// Nodes of which the fabric names no port as the observation does.
fn nameless(intended: &Fabric, observed: &Fabric) -> BTreeSet<NodeId> {
    let seen = |node: &str| -> BTreeSet<&str> {
        let links = observed.find(node).map_or(&[][..], |id| observed.links_from(id));
        links.iter().map(|&link| observed.link(link).from.name.as_str()).collect()
    };
    let differs = |(index, node): (usize, &crate::Node)| {
        let id = NodeId(index as u32);
        let seen = seen(&node.name);
        let mut named = intended.links_from(id).iter().map(|&link| intended.link(link).from.name.as_str());
        (!seen.is_empty() && !named.any(|port| seen.contains(port))).then_some(id)
    };
    intended.nodes().iter().enumerate().filter_map(differs).collect()
}

fn merge(
    intended: &Fabric,
    observed: &Fabric,
    pairs: &[(CableEnds, CableEnds)],
    diff: &Diff,
    looked: &BTreeMap<&str, bool>,
) -> Result<Fabric, FabricError> {
    let mut builder = FabricBuilder::new(intended.name());
    for (at, node) in intended.nodes().iter().enumerate() {
        let said = observed.find(&node.name).map(|id| class(observed.node(id).kind));
        let kind = match (said, looked.contains_key(node.name.as_str())) {
            (Some(said), true) if said != class(node.kind) => said,
            _ => node.kind,
        };
        let id = builder.node(&node.name, kind)?;
        // Nobody sees GPUs on a cable: what was stated stays.
        if let Some(gpus) = NodeId::from_index(at).and_then(|own| intended.gpus(own)).filter(|_| kind == NodeKind::Host) {
            builder.gpus(id, gpus.clone());
        }
    }
    let seen = seen_directions(observed, pairs);
    for link in intended.links() {
        // Nodes and links keep their order, so that ids are the same in both.
        let found = seen.get(&(name_of(intended, &link.from), name_of(intended, &link.to)));
        let (capacity, provenance) = match found {
            Some(their) => (link.capacity.or(their.capacity), Provenance::Observed),
            None => (link.capacity, link.provenance),
        };
        for port in [&link.from, &link.to].into_iter().filter(|port| intended.is_numbered(port)) {
            builder.numbered(port.clone());
        }
        builder.link(link.from.clone(), link.to.clone(), capacity, provenance)?;
    }
    // Of a node at the other end of a moved cable only the difference is known: what somebody says on one cable, each time by another name, is
    // not many nodes.
    let cabled: BTreeSet<&str> = diff.extra.iter().flat_map(|cable| [cable.a.node.as_str(), cable.b.node.as_str()]).collect();
    for node in diff.extra_nodes.iter().filter(|node| cabled.contains(node.as_str()) || looked.contains_key(node.as_str())) {
        if let Some(id) = observed.find(node) {
            builder.node(node, class(observed.node(id).kind))?;
        }
    }
    add_extra(&mut builder, observed, diff)?;
    Ok(builder.build())
}

/// What a node is, without the tier, which is for the fabric to find.
fn class(kind: NodeKind) -> NodeKind {
    match kind {
        NodeKind::Host => kind,
        NodeKind::Switch { .. } => NodeKind::Switch { tier: 0 },
    }
}

/// Cables that only the observation knows, where both ports are free.
fn add_extra(builder: &mut FabricBuilder, observed: &Fabric, diff: &Diff) -> Result<(), FabricError> {
    let extra: BTreeSet<&CableEnds> = diff.extra.iter().collect();
    let end =
        |port: &Port| End { node: observed.node(port.node).name.clone(), port: port.name.clone(), numbered: observed.is_numbered(port) };
    for link in observed.links() {
        let (from, to) = (end(&link.from), end(&link.to));
        let key = if from <= to { CableEnds { a: from, b: to } } else { CableEnds { a: to, b: from } };
        if !extra.contains(&key) {
            continue;
        }
        let there = |builder: &FabricBuilder, port: &Port| {
            let node = builder.find(&observed.node(port.node).name)?;
            Some(Port { node, name: port.name.clone() })
        };
        let (Some(from), Some(to)) = (there(builder, &link.from), there(builder, &link.to)) else { continue };
        match builder.link(from, to, link.capacity, Provenance::Observed) {
            // A port of that name may carry another cable of the plan, which stays.
            Ok(_) | Err(FabricError::PortTaken { .. } | FabricError::SelfLink { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A port by name: node, port.
type Place<'a> = (&'a str, &'a str);

fn name_of<'a>(fabric: &'a Fabric, port: &'a Port) -> Place<'a> {
    (&fabric.node(port.node).name, &port.name)
}

/// The observed direction for each direction of a cable of the plan that was seen, by the plan's names.
fn seen_directions<'a>(observed: &'a Fabric, pairs: &'a [(CableEnds, CableEnds)]) -> BTreeMap<(Place<'a>, Place<'a>), &'a Link> {
    let theirs: BTreeMap<(Place<'_>, Place<'_>), &Link> =
        observed.links().iter().map(|link| ((name_of(observed, &link.from), name_of(observed, &link.to)), link)).collect();
    let place = |end: &'a End| -> Place<'a> { (&end.node, &end.port) };
    let mut seen = BTreeMap::new();
    for (our, their) in pairs {
        // Both keys have the smaller end first, and ends of a pair are on the same nodes.
        for (from, to) in [(0, 1), (1, 0)] {
            let (our, their) = ([place(&our.a), place(&our.b)], [place(&their.a), place(&their.b)]);
            if let Some(link) = theirs.get(&(their[from], their[to])) {
                seen.insert((our[from], our[to]), *link);
            }
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use alloc::{
        string::{String, ToString},
        vec::Vec,
    };

    use units::Rate;

    use super::*;
    use crate::native::{read, write_yaml};

    const PLAN: &str = "schema: antiphase.fabric/v1
hosts: [h1, h2, h3]
switches: [{name: leaf1, tier: 1}, {name: spine1, tier: 2}]
cables:
  - {ends: ['h1:eth0', 'leaf1:p1'], capacity: 100G}
  - {ends: ['h2:eth0', 'leaf1:p2'], capacity: unknown}
  - {ends: ['h3:eth0', 'leaf1:p3'], capacity: 100G}
  - {ends: ['leaf1:up', 'spine1:p1'], capacity: 400G}
";

    fn seen(cables: &str) -> Fabric {
        read(&alloc::format!(
            "schema: antiphase.fabric/v1\ndefaults: {{provenance: observed}}\nhosts: [h1, h2]\nswitches: [{{name: leaf1}}]\ncables:\n{cables}"
        ))
        .unwrap()
    }

    fn lines(observation: &Observation) -> Vec<String> {
        observation.diff.to_string().lines().map(String::from).collect()
    }

    #[test]
    fn what_nobody_could_see_is_not_missing() {
        let observed = seen("  - {ends: ['h1:eth0', 'leaf1:p1'], capacity: 100G}\n  - {ends: ['h2:eth0', 'leaf1:p2'], capacity: 25G}\n");
        let found = observe(&read(PLAN).unwrap(), &observed, &BTreeMap::from([("h1", true), ("h2", true)])).unwrap();
        assert_eq!(lines(&found), [""; 0]);
        assert_eq!((found.confirmed, found.unseen), (2, 2));
        // What was seen is observed, with its capacity where nobody stated one; the rest is as it was.
        let known: Vec<_> = found.merged.links().iter().step_by(2).map(|link| (link.capacity.map(Rate::mbps), link.provenance)).collect();
        let (seen, stated) = (Provenance::Observed, Provenance::Intended);
        assert_eq!(known, [(Some(100_000), seen), (Some(25_000), seen), (Some(100_000), stated), (Some(400_000), stated)]);
        // The same cables are missing where a system looked for long enough and did not see them.
        let found = observe(&read(PLAN).unwrap(), &observed, &BTreeMap::from([("h1", true), ("h2", true), ("h3", true)])).unwrap();
        assert_eq!(lines(&found), ["missing node   h3", "missing cable  h3:eth0 -- leaf1:p3"]);
        let found = observe(&read(PLAN).unwrap(), &observed, &BTreeMap::from([("leaf1", true), ("h3", false)])).unwrap();
        let expected =
            ["missing node   h3", "missing node   spine1", "missing cable  h3:eth0 -- leaf1:p3", "missing cable  leaf1:up -- spine1:p1"];
        assert_eq!(lines(&found), expected);
    }

    #[test]
    fn cables_in_another_place_are_said_and_not_merged() {
        let observed = seen(
            "  - {ends: ['h1:eth0', 'leaf1:p2'], capacity: 100G}\n  - {ends: ['h2:eth0', 'leaf1:p1']}\n  - {ends: ['h2:eth1', 'leaf1:p9']}\n",
        );
        let plan = read(PLAN).unwrap();
        let found = observe(&plan, &observed, &BTreeMap::from([("h1", true), ("h2", true)])).unwrap();
        let expected = [
            "extra cable    h2:eth1 -- leaf1:p9",
            "moved cable    h1:eth0: intended to leaf1:p1, observed to leaf1:p2",
            "moved cable    h2:eth0: intended to leaf1:p2, observed to leaf1:p1",
        ];
        assert_eq!(lines(&found), expected);
        // The cable that nobody intended is there; the moved ones are where they were, and ids are the same.
        assert_eq!((found.merged.links().len(), found.confirmed), (plan.links().len() + 2, 0));
        assert_eq!(found.merged.links()[..plan.links().len()], *plan.links());
        assert!(observe(&found.merged, &observed, &BTreeMap::new()).unwrap().diff.extra.is_empty());
    }

    /// Names that a plan made up are no names of the devices; a single name in common says that they are.
    #[test]
    fn made_up_port_names_are_not_compared() {
        let plan = read(&PLAN.replace("eth0", "nic0").replace("leaf1:p", "leaf1:down")).unwrap();
        let observed = seen("  - {ends: ['h1:ens1f0', 'leaf1:Ethernet0']}\n  - {ends: ['h2:ens1f0', 'leaf1:Ethernet4']}\n");
        let found = observe(&plan, &observed, &BTreeMap::from([("h1", true), ("h2", true)])).unwrap();
        assert_eq!((lines(&found), found.confirmed), (Vec::new(), 2));
    }

    #[test]
    fn what_is_seen_grows_a_fabric_from_nothing_and_changes_nothing_when_seen_again() {
        let none = FabricBuilder::new(OBSERVED_NAME).build();
        let first = seen("  - {ends: ['h1:eth0', 'leaf1:p1'], capacity: 100G}\n");
        let looked = BTreeMap::from([("h1", true), ("h2", true)]);
        let one = observe(&none, &first, &looked).unwrap().merged;
        assert_eq!((one.name(), one.links().len(), one.nodes().len()), (OBSERVED_NAME, 2, 3));
        // h2 has no cable yet; then it has.
        let second = seen("  - {ends: ['h1:eth0', 'leaf1:p1'], capacity: 100G}\n  - {ends: ['h2:eth0', 'leaf1:p2'], capacity: 100G}\n");
        let two = observe(&one, &second, &looked).unwrap().merged;
        assert_eq!(two.links()[..2], *one.links());
        let again = observe(&two, &second, &looked).unwrap();
        assert_eq!((write_yaml(&again.merged), again.diff.is_empty(), again.confirmed), (write_yaml(&two), true, 2));
        // A cable that is gone stays in the fabric, and is said.
        let gone = observe(&two, &first, &looked).unwrap();
        assert_eq!((write_yaml(&gone.merged), lines(&gone)), (write_yaml(&two), ["missing cable  h2:eth0 -- leaf1:p2".into()].to_vec()));
    }

    #[test]
    fn a_cable_that_names_another_node_each_time_adds_none() {
        let none = FabricBuilder::new(OBSERVED_NAME).build();
        let looked = BTreeMap::from([("h1", true)]);
        let names = |fabric: &Fabric| fabric.nodes().iter().map(|node| node.name.to_string()).collect::<Vec<_>>();
        let mut fabric = none;
        for round in 0..9 {
            let text = alloc::format!(
                "schema: antiphase.fabric/v1\nhosts: [h1]\nswitches: [{{name: leaf{round}}}]\ncables:\n  - {{ends: ['h1:eth0', 'leaf{round}:p1']}}\n"
            );
            fabric = observe(&fabric, &read(&text).unwrap(), &looked).unwrap().merged;
            assert_eq!((names(&fabric), fabric.links().len()), (["h1", "leaf0"].map(String::from).to_vec(), 2));
        }
    }

    #[test]
    fn a_system_says_itself_what_it_is() {
        let plan = "schema: antiphase.fabric/v1\nhosts: [h1]\ngpus: [{count: 8}]\nswitches: [{name: h2}, {name: leaf1}]\ncables: []\n";
        let plan = read(plan).unwrap();
        let observed = seen("  - {ends: ['h1:eth0', 'leaf1:p1']}\n");
        let of = |looked| observe(&plan, &observed, &looked).unwrap();
        let (heard, own) = (of(BTreeMap::from([("h1", true)])), of(BTreeMap::from([("h1", true), ("h2", false)])));
        assert_eq!(heard.merged.hosts().count(), 1);
        // Nobody sees GPUs on a cable: what the plan states of them stays.
        let gpus: Vec<Option<u32>> = own.merged.hosts().map(|host| own.merged.gpus(host).and_then(|gpus| gpus.count)).collect();
        assert_eq!(gpus, [Some(8), None]);
        assert_eq!(own.merged.hosts().count(), 2);
        assert!(own.diff.to_string().contains("other kind     h2: intended switch, observed host"));
    }
}
