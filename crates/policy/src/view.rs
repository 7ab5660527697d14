//! The view of a cluster that a policy gets.

use alloc::vec::Vec;

use fabric::Fabric;
use job::Placement;
use units::{JobId, Nanos};

/// A cluster: its fabric, and every job that runs or waits.
#[derive(Clone, Debug)]
pub struct ClusterView<'a> {
    /// Hosts, NICs and how they hang together. A job takes one NIC for each of its ranks.
    pub fabric: &'a Fabric,
    /// The jobs, in any order.
    pub jobs: Vec<JobView>,
}

/// A job, as a policy sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobView {
    /// Which job, as in [`job::Candidate`].
    pub id: JobId,
    /// GPUs that it needs, all or none; each has a NIC of its own.
    pub gpus: u32,
    /// When it was submitted.
    pub submitted: Nanos,
    /// How long it would still take alone.
    pub remaining: Nanos,
    /// Where it runs; without ranks it waits.
    pub placement: Placement,
}
