//! A profiler plugin of NCCL that tells the agent what a job communicates: no line in the job, one variable in its environment.
//!
//! `NCCL_PROFILER_PLUGIN` names this library. NCCL 2.23 and later load it, look for one of `ncclProfiler_v1` to `ncclProfiler_v6`, and call
//! it for each collective and each operation of the network. The plugin writes when collectives were called and when the network was busy
//! into a ring in memory ([`gate::events`]), which it passes to the agent of the node; the agent finds the ends of the job's turns in it.
//!
//! **The plugin only observes**, unless `ANTIPHASE_NCCL_GATE=on` asks for more: then the stream of the first call of an iteration waits for the
//! job's turn (`hold.rs`). It never returns an error, and whatever is wrong with the agent or with itself, NCCL hears nothing of it.
//! A callback allocates nothing, takes no lock and waits for nobody. Handles are numbers that are checked and never pointers, so an
//! event that is stopped twice, late, or by another process is none. Nothing that NCCL points to is kept after a call.
//!
//! Layouts are those of NCCL's public headers for LP64; [`abi`] asserts their sizes when it is compiled.
#![deny(unsafe_op_in_unsafe_fn)]
#![allow(unsafe_code, reason = "NCCL hands over C structures and takes functions; abi.rs reads the former, plugin.rs is the latter")]

pub mod abi;
mod flight;
mod hold;
mod iteration;
mod observer;
mod plugin;

pub use plugin::{ncclProfiler_v1, ncclProfiler_v2, ncclProfiler_v3, ncclProfiler_v4, ncclProfiler_v5, ncclProfiler_v6};
