//! RDMA devices, as the program `antiphase-verbs` tells them: the agent starts it, starts it again when it ends, and does without it.
//!
//! The agent itself loads no verbs library, so it starts on every host; what the program does in C is another process's trouble.

use std::{
    collections::BTreeMap,
    env,
    io::{self, BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use serde::Deserialize;

use crate::nap::{self, NAP};

/// The program's name.
const PROGRAM: &str = "antiphase-verbs";
/// How long it listens for events in one run. An agent that is killed leaves one behind for no longer.
const RUN: Duration = Duration::from_secs(60);
/// How much longer than that a run may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Waits between runs: twice as long each time, until one lasts for `LASTED`. Events that come in a burst must not start programs as fast as
/// they come, and a host without RDMA fails alike for ever.
const BACKOFF_MIN: Duration = Duration::from_secs(1);
const BACKOFF_QUICK_MAX: Duration = Duration::from_secs(16);
const BACKOFF_FAILED_MAX: Duration = Duration::from_secs(300);
const LASTED: Duration = Duration::from_secs(10);
/// Longest line that is read: a port with 256 GIDs takes 30 KiB.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// Lines that wait, and most ports and kinds of events that are kept.
const WAITING: usize = 64;
const PORTS_MAX: usize = 256;
const EVENTS_MAX: usize = 512;

/// A port of a device.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct RdmaPortView {
    /// Name of the device.
    pub device: String,
    /// Number of the port, from 1.
    pub port: u8,
    /// `active` is the state in which packets pass.
    pub state: String,
    /// Such as `ethernet` for RoCE.
    pub link_layer: String,
    /// The negotiated rate, if the kernel says it.
    #[serde(default)]
    pub rate_mbps: Option<u64>,
    /// The interface of the GID that traffic uses.
    #[serde(default)]
    pub netdev: Option<String>,
    /// The driver's text.
    #[serde(default)]
    pub firmware: String,
    /// Its addresses.
    #[serde(default)]
    gids: Vec<Gid>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Gid {
    version: String,
}

impl RdmaPortView {
    /// Addresses by which RoCE v2 reaches it.
    #[must_use]
    pub fn roce_v2(&self) -> usize {
        self.gids.iter().filter(|gid| gid.version == "roce-v2").count()
    }
}

#[derive(Debug, Deserialize)]
struct EventLine {
    device: String,
    event: String,
}

/// What is known of RDMA devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RdmaView {
    /// The last run told its ports.
    pub up: bool,
    /// Runs that failed.
    pub failures: u64,
    /// In the program's order.
    pub ports: Vec<RdmaPortView>,
    /// Asynchronous events, by device and name.
    pub events: BTreeMap<(String, String), u64>,
}

/// A running thread, which ends with this value, and the program with it.
#[derive(Debug)]
pub struct Rdma {
    view: Arc<Mutex<RdmaView>>,
    stop: Arc<AtomicBool>,
}

impl Rdma {
    /// Starts the program that is configured, or the one beside the agent's own; `None` where there is none.
    ///
    /// # Errors
    /// When the thread cannot be made.
    pub fn start(configured: &str) -> io::Result<Option<Self>> {
        match program(configured) {
            Some(program) => Self::of(program).map(Some),
            None => Ok(None),
        }
    }

    fn of(program: PathBuf) -> io::Result<Self> {
        let (view, stop) = (Arc::<Mutex<RdmaView>>::default(), Arc::new(AtomicBool::new(false)));
        let (shown, stopped) = (Arc::clone(&view), Arc::clone(&stop));
        thread::Builder::new().name("rdma".into()).spawn(move || supervise(&program, &shown, &stopped))?;
        Ok(Self { view, stop })
    }

    /// What is known now.
    #[must_use]
    pub fn view(&self) -> RdmaView {
        self.view.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Rdma {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn program(configured: &str) -> Option<PathBuf> {
    if !configured.is_empty() {
        return Some(configured.into());
    }
    let own = env::current_exe().ok()?;
    Some(own.with_file_name(PROGRAM)).filter(|beside| beside.is_file())
}

/// Runs the program again and again: its ports, and then its events until one comes or a minute is over.
fn supervise(program: &Path, view: &Mutex<RdmaView>, stop: &AtomicBool) {
    let mut backoff = BACKOFF_MIN;
    let mut said = String::new();
    while !stop.load(Ordering::Relaxed) {
        let began = Instant::now();
        let result = look(program, view, stop);
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let wait = pause(&mut backoff, result.is_ok(), began.elapsed());
        match result {
            Ok(()) => said.clear(),
            Err(problem) => {
                let mut view = view.lock().unwrap_or_else(PoisonError::into_inner);
                (view.up, view.failures) = (false, view.failures + 1);
                // Ports that nobody tells of any more are not there.
                view.ports.clear();
                drop(view);
                // A host without RDMA fails alike for ever, which is said once.
                if said != problem {
                    tracing::info!(program = %program.display(), problem, "RDMA devices are not known; tried again from time to time");
                    said = problem;
                }
            }
        }
        nap::until(wait, stop);
    }
}

/// How long to wait after a run; `backoff` becomes what follows one that was as short.
fn pause(backoff: &mut Duration, well: bool, lasted: Duration) -> Duration {
    if well && lasted >= LASTED {
        *backoff = BACKOFF_MIN;
    }
    let max = if well { BACKOFF_QUICK_MAX } else { BACKOFF_FAILED_MAX };
    let wait = (*backoff).min(max);
    *backoff = (wait * 2).min(max);
    wait
}

fn look(program: &Path, view: &Mutex<RdmaView>, stop: &AtomicBool) -> Result<(), String> {
    let mut ports = Vec::new();
    run(program, &["devices"], PATIENCE, stop, |line| {
        ports.extend(serde_json::from_str::<RdmaPortView>(line).ok().filter(|_| ports.len() < PORTS_MAX));
        true
    })?;
    {
        let mut view = view.lock().unwrap_or_else(PoisonError::into_inner);
        (view.up, view.ports) = (true, ports);
    }
    let seconds = RUN.as_secs().to_string();
    run(program, &["events", "--seconds", &seconds], RUN + PATIENCE, stop, |line| {
        let Ok(event) = serde_json::from_str::<EventLine>(line) else { return true };
        tracing::info!(device = event.device, event = event.event, "RDMA event");
        let mut view = view.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (event.device, event.event);
        if view.events.len() < EVENTS_MAX || view.events.contains_key(&key) {
            *view.events.entry(key).or_default() += 1;
        }
        // What happened may have changed a port, so the run ends and the ports are asked for.
        false
    })
}

/// Runs the program and takes its lines until `take` has enough, the time is over, or it ends.
fn run(
    program: &Path,
    arguments: &[&str],
    patience: Duration,
    stop: &AtomicBool,
    mut take: impl FnMut(&str) -> bool,
) -> Result<(), String> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = Running(command.spawn().map_err(|error| error.to_string())?);
    let lines = lines(&mut child.0)?;
    let until = Instant::now() + patience;
    loop {
        match lines.recv_timeout(NAP) {
            Ok(line) if take(&line) => {}
            Ok(_) => return Ok(()),
            Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) => return Ok(()),
            Err(RecvTimeoutError::Timeout) if Instant::now() < until => {}
            Err(RecvTimeoutError::Timeout) => return Err(format!("no end after {} s", patience.as_secs())),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    // Its output has ended, so it ends; one that closed its output and goes on is killed with the value.
    let mut waited = Duration::ZERO;
    while waited < PATIENCE && !stop.load(Ordering::Relaxed) {
        if let Some(status) = child.0.try_wait().map_err(|error| error.to_string())? {
            return if status.success() { Ok(()) } else { Err(said(&mut child.0, &status.to_string())) };
        }
        thread::sleep(NAP);
        waited += NAP;
    }
    Err("no end of the program".into())
}

/// A child that does not outlive this value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The lines of a program, read on a thread that ends with its output.
fn lines(child: &mut Child) -> Result<Receiver<String>, String> {
    let output = child.stdout.take().ok_or("no output")?;
    let (send, receive) = sync_channel(WAITING);
    let read = move || {
        let mut output = BufReader::new(output);
        let mut line = String::new();
        // A line that is longer than it may be is cut, and neither part of it is a record.
        while output.by_ref().take(LINE_BYTES_MAX).read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
            if send.send(std::mem::take(&mut line)).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("rdma-lines".into()).spawn(read).map_err(|error| error.to_string())?;
    Ok(receive)
}

/// The program's one line on standard error, or how it ended.
fn said(child: &mut Child, status: &str) -> String {
    let mut text = String::new();
    if let Some(error) = child.stderr.take() {
        let _ = error.take(LINE_BYTES_MAX).read_to_string(&mut text);
    }
    let line = text.lines().next().unwrap_or_default().trim().to_owned();
    if line.is_empty() { status.into() } else { line }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    /// What the program prints of Soft-RoCE (`make test-rdma`).
    const RXE: &str = r#"{"device":"rxe1","port":1,"state":"active","physical_state":"link-up","link_layer":"ethernet","rate_mbps":2500,"mtu":1024,"netdev":"h1","gids":[{"index":0,"gid":"fe80::1","version":"roce-v2","netdev":"h1"},{"index":1,"gid":"::ffff:10.9.0.1","version":"roce-v2","netdev":"h1"}]}"#;
    const SOON: Duration = Duration::from_secs(30);

    /// A program of a shell in the place of the real one.
    fn script(folder: &Path, body: &str) -> PathBuf {
        let path = folder.join(PROGRAM);
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn wait_for(rdma: &Rdma, well: impl Fn(&RdmaView) -> bool) -> RdmaView {
        let until = Instant::now() + SOON;
        loop {
            let view = rdma.view();
            if well(&view) {
                return view;
            }
            assert!(Instant::now() < until, "{view:?}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn ports_and_events_are_told_and_a_program_that_ends_is_started_again() {
        let folder = tempfile::tempdir().unwrap();
        let count = folder.path().join("runs");
        let event = r#"{"unix_ns":1,"device":"rxe1","event":"port-error","port":1}"#;
        let body = format!(
            "case $1 in devices) echo x >> {}; echo '{RXE}'; echo 'no record';; *) echo '{event}'; exec sleep 50;; esac",
            count.display()
        );
        let rdma = Rdma::of(script(folder.path(), &body)).unwrap();
        let view = wait_for(&rdma, |view| view.events.values().sum::<u64>() >= 2);
        assert!(view.up && view.failures == 0);
        assert_eq!((view.ports.len(), view.ports[0].roce_v2(), view.ports[0].rate_mbps), (1, 2, Some(2_500)));
        assert!(view.events.contains_key(&("rxe1".into(), "port-error".into())));
        // Each event had the ports asked for again.
        assert!(fs::read_to_string(&count).unwrap().lines().count() >= 2);
    }

    #[test]
    fn a_program_that_fails_is_tried_again_and_its_ports_are_gone() {
        let folder = tempfile::tempdir().unwrap();
        let broken = folder.path().join("broken");
        let body = format!(
            "if [ -e {0} ]; then echo 'antiphase-verbs: no device' >&2; exit 5; fi; [ $1 = events ] || echo '{RXE}'",
            broken.display()
        );
        let rdma = Rdma::of(script(folder.path(), &body)).unwrap();
        wait_for(&rdma, |view| view.up && view.ports.len() == 1);
        fs::write(&broken, "").unwrap();
        let view = wait_for(&rdma, |view| view.failures > 0);
        assert!(!view.up && view.ports.is_empty());
        fs::remove_file(&broken).unwrap();
        wait_for(&rdma, |view| view.up);
    }

    #[test]
    fn a_program_that_ends_at_once_is_started_ever_less_often() {
        let mut backoff = BACKOFF_MIN;
        let mut waits = |runs: &[(bool, u64)]| -> Vec<u64> {
            runs.iter().map(|(well, lasted)| pause(&mut backoff, *well, Duration::from_secs(*lasted)).as_secs()).collect()
        };
        // Each run that an event ends is short.
        assert_eq!(waits(&[(true, 0); 6]), [1, 2, 4, 8, 16, 16]);
        assert_eq!(waits(&[(true, 60), (true, 9), (true, 60), (true, 60)]), [1, 2, 1, 1]);
        assert_eq!(waits(&[(false, 70); 10]), [2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        // It works again, and then nothing happens for long.
        assert_eq!(waits(&[(true, 0), (true, 60)]), [16, 1]);
    }

    /// The pure rule above, by the clock: a program that ends at once, well or not, and one that cannot be started.
    #[test]
    fn no_two_runs_are_within_a_second() {
        let (mut runs, mut kept) = (Vec::new(), Vec::new());
        for body in ["exit 0", "exit 1"] {
            let folder = tempfile::tempdir().unwrap();
            let count = folder.path().join("runs");
            let path = script(folder.path(), &format!("[ $1 = events ] || echo x >> {}; {body}", count.display()));
            kept.push(Rdma::of(path).unwrap());
            runs.push((count, folder));
        }
        kept.push(Rdma::of(PathBuf::from("/no/such/program")).unwrap());
        thread::sleep(Duration::from_millis(2_500));
        // At 0 and at 1 s; the next would be at 3 s.
        let views: Vec<RdmaView> = kept.iter().map(Rdma::view).collect();
        for (count, _) in &runs {
            let runs = fs::read_to_string(count).unwrap().lines().count();
            assert!((1..=2).contains(&runs), "{runs} runs");
        }
        assert!(views[0].up && views[0].failures == 0, "{:?}", views[0]);
        assert!(views[1..].iter().all(|view| !view.up && (1..=2).contains(&view.failures)), "{views:?}");
    }

    #[test]
    fn one_line_says_why_it_failed() {
        let folder = tempfile::tempdir().unwrap();
        let stop = AtomicBool::new(false);
        let end = |body: &str| run(&script(folder.path(), body), &[], Duration::from_millis(300), &stop, |_| true);
        assert_eq!(
            end("echo 'antiphase-verbs: library missing: x' >&2; echo more >&2; exit 3").unwrap_err(),
            "antiphase-verbs: library missing: x"
        );
        assert!(end("exit 7").unwrap_err().contains('7'));
        assert_eq!(end("exec sleep 60").unwrap_err(), "no end after 0 s");
        assert!(run(&folder.path().join("missing"), &[], SOON, &stop, |_| true).unwrap_err().contains("os error 2"));
        assert_eq!(end("head -c 200000 /dev/zero | tr '\\0' x"), Ok(()));
    }
}
