//! Placers that learn nothing: the three that Harmony was compared with, the greedy rule that a learned one must be compared with, and one that
//! looks ahead.

mod by_parts;
mod greedy;
mod lookahead;
mod ways;

pub use by_parts::{Anywhere, Balance, LeastInterference, Pack};
pub use greedy::Greedy;
pub use lookahead::Lookahead;
pub use ways::ways;
