//! `antiphase profile`.

use std::process::ExitCode;

use clap::Subcommand;

use crate::input::CliError;

#[derive(Debug, Subcommand)]
pub(crate) enum ProfileCommand {}

pub(crate) fn run(command: ProfileCommand) -> Result<ExitCode, CliError> {
    match command {}
}
