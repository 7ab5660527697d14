//! Virtual time: jobs on a fluid fabric, run by the production state machines.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;
