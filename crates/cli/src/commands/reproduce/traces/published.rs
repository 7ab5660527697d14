//! What the paper and its authors' figures print (Zhao and others, "Multi-Resource Interleaving for Deep Learning Training", SIGCOMM 2022):
//! tables 4 and 5 for the testbed, the numbers behind figures 9 and 10 for the four traces and for the same with all jobs submitted at once.

/// A trace, and what others took on it over Muri: mean and p99 of completion times, and makespan.
#[derive(Clone, Copy, Debug)]
pub(super) struct Published {
    pub(super) trace: &'static str,
    pub(super) file: &'static str,
    /// All jobs are submitted at once.
    pub(super) at_once: bool,
    /// The authors made their figures before groups were split again that lose; their testbed does it.
    pub(super) autopack: bool,
    pub(super) ratios: &'static [(Policy, [f64; 3])],
}

/// Whom Muri is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    Srtf,
    Srsf,
    Tiresias,
    AntMan,
    Themis,
}

use Policy::{AntMan, Srsf, Srtf, Themis, Tiresias};

/// In the order of the paper.
#[expect(clippy::approx_constant, reason = "a printed ratio happens to be 3.14")]
pub(super) const PUBLISHED: [Published; 9] = [
    Published {
        trace: "testbed",
        file: "testbed_400.csv",
        at_once: false,
        autopack: true,
        ratios: &[(Srtf, [2.12, 3.31, 1.56]), (Srsf, [2.03, 3.82, 1.59]), (Tiresias, [2.59, 2.54, 1.48]), (Themis, [3.56, 2.60, 1.47])],
    },
    Published {
        trace: "1",
        file: "trace1.csv",
        at_once: false,
        autopack: false,
        ratios: &[
            (Srtf, [1.58, 1.57, 1.41]),
            (Srsf, [1.13, 1.46, 1.41]),
            (Tiresias, [3.11, 1.30, 1.27]),
            (AntMan, [5.11, 1.21, 1.17]),
            (Themis, [1.70, 1.52, 1.33]),
        ],
    },
    Published {
        trace: "1 at once",
        file: "trace1.csv",
        at_once: true,
        autopack: false,
        ratios: &[
            (Srtf, [1.57, 1.48, 1.48]),
            (Srsf, [1.23, 1.36, 1.46]),
            (Tiresias, [3.23, 1.65, 1.32]),
            (AntMan, [4.58, 1.52, 1.22]),
            (Themis, [1.55, 1.56, 1.40]),
        ],
    },
    Published {
        trace: "2",
        file: "trace2.csv",
        at_once: false,
        autopack: false,
        ratios: &[
            (Srtf, [1.99, 1.66, 1.43]),
            (Srsf, [1.65, 1.56, 1.44]),
            (Tiresias, [2.91, 1.71, 1.47]),
            (AntMan, [6.15, 1.74, 1.47]),
            (Themis, [1.82, 1.68, 1.44]),
        ],
    },
    Published {
        trace: "2 at once",
        file: "trace2.csv",
        at_once: true,
        autopack: false,
        ratios: &[
            (Srtf, [1.75, 1.59, 1.51]),
            (Srsf, [1.46, 1.50, 1.49]),
            (Tiresias, [2.54, 1.79, 1.50]),
            (AntMan, [4.37, 1.82, 1.52]),
            (Themis, [3.02, 1.81, 1.55]),
        ],
    },
    Published {
        trace: "3",
        file: "trace3.csv",
        at_once: false,
        autopack: false,
        ratios: &[
            (Srtf, [2.26, 4.57, 1.00]),
            (Srsf, [2.16, 4.22, 1.00]),
            (Tiresias, [3.92, 5.37, 1.00]),
            (AntMan, [3.44, 4.21, 1.00]),
            (Themis, [4.48, 3.20, 1.00]),
        ],
    },
    Published {
        trace: "3 at once",
        file: "trace3.csv",
        at_once: true,
        autopack: false,
        ratios: &[
            (Srtf, [1.57, 1.55, 1.65]),
            (Srsf, [1.48, 1.52, 1.57]),
            (Tiresias, [2.40, 1.62, 1.54]),
            (AntMan, [2.90, 1.39, 1.32]),
            (Themis, [1.63, 1.56, 1.54]),
        ],
    },
    Published {
        trace: "4",
        file: "trace4.csv",
        at_once: false,
        autopack: false,
        ratios: &[
            (Srtf, [1.59, 2.08, 1.34]),
            (Srsf, [1.33, 1.97, 1.35]),
            (Tiresias, [3.07, 1.84, 1.20]),
            (AntMan, [5.16, 1.36, 1.13]),
            (Themis, [2.32, 1.69, 1.26]),
        ],
    },
    Published {
        trace: "4 at once",
        file: "trace4.csv",
        at_once: true,
        autopack: false,
        ratios: &[
            (Srtf, [1.50, 1.44, 1.43]),
            (Srsf, [1.28, 1.40, 1.44]),
            (Tiresias, [1.80, 1.76, 1.25]),
            (AntMan, [3.14, 1.56, 1.17]),
            (Themis, [1.53, 1.59, 1.33]),
        ],
    },
];
