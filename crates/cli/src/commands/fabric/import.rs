//! `antiphase fabric import`: other people's documents to a native fabric on standard output, what
//! is odd about them to standard error.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, ValueEnum};
use fabric::{
    FabricError, Finding,
    import::{self, Assumption, BuildOptions, Imported},
};

use units::OneLine;

use super::Form;
use crate::{
    input::{CliError, read_document},
    output::{print, say, write_files},
};

/// Findings of one kind that are printed; the rest is counted.
const LINES_PER_KIND: usize = 10;

const EXAMPLES: &str = "\
EXAMPLES
  Slurm's tree names no capacities, so somebody has to state them:
    antiphase fabric import slurm-yaml topology.yaml --assume-capacity host-leaf=200G,leaf-spine=400G*2 --out fabric.yaml
  What the wires say, one document per system (lldpctl -f json):
    antiphase fabric import lldp lldp/*.json --hosts 'gpu-*' --out observed.yaml
  LLDP for the cables and SONiC for the capacities:
    antiphase fabric import lldp lldp/*.json --with sonic=leaf1.json --with sonic=leaf2.json --out fabric.yaml
  From a pipe; NAME=- says whose document it is:
    ssh leaf1 lldpctl -f json | antiphase fabric import lldp leaf1=-";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ImportArgs {
    /// Format of the files
    #[arg(value_enum)]
    format: Format,
    /// Documents; - is standard input, and NAME=FILE names the system that an LLDP or SONiC
    /// document is about (else the file's name without extension)
    #[arg(required = true, value_name = "[NAME=]FILE")]
    files: Vec<PathBuf>,
    /// A document of another format, merged with the rest (may be repeated)
    #[arg(long = "with", value_name = "FORMAT=[NAME=]FILE", value_parser = parse_with)]
    with: Vec<(Format, PathBuf)>,
    /// Capacity, and parallel cables, where no document states them: host-leaf=50G,
    /// leaf-spine=400G*4 (tiers: host, leaf, spine, core, tierN; may be repeated)
    #[arg(long, value_name = "TIER-TIER=RATE[*CABLES]", value_delimiter = ',')]
    assume_capacity: Vec<Assumption>,
    /// Names of hosts, with * and ? (may be repeated)
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    hosts: Vec<String>,
    /// Which topology of a Slurm topology.yaml to read [default: the one with cluster_default, else the first]
    #[arg(long, value_name = "NAME")]
    topology: Option<String>,
    /// Name of the fabric [default: the first file's name without extension]
    #[arg(long)]
    name: Option<String>,
    /// Write the fabric here instead of to standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    form: Form,
    /// Exit with 1 when there is any finding; nothing is written then
    #[arg(long)]
    strict: bool,
}

/// Formats that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Slurm topology.yaml
    SlurmYaml,
    /// Slurm topology.conf
    SlurmConf,
    /// lldpctl -f json or json0, one file per host or switch
    Lldp,
    /// SONiC config_db.json, one file per switch
    Sonic,
    /// Topograph graph JSON
    Topograph,
    /// topo.csv of the Lingjun data set
    Lingjun,
    /// containerlab *.clab.yml
    Containerlab,
}

/// `sonic=leaf1.json`.
fn parse_with(text: &str) -> Result<(Format, PathBuf), String> {
    let (format, file) = text.split_once('=').ok_or("expected FORMAT=FILE")?;
    let unknown = |_| {
        let names = Format::value_variants().iter().filter_map(ValueEnum::to_possible_value).map(|value| value.get_name().to_owned());
        format!("{format:?} is no format; expected one of {}", names.collect::<Vec<_>>().join(", "))
    };
    Ok((Format::from_str(format, false).map_err(unknown)?, file.into()))
}

/// Runs the command.
pub(crate) fn run(args: &ImportArgs) -> Result<ExitCode, CliError> {
    let mut parts = Vec::new();
    let mut reports = Vec::new();
    let documents = args.files.iter().map(|file| (args.format, file)).chain(args.with.iter().map(|(format, file)| (*format, file)));
    for (format, argument) in documents {
        let (system, file) = system_and_file(argument);
        let text = read_document(&file)?;
        let read = |result: Result<Imported, FabricError>| result.map_err(|e| CliError::input(&file, e));
        parts.push(match format {
            Format::SlurmYaml => read(import::slurm::topology_yaml(&text, args.topology.as_deref()))?,
            Format::SlurmConf => read(import::slurm::topology_conf(&text))?,
            Format::Sonic => read(import::sonic::config_db(&system, &text))?,
            Format::Topograph => read(import::topograph::graph(&text))?,
            Format::Lingjun => read(import::lingjun::topo_csv(&text))?,
            Format::Containerlab => read(import::containerlab::topology(&text))?,
            // LLDP tables name each other's chassis, so they are joined together, below.
            Format::Lldp => {
                reports.push(import::lldp::report(&system, &text).map_err(|e| CliError::input(&file, e))?);
                continue;
            }
        });
    }
    // What is wrong with all documents together has no file of its own, so the first one is named.
    let together = |e: FabricError| CliError::input(&args.files[0], e);
    if !reports.is_empty() {
        parts.push(import::lldp::join(reports).map_err(together)?);
    }
    let options = BuildOptions {
        name: args.name.clone().unwrap_or_else(|| system_and_file(&args.files[0]).0),
        hosts: args.hosts.clone(),
        assumptions: args.assume_capacity.clone(),
    };
    let (fabric, findings) = Imported::merge(parts).and_then(|merged| merged.into_fabric(&options)).map_err(together)?;
    // Findings are printed before `--strict` decides, because with it they are all that the user gets.
    print_findings(&findings);
    if args.strict && !findings.is_empty() {
        return Err(CliError::Failure(format!("{} findings, and --strict allows none", findings.len())));
    }
    let document = args.form.render(&fabric);
    match args.out.as_deref() {
        Some(file) => write_files(&[(file, &document)])?,
        None => print(&document)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// `NAME=FILE`, unless a file of that whole name exists; else the file and its stem.
fn system_and_file(argument: &Path) -> (String, PathBuf) {
    // A file whose own name holds `=` wins over the form NAME=FILE.
    if let Some((name, file)) = argument.to_str().and_then(|text| text.split_once('='))
        && !name.is_empty()
        && !argument.exists()
    {
        return (name.into(), file.into());
    }
    let stem = argument.file_stem().map_or_else(String::new, |stem| OsStr::to_string_lossy(stem).into_owned());
    (if stem == "-" { "stdin".into() } else { stem }, argument.to_path_buf())
}

/// Findings by kind with their number, at most [`LINES_PER_KIND`] lines of each.
fn print_findings(findings: &[Finding]) {
    let mut by_kind: BTreeMap<&str, Vec<&Finding>> = BTreeMap::new();
    for finding in findings {
        by_kind.entry(finding.kind).or_default().push(finding);
    }
    for (kind, list) in by_kind {
        say(&format!("{kind} ({}):", list.len()));
        for finding in list.iter().take(LINES_PER_KIND) {
            say(&format!("  {}", OneLine(&finding.message)));
        }
        if list.len() > LINES_PER_KIND {
            say(&format!("  and {} more", list.len() - LINES_PER_KIND));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_is_named_by_the_argument_or_the_file() {
        let named = |argument: &str| system_and_file(Path::new(argument));
        assert_eq!(named("lldp/gpu-01.json"), ("gpu-01".into(), "lldp/gpu-01.json".into()));
        assert_eq!(named("leaf1=dump.json"), ("leaf1".into(), "dump.json".into()));
        assert_eq!(named("-"), ("stdin".into(), "-".into()));
        assert_eq!(named("leaf1=-"), ("leaf1".into(), "-".into()));
    }

    #[test]
    fn another_format_is_named_before_the_file() {
        assert_eq!(parse_with("slurm-conf=topology.conf"), Ok((Format::SlurmConf, "topology.conf".into())));
        assert_eq!(parse_with("sonic=leaf1=a.json"), Ok((Format::Sonic, "leaf1=a.json".into())));
        assert!(parse_with("topology.conf").is_err());
        let unknown = parse_with("xml=a").unwrap_err();
        assert!(
            unknown.starts_with("\"xml\" is no format; expected one of slurm-yaml, ") && unknown.ends_with("containerlab"),
            "{unknown}"
        );
    }
}
