//! A fabric of network namespaces with real traffic and real ECN marks.
//!
//! A [`case::Case`] is a small fabric and the jobs that meet on it. [`network::Lab`] builds it on the kernel: a namespace per host
//! and switch, cables limited to their rates, one fair class per job where links are shared, and a queue that sets ECN marks
//! ([`queue`]). Jobs are rings of processes that compute by sleeping and communicate over TCP ([`rank`]), or real PyTorch
//! ([`trainer`]). The [`experiment`] plays every job alone, all together as they come, and all together held by their gates, and compares.
//!
//! Linux and root. What it shows and what it does not is in `docs/lab.md`.
#![forbid(unsafe_code)]

pub mod analysis;
pub mod case;
mod client;
mod command;
pub mod compare;
pub mod control;
pub mod executor;
pub mod experiment;
mod gateway;
pub mod hold;
mod html;
pub mod interrupt;
pub mod live;
mod management;
mod mltcp;
pub mod network;
pub mod plan;
mod program;
pub mod queue;
pub mod rank;
pub mod record;
pub mod report;
mod service;
mod tool;
pub mod traffic;
pub mod trainer;
pub mod virtual_time;
pub mod wiring;

pub use command::{Command, CompareArgs, DownArgs, Format, LiveArgs, RunArgs, ShowArgs, StatusArgs, UpArgs, find_case, run};
pub use program::Program;
pub use tool::{TOOLS, missing_tools};
