//! Who trains: the lab's own ranks, or PyTorch's DistributedDataParallel with the gate's Python package, over gloo or over NCCL.
//!
//! Where things are, for PyTorch. The interpreter: `ANTIPHASE_PYTHON`, else the first of `python3` and Debian's own that has
//! PyTorch with what is to be communicated with. The package `antiphase_gate`: in the folder `ANTIPHASE_GATE_PYTHON`, else in the checkout that this program was
//! built in, else where the interpreter finds it. Its library: `ANTIPHASE_GATE_LIBRARY`, else beside this program, else where the
//! package finds it. What is tried is what is used: the probe loads all three.

use std::{
    env, fs,
    io::ErrorKind,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result};

use crate::{
    case::{Case, CaseError},
    control::By,
    hold::Hold,
    management,
    network::{Lab, RANK_LABEL},
    program::Program,
    rank::RankPhase,
    record::trace_path,
    tool,
    wiring::Namespace,
};

/// The rank's program, which goes into the lab's folder.
const SCRIPT: &str = include_str!("../python/ddp_rank.py");
/// Interpreters to try. The second is Debian's, which has Debian's python3-torch also where another comes first in the path.
const INTERPRETERS: [&str; 2] = ["python3", "/usr/bin/python3"];
/// Tries the way a rank goes, prints the version of PyTorch, and says on one line what is missing and what to do.
const PROBE: &str = r#"
import sys
try:
    import torch, torch.distributed
except Exception as error:
    sys.exit("no PyTorch (%s): install Debian's python3-torch, or name an interpreter that has it with ANTIPHASE_PYTHON" % error)
backend = sys.argv[1]
if not hasattr(torch.distributed, {"gloo": "ProcessGroupGloo", "nccl": "ProcessGroupNCCL"}[backend]):
    sys.exit("PyTorch %s has no %s: name another interpreter with ANTIPHASE_PYTHON" % (torch.__version__, backend))
if backend == "nccl" and not torch.cuda.is_available():
    sys.exit("PyTorch %s sees no GPU: `--trainer ddp` needs none" % torch.__version__)
try:
    import antiphase_gate.pytorch
except Exception as error:
    sys.exit("no antiphase_gate (%s): install the package, or name the folder that holds it with ANTIPHASE_GATE_PYTHON" % error)
try:
    antiphase_gate._library.load()
except Exception as error:
    sys.exit("no library of the gate (%s): name libantiphase_gate.so with ANTIPHASE_GATE_LIBRARY" % error)
print(torch.__version__)
"#;
/// NCCL as one ring over one connection, with as many bytes as the gradient has: no shared memory, no InfiniBand, no protocol that sends
/// flags with its data.
const NCCL: [(&str, &str); 9] = [
    ("NCCL_ALGO", "Ring"),
    ("NCCL_PROTO", "Simple"),
    ("NCCL_MIN_NCHANNELS", "1"),
    ("NCCL_MAX_NCHANNELS", "1"),
    ("NCCL_NSOCKS_PERTHREAD", "1"),
    ("NCCL_SOCKET_NTHREADS", "1"),
    ("NCCL_P2P_DISABLE", "1"),
    ("NCCL_SHM_DISABLE", "1"),
    ("NCCL_IB_DISABLE", "1"),
];
/// Folders above the program in which a checkout is looked for: `target/debug/deps` is the deepest that cargo makes.
const CHECKOUT_LEVELS: usize = 4;

/// Who trains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Trainer {
    /// The lab's own ranks: rings over TCP.
    #[default]
    Native,
    /// PyTorch's DistributedDataParallel over gloo, gated by the Python package.
    Ddp,
    /// PyTorch's DistributedDataParallel over NCCL, with gradients on this machine's GPUs, which the ranks share.
    Nccl,
}

impl Trainer {
    /// What PyTorch communicates with.
    const fn backend(self) -> &'static str {
        match self {
            Self::Native | Self::Ddp => "gloo",
            Self::Nccl => "nccl",
        }
    }
}

/// A Python that can train.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Torch {
    trainer: Trainer,
    python: String,
    version: String,
    /// Variables by which it finds the package and its library.
    variables: Vec<(&'static str, PathBuf)>,
}

/// Knows how ranks are started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Starter {
    program: Program,
    torch: Option<Torch>,
}

impl Starter {
    /// For a trainer; `programs` is where the gate's library may be, besides beside this program.
    ///
    /// # Errors
    /// A [`CaseError`] says what PyTorch's trainer lacks.
    pub fn find(program: &Program, trainer: Trainer, programs: Option<&Path>) -> Result<Self> {
        let torch = match trainer {
            Trainer::Native => None,
            Trainer::Ddp | Trainer::Nccl => Some(Torch::find(trainer, &variables(program, programs))?),
        };
        Ok(Self { program: program.clone(), torch })
    }

    /// Whether it can play a case.
    ///
    /// # Errors
    /// A [`CaseError`] names the job that PyTorch does not play.
    pub fn check(&self, case: &Case) -> Result<(), CaseError> {
        let Some(torch) = &self.torch else { return Ok(()) };
        let Some(job) = case.jobs.iter().find(|job| job.phases.len() > 1) else { return Ok(()) };
        // DistributedDataParallel sends while the backward pass computes, which is one Up phase.
        let problem = format!("job {:?} has {} phases; PyTorch plays one", job.id, job.phases.len());
        Err(CaseError::Value { place: torch.place(), problem })
    }

    /// Version of PyTorch, if that trains.
    #[must_use]
    pub fn torch(&self) -> Option<&str> {
        self.torch.as_ref().map(|torch| torch.version.as_str())
    }

    /// What PyTorch communicates with, if that trains.
    pub(crate) fn backend(&self) -> Option<&'static str> {
        self.torch.as_ref().map(|torch| torch.trainer.backend())
    }

    /// Makes the lab's folder ready for ranks of these jobs, before any of them is started: what earlier ones left would
    /// disturb them, and an interpreter that starts reads the rank's program.
    pub(crate) fn prepare(&self, lab: &Lab, jobs: &[usize]) -> Result<()> {
        for &job in jobs {
            // A trace or a store of an earlier take would be taken for this one's: gloo's store is a file in which ranks find each other.
            let id = &lab.case.jobs[job].id;
            for path in [trace_path(&lab.record().folder(), id), store(lab, id)] {
                match fs::remove_file(&path) {
                    Err(e) if e.kind() != ErrorKind::NotFound => return Err(e).with_context(|| path.display().to_string()),
                    _ => {}
                }
            }
        }
        // The script is written anew each time, so that a rank never runs that of another build.
        let script = script(lab);
        if self.torch.is_some() { fs::write(&script, SCRIPT).with_context(|| script.display().to_string()) } else { Ok(()) }
    }

    /// The command that is one rank of a job, to be started in its namespace; `addresses` are those of its ranks. Every take draws other jitter from another seed, or
    /// repeats would not be repeats; ranks of one job share it.
    pub(crate) fn command(&self, lab: &Lab, (job, rank): (usize, usize), seed: u64, by: By<'_>, addresses: &[Ipv4Addr]) -> Command {
        let spec = &lab.case.jobs[job];
        let trace = trace_path(&lab.record().folder(), &spec.id).display().to_string();
        let gates = if let By::Gates(gates) = by { Some((gates.folder.join(&spec.id), gates.hold)) } else { None };
        let mut options: Vec<(&str, String)> =
            vec![("--rank", rank.to_string()), ("--jitter-ns", spec.jitter.0.to_string()), ("--seed", (seed ^ job as u64).to_string())];
        let mut command = if let Some(torch) = &self.torch {
            options.extend([("--ranks", spec.hosts.len().to_string()), ("--store", store(lab, &spec.id).display().to_string())]);
            options.push(("--trace", trace));
            options.extend(
                spec.phases
                    .first()
                    .into_iter()
                    .flat_map(|phase| [("--bytes", phase.bytes.0.to_string()), ("--compute-ns", phase.compute.0.to_string())]),
            );
            let mut command = Command::new(&torch.python);
            torch.environment(&mut command);
            command.arg(script(lab)).args(["--backend", torch.trainer.backend()]).env("RANK", rank.to_string());
            command.env("GLOO_SOCKET_IFNAME", RANK_LABEL);
            if torch.trainer == Trainer::Nccl {
                let host = &lab.wiring.namespaces[spec.hosts[rank].index()];
                command.envs(NCCL).env("NCCL_HOSTID", &host.name).env("NCCL_SOCKET_IFNAME", all_but_the_rank(host));
            }
            match gates {
                // The user's own `ANTIPHASE_GATE=off` would be inherited and open the gate that is measured.
                Some((folder, _)) => command.env("ANTIPHASE_JOB", &spec.id).env("ANTIPHASE_DIR", folder).env_remove("ANTIPHASE_GATE"),
                None => command.env("ANTIPHASE_GATE", "off"),
            };
            command
        } else {
            options.extend([("--job", spec.id.clone()), ("--listen", addresses[rank].to_string())]);
            options.push(("--successor", addresses[(rank + 1) % addresses.len()].to_string()));
            options.extend(spec.phases.iter().map(|p| ("--phase", RankPhase { bytes: p.bytes.0, compute_ns: p.compute.0 }.to_string())));
            let mut command = Command::new(&self.program.path);
            command.args(&self.program.prefix).arg("rank");
            // The leader alone passes a gate and writes a trace; the other ranks follow its bytes.
            if rank == 0 {
                options.push(("--trace", trace));
                if let Some((folder, hold)) = gates {
                    options.push(("--gate", folder.display().to_string()));
                    command.args((hold == Hold::Turns).then_some("--each-phase"));
                }
                if let By::Drift(plan) = by {
                    let (period, shift) = plan.jobs[job].drift;
                    options.push(("--drift", format!("{}:{}", period.0, shift.0)));
                }
            }
            if let By::Congestion(name) = by {
                options.push(("--congestion", name.to_owned()));
            }
            command
        };
        options.iter().for_each(|(key, value)| {
            command.args([key, value.as_str()]);
        });
        command
    }
}

impl Torch {
    fn find(trainer: Trainer, variables: &[(&'static str, PathBuf)]) -> Result<Self> {
        // A named interpreter is the only one tried: falling back to another would hide a typing error.
        let named = env::var("ANTIPHASE_PYTHON").ok().filter(|name| !name.is_empty());
        let interpreters = named.as_deref().map_or(INTERPRETERS.to_vec(), |name| vec![name]);
        let mut problems: Vec<String> = Vec::new();
        for python in interpreters {
            // The probe runs with the same variables as a rank will, so what it found is what ranks find.
            let mut torch = Self { trainer, python: python.to_owned(), version: String::new(), variables: variables.to_vec() };
            let mut probe = Command::new(python);
            torch.environment(&mut probe);
            match probe.args(["-W", "ignore", "-c", PROBE, trainer.backend()]).stdin(Stdio::null()).output() {
                Ok(said) if said.status.success() => {
                    torch.version = String::from_utf8_lossy(&said.stdout).trim().to_owned();
                    return Ok(torch);
                }
                Ok(said) => problems.push(format!("{python}: {}", last_line(&String::from_utf8_lossy(&said.stderr)))),
                Err(e) => problems.push(format!("{python}: {e}")),
            }
        }
        Err(CaseError::Value { place: place(trainer), problem: problems.join("; ") }.into())
    }

    fn place(&self) -> String {
        place(self.trainer)
    }

    fn environment(&self, command: &mut Command) {
        for (name, value) in &self.variables {
            command.env(name, value);
        }
        // One thread per rank, as the lab's machine has fewer cores than ranks; and nothing is written beside the package.
        command.env("OMP_NUM_THREADS", "1").env("PYTHONDONTWRITEBYTECODE", "1");
    }
}

/// Where an interpreter is to look for the package and its library.
fn variables(program: &Program, programs: Option<&Path>) -> Vec<(&'static str, PathBuf)> {
    let mut variables = Vec::new();
    let here = program.path.parent();
    let package = env::var_os("ANTIPHASE_GATE_PYTHON").map(PathBuf::from).or_else(|| {
        let above = program.path.ancestors().skip(1).take(CHECKOUT_LEVELS);
        above.map(|folder| folder.join("agent/gate/python")).find(|folder| folder.join("antiphase_gate/__init__.py").is_file())
    });
    if let Some(package) = package {
        let others = env::var_os("PYTHONPATH").unwrap_or_default();
        // The package comes first, so that an installed one of another version does not win.
        let all = std::iter::once(package.clone()).chain(env::split_paths(&others).filter(|path| !path.as_os_str().is_empty()));
        variables.push(("PYTHONPATH", env::join_paths(all).map_or(package, PathBuf::from)));
    }
    // A library that the user names is inherited by the rank as it is.
    if env::var_os("ANTIPHASE_GATE_LIBRARY").is_none() {
        // Cargo leaves the library of a crate that others depend on in `deps`.
        let folders = programs.into_iter().chain(here).flat_map(|folder| [folder.to_owned(), folder.join("deps")]);
        if let Some(library) = folders.map(|folder| folder.join("libantiphase_gate.so")).find(|path| path.is_file()) {
            variables.push(("ANTIPHASE_GATE_LIBRARY", library));
        }
    }
    variables
}

/// The option that chose a trainer.
fn place(trainer: Trainer) -> String {
    use clap::ValueEnum as _;
    format!("--trainer {}", trainer.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned()))
}

/// Keeps NCCL to the address of the rank. Its device is a label of `lo`, and NCCL takes what follows a colon in a name for a port; so all
/// other devices are excluded, each by its whole name.
fn all_but_the_rank(host: &Namespace) -> String {
    let ports = host.ports.iter().map(|port| port.device.as_str());
    format!("^={}", ["lo", management::DEVICE].into_iter().chain(ports).collect::<Vec<_>>().join(","))
}

fn script(lab: &Lab) -> PathBuf {
    lab.record().folder().join("ddp_rank.py")
}

/// Where the ranks of a job find each other.
fn store(lab: &Lab, job: &str) -> PathBuf {
    lab.record().folder().join(format!("{job}.store"))
}

fn last_line(text: &str) -> String {
    text.lines()
        .rev()
        .find(|line| !line.trim().is_empty())
        .unwrap_or("it failed without a word")
        .chars()
        .take(tool::COMPLAINT_CHARS_MAX)
        .collect()
}
