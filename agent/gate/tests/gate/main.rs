//! The gate with real files, real processes and a real kernel.
//!
//! Processes of these tests are this very program, started again with [`child::MODE`] in its environment.
//! A test waits for what it expects and gives up after [`ends::PATIENCE`]; how long things take is not asserted.
#![allow(clippy::unwrap_used, reason = "a test that meets an error should stop")]

mod c_interface;
mod child;
mod ends;
mod exec;
mod faults;
mod passed;
mod processes;
mod python;
mod restarts;
mod shared_page;
mod stream;
mod turns;
