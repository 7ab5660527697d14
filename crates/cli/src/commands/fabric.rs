//! `antiphase fabric`: one file per subcommand in `fabric/`.

mod diff;
mod export;
mod generate;
mod import;
mod routes;
mod show;
mod table;

use std::process::ExitCode;

use clap::{Subcommand, ValueEnum};
use serde::Serialize;

use crate::input::CliError;

#[derive(Debug, Subcommand)]
pub(crate) enum FabricCommand {
    /// Make a fabric from other programs' documents: Slurm, LLDP, SONiC, Topograph, Lingjun, containerlab
    Import(import::ImportArgs),
    /// Write a fabric for another program: Slurm, Kubernetes, Volcano
    Export(export::ExportArgs),
    /// Make a fabric from a few numbers
    #[command(subcommand)]
    Generate(generate::GenerateCommand),
    /// Summarise a fabric: nodes per tier, links, oversubscription, unknown capacities
    Show(show::ShowArgs),
    /// Compare what is cabled with what was intended; exit code 4 if they differ
    Diff(diff::DiffArgs),
    /// Print the links between two hosts, with shares and assumptions
    Routes(routes::RoutesArgs),
}

pub(crate) fn run(command: FabricCommand) -> Result<ExitCode, CliError> {
    match command {
        FabricCommand::Import(args) => import::run(&args),
        FabricCommand::Export(args) => export::run(&args),
        FabricCommand::Generate(command) => generate::run(&command),
        FabricCommand::Show(args) => show::run(&args),
        FabricCommand::Diff(args) => diff::run(&args),
        FabricCommand::Routes(args) => routes::run(&args),
    }
}

/// Form of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people
    #[default]
    Table,
    Json,
    Yaml,
}

impl Output {
    /// The answer in this form; `table` makes the one for people.
    fn render<T: Serialize>(self, answer: &T, table: impl FnOnce() -> String) -> Result<String, CliError> {
        let failed = |e: &dyn std::fmt::Display| CliError::Failure(format!("cannot write the answer: {e}"));
        match self {
            Self::Table => Ok(table()),
            Self::Json => serde_json::to_string_pretty(answer).map(|text| text + "\n").map_err(|e| failed(&e)),
            Self::Yaml => serde_saphyr::to_string(answer).map_err(|e| failed(&e)),
        }
    }
}
