//! Units and ids that cross crate boundaries.
//!
//! Time and rates are integers, so that the same inputs give the same bytes on every machine;
//! floats appear in this project only as scores. A bare number never crosses a crate boundary:
//! it is a [`Ticks`], [`Nanos`], [`Bytes`], [`Rate`] or [`Share`], or one of the arena ids
//! [`NodeId`], [`LinkId`] and [`JobId`].
//! [`OneLine`] and [`Lines`] stand here as well because every crate that reads documents writes messages about them, and
//! [`names_this_machine`] because service and agent answer to the same names, [`Score`] because all show scores alike, [`splitmix64`]
//! because solver, planner, policies, simulator and lab all draw by it, [`nearest_rank`] because they and the node's programs tell
//! percentiles by it, and [`is_pause`] because agent and service leave the same iterations out.
//!
//! Arithmetic is by name (`checked_*`, `saturating_*`), never by operator, because each site
//! has to decide what an overflow means.
//!
//! ```
//! use antiphase_units::{Bytes, Nanos, Rate};
//! let nic = Rate(50_000);
//! // 712.5 MB at 50 Gb/s take 114 ms: the Up phase of VGG16 in the CASSINI paper, section 2.
//! assert_eq!(nic.time_for(Bytes(712_500_000)), Some(Nanos::from_millis(114)));
//! assert_eq!(nic.to_string(), "50 Gb/s");
//! ```
#![no_std]
#![forbid(unsafe_code)]

mod authority;
mod hash;
mod ids;
mod instant;
mod line;
mod name;
mod pause;
mod place;
mod quantity;
mod random;
mod rank;
mod score;

pub use authority::names_this_machine;
pub use hash::{FNV_OFFSET, fnv1a};
pub use ids::{JobId, LinkId, NodeId};
pub use instant::{ClockOffset, FabricTime, NodeTime};
pub use line::{OneLine, unseen_in};
pub use name::{NAME_BYTES_MAX, NameError, check_name};
pub use pause::{is_pause, longest_usual};
pub use place::Lines;
pub use quantity::{Bytes, Nanos, Rate, Share, Ticks};
pub use random::{GOLDEN, mix64, splitmix64, unit_interval};
pub use rank::nearest_rank;
pub use score::Score;
