//! A tree of switches: every child known, every switch under one parent, no cycle.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::String,
    vec,
    vec::Vec,
};

use super::Switch;
use crate::{
    FabricError, Finding, NodeKind, Provenance,
    import::{
        Imported,
        cabling::Cabling,
        place::{check_name, document, listed, quoted},
    },
};

/// Levels of switches: Slurm itself gives up on a tree deeper than 20.
const LEVELS_MAX: u8 = 20;

/// Builds the statements of a tree.
pub(super) fn tree(switches: &[Switch]) -> Result<Imported, FabricError> {
    // The shape is checked first: the loops below rely on one parent for each switch and on no cycle.
    let by_name = index_by_name(switches)?;
    let parents = parents(switches, &by_name)?;
    let tiers = tiers(switches, &parents)?;

    let mut imported = Imported::default();
    let Imported { cabling, findings } = &mut imported;
    // Switches are declared before hosts, so that a host with the name of a switch is found out.
    for (switch, &tier) in switches.iter().zip(&tiers) {
        let node = cabling.node(&switch.name)?;
        findings.extend(cabling.state_kind(node, NodeKind::Switch { tier }, Provenance::Intended));
        if switch.hosts.is_empty() && switch.children.is_empty() {
            let message = format!("{}: switch {} has neither nodes nor switches", switch.place, quoted(&switch.name));
            findings.push(Finding { kind: "empty-switch", message });
        }
    }
    let mut leaves_of: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (i, switch) in switches.iter().enumerate() {
        for host in attach_hosts(cabling, findings, &switch.name, &switch.place, &switch.hosts)? {
            leaves_of.entry(host).or_default().push(i);
        }
    }
    for (host, leaves) in leaves_of.iter().filter(|(_, leaves)| leaves.len() > 1) {
        let names = listed(leaves.iter().map(|&i| switches[i].name.as_str()), 6);
        let message = format!("{} hangs off {} switches: {names}; one cable to each is taken", quoted(cabling.name(*host)), leaves.len());
        findings.push(Finding { kind: "multi-homed-host", message });
    }
    for (switch, parent) in switches.iter().zip(&parents) {
        if let Some(parent) = parent {
            let (child, parent) = (cabling.node(&switch.name)?, cabling.node(&switches[*parent].name)?);
            cabling.edge(child, parent, Provenance::Intended)?;
        }
    }
    Ok(imported)
}

/// Declares hosts and cables each to `switch`; returns them. A host listed twice there is a
/// finding, and a host with the name of a switch an error.
pub(super) fn attach_hosts(
    cabling: &mut Cabling,
    findings: &mut Vec<Finding>,
    switch: &str,
    place: &str,
    hosts: &[String],
) -> Result<Vec<u32>, FabricError> {
    let to = cabling.node(switch)?;
    // Repetitions are found in a sorted copy, because the hosts keep their own order.
    let mut sorted: Vec<&str> = hosts.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    let twice: Vec<&str> = sorted.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
    if !twice.is_empty() {
        let message = format!("{place}: {} lists {} more than once", quoted(switch), listed(twice.iter().copied(), 6));
        findings.push(Finding { kind: "duplicate-node", message });
    }
    let mut attached = Vec::with_capacity(hosts.len());
    let mut seen = BTreeSet::new();
    for name in hosts {
        check_name(|| place.into(), name)?;
        let host = cabling.node(name)?;
        if !seen.insert(host) {
            continue;
        }
        if matches!(cabling.nodes[host as usize].kind, Some((NodeKind::Switch { .. }, _))) {
            return Err(document(place, format!("{} is a node of {} and also a switch", quoted(name), quoted(switch))));
        }
        findings.extend(cabling.state_kind(host, NodeKind::Host, Provenance::Intended));
        cabling.edge(host, to, Provenance::Intended)?;
        attached.push(host);
    }
    Ok(attached)
}

fn index_by_name(switches: &[Switch]) -> Result<BTreeMap<&str, usize>, FabricError> {
    let mut by_name: BTreeMap<&str, usize> = BTreeMap::new();
    for (i, switch) in switches.iter().enumerate() {
        check_name(|| switch.place.clone(), &switch.name)?;
        if switch.name.contains(['[', ']', ',']) {
            return Err(document(&*switch.place, format!("a switch has one name, not the list {}", quoted(&switch.name))));
        }
        if !switch.hosts.is_empty() && !switch.children.is_empty() {
            return Err(document(&*switch.place, format!("switch {} has both nodes and switches", quoted(&switch.name))));
        }
        if let Some(first) = by_name.insert(&switch.name, i) {
            let problem = format!("switch {} is declared twice, first at {}", quoted(&switch.name), switches[first].place);
            return Err(document(&*switch.place, problem));
        }
    }
    Ok(by_name)
}

/// The parent of each switch.
fn parents(switches: &[Switch], by_name: &BTreeMap<&str, usize>) -> Result<Vec<Option<usize>>, FabricError> {
    let mut parents: Vec<Option<usize>> = vec![None; switches.len()];
    for (i, switch) in switches.iter().enumerate() {
        for child in &switch.children {
            let name = quoted(&switch.name);
            let Some(&index) = by_name.get(child.as_str()) else {
                return Err(document(&*switch.place, format!("switch {name} has the unknown child {}", quoted(child))));
            };
            if let Some(first) = parents[index] {
                let (first, place) = (&switches[first].name, &switches[first].place);
                let problem =
                    format!("switch {} is a child of {name} and of {} ({place}); a tree has one parent", quoted(child), quoted(first));
                return Err(document(&*switch.place, problem));
            }
            parents[index] = Some(i);
        }
    }
    Ok(parents)
}

/// The tier of each switch, 1 for one without child switches; an error when the parents run in a
/// circle or the tree is too deep.
fn tiers(switches: &[Switch], parents: &[Option<usize>]) -> Result<Vec<u8>, FabricError> {
    // Kahn's algorithm from the leaves: a switch is ready when all of its children are done.
    let mut open = vec![0_usize; switches.len()];
    parents.iter().flatten().for_each(|&parent| open[parent] += 1);
    let mut tiers = vec![1_u8; switches.len()];
    let mut ready: Vec<usize> = (0..switches.len()).filter(|&i| open[i] == 0).collect();
    let mut done = 0;
    while let Some(i) = ready.pop() {
        done += 1;
        let Some(parent) = parents[i] else { continue };
        // LEVELS_MAX is checked at every step, so the sum stays far below 255.
        tiers[parent] = tiers[parent].max(tiers[i] + 1);
        if tiers[parent] > LEVELS_MAX {
            let problem = format!("switch {} is above {LEVELS_MAX} levels of switches", quoted(&switches[parent].name));
            return Err(document(&*switches[parent].place, problem));
        }
        open[parent] -= 1;
        if open[parent] == 0 {
            ready.push(parent);
        }
    }
    if done == switches.len() {
        return Ok(tiers);
    }
    // A switch that still waits for a child is in a cycle: a cycle lies below it, and the only parent of a
    // member is a member.
    let at = open.iter().position(|&n| n > 0).unwrap_or_default();
    let mut cycle = vec![at];
    let mut next = parents[at];
    // The walk comes back to `at`; the length only guards the loop.
    while let Some(i) = next.filter(|&i| i != at && cycle.len() <= switches.len()) {
        cycle.push(i);
        next = parents[i];
    }
    let names = listed(cycle.iter().map(|&i| switches[i].name.as_str()), 8);
    Err(document(&*switches[at].place, format!("switches are above themselves: {names}")))
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    fn switch(name: &str, hosts: &[&str], children: &[&str]) -> Switch {
        let own = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        Switch { name: name.into(), place: format!("at {name}"), hosts: own(hosts), children: own(children) }
    }

    fn error(switches: &[Switch]) -> String {
        tree(switches).unwrap_err().to_string()
    }

    #[test]
    fn tiers_count_from_the_leaves() {
        let switches = [
            switch("core", &[], &["mid", "l3"]),
            switch("mid", &[], &["l1", "l2"]),
            switch("l1", &["h1"], &[]),
            switch("l2", &["h2"], &[]),
            switch("l3", &["h3"], &[]),
        ];
        let imported = tree(&switches).unwrap();
        let kinds: Vec<NodeKind> = imported.cabling.nodes.iter().take(5).map(|n| n.kind.unwrap().0).collect();
        let tier = |tier| NodeKind::Switch { tier };
        assert_eq!(kinds, [tier(3), tier(2), tier(1), tier(1), tier(1)]);
        // 3 hosts and 4 switches with a parent.
        assert_eq!(imported.cabling.cables.len(), 7);
        assert!(imported.findings.is_empty());
    }

    #[test]
    fn what_is_not_a_tree_is_an_error() {
        assert_eq!(error(&[switch("a", &[], &["b"]), switch("b", &[], &["a"])]), "at a: switches are above themselves: a, b");
        assert_eq!(error(&[switch("a", &[], &["a"])]), "at a: switches are above themselves: a");
        // A cycle with something above it has a member with two parents.
        assert_eq!(
            error(&[switch("r", &[], &["a"]), switch("a", &[], &["b"]), switch("b", &[], &["a"])]),
            r#"at b: switch "a" is a child of "b" and of "r" (at r); a tree has one parent"#
        );
        assert_eq!(error(&[switch("a", &[], &["x"])]), r#"at a: switch "a" has the unknown child "x""#);
        assert_eq!(error(&[switch("a", &["h"], &[]), switch("a", &["i"], &[])]), r#"at a: switch "a" is declared twice, first at at a"#);
        assert_eq!(error(&[switch("a", &["a"], &[])]), r#"at a: "a" is a node of "a" and also a switch"#);
        assert_eq!(error(&[switch("a", &["h"], &["b"]), switch("b", &["i"], &[])]), r#"at a: switch "a" has both nodes and switches"#);
        assert_eq!(error(&[switch("s[0-1]", &["h"], &[])]), r#"at s[0-1]: a switch has one name, not the list "s[0-1]""#);
        let chain: Vec<Switch> = (0..21)
            .map(|i| if i == 0 { switch("s0", &["h"], &[]) } else { switch(&format!("s{i}"), &[], &[&format!("s{}", i - 1)]) })
            .collect();
        assert_eq!(error(&chain), r#"at s20: switch "s20" is above 20 levels of switches"#);
        assert!(tree(&chain[..20]).is_ok());
    }

    #[test]
    fn odd_but_possible_things_are_findings() {
        let imported = tree(&[switch("a", &["h1", "h1"], &[]), switch("b", &["h1"], &[]), switch("c", &[], &[])]).unwrap();
        let texts: Vec<_> = imported.findings.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                r#"empty-switch: at c: switch "c" has neither nodes nor switches"#,
                r#"duplicate-node: at a: "a" lists h1 more than once"#,
                r#"multi-homed-host: "h1" hangs off 2 switches: a, b; one cable to each is taken"#,
            ]
        );
        assert_eq!(imported.cabling.cables.len(), 2);
    }
}
