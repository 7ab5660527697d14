//! `antiphase reproduce`: figures of others, computed again.

mod cassini;
mod groups;

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, Subcommand};

use crate::input::CliError;

#[derive(Debug, Subcommand)]
pub(crate) enum ReproduceCommand {
    /// Muri: jobs that share GPUs, one resource each at a time
    Muri(MuriArgs),
    /// CASSINI: jobs that share links, shifted against each other
    Cassini(cassini::CassiniArgs),
}

const EXAMPLES: &str = "\
EXAMPLES
  Compute every group of a file again, as the authors' simulator times it:
    antiphase reproduce muri --groups groups.csv
  Columns of such a file, in any order:
    num_gpu, k, models (joined by +), T_best_raw_ms, T_best_with_group_overhead_ms, T_worst_with_group_overhead_ms,
    gamma_best, sum_norm_throughput, autopack_would_unpack (0 or 1), best_slot_order (place of each member by slot, - = empty, joined by /)
  Exit code 1 when a row differs by more than a millionth, or by more than the digits that it is written with.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct MuriArgs {
    /// Groups with the times, efficiencies and orders that somebody else computed, CSV; - for standard input
    #[arg(long, value_name = "FILE")]
    groups: PathBuf,
}

pub(crate) fn run(command: &ReproduceCommand) -> Result<ExitCode, CliError> {
    match command {
        ReproduceCommand::Muri(args) => groups::run(&args.groups),
        ReproduceCommand::Cassini(args) => cassini::run(args),
    }
}
