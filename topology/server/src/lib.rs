//! The topology service: QUIC, gRPC, HTTP and web page around the state machine and its store.
//!
//! [`run`] is the program. Inside, [`controller`] owns the state machine on a thread of its own; [`writer`] makes what it decides
//! durable in the store on another; [`turns`] gives turns on a third; [`api`] answers requests from snapshots and by asking the controller; [`grpc`] and [`http`] are two
//! ways to ask.
//! [`quic`] holds the sessions of agents, which speak to the controller by [`ControllerHandle`]; [`tls`] and [`pki`] say who is who.
#![forbid(unsafe_code)]

pub mod api;
mod bucket;
mod clock;
pub mod config;
mod congestion;
pub mod controller;
pub mod discovery;
pub mod events;
mod extender;
pub mod grpc;
mod health;
pub mod history;
pub mod http;
pub mod learning;
pub mod lines;
pub mod links;
mod loads;
pub mod logs;
pub mod metrics;
mod owed;
mod page;
mod peer;
pub mod pki;
mod placed;
mod queue;
pub mod quic;
mod records;
mod resolve;
pub mod role;
mod run;
pub mod scheduler;
pub mod scrape;
pub mod sflow;
pub mod shutdown;
mod sink;
mod stands;
mod tally;
pub mod telemetry;
pub mod tls;
mod traces;
pub mod turns;
mod vital;
pub mod writer;

pub use clock::FabricClock;
pub use controller::ControllerHandle;
pub use run::{Args, run};
pub use telemetry::TelemetryHandle;
