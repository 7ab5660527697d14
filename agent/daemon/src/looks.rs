//! Commands that look at this host once, without a configuration: `queues`, `counters` and `capture`. They print lines of JSON.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Write as _},
    process::ExitCode,
    time::{Duration, Instant},
};

use antiphase_agent::args::CaptureArgs;
use gate::job_of;
use serde_json::{Map, Value, json};
use telemetry::{
    nldev::{port_statistics, queue_counters, queue_pairs},
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

/// Prints the queue pairs, and the counters to which some are bound, with the jobs of their processes.
pub(crate) fn queues() -> ExitCode {
    let (pairs, counters) = match queue_pairs().and_then(|pairs| Ok((pairs, queue_counters()?))) {
        Ok(told) => told,
        Err(error) => return failed(&error),
    };
    if counters.is_empty() {
        eprintln!(
            "antiphase-agent: no queue pair is bound to a counter; `rdma statistic qp set link DEVICE/PORT auto type,pid on` binds them"
        );
    }
    // A process has hundreds of queue pairs.
    let processes: BTreeSet<u32> = pairs.iter().filter_map(|pair| pair.pid).chain(counters.iter().filter_map(|one| one.pid)).collect();
    let jobs: BTreeMap<u32, String> = processes.into_iter().filter_map(|pid| Some((pid, job_of(pid)?.as_str().to_owned()))).collect();
    let job = |pid: Option<u32>| pid.and_then(|pid| jobs.get(&pid));
    print(pairs.iter().map(|pair| {
        json!({
            "device": pair.device,
            "port": pair.port,
            "queue_pair": pair.number,
            "remote": pair.remote,
            "type": pair.kind,
            "state": pair.state,
            "pid": pair.pid,
            "job": job(pair.pid),
        })
    }));
    print(counters.iter().map(|counter| {
        json!({
            "device": counter.device,
            "port": counter.port,
            "id": counter.id,
            "pid": counter.pid,
            "job": job(counter.pid),
            "queue_pairs": counter.queue_pairs,
            "counters": by_name(&counter.values),
        })
    }));
    ExitCode::SUCCESS
}

fn by_name<T: Copy + Into<Value>>(values: &[(String, T)]) -> Map<String, Value> {
    values.iter().map(|(name, value)| (name.clone(), (*value).into())).collect()
}

/// Prints the counters of ports as netlink has them, and which of the optional ones are on.
pub(crate) fn counters() -> ExitCode {
    let ports = match port_statistics() {
        Ok(ports) => ports,
        Err(error) => return failed(&error),
    };
    print(ports.iter().map(
        |port| json!({ "device": port.device, "port": port.port, "counters": by_name(&port.values), "optional": by_name(&port.optional) }),
    ));
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
