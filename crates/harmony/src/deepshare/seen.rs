//! What a chooser sees of the cluster, and the trait by which it chooses.

use super::table::Job;

/// Nodes.
pub const NODES: usize = 4;
/// GPUs of each.
pub const GPUS: u32 = 8;
/// A round, in seconds.
pub const ROUND_S: u32 = 300;
/// Where a job can stand: on any two nodes, or on all.
pub const PLACES: [&[usize]; 7] = [&[0, 1], &[0, 2], &[0, 3], &[1, 2], &[1, 3], &[2, 3], &[0, 1, 2, 3]];

/// A job that waits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Waits {
    /// Its number in the trace.
    pub id: usize,
    /// What it is.
    pub job: Job,
    /// Samples that it has trained.
    pub trained: f64,
    /// Rounds in which it ran.
    pub rounds: u32,
}

/// A job that runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stands {
    /// What it was when it waited.
    pub waits: Waits,
    /// Which of [`PLACES`].
    pub place: usize,
    /// Its row in the table.
    pub row: usize,
    /// What it has of its speed alone.
    pub share: f64,
}

impl Stands {
    /// Its nodes.
    #[must_use]
    pub fn nodes(&self) -> &'static [usize] {
        PLACES[self.place]
    }

    /// Its GPUs of each of its nodes.
    pub(super) fn gpus_each(&self) -> u32 {
        self.waits.job.kind.gpus() / self.nodes().len() as u32
    }
}

/// What who chooses sees.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// Rounds that are over.
    pub round: u32,
    /// Who waits, in order.
    pub queue: &'a [Waits],
    /// Who runs, in the order in which they started.
    pub running: &'a [Stands],
    /// GPUs in use, by node.
    pub used: [u32; NODES],
}

/// A place in the queue, and one of [`PLACES`].
pub type Candidate = (usize, usize);

/// Says who is placed next, and where.
pub trait Chooser {
    /// Puts the queue in order, at the beginning of a round.
    fn sort(&mut self, queue: &mut [Waits]) {
        let _ = queue;
    }

    /// The next job, and its place; none where nobody else is placed in this round.
    fn choose(&mut self, seen: &Seen<'_>) -> Option<Candidate>;

    /// Whether all jobs are stopped after each round.
    fn stops_all(&self) -> bool {
        false
    }
}
