//! The agent on every node: clock, plan, schedule pages, counters.
//!
//! The agent puts the service's plan on the pages that gates read ([`pages`]), reports what the gates did ([`gates`]), reads
//! counters and finds periods in them ([`counters`]), and tells Prometheus ([`metrics`]). For jobs that take turns it carries messages
//! between gates and service ([`turns`]). The loop that does all this is
//! [`run`]; the [`session`] with the service is behind the channels of [`wiring`].
#![forbid(unsafe_code)]

pub mod args;
mod bytes;
pub mod calls;
pub mod clock;
pub mod config;
pub mod counters;
pub mod gates;
pub mod http;
pub mod learning;
pub mod logs;
pub mod metrics;
mod nap;
pub mod neighbours;
mod node_names;
pub mod pages;
pub mod pauses;
pub mod queues;
pub mod rdma;
pub mod run;
pub mod session;
pub mod turns;
pub mod wiring;
