//! Virtual time. [`testbed`] plays iterations of jobs on one fabric with the production state machines; a room for months of jobs
//! that arrive and leave (`trace`) comes beside it.
//!
//! Pure: no clock, no threads, and random numbers only from the configuration's seed. Equal inputs give equal bytes.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod testbed;

pub use testbed::*;
