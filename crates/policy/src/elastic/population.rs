//! The search that Pollux's authors published (section 4.2; petuum/adaptdl, branch osdi21-artifact, `pollux.py`, which runs on pymoo 0.4.2): a
//! placement says how many GPUs of each node each job has. NSGA-II (Deb et al. 2002) breeds a hundred of them for a hundred generations by two
//! measures: the power mean of speeds, and how much of the GPUs on nodes in use becomes speed. The best by the first is taken, and the next
//! round begins with all that are best in some way.
//!
//! A child has the rows of the first jobs from one parent and the others from the other. Then rows go back to where the job stands, numbers
//! become zero, and numbers grow where a node has GPUs left. Jobs that have had least come first where something must be cut.
//!
//! One thing is odd there and kept: what the next round begins with is handed on by the order of jobs, which is that of what they have had. So a row
//! becomes that of another job where the order has changed.
//!
//! On several types of GPU, which that code does not have, a job is left the type of which it has most, and nodes count as they are.

mod front;

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};

use self::front::Ranked;
use super::{
    job::{ElasticJob, Pool, Shape, Stand},
    speeds::{Fair, Speeds},
};
use crate::schedule::JobIndex;

/// Placements that live at a time, and generations of them.
const POPULATION: usize = 100;
const GENERATIONS: usize = 100;
/// Rows that go back to where the job stands, rows of which numbers become zero, such numbers, and pairs of parents whose children are
/// copies before they change: one in so many.
const ONE_IN: usize = 10;
/// Pairs of parents after which a generation has those that are new: the published code goes on for 25 times as long, and finds as little.
const PAIRS: usize = 4 * POPULATION;
/// What is added to each speed, so that a job without GPUs has one.
const SPEED_LEAST: f64 = 1e-3;
/// Most nodes of a job that has no limit of its own.
const NODES_MAX: u32 = 16;

/// Most numbers in a placement: two hundred of that size are some 80 MB.
const GENES_MAX: usize = 100_000;

/// GPUs of all jobs by node, job after job.
type Genes = Vec<u32>;
/// Both measures below zero, so that less is better.
type Costs = [f64; 2];

/// What the last round ended with: its jobs in order, and placements that are best in some way.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    jobs: Vec<JobIndex>,
    placements: Vec<Genes>,
}

/// Whether placements are small enough to be bred.
pub(super) fn holds(pools: &[Pool], jobs: &[ElasticJob]) -> bool {
    let nodes: usize = pools.iter().map(|pool| pool.nodes as usize).sum();
    nodes.saturating_mul(jobs.len()) <= GENES_MAX
}

/// The best placement that was bred; `kept` is what the last round left, and then what this one leaves. With `avoids`, jobs that span nodes share none.
pub(super) fn breed(pools: &[Pool], jobs: &[ElasticJob], avoids: bool, seed: u64, kept: &mut Kept) -> Vec<Option<Stand>> {
    let mut herd = Herd::new(pools, jobs, avoids, seed);
    let mut first: Vec<Genes> = kept.placements.iter().map(|placement| herd.again(&kept.jobs, placement)).collect();
    if first.is_empty() {
        first.push(herd.now.clone());
    }
    first.iter_mut().for_each(|genes| herd.repair(genes));
    let mut known: BTreeSet<Genes> = BTreeSet::new();
    first.retain(|genes| known.insert(genes.clone()));
    let mut ranked = Ranked::new(first.into_iter().map(|genes| (herd.costs(&genes), genes)).collect(), POPULATION);
    // The first generation is that of the parents.
    for _ in 1..GENERATIONS {
        let children = herd.children(&ranked);
        // Nothing new is to be had.
        if children.is_empty() {
            break;
        }
        let mut all = ranked.into_all();
        all.extend(children.into_iter().map(|genes| (herd.costs(&genes), genes)));
        ranked = Ranked::new(all, POPULATION);
    }
    let front = ranked.front();
    *kept = Kept { jobs: herd.jobs.iter().map(|job| job.id).collect(), placements: front.iter().map(|(_, genes)| genes.clone()).collect() };
    let best = front.iter().min_by(|a, b| a.0[0].total_cmp(&b.0[0]));
    best.map_or_else(|| alloc::vec![None; jobs.len()], |(_, genes)| herd.stands(genes))
}

struct Herd<'a> {
    /// Pinned ones first, then those that had least: where something must be cut, the last lose it.
    jobs: Vec<&'a ElasticJob>,
    /// Their places among all.
    places: Vec<usize>,
    /// By node: its type, its number within it, and its GPUs.
    nodes: Vec<(u8, u32, u32)>,
    /// By type: most nodes of a job.
    nodes_max: Vec<u32>,
    /// Where jobs stand.
    now: Genes,
    speeds: Vec<Speeds<'a>>,
    known: Vec<BTreeMap<Shape, f64>>,
    /// What a speed counts: nodes over GPUs, as published.
    scale: f64,
    avoids: bool,
    random: ChaCha8Rng,
}

impl<'a> Herd<'a> {
    fn new(pools: &[Pool], all: &'a [ElasticJob], avoids: bool, seed: u64) -> Self {
        let mut places: Vec<usize> = (0..all.len()).collect();
        let order = |a: &usize, b: &usize| {
            let (a, b) = (&all[*a], &all[*b]);
            (!a.pinned).cmp(&!b.pinned).then(a.served_gpu_s.total_cmp(&b.served_gpu_s)).then(b.age_s.total_cmp(&a.age_s))
        };
        places.sort_by(order);
        let jobs: Vec<&ElasticJob> = places.iter().map(|at| &all[*at]).collect();
        let of = |(pool, at): (&Pool, u8)| {
            let gpus = pool.gpus_per_node;
            (0..pool.nodes).map(move |node| (at, node, gpus)).collect::<Vec<_>>()
        };
        let nodes: Vec<(u8, u32, u32)> = pools.iter().zip(0_u8..).flat_map(of).collect();
        let gpus: u32 = pools.iter().map(Pool::gpus).sum();
        let stands_with = |job: &&ElasticJob, (pool, node, _): &(u8, u32, u32)| -> u32 {
            let stand = job.stand.as_ref().filter(|stand| stand.pool == *pool);
            stand.map_or(0, |stand| stand.places.iter().filter(|place| place.0 == *node).map(|place| place.1).sum())
        };
        Self {
            now: jobs.iter().flat_map(|job| nodes.iter().map(move |node| stands_with(job, node))).collect(),
            speeds: jobs.iter().map(|job| Speeds::new(pools, job, all.len(), Fair::Published)).collect(),
            known: alloc::vec![BTreeMap::new(); jobs.len()],
            scale: nodes.len() as f64 / f64::from(gpus.max(1)),
            nodes_max: pools.iter().map(|pool| pool.nodes_max.min(NODES_MAX)).collect(),
            avoids,
            random: ChaCha8Rng::seed_from_u64(seed),
            jobs,
            places,
            nodes,
        }
    }

    /// A placement of the last round, in which jobs may have come and gone: the jobs that are still there have its rows one after the other.
    fn again(&self, then: &[JobIndex], placement: &[u32]) -> Genes {
        let width = self.nodes.len().max(1);
        let there: BTreeSet<JobIndex> = self.jobs.iter().map(|job| job.id).collect();
        let mut rows = then.iter().zip(placement.chunks(width)).filter(|(job, _)| there.contains(job)).map(|(_, row)| row);
        let before: BTreeSet<JobIndex> = then.iter().copied().collect();
        let mut genes = alloc::vec![0; self.now.len()];
        for (row, job) in genes.chunks_mut(width).zip(&self.jobs) {
            if let Some(had) = before.contains(&job.id).then(|| rows.next()).flatten() {
                row.copy_from_slice(had);
            }
        }
        genes
    }

    /// A hundred placements that nobody has, or fewer where there are no more.
    fn children(&mut self, parents: &Ranked<Genes>) -> Vec<Genes> {
        let known: BTreeSet<&Genes> = parents.all().iter().map(|(_, genes)| genes).collect();
        let mut children: Vec<Genes> = Vec::with_capacity(POPULATION);
        let mut pairs = 0;
        while children.len() < POPULATION && pairs < PAIRS {
            let missing = (POPULATION - children.len()).div_ceil(2).min(PAIRS - pairs);
            pairs += missing;
            let chosen = parents.pick(2 * missing, &mut self.random);
            for pair in chosen.chunks_exact(2) {
                let (mother, father) = (&parents.all()[pair[0]].1, &parents.all()[pair[1]].1);
                for mut genes in self.cross(mother, father) {
                    self.mutate(&mut genes);
                    self.repair(&mut genes);
                    if children.len() < POPULATION && !known.contains(&genes) && !children.contains(&genes) {
                        children.push(genes);
                    }
                }
            }
        }
        children
    }

    fn rows<'g>(&self, genes: &'g [u32]) -> impl Iterator<Item = &'g [u32]> {
        genes.chunks(self.nodes.len().max(1))
    }

    fn cross(&mut self, mother: &[u32], father: &[u32]) -> [Genes; 2] {
        let copies = below(&mut self.random, ONE_IN) == 0;
        let point = if copies { 0 } else { below(&mut self.random, self.jobs.len()) * self.nodes.len() };
        let join = |a: &[u32], b: &[u32]| a[..point].iter().chain(&b[point..]).copied().collect();
        [join(father, mother), join(mother, father)]
    }

    fn mutate(&mut self, genes: &mut Genes) {
        let width = self.nodes.len().max(1);
        let random = &mut self.random;
        for (row, now) in genes.chunks_mut(width).zip(self.now.chunks(width)) {
            if below(random, ONE_IN) == 0 {
                row.copy_from_slice(now);
            }
            if below(random, ONE_IN) == 0 {
                row.iter_mut().filter(|_| below(random, ONE_IN) == 0).for_each(|gpus| *gpus = 0);
            }
        }
        let jobs = genes.len() / width;
        for (node, (.., gpus)) in self.nodes.iter().enumerate() {
            let column = || (0..jobs).map(|job| job * width + node);
            if column().map(|at| genes[at]).sum::<u32>() >= *gpus {
                continue;
            }
            // Expected mutations here: one job of all gets more GPUs, and one of the jobs that already have some.
            let here = column().filter(|at| genes[*at] > 0).count();
            for at in column() {
                let some = genes[at] > 0;
                if below(random, jobs) == 0 || some && below(random, here) == 0 {
                    genes[at] += below(random, gpus.saturating_sub(genes[at]) as usize + 1) as u32;
                }
            }
        }
    }

    /// Makes a placement fit: pinned jobs stand where they stood, each on one type; of jobs that span nodes one at most has a part of each, if these are
    /// to avoid each other; each has what it may have, on nodes at random; nodes give what they have.
    fn repair(&mut self, genes: &mut Genes) {
        let width = self.nodes.len().max(1);
        let mut spanned = alloc::vec![false; width];
        for (at, row) in genes.chunks_mut(width).enumerate() {
            let job = self.jobs[at];
            if job.pinned {
                row.copy_from_slice(&self.now[at * width..][..width]);
            } else {
                one_type(row, &self.nodes, job);
            }
            if self.avoids && row.iter().filter(|gpus| **gpus > 0).count() > 1 {
                for (gpus, spanned) in row.iter_mut().zip(&mut spanned).filter(|(gpus, _)| **gpus > 0) {
                    *gpus = if *spanned && !job.pinned { 0 } else { *gpus };
                    *spanned = true;
                }
            }
            if !job.pinned {
                limit(row, job.gpus_max.max(1), &self.nodes, &self.nodes_max, &mut self.random);
            }
        }
        let mut free: Vec<u32> = self.nodes.iter().map(|node| node.2).collect();
        for row in genes.chunks_mut(width) {
            for (gpus, free) in row.iter_mut().zip(&mut free) {
                *gpus = (*gpus).min(*free);
                *free -= *gpus;
            }
        }
    }

    /// What is made least: below zero, the power mean of speeds, and the speed for each GPU of the nodes in use.
    fn costs(&mut self, genes: &Genes) -> Costs {
        let width = self.nodes.len().max(1);
        let (mut lack, mut sum) = (0.0, 0.0);
        for (job, row) in genes.chunks(width).enumerate() {
            let shape = shape(&self.nodes, row);
            let speeds = &self.speeds[job];
            let known = &mut self.known[job];
            let speed = shape.map_or(0.0, |shape| *known.entry(shape).or_insert_with(|| speeds.plain(shape).unwrap_or(0.0)));
            let changed = row != &self.now[job * width..][..width];
            lack += 1.0 / (speed * if changed { speeds.factor() } else { 1.0 } * self.scale + SPEED_LEAST);
            sum += speed;
        }
        let in_use = |node: &usize| (0..self.jobs.len()).any(|job| genes[job * width + node] > 0);
        let gpus: u32 = (0..self.nodes.len()).filter(in_use).map(|node| self.nodes[node].2).sum();
        [-(self.jobs.len() as f64) / lack, -sum / f64::from(gpus.max(1))]
    }

    fn stands(&self, genes: &Genes) -> Vec<Option<Stand>> {
        let mut stands = alloc::vec![None; self.jobs.len()];
        for (row, place) in self.rows(genes).zip(&self.places) {
            let used = || self.nodes.iter().zip(row).filter(|(_, gpus)| **gpus > 0);
            let pool = used().next().map(|(node, _)| node.0);
            stands[*place] = pool.map(|pool| Stand { pool, places: used().map(|(node, gpus)| (node.1, *gpus)).collect() });
        }
        stands
    }
}

/// A number below another one, which is small.
fn below(random: &mut ChaCha8Rng, end: usize) -> usize {
    // Lemire's multiplication; its bias is below 2^-16 for what is bred here.
    ((u64::from(random.next_u32()) * end.max(1) as u64) >> 32) as usize
}

fn shape(nodes: &[(u8, u32, u32)], row: &[u32]) -> Option<Shape> {
    let used = || nodes.iter().zip(row).filter(|(_, gpus)| **gpus > 0);
    let pool = used().next()?.0.0;
    Some(Shape { pool, nodes: used().count() as u32, gpus: row.iter().sum() })
}

/// Leaves a job the GPUs of the type of which it has most.
fn one_type(row: &mut [u32], nodes: &[(u8, u32, u32)], job: &ElasticJob) {
    let types = nodes.last().map_or(0, |node| node.0);
    let on = |row: &[u32], pool: u8| nodes.iter().zip(row).filter(|(node, _)| node.0 == pool).map(|(_, gpus)| *gpus).sum::<u32>();
    let most = (0..=types).filter(|pool| job.takes(*pool)).max_by_key(|pool| on(row, *pool));
    row.iter_mut().zip(nodes).filter(|(_, node)| Some(node.0) != most).for_each(|(gpus, _)| *gpus = 0);
}

/// Cuts what a job has to what it may have, at nodes that are drawn.
fn limit(row: &mut [u32], gpus_max: u32, nodes: &[(u8, u32, u32)], nodes_max: &[u32], random: &mut ChaCha8Rng) {
    let used: Vec<usize> = (0..row.len()).filter(|node| row[*node] > 0).collect();
    let most = used.first().and_then(|node| nodes_max.get(usize::from(nodes[*node].0))).copied().unwrap_or(NODES_MAX) as usize;
    if row.iter().sum::<u32>() <= gpus_max && used.len() <= most {
        return;
    }
    let (mut left, mut used, mut nodes) = (gpus_max, used, 0);
    while !used.is_empty() {
        let node = used.swap_remove(below(random, used.len()));
        row[node] = if nodes < most { row[node].min(left) } else { 0 };
        left -= row[node];
        nodes += 1;
    }
}
