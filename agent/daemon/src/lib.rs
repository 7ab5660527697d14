//! The agent on every node: clock, plan, schedule pages, counters.
#![forbid(unsafe_code)]

pub mod clock;
pub mod config;
pub mod counters;
pub mod gates;
pub mod metrics;
pub mod pages;
