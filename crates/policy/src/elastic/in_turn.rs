//! Nodes for shapes, as the simulator of Sia's authors chooses them (siasosp23/artifacts, "fast" placement): larger jobs first, each from the node
//! behind that of the last one on, whole nodes before others, and split where there is no room. Nobody is kept where he is.

use alloc::vec::Vec;

use super::job::{Pool, Shape, Stand};

/// Nodes for the shapes of jobs.
pub(super) fn place(pools: &[Pool], shapes: &[Option<Shape>]) -> Vec<Option<Stand>> {
    let mut stands: Vec<Option<Stand>> = alloc::vec![None; shapes.len()];
    for (pool, at) in pools.iter().zip(0_u8..) {
        let mut free = alloc::vec![pool.gpus_per_node; pool.nodes as usize];
        let here = shapes.iter().enumerate().filter_map(|(job, shape)| Some((job, shape.filter(|shape| shape.pool == at)?.gpus)));
        let mut order: Vec<(usize, u32)> = here.collect();
        order.sort_by_key(|(_, gpus)| core::cmp::Reverse(*gpus));
        let mut next = 0;
        for (job, gpus) in order {
            // More than there is would go round for ever.
            if gpus > free.iter().sum::<u32>() {
                continue;
            }
            let places = take(&mut free, pool.gpus_per_node, &mut next, gpus);
            if let Some(stand) = stands.get_mut(job) {
                *stand = Some(Stand { pool: at, places });
            }
        }
    }
    stands
}

/// GPUs from a node on, and the node behind.
fn take(free: &mut [u32], gpus_per_node: u32, next: &mut usize, mut gpus: u32) -> Vec<(u32, u32)> {
    let mut places: Vec<(u32, u32)> = Vec::new();
    let (mut whole, mut looked) = (gpus / gpus_per_node.max(1), 0);
    while looked < free.len() && whole > 0 {
        if free[*next] == gpus_per_node {
            free[*next] = 0;
            places.push((*next as u32, gpus_per_node));
            gpus -= gpus_per_node;
            whole -= 1;
        }
        *next = (*next + 1) % free.len();
        looked += 1;
    }
    while gpus > 0 {
        let part = free[*next].min(gpus);
        if part > 0 {
            free[*next] -= part;
            places.push((*next as u32, part));
            gpus -= part;
        }
        *next = (*next + 1) % free.len();
    }
    places
}
