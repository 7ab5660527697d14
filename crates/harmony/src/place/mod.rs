//! Placers that learn nothing: the three that Harmony was compared with, the greedy rule that a learned one must be compared with, one that
//! looks ahead, and one that plays on with jobs that may come.

mod by_parts;
mod greedy;
mod lookahead;
mod rollout;
mod ways;

pub use by_parts::{Anywhere, Balance, LeastInterference, Pack};
pub use greedy::Greedy;
pub use lookahead::Lookahead;
pub use rollout::{Reach, Rollout};
pub use ways::ways;
