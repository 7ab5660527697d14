//! Jobs and nodes that the tests share.

use antiphase_policy::{
    elastic::{ElasticJob, Pool},
    goodput::{BatchLimits, Model, OnPool, Throughput},
};

/// Six nodes of four slow GPUs, and two of eight that are three times as fast.
pub(crate) const POOLS: [(u32, u32); 2] = [(6, 4), (2, 8)];

pub(crate) fn cluster(pools: &[(u32, u32)]) -> Vec<Pool> {
    pools.iter().map(|(nodes, gpus_per_node)| Pool { nodes: *nodes, gpus_per_node: *gpus_per_node, nodes_max: 16 }).collect()
}

const LIMITS: BatchLimits = BatchLimits { initial: 64, most: 4_096, samples_least: 16, samples_most: 256 };

/// A model of a job that ran on the first type; the second is estimated.
pub(crate) fn known(speed: f64, noise: f64) -> Model {
    let throughput =
        Throughput { alpha_c: 0.05 / speed, beta_c: 0.002 / speed, alpha_n: 0.1, beta_n: 0.002, alpha_r: 0.02, beta_r: 0.001, gamma: 1.5 };
    let mut model = unknown();
    model.pools[0].throughput = Some(throughput);
    model.noise = Some(noise);
    model
}

/// A model of a job that ran nowhere.
pub(crate) fn unknown() -> Model {
    let pool = |gpus_per_node, alone| OnPool { limits: LIMITS, gpus_per_node, pipeline: None, alone, throughput: None };
    Model { pools: vec![pool(4, 100.0), pool(8, 300.0)], noise: None, batch: None, counted_most: None }
}

pub(crate) fn job(id: u32, model: Model) -> ElasticJob {
    ElasticJob {
        id,
        age_s: 600.0,
        restarts: 1,
        restart_s: 30.0,
        served_gpu_s: 0.0,
        shape: None,
        stand: None,
        pinned: false,
        gpus_max: 64,
        model,
        asked: 4,
        rigid: false,
        only: None,
        rates: vec![1.0, 3.0],
    }
}
