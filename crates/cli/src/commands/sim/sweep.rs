//! A grid of runs: every combination of policies, rankers, controls and seeds, as many at once as there are cores.

use std::{
    collections::BTreeMap,
    io::{ErrorKind, Write},
    path::PathBuf,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use clap::Args;
use indicatif::ProgressBar;
use policy::schedule::MuriOptions;
use serde::Serialize;

use super::{
    Answer, Choice, TraceArgs, World, check,
    choices::{ControlArg, PolicyArg, RankerArg},
    play, read,
};
use crate::{
    commands::{
        seeds::SEEDS_MAX,
        stats::{Interval, interval},
    },
    input::CliError,
    output::{create, print},
    table::Table,
};

/// Most runs of a grid: days of work.
const RUNS_MAX: usize = 100_000;

#[derive(Debug, Args)]
pub(crate) struct SweepArgs {
    #[command(flatten)]
    trace: TraceArgs,
    /// Policies
    #[arg(long, value_enum, value_delimiter = ',', required = true)]
    policies: Vec<PolicyArg>,
    /// Who chooses where jobs stand that are placed anew [default: none]
    #[arg(long, value_enum, value_delimiter = ',', requires = "fabric")]
    rankers: Vec<RankerArg>,
    /// What keeps jobs apart that meet [default: free]
    #[arg(long, value_enum, value_delimiter = ',', requires = "fabric")]
    controls: Vec<ControlArg>,
    /// Move jobs that run where the planner predicts that to be worth their restarts
    #[arg(long, requires = "fabric")]
    moves: bool,
    /// Seeds of each combination: 1 to so many
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=SEEDS_MAX as u64))]
    seeds: u64,
    /// Write each run as a line of JSON (antiphase.sim/v1), in the order of the grid, as soon as it and those before it are done; - for standard output, and then no table
    #[arg(long, value_name = "FILE")]
    lines: Option<PathBuf>,
}

/// A combination over all seeds.
#[derive(Debug, Serialize)]
struct Row {
    policy: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    ranker: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    control: Option<String>,
    avg_jct_s: Interval,
    p99_jct_s: Interval,
    makespan_s: Interval,
    #[serde(skip_serializing_if = "Option::is_none")]
    iteration_mean: Option<Interval>,
    #[serde(skip_serializing_if = "Option::is_none")]
    iteration_p99: Option<Interval>,
    #[serde(skip_serializing_if = "Option::is_none")]
    marks_per_iteration: Option<Interval>,
}

#[derive(Debug, Serialize)]
struct Grid {
    schema: &'static str,
    seeds: u64,
    rows: Vec<Row>,
}

pub(super) fn run(args: &SweepArgs) -> Result<(), CliError> {
    let choices = grid(args)?;
    let trace = read(&args.trace)?;
    let world = World::read(&args.trace)?;
    if args.seeds > 1 && !world.is_drawn() {
        return Err(CliError::Usage("--seeds: without --fabric or --host-mtbf-h nothing is drawn".to_owned()));
    }
    // Whatever the first run would refuse is refused before a file of former runs is emptied.
    let one_seed = usize::try_from(args.seeds).unwrap_or(usize::MAX);
    choices.iter().step_by(one_seed).try_for_each(|choice| check(&args.trace, (&trace, &world), choice))?;
    let to_stdout = args.lines.as_deref().is_some_and(|file| file.as_os_str() == "-");
    let lines: Option<Box<dyn Write + Send>> = match &args.lines {
        Some(_) if to_stdout => Some(Box::new(std::io::stdout())),
        Some(file) => Some(Box::new(create(file)?)),
        None => None,
    };
    let done =
        Done { lines: Mutex::new(Lines { out: lines, waiting: BTreeMap::new(), answers: Vec::new() }), stop: AtomicBool::new(false) };
    let (next, bar) = (AtomicUsize::new(0), ProgressBar::new(choices.len() as u64));
    let work = || -> Result<(), CliError> {
        while let Some((at, choice)) = Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| Some((at, choices.get(at)?))) {
            if done.stop.load(Ordering::Relaxed) {
                break;
            }
            let played = play(&args.trace, (&trace, &world), choice, None);
            // Time on a processor is that of the whole program, so of several runs at once it says nothing.
            let kept = played.and_then(|(answer, _)| done.take(at, Answer { cpu_s: None, ..answer }));
            bar.inc(1);
            if let Err(e) = kept {
                done.stop.store(true, Ordering::Relaxed);
                return Err(e);
            }
        }
        Ok(())
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from).min(choices.len());
    let ended: Vec<Result<(), CliError>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        // A panic of a thread is one of the whole, as it would be without threads.
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    bar.finish_and_clear();
    ended.into_iter().collect::<Result<(), _>>()?;
    if to_stdout {
        return Ok(());
    }
    let answers = done.lines.into_inner().unwrap_or_else(PoisonError::into_inner).answers;
    // Seeds go round fastest, so each combination is one stretch.
    let rows = answers.chunks(usize::try_from(args.seeds).unwrap_or(usize::MAX)).map(row).collect();
    let grid = Grid { schema: "antiphase.sim-sweep/v1", seeds: args.seeds, rows };
    print(&args.trace.output.render(&grid, || table(&grid))?)
}

/// All combinations, seeds going round fastest.
fn grid(args: &SweepArgs) -> Result<Vec<Choice>, CliError> {
    let otherwise = |rankers: &[RankerArg]| if rankers.is_empty() { vec![RankerArg::default()] } else { rankers.to_vec() };
    let rankers = otherwise(&args.rankers);
    let controls = if args.controls.is_empty() { vec![ControlArg::default()] } else { args.controls.clone() };
    let runs = [args.policies.len(), rankers.len(), controls.len()].into_iter().fold(args.seeds as usize, usize::saturating_mul);
    if runs > RUNS_MAX {
        return Err(CliError::Usage(format!("{runs} runs; at most {RUNS_MAX}")));
    }
    let mut choices = Vec::with_capacity(runs);
    for &policy in &args.policies {
        for &ranker in &rankers {
            for &control in &controls {
                let rule = policy.rule(MuriOptions::default())?;
                choices.extend((1..=args.seeds).map(|seed| Choice { policy, rule, ranker, control, moves: args.moves, seed }));
            }
        }
    }
    Ok(choices)
}

/// What the runs hand in.
struct Done {
    lines: Mutex<Lines>,
    /// A run failed, and no further one begins.
    stop: AtomicBool,
}

struct Lines {
    out: Option<Box<dyn Write + Send>>,
    /// Runs that are done before one that comes first.
    waiting: BTreeMap<usize, Answer>,
    /// In the order of the grid.
    answers: Vec<Answer>,
}

impl Done {
    /// Takes the answer of one run, and writes all lines whose turn has come. Each is written whole, so a run that is interrupted leaves whole lines.
    fn take(&self, at: usize, answer: Answer) -> Result<(), CliError> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.waiting.insert(at, answer);
        loop {
            let next = lines.answers.len();
            let Some(answer) = lines.waiting.remove(&next) else { return Ok(()) };
            if let Some(out) = &mut lines.out {
                let line = serde_json::to_string(&answer).map_err(|e| CliError::Failure(e.to_string()))? + "\n";
                match out.write_all(line.as_bytes()).and_then(|()| out.flush()) {
                    // Whoever reads may have enough.
                    Err(e) if e.kind() != ErrorKind::BrokenPipe => return Err(CliError::Failure(format!("--lines: {e}"))),
                    _ => {}
                }
            }
            lines.answers.push(answer);
        }
    }
}

fn row(runs: &[Answer]) -> Row {
    let of = |value: fn(&Answer) -> f64| interval(runs.iter().map(value));
    let first = runs.first();
    let networks: Vec<_> = runs.iter().filter_map(|run| run.network.as_ref()).collect();
    let of_network = |value: fn(&super::NetworkAnswer) -> f64| (!networks.is_empty()).then(|| interval(networks.iter().map(|n| value(n))));
    Row {
        policy: first.map(|run| run.policy.clone()).unwrap_or_default(),
        ranker: networks.first().map(|network| network.ranker.clone()),
        control: networks.first().map(|network| network.control.clone()),
        avg_jct_s: of(|run| run.avg_jct_s),
        p99_jct_s: of(|run| run.p99_jct_s),
        makespan_s: of(|run| run.makespan_s),
        iteration_mean: of_network(|network| network.iteration_mean),
        iteration_p99: of_network(|network| network.iteration_p99),
        marks_per_iteration: of_network(|network| network.marks_per_iteration),
    }
}

fn table(grid: &Grid) -> String {
    let on_fabric = grid.rows.iter().any(|row| row.iteration_mean.is_some());
    let headings = ["POLICY", "RANKER", "CONTROL", ">AVG JCT", ">P99 JCT", ">MAKESPAN", ">ITERATION", ">P99 ITERATION", ">MARKS"];
    let of_network = |heading: &str| ["RANKER", "CONTROL", ">ITERATION", ">P99 ITERATION", ">MARKS"].contains(&heading);
    let headings: Vec<&str> = headings.into_iter().filter(|heading| on_fabric || !of_network(heading)).collect();
    let mut table = Table::new(&headings);
    for row in &grid.rows {
        let mut cells = vec![row.policy.clone()];
        cells.extend(row.ranker.clone().into_iter().chain(row.control.clone()));
        cells.extend([row.avg_jct_s, row.p99_jct_s, row.makespan_s].map(|time| format!("{} s", time.said(0))));
        let network = [(row.iteration_mean, 3), (row.iteration_p99, 2), (row.marks_per_iteration, 1)];
        cells.extend(network.into_iter().filter_map(|(value, digits)| Some(value?.said(digits))));
        table.row(cells);
    }
    let seeds =
        if grid.seeds > 1 { format!("Means of {} seeds, with half of the 95 % confidence interval.\n", grid.seeds) } else { String::new() };
    table.render() + &seeds
}
