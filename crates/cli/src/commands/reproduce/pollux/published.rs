//! What Pollux's authors shipped beside their simulator (petuum/adaptdl, branch osdi21-artifact, `simulator`), and what their code took when we ran it.

/// What was played: mean completion times of workloads 1 to 8, in seconds (`results-jobload/pollux-1.0`, `results-inter/noavoid`, `inter25`, `inter50`).
pub(super) struct Setting {
    pub(super) name: &'static str,
    /// Whether jobs that span nodes share none.
    pub(super) avoids: bool,
    /// The part of their speed that jobs lose where they share one.
    pub(super) loss: f64,
    pub(super) published_s: [f64; WORKLOADS],
}

pub(super) const WORKLOADS: usize = 8;

pub(super) const SETTINGS: [Setting; 4] = [
    Setting {
        name: "avoided",
        avoids: true,
        loss: 0.0,
        published_s: [2_088.768_75, 3_322.943_75, 2_188.493_75, 2_720.981_25, 2_673.7, 2_446.131_25, 3_616.143_75, 2_951.906_25],
    },
    Setting {
        name: "allowed, nothing lost",
        avoids: false,
        loss: 0.0,
        published_s: [2_102.231_25, 3_353.581_25, 2_187.187_5, 2_728.968_75, 2_686.812_5, 2_442.037_5, 3_611.243_75, 2_951.406_25],
    },
    Setting {
        name: "allowed, 25 % lost",
        avoids: false,
        loss: 0.25,
        published_s: [2_565.631_25, 3_683.306_25, 2_377.556_25, 3_153.343_75, 3_161.031_25, 2_808.381_25, 4_314.625, 3_353.112_5],
    },
    Setting {
        name: "allowed, 50 % lost",
        avoids: false,
        loss: 0.5,
        published_s: [3_467.2, 4_322.925, 2_595.85, 4_031.625, 3_858.95, 3_456.981_25, 5_588.118_75, 3_902.806_25],
    },
];

/// A decision of the authors' code, run again by us on the first 140 rounds of workload 6: median and p95, in milliseconds of CPU time.
pub(super) const PEER_DECISION_MS: [f64; 2] = [1_293.0, 1_525.0];
