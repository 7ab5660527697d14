//! Readers of traces: one room for each format, above what all of them use.
//!
//! `table.rs` has the rows of CSV, `clock.rs` dates, `gather.rs` what any format's jobs are checked for, and `timed.rs` jobs of which
//! only the time is known. Each room opens with what it reads, what it assumes, and what it leaves out.

mod alibaba;
mod antiphase;
mod clock;
mod elastic;
mod faults;
mod gather;
mod helios;
mod lingjun;
mod muri;
mod philly;
mod sia;
mod table;
mod timed;

pub use self::{
    elastic::{read_elastic, read_learning, read_measured},
    faults::read_faults,
    lingjun::LingjunWorkers,
};
use super::{Trace, TraceError};

/// A format of traces that is one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// Our own: times, or a model of the zoo, for each job.
    Antiphase,
    /// Of Muri's authors: Philly jobs with one of eight models each.
    Muri,
    /// `cluster_job_log` of Philly.
    Philly,
    /// `cluster_log.csv` of Helios.
    Helios,
    /// `openb_pod_list_*.csv` of Alibaba's GPU cluster of 2023.
    AlibabaGpu2023,
    /// Workloads of Sia's artifact, as tuned jobs.
    Sia,
}

/// Reads a trace.
///
/// # Errors
/// [`TraceError`], the first thing that is wrong.
pub fn read(format: Format, text: &str) -> Result<Trace, TraceError> {
    match format {
        Format::Antiphase => antiphase::read(text),
        Format::Muri => muri::read(text),
        Format::Philly => philly::read(text),
        Format::Helios => helios::read(text),
        Format::AlibabaGpu2023 => alibaba::read(text),
        Format::Sia => sia::read(text),
    }
}

/// Reads a trace in the format of Muri.
///
/// # Errors
/// [`TraceError`], the first thing that is wrong.
pub fn read_muri(text: &str) -> Result<Trace, TraceError> {
    read(Format::Muri, text)
}

/// Reads `job.csv` of Lingjun, whose GPUs stand in another file.
///
/// # Errors
/// [`TraceError`], the first thing that is wrong.
pub fn read_lingjun(text: &str, workers: &LingjunWorkers) -> Result<Trace, TraceError> {
    lingjun::read(text, workers)
}
