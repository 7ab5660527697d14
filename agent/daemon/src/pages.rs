//! From the service's plan to schedule pages: one per job that this host leads.
//!
//! A page is written again and again ([`gate_core::HEARTBEAT`]), each time with the slot as the clock sees it now, so that gates notice
//! within [`gate_core::STALE_AFTER`] when the agent is gone. The plan outlives the session with the service until it expires; then
//! the gates fail open by what the page says, and nobody has to tell them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    thread,
};

use gate::{JobName, PageWriter, REPORTS, Stem, report};
use gate_core::{HELD_PERIOD_MAX, HOLD_LIMIT, Mode, NodeClock, PageChange, PlannedSlot, Schedule, Turn};
use proto::v1alpha1::{HostPlan, Slot};
use rustix::process::geteuid;
use units::{FabricTime, Nanos, NodeTime};

use crate::clock::ClockEstimate;

/// Most pages of one host. A host leads a job per few GPUs; this bounds files and the time of a heartbeat.
pub const PAGES_MAX: usize = 256;
/// Everybody reads the pages, the agent makes them.
const DIRECTORY_MODE: u32 = 0o755;
/// Most names of the directory that are looked at for what an earlier run left: four times the files of all pages, three each.
const NAMES_MAX: usize = 12 * PAGES_MAX;

/// Why a slot gets no page.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SlotError {
    /// The job's name cannot be that of a file.
    #[error("{0}")]
    Job(String),
    /// Zero, or of a job that is held longer than gates hold.
    #[error("period {0}; must be above zero, and at most {HELD_PERIOD_MAX} for a job that is held")]
    Period(Nanos),
    /// Not below the period.
    #[error("offset {0}; must be below the period")]
    Offset(Nanos),
    /// Not below the period.
    #[error("tolerance {0}; must be below the period")]
    Tolerance(Nanos),
}

/// The pages of this host.
///
/// Dropping them leaves them in place, as an agent that is killed does: the next one takes them over. An agent that unwinds
/// from a panic takes them back.
#[derive(Debug)]
pub struct Pages {
    directory: PathBuf,
    host: String,
    plan_version: u64,
    jobs_here: usize,
    led: BTreeMap<String, Led>,
    errors: u64,
    /// Pages of an earlier run are looked for once, when the first plan says which of them still count.
    swept: bool,
}

/// A job that this host leads.
#[derive(Debug)]
struct Led {
    slot: PlannedSlot,
    /// Of a job that takes turns: the permission of now.
    turn: Option<Turn>,
    /// `None` while the page cannot be made: every heartbeat tries again.
    page: Option<PageWriter>,
    /// The last error, so that it is said once and not ten times a second.
    error: Option<io::ErrorKind>,
}

impl Pages {
    /// No plan yet. The directory is made if it is not there, readable by everybody.
    ///
    /// # Errors
    /// What the file system says.
    pub fn new(directory: &Path, host: &str) -> io::Result<Self> {
        make_directory(directory)?;
        Ok(Self {
            directory: directory.into(),
            host: host.into(),
            plan_version: 0,
            jobs_here: 0,
            led: BTreeMap::new(),
            errors: 0,
            swept: false,
        })
    }

    /// What else is on the file system of the pages, if it is not their own: jobs that write more than their reports fill it.
    #[must_use]
    pub fn shared_with(&self) -> Option<&Path> {
        shared_with(&self.directory)
    }

    /// Who else could put files where the pages are, or shrink them, if anybody: another owner of the directory, or whoever may write to it.
    #[must_use]
    pub fn others(&self) -> Option<String> {
        others_of(&self.directory, geteuid().as_raw())
    }

    /// Where the pages are.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The host whose jobs get pages.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Version of the plan; 0 before the first.
    #[must_use]
    pub const fn plan_version(&self) -> u64 {
        self.plan_version
    }

    /// Jobs of the plan that have a rank on this host, led here or elsewhere.
    #[must_use]
    pub const fn jobs_here(&self) -> usize {
        self.jobs_here
    }

    /// Pages that are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.led.values().filter(|led| led.page.is_some()).count()
    }

    /// Whether no page is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Heartbeats that could not be written so far.
    #[must_use]
    pub const fn errors(&self) -> u64 {
        self.errors
    }

    /// The jobs that this host leads, with their slots, in order of their names.
    pub fn led(&self) -> impl Iterator<Item = (&str, &PlannedSlot)> {
        self.led.iter().map(|(job, led)| (job.as_str(), &led.slot))
    }

    /// The led jobs and whether they take turns, in order of their names.
    pub fn led_by_turns(&self) -> impl Iterator<Item = (&str, bool)> {
        self.led.iter().map(|(job, led)| (job.as_str(), led.turn.is_some()))
    }

    /// Puts a permission on the page of a job that takes turns, at once. The heartbeat carries it on. The page knows the longest wait.
    pub fn write_turn(&mut self, job: &str, turn: Turn, change: PageChange, clock: Option<&ClockEstimate>, now: NodeTime) {
        let Some(led) = self.led.get_mut(job).filter(|led| led.turn.is_some()) else { return };
        led.turn = Some(turn);
        let schedule = led.schedule(clock, now);
        // A page that could not be made is tried again by the heartbeat, and its gate goes without.
        match (&mut led.page, change) {
            (Some(page), PageChange::Write) => page.write(&schedule),
            (Some(page), PageChange::WriteAndWake) => page.write_and_wake(&schedule),
            (None, _) => {}
        }
    }

    /// Takes back every permission that is on a page: an agent that begins knows of none.
    pub fn forget_turns(&mut self, now: NodeTime) {
        let turning: Vec<String> = self.led_by_turns().filter(|(_, turns)| *turns).map(|(job, _)| job.to_owned()).collect();
        for job in turning {
            self.write_turn(&job, Turn::default(), PageChange::WriteAndWake, None, now);
        }
    }

    /// Takes a plan over: pages of jobs that left it are taken back, the others wait for [`Self::write_plan`]. This is the only place
    /// where slots of the service's messages become slots of the gates.
    pub fn take_over(&mut self, plan: &HostPlan) {
        let mut wanted: BTreeMap<&str, (PlannedSlot, bool)> = BTreeMap::new();
        for slot in plan.slots.iter().filter(|slot| slot.leader_host == self.host) {
            match planned(slot) {
                Err(error) => {
                    // The name comes from the wire and may hold control characters, which must not reach a terminal.
                    tracing::warn!(job = %slot.job.escape_debug(), plan_version = plan.plan_version, %error, "slot refused: this job's gate fails open")
                }
                // PAGES_MAX bounds the files and the time of a heartbeat, however many slots a service sends.
                Ok(_) if wanted.len() >= PAGES_MAX => {
                    tracing::warn!(job = slot.job, "more than {PAGES_MAX} jobs are led by this host: this job's gate fails open");
                }
                Ok(planned) => drop(wanted.insert(&slot.job, (planned, slot.turns))),
            }
        }
        let gone: Vec<String> = self.led.keys().filter(|job| !wanted.contains_key(job.as_str())).cloned().collect();
        for job in gone {
            if let Some(led) = self.led.remove(&job) {
                self.retire(&job, led.page);
            }
        }
        for (job, (slot, turns)) in wanted {
            match self.led.get_mut(job) {
                // A new plan takes no permission away.
                Some(led) => (led.slot, led.turn) = (slot, turns.then(|| led.turn.unwrap_or_default())),
                // The page itself is made by the beat below, which also tries again after an error.
                None => drop(self.led.insert(job.to_owned(), Led { slot, turn: turns.then(Turn::default), page: None, error: None })),
            }
        }
        (self.plan_version, self.jobs_here) = (plan.plan_version, plan.slots.len());
    }

    /// Writes the plan that was taken over.
    pub fn write_plan(&mut self, clock: Option<&ClockEstimate>, now: NodeTime) {
        // The new slots are on the pages now, and not up to a HEARTBEAT later.
        self.beat(clock, now);
        // The sweep comes last: the pages that still count are claimed by then, with the files that their jobs have mapped.
        if !self.swept {
            self.sweep();
        }
    }

    /// Writes every page, and makes those that are not there. Whether one was made.
    pub fn beat(&mut self, clock: Option<&ClockEstimate>, now: NodeTime) -> bool {
        let mut made_one = false;
        for (job, led) in &mut self.led {
            if let Some(page) = led.page.take_if(|page| !page.is_there()) {
                tracing::warn!(job, directory = %self.directory.display(), "the page's file is gone, or another one is in its place: it is made anew");
                // Gates that have the old one mapped look for the new one.
                let _ = page.remove();
            }
            if led.page.is_none() {
                let made = make_directory(&self.directory).and_then(|()| PageWriter::create(&self.directory, job));
                match made {
                    Ok(page) => {
                        let held = how_held(led.turn.is_some(), led.slot.hold);
                        tracing::info!(job, plan_version = led.slot.plan_version, held, "page");
                        (led.page, led.error, made_one) = (Some(page), None, true);
                    }
                    Err(error) => {
                        self.errors += 1;
                        // The beat comes ten times a second, so an error is said when it changes and counted each time.
                        if led.error.replace(error.kind()) != Some(error.kind()) {
                            tracing::error!(job, %error, "no page: this job's gate fails open");
                        }
                    }
                }
            }
            let schedule = led.schedule(clock, now);
            if let Some(page) = &mut led.page {
                page.write(&schedule);
            }
        }
        made_one
    }

    /// Takes every page back: gates go at once instead of waiting for the heartbeat to grow old.
    pub fn retire_all(&mut self) {
        for (job, led) in core::mem::take(&mut self.led) {
            self.retire(&job, led.page);
        }
        // No page follows a plan now, so the next plan is a new one whatever its version.
        self.plan_version = 0;
    }

    fn retire(&self, job: &str, page: Option<PageWriter>) {
        // `planned` has checked the name, so no page is left behind for the want of one.
        if let (Some(page), Ok(job)) = (page, JobName::try_new(job)) {
            self.take_back(&job.stem(), page);
        }
    }

    fn take_back(&self, job: &Stem, page: PageWriter) {
        // The flag is on the page even where its file could not be removed, so the gates know in any case.
        if let Err(error) = page.remove() {
            tracing::warn!(%job, %error, "the page was taken back and its file stays");
        }
        // A job that still has the report open keeps writing into nothing.
        if let Err(error) = report::remove(&self.directory, job) {
            tracing::warn!(%job, %error, "the report stays");
        }
        tracing::info!(%job, "page taken back");
    }

    /// Takes back what an agent before us left for jobs that the plan does not have: pages, and reports without one. Those of
    /// another agent that is alive are locked by it, and stay.
    fn sweep(&mut self) {
        self.swept = true;
        let folders = [self.directory.clone(), self.directory.join(REPORTS)];
        let entries = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten();
        // NAMES_MAX bounds the time of the sweep, because the next heartbeat waits for it.
        let names = entries.take(NAMES_MAX).filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut left: BTreeSet<Stem> = names.filter_map(|name| Stem::of_file(&name)).collect();
        for job in self.led.keys().filter_map(|job| JobName::try_new(job).ok()) {
            left.remove(&job.stem());
        }
        for job in left {
            // An error is another agent's lock in the usual case, and its page must stay; anything else waits for the next start.
            if let Ok(page) = PageWriter::create_of(&self.directory, &job) {
                self.take_back(&job, page);
            }
        }
    }
}

/// Makes the directory of the pages where there is none, readable by everybody.
fn make_directory(directory: &Path) -> io::Result<()> {
    // A directory that is there keeps its mode: the operator or systemd has decided on it.
    if !directory.is_dir() {
        fs::create_dir_all(directory)?;
        fs::set_permissions(directory, fs::Permissions::from_mode(DIRECTORY_MODE))?;
    }
    // Containers mount it by itself before there is a job. Where it cannot be made now, the first report says why.
    let _ = report::make_folder(directory);
    Ok(())
}

/// What else is on the file system of a directory of pages, if it is not its own.
#[must_use]
pub fn shared_with(directory: &Path) -> Option<&Path> {
    let parent = directory.parent()?;
    let device = |path: &Path| fs::metadata(path).map(|found| found.dev());
    (device(directory).ok()? == device(parent).ok()?).then_some(parent)
}

/// As [`Pages::others`], for an agent that runs as this user.
fn others_of(directory: &Path, user: u32) -> Option<String> {
    let found = fs::metadata(directory).ok()?;
    let mode = found.mode() & 0o7777;
    if found.uid() != user && found.uid() != 0 {
        return Some(format!("belongs to user {}", found.uid()));
    }
    (mode & 0o022 != 0).then(|| format!("has mode {mode:04o}"))
}

impl Led {
    /// The page of now. Of a job that takes turns it has no slot.
    fn schedule(&self, clock: Option<&ClockEstimate>, now: NodeTime) -> Schedule {
        let slots = schedule(&self.slot, clock, now);
        match self.turn {
            None => slots,
            Some(turn) => Schedule { mode: Mode::Turn, turn: Turn { max: HOLD_LIMIT, ..turn }, ..slots },
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // After a panic nobody writes the pages: gates that are told go at once, and need not find out by STALE_AFTER.
        if thread::panicking() {
            self.retire_all();
        }
    }
}

/// How a job is held, for the log.
const fn how_held(takes_turns: bool, keeps_slot: bool) -> &'static str {
    match (takes_turns, keeps_slot) {
        (true, _) => "by turns",
        (false, true) => "in slots",
        (false, false) => "no",
    }
}

/// A slot as the service sent it, checked.
fn planned(slot: &Slot) -> Result<PlannedSlot, SlotError> {
    // A page with such numbers would let the gate go as malformed; a refusal here also says which number is wrong.
    JobName::try_new(&slot.job).map_err(|error| SlotError::Job(error.to_string()))?;
    let period = Nanos(slot.period_ns);
    let planned = PlannedSlot {
        plan_version: slot.plan_version,
        hold: slot.hold && !slot.turns,
        period,
        offset: Nanos(slot.offset_ns),
        tolerance: Nanos(slot.tolerance_ns),
        slack: Nanos(slot.slack_ns),
        hold_max: Nanos(slot.hold_max_ns),
        expires: FabricTime(slot.expires_ns),
    };
    // Of a job that takes turns the page says no slot, so there is none to be wrong.
    if slot.turns {
        return Ok(planned);
    }
    if period.0 == 0 || (slot.hold && period > HELD_PERIOD_MAX) {
        return Err(SlotError::Period(period));
    }
    if slot.offset_ns >= period.0 {
        return Err(SlotError::Offset(Nanos(slot.offset_ns)));
    }
    if slot.tolerance_ns >= period.0 {
        return Err(SlotError::Tolerance(Nanos(slot.tolerance_ns)));
    }
    Ok(planned)
}

/// A slot in the node's time. Without an estimate of the clock the page says that its error has no bound, and gates go.
#[must_use]
pub fn schedule(slot: &PlannedSlot, clock: Option<&ClockEstimate>, now: NodeTime) -> Schedule {
    slot.schedule(clock.map(|clock| NodeClock { offset: clock.offset, bound: clock.bound_at(now) }), now)
}

#[cfg(test)]
mod tests {
    use gate_core::{Decision, Permit, Reason, decide};
    use proptest::prelude::*;
    use units::ClockOffset;

    use super::*;

    #[test]
    fn the_log_says_how_a_job_is_held() {
        assert_eq!([how_held(true, false), how_held(false, true), how_held(false, false)], ["by turns", "in slots", "no"]);
    }

    fn slot() -> Slot {
        Slot {
            job: "j".into(),
            plan_version: 7,
            period_ns: 100_000_000,
            offset_ns: 30_000_000,
            tolerance_ns: 10_000_000,
            slack_ns: 2_000_000,
            hold_max_ns: 100_000_000,
            hold: true,
            expires_ns: 1_700_000_060_000_000_000,
            leader_host: "h".into(),
            turns: false,
        }
    }

    fn page(slot: &Slot, clock: Option<&ClockEstimate>, now: u64) -> Schedule {
        schedule(&planned(slot).unwrap(), clock, NodeTime(now))
    }

    fn clock(offset: i64, bound: u64, at: u64) -> ClockEstimate {
        ClockEstimate { offset: ClockOffset(offset), bound: Nanos(bound), rtt: Nanos(1), at: NodeTime(at) }
    }

    const NOW: u64 = 5_000_000_000;
    const FABRIC: u64 = 1_700_000_000_000_000_000;

    #[test]
    fn the_slot_is_due_where_fabric_time_says() {
        let clock = clock((FABRIC - NOW).cast_signed(), 1_000, NOW);
        let page = page(&slot(), Some(&clock), NOW);
        // FABRIC is a multiple of the period, so the start is due 30 ms from now.
        assert_eq!(page.slot, NodeTime(NOW + 30_000_000));
        assert_eq!(page.expires, NodeTime(NOW + 60_000_000_000));
        assert_eq!((page.plan_version, page.clock_bound, page.written, page.mode), (7, Nanos(1_000), NodeTime(NOW), Mode::Hold));
        assert_eq!(decide(NodeTime(NOW), &page), Decision::Wait { until: page.slot, slip: false });
    }

    #[test]
    fn without_a_clock_the_gate_goes_and_says_why() {
        let page = page(&slot(), None, NOW);
        assert!(matches!(decide(NodeTime(NOW), &page), Decision::Go { because: Reason::ClockBound, .. }), "{page:?}");
    }

    #[test]
    fn a_clock_that_nobody_corrects_opens_the_gate_in_time() {
        // 1.9 ms, and 200 ppm of drift: after 10 s the bound passes the slack of 2 ms.
        let clock = clock((FABRIC - NOW).cast_signed(), 1_900_000, NOW);
        let because = |seconds: u64| {
            let now = NodeTime(NOW + seconds * 1_000_000_000);
            page(&slot(), Some(&clock), now.0).distrust(now)
        };
        assert_eq!(because(0), None);
        assert_eq!(because(10), Some(Reason::ClockBound));
    }

    #[test]
    fn a_plan_from_before_the_nodes_boot_is_expired() {
        let late = Slot { expires_ns: 5, ..slot() };
        let clock = clock((FABRIC - NOW).cast_signed(), 0, NOW);
        assert_eq!(page(&late, Some(&clock), NOW).distrust(NodeTime(NOW)), Some(Reason::Expired));
    }

    #[test]
    fn slots_that_make_no_sense_are_refused() {
        let bad = |change: fn(&mut Slot)| {
            let mut slot = slot();
            change(&mut slot);
            planned(&slot).unwrap_err()
        };
        assert!(matches!(bad(|slot| slot.job = "../j".into()), SlotError::Job(_)));
        assert_eq!(bad(|slot| slot.period_ns = 0), SlotError::Period(Nanos(0)));
        assert!(matches!(bad(|slot| slot.period_ns = u64::MAX), SlotError::Period(_)));
        assert!(matches!(bad(|slot| slot.offset_ns = slot.period_ns), SlotError::Offset(_)));
        assert!(matches!(bad(|slot| slot.tolerance_ns = slot.period_ns), SlotError::Tolerance(_)));
        assert!(planned(&slot()).is_ok());
        // A job that takes turns has no slot that could be wrong.
        assert!(planned(&Slot { turns: true, period_ns: 0, ..slot() }).is_ok());
    }

    #[test]
    fn a_job_that_takes_turns_has_its_permission_and_longest_wait_on_the_page() {
        let turn = Turn { writer: 3, number: 4, permit: Permit::Go, max: Nanos(0) };
        let planned = planned(&Slot { turns: true, ..slot() }).unwrap();
        let led = Led { slot: planned, turn: Some(turn), page: None, error: None };
        let page = led.schedule(None, NodeTime(NOW));
        // A clock that nobody knows matters to slots only.
        assert_eq!((page.mode, page.distrust(NodeTime(NOW))), (Mode::Turn, None));
        assert_eq!(page.turn, Turn { max: HOLD_LIMIT, ..turn });
    }

    proptest! {
        #[test]
        fn any_slot_and_clock_give_a_page_that_a_gate_survives(
            numbers in prop::array::uniform7(any::<u64>()), offset: i64, bound: u64, at: u64, now: u64, hold: bool,
        ) {
            let [period, due, tolerance, slack, hold_max] = [0, 1, 2, 3, 4].map(|i| Nanos(numbers[i]));
            let (expires, plan_version) = (FabricTime(numbers[5]), numbers[6]);
            let slot = PlannedSlot { plan_version, hold, period, offset: due, tolerance, slack, hold_max, expires };
            let page = schedule(&slot, Some(&clock(offset, bound, at)), NodeTime(now));
            let _ = decide(NodeTime(now), &page);
        }

        #[test]
        fn the_slot_is_due_within_a_period_and_at_the_offset(now in 0_u64..1 << 50, boot in 0_u64..1 << 60, period in 1_u64..1 << 40, offset: u64) {
            let slot = PlannedSlot { period: Nanos(period), offset: Nanos(offset % period), ..planned(&slot()).unwrap() };
            let page = schedule(&slot, Some(&clock(boot.cast_signed(), 0, now)), NodeTime(now));
            prop_assert!(page.slot.0 - now < period);
            prop_assert_eq!((page.slot.0 + boot) % period, offset % period);
        }
    }
}
