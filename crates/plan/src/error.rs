//! Why a cluster or a candidate was refused.

use alloc::string::String;

use circle::ProblemError;
use fabric::FabricError;
use job::JobError;

/// Why a cluster or a candidate was refused. A bad score is a result, not an error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A job is malformed.
    #[error(transparent)]
    Job(#[from] JobError),
    /// Two jobs of one name could not be told apart in an explanation.
    #[error("two jobs are named {name:?}")]
    DuplicateJob {
        /// The name.
        name: String,
    },
    /// There must be one base placement per job.
    #[error("{placements} base placements for {jobs} jobs")]
    PlacementCount {
        /// Placements given.
        placements: usize,
        /// Jobs given.
        jobs: usize,
    },
    /// A candidate places a job that the cluster does not have.
    #[error("candidate {candidate:?} places job {job}, but there are {jobs} jobs")]
    UnknownJob {
        /// The candidate's id.
        candidate: String,
        /// The job index given.
        job: u32,
        /// How many jobs there are.
        jobs: usize,
    },
    /// A candidate places a job twice.
    #[error("candidate {candidate:?} places job {job:?} twice")]
    PlacedTwice {
        /// The candidate's id.
        candidate: String,
        /// The job's name.
        job: String,
    },
    /// A rank group names a rank that the placement does not have.
    #[error("job {job:?}: a group names rank {rank}, but the placement has {ranks} ranks")]
    UnknownRank {
        /// The job's name.
        job: String,
        /// The rank named.
        rank: u32,
        /// Ranks of the placement.
        ranks: usize,
    },
    /// The demand of one job on one link overflows, or has more than [`PHASES_PER_DEMAND_MAX`](circle::PHASES_PER_DEMAND_MAX) phases.
    #[error(
        "job {job:?}: its demand on link {link} overflows, or changes more than {} times in an iteration",
        circle::PHASES_PER_DEMAND_MAX
    )]
    DemandOverflow {
        /// The job's name.
        job: String,
        /// The link's name.
        link: String,
    },
    /// A link of capacity zero carries demand.
    #[error("link {link} carries demand but its capacity is 0 Mb/s")]
    ZeroCapacity {
        /// The link's name.
        link: String,
    },
    /// A route or a capacity is missing; the message names the hosts or the link.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// A candidate loads a link of unknown capacity.
    #[error("candidate {candidate:?}: {source}")]
    InCandidate {
        /// The candidate's id.
        candidate: String,
        /// The message names the link.
        source: FabricError,
    },
    /// The caller does not wait for the answer any more ([`circle::Cancel`]).
    #[error("cancelled")]
    Cancelled,
    /// The circle's limits were exceeded.
    #[error("link {link}: {source}")]
    Problem {
        /// The link at which it happened.
        link: String,
        /// What the circle said.
        source: ProblemError,
    },
}
