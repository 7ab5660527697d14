//! `topology.yaml`: a list of named topologies, each a tree, blocks, or flat.

use alloc::{format, string::String, vec::Vec};

use serde::{Deserialize, de::IgnoredAny};
use serde_saphyr::Spanned;

use super::{Block, Switch, block, tree};
use crate::{
    FabricError, Finding,
    import::{
        Imported,
        hostlist::Expander,
        place::{check_name, document, listed, quoted},
        yaml,
    },
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Topology {
    topology: Spanned<String>,
    #[serde(default)]
    cluster_default: bool,
    tree: Option<Tree>,
    block: Option<Blocks>,
    flat: Option<bool>,
    ring: Option<IgnoredAny>,
    torus3d: Option<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tree {
    switches: Vec<SwitchEntry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SwitchEntry {
    switch: Spanned<String>,
    nodes: Option<String>,
    children: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Blocks {
    /// As text, so that an error can repeat it.
    block_sizes: Option<Spanned<Vec<String>>>,
    blocks: Vec<BlockEntry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct BlockEntry {
    block: Spanned<String>,
    nodes: Option<String>,
}

/// Imports one topology of `topology.yaml`: the one named `wanted`, else the first with
/// `cluster_default: true`, else the only one, else the first. What is left out is a finding.
///
/// # Errors
/// [`FabricError::Document`] naming line and column, for a document of another shape, a topology
/// that names no nodes (`flat`) or is not read here (`ring`, `torus3d`), an unknown child, a switch
/// with two parents, a cycle, or a host list over [`EXPANSION_MAX`](crate::import::EXPANSION_MAX).
pub fn topology_yaml(text: &str, wanted: Option<&str>) -> Result<Imported, FabricError> {
    let topologies: Vec<Topology> = yaml::read(text)?;
    for topology in &topologies {
        check_name(|| place(&topology.topology), name(topology))?;
    }
    let mut names: Vec<&Spanned<String>> = topologies.iter().map(|t| &t.topology).collect();
    // Equal names become neighbours, and the stable sort keeps the first declaration first.
    names.sort_by_key(|name| &name.value);
    if let Some(twice) = names.windows(2).find(|pair| pair[0].value == pair[1].value) {
        let problem = format!("topology {} is declared twice, first at {}", quoted(&twice[1].value), place(twice[0]));
        return Err(document(place(twice[1]), problem));
    }
    let choice = |names: &mut dyn Iterator<Item = &Topology>| listed(names.map(name).collect::<Vec<_>>(), 8);
    let found = match wanted {
        Some(wanted) => topologies.iter().position(|t| name(t) == wanted),
        // Slurm marks its default topology; without a mark the first one is taken and a finding names the rest.
        None => topologies.iter().position(|t| t.cluster_default).or(if topologies.is_empty() { None } else { Some(0) }),
    };
    let Some(chosen) = found else {
        return Err(document(
            "document",
            match wanted {
                Some(wanted) => format!("no topology is named {}; there are: {}", quoted(wanted), choice(&mut topologies.iter())),
                None => "no topology is declared".into(),
            },
        ));
    };
    let mut imported = read(&topologies[chosen])?;
    if topologies.len() > 1 {
        let others = choice(&mut topologies.iter().enumerate().filter(|(i, _)| *i != chosen).map(|(_, t)| t));
        let message = format!("{} is read; left out: {others} (--topology NAME chooses)", quoted(name(&topologies[chosen])));
        imported.findings.push(Finding { kind: "ignored-topology", message });
    }
    Ok(imported)
}

fn name(topology: &Topology) -> &str {
    &topology.topology.value
}

fn place<T>(value: &Spanned<T>) -> String {
    yaml::place(value.referenced)
}

fn read(topology: &Topology) -> Result<Imported, FabricError> {
    let named = quoted(name(topology));
    let fail = |problem: String| Err(document(place(&topology.topology), problem));
    let kinds =
        [topology.tree.is_some(), topology.block.is_some(), topology.flat.is_some(), topology.ring.is_some(), topology.torus3d.is_some()];
    if kinds.iter().filter(|&&kind| kind).count() != 1 {
        return fail(format!("topology {named} must be exactly one of tree, block and flat"));
    }
    // One expander for the whole topology, so that EXPANSION_MAX bounds all of its lists together.
    let mut expander = Expander::new();
    let mut expand = |list: &Option<String>, place: &str| list.as_ref().map_or(Ok(Vec::new()), |list| expander.expand(place, list));
    if let Some(given) = &topology.tree {
        let mut switches = Vec::with_capacity(given.switches.len());
        for entry in &given.switches {
            let place = place(&entry.switch);
            let (hosts, children) = (expand(&entry.nodes, &place)?, expand(&entry.children, &place)?);
            switches.push(Switch { name: entry.switch.value.clone(), place, hosts, children });
        }
        if switches.is_empty() {
            return fail(format!("topology {named} declares no switch"));
        }
        return tree::tree(&switches);
    }
    // Rings and tori are parsed as anything at all, so that the refusal can name them.
    let Some(given) = &topology.block else {
        return fail(match topology.flat {
            Some(_) => format!("topology {named} is flat: it names no nodes and no switches, so there is nothing to import"),
            None => format!("topology {named} is a ring or a torus; tree and block are read here"),
        });
    };
    let sizes_place = given.block_sizes.as_ref().map(place).unwrap_or_default();
    let sizes = block::parse_sizes(&sizes_place, given.block_sizes.iter().flat_map(|sizes| sizes.value.iter().map(String::as_str)))?;
    let mut list = Vec::with_capacity(given.blocks.len());
    for entry in &given.blocks {
        let place = place(&entry.block);
        let hosts = expand(&entry.nodes, &place)?;
        list.push(Block { name: entry.block.value.clone(), place, hosts });
    }
    if list.is_empty() {
        return fail(format!("topology {named} declares no block"));
    }
    block::blocks(&list, &sizes, &sizes_place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    const THREE: &str = "\
- topology: t1
  tree:
    switches:
      - {switch: root, children: \"s[1-2]\"}
      - {switch: s1, nodes: \"node[01-02]\"}
      - {switch: s2, nodes: \"node[03-04]\"}
- topology: t2
  cluster_default: true
  block:
    block_sizes: [2, 4]
    blocks:
    - block: b1
      nodes: node[01-02]
    - block: b2
      nodes: node[03-04]
- topology: t3
  flat: true
";

    #[test]
    fn the_default_is_read_and_the_rest_said() {
        let imported = topology_yaml(THREE, None).unwrap();
        assert!(imported.cabling.nodes.iter().any(|n| n.name == "b1"));
        assert_eq!(
            imported.findings.last().unwrap().to_string(),
            r#"ignored-topology: "t2" is read; left out: t1, t3 (--topology NAME chooses)"#
        );
        let tree = topology_yaml(THREE, Some("t1")).unwrap();
        // 3 switches and 4 hosts; 4 host cables and 2 between switches.
        assert_eq!((tree.cabling.nodes.len(), tree.cabling.cables.len()), (7, 6));
    }

    #[test]
    fn what_cannot_be_read_says_where() {
        let error = |text: &str, wanted| topology_yaml(text, wanted).unwrap_err().to_string();
        assert_eq!(
            error(THREE, Some("t3")),
            r#"line 16, column 13: topology "t3" is flat: it names no nodes and no switches, so there is nothing to import"#
        );
        assert_eq!(error(THREE, Some("t9")), r#"document: no topology is named "t9"; there are: t1, t2, t3"#);
        assert_eq!(error("[]", None), "document: no topology is declared");
        assert_eq!(
            error("- {topology: a, flat: true}\n- {topology: a, flat: true}", None),
            r#"line 2, column 14: topology "a" is declared twice, first at line 1, column 14"#
        );
        assert_eq!(error("- topology: a\n", None), r#"line 1, column 13: topology "a" must be exactly one of tree, block and flat"#);
        assert_eq!(
            error("- {topology: a, ring: {}}", None),
            r#"line 1, column 14: topology "a" is a ring or a torus; tree and block are read here"#
        );
        let cycle = "- topology: a\n  tree:\n    switches:\n    - {switch: x, children: y}\n    - {switch: y, children: x}\n";
        assert_eq!(error(cycle, None), "line 4, column 16: switches are above themselves: x, y");
        let huge = "- topology: a\n  tree:\n    switches:\n    - {switch: x, nodes: \"n[0-999999999]\"}\n";
        assert_eq!(
            error(huge, None),
            r#"line 4, column 16: host list "n[0-999999999]": 1000000000 names are over the limit of 524288 nodes in a fabric"#
        );
    }
}
