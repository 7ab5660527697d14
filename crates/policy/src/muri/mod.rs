//! Muri: jobs that are bound by different resources share GPUs, one resource each at a time (Zhao et al., SIGCOMM 2022).
//!
//! The rules, in short. An iteration of a job goes through stages: it loads data (storage and CPU), computes (GPU) and talks (network).
//! Up to four jobs with equally many GPUs form a group that shares those GPUs: in turn each member has one resource. How long the
//! iteration of a group takes depends on who is behind whom, so all orders are tried ([`Timing::interleave`]). How well a group uses
//! the resources is its efficiency gamma ([`efficiency`]).
//!
//! There are two ways to time a group, [`Timing::Paper`] and [`Timing::Artifact`]: the equations as printed, with nobody faster than
//! alone, and what the simulator does that the authors published, so that their figures can be reproduced.

mod artifact;
mod models;
mod order;
mod paper;
mod stages;
mod timing;

pub use artifact::artifact_orders;
pub use models::{MODELS, MeasuredModel, RESTART_S, measured};
pub use order::{GROUP_MAX, Interleaving, Order};
pub use paper::GroupPhase;
pub use stages::{Profile, Stages, StagesError};
pub use timing::{Timing, efficiency};
