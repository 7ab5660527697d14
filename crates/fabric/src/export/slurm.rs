//! Slurm: topology.yaml(5) and topology.conf(5), plugin `topology/tree`.

use alloc::{
    collections::BTreeMap,
    format,
    string::{String, ToString},
    vec,
    vec::Vec,
};

use serde::Serialize;

use super::{
    Export, Tree, hostlist,
    names::{Alphabet, check_hosts, rename_groups},
};
use crate::{Fabric, FabricError};

#[derive(Serialize)]
struct Topology {
    topology: String,
    cluster_default: bool,
    tree: TreeKey,
}

#[derive(Serialize)]
struct TreeKey {
    switches: Vec<Switch>,
}

/// One switch, with either children or nodes.
#[derive(Serialize)]
struct Switch {
    switch: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    children: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nodes: Option<String>,
}

pub(super) fn yaml(fabric: &Fabric, tree: Tree) -> Result<Export, FabricError> {
    let (switches, tree) = switches(fabric, tree)?;
    let document = vec![Topology { topology: "default".into(), cluster_default: true, tree: TreeKey { switches } }];
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    let text = serde_saphyr::to_string_with_options(&document, options).expect("invariant: a tree of strings serialises");
    Ok(Export { text, findings: tree.findings })
}

pub(super) fn conf(fabric: &Fabric, tree: Tree) -> Result<Export, FabricError> {
    let (switches, tree) = switches(fabric, tree)?;
    // A record of topology.conf(5) has either `Switches` or `Nodes`, and `switches` fills exactly one of the two.
    let line = |s: Switch| match (s.children, s.nodes) {
        (Some(children), _) => format!("SwitchName={} Switches={children}\n", s.switch),
        (None, nodes) => format!("SwitchName={} Nodes={}\n", s.switch, nodes.unwrap_or_default()),
    };
    let text = switches.into_iter().map(line).collect();
    Ok(Export { text, findings: tree.findings })
}

/// Switches from the root downwards. A group with a single child is left out: it would be a
/// switch that joins nothing.
fn switches(fabric: &Fabric, mut tree: Tree) -> Result<(Vec<Switch>, Tree), FabricError> {
    // The first level holds all hosts of the tree, so the levels above need no check.
    check_hosts(fabric, tree.levels.iter().take(1).flat_map(|l| l.groups.iter().flat_map(|g| g.hosts.iter().copied())), Alphabet::Slurm)?;
    rename_groups(&mut tree, Alphabet::Slurm);
    let mut lines = Vec::new();
    // Which switch of the document stands for each group of the level below.
    let mut stands: BTreeMap<usize, String> = BTreeMap::new();
    for level in &tree.levels {
        let mut here = BTreeMap::new();
        for (i, group) in level.groups.iter().enumerate() {
            let below: Vec<&str> = group.children.iter().filter_map(|c| stands.get(c).map(String::as_str)).collect();
            // The only child takes the place of its parent, so groups above refer to the child by its name.
            if let [only] = below.as_slice() {
                here.insert(i, only.to_string());
                continue;
            }
            here.insert(i, group.name.clone());
            let hosts = || hostlist::compress(group.hosts.iter().map(|&h| fabric.node(h).name.as_str()));
            let (children, nodes) = match below.is_empty() {
                true => (None, Some(hosts())),
                false => (Some(hostlist::compress(below.into_iter())), None),
            };
            lines.push(Switch { switch: group.name.clone(), children, nodes });
        }
        stands = here;
    }
    // The levels were walked from the leaves up, and the document begins at the root.
    lines.reverse();
    Ok((lines, tree))
}
