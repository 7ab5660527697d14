//! Rail-optimised fabrics: the r-th NIC of every host of a group hangs on the r-th rail leaf.

use alloc::{format, vec::Vec};

use units::{NodeId, Rate};

use super::{Plan, at_least_one, some_rate};
use crate::{Fabric, FabricError};

/// Groups of hosts with one leaf per rail, and spines above all leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rail {
    /// Groups ("scalable units"), each with its own rail leaves.
    pub groups: u32,
    /// Hosts in each group.
    pub hosts_per_group: u32,
    /// NICs per host, and rail leaves per group.
    pub rails: u32,
    /// Spine switches, each cabled to every rail leaf; 0 leaves the rails apart, as a rail-only
    /// network does, where hosts forward between rails themselves.
    pub spines: u32,
    /// Capacity of one NIC's cable.
    pub host_rate: Rate,
    /// Capacity of one cable from leaf to spine.
    pub uplink_rate: Rate,
    /// Parallel cables from each leaf to each spine.
    pub uplinks: u32,
}

/// A rail-optimised fabric: `su1-rail1..`, `spine1..`, `h1..` with ports `nic0..`, so that rail r
/// of an endpoint is NIC r.
///
/// # Errors
/// As [`super::clos2`]; one group at least has to have a spine when there are several.
pub fn rail(spec: &Rail) -> Result<Fabric, FabricError> {
    let &Rail { groups, hosts_per_group, rails, spines, uplinks, .. } = spec;
    at_least_one(&[("groups", groups), ("hosts-per-group", hosts_per_group), ("rails", rails)])?;
    some_rate(&[("host-rate", spec.host_rate), ("uplink-rate", spec.uplink_rate)])?;
    // Without spines nothing reads `uplinks`, so any value of it is taken.
    if spines > 0 {
        at_least_one(&[("uplinks", uplinks)])?;
    } else if groups > 1 {
        let problem = format!("is 0, so nothing would join the {groups} groups");
        return Err(FabricError::Document { place: "parameter spines".into(), problem });
    }
    let cables: [&[u32]; 2] = [&[groups, hosts_per_group, rails], &[groups, rails, spines, uplinks]];
    let mut plan = Plan::new("rail", &[&[groups, hosts_per_group], &[groups, rails], &[spines]], &cables)?;
    let mut leaves: Vec<NodeId> = Vec::new();
    for g in 0..groups {
        // The leaves of earlier groups stand before `first`: a host is cabled to the rails of its own group only.
        let first = leaves.len();
        for r in 1..=rails {
            leaves.push(plan.switch(&format!("su{}-rail{r}", g + 1), 1)?);
        }
        for h in 0..hosts_per_group {
            let host = plan.host(&format!("h{}", g * hosts_per_group + h + 1))?;
            for (r, &leaf) in leaves[first..].iter().enumerate() {
                plan.cable(host, format!("nic{r}"), leaf, spec.host_rate)?;
            }
        }
    }
    for s in 1..=spines {
        let spine = plan.switch(&format!("spine{s}"), 2)?;
        for &leaf in &leaves {
            plan.cables(leaf, spine, spec.uplink_rate, uplinks)?;
        }
    }
    Ok(plan.build())
}
