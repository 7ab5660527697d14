//! The topology service's brain: fabric, jobs, leases and plans; events in, actions out.
//!
//! [`Service`] is sans-IO: time comes with every event, records leave as [`Action::Persist`] and nothing that depends
//! on them is announced before [`Event::Persisted`]. The server and the simulator run the same code.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod action;
mod event;
mod slot;

pub use action::{Action, Notice, Record, Refusal, Reply, Severity};
pub use event::{AgentReport, ClockQuality, Event, GateReport, JobDefinition, RequestId, SessionId, Ticket};
pub use slot::Slot;
