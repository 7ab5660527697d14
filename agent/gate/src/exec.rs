//! Holding the start of a program that cannot be changed.
//!
//! `antiphase gate exec -- CMD` waits for the job's slot once and then becomes CMD: the *start of the program* is aligned with
//! the slot. What the program does afterwards is its own affair: iterations inside it are not gated, so this is for
//! programs that make one run of traffic (a benchmark, an RDMA writer) and are called again for the next. A program that
//! uses the gate itself finds its job in the environment.
//!
//! The command fails open as the gate does: a name that no job can have, and a standard error that takes no more lines, do not
//! keep CMD from running. Only arguments that make no sense ([`ExecError`]) keep CMD from running.

use std::{
    env,
    ffi::{OsStr, OsString},
    fmt,
    io::ErrorKind,
    os::unix::process::CommandExt,
    path::PathBuf,
    process::Command,
};

use gate_core::StepOutcome;

use crate::{Config, Gate, JobName, NameError, complain};

/// Exit code for arguments that make no sense.
pub const USAGE: i32 = 2;
/// Exit code for a program that is not there, as in shells.
pub const NOT_FOUND: i32 = 127;
/// Exit code for a program that is there and cannot be run, as in shells.
pub const NOT_RUN: i32 = 126;

/// How to call it.
pub const SYNOPSIS: &str = "gate exec [--job NAME] [--dir DIRECTORY] [--all-ranks] [--] PROGRAM [ARGUMENT]...";

/// Variables in which launchers tell a process its rank: torchrun, Open MPI, PMI, Slurm.
const RANKS: [&str; 4] = ["RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"];

/// What to run, and under which gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The gate.
    pub config: Config,
    /// Whether ranks other than 0 wait too.
    pub all_ranks: bool,
    /// The name that was given for the job and that no job can have: then nothing is held.
    pub unnamed: Option<NameError>,
    /// The program and its arguments.
    pub command: Vec<OsString>,
}

/// Arguments that make no sense.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExecError {
    /// There is no program.
    NoProgram,
    /// An option that is not known.
    Unknown(OsString),
    /// An option without its value.
    NoValue(OsString),
}

impl fmt::Display for ExecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoProgram => write!(f, "no program to run; usage: {SYNOPSIS}"),
            Self::Unknown(option) => write!(f, "unknown option {option:?}; usage: {SYNOPSIS}"),
            Self::NoValue(option) => write!(f, "option {option:?} needs a value; usage: {SYNOPSIS}"),
        }
    }
}

impl std::error::Error for ExecError {}

impl Plan {
    /// Reads arguments; what they do not say comes from `environment`, which is the gate's own. A bad name there (`unnamed`)
    /// does not matter if the arguments give another.
    ///
    /// # Errors
    /// [`ExecError`].
    pub fn try_new(args: impl IntoIterator<Item = OsString>, environment: Config, unnamed: Option<NameError>) -> Result<Self, ExecError> {
        let mut plan = Self { config: environment, all_ranks: false, unnamed, command: Vec::new() };
        let mut args = args.into_iter();
        while let Some(arg) = args.next() {
            match arg.to_str() {
                Some("--") => break,
                Some("--all-ranks") => plan.all_ranks = true,
                Some("--job") => {
                    let name = args.next().ok_or(ExecError::NoValue(arg))?;
                    // A bad name is no bad argument: the program runs all the same, and nothing is held (ADR 2).
                    let job = JobName::try_new(&name.to_string_lossy());
                    (plan.config.job, plan.unnamed) = match job {
                        Ok(job) => (Some(job), None),
                        Err(error) => (None, Some(error)),
                    };
                }
                Some("--dir") => plan.config.directory = PathBuf::from(args.next().ok_or(ExecError::NoValue(arg))?),
                Some(option) if option.starts_with('-') => return Err(ExecError::Unknown(arg)),
                _ => {
                    // The first word that is no option begins the program; whatever follows is the program's, options included.
                    plan.command.push(arg);
                    break;
                }
            }
        }
        plan.command.extend(args);
        if plan.command.is_empty() { Err(ExecError::NoProgram) } else { Ok(plan) }
    }

    /// Waits for the slot, if this process is the one that waits.
    fn wait(&self) -> Option<StepOutcome> {
        // The gate is dropped with this expression, so its report is written before `exec` replaces the process.
        (self.all_ranks || leads().unwrap_or(true)).then(|| Gate::open(&self.config).step())
    }
}

/// The variable that tells this process its rank, and what it says: the first that is set.
pub(crate) fn rank() -> Option<(&'static str, OsString)> {
    RANKS.iter().find_map(|name| env::var_os(name).map(|rank| (*name, rank)))
}

/// Whether this process is the one of its job that waits, by the variables of launchers; `None` where none is set.
#[must_use]
pub fn leads() -> Option<bool> {
    rank().map(|(_, rank)| is_leader(Some(&rank)))
}

/// Rank 0 leads. A process that was not told a rank is alone.
fn is_leader(rank: Option<&OsStr>) -> bool {
    rank.is_none_or(|rank| rank == "0")
}

/// Runs `gate exec` with these arguments (those after `exec`). Returns only if the program could not be started: an exit
/// code, after one line on standard error.
#[must_use]
pub fn run(args: impl IntoIterator<Item = OsString>) -> i32 {
    let (environment, unnamed) = match Config::from_env() {
        Ok(environment) => (environment, None),
        Err(error) => (Config::from_env_without_job(), Some(error)),
    };
    let plan = match Plan::try_new(args, environment, unnamed) {
        Ok(plan) => plan,
        Err(error) => {
            say(&error);
            return USAGE;
        }
    };
    // `Plan::try_new` refuses an empty command, so the other branch is never taken.
    let Some((program, arguments)) = plan.command.split_first() else { return USAGE };
    let mut command = Command::new(program);
    // A program that uses the gate itself finds the directory and the job that were waited for here.
    command.args(arguments).env("ANTIPHASE_DIR", &plan.config.directory);
    match &plan.config.job {
        Some(job) => command.env("ANTIPHASE_JOB", job.as_str()),
        // The name was reported as bad here. The variable is cleared, so that the child does not report it again.
        None => command.env_remove("ANTIPHASE_JOB"),
    };
    if let Some(error) = &plan.unnamed {
        say(&format_args!("not held: {error}"));
    } else if plan.config.job.is_none() && !plan.config.off {
        say(&"not held: no job; set ANTIPHASE_JOB or give --job");
    }
    // A gate that is off, or a plan that does not hold the job, is what somebody wanted: only a fail-open is said.
    if let Some(outcome) = plan.wait()
        && outcome.because.is_fail_open()
    {
        say(&format_args!("not held ({}); `antiphase gate status` explains", outcome.because));
    }
    // `exec` returns on failure only. The program takes this process over, so signals and the exit code are its own.
    let error = command.exec();
    say(&format_args!("{}: {error}", program.display()));
    if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { NOT_RUN }
}

/// One line on standard error, where there is room for it: standard error may be a full disk, or a pipe that nobody reads, and the program
/// starts all the same.
fn say(what: &dyn fmt::Display) {
    complain(format!("gate exec: {what}\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(args: &[&str]) -> Result<Plan, ExecError> {
        let environment = Config { directory: "/env".into(), job: None, off: false };
        Plan::try_new(args.iter().map(OsString::from), environment, None)
    }

    #[test]
    fn options_end_where_the_program_begins() {
        let with = plan(&["--job", "j", "--dir", "/d", "--", "ib_write_bw", "--job", "x"]).unwrap();
        assert_eq!(with.config, Config::new("/d", JobName::try_new("j").unwrap()));
        assert_eq!(with.command, ["ib_write_bw", "--job", "x"]);
        let without = plan(&["--all-ranks", "true", "--", "-v"]).unwrap();
        assert!(without.all_ranks);
        assert_eq!(without.command, ["true", "--", "-v"]);
        assert_eq!(without.config.directory, PathBuf::from("/env"));
    }

    #[test]
    fn bad_arguments_are_named() {
        assert_eq!(plan(&[]), Err(ExecError::NoProgram));
        assert_eq!(plan(&["--"]), Err(ExecError::NoProgram));
        assert_eq!(plan(&["--every", "x"]), Err(ExecError::Unknown("--every".into())));
        assert_eq!(plan(&["--job"]), Err(ExecError::NoValue("--job".into())));
    }

    #[test]
    fn a_bad_name_holds_nothing_and_stops_nothing() {
        let bad = JobName::try_new("a/b").unwrap_err();
        let environment = Config { directory: "/env".into(), job: None, off: false };
        let of = |args: &[&str]| Plan::try_new(args.iter().map(OsString::from), environment.clone(), Some(bad.clone())).unwrap();
        let unnamed = of(&["x"]);
        assert_eq!((unnamed.config.job, unnamed.unnamed.as_ref()), (None, Some(&bad)));
        let named = of(&["--job", "j", "x"]);
        assert_eq!((named.config.job, named.unnamed), (JobName::try_new("j").ok(), None));
        // One that is given is not replaced by another.
        let given = plan(&["--job", "a/b", "x"]).unwrap();
        assert_eq!((given.config.job, given.unnamed), (None, Some(bad)));
    }

    #[test]
    fn rank_0_leads() {
        let leads = |rank: Option<&str>| is_leader(rank.map(OsStr::new));
        assert!(leads(None) && leads(Some("0")) && !leads(Some("1")));
    }
}
