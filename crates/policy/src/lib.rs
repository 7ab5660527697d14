//! Policies: which of the jobs of a cluster run, and where they could stand.
//!
//! A [`schedule::Scheduler`] decides who runs, and proposes ways to place them, each with its reasons ([`schedule::Scheduler::propose`]), which
//! `plan` then judges on the network. [`pack`] and [`variants`] make placements for experiments.
//!
//! Pure: equal jobs in the same order give equal proposals.
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
pub mod schedule;

pub use pack::{PackError, pack, variants};
