//! Months of jobs that arrive, wait, run, are preempted and leave, under a [`policy::schedule::Scheduler`], event by event.
//!
//! The scheduler is the one that a service would run; this room only plays the world: it tells of arrivals and ends, carries out what was decided
//! after checking it, and counts iterations. On a fabric ([`NetworkSetup`]) jobs are placed, and those that meet on its links take longer. Between two events nothing changes, so the time that a trace spans costs nothing.

mod cassini;
pub mod elastic;
mod error;
mod fault;
mod growth;
mod jobs;
mod mix;
mod network;
mod outcome;
mod read;
mod watch;
mod world;

pub use cassini::{CASSINI_GPUS, CassiniTrace, SNAPSHOT_WORKERS, SNAPSHOTS, Snapshot, SnapshotRow, cassini_trace, snapshot_trace};
pub use error::TraceError;
pub use fault::{Failing, FaultOutcome, FaultRate, FaultSetup, TraceFault};
pub use growth::GrowthOutcome;
pub use jobs::{Trace, TraceJob, Traffic};
pub use mix::{Mix, mix_trace};
pub use network::{LinkStay, NetworkControl, NetworkOutcome, NetworkSetup, Ranker, SnapshotJob, SnapshotOutcome, snapshot};
pub use outcome::Outcome;
pub use read::{Format, LingjunWorkers, read, read_elastic, read_faults, read_learning, read_lingjun, read_measured, read_muri};
pub use watch::{Change, Told, TraceEvent, Watcher};
pub use world::{Setup, capacity_on, check, run, run_watched};
