//! `antiphase sim`: traces of jobs under scheduling policies, in virtual time.

use std::{path::PathBuf, process::ExitCode};

use ::sim::trace::{self, Outcome, Setup, TraceError};
use clap::{Args, Subcommand, ValueEnum};
use policy::{
    muri::{GROUP_MAX, Order, Timing},
    schedule::{Cluster, MuriOptions, Rule},
};
use serde::Serialize;

use crate::{
    input::{CliError, read_document},
    output::{Output, print},
    table::Table,
};

/// Most hosts of a cluster, and most GPUs of a host: together ten times the largest that was published.
const HOSTS_MAX: i64 = 100_000;
const GPUS_PER_HOST_MAX: i64 = 64;

#[derive(Debug, Subcommand)]
pub(crate) enum SimCommand {
    /// Play one trace under one policy, and say when the jobs were done
    Run(RunArgs),
}

const EXAMPLES: &str = "\
EXAMPLES
  Muri on 64 GPUs, as the simulator of its authors plays it:
    antiphase sim run --trace trace.csv --nodes 8 --gpus-per-node 8 --policy muri-s --timing artifact -o json
  Without matching, with pairs only:
    antiphase sim run --trace trace.csv --nodes 8 --gpus-per-node 8 --policy muri-l --no-matching --group-max 2
  Columns of a trace of Muri, in any order: job_id, num_gpu, submit_time (ms), iterations, model_name, duration (ms),
  iteration_time (ms), resource_time_0, resource_time_1, resource_time_2 (load, GPU, network; ms), priority (0 guaranteed, 1 opportunistic).";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunArgs {
    /// Jobs with their arrivals; - for standard input
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,
    /// Format of the trace
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Hosts of the cluster
    #[arg(long, value_name = "COUNT", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=HOSTS_MAX))]
    nodes: u32,
    /// GPUs of each host
    #[arg(long, value_name = "COUNT", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=GPUS_PER_HOST_MAX))]
    gpus_per_node: u32,
    /// Who runs
    #[arg(long, value_enum)]
    policy: PolicyArg,
    /// How long groups take, and which costs the world has
    #[arg(long, value_enum, default_value_t)]
    timing: TimingArg,
    /// Muri: most jobs in a group
    #[arg(long, value_name = "JOBS", default_value_t = GROUP_MAX as u8, value_parser = clap::value_parser!(u8).range(1..=GROUP_MAX as i64))]
    group_max: u8,
    /// Muri: group neighbours in the order rather than by matching
    #[arg(long)]
    no_matching: bool,
    /// Muri: run each group in its worst order
    #[arg(long)]
    worst_order: bool,
    /// Muri: keep groups that take longer than their members one after the other
    #[arg(long)]
    no_autopack: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Format {
    /// Traces of Muri (CSV)
    #[default]
    Muri,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum PolicyArg {
    /// Shortest remaining time first
    Srtf,
    /// Shortest remaining service (time times GPUs) first
    Srsf,
    /// Least attained service first, in steps
    Tiresias,
    /// Guaranteed jobs first, the others on what these leave
    #[value(name = "antman")]
    AntMan,
    /// Who would be latest beside a fair share first
    Themis,
    /// Turns on crowded hosts, packed and moved where that pays
    Gandiva,
    /// Groups that share GPUs, shortest remaining service first
    MuriS,
    /// Groups that share GPUs, least attained service first
    MuriL,
}

impl PolicyArg {
    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum TimingArg {
    /// Equations as printed; a restart is paid when something changes
    #[default]
    Paper,
    /// As the simulator of Muri's authors computes it
    Artifact,
}

impl TimingArg {
    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

impl From<TimingArg> for Timing {
    fn from(timing: TimingArg) -> Self {
        match timing {
            TimingArg::Paper => Self::Paper,
            TimingArg::Artifact => Self::Artifact,
        }
    }
}

/// The answer of `sim run`.
#[derive(Debug, Serialize)]
struct Answer {
    schema: &'static str,
    policy: String,
    timing: String,
    jobs: usize,
    avg_jct_s: f64,
    p99_jct_s: f64,
    makespan_s: f64,
    decisions: u64,
    preemptions: u64,
    cpu_s: f64,
}

pub(crate) fn run(command: &SimCommand) -> Result<ExitCode, CliError> {
    match command {
        SimCommand::Run(args) => play(args),
    }
}

fn play(args: &RunArgs) -> Result<ExitCode, CliError> {
    let refuse = |e: TraceError| match e {
        // The policies are ours, so what they decide is not the user's to mend.
        TraceError::Infeasible { .. } | TraceError::Stuck { .. } => CliError::Failure(format!("{}: {e}", args.trace.display())),
        _ => CliError::input(&args.trace, e),
    };
    let setup =
        Setup { cluster: Cluster { hosts: args.nodes, gpus_per_host: args.gpus_per_node }, rule: rule(args)?, timing: args.timing.into() };
    let text = read_document(&args.trace)?;
    // Reading is counted, for who compares with other simulators compares the whole.
    let trace = match args.format {
        Format::Muri => trace::read_muri(&text),
    };
    let outcome = trace.and_then(|trace| trace::run(&trace, &setup)).map_err(refuse)?;
    let answer = answer(args, &outcome);
    print(&args.output.render(&answer, || table(&answer))?)?;
    Ok(ExitCode::SUCCESS)
}

/// The policy with its options; an option that does nothing is refused.
fn rule(args: &RunArgs) -> Result<Rule, CliError> {
    let durations_known = match args.policy {
        PolicyArg::MuriS => true,
        PolicyArg::MuriL => false,
        other => {
            let idle = [
                ("--group-max", args.group_max != GROUP_MAX as u8),
                ("--no-matching", args.no_matching),
                ("--worst-order", args.worst_order),
                ("--no-autopack", args.no_autopack),
            ];
            if let Some((option, _)) = idle.iter().find(|(_, given)| *given) {
                return Err(CliError::Usage(format!("{option}: --policy {} has no groups", other.name())));
            }
            return Ok(match other {
                PolicyArg::Srtf => Rule::Srtf,
                PolicyArg::Srsf => Rule::Srsf,
                PolicyArg::Tiresias => Rule::Tiresias,
                PolicyArg::Themis => Rule::Themis,
                PolicyArg::Gandiva => Rule::Gandiva,
                PolicyArg::AntMan | PolicyArg::MuriS | PolicyArg::MuriL => Rule::AntMan,
            });
        }
    };
    let order = if args.worst_order { Order::Worst } else { Order::Best };
    let (matching, autopack) = (!args.no_matching, !args.no_autopack);
    Ok(Rule::Muri(MuriOptions { durations_known, group_max: args.group_max, order, matching, autopack }))
}

fn answer(args: &RunArgs, outcome: &Outcome) -> Answer {
    let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Answer {
        schema: "antiphase.sim/v1",
        policy: args.policy.name(),
        timing: args.timing.name(),
        jobs: outcome.jct_s.len(),
        avg_jct_s: outcome.mean_s(),
        p99_jct_s: outcome.p99_s(),
        makespan_s: outcome.makespan_s,
        decisions: outcome.decisions,
        preemptions: outcome.preemptions,
        cpu_s: cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9,
    }
}

fn table(answer: &Answer) -> String {
    let mut table = Table::new(&["POLICY", "TIMING", "JOBS", "AVG JCT", "P99 JCT", "MAKESPAN", "DECISIONS", "PREEMPTIONS"]);
    let seconds = |value: f64| format!("{value:.0} s");
    table.row([
        answer.policy.clone(),
        answer.timing.clone(),
        answer.jobs.to_string(),
        seconds(answer.avg_jct_s),
        seconds(answer.p99_jct_s),
        seconds(answer.makespan_s),
        answer.decisions.to_string(),
        answer.preemptions.to_string(),
    ]);
    table.render()
}
