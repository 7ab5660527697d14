//! When may this rank send: phase lock, slip, bounded hold, fail-open.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;
