//! The topology service's controller: fabric, jobs, leases and plans; events in, actions out.
//!
//! [`Service`] is sans-IO: time comes with every event, records leave as [`Action::Persist`] and nothing that depends
//! on them is announced before [`Event::Persisted`]. The server and the simulator run the same code.
//!
//! A change goes through four rooms. `service` queues it and, when the store is free, applies the first ones of the queue to a
//! second copy of the plan; `change` says what each does; `transaction` gives slots to the components that it touches (`component`:
//! jobs that meet on links that can be over capacity; [`circle::adjust`] finds shifts that leave running jobs where they are) and takes
//! everything back on a refusal; `batch` says what to write. When it is written, the changes are copied to the plan that
//! [`View`] shows, and replies, notices and plans go out; when it is not, they are copied back the other way.
//! `sessions`, `agents` and `watch` hear the agents: their plans, clocks, slips and drifts. Nothing of that is durable:
//! after [`Service::restore`] agents come again and say it.
//!
//! [`scheduler`] decides which submitted jobs run; its changes take the same path.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod action;
mod agents;
mod audit;
mod batch;
mod change;
mod check;
mod component;
pub mod config;
mod crowded;
mod document;
mod event;
mod ids;
mod learned;
mod leases;
mod measured;
mod misnamed;
mod notice;
mod outlook;
mod plan;
mod queue;
mod restore;
pub mod scheduler;
mod service;
mod sessions;
mod slot;
mod submission;
mod transaction;
pub mod turns;
mod view;
mod warnings;
mod watch;

pub use action::{Action, Commitment, Content, Record, Refusal, Reply};
pub use audit::{AUDIT_MAX, AuditEntry};
pub use config::Config;
pub use crowded::{contradiction, gpus_of};
pub use document::Document;
pub use event::{AgentReport, Change, ClockQuality, Commit, Event, GateReport, GateTotals, JobDefinition, Origin, Schedule};
pub use ids::{RequestId, SessionId, Ticket};
pub use leases::Lease;
pub use notice::{Notice, NoticeKind, Severity};
pub use outlook::{Forecast, Outlook};
pub use restore::{RestoreError, Restored, RestoredFabric, RestoredJob, RestoredKey};
pub use service::Service;
pub use slot::Slot;
pub use view::{AgentState, AgentView, Apart, DemandView, JobState, JobView, LinkView, View};
