//! The network beside the fabric, over which agents reach the topology service: a namespace, and a cable from it to the host of every rank.
//! Training traffic never takes it. Agents talk to the service alone, so there is no bridge, which some kernels lack.

use std::{fmt::Write as _, net::Ipv4Addr};

use anyhow::Result;

use crate::{network::Lab, tool, wiring};

/// Where the topology service listens.
pub(crate) const SERVICE: Ipv4Addr = Ipv4Addr::new(10, 79, 0, 1);
/// The host's end of its cable.
pub(crate) const DEVICE: &str = "m0";
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
    let [a, b, c, first] = SERVICE.octets();
    let mut cables = format!("netns add {name}\n");
    let mut inside = String::from("link set lo up\n");
    let mut addresses = Vec::new();
    for (n, host) in hosts.iter().enumerate() {
        // A case has at most 64 nodes (`case::NODES_MAX`), so the last byte does not overflow.
        let address = Ipv4Addr::new(a, b, c, first + 1 + n as u8);
        let _ = writeln!(cables, "link add {DEVICE} netns {host} type veth peer name m{n} netns {name}");
        // The service has one address at the end of every cable; the other end tells them apart.
        let _ = write!(inside, "addr add {SERVICE} peer {address} dev m{n}\nlink set m{n} up\n");
        addresses.push(format!("addr add {address} peer {SERVICE} dev {DEVICE}\nlink set {DEVICE} up\n"));
    }
    tool::run("ip", &["-batch", "-"], &cables)?;
    tool::enter(&name, || tool::run("ip", &["-batch", "-"], &inside))?;
    for (host, address) in hosts.iter().zip(&addresses) {
        tool::enter(host, || tool::run("ip", &["-batch", "-"], address))?;
    }
    Ok(())
}
