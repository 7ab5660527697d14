//! Which statements are about the same cable, and what holds when they differ.
//!
//! A port has one cable. So two statements that share a port of one node and name the same far
//! node are one cable, whatever they call the far port; the far node's own name for it is final.
//! Two statements that share a port and name different far nodes contradict each other: the
//! stronger provenance holds (observed, then intended, then asserted), and among equals the first.
//! A capacity is taken from the strongest source that states one; among equals the lower.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::String,
    vec::Vec,
};

use units::Rate;

use super::cabling::{CableClaim, Cabling, End, NodeIndex};
use crate::{Finding, Provenance};

/// A cable after joining.
#[derive(Clone, Debug)]
pub(crate) struct Cable {
    pub(crate) ends: [(NodeIndex, Option<String>); 2],
    /// Capacity and who stated it.
    pub(crate) capacity: Option<(Rate, Provenance)>,
    pub(crate) provenance: Provenance,
    /// The ends whose own documents state the cable; a plan speaks for both.
    said: [bool; 2],
}

/// Joins all statements; the cables come in the order in which the strongest statement about each
/// was made.
pub(crate) fn join(cabling: &Cabling) -> (Vec<Cable>, Vec<Finding>) {
    let mut joiner = Joiner { cabling, cables: Vec::new(), by_port: BTreeMap::new(), by_pair: BTreeMap::new(), findings: Vec::new() };
    let mut claims: Vec<&CableClaim> = cabling.cables.iter().collect();
    // The sort is stable and puts the strongest source first, so among equals the first statement holds.
    claims.sort_by_key(|claim| claim.provenance);
    let portless = |claim: &CableClaim| claim.ends.iter().all(|end| end.ports.is_empty());
    for claim in claims.iter().filter(|claim| !portless(claim)) {
        joiner.add(claim);
    }
    joiner.pair_by_elimination();
    // Edges without ports come last, because they count only between nodes without a known cable.
    for claim in claims.iter().filter(|claim| portless(claim)) {
        joiner.add_edge(claim);
    }
    joiner.report_one_sided();
    let Joiner { cables, findings, .. } = joiner;
    (cables.into_iter().flatten().collect(), findings)
}

struct Joiner<'a> {
    cabling: &'a Cabling,
    /// `None` = joined into another.
    cables: Vec<Option<Cable>>,
    by_port: BTreeMap<(NodeIndex, String), usize>,
    by_pair: BTreeMap<[NodeIndex; 2], Vec<usize>>,
    findings: Vec<Finding>,
}

impl Joiner<'_> {
    fn note(&mut self, kind: &'static str, message: String) {
        self.findings.push(Finding { kind, message });
    }

    /// The name of the port: what its own node calls it if any of the stated names is that or an
    /// alias of that, else the first stated name.
    fn port_of(&self, end: &End) -> Option<String> {
        let own = end.ports.iter().find(|port| self.cabling.own_ports.contains(&(end.node, (*port).clone())));
        let aliased = || end.ports.iter().find_map(|port| self.cabling.aliases.get(&(end.node, port.clone())));
        own.or_else(aliased).or_else(|| end.ports.first()).cloned()
    }

    fn is_own(&self, node: NodeIndex, port: &Option<String>) -> bool {
        port.as_ref().is_some_and(|port| self.cabling.own_ports.contains(&(node, port.clone())))
    }

    fn end_text(&self, (node, port): &(NodeIndex, Option<String>)) -> String {
        match port {
            Some(port) => format!("{}:{port}", self.cabling.name(*node)),
            None => self.cabling.name(*node).into(),
        }
    }

    fn text(&self, ends: &[(NodeIndex, Option<String>); 2]) -> String {
        format!("{} - {}", self.end_text(&ends[0]), self.end_text(&ends[1]))
    }

    fn add(&mut self, claim: &CableClaim) {
        let mut ends = [0, 1].map(|i| (claim.ends[i].node, self.port_of(&claim.ends[i])));
        // A claim has the stating node's own end first; a plan speaks for both ends.
        let mut said = [true, claim.plan];
        // The smaller node comes first, so that a pair of nodes has one key in `by_pair`.
        if ends[0].0 > ends[1].0 {
            ends.swap(0, 1);
            said.swap(0, 1);
        }
        if ends[0].0 == ends[1].0 {
            return self.note("self-link", format!("{} goes from a node to itself; left out", self.text(&ends)));
        }
        if self.left_out_as_down(&ends, claim.provenance) {
            return;
        }
        let at = [0, 1].map(|i| ends[i].1.clone().and_then(|port| self.by_port.get(&(ends[i].0, port)).copied()));
        match at {
            [None, None] => {
                self.push(Cable { ends, capacity: claim.capacity.map(|rate| (rate, claim.provenance)), provenance: claim.provenance, said })
            }
            // The two ports belong to two known cables, so the claim contradicts both; the first one is reported.
            [Some(a), Some(b)] if a != b => self.contradict(&ends, claim, a),
            [Some(known), _] | [_, Some(known)] => {
                // A shared port between the same two nodes is the same cable, whatever the far port is called.
                let same_pair =
                    self.cables[known].as_ref().is_some_and(|cable| [0, 1].map(|i| cable.ends[i].0) == [0, 1].map(|i| ends[i].0));
                if same_pair { self.confirm(known, &ends, said, claim) } else { self.contradict(&ends, claim, known) }
            }
        }
    }

    /// Whether an end is held down by configuration. What was seen on the wire is kept all the
    /// same: the configuration is then older than the wire.
    fn left_out_as_down(&mut self, ends: &[(NodeIndex, Option<String>); 2], provenance: Provenance) -> bool {
        let down = ends.iter().find(|(node, port)| port.as_ref().is_some_and(|p| self.cabling.down_ports.contains(&(*node, p.clone()))));
        let Some(down) = down else { return false };
        let (cable, port) = (self.text(ends), self.end_text(down));
        if provenance == Provenance::Observed {
            self.note("contradictory-state", format!("{cable} was observed although {port} is configured down; kept"));
            return false;
        }
        self.note("port-down", format!("{port} is configured down; {cable} left out"));
        true
    }

    fn push(&mut self, cable: Cable) {
        let index = self.cables.len();
        for (node, port) in &cable.ends {
            if let Some(port) = port {
                self.by_port.insert((*node, port.clone()), index);
            }
        }
        self.by_pair.entry([cable.ends[0].0, cable.ends[1].0]).or_default().push(index);
        self.cables.push(Some(cable));
    }

    fn contradict(&mut self, ends: &[(NodeIndex, Option<String>); 2], claim: &CableClaim, known: usize) {
        let Some(cable) = &self.cables[known] else { return };
        let message = format!(
            "{} ({}) and {} ({}) share a port; the first is kept",
            self.text(&cable.ends),
            cable.provenance,
            self.text(ends),
            claim.provenance
        );
        self.note("contradictory-cable", message);
    }

    /// One more statement about a known cable between the same nodes.
    fn confirm(&mut self, known: usize, ends: &[(NodeIndex, Option<String>); 2], said: [bool; 2], claim: &CableClaim) {
        // The cable is taken out while `self` writes findings and renames; it goes back at the end.
        let Some(mut cable) = self.cables[known].take() else { return };
        for i in 0..2 {
            let (node, port) = &ends[i];
            if *port == cable.ends[i].1 || port.is_none() {
                continue;
            }
            // A name that the port's own node uses is final. Between two foreign names the first stays.
            let (known_final, new_final) = (self.is_own(*node, &cable.ends[i].1), self.is_own(*node, port));
            if known_final && new_final {
                let message = format!("{} is also stated as {}; the first is kept", self.text(&cable.ends), self.text(ends));
                self.note("contradictory-port", message);
            } else if !known_final && (new_final || cable.ends[i].1.is_none()) {
                self.rename(known, &mut cable.ends[i], port.clone());
            }
        }
        cable.said = [cable.said[0] || said[0], cable.said[1] || said[1]];
        self.settle_capacity(&mut cable, claim.capacity.map(|rate| (rate, claim.provenance)));
        self.cables[known] = Some(cable);
    }

    fn rename(&mut self, index: usize, end: &mut (NodeIndex, Option<String>), port: Option<String>) {
        // The index follows the name, so later claims find the cable under the new one only.
        if let Some(old) = end.1.take() {
            self.by_port.remove(&(end.0, old));
        }
        if let Some(new) = &port {
            self.by_port.insert((end.0, new.clone()), index);
        }
        end.1 = port;
    }

    fn settle_capacity(&mut self, cable: &mut Cable, stated: Option<(Rate, Provenance)>) {
        let (Some((new, new_by)), Some((known, known_by))) = (stated, cable.capacity) else {
            cable.capacity = cable.capacity.or(stated);
            return;
        };
        let kept = match new_by.cmp(&known_by) {
            // The stronger provenance orders first, so less means stronger.
            core::cmp::Ordering::Less => (new, new_by),
            // The lower capacity is the cautious choice: no overload is missed.
            core::cmp::Ordering::Equal => (new.min(known), known_by),
            core::cmp::Ordering::Greater => (known, known_by),
        };
        if new != known {
            let why = if new_by == known_by { "the lower" } else { "the stronger source's" };
            let message = format!("{}: {known} ({known_by}) and {new} ({new_by}); {why}, {}, is used", self.text(&cable.ends), kept.0);
            self.note("contradictory-capacity", message);
        }
        cable.capacity = Some(kept);
    }

    /// Two nodes with one unmatched cable each to the other, whose far ports are named in a way
    /// the other does not use (a MAC address, say): that is one cable, and it is said.
    fn pair_by_elimination(&mut self) {
        // The lists are copied, because the loop changes the joiner.
        let pairs: Vec<([NodeIndex; 2], Vec<usize>)> = self.by_pair.iter().map(|(pair, list)| (*pair, list.clone())).collect();
        for (_, list) in pairs.iter().filter(|(_, list)| list.len() > 1) {
            let loose = |end: usize| {
                let mut found = list.iter().copied().filter(|&index| {
                    let Some(cable) = &self.cables[index] else { return false };
                    let far = &cable.ends[1 - end];
                    cable.said[end] && !cable.said[1 - end] && !self.is_own(far.0, &far.1)
                });
                (found.next(), found.next())
            };
            // A second loose cable at either end would make the pairing a guess.
            let ((Some(a), None), (Some(b), None)) = (loose(0), loose(1)) else { continue };
            let (Some(mut first), Some(second)) = (self.cables[a].take(), self.cables[b].take()) else { continue };
            let message = format!(
                "{} and {} are taken as one cable: nothing else is left between the two",
                self.text(&first.ends),
                self.text(&second.ends)
            );
            self.note("paired-by-elimination", message);
            // The second cable knows end 0 by a foreign name only, under which nothing may be found any more.
            if let Some(unused) = second.ends[0].1.clone() {
                self.by_port.remove(&(second.ends[0].0, unused));
            }
            self.rename(a, &mut first.ends[1], second.ends[1].1.clone());
            first.said = [true, true];
            first.provenance = first.provenance.min(second.provenance);
            self.settle_capacity(&mut first, second.capacity);
            self.cables[a] = Some(first);
        }
    }

    /// An edge of a tree says that two nodes are cabled, not how often. Where cables are known, the
    /// edge adds no cable and at most a capacity.
    fn add_edge(&mut self, claim: &CableClaim) {
        let mut ends = [0, 1].map(|i| (claim.ends[i].node, None));
        ends.sort();
        if ends[0].0 == ends[1].0 {
            return self.note("self-link", format!("{} goes from a node to itself; left out", self.text(&ends)));
        }
        let known: Option<usize> =
            self.by_pair.get(&[ends[0].0, ends[1].0]).and_then(|list| list.iter().copied().find(|&i| self.cables[i].is_some()));
        match known {
            None => {
                let capacity = claim.capacity.map(|rate| (rate, claim.provenance));
                self.push(Cable { ends, capacity, provenance: claim.provenance, said: [true, true] });
            }
            Some(index) => {
                let Some(mut cable) = self.cables[index].take() else { return };
                self.settle_capacity(&mut cable, claim.capacity.map(|rate| (rate, claim.provenance)));
                self.cables[index] = Some(cable);
            }
        }
    }

    /// A cable that one end states and the other does not.
    fn report_one_sided(&mut self) {
        // The messages are collected first, because a note changes the joiner.
        let mut found = Vec::new();
        for cable in self.cables.iter().flatten() {
            let silent = match cable.said {
                [true, false] => 1,
                [false, true] => 0,
                _ => continue,
            };
            let node = &self.cabling.nodes[cable.ends[silent].0 as usize];
            let (text, name) = (self.text(&cable.ends), &node.name);
            if node.reported {
                found.push(format!("{text}: the document of {name} does not have it"));
            } else if cable.provenance == Provenance::Observed {
                found.push(format!("{text}: no document of {name} was read"));
            }
        }
        found.into_iter().for_each(|message| self.note("one-sided-link", message));
    }
}

/// Nodes that are the same machine under a short and a full name, or so it looks.
pub(crate) fn similar_names(cabling: &Cabling) -> Vec<Finding> {
    let names: BTreeSet<&str> = cabling.nodes.iter().map(|node| node.name.as_str()).collect();
    let with_short = |full: &&str| full.split_once('.').is_some_and(|(short, _)| names.contains(short));
    let message = |full: &str| {
        let short = full.split('.').next().unwrap_or(full);
        format!("{full} and {short} are kept as two nodes; if they are one, name the documents alike")
    };
    names.iter().copied().filter(with_short).map(|full| Finding { kind: "similar-name", message: message(full) }).collect()
}
