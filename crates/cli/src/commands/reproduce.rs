//! `antiphase reproduce`: figures of others, computed again.

mod cassini;
mod deepshare;
mod gandiva;
mod groups;
mod harmony;
mod pollux;
mod report;
mod sharing;
mod sia;
mod traces;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, Subcommand};

use self::report::ReportArgs;
use crate::input::CliError;

#[derive(Debug, Subcommand)]
pub(crate) enum ReproduceCommand {
    /// Muri: jobs that share GPUs, one resource each at a time
    Muri(MuriArgs),
    /// CASSINI: jobs that share links, shifted against each other
    Cassini(cassini::CassiniArgs),
    /// Gandiva: jobs that take turns on GPUs, are packed and moved
    Gandiva(gandiva::GandivaArgs),
    /// Muri and Gandiva on a fabric: what of a gain is sharing, what is placing, what is keeping apart
    Sharing(sharing::SharingArgs),
    /// Sia: how many GPUs of which type each job gets
    Sia(sia::SiaArgs),
    /// Pollux: how many GPUs each job gets, and what it costs where jobs share nodes
    Pollux(pollux::PolluxArgs),
    /// Harmony: a placer that learns which jobs disturb each other
    Harmony(harmony::HarmonyArgs),
    /// DeepShare: a scheduler that learns who may share nodes
    Deepshare(deepshare::DeepshareArgs),
}

const EXAMPLES: &str = "\
EXAMPLES
  Compute every group of a file again, as the authors' simulator times it:
    antiphase reproduce muri --groups groups.csv
  Play the authors' traces, and write how long jobs take over Muri beside what was published:
    antiphase reproduce muri --traces trace-data --report muri.html
  Columns of such a file, in any order:
    num_gpu, k, models (joined by +), T_best_raw_ms, T_best_with_group_overhead_ms, T_worst_with_group_overhead_ms,
    gamma_best, sum_norm_throughput, autopack_would_unpack (0 or 1), best_slot_order (place of each member by slot, - = empty, joined by /)
  Exit code 1 when a row differs by more than a millionth, or by more than the digits that it is written with. Of orders that reach the same
  period each is right.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct MuriArgs {
    /// Groups with the times, efficiencies and orders that somebody else computed, CSV; - for standard input
    #[arg(long, value_name = "FILE", required_unless_present = "traces", conflicts_with_all = ["traces", "quick", "report", "output"])]
    groups: Option<PathBuf>,
    /// Folder with the traces of Muri's authors (testbed_400.csv, trace1.csv to trace4.csv): policies over Muri, beside what was published
    #[arg(long, value_name = "FOLDER")]
    traces: Option<PathBuf>,
    /// The testbed's trace and the third only
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    report: ReportArgs,
}

pub(crate) fn run(command: &ReproduceCommand) -> Result<ExitCode, CliError> {
    match command {
        ReproduceCommand::Muri(MuriArgs { groups: Some(groups), .. }) => groups::run(groups),
        ReproduceCommand::Muri(args) => {
            // One of the two is required.
            let folder = args.traces.as_deref().unwrap_or(Path::new(""));
            let MuriArgs { quick, report, .. } = args;
            traces::run(&traces::Request { folder, quick: *quick, report })?;
            Ok(ExitCode::SUCCESS)
        }
        ReproduceCommand::Cassini(args) => cassini::run(args),
        ReproduceCommand::Gandiva(args) => gandiva::run(args),
        ReproduceCommand::Sharing(args) => sharing::run(args),
        ReproduceCommand::Sia(args) => sia::run(args),
        ReproduceCommand::Pollux(args) => pollux::run(args),
        ReproduceCommand::Harmony(args) => harmony::run(args),
        ReproduceCommand::Deepshare(args) => deepshare::run(args),
    }
}
