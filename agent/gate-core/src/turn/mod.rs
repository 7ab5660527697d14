//! Turns: a start that waits for those ahead of it to end, and for no time.
//!
//! A job that takes turns ([`Mode::Turn`](crate::Mode::Turn)) has no slot. Its gate tells the agent that a start is *ready*, the page
//! answers with a [`Permit`](crate::Permit), and the gate tells when the start went and when what it sent has ended ([`Note`]).
//! [`TurnGate`] is the rule of the gate: what it tells, how long it waits, and when it goes without an answer. [`TurnAgent`] stands
//! between the gate and the service: it writes the page, tells the service ([`Told`]) and hears it ([`Order`]).

mod agent;
mod ends;
mod gate;
mod note;
mod operations;
mod order;
mod wait;

pub use agent::{PageChange, REPEAT_FIRST, REPEATS_MAX, SERVICE_WITHIN, TurnAgent, TurnCounts};
pub use ends::{LOOK_EVERY, LOOKS_MAX, UNTOLD_MAX};
pub use gate::{SILENT_FOR, TurnDecision, TurnGate, UNHEARD_MAX};
pub use note::{Note, NoteKind, WHOLE_ITERATION};
pub use order::{Order, OrderKind, Told, ToldKind};
pub use wait::{ANSWER_WITHIN, TurnWait};
