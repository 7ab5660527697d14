//! The topology service's brain: fabric, jobs, leases and plans; events in, actions out.
//!
//! [`Service`] is sans-IO: time comes with every event, records leave as [`Action::Persist`] and nothing that depends
//! on them is announced before [`Event::Persisted`]. The server and the simulator run the same code.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod action;
mod adjust;
mod agents;
mod batch;
mod change;
mod check;
mod component;
pub mod config;
mod draft;
mod event;
mod leases;
mod plan;
mod restore;
mod service;
mod sessions;
mod slot;
mod view;
mod watch;

pub use action::{Action, Commitment, Notice, Record, Refusal, Reply, Severity};
pub use config::Config;
pub use event::{AgentReport, ClockQuality, Event, GateReport, JobDefinition, RequestId, SessionId, Ticket};
pub use restore::{RestoreError, Restored, RestoredFabric, RestoredJob};
pub use service::Service;
pub use slot::Slot;
pub use view::{AgentState, AgentView, DemandView, JobState, JobView, LinkView, View};
