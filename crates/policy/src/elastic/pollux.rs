//! Pollux (Qiao et al., OSDI 2021): counts of GPUs by goodput, blind to their types.
//!
//! What is best is the power mean over jobs of how much faster each learns than with a fair share of the GPUs; what changes counts less by the
//! restart factor. No node has parts of two jobs that span nodes, and a job may have twice the GPUs that it was ever measured with.
//!
//! As published a population of placements is bred ([`Search::Published`], `population.rs`). With p = -1 the mean is a sum over jobs, so that
//! counts can be chosen exactly by the integer program of Sia, and nodes for them as Sia does: [`Search::Exact`], which is ours and nobody's paper.
//!
//! On several types, which the paper does not have, a job stands on GPUs of one type, and believes that all are like those that it measured.

use alloc::vec::Vec;

use super::{
    job::{ElasticJob, Pool, Shape, Stand},
    place, population,
    speeds::{Fair, Speeds, WAITING},
};
use crate::knapsack::{Choice, Item, Problem, solve};

/// Sums that are listed before the best known answer is taken.
const SUMS_MAX: u64 = 2_000_000;

/// How Pollux looks for counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// Ours, by an integer program; the default. Jobs that span nodes never share one.
    Exact,
    /// By breeding placements, as published.
    Published {
        /// Of the draws.
        seed: u64,
        /// Whether jobs that span nodes share none: the rule of the paper, which its authors switched off to show what it is worth.
        avoids: bool,
    },
}

/// The knobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolluxOptions {
    /// How counts are looked for.
    pub search: Search,
}

#[derive(Clone, Debug)]
pub(super) struct Pollux {
    options: PolluxOptions,
    rounds: u64,
    kept: population::Kept,
}

impl Pollux {
    pub(super) fn new(options: PolluxOptions) -> Self {
        Self { options, rounds: 0, kept: population::Kept::default() }
    }

    pub(super) fn decide(&mut self, pools: &[Pool], jobs: &[ElasticJob]) -> Vec<Option<Stand>> {
        self.rounds += 1;
        match self.options.search {
            Search::Published { seed, avoids } if population::holds(pools, jobs) => {
                population::breed(pools, jobs, avoids, seed.wrapping_add(self.rounds), &mut self.kept)
            }
            // What is too large to be bred is chosen exactly.
            Search::Exact | Search::Published { .. } => exact(pools, jobs),
        }
    }
}

fn exact(pools: &[Pool], jobs: &[ElasticJob]) -> Vec<Option<Stand>> {
    let mut ways: Vec<Vec<Shape>> = Vec::with_capacity(jobs.len());
    let mut items = Vec::with_capacity(jobs.len());
    for job in jobs {
        let pinned = job.shape.filter(|_| job.pinned);
        let speeds = Speeds::new(pools, job, jobs.len(), Fair::Possible);
        let row: Vec<(Shape, f64)> = match pinned {
            Some(shape) => alloc::vec![(shape, 1.0)],
            None => all(pools, job).filter_map(|shape| Some((shape, speeds.of(shape)?))).collect(),
        };
        let choice = |(shape, speed): &(Shape, f64)| Choice { kind: shape.pool, units: shape.gpus, cost: 1.0 / speed };
        items.push(Item { choices: row.iter().map(choice).collect(), nothing: pinned.is_none().then_some(WAITING) });
        ways.push(row.into_iter().map(|(shape, _)| shape).collect());
    }
    let problem = Problem { capacities: pools.iter().map(Pool::gpus).collect(), items };
    let Ok(solution) = solve(&problem, SUMS_MAX) else { return jobs.iter().map(|job| job.stand.clone()).collect() };
    let chosen: Vec<Option<Shape>> = ways.iter().zip(&solution.chosen).map(|(ways, at)| ways.get((*at)? as usize).copied()).collect();
    place::place(pools, jobs, &chosen)
}

/// Any number of GPUs of one type, on the fewest nodes.
fn all<'a>(pools: &'a [Pool], job: &'a ElasticJob) -> impl Iterator<Item = Shape> + 'a {
    let takes = pools.iter().zip(0_u8..).filter(|(_, at)| job.takes(*at));
    takes.flat_map(|(pool, at)| {
        let most = pool.gpus().min(job.gpus_max.max(1)).min(pool.nodes_max.saturating_mul(pool.gpus_per_node));
        (1..=most).map(move |gpus| Shape { pool: at, nodes: pool.nodes_for(gpus), gpus })
    })
}
