//! The experiments of the CASSINI paper, in virtual time: a scheduler that knows nothing of the network, the paper's, and ours.

mod page;
mod schemes;
mod snapshots;

use std::process::ExitCode;

use ::sim::trace::{self, CASSINI_GPUS, CassiniTrace, NetworkOutcome, NetworkSetup, Outcome, Setup, TraceError};
use clap::Args;
use fabric::{
    Fabric,
    generate::{Clos2, cassini24, clos2},
    route::{Ecmp, Router},
};
use policy::{
    muri::Timing,
    schedule::{Cluster, Rule},
};
use serde::Serialize;
use units::Rate;

use self::schemes::{SCHEMES, Scheme};
use super::report::ReportArgs;
use crate::commands::seeds::{QUICK_SEEDS, SEEDS, SEEDS_MAX, on_all_cores};
use crate::{
    commands::stats::{self, Interval, interval},
    input::CliError,
    table::Table,
};

/// Seeds of a quick run, and jobs of its Poisson traces.
const QUICK: (u64, usize) = (QUICK_SEEDS, 24);
/// Jobs of a Poisson trace: about half an hour of the testbed.
const JOBS: usize = 60;

const EXAMPLES: &str = "\
EXAMPLES
  Every experiment with ten seeds, and the report:
    antiphase reproduce cassini --report cassini.html
  A look in a minute:
    antiphase reproduce cassini --quick
  The paper published no traces and no profiles: jobs, profiles and arrivals are made by its words (docs/calibration.md).";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CassiniArgs {
    /// Few seeds and short traces
    #[arg(long)]
    quick: bool,
    /// Seeds of each experiment [default: 10, quick 2]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=SEEDS_MAX as u64))]
    seeds: Option<u64>,
    #[command(flatten)]
    report: ReportArgs,
}

/// An experiment of the paper.
struct Experiment {
    id: &'static str,
    about: &'static str,
    trace: CassiniTrace,
    gpus_per_host: u32,
    /// Mean iteration and p99 of Themis over those of Themis with CASSINI, as printed; `None` of experiments that the paper does not have.
    published: Option<[f64; 2]>,
}

const EXPERIMENTS: [Experiment; 8] = [
    Experiment {
        id: "poisson",
        about: "jobs that synchronise replicas arrive one after the other (figure 11)",
        trace: CassiniTrace::PoissonData,
        gpus_per_host: 1,
        published: Some([1.6, 1.8]),
    },
    Experiment {
        id: "poisson-model-parallel",
        about: "jobs split by layers and tables arrive one after the other (figure 12)",
        trace: CassiniTrace::PoissonModel,
        gpus_per_host: 1,
        published: Some([1.2, 1.6]),
    },
    Experiment {
        id: "dynamic",
        about: "a recommender and a small network come to a busy cluster (figure 13)",
        trace: CassiniTrace::DynamicData,
        gpus_per_host: 1,
        published: Some([1.5, 2.2]),
    },
    Experiment {
        id: "dynamic-model-parallel",
        about: "the same, all jobs split by layers and tables (figure 14)",
        trace: CassiniTrace::DynamicModel,
        gpus_per_host: 1,
        published: Some([1.2, 1.6]),
    },
    Experiment {
        id: "snapshot",
        about: "jobs that synchronise replicas fill the cluster, all there from the beginning",
        trace: CassiniTrace::Snapshot,
        gpus_per_host: 1,
        published: None,
    },
    Experiment {
        id: "two-gpus-a-host",
        about: "hosts of two GPUs and one NIC (figure 16; 12 of them, where the paper had 6)",
        trace: CassiniTrace::PoissonData,
        gpus_per_host: 2,
        published: Some([1.4, 1.9]),
    },
    Experiment {
        id: "sweep",
        about: "not in the paper: a search over parameters, all jobs its VGG16 on two servers, so that all periods lock",
        trace: CassiniTrace::Sweep,
        gpus_per_host: 1,
        published: None,
    },
    Experiment {
        id: "near-sweep",
        about: "not in the paper: the same with two batches, so that periods are a few percent apart",
        trace: CassiniTrace::NearSweep,
        gpus_per_host: 1,
        published: None,
    },
];

/// One run of a scheme.
#[derive(Clone, Debug)]
struct Played {
    mean_jct_s: f64,
    p99_jct_s: f64,
    network: NetworkOutcome,
}

impl Played {
    fn of(outcome: &Outcome) -> Option<Self> {
        let network = outcome.network.clone()?;
        Some(Self { mean_jct_s: outcome.mean_s(), p99_jct_s: outcome.p99_s(), network })
    }
}

/// A scheme over all seeds, beside the first scheme of the same seeds.
#[derive(Clone, Debug, Serialize)]
struct Row {
    scheme: &'static str,
    /// Iterations over iterations alone.
    iteration_mean: Interval,
    iteration_p99: Interval,
    marks_per_iteration: Interval,
    mean_jct_s: Interval,
    p99_jct_s: Interval,
    /// What the first scheme takes over what this one takes.
    mean_gain: Interval,
    p99_gain: Interval,
    jct_gain: Interval,
    /// How far the planner's predictions are from what was played.
    #[serde(skip_serializing_if = "Option::is_none")]
    predicted_off_mean: Option<f64>,
    #[serde(skip)]
    percentiles: Vec<f64>,
}

/// An experiment's answer.
#[derive(Clone, Debug, Serialize)]
struct Result {
    experiment: &'static str,
    about: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    published_mean_gain: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    published_p99_gain: Option<f64>,
    schemes: Vec<Row>,
}

#[derive(Clone, Debug, Serialize)]
struct Answer {
    schema: &'static str,
    seeds: u64,
    jobs: usize,
    experiments: Vec<Result>,
    snapshots: Vec<snapshots::Played>,
}

pub(super) fn run(args: &CassiniArgs) -> std::result::Result<ExitCode, CliError> {
    let (seeds, jobs) = if args.quick { QUICK } else { (SEEDS, JOBS) };
    let seeds = args.seeds.unwrap_or(seeds);
    let bar = indicatif::ProgressBar::new(EXPERIMENTS.len() as u64 * seeds * SCHEMES.len() as u64 + snapshots::STEPS);
    let mut experiments = Vec::with_capacity(EXPERIMENTS.len());
    for experiment in &EXPERIMENTS {
        experiments.push(play_all(experiment, seeds, jobs, &bar)?);
    }
    let snapshots = snapshots::play(seeds, &|| bar.inc(1))?;
    bar.finish_and_clear();
    let answer = Answer { schema: "antiphase.reproduce-cassini/v1", seeds, jobs, experiments, snapshots };
    let command = format!("antiphase reproduce cassini{} --seeds {seeds}", if args.quick { " --quick" } else { "" });
    args.report.give(&answer, || page::page(&answer, &command), || table(&answer))?;
    Ok(ExitCode::SUCCESS)
}

fn fabric_of(experiment: &Experiment) -> std::result::Result<Fabric, CliError> {
    let rate = Rate(50_000);
    let fabric = match experiment.gpus_per_host {
        1 => cassini24(),
        // The same 2:1 at the leaves.
        _ => clos2(&Clos2 { leaves: 6, spines: 1, hosts_per_leaf: 2, host_rate: rate, uplink_rate: rate, uplinks: 1 }),
    };
    fabric.map_err(|e| CliError::Failure(e.to_string()))
}

/// Plays every scheme on every seed of an experiment.
fn play_all(experiment: &Experiment, seeds: u64, jobs: usize, bar: &indicatif::ProgressBar) -> std::result::Result<Result, CliError> {
    let failed = |e: &dyn std::fmt::Display| CliError::Failure(format!("{}: {e}", experiment.id));
    let fabric = fabric_of(experiment)?;
    let router = Router::new(&fabric, Ecmp::Spread, &[]).map_err(|e| failed(&e))?;
    let cluster = Cluster { hosts: CASSINI_GPUS / experiment.gpus_per_host, gpus_per_host: experiment.gpus_per_host };
    let played = on_all_cores(seeds, |seed| {
        let trace = trace::cassini_trace(experiment.trace, experiment.gpus_per_host, jobs, seed)?;
        let play = |scheme: &Scheme| {
            let Scheme { ranker, control, .. } = *scheme;
            let network = Some(NetworkSetup { router: &router, ranker, control, moves: false, seed });
            let outcome = trace::run(&trace, &Setup { cluster, rule: Rule::Themis, timing: Timing::Paper, network, faults: None });
            bar.inc(1);
            outcome.map(|outcome| Played::of(&outcome))
        };
        SCHEMES.iter().map(play).collect::<std::result::Result<Vec<_>, TraceError>>()
    });
    let by_seed = played.into_iter().collect::<std::result::Result<Vec<_>, _>>().map_err(|e| failed(&e))?;
    let of_scheme = |at: usize| by_seed.iter().filter_map(|played| played[at].clone()).collect::<Vec<Played>>();
    let played: Vec<Vec<Played>> = (0..SCHEMES.len()).map(of_scheme).collect();
    let first = played.first().cloned().unwrap_or_default();
    Ok(Result {
        experiment: experiment.id,
        about: experiment.about,
        published_mean_gain: experiment.published.map(|gains| gains[0]),
        published_p99_gain: experiment.published.map(|gains| gains[1]),
        schemes: SCHEMES.iter().zip(&played).map(|(scheme, played)| row(scheme, played, &first)).collect(),
    })
}

fn row(scheme: &Scheme, played: &[Played], first: &[Played]) -> Row {
    let of = |value: fn(&Played) -> f64| interval(played.iter().map(value));
    let gain = |value: fn(&Played) -> f64| interval(first.iter().zip(played).map(|(first, own)| value(first) / value(own)));
    Row {
        scheme: scheme.name,
        iteration_mean: of(|p| p.network.iteration_mean),
        iteration_p99: of(|p| p.network.iteration_p99),
        marks_per_iteration: of(|p| p.network.marks_per_iteration),
        mean_jct_s: of(|p| p.mean_jct_s),
        p99_jct_s: of(|p| p.p99_jct_s),
        mean_gain: gain(|p| p.network.iteration_mean),
        p99_gain: gain(|p| p.network.iteration_p99),
        jct_gain: gain(|p| p.mean_jct_s),
        predicted_off_mean: off(played),
        percentiles: (0..=100).map(|at| stats::mean(played.iter().map(|p| p.network.percentiles[at]))).collect(),
    }
}

/// The mean of the differences from what was predicted, of the seeds on which anything was.
fn off(played: &[Played]) -> Option<f64> {
    let told: Vec<f64> = played.iter().filter_map(|p| p.network.predicted_off).map(|(mean, _)| mean).collect();
    (!told.is_empty()).then(|| stats::mean(told.into_iter()))
}

fn table(answer: &Answer) -> String {
    let mut out = String::new();
    for result in &answer.experiments {
        let headings = ["SCHEME", ">ITERATION", ">P99", ">MARKS", ">MEAN JCT", ">GAIN MEAN", ">GAIN P99", ">GAIN JCT"];
        let mut table = Table::new(&headings);
        for row in &result.schemes {
            table.row(vec![
                row.scheme.to_owned(),
                row.iteration_mean.said(3),
                row.iteration_p99.said(2),
                row.marks_per_iteration.said(0),
                format!("{} s", row.mean_jct_s.said(0)),
                row.mean_gain.said(2),
                row.p99_gain.said(2),
                row.jct_gain.said(2),
            ]);
        }
        out += &format!("{}: {}\n{}", result.experiment, result.about, table.render());
        if let (Some(mean), Some(p99)) = (result.published_mean_gain, result.published_p99_gain) {
            out += &format!("the paper prints gains of Themis + CASSINI over Themis: mean {mean:.1}, p99 {p99:.1}\n");
        }
        out.push('\n');
    }
    out += &snapshots::table(&answer.snapshots);
    out + &format!(
        "\nIterations over iterations alone, means of {} seeds, with half of the 95 % confidence interval; gains are over the first scheme of the same seed.\n",
        answer.seeds
    )
}
