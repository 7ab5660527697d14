//! The world of DeepShare (ICPADS 2023; gajagajago/deepshare): four nodes of eight GPUs, jobs of six models that were measured beside each other,
//! and rounds of five minutes.
//!
//! All jobs are there from the beginning and wait in a queue. In a round jobs are chosen and placed, one after the other, on two nodes or on all four,
//! never on one; then everybody trains for the round at its speed alone times its share: the least that any job on any of its nodes leaves it. Who keeps
//! 0.6 of its speed or less is stopped and goes to the end of the queue, with what it has learned, at no cost.
//!
//! Three things are as in the published simulator and in no real cluster ([`Details`] leaves them away). A share that fell does not rise when the
//! neighbour leaves. When a job is done, the one that started after it does not train in that round. A job is done when it has fewer samples left than
//! the round has seconds, times its share.

mod place;
mod seen;
mod table;
mod trace;
mod world;

pub use place::{Beside, By, Counting, candidates, gain, ways};
pub use seen::{Candidate, Chooser, GPUS, NODES, PLACES, ROUND_S, Seen, Stands, Waits};
pub use table::{DEMANDS, Job, Kind, MODELS, ROWS, SPREADS, Table};
pub use trace::drawn;
pub use world::{Details, Done, Outcome, Stuck, run};
