//! The agent on every node: clock, plan, schedule pages, counters.
#![forbid(unsafe_code)]

pub mod clock;
pub mod session;
