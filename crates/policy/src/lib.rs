//! Policies: where could the jobs of a cluster stand.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod pack;

pub use pack::{PackError, pack, variants};
