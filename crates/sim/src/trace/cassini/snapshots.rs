//! The five snapshots of the CASSINI paper's table 2: which jobs are there, and what it prints of them.
//!
//! The paper prints model and batch of each job. Ours, because it is silent: four workers each, which fit the communication times of the first
//! snapshot, and one link that all jobs of a snapshot share. How the periods of its jobs came to be equal is not printed either. So a snapshot is made in
//! two ways: with the periods that the profiles say, and with periods that lock.

use alloc::{collections::BTreeMap, vec::Vec};

use super::{Drawn, Maker, Trace, TraceError, model};

/// Workers of each job of a snapshot.
pub const SNAPSHOT_WORKERS: u32 = 4;

/// All numbers of jobs up to twelve divide so many nanoseconds, so periods that lock are whole.
const DIVIDES: u64 = 27_720;

/// What the paper prints of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SnapshotRow {
    /// The model, as the zoo names it.
    pub model: &'static str,
    /// Its batch on each GPU.
    pub batch: u64,
    /// For how long it sends in an iteration under Themis with CASSINI, in milliseconds.
    pub cassini_ms: f64,
    /// The same under Themis.
    pub themis_ms: f64,
}

/// A snapshot as the paper prints it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Snapshot {
    /// Its number in the table.
    pub number: u32,
    /// The compatibility score.
    pub score: f64,
    /// Its jobs.
    pub jobs: &'static [SnapshotRow],
}

const fn row(model: &'static str, batch: u64, cassini_ms: f64, themis_ms: f64) -> SnapshotRow {
    SnapshotRow { model, batch, cassini_ms, themis_ms }
}

/// Table 2.
pub const SNAPSHOTS: [Snapshot; 5] = [
    Snapshot { number: 1, score: 1.0, jobs: &[row("wideresnet101", 800, 138.0, 205.0), row("vgg16", 1_400, 148.0, 199.0)] },
    Snapshot {
        number: 2,
        score: 1.0,
        jobs: &[row("vgg19", 1_400, 168.0, 220.0), row("vgg16", 1_700, 163.0, 220.0), row("resnet50", 1_600, 59.0, 55.0)],
    },
    Snapshot { number: 3, score: 0.9, jobs: &[row("vgg19", 1_024, 166.0, 176.0), row("vgg16", 1_200, 168.0, 177.0)] },
    Snapshot { number: 4, score: 0.8, jobs: &[row("roberta", 12, 164.0, 210.0), row("roberta", 12, 180.0, 208.0)] },
    Snapshot {
        number: 5,
        score: 0.6,
        jobs: &[row("bert", 8, 209.0, 213.0), row("vgg19", 1_400, 294.0, 292.0), row("wideresnet101", 800, 265.0, 266.0)],
    },
];

/// The jobs of a snapshot, all there from the beginning. `locked`: whoever is shorter computes longer, until a whole number of its iterations takes as long as one
/// of the longest job.
///
/// # Errors
/// [`TraceError::Table`]: a model of the zoo cannot be split so; it is ours to mend.
pub fn snapshot_trace(snapshot: &Snapshot, locked: bool) -> Result<Trace, TraceError> {
    let mut maker = Maker { gpus_per_host: 1, trace: Trace::default(), known: BTreeMap::new() };
    for row in snapshot.jobs {
        let job = Drawn { model: model(row.model)?, workers: SNAPSHOT_WORKERS, batch: row.batch, iterations: 1 };
        maker.add(&job, 0.0)?;
    }
    let mut trace = maker.trace;
    if locked {
        let periods: Vec<u64> = trace.traffic.iter().map(|traffic| traffic.period.0).collect();
        let longest = periods.iter().copied().max().unwrap_or(0).next_multiple_of(DIVIDES);
        for job in &mut trace.jobs {
            let own = job.traffic.and_then(|at| periods.get(usize::from(at))).copied().unwrap_or(longest);
            let times = (longest / own.max(1)).clamp(1, 12);
            job.iteration_ms = (longest / times) as f64 / 1e6;
        }
    }
    Ok(trace)
}
