//! From joined statements to a [`Fabric`]: kinds, tiers, assumed capacities, findings.

use alloc::{
    collections::BTreeMap,
    format,
    string::{String, ToString},
    vec,
    vec::Vec,
};

use wildmatch::WildMatch;

use super::{
    assume::{Assumption, Layer, about},
    cabling::{Cabling, NodeIndex, kind_text},
    join::{Cable, join, similar_names},
    order,
    place::{listed, quoted},
};
use crate::{Fabric, FabricBuilder, FabricError, Finding, NodeKind, Port, Provenance, model::LINKS_MAX, tier::hops_from_hosts};

/// How many names a finding about many nodes repeats.
const NAMES_LISTED_MAX: usize = 6;

/// Settings that a person adds to the documents.
#[derive(Clone, Debug, Default)]
pub struct BuildOptions {
    /// The fabric's name.
    pub name: String,
    /// Patterns of host names (`*` any text, `?` any character). A matching node is a host whatever
    /// it announces; with a pattern given, a node that nobody describes and that does not match is
    /// a switch.
    pub hosts: Vec<String>,
    /// Capacities where the documents state none.
    pub assumptions: Vec<Assumption>,
}

/// Builds the fabric and reports what a person should read.
pub(crate) fn build(cabling: &Cabling, options: &BuildOptions) -> Result<(Fabric, Vec<Finding>), FabricError> {
    // Statements are joined first, because kinds, tiers and parts are judged by the cables that remain.
    let (mut cables, mut findings) = join(cabling);
    findings.extend(similar_names(cabling));
    let mut kinds = stated_kinds(cabling, &options.hosts, &mut findings);
    let neighbours = adjacency(cabling.nodes.len(), &cables);
    place_in_tiers(cabling, &mut kinds, &neighbours, &mut findings);
    report_parts(cabling, &neighbours, &mut findings);

    let mut builder = FabricBuilder::new(&options.name);
    let mut ids = Vec::with_capacity(kinds.len());
    for (claim, &kind) in cabling.nodes.iter().zip(&kinds) {
        ids.push(builder.node(&claim.name, kind)?);
    }
    let mut capacities = Capacities { options, kinds: &kinds, used: vec![(0, 0); options.assumptions.len()], unknown: BTreeMap::new() };
    // The numbering of a host's NICs follows the order in which its cables are added, so the sort comes before that.
    order::sort(&mut cables, &kinds);
    let (mut expanded, mut links) = (Vec::with_capacity(cables.len()), 0_usize);
    for cable in &cables {
        let (capacity, provenance, parallel) = capacities.of(cable);
        if capacity.is_none() {
            capacities.note_unknown(cabling, cable);
        }
        // Refused before the memory is spent: an assumption may multiply every cable by hundreds.
        links = links.saturating_add(2 * parallel as usize);
        if links > LINKS_MAX {
            return Err(FabricError::TooLarge { what: "links", count: links, limit: LINKS_MAX });
        }
        expanded.push((cable, capacity, provenance, parallel));
    }
    for (cable, capacity, provenance, parallel) in expanded {
        for _ in 0..parallel {
            let [a, b] = [0, 1].map(|i| {
                let (node, port) = &cable.ends[i];
                let node = ids[*node as usize];
                // Cables with an unnamed port come last, so a name made up here never takes a stated one.
                let name = port.clone().unwrap_or_else(|| builder.next_port(node));
                Port { node, name }
            });
            builder.cable(a, b, capacity, provenance)?;
        }
    }
    findings.extend(capacities.findings());
    Ok((builder.build(), findings))
}

/// Applies `--hosts` over what was stated.
fn stated_kinds(cabling: &Cabling, patterns: &[String], findings: &mut Vec<Finding>) -> Vec<NodeKind> {
    let patterns: Vec<WildMatch> = patterns.iter().map(|p| WildMatch::new(p)).collect();
    // A mistyped pattern would make a switch of every node that nobody describes.
    for pattern in patterns.iter().filter(|pattern| !cabling.nodes.iter().any(|claim| pattern.matches(&claim.name))) {
        let message = format!("host pattern {} matches no node", quoted(&pattern.pattern()));
        findings.push(Finding { kind: "pattern-unused", message });
    }
    let mut kind_of = |name: &str, stated: Option<(NodeKind, Provenance)>| {
        // A pattern beats every document, because a person has said it about this cluster.
        if patterns.iter().any(|pattern| pattern.matches(name)) {
            if let Some((kind @ NodeKind::Switch { .. }, by)) = stated {
                let message = format!("{} is {} ({by}) but matches a host pattern; taken as a host", quoted(name), kind_text(kind));
                findings.push(Finding { kind: "kind-override", message });
            }
            return NodeKind::Host;
        }
        match stated {
            Some((kind, _)) => kind,
            // A person who gives patterns is taken to have named all hosts.
            None if !patterns.is_empty() => NodeKind::Switch { tier: 0 },
            None => {
                let message =
                    format!("{}: nothing says whether it is a host; taken as a switch (--hosts PATTERN says otherwise)", quoted(name));
                findings.push(Finding { kind: "unknown-kind", message });
                NodeKind::Switch { tier: 0 }
            }
        }
    };
    let kinds: Vec<NodeKind> = cabling.nodes.iter().map(|claim| kind_of(&claim.name, claim.kind)).collect();
    if !kinds.is_empty() && !kinds.contains(&NodeKind::Host) {
        let message = format!(
            "none of the {} nodes is known to be a host, so no job can be placed; name the hosts with --hosts PATTERN",
            kinds.len()
        );
        findings.push(Finding { kind: "no-hosts", message });
    }
    kinds
}

fn adjacency(nodes: usize, cables: &[Cable]) -> Vec<Vec<NodeIndex>> {
    // Parallel cables repeat a neighbour, which costs the searches below a second look and no more.
    let mut neighbours = vec![Vec::new(); nodes];
    for cable in cables {
        let [a, b] = [cable.ends[0].0, cable.ends[1].0];
        neighbours[a as usize].push(b);
        neighbours[b as usize].push(a);
    }
    neighbours
}

/// A switch of unknown tier gets its distance from the nearest host, which is what a tier is. A
/// stated tier stays, and a switch of a higher tier with hosts of its own is a finding.
fn place_in_tiers(cabling: &Cabling, kinds: &mut [NodeKind], neighbours: &[Vec<NodeIndex>], findings: &mut Vec<Finding>) {
    let hosts = (0..kinds.len()).filter(|&i| kinds[i] == NodeKind::Host);
    // Kinds are settled by now, so the search starts from the hosts that the fabric will have.
    let hops = hops_from_hosts(kinds.len(), hosts, |node| neighbours[node].iter().map(|&next| next as usize));
    for (i, kind) in kinds.iter_mut().enumerate() {
        let NodeKind::Switch { tier } = kind else { continue };
        match hops[i] {
            Some(hops) if *tier == 0 => *tier = hops,
            Some(1) if *tier > 1 => {
                let message =
                    format!("{} is stated to be of tier {tier}, yet a host hangs off it; the stated tier is kept", cabling.nodes[i].name);
                findings.push(Finding { kind: "tier-differs", message });
            }
            _ => {}
        }
    }
}

/// Names the parts of a fabric that no cable joins: between their hosts there is no route.
fn report_parts(cabling: &Cabling, neighbours: &[Vec<NodeIndex>], findings: &mut Vec<Finding>) {
    let mut seen = vec![false; neighbours.len()];
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for start in 0..neighbours.len() {
        if seen[start] {
            continue;
        }
        seen[start] = true;
        // A stack of its own replaces recursion: a chain of NODES_MAX nodes would overflow the stack of the thread.
        let mut stack = vec![start];
        let mut size = 0;
        while let Some(node) = stack.pop() {
            size += 1;
            for &next in &neighbours[node] {
                // A node is marked when it is pushed, so the stack never holds it twice.
                if !core::mem::replace(&mut seen[next as usize], true) {
                    stack.push(next as usize);
                }
            }
        }
        parts.push((start, size));
    }
    if parts.len() > 1 {
        let texts: Vec<String> =
            parts.iter().map(|&(start, size)| format!("that of {} ({size} nodes)", cabling.nodes[start].name)).collect();
        let message =
            format!("{} parts with no cable between them: {}", parts.len(), listed(texts.iter().map(String::as_str), NAMES_LISTED_MAX));
        findings.push(Finding { kind: "disconnected", message });
    }
}

/// Capacities, stated or assumed, and what to say about them.
struct Capacities<'a> {
    options: &'a BuildOptions,
    kinds: &'a [NodeKind],
    /// Per assumption: cables it was applied to, and how many of them have named ports.
    used: Vec<(usize, usize)>,
    /// Cables without capacity per pair of layers, and the first of them.
    unknown: BTreeMap<[Option<Layer>; 2], (usize, String)>,
}

impl Capacities<'_> {
    /// Capacity, provenance and number of parallel cables. An assumed capacity makes the link an
    /// assertion, however well its existence is known: a person has to vouch for it.
    fn of(&mut self, cable: &Cable) -> (Option<units::Rate>, Provenance, u32) {
        // A stated capacity is that of one cable, so no assumption multiplies it.
        if let Some((rate, _)) = cable.capacity {
            return (Some(rate), cable.provenance, 1);
        }
        let [a, b] = [0, 1].map(|i| self.kinds[cable.ends[i].0 as usize]);
        let Some(index) = about(&self.options.assumptions, a, b) else {
            return (None, cable.provenance, 1);
        };
        let assumption = self.options.assumptions[index];
        // A named port proves a single cable; only an edge without ports may stand for several.
        let portless = cable.ends.iter().all(|(_, port)| port.is_none());
        self.used[index].0 += 1;
        self.used[index].1 += usize::from(!portless);
        (Some(assumption.capacity), Provenance::Asserted, if portless { assumption.parallel } else { 1 })
    }

    fn note_unknown(&mut self, cabling: &Cabling, cable: &Cable) {
        let mut layers = [0, 1].map(|i| Layer::of(self.kinds[cable.ends[i].0 as usize]));
        layers.sort();
        // The layers are sorted, so leaf-spine and spine-leaf are counted together.
        let entry = self.unknown.entry(layers).or_insert_with(|| {
            let [a, b] = [0, 1].map(|i| cabling.name(cable.ends[i].0));
            (0, format!("{a} - {b}"))
        });
        entry.0 += 1;
    }

    fn findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (layers, (count, example)) in &self.unknown {
            let message = match layers {
                [Some(a), Some(b)] => {
                    format!("{count} cables {a}-{b} have no capacity, {example} first; state it with --assume-capacity {a}-{b}=RATE")
                }
                _ => format!("{count} cables of switches at an unknown distance from the hosts have no capacity, {example} first"),
            };
            findings.push(Finding { kind: "unknown-capacity", message });
        }
        for (assumption, &(cables, named)) in self.options.assumptions.iter().zip(&self.used) {
            let text = assumption.to_string();
            if cables == 0 {
                findings.push(Finding { kind: "assumption-unused", message: format!("{text} applies to no cable") });
            } else if named > 0 && assumption.parallel > 1 {
                let message = format!("{text}: {named} cables have named ports, so each is one cable and its number is as stated");
                findings.push(Finding { kind: "parallel-ignored", message });
            }
        }
        findings
    }
}
