//! `antiphase sim`: traces of jobs under scheduling policies, in virtual time.

mod choices;
pub(crate) mod elastic;
mod faults;
mod hosts;
mod recording;
mod report;
mod sweep;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use ::sim::trace::{self, GrowthOutcome, LingjunWorkers, NetworkOutcome, NetworkSetup, Outcome, Setup, Trace, TraceError, Watcher};
use clap::{Args, Subcommand};
use fabric::{
    Fabric,
    route::{Ecmp, Router},
};
use policy::{
    muri::{GROUP_MAX, Order},
    schedule::{Capacity, Cluster, MuriOptions, Rule, TiresiasOptions},
};
use serde::Serialize;

use self::{
    choices::{ControlArg, Format, PolicyArg, RankerArg, TimingArg, name_of},
    elastic::ElasticArgs,
    faults::{FaultAnswer, FaultArgs, Faults},
    hosts::Hosts,
    recording::Recording,
    sweep::SweepArgs,
};
use crate::{
    cluster::read_fabric,
    commands::cpu_s,
    input::{CliError, read_document},
    output::{Output, check_outputs, print, say, write_files},
    table::Table,
};

/// Most hosts of a cluster, and most GPUs of a host: together ten times the largest that was published.
const HOSTS_MAX: i64 = 100_000;
const GPUS_PER_HOST_MAX: i64 = 64;
/// Hosts of a cluster without a fabric, unless it is told: those of the clusters in the Muri paper.
const HOSTS: u32 = 8;

#[derive(Debug, Subcommand)]
pub(crate) enum SimCommand {
    /// Play one trace under one policy, and say when the jobs were done
    Run(RunArgs),
    /// Play one trace under several policies, and say how often as long the jobs took as under the first
    Compare(CompareArgs),
    /// Play one trace under every combination of policies, rankers, controls and seeds, on all cores
    Sweep(SweepArgs),
}

const EXAMPLES: &str = "\
EXAMPLES
  Muri on 64 GPUs, as the simulator of its authors plays it:
    antiphase sim run --trace trace.csv --nodes 8 --gpus-per-node 8 --policy muri-s --timing artifact -o json
  Policies side by side, times over those of the first:
    antiphase sim compare --trace trace.csv --policies muri-s,srtf,srsf --timing artifact
  Without matching, with pairs only:
    antiphase sim run --trace trace.csv --nodes 8 --gpus-per-node 8 --policy muri-l --no-matching --group-max 2
  On a fabric, where jobs that meet take turns and the planner places them:
    antiphase fabric generate clos2 --leaves 9 --spines 1 --hosts-per-leaf 7 --host-rate 25G --uplink-rate 50G >fabric.yaml
    antiphase sim run --trace trace.csv --gpus-per-node 1 --policy srsf --fabric fabric.yaml --ranker antiphase --control turns
  Elastic jobs on the 64 GPUs of Sia's paper, and on others:
    antiphase sim run --trace workload-1.csv --format sia --policy sia
    antiphase sim run --trace workload-1.csv --format sia --policy gavel --gpu-types aws:16x4 --profiles traces -o json
  Jobs of our own, with models of the zoo or with times:
    antiphase sim run --trace jobs.csv --format antiphase --policy themis
  What happened to each job, and pictures of it:
    antiphase sim run --trace trace.csv --policy themis --events events.jsonl --report report.html
  Every combination with ten seeds each, on all cores:
    antiphase sim sweep --trace trace.csv --gpus-per-node 1 --fabric fabric.yaml --policies themis,srsf --rankers none,antiphase \
      --controls free,turns --seeds 10 --lines runs.jsonl
  With hosts that go down once a month, and with faults that a file tells:
    antiphase sim run --trace trace.csv --policy themis --host-mtbf-h 720 --host-mttr-h 4 --checkpoint-s 900
    antiphase sim run --trace trace.csv --gpus-per-node 1 --policy themis --fabric fabric.yaml --control turns --faults faults.csv
  Columns of such faults, in any order: at_s, kind (host, link, agent, straggler), name (of a host, or of a link as leaf1->spine2), until_s,
  and of stragglers factor. Without a fabric hosts have numbers, from 0 on.
  Columns of such a trace, in any order: job_id, submit_s, gpus, iterations, and iteration_ms with up_ms and load_ms, or model;
  restart_s, priority (guaranteed or opportunistic), gpus_max (the most GPUs that it can use, under gandiva) and weight (of its turns, 1 to
  1000, under gandiva) may be left out.
  Columns of a trace of Muri, in any order: job_id, num_gpu, submit_time (ms), iterations, model_name, duration (ms),
  iteration_time (ms), resource_time_0, resource_time_1, resource_time_2 (load, GPU, network; ms), priority (0 guaranteed, 1 opportunistic).";

/// What is played.
#[derive(Debug, Args)]
struct TraceArgs {
    /// Jobs with their arrivals; - for standard input
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,
    /// Format of the trace
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Lingjun: the file worker.csv, which says how many GPUs the jobs have
    #[arg(long, value_name = "FILE")]
    workers: Option<PathBuf>,
    /// Hosts of the cluster; all of those of the fabric, or 8
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=HOSTS_MAX))]
    nodes: Option<u32>,
    /// GPUs of each host; what the hosts of the fabric say, or 8
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=GPUS_PER_HOST_MAX))]
    gpus_per_node: Option<u32>,
    /// How long groups take, and which costs the world has
    #[arg(long, value_enum, default_value_t)]
    timing: TimingArg,
    /// Fabric document (antiphase.fabric/v1) whose hosts are the cluster's: jobs that meet on its links slow each other down
    #[arg(long, value_name = "FILE")]
    fabric: Option<PathBuf>,
    /// Among equal next hops: spread, or hashed:SEED
    #[arg(long, value_name = "RULE", requires = "fabric")]
    ecmp: Option<Ecmp>,
    #[command(flatten)]
    faults: FaultArgs,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// What is done about the network between the hosts.
#[derive(Debug, Args)]
struct NetworkArgs {
    /// Who chooses where jobs stand that are placed anew
    #[arg(long, value_enum, requires = "fabric")]
    ranker: Option<RankerArg>,
    /// What keeps jobs apart that meet
    #[arg(long, value_enum, requires = "fabric")]
    control: Option<ControlArg>,
    /// Move jobs that run where the planner predicts that to be worth their restarts; with --ranker antiphase
    #[arg(long, requires = "fabric")]
    moves: bool,
    /// Seed of jitter, of when jobs begin, of which of equal places are tried, and of faults by chance
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
}

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    trace: TraceArgs,
    #[command(flatten)]
    network: NetworkArgs,
    /// Write what happens to the jobs, a JSON object a line: arrive, start, move, grow, shrink, stop, end
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
    /// Write a report with pictures, one HTML file that loads nothing
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Who runs
    #[arg(long, value_enum)]
    policy: PolicyArg,
    /// Muri: most jobs in a group [default: 4]
    #[arg(long, value_name = "JOBS", value_parser = clap::value_parser!(u8).range(1..=GROUP_MAX as i64))]
    group_max: Option<u8>,
    /// Muri: group neighbours in the order rather than by matching
    #[arg(long)]
    no_matching: bool,
    /// Muri: run each group in its worst order
    #[arg(long)]
    worst_order: bool,
    /// Muri: keep groups that take longer than their members one after the other
    #[arg(long)]
    no_autopack: bool,
    /// Muri: group jobs without the network, with --ranker antiphase too
    #[arg(long)]
    blind_groups: bool,
    /// Gandiva: leave jobs that may grow (gpus_max of the trace) the GPUs that they ask for
    #[arg(long)]
    no_growth: bool,
    /// Tiresias: a job that waited for so many times the time that it ran goes back to the first queue (PromoteKnob)
    #[arg(long, value_name = "FACTOR", value_parser = promote)]
    promote: Option<u32>,
    /// Tiresias: jobs run only on as few hosts as can hold them
    #[arg(long)]
    consolidate: bool,
    #[command(flatten)]
    elastic: ElasticArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    #[command(flatten)]
    trace: TraceArgs,
    #[command(flatten)]
    network: NetworkArgs,
    /// Policies, the first being what the others are compared with
    #[arg(long, value_enum, value_delimiter = ',', required = true)]
    policies: Vec<PolicyArg>,
}

/// The answer of `sim run`.
#[derive(Debug, Serialize)]
struct Answer {
    schema: &'static str,
    policy: String,
    timing: String,
    jobs: usize,
    left_out: u64,
    avg_jct_s: f64,
    p99_jct_s: f64,
    makespan_s: f64,
    decisions: u64,
    preemptions: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_s: Option<f64>,
    #[serde(flatten)]
    faults: Option<FaultAnswer>,
    #[serde(flatten)]
    growth: Option<GrowthAnswer>,
    #[serde(flatten)]
    network: Option<NetworkAnswer>,
}

/// What came of jobs that may grow.
#[derive(Debug, Serialize)]
struct GrowthAnswer {
    /// How often a job grew onto idle GPUs, and went on with fewer.
    grown: u64,
    shrunk: u64,
    /// GPU time that jobs had beyond what they asked for.
    grown_gpu_s: f64,
}

impl From<GrowthOutcome> for GrowthAnswer {
    fn from(GrowthOutcome { grown, shrunk, gpu_s }: GrowthOutcome) -> Self {
        Self { grown, shrunk, grown_gpu_s: gpu_s }
    }
}

/// What the network did to jobs that stand on several hosts.
#[derive(Debug, Serialize)]
struct NetworkAnswer {
    ranker: String,
    control: String,
    seed: u64,
    /// Iterations over iterations alone.
    iteration_mean: f64,
    iteration_p99: f64,
    marks_per_iteration: f64,
    /// Share of the time of jobs that send in which they could meet others.
    met_share: f64,
    /// Jobs that ran and were moved to a better place.
    #[serde(skip_serializing_if = "Option::is_none")]
    moved: Option<u64>,
    components_played: u64,
    /// Large ones of which the prediction stands in place of a play.
    #[serde(skip_serializing_if = "Option::is_none")]
    components_predicted: Option<u64>,
    components_remembered: u64,
    /// How far what was played is from what the planner predicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    predicted_off_mean: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    predicted_off_max: Option<f64>,
}

impl NetworkAnswer {
    fn of(choice: &Choice, outcome: &NetworkOutcome) -> Self {
        Self {
            ranker: name_of(&choice.ranker),
            control: name_of(&choice.control),
            seed: choice.seed,
            iteration_mean: outcome.iteration_mean,
            iteration_p99: outcome.iteration_p99,
            marks_per_iteration: outcome.marks_per_iteration,
            met_share: outcome.met_share,
            moved: choice.moves.then_some(outcome.moved),
            components_played: outcome.played,
            components_predicted: Some(outcome.predicted).filter(|components| *components > 0),
            components_remembered: outcome.remembered,
            predicted_off_mean: outcome.predicted_off.map(|(mean, _)| mean),
            predicted_off_max: outcome.predicted_off.map(|(_, most)| most),
        }
    }
}

/// The answer of `sim compare`.
#[derive(Debug, Serialize)]
struct Comparison {
    schema: &'static str,
    runs: Vec<Answer>,
}

/// What is chosen for one run of a trace.
#[derive(Clone, Copy, Debug)]
struct Choice {
    policy: PolicyArg,
    rule: Rule,
    ranker: RankerArg,
    control: ControlArg,
    moves: bool,
    seed: u64,
}

impl Choice {
    fn new(policy: PolicyArg, rule: Rule, args: &NetworkArgs) -> Self {
        let NetworkArgs { ranker, control, moves, seed } = args;
        let (ranker, control, moves) = (ranker.unwrap_or_default(), control.unwrap_or_default(), *moves);
        Self { policy, rule, ranker, control, moves, seed: seed.unwrap_or(1) }
    }

    /// A seed of nothing is refused.
    fn check_seed(args: &NetworkArgs, world: &World) -> Result<(), CliError> {
        match args.seed {
            Some(_) if !world.is_drawn() => Err(CliError::Usage("--seed: without --fabric or --host-mtbf-h nothing is drawn".to_owned())),
            _ => Ok(()),
        }
    }

    /// A choice among places that nobody makes is refused.
    fn check(&self) -> Result<(), CliError> {
        let predicts = matches!(self.ranker, RankerArg::Antiphase) && !matches!(self.control, ControlArg::Ideal | ControlArg::Paper);
        match (self.ranker, self.policy) {
            _ if self.moves && !predicts => {
                Err(CliError::Usage("--moves: only --ranker antiphase predicts times, with --control free, slots or turns".to_owned()))
            }
            (_, PolicyArg::AntMan | PolicyArg::Gandiva) if self.moves => {
                Err(CliError::Usage(format!("--moves: --policy {} places its jobs itself", self.policy.name())))
            }
            (RankerArg::None, _) => Ok(()),
            (RankerArg::Cassini | RankerArg::Antiphase, _) if matches!(self.control, ControlArg::Ideal) => {
                Err(CliError::Usage("--ranker: with --control ideal no place is better than another".to_owned()))
            }
            _ => Ok(()),
        }
    }
}

pub(crate) fn run(command: &SimCommand) -> Result<ExitCode, CliError> {
    match command {
        SimCommand::Run(args) => run_one(args)?,
        SimCommand::Compare(args) => {
            let trace = read(&args.trace)?;
            let world = World::read(&args.trace)?;
            Choice::check_seed(&args.network, &world)?;
            let play = |policy: &PolicyArg| {
                let choice = Choice::new(*policy, policy.rule(MuriOptions::default())?, &args.network);
                play(&args.trace, (&trace, &world), &choice, None).map(|played| played.0)
            };
            let runs = args.policies.iter().map(play).collect::<Result<_, _>>()?;
            let comparison = Comparison { schema: "antiphase.sim-comparison/v1", runs };
            print(&args.trace.output.render(&comparison, || table(&comparison.runs))?)?;
        }
        SimCommand::Sweep(args) => sweep::run(args)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn run_one(args: &RunArgs) -> Result<(), CliError> {
    if elastic::takes(args)? {
        return elastic::run(args);
    }
    let choice = Choice::new(args.policy, rule(args)?, &args.network);
    let trace = read(&args.trace)?;
    let world = World::read(&args.trace)?;
    Choice::check_seed(&args.network, &world)?;
    check_outputs(&args.events.iter().chain(&args.report).map(PathBuf::as_path).collect::<Vec<_>>())?;
    let mut recording = Recording::new(trace.jobs.len(), args.events.is_some() || args.report.is_some());
    let (answer, outcome) = play(&args.trace, (&trace, &world), &choice, Some(&mut |event| recording.take(&event)))?;
    let events = recording.finish()?;
    let mut files: Vec<(&Path, String)> = Vec::new();
    if let Some(file) = &args.events {
        files.push((file, events.lines(&trace, world.fabric.as_ref())));
    }
    if let Some(file) = &args.report {
        files.push((file, report::page(&answer, &outcome, &report::Played { trace: &trace, world: &world, events: &events })));
    }
    let texts: Vec<(&Path, &str)> = files.iter().map(|(file, text)| (*file, text.as_str())).collect();
    write_files(&texts)?;
    files.iter().for_each(|(file, _)| say(&format!("wrote {}", file.display())));
    print(&args.trace.output.render(&answer, || table(std::slice::from_ref(&answer)))?)
}

fn read(args: &TraceArgs) -> Result<Trace, CliError> {
    let refuse = |e| CliError::input(&args.trace, e);
    let format = match (args.format, &args.workers) {
        (Format::Lingjun, Some(file)) => {
            let workers = LingjunWorkers::read(&read_document(file)?).map_err(|e| CliError::input(file, e))?;
            return trace::read_lingjun(&read_document(&args.trace)?, &workers).map_err(refuse);
        }
        (Format::Lingjun, None) => return Err(CliError::Usage("--format lingjun: --workers is missing".into())),
        (_, Some(_)) => return Err(CliError::Usage("--workers: only --format lingjun has workers".into())),
        (Format::Antiphase, None) => trace::Format::Antiphase,
        (Format::Muri, None) => trace::Format::Muri,
        (Format::Philly, None) => trace::Format::Philly,
        (Format::Helios, None) => trace::Format::Helios,
        (Format::AlibabaGpu2023, None) => trace::Format::AlibabaGpu2023,
        (Format::Sia, None) => trace::Format::Sia,
    };
    trace::read(format, &read_document(&args.trace)?).map_err(refuse)
}

/// The cluster, its fabric where it has one, and what goes wrong.
struct World {
    cluster: Cluster,
    /// What each of its hosts has.
    capacity: Capacity,
    fabric: Option<Fabric>,
    faults: Option<Faults>,
}

impl World {
    fn read(args: &TraceArgs) -> Result<Self, CliError> {
        let Some(file) = &args.fabric else {
            let gpus_per_host = hosts::gpus_per_node(args.gpus_per_node, None)?;
            let cluster = Cluster { hosts: args.nodes.unwrap_or(HOSTS), gpus_per_host };
            let faults = args.faults.read(args.timing, cluster, None)?;
            return Ok(Self { cluster, capacity: cluster.into(), fabric: None, faults });
        };
        let fabric = read_fabric(file)?;
        let has = u32::try_from(fabric.hosts().count()).unwrap_or(u32::MAX);
        let hosts = args.nodes.unwrap_or(has);
        if hosts > has || has == 0 {
            return Err(CliError::input(file, format!("{has} hosts; --nodes {hosts}")));
        }
        let counted = Hosts { file, fabric: &fabric, count: hosts };
        let cluster = Cluster { hosts, gpus_per_host: hosts::most_gpus(args.gpus_per_node, counted)? };
        let faults = args.faults.read(args.timing, cluster, Some(&fabric))?;
        Ok(Self { cluster, capacity: trace::capacity_on(cluster, Some(&fabric)), fabric: Some(fabric), faults })
    }

    /// Whether another seed may give another run.
    fn is_drawn(&self) -> bool {
        self.fabric.is_some() || self.faults.as_ref().is_some_and(Faults::are_drawn)
    }
}

/// Routes on the fabric, where there is one.
fn router<'a>(args: &TraceArgs, world: &'a World) -> Result<Option<Router<'a>>, CliError> {
    let router = world.fabric.as_ref().map(|fabric| Router::new(fabric, args.ecmp.unwrap_or(Ecmp::Spread), &[])).transpose();
    router.map_err(|e| CliError::Failure(e.to_string()))
}

fn setup<'a>(args: &TraceArgs, world: &'a World, choice: &Choice, router: Option<&'a Router<'a>>) -> Setup<'a> {
    let Choice { rule, ranker, control, moves, seed, .. } = *choice;
    Setup {
        cluster: world.cluster,
        rule,
        timing: args.timing.into(),
        network: router.map(|router| NetworkSetup { router, ranker: ranker.into(), control: control.into(), moves, seed }),
        faults: world.faults.as_ref().map(|faults| faults.setup(seed)),
    }
}

/// What is wrong with a run, and whose it is to mend.
fn refusal(args: &TraceArgs, world: &World, e: TraceError) -> CliError {
    match e {
        // The policies are ours, so what they decide is not the user's to mend.
        TraceError::Network { .. } => CliError::input(args.fabric.as_deref().unwrap_or(&args.trace), e),
        TraceError::Unequal { .. } => {
            let least = world.capacity.full().iter().min().copied().unwrap_or(1);
            let way = format!("{e}; --gpus-per-node {least} uses as many of each");
            CliError::input(args.fabric.as_deref().unwrap_or(&args.trace), way)
        }
        TraceError::Infeasible { .. } | TraceError::Stuck { .. } | TraceError::Faulty { .. } => {
            CliError::Failure(format!("{}: {e}", args.trace.display()))
        }
        _ => CliError::input(&args.trace, e),
    }
}

/// What a run would refuse before its first event.
fn check(args: &TraceArgs, (trace, world): (&Trace, &World), choice: &Choice) -> Result<(), CliError> {
    choice.check()?;
    let router = router(args, world)?;
    trace::check(trace, &setup(args, world, choice, router.as_ref())).map_err(|e| refusal(args, world, e))
}

fn play(
    args: &TraceArgs,
    (trace, world): (&Trace, &World),
    choice: &Choice,
    watcher: Option<Watcher<'_>>,
) -> Result<(Answer, Outcome), CliError> {
    choice.check()?;
    let router = router(args, world)?;
    let begun_s = cpu_s();
    let setup = setup(args, world, choice, router.as_ref());
    let outcome = match watcher {
        Some(watcher) => trace::run_watched(trace, &setup, watcher),
        None => trace::run(trace, &setup),
    };
    let outcome = outcome.map_err(|e| refusal(args, world, e))?;
    let answer = Answer {
        schema: "antiphase.sim/v1",
        policy: choice.policy.name(),
        timing: args.timing.name(),
        jobs: outcome.jct_s.len(),
        left_out: trace.left_out,
        avg_jct_s: outcome.mean_s(),
        p99_jct_s: outcome.p99_s(),
        makespan_s: outcome.makespan_s,
        decisions: outcome.decisions,
        preemptions: outcome.preemptions,
        cpu_s: Some(cpu_s() - begun_s),
        faults: outcome.faults.map(FaultAnswer::from),
        growth: outcome.growth.map(GrowthAnswer::from),
        network: outcome.network.as_ref().map(|outcome| NetworkAnswer::of(choice, outcome)),
    };
    Ok((answer, outcome))
}

/// The policy with its options; an option that does nothing is refused.
fn rule(args: &RunArgs) -> Result<Rule, CliError> {
    let options = [
        ("--group-max", args.group_max.is_some()),
        ("--no-matching", args.no_matching),
        ("--worst-order", args.worst_order),
        ("--no-autopack", args.no_autopack),
        ("--blind-groups", args.blind_groups),
    ];
    let grouped = matches!(args.policy, PolicyArg::MuriS | PolicyArg::MuriL);
    if let Some((option, _)) = options.iter().find(|(_, given)| *given && !grouped) {
        return Err(CliError::Usage(format!("{option}: --policy {} has no groups", args.policy.name())));
    }
    if args.no_growth {
        return args.policy.without_growth();
    }
    let queues = [("--promote", args.promote.is_some()), ("--consolidate", args.consolidate)];
    match (args.policy, queues.iter().find(|(_, given)| *given)) {
        (PolicyArg::Tiresias, Some(_)) => {
            return Ok(Rule::Tiresias(TiresiasOptions { promote_permille: args.promote, consolidate: args.consolidate }));
        }
        (policy, Some((option, _))) => return Err(CliError::Usage(format!("{option}: --policy {} has no queues", policy.name()))),
        (_, None) => {}
    }
    let order = if args.worst_order { Order::Worst } else { Order::Best };
    let (matching, autopack, offers) = (!args.no_matching, !args.no_autopack, !args.blind_groups);
    let group_max = args.group_max.unwrap_or(GROUP_MAX as u8);
    args.policy.rule(MuriOptions { group_max, order, matching, autopack, offers, ..MuriOptions::default() })
}

/// A factor from 0.001 to 1,000, in thousandths.
fn promote(text: &str) -> Result<u32, String> {
    let permille = text.parse::<f64>().map_or(0.0, |factor| (factor * 1e3).round());
    if (1.0..=1e6).contains(&permille) { Ok(permille as u32) } else { Err("expected a number from 0.001 to 1000".into()) }
}

/// Runs, with their times over those of the first where there are several.
fn table(runs: &[Answer]) -> String {
    let compared = runs.len() > 1;
    let on_fabric = runs.iter().any(|run| run.network.is_some());
    let headings = ["POLICY", "TIMING", ">JOBS", ">AVG JCT", ">P99 JCT", ">MAKESPAN", ">DECISIONS", ">PREEMPTIONS"];
    let of_network = ["RANKER", "CONTROL", ">ITERATION", ">P99 ITERATION", ">MARKS"];
    let ratios = [">AVG", ">P99", ">MAKESPAN"].map(|heading| format!("{heading} RATIO"));
    let headings: Vec<&str> = headings
        .into_iter()
        .chain(of_network.into_iter().filter(|_| on_fabric))
        .chain(ratios.iter().map(String::as_str).filter(|_| compared))
        .collect();
    let mut table = Table::new(&headings);
    let seconds = |value: f64| format!("{value:.0} s");
    for run in runs {
        let times = |run: &Answer| [run.avg_jct_s, run.p99_jct_s, run.makespan_s];
        let mut row = vec![run.policy.clone(), run.timing.clone(), run.jobs.to_string()];
        row.extend(times(run).map(seconds));
        row.extend([run.decisions.to_string(), run.preemptions.to_string()]);
        if let Some(network) = &run.network {
            row.extend([network.ranker.clone(), network.control.clone()]);
            row.extend([network.iteration_mean, network.iteration_p99].map(|ratio| format!("{ratio:.3}")));
            row.push(format!("{:.1}", network.marks_per_iteration));
        }
        if let Some(first) = runs.first().filter(|_| compared) {
            row.extend(times(run).into_iter().zip(times(first)).map(|(ours, first)| format!("{:.2}", ours / first)));
        }
        table.row(row);
    }
    table.render()
}
