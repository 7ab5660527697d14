//! Traces of elastic jobs under [`policy::elastic`], round by round: the policy chooses counts and types of GPUs, jobs learn as fast as their goodput.
//!
//! How long an iteration really takes is known of each application on each type of GPU ([`Speeds`]): measured, interpolated as the simulator of
//! Sia's authors does, or by parameters that were fitted to what they measured, which are built in. A policy knows only what a job measured itself, as
//! `policy::goodput::fit` sees it, and what one GPU of each type does. On a fabric, jobs that span nodes are slower by what the planner predicts for
//! those whom they meet (`network.rs`); policies may ask it too.

mod application;
mod builtin;
mod fitted;
mod job;
mod known;
mod network;
mod outcome;
mod speeds;
mod world;

pub use self::{
    application::{Application, Applications, Learning, Traits, samples_limit, traits},
    builtin::{TYPES, builtin},
    job::ElasticSubmission,
    network::ElasticNetwork,
    outcome::ElasticOutcome,
    speeds::{Line, Measured, Sample, Speeds},
    world::{ElasticError, ElasticSetup, GpuType, Habits, NODES_MEASURED, run},
};
