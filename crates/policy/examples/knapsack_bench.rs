//! Times Sia's integer program on generated rounds.
//!
//! ```text
//! cargo run --release -p antiphase-policy --example knapsack_bench -- [SEEDS]
//! ```
//! Prints the median and the largest time of the seeds, and how many answers are proven.

use std::time::Instant;

use antiphase_policy::knapsack::{Choice, Item, Problem, SUMS_MAX, solve};
use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};

/// GPUs of a host of each type, and GPUs of the type where there are 64 in all.
const TYPES: [(u32, u32); 3] = [(4, 24), (8, 16), (8, 24)];
/// Most GPUs of a job.
const GPUS_MAX: u32 = 64;
/// What a job without GPUs costs, as in the paper.
const NOTHING: f64 = 1.1;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seeds: u64 = std::env::args().nth(1).map_or(Ok(9), |s| s.parse())?;
    for (scale, jobs) in [(1, 10), (1, 64), (4, 128), (16, 512), (32, 1_024), (32, 2_048), (157, 5_000)] {
        let mut times_ms: Vec<f64> = Vec::new();
        let mut proven = 0;
        for seed in 0..seeds {
            let problem = round(scale, jobs, seed);
            let start = Instant::now();
            let solution = solve(&problem, SUMS_MAX)?;
            times_ms.push(start.elapsed().as_secs_f64() * 1e3);
            proven += u32::from(solution.proven);
        }
        times_ms.sort_by(f64::total_cmp);
        let (median, largest) = (times_ms[times_ms.len() / 2], times_ms[times_ms.len() - 1]);
        println!("{:>6} GPUs, {jobs:>5} jobs: {median:8.2} ms median, {largest:8.2} ms at most, {proven} of {seeds} proven", scale * 64);
    }
    Ok(())
}

/// A round of jobs that run faster on some types and scale less and less, with the paper's powers and rounding.
fn round(scale: u32, jobs: usize, seed: u64) -> Problem {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut share = || f64::from(rng.next_u32()) / f64::from(u32::MAX);
    let capacities: Vec<u32> = TYPES.iter().map(|(_, gpus)| gpus * scale).collect();
    // (type, hosts, GPUs): powers of two on a host, then whole hosts.
    let mut configurations: Vec<(u8, u32, u32)> = Vec::new();
    for ((of_host, _), (kind, capacity)) in TYPES.iter().zip((0..).zip(&capacities)) {
        configurations.extend((0..).map(|power| 1 << power).take_while(|gpus| gpus <= of_host).map(|gpus| (kind, 1, gpus)));
        let most = GPUS_MAX.min(*capacity) / of_host;
        configurations.extend((2..=most).map(|hosts| (kind, hosts, hosts * of_host)));
    }
    let item = |_| {
        let speeds = [0; TYPES.len()].map(|_| 1.0 + 4.0 * share());
        let (within, between) = (0.08 * share(), 0.2 * share());
        let most = 1 << (7.0 * share()) as u32;
        let (now, restart) = ((share() * configurations.len() as f64) as usize, 0.3 + 0.7 * share());
        let goodput = |&(kind, hosts, gpus): &(u8, u32, u32)| {
            let scaled = f64::from(gpus) / (1.0 + within * f64::from(gpus - 1) + between * f64::from(hosts - 1));
            (gpus <= most).then(|| speeds[usize::from(kind)] * scaled)
        };
        let all: Vec<Option<f64>> = configurations.iter().map(goodput).collect();
        let least = all.iter().flatten().copied().fold(f64::INFINITY, f64::min);
        let mut choices = Vec::with_capacity(configurations.len());
        for (at, (goodput, &(kind, _, units))) in all.iter().zip(&configurations).enumerate() {
            let Some(goodput) = goodput else { continue };
            let kept = goodput / least * if at == now { 1.0 } else { restart };
            choices.push(Choice { kind, units, cost: (100.0 / kept.sqrt()).round() / 100.0 });
        }
        Item { choices, nothing: Some(NOTHING) }
    };
    Problem { capacities, items: (0..jobs).map(item).collect() }
}
