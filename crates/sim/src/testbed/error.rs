//! Why a case cannot be simulated.

use alloc::string::String;

use fabric::FabricError;
use plan::PlanError;

/// Why a case cannot be simulated. Nothing has been simulated then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// A job is malformed.
    #[error("job {job:?}: {problem} {value}")]
    Job {
        /// Its name.
        job: String,
        /// What is wrong.
        problem: &'static str,
        /// The offending value.
        value: u64,
    },
    /// A number of the configuration is out of range.
    #[error("{what} {value}: {problem}")]
    Config {
        /// The number's name.
        what: &'static str,
        /// The offending value.
        value: u64,
        /// The range.
        problem: &'static str,
    },
    /// A host that a clock or a fault names has no rank of any job.
    #[error("host {host:?} has no rank of any job")]
    UnknownHost {
        /// The name.
        host: String,
    },
    /// Flows cannot be made or routed, or a link that carries demand has no known capacity.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// The planner refused the jobs.
    #[error(transparent)]
    Policy(#[from] PlanError),
    /// The service refused the commit.
    #[error("the service refused the jobs: {0}")]
    Refused(String),
}
