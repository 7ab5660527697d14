//! `antiphase jobs synth`: a cluster's worth of jobs, packed and varied, from a seed.

use std::{collections::BinaryHeap, path::PathBuf, process::ExitCode};

use ::job::{CANDIDATES_SCHEMA, CandidateDoc, CandidatesDoc, JOBS_SCHEMA, JobDoc, JobsDoc, ModelDoc, data_nics};
use clap::{Args, Subcommand};
use fabric::{Fabric, FabricBuilder, FabricError, NodeKind};
use job::{Endpoint, Placement};
use policy::{pack, variants};
use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng as _, SeedableRng as _},
};
use units::LinkId;

use crate::{
    cluster::read_fabric,
    commands::live,
    input::CliError,
    output::{say, write_files, yaml},
};

/// Most jobs generated at once.
const JOBS_MAX: u32 = 100_000;
/// Most candidates generated at once.
const CANDIDATES_MAX: u32 = 10_000;
/// Sizes in hosts and how often each is drawn, in percent: mostly small jobs, most GPUs in large ones, as in
/// public traces of training clusters. The mean is 3.8 hosts.
const SIZES: [(u32, u32); 7] = [(1, 20), (2, 30), (3, 10), (4, 20), (6, 5), (8, 10), (16, 5)];
/// Most batch sizes per model: beyond this they leave the ranges that the paper prints.
const BATCHES_MAX: u32 = 8;
/// Models drawn from, all alike: those of the CASSINI paper whose iterations are below two seconds on 8 ranks.
const MODELS: [&str; 10] = ["vgg11", "vgg16", "vgg19", "wideresnet101", "resnet50", "bert", "roberta", "camembert", "xlm", "dlrm"];

/// Without a subcommand: what the service has committed.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct JobsArgs {
    #[command(subcommand)]
    command: Option<JobsCommand>,
    #[command(flatten)]
    list: live::JobsListArgs,
}

#[derive(Debug, Subcommand)]
enum JobsCommand {
    /// Draw jobs from the model zoo, pack them, and vary the placement
    Synth(SynthArgs),
}

const EXAMPLES: &str = "\
EXAMPLES
  40 jobs on a fabric, and 8 ways to place them:
    antiphase jobs synth --fabric fabric.yaml --count 40 --candidates 8 --jobs-out jobs.yaml --candidates-out candidates.yaml
  Then:
    antiphase plan --fabric fabric.yaml --jobs jobs.yaml --candidates candidates.yaml";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SynthArgs {
    /// Fabric document (antiphase.fabric/v1) on which to place; - for standard input
    #[arg(long, value_name = "FILE")]
    fabric: PathBuf,
    /// How many jobs; where there is no room, large ones shrink to 2 hosts and the rest is left out
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=i64::from(JOBS_MAX)))]
    count: u32,
    /// How many candidate placements
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=i64::from(CANDIDATES_MAX)))]
    candidates: u32,
    /// Share of the jobs that each candidate places anew, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=100))]
    moved: u32,
    /// Share of earlier jobs that have left, so that free hosts are scattered, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 35, value_parser = clap::value_parser!(u32).range(0..=100))]
    departures: u32,
    /// Ranks on each host; by default one per NIC, slower ones (management ports) not counted
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    gpus_per_host: Option<u32>,
    /// Models to draw from, all alike; `antiphase profile zoo` lists them [default: ten of the CASSINI paper]
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = known_model)]
    models: Vec<&'static str>,
    /// Batch sizes per model, each an eighth of the reference above the last: jobs of one model and batch have one period
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(BATCHES_MAX)))]
    batches: u32,
    /// The same seed gives the same bytes
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Where the jobs document goes
    #[arg(long, value_name = "FILE")]
    jobs_out: PathBuf,
    /// Where the candidates document goes
    #[arg(long, value_name = "FILE")]
    candidates_out: PathBuf,
}

pub(crate) fn run(args: &JobsArgs) -> Result<ExitCode, CliError> {
    match &args.command {
        None => live::list_jobs(&args.list),
        Some(JobsCommand::Synth(args)) => synth(args),
    }
}

fn synth(args: &SynthArgs) -> Result<ExitCode, CliError> {
    if args.jobs_out == args.candidates_out {
        return Err(CliError::Usage(format!("--jobs-out and --candidates-out are both {}", args.jobs_out.display())));
    }
    let fabric = read_fabric(&args.fabric)?;
    let mut rng = ChaCha8Rng::seed_from_u64(args.seed);
    let models = if args.models.is_empty() { &MODELS[..] } else { &args.models };
    let mut drawn: Vec<Drawn> = (0..args.count).map(|_| draw(&mut rng, models, args.batches)).collect();
    // Where there is no room, the largest jobs shrink, and what then finds none is left out.
    let hosts = fabric.hosts().count() as u32;
    let wanted: u32 = drawn.iter().map(|d| d.hosts).sum();
    // Only a cluster that is too small changes the jobs, so a seed gives the same jobs on every fabric with room for them.
    if wanted > hosts {
        fit(&mut drawn, hosts);
        if drawn.is_empty() {
            return Err(CliError::input(&args.fabric, format!("hosts: {hosts}; no job that was drawn fits")));
        }
        let left_out = args.count as usize - drawn.len();
        say(&format!("{wanted} hosts wanted, {hosts} there: the largest jobs halved, {left_out} jobs left out"));
    }
    let refuse = |e: policy::PackError| CliError::Usage(format!("--count {} --departures {}: {e}", args.count, args.departures));
    let sizes: Vec<u32> = drawn.iter().map(|d| d.hosts).collect();
    // Jobs take whole hosts, so a host is one slot, and all of its NICs belong to its job.
    // Both fabrics number their nodes alike, so a placement on `slots` names hosts of `fabric`.
    let slots = one_nic_each(&fabric).map_err(|e| CliError::input(&args.fabric, e))?;
    let nics = || fabric.hosts().map(|h| data_nics(&fabric, h).len()).min().and_then(|n| u32::try_from(n).ok());
    let gpus_per_host = args.gpus_per_host.or_else(nics).unwrap_or(1).max(1);
    let placements = pack(&slots, &sizes, args.seed, args.departures * 10).map_err(refuse)?;
    // Percent become the thousandths that `policy` counts in.
    let candidates = variants(&slots, &placements, args.candidates as usize, args.moved * 10, args.seed).map_err(refuse)?;
    let ids: Vec<String> = drawn.iter().enumerate().map(|(i, d)| format!("{}-{i}", d.model)).collect();
    let jobs = ids.iter().zip(&drawn).zip(&placements).map(|((id, d), placement)| JobDoc {
        id: id.clone(),
        model: Some(ModelDoc {
            name: d.model.into(),
            ranks: Some(d.hosts.saturating_mul(gpus_per_host)),
            gpus_per_host: Some(gpus_per_host),
            batch: d.batch,
            ..ModelDoc::default()
        }),
        hosts: Some(names(&fabric, placement)),
        ..JobDoc::default()
    });
    let jobs = JobsDoc { schema: JOBS_SCHEMA.into(), jobs: jobs.collect() };
    let candidates = candidates.iter().map(|c| CandidateDoc {
        id: c.id.clone(),
        hosts: c.placements.iter().map(|(job, p)| (ids[job.index()].clone(), names(&fabric, p))).collect(),
    });
    let candidates = CandidatesDoc { schema: CANDIDATES_SCHEMA.into(), candidates: candidates.collect() };
    write_files(&[(&args.jobs_out, &yaml(&jobs)?), (&args.candidates_out, &yaml(&candidates)?)])?;
    Ok(ExitCode::SUCCESS)
}

/// A job before it has a place.
struct Drawn {
    model: &'static str,
    hosts: u32,
    /// None is the model's reference.
    batch: Option<u64>,
}

/// A job of any of the models, sizes and batches.
fn draw(rng: &mut ChaCha8Rng, models: &[&'static str], batches: u32) -> Drawn {
    let model = models[below(rng, models.len())];
    // The order of the draws must stay as it is: a seed promises the same bytes.
    let hosts = size(rng);
    let eighths = below(rng, batches as usize) as u64;
    let reference = profile::find_model(model).filter(|_| eighths > 0).map(|m| m.reference.batch);
    Drawn { model, hosts, batch: reference.map(|batch| batch + (batch * eighths).div_ceil(8)) }
}

/// The name of a model as the zoo spells it.
fn known_model(name: &str) -> Result<&'static str, String> {
    profile::find_model(name).map(|m| m.name).ok_or_else(|| "no such model; antiphase profile zoo lists them".into())
}

/// Halves the largest job until all fit, and drops jobs when all are small: a cluster has room for so many.
fn fit(drawn: &mut Vec<Drawn>, hosts: u32) {
    let mut wanted: u32 = drawn.iter().map(|d| d.hosts).sum();
    let mut largest: BinaryHeap<(u32, usize)> = drawn.iter().enumerate().map(|(i, d)| (d.hosts, i)).collect();
    // Each round makes the largest job smaller, so the loop ends when all fit or no job has more than two hosts.
    while wanted > hosts {
        match largest.pop() {
            Some((size, i)) if size > 2 => {
                drawn[i].hosts = size.div_ceil(2);
                // `div_ceil` keeps the larger half, so the floor of the half is what was given up.
                wanted -= size / 2;
                largest.push((drawn[i].hosts, i));
            }
            _ => break,
        }
    }
    while wanted > hosts {
        // The jobs drawn last go first; an empty list ends the loop.
        wanted -= drawn.pop().map_or(wanted, |d| d.hosts);
    }
}

/// The same nodes, with the cable of the first NIC that each host trains with and all cables between switches.
fn one_nic_each(fabric: &Fabric) -> Result<Fabric, FabricError> {
    let mut builder = FabricBuilder::new(fabric.name());
    // Nodes keep their order and with it their ids, on which the caller relies.
    for node in fabric.nodes() {
        builder.node(&node.name, node.kind)?;
    }
    // The way out of a host's first training NIC, and every way out of a switch.
    let first = |id: LinkId| {
        let from = fabric.link(id).from.node;
        let nic = || data_nics(fabric, from).first().map(|nic| fabric.links_from(from)[usize::from(*nic)]);
        fabric.node(from).kind != NodeKind::Host || nic() == Some(id)
    };
    for (i, link) in fabric.links().iter().enumerate() {
        let id = LinkId(i as u32);
        if first(id) && fabric.reverse(id).is_none_or(first) {
            builder.link(link.from.clone(), link.to.clone(), link.capacity, link.provenance)?;
        }
    }
    Ok(builder.build())
}

fn names(fabric: &Fabric, placement: &Placement) -> Vec<String> {
    placement.ranks.iter().map(|e: &Endpoint| fabric.node(e.host).name.clone()).collect()
}

fn size(rng: &mut ChaCha8Rng) -> u32 {
    let mut left = below(rng, 100) as u32;
    for (size, percent) in SIZES {
        if left < percent {
            return size;
        }
        left -= percent;
    }
    // The percentages add up to 100, so the loop has returned.
    SIZES[0].0
}

/// A number below `n`; the bias of a 64-bit remainder is far below what a workload can show.
fn below(rng: &mut ChaCha8Rng, n: usize) -> usize {
    (rng.next_u64() % n as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fitted(sizes: &[u32], hosts: u32) -> Vec<u32> {
        let mut drawn: Vec<Drawn> = sizes.iter().map(|&hosts| Drawn { model: "bert", hosts, batch: None }).collect();
        fit(&mut drawn, hosts);
        drawn.iter().map(|d| d.hosts).collect()
    }

    #[test]
    fn the_largest_jobs_are_halved_until_all_fit() {
        assert_eq!(fitted(&[2, 16, 4], 22), [2, 16, 4]);
        // 22 hosts wanted: 16 becomes 8 (14), 8 becomes 4 (10).
        assert_eq!(fitted(&[2, 16, 4], 10), [2, 4, 4]);
        // 3 rounds up to 2; then jobs of two hosts are dropped from the end.
        assert_eq!(fitted(&[3, 2, 2, 1], 4), [2, 2]);
        assert_eq!(fitted(&[1, 1], 0), [0; 0]);
    }

    #[test]
    fn batches_are_eighths_above_the_reference() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        assert!((0..50).all(|_| draw(&mut rng, &["bert"], 1).batch.is_none()));
        // BERT's reference is 8.
        let mut batches: Vec<u64> = (0..200).map(|_| draw(&mut rng, &["bert"], 3).batch.unwrap_or(8)).collect();
        batches.sort_unstable();
        batches.dedup();
        assert_eq!(batches, [8, 9, 10]);
    }
}
