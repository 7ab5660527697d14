//! What came of a trace.

use alloc::vec::Vec;

use super::{FaultOutcome, GrowthOutcome, NetworkOutcome};
use crate::statistics;

/// The p99 of completion times, by one rule for all policies.
pub(super) fn p99_s(jct_s: &[f64]) -> f64 {
    statistics::at_place(&statistics::sorted(jct_s), statistics::P99).unwrap_or(0.0)
}

/// When each job was done.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Completion times (end less submission), in the order of the trace, in seconds.
    pub jct_s: Vec<f64>,
    /// Finish-time fairness (Themis, NSDI 2020) of each: its completion time over what it would have taken alone on its share of the cluster, of the
    /// GPUs over the mean number of jobs while it was there.
    pub rho: Vec<f64>,
    /// From the first submission to the end of the last job, in seconds.
    pub makespan_s: f64,
    /// Decisions that were taken.
    pub decisions: u64,
    /// How often a running job was stopped for others.
    pub preemptions: u64,
    /// How the network fared, where the cluster has a fabric.
    pub network: Option<NetworkOutcome>,
    /// What went wrong, where anything could.
    pub faults: Option<FaultOutcome>,
    /// Who grew, where any job may and the policy lets it.
    pub growth: Option<GrowthOutcome>,
}

impl Outcome {
    /// The mean completion time.
    #[must_use]
    pub fn mean_s(&self) -> f64 {
        statistics::mean(&self.jct_s)
    }

    /// The completion time at place 0.99 n of the sorted ones, as the scripts of Muri's authors take it.
    #[must_use]
    pub fn p99_s(&self) -> f64 {
        p99_s(&self.jct_s)
    }
}
