//! The gate that training jobs call.
//!
//! An agent writes one schedule page per job that it leads ([`PageWriter`]). The job's leader rank opens a [`Gate`] and calls
//! [`Gate::step`] once per iteration, at a point where nothing of the iteration is in flight. The gate reads the page
//! from shared memory and waits for the slot if the job is early; the rule is [`gate_core::PhaseLock`]. A job that takes turns has
//! no slot: its gate tells the agent of its starts ([`notes`]) and waits for the answer on the page; the rule is
//! [`gate_core::TurnGate`]. What it did goes into a report file ([`report`]), which the agent reads.
//!
//! **The gate fails open.** Whatever is wrong with the page, the agent, the clock or this library, the job goes at once, and
//! no start is held longer than one period, or than the longest wait for a turn. `docs/adr/0002-the-gate-cannot-hang-a-job.md` has the argument, and
//! `docs/schedule-page.md` the layout of both files.
//!
//! The same library has a C interface (`include/antiphase_gate.h`) and a Python package (`python/`). [`exec`] holds the
//! start of a program that cannot be changed.
//!
//! ```no_run
//! let gate = antiphase_gate::Gate::open(&antiphase_gate::Config::from_env()?);
//! loop {
//!     // ... compute ...
//!     let outcome = gate.step();
//!     // ... communicate ...
//!     gate.done();
//! #   if outcome.held.0 > 0 { break }
//! }
//! # Ok::<(), antiphase_gate::NameError>(())
//! ```
#![deny(unsafe_op_in_unsafe_fn)]
#![allow(
    unsafe_code,
    reason = "shared memory, fork handlers, standard error, the C interface and its loading, the CUDA driver; each is one small file: words.rs, complaint.rs, futex.rs, turn.rs, fork.rs, capi.rs, library.rs, and those of stream"
)]

mod another;
pub mod capi;
mod clock;
mod complaint;
mod directory;
pub mod events;
pub mod exec;
mod fork;
mod futex;
mod gate;
pub mod library;
pub mod notes;
pub mod page;
pub mod report;
mod seqlock;
pub mod status;
pub mod stream;
mod teller;
mod turn;
mod wait;
mod who;
mod words;

pub use clock::now;
pub use complaint::complain;
pub use directory::{Config, DIRECTORY, JobName, NameError, REPORTS, Stem, is_local};
pub use gate::Gate;
pub use gate_core::StepOutcome;
pub use notes::{Heard, JobNote, NoteReader, Received};
pub use page::{PageReader, PageWriter};
pub use report::{Report, ReportReader, report_owner};
pub use teller::{Teller, mix};
pub use wait::{SLICE, SPIN_FIRST, SPIN_MAX, SPIN_MIN, Wake};
pub use who::job_of;
