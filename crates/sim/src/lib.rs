//! Virtual time. [`testbed`] plays iterations of jobs on one fabric with the production state machines; [`trace`] plays months of jobs
//! that arrive and leave under a policy.
//!
//! Pure: no clock, no threads, and random numbers only from the configuration's seed. Equal inputs give equal bytes.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod statistics;
pub mod testbed;
pub mod trace;

pub use testbed::*;
