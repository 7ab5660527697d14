//! A placer that is learned, after Harmony: what it sees ([`Scene`]), a model of speeds ([`SpeedModel`]) and a policy with a critic ([`Policy`]), and
//! what trains both ([`train`]).
//!
//! The model of speeds is Harmony's reward model: from who stands where it predicts how fast each job is. The policy is trained against it, and not
//! against the truth, because of a cluster there is a log of what was, and none of what would have been. Both see jobs as a sequence of any
//! length and score servers one by one with the same weights, so a model fits any number of servers.
//!
//! Pure: the same seed gives the same weights on every machine.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod deepshare;
mod grad;
mod model;
pub mod train;

pub use grad::Parameters;
pub use model::{Chosen, Decision, Learned, Policy, Remembered, Scene, SpeedModel};
