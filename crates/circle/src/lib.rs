//! Periodic jobs that share links: exact compatibility scores and the time-shifts that maximise them.
//!
//! Pure mathematics: no clock, no files, no fabric; ids are opaque. See docs/model.md.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod problem;
mod solution;

pub use problem::{
    DemandId, JOBS_MAX, JOBS_PER_LINK_MAX, LINKS_MAX, Member, PERIOD_TICKS_MAX, PHASES_PER_DEMAND_MAX, Phase, Problem, ProblemBuilder,
    ProblemError, ProblemLink, RATE_MBPS_MAX,
};
pub use solution::{Affinity, JobShift, LinkScore, Mode, Optimality, Options, Outcome, Solution, SolveError};
pub use units::{JobId, LinkId, Rate, Ticks};

/// Two mean scores closer than this count as equal: the rounding of sums of a few thousand `f64` terms of size one.
pub const PROOF_TOLERANCE: f64 = 1e-11;
/// Most pieces on one reduced circle: a second of work and 100 MB, beyond which a problem is refused.
pub const CIRCLE_PIECES_MAX: u64 = 1 << 21;

/// Finds the time-shifts that maximise the mean link score.
///
/// # Errors
/// [`SolveError`].
pub fn solve(_problem: &Problem, _options: &Options) -> Result<Solution, SolveError> {
    Err(SolveError::ShiftCount { given: 0, jobs: 0 })
}

/// Scores given shifts; `shifts[j]` is the delay of job `j`.
///
/// # Errors
/// [`SolveError`].
pub fn evaluate(_problem: &Problem, _shifts: &[Ticks]) -> Result<Solution, SolveError> {
    Err(SolveError::ShiftCount { given: 0, jobs: 0 })
}
