//! Times the ranking of candidate placements on generated clusters.
//!
//! ```text
//! cargo run --release -p antiphase-policy --example plan_bench -- [SEED [INSTANCE [RANKING]]]
//! ```
//! Prints wall time, CPU time of all threads (Linux), and the peak of resident memory so far. Set
//! `RAYON_NUM_THREADS` to choose the number of threads.

use std::{sync::Arc, time::Instant};

use antiphase_policy::{pack, variants};
use circle::Phase;
use fabric::{
    Fabric,
    generate::{Clos2, Clos3, clos2, clos3},
    route::{Ecmp, Router},
};
use fluid::{FluidJob, FluidLink, TOLERANCE_PERMILLE, predict};
use job::{Candidate, Collective, Job, TrafficPhase};
use plan::{Cluster, Control, Objective, Options, Predictions, rank};
use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use units::{Nanos, Rate, Ticks};

const MS: u64 = 1_000_000;
/// Iteration times in ms of the kind published for DP and hybrid jobs on 50 Gb/s.
const PERIODS_MS: [u64; 12] = [100, 120, 150, 180, 200, 240, 255, 300, 320, 400, 480, 600];

struct Instance {
    name: &'static str,
    fabric: Fabric,
    jobs: usize,
    candidates: usize,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seed = std::env::args().nth(1).map_or(Ok(1), |s| s.parse())?;
    let rate = |gbps: u64| Rate(gbps * 1_000);
    let clos2_of = |leaves, hosts_per_leaf, spines| {
        clos2(&Clos2 { leaves, spines, hosts_per_leaf, host_rate: rate(50), uplink_rate: rate(50), uplinks: 1 })
    };
    let large = Clos3 {
        pods: 10,
        leaves_per_pod: 32,
        spines_per_pod: 8,
        cores_per_spine: 8,
        hosts_per_leaf: 32,
        host_rate: rate(50),
        uplink_rate: rate(100),
        core_rate: rate(200),
    };
    let instances = [
        Instance { name: "1,024 hosts, 2 tiers 2:1", fabric: clos2_of(32, 32, 16)?, jobs: 200, candidates: 10 },
        Instance { name: "1,024 hosts, 2 tiers 4:1", fabric: clos2_of(32, 32, 8)?, jobs: 200, candidates: 10 },
        Instance { name: "10,016 hosts, 2 tiers 2:1", fabric: clos2_of(313, 32, 16)?, jobs: 1_000, candidates: 100 },
        Instance { name: "10,240 hosts, 3 tiers", fabric: clos3(&large)?, jobs: 1_000, candidates: 100 },
        // Every job that crosses leaves meets its neighbours there: long chains of jobs with loops in them.
        Instance { name: "1,024 hosts, 2 tiers 16:1", fabric: clos2_of(64, 16, 1)?, jobs: 200, candidates: 10 },
    ];
    println!("{} threads", rayon::current_num_threads());
    fluid(&[100]);
    fluid(&PERIODS_MS);
    // Only the instances whose name contains this.
    let wanted = std::env::args().nth(2).unwrap_or_default();
    for instance in instances.iter().filter(|i| i.name.contains(&wanted)) {
        for (ecmp, label) in [(Ecmp::Spread, "spread"), (Ecmp::Hashed { seed }, "hashed")] {
            let start = Instant::now();
            let router = Router::new(&instance.fabric, ecmp, &[])?;
            println!(
                "{}, {label}: {} links, router {:.1} ms",
                instance.name,
                instance.fabric.links().len(),
                start.elapsed().as_secs_f64() * 1e3
            );
            bench(instance, &router, seed)?;
        }
    }
    Ok(())
}

/// Times one component of ten jobs on nine links, each job between two neighbours.
fn fluid(periods_ms: &[u64]) {
    let period = |j: usize| periods_ms[j % periods_ms.len()] * MS;
    let up = |j: usize| [Phase { start: Ticks(period(j) / 2), end: Ticks(period(j) * 9 / 10), rate: Rate(40_000) }];
    let phases: Vec<[Phase; 1]> = (0..10).map(up).collect();
    let link = |l: usize| FluidLink { capacity: Rate(50_000), demands: vec![(l, &phases[l][..]), (l + 1, &phases[l + 1][..])] };
    let links: Vec<FluidLink<'_>> = (0..9).map(link).collect();
    let job = |j: usize| FluidJob { iteration: Nanos(period(j)), period: Nanos(period(j)), shift: Nanos(j as u64 * 7 * MS) };
    let jobs: Vec<FluidJob> = (0..10).map(job).collect();
    let start = cpu_ms();
    for _ in 0..100 {
        std::hint::black_box(predict(std::hint::black_box(&jobs), &links, TOLERANCE_PERMILLE));
    }
    println!("fluid model, 10 jobs, {} distinct periods: {:.0} us CPU", periods_ms.len(), (cpu_ms() - start) * 10.0);
}

fn bench(instance: &Instance, router: &Router<'_>, seed: u64) -> Result<(), Box<dyn std::error::Error>> {
    let hosts = instance.fabric.hosts().count();
    let (jobs, sizes) = jobs(instance.jobs, hosts, seed);
    let placements = pack(&instance.fabric, &sizes, seed, 350)?;
    let candidates = variants(&instance.fabric, &placements, instance.candidates, 30, seed)?;
    let cluster = Cluster { fabric: &instance.fabric, router, jobs: &jobs, placements: &placements };
    let ways = [
        (Objective::Score, Predictions::Needed, Control::Slots),
        (Objective::Time, Predictions::Control, Control::Slots),
        (Objective::Time, Predictions::Control, Control::Turns),
        (Objective::Time, Predictions::Compared, Control::Turns),
    ];
    // Only the rankings that are told with this: "by Turns", say.
    let wanted = std::env::args().nth(3).unwrap_or_default();
    for (objective, predict, control) in ways {
        if !format!("{objective:?}, predictions {predict:?} by {control:?}").contains(&wanted) {
            continue;
        }
        run(&cluster, &candidates, &Options { objective, predict, control, ..Options::default() })?;
    }
    Ok(())
}

fn run(cluster: &Cluster<'_>, candidates: &[Candidate], options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    let (wall, cpu) = (Instant::now(), cpu_ms());
    let ranked = rank(cluster, candidates, options)?;
    let (wall, cpu) = (wall.elapsed().as_secs_f64() * 1e3, cpu_ms() - cpu);
    let best = &ranked[0];
    let scores = best.scores.ok_or("the best candidate was not solved")?;
    let classes = best.links().count();
    println!(
        "  {} candidates by {:?}, predictions {:?} by {:?}: {wall:.1} ms wall, {cpu:.1} ms CPU, {} MiB peak; best {} score {:.4} (zero shift {:.4}, proven {}, gap {:.4}), {} shared links, {} quiet, {classes} classes, {:?}",
        candidates.len(),
        options.objective,
        options.predict,
        options.control,
        peak_mib(),
        best.id,
        scores.score,
        scores.zero_shift_score,
        scores.proven,
        scores.bound_gap,
        best.shared_links,
        best.never_overloaded_links,
        best.times,
    );
    Ok(())
}

/// Ring jobs that fill nine tenths of the hosts, with one to three Up phases.
fn jobs(count: usize, hosts: usize, seed: u64) -> (Vec<Job>, Vec<u32>) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut below = |n: u64| rng.next_u64() % n;
    let mean = (hosts as u64 * 9 / 10).div_ceil(count as u64);
    let mut jobs = Vec::with_capacity(count);
    let mut sizes = Vec::with_capacity(count);
    for j in 0..count {
        let ranks = 1 + below(2 * mean - 1);
        let period = PERIODS_MS[below(PERIODS_MS.len() as u64) as usize] * MS;
        let groups: Arc<[Vec<u32>]> = Arc::from([(0..ranks as u32).collect::<Vec<u32>>()]);
        let bursts = 1 + below(3);
        let span = period / bursts;
        let up = span * (20 + below(30)) / 100 / MS * MS;
        let phase = |b: u64| TrafficPhase {
            start: Nanos((b + 1) * span - up),
            end: Nanos((b + 1) * span),
            rate: Rate(30_000 + 1_000 * (j as u64 % 20)),
            collective: Collective::Ring,
            groups: groups.clone(),
        };
        jobs.push(Job {
            name: format!("job-{j}"),
            gpus: ranks as u32,
            period: Nanos(period),
            hold: job::Hold::Auto,
            phases: (0..bursts).map(phase).collect(),
        });
        sizes.push(ranks as u32);
    }
    // Random sizes may add up to more than there is.
    let mut total: u64 = sizes.iter().map(|s| u64::from(*s)).sum();
    let mut j = 0;
    while total > hosts as u64 * 95 / 100 {
        if sizes[j] > 1 {
            sizes[j] -= 1;
            total -= 1;
            let groups: Arc<[Vec<u32>]> = Arc::from([(0..sizes[j]).collect::<Vec<u32>>()]);
            jobs[j].phases.iter_mut().for_each(|p| p.groups = groups.clone());
        }
        j = (j + 1) % count;
    }
    (jobs, sizes)
}

/// CPU time of all threads of this process.
fn cpu_ms() -> f64 {
    let ns =
        |path: std::path::PathBuf| -> Option<f64> { std::fs::read_to_string(path.join("schedstat")).ok()?.split(' ').next()?.parse().ok() };
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    threads.filter_map(|t| ns(t.path())).sum::<f64>() / 1e6
}

fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok()).map_or(0, |kib| kib / 1024)
}
