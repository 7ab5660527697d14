//! `antiphase completions` and `antiphase man`: made from the same definitions as the commands of all programs.

use std::{fs, io, path::PathBuf, process::ExitCode};

use clap::{Command, CommandFactory as _, ValueEnum};
use clap_mangen::Man;

use crate::{input::CliError, output::print};

#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// Which shell
    #[arg(value_enum)]
    shell: clap_complete::Shell,
    /// Which program
    #[arg(value_enum, default_value = "antiphase")]
    program: Program,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    /// Folder for the pages; made if it is missing
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// The programs that people call by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Program {
    #[value(name = "antiphase")]
    Antiphase,
    #[value(name = "antiphase-topology")]
    Topology,
    #[value(name = "antiphase-agent")]
    Agent,
    #[value(name = "antiphase-verbs")]
    Verbs,
}

/// A row of a manual page: a code or a file, and what it says or holds.
type Row = (&'static str, &'static str);

impl Program {
    fn command(self) -> Command {
        match self {
            Self::Antiphase => super::Args::command(),
            Self::Topology => server::Args::command(),
            Self::Agent => agent::args::Args::command(),
            Self::Verbs => verbs::args::Args::command(),
        }
    }

    fn exit_codes(self) -> &'static [Row] {
        match self {
            Self::Antiphase => &[
                ("0", "Done."),
                ("1", "Failure."),
                ("2", "Usage or bad input; one line names the file, the place and the value."),
                ("3", "A loop in paper mode (plan, solve)."),
                ("4", "fabric diff found differences."),
                ("5", "No candidate reaches --min-score (plan)."),
            ],
            Self::Topology => &[
                ("0", "Stopped by SIGTERM or SIGINT; all that was begun was answered."),
                ("1", "Failure: the state file, the address."),
                ("2", "A configuration, a fabric document or an option that cannot be taken; one line says where."),
                ("SIGABRT", "A vital thread has panicked; what was acknowledged is kept."),
            ],
            Self::Agent => &[
                ("0", "Stopped by SIGTERM or SIGINT; the pages are taken back."),
                ("1", "Failure: the directory of the pages, the address of the metrics."),
                ("2", "A configuration that cannot be taken; one line names file, key and value."),
            ],
            Self::Verbs => &[
                ("0", "Done."),
                ("1", "Failure."),
                ("2", "Usage or bad input, such as a device or a GID that is not there."),
                ("3", "The library is missing: libibverbs1, and ibverbs-providers for drivers."),
                ("4", "The kernel has no support for RDMA: ib_uverbs is not loaded."),
                ("5", "There is no device: the driver is not loaded, or the library has no part for it."),
            ],
        }
    }

    fn files(self) -> &'static [Row] {
        match self {
            Self::Antiphase => &[("/run/antiphase", "Schedule pages of this host, which gate exec and gate status read.")],
            Self::Topology => &[
                ("/etc/antiphase/antiphase-topology.toml", "The configuration of the packages, with every key. SIGHUP reads it again."),
                ("/var/lib/antiphase/topology.redb", "The state file: fabric, jobs, plan."),
            ],
            Self::Agent => &[
                ("/etc/antiphase/antiphase-agent.toml", "The configuration, with every key. SIGHUP reads it again."),
                ("/run/antiphase", "Schedule pages, reports of gates, and the socket of turns."),
            ],
            Self::Verbs => &[
                ("libibverbs.so.1", "The library, loaded at the start; --library names another."),
                ("/sys/class/infiniband", "Where the kernel lists its devices; --sys names another tree."),
                ("/run/antiphase", "Schedule pages of this host, which write follows with --job or ANTIPHASE_JOB."),
            ],
        }
    }
}

pub(crate) fn completions(args: &CompletionsArgs) -> Result<ExitCode, CliError> {
    let mut command = args.program.command();
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn man(args: &ManArgs) -> Result<ExitCode, CliError> {
    let failed = |e: io::Error| CliError::Failure(format!("{}: {e}", args.folder.display()));
    fs::create_dir_all(&args.folder).map_err(failed)?;
    for program in Program::value_variants() {
        let mut command = program.command().disable_help_subcommand(true);
        command.build();
        pages(*program, &command, args).map_err(failed)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The page of a command, and those of its subcommands.
fn pages(program: Program, command: &Command, args: &ManArgs) -> io::Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        pages(program, below, args)?;
    }
    let page = Man::new(command.clone()).manual("Antiphase");
    let mut text = Vec::new();
    page.render(&mut text)?;
    section(&mut text, "EXIT STATUS", program.exit_codes());
    section(&mut text, "FILES", program.files());
    let others = Program::value_variants().iter().filter(|other| **other != program);
    let names: Vec<String> = others.map(|other| format!("\\fB{}\\fR(1)", escaped(other.command().get_name()))).collect();
    text.extend_from_slice(format!(".SH \"SEE ALSO\"\n{}\n", names.join(", ")).as_bytes());
    fs::write(args.folder.join(page.get_filename()), text)
}

/// A section of tagged paragraphs.
fn section(page: &mut Vec<u8>, heading: &str, rows: &[Row]) {
    page.extend_from_slice(format!(".SH \"{heading}\"\n").as_bytes());
    for (tag, text) in rows {
        page.extend_from_slice(format!(".TP\n\\fB{}\\fR\n{}\n", escaped(tag), escaped(text)).as_bytes());
    }
}

/// A hyphen that can be copied from the page, which in roff's own would be a typographic one.
fn escaped(text: &str) -> String {
    text.replace('-', "\\-")
}
