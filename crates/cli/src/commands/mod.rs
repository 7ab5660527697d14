//! The command line: what there is to type. Each command lives in its own file.

mod fabric;
mod profile;
mod solve;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::input::CliError;

/// Keeps training jobs that share a link off each other's beat.
#[derive(Debug, Parser)]
#[command(name = "antiphase", version, about, propagate_version = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Find the time-shifts of a scenario file, or evaluate given ones
    Solve(solve::SolveArgs),
    /// Import, export, generate, show and compare fabrics; print routes
    #[command(subcommand)]
    Fabric(fabric::FabricCommand),
    /// Synthesise and show communication profiles of jobs
    #[command(subcommand)]
    Profile(profile::ProfileCommand),
}

/// Runs the command and says with which code to exit.
pub(crate) fn run(args: Args) -> Result<ExitCode, CliError> {
    match args.command {
        Command::Solve(args) => solve::run(&args),
        Command::Fabric(command) => fabric::run(command),
        Command::Profile(command) => profile::run(command),
    }
}
