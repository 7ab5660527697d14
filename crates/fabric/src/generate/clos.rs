//! Folded Clos fabrics of two and three tiers.

use alloc::{format, vec::Vec};

use units::{NodeId, Rate};

use super::{Plan, at_least_one, some_rate};
use crate::{Fabric, FabricError};

/// Leaves and spines, every leaf cabled to every spine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clos2 {
    /// Leaf switches.
    pub leaves: u32,
    /// Spine switches.
    pub spines: u32,
    /// Hosts on each leaf, with one NIC each.
    pub hosts_per_leaf: u32,
    /// Capacity of a host's cable.
    pub host_rate: Rate,
    /// Capacity of one cable from leaf to spine.
    pub uplink_rate: Rate,
    /// Parallel cables from each leaf to each spine.
    pub uplinks: u32,
}

/// A two-tier Clos: `leaf1..`, `spine1..`, `h1..` counted along the leaves.
///
/// # Errors
/// A parameter of zero; more nodes or links than the model allows.
pub fn clos2(spec: &Clos2) -> Result<Fabric, FabricError> {
    let &Clos2 { leaves, spines, hosts_per_leaf, host_rate, uplink_rate, uplinks } = spec;
    at_least_one(&[("leaves", leaves), ("spines", spines), ("hosts-per-leaf", hosts_per_leaf), ("uplinks", uplinks)])?;
    some_rate(&[("host-rate", host_rate), ("uplink-rate", uplink_rate)])?;
    // Nodes and cables are counted as sums of products, so that a fabric over the limits is refused before it is built.
    let cables: [&[u32]; 2] = [&[leaves, hosts_per_leaf], &[leaves, spines, uplinks]];
    let mut plan = Plan::new("clos2", &[&[leaves, hosts_per_leaf], &[leaves], &[spines]], &cables)?;
    let leaf_ids = leaves_with_hosts(&mut plan, "leaf", leaves, hosts_per_leaf, host_rate, 0)?;
    for s in 1..=spines {
        let spine = plan.switch(&format!("spine{s}"), 2)?;
        for &leaf in &leaf_ids {
            plan.cables(leaf, spine, uplink_rate, uplinks)?;
        }
    }
    Ok(plan.build())
}

/// Pods of leaves and spines, joined by cores, in the manner of a fat tree (Al-Fares and others,
/// SIGCOMM 2008): the i-th spine of every pod is cabled to the i-th group of cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clos3 {
    /// Pods.
    pub pods: u32,
    /// Leaf switches in each pod.
    pub leaves_per_pod: u32,
    /// Spine switches in each pod, each cabled to every leaf of the pod.
    pub spines_per_pod: u32,
    /// Core switches above each spine; there are `spines_per_pod` times as many cores.
    pub cores_per_spine: u32,
    /// Hosts on each leaf, with one NIC each.
    pub hosts_per_leaf: u32,
    /// Capacity of a host's cable.
    pub host_rate: Rate,
    /// Capacity of a cable from leaf to spine.
    pub uplink_rate: Rate,
    /// Capacity of a cable from spine to core.
    pub core_rate: Rate,
}

/// A three-tier Clos: `pod1-leaf1..`, `pod1-spine1..`, `core1..`, `h1..` counted along the
/// leaves.
///
/// # Errors
/// As [`clos2`].
pub fn clos3(spec: &Clos3) -> Result<Fabric, FabricError> {
    let &Clos3 { pods, leaves_per_pod: leaves, spines_per_pod: spines, cores_per_spine, hosts_per_leaf, .. } = spec;
    at_least_one(&[("pods", pods), ("leaves-per-pod", leaves), ("spines-per-pod", spines)])?;
    at_least_one(&[("cores-per-spine", cores_per_spine), ("hosts-per-leaf", hosts_per_leaf)])?;
    some_rate(&[("host-rate", spec.host_rate), ("uplink-rate", spec.uplink_rate), ("core-rate", spec.core_rate)])?;
    let nodes: [&[u32]; 4] = [&[pods, leaves, hosts_per_leaf], &[pods, leaves], &[pods, spines], &[spines, cores_per_spine]];
    let cables: [&[u32]; 3] = [nodes[0], &[pods, leaves, spines], &[pods, spines, cores_per_spine]];
    let mut plan = Plan::new("clos3", &nodes, &cables)?;
    let mut groups: Vec<Vec<NodeId>> = Vec::new();
    // Group s of the cores joins the s-th spine of every pod. NODES_MAX bounds the cores, so their numbers fit in a u32.
    for s in 0..spines {
        groups
            .push((0..cores_per_spine).map(|c| plan.switch(&format!("core{}", s * cores_per_spine + c + 1), 3)).collect::<Result<_, _>>()?);
    }
    for p in 0..pods {
        // Hosts are numbered along the leaves of all pods, so the leaves of earlier pods count.
        let prefix = format!("pod{}-leaf", p + 1);
        let leaf_ids = leaves_with_hosts(&mut plan, &prefix, leaves, hosts_per_leaf, spec.host_rate, p * leaves)?;
        for (s, cores) in groups.iter().enumerate() {
            let spine = plan.switch(&format!("pod{}-spine{}", p + 1, s + 1), 2)?;
            for &leaf in &leaf_ids {
                plan.cables(leaf, spine, spec.uplink_rate, 1)?;
            }
            for &core in cores {
                plan.cables(spine, core, spec.core_rate, 1)?;
            }
        }
    }
    Ok(plan.build())
}

/// Leaves `{prefix}1..` with their hosts, whose numbers go on after `leaves_before` leaves.
fn leaves_with_hosts(
    plan: &mut Plan,
    prefix: &str,
    leaves: u32,
    hosts_per_leaf: u32,
    host_rate: Rate,
    leaves_before: u32,
) -> Result<Vec<NodeId>, FabricError> {
    let mut ids = Vec::new();
    for l in 0..leaves {
        let leaf = plan.switch(&format!("{prefix}{}", l + 1), 1)?;
        for h in 0..hosts_per_leaf {
            // The number is at most that of all hosts, which `Plan::new` has held below NODES_MAX, so the product does not
            // overflow.
            let host = plan.host(&format!("h{}", (leaves_before + l) * hosts_per_leaf + h + 1))?;
            plan.cable(host, "eth0".into(), leaf, host_rate)?;
        }
        ids.push(leaf);
    }
    Ok(ids)
}
