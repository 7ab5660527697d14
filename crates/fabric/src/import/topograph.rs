//! The graph JSON of Topograph (`engine: graph`): per instance the switches above it.
//!
//! `network_layers` lists names, the closest switch first. Topograph gives no ports, no parallel
//! cables and no capacity. Labels (accelerator domains) are not part of the network graph and are
//! left out, which is said.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    vec::Vec,
};

use super::{
    Imported,
    json::{self, At, Json},
    place::{check_name, listed, quoted},
};
use crate::{FabricError, Finding, NodeKind, Provenance};

/// Layers above a host: twice those of the deepest Clos in use (5).
const LAYERS_MAX: usize = 10;

/// Imports a graph: `{"instances": [...]}`.
///
/// # Errors
/// [`FabricError::Document`] naming the key path, for a document of another shape, an instance
/// listed twice, or a name that stands in two different layers.
pub fn graph(text: &str) -> Result<Imported, FabricError> {
    let document = json::read(text)?;
    let root = At::root(&document);
    let instances = root.get("instances").ok_or_else(|| root.error("no key \"instances\": not a Topograph graph"))?;
    let mut imported = Imported::default();
    let Imported { cabling, findings } = &mut imported;
    // Layer of each name: 0 = host.
    let mut layers: BTreeMap<u32, usize> = BTreeMap::new();
    let mut edges: BTreeSet<(u32, u32)> = BTreeSet::new();
    let mut labelled = 0_usize;
    for instance in instances.items()? {
        let id = instance.get("id").ok_or_else(|| instance.error("no \"id\""))?;
        let (host, name) = (id.text()?, id.place());
        check_name(|| name.clone(), host)?;
        let node = cabling.node(host)?;
        if let Some(known) = layers.insert(node, 0) {
            let what = if known == 0 { "listed twice" } else { "an instance and also a switch" };
            return Err(id.error(format!("{} is {what}", quoted(host))));
        }
        findings.extend(cabling.state_kind(node, NodeKind::Host, Provenance::Intended));
        labelled += usize::from(instance.get("labels").is_some_and(|at| !matches!(at.json, Json::Object(entries) if entries.is_empty())));
        let Some(above) = instance.get("network_layers") else {
            findings.push(Finding { kind: "isolated-host", message: format!("{} has no network layers", quoted(host)) });
            continue;
        };
        let mut below = node;
        for (i, layer) in above.items()?.enumerate() {
            let name = layer.text()?;
            check_name(|| layer.place(), name)?;
            if i >= LAYERS_MAX {
                return Err(above.error(format!("more than {LAYERS_MAX} layers")));
            }
            let switch = cabling.node(name)?;
            // Hosts are in layer 0, so a switch with the name of an instance is refused here.
            let known = *layers.entry(switch).or_insert(i + 1);
            if known != i + 1 {
                return Err(layer.error(format!("{} is in layer {} here and in layer {known} elsewhere", quoted(name), i + 1)));
            }
            // LAYERS_MAX keeps the tier within a u8.
            let kind = NodeKind::Switch { tier: i as u8 + 1 };
            findings.extend(cabling.state_kind(switch, kind, Provenance::Intended));
            // Instances share their upper layers, so most edges come again and are stated once.
            if edges.insert((below, switch)) {
                cabling.edge(below, switch, Provenance::Intended)?;
            }
            below = switch;
        }
        // An empty list of layers says as little as none.
        if below == node {
            findings.push(Finding { kind: "isolated-host", message: format!("{} has no network layers", quoted(host)) });
        }
    }
    let mut parents: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    edges.iter().for_each(|&(below, above)| parents.entry(below).or_default().push(above));
    // One instance lists one way up, so several parents come from several instances.
    for (below, above) in parents.iter().filter(|(_, above)| above.len() > 1) {
        let message = format!(
            "{} is below {}; a cable to each is taken",
            quoted(cabling.name(*below)),
            listed(above.iter().map(|&i| cabling.name(i)), 6)
        );
        findings.push(Finding { kind: "several-parents", message });
    }
    if labelled > 0 {
        let message = format!("labels of {labelled} instances (accelerator domains) are not part of the network graph");
        findings.push(Finding { kind: "labels-ignored", message });
    }
    Ok(imported)
}
