//! `antiphase fabric`.

use std::process::ExitCode;

use clap::Subcommand;

use crate::input::CliError;

#[derive(Debug, Subcommand)]
pub(crate) enum FabricCommand {}

pub(crate) fn run(command: FabricCommand) -> Result<ExitCode, CliError> {
    match command {}
}
