//! When may this rank send: phase lock, slip, bounded hold, fail-open.
//!
//! A job's starts are due at `slot`, `slot + period`, `slot + 2 period`, ... [`decide`] is the whole rule, a pure function
//! of the time and the [`Schedule`]:
//!
//! - early: wait for the slot;
//! - late by no more than the tolerance: go at once;
//! - later than that: wait for the next slot, which is called a slip;
//! - the schedule cannot be trusted, or the wait would be too long: go at once, and say why ([`Reason`]).
//!
//! The rule is a phase lock and not a rigid grid: where every start had to be on a slot to within a few milliseconds, each
//! small lateness cost a whole period and jobs ran slower than with no gate at all.
//!
//! [`PhaseLock`] is the rule with a memory of one slot: an iteration shorter than the tolerance does not start twice in it.
//! [`PlannedSlot`] turns a slot of the plan into that schedule, [`Hold`] bounds a wait whose schedule changes while it
//! lasts, [`TurnGate`] is the rule of jobs that take turns in place of slots, [`Tracker`] keeps what a gate reports of its job, and
//! [`Summary`] turns such a report into medians, [`mean_iteration`] into a mean. [`repeat()`] and [`by_silences`] find the iterations of a job in what it calls.
//!
//! ```
//! use antiphase_gate_core::{Decision, Mode, Reason, Schedule, Turn, decide};
//! use units::{Nanos, NodeTime};
//! let ms = Nanos::from_millis;
//! let schedule = Schedule {
//!     mode: Mode::Hold, plan_version: 1, slot: NodeTime(1_000_000_000), period: ms(500), tolerance: ms(75), hold_max: ms(500),
//!     slack: ms(20), expires: NodeTime(60_000_000_000), written: NodeTime(990_000_000), stale_after: ms(1_000),
//!     clock_bound: ms(1), turn: Turn::default(),
//! };
//! // 40 ms late: go. 20 ms early for the slot after it: wait.
//! assert_eq!(decide(NodeTime(1_040_000_000), &schedule), Decision::Go { because: Reason::OnTime, late: ms(40) });
//! assert_eq!(decide(NodeTime(1_480_000_000), &schedule), Decision::Wait { until: NodeTime(1_500_000_000), slip: false });
//! ```
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod decision;
mod hold;
mod lock;
mod permit;
mod planned;
mod reason;
mod repeat;
mod schedule;
mod summary;
mod tracker;
mod turn;

pub use decision::{Decision, HELD_PERIOD_MAX, HOLD_LIMIT, decide};
pub use hold::{Hold, Verdict};
pub use lock::{HOLD_FLOOR, PhaseLock};
pub use permit::{Permit, Turn};
pub use planned::{HEARTBEAT, NodeClock, PlannedSlot, STALE_AFTER};
pub use reason::Reason;
pub use repeat::{ALIKE_MAX, REPEATS_MIN, Repeat, Silence, UNKNOWN, by_silences, repeat, repeat_with};
pub use schedule::{FUTURE_MAX, Mode, Schedule};
pub use summary::{Summary, UpDown, mean_iteration, up_and_down};
pub use tracker::{Counters, RING, Sample, StepOutcome, Tracker};
pub use turn::{
    ANSWER_WITHIN, LOOK_EVERY, LOOKS_MAX, Note, NoteKind, Order, OrderKind, PageChange, REPEAT_FIRST, REPEATS_MAX, SERVICE_WITHIN,
    SILENT_FOR, Told, ToldKind, TurnAgent, TurnCounts, TurnDecision, TurnGate, TurnWait, UNHEARD_MAX, UNTOLD_MAX, WHOLE_ITERATION,
};
