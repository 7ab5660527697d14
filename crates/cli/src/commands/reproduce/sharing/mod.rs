//! Policies whose jobs share GPUs, on a fabric: what of a gain is sharing, what is placing and what is keeping apart.

mod page;
mod schemes;

use std::process::ExitCode;

use ::sim::trace::{self, Mix, NetworkSetup, Outcome, Setup, TraceError};
use clap::Args;
use fabric::{
    Fabric,
    generate::{Clos2, clos2},
    route::{Ecmp, Router},
};
use policy::{muri::Timing, schedule::Cluster};
use serde::Serialize;
use units::Rate;

use self::schemes::{ALONE, POLICIES, Scheme, find, find_blind, schemes};
use super::report::ReportArgs;
use crate::commands::seeds::{QUICK_SEEDS, SEEDS, SEEDS_MAX, on_all_cores};
use crate::{
    commands::stats::{Interval, interval},
    input::CliError,
    table::Table,
};

/// Seeds of a quick run, and jobs of its mixes.
const QUICK: (u64, usize) = (QUICK_SEEDS, 16);
/// Jobs of a mix.
const JOBS: usize = 36;

/// Hosts of one GPU, five to a leaf, which share one uplink of the rate of a host: so every job of two GPUs and more sends, and whoever
/// does not fit on a leaf meets others.
const LEAVES: u32 = 8;
const HOSTS_PER_LEAF: u32 = 5;
const RATE: Rate = Rate(25_000);

/// Jobs of 2 to 16 GPUs, most of which need more than a leaf has, and run from 5 to 80 minutes; half as many again as the cluster can run, so that there
/// is a queue to share GPUs with.
const MIX: Mix = Mix {
    jobs: JOBS,
    gpus: LEAVES * HOSTS_PER_LEAF,
    sizes: [0, 1, 2, 3, 2, 0],
    run_s: 300.0,
    octaves: 4,
    load_percent: 150.0,
    opportunistic: 0,
};

const EXAMPLES: &str = "\
EXAMPLES
  Every combination with ten seeds, and the report:
    antiphase reproduce sharing --report sharing.html
  A look:
    antiphase reproduce sharing --quick";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SharingArgs {
    /// Few seeds and short mixes
    #[arg(long)]
    quick: bool,
    /// Seeds of each combination [default: 10, quick 2]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=SEEDS_MAX as u64))]
    seeds: Option<u64>,
    #[command(flatten)]
    report: ReportArgs,
}

/// One run of a scheme.
#[derive(Clone, Copy, Debug)]
struct Played {
    mean_jct_s: f64,
    p99_jct_s: f64,
    iteration_mean: f64,
    iteration_p99: f64,
    marks_per_iteration: f64,
}

impl Played {
    fn of(outcome: &Outcome) -> Option<Self> {
        let network = outcome.network.as_ref()?;
        Some(Self {
            mean_jct_s: outcome.mean_s(),
            p99_jct_s: outcome.p99_s(),
            iteration_mean: network.iteration_mean,
            iteration_p99: network.iteration_p99,
            marks_per_iteration: network.marks_per_iteration,
        })
    }
}

/// A scheme over all seeds.
#[derive(Clone, Debug, Serialize)]
struct Row {
    policy: &'static str,
    ranker: &'static str,
    control: &'static str,
    /// Whether groups were chosen without the network.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    blind: bool,
    mean_jct_s: Interval,
    p99_jct_s: Interval,
    iteration_mean: Interval,
    iteration_p99: Interval,
    marks_per_iteration: Interval,
    /// What the same policy takes without ranker and control over what this takes: of the mean completion time.
    jct_gain: Interval,
    /// The same of iterations.
    iteration_gain: Interval,
}

/// A policy's gain, split into sharing, placing and turns.
#[derive(Clone, Debug, Serialize)]
struct Share {
    policy: &'static str,
    /// Time without shared GPUs over this policy's time, with no placement or turns.
    sharing: Interval,
    /// What it takes with nothing done about the network over what it takes with places by the planner, with turns, and with both.
    placing: Interval,
    turns: Interval,
    both: Interval,
    /// Muri: blind groups over groups with the network in view, with places by the planner and turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    groups: Option<Interval>,
    /// And over a network that is in nobody's way: all that there is to gain.
    ideal: Interval,
}

#[derive(Clone, Debug, Serialize)]
struct Answer {
    schema: &'static str,
    seeds: u64,
    jobs: usize,
    rows: Vec<Row>,
    shares: Vec<Share>,
}

pub(super) fn run(args: &SharingArgs) -> Result<ExitCode, CliError> {
    let (seeds, jobs) = if args.quick { QUICK } else { (SEEDS, JOBS) };
    let seeds = args.seeds.unwrap_or(seeds);
    let schemes = schemes();
    let bar = indicatif::ProgressBar::new(seeds * schemes.len() as u64);
    let played = play(&schemes, seeds, jobs, &bar)?;
    bar.finish_and_clear();
    let rows = schemes.iter().zip(&played).map(|(scheme, own)| row(scheme, own, (&schemes, &played))).collect();
    let answer = Answer { schema: "antiphase.reproduce-sharing/v1", seeds, jobs, rows, shares: shares(&schemes, &played) };
    let command = format!("antiphase reproduce sharing{} --seeds {seeds}", if args.quick { " --quick" } else { "" });
    args.report.give(&answer, || page::page(&answer, &command), || table(&answer))?;
    Ok(ExitCode::SUCCESS)
}

fn fabric() -> Result<Fabric, CliError> {
    let shape = Clos2 { leaves: LEAVES, spines: 1, hosts_per_leaf: HOSTS_PER_LEAF, host_rate: RATE, uplink_rate: RATE, uplinks: 1 };
    clos2(&shape).map_err(|e| CliError::Failure(e.to_string()))
}

/// Plays every scheme on every seed; the answer has the seeds of each scheme, in order.
fn play(schemes: &[Scheme], seeds: u64, jobs: usize, bar: &indicatif::ProgressBar) -> Result<Vec<Vec<Played>>, CliError> {
    let failed = |e: &dyn std::fmt::Display| CliError::Failure(e.to_string());
    let fabric = fabric()?;
    let router = Router::new(&fabric, Ecmp::Spread, &[]).map_err(|e| failed(&e))?;
    let cluster = Cluster { hosts: LEAVES * HOSTS_PER_LEAF, gpus_per_host: 1 };
    let by_seed = on_all_cores(seeds, |seed| {
        let trace = trace::mix_trace(&Mix { jobs, ..MIX }, seed);
        let play = |scheme: &Scheme| {
            let Scheme { ranker, control, .. } = *scheme;
            let network = Some(NetworkSetup { router: &router, ranker, control, moves: false, seed });
            let outcome = trace::run(&trace, &Setup { cluster, rule: scheme.rule(), timing: Timing::Paper, network, faults: None });
            bar.inc(1);
            outcome.map(|outcome| Played::of(&outcome))
        };
        schemes.iter().map(play).collect::<Result<Vec<_>, TraceError>>()
    });
    let by_seed = by_seed.into_iter().collect::<Result<Vec<_>, _>>().map_err(|e| failed(&e))?;
    Ok((0..schemes.len()).map(|at| by_seed.iter().filter_map(|played| played[at]).collect()).collect())
}

/// What `first` takes over what `own` takes, seed by seed.
fn gain(first: &[Played], own: &[Played], value: fn(&Played) -> f64) -> Interval {
    interval(first.iter().zip(own).map(|(first, own)| value(first) / value(own)))
}

fn row(scheme: &Scheme, own: &[Played], (schemes, played): (&[Scheme], &[Vec<Played>])) -> Row {
    let of = |value: fn(&Played) -> f64| interval(own.iter().map(value));
    let first = find(schemes, scheme.policy, "none", "free").and_then(|at| played.get(at)).map_or(own, Vec::as_slice);
    Row {
        policy: scheme.policy,
        ranker: scheme.ranker_name(),
        control: scheme.control_name(),
        blind: scheme.blind,
        mean_jct_s: of(|p| p.mean_jct_s),
        p99_jct_s: of(|p| p.p99_jct_s),
        iteration_mean: of(|p| p.iteration_mean),
        iteration_p99: of(|p| p.iteration_p99),
        marks_per_iteration: of(|p| p.marks_per_iteration),
        jct_gain: gain(first, own, |p| p.mean_jct_s),
        iteration_gain: gain(first, own, |p| p.iteration_mean),
    }
}

fn shares(schemes: &[Scheme], played: &[Vec<Played>]) -> Vec<Share> {
    let of = |policy: &str, ranker: &str, control: &str| find(schemes, policy, ranker, control).and_then(|at| played.get(at));
    let share = |policy: &'static str| {
        let over = |first: &[Played], own: &[Played]| gain(first, own, |p| p.mean_jct_s);
        let free = of(policy, "none", "free")?;
        let both = of(policy, "antiphase", "turns")?;
        Some(Share {
            policy,
            sharing: over(of(ALONE, "none", "free")?, free),
            placing: over(free, of(policy, "antiphase", "free")?),
            turns: over(free, of(policy, "none", "turns")?),
            both: over(free, both),
            groups: find_blind(schemes, policy, "turns").and_then(|at| played.get(at)).map(|blind| over(blind, both)),
            ideal: over(free, of(policy, "none", "ideal")?),
        })
    };
    POLICIES.into_iter().filter_map(share).collect()
}

fn table(answer: &Answer) -> String {
    let headings =
        ["POLICY", "RANKER", "CONTROL", "GROUPS", ">MEAN JCT", ">ITERATION", ">P99 ITERATION", ">MARKS", ">GAIN JCT", ">GAIN ITERATION"];
    let mut runs = Table::new(&headings);
    for row in &answer.rows {
        runs.row(vec![
            row.policy.to_owned(),
            row.ranker.to_owned(),
            row.control.to_owned(),
            if row.blind { "blind" } else { "" }.to_owned(),
            format!("{} s", row.mean_jct_s.said(0)),
            row.iteration_mean.said(3),
            row.iteration_p99.said(2),
            row.marks_per_iteration.said(0),
            row.jct_gain.said(3),
            row.iteration_gain.said(3),
        ]);
    }
    let mut parts = Table::new(&["POLICY", ">SHARING", ">PLACING", ">TURNS", ">BOTH", ">GROUPS", ">ALL THERE IS"]);
    for share in &answer.shares {
        let said = |interval: &Interval| interval.said(3);
        parts.row(vec![
            share.policy.to_owned(),
            said(&share.sharing),
            said(&share.placing),
            said(&share.turns),
            said(&share.both),
            share.groups.as_ref().map(said).unwrap_or_default(),
            said(&share.ideal),
        ]);
    }
    format!(
        "{}\nWhat of the gain in mean completion time is which, seed by seed:\n{}Means of {} seeds of {} jobs, with half of the 95 % confidence interval.\n",
        runs.render(),
        parts.render(),
        answer.seeds,
        answer.jobs
    )
}
