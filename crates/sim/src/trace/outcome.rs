//! What came of a trace.

use alloc::vec::Vec;

use super::{FaultOutcome, GrowthOutcome, NetworkOutcome};

/// Share of jobs whose completion time is at most the p99.
const P99: f64 = 0.99;

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
        self.jct_s.iter().sum::<f64>() / self.jct_s.len().max(1) as f64
    }

    /// The completion time at place 0.99 n of the sorted ones, as the authors' scripts take it.
    #[must_use]
    pub fn p99_s(&self) -> f64 {
        let mut sorted = self.jct_s.clone();
        sorted.sort_by(f64::total_cmp);
        // Casting cuts, which is what the scripts do.
        sorted.get((P99 * sorted.len() as f64) as usize).copied().unwrap_or(0.0)
    }
}
