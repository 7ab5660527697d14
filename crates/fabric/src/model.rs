//! The fabric itself: nodes, ports and directed links, built once and then immutable.
//!
//! Every physical cable is two directed [`Link`]s, one per direction, because the two directions
//! congest separately. Parallel cables between the same two nodes are separate links with
//! separate ports. A link whose capacity nobody has stated is kept, marked, and refused when it
//! is asked to carry demand: trees from schedulers know no capacities, and a guess would be silent.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::String,
    vec::Vec,
};
use core::fmt;

use units::{LinkId, NodeId, OneLine, Rate};

/// Largest number of hosts and switches in one fabric: 16 times the largest cluster we know of,
/// and small enough that a hostile document is refused before it fills memory.
pub const NODES_MAX: usize = 1 << 19;
/// Largest number of directed links in one fabric; same reason.
pub const LINKS_MAX: usize = 1 << 22;

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeKind {
    /// A server with NICs; jobs are placed on hosts.
    Host,
    /// A switch; `tier` counts from 1 (leaf, ToR, ASW) upwards, 0 = unknown.
    Switch {
        /// Distance from the hosts: 1 = leaf, 2 = spine, 3 = core; 0 = not known.
        tier: u8,
    },
}

/// How a link came to be known, weakest claim last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Provenance {
    /// Seen on the wire (LLDP), from at least one end.
    Observed,
    /// Taken from a configuration or a plan.
    Intended,
    /// Assumed by a person or a generator.
    Asserted,
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Observed => "observed",
            Self::Intended => "intended",
            Self::Asserted => "asserted",
        })
    }
}

/// A host or a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Unique name.
    pub name: String,
    /// Host or switch.
    pub kind: NodeKind,
}

/// The GPUs of a host, as far as somebody stated them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostGpus {
    /// How many.
    pub count: Option<u32>,
    /// Their type, such as `a100`.
    pub gpu_type: Option<String>,
}

/// One end of a link.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Port {
    /// The node it belongs to.
    pub node: NodeId,
    /// Port name, unique within the node.
    pub name: String,
}

/// A directed link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Sending port.
    pub from: Port,
    /// Receiving port.
    pub to: Port,
    /// Capacity of this direction; `None` until somebody states it.
    pub capacity: Option<Rate>,
    /// How the link came to be known.
    pub provenance: Provenance,
}

/// Something an importer noticed and wants a person to read; never fatal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Short stable kind, for example `one-sided-link`.
    pub kind: &'static str,
    /// Where and what, one line, with the offending value.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The message may repeat a value of a document, and a value may hold line feeds.
        write!(f, "{}: {}", self.kind, OneLine(&self.message))
    }
}

/// Why a fabric or a document could not be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FabricError {
    /// The document is malformed; `place` is a line, a key path or a row.
    #[error("{}: {}", OneLine(place), OneLine(problem))]
    Document {
        /// Line, key path or row.
        place: String,
        /// What is wrong, with the offending value.
        problem: String,
    },
    /// A node was declared twice with different kinds.
    #[error("node {name:?} is declared twice, as {} and as {}", OneLine(first), OneLine(second))]
    NodeConflict {
        /// Its name.
        name: String,
        /// First declaration.
        first: String,
        /// Second declaration.
        second: String,
    },
    /// A cable ends in a node that nobody declared.
    #[error("unknown node {name:?}")]
    UnknownNode {
        /// The name looked for.
        name: String,
    },
    /// A port already carries another cable.
    #[error("port {} of {node:?} already has a cable, to {}", OneLine(port), OneLine(other))]
    PortTaken {
        /// Node name.
        node: String,
        /// Port name.
        port: String,
        /// Where the first cable goes.
        other: String,
    },
    /// A cable from a node to itself.
    #[error("link from {name:?} to itself")]
    SelfLink {
        /// Node name.
        name: String,
    },
    /// Demand was put on a link whose capacity nobody stated.
    #[error("link {} has no known capacity; state it in the fabric file or import with --assume-capacity", OneLine(link))]
    UnknownCapacity {
        /// Display name of the link.
        link: String,
    },
    /// No route between two hosts.
    #[error("no route from {from:?} to {to:?}")]
    NoRoute {
        /// Source host.
        from: String,
        /// Destination host.
        to: String,
    },
    /// A pinned route that is no route.
    #[error("pinned route from {from:?} to {to:?}: {}", OneLine(problem))]
    BadPin {
        /// Source host.
        from: String,
        /// Destination host.
        to: String,
        /// What is wrong, with the offending value.
        problem: String,
    },
    /// A fabric that another format cannot hold.
    #[error("cannot export {what} {name:?}: {}", OneLine(problem))]
    NotExportable {
        /// Fabric, host or switch.
        what: &'static str,
        /// Its name.
        name: String,
        /// Why not.
        problem: String,
    },
    /// More nodes or links than [`NODES_MAX`] or [`LINKS_MAX`].
    #[error("{what}: {count} is over the limit of {limit}")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// How many.
        count: usize,
        /// The limit.
        limit: usize,
    },
}

/// A fabric: immutable once built, so ids and adjacency stay valid.
#[derive(Clone, Debug)]
pub struct Fabric {
    name: String,
    nodes: Vec<Node>,
    links: Vec<Link>,
    by_name: BTreeMap<String, NodeId>,
    /// Outgoing links of each node, in order of link id.
    out: Vec<Vec<LinkId>>,
    /// The opposite direction of each link, where it is known.
    reverse: Vec<Option<LinkId>>,
    /// Ports that no document named.
    numbered: BTreeSet<Port>,
    /// What is known of the GPUs of hosts.
    gpus: BTreeMap<NodeId, HostGpus>,
}

impl Fabric {
    /// The fabric's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All nodes; a [`NodeId`] indexes this slice.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// All directed links; a [`LinkId`] indexes this slice.
    #[must_use]
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// The node of that id.
    #[must_use]
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// The link of that id.
    #[must_use]
    pub fn link(&self, id: LinkId) -> &Link {
        &self.links[id.index()]
    }

    /// The node with that name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<NodeId> {
        self.by_name.get(name).copied()
    }

    /// Outgoing links of a node, in order of link id.
    #[must_use]
    pub fn links_from(&self, node: NodeId) -> &[LinkId] {
        &self.out[node.index()]
    }

    /// The same cable in the other direction, where both are known.
    #[must_use]
    pub fn reverse(&self, link: LinkId) -> Option<LinkId> {
        self.reverse[link.index()]
    }

    /// Ids of all hosts, in order of declaration.
    pub fn hosts(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.nodes.iter().enumerate().filter(|(_, n)| n.kind == NodeKind::Host).filter_map(|(i, _)| NodeId::from_index(i))
    }

    /// The GPUs of a host, where anything was stated of them.
    #[must_use]
    pub fn gpus(&self, host: NodeId) -> Option<&HostGpus> {
        self.gpus.get(&host)
    }

    /// Whether the port's name is a number of ours ([`FabricBuilder::next_port`]), because the document that told of its cable
    /// names none: such a name says nothing about the port of that name on the device.
    #[must_use]
    pub fn is_numbered(&self, port: &Port) -> bool {
        self.numbered.contains(port)
    }

    /// Name for people: `leaf3->spine1`, with the sending port where cables run in parallel
    /// (`leaf3:eth2->spine1`).
    #[must_use]
    pub fn link_name(&self, id: LinkId) -> String {
        let link = self.link(id);
        // The sending port is shown only where parallel cables make it necessary, so most names stay short.
        let parallel = self.links_from(link.from.node).iter().filter(|&&l| self.link(l).to.node == link.to.node).count() > 1;
        let (from, to) = (&self.node(link.from.node).name, &self.node(link.to.node).name);
        if parallel { format!("{from}:{}->{to}", link.from.name) } else { format!("{from}->{to}") }
    }

    /// The stated capacity of a link.
    ///
    /// # Errors
    /// [`FabricError::UnknownCapacity`] names the link when nobody stated it.
    pub fn capacity(&self, id: LinkId) -> Result<Rate, FabricError> {
        self.link(id).capacity.ok_or_else(|| FabricError::UnknownCapacity { link: self.link_name(id) })
    }
}

/// Builds a [`Fabric`]; every importer and generator goes through it, so the rules about
/// names, ports and limits stand here once.
#[derive(Clone, Debug, Default)]
pub struct FabricBuilder {
    name: String,
    nodes: Vec<Node>,
    by_name: BTreeMap<String, NodeId>,
    links: Vec<Link>,
    reverse: Vec<Option<LinkId>>,
    /// Ports of each node by name.
    ports: Vec<BTreeMap<String, PortLinks>>,
    /// Number of the next automatic port of each node.
    auto_ports: Vec<u32>,
    /// Ports named by [`FabricBuilder::next_port`].
    numbered: BTreeSet<Port>,
    gpus: BTreeMap<NodeId, HostGpus>,
}

/// The links of a port: at most one per direction.
#[derive(Clone, Copy, Debug, Default)]
struct PortLinks {
    out: Option<LinkId>,
    into: Option<LinkId>,
}

impl FabricBuilder {
    /// An empty fabric of that name.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// Declares a node; declaring it again with the same kind returns the same id. A switch of
    /// unknown tier (0) takes the tier of a later declaration.
    ///
    /// # Errors
    /// [`FabricError::NodeConflict`], [`FabricError::TooLarge`].
    pub fn node(&mut self, name: &str, kind: NodeKind) -> Result<NodeId, FabricError> {
        if let Some(&id) = self.by_name.get(name) {
            let known = &mut self.nodes[id.index()].kind;
            match (*known, kind) {
                (a, b) if a == b => {}
                // A known tier replaces an unknown one, whichever was declared first.
                (NodeKind::Switch { tier: 0 }, NodeKind::Switch { .. }) => *known = kind,
                (NodeKind::Switch { .. }, NodeKind::Switch { tier: 0 }) => {}
                (a, b) => {
                    return Err(FabricError::NodeConflict { name: name.into(), first: format!("{a:?}"), second: format!("{b:?}") });
                }
            }
            return Ok(id);
        }
        if self.nodes.len() >= NODES_MAX {
            return Err(FabricError::TooLarge { what: "nodes", count: self.nodes.len() + 1, limit: NODES_MAX });
        }
        // NODES_MAX is below 2^32, so the cast loses nothing.
        let id = NodeId(self.nodes.len() as u32);
        self.nodes.push(Node { name: name.into(), kind });
        self.ports.push(BTreeMap::new());
        self.auto_ports.push(0);
        self.by_name.insert(name.into(), id);
        Ok(id)
    }

    /// The id of a declared node.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<NodeId> {
        self.by_name.get(name).copied()
    }

    /// A fresh port name on `node` for documents that name none: `p0`, `p1`, ... The fabric remembers that it is ours
    /// ([`Fabric::is_numbered`]).
    pub fn next_port(&mut self, node: NodeId) -> String {
        loop {
            // The loop ends, because each turn tries a new number and a node has finitely many ports.
            let n = &mut self.auto_ports[node.index()];
            let name = format!("p{n}");
            *n += 1;
            // A document may name some ports of a node and not others, so a number may be taken already.
            if !self.ports[node.index()].contains_key(&name) {
                self.numbered(Port { node, name: name.clone() });
                return name;
            }
        }
    }

    /// States that a port's name is a number of ours, as when a document that was written from a fabric says so.
    pub fn numbered(&mut self, port: Port) {
        self.numbered.insert(port);
    }

    /// States or replaces what is known of the GPUs of a host.
    pub fn gpus(&mut self, host: NodeId, gpus: HostGpus) {
        self.gpus.insert(host, gpus);
    }

    /// Adds one direction of a cable.
    ///
    /// # Errors
    /// [`FabricError::SelfLink`], [`FabricError::PortTaken`], [`FabricError::TooLarge`].
    pub fn link(&mut self, from: Port, to: Port, capacity: Option<Rate>, provenance: Provenance) -> Result<LinkId, FabricError> {
        // All checks come before the first change, so a refused link leaves the builder as it was.
        if from.node == to.node {
            return Err(FabricError::SelfLink { name: self.nodes[from.node.index()].name.clone() });
        }
        if self.links.len() >= LINKS_MAX {
            return Err(FabricError::TooLarge { what: "links", count: self.links.len() + 1, limit: LINKS_MAX });
        }
        let links = |port: &Port| self.ports[port.node.index()].get(&port.name).copied().unwrap_or_default();
        for (port, taken) in [(&from, links(&from).out), (&to, links(&to).into)] {
            if let Some(taken) = taken {
                let other = &self.links[taken.index()];
                // The earlier link may leave the port or enter it; a person needs to know its other end.
                let far = if other.from == *port { &other.to } else { &other.from };
                return Err(FabricError::PortTaken {
                    node: self.nodes[port.node.index()].name.clone(),
                    port: port.name.clone(),
                    other: format!("{}:{}", self.nodes[far.node.index()].name, far.name),
                });
            }
        }
        let id = LinkId(self.links.len() as u32);
        // The opposite direction is the link that leaves our receiving port for our sending port.
        let back = links(&to).out.filter(|b| self.links[b.index()].to == from);
        self.ports[from.node.index()].entry(from.name.clone()).or_default().out = Some(id);
        self.ports[to.node.index()].entry(to.name.clone()).or_default().into = Some(id);
        if let Some(b) = back {
            self.reverse[b.index()] = Some(id);
        }
        self.links.push(Link { from, to, capacity, provenance });
        // The list of opposite directions grows with that of the links, so a link id indexes both.
        self.reverse.push(back);
        Ok(id)
    }

    /// Adds both directions of a cable and returns (a to b, b to a).
    ///
    /// # Errors
    /// As [`FabricBuilder::link`].
    pub fn cable(&mut self, a: Port, b: Port, capacity: Option<Rate>, provenance: Provenance) -> Result<(LinkId, LinkId), FabricError> {
        // Two links and not one: the directions congest separately (module text).
        let there = self.link(a.clone(), b.clone(), capacity, provenance)?;
        let back = self.link(b, a, capacity, provenance)?;
        Ok((there, back))
    }

    /// The links added so far.
    #[must_use]
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// The nodes declared so far.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Finishes the fabric.
    #[must_use]
    pub fn build(self) -> Fabric {
        let mut out = alloc::vec![Vec::new(); self.nodes.len()];
        for (i, link) in self.links.iter().enumerate() {
            // Links come in order of id, and so does each list.
            out[link.from.node.index()].push(LinkId(i as u32));
        }
        Fabric {
            name: self.name,
            nodes: self.nodes,
            links: self.links,
            by_name: self.by_name,
            out,
            reverse: self.reverse,
            numbered: self.numbered,
            gpus: self.gpus,
        }
    }
}
