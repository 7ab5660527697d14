//! `antiphase fabric diff`.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use fabric::diff::{MatchBy, diff};

use crate::{
    cluster::read_fabric,
    commands::EXIT_DIFFERENT,
    input::CliError,
    output::{Document, Output, print},
};

#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// Fabric document of what was planned; - for standard input
    intended: PathBuf,
    /// Fabric document of what is there; - for standard input
    observed: PathBuf,
    /// Compare cables by their nodes alone, for a plan whose port names are not the devices'; ports that a document does not name
    /// are matched by their nodes anyway
    #[arg(long)]
    ignore_ports: bool,
    /// Output format
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
    let document = Document { schema: "antiphase.fabric-diff/v1", answer: &found };
    print(&args.output.render(&document, summary)?)?;
    // A difference is a result and no failure, so it has an exit code of its own for scripts.
    Ok(if found.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_DIFFERENT) })
}
