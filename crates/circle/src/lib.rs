//! Periodic jobs that share links: exact compatibility scores and the time-shifts that maximise them.
//!
//! CASSINI (NSDI'24) wraps each job's demand around a circle and rotates the circles of the jobs on
//! a link until the demand fits the capacity. This crate answers the same question in continuous
//! time, without the LCM of the periods, with a proof where the group is small, and for affinity
//! graphs with loops. docs/model.md derives the mathematics and names the symbols as the code does.
//!
//! Entry points: [`solve`], [`evaluate`] and [`adjust`] on a [`Problem`]; [`scenario`] reads and writes the
//! documents of `antiphase solve`; [`coupled_groups`] and [`compose`] are for callers that solve set by set; [`pad`] finds periods worth stretching.
//!
//! Pure: no clock, no files, no fabric; link and job ids are opaque.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod answer;
mod budget;
mod demand;
mod model;
pub mod scenario;
mod search;

pub use answer::{
    adjust::{Adjustment, adjust},
    pad,
    solution::{JobShift, LinkScore, Mode, Optimality, Options, Outcome, Robust, Solution, SolveError},
    solve::{evaluate, evaluate_within, solve, solve_until},
};
pub use budget::{Cancel, Effort};
pub use model::{
    affinity::{Affinity, Rotated, compose, coupled_groups},
    problem::{
        DemandId, JOBS_MAX, JOBS_PER_LINK_MAX, LINKS_MAX, Member, PERIOD_TICKS_MAX, PHASES_ON_LINKS_MAX, PHASES_PER_DEMAND_MAX, Phase,
        Problem, ProblemBuilder, ProblemError, ProblemLink, RATE_MBPS_MAX,
    },
};
pub use search::EXACT_JOBS_MAX;
pub use units::{JobId, LinkId, Rate, Ticks};

/// Two mean scores closer than this count as equal: the rounding of sums of a few thousand `f64`
/// terms of size one.
pub const PROOF_TOLERANCE: f64 = 1e-11;
/// Most pieces on one reduced circle. Beyond it sums on smaller circles are asked for, or weak
/// couplings are averaged out (docs/model.md, section 2): at this size one evaluation takes about a millisecond.
pub const CIRCLE_PIECES_MAX: u64 = 1 << 16;
