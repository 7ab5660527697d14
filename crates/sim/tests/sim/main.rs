//! The simulator as its users see it: cases in, reports out.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]
#![forbid(unsafe_code)]

mod agreement;
mod cases;
mod changing;
mod elastic;
mod faults;
mod growth;
mod held;
mod lifetimes;
mod marks;
mod network;
mod readers;
mod repeatable;
mod schedules;
mod service;
mod sharing;
mod snapshots;
mod trace_faults;
mod turn_faults;
mod turns;
mod weights;
mod wrong_profiles;
