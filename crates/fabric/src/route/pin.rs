//! Routes given by an operator.

use alloc::{borrow::ToOwned, collections::BTreeMap, format, string::String, vec::Vec};

use units::{LinkId, NodeId};

use crate::{Fabric, FabricError, NodeKind};

/// A pinned route between two hosts, NIC to NIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// Sending host.
    pub from: NodeId,
    /// Receiving host.
    pub to: NodeId,
    /// All links from the one to the other.
    pub links: Vec<LinkId>,
}

impl Pin {
    /// The route through nodes given by name, both hosts included, for example
    /// `["h1", "leaf1", "spine2", "leaf3", "h9"]`. Where cables run in parallel, `node:port`
    /// names the sending port of the cable to the next node.
    ///
    /// # Errors
    /// [`FabricError::UnknownNode`]; [`FabricError::BadPin`] where no cable, or more than one,
    /// leads on.
    pub fn through(fabric: &Fabric, stops: &[&str]) -> Result<Self, FabricError> {
        let stops: Vec<(NodeId, Option<&str>)> = stops.iter().map(|stop| find_stop(fabric, stop)).collect::<Result<_, _>>()?;
        let (Some(&(from, _)), Some(&(to, _))) = (stops.first(), stops.last()) else {
            return Err(FabricError::BadPin { from: String::new(), to: String::new(), problem: "no nodes given".into() });
        };
        let links = stops.windows(2).map(|w| cable(fabric, w[0], w[1].0)).collect::<Result<_, _>>();
        let links = links.map_err(|problem| bad_pin(fabric, from, to, problem))?;
        Ok(Self { from, to, links })
    }

    /// Why this is no route from one host to the other.
    fn problem(&self, fabric: &Fabric) -> Option<String> {
        let name = |id: NodeId| fabric.node(id).name.clone();
        let nodes = fabric.nodes().len();
        // The ids are checked first, because everything after that indexes with them.
        if self.from.index() >= nodes || self.to.index() >= nodes || self.links.iter().any(|l| l.index() >= fabric.links().len()) {
            return Some("ids of another fabric".into());
        }
        // A route has one link more at each end than the path between its switches.
        if self.links.len() > usize::from(super::HOPS_MAX) + 2 {
            return Some(format!("{} links, more than a packet survives", self.links.len()));
        }
        let mut at = self.from;
        for (i, &id) in self.links.iter().enumerate() {
            let link = fabric.link(id);
            if link.from.node != at {
                return Some(format!("link {} does not start at {:?}", fabric.link_name(id), name(at)));
            }
            // Hosts never forward, so a host may stand at the ends only.
            if i > 0 && fabric.node(at).kind == NodeKind::Host {
                return Some(format!("passes through host {:?}", name(at)));
            }
            at = link.to.node;
        }
        let hosts = [self.from, self.to].iter().all(|&h| fabric.node(h).kind == NodeKind::Host);
        match () {
            () if !hosts => Some("ends in a switch".into()),
            () if self.from == self.to || self.links.is_empty() => Some("has no links".into()),
            () if at != self.to => Some(format!("ends at {:?}", name(at))),
            () => None,
        }
    }
}

fn find_stop<'s>(fabric: &Fabric, stop: &'s str) -> Result<(NodeId, Option<&'s str>), FabricError> {
    if let Some(node) = fabric.find(stop) {
        return Ok((node, None));
    }
    let with_port = stop.split_once(':').and_then(|(node, port)| Some((fabric.find(node)?, Some(port))));
    with_port.ok_or_else(|| FabricError::UnknownNode { name: stop.to_owned() })
}

fn cable(fabric: &Fabric, (from, port): (NodeId, Option<&str>), to: NodeId) -> Result<LinkId, String> {
    let fits = |&&l: &&LinkId| fabric.link(l).to.node == to && port.is_none_or(|p| fabric.link(l).from.name == p);
    let found: Vec<LinkId> = fabric.links_from(from).iter().filter(fits).copied().collect();
    let (a, b) = (&fabric.node(from).name, &fabric.node(to).name);
    match (found.as_slice(), port) {
        ([only], _) => Ok(*only),
        ([], None) => Err(format!("no cable from {a:?} to {b:?}")),
        ([], Some(port)) => Err(format!("no cable from port {port:?} of {a:?} to {b:?}")),
        (many, _) => Err(format!("{} cables from {a:?} to {b:?}; give the port as {a}:PORT", many.len())),
    }
}

fn bad_pin(fabric: &Fabric, from: NodeId, to: NodeId, problem: String) -> FabricError {
    let name = |id: NodeId| fabric.nodes().get(id.index()).map_or_else(|| format!("{id}"), |n| n.name.clone());
    FabricError::BadPin { from: name(from), to: name(to), problem }
}

/// Checks all pins and indexes them by their first and last link.
pub(super) fn index(fabric: &Fabric, pins: &[Pin]) -> Result<BTreeMap<(LinkId, LinkId), Vec<LinkId>>, FabricError> {
    let mut index = BTreeMap::new();
    for pin in pins {
        let bad = |problem| bad_pin(fabric, pin.from, pin.to, problem);
        if let Some(problem) = pin.problem(fabric) {
            return Err(bad(problem));
        }
        // `problem` has refused an empty list already.
        let (Some(&first), Some(&last)) = (pin.links.first(), pin.links.last()) else {
            return Err(bad("has no links".into()));
        };
        if index.insert((first, last), pin.links.clone()).is_some() {
            return Err(bad("pinned twice between the same NICs".into()));
        }
    }
    Ok(index)
}
