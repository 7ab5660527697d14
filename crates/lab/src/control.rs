//! The writers of the schedule pages that the leaders' gates read.
//!
//! `direct`: this process, from its own plan. One machine has one clock, so node time is fabric time, and what is measured is
//! the gate and the plan alone. `service`: the topology service and its agents, from the jobs committed to it.

use std::{
    collections::BTreeMap,
    fs,
    iter::Sum,
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
use gate_core::{Mode, Reason, Schedule};
use serde::{Deserialize, Serialize};
use units::Nanos;

use crate::{
    case::Case,
    hold::{Control, Hold},
    network::Lab,
    plan::Plan,
    service::{Binaries, Service},
};

/// How often a page is written again.
const HEARTBEAT: Duration = Duration::from_millis(100);
/// When a gate calls its agent gone: twenty missed heartbeats, because this process shares two cores with all ranks.
const STALE_AFTER: Nanos = Nanos::from_millis(2_000);
/// How long a plan may be believed after the last heartbeat.
const EXPIRES_AFTER: Nanos = Nanos::from_millis(60_000);

/// The gates that leaders pass in a take.
#[derive(Clone, Copy, Debug)]
pub struct Gates<'a> {
    /// Where their files are, in a folder named after each job.
    pub folder: &'a Path,
    /// What their jobs are held by.
    pub hold: Hold,
}

/// What decides when the jobs of a take send.
#[derive(Clone, Copy, Debug)]
pub(crate) enum By<'a> {
    /// They run as they come.
    Nothing,
    /// Their leaders pass gates.
    Gates(Gates<'a>),
    /// The control of the CASSINI paper, with the periods and time-shifts of this plan.
    Drift(&'a Plan),
    /// They run as they come, over this congestion control.
    Congestion(&'a str),
}

/// Totals of a gate in one take.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateTotals {
    /// Starts that passed the gate.
    pub iterations: u64,
    /// Starts that were held.
    pub holds: u64,
    /// Starts that missed a slot and waited for the next.
    pub slips: u64,
    /// Starts that went because the plan could not be trusted, or nobody answered.
    pub fail_opens: u64,
    /// Starts by the word of their reason, those that occurred; not counted in virtual time.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reasons: BTreeMap<String, u64>,
}

impl Sum for GateTotals {
    fn sum<I: Iterator<Item = Self>>(totals: I) -> Self {
        totals.fold(Self::default(), |mut sum, one| {
            one.reasons.into_iter().for_each(|(reason, count)| *sum.reasons.entry(reason).or_default() += count);
            Self {
                iterations: sum.iterations + one.iterations,
                holds: sum.holds + one.holds,
                slips: sum.slips + one.slips,
                fail_opens: sum.fail_opens + one.fail_opens,
                reasons: sum.reasons,
            }
        })
    }
}

impl GateTotals {
    /// Totals that the gate of a job has reported in the job's folder; zeros where there is no report. An agent that starts takes
    /// back files that it did not make, so the file is looked for when it is read.
    pub(crate) fn of(folder: &Path, job: &str) -> Self {
        // A missing or half-written report counts as nothing: totals are for people, and a take must not fail for them.
        let report = ReportReader::open_or_create(folder, job).ok().and_then(|report| report.read());
        let Some(report) = report else { return Self::default() };
        let counters = report.tracker.counters();
        let reasons = Reason::ALL.iter().zip(&counters.by_reason).filter(|(_, count)| **count > 0);
        Self {
            iterations: counters.iterations,
            holds: counters.holds,
            slips: counters.slips,
            fail_opens: counters.fail_opens(),
            reasons: reasons.map(|(reason, count)| (reason.word().to_owned(), *count)).collect(),
        }
    }
}

/// Pages that are kept fresh until this is dropped.
#[derive(Debug)]
pub(crate) struct Session {
    folder: PathBuf,
    hold: Hold,
    /// The folder and the name of each job.
    jobs: Vec<(PathBuf, String)>,
    _keeper: Keeper,
}

/// The keeper of fresh pages.
#[derive(Debug)]
enum Keeper {
    Heart(#[allow(dead_code, reason = "held for its drop")] Heart),
    Service(#[allow(dead_code, reason = "held for its drop")] Service),
}

/// A thread that writes pages.
#[derive(Debug)]
struct Heart {
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

/// The gate of a leader rank. Opening a gate never fails: without a page the job goes.
pub(crate) fn open_gate(folder: &Path, job: &str) -> Result<Gate> {
    Ok(Gate::open(&gate::Config::new(folder, JobName::try_new(job)?)))
}

/// Whether what `control` needs is there, before anything is played.
///
/// # Errors
/// A program of the service is missing.
pub(crate) fn check(control: Control, programs: Option<&Path>) -> Result<()> {
    match control {
        Control::Direct => Ok(()),
        Control::Service => Binaries::find(programs).map(|_| ()),
    }
}

/// Starts to hold the jobs of a plan; with a service, the plan becomes the service's.
///
/// # Errors
/// Pages cannot be written, or the service does not work.
pub(crate) fn start(lab: &Lab, plan: &mut Plan, control: Control, hold: Hold, programs: Option<&Path>) -> Result<Session> {
    let (folder, folders) = folders(lab)?;
    let keeper = match control {
        Control::Direct => Keeper::Heart(Heart::start(&lab.case, plan, &folders)?),
        Control::Service => {
            let mut service = Service::start(lab, &Binaries::find(programs)?, &folders, hold, None)?;
            service.commit(lab, plan, &folders)?;
            Keeper::Service(service)
        }
    };
    let names = lab.case.jobs.iter().map(|job| job.id.clone());
    Ok(Session { folder, hold, jobs: folders.into_iter().zip(names).collect(), _keeper: keeper })
}

/// Makes anew where gates' files are, and the folder of each job in it.
///
/// # Errors
/// The lab's folder cannot be written.
pub(crate) fn folders(lab: &Lab) -> Result<(PathBuf, Vec<PathBuf>)> {
    let folder = lab.record().folder().join("gates");
    // The totals of an earlier take would be counted again.
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
    }
    // One folder per job, as if each leader's host had its own.
    let folders: Vec<PathBuf> = lab.case.jobs.iter().map(|job| folder.join(&job.id)).collect();
    for (job, folder) in lab.case.jobs.iter().zip(&folders) {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        // A gate writes a report that is there, and makes none.
        ReportReader::open_or_create(folder, &job.id).with_context(|| folder.display().to_string())?;
    }
    Ok((folder, folders))
}

impl Heart {
    fn start(case: &Case, plan: &Plan, folders: &[PathBuf]) -> Result<Self> {
        // Any origin will do as long as it is the same for all.
        let origin = gate::now();
        let mut pages = Vec::new();
        for ((job, slot), folder) in case.jobs.iter().zip(&plan.jobs).zip(folders) {
            let schedule = Schedule {
                mode: if slot.hold { Mode::Hold } else { Mode::Pass },
                plan_version: 1,
                slot: origin.saturating_add(slot.shift),
                period: slot.period,
                tolerance: slot.tolerance,
                // A gate never holds for longer than one period (docs/glossary.md, "hold").
                hold_max: slot.period,
                slack: slot.slack,
                stale_after: STALE_AFTER,
                ..Schedule::default()
            };
            // Every page stands before the thread begins, so a rank that starts at once finds its slot.
            let mut page = PageWriter::create(folder, &job.id).with_context(|| folder.display().to_string())?;
            page.write(&beat(&schedule));
            pages.push((page, schedule));
        }
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::Builder::new().name("pages".into()).spawn(move || {
            // The flag guards no other data, so a relaxed load is enough; the drop waits for at most one `HEARTBEAT`.
            while !stopped.load(Ordering::Relaxed) {
                for (page, schedule) in &mut pages {
                    page.write(&beat(schedule));
                }
                thread::sleep(HEARTBEAT);
            }
        })?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Session {
    /// What the leaders pass.
    pub(crate) fn gates(&self) -> Gates<'_> {
        Gates { folder: &self.folder, hold: self.hold }
    }

    /// What each gate did so far, in the order of the case.
    pub(crate) fn totals(&self) -> Vec<GateTotals> {
        self.jobs.iter().map(|(folder, job)| GateTotals::of(folder, job)).collect()
    }
}

/// The schedule as of now.
fn beat(schedule: &Schedule) -> Schedule {
    let now = gate::now();
    Schedule { written: now, expires: now.saturating_add(EXPIRES_AFTER), ..*schedule }
}

impl Drop for Heart {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
