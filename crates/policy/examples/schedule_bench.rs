//! Prints what matchings and decisions cost, in milliseconds of a clock on the wall: compare lines of one run with each other.
//!
//! ```sh
//! cargo run --release -p antiphase-policy --example schedule_bench
//! ```

use std::{hint::black_box, time::Instant};

use antiphase_policy::{
    matching::{Weights, max_weight_matching, quantise},
    muri::{MODELS, Order, Profile, Stages, Timing, efficiency},
    schedule::{Cluster, Decision, Job, MuriOptions, Rule, Scheduler, Settings},
};
use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};

const SEED: u64 = 11;

/// Steps of a weight of 1, for the library, which takes integers.
const STEPS: f64 = 1e6;

fn main() {
    println!("a matching of n nodes, each pair with an edge; median of three, ms");
    println!("{:>6} {:>8} {:>10} {:>10}", "n", "weights", "ours", "library");
    for n in [128, 256, 512, 1_024] {
        for (name, weights) in [("random", random(n)), ("Muri", of_models(n))] {
            let ours = median(|| black_box(max_weight_matching(&weights)).len());
            let flat: Vec<i64> = (0..n * n).map(|at| (weights.weight(at / n, at % n) * STEPS).round() as i64).collect();
            let library = median(|| black_box(integer_blossom::max_weight_matching(&flat, n)).len());
            println!("{n:>6} {name:>8} {ours:>10.2} {library:>10.2}");
        }
    }
    println!("\none decision of N jobs that all came at once, 64 GPUs; median of three, ms");
    println!("{:>6} {:>8} {:>10} {:>10}", "N", "sizes", "artifact", "paper");
    for n in [100, 500, 1_000] {
        for (name, sizes) in [("small", [80, 10, 8, 2]), ("mixed", [40, 10, 20, 30])] {
            let of = |timing| median(|| decision(n, sizes, timing));
            println!("{n:>6} {name:>8} {:>10.2} {:>10.2}", of(Timing::Artifact), of(Timing::Paper));
        }
    }
}

/// The median of three runs, in milliseconds.
fn median(mut run: impl FnMut() -> usize) -> f64 {
    let mut times: Vec<f64> = (0..3)
        .map(|_| {
            let begun = Instant::now();
            black_box(run());
            begun.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[1]
}

fn symmetric(n: usize, mut weight: impl FnMut(usize, usize) -> f64) -> Weights {
    let mut weights = Weights::new(n);
    for u in 0..n {
        for v in u + 1..n {
            let weight = weight(u, v);
            weights.row_mut(u)[v] = weight;
            weights.row_mut(v)[u] = weight;
        }
    }
    weights
}

fn random(n: usize) -> Weights {
    let mut rng = ChaCha8Rng::seed_from_u64(SEED);
    symmetric(n, |_, _| f64::from(rng.next_u32() % 1_000_000 + 1) / STEPS)
}

/// Efficiencies of pairs of the measured models on one GPU: few different weights, so many matchings weigh the same.
fn of_models(n: usize) -> Weights {
    let mut rng = ChaCha8Rng::seed_from_u64(SEED);
    let models: Vec<Stages> = (0..n).filter_map(|_| MODELS[rng.next_u32() as usize % MODELS.len()].profile(1)).map(|p| p.stages).collect();
    symmetric(n, |u, v| {
        let pair = [models[u], models[v]];
        let iteration = Timing::Artifact.interleave(&pair, Order::Best).period_s * Timing::Artifact.sharing(2);
        quantise(efficiency(&pair, iteration))
    })
}

/// How many run after the first decision over `n` jobs; `sizes` are parts of a hundred with 1, 2, 4 and 8 GPUs.
fn decision(n: usize, sizes: [u32; 4], timing: Timing) -> usize {
    let mut rng = ChaCha8Rng::seed_from_u64(SEED);
    let (mut profiles, mut jobs) = (Vec::<Profile>::new(), Vec::new());
    for _ in 0..n {
        let mut part = rng.next_u32() % 100;
        let class = sizes
            .iter()
            .position(|size| {
                part < *size || {
                    part -= size;
                    false
                }
            })
            .unwrap_or(0);
        let gpus = 1 << class;
        let profile = MODELS[rng.next_u32() as usize % MODELS.len()].profile(gpus).expect("a size that was measured");
        let known = profiles.iter().position(|p| *p == profile).unwrap_or_else(|| {
            profiles.push(profile);
            profiles.len() - 1
        });
        let (alone_s, left) = (timing.alone_s(profile.iteration_s), f64::from(rng.next_u32() % 1_000_000 + 1));
        let (running, started, opportunistic) = (false, false, false);
        let declared_s = alone_s * left;
        jobs.push(Job {
            gpus,
            profile: known as u16,
            opportunistic,
            submitted_s: 0.0,
            declared_s,
            alone_s,
            left,
            ran_s: 0.0,
            running,
            started,
        });
    }
    let settings = Settings { timing, profiles, explain: false };
    let mut scheduler = Scheduler::new(Rule::Muri(MuriOptions::default()), Cluster { hosts: 8, gpus_per_host: 8 }, settings);
    (0..n as u32).for_each(|job| scheduler.arrive(job));
    let mut out = Decision::default();
    scheduler.decide(0.0, &jobs, &mut out);
    out.runs.len()
}
