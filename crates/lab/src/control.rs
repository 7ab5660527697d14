//! Who writes the schedule pages that the leaders' gates read.
//!
//! `direct`: this process, from its own plan. One machine has one clock, so node time is fabric time, and what is measured is
//! the gate and the plan alone.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::{Context, Result};
use gate::{Gate, JobName, PageWriter, ReportReader};
use gate_core::{Mode, Schedule};
use serde::Serialize;
use units::{Nanos, NodeTime};

use crate::{case::Case, network::Lab, plan::Plan};

/// How often a page is written again.
const HEARTBEAT: Duration = Duration::from_millis(100);
/// When a gate calls its agent gone: twenty missed heartbeats, because this process shares two cores with all ranks.
const STALE_AFTER: Nanos = Nanos::from_millis(2_000);
/// How long a plan may be believed after the last heartbeat.
const EXPIRES_AFTER: Nanos = Nanos::from_millis(60_000);

/// Who holds the jobs in the interleaved run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Control {
    /// This process writes the schedule pages itself.
    #[default]
    Direct,
}

/// What a gate did in one take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GateTotals {
    /// Starts that passed the gate.
    pub iterations: u64,
    /// Those that were held.
    pub holds: u64,
    /// Those that missed a slot and waited for the next.
    pub slips: u64,
    /// Those that went because the plan could not be trusted.
    pub fail_opens: u64,
}

/// Pages that are kept fresh until this is dropped.
#[derive(Debug)]
pub(crate) struct Session {
    folder: PathBuf,
    reports: Vec<ReportReader>,
    stop: Arc<AtomicBool>,
    heart: Option<thread::JoinHandle<()>>,
}

/// The gate of a leader rank. It never fails: without a page the job goes.
pub(crate) fn open_gate(folder: &Path, job: &str) -> Result<Gate> {
    Ok(Gate::open(&gate::Config::new(folder, JobName::try_new(job)?)))
}

/// Holds the jobs of a plan whose first slots follow `origin`, a time of CLOCK_MONOTONIC.
pub(crate) fn start(lab: &Lab, plan: &Plan, origin: u64, control: Control) -> Result<Session> {
    match control {
        Control::Direct => Session::direct(&lab.record().folder(), &lab.case, plan, origin),
    }
}

impl Session {
    fn direct(lab: &Path, case: &Case, plan: &Plan, origin: u64) -> Result<Self> {
        let folder = lab.join("gates");
        // The totals of an earlier take would be counted again.
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
        }
        fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
        let mut reports = Vec::new();
        let mut pages = Vec::new();
        for (job, slot) in case.jobs.iter().zip(&plan.jobs) {
            let said = || format!("pages in {}", folder.display());
            reports.push(ReportReader::open_or_create(&folder, &job.id).with_context(said)?);
            let schedule = Schedule {
                mode: if slot.hold { Mode::Hold } else { Mode::Pass },
                epoch: 1,
                slot: NodeTime(origin + slot.shift.0),
                period: slot.period,
                tolerance: slot.tolerance,
                hold_max: slot.period,
                slack: slot.slack,
                stale_after: STALE_AFTER,
                ..Schedule::default()
            };
            let mut page = PageWriter::create(&folder, &job.id).with_context(said)?;
            page.write(&beat(&schedule));
            pages.push((page, schedule));
        }
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let heart = thread::Builder::new().name("pages".into()).spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                for (page, schedule) in &mut pages {
                    page.write(&beat(schedule));
                }
                thread::sleep(HEARTBEAT);
            }
        })?;
        Ok(Self { folder, reports, stop, heart: Some(heart) })
    }

    /// Where the gates' files are.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// What each gate did so far, in the order of the case.
    pub(crate) fn totals(&self) -> Vec<GateTotals> {
        let totals = |report: &ReportReader| {
            let Some(report) = report.read() else { return GateTotals::default() };
            let counters = report.tracker.counters();
            GateTotals { iterations: counters.iterations, holds: counters.holds, slips: counters.slips, fail_opens: counters.fail_opens() }
        };
        self.reports.iter().map(totals).collect()
    }
}

/// The schedule as of now.
fn beat(schedule: &Schedule) -> Schedule {
    let now = gate::now();
    Schedule { written: now, expires: now.saturating_add(EXPIRES_AFTER), ..*schedule }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(heart) = self.heart.take() {
            let _ = heart.join();
        }
    }
}
