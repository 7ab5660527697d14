//! `antiphase serve`, `pki` and `gate`: the parts of the live system that this one program can also be.

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

use clap::{Args, Subcommand};

use crate::{input::CliError, output, table::Table};

/// Runs the topology service in the foreground; the same as the program `antiphase-topology`.
pub(crate) fn serve(args: &server::Args) -> ExitCode {
    server::run(args)
}

/// Makes and shows certificates.
pub(crate) fn pki(command: &server::pki::Command) -> Result<ExitCode, CliError> {
    let told = |e: server::pki::PkiError| if e.is_input() { CliError::Usage(e.to_string()) } else { CliError::Failure(e.to_string()) };
    output::print(&command.run().map_err(told)?)?;
    Ok(ExitCode::SUCCESS)
}

/// The gate for programs that cannot be changed.
#[derive(Debug, Subcommand)]
pub(crate) enum GateCommand {
    /// Wait for the job's slot once, then become PROGRAM
    Exec(ExecArgs),
    /// Say what a gate would do now, and why: what is held, what is not, and what to do about it
    Status(StatusArgs),
    /// Load a gate's library and print its version and that of its interface: `antiphase doctor` asks so, in a process of its own
    #[command(hide = true)]
    Library {
        /// A file, or a name that the loader finds
        file: OsString,
    },
}

/// What a gate of this environment finds. Exit code 1 where something keeps it from holding.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Name of the job [default: $ANTIPHASE_JOB; without it all pages of the host]
    #[arg(long, value_name = "NAME")]
    job: Option<String>,
    /// Where the agent keeps its schedule pages [default: $ANTIPHASE_DIR, else /run/antiphase]
    #[arg(long, value_name = "DIRECTORY")]
    dir: Option<PathBuf>,
}

/// The options are those of `gate::exec::SYNOPSIS`.
const GATE_EXEC_HELP: &str = "\
Wait for the job's slot once, then become PROGRAM

Usage: antiphase gate exec [--job NAME] [--dir DIRECTORY] [--all-ranks] [--] PROGRAM [ARGUMENT]...

  --job NAME       Name of the job, as the plan has it [default: $ANTIPHASE_JOB; without it the program starts at once]
  --dir DIRECTORY  Where the agent keeps its schedule pages [default: $ANTIPHASE_DIR, else /run/antiphase]
  --all-ranks      Wait also in processes whose rank, as the launcher tells it, is not 0

The gate delays the start of the program and nothing in it, by at most one period. Without a job, a page or a fresh plan
the program starts at once.";

/// What follows is passed on as it is; see `agent/gate` for the options.
#[derive(Debug, Args)]
#[command(disable_help_flag = true, after_help = gate::exec::SYNOPSIS)]
pub(crate) struct ExecArgs {
    /// Options, then the program and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT", required = true)]
    arguments: Vec<OsString>,
}

pub(crate) fn gate(command: GateCommand) -> Result<ExitCode, CliError> {
    match command {
        GateCommand::Exec(args) => Ok(exec(args)),
        GateCommand::Status(args) => status(args),
        GateCommand::Library { file } => {
            let library = gate::library::load(&file).map_err(CliError::Failure)?;
            output::print(&format!("{} {}", library.version, library.abi))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn status(args: StatusArgs) -> Result<ExitCode, CliError> {
    let library = std::env::var_os("ANTIPHASE_GATE_LIBRARY").filter(|path| !path.is_empty()).map(PathBuf::from);
    let (mut config, unnamed) = match gate::Config::from_env() {
        Ok(config) => (config, None),
        Err(error) => (gate::Config::from_env_without_job(), Some(error)),
    };
    let mut around = gate::status::Surroundings { unnamed, library };
    if let Some(job) = &args.job {
        // Who names a job asks about that one, whatever the environment says.
        config.job = Some(gate::JobName::try_new(job).map_err(|e| CliError::Usage(format!("--job: {e}")))?);
        around.unnamed = None;
    }
    config.directory = args.dir.unwrap_or(config.directory);
    let found = gate::status::findings(&config, &around, gate::now());
    let mut table = Table::new(&["WHAT", "FOUND"]);
    for one in &found {
        table.row([one.of.clone(), one.to_string()]);
    }
    output::print(&table.render())?;
    let held = !found.iter().any(|one| one.is_obstacle);
    Ok(if held { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn exec(args: ExecArgs) -> ExitCode {
    // Everything after `exec` is the gate's, so clap does not see a call for help.
    if args.arguments.first().is_some_and(|first| first == "--help" || first == "-h") {
        return match output::print(GATE_EXEC_HELP) {
            Ok(()) => ExitCode::SUCCESS,
            Err(e) => e.exit_code(),
        };
    }
    // On success the gate becomes the other program and never returns here; a code is always a failure to start it.
    let code = gate::exec::run(args.arguments);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
