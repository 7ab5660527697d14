//! The link graph of a RoCE fabric: hosts, switches, directed links with capacity and
//! provenance; importers and exporters; routes with ECMP; and which links a placement loads.
//!
//! Pure: text comes in as `&str`, never as a path, and results go out as values.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod capacity;
pub mod collective;
pub mod model;

pub use collective::Collective;
pub use model::{Fabric, FabricBuilder, FabricError, Finding, Link, Node, NodeKind, Port, Provenance};
