//! Agents against the real endpoint over real sockets: who is admitted, and what abuse does.
#![allow(clippy::unwrap_used, reason = "tests")]

mod abuse;
mod admission;
mod flood;
mod rig;
mod sessions;
