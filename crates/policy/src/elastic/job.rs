//! Jobs as elastic policies see them, and where they stand.

use alloc::vec::Vec;

use crate::{
    goodput::{Layout, Model, OnPool},
    schedule::JobIndex,
};

/// All nodes with one type of GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool {
    /// How many.
    pub nodes: u32,
    /// GPUs of each.
    pub gpus_per_node: u32,
    /// Most nodes of one job.
    pub nodes_max: u32,
}

impl Pool {
    /// GPUs of all nodes.
    #[must_use]
    pub fn gpus(&self) -> u32 {
        self.nodes.saturating_mul(self.gpus_per_node)
    }

    /// The fewest nodes that have some GPUs.
    #[must_use]
    pub fn nodes_for(&self, gpus: u32) -> u32 {
        gpus.div_ceil(self.gpus_per_node.max(1))
    }
}

/// How many GPUs of which type: what Sia calls a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shape {
    /// The type.
    pub pool: u8,
    /// On how many nodes.
    pub nodes: u32,
    /// How many on all of them.
    pub gpus: u32,
}

impl Shape {
    /// The same with as many replicas as GPUs.
    #[must_use]
    pub fn layout(self) -> Layout {
        Layout { nodes: self.nodes, replicas: self.gpus }
    }
}

/// Where a job stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stand {
    /// The type of its GPUs.
    pub pool: u8,
    /// Nodes of that type, and its GPUs of each, in the order of its ranks.
    pub places: Vec<(u32, u32)>,
}

impl Stand {
    /// What it has.
    #[must_use]
    pub fn shape(&self) -> Shape {
        // A job has fewer nodes than 2^32.
        Shape { pool: self.pool, nodes: self.places.len() as u32, gpus: self.places.iter().map(|place| place.1).sum() }
    }
}

/// A job that waits or runs.
#[derive(Clone, Debug, PartialEq)]
pub struct ElasticJob {
    /// Its number, which it keeps.
    pub id: JobIndex,
    /// Time since it was submitted, in seconds.
    pub age_s: f64,
    /// How often it was restarted.
    pub restarts: u32,
    /// What a restart costs, in seconds.
    pub restart_s: f64,
    /// GPUs that it had, times how long it had them, in seconds.
    pub served_gpu_s: f64,
    /// What it was given in the last round.
    pub shape: Option<Shape>,
    /// Where it stands.
    pub stand: Option<Stand>,
    /// Whether it stays as it is: while it restarts, where it cannot be stopped, or where its place is reserved.
    pub pinned: bool,
    /// Most replicas in the next round, which are GPUs, or pipelines where it has such: twice what it was ever measured with.
    pub gpus_max: u32,
    /// What is known of its goodput.
    pub model: Model,
    /// The GPUs that it asks for.
    pub asked: u32,
    /// Whether it takes exactly these or none (Sia's rigid jobs).
    pub rigid: bool,
    /// The only type that it takes (Sia's guaranteed jobs).
    pub only: Option<u8>,
    /// Iterations a second with the GPUs and the batch that it asks for, by type; 0 where that is impossible.
    pub rates: Vec<f64>,
}

impl ElasticJob {
    /// Whether it takes a type.
    #[must_use]
    pub fn takes(&self, pool: u8) -> bool {
        self.only.is_none_or(|only| only == pool)
    }

    /// GPUs of a replica on a type.
    #[must_use]
    pub fn stages(&self, pool: u8) -> u32 {
        self.model.pools.get(usize::from(pool)).map_or(1, OnPool::stages)
    }

    /// How many replicas a shape is; `None` where GPUs would be left over.
    #[must_use]
    pub fn replicas(&self, shape: Shape) -> Option<u32> {
        self.model.pools.get(usize::from(shape.pool)).map_or(Some(shape.gpus), |pool| pool.replicas(shape.gpus))
    }
}
