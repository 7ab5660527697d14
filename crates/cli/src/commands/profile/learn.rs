//! `antiphase profile learn`: what a port's byte counters say of the jobs behind it.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde::Serialize;
use telemetry::{Learned, Series, Stretch, learn_jobs, longest_stretch};
use units::{Lines, Nanos, NodeTime};

use crate::{
    input::{CliError, read_document},
    output::Output,
    rows::{line, unequal},
    table::Table,
};

/// Columns, in any order; others are left out.
const COLUMNS: [&str; 3] = ["t_ns", "tx_bytes", "rx_bytes"];
/// The documents of `learn` and `import`.
pub(super) const SCHEMA: &str = profile::LEARNED_SCHEMA;
/// Most readings of a file.
const READINGS_MAX: usize = 1 << 22;
/// Readings that are looked at, the last ones: two minutes at a millisecond. Looking for two jobs in so many takes some seconds.
const LOOKED_AT: usize = 1 << 17;

const EXAMPLES: &str = "\
EXAMPLES
  Learn from a recording of a port, with the readings as the kernel gave them:
    antiphase profile learn counters.csv -o json
  Columns of such a file, in any order:
    t_ns, tx_bytes, rx_bytes
  Readings every 1 to 10 ms, of twenty iterations or more, are enough. A series without a period is an answer, and says why.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LearnArgs {
    /// Readings of a port's byte counters, CSV; - for standard input
    file: PathBuf,
    /// Direction; by default the one with more bytes
    #[arg(long, value_enum)]
    direction: Option<Direction>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(super) enum Direction {
    Tx,
    Rx,
}

#[derive(Debug, Serialize)]
pub(super) struct Answer {
    schema: &'static str,
    /// Whether a job was found.
    pub(super) periodic: bool,
    /// Why none was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) why: Option<String>,
    pub(super) direction: Direction,
    /// Readings that were looked at, and the middle of the distances between them.
    readings: usize,
    step_ns: u64,
    /// Times that a counter went back: what passed then is not known, and the longest stretch without was taken.
    resets: usize,
    /// Times that there was no reading for long; the longest stretch without was taken.
    gaps: usize,
    #[serde(flatten)]
    pub(super) job: Option<Job>,
    /// A second job on the port, of another period.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) others: Vec<Job>,
}

/// What counters and traces say of a job.
#[derive(Debug, Serialize)]
pub(super) struct Job {
    pub(super) period_ns: u64,
    /// The share of what the port carried, less its mean, that the iterations explain.
    pub(super) confidence: f64,
    /// Standard deviation of iterations over the period.
    pub(super) jitter: f64,
    pub(super) iterations: usize,
    /// When the first iteration began, by the clock of the readings.
    pub(super) origin_ns: u64,
    pub(super) phases: Vec<Phase>,
}

#[derive(Debug, Serialize)]
pub(super) struct Phase {
    pub(super) start_ns: u64,
    pub(super) duration_ns: u64,
    pub(super) rate_mbps: u64,
}

/// One reading.
struct Reading {
    at: NodeTime,
    /// By [`Direction`].
    bytes: [u64; 2],
}

pub(super) fn run(args: &LearnArgs) -> Result<String, CliError> {
    let text = read_document(&args.file)?;
    let all = read(&args.file, &text)?;
    let readings = &all[all.len().saturating_sub(LOOKED_AT)..];
    let step = step(readings);
    let busier = if carried(readings, 1) > carried(readings, 0) { Direction::Rx } else { Direction::Tx };
    let direction = args.direction.unwrap_or(busier);
    let one_way: Vec<(NodeTime, u64)> = readings.iter().map(|reading| (reading.at, reading.bytes[direction as usize])).collect();
    let Stretch { series, resets, gaps } = longest_stretch(&one_way, step);
    let answer = Answer { readings: readings.len(), resets, gaps, ..answer(&series, step, direction) };
    args.output.render(&answer, || table(&answer))
}

/// What a series says of the jobs behind it.
pub(super) fn answer(series: &Series, step: Nanos, direction: Direction) -> Answer {
    let (why, jobs) = match learn_jobs(series, step) {
        Ok(jobs) => (None, jobs),
        Err(why) => (Some(why.to_string()), Vec::new()),
    };
    let mut jobs = jobs.into_iter().map(Job::from);
    let (job, others) = (jobs.next(), jobs.collect());
    let (readings, gaps) = (series.len(), series.unbroken(step).1);
    Answer { schema: SCHEMA, periodic: job.is_some(), why, direction, readings, step_ns: step.0, resets: 0, gaps, job, others }
}

fn read(file: &Path, text: &str) -> Result<Vec<Reading>, CliError> {
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let mut lines = Lines::new(text);
    let bad = |line: u64, problem: String| CliError::input(file, format!("line {line}: {problem}"));
    let header = reader.headers().map_err(|e| bad(1, e.to_string()))?.clone();
    let mut places = [0; COLUMNS.len()];
    for (place, name) in places.iter_mut().zip(COLUMNS) {
        let mut found = header.iter().enumerate().filter(|(_, column)| *column == name).map(|(at, _)| at);
        *place = found.next().ok_or_else(|| bad(lines.line_of(0), format!("no column {name:?}")))?;
        if found.next().is_some() {
            return Err(bad(lines.line_of(0), format!("column {name:?} stands twice")));
        }
    }
    let mut readings: Vec<Reading> = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|e| bad(line(e.position(), &mut lines), unequal(&e)))?;
        let line = line(record.position(), &mut lines);
        let number = |at: usize| {
            let field = record.get(places[at]).unwrap_or_default();
            field.parse::<u64>().map_err(|_| bad(line, format!("{}: {field:?}, expected a whole number from 0 to 2^64 - 1", COLUMNS[at])))
        };
        let at = NodeTime(number(0)?);
        if let Some(before) = readings.last().filter(|before| before.at >= at) {
            return Err(bad(line, format!("t_ns: {}, not later than {} before it", at.0, before.at.0)));
        }
        if readings.len() >= READINGS_MAX {
            return Err(bad(line, format!("more than {READINGS_MAX} readings")));
        }
        readings.push(Reading { at, bytes: [number(1)?, number(2)?] });
    }
    if readings.len() < 2 {
        return Err(CliError::input(file, format!("{} readings; at least 2", readings.len())));
    }
    Ok(readings)
}

/// What was carried in a direction, but for the largest step: one jump of a counter is no traffic.
fn carried(readings: &[Reading], direction: usize) -> u128 {
    let steps = || readings.windows(2).map(|pair| u128::from(pair[1].bytes[direction].saturating_sub(pair[0].bytes[direction])));
    steps().sum::<u128>() - steps().max().unwrap_or(0)
}

/// The middle of the distances between readings.
fn step(readings: &[Reading]) -> Nanos {
    let mut distances: Vec<u64> = readings.windows(2).map(|pair| pair[1].at.0 - pair[0].at.0).collect();
    distances.sort_unstable();
    Nanos(distances[distances.len() / 2])
}

impl From<Learned> for Job {
    fn from(learned: Learned) -> Self {
        let Learned { period, jitter, confidence, iterations, phases, origin } = learned;
        let phase = |phase: telemetry::BusyPhase| Phase { start_ns: phase.start.0, duration_ns: phase.duration.0, rate_mbps: phase.rate.0 };
        let phases = phases.into_iter().map(phase).collect();
        Self { period_ns: period.0, confidence, jitter, iterations, origin_ns: origin.0, phases }
    }
}

pub(super) fn table(answer: &Answer) -> String {
    let mut text = String::new();
    for (count, what) in [(answer.resets, "times that the counter was set back"), (answer.gaps, "times that nothing was read for long")] {
        if count > 0 {
            text += &format!("{what}: {count}; the longest stretch without is looked at\n");
        }
    }
    let Some(first) = &answer.job else {
        return text + &format!("no period: {}\n", answer.why.as_deref().unwrap_or_default());
    };
    for (job, name) in std::iter::once(first).chain(&answer.others).zip(["job", "another job on the port"]) {
        text += &job_table(job, name, "of what was carried");
    }
    text
}

/// One job and its phases; `of` is what its confidence is a share of.
pub(super) fn job_table(job: &Job, name: &str, of: &str) -> String {
    let mut text = format!(
        "{name}: {} an iteration, varying by {:.1} %; {} iterations explain {:.0} % {of}\n\n",
        Nanos(job.period_ns),
        job.jitter * 100.0,
        job.iterations,
        job.confidence * 100.0
    );
    let rows = job
        .phases
        .iter()
        .map(|phase| [Nanos(phase.start_ns).to_string(), Nanos(phase.duration_ns).to_string(), units::Rate(phase.rate_mbps).to_string()]);
    text += &Table::new(&[">START", ">DURATION", ">RATE"]).with_rows(rows).render();
    text
}
