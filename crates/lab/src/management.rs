//! The network beside the fabric, over which agents reach the topology service: a namespace with a bridge, and a cable to the
//! host of every rank. Training traffic never takes it.

use std::{fmt::Write as _, net::Ipv4Addr};

use anyhow::Result;

use crate::{network::Lab, tool, wiring};

/// Where the topology service listens.
pub(crate) const SERVICE: Ipv4Addr = Ipv4Addr::new(10, 79, 0, 1);
/// Name of its node; a node of a case with this name keeps its own namespace, because that has no underscore in front.
const NODE: &str = "_management";

/// Namespace of the topology service.
pub(crate) fn namespace(lab: &Lab) -> String {
    format!("{}{NODE}", wiring::prefix(&lab.record().id))
}

/// Every rank, as (job, rank); each is a host of its own.
pub(crate) fn hosts(lab: &Lab) -> impl Iterator<Item = (usize, usize)> {
    lab.case.jobs.iter().enumerate().flat_map(|(job, spec)| (0..spec.hosts.len()).map(move |rank| (job, rank)))
}

/// Builds it, unless it stands.
///
/// # Errors
/// The kernel refuses.
pub(crate) fn build(lab: &Lab) -> Result<()> {
    let name = namespace(lab);
    // Every round of an experiment starts a service, and the network between them stays.
    if tool::namespaces(&name)?.contains(&name) {
        return Ok(());
    }
    let hosts: Vec<&str> = hosts(lab).map(|(job, rank)| lab.namespace(job, rank)).collect();
    // A host has one cable to the bridge, `m0`; on the bridge's side the devices are numbered.
    let mut cables = format!("netns add {name}\n");
    for (n, host) in hosts.iter().enumerate() {
        let _ = writeln!(cables, "link add m0 netns {host} type veth peer name m{n} netns {name}");
    }
    tool::run("ip", &["-batch", "-"], &cables)?;
    let mut inside = format!("link set lo up\nlink add br0 type bridge\naddr add {SERVICE}/24 dev br0\nlink set br0 up\n");
    for n in 0..hosts.len() {
        let _ = write!(inside, "link set m{n} master br0\nlink set m{n} up\n");
    }
    tool::enter(&name, || tool::run("ip", &["-batch", "-"], &inside))?;
    for (n, host) in hosts.iter().enumerate() {
        let [a, b, c, first] = SERVICE.octets();
        // A case has at most 64 nodes (`case::NODES_MAX`), so the last byte does not overflow.
        let address = Ipv4Addr::new(a, b, c, first + 1 + n as u8);
        tool::enter(host, || tool::run("ip", &["-batch", "-"], &format!("addr add {address}/24 dev m0\nlink set m0 up\n")))?;
    }
    Ok(())
}
