//! The link graph of a RoCE fabric: hosts, switches, directed links with capacity and
//! provenance; importers and exporters; routes with ECMP; and which links a placement loads.
//!
//! Pure: text comes in as `&str`, never as a path, and results go out as values.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod capacity;
pub mod collective;
pub mod diff;
pub mod export;
pub mod generate;
pub mod import;
pub mod model;
pub mod native;
pub mod route;
pub mod summary;
pub mod tier;

pub use model::{Fabric, FabricBuilder, FabricError, Finding, Link, Node, NodeKind, Port, Provenance};
