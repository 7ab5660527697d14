//! Neighbours of the host: the ports at the other ends of its cables, looked up now and then.

use std::{
    io::Read,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use gate::now;
use prost::Message as _;
use proto::v1alpha1 as wire;
use telemetry::{
    Root, bridge_of, link_rate,
    lldp::{self, Capture, Neighbour},
};
use tokio::sync::watch;
use units::Rate;

use crate::{
    config::{LldpConfig, LldpMode},
    nap::{self, NAP},
};

/// How often frames are taken from the sockets, which keep them meanwhile.
const POLL: Duration = Duration::from_secs(1);
/// Looks of [`POLL`] between two questions to lldpd. Systems announce themselves every 30 seconds.
const LLDPD_LOOKS: u32 = 30;
/// Longest that lldpctl may take.
const LLDPCTL_PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of neighbours in one frame, of which the service takes 64 KiB.
const MESSAGE_BYTES_MAX: usize = 60 << 10;

/// What is known of the host's cables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cables {
    /// The neighbours, sorted, each with the rate that the host's own port negotiated, else what the neighbour says.
    pub neighbours: Vec<Neighbour>,
    /// The agent has looked for long enough: a port that has no neighbour here has none that announces itself.
    pub settled: bool,
    /// Two ports are ports of one bridge, so the host is a switch.
    pub forwards: bool,
}

/// The cables for the service: as many as fit into a frame. A cable has one system at its end, which names itself and its port in some
/// hundred bytes; whoever floods a cable with names of 255 bytes must not end the session.
#[must_use]
pub fn message(cables: &Cables) -> wire::Neighbours {
    let mut bytes = 0;
    let fits = |neighbour: &wire::Neighbour| {
        // A tag and a length of at most two bytes stand before each.
        bytes += neighbour.encoded_len() + 3;
        bytes <= MESSAGE_BYTES_MAX
    };
    let neighbours = cables.neighbours.iter().map(|seen| wire::Neighbour {
        port: seen.port.clone(),
        chassis: seen.chassis.clone(),
        remote_port: seen.remote_port.clone(),
        chassis_id: seen.chassis_id.clone(),
        description: seen.description.clone(),
        forwards: seen.forwards,
        rate_mbps: seen.rate.map(Rate::mbps),
    });
    wire::Neighbours { neighbours: neighbours.take_while(fits).collect(), settled: cables.settled, forwards: cables.forwards }
}

/// A running thread. The thread ends soon after this value is dropped, and nobody waits for the end: an lldpctl may hang.
#[derive(Debug)]
pub struct Looking {
    stop: Arc<AtomicBool>,
}

impl Looking {
    /// Starts to look at the cables of `ports`; `None` with mode `off`. A capture that cannot be opened, or an lldpctl that
    /// cannot be run, is said once and tried again.
    #[must_use]
    pub fn start(config: LldpConfig, root: Root, ports: Vec<String>, found: watch::Sender<Cables>) -> Option<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut teller = Teller { root, ports, found, settle: Duration::from_secs(config.settle_s), since: None };
        let stopped = Arc::clone(&stop);
        let look: Box<dyn FnOnce() + Send> = match config.mode {
            LldpMode::Off => return None,
            LldpMode::Lldpd => Box::new(move || ask_lldpd(&mut teller, &stopped)),
            LldpMode::Capture => Box::new(move || capture(&mut teller, config.promiscuous, &stopped)),
        };
        let thread = thread::Builder::new().name("lldp".into()).spawn(look);
        thread.inspect_err(|error| tracing::error!(%error, "lldp: no thread")).ok()?;
        Some(Self { stop })
    }
}

/// Tells what changed.
struct Teller {
    root: Root,
    ports: Vec<String>,
    found: watch::Sender<Cables>,
    settle: Duration,
    /// Since when neighbours could be seen.
    since: Option<Instant>,
}

impl Teller {
    fn tell(&mut self, mut neighbours: Vec<Neighbour>) {
        let since = *self.since.get_or_insert_with(Instant::now);
        for neighbour in &mut neighbours {
            // Our own driver knows what the port runs at; the other system's word has passed through a text.
            neighbour.rate = link_rate(&self.root, &neighbour.port).or(neighbour.rate);
        }
        let cables = Cables { neighbours, settled: since.elapsed() >= self.settle, forwards: self.forwards() };
        self.found.send_if_modified(|known| {
            let changed = *known != cables;
            *known = cables;
            changed
        });
    }

    fn forwards(&self) -> bool {
        let mut bridges: Vec<String> = self.ports.iter().filter_map(|port| bridge_of(&self.root, port)).collect();
        bridges.sort();
        bridges.windows(2).any(|two| two[0] == two[1])
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn capture(teller: &mut Teller, promiscuous: bool, stop: &AtomicBool) {
    let mut capture = None;
    let mut said = false;
    while !stop.load(Ordering::Relaxed) {
        // A capture that failed is tried again at every POLL, as a port may come later; `said` keeps the log to one line.
        if capture.is_none() {
            match Capture::open(&teller.ports, promiscuous) {
                Ok(opened) => capture = Some(opened),
                Err(error) if !said => {
                    tracing::warn!(%error, "lldp: no neighbours");
                    said = true;
                }
                Err(_) => {}
            }
        }
        if let Some(capture) = &mut capture {
            capture.poll(now());
            teller.tell(capture.neighbours());
        }
        nap::until(POLL, stop);
    }
}

fn ask_lldpd(teller: &mut Teller, stop: &AtomicBool) {
    let mut said = false;
    while !stop.load(Ordering::Relaxed) {
        match lldpctl(stop) {
            Ok(mut neighbours) => {
                // lldpd knows every cable of the host; only those of the ports that are read are ours to report.
                neighbours.retain(|neighbour| teller.ports.contains(&neighbour.port));
                teller.tell(neighbours);
                said = false;
            }
            Err(error) if !said => {
                tracing::warn!(error, "lldp: no neighbours");
                said = true;
            }
            Err(_) => {}
        }
        nap::until(POLL * LLDPD_LOOKS, stop);
    }
}

fn lldpctl(stop: &AtomicBool) -> Result<Vec<Neighbour>, String> {
    let mut command = Command::new("lldpctl");
    command.args(["-f", "json0"]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| format!("lldpctl: {error}"))?;
    // The output may be longer than a pipe holds, so a thread reads it while lldpctl runs: a full pipe would stop lldpctl.
    let mut output = child.stdout.take().ok_or("lldpctl: no output")?;
    let read = move || {
        let mut text = String::new();
        // A table longer than may be is refused by its parser, so there is no need to read all of it.
        let bounded = (&mut output).take(lldp::TABLE_BYTES_MAX as u64 + 1).read_to_string(&mut text);
        bounded.map(|_| text)
    };
    let reader = match thread::Builder::new().name("lldpctl".into()).spawn(read) {
        Ok(reader) => reader,
        // The system gives no thread now; it may at the next look.
        Err(error) => {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("a thread to read lldpctl: {error}"));
        }
    };
    let mut waited = Duration::ZERO;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Ok(status),
            // LLDPCTL_PATIENCE bounds the loop in steps of NAP, and a stop ends it within one of them.
            Ok(None) if waited < LLDPCTL_PATIENCE && !stop.load(Ordering::Relaxed) => {
                thread::sleep(NAP);
                waited += NAP;
            }
            other => {
                // The kill closes the pipe, so the reader below ends, and the wait leaves no zombie behind.
                let _ = child.kill();
                let _ = child.wait();
                break Err(other.err().map_or_else(|| "lldpctl: no answer".to_owned(), |error| format!("lldpctl: {error}")));
            }
        }
    };
    let text = reader.join().map_err(|_| "lldpctl: unreadable".to_owned())?;
    let status = status?;
    if !status.success() {
        return Err(format!("lldpctl: {status}; is lldpd running, and may this user ask it?"));
    }
    lldp::neighbours(&text.map_err(|error| format!("lldpctl: {error}"))?).map_err(|error| format!("lldpctl: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_long_names_fits_into_a_frame() {
        let name = |n: usize| format!("{n:0255}");
        let neighbour = |n| Neighbour { port: "eth0".into(), chassis: name(n), remote_port: name(n), ..Neighbour::default() };
        let cables = Cables { neighbours: (0..lldp::HELD_MAX).map(neighbour).collect(), settled: true, forwards: false };
        let told = message(&cables);
        assert!((55 << 10..=MESSAGE_BYTES_MAX + 16).contains(&told.encoded_len()), "{}", told.encoded_len());
        assert!(told.neighbours.len() < cables.neighbours.len() && told.settled);
    }
}
