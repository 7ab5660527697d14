//! `antiphase completions` and `antiphase man`: made from the same definitions as the commands.

use std::{fs, path::PathBuf, process::ExitCode};

use clap::CommandFactory as _;

use crate::{input::CliError, output::print};

#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// Which shell
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    /// Folder for the pages; made if it is missing
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

pub(crate) fn completions(args: &CompletionsArgs) -> Result<ExitCode, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut super::Args::command(), "antiphase", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn man(args: &ManArgs) -> Result<ExitCode, CliError> {
    let failed = |e: std::io::Error| CliError::Failure(format!("{}: {e}", args.folder.display()));
    fs::create_dir_all(&args.folder).map_err(failed)?;
    clap_mangen::generate_to(super::Args::command(), &args.folder).map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}
