//! The link graph of a RoCE fabric: hosts, switches, directed links with capacity and
//! provenance; importers and exporters; routes with ECMP; and which links a placement loads.
//!
//! Pure: text comes in as `&str`, never as a path, and results go out as values.
//!
//! ```
//! use antiphase_fabric::{collective::{self, Collective, Endpoint}, generate, route::{Ecmp, Router}};
//!
//! // Two hosts of the CASSINI testbed on different leaves of one pod, in a ring.
//! let fabric = generate::cassini24().unwrap();
//! let ranks = ["h1", "h5"].map(|name| Endpoint { host: fabric.find(name).unwrap(), rail: 0 });
//! let flows = collective::flows(Collective::Ring, &ranks);
//! let router = Router::new(&fabric, Ecmp::Spread, &[]).unwrap();
//! // Each direction: the NIC, two cables up, two cables down, the other NIC.
//! assert_eq!(router.loads(&flows).unwrap().len(), 2 * 6);
//! ```
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
pub mod yaml;

pub use model::{Fabric, FabricBuilder, FabricError, Finding, HostGpus, Link, Node, NodeKind, Port, Provenance};
