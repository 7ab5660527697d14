//! `antiphase fabric diff`.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use fabric::diff::{MatchBy, diff};

use super::Output;
use crate::{cluster::read_fabric, input::CliError, output::print};

/// Exit code of a comparison that found differences.
const DIFFERENT: u8 = 4;

#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// What was planned
    intended: PathBuf,
    /// What is there
    observed: PathBuf,
    /// Compare cables by their nodes alone, for a plan without port names
    #[arg(long)]
    ignore_ports: bool,
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

pub(super) fn run(args: &DiffArgs) -> Result<ExitCode, CliError> {
    let by = if args.ignore_ports { MatchBy::Nodes } else { MatchBy::Ports };
    let found = diff(&read_fabric(&args.intended)?, &read_fabric(&args.observed)?, by);
    let summary = || match found.count() {
        0 => "no differences\n".to_string(),
        1 => format!("{found}1 difference\n"),
        count => format!("{found}{count} differences\n"),
    };
    print(&args.output.render(&found, summary)?)?;
    Ok(if found.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(DIFFERENT) })
}
