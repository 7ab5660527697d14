//! The verbs for schedulers of Kubernetes: whether they are served, and where pods say what they are.

use serde::Deserialize;

/// How much more than on the best node, in percent of one iteration: ten iterations are far beyond any use.
pub(super) const SLOWER_PERCENT_MAX: u32 = 1_000;

/// Whether the verbs are served, and which annotations or labels of pods say what a pod is.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExtenderConfig {
    /// Whether the verbs are served.
    pub enabled: bool,
    /// Names the job of a pod.
    pub job: String,
    /// Has the job's profile: the name of a model, or a profile document.
    pub profile: String,
    /// Says how many GPUs the job uses on each host.
    pub gpus: String,
    /// Lists the hosts on which pods of the job stand already, separated by commas.
    pub hosts: String,
    /// Nodes on which jobs are predicted to lose more than on the best one by more than this, in percent of one iteration, are
    /// filtered out; 0: none is.
    pub slower_percent: u32,
}

impl Default for ExtenderConfig {
    fn default() -> Self {
        Self {
            enabled: false,
            job: "antiphase/job".into(),
            profile: "antiphase/profile".into(),
            gpus: "antiphase/gpus".into(),
            hosts: "antiphase/hosts".into(),
            slower_percent: 0,
        }
    }
}
