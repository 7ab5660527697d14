//! RDMA devices of a node, by libibverbs: what they are, what happens to them, and traffic on them.
//!
//! The library is loaded when the program runs ([`library`]), so the program starts on every host and says which of three things
//! is missing: the library, the kernel's support, or a device. Layouts of C are in [`abi`] alone; [`device`] is safe to use.
//! [`ethtool`] needs no library: it asks the drivers of interfaces for their statistics.
//!
//! The program is `antiphase-verbs`; docs/agent.md describes it.
#![deny(unsafe_op_in_unsafe_fn)]
#![allow(
    unsafe_code,
    reason = "libibverbs is C; library.rs loads it, device.rs and queue.rs call it, wait.rs calls poll, ethtool.rs ioctl"
)]

pub mod abi;
pub mod args;
pub mod device;
pub mod ethtool;
pub mod events;
pub mod exchange;
pub mod inventory;
pub mod library;
pub mod probe;
pub mod queue;
pub mod server;
pub mod sysfs;
mod wait;
pub mod writer;
