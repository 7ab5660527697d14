//! Whether a decision can be carried out.

use alloc::vec::Vec;

use super::job::{ElasticJob, Pool, Stand};

/// Why a decision cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnfitError {
    /// Other jobs than there are.
    #[error("{decided} decisions for {jobs} jobs")]
    Jobs {
        /// What was decided.
        decided: usize,
        /// How many there are.
        jobs: usize,
    },
    /// A node that is not there, or a part of a job without GPUs.
    #[error("job {job} stands on node {node} of type {pool} with {gpus} GPUs")]
    Place {
        /// Which job.
        job: u32,
        /// The type.
        pool: u8,
        /// The node.
        node: u32,
        /// Its GPUs there.
        gpus: u32,
    },
    /// A node gives more GPUs than it has.
    #[error("node {node} of type {pool} has {has} GPUs and gives {gives}")]
    Node {
        /// The type.
        pool: u8,
        /// The node.
        node: u32,
        /// Its GPUs.
        has: u32,
        /// What jobs were given.
        gives: u32,
    },
    /// A job without GPUs, or with others than it takes.
    #[error("job {job} has {gpus} GPUs of type {pool}, which it does not take")]
    Shape {
        /// Which job.
        job: u32,
        /// The type.
        pool: u8,
        /// How many.
        gpus: u32,
    },
    /// A pinned job that would have other GPUs.
    #[error("job {job} is pinned and would have other GPUs")]
    Pinned {
        /// Which job.
        job: u32,
    },
}

/// Checks that the jobs fit on the nodes.
///
/// # Errors
/// [`UnfitError`], the first thing that does not fit.
pub fn check(pools: &[Pool], jobs: &[ElasticJob], decided: &[Option<Stand>]) -> Result<(), UnfitError> {
    if jobs.len() != decided.len() {
        return Err(UnfitError::Jobs { decided: decided.len(), jobs: jobs.len() });
    }
    let mut gives: Vec<Vec<u32>> = pools.iter().map(|pool| alloc::vec![0; pool.nodes as usize]).collect();
    for (job, stand) in jobs.iter().zip(decided) {
        let counts = |stand: &Stand| (stand.pool, stand.shape().gpus);
        if job.pinned && job.stand.as_ref().is_some_and(|has| Some(counts(has)) != stand.as_ref().map(counts)) {
            return Err(UnfitError::Pinned { job: job.id });
        }
        let Some(stand) = stand else { continue };
        let (pool, gpus) = (stand.pool, stand.shape().gpus);
        if gpus == 0 || !job.takes(pool) || job.rigid && gpus != job.asked || job.replicas(stand.shape()).is_none() {
            return Err(UnfitError::Shape { job: job.id, pool, gpus });
        }
        for &(node, gpus) in &stand.places {
            let of = gives.get_mut(usize::from(pool)).and_then(|nodes| nodes.get_mut(node as usize));
            let Some(of) = of.filter(|_| gpus > 0) else { return Err(UnfitError::Place { job: job.id, pool, node, gpus }) };
            *of = of.saturating_add(gpus);
        }
    }
    for ((pool, nodes), at) in pools.iter().zip(&gives).zip(0..) {
        let over = nodes.iter().zip(0..).find(|(gives, _)| **gives > pool.gpus_per_node);
        if let Some((&gives, node)) = over {
            return Err(UnfitError::Node { pool: at, node, has: pool.gpus_per_node, gives });
        }
    }
    Ok(())
}
