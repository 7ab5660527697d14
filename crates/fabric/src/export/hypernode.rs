//! Volcano HyperNode manifests, `topology.volcano.sh/v1alpha1`.

use alloc::{string::String, vec::Vec};

use serde::Serialize;

use super::{
    Export, Tree,
    names::{Alphabet, check_hosts, rename_groups},
};
use crate::{Fabric, FabricError};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HyperNode<'n> {
    api_version: &'static str,
    kind: &'static str,
    metadata: Name<'n>,
    spec: Spec<'n>,
}

#[derive(Serialize)]
struct Name<'n> {
    name: &'n str,
}

#[derive(Serialize)]
struct Spec<'n> {
    tier: usize,
    members: Vec<Member<'n>>,
}

#[derive(Serialize)]
struct Member<'n> {
    #[serde(rename = "type")]
    kind: &'static str,
    selector: Selector<'n>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Selector<'n> {
    exact_match: Name<'n>,
}

pub(super) fn manifests(fabric: &Fabric, mut tree: Tree) -> Result<Export, FabricError> {
    let hosts = || tree.levels.iter().take(1).flat_map(|l| l.groups.iter().flat_map(|g| g.hosts.iter().copied()));
    // Members are matched by the names of Kubernetes nodes, so a host's name must be one and must not change.
    check_hosts(fabric, hosts(), Alphabet::Object)?;
    // Each group becomes an object of its own, whose name nobody outside the manifest refers to.
    rename_groups(&mut tree, Alphabet::Object);
    let member = |kind, name| Member { kind, selector: Selector { exact_match: Name { name } } };
    let mut documents = Vec::new();
    for (i, level) in tree.levels.iter().enumerate() {
        for group in &level.groups {
            // At the first level the members are nodes, above it the groups of the level below.
            let members = match i.checked_sub(1).and_then(|below| tree.levels.get(below)) {
                None => group.hosts.iter().map(|&h| member("Node", fabric.node(h).name.as_str())).collect(),
                Some(below) => {
                    group.children.iter().filter_map(|&c| below.groups.get(c)).map(|g| member("HyperNode", g.name.as_str())).collect()
                }
            };
            // Tiers are counted without gaps from the leaves, whatever tiers the fabric states.
            documents.push(HyperNode {
                api_version: "topology.volcano.sh/v1alpha1",
                kind: "HyperNode",
                metadata: Name { name: &group.name },
                spec: Spec { tier: i + 1, members },
            });
        }
    }
    let text = stream(&documents);
    Ok(Export { text, findings: tree.findings })
}

/// Several documents in one YAML stream.
pub(super) fn stream<T: Serialize>(documents: &[T]) -> String {
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    let write = |document| serde_saphyr::to_string_with_options(document, options.clone());
    let texts: Vec<String> = documents.iter().map(|d| write(d).expect("invariant: a tree of strings serialises")).collect();
    texts.join("---\n")
}
