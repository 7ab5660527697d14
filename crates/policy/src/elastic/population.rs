//! Placements bred as Pollux does (section 4.2; adaptdl): each says how many GPUs of each node each job has. Children take the rows of one of two
//! parents, some numbers change at random, and what does not fit is repaired; the best hundred of parents and children are the next parents.
//!
//! The published search also weighs how many nodes are used, which decides how large a cluster in the cloud should be. Here the cluster is given.

use alloc::{collections::BTreeMap, vec::Vec};

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};

use super::{
    job::{ElasticJob, Pool, Shape, Stand},
    speeds::Speeds,
};

/// Placements that live at a time, and how often they have children.
const POPULATION: usize = 100;
const GENERATIONS: usize = 100;
/// What a job without GPUs adds to the cost.
const WAITING: f64 = 1_000.0;

/// Most numbers in a placement: two hundred of that size are some 80 MB.
const GENES_MAX: usize = 100_000;

/// GPUs by job and node.
type Genes = Vec<Vec<u32>>;

/// Whether placements are small enough to be bred.
pub(super) fn holds(pools: &[Pool], jobs: &[ElasticJob]) -> bool {
    let nodes: usize = pools.iter().map(|pool| pool.nodes as usize).sum();
    nodes.saturating_mul(jobs.len()) <= GENES_MAX
}

/// The best placement that was bred.
pub(super) fn breed(pools: &[Pool], jobs: &[ElasticJob], seed: u64) -> Vec<Option<Stand>> {
    let mut herd = Herd::new(pools, jobs, seed);
    let now = herd.now();
    let mut parents: Vec<(f64, Genes)> = alloc::vec![(herd.cost(&now), now.clone())];
    while parents.len() < POPULATION {
        let mut genes = now.clone();
        herd.mutate(&mut genes);
        herd.repair(&mut genes);
        parents.push((herd.cost(&genes), genes));
    }
    for _ in 0..GENERATIONS {
        let mut children = Vec::with_capacity(POPULATION);
        while children.len() < POPULATION {
            let (mother, father) = (herd.pick(&parents), herd.pick(&parents));
            let rows = parents[mother].1.iter().zip(&parents[father].1);
            let mut genes: Genes = rows.map(|(a, b)| if herd.below(2) == 0 { a.clone() } else { b.clone() }).collect();
            herd.mutate(&mut genes);
            herd.repair(&mut genes);
            children.push((herd.cost(&genes), genes));
        }
        parents.append(&mut children);
        parents.sort_by(|a, b| a.0.total_cmp(&b.0));
        // Copies would soon be all that is left.
        parents.dedup_by(|a, b| a.1 == b.1);
        parents.truncate(POPULATION);
    }
    parents.first().map_or_else(Vec::new, |(_, genes)| herd.stands(genes))
}

/// A number below another one, which is small.
fn below(random: &mut ChaCha8Rng, end: usize) -> usize {
    (random.next_u64() % end.max(1) as u64) as usize
}

struct Herd<'a> {
    jobs: &'a [ElasticJob],
    /// By node: its type, its number within it, and its GPUs.
    nodes: Vec<(u8, u32, u32)>,
    speeds: Vec<Speeds<'a>>,
    known: Vec<BTreeMap<Shape, f64>>,
    random: ChaCha8Rng,
}

impl<'a> Herd<'a> {
    fn new(pools: &[Pool], jobs: &'a [ElasticJob], seed: u64) -> Self {
        let of = |(pool, at): (&Pool, u8)| {
            let gpus = pool.gpus_per_node;
            (0..pool.nodes).map(move |node| (at, node, gpus)).collect::<Vec<_>>()
        };
        let nodes = pools.iter().zip(0_u8..).flat_map(of).collect();
        let speeds = jobs.iter().map(|job| Speeds::new(pools, job, jobs.len())).collect();
        Self { jobs, nodes, speeds, known: alloc::vec![BTreeMap::new(); jobs.len()], random: ChaCha8Rng::seed_from_u64(seed) }
    }

    fn below(&mut self, end: usize) -> usize {
        below(&mut self.random, end)
    }

    /// The better of two at random.
    fn pick(&mut self, parents: &[(f64, Genes)]) -> usize {
        self.below(parents.len()).min(self.below(parents.len()))
    }

    /// Where the jobs stand.
    fn now(&self) -> Genes {
        let gpus = |job: &ElasticJob, (pool, node, _): &(u8, u32, u32)| {
            let stand = job.stand.as_ref().filter(|stand| stand.pool == *pool);
            stand.map_or(0, |stand| stand.places.iter().filter(|place| place.0 == *node).map(|place| place.1).sum())
        };
        self.jobs.iter().map(|job| self.nodes.iter().map(|node| gpus(job, node)).collect()).collect()
    }

    /// Changes about one number that is 0, and one that is not.
    fn mutate(&mut self, genes: &mut Genes) {
        let all = genes.iter().flatten();
        let (used, count) = (all.clone().filter(|gpus| **gpus > 0).count(), all.count());
        for (row, job) in genes.iter_mut().zip(self.jobs) {
            for (gpus, node) in row.iter_mut().zip(&self.nodes) {
                let alike = if *gpus > 0 { used } else { count - used };
                if below(&mut self.random, alike) == 0 {
                    let most = node.2.min(job.gpus_max.max(1)) as usize;
                    // At most the GPUs of a node.
                    *gpus = below(&mut self.random, most + 1) as u32;
                }
            }
        }
    }

    /// Makes a placement fit: pinned jobs stand where they stood, each on one type, within its limit, and nodes give what they have; of jobs that span
    /// nodes one at most has a part of each.
    fn repair(&mut self, genes: &mut Genes) {
        let mut free: Vec<u32> = self.nodes.iter().map(|node| node.2).collect();
        let mut spanned = alloc::vec![false; self.nodes.len()];
        let now = self.now();
        let from = self.below(genes.len());
        let pinned = |job: &usize| self.jobs[*job].pinned;
        // Pinned jobs first, then the others from a random one on, so that no job always finds less.
        let others = (0..genes.len()).map(|job| (job + from) % genes.len());
        let order: Vec<usize> = (0..genes.len()).filter(pinned).chain(others.filter(|job| !pinned(job))).collect();
        for job in order {
            let (row, of) = (&mut genes[job], &self.jobs[job]);
            if of.pinned {
                row.clone_from(&now[job]);
            }
            let on = |pool: u8| self.nodes.iter().zip(row.iter()).filter(|(node, _)| node.0 == pool).map(|(_, gpus)| *gpus).sum::<u32>();
            let pools = self.nodes.iter().map(|node| node.0).filter(|pool| of.takes(*pool));
            let pool = pools.max_by_key(|pool| on(*pool));
            let mut left = if of.pinned { u32::MAX } else { of.gpus_max.max(1) };
            let spans = row.iter().filter(|gpus| **gpus > 0).count() > 1;
            for (at, gpus) in row.iter_mut().enumerate() {
                let barred = Some(self.nodes[at].0) != pool || spans && spanned[at] && !of.pinned;
                *gpus = if barred { 0 } else { (*gpus).min(free[at]).min(left) };
                left -= *gpus;
            }
            let spans = row.iter().filter(|gpus| **gpus > 0).count() > 1;
            for (at, gpus) in row.iter().enumerate() {
                free[at] -= gpus;
                spanned[at] |= spans && *gpus > 0;
            }
        }
    }

    /// The sum of what jobs lack: the less, the better the power mean.
    fn cost(&mut self, genes: &Genes) -> f64 {
        let mut cost = 0.0;
        for (job, row) in genes.iter().enumerate() {
            let Some(stand) = self.stand(row) else {
                cost += WAITING;
                continue;
            };
            let shape = stand.shape();
            let speeds = &self.speeds[job];
            let speed = self.known[job].entry(shape).or_insert_with(|| speeds.of(shape).unwrap_or(0.0));
            cost += if *speed > 0.0 { 1.0 / *speed } else { WAITING };
        }
        cost
    }

    fn stand(&self, row: &[u32]) -> Option<Stand> {
        let mut used = self.nodes.iter().zip(row).filter(|(_, gpus)| **gpus > 0).peekable();
        let pool = used.peek()?.0.0;
        Some(Stand { pool, places: used.map(|(node, gpus)| (node.1, *gpus)).collect() })
    }

    fn stands(&self, genes: &Genes) -> Vec<Option<Stand>> {
        genes.iter().map(|row| self.stand(row)).collect()
    }
}
