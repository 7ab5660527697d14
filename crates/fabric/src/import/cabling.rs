//! Statements of documents about nodes and cables, before a fabric is built.
//!
//! An importer only writes down what its document says. Whether two statements are about the same
//! cable, and which one holds when they differ, is decided once, in `join`, over the statements of
//! all documents. That is what makes "observed beats intended beats asserted" one rule.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::String,
    vec::Vec,
};

use units::Rate;

use super::place::quoted;
use crate::{
    FabricError, Finding, NodeKind, Provenance,
    model::{LINKS_MAX, NODES_MAX},
};

/// Index of a node in a [`Cabling`].
pub(crate) type NodeIndex = u32;

/// Statements about nodes, ports and cables, taken from one or several documents.
#[derive(Clone, Debug, Default)]
pub struct Cabling {
    pub(crate) nodes: Vec<NodeClaim>,
    by_name: BTreeMap<String, NodeIndex>,
    pub(crate) cables: Vec<CableClaim>,
    /// Ports that their own node has named; such a name is final.
    pub(crate) own_ports: BTreeSet<(NodeIndex, String)>,
    /// Other names of a port, for example SONiC's `alias`, to the name its node uses.
    pub(crate) aliases: BTreeMap<(NodeIndex, String), String>,
    /// Ports that a configuration holds down.
    pub(crate) down_ports: BTreeSet<(NodeIndex, String)>,
}

/// A node as stated.
#[derive(Clone, Debug)]
pub(crate) struct NodeClaim {
    pub(crate) name: String,
    /// The kind that was stated, and by how strong a source; `None` = nobody stated one.
    pub(crate) kind: Option<(NodeKind, Provenance)>,
    /// A document of the node's own (its LLDP table, its configuration) was read.
    pub(crate) reported: bool,
}

/// One end of a cable as stated.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) node: NodeIndex,
    /// Names of the port, best first; none = the document names no port.
    pub(crate) ports: Vec<String>,
}

/// A cable as stated by one document.
#[derive(Clone, Debug)]
pub(crate) struct CableClaim {
    /// The stating node's own end first, unless the document is a plan of both.
    pub(crate) ends: [End; 2],
    /// The document is nobody's own view: it speaks for both ends.
    pub(crate) plan: bool,
    pub(crate) capacity: Option<Rate>,
    pub(crate) provenance: Provenance,
}

impl Cabling {
    /// The node of that name, declared when it is new.
    pub(crate) fn node(&mut self, name: &str) -> Result<NodeIndex, FabricError> {
        if let Some(&known) = self.by_name.get(name) {
            return Ok(known);
        }
        let count = self.nodes.len();
        if count >= NODES_MAX {
            return Err(FabricError::TooLarge { what: "nodes", count: count + 1, limit: NODES_MAX });
        }
        // NODES_MAX fits in a u32.
        let index = count as NodeIndex;
        self.nodes.push(NodeClaim { name: name.into(), kind: None, reported: false });
        self.by_name.insert(name.into(), index);
        Ok(index)
    }

    /// The node of that name, if it is declared.
    pub(crate) fn find(&self, name: &str) -> Option<NodeIndex> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn name(&self, node: NodeIndex) -> &str {
        &self.nodes[node as usize].name
    }

    /// States what a node is. The stronger source holds; among equals the first, and an unknown
    /// tier takes a known one. A contradiction is returned as a finding.
    pub(crate) fn state_kind(&mut self, node: NodeIndex, kind: NodeKind, source: Provenance) -> Option<Finding> {
        let claim = &mut self.nodes[node as usize];
        let Some((known, by)) = claim.kind else {
            claim.kind = Some((kind, source));
            return None;
        };
        let kept = match (known, kind) {
            // The strongest provenance orders first, so the minimum keeps the stronger source.
            (a, b) if a == b => (known, by.min(source)),
            (NodeKind::Switch { tier: 0 }, NodeKind::Switch { .. }) => (kind, by.min(source)),
            (NodeKind::Switch { .. }, NodeKind::Switch { tier: 0 }) => (known, by.min(source)),
            _ => {
                // An equally strong source does not replace: the first statement holds.
                let kept = if source < by { (kind, source) } else { (known, by) };
                claim.kind = Some(kept);
                let message = format!(
                    "{} is {} ({by}) and {} ({source}); taken as {}",
                    quoted(&claim.name),
                    kind_text(known),
                    kind_text(kind),
                    kind_text(kept.0)
                );
                return Some(Finding { kind: "contradictory-kind", message });
            }
        };
        claim.kind = Some(kept);
        None
    }

    /// Adds a cable as stated.
    pub(crate) fn cable(&mut self, claim: CableClaim) -> Result<(), FabricError> {
        // Each statement may become a cable of two links.
        if self.cables.len() >= LINKS_MAX / 2 {
            return Err(FabricError::TooLarge { what: "cables", count: self.cables.len() + 1, limit: LINKS_MAX / 2 });
        }
        self.cables.push(claim);
        Ok(())
    }

    /// Adds a cable of a plan that names no ports: an edge of a tree.
    pub(crate) fn edge(&mut self, a: NodeIndex, b: NodeIndex, provenance: Provenance) -> Result<(), FabricError> {
        let ends = [a, b].map(|node| End { node, ports: Vec::new() });
        self.cable(CableClaim { ends, plan: true, capacity: None, provenance })
    }

    /// Takes over everything `other` states.
    pub(crate) fn absorb(&mut self, other: Self, findings: &mut Vec<Finding>) -> Result<(), FabricError> {
        // Node indices of `other` count in its own list, so every one is mapped to the merged list.
        let mut index = Vec::with_capacity(other.nodes.len());
        for claim in &other.nodes {
            let node = self.node(&claim.name)?;
            self.nodes[node as usize].reported |= claim.reported;
            if let Some((kind, source)) = claim.kind {
                findings.extend(self.state_kind(node, kind, source));
            }
            index.push(node);
        }
        let at = |node: NodeIndex| index[node as usize];
        for mut claim in other.cables {
            claim.ends.iter_mut().for_each(|end| end.node = at(end.node));
            self.cable(claim)?;
        }
        self.own_ports.extend(other.own_ports.into_iter().map(|(node, port)| (at(node), port)));
        self.aliases.extend(other.aliases.into_iter().map(|((node, alias), port)| ((at(node), alias), port)));
        self.down_ports.extend(other.down_ports.into_iter().map(|(node, port)| (at(node), port)));
        Ok(())
    }
}

/// A kind for people.
pub(crate) fn kind_text(kind: NodeKind) -> String {
    match kind {
        NodeKind::Host => "a host".into(),
        NodeKind::Switch { tier: 0 } => "a switch".into(),
        NodeKind::Switch { tier } => format!("a switch of tier {tier}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stronger_source_says_what_a_node_is() {
        let mut cabling = Cabling::default();
        let node = cabling.node("n1").unwrap();
        assert_eq!(cabling.state_kind(node, NodeKind::Switch { tier: 0 }, Provenance::Intended), None);
        assert_eq!(cabling.state_kind(node, NodeKind::Switch { tier: 2 }, Provenance::Asserted), None);
        let finding = cabling.state_kind(node, NodeKind::Host, Provenance::Observed).unwrap();
        assert_eq!(finding.message, r#""n1" is a switch of tier 2 (intended) and a host (observed); taken as a host"#);
        assert_eq!(cabling.nodes[0].kind, Some((NodeKind::Host, Provenance::Observed)));
        // Among equals the first stays.
        assert!(cabling.state_kind(node, NodeKind::Switch { tier: 0 }, Provenance::Observed).is_some());
        assert_eq!(cabling.nodes[0].kind, Some((NodeKind::Host, Provenance::Observed)));
    }
}
