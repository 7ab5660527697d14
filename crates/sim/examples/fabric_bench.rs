//! Plays a month of generated jobs on 847 hosts of 8 GPUs, the size of the Lingjun cluster, and prints what it cost.
//!
//! ```text
//! cargo run --release -p antiphase-sim --example fabric_bench -- [--jobs 2000] [--factor 10] [--ranker antiphase] [--control turns] [--policy themis] [--seed 1] [--uplink 400] [--moves yes]
//! ```
//!
//! The jobs have the shape of Muri's trace 2: its shares of sizes, its quantiles of run times, its eight models; they arrive evenly
//! over 30 days. `--factor` is how many times as many GPUs each job has,
//! and `--uplink` what the hosts of a leaf share to leave it, in Gbit/s: 7 NICs of 200 share 400.

use std::{collections::BTreeMap, time::Instant};

use antiphase_sim::trace::{NetworkControl, NetworkSetup, Ranker, Setup, Trace, TraceJob, run};
use fabric::{
    Fabric,
    generate::{Clos2, clos2},
    route::{Ecmp, Router},
};
use policy::{
    muri::{MODELS, Timing},
    schedule::{Cluster, GandivaOptions, MuriOptions, Rule},
};
use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use units::Rate;

type Failure = Box<dyn std::error::Error>;

/// Leaves, and hosts of each: 847 hosts.
const LEAVES: u32 = 121;
const HOSTS_PER_LEAF: u32 = 7;
const GPUS_PER_HOST: u32 = 8;
/// Rate of a NIC, of which each host has one, in Gbit/s.
const NIC_GBPS: u64 = 200;

/// Jobs of trace 2 by the base-2 logarithm of their GPUs, of 5,755.
const SIZES: [u32; 6] = [2_335, 171, 937, 1_825, 424, 63];
/// Run times of trace 2 in seconds: every twentieth part of its jobs.
const RUNS_S: [f64; 21] = [
    1.0,
    27.0,
    40.0,
    82.0,
    295.0,
    618.0,
    1_014.0,
    1_897.0,
    3_599.0,
    5_410.0,
    8_653.0,
    14_645.0,
    21_699.0,
    32_594.0,
    47_797.0,
    67_500.0,
    102_154.0,
    167_215.0,
    237_995.0,
    398_915.0,
    4_257_415.0,
];
/// The month.
const SPAN_S: f64 = 30.0 * 86_400.0;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let asked: BTreeMap<&str, &str> = arguments.chunks_exact(2).map(|pair| (pair[0].as_str(), pair[1].as_str())).collect();
    let number = |name: &str, otherwise: u64| asked.get(name).map_or(Ok(otherwise), |value| value.parse());
    let word = |name: &str, otherwise: &'static str| asked.get(name).copied().unwrap_or(otherwise).to_owned();
    let (jobs, factor, seed) = (number("--jobs", 2_000)?, number("--factor", 10)?, number("--seed", 1)?);
    let (ranker, control) = (word("--ranker", "antiphase"), word("--control", "turns"));
    let fabric = lingjun_shape(number("--uplink", 400)?)?;
    let router = Router::new(&fabric, Ecmp::Spread, &[])?;
    let trace = trace(jobs, u32::try_from(factor)?, seed)?;
    let gpu_s: f64 = trace.jobs.iter().map(|job| f64::from(job.gpus) * job.declared_s).sum();
    let cluster = Cluster { hosts: LEAVES * HOSTS_PER_LEAF, gpus_per_host: GPUS_PER_HOST };
    println!("{} jobs over 30 days on {} GPUs, load {:.2}", trace.jobs.len(), cluster.gpus(), gpu_s / SPAN_S / f64::from(cluster.gpus()));
    let network = Some(NetworkSetup {
        router: &router,
        ranker: ranker_of(&ranker)?,
        control: control_of(&control)?,
        moves: word("--moves", "no") == "yes",
        seed,
    });
    let begun = Instant::now();
    let outcome =
        run(&trace, &Setup { cluster, rule: rule_of(&word("--policy", "themis"))?, timing: Timing::Paper, network, faults: None })?;
    println!("{ranker}, {control}: {:.1} s, of a core {}, {}", begun.elapsed().as_secs_f64(), cores(), memory());
    println!("mean JCT {:.0} s, p99 {:.0} s, {} decisions", outcome.mean_s(), outcome.p99_s(), outcome.decisions);
    if let Some(network) = outcome.network {
        let (mean, p99) = (network.iteration_mean, network.iteration_p99);
        println!(
            "iterations {mean:.4} of alone, p99 {p99:.3}, {} components played, {} predicted, {} remembered, {} moved",
            network.played, network.predicted, network.remembered, network.moved
        );
        let (off, most) = network.predicted_off.unwrap_or_default();
        println!("what was played is off what was predicted by {off:.4}, at most {most:.3}");
    }
    Ok(())
}

fn lingjun_shape(uplink_gbps: u64) -> Result<Fabric, Failure> {
    let (host_rate, uplink_rate) = (Rate(NIC_GBPS * 1_000), Rate(uplink_gbps * 1_000));
    let shape = Clos2 { leaves: LEAVES, spines: 1, hosts_per_leaf: HOSTS_PER_LEAF, host_rate, uplink_rate, uplinks: 1 };
    Ok(clos2(&shape)?)
}

/// Jobs of the shape of trace 2.
fn trace(jobs: u64, factor: u32, seed: u64) -> Result<Trace, Failure> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut unit = move || f64::from(rng.next_u32()) / 2_f64.powi(32);
    let mut trace = Trace::default();
    let mut known: BTreeMap<(usize, usize), u16> = BTreeMap::new();
    let mut at: Vec<f64> = (0..jobs).map(|_| unit() * SPAN_S).collect();
    at.sort_by(f64::total_cmp);
    for (submitted_s, number) in at.into_iter().zip(1_u64..) {
        let mut part = unit() * f64::from(SIZES.iter().sum::<u32>());
        let past = |size: &&u32| {
            part -= f64::from(**size);
            part >= 0.0
        };
        let size = SIZES.iter().take_while(past).count().min(SIZES.len() - 1);
        let model = (unit() * MODELS.len() as f64) as usize;
        let profile = MODELS[model].profile(1 << size).ok_or("a size that nobody measured")?;
        let entry = *known.entry((model, size)).or_insert_with(|| {
            trace.profiles.push(profile);
            (trace.profiles.len() - 1) as u16
        });
        let place = unit() * (RUNS_S.len() - 1) as f64;
        let (below, above) = (RUNS_S[place as usize], RUNS_S[place as usize + 1]);
        // Run times span six orders, so they are drawn evenly by their logarithm.
        let declared_s = below * (above / below).powf(place.fract());
        trace.jobs.push(TraceJob {
            id: number.to_string(),
            line: number,
            gpus: (1 << size) * factor,
            gpus_max: (1 << size) * factor,
            submitted_s,
            declared_s,
            iterations: (declared_s / profile.iteration_s).ceil(),
            iteration_ms: profile.iteration_s * 1e3,
            profile: entry,
            opportunistic: false,
            weight: 1,
            traffic: None,
            up_ms: None,
            model: None,
        });
    }
    Ok(trace)
}

fn ranker_of(name: &str) -> Result<Ranker, Failure> {
    Ok(match name {
        "none" => Ranker::None,
        "random" => Ranker::Random,
        "cassini" => Ranker::Cassini,
        "antiphase" => Ranker::Antiphase,
        _ => return Err(format!("ranker {name}?").into()),
    })
}

fn control_of(name: &str) -> Result<NetworkControl, Failure> {
    Ok(match name {
        "ideal" => NetworkControl::Ideal,
        "free" => NetworkControl::Free,
        "paper" => NetworkControl::Paper,
        "slots" => NetworkControl::Slots,
        "turns" => NetworkControl::Turns,
        _ => return Err(format!("control {name}?").into()),
    })
}

fn rule_of(name: &str) -> Result<Rule, Failure> {
    Ok(match name {
        "fifo" => Rule::Fifo,
        "srsf" => Rule::Srsf,
        "tiresias" => Rule::TIRESIAS,
        "themis" => Rule::Themis,
        "gandiva" => Rule::Gandiva(GandivaOptions::default()),
        "muri-s" => Rule::Muri(MuriOptions::default()),
        _ => return Err(format!("policy {name}?").into()),
    })
}

/// How much of one core this program had, as Linux says it.
fn cores() -> String {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name may hold spaces; user and system time are the 12th and 13th field after it, in hundredths of a second.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks: Vec<f64> = fields.iter().skip(11).take(2).filter_map(|field| field.parse().ok()).collect();
    if ticks.len() == 2 { format!("{:.1} s", ticks.iter().sum::<f64>() / 100.0) } else { "unknown".to_owned() }
}

/// The most memory that this program had, as Linux says it.
fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse::<f64>().ok());
    peak.map_or_else(|| "memory unknown".to_owned(), |kib| format!("{:.2} GiB at most", kib / 1024.0 / 1024.0))
}
