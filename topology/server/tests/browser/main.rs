//! The page in a real browser against the real service. Pictures of what is seen are left in `page/` of the tests' temporary
//! folder (`target/tmp`).
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod audit;
mod axe;
mod cabling;
mod chromium;
mod fabrics;
mod few;
mod large;
mod many;
mod measured;
mod names;
mod secured;
#[path = "../support/mod.rs"]
mod support;
mod turns;
