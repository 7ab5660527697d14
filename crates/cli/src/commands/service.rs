//! `antiphase serve`, `pki` and `gate`: the parts of the live system that this one program can also be.

use std::{ffi::OsString, process::ExitCode};

use clap::{Args, Subcommand};

use crate::{input::CliError, output};

/// Runs the topology service in the foreground; the same as the program `antiphase-topology`.
pub(crate) fn serve(args: &server::Args) -> ExitCode {
    server::run(args)
}

/// Makes and shows certificates.
pub(crate) fn pki(command: &server::pki::Command) -> Result<ExitCode, CliError> {
    output::print(&command.run().map_err(|e| CliError::Failure(e.to_string()))?)?;
    Ok(ExitCode::SUCCESS)
}

/// The gate for programs that cannot be changed.
#[derive(Debug, Subcommand)]
pub(crate) enum GateCommand {
    /// Wait for the job's slot once, then become PROGRAM
    Exec(ExecArgs),
}

/// What follows is passed on as it is; see `agent/gate` for the options.
#[derive(Debug, Args)]
#[command(disable_help_flag = true, after_help = gate::exec::SYNOPSIS)]
pub(crate) struct ExecArgs {
    /// Options, then the program and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT", required = true)]
    arguments: Vec<OsString>,
}

pub(crate) fn gate(command: GateCommand) -> ExitCode {
    let GateCommand::Exec(args) = command;
    let code = gate::exec::run(args.arguments);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
