//! containerlab topologies (`*.clab.yml`): nodes with a kind, links between interfaces.
//!
//! The file does not say what a node is; these rules decide, first match first, and a finding says
//! by which rule: (1) `group`, or the labels `graph-icon` and `role`: leaf, tor and access are
//! switches of tier 1, spine and aggregation of tier 2, core and super-spine of tier 3, switch,
//! router and bridge switches, host, server, client and gpu hosts; (2) kind: a network system or a
//! bridge is a switch, `linux` is a host. Links to the machine that runs the lab (`host:`,
//! `mgmt-net:`, `macvlan:`) and links with one end are left out, which is said.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::String,
    vec,
    vec::Vec,
};

use serde::Deserialize;
use serde_saphyr::Spanned;

use super::{
    Imported,
    cabling::{CableClaim, End},
    place::{check_name, document, listed, quoted},
    yaml,
};
use crate::{FabricError, Finding, NodeKind, Provenance};

#[derive(Debug, Deserialize)]
struct Lab {
    topology: Topology,
}

#[derive(Debug, Deserialize)]
struct Topology {
    #[serde(default)]
    defaults: Option<Node>,
    #[serde(default)]
    kinds: BTreeMap<String, Option<Node>>,
    #[serde(default)]
    groups: BTreeMap<String, Option<Node>>,
    nodes: BTreeMap<String, Option<Node>>,
    #[serde(default)]
    links: Option<Vec<Link>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Node {
    kind: Option<String>,
    group: Option<String>,
    #[serde(default)]
    labels: Option<BTreeMap<String, Option<String>>>,
}

#[derive(Debug, Deserialize)]
struct Link {
    #[serde(rename = "type")]
    kind: Option<String>,
    endpoints: Option<Spanned<Vec<Endpoint>>>,
}

/// `"leaf1:eth1"`, or `{node: leaf1, interface: eth1}` in the extended format.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "an endpoint is \"NODE:INTERFACE\" or {node: NODE, interface: INTERFACE}")]
enum Endpoint {
    Brief(String),
    Extended { node: String, interface: String },
}

/// Node names that mean the machine of the lab.
const LAB_MACHINE: [&str; 3] = ["host", "mgmt-net", "macvlan"];

/// Imports a topology.
///
/// # Errors
/// [`FabricError::Document`] naming line and column, for a document of another shape, an endpoint
/// that is not `NODE:INTERFACE` or names an undeclared node, or an interface with two links.
pub fn topology(text: &str) -> Result<Imported, FabricError> {
    let Lab { topology } = yaml::read(text)?;
    let mut imported = Imported::default();
    let Imported { cabling, findings } = &mut imported;
    // Nodes are collected by rule, so that a large lab gives a handful of findings.
    let mut rules: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    // Nodes are declared before the links are read, because a link may name declared nodes only.
    for (name, node) in &topology.nodes {
        check_name(|| "topology.nodes".into(), name)?;
        let index = cabling.node(name)?;
        if let Some((kind, rule)) = topology.kind_of(node.as_ref()) {
            findings.extend(cabling.state_kind(index, kind, Provenance::Intended));
            rules.entry(rule).or_default().push(name);
        }
    }
    for (rule, names) in rules {
        let message = format!("{rule}: {} ({} nodes)", listed(names.iter().copied(), 6), names.len());
        findings.push(Finding { kind: "kind-by-rule", message });
    }
    let mut taken: BTreeSet<(u32, String)> = BTreeSet::new();
    for link in topology.links.iter().flatten() {
        let Some(endpoints) = &link.endpoints else {
            let message = format!("a link of type {} has one end in the lab; left out", quoted(link.kind.as_deref().unwrap_or_default()));
            findings.push(Finding { kind: "link-left-out", message });
            continue;
        };
        let place = || yaml::place(endpoints.referenced);
        let [a, b] = &endpoints.value[..] else {
            return Err(document(place(), format!("a link has two endpoints, not {}", endpoints.value.len())));
        };
        let mut ends = Vec::with_capacity(2);
        for endpoint in [a, b] {
            let (name, interface) = endpoint.split().map_err(|problem| document(place(), problem))?;
            check_name(place, interface)?;
            match cabling.find(name) {
                Some(node) => {
                    // An interface holds one cable, so a second link is a mistake in the document.
                    if !taken.insert((node, interface.into())) {
                        return Err(document(place(), format!("interface {interface} of {} has two links", quoted(name))));
                    }
                    ends.push(End { node, ports: vec![interface.into()] });
                }
                // A reserved name means the machine of the lab only where no node bears it.
                None if LAB_MACHINE.contains(&name) => {
                    let message = format!("{}: the link to {}:{} leaves the lab; left out", place(), name, interface);
                    findings.push(Finding { kind: "link-left-out", message });
                }
                None => return Err(document(place(), format!("unknown node {}", quoted(name)))),
            }
        }
        // A link that leaves the lab has one end left and makes no cable; its finding is written above.
        if let Ok(ends) = <[End; 2]>::try_from(ends) {
            for end in &ends {
                // The plan speaks for both ends, so both interface names are final.
                cabling.own_ports.extend(end.ports.iter().map(|port| (end.node, port.clone())));
            }
            cabling.cable(CableClaim { ends, plan: true, capacity: None, provenance: Provenance::Intended })?;
        }
    }
    Ok(imported)
}

impl Endpoint {
    fn split(&self) -> Result<(&str, &str), String> {
        match self {
            Self::Brief(text) => text.split_once(':').ok_or_else(|| format!("endpoint {} is not NODE:INTERFACE", quoted(text))),
            Self::Extended { node, interface } => Ok((node, interface)),
        }
    }
}

impl Topology {
    /// The kind of a node, and the rule that says so; a setting of the node beats that of its group,
    /// of its kind and of the defaults, as in containerlab.
    fn kind_of(&self, node: Option<&Node>) -> Option<(NodeKind, String)> {
        let first = |node: Option<&Node>, key: fn(&Node) -> Option<&String>| node.and_then(key).cloned();
        let defaults = self.defaults.as_ref();
        // A group brings settings only where the node itself names it.
        let own_group = first(node, |n| n.group.as_ref());
        let group = own_group.as_ref().and_then(|g| self.groups.get(g)).and_then(Option::as_ref);
        let kind =
            first(node, |n| n.kind.as_ref()).or_else(|| first(group, |n| n.kind.as_ref())).or_else(|| first(defaults, |n| n.kind.as_ref()));
        // The settings of a kind are found by the kind, so they cannot say which kind it is.
        let of_kind = kind.as_ref().and_then(|k| self.kinds.get(k)).and_then(Option::as_ref);
        let levels = [node, group, of_kind, defaults];
        // A group that a kind or the defaults name is a word for the role and brings no settings.
        let group = own_group.or_else(|| levels.iter().find_map(|level| first(*level, |n| n.group.as_ref())));
        if let Some((kind, group)) = group.and_then(|group| Some((kind_of_role(&group)?, group))) {
            return Some((kind, format!("group {} is {}", quoted(&group), super::cabling::kind_text(kind))));
        }
        for label in ["graph-icon", "role"] {
            let value = levels
                .iter()
                .find_map(|level| level.and_then(|n| n.labels.as_ref()).and_then(|labels| labels.get(label)).and_then(Clone::clone));
            if let Some((kind, value)) = value.and_then(|value| Some((kind_of_role(&value)?, value))) {
                return Some((kind, format!("label {label}={} is {}", quoted(&value), super::cabling::kind_text(kind))));
            }
        }
        let kind = kind?;
        let what = match kind.as_str() {
            "linux" | "host" => NodeKind::Host,
            // Containers, clusters and virtual machines of these kinds may hold a host or a switch.
            "ext-container" | "k8s-kind" | "generic_vm" => return None,
            _ => NodeKind::Switch { tier: 0 },
        };
        Some((what, format!("kind {} is {}", quoted(&kind), super::cabling::kind_text(what))))
    }
}

/// The kind that a word for a role means, in any case and with or without a number behind it.
fn kind_of_role(role: &str) -> Option<NodeKind> {
    let role = role.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches(['-', '_']).to_ascii_lowercase();
    let switch = |tier| Some(NodeKind::Switch { tier });
    match role.as_str() {
        "leaf" | "leafs" | "leaves" | "tor" | "access" => switch(1),
        "spine" | "spines" | "aggregation" | "agg" => switch(2),
        "core" | "superspine" | "super-spine" | "superspines" => switch(3),
        "switch" | "router" | "bridge" => switch(0),
        "host" | "hosts" | "server" | "servers" | "client" | "clients" | "gpu" => Some(NodeKind::Host),
        _ => None,
    }
}
