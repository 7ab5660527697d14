//! Traces of elastic jobs: policies that choose how many GPUs of which type each job has.

use std::{
    path::{Path, PathBuf},
    str::FromStr,
};

use ::sim::trace::{
    TraceError,
    elastic::{
        Application, Applications, ElasticError, ElasticNetwork, ElasticOutcome, ElasticSetup, ElasticSubmission, GpuType, Habits, Speeds,
        TYPES, builtin, run as play, samples_limit, traits,
    },
    read_elastic, read_learning, read_measured,
};
use clap::{Args, ValueEnum};
use fabric::{
    Fabric,
    route::{Ecmp, Router},
};
use policy::{
    elastic::{ElasticRule, PolluxOptions, Search, SiaOptions, Sight},
    knapsack::UNITS_MAX,
};
use serde::Serialize;

use super::{
    ControlArg, Format, PolicyArg, RankerArg, RunArgs, TimingArg,
    hosts::{self, GPUS_PER_NODE_MAX, Hosts, NODES_MAX, TYPES_MAX},
    name_of,
};
use crate::{
    cluster::read_fabric,
    commands::cpu_s,
    input::{CliError, read_document},
    output::print,
    table::Table,
};

/// The cluster of Sia's paper (section 4): 64 GPUs.
const PAPER: [(&str, u32, u32); 3] = [("aws", 6, 4), ("dgx-ext", 2, 8), ("rtx", 3, 8)];
/// The type of a cluster that is only told by its size.
const ONLY: &str = "aws";

#[derive(Debug, Args)]
pub(super) struct ElasticArgs {
    /// Elastic policies: nodes and GPUs of each node, by type: aws (T4), azure (V100), dgx-ext (A100), quad (RTX 6000), rtx (2080 Ti)
    /// [default: what the hosts of the fabric say, else all of them as aws; with --nodes that many of aws; without either aws:6x4,dgx-ext:2x8,rtx:3x8]
    #[arg(long, value_name = "TYPE:NODESxGPUS", value_delimiter = ',', conflicts_with = "nodes")]
    gpu_types: Vec<TypeArg>,
    /// Elastic policies: folder with measurements (APPLICATION/placements-TYPE.csv, scalability-TYPE.csv, validation-BATCH.csv); without it,
    /// parameters that were fitted to those of Sia's authors
    #[arg(long, value_name = "FOLDER")]
    profiles: Option<PathBuf>,
    /// Elastic policies: length of a round [default: 60, of gavel 360]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    round: Option<u32>,
    /// Pollux: how it looks for counts [default: exact]
    #[arg(long, value_enum)]
    search: Option<SearchArg>,
    /// Sia on a fabric: what it sees of the network [default: blind]
    #[arg(long, value_enum, requires = "fabric")]
    sight: Option<SightArg>,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum SightArg {
    /// Nothing; jobs feel it all the same
    #[default]
    Blind,
    /// Places are chosen by predicted times, after counts and types
    After,
    /// Predicted times of places enter the choice of counts and types, too
    Inside,
}

impl From<SightArg> for Sight {
    fn from(sight: SightArg) -> Self {
        match sight {
            SightArg::Blind => Self::Blind,
            SightArg::After => Self::After,
            SightArg::Inside => Self::Inside,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SearchArg {
    /// By an integer program, which is ours
    Exact,
    /// By breeding placements under --seed, as published
    Published,
}

/// Nodes of one type.
#[derive(Clone, Debug)]
struct TypeArg(GpuType);

impl FromStr for TypeArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not TYPE:NODESxGPUS, such as aws:6x4");
        let (name, size) = text.split_once(':').ok_or_else(wrong)?;
        let (nodes, gpus_per_node) = size.split_once('x').ok_or_else(wrong)?;
        let number = |of: &str, most: u32| of.parse().ok().filter(|number| (1..=most).contains(number)).ok_or_else(wrong);
        let (nodes, gpus_per_node) = (number(nodes, NODES_MAX)?, number(gpus_per_node, GPUS_PER_NODE_MAX)?);
        Ok(Self(GpuType { name: name.to_owned(), nodes, gpus_per_node }))
    }
}

/// The answer of `sim run` with an elastic policy.
#[derive(Debug, Serialize)]
struct Answer {
    schema: &'static str,
    policy: String,
    timing: String,
    gpu_types: Vec<String>,
    /// Whether speeds are measured, or fitted.
    profiles: &'static str,
    jobs: usize,
    left_out: u64,
    avg_jct_s: f64,
    p50_jct_s: f64,
    p99_jct_s: f64,
    makespan_s: f64,
    decisions: u64,
    preemptions: u64,
    restarts_per_job: f64,
    policy_ms_median: f64,
    policy_ms_p95: f64,
    cpu_s: f64,
    #[serde(flatten)]
    network: Option<NetworkAnswer>,
    /// By job, in the order of the trace.
    per_job: Vec<JobAnswer>,
}

/// What jobs that span nodes met on the fabric.
#[derive(Debug, Serialize)]
struct NetworkAnswer {
    /// Whose prediction chooses places: the planner's, where the policy sees it.
    ranker: String,
    control: String,
    sight: String,
    /// Their iterations over the same on a network that is in nobody's way, each by the time of its GPUs.
    iteration_mean: f64,
    iteration_p99: f64,
    /// Nobody knows: meetings of elastic jobs are predicted, and a prediction has no marks.
    marks_per_iteration: Option<f64>,
    /// For the same reason.
    components_played: u64,
    /// Different meetings that the planner predicted.
    components_predicted: u64,
}

#[derive(Debug, Serialize)]
struct JobAnswer {
    id: String,
    jct_s: f64,
    restarts: u32,
    /// GPU time by type.
    gpu_s: Vec<f64>,
}

/// Whether the policy is elastic; an option that does nothing is refused.
pub(super) fn takes(args: &RunArgs) -> Result<bool, CliError> {
    let elastic = matches!(args.policy, PolicyArg::Sia | PolicyArg::Pollux | PolicyArg::Gavel);
    let ElasticArgs { gpu_types, profiles, round, search, sight } = &args.elastic;
    let sia = matches!(args.policy, PolicyArg::Sia) && matches!(args.trace.timing, TimingArg::Paper);
    let draws_ties = matches!(args.policy, PolicyArg::Sia) && !sia;
    // The cluster of the paper has sizes of its own.
    let of_nobody = args.trace.gpus_per_node.is_some() && args.trace.nodes.is_none() && args.trace.fabric.is_none();
    let own = [
        ("--gpu-types", !gpu_types.is_empty(), elastic),
        ("--profiles", profiles.is_some(), elastic),
        ("--round", round.is_some(), elastic),
        ("--search", search.is_some(), matches!(args.policy, PolicyArg::Pollux)),
        ("--seed", args.network.seed.is_some(), !elastic || matches!(search, Some(SearchArg::Published)) || draws_ties),
        ("--faults and what goes wrong by chance", args.trace.faults.is_given(), !elastic),
        ("--sight, but with --timing paper,", sight.is_some(), sia),
        ("--ranker", args.network.ranker.is_some(), !elastic),
        ("--moves", args.network.moves, !elastic),
        ("--events", args.events.is_some(), !elastic),
        ("--report", args.report.is_some(), !elastic),
        ("--group-max", args.group_max.is_some(), !elastic),
        ("--no-matching", args.no_matching, !elastic),
        ("--worst-order", args.worst_order, !elastic),
        ("--no-autopack", args.no_autopack, !elastic),
        ("--no-growth", args.no_growth, !elastic),
        ("--promote", args.promote.is_some(), !elastic),
        ("--consolidate", args.consolidate, !elastic),
        ("--blind-groups", args.blind_groups, !elastic),
        ("--workers", args.trace.workers.is_some(), !elastic),
        ("--gpus-per-node beside --gpu-types", args.trace.gpus_per_node.is_some() && !gpu_types.is_empty(), false),
        ("--gpus-per-node without --nodes or --fabric", of_nobody, !elastic),
    ];
    if let Some((option, ..)) = own.iter().find(|(_, given, can)| *given && !can) {
        return Err(CliError::Usage(format!("{option}: --policy {} has no use for it", args.policy.name())));
    }
    if elastic && !matches!(args.trace.format, Format::Sia) {
        return Err(CliError::Usage(format!("--policy {}: only --format sia says what elastic jobs train", args.policy.name())));
    }
    Ok(elastic)
}

pub(super) fn run(args: &RunArgs) -> Result<(), CliError> {
    let file = &args.trace.trace;
    let trace = read_elastic(&read_document(file)?).map_err(|e| CliError::input(file, e))?;
    let fabric = args.trace.fabric.as_ref().map(|file| read_fabric(file)).transpose()?;
    let types = types(args, fabric.as_ref())?;
    let profiles = args.elastic.profiles.as_deref();
    let applications = applications(&types, profiles)?;
    let rule = rule(args);
    let round_s = args.elastic.round.map_or(rule.round_s(), f64::from);
    let habits = if matches!(args.trace.timing, TimingArg::Artifact) { Habits::ARTIFACT } else { Habits::PAPER };
    let router = fabric.as_ref().map(|fabric| Router::new(fabric, args.trace.ecmp.unwrap_or(Ecmp::Spread), &[])).transpose();
    let router = router.map_err(|e| CliError::Failure(e.to_string()))?;
    let (control, sight) = (args.network.control.unwrap_or_default(), args.elastic.sight.unwrap_or_default());
    let network = router.as_ref().map(|router| ElasticNetwork { router, control: control.into(), sight: sight.into() });
    let begun_s = cpu_s();
    let setup = ElasticSetup { types: &types, applications: &applications, rule, round_s, habits, network, clock: cpu_s };
    let outcome = play(&trace, &setup).map_err(|e| match e {
        ElasticError::Application { .. } | ElasticError::TooLarge { .. } | ElasticError::Unmeasured { .. } => CliError::input(file, e),
        ElasticError::Network { .. } => CliError::input(args.trace.fabric.as_deref().unwrap_or(file), e),
        _ => CliError::Failure(format!("{}: {e}", file.display())),
    })?;
    let name = |of: &GpuType| format!("{}:{}x{}", of.name, of.nodes, of.gpus_per_node);
    let answer = Answer {
        schema: "antiphase.sim/v1",
        policy: args.policy.name(),
        timing: args.trace.timing.name(),
        gpu_types: types.iter().map(name).collect(),
        profiles: if profiles.is_some() { "measured" } else { "fitted" },
        jobs: outcome.jct_s.len(),
        left_out: 0,
        avg_jct_s: outcome.mean_s(),
        p50_jct_s: outcome.quantile_s(0.5),
        p99_jct_s: outcome.p99_s(),
        makespan_s: outcome.makespan_s,
        decisions: outcome.policy_s.len() as u64,
        preemptions: outcome.preemptions,
        restarts_per_job: outcome.restarts_mean(),
        policy_ms_median: outcome.policy_quantile_s(0.5) * 1e3,
        policy_ms_p95: outcome.policy_quantile_s(0.95) * 1e3,
        cpu_s: cpu_s() - begun_s,
        network: network_answer(&outcome, control, sight),
        per_job: per_job(&trace, &outcome),
    };
    print(&args.trace.output.render(&answer, || table(&answer))?)
}

fn network_answer(outcome: &ElasticOutcome, control: ControlArg, sight: SightArg) -> Option<NetworkAnswer> {
    let ranker = if matches!(sight, SightArg::Blind) { RankerArg::None } else { RankerArg::Antiphase };
    Some(NetworkAnswer {
        ranker: name_of(&ranker),
        control: name_of(&control),
        sight: name_of(&sight),
        iteration_mean: outcome.longer_mean?,
        iteration_p99: outcome.longer_p99?,
        marks_per_iteration: None,
        components_played: 0,
        components_predicted: outcome.predicted,
    })
}

fn per_job(trace: &[ElasticSubmission], outcome: &ElasticOutcome) -> Vec<JobAnswer> {
    let all = trace.iter().zip(&outcome.jct_s).zip(outcome.restarts.iter().zip(&outcome.gpu_s));
    all.map(|((job, jct_s), (restarts, gpu_s))| JobAnswer { id: job.id.clone(), jct_s: *jct_s, restarts: *restarts, gpu_s: gpu_s.clone() })
        .collect()
}

fn types(args: &RunArgs, fabric: Option<&Fabric>) -> Result<Vec<GpuType>, CliError> {
    let types = types_given(args, fabric)?;
    match types.iter().find(|of| of.nodes * of.gpus_per_node > UNITS_MAX) {
        Some(of) => Err(CliError::Usage(format!("{}: {} nodes of {} GPUs; at most {UNITS_MAX} GPUs", of.name, of.nodes, of.gpus_per_node))),
        None => Ok(types),
    }
}

fn types_given(args: &RunArgs, fabric: Option<&Fabric>) -> Result<Vec<GpuType>, CliError> {
    let given: Vec<GpuType> = args.elastic.gpu_types.iter().map(|of| of.0.clone()).collect();
    if given.len() > TYPES_MAX {
        return Err(CliError::Usage(format!("--gpu-types: {} types; at most {TYPES_MAX}", given.len())));
    }
    if let Some(twice) = given.iter().enumerate().find(|(at, of)| given[..*at].iter().any(|other| other.name == of.name)) {
        return Err(CliError::Usage(format!("--gpu-types: {:?} twice", twice.1.name)));
    }
    let of = |(name, nodes, gpus_per_node): (&str, u32, u32)| GpuType { name: name.to_owned(), nodes, gpus_per_node };
    let count = args.trace.nodes.unwrap_or(u32::MAX);
    let hosts = args.trace.fabric.as_deref().zip(fabric).map(|(file, fabric)| Hosts { file, fabric, count });
    // Who asks for another size than the hosts say has one type, which is not theirs.
    if let Some(hosts) = hosts.filter(|_| given.is_empty() && args.trace.gpus_per_node.is_none()) {
        let said = hosts::types(hosts)?;
        if !said.is_empty() {
            return Ok(said);
        }
    }
    // Whoever has a fabric plays on all of its hosts, unless fewer are asked for.
    let has = |hosts: Hosts<'_>| u32::try_from(hosts.fabric.hosts().count()).unwrap_or(u32::MAX);
    let nodes = args.trace.nodes.or(hosts.map(has));
    Ok(match (given.is_empty(), nodes) {
        (false, _) => given,
        (true, Some(nodes)) if nodes <= NODES_MAX => vec![of((ONLY, nodes, hosts::gpus_per_node(args.trace.gpus_per_node, hosts)?))],
        (true, Some(nodes)) => {
            return Err(CliError::Usage(format!(
                "{nodes} nodes: an elastic policy looks at {NODES_MAX} at most; --nodes says how many are used"
            )));
        }
        (true, None) => paper_cluster(),
    })
}

fn rule(args: &RunArgs) -> ElasticRule {
    let seed = args.network.seed.unwrap_or(1);
    match (args.policy, args.trace.timing, args.elastic.search) {
        (PolicyArg::Gavel, ..) => ElasticRule::Gavel,
        (PolicyArg::Pollux, _, Some(SearchArg::Published)) => {
            ElasticRule::Pollux(PolluxOptions { search: Search::Published { seed, avoids: true } })
        }
        (PolicyArg::Pollux, ..) => ElasticRule::Pollux(PolluxOptions { search: Search::Exact }),
        // Its rounded costs tie often, and to take the first of equal shapes throughout is nobody's solver.
        (_, TimingArg::Artifact, _) => ElasticRule::Sia(SiaOptions { ties: seed, ..SiaOptions::ARTIFACT }),
        (_, TimingArg::Paper, _) => ElasticRule::Sia(SiaOptions::PAPER),
    }
}

/// The cluster of Sia's paper.
pub(crate) fn paper_cluster() -> Vec<GpuType> {
    PAPER.map(|(name, nodes, gpus_per_node)| GpuType { name: name.to_owned(), nodes, gpus_per_node }).to_vec()
}

/// What jobs train: measured, or built in.
pub(crate) fn applications(types: &[GpuType], folder: Option<&Path>) -> Result<Applications, CliError> {
    let Some(folder) = folder else {
        let names: Vec<&str> = types.iter().map(|of| of.name.as_str()).collect();
        let unknown = names.iter().find(|name| !TYPES.contains(*name)).copied().unwrap_or_default();
        let problem = || CliError::Usage(format!("GPU type {unknown:?}: without --profiles there are {}", TYPES.join(", ")));
        return builtin(&names).ok_or_else(problem);
    };
    let mut all = Vec::new();
    for traits in traits() {
        let of = folder.join(traits.name);
        let mut speeds = Vec::new();
        for GpuType { name, .. } in types {
            let (placements, scalability) = (of.join(format!("placements-{name}.csv")), of.join(format!("scalability-{name}.csv")));
            let measured = read_measured(&read_document(&placements)?, &read_document(&scalability)?);
            let wrong = |(e, second): (TraceError, bool)| CliError::input(if second { &scalability } else { &placements }, e);
            speeds.push(Speeds::Measured(measured.map_err(wrong)?.limited(samples_limit(traits.name, name))));
        }
        let files: Vec<PathBuf> = traits.batches.iter().map(|batch| of.join(format!("validation-{batch}.csv"))).collect();
        let texts = files.iter().map(|file| read_document(file)).collect::<Result<Vec<String>, _>>()?;
        let learning = read_learning(traits, &texts).map_err(|(e, at)| CliError::input(files.get(at).unwrap_or(&of), e))?;
        all.push(Application { traits: *traits, learning, speeds });
    }
    Ok(all)
}

fn table(answer: &Answer) -> String {
    let headings =
        ["POLICY", "TIMING", "PROFILES", ">JOBS", ">AVG JCT", ">P50 JCT", ">P99 JCT", ">MAKESPAN", ">RESTARTS", ">POLICY", ">P95 POLICY"];
    let mut table = Table::new(&headings);
    let seconds = |value: f64| format!("{value:.0} s");
    let mut row = vec![answer.policy.clone(), answer.timing.clone(), answer.profiles.to_owned(), answer.jobs.to_string()];
    row.extend([answer.avg_jct_s, answer.p50_jct_s, answer.p99_jct_s, answer.makespan_s].map(seconds));
    row.push(format!("{:.2}", answer.restarts_per_job));
    row.extend([answer.policy_ms_median, answer.policy_ms_p95].map(|ms| format!("{ms:.3} ms")));
    table.row(row);
    table.render()
}
