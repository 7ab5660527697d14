//! What the hosts of a fabric say of their GPUs, in place of options that are left out.

use std::path::Path;

use ::sim::trace::elastic::GpuType;
use fabric::{Fabric, HostGpus};

use crate::input::CliError;

/// Elastic policies: most nodes of a type, and most GPUs of a node, because a policy looks at every number of nodes that a job can have.
pub(super) const NODES_MAX: u32 = 2_048;
pub(super) const GPUS_PER_NODE_MAX: u32 = 64;
/// Elastic policies: most types, which is what the integer program can tell apart.
pub(super) const TYPES_MAX: usize = 8;

/// GPUs of each host where nobody says how many.
const GPUS: u32 = 8;

/// What helps where hosts do not agree.
const WAY: &str = "--gpus-per-node says how many of each are used";

/// A fabric, the file that it was read from, and how many of its hosts are the cluster's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hosts<'a> {
    pub(super) file: &'a Path,
    pub(super) fabric: &'a Fabric,
    pub(super) count: u32,
}

impl<'a> Hosts<'a> {
    /// Each host's name, and what it says.
    fn all(self) -> impl Iterator<Item = (&'a str, Option<&'a HostGpus>)> {
        let Self { fabric, count, .. } = self;
        fabric.hosts().take(count as usize).map(move |host| (fabric.node(host).name.as_str(), fabric.gpus(host)))
    }

    fn counts(self) -> impl Iterator<Item = (&'a str, Option<u32>)> {
        self.all().map(|(name, gpus)| (name, gpus.and_then(|gpus| gpus.count)))
    }

    fn refuse(self, problem: impl std::fmt::Display) -> CliError {
        CliError::input(self.file, problem)
    }

    /// Nobody uses more GPUs of a host than it has.
    pub(super) fn check(self, asked: u32) -> Result<(), CliError> {
        // A host that says nothing may have as many as are asked for.
        let small = self.counts().find_map(|(name, count)| Some((name, count.filter(|count| *count < asked)?)));
        small.map_or(Ok(()), |(name, count)| Err(self.refuse(format!("host {name:?} has {count} GPUs; --gpus-per-node {asked}"))))
    }
}

/// GPUs of the largest host, where hosts may be unequal: as many as are asked for, else what the hosts say.
pub(super) fn most_gpus(asked: Option<u32>, hosts: Hosts<'_>) -> Result<u32, CliError> {
    if let Some(asked) = asked {
        return hosts.check(asked).map(|()| asked);
    }
    let Some((first, most)) = hosts.counts().filter_map(|(name, count)| Some((name, count?))).max_by_key(|(_, count)| *count) else {
        return Ok(GPUS);
    };
    match hosts.counts().find(|(_, count)| count.is_none()) {
        None => Ok(most),
        Some((name, _)) => Err(hosts.refuse(format!("host {first:?} has {most} GPUs and host {name:?} does not say; {WAY}"))),
    }
}

/// GPUs of each host, all being equal: as many as are asked for, else what the hosts say.
pub(super) fn gpus_per_node(asked: Option<u32>, hosts: Option<Hosts<'_>>) -> Result<u32, CliError> {
    let Some(hosts) = hosts else { return Ok(asked.unwrap_or(GPUS)) };
    if let Some(asked) = asked {
        return hosts.check(asked).map(|()| asked);
    }
    let Some((first, count)) = hosts.counts().find_map(|(name, count)| Some((name, count?))) else { return Ok(GPUS) };
    match hosts.counts().find(|(_, other)| *other != Some(count)) {
        None => Ok(count),
        Some((name, other)) => {
            let says = other.map_or_else(|| "does not say".to_owned(), |other| format!("has {other}"));
            Err(hosts.refuse(format!("host {first:?} has {count} GPUs and host {name:?} {says}; {WAY}")))
        }
    }
}

/// The nodes by type, as the hosts say it; nothing where no host says a type.
pub(super) fn types(hosts: Hosts<'_>) -> Result<Vec<GpuType>, CliError> {
    if hosts.all().all(|(_, gpus)| gpus.is_none_or(|gpus| gpus.gpu_type.is_none())) {
        return Ok(Vec::new());
    }
    let mut found: Vec<GpuType> = Vec::new();
    for (host, gpus) in hosts.all() {
        let Some(HostGpus { count: Some(count), gpu_type: Some(name) }) = gpus else {
            return Err(hosts.refuse(format!("host {host:?} does not say how many GPUs of which type it has, and others do")));
        };
        if *count > GPUS_PER_NODE_MAX {
            return Err(hosts.refuse(format!("host {host:?} has {count} GPUs; an elastic policy looks at {GPUS_PER_NODE_MAX} at most")));
        }
        match found.iter().position(|of| of.name == *name) {
            None => found.push(GpuType { name: name.clone(), nodes: 1, gpus_per_node: *count }),
            Some(at) if found[at].gpus_per_node != *count => {
                let other = found[at].gpus_per_node;
                return Err(hosts.refuse(format!(
                    "host {host:?} has {count} GPUs of type {name:?} and another one {other}: nodes of a type are alike"
                )));
            }
            Some(at) if at + 1 == found.len() => found[at].nodes += 1,
            // Nodes are numbered type by type, and hosts are nodes in order.
            Some(_) => {
                return Err(hosts.refuse(format!("host {host:?}: type {name:?} comes again after another one; list hosts type by type")));
            }
        }
    }
    if found.len() > TYPES_MAX {
        return Err(hosts.refuse(format!("{} GPU types; an elastic policy looks at {TYPES_MAX} at most", found.len())));
    }
    match found.iter().find(|of| of.nodes > NODES_MAX) {
        Some(of) => Err(hosts.refuse(format!("{} hosts of type {:?}; an elastic policy looks at {NODES_MAX} at most", of.nodes, of.name))),
        None => Ok(found),
    }
}
