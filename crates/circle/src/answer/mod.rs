//! From a problem to an answer: solve, evaluate, adjust, harden, pad; slacks and scores; the paper's rules.

pub(crate) mod adjust;
mod curve;
pub mod pad;
mod report;
mod robust;
mod slack;
pub(crate) mod solution;
pub(crate) mod solve;
mod walk;
