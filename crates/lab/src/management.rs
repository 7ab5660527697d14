//! The network beside the fabric, over which agents reach the topology service: a namespace with a bridge, and a cable to the
//! host of every job's leader. Training traffic never takes it.

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

/// Builds it, unless it stands.
///
/// # Errors
/// The kernel refuses.
pub(crate) fn build(lab: &Lab) -> Result<()> {
    let name = namespace(lab);
    if tool::namespaces(&name)?.contains(&name) {
        return Ok(());
    }
    let leaders: Vec<&str> = (0..lab.case.jobs.len()).map(|job| lab.namespace(job, 0)).collect();
    let mut cables = format!("netns add {name}\n");
    for (job, leader) in leaders.iter().enumerate() {
        let _ = writeln!(cables, "link add m0 netns {leader} type veth peer name m{job} netns {name}");
    }
    tool::run("ip", &["-batch", "-"], &cables)?;
    let mut inside = format!("link set lo up\nlink add br0 type bridge\naddr add {SERVICE}/24 dev br0\nlink set br0 up\n");
    for job in 0..leaders.len() {
        let _ = write!(inside, "link set m{job} master br0\nlink set m{job} up\n");
    }
    tool::enter(&name, || tool::run("ip", &["-batch", "-"], &inside))?;
    for (job, leader) in leaders.iter().enumerate() {
        let [a, b, c, first] = SERVICE.octets();
        let address = Ipv4Addr::new(a, b, c, first + 1 + job as u8);
        tool::enter(leader, || tool::run("ip", &["-batch", "-"], &format!("addr add {address}/24 dev m0\nlink set m0 up\n")))?;
    }
    Ok(())
}
