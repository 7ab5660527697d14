//! What jobs are, and how fast they are beside each other: tables that somebody measured.

/// Models.
pub const MODELS: [&str; 6] = ["MobileNetV3", "GraphSage", "FSDP", "Transformer-XL", "DLRM", "MoE"];
/// GPUs that a job asks for.
pub const DEMANDS: [u32; 3] = [2, 4, 8];
/// How a job may be spread: its GPUs, and over how many nodes.
pub const SPREADS: [(u32, u32); 6] = [(2, 2), (4, 2), (4, 4), (8, 2), (8, 4), (8, 8)];
/// Models and their spreads, in that order: rows and columns of a table.
pub const ROWS: usize = MODELS.len() * SPREADS.len();

/// What a job trains, on how many GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Which of [`MODELS`].
    pub model: usize,
    /// Which of [`DEMANDS`].
    pub demand: usize,
}

impl Kind {
    /// Its GPUs.
    #[must_use]
    pub fn gpus(self) -> u32 {
        DEMANDS.get(self.demand).copied().unwrap_or_default()
    }

    /// Its row on so many nodes; none where it cannot be spread so.
    #[must_use]
    pub fn row(self, nodes: u32) -> Option<usize> {
        let spread = SPREADS.iter().position(|spread| *spread == (self.gpus(), nodes))?;
        Some(self.model * SPREADS.len() + spread)
    }
}

/// A job of a trace. All are there from the beginning.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Job {
    /// What it trains.
    pub kind: Kind,
    /// Samples until it is done.
    pub samples: f64,
}

/// What was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// By row, samples a second alone.
    pub alone: [f64; ROWS],
    /// By row, what is left of that beside a job of each row.
    pub beside: [[f64; ROWS]; ROWS],
}

/// However many share a node, so much of a job's speed is left.
const LEAST: f64 = 0.35;

impl Table {
    /// The share of its solo speed that a job keeps on a node: the least that any of the other jobs leaves it. Arguments are rows of the table.
    #[must_use]
    pub fn share(&self, own: usize, others: impl Iterator<Item = usize>) -> f64 {
        let beside = |other: usize| self.beside.get(own).and_then(|row| row.get(other)).copied().unwrap_or(1.0);
        others.fold(1.0, |share: f64, other| share.min(beside(other)).max(LEAST))
    }
}
