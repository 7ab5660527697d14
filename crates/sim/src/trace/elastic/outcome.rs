//! What came of a trace of elastic jobs.

use alloc::vec::Vec;

use super::super::outcome::p99_s;
use crate::statistics;

/// When each job was done, and what it took to decide.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ElasticOutcome {
    /// Completion times (end less submission), in the order of the trace, in seconds.
    pub jct_s: Vec<f64>,
    /// How often each job was restarted after its first start.
    pub restarts: Vec<u32>,
    /// GPU time of each job by type, restarts included, in seconds.
    pub gpu_s: Vec<Vec<f64>>,
    /// From the first submission to the end of the last job, in seconds.
    pub makespan_s: f64,
    /// What each decision cost, on the clock of the setup.
    pub policy_s: Vec<f64>,
    /// How often a running job was left without GPUs.
    pub preemptions: u64,
    /// On a fabric: how many times as long iterations of jobs that span nodes took as on a network that is in nobody's way, each by the time
    /// of its GPUs.
    pub longer_mean: Option<f64>,
    /// The 99th percentile of the same.
    pub longer_p99: Option<f64>,
    /// On a fabric: how many different meetings of jobs the planner predicted.
    pub predicted: u64,
}

impl ElasticOutcome {
    /// The mean completion time.
    #[must_use]
    pub fn mean_s(&self) -> f64 {
        statistics::mean(&self.jct_s)
    }

    /// The completion time at place 0.99 n of the sorted ones, as of jobs that are not elastic.
    #[must_use]
    pub fn p99_s(&self) -> f64 {
        p99_s(&self.jct_s)
    }

    /// The completion time below which a share of the jobs lies, between the two next ones, as the scripts of Sia's authors take it.
    #[must_use]
    pub fn quantile_s(&self, share: f64) -> f64 {
        quantile(&self.jct_s, share)
    }

    /// What a decision cost: the quantile of a share of them.
    #[must_use]
    pub fn policy_quantile_s(&self, share: f64) -> f64 {
        quantile(&self.policy_s, share)
    }

    /// Restarts of a job, on average.
    #[must_use]
    pub fn restarts_mean(&self) -> f64 {
        self.restarts.iter().map(|restarts| f64::from(*restarts)).sum::<f64>() / self.restarts.len().max(1) as f64
    }
}

fn quantile(of: &[f64], share: f64) -> f64 {
    statistics::interpolated(&statistics::sorted(of), share).unwrap_or(0.0)
}
