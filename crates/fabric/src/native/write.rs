//! From the fabric to the document.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::String,
    vec,
    vec::Vec,
};

use serde_saphyr::FlowMap;
use units::LinkId;

use super::{
    document::{Cable, Capacity, Direction, DocumentOut, End, EndKeys, Gpus, SCHEMA, Switch},
    read::split_end,
};
use crate::{Fabric, HostGpus, Link, NodeKind, Port};

/// The document in YAML, one line per node and per cable.
///
/// The fabric that [`super::read`] makes of the document has the same nodes, ports, links, capacities and
/// provenance, and the same order of NICs on each host.
#[must_use]
pub fn write_yaml(fabric: &Fabric) -> String {
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    serde_saphyr::to_string_with_options(&document(fabric), options).expect("invariant: a tree of strings and numbers serialises")
}

/// The same document in JSON.
#[must_use]
pub fn write_json(fabric: &Fabric) -> String {
    serde_json::to_string_pretty(&document(fabric)).expect("invariant: a tree of strings and numbers serialises")
}

fn document(fabric: &Fabric) -> DocumentOut {
    let defaults = most_common(fabric);
    let mut numbering = Numbering::new(fabric);
    // The cables are written in this order, because a reader numbers unnamed ports in the order of the document.
    let cables = cables(fabric).into_iter().map(|id| FlowMap(cable(fabric, id, defaults.unwrap_or_default(), &mut numbering))).collect();
    let switch = |node: &crate::Node| match node.kind {
        NodeKind::Host => None,
        NodeKind::Switch { tier } => Some(FlowMap(Switch { name: node.name.clone(), tier })),
    };
    DocumentOut {
        schema: SCHEMA,
        name: fabric.name().into(),
        defaults: defaults.map(FlowMap),
        hosts: fabric.hosts().map(|h| fabric.node(h).name.clone()).collect(),
        gpus: gpus(fabric).into_iter().map(FlowMap).collect(),
        switches: fabric.nodes().iter().filter_map(switch).collect(),
        cables,
    }
}

/// GPUs of hosts that are alike in one entry, those of the first hosts first. Where every host says something, the largest entry is that of
/// all others, so a cluster of equal hosts has one short line.
fn gpus(fabric: &Fabric) -> Vec<Gpus> {
    let mut classes: Vec<(&HostGpus, Vec<String>)> = Vec::new();
    let mut place: BTreeMap<&HostGpus, usize> = BTreeMap::new();
    let mut all = true;
    for host in fabric.hosts() {
        let Some(gpus) = fabric.gpus(host) else {
            all = false;
            continue;
        };
        let at = *place.entry(gpus).or_insert_with(|| {
            classes.push((gpus, Vec::new()));
            classes.len() - 1
        });
        classes[at].1.push(fabric.node(host).name.clone());
    }
    let most = classes.iter().map(|class| class.1.len()).max().unwrap_or(0);
    let others = classes.iter().position(|class| class.1.len() == most).filter(|_| all);
    let entry = |(at, (gpus, hosts)): (usize, (&HostGpus, Vec<String>))| {
        let hosts = Some(hosts).filter(|_| others != Some(at));
        Gpus { hosts, count: gpus.count, gpu_type: gpus.gpu_type.clone() }
    };
    classes.into_iter().enumerate().map(entry).collect()
}

/// The first direction of each cable. A host's cables keep the order of its outgoing links,
/// because that order is the numbering of its rails.
fn cables(fabric: &Fabric) -> Vec<LinkId> {
    let is_host = |port: &Port| fabric.node(port.node).kind == NodeKind::Host;
    let mut done = vec![false; fabric.links().len()];
    let mut cables = Vec::new();
    for (i, link) in fabric.links().iter().enumerate() {
        let id = LinkId(i as u32);
        // A direction towards a host waits for the one that leaves it.
        let waits = fabric.reverse(id).is_some_and(|back| back > id) && is_host(&link.to) && !is_host(&link.from);
        if done[i] || waits {
            continue;
        }
        if let Some(back) = fabric.reverse(id) {
            // The opposite direction belongs to the same entry, so it gets none of its own.
            done[back.index()] = true;
        }
        cables.push(id);
    }
    cables
}

fn says(link: &Link) -> Direction {
    Direction { capacity: Some(Capacity(link.capacity)), mbps: None, provenance: Some(link.provenance.into()) }
}

/// The statement that most links have in common, so that cables need to say only what differs.
fn most_common(fabric: &Fabric) -> Option<Direction> {
    let mut counts: BTreeMap<_, usize> = BTreeMap::new();
    for link in fabric.links() {
        *counts.entry((link.capacity, link.provenance)).or_insert(0) += 1;
    }
    let most = counts.values().max()?;
    // Of equal counts the first in the map's order is taken, so equal fabrics give equal documents.
    let ((rate, provenance), _) = counts.iter().find(|(_, count)| *count == most)?;
    Some(Direction { capacity: rate.map(|r| Capacity(Some(r))), mbps: None, provenance: Some((*provenance).into()) })
}

/// `said` without what `known` says already.
fn difference(said: Direction, known: Direction) -> Direction {
    // A default without capacity means unknown, so an unknown capacity need not be written again.
    let known_capacity = known.capacity.or(Some(Capacity(None)));
    Direction {
        capacity: said.capacity.filter(|_| said.capacity != known_capacity),
        mbps: None,
        provenance: said.provenance.filter(|_| said.provenance != known.provenance),
    }
}

fn cable(fabric: &Fabric, id: LinkId, defaults: Direction, numbering: &mut Numbering) -> Cable {
    let link = fabric.link(id);
    let there = difference(says(link), defaults);
    // A reader completes `reverse` from the cable itself, so only the difference to that is written.
    let back = fabric.reverse(id).map(|back| difference(says(fabric.link(back)), says(link)));
    Cable {
        ends: [numbering.end(fabric, &link.from), numbering.end(fabric, &link.to)],
        capacity: there.capacity,
        mbps: None,
        provenance: there.provenance,
        // Each cable is an entry of its own, because each has its own ports.
        parallel: None,
        reverse: back.filter(|back| *back != Direction::default()),
        one_way: back.is_none(),
    }
}

/// The numbers that a reader of the document has given to its unnamed ports.
struct Numbering {
    /// By node: names of the ports written so far, and the next number.
    nodes: Vec<(BTreeSet<String>, u32)>,
}

impl Numbering {
    fn new(fabric: &Fabric) -> Self {
        Self { nodes: vec![(BTreeSet::new(), 0); fabric.nodes().len()] }
    }

    /// The end without its port, where the port is numbered and a reader would give it the same number; as text, where the text
    /// reads back as the same end; otherwise in keys.
    fn end(&mut self, fabric: &Fabric, port: &Port) -> End {
        let node = &fabric.node(port.node).name;
        let numbered = fabric.is_numbered(port);
        let (written, next) = &mut self.nodes[port.node.index()];
        if numbered {
            let mut number = *next;
            // The reader's rule is that of `FabricBuilder::next_port`: the counter skips names that are taken and never goes back.
            while written.contains(&format!("p{number}")) {
                number += 1;
            }
            if port.name == format!("p{number}") {
                *next = number + 1;
                written.insert(port.name.clone());
                return End::Text(node.clone());
            }
        }
        written.insert(port.name.clone());
        let text = format!("{node}:{}", port.name);
        // Names may hold colons, so the text is read back before it is trusted.
        if !numbered && split_end(&text, |name| fabric.find(name)) == Some((port.node, Some(port.name.as_str()))) {
            End::Text(text)
        } else {
            End::Keys(EndKeys { node: node.clone(), port: port.name.clone(), numbered })
        }
    }
}
