//! `antiphase lab up|run|live|show|compare|down|status`.

use std::{
    fs,
    io::Write,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand, ValueEnum};

use crate::{
    case::{BUILTIN, Case, CaseError, builtin},
    compare::Comparison,
    control, executor,
    experiment::{self, Options},
    hold::{Baseline, Control, Hold, Place},
    html,
    interrupt::Interrupt,
    live, mltcp,
    network::Lab,
    program::Program,
    rank::{self, RankArgs},
    record::Record,
    report::{REPORT_SCHEMA, Report},
    trainer::{Starter, Trainer},
    virtual_time,
};

/// Most repeats: a day of the quickest case.
const REPEATS_MAX: i64 = 1_000;
/// Most iterations of a take, for the same reason.
const ITERATIONS_MAX: i64 = 10_000;

/// Repeats and iterations of a case that is compared: as many as `scripts/lab-table.sh` plays.
const COMPARED: (u32, u32) = (9, 60);

/// Longest a lab can be watched: a day; nobody looks any more.
const SECONDS_MAX: i64 = 86_400;

/// A fabric of network namespaces with real traffic and real ECN marks (Linux, root).
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Build the fabric of a case and leave it up.
    Up(UpArgs),
    /// Play a case: every job alone, all together as they come, all together held.
    Run(RunArgs),
    /// Build the fabric of a case and let its jobs run, with the page of the service to watch, until Ctrl-C.
    Live(LiveArgs),
    /// Print the result of a run again, from its JSON.
    Show(ShowArgs),
    /// Print results of runs on a kernel beside the simulator's for the same cases.
    Compare(CompareArgs),
    /// Remove labs that are up or whose process is gone.
    Down(DownArgs),
    /// Show the labs of this machine.
    Status(StatusArgs),
    /// One rank of a job; started by `run`.
    #[command(hide = true)]
    Rank(RankArgs),
}

/// Arguments of `antiphase lab up`.
#[derive(Clone, Debug, Args)]
pub struct UpArgs {
    /// Name of a case that comes with the program, or a file.
    pub case: String,
}

/// Arguments of `antiphase lab run`.
#[derive(Clone, Debug, Args)]
pub struct RunArgs {
    /// Name of a case that comes with the program, or a file.
    pub case: String,
    /// How often everything is played.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=REPEATS_MAX))]
    pub repeats: u32,
    /// About how many iterations of the slowest job each take measures.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(3..=ITERATIONS_MAX))]
    pub iterations: u32,
    /// The same of the take in which all run as they come; by default as many. Three jobs that meet need about 60 to show a mean.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(3..=ITERATIONS_MAX))]
    pub contended_iterations: Option<u32>,
    /// Iterations of the held take that are not measured: a gate in NCCL's calls has to learn first.
    #[arg(long, value_name = "N", default_value_t = experiment::WARM_UP_ITERATIONS, value_parser = clap::value_parser!(u32).range(..=ITERATIONS_MAX))]
    pub warm_up: u32,
    /// Who trains.
    #[arg(long, value_enum, default_value_t)]
    pub trainer: Trainer,
    /// Who holds the jobs.
    #[arg(long, value_enum, default_value_t)]
    pub control: Control,
    /// What they are held by; by default turns where there are any, else slots.
    #[arg(long, value_enum)]
    pub hold: Option<Hold>,
    /// Play each of these in a run of its own, beside the one that is held: the CASSINI paper's control, MLTCP, slots.
    #[arg(long = "with", value_enum, value_delimiter = ',')]
    pub beside: Vec<Baseline>,
    /// Folder of antiphase-topology and antiphase-agent for --control service; by default that of this program.
    #[arg(long, value_name = "DIR")]
    pub programs: Option<PathBuf>,
    /// In virtual time: the service and the gates as they are, on a simulated fabric; needs no root.
    #[arg(long = "virtual", conflicts_with = "trainer")]
    pub in_virtual_time: bool,
    /// How to print the result.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Format,
    /// Say nothing while it runs.
    #[arg(short, long)]
    pub quiet: bool,
}

/// Arguments of `antiphase lab live`.
#[derive(Clone, Debug, Args)]
pub struct LiveArgs {
    /// Name of a case that comes with the program, or a file.
    pub case: String,
    /// Who trains.
    #[arg(long, value_enum, default_value_t)]
    pub trainer: Trainer,
    /// Where the page is; on loopback. Port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value_t = SocketAddr::from(([127, 0, 0, 1], 7_480)))]
    pub listen: SocketAddr,
    /// How long the jobs run as they come, before they are held; in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(..=SECONDS_MAX))]
    pub free: u32,
    /// How long they are held before everything is taken down, in seconds.
    #[arg(long = "for", value_name = "SECONDS", default_value_t = 3_600, value_parser = clap::value_parser!(u32).range(1..=SECONDS_MAX))]
    pub held: u32,
    /// What they are held by; by default turns where there are any, else slots.
    #[arg(long, value_enum)]
    pub hold: Option<Hold>,
    /// Folder of antiphase-topology and antiphase-agent; by default that of this program.
    #[arg(long, value_name = "DIR")]
    pub programs: Option<PathBuf>,
    /// Let a scheduler of the service start and stop the jobs, by this policy: fifo, srtf, srsf, tiresias or themis. The lab goes when all have
    /// run.
    #[arg(long, value_name = "POLICY", value_parser = ["fifo", "srtf", "srsf", "tiresias", "themis"], conflicts_with_all = ["listen", "free", "held"])]
    pub scheduler: Option<String>,
    /// How many hosts of the case the scheduler has, from the first on; by default all.
    #[arg(long, value_name = "N", requires = "scheduler")]
    pub hosts: Option<usize>,
    /// How long the last job runs, in seconds; each job before it runs this much longer than the next.
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=SECONDS_MAX))]
    pub run: u32,
}

/// Arguments of `antiphase lab show`.
#[derive(Clone, Debug, Args)]
pub struct ShowArgs {
    /// What `run -o json` printed.
    pub file: PathBuf,
    /// How to print it.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Format,
}

/// Arguments of `antiphase lab compare`.
#[derive(Clone, Debug, Args)]
pub struct CompareArgs {
    /// What `run -o json` printed for cases that come with the program.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// How to print it: table or json.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Format,
}

/// Arguments of `antiphase lab down`.
#[derive(Clone, Debug, Args)]
pub struct DownArgs {
    /// Ids of labs; by default all but those that run.
    pub ids: Vec<String>,
    /// Also take down labs that still run.
    #[arg(long)]
    pub force: bool,
}

/// Arguments of `antiphase lab status`.
#[derive(Clone, Debug, Args)]
pub struct StatusArgs {
    /// How to print it.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Format,
}

/// How to print a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Table,
    /// For programs.
    Json,
    /// A page for people, with bars and circles; `run` only.
    Html,
}

/// Does what a command says, and prints its result to `out`.
///
/// # Errors
/// A [`CaseError`] for what is wrong with the input; anything else is a failure.
pub fn run(command: &Command, program: &Program, out: &mut dyn Write) -> Result<()> {
    match command {
        Command::Up(args) => up(args, out),
        Command::Run(args) => out.write_all(play(args, program)?.as_bytes()).context("printing the result"),
        Command::Live(args) => watch(args, program),
        Command::Show(args) => show(args, out),
        Command::Compare(args) => compare(args, out),
        Command::Down(args) => down(args, out),
        Command::Status(args) => status(args, out),
        Command::Rank(args) => rank::run(args),
    }
}

/// The case of that name or in that file.
///
/// # Errors
/// A [`CaseError`], with the file in front.
pub fn find_case(name: &str) -> Result<Case> {
    // Built-in names come first, so that `two-equal` means the same in every folder.
    if let Some(text) = builtin(name) {
        return Ok(Case::read(text, &|_| Err("cases that come with the program name no files".into()))?);
    }
    let path = Path::new(name);
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(e) => {
            let known: Vec<&str> = BUILTIN.iter().map(|(name, _)| *name).collect();
            bail!(CaseError::Value {
                place: name.to_owned(),
                problem: format!("no such case ({}) and no such file: {e}", known.join(", "))
            });
        }
    };
    // The fabric's path is relative to the case and not to the working directory.
    let folder = path.parent().unwrap_or(Path::new("."));
    let files = |file: &str| fs::read_to_string(folder.join(file)).map_err(|e| e.to_string());
    Case::read(&text, &files).with_context(|| name.to_owned())
}

fn up(args: &UpArgs, out: &mut dyn Write) -> Result<()> {
    let lab = Lab::up(find_case(&args.case)?)?;
    let record = lab.leave()?;
    writeln!(out, "lab {} is up; `antiphase lab down {}` removes it", record.id, record.id)?;
    for namespace in record.namespaces()? {
        writeln!(out, "{namespace}")?;
    }
    Ok(())
}

fn play(args: &RunArgs, program: &Program) -> Result<String> {
    let case = find_case(&args.case)?;
    let report = if args.in_virtual_time {
        let hold = Hold::decide(args.hold, Place::VirtualTime)?;
        virtual_time::run(&case, args.repeats, args.iterations, (hold, &beside(args, hold)))?
    } else {
        on_kernel(case, args, program)?
    };
    print(&report, args.output)
}

/// What is played beside what holds the jobs.
fn beside(args: &RunArgs, hold: Hold) -> Vec<Baseline> {
    // What holds the jobs has its column already.
    args.beside.iter().copied().filter(|baseline| !(*baseline == Baseline::Slots && hold == Hold::Slots)).collect()
}

fn on_kernel(case: Case, args: &RunArgs, program: &Program) -> Result<Report> {
    // Programs and PyTorch are looked for before anything is built.
    let hold = Hold::decide(args.hold, Place::Kernel(args.control))?;
    control::check(args.control, args.programs.as_deref())?;
    let starter = Starter::find(program, args.trainer, args.programs.as_deref())?;
    starter.check(&case)?;
    let beside = beside(args, hold);
    if let Some(native) = beside.iter().find(|b| starter.torch().is_some() && **b != Baseline::Slots) {
        let problem = format!("{} is played by the lab's own ranks, not by PyTorch", native.word());
        return Err(CaseError::Value { place: "--with".into(), problem }.into());
    }
    // Listening begins before the first namespace: a signal while the fabric is built would otherwise leave half a lab behind.
    let interrupt = Interrupt::listen()?;
    let lab = Lab::up(case)?;
    let options = Options {
        repeats: args.repeats,
        iterations: args.iterations,
        contended: args.contended_iterations.unwrap_or(args.iterations),
        warm_up: args.warm_up,
        control: args.control,
        hold,
        beside,
        programs: args.programs.clone(),
    };
    let mut progress = |what: &str| {
        if !args.quiet {
            eprintln!("{what}");
        }
    };
    let report = experiment::run(&lab, &starter, &options, &interrupt, &mut progress);
    // The lab goes down before the result is looked at, and a namespace that would not go is reported even beside a result.
    let gone = lab.down();
    let report = report?;
    gone?;
    Ok(report)
}

fn watch(args: &LiveArgs, program: &Program) -> Result<()> {
    let case = find_case(&args.case)?;
    let hold = Hold::decide(args.hold, Place::Kernel(Control::Service))?;
    let starter = Starter::find(program, args.trainer, args.programs.as_deref())?;
    starter.check(&case)?;
    if let Some(policy) = &args.scheduler {
        let options = executor::Options {
            policy: policy.clone(),
            hosts: args.hosts.unwrap_or(usize::MAX),
            run: Duration::from_secs(args.run.into()),
            hold,
            programs: args.programs.clone(),
        };
        return executor::run(case, &starter, &options, &Interrupt::listen()?, &mut |what| eprintln!("{what}"));
    }
    let options = live::Options {
        listen: args.listen,
        free: Duration::from_secs(args.free.into()),
        held: Duration::from_secs(args.held.into()),
        hold,
        programs: args.programs.clone(),
    };
    live::run(case, &starter, &options, &Interrupt::listen()?, &mut |what| eprintln!("{what}"))
}

fn show(args: &ShowArgs, out: &mut dyn Write) -> Result<()> {
    out.write_all(print(&read_report(&args.file)?, args.output)?.as_bytes()).context("printing the result")
}

fn compare(args: &CompareArgs, out: &mut dyn Write) -> Result<()> {
    let mut pairs = Vec::with_capacity(args.files.len());
    for file in &args.files {
        let kernel = read_report(file)?;
        let refuse = |problem: &str| CaseError::Value { place: file.display().to_string(), problem: problem.to_owned() };
        if kernel.load.is_none() {
            bail!(refuse("is of virtual time already"));
        }
        // A case of one's own has no name by which it could be found again.
        let text = builtin(&kernel.case).ok_or_else(|| refuse(&format!("case {:?} does not come with the program", kernel.case)))?;
        let case = Case::read(text, &|_| Err("cases that come with the program name no files".into()))?;
        let beside: Vec<Baseline> = kernel.jobs.first().map(|job| job.mean_ms.beside.iter().map(|(b, _)| b).collect()).unwrap_or_default();
        let simulated = virtual_time::run(&case, COMPARED.0, COMPARED.1, (kernel.held_by, &beside))?;
        if simulated.jobs.len() != kernel.jobs.len() {
            bail!(refuse("has other jobs than its case"));
        }
        pairs.push((kernel, simulated));
    }
    let comparison = Comparison::of(&pairs);
    let text = match args.output {
        Format::Table => comparison.table(),
        Format::Json => serde_json::to_string_pretty(&comparison)? + "\n",
        Format::Html => bail!(CaseError::Value { place: "--output".into(), problem: "html: a comparison is a table or json".into() }),
    };
    out.write_all(text.as_bytes()).context("printing the comparison")
}

/// What `run -o json` printed.
fn read_report(file: &Path) -> Result<Report> {
    let refuse = |problem: String| CaseError::Value { place: file.display().to_string(), problem };
    let text = fs::read_to_string(file).map_err(|e| refuse(e.to_string()))?;
    let report: Report = serde_json::from_str(&text).map_err(|e| refuse(e.to_string()))?;
    // A document of another schema may parse, because unknown keys are let pass, and would print wrong numbers.
    if report.schema != REPORT_SCHEMA {
        bail!(refuse(format!("schema is {:?}, expected {REPORT_SCHEMA:?}", report.schema)));
    }
    Ok(report)
}

fn print(report: &Report, output: Format) -> Result<String> {
    Ok(match output {
        Format::Table => report.table(),
        Format::Json => serde_json::to_string_pretty(report)? + "\n",
        Format::Html => html::page(report),
    })
}

fn down(args: &DownArgs, out: &mut dyn Write) -> Result<()> {
    let labs = Record::all()?;
    for id in &args.ids {
        if !labs.iter().any(|lab| lab.id == *id) {
            bail!("no lab {id:?}; `antiphase lab status` shows them");
        }
    }
    for lab in labs.iter().filter(|lab| args.ids.is_empty() || args.ids.contains(&lab.id)) {
        // A lab that somebody else plays would lose its ranks in the middle of a take.
        if lab.running() && !args.force {
            writeln!(out, "lab {} ({}) runs; --force removes it all the same", lab.id, lab.case)?;
            continue;
        }
        lab.remove()?;
        writeln!(out, "lab {} ({}) is gone", lab.id, lab.case)?;
    }
    mltcp::sweep();
    Ok(())
}

fn status(args: &StatusArgs, out: &mut dyn Write) -> Result<()> {
    let labs = Record::all()?;
    if args.output != Format::Table {
        return writeln!(out, "{}", serde_json::to_string_pretty(&labs)?).context("printing the result");
    }
    if labs.is_empty() {
        writeln!(out, "no labs")?;
    }
    for lab in labs {
        let state = match lab.owner {
            None => "up".to_owned(),
            Some(owner) if owner.alive() => format!("run by process {}", owner.pid),
            Some(owner) => format!("left by process {}, which is gone", owner.pid),
        };
        let (namespaces, processes) = (lab.namespaces()?.len(), lab.processes()?.len());
        writeln!(out, "lab {} ({}): {state}; {namespaces} namespaces, {processes} processes", lab.id, lab.case)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser};

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(subcommand)]
        command: Command,
    }

    /// What the lab starts its ranks with: no help shows it, and a rank without a phase is refused.
    #[test]
    fn a_rank_is_hidden_and_takes_its_phases_in_order() {
        let words =
            "lab rank --job a --rank 0 --listen 10.77.0.1 --successor 10.77.0.2 --jitter-ns 5 --seed 1 --trace t --gate g --each-phase";
        let parse = |more: &[&str]| Cli::try_parse_from(words.split(' ').chain(more.iter().copied()));
        let Ok(Cli { command: Command::Rank(args) }) = parse(&["--phase", "100:7", "--phase", "50:3"]) else { panic!("a rank") };
        let phases: Vec<String> = args.phases.iter().map(ToString::to_string).collect();
        assert_eq!((phases, args.each_phase), (vec!["100:7".to_owned(), "50:3".to_owned()], true));
        assert!(parse(&[]).is_err() && parse(&["--phase", "0:7"]).is_err());
        let help = Cli::command().render_long_help().to_string();
        assert!(help.contains("live") && !help.contains("rank"), "{help}");
    }
}
