//! From the document to the fabric. Every refusal names the line and the value.

use alloc::{
    collections::BTreeSet,
    format,
    string::{String, ToString},
    vec::Vec,
};

use units::{NAME_BYTES_MAX, NodeId, Rate, unseen_in};

use super::document::{Cable, Direction, Document, End, Gpus, HOST_GPUS_MAX, Lined, PARALLEL_MAX, PARALLEL_TOTAL_MAX, ProvenanceName};
use crate::{
    Fabric, FabricBuilder, FabricError, HostGpus, Node, NodeKind, Port, Provenance,
    native::DOCUMENT_NODES_MAX,
    yaml::{Malformed, cut},
};

/// Deepest nesting of the document; the schema needs six.
const DEPTH_MAX: usize = 16;

/// Reads a document of schema [`super::SCHEMA`]; YAML, or JSON as a part of YAML.
///
/// # Errors
/// [`FabricError::Document`] with line and value: malformed text, unknown or repeated keys,
/// another schema, names declared twice, unknown nodes, ports taken twice, capacities of zero or
/// in contradiction, more than the limits of the model.
pub fn read(text: &str) -> Result<Fabric, FabricError> {
    let document: Document = serde_saphyr::from_str_with_options(text, options()).map_err(|e| {
        let Malformed { place, problem, .. } = Malformed::new(text, &e);
        FabricError::Document { place, problem }
    })?;
    check_name(1, "fabric", &document.name, true)?;
    let mut builder = FabricBuilder::new(&document.name);
    // All nodes come before the cables, because an end as text is resolved against the declared names.
    for host in &document.hosts {
        declare(&mut builder, host.line, &host.value, NodeKind::Host)?;
    }
    for switch in &document.switches {
        declare(&mut builder, switch.line, &switch.value.name, NodeKind::Switch { tier: switch.value.tier })?;
    }
    add_gpus(&mut builder, &document.gpus)?;
    // The sum is checked while the cables are made, so a short document cannot make a large fabric.
    let mut parallel = 0_u32;
    for cable in &document.cables {
        parallel = parallel.saturating_add(cable.value.parallel.unwrap_or(0));
        if parallel > PARALLEL_TOTAL_MAX {
            return Err(at_line(cable.line, format!("parallel: more than {PARALLEL_TOTAL_MAX} cables in all")));
        }
        add_cable(&mut builder, &document.defaults, cable)?;
    }
    Ok(builder.build())
}

/// Parser limits. Aliases are off: a fabric has no use for them, and they are how small
/// documents become large.
fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_nodes: DOCUMENT_NODES_MAX,
            max_events: DOCUMENT_NODES_MAX * 2,
            max_depth: DEPTH_MAX,
            max_documents: 1,
            max_aliases: 0,
            max_anchors: 0,
        },
        with_snippet: false,
        // Without this a switch named `y` would be a boolean, as in YAML 1.1.
        strict_booleans: true,
    }
}

fn at_line(line: u32, problem: impl ToString) -> FabricError {
    FabricError::Document { place: format!("line {line}"), problem: cut(&problem.to_string()) }
}

fn check_name(line: u32, what: &str, name: &str, may_be_empty: bool) -> Result<(), FabricError> {
    let problem = if name.len() > NAME_BYTES_MAX {
        format!("{what} name of {} bytes, the limit is {NAME_BYTES_MAX}", name.len())
    } else if name.is_empty() && !may_be_empty {
        format!("{what} name is empty")
    } else if let Some(unseen) = unseen_in(name) {
        format!("{what} name {name:?} has the character {unseen:?}, which nobody sees")
    } else {
        return Ok(());
    };
    Err(at_line(line, problem))
}

fn declare(builder: &mut FabricBuilder, line: u32, name: &str, kind: NodeKind) -> Result<(), FabricError> {
    check_name(line, "node", name, false)?;
    // The builder takes a repeated declaration of the same kind, and a document must not repeat itself.
    if builder.find(name).is_some() {
        return Err(at_line(line, format!("node {name:?} is declared twice")));
    }
    builder.node(name, kind).map(|_| ()).map_err(|e| at_line(line, e))
}

fn add_gpus(builder: &mut FabricBuilder, entries: &[Lined<Gpus>]) -> Result<(), FabricError> {
    let mut stated: BTreeSet<NodeId> = BTreeSet::new();
    let mut others: Option<HostGpus> = None;
    for Lined { line, value: Gpus { hosts, count, gpu_type } } in entries {
        if count.is_none() && gpu_type.is_none() {
            return Err(at_line(*line, "gpus: an entry without count and type"));
        }
        if let Some(count) = count.filter(|count| !(1..=HOST_GPUS_MAX).contains(count)) {
            return Err(at_line(*line, format!("gpus: count {count} is not in 1..={HOST_GPUS_MAX}")));
        }
        if let Some(gpu_type) = gpu_type {
            check_name(*line, "GPU type", gpu_type, false)?;
        }
        let gpus = HostGpus { count: *count, gpu_type: gpu_type.clone() };
        match hosts {
            None if others.is_some() => return Err(at_line(*line, "gpus: a second entry without hosts")),
            None => others = Some(gpus),
            Some(hosts) if hosts.is_empty() => {
                return Err(at_line(*line, "gpus: an entry of no hosts; without the key it is of all others"));
            }
            Some(hosts) => {
                for name in hosts {
                    let unknown = || at_line(*line, format!("gpus: {}", FabricError::UnknownNode { name: cut(name) }));
                    let host = builder.find(name).ok_or_else(unknown)?;
                    if builder.nodes()[host.index()].kind != NodeKind::Host {
                        return Err(at_line(*line, format!("gpus: {name:?} is a switch")));
                    }
                    if !stated.insert(host) {
                        return Err(at_line(*line, format!("gpus: host {name:?} stands twice")));
                    }
                    builder.gpus(host, gpus.clone());
                }
            }
        }
    }
    if let Some(others) = others {
        let is_other = |(at, node): (usize, &Node)| NodeId::from_index(at).filter(|id| node.kind == NodeKind::Host && !stated.contains(id));
        let rest: Vec<NodeId> = builder.nodes().iter().enumerate().filter_map(is_other).collect();
        rest.into_iter().for_each(|host| builder.gpus(host, others.clone()));
    }
    Ok(())
}

fn add_cable(builder: &mut FabricBuilder, defaults: &Direction, cable: &Lined<Cable>) -> Result<(), FabricError> {
    let Lined { line, value: cable } = cable;
    let [a, b] = &cable.ends;
    let ends = (resolve(builder, *line, a)?, resolve(builder, *line, b)?);
    let there = state(*line, &cable.direction(), &state_default(*line, defaults)?)?;
    // The opposite direction completes what it leaves out from the cable, not from the defaults.
    let back = match (&cable.reverse, cable.one_way) {
        (Some(_), true) => return Err(at_line(*line, "one_way: true contradicts reverse")),
        (_, true) => None,
        (None, false) => Some(there),
        (Some(reverse), false) => Some(state(*line, reverse, &there)?),
    };
    let count = cable.parallel.unwrap_or(1);
    if count == 0 || count > PARALLEL_MAX {
        return Err(at_line(*line, format!("parallel: {count} is not in 1..={PARALLEL_MAX}")));
    }
    if count > 1 && (ends.0.1.is_some() || ends.1.1.is_some()) {
        return Err(at_line(*line, format!("parallel: {count} cables cannot share one named port; write one entry per cable")));
    }
    for _ in 0..count {
        let (from, to) = (port(builder, &ends.0), port(builder, &ends.1));
        for (end, port) in [(a, &from), (b, &to)] {
            // The mark keeps a number a number when a written fabric is read again.
            if matches!(end, End::Keys(keys) if keys.numbered) {
                builder.numbered(port.clone());
            }
        }
        let link = |builder: &mut FabricBuilder, from: &Port, to: &Port, (rate, provenance)| {
            builder.link(from.clone(), to.clone(), rate, provenance).map_err(|e| at_line(*line, e))
        };
        link(builder, &from, &to, there)?;
        if let Some(back) = back {
            link(builder, &to, &from, back)?;
        }
    }
    Ok(())
}

/// Node and, where given, port of an end.
type ResolvedEnd = (NodeId, Option<String>);

fn port(builder: &mut FabricBuilder, (node, name): &ResolvedEnd) -> Port {
    Port { node: *node, name: name.clone().unwrap_or_else(|| builder.next_port(*node)) }
}

fn resolve(builder: &FabricBuilder, line: u32, end: &End) -> Result<ResolvedEnd, FabricError> {
    let unknown = |name: &str| at_line(line, FabricError::UnknownNode { name: cut(name) });
    let (node, port) = match end {
        End::Keys(keys) => (builder.find(&keys.node).ok_or_else(|| unknown(&keys.node))?, Some(keys.port.as_str())),
        End::Text(text) => split_end(text, |name| builder.find(name)).ok_or_else(|| unknown(text))?,
    };
    if let Some(port) = port {
        check_name(line, "port", port, false)?;
    }
    Ok((node, port.map(String::from)))
}

/// Reads `node` or `node:port`. Both may contain colons, so the whole text is tried as a node
/// first and then each prefix, shortest first.
pub(super) fn split_end<Id>(text: &str, find: impl Fn(&str) -> Option<Id>) -> Option<(Id, Option<&str>)> {
    if let Some(node) = find(text) {
        return Some((node, None));
    }
    // A name is at most NAME_BYTES_MAX long, so the colons beyond it need no look.
    let colons = text.match_indices(':').map(|(i, _)| i).take_while(|&i| i <= NAME_BYTES_MAX);
    let mut splits = colons.map(|i| (&text[..i], &text[i + 1..]));
    splits.find_map(|(name, port)| Some((find(name)?, Some(port))))
}

type Stated = (Option<Rate>, Provenance);

fn state_default(line: u32, defaults: &Direction) -> Result<Stated, FabricError> {
    state(line, defaults, &(None, Provenance::Intended))
}

/// The statement about a direction, completed from `otherwise`.
fn state(line: u32, direction: &Direction, otherwise: &Stated) -> Result<Stated, FabricError> {
    let rate = match (direction.capacity, direction.mbps) {
        (None, None) => otherwise.0,
        (_, Some(0)) => return Err(at_line(line, "mbps: 0 is a link that carries nothing; leave it out")),
        (Some(capacity), None) => capacity.0,
        (None, Some(mbps)) => Some(Rate(mbps)),
        // Both keys may be given where they agree.
        (Some(capacity), Some(mbps)) if capacity.0 == Some(Rate(mbps)) => capacity.0,
        (Some(capacity), Some(mbps)) => {
            let stated = capacity.0.map_or_else(|| "unknown".to_string(), crate::capacity::text);
            return Err(at_line(line, format!("capacity: {stated} contradicts mbps: {mbps}")));
        }
    };
    let provenance = direction.provenance.map(|p: ProvenanceName| p.into());
    Ok((rate, provenance.unwrap_or(otherwise.1)))
}
