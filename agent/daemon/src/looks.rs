//! Commands that look at this host once, without a configuration: `queues` and `capture`. They print lines of JSON.

use std::{
    io::{self, Write as _},
    process::ExitCode,
    time::{Duration, Instant},
};

use antiphase_agent::args::CaptureArgs;
use serde_json::{Map, Value, json};
use telemetry::{
    nldev::queue_counters,
    roce::{Listener, Seen, Tally},
};
use units::OneLine;

/// Prints lines. A reader that has seen enough closes the pipe.
fn print(lines: impl Iterator<Item = Value>) {
    let mut out = io::stdout().lock();
    for line in lines {
        if writeln!(out, "{line}").is_err() {
            return;
        }
    }
}

fn failed(problem: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("antiphase-agent: {}", OneLine(problem));
    ExitCode::FAILURE
}

/// Prints what the kernel has of queue pairs.
pub(crate) fn queues() -> ExitCode {
    let counters = match queue_counters() {
        Ok(counters) => counters,
        Err(error) => return failed(&error),
    };
    if counters.is_empty() {
        eprintln!(
            "antiphase-agent: no queue pair is bound to a counter; `rdma statistic qp set link DEVICE/PORT auto type,pid on` binds them"
        );
    }
    print(counters.iter().map(|counter| {
        let values: Map<String, Value> = counter.values.iter().map(|(name, value)| (name.clone(), (*value).into())).collect();
        json!({
            "device": counter.device,
            "port": counter.port,
            "id": counter.id,
            "pid": counter.pid,
            "queue_pairs": counter.queue_pairs,
            "counters": values,
        })
    }));
    ExitCode::SUCCESS
}

/// Listens for some time, and prints what each queue pair had.
pub(crate) fn capture(args: &CaptureArgs) -> ExitCode {
    let mut listener = match Listener::open(&args.port) {
        Ok(listener) => listener,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            eprintln!("antiphase-agent: {}", OneLine(&error));
            return ExitCode::from(2);
        }
        Err(error) => return failed(&format_args!("{}: {error} (needs CAP_NET_RAW)", args.port)),
    };
    let (mut tally, until) = (Tally::default(), Instant::now() + Duration::from_secs(args.seconds));
    while Instant::now() < until {
        if let Err(error) = listener.look(&mut tally) {
            return failed(&format_args!("{}: {error}", args.port));
        }
    }
    let line = |seen: &Seen| {
        json!({
            "packets": seen.packets,
            "payload_bytes": seen.payload_bytes,
            "ecn_marked": seen.marked,
            "cnp": seen.notifications,
            "broken": seen.broken,
        })
    };
    let with = |key: Value, seen: &Seen| match (key, line(seen)) {
        (Value::Object(mut key), Value::Object(counts)) => {
            key.extend(counts);
            Value::Object(key)
        }
        (_, counts) => counts,
    };
    print(tally.queue_pairs.iter().map(|(pair, seen)| {
        with(json!({ "source": pair.source.to_string(), "destination": pair.destination.to_string(), "queue_pair": pair.number }), seen)
    }));
    if tally.others != Seen::default() {
        print(std::iter::once(with(json!({ "source": "others" }), &tally.others)));
    }
    eprintln!("antiphase-agent: {} queue pairs; {} frames of something else", tally.queue_pairs.len(), tally.foreign);
    ExitCode::SUCCESS
}
