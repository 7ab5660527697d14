//! Which NIC sends to which NIC: the traffic of a collective, before it is routed.
//!
//! A placement gives every rank an [`Endpoint`]. A [`Collective`] turns the ranks of a job into
//! [`Flow`]s between endpoints. Traffic inside a host makes no flow, because it never touches a
//! link. Communication libraries enter and leave every host once per channel and run one channel
//! per NIC (NCCL's rings and trees do), so a job whose hosts have several NICs uses them all, the
//! c-th channel on the c-th NIC of each host.

mod name;
mod pattern;
mod weigh;

pub use name::{Collective, UnknownCollective};

use alloc::vec::Vec;

use units::{NodeId, Share};

use crate::FabricError;

/// Most flows that one collective may make: an all-to-all over 2,048 NICs. It keeps the memory
/// of a hostile placement below 128 MiB.
pub const FLOWS_MAX: usize = 1 << 22;

/// One NIC of a host, as seen by a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    /// The host.
    pub host: NodeId,
    /// Which NIC of the host: the number of its outgoing link in order of link id, modulo how
    /// many it has. Two rails that name one NIC of a host by wrapping count as two NICs here.
    pub rail: u16,
}

/// Traffic from one NIC to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// Sending NIC.
    pub from: Endpoint,
    /// Receiving NIC.
    pub to: Endpoint,
    /// Fraction of the rate of the collective's busiest NIC.
    pub share: Share,
}

/// The flows of `collective` over `ranks`, in order of (from, to), one per pair of NICs.
///
/// `ranks` is in rank order; several ranks may share a host or a NIC. Shares are normalised so
/// that the busiest sending NIC carries exactly [`Share::ONE`]: the profile's rate is what that
/// NIC sends. All patterns but the two directions of a pipeline are symmetric, so the busiest
/// receiving NIC carries the same up to the rounding of one unit per flow. A NIC of a pipeline
/// receives more than any sends only where ranks of one group come back to a host that they had left.
///
/// The work grows with the number of flows, which is quadratic for an all-to-all; use
/// [`try_flows`] for a placement that nobody has bounded.
#[must_use]
pub fn flows(collective: Collective, ranks: &[Endpoint]) -> Vec<Flow> {
    weigh::normalise(pattern::pairs(collective, ranks))
}

/// [`flows`], refused when there could be more than [`FLOWS_MAX`] of them.
///
/// # Errors
/// [`FabricError::TooLarge`] before any flow is made.
pub fn try_flows(collective: Collective, ranks: &[Endpoint]) -> Result<Vec<Flow>, FabricError> {
    // The bound costs one pass over the ranks, while the flows may be quadratic in them.
    let count = pattern::pairs_bound(collective, ranks);
    if count > FLOWS_MAX {
        return Err(FabricError::TooLarge { what: "flows of one collective", count, limit: FLOWS_MAX });
    }
    Ok(flows(collective, ranks))
}
