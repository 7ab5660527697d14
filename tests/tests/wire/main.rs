//! The agent's session against the service's endpoint: both ends as they ship, over real sockets.
#![allow(clippy::unwrap_used, reason = "tests")]

mod clock;
mod rig;
mod session;
