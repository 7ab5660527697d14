//! `antiphase doctor`: what is wrong with service and node, and what to do about it.
//!
//! Each look is work of its own with a bound: what hangs becomes a finding, and keeps nobody.

mod bounded;
mod certificates;
mod exposition;
mod finding;
mod nics;
mod node;
mod programs;
mod service;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use ::fabric::{native, summary::summarise};
use clap::Args;
use gate::{JobName, status::Surroundings};
use telemetry::Root;

use self::{bounded::begin, finding::Finding};
use super::live::{ServerArgs, counted};
use crate::{
    input::{CliError, DOCUMENT_BYTES_MAX},
    output::{self, Document, Output},
};

/// Longest time for the configurations, and then for everything else together: more than any look allows itself.
const PATIENCE: Duration = Duration::from_secs(8);
/// Longest time for the first look at the directory of the pages: with it and twice [`PATIENCE`] we are within 20 s.
const DIRECTORY_WITHIN: Duration = Duration::from_secs(2);
/// Where packages put the configurations.
const AGENT_CONFIG: &str = "/etc/antiphase/antiphase-agent.toml";
const SERVICE_CONFIG: &str = "/etc/antiphase/antiphase-topology.toml";

const AFTER_HELP: &str = "\
Looks at what is here: the service, and on a GPU host its agent, pages, gates, counters and RDMA devices.
Ends within 20 seconds, whatever does not answer.

Exit codes: 0 nothing is wrong; 1 something is; 2 usage, such as an address that is none.";

/// Say what is wrong, and what to do about it.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Fabric document to look at [default: that of the service's configuration]
    #[arg(long, value_name = "FILE")]
    fabric: Option<PathBuf>,
    /// The service's configuration [default: /etc/antiphase/antiphase-topology.toml, where it is there]
    #[arg(long, value_name = "FILE")]
    service_config: Option<PathBuf>,
    /// The agent's configuration [default: /etc/antiphase/antiphase-agent.toml, where it is there]
    #[arg(long, value_name = "FILE")]
    agent_config: Option<PathBuf>,
    /// Name of the job whose gate to look at [default: $ANTIPHASE_JOB]
    #[arg(long, value_name = "NAME")]
    job: Option<String>,
    /// Where the agent keeps its schedule pages [default: $ANTIPHASE_DIR, else as the agent's configuration says, else /run/antiphase]
    #[arg(long, value_name = "DIRECTORY")]
    dir: Option<PathBuf>,
    /// The gate's library [default: $ANTIPHASE_GATE_LIBRARY, else libantiphase_gate.so beside this program or where the loader finds it]
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
    /// The program antiphase-verbs [default: beside this program, else in PATH]
    #[arg(long, value_name = "FILE")]
    verbs: Option<PathBuf>,
    /// Form of the answer
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

pub(crate) fn run(args: &DoctorArgs) -> Result<ExitCode, CliError> {
    let report = finding::Report::new(findings(args)?, nics::CHECK_FIRST);
    let document = Document { schema: "antiphase.doctor/v1", answer: &report };
    output::print(&args.output.render(&document, || report.text())?)?;
    Ok(if report.wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The configurations of this machine, as far as it has them.
#[derive(Debug, Default)]
struct Configs {
    agent: Option<agent::config::Config>,
    service: Option<server::config::Config>,
    found: Vec<Finding>,
}

impl Configs {
    fn read(agent: Option<PathBuf>, service: Option<PathBuf>) -> Self {
        let there = |named: Option<PathBuf>, usual: &str| named.or_else(|| Some(PathBuf::from(usual)).filter(|file| file.exists()));
        let mut configs = Self::default();
        let mut keep = |what: &str, error: String| {
            let fix = format!("mend it; `{what} config check` reads it the same way");
            configs.found.push(Finding::wrong("configuration", error, fix));
        };
        if let Some(file) = there(agent, AGENT_CONFIG) {
            configs.agent = agent::config::Config::load(&file).map_err(|e| keep("antiphase-agent", e.to_string())).ok();
        }
        if let Some(file) = there(service, SERVICE_CONFIG) {
            // The environment of this shell is not that of the service.
            let loaded = server::config::Config::load(Some(&file), &|_| None, &server::config::Overrides::default());
            configs.service = loaded.map_err(|e| keep("antiphase-topology", e.to_string())).ok();
        }
        configs
    }

    /// Files of certificates, with what each is.
    fn certificates(&self) -> Vec<(String, PathBuf)> {
        let agent = self.agent.as_ref().and_then(|config| config.service.tls.as_ref());
        let agent = agent.map(|tls| [("agent's authority", &tls.ca), ("agent's certificate", &tls.cert)]);
        let service = self.service.as_ref().and_then(|config| config.tls.as_ref());
        let service = service.map(|tls| [("service's certificate", &tls.certificate), ("authority of clients", &tls.client_ca)]);
        agent.into_iter().chain(service).flatten().map(|(what, file)| (what.to_owned(), file.clone())).collect()
    }

    /// The file of lists of revoked certificates.
    fn revoked(&self) -> Option<PathBuf> {
        self.service.as_ref()?.tls.as_ref()?.revoked.clone()
    }
}

/// What each look needs of the options and the environment.
struct Here {
    gate: gate::Config,
    around: Surroundings,
    is_node: bool,
    job: Option<String>,
}

impl Here {
    fn of(args: &DoctorArgs, configs: &Configs) -> Result<Self, CliError> {
        let (mut gate, unnamed) = match gate::Config::from_env() {
            Ok(config) => (config, None),
            Err(error) => (gate::Config::from_env_without_job(), Some(error)),
        };
        let mut around = Surroundings { unnamed, library: None };
        if let Some(job) = &args.job {
            gate.job = Some(JobName::try_new(job).map_err(|e| CliError::Usage(format!("--job: {e}")))?);
            around.unnamed = None;
        }
        let is_default = std::env::var_os("ANTIPHASE_DIR").is_none_or(|dir| dir.is_empty());
        let configured = configs.agent.as_ref().map(|config| config.page_dir.clone()).filter(|_| is_default);
        gate.directory = args.dir.clone().or(configured).unwrap_or(gate.directory);
        let job = gate.job.as_ref().map(|job| job.as_str().to_owned());
        let directory = gate.directory.clone();
        let is_node = configs.agent.is_some()
            || args.dir.is_some()
            || !is_default
            || job.is_some()
            || is_there(move || directory.is_dir(), DIRECTORY_WITHIN);
        Ok(Self { gate, around, is_node, job })
    }
}

fn findings(args: &DoctorArgs) -> Result<Vec<Finding>, CliError> {
    let deadline = Instant::now() + PATIENCE;
    let (agent, service) = (args.agent_config.clone(), args.service_config.clone());
    let configs = begin(move || Configs::read(agent, service)).by(deadline);
    let configs = configs.unwrap_or_else(|| Configs { found: vec![hangs("configuration")], ..Configs::default() });
    let here = Here::of(args, &configs)?;

    // All begin at once, so that together they take as long as the slowest; what they found is told in this order.
    let deadline = Instant::now() + PATIENCE;
    let fabric = args.fabric.clone().or_else(|| configs.service.as_ref()?.fabric.clone());
    let fabric = begin(move || fabric.map(|file| document(&file)));
    let own = args.server.certificates().map(|(what, file)| (what.to_owned(), file.to_owned()));
    let files: Vec<_> = own.chain(configs.certificates()).collect();
    let revoked = configs.revoked();
    let certificates = begin(move || certificates::look(&files, revoked.as_deref()));
    let has_service = configs.agent.as_ref().is_some_and(|config| config.service.address.is_some());
    let us = service::Us { host: configs.agent.as_ref().map(|config| config.host.clone()), has_service, job: here.job.clone() };
    let server = args.server.clone();
    let service = begin(move || service::look(&server, &us));
    let Here { gate, around, is_node, .. } = here;
    let asked = configs.agent.clone();
    let agent = begin(move || asked.as_ref().map(node::agent).unwrap_or_default());
    let directory = gate.directory.clone();
    let pages = begin(move || if is_node { node::pages(&directory) } else { Vec::new() });
    let gates = begin(move || if is_node { node::gates(&gate, &around) } else { vec![no_node(&gate.directory)] });
    let counted = configs.agent.as_ref().map(|config| config.counters.clone()).unwrap_or_default();
    let counters = begin(move || if is_node { node::counters(&Root::default(), &counted) } else { Vec::new() });
    let library =
        args.library.clone().or_else(|| std::env::var_os("ANTIPHASE_GATE_LIBRARY").filter(|path| !path.is_empty()).map(PathBuf::from));
    let is_asked = is_node || library.is_some();
    let library = begin(move || is_asked.then(|| programs::library(library)));
    let verbs = args.verbs.clone();
    let is_asked = is_node || verbs.is_some();
    let verbs = begin(move || if is_asked { programs::verbs(verbs) } else { Vec::new() });

    let mut found = configs.found;
    let or_hangs = |found: Option<Vec<Finding>>, check| found.unwrap_or_else(|| vec![hangs(check)]);
    found.extend(or_hangs(fabric.by(deadline).map(|one| one.into_iter().collect()), "fabric"));
    found.extend(or_hangs(certificates.by(deadline), "certificate"));
    found.extend(service.by(deadline).unwrap_or_else(|| Ok(vec![hangs("service")]))?);
    found.extend(or_hangs(agent.by(deadline), "agent"));
    found.extend(or_hangs(pages.by(deadline), "pages"));
    found.extend(or_hangs(gates.by(deadline), "gate"));
    found.extend(or_hangs(library.by(deadline).map(|one| one.into_iter().collect()), "library"));
    found.extend(or_hangs(counters.by(deadline), "counters"));
    found.extend(or_hangs(verbs.by(deadline), "verbs"));
    Ok(found)
}

/// Whether a directory is there. One that does not say so in time is: the looks at it then say that it hangs.
fn is_there(look: impl FnOnce() -> bool + Send + 'static, patience: Duration) -> bool {
    begin(look).by(Instant::now() + patience).unwrap_or(true)
}

fn hangs(check: &'static str) -> Finding {
    let says = format!("no answer within {} s", PATIENCE.as_secs());
    Finding::wrong(check, says, "a file system or a driver hangs: look at dmesg and at mounts of other machines")
}

fn no_node(directory: &Path) -> Finding {
    let says =
        format!("this machine is taken for no node: it has no agent's configuration, no {} and no ANTIPHASE_JOB", directory.display());
    Finding::note("gate", says, "run this on a GPU host, or name --dir or --agent-config")
}

/// A fabric document.
fn document(file: &Path) -> Finding {
    let shown = file.display();
    let read = files::read_text(file, DOCUMENT_BYTES_MAX).map_err(|e| e.to_string());
    let fabric = match read.and_then(|text| native::read(&text).map_err(|e| e.to_string())) {
        Ok(fabric) => summarise(&fabric),
        Err(error) => {
            return Finding::wrong("fabric", format!("{shown}: {error}"), "mend the line; `antiphase fabric show` reads it the same way");
        }
    };
    let parts = [(fabric.hosts, "host"), (fabric.switches, "switch"), (fabric.links, "link")];
    let says = format!("{shown}: {}", parts.map(|(count, what)| counted(count, what)).join(", "));
    if fabric.unknown_capacities > 0 {
        let says = format!("{says}, {} of them without a capacity", fabric.unknown_capacities);
        Finding::wrong("fabric", says, "state it, or import again with --assume-capacity: links without one cannot be scored")
    } else if fabric.pieces > 1 {
        Finding::wrong(
            "fabric",
            format!("{says}, in {} pieces that no cable joins", fabric.pieces),
            "import what names the missing cables, such as LLDP of the other switches",
        )
    } else if fabric.one_way_links > 0 {
        Finding::note("fabric", format!("{says}, {} known in one direction only", fabric.one_way_links), "import LLDP of the other end too")
    } else {
        Finding::well("fabric", says)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_hangs_keeps_nobody() {
        let slow = || {
            std::thread::sleep(Duration::from_secs(20));
            false
        };
        let began = Instant::now();
        assert!(is_there(slow, Duration::from_millis(50)));
        assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
        assert!(!is_there(|| Path::new("/nowhere/pages").is_dir(), PATIENCE));
    }
}
