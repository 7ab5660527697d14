//! The table of the scheduler.

use fabric::Fabric;
use policy::schedule::Rule;
use serde::Deserialize;
use state::{config::GPUS_PER_HOST, scheduler::Settings};
use units::{Nanos, NodeId};

/// A day: who waits longer has forgotten what for.
pub(super) const SECONDS_MAX: u32 = 86_400;

/// A scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SchedulerConfig {
    /// Who runs.
    pub policy: PolicyName,
    /// GPUs of each host of the fabric, where the fabric does not state them.
    #[serde(default)]
    pub gpus_per_host: Option<u32>,
    /// Hosts on which nobody is started.
    #[serde(default)]
    pub without: Vec<String>,
    /// Least time between two rounds that stop jobs, in seconds.
    #[serde(default = "round_s")]
    pub round_s: u32,
    /// How long the executor may take to start a job, in seconds.
    #[serde(default = "start_s")]
    pub start_s: u32,
    /// How long it may take to stop one, in seconds.
    #[serde(default = "stop_s")]
    pub stop_s: u32,
}

/// A policy whose jobs share no GPUs: an executor that lets several jobs run on one is not there yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PolicyName {
    /// First come, first served.
    Fifo,
    /// Shortest remaining time first.
    Srtf,
    /// Shortest remaining service first.
    Srsf,
    /// Least attained service first.
    Tiresias,
    /// Leases by auction.
    Themis,
}

impl PolicyName {
    /// As the configuration names it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Fifo => "fifo",
            Self::Srtf => "srtf",
            Self::Srsf => "srsf",
            Self::Tiresias => "tiresias",
            Self::Themis => "themis",
        }
    }

    const fn rule(self) -> Rule {
        match self {
            Self::Fifo => Rule::Fifo,
            Self::Srtf => Rule::Srtf,
            Self::Srsf => Rule::Srsf,
            Self::Tiresias => Rule::TIRESIAS,
            Self::Themis => Rule::Themis,
        }
    }
}

/// Rounds of six minutes, as Muri's authors have them.
const fn round_s() -> u32 {
    360
}

const fn start_s() -> u32 {
    300
}

const fn stop_s() -> u32 {
    120
}

impl SchedulerConfig {
    /// A scheduler with this policy, and the defaults.
    #[must_use]
    pub fn of(policy: PolicyName) -> Self {
        let without = Vec::new();
        Self { policy, gpus_per_host: None, without, round_s: round_s(), start_s: start_s(), stop_s: stop_s() }
    }

    /// GPUs of a host: as the fabric states, else as is said here.
    #[must_use]
    pub fn gpus(&self, fabric: &Fabric, host: NodeId) -> u32 {
        state::gpus_of(fabric, host, self.gpus_per_host).unwrap_or(GPUS_PER_HOST)
    }

    /// As the scheduler takes it.
    #[must_use]
    pub fn settings(&self) -> Settings {
        let seconds = |seconds: u32| Nanos(u64::from(seconds) * Nanos::PER_SECOND);
        Settings {
            rule: self.policy.rule(),
            round: seconds(self.round_s),
            start_within: seconds(self.start_s),
            stop_within: seconds(self.stop_s),
        }
    }
}
