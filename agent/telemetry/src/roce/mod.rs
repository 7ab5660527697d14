//! Frames of RoCEv2: what a mirror port, or a node with Soft-RoCE, shows of marks and of congestion notifications.
//!
//! RoCEv2 is InfiniBand's transport in UDP to port 4791 (InfiniBand Architecture Specification, volume 1, annex A17). [`parse`] reads a
//! frame as far as marks and queue pairs need, [`cnp`] writes the frame by which a receiver says that its sender was marked, and [`icrc`] is
//! the checksum that both end with; [`Listener`] counts what a port shows by queue pair. A NIC that offloads RoCE shows none of its own frames to the kernel: this is for mirrors and tests.

mod bth;
mod checksum;
mod frame;
mod tally;

pub use bth::{BTH_BYTES, Bth, CNP, Short};
pub use checksum::{ICRC_BYTES, icrc};
pub use frame::{CNP_BYTES, CnpFrame, Ecn, FrameError, PORT, Packet, cnp, parse};
pub use tally::{Listener, QUEUE_PAIRS_MAX, QueuePair, Seen, Tally};

/// The header of UDP.
const UDP_BYTES: usize = 8;
