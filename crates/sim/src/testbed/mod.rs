//! The testbed: iterations of jobs on one fabric, run by the production state machines.
//!
//! A [`Case`] is a fabric with routes and jobs in a closed loop: wait at the gate, communicate, compute, repeat. [`run`]
//! plays it under a [`Config`] (jitter, ECN ramp, who holds the jobs, clocks, faults) and gives a [`Report`]. The gate's rule is
//! [`gate_core::PhaseLock`], slots come from the planner itself, and links are shared by [`fluid::Sharing`]; the testbed owns only
//! the queues, the agents' clocks and time.
//!
//! The network is fluid: while jobs communicate together, links are shared max-min fairly with one class per job and
//! each job goes at the pace of its slowest link. What the model leaves out, and where each number comes from:
//! docs/calibration.md.

mod agenda;
mod agents;
mod compare;
mod config;
mod control_plane;
mod direct;
mod drift;
mod ecn;
mod error;
mod layout;
mod network;
pub(crate) mod noise;
mod report;
mod run;
pub mod stats;
mod steady;
mod turns;
mod workload;

pub use compare::{Comparison, JobRow, LinkRow, compare};
pub use config::{
    AgentClock, Case, Config, Control, Fault, ITERATIONS_MAX, Liar, Lifetime, ServiceControl, Transport, TurnsControl, Way, WorkChange,
};
pub use control_plane::{RECONNECT, ServiceReport};
pub use direct::direct_slots;
pub use drift::Drift;
pub use ecn::{Depth, EcnModel};
pub use error::SimError;
pub use gate_core::{HEARTBEAT, STALE_AFTER};
pub use noise::SIGMA_PERMILLE_MAX;
pub use report::{Ended, IterationRecord, JobReport, LinkReport, Report};
pub use run::{EVENTS_MAX, run};
pub use turns::{Belief, Over, Overlap, TurnStart, TurnsReport, Went, Why, overlaps, planned_groups, turn_groups};
pub use workload::{SimJob, Step, Transfer, Workload};
