//! `antiphase learn`: a placer that learns, after Harmony, trained and judged.

mod evaluate;
pub(crate) mod model;
pub(crate) mod placers;
mod train;

use std::process::ExitCode;

use ::harmony::Mix;
use clap::{Args, Subcommand};

use crate::input::CliError;

#[derive(Debug, Subcommand)]
pub(crate) enum LearnCommand {
    /// Train a model from a seed, and write it
    Train(train::TrainArgs),
    /// Compare a model's placer with others, on mixes that nobody learned from or was selected by
    Evaluate(evaluate::EvaluateArgs),
}

pub(crate) fn run(command: &LearnCommand) -> Result<ExitCode, CliError> {
    match command {
        LearnCommand::Train(args) => train::run(args),
        LearnCommand::Evaluate(args) => evaluate::run(args),
    }
}

/// Servers of a cluster. With three or more of them the largest job fits into an empty cluster however its parts were placed.
const SERVERS: (u32, u32) = (3, 64);
/// Most jobs of a mix: minutes for each placer.
const JOBS_MAX: u32 = 1_000;
/// Largest seed: those of mixes that teach and select follow from it by addition, begin far beyond, and must not overflow.
const SEED_MAX: u64 = u32::MAX as u64;
/// Loads in percent. Far above 100 nobody but the queue decides.
const LOADS: (u32, u32) = (1, 200);
/// Thousandths in a percent.
pub(crate) const PERMILLE: u32 = 10;

/// The mixes of Harmony's testbed: six servers, half of whose GPUs would be busy if nobody disturbed anybody.
pub(crate) const MIX: Mix = Mix { jobs: 60, servers: 6, run_ms: 600_000, octaves: 4, load_permille: 500 };

/// What jobs come, where that is told.
#[derive(Debug, Args)]
struct MixArgs {
    /// Servers, of four GPUs each
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(SERVERS.0 as i64..=SERVERS.1 as i64))]
    servers: Option<u32>,
    /// Jobs of a mix
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=JOBS_MAX as i64))]
    jobs: Option<u32>,
    /// Offered load: GPU time of arriving jobs over available GPU time, in percent, without interference
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(LOADS.0 as i64..=LOADS.1 as i64))]
    load: Option<u32>,
}

impl MixArgs {
    /// `mix`, but for what is told.
    fn apply(&self, mix: Mix) -> Mix {
        Mix {
            servers: self.servers.map_or(mix.servers, |servers| servers as usize),
            jobs: self.jobs.unwrap_or(mix.jobs),
            load_permille: self.load.map_or(mix.load_permille, |load| load * PERMILLE),
            ..mix
        }
    }

    /// As it was typed.
    fn typed(&self) -> String {
        let option = |name: &str, value: Option<u32>| value.map_or_else(String::new, |value| format!(" --{name} {value}"));
        option("servers", self.servers) + &option("jobs", self.jobs) + &option("load", self.load)
    }
}
