//! `antiphase profile import`: what a trace of PyTorch, of NCCL's Inspector or of Nsight Systems says of a job.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use clap::Args;
use fabric::capacity;
use flate2::read::MultiGzDecoder;
use serde::Serialize;
use telemetry::trace::{Bytes as _, LearnedSpans, SQLITE_MAGIC, SpanPhase, Trace, learn_spans, read_database, read_json, read_trace};
use units::Rate;

use super::learn::{Job, Phase, SCHEMA, job_table};
use crate::{
    input::{CliError, DOCUMENT_BYTES_MAX, open, text_of},
    output::Output,
};

/// How a gzip file begins (RFC 1952).
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// What spreadsheets and some editors put before a text to say that it is UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// Bytes that are looked at to know what a trace is.
const HEAD_BYTES: u64 = 4_096;

const EXAMPLES: &str = "\
EXAMPLES
  Import a trace of PyTorch's profiler, of three iterations or more:
    antiphase profile import trace.json.gz -o json
  A log of NCCL's Inspector, best with NCCL_INSPECTOR_DUMP_VERBOSE=1:
    antiphase profile import host-pid1639453.log
  Kernels of Nsight Systems, which do not say how much was sent:
    nsys export --type sqlite report.nsys-rep
    antiphase profile import report.sqlite --rate 100G
  The same as a table:
    nsys stats --report cuda_gpu_trace --format csv report.nsys-rep > kernels.csv
    antiphase profile import kernels.csv --rate 100G";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ImportArgs {
    /// Trace, of several ranks that with most collectives; its format is found from what is in it; gzip is taken; - for standard input
    file: PathBuf,
    /// The rate at which the job sends while it communicates, where the trace does not say how much it sent
    #[arg(long, value_name = "RATE", value_parser = capacity::parse)]
    rate: Option<Rate>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

#[derive(Debug, Serialize)]
struct Answer {
    schema: &'static str,
    /// Whether an iteration was found.
    periodic: bool,
    /// Why none was.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    /// Who wrote the trace.
    format: &'static str,
    /// The rank or GPU that was taken, where the trace holds several: that with most collectives. And how many are of others.
    #[serde(skip_serializing_if = "Option::is_none")]
    taken: Option<String>,
    left_out: usize,
    /// Times of communication, and those of which the trace does not say how much was sent.
    collectives: usize,
    without_size: usize,
    /// Iterations that stood still, such as the first one while other ranks began to record; they are in no mean.
    stalled: usize,
    #[serde(flatten)]
    job: Option<Job>,
}

pub(super) fn run(args: &ImportArgs) -> Result<String, CliError> {
    let trace = read(&args.file)?;
    let without_size = trace.spans.iter().filter(|span| span.bytes.is_none()).count();
    let (why, stalled, job) = match learn_spans(&trace.spans) {
        Ok(learned) => (None, learned.stalled, Some(job(args, &trace, without_size, learned)?)),
        Err(why) => (Some(why.to_string()), 0, None),
    };
    let (format, collectives) = (trace.format.word(), trace.spans.len());
    let (taken, left_out) = trace.taken.map_or((None, 0), |taken| (Some(taken.name), taken.left_out));
    let answer = Answer { schema: SCHEMA, periodic: job.is_some(), why, format, taken, left_out, collectives, without_size, stalled, job };
    args.output.render(&answer, || table(&answer))
}

fn read(file: &Path) -> Result<Trace, CliError> {
    let refuse = |error| CliError::input(file, error);
    // A database of gigabytes is read where it lies, page by page.
    if let Some(database) = database(file)? {
        return read_database(&database).map_err(refuse);
    }
    let mut packed = open(file, None)?;
    let head = head(file, &mut packed)?;
    let is_packed = head.starts_with(&GZIP);
    let whole = io::Cursor::new(head).chain(packed);
    let mut trace: Box<dyn Read> =
        if is_packed { Box::new(Unpacked(MultiGzDecoder::new(io::BufReader::new(whole)))) } else { Box::new(whole) };
    let mut head = self::head(file, &mut trace)?;
    if head.starts_with(BYTE_ORDER_MARK) {
        head.drain(..BYTE_ORDER_MARK.len());
    }
    // JSON is read as it comes, because traces of hundreds of megabytes hold some thousand collectives.
    if matches!(head.trim_ascii_start().first(), Some(b'{' | b'[')) {
        return read_json(io::Cursor::new(head).chain(trace)).map_err(refuse);
    }
    // Whatever else there is, is read whole. A few kilobytes may unpack to gigabytes, so what comes out is bounded.
    let mut bytes = Vec::new();
    io::Cursor::new(head)
        .chain(trace)
        .take(DOCUMENT_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| CliError::input(file, error))?;
    if bytes.len() as u64 > DOCUMENT_BYTES_MAX {
        return Err(CliError::input(file, format!("more than {} MiB unpacked; record fewer iterations", DOCUMENT_BYTES_MAX >> 20)));
    }
    if bytes.starts_with(SQLITE_MAGIC) {
        return read_database(&bytes[..]).map_err(refuse);
    }
    read_trace(&text_of(file, bytes)?).map_err(refuse)
}

/// The file, if it is one of SQLite. Whoever still writes it keeps a part beside it.
fn database(file: &Path) -> Result<Option<File>, CliError> {
    // A pipe that is opened to look what it is has lost what was looked at.
    if !file.metadata().is_ok_and(|found| found.is_file()) {
        return Ok(None);
    }
    let (Ok(open), mut head) = (File::open(file), [0; SQLITE_MAGIC.len()]) else { return Ok(None) };
    if open.read_at(0, &mut head).is_err() || head != *SQLITE_MAGIC {
        return Ok(None);
    }
    let mut log = file.as_os_str().to_owned();
    log.push("-wal");
    if Path::new(&log).metadata().is_ok_and(|log| log.len() > 0) {
        let problem = format!("{} has a part of it; close the program that writes it", Path::new(&log).display());
        return Err(CliError::input(file, problem));
    }
    Ok(Some(open))
}

/// The first bytes of what comes.
fn head(file: &Path, from: &mut impl Read) -> Result<Vec<u8>, CliError> {
    let mut head = Vec::new();
    from.take(HEAD_BYTES).read_to_end(&mut head).map_err(|error| CliError::input(file, error))?;
    Ok(head)
}

/// What was packed, with errors that say so.
struct Unpacked<R>(R);

impl<R: Read> Read for Unpacked<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0
            .read(into)
            .map_err(|error| if error.kind() == io::ErrorKind::Interrupted { error } else { io::Error::other(format!("gzip: {error}")) })
    }
}

fn job(args: &ImportArgs, trace: &Trace, without_size: usize, learned: LearnedSpans) -> Result<Job, CliError> {
    let LearnedSpans { period, jitter, confidence, iterations, phases, origin, .. } = learned;
    let phase = |phase: &SpanPhase| {
        let rate = args.rate.or_else(|| Some(mean_rate(phase.bytes?, phase.duration.0)))?;
        Some(Phase { start_ns: phase.start.0, duration_ns: phase.duration.0, rate_mbps: rate.0 })
    };
    let phases = phases.iter().map(phase).collect::<Option<Vec<Phase>>>().ok_or_else(|| {
        let all = trace.spans.len();
        let what = "PyTorch 2.2 and later write sizes, Nsight Systems does not";
        CliError::input(
            &args.file,
            format!("{without_size} of {all} collectives have no size ({what}); --rate RATE says how fast the job sends"),
        )
    })?;
    Ok(Job { period_ns: period.0, confidence, jitter, iterations, origin_ns: origin.0, phases })
}

/// Bytes in nanoseconds as a rate: a byte in a nanosecond is 8,000 Mbit/s.
fn mean_rate(bytes: u64, nanos: u64) -> Rate {
    let rate = u128::from(bytes) * 8_000 / u128::from(nanos.max(1));
    Rate(u64::try_from(rate).unwrap_or(u64::MAX))
}

fn table(answer: &Answer) -> String {
    let mut found = format!("{}: {} collectives, {} without a size\n", answer.format, answer.collectives, answer.without_size);
    if let Some(taken) = &answer.taken {
        found +=
            &format!("taken of the trace: {}; collectives of other ranks or GPUs, left out: {}\n", units::OneLine(taken), answer.left_out);
    }
    if answer.stalled > 0 {
        found += &format!("iterations that took more than twice as long as the middle one, and are left out: {}\n", answer.stalled);
    }
    match &answer.job {
        Some(job) => found + &job_table(job, "job", "of the collectives"),
        None => format!("{found}no iteration: {}\n", answer.why.as_deref().unwrap_or_default()),
    }
}
