//! What others have: DeepShare's paper, and its authors' simulator with their trained policies, run again by us (gajagajago/deepshare, commit a704439).

use serde::Serialize;

/// Figures of a trace: jobs run so long in the mean and at the 99th percentile (hours), GPUs in use, shares of their speed, completion with waiting and
/// makespan (hours).
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Figures {
    pub(super) ran_h: f64,
    pub(super) ran_p99_h: f64,
    pub(super) used: f64,
    pub(super) share: f64,
    pub(super) completion_h: f64,
    pub(super) makespan_h: f64,
}

const fn of(ran_h: f64, ran_p99_h: f64, used: f64, share: f64, completion_h: f64, makespan_h: f64) -> Figures {
    Figures { ran_h, ran_p99_h, used, share, completion_h, makespan_h }
}

/// A row of others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Other {
    pub(super) rule: &'static str,
    /// What the paper's figure shows for the time that a job runs, in hours.
    pub(super) published: &'static str,
    /// On the traces "simulate" and "real".
    pub(super) peer: [Figures; 2],
}

const RL: &str = "1.24 to 1.52";

pub(super) const OTHERS: [Other; 11] = [
    Other {
        rule: "LAS, as published",
        published: "1.78",
        peer: [of(1.689, 2.75, 0.907, 0.627, 38.79, 75.42), of(1.664, 2.583, 0.912, 0.646, 38.59, 77.08)],
    },
    Other {
        rule: "SRTF, as published",
        published: "1.75",
        peer: [of(1.66, 2.583, 0.929, 0.636, 68.16, 71.83), of(1.64, 2.5, 0.937, 0.656, 69.72, 73.17)],
    },
    Other {
        rule: "DeepShare, weights 0.3 and 0.7",
        published: RL,
        peer: [of(1.497, 2.583, 0.836, 0.671, 28.73, 68.25), of(1.441, 2.083, 0.826, 0.694, 30.25, 70.08)],
    },
    Other {
        rule: "DeepShare, weights 0.4 and 0.6",
        published: RL,
        peer: [of(1.444, 2.454, 0.8, 0.698, 28.19, 68.42), of(1.379, 2.037, 0.775, 0.727, 30.22, 71.0)],
    },
    Other {
        rule: "DeepShare, weights 0.5 and 0.5",
        published: RL,
        peer: [of(1.413, 2.037, 0.629, 0.715, 39.84, 86.83), of(1.405, 1.954, 0.721, 0.713, 34.14, 77.75)],
    },
    Other {
        rule: "DeepShare, weights 0.6 and 0.4",
        published: RL,
        peer: [of(1.417, 2.317, 0.592, 0.721, 42.97, 92.17), of(1.378, 2.271, 0.591, 0.739, 45.87, 93.17)],
    },
    Other {
        rule: "DeepShare, weights 0.7 and 0.3",
        published: RL,
        peer: [of(1.329, 1.787, 0.708, 0.763, 31.61, 73.83), of(1.276, 1.917, 0.709, 0.789, 30.12, 73.92)],
    },
    Other { rule: "greedy", published: "", peer: [of(1.435, 2.333, 0.948, 0.702, 23.98, 58.42), of(1.362, 2.0, 0.99, 0.734, 22.35, 56.0)] },
    Other {
        rule: "greedy above 0.3",
        published: "",
        peer: [of(1.251, 1.667, 0.713, 0.811, 30.23, 69.33), of(1.255, 1.667, 0.789, 0.799, 27.89, 65.83)],
    },
    Other {
        rule: "greedy above 0.5",
        published: "",
        peer: [of(1.166, 1.667, 0.605, 0.87, 35.72, 77.92), of(1.174, 1.667, 0.631, 0.854, 35.45, 78.67)],
    },
    Other {
        rule: "greedy above 0.7",
        published: "",
        peer: [of(1.092, 1.5, 0.475, 0.939, 40.49, 91.67), of(1.054, 1.371, 0.467, 0.954, 40.83, 93.67)],
    },
];
