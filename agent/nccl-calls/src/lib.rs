//! What a job calls of NCCL, for releases that load no profiler plugin (before 2.23): a library that stands before NCCL's own.
//!
//! `LD_PRELOAD` names it, so calls of the job meet its `ncclAllReduce` and the like first. Each writes that it was called into a ring in
//! memory ([`gate::events`]), the same ring as the plugin's (`agent/nccl`), and goes on to NCCL with the same arguments; what NCCL
//! answers is what the job gets. Nothing here knows when a collective ends: for that NCCL has to be asked, and old releases answer nobody.
//!
//! **It only observes.** A call allocates nothing, takes no lock and waits for nobody: the ring is made, and NCCL's functions are looked
//! for, when a communicator is made. A library of its own and not a part of the plugin, because these names are NCCL's: whoever loads
//! the plugin so that others see its names would find functions of NCCL in it, and every job with both would be counted twice.
//!
//! Only functions that NCCL has had since 2.7 are here. A program that asks the loader for the name of a newer one, to see whether NCCL
//! has it, must not find ours.
#![deny(unsafe_op_in_unsafe_fn)]
#![allow(unsafe_code, reason = "functions of C that stand before others of the same type, which the loader finds")]

mod caller;
mod calls;
mod next;

pub use calls::{
    UniqueId, ncclAllGather, ncclAllReduce, ncclBcast, ncclBroadcast, ncclCommInitAll, ncclCommInitRank, ncclCommInitRankConfig, ncclRecv,
    ncclReduce, ncclReduceScatter, ncclSend,
};
