//! When a job may start its iterations.

use alloc::string::String;

use units::{FabricTime, Nanos};

/// The committed start times of one job. A start is due whenever fabric time modulo `period` equals `offset`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The job.
    pub job: String,
    /// Plan version in which this slot was last changed.
    pub plan_version: u64,
    /// Scheduled length of an iteration.
    pub period: Nanos,
    /// Below the period.
    pub offset: Nanos,
    /// How late a start may be and still go at once.
    pub tolerance: Nanos,
    /// How far the job may drift before a score falls.
    pub slack: Nanos,
    /// Longest time that a start may be held; at most the period.
    pub hold_max: Nanos,
    /// Whether the gate keeps the job to this slot. False: it takes turns, or runs as it comes, because a slot is not predicted to help.
    pub hold: bool,
    /// Whether the job takes turns with others. Then `hold` is false, and nobody waits for the slot.
    pub turns: bool,
    /// The plan must not be trusted from here on.
    pub expires: FabricTime,
    /// The host of rank 0, whose leader waits.
    pub leader_host: String,
}

impl Slot {
    /// What stands for a slot while a job has none: it starts as it comes, and the plan is not to be trusted from the start of time on.
    #[must_use]
    pub fn none(job: &str) -> Self {
        Self {
            job: job.into(),
            plan_version: 0,
            period: Nanos(0),
            offset: Nanos(0),
            tolerance: Nanos(0),
            slack: Nanos(0),
            hold_max: Nanos(0),
            hold: false,
            turns: false,
            expires: FabricTime(0),
            leader_host: String::new(),
        }
    }
}
