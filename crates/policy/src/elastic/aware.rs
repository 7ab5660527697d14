//! The network in view: places are compared by what jobs are predicted to lose there.
//!
//! Who predicts is asked through [`Foresight`], so that this crate knows neither fabric nor control. Places are tried by numbering the nodes
//! of each type anew before the placer chooses: whoever stays stays, and whoever comes finds other nodes first.

use alloc::vec::Vec;

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};

use super::{
    job::{ElasticJob, Pool, Shape, Stand},
    place,
};
use crate::schedule::CANDIDATES;

/// Of the [`CANDIDATES`], which are ways in which nodes are numbered, that of the cluster included, how many are drawn; the others turn the numbers round, so that neighbours stay neighbours.
const DRAWN: usize = 3;

/// Who predicts what the network costs.
pub trait Foresight {
    /// By job: how many times as long its iterations take, where all stand so, as on a network that is in nobody's way; 1 for who sends nothing.
    fn longer(&mut self, jobs: &[ElasticJob], stands: &[Option<Stand>]) -> Vec<f64>;
}

/// Nobody is in anybody's way.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoContention;

impl Foresight for NoContention {
    fn longer(&mut self, jobs: &[ElasticJob], _: &[Option<Stand>]) -> Vec<f64> {
        alloc::vec![1.0; jobs.len()]
    }
}

/// What a policy sees of the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sight {
    /// Nothing.
    #[default]
    Blind,
    /// Shapes are chosen blindly, and their places by prediction.
    After,
    /// Where a job would stand enters the choice of its shape too.
    Inside,
}

/// Whether a job stands on several nodes.
pub(super) fn spans(stand: &Stand) -> bool {
    stand.places.len() > 1
}

/// Places for shapes: those of the placer under other numbers of the nodes, where `hints` say where jobs should be if there is room.
pub(super) fn candidates(
    pools: &[Pool],
    jobs: &[ElasticJob],
    chosen: &[Option<Shape>],
    hints: &[Option<Stand>],
) -> Vec<Vec<Option<Stand>>> {
    let mut seen: Vec<ElasticJob> = jobs.to_vec();
    for (job, hint) in seen.iter_mut().zip(hints) {
        if !job.pinned && hint.is_some() {
            job.stand.clone_from(hint);
        }
    }
    let mut found: Vec<Vec<Option<Stand>>> = Vec::with_capacity(CANDIDATES);
    for way in 0..CANDIDATES {
        let numbers: Vec<Numbers> = pools.iter().map(|pool| Numbers::new(pool.nodes, way)).collect();
        let there: Vec<ElasticJob> =
            seen.iter().map(|job| ElasticJob { stand: renumbered(&numbers, job.stand.as_ref(), Numbers::to), ..job.clone() }).collect();
        let stands = place::place(pools, &there, chosen);
        let back: Vec<Option<Stand>> = stands.iter().map(|stand| renumbered(&numbers, stand.as_ref(), Numbers::back)).collect();
        if !found.contains(&back) {
            found.push(back);
        }
    }
    found
}

fn renumbered(numbers: &[Numbers], stand: Option<&Stand>, number: fn(&Numbers, u32) -> u32) -> Option<Stand> {
    let stand = stand?;
    let of = numbers.get(usize::from(stand.pool))?;
    Some(Stand { pool: stand.pool, places: stand.places.iter().map(|(node, gpus)| (number(of, *node), *gpus)).collect() })
}

/// Other numbers for the nodes of a type.
struct Numbers {
    to: Vec<u32>,
    back: Vec<u32>,
}

impl Numbers {
    fn new(nodes: u32, way: usize) -> Self {
        let mut back: Vec<u32> = (0..nodes).collect();
        if way > CANDIDATES - 1 - DRAWN {
            let mut random = ChaCha8Rng::seed_from_u64(way as u64);
            // The shuffle of Fisher and Yates.
            for at in (1..back.len()).rev() {
                back.swap(at, (random.next_u64() % (at as u64 + 1)) as usize);
            }
        } else if !back.is_empty() {
            let by = way * back.len() / (CANDIDATES - DRAWN);
            back.rotate_left(by);
        }
        let mut to = alloc::vec![0; back.len()];
        for (number, node) in (0..).zip(&back) {
            to[*node as usize] = number;
        }
        Self { to, back }
    }

    fn to(&self, node: u32) -> u32 {
        self.to.get(node as usize).copied().unwrap_or(node)
    }

    fn back(&self, node: u32) -> u32 {
        self.back.get(node as usize).copied().unwrap_or(node)
    }
}

/// Some places for a shape on nodes that others leave free: neighbours, spread over the type. None where too few are free.
pub(super) fn windows(pools: &[Pool], stands: &[Option<Stand>], shape: Shape, most: usize) -> Vec<Stand> {
    let Some(pool) = pools.get(usize::from(shape.pool)) else { return Vec::new() };
    let mut taken = alloc::vec![false; pool.nodes as usize];
    for stand in stands.iter().flatten().filter(|stand| stand.pool == shape.pool) {
        stand.places.iter().for_each(|(node, _)| {
            if let Some(taken) = taken.get_mut(*node as usize) {
                *taken = true;
            }
        });
    }
    let free: Vec<u32> = (0..pool.nodes).zip(&taken).filter(|(_, taken)| !**taken).map(|(node, _)| node).collect();
    let wanted = shape.nodes as usize;
    if wanted == 0 || free.len() < wanted {
        return Vec::new();
    }
    let last = free.len() - wanted;
    let mut begins: Vec<usize> = (0..most).map(|at| at * last / most.saturating_sub(1).max(1)).collect();
    begins.dedup();
    let window = |begin: usize| {
        let places = free.iter().skip(begin).take(wanted).map(|node| (*node, pool.gpus_per_node));
        Stand { pool: shape.pool, places: places.collect() }
    };
    begins.into_iter().map(window).collect()
}
