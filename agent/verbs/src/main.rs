//! `antiphase-verbs`: RDMA devices of a node, as JSON lines.
//!
//! Exit codes: 0 done, 1 failure, 2 usage or bad input, 3 the library is missing, 4 the kernel has no support for RDMA, 5 there is
//! no device. Each of 1 to 5 comes with one line on standard error; arguments that are none, with their usage.
#![forbid(unsafe_code)]

use std::{
    ffi::OsString,
    io::{self, Write, stdout},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::ExitCode,
    thread,
    time::{Duration, Instant, SystemTime},
};

use antiphase_verbs::{
    device::{Devices, Verbs, VerbsError},
    events, exchange, inventory, library,
    probe::{self, PROBES_MAX},
    queue::{Address, DEPTH_MAX, Endpoint, MESSAGE_BYTES_MAX, Options},
    server, sysfs, writer,
};
use clap::{Args, Parser, Subcommand};
use gate::{Gate, JobName};
use serde::Serialize;
use units::OneLine;

/// ECN-capable transport, without a DSCP (RFC 3168).
const ECT0: u8 = 2;

/// Looks at RDMA devices and sends on them. Prints JSON lines.
#[derive(Parser)]
#[command(name = "antiphase-verbs", version)]
struct Cli {
    #[command(flatten)]
    host: Host,
    #[command(subcommand)]
    command: Command,
}

/// Where the library and the kernel's tree are.
#[derive(Args)]
struct Host {
    /// The verbs library: a file, or a name that the loader finds.
    #[arg(long, value_name = "FILE", default_value = library::NAME, global = true)]
    library: OsString,
    /// The kernel's tree: another one in a container that sees its host's.
    #[arg(long, value_name = "FOLDER", default_value = sysfs::SYS, global = true)]
    sys: PathBuf,
}

#[derive(Subcommand)]
enum Command {
    /// List the ports: state, rate, MTU, and GIDs with RoCE version and interface.
    Devices {
        /// Only this device.
        #[arg(long)]
        device: Option<String>,
    },
    /// Give everybody who calls a buffer to write to: the other end of `write` and `probe`.
    Serve {
        #[command(flatten)]
        port: Port,
        /// Address to take callers at. Nothing asks who calls: choose one that only your hosts reach.
        #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7482")]
        listen: SocketAddr,
    },
    /// Write to a server in iterations, each through the gate, and print when each was ready, went and ended.
    Write(WriteArgs),
    /// Time small writes to a server, one at a time: the round trip with the queues on the way.
    Probe(ProbeArgs),
    /// Print asynchronous events as they come: ports that go up or down, GIDs that change, devices that fail.
    Events {
        /// Only this device.
        #[arg(long)]
        device: Option<String>,
        /// End after so many seconds.
        #[arg(long, value_name = "SECONDS")]
        seconds: Option<u64>,
    },
}

/// A port of a device, and how packets leave it.
#[derive(Args)]
struct Port {
    /// The device.
    #[arg(long)]
    device: String,
    /// The device's port, from 1.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..))]
    port: u8,
    /// Index of the GID. Without it: RoCE v2 with an IPv4 address, if there is one.
    #[arg(long, value_name = "INDEX")]
    gid: Option<u8>,
    /// DSCP and ECN bits of packets: 2 is ECT(0), without which queues drop what they could mark.
    #[arg(long, value_name = "BYTE", default_value_t = ECT0)]
    traffic_class: u8,
}

#[derive(Args)]
struct WriteArgs {
    #[command(flatten)]
    port: Port,
    /// Where a server takes callers: HOST:PORT.
    #[arg(long, value_name = "ADDRESS", value_parser = peer)]
    peer: String,
    /// Bytes of one iteration.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    bytes: u64,
    /// Bytes of one message.
    #[arg(long, value_name = "BYTES", default_value_t = 65_536, value_parser = clap::value_parser!(u32).range(1..=i64::from(MESSAGE_BYTES_MAX)))]
    message: u32,
    /// Messages under way at once.
    #[arg(long, value_name = "MESSAGES", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=i64::from(DEPTH_MAX)))]
    depth: u32,
    /// Pause after each iteration, in ms: where a job would compute.
    #[arg(long, value_name = "MS")]
    compute_ms: u64,
    /// End after so many iterations.
    #[arg(long, default_value_t = u64::MAX, hide_default_value = true)]
    iterations: u64,
    /// Begin no iteration after so many seconds.
    #[arg(long)]
    seconds: Option<u64>,
    /// Begin at this time, in ms since 1970: writers on several hosts then begin together.
    #[arg(long, value_name = "MS")]
    start_unix_ms: Option<u64>,
    /// The job whose page the gate follows. Without it: ANTIPHASE_JOB, else no gate.
    #[arg(long, value_parser = JobName::try_new)]
    job: Option<JobName>,
    /// The folder of the agent's pages. Without it: ANTIPHASE_DIR, else /run/antiphase.
    #[arg(long, value_name = "FOLDER")]
    gate_dir: Option<PathBuf>,
}

#[derive(Args)]
struct ProbeArgs {
    #[command(flatten)]
    port: Port,
    /// Where a server takes callers: HOST:PORT.
    #[arg(long, value_name = "ADDRESS", value_parser = peer)]
    peer: String,
    /// How many probes.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=PROBES_MAX))]
    probes: u64,
    /// Pause after each, in ms.
    #[arg(long, value_name = "MS", default_value_t = 10)]
    interval_ms: u64,
    /// Begin none after so many seconds.
    #[arg(long)]
    seconds: Option<u64>,
}

/// What somebody wrote that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct BadInput(String);

/// HOST:PORT, as it is resolved later.
fn peer(text: &str) -> Result<String, String> {
    match text.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse().is_ok_and(|port: u16| port > 0) => Ok(text.to_owned()),
        _ => Err("it has to be HOST:PORT".to_owned()),
    }
}

impl Port {
    fn end(&self, devices: &Devices, sys: &Path, message: u32, depth: u32) -> Result<Endpoint, VerbsError> {
        Endpoint::open(devices.open(&self.device)?, &Options { port: self.port, gid: self.gid, message, depth, sys })
    }

    /// An end that is connected with one of a server, for as long as the stream is open.
    fn call(&self, devices: &Devices, sys: &Path, peer: &str, message: u32, depth: u32) -> anyhow::Result<(TcpStream, Endpoint)> {
        let mut end = self.end(devices, sys, message, depth)?;
        let (stream, theirs) = exchange::call(peer, &end.address())?;
        end.connect(&theirs, self.traffic_class)?;
        Ok((stream, end))
    }
}

impl WriteArgs {
    fn gate(&self) -> anyhow::Result<Gate> {
        let read = if self.job.is_some() { Ok(gate::Config::from_env_without_job()) } else { gate::Config::from_env() };
        let mut config = read.map_err(|error| BadInput(error.to_string()))?;
        config.job = self.job.clone().or(config.job);
        config.directory = self.gate_dir.clone().unwrap_or(config.directory);
        Ok(Gate::open(&config))
    }

    fn run(&self, devices: &Devices, sys: &Path) -> anyhow::Result<()> {
        let gate = self.gate()?;
        let (_held, mut end) = self.port.call(devices, sys, &self.peer, self.message, self.depth)?;
        let (compute, until) = (Duration::from_millis(self.compute_ms), after(self.seconds));
        let options = writer::Options { bytes: self.bytes, compute, iterations: self.iterations, until };
        thread::sleep(self.start_unix_ms.map_or(Duration::ZERO, |start| left_until(Duration::from_millis(start))));
        writer::run(&mut end, &gate, &options, print)
    }
}

impl ProbeArgs {
    fn run(&self, devices: &Devices, sys: &Path) -> anyhow::Result<()> {
        let (_held, mut end) = self.port.call(devices, sys, &self.peer, probe::PROBE_BYTES, 1)?;
        let options = probe::Options { probes: self.probes, interval: Duration::from_millis(self.interval_ms), until: after(self.seconds) };
        let summary = probe::run(&mut end, &options, print)?;
        summary.iter().try_for_each(print)
    }
}

/// Serves on this device. A device is opened for each caller, so that no caller can keep what another one needs.
fn serve(host: &Host, port: Port, listen: SocketAddr) -> anyhow::Result<()> {
    let (library, sys) = (host.library.clone(), host.sys.clone());
    // A server that cannot serve says so before anybody calls.
    let verbs = Verbs::load(&library)?;
    drop(port.end(&verbs.devices(&sys)?, &sys, 1, 1)?);
    let make = move |theirs: &Address| {
        // A buffer is as long as the caller's, and the caller alone sends.
        let mut end = port.end(&verbs.devices(&sys)?, &sys, theirs.length, 1)?;
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

impl Host {
    fn devices(&self) -> Result<Devices, VerbsError> {
        Verbs::load(&self.library)?.devices(&self.sys)
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
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
    let devices = host.devices()?;
    match command {
        Command::Devices { device } => inventory::ports(&devices, device.as_deref(), &host.sys)?.iter().try_for_each(print),
        Command::Serve { port, listen } => serve(host, port, listen),
        Command::Write(args) => args.run(&devices, &host.sys),
        Command::Probe(args) => args.run(&devices, &host.sys),
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
