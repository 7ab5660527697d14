//! A fabric with the numbers of the CASSINI testbed.

use alloc::{format, vec::Vec};

use units::{NodeId, Rate};

use super::Plan;
use crate::{Fabric, FabricError};

/// The testbed of CASSINI (NSDI 2024, section 5.1): 24 servers with one 50 Gb/s NIC, 13 logical
/// switches, 48 bidirectional links, 2:1 oversubscribed.
///
/// The paper's text gives these four numbers; its drawing was not available to us, so the layout
/// is derived. 24 links go to servers, which leaves 24 between switches. The logical switches
/// are ports of one switch chip joined by loopback cables, so all links have one speed, and 2:1
/// then means that a leaf with 2u servers has u uplinks: 12 uplinks in all, and 12 links above
/// them. One server pair per leaf (u = 1) would leave one switch for those 12 links, which cannot
/// be. The next choice, u = 2, has 6 leaves and 7 switches above, and it closes: two pods of
/// 3 leaves and 2 spines (6 links each), and 3 cores, each cabled to all 4 spines (12 links):
///
/// ```text
///              core1     core2     core3                 3 x 4 = 12 links
///        spine1  spine2       spine3  spine4             4 x 3 = 12 links
///     leaf1 leaf2 leaf3       leaf4 leaf5 leaf6
///      4     4     4           4     4     4             24 servers
/// ```
///
/// 6 + 4 + 3 = 13 switches, 24 + 12 + 12 = 48 links, 2:1 at the leaves and 1:1 above.
///
/// # Errors
/// The builder's own; none in practice.
pub fn cassini24() -> Result<Fabric, FabricError> {
    /// ConnectX-5 at 50 Gb/s, and loopback cables of the same speed.
    const RATE: Rate = Rate(50_000);
    let mut plan = Plan::new("cassini24", &[], &[])?;
    let mut spines: Vec<NodeId> = Vec::new();
    for pod in 0..2 {
        // The spines of a pod are declared before its leaves, because a cable needs both of its nodes.
        let pod_spines = [1, 2].map(|s| plan.switch(&format!("spine{}", pod * 2 + s), 2));
        for leaf in pod * 3 + 1..=pod * 3 + 3 {
            let id = plan.switch(&format!("leaf{leaf}"), 1)?;
            for h in 1..=4 {
                let host = plan.host(&format!("h{}", (leaf - 1) * 4 + h))?;
                plan.cable(host, "eth0".into(), id, RATE)?;
            }
            for spine in &pod_spines {
                plan.cables(id, spine.clone()?, RATE, 1)?;
            }
        }
        spines.extend(pod_spines.into_iter().collect::<Result<Vec<_>, _>>()?);
    }
    for c in 1..=3 {
        let core = plan.switch(&format!("core{c}"), 3)?;
        for &spine in &spines {
            plan.cables(spine, core, RATE, 1)?;
        }
    }
    Ok(plan.build())
}
