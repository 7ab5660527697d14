//! Slurm `topology.yaml` (topology.yaml(5)) and `topology.conf` (topology.conf(5)).
//!
//! Slurm knows which switch a node hangs off and which switches hang off a switch. It knows no
//! ports, no parallel cables and no capacity: `LinkSpeed` is read by Slurm and used for nothing,
//! so it is a finding here. Every edge of the tree is one statement that two nodes are cabled;
//! capacities and parallel cables come from [`Assumption`](super::Assumption).

mod block;
mod conf;
mod file;
mod tree;

use alloc::{string::String, vec::Vec};

pub use self::{conf::topology_conf, file::topology_yaml};

/// A switch as declared: its hosts or its child switches.
#[derive(Clone, Debug)]
struct Switch {
    name: String,
    place: String,
    hosts: Vec<String>,
    children: Vec<String>,
}

/// A block as declared.
#[derive(Clone, Debug)]
struct Block {
    name: String,
    place: String,
    hosts: Vec<String>,
}
