//! Which shapes jobs can have (Sia, section 3.2).

use alloc::vec::Vec;

use super::job::{Pool, Shape};

/// The shapes on some pools: powers of two within a node, a whole node, and whole nodes. Any number of jobs with such shapes that fit by their
/// counts also fit without being split, where nodes have powers of two GPUs; and no two jobs that span nodes share one.
#[must_use]
pub fn shapes(pools: &[Pool]) -> Vec<Shape> {
    let mut shapes = Vec::new();
    for (pool, at) in pools.iter().zip(0..) {
        if pool.nodes == 0 {
            continue;
        }
        let within = (0..u32::BITS).map(|bit| 1_u32 << bit).take_while(|gpus| *gpus < pool.gpus_per_node);
        shapes.extend(within.chain([pool.gpus_per_node]).map(|gpus| Shape { pool: at, nodes: 1, gpus }));
        let across = 2..=pool.nodes.min(pool.nodes_max);
        shapes.extend(across.map(|nodes| Shape { pool: at, nodes, gpus: nodes.saturating_mul(pool.gpus_per_node) }));
    }
    shapes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_cluster_has_nineteen() {
        let pool = |nodes, gpus_per_node, nodes_max| Pool { nodes, gpus_per_node, nodes_max };
        let shapes = shapes(&[pool(6, 4, 16), pool(2, 8, 2), pool(3, 8, 3)]);
        // 3 + 5 of the first type, 4 + 1 of the second, 4 + 2 of the third.
        assert_eq!(shapes.len(), 19);
        let first: Vec<(u32, u32)> = shapes.iter().filter(|shape| shape.pool == 0).map(|shape| (shape.nodes, shape.gpus)).collect();
        assert_eq!(first, [(1, 1), (1, 2), (1, 4), (2, 8), (3, 12), (4, 16), (5, 20), (6, 24)]);
    }
}
