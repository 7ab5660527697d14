//! `antiphase-verbs`: RDMA devices of a node, as JSON lines.
//!
//! Exit codes: 0 done, 1 failure, 2 usage or bad input, 3 the library is missing, 4 the kernel has no support for RDMA, 5 there is
//! no device. Each of 1 to 5 comes with one line on standard error; arguments that are none, with their usage.
#![forbid(unsafe_code)]

use std::{
    io::{self, Write, stdout},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::ExitCode,
    thread,
    time::{Duration, Instant, SystemTime},
};

use antiphase_verbs::{
    args::{Args, Command, Host, Port, ProbeArgs, WriteArgs},
    device::{Devices, Verbs, VerbsError},
    events, exchange, inventory, probe,
    queue::{Address, Endpoint, Options},
    server, writer,
};
use clap::Parser as _;
use gate::Gate;
use serde::Serialize;
use units::OneLine;

/// What somebody wrote that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct BadInput(String);

fn end(port: &Port, devices: &Devices, sys: &Path, message: u32, depth: u32) -> Result<Endpoint, VerbsError> {
    Endpoint::open(devices.open(&port.device)?, &Options { port: port.port, gid: port.gid, message, depth, sys })
}

/// An end that is connected with one of a server, for as long as the stream is open.
fn call(port: &Port, devices: &Devices, sys: &Path, peer: &str, message: u32, depth: u32) -> anyhow::Result<(TcpStream, Endpoint)> {
    let mut end = end(port, devices, sys, message, depth)?;
    let (stream, theirs) = exchange::call(peer, &end.address())?;
    end.connect(&theirs, port.traffic_class)?;
    Ok((stream, end))
}

fn gate(args: &WriteArgs) -> anyhow::Result<Gate> {
    let read = if args.job.is_some() { Ok(gate::Config::from_env_without_job()) } else { gate::Config::from_env() };
    let mut config = read.map_err(|error| BadInput(error.to_string()))?;
    config.job = args.job.clone().or(config.job);
    config.directory = args.gate_dir.clone().unwrap_or(config.directory);
    Ok(Gate::open(&config))
}

fn write(args: &WriteArgs, devices: &Devices, sys: &Path) -> anyhow::Result<()> {
    let gate = gate(args)?;
    let (_held, mut end) = call(&args.port, devices, sys, &args.peer, args.message, args.depth)?;
    let (compute, until) = (Duration::from_millis(args.compute_ms), after(args.seconds));
    let options = writer::Options { bytes: args.bytes, compute, iterations: args.iterations, until };
    thread::sleep(args.start_unix_ms.map_or(Duration::ZERO, |start| left_until(Duration::from_millis(start))));
    writer::run(&mut end, &gate, &options, print)
}

fn time(args: &ProbeArgs, devices: &Devices, sys: &Path) -> anyhow::Result<()> {
    let (_held, mut end) = call(&args.port, devices, sys, &args.peer, probe::PROBE_BYTES, 1)?;
    let options = probe::Options { probes: args.probes, interval: Duration::from_millis(args.interval_ms), until: after(args.seconds) };
    let summary = probe::run(&mut end, &options, print)?;
    summary.iter().try_for_each(print)
}

/// Serves on this device. A device is opened for each caller, so that no caller can keep what another one needs.
fn serve(host: &Host, port: Port, listen: SocketAddr) -> anyhow::Result<()> {
    let (library, sys) = (host.library.clone(), host.sys.clone());
    // A server that cannot serve says so before anybody calls.
    let verbs = Verbs::load(&library)?;
    drop(end(&port, &verbs.devices(&sys)?, &sys, 1, 1)?);
    let make = move |theirs: &Address| {
        // A buffer is as long as the caller's, and the caller alone sends.
        let mut end = end(&port, &verbs.devices(&sys)?, &sys, theirs.length, 1)?;
        end.connect(theirs, port.traffic_class)?;
        Ok(end)
    };
    // Nobody may read our lines any more; callers are served all the same.
    Ok(server::run(listen, make, |record| drop(print(record)))?)
}

/// What is left until a time since 1970.
fn left_until(start: Duration) -> Duration {
    start.saturating_sub(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
}

/// A time beyond what the clock can say is no end.
fn after(seconds: Option<u64>) -> Option<Instant> {
    seconds.and_then(|seconds| Instant::now().checked_add(Duration::from_secs(seconds)))
}

fn devices(host: &Host) -> Result<Devices, VerbsError> {
    Verbs::load(&host.library)?.devices(&host.sys)
}

fn main() -> ExitCode {
    let cli = Args::parse();
    match run(&cli.host, cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("antiphase-verbs: {}", OneLine(&error));
            exit_code(&error)
        }
    }
}

fn run(host: &Host, command: Command) -> anyhow::Result<()> {
    let devices = devices(host)?;
    match command {
        Command::Devices { device } => inventory::ports(&devices, device.as_deref(), &host.sys)?.iter().try_for_each(print),
        Command::Serve { port, listen } => serve(host, port, listen),
        Command::Write(args) => write(&args, &devices, &host.sys),
        Command::Probe(args) => time(&args, &devices, &host.sys),
        Command::Events { device, seconds } => {
            let names = device.map_or_else(|| devices.names(), |name| vec![name]);
            let open = names.iter().map(|name| devices.open(name)).collect::<Result<Vec<_>, _>>()?;
            events::follow(open, after(seconds), print)
        }
    }
}

/// One JSON line, at once: whoever reads may wait for it.
fn print(record: &impl Serialize) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    serde_json::to_writer(&mut out, record).map_err(io::Error::from)?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}

/// Whoever read our lines has gone, which is how `| head` ends.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn exit_code(error: &anyhow::Error) -> ExitCode {
    if error.is::<BadInput>() {
        return ExitCode::from(2);
    }
    ExitCode::from(match error.downcast_ref::<VerbsError>() {
        Some(VerbsError::NotFound { .. } | VerbsError::Unusable { .. }) => 2,
        Some(VerbsError::Library(_)) => 3,
        Some(VerbsError::NoKernelSupport { .. }) => 4,
        Some(VerbsError::NoDevice { .. }) => 5,
        _ => 1,
    })
}
