//! The two ends of a page that the tests use: schedules, gates and agents in this process.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use antiphase_gate::{Config, Gate, JobName, PageWriter, StepOutcome, now};
use gate_core::{Mode, Schedule, Turn};
use units::{Nanos, NodeTime};

/// How long a test waits for something before it fails. Far above anything that happens here, on any machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) const JOB: &str = "job-1";

pub(crate) fn ms(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

/// Due in `ahead` from now, every `period`.
pub(crate) fn due_in(ahead: Nanos, period: Nanos) -> Schedule {
    let now = now();
    Schedule {
        mode: Mode::Hold,
        plan_version: 5,
        slot: now.saturating_add(ahead),
        period,
        tolerance: Nanos(period.0 / 20),
        hold_max: period,
        slack: ms(20),
        expires: NodeTime(u64::MAX),
        written: now,
        stale_after: ms(600_000),
        clock_bound: ms(1),
        turn: Turn::default(),
    }
}

/// So far ahead that a test that waits for it has failed. Below the limit that the gate has by itself.
pub(crate) fn due_far() -> Schedule {
    due_in(ms(40_000), ms(50_000))
}

pub(crate) fn config(directory: &Path) -> Config {
    Config::new(directory, JobName::try_new(JOB).unwrap())
}

pub(crate) fn gate(directory: &Path) -> Gate {
    Gate::open(&config(directory))
}

/// A page with one schedule, without heartbeats.
pub(crate) fn page(directory: &Path, schedule: &Schedule) -> PageWriter {
    let mut page = PageWriter::create(directory, JOB).unwrap();
    page.write(schedule);
    page
}

/// Asks until `found` has something.
pub(crate) fn eventually<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "{what} did not happen");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A step in a thread, and what it returned.
pub(crate) fn step_in_thread(gate: &Arc<Gate>) -> JoinHandle<StepOutcome> {
    let gate = Arc::clone(gate);
    thread::spawn(move || gate.step())
}

/// An agent in this process: writes the schedule again and again until dropped.
pub(crate) struct Agent {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Agent {
    pub(crate) fn start(directory: PathBuf, job: &str, schedule: Schedule) -> Self {
        let mut page = PageWriter::create(&directory, job).unwrap();
        page.write(&Schedule { written: now(), ..schedule });
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                page.write(&Schedule { written: now(), ..schedule });
                thread::sleep(Duration::from_millis(20));
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}
