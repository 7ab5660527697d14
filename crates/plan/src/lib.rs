//! Candidate placements of periodic jobs: which one hurts least, with what time-shifts, and why.
//!
//! A [`Cluster`] is a fabric with routes, jobs and their present placements. A [`job::Candidate`] says which jobs
//! stand elsewhere. [`evaluate`] turns one candidate into the demand of every link, solves what can be over
//! capacity, predicts iteration times with the [`fluid`] model and keeps what is needed to explain each link.
//! [`rank`] does so for many candidates and solves what they have in common once.
//!
//! Pure: results depend on the arguments alone, not on the number of threads nor on the order of jobs.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod classes;
mod component;
mod contention;
mod coupled;
mod demand;
mod error;
mod evaluation;
mod explain;
mod groups;
pub mod hold;
mod options;
mod overlap;
mod planner;
mod predict;
mod reason;
pub mod slot;
mod solved;
mod table;
pub mod turns;

pub use coupled::{Coupled, Exceeded, Member, Standing};
pub use demand::{LinkDemands, link_demands};
pub use error::PlanError;
pub use evaluation::{ControlMean, Evaluation, JobReport, LinkReport, MeanScores, MeanTimes, Outcome, SolverRefusal};
pub use options::{Cluster, Objective, Options, Predictions, QUIET_STEP};
pub use overlap::{Overlap, TimedPhases, over_capacity};
pub use planner::{evaluate, problem, rank, rank_until, sort, unknown_base_links};
pub use predict::{ByControl, Control, Gates, Holding, JobTimes};
pub use reason::{
    Explanation, Reason, Remainder,
    turns::{Brought, Payment, TurnReason},
};
pub use table::can_exceed;
