//! The gate of one job in one process.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, AtomicU64, Ordering, fence},
};

use gate_core::{Decision, Mode, Note, PhaseLock, Reason, Schedule, StepOutcome, Tracker, TurnDecision, TurnGate, WHOLE_ITERATION};
use units::{Nanos, NodeTime};

use crate::{
    another::Another,
    clock::now,
    directory::{Config, JobName},
    fork,
    notes::NoteSender,
    page::PageReader,
    report::{ReportWriter, Written, look, new_writer},
    turn::Turns,
    wait::{Wake, wait, wait_for_turn},
};

/// How often a gate without a page it can follow looks for one. Looking costs some system calls, about 10 us.
const REOPEN_EVERY: Nanos = Nanos::from_millis(200);

/// How often a gate that never waits writes its report. A gate that waits writes it while it has time, before a wait.
const REPORT_EVERY: Nanos = Nanos::from_millis(100);

/// The gate of one job. The leader rank calls [`Self::step`] once per iteration, and [`Self::done`] when what the iteration sends
/// has been sent.
///
/// Threads can share a gate: while one is held, the others go. A gate can be used after a fork, also of a process in which
/// another thread is held: a child that steps writes the report from then on; a child that does not step leaves it to its parent.
#[derive(Debug)]
pub struct Gate {
    /// Set when the gate met a defect of its own: from then on everything goes.
    broken: AtomicBool,
    /// `None`: switched off.
    inner: Option<Turns<Inner>>,
    /// Starts so far, and the one whose end came while another thread was in the gate; 0 is none. Whoever leaves the gate tells that end.
    starts: AtomicU64,
    ended: AtomicU64,
    /// To begin anew in a child of a fork.
    config: Config,
}

impl Gate {
    /// Opens the gate of a job. There is no error: without a page the job goes, and the gate keeps looking for one.
    #[must_use]
    pub fn open(config: &Config) -> Self {
        // Without a job, or switched off, there is no page to map: every step then goes with the reason `off`.
        let job = config.job.as_ref().filter(|_| !config.off);
        let inner = job.map(|job| {
            // The handler comes before the first turn, so that no fork of a process in the gate goes uncounted.
            fork::watch();
            Turns::new(Inner::new(config.directory.clone(), job.clone()))
        });
        let (starts, ended) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { broken: AtomicBool::new(false), inner, starts, ended, config: config.clone() }
    }

    /// Call this when the next iteration could start and nothing of it is in flight. Returns when it may start: at once, at the
    /// job's slot, at most [`Schedule::hold_bound`] later, or when it is its turn, at most [`Schedule::turn_bound`] later. Never fails and never panics.
    pub fn step(&self) -> StepOutcome {
        self.step_phase(WHOLE_ITERATION)
    }

    /// As [`Self::step`], for one Up phase of an iteration, counted from 1: call this before each of them, in place of one `step` for the
    /// whole iteration, and [`Self::done`] after each. Where the job takes turns, each phase has a turn of its own; elsewhere only the
    /// first can be held, and the others go at once.
    pub fn step_phase(&self, phase: u64) -> StepOutcome {
        let Some(inner) = &self.inner else { return passed(Reason::Off) };
        // The flag guards no data: a thread that sees it late meets the same `catch_unwind` again.
        if self.broken.load(Ordering::Relaxed) {
            return passed(Reason::Internal);
        }
        // A gate that another thread has is never waited for: to wait for a lock is the way to hang a job (ADR 2).
        let Some(mut inner) = inner.take_or(|| self.anew()) else { return passed(Reason::Busy) };
        let outcome = self.guarded(|| inner.step(phase));
        // Counted before the gate is left: an end that came during the step is that of the start before. Only who is in the gate writes.
        self.starts.store(self.starts.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        outcome
    }

    /// Call this when what the last start sent has been sent, before the next [`Self::step`]: those who wait for this job can go
    /// then. Of a job that never says this the agent finds the ends, later or less exactly. Costs a datagram where the job takes turns;
    /// never waits, never fails and never panics.
    pub fn done(&self) {
        if self.broken.load(Ordering::Relaxed) {
            return;
        }
        let start = self.starts.load(Ordering::Relaxed);
        match self.inner.as_ref().and_then(Turns::take) {
            Some(mut inner) => self.end(&mut inner),
            None => {
                // A thread that steps is at the job's next start, which says the same. One that only looks tells this end when it leaves.
                self.ended.store(start, Ordering::Relaxed);
                self.tell_end();
            }
        }
    }

    fn end(&self, inner: &mut Inner) {
        if catch_unwind(AssertUnwindSafe(|| inner.done())).is_err() {
            self.broken.store(true, Ordering::Relaxed);
        }
    }

    /// Tells an end that came while another thread was in the gate. To be called after an end was left, and after the gate was.
    ///
    /// Of two threads, one that leaves an end and then tries the gate, and one that leaves the gate and then looks for an end, one sees the
    /// other: that is what the fence is for.
    fn tell_end(&self) {
        fence(Ordering::SeqCst);
        if self.ended.load(Ordering::Relaxed) == 0 {
            return;
        }
        if let Some(mut inner) = self.inner.as_ref().and_then(Turns::take)
            && self.ended.swap(0, Ordering::Relaxed) == self.starts.load(Ordering::Relaxed)
        {
            self.end(&mut inner);
        }
    }

    /// The state of a child of a fork in which another thread was in this gate: nothing of what the parent did.
    #[cold]
    fn anew(&self) -> Option<Inner> {
        let job = self.config.job.as_ref()?;
        catch_unwind(AssertUnwindSafe(|| Inner::new(self.config.directory.clone(), job.clone()))).ok()
    }

    /// A panic is a defect of ours and not the job's. The state that a panic left behind is not used again.
    #[inline]
    fn guarded(&self, step: impl FnOnce() -> StepOutcome) -> StepOutcome {
        // AssertUnwindSafe holds because `step` looks at `broken` before it touches the state again.
        catch_unwind(AssertUnwindSafe(step)).unwrap_or_else(|_| {
            self.broken.store(true, Ordering::Relaxed);
            passed(Reason::Internal)
        })
    }

    /// Whether this gate is of a job, not switched off, and met no defect of its own.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.inner.is_some() && !self.broken.load(Ordering::Relaxed)
    }

    /// How this gate waits now, and how its last wait ended; `None` while another thread is in it, or if it is switched off.
    #[must_use]
    pub fn wake(&self) -> Option<Wake> {
        let wake = self.inner.as_ref().and_then(Turns::take).map(|inner| inner.wake);
        self.tell_end();
        wake
    }

    /// Writes the report now. Otherwise a start that was held appears in it when the next one comes.
    pub fn flush(&self) {
        if let Some(mut inner) = self.inner.as_ref().and_then(Turns::take) {
            let _ = catch_unwind(AssertUnwindSafe(|| inner.flush(now())));
        }
        self.tell_end();
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        // The last held start is in no report yet, and no next start will come to write it.
        self.flush();
    }
}

/// A start that the gate had no part in.
fn passed(because: Reason) -> StepOutcome {
    StepOutcome { because, start: now(), held: Nanos(0), slip: false, late: None, plan_version: 0 }
}

/// Whether a page that answers like this may be one that its agent replaced, so that looking for another can help.
#[inline]
fn may_be_replaced(because: Reason, at: NodeTime, page: &Result<Schedule, Reason>) -> bool {
    match because {
        Reason::NoPage | Reason::Unreadable | Reason::Layout | Reason::Torn => true,
        Reason::Stale | Reason::ClockStep | Reason::Malformed => true,
        // Passing needs no trust, so nobody asked how old this is.
        Reason::NotHeld => page.is_ok_and(|schedule| schedule.is_stale(at)),
        // Expiry and the bounds are the word of an agent that is alive: another file would say the same.
        _ => false,
    }
}

/// Where the report goes.
#[derive(Debug)]
enum Destination {
    File(ReportWriter),
    /// The agent made none yet.
    Missing,
    /// A gate that was opened later writes it.
    Another(Another),
}

impl Destination {
    fn open(directory: &Path, job: &JobName, writer: u64, tracker: &Tracker) -> Self {
        ReportWriter::open(directory, job, writer, tracker).map_or(Self::Missing, Self::File)
    }
}

#[derive(Debug)]
struct Inner {
    directory: PathBuf,
    job: JobName,
    page: Result<PageReader, Reason>,
    reopen_at: NodeTime,
    report: Destination,
    /// When a gate that does not wait writes next, and when one without a file looks for one next.
    report_at: NodeTime,
    report_open_at: NodeTime,
    /// Names these totals, whatever file they are in.
    writer: u64,
    lock: PhaseLock,
    wake: Wake,
    turns: TurnGate,
    notes: NoteSender,
    /// When the last start went, until the job says that what it sent has ended.
    sending: Option<NodeTime>,
    tracker: Tracker,
    process: u64,
}

impl Inner {
    fn new(directory: PathBuf, job: JobName) -> Self {
        let page = PageReader::open(&directory, &job);
        let (writer, tracker) = (new_writer(), Tracker::default());
        let report = Destination::open(&directory, &job, writer, &tracker);
        // The files were looked for just above, so the first new look waits its time too.
        let reopen_at = now().saturating_add(REOPEN_EVERY);
        Self {
            directory,
            job,
            page,
            reopen_at,
            report,
            // The first start that is not held writes a report, so that the agent hears of the job at once.
            report_at: NodeTime(0),
            report_open_at: reopen_at,
            writer,
            lock: PhaseLock::default(),
            wake: Wake::default(),
            turns: TurnGate::new(writer),
            notes: NoteSender::default(),
            sending: None,
            tracker,
            process: fork::generation(),
        }
    }

    fn step(&mut self, phase: u64) -> StepOutcome {
        if self.process != fork::generation() {
            self.begin_anew();
        }
        // The page is read before the clock: a heartbeat in the future then means another clock, and not a slow reader.
        let mut page = self.read();
        let mut came = now();
        let mut decision = answer(&self.lock, came, &page);
        if let Decision::Go { because, .. } = decision
            && came >= self.reopen_at
            && may_be_replaced(because, came, &page)
        {
            // Both are read anew: with the time from before the reopening, a fresh heartbeat could seem to be in the future.
            self.reopen(came);
            page = self.read();
            came = now();
            decision = answer(&self.lock, came, &page);
        }
        let outcome = match (decision, page) {
            // No slot holds a job that takes turns.
            (Decision::Go { because: Reason::NotHeld, .. }, Ok(schedule)) if schedule.mode == Mode::Turn => {
                self.turn(came, &schedule, phase)
            }
            // A plan that cannot be trusted is said at every phase.
            (Decision::Go { because, .. }, _) if phase > 1 && because.is_fail_open() => return passed(because),
            // Slots and reports are of iterations, which began with their first phase.
            _ if phase > 1 => return passed(Reason::NotHeld),
            (Decision::Wait { until, slip }, Ok(schedule)) => self.hold(came, until, slip, &schedule),
            (Decision::Go { because, late }, Ok(schedule)) => {
                let outcome = went(came, because, late, &schedule);
                self.lock.started(&outcome, &schedule);
                outcome
            }
            (Decision::Go { because, .. }, Err(_)) => StepOutcome { start: came, ..absent(because) },
            // `answer` never waits without a schedule; this arm fails open should it ever do so.
            (Decision::Wait { .. }, Err(reason)) => StepOutcome { start: came, ..absent(reason) },
        };
        if phase > 1 {
            self.tracker.waited(outcome.held)
        } else {
            self.tracker.record(&outcome)
        }
        self.sending = Some(outcome.start);
        // A held start writes nothing here: a system call between slot and start would make the job late. The next start does.
        if outcome.held.0 == 0 && outcome.start >= self.report_at {
            self.write_report(outcome.start);
        }
        outcome
    }

    fn done(&mut self) {
        // What a parent started does not end in its child.
        if self.process != fork::generation() {
            return;
        }
        let at = now();
        if let Some(start) = self.sending.take() {
            self.tracker.ended(at.since(start));
        }
        if let Some(ended) = self.turns.ended(at) {
            self.tell(&ended);
        }
        // Nothing of the job waits for this call, so it is a good moment.
        if at >= self.report_at {
            self.write_report(at);
        }
    }

    /// A child that did nothing yet has nothing to report, and its copy of the parent's totals is old.
    fn flush(&mut self, at: NodeTime) {
        if self.process == fork::generation() {
            self.write_report(at);
        }
    }

    #[inline]
    fn read(&self) -> Result<Schedule, Reason> {
        self.page.as_ref().map_err(|&reason| reason)?.read()
    }

    fn hold(&mut self, came: NodeTime, until: NodeTime, slip: bool, schedule: &Schedule) -> StepOutcome {
        // The report is written before the wait: there is time now, and there may be none at the slot.
        self.write_report(came);
        let mut hold = self.lock.hold(came, until, schedule);
        // The last schedule that could be read says how late the start was, also if the page vanishes during the hold.
        let mut followed = *schedule;
        let mut wake = self.wake;
        let because = wait(&mut hold, &mut wake, || {
            let page = self.read();
            followed = page.unwrap_or(followed);
            page
        });
        let start = now();
        self.wake = wake;
        // A plan that stopped holding the job has no slot that the start could be late for.
        let late = if because == Reason::NotHeld { None } else { followed.phase_error(start) };
        let outcome = StepOutcome { because, start, held: start.since(came), slip, late, plan_version: followed.plan_version };
        self.lock.started(&outcome, &followed);
        outcome
    }

    /// A start of a job that takes turns, under a schedule that could be read.
    fn turn(&mut self, came: NodeTime, schedule: &Schedule, phase: u64) -> StepOutcome {
        // The service hears the newest gate of a job and answers no other: each start of this one would wait for nothing.
        if matches!(self.report, Destination::Another(_)) {
            return StepOutcome { start: came, plan_version: schedule.plan_version, ..absent(Reason::Busy) };
        }
        let (because, start) = match self.turns.begin_phase(came, schedule, phase) {
            TurnDecision::Go(because) => (because, came),
            // Nobody is there to answer.
            TurnDecision::Ask { ready, .. } if !self.tell(&ready) => (Reason::Unheard, came),
            TurnDecision::Ask { mut wait, .. } => {
                // The answer takes longer than this, and after it there may be no time.
                if came >= self.report_at {
                    self.write_report(came);
                }
                let because = self.page.as_ref().map_or_else(|&reason| reason, |page| wait_for_turn(&mut wait, page));
                (because, now())
            }
        };
        if let Some(started) = self.turns.started(start, because) {
            self.tell(&started);
        }
        StepOutcome { because, start, held: start.since(came), slip: false, late: None, plan_version: schedule.plan_version }
    }

    fn tell(&mut self, note: &Note) -> bool {
        self.notes.send(&self.directory, &self.job, note)
    }

    fn reopen(&mut self, at: NodeTime) {
        self.reopen_at = at.saturating_add(REOPEN_EVERY);
        self.page = PageReader::open(&self.directory, &self.job);
    }

    fn write_report(&mut self, at: NodeTime) {
        // The next time is set on every path, so a report that cannot be written costs one attempt per REPORT_EVERY.
        self.report_at = at.saturating_add(REPORT_EVERY);
        let written = match &mut self.report {
            Destination::File(report) => report.write(&self.tracker),
            Destination::Missing if at >= self.report_open_at => Written::Gone,
            Destination::Missing => return,
            // A gate that was taken over is silent while the other is there: two writers would make the agent begin the totals anew all the time.
            Destination::Another(another) => {
                let starts = self.tracker.counters().iterations;
                if another.is_gone(at, starts, || look(&self.directory, &self.job)) {
                    self.begin_anew();
                }
                return;
            }
        };
        match written {
            Written::Whole => {}
            Written::TakenOver => self.report = Destination::Another(Another::default()),
            Written::Gone => {
                self.report_open_at = at.saturating_add(REOPEN_EVERY);
                self.report = Destination::open(&self.directory, &self.job, self.writer, &self.tracker);
            }
        }
    }

    /// In a child of a fork, whose parent has the report and the totals so far; and where the gate that had them after this one is gone.
    fn begin_anew(&mut self) {
        // The page stays: a fork keeps the mapping, and the gate only reads it.
        self.process = fork::generation();
        self.lock = PhaseLock::default();
        self.tracker = Tracker::default();
        self.writer = new_writer();
        // A number of its own and a socket of its own: to the agent this is another run.
        self.turns = TurnGate::new(self.writer);
        self.notes = NoteSender::default();
        self.sending = None;
        self.report = Destination::open(&self.directory, &self.job, self.writer, &self.tracker);
    }
}

#[inline]
fn answer(lock: &PhaseLock, at: NodeTime, page: &Result<Schedule, Reason>) -> Decision {
    match page {
        Ok(schedule) => lock.decide(at, schedule),
        Err(reason) => Decision::Go { because: *reason, late: Nanos(0) },
    }
}

/// A start that was not held, under a schedule that could be read.
#[inline]
fn went(start: NodeTime, because: Reason, late: Nanos, schedule: &Schedule) -> StepOutcome {
    let late = match because {
        // `decide` has measured the phase of these two, so a second division is saved.
        Reason::OnTime | Reason::HoldTooLong => Some(schedule.signed(late)),
        Reason::NotHeld => None,
        // Not followed, but how far the job is from its slots is worth knowing.
        _ => schedule.phase_error(start),
    };
    StepOutcome { because, start, held: Nanos(0), slip: false, late, plan_version: schedule.plan_version }
}

fn absent(because: Reason) -> StepOutcome {
    StepOutcome { because, start: NodeTime(0), held: Nanos(0), slip: false, late: None, plan_version: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_phases_are_no_iterations_and_are_held_by_no_slot() {
        let directory = tempfile::tempdir().unwrap();
        let mut page = crate::PageWriter::create(directory.path(), "j").unwrap();
        let hour = Nanos(3_600_000_000_000);
        let schedule = Schedule {
            mode: Mode::Hold,
            slot: now().saturating_add(Nanos::from_millis(20)),
            period: hour,
            hold_max: hour,
            expires: NodeTime(u64::MAX),
            written: now(),
            stale_after: hour,
            ..Schedule::default()
        };
        page.write(&schedule);
        let gate = Gate::open(&Config::new(directory.path(), JobName::try_new("j").unwrap()));
        assert_eq!(gate.step_phase(2).because, Reason::NotHeld);
        let first = gate.step_phase(1);
        assert_eq!((first.because, first.held.0 > 0), (Reason::OnTime, true));
        assert_eq!(gate.step_phase(2).held, Nanos(0));
        let counted = gate.inner.as_ref().and_then(Turns::take).map(|inner| inner.tracker.counters().iterations);
        assert_eq!(counted, Some(1));
        page.write(&Schedule { expires: NodeTime(1), ..schedule });
        assert_eq!([1, 2].map(|phase| gate.step_phase(phase).because), [Reason::Expired; 2]);
    }

    #[test]
    fn an_end_that_meets_another_thread_in_the_gate_is_told_when_that_leaves() {
        let directory = tempfile::tempdir().unwrap();
        let mut page = crate::PageWriter::create(directory.path(), "j").unwrap();
        let (expires, stale_after) = (NodeTime(u64::MAX), Nanos::from_millis(600_000));
        let turn = gate_core::Turn { max: Nanos::from_millis(1), ..Default::default() };
        page.write(&Schedule { mode: Mode::Turn, expires, written: now(), stale_after, turn, ..Schedule::default() });
        let reader = crate::NoteReader::bind(directory.path()).unwrap();
        let gate = Gate::open(&Config::new(directory.path(), JobName::try_new("j").unwrap()));
        let ends = || {
            let notes = core::iter::from_fn(|| reader.recv().ok()).map(|heard| heard.unwrap().note);
            notes.filter(|note| note.kind == gate_core::NoteKind::Ended).map(|note| note.number).collect::<Vec<u64>>()
        };
        gate.step();
        let other = gate.inner.as_ref().and_then(Turns::take).unwrap();
        gate.done();
        assert!(ends().is_empty());
        drop(other);
        assert!(gate.wake().is_some());
        assert_eq!(ends(), [1]);
        gate.flush();
        assert!(ends().is_empty(), "once");
        // An end that is told after the next start says nothing of that one.
        gate.step();
        let other = gate.inner.as_ref().and_then(Turns::take).unwrap();
        gate.done();
        drop(other);
        gate.step();
        gate.flush();
        assert!(ends().is_empty());
        gate.done();
        assert_eq!(ends(), [3]);
        // Two threads, one that starts and ends and one that only looks: each start has its end.
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let looks = scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    gate.flush();
                    std::hint::black_box(gate.wake());
                }
            });
            let mut told = Vec::new();
            for _ in 0..200 {
                // While the other looks, a step goes without the gate, and has no number.
                while gate.step().because == Reason::Busy {}
                gate.done();
                // The other may be about to tell it.
                let before = told.len();
                let began = std::time::Instant::now();
                while told.len() == before && began.elapsed() < std::time::Duration::from_secs(60) {
                    told.extend(ends());
                }
            }
            over.store(true, Ordering::Relaxed);
            looks.join().unwrap();
            assert!(told.windows(2).all(|pair| pair[0] < pair[1]), "{told:?}");
            assert_eq!(told.len(), 200);
        });
    }

    #[test]
    fn after_a_panic_everything_goes() {
        let directory = tempfile::tempdir().unwrap();
        let gate = Gate::open(&Config::new(directory.path(), JobName::try_new("j").unwrap()));
        assert_eq!(gate.step().because, Reason::NoPage);
        assert_eq!(gate.guarded(|| panic!("as a defect would")).because, Reason::Internal);
        assert_eq!(gate.step().because, Reason::Internal);
        gate.flush();
    }
}
