//! Prints what matchings and decisions cost, in milliseconds of a clock on the wall: compare lines of one run with each other.
//!
//! ```sh
//! cargo run --release -p antiphase-policy --example schedule_bench
//! ```

use std::{hint::black_box, time::Instant};

use antiphase_policy::{
    matching::{Weights, max_weight_matching, max_weight_matching_of_kinds, quantise},
    muri::{MODELS, Order, Profile, Stages, Timing, efficiency},
    schedule::{Cluster, Decision, GandivaOptions, Job, MuriOptions, Rule, Scheduler, Settings},
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
    of_kinds();
    println!("\none decision of N jobs that all came at once, 64 GPUs; median of three, ms");
    println!("{:>6} {:>8} {:>10} {:>10}", "N", "sizes", "artifact", "paper");
    for n in [100, 500, 1_000] {
        for (name, sizes) in [("small", [80, 10, 8, 2]), ("mixed", [40, 10, 20, 30])] {
            let of = |timing| median(|| decision(n, sizes, timing));
            println!("{n:>6} {name:>8} {:>10.2} {:>10.2}", of(Timing::Artifact), of(Timing::Paper));
        }
    }
    large();
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

/// Matchings of nodes of Muri's eight models on one GPU, and of their 36 pairs.
fn of_kinds() {
    println!("\na matching of n nodes of few kinds; median of three, ms");
    println!("{:>6} {:>8} {:>10}", "n", "kinds", "ours");
    let models: Vec<Stages> = MODELS.iter().filter_map(|model| model.profile(1)).map(|profile| profile.stages).collect();
    let pairs: Vec<Vec<Stages>> =
        (0..models.len()).flat_map(|a| (a..models.len()).map(move |b| (a, b))).map(|(a, b)| vec![models[a], models[b]]).collect();
    let mut rng = ChaCha8Rng::seed_from_u64(SEED);
    for kinds in [models.iter().map(|model| vec![*model]).collect(), pairs] {
        let weight = |a: &Vec<Stages>, b: &Vec<Stages>| {
            let union = [a.as_slice(), b].concat();
            quantise(efficiency(&union, Timing::Paper.interleave(&union, Order::Best).period_s))
        };
        let table: Vec<f64> = kinds.iter().flat_map(|a| kinds.iter().map(move |b| weight(a, b))).collect();
        for n in [1_024, 10_240] {
            let kind_of: Vec<usize> = (0..n).map(|_| rng.next_u32() as usize % kinds.len()).collect();
            let ours = median(|| black_box(max_weight_matching_of_kinds(&kind_of, &table, kinds.len())).map_or(0, |mates| mates.len()));
            println!("{n:>6} {:>8} {ours:>10.2}", kinds.len());
        }
    }
}

/// How many run after the first decision over `n` jobs of Muri on 64 GPUs; `sizes` are parts of a hundred with 1, 2, 4 and 8 GPUs.
fn decision(n: usize, sizes: [u32; 4], timing: Timing) -> usize {
    let cluster = Cluster { hosts: 8, gpus_per_host: 8 };
    Round::new(n, &sizes, cluster, Rule::Muri(MuriOptions::default()), timing).decide(0.0)
}

/// A cluster to which all jobs came at once.
struct Round {
    jobs: Vec<Job>,
    scheduler: Scheduler,
    out: Decision,
}

impl Round {
    /// `sizes` are weights of 1, 2, 4, ... GPUs.
    fn new(n: usize, sizes: &[u32], cluster: Cluster, rule: Rule, timing: Timing) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(SEED);
        let (mut profiles, mut jobs) = (Vec::<Profile>::new(), Vec::new());
        let whole: u32 = sizes.iter().sum();
        for _ in 0..n {
            let mut part = rng.next_u32() % whole;
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
            jobs.push(Job {
                gpus,
                gpus_max: gpus,
                profile: known as u16,
                opportunistic: false,
                weight: 1,
                submitted_s: 0.0,
                declared_s: alone_s * left,
                alone_s,
                left,
                ran_s: 0.0,
                running: false,
                started: false,
            });
        }
        let settings = Settings { timing, profiles, explain: false };
        let mut scheduler = Scheduler::new(rule, cluster, settings);
        (0..n as u32).for_each(|job| scheduler.arrive(job));
        Self { jobs, scheduler, out: Decision::default() }
    }

    /// Decides, and says how many run.
    fn decide(&mut self, now_s: f64) -> usize {
        self.scheduler.decide(now_s, &self.jobs, &mut self.out);
        self.out.runs.len()
    }

    /// Time passes in which those ran who were to, one in a hundred ended, and as many came again.
    fn pass(&mut self, seconds: f64) {
        self.jobs.iter_mut().for_each(|job| job.running = false);
        for run in &self.out.runs {
            let job = &mut self.jobs[run.job as usize];
            (job.running, job.started, job.ran_s) = (true, true, job.ran_s + seconds);
            job.left = (job.left - seconds / run.iteration_s).max(1.0);
        }
        let ended: Vec<u32> = self.out.runs.iter().map(|run| run.job).step_by(100).collect();
        for job in ended {
            self.jobs[job as usize].running = false;
            self.scheduler.leave(job, &self.jobs);
            let again = &mut self.jobs[job as usize];
            (again.started, again.ran_s, again.submitted_s) = (false, 0.0, seconds);
            self.scheduler.arrive(job);
        }
    }
}

/// Time that this thread had on a core, in milliseconds; 0 where the kernel does not tell.
fn cpu_ms() -> f64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    told.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0) / 1e6
}

/// Rounds of every policy on a cluster of 100,000 GPUs to which 10,000 jobs came, many more than it holds.
fn large() {
    println!("\na round over 10,000 jobs, 12,500 hosts of 8 GPUs; ms of a core, of which Linux tells");
    println!("{:>12} {:>10} {:>10} {:>10} {:>8}", "policy", "jobs", "first", "next", "run");
    let muri = MuriOptions::default();
    let rules = [
        ("fifo", Rule::Fifo),
        ("srtf", Rule::Srtf),
        ("srsf", Rule::Srsf),
        ("tiresias", Rule::TIRESIAS),
        ("antman", Rule::AntMan),
        ("themis", Rule::Themis),
        ("gandiva", Rule::Gandiva(GandivaOptions::default())),
        ("muri-s", Rule::Muri(muri)),
        ("muri-l", Rule::Muri(MuriOptions { durations_known: false, ..muri })),
    ];
    for (jobs, sizes) in [("as trace 2", [2_335, 171, 937, 1_825, 424, 63]), ("large", [0, 0, 0, 40, 30, 30])] {
        for (name, rule) in rules {
            let mut round = Round::new(10_000, &sizes, Cluster { hosts: 12_500, gpus_per_host: 8 }, rule, Timing::Paper);
            let begun = cpu_ms();
            round.decide(0.0);
            let first = cpu_ms() - begun;
            round.pass(1_200.0);
            let begun = cpu_ms();
            let run = round.decide(1_200.0);
            println!("{name:>12} {jobs:>10} {first:>10.1} {:>10.1} {run:>8}", cpu_ms() - begun);
        }
    }
}
