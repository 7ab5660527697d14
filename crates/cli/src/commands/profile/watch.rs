//! `antiphase profile watch`: what the live counters of a port say of the jobs behind it.

use std::{
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use clap::{Args, ValueEnum};
use telemetry::{Counter, Interface, Port, PortSource, Root, Series, rdma_ports};
use units::{Nanos, NodeTime};

use super::learn::{Answer, Direction, answer, table};
use crate::{
    input::CliError,
    output::{print, say},
};

/// Readings kept each way: 164 s at 10 ms, in 256 KiB. Longer windows sharpen the period little and age the answer.
const READINGS_KEPT: usize = 1 << 14;
/// A job is another one from so much on, in thousandths of its period and of what it sends.
const CHANGED_PERMILLE: u64 = 20;

const EXAMPLES: &str = "\
EXAMPLES
  Watch an interface, and then an RDMA port:
    antiphase profile watch ens1f0
    antiphase profile watch mlx5_0/1 -o json
  The first answer comes after a dozen iterations at the earliest. An answer is printed when it is another than the one before.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct WatchArgs {
    /// Interface, or DEVICE/PORT of RDMA
    port: String,
    /// Milliseconds between two readings
    #[arg(long, value_name = "MS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    step_ms: u64,
    /// Seconds between two looks at what was read
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    every: u64,
    /// End after so many seconds; without it, when it is interrupted
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u64>,
    /// Form of the answers: for people, or one JSON document (antiphase.learned/v1) a line
    #[arg(short, long, value_enum, default_value_t)]
    output: Form,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Form {
    #[default]
    Table,
    Json,
}

pub(super) fn run(args: &WatchArgs) -> Result<ExitCode, CliError> {
    let mut port = open(&args.port)?;
    let step = Duration::from_millis(args.step_ms);
    let begun = Instant::now();
    let mut series = [Series::keeping(READINGS_KEPT), Series::keeping(READINGS_KEPT)];
    let mut said: Option<Answer> = None;
    let mut look_at = Duration::from_secs(args.every);
    let end = args.seconds.map(Duration::from_secs);
    say(&format!("reading {} every {} ms", args.port, args.step_ms));
    for reading in 0_u32.. {
        // The grid is that of the first reading, so that the work between two readings does not shift it.
        thread::sleep(step.saturating_mul(reading).saturating_sub(begun.elapsed()));
        let now = begun.elapsed();
        port.read(NodeTime(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)));
        if !port.is_present() {
            return Err(CliError::Failure(format!("{}: its counters are gone", args.port)));
        }
        let at = NodeTime(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX));
        for (series, counter) in series.iter_mut().zip([Counter::TxBytes, Counter::RxBytes]) {
            series.push(at, total(&port, counter));
        }
        let is_last = end.is_some_and(|end| now >= end);
        if now >= look_at || is_last {
            look_at = now + Duration::from_secs(args.every);
            let new = look(&series, Nanos::from_millis(args.step_ms));
            if said.as_ref().is_none_or(|said| differs(said, &new)) {
                tell(args.output, now, &new)?;
                said = Some(new);
            }
        }
        if is_last {
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn open(name: &str) -> Result<Port, CliError> {
    let root = Root::default();
    let port = if name.contains('/') {
        rdma_ports(&root).into_iter().find(|port| port.name() == name).map(Port::rdma)
    } else {
        Interface::open(&root, name).map(|interface| Port::new(name, PortSource::Interface(interface)))
    };
    let port = port.ok_or_else(|| CliError::Usage(format!("port {name:?}: no interface and no RDMA port of that name has counters")))?;
    let has = |counter| port.counters().contains(&counter);
    if has(Counter::TxBytes) && has(Counter::RxBytes) {
        return Ok(port);
    }
    // Soft-RoCE counts packets only; its interface counts its bytes.
    Err(CliError::Usage(format!("port {name:?}: it counts no bytes; watch its interface")))
}

fn total(port: &Port, counter: Counter) -> Option<u64> {
    port.counters().iter().zip(port.totals()).find(|(has, _)| **has == counter).map(|(_, total)| *total)
}

/// What the busier direction says.
fn look(series: &[Series; 2], step: Nanos) -> Answer {
    let [tx, rx] = series;
    let (busier, direction) = if rx.carried() > tx.carried() { (rx, Direction::Rx) } else { (tx, Direction::Tx) };
    answer(busier, step, direction)
}

/// Whether an answer is news.
fn differs(before: &Answer, now: &Answer) -> bool {
    let (Some(a), Some(b)) = (&before.job, &now.job) else { return before.job.is_some() != now.job.is_some() };
    let sends = |job: &super::learn::Job| job.phases.iter().map(|phase| phase.duration_ns).sum::<u64>();
    let far = |a: u64, b: u64| a.abs_diff(b).saturating_mul(1_000) > a.max(b).saturating_mul(CHANGED_PERMILLE);
    // What a job sends is seen to a step or two at either end, so its length is compared with the period.
    let sends_else = sends(a).abs_diff(sends(b)).saturating_mul(1_000) > a.period_ns.saturating_mul(2 * CHANGED_PERMILLE);
    far(a.period_ns, b.period_ns) || sends_else || before.others.len() != now.others.len()
}

fn tell(form: Form, at: Duration, answer: &Answer) -> Result<(), CliError> {
    match form {
        Form::Json => print(&serde_json::to_string(answer).map_err(|e| CliError::Failure(format!("cannot write the answer: {e}")))?),
        Form::Table => print(&format!("after {} s: {}", at.as_secs(), table(answer))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A port that sends at 8 Gb/s for `up` of every `period` milliseconds.
    fn answer_of(period: u64, up: u64) -> Answer {
        let mut series = [Series::keeping(READINGS_KEPT), Series::keeping(READINGS_KEPT)];
        let (mut bytes, step) = (0, 5);
        for ms in (0..60 * period).step_by(step) {
            series[0].push(NodeTime(ms * 1_000_000), Some(bytes));
            series[1].push(NodeTime(ms * 1_000_000), Some(7));
            bytes += if ms % period < up { 5_000_000 } else { 0 };
        }
        look(&series, Nanos::from_millis(step as u64))
    }

    #[test]
    fn news_are_another_job_and_not_the_same_again() {
        let (first, same, longer, shorter_up) = (answer_of(200, 80), answer_of(202, 80), answer_of(230, 80), answer_of(200, 50));
        assert!(first.periodic && first.direction == Direction::Tx, "{first:?}");
        assert_eq!([&same, &longer, &shorter_up].map(|now| differs(&first, now)), [false, true, true]);
        let silent = look(&[Series::default(), Series::default()], Nanos::from_millis(5));
        assert!(!silent.periodic && differs(&first, &silent) && !differs(&silent, &silent));
    }

    #[test]
    fn a_port_that_is_not_there_is_bad_input() {
        for name in ["no-such-port", "no-such/1"] {
            assert!(matches!(open(name), Err(CliError::Usage(said)) if said.contains(name)));
        }
    }
}
