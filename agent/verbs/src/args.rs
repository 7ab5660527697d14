//! What there is to type for `antiphase-verbs`; its manual page and completions are made of this too.

use std::{ffi::OsString, net::SocketAddr, path::PathBuf};

use clap::{Parser, Subcommand};
use gate::JobName;

use crate::{
    library,
    probe::PROBES_MAX,
    queue::{DEPTH_MAX, MESSAGE_BYTES_MAX},
    sysfs,
};

/// ECN-capable transport, without a DSCP (RFC 3168).
const ECT0: u8 = 2;

/// Looks at RDMA devices and sends on them. Prints JSON lines.
#[derive(Debug, Parser)]
#[command(name = "antiphase-verbs", version)]
pub struct Args {
    /// Where things are.
    #[command(flatten)]
    pub host: Host,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Where the library and the kernel's tree are.
#[derive(Debug, clap::Args)]
pub struct Host {
    /// The verbs library: a file, or a name that the loader finds.
    #[arg(long, value_name = "FILE", default_value = library::NAME, global = true)]
    pub library: OsString,
    /// The kernel's tree: another one in a container that sees its host's.
    #[arg(long, value_name = "FOLDER", default_value = sysfs::SYS, global = true)]
    pub sys: PathBuf,
}

/// What the program does.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the ports: state, rate, MTU, and GIDs with RoCE version and interface.
    Devices {
        /// Only this device.
        #[arg(long)]
        device: Option<String>,
    },
    /// Give everybody who calls a buffer to write to: the other end of `write` and `probe`.
    Serve {
        /// How packets leave.
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
#[derive(Debug, clap::Args)]
pub struct Port {
    /// The device.
    #[arg(long)]
    pub device: String,
    /// The device's port, from 1.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..))]
    pub port: u8,
    /// Index of the GID. Without it: RoCE v2 with an IPv4 address, if there is one.
    #[arg(long, value_name = "INDEX")]
    pub gid: Option<u8>,
    /// DSCP and ECN bits of packets: 2 is ECT(0), without which queues drop what they could mark.
    #[arg(long, value_name = "BYTE", default_value_t = ECT0)]
    pub traffic_class: u8,
}

/// Of `write`.
#[derive(Debug, clap::Args)]
pub struct WriteArgs {
    /// How packets leave.
    #[command(flatten)]
    pub port: Port,
    /// Where a server takes callers: HOST:PORT.
    #[arg(long, value_name = "ADDRESS", value_parser = peer)]
    pub peer: String,
    /// Bytes of one iteration.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    pub bytes: u64,
    /// Bytes of one message.
    #[arg(long, value_name = "BYTES", default_value_t = 65_536, value_parser = clap::value_parser!(u32).range(1..=i64::from(MESSAGE_BYTES_MAX)))]
    pub message: u32,
    /// Messages under way at once.
    #[arg(long, value_name = "MESSAGES", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=i64::from(DEPTH_MAX)))]
    pub depth: u32,
    /// Pause after each iteration, in ms: where a job would compute.
    #[arg(long, value_name = "MS")]
    pub compute_ms: u64,
    /// End after so many iterations.
    #[arg(long, default_value_t = u64::MAX, hide_default_value = true)]
    pub iterations: u64,
    /// Begin no iteration after so many seconds.
    #[arg(long)]
    pub seconds: Option<u64>,
    /// Begin at this time, in ms since 1970: writers on several hosts then begin together.
    #[arg(long, value_name = "MS")]
    pub start_unix_ms: Option<u64>,
    /// The job whose page the gate follows. Without it: ANTIPHASE_JOB, else no gate.
    #[arg(long, value_parser = JobName::try_new)]
    pub job: Option<JobName>,
    /// The folder of the agent's pages. Without it: ANTIPHASE_DIR, else /run/antiphase.
    #[arg(long, value_name = "FOLDER")]
    pub gate_dir: Option<PathBuf>,
}

/// Of `probe`.
#[derive(Debug, clap::Args)]
pub struct ProbeArgs {
    /// How packets leave.
    #[command(flatten)]
    pub port: Port,
    /// Where a server takes callers: HOST:PORT.
    #[arg(long, value_name = "ADDRESS", value_parser = peer)]
    pub peer: String,
    /// How many probes.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=PROBES_MAX))]
    pub probes: u64,
    /// Pause after each, in ms.
    #[arg(long, value_name = "MS", default_value_t = 10)]
    pub interval_ms: u64,
    /// Begin none after so many seconds.
    #[arg(long)]
    pub seconds: Option<u64>,
}

/// HOST:PORT, as it is resolved later.
fn peer(text: &str) -> Result<String, String> {
    match text.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse().is_ok_and(|port: u16| port > 0) => Ok(text.to_owned()),
        _ => Err("it has to be HOST:PORT".to_owned()),
    }
}
