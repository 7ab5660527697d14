//! When a job may start its iterations.

use alloc::string::String;

use plan::slot::SlotTimes;
use units::FabricTime;

/// The committed start times of one job. A start is due whenever fabric time modulo the period equals the offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The job.
    pub job: String,
    /// Plan version in which this slot was last changed.
    pub plan_version: u64,
    /// When starts are due, and how strictly the gate keeps to them.
    pub times: SlotTimes,
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
            times: SlotTimes::default(),
            hold: false,
            turns: false,
            expires: FabricTime(0),
            leader_host: String::new(),
        }
    }
}
