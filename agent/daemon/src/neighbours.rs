//! Neighbours of the host: the ports at the other ends of its cables, looked up now and then.

use std::{
    io::Read,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use gate::now;
use telemetry::lldp::{self, Capture, Neighbour};
use tokio::sync::watch;

use crate::config::LldpMode;

/// How often frames are taken from the sockets, which keep them meanwhile.
const POLL: Duration = Duration::from_secs(1);
/// Looks of [`POLL`] between two questions to lldpd. Systems announce themselves every 30 seconds.
const LLDPD_LOOKS: u32 = 30;
/// Longest that lldpctl may take.
const LLDPCTL_PATIENCE: Duration = Duration::from_secs(10);
/// How often a thread looks whether it should end, and a child whether it has.
const NAP: Duration = Duration::from_millis(100);

/// A running thread. The thread ends soon after this value is dropped, and nobody waits for the end: an lldpctl may hang.
#[derive(Debug)]
pub struct Looking {
    stop: Arc<AtomicBool>,
}

impl Looking {
    /// Starts to look at the cables of `ports`; `None` with mode `off`. A capture that cannot be opened, or an lldpctl that
    /// cannot be run, is said once and tried again.
    #[must_use]
    pub fn start(mode: LldpMode, promiscuous: bool, ports: Vec<String>, found: watch::Sender<Vec<Neighbour>>) -> Option<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let look: Box<dyn FnOnce() + Send> = match mode {
            LldpMode::Off => return None,
            LldpMode::Lldpd => Box::new(move || ask_lldpd(&ports, &found, &stopped)),
            LldpMode::Capture => Box::new(move || capture(&ports, promiscuous, &found, &stopped)),
        };
        let thread = thread::Builder::new().name("lldp".into()).spawn(look);
        thread.inspect_err(|error| tracing::error!(%error, "lldp: no thread")).ok()?;
        Some(Self { stop })
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn capture(ports: &[String], promiscuous: bool, found: &watch::Sender<Vec<Neighbour>>, stop: &AtomicBool) {
    let mut capture = None;
    let mut said = false;
    while !stop.load(Ordering::Relaxed) {
        // A capture that failed is tried again at every POLL, as a port may come later; `said` keeps the log to one line.
        if capture.is_none() {
            match Capture::open(ports, promiscuous) {
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
            tell(found, capture.neighbours());
        }
        nap(POLL, stop);
    }
}

fn ask_lldpd(ports: &[String], found: &watch::Sender<Vec<Neighbour>>, stop: &AtomicBool) {
    let mut said = false;
    while !stop.load(Ordering::Relaxed) {
        match lldpctl(stop) {
            Ok(mut neighbours) => {
                // lldpd knows every cable of the host; only those of the ports that are read are ours to report.
                neighbours.retain(|neighbour| ports.contains(&neighbour.port));
                tell(found, neighbours);
                said = false;
            }
            Err(error) if !said => {
                tracing::warn!(error, "lldp: no neighbours");
                said = true;
            }
            Err(_) => {}
        }
        nap(POLL * LLDPD_LOOKS, stop);
    }
}

fn lldpctl(stop: &AtomicBool) -> Result<Vec<Neighbour>, String> {
    let mut command = Command::new("lldpctl");
    command.args(["-f", "json0"]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| format!("lldpctl: {error}"))?;
    // The output may be longer than a pipe holds, so a thread reads it while lldpctl runs: a full pipe would stop lldpctl.
    let mut output = child.stdout.take().ok_or("lldpctl: no output")?;
    let reader = thread::spawn(move || {
        let mut text = String::new();
        // A table longer than may be is refused by its parser, so there is no need to read all of it.
        let bounded = (&mut output).take(lldp::TABLE_BYTES_MAX as u64 + 1).read_to_string(&mut text);
        bounded.map(|_| text)
    });
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

/// Tells only what changed.
fn tell(found: &watch::Sender<Vec<Neighbour>>, neighbours: Vec<Neighbour>) {
    found.send_if_modified(|known| {
        let changed = *known != neighbours;
        *known = neighbours;
        changed
    });
}

fn nap(length: Duration, stop: &AtomicBool) {
    let mut left = length;
    while !left.is_zero() && !stop.load(Ordering::Relaxed) {
        // Short naps instead of one sleep, so that a stop is seen within NAP.
        let nap = left.min(NAP);
        thread::sleep(nap);
        left -= nap;
    }
}
