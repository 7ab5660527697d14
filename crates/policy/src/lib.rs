//! Policies: which of the waiting jobs of a cluster run next, and where they could stand.
//!
//! A policy sees a [`ClusterView`] and answers with a [`Proposal`]: the jobs that it starts, why each, and candidate placements of all
//! of them, which `plan` then judges on the network. [`pack`] and [`variants`] make placements for experiments.
//!
//! Pure: equal views give equal proposals.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod elastic;
mod free;
pub mod goodput;
pub mod knapsack;
pub mod matching;
pub mod muri;
mod pack;
mod policy;
pub mod schedule;
mod view;

pub use pack::{PackError, pack, variants};
pub use policy::{Choice, Policy, Proposal};
pub use view::{ClusterView, JobView};
