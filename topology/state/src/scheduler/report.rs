//! What the executor tells, and what is refused.

use alloc::string::String;

/// What the executor tells of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunReport {
    /// It runs. Repeated, it renews the job's lease.
    Started,
    /// It ran to its end.
    Finished,
    /// It stopped, as it was told or by itself, and holds no GPU any more.
    Stopped,
}

/// Why a request about a submission was refused; nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubmissionRefusal {
    /// No submission of that name.
    #[error("no submission {0:?}")]
    Unknown(String),
    /// The name stands for another job.
    #[error("job {0:?} was submitted with another content")]
    NameUsed(String),
    /// Somebody else committed a job of that name.
    #[error("job {0:?} was committed by somebody else")]
    Committed(String),
    /// More GPUs than there are.
    #[error("job {job:?} needs {gpus} GPUs; the cluster has {has}")]
    TooLarge {
        /// The job.
        job: String,
        /// What it needs.
        gpus: u32,
        /// What there is.
        has: u32,
    },
    /// A report of a start that is over.
    #[error("job {job:?} is {state} at start {present}, and this report is of start {attempt}; what still runs of that one has to stop")]
    Stale {
        /// The job.
        job: String,
        /// Where it stands.
        state: &'static str,
        /// The present start.
        present: u32,
        /// That of the report.
        attempt: u32,
    },
    /// A limit of the scheduler.
    #[error("{what}: {value}; at most {max}")]
    Limit {
        /// What there is too much of.
        what: &'static str,
        /// How much.
        value: u64,
        /// The limit.
        max: u64,
    },
    /// The change was refused.
    #[error(transparent)]
    Refused(#[from] crate::Refusal),
}
