//! Gates of jobs that take turns, with real sockets, real pages and real agents.

use std::{
    fs::{self, File, Permissions},
    io::ErrorKind,
    iter,
    os::unix::{
        fs::{FileExt, MetadataExt, PermissionsExt, chown, symlink},
        net::UnixDatagram,
    },
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use antiphase_gate::{Gate, Heard, NoteReader, PageWriter, ReportReader, SLICE, StepOutcome, notes::SOCKET, now};
use gate_core::{ANSWER_WITHIN, Mode, Note, NoteKind, Permit, Reason, SILENT_FOR, Schedule, Turn, UNHEARD_MAX};
use rustix::process::geteuid;
use units::{Nanos, NodeTime};

use crate::{
    child::Process,
    ends::{JOB, due_in, eventually, gate, ms, page, step_in_thread},
};

/// The user who may do nothing, on every Linux.
const NOBODY: u32 = 65_534;

/// Starts whose wake-ups are measured.
const WAKES: usize = 100;

/// A page of a job that takes turns, with an answer to one start.
pub(crate) fn turns(writer: u64, number: u64, permit: Permit) -> Schedule {
    // No period, and a clock that nobody knows: turns need neither.
    Schedule {
        mode: Mode::Turn,
        plan_version: 5,
        expires: NodeTime(u64::MAX),
        written: now(),
        stale_after: ms(600_000),
        clock_bound: Nanos(u64::MAX),
        turn: Turn { writer, number, permit, max: ms(30_000) },
        ..Schedule::default()
    }
}

pub(crate) fn no_answer() -> Schedule {
    turns(0, 0, Permit::None)
}

fn far() -> Permit {
    Permit::NotBefore(now().saturating_add(ms(20_000)))
}

/// The next note, which has to come.
fn next(reader: &NoteReader) -> Note {
    eventually("a note", || reader.recv().ok()).expect("a note and nothing else").note
}

/// A start that waits because it was told to, and what it said of itself. On a machine that is busy with other work the answer of
/// a test may come too late: then the start goes unheard, and another one has to do.
fn held_back(gate: &Arc<Gate>, reader: &NoteReader, page: &mut PageWriter) -> (JoinHandle<StepOutcome>, Note) {
    eventually("an answer in time", || {
        while reader.recv().is_ok() {}
        let step = step_in_thread(gate);
        // A gate that was unheard too often goes without a question.
        let asked = || reader.recv().ok().flatten().map(|found| found.note).filter(|note| note.kind == NoteKind::Ready);
        let ready = eventually("ready, or a start", || asked().map(Some).or_else(|| step.is_finished().then_some(None)));
        if let Some(ready) = ready {
            page.write_and_wake(&turns(ready.writer, ready.number, far()));
            thread::sleep(Duration::from_millis(30));
            if !step.is_finished() {
                return Some((step, ready));
            }
        }
        assert_eq!(step.join().unwrap().because, Reason::Unheard);
        None
    })
}

/// An agent in this process that answers each start that is ready, after a moment in which the gate falls asleep.
pub(crate) struct Answering {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    seen: Arc<Mutex<Vec<(Note, NodeTime)>>>,
}

impl Answering {
    pub(crate) fn start(directory: &Path, job: &str, wakes: bool) -> Self {
        let mut page = PageWriter::create(directory, job).unwrap();
        page.write(&no_answer());
        let reader = NoteReader::bind(directory).unwrap();
        let (stop, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let (stopped, notes) = (Arc::clone(&stop), Arc::clone(&seen));
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let Ok(found) = reader.recv() else {
                    thread::sleep(Duration::from_micros(100));
                    continue;
                };
                let note = found.expect("a note and nothing else").note;
                if note.kind == NoteKind::Ready {
                    // The first word holds the start, so that the answer may take longer than one round trip.
                    page.write_and_wake(&turns(note.writer, note.number, far()));
                    thread::sleep(Duration::from_millis(1));
                }
                let (at, answer) = (now(), turns(note.writer, note.number, Permit::Go));
                if note.kind == NoteKind::Ready && wakes {
                    page.write_and_wake(&answer);
                } else if note.kind == NoteKind::Ready {
                    page.write(&answer);
                }
                notes.lock().unwrap().push((note, at));
            }
        });
        Self { stop, thread: Some(thread), seen }
    }

    /// The notes, each with the time of its answer, once this many starts have ended.
    pub(crate) fn seen(&self, ended: usize) -> Vec<(Note, NodeTime)> {
        eventually("the last note", || {
            let seen = self.seen.lock().unwrap();
            (seen.iter().filter(|(note, _)| note.kind == NoteKind::Ended).count() >= ended).then(|| seen.clone())
        })
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

#[test]
fn a_start_tells_that_it_is_ready_started_and_ended() {
    let directory = tempfile::tempdir().unwrap();
    let reader = NoteReader::bind(directory.path()).unwrap();
    let report = ReportReader::open_or_create(directory.path(), JOB).unwrap();
    let mut page = page(directory.path(), &no_answer());
    let gate = Arc::new(gate(directory.path()));
    gate.done();
    let (step, ready) = held_back(&gate, &reader, &mut page);
    page.write_and_wake(&turns(ready.writer, ready.number, Permit::Go));
    let outcome = step.join().unwrap();
    assert_eq!((outcome.because, outcome.slip, outcome.late, outcome.plan_version), (Reason::Granted, false, None, 5));
    assert!(outcome.held >= ms(30) && ready.phase == 0 && outcome.start.since(ready.at) == outcome.held);
    assert_eq!(next(&reader), Note { kind: NoteKind::Started, at: outcome.start, ..ready });
    thread::sleep(Duration::from_millis(5));
    gate.done();
    gate.done();
    let ended = next(&reader);
    assert_eq!(ended, Note { kind: NoteKind::Ended, at: ended.at, ..ready });
    gate.flush();
    let sample = *report.read().unwrap().tracker.last(1).next().unwrap();
    assert_eq!((sample.start, sample.held, sample.sent), (outcome.start, outcome.held, ended.at.since(outcome.start)));
    // Granted ahead: nothing is asked and nothing is waited for.
    page.write(&turns(ready.writer, ready.number + 1, Permit::Go));
    let outcome = gate.step();
    assert_eq!((outcome.because, outcome.held), (Reason::Granted, Nanos(0)));
    assert_eq!(next(&reader), Note { kind: NoteKind::Started, number: ready.number + 1, at: outcome.start, ..ready });
    assert_eq!(reader.recv().unwrap_err().kind(), ErrorKind::WouldBlock, "and that is all");
}

#[test]
fn a_note_names_its_job() {
    let directory = tempfile::tempdir().unwrap();
    let reader = NoteReader::bind(directory.path()).unwrap();
    let _page = page(directory.path(), &no_answer());
    assert_eq!(gate(directory.path()).step().because, Reason::Unheard);
    let Heard { job, note, from } = reader.recv().unwrap().unwrap();
    assert_eq!(from, geteuid().as_raw());
    assert_eq!((job.as_str(), note.kind, note.number), (JOB, NoteKind::Ready, 1));
}

#[test]
fn those_ahead_should_have_ended_by_then() {
    let directory = tempfile::tempdir().unwrap();
    let reader = NoteReader::bind(directory.path()).unwrap();
    let mut page = page(directory.path(), &no_answer());
    let gate = Arc::new(gate(directory.path()));
    let (step, ready) = held_back(&gate, &reader, &mut page);
    let at = now().saturating_add(ms(40));
    page.write_and_wake(&turns(ready.writer, ready.number, Permit::NotBefore(at)));
    let outcome = step.join().unwrap();
    assert_eq!(outcome.because, Reason::NotBefore);
    assert!(outcome.start >= at);
    // The longest wait is the page's when the wait begins, and the answer, which states 30 s, cannot make it longer.
    page.write(&Schedule { turn: Turn { max: ms(1_000), ..Turn::default() }, ..no_answer() });
    let (step, _) = held_back(&gate, &reader, &mut page);
    let outcome = step.join().unwrap();
    assert_eq!(outcome.because, Reason::HoldTooLong);
    assert!((ms(1_000)..ms(20_000)).contains(&outcome.held), "{}", outcome.held);
}

/// The starts of a gate that were granted, with their numbers; on a busy machine some go unheard.
fn granted(gate: &Gate) -> Vec<(u64, NodeTime)> {
    let (began, mut number, mut granted) = (now(), 0, Vec::new());
    while granted.len() < WAKES {
        assert!(now().since(began) < ms(60_000), "{} of {number} starts were answered in time", granted.len());
        let outcome = gate.step();
        gate.done();
        number += 1;
        match outcome.because {
            Reason::Granted => granted.push((number, outcome.start)),
            because => assert_eq!(because, Reason::Unheard),
        }
    }
    granted
}

fn median(what: &str, mut latencies: Vec<Nanos>) -> Nanos {
    latencies.sort_unstable();
    let at = |percent: usize| latencies[(latencies.len() * percent).div_ceil(100) - 1];
    println!("from the permit to the start, {what}: p50 {} p90 {} p99 {} max {}", at(50), at(90), at(99), at(100));
    at(50)
}

/// What a wake-up by the agent is worth: the time from its write until the start, with and without the wake-up.
#[test]
fn a_gate_that_waits_is_woken() {
    let latency = |what: &str, wakes: bool| {
        let directory = tempfile::tempdir().unwrap();
        let agent = Answering::start(directory.path(), JOB, wakes);
        let granted = granted(&gate(directory.path()));
        let answers = agent.seen(WAKES);
        let answered = |number| answers.iter().find(|(note, _)| (note.kind, note.number) == (NoteKind::Ready, number)).unwrap().1;
        median(what, granted.into_iter().map(|(number, start)| start.since(answered(number))).collect())
    };
    let (woken, looked) = (latency("woken", true), latency("not woken", false));
    assert!(woken < looked, "{woken} with and {looked} without a wake-up");
}

/// Found by a stranger: of three gates each start of two waited 15 ms for an answer that nobody gives, and the job took a tenth longer.
#[test]
fn of_several_gates_of_a_job_only_the_newest_asks() {
    let directory = tempfile::tempdir().unwrap();
    let agent = Answering::start(directory.path(), JOB, true);
    let _report = ReportReader::open_or_create(directory.path(), JOB).unwrap();
    let older = [gate(directory.path()), gate(directory.path())];
    let newest = gate(directory.path());
    for gate in &older {
        // It finds at its next report that another one writes it.
        eventually("the older gate to step aside", || (gate.step().because == Reason::Busy).then_some(()));
    }
    // What they began before they knew ends.
    older.iter().for_each(Gate::done);
    eventually("a grant", || (newest.step().because == Reason::Granted).then_some(()));
    newest.done();
    let of = |answers: &[(Note, NodeTime)]| answers.iter().map(|(note, _)| note.writer).collect::<Vec<_>>();
    let before = agent.seen(3).len();
    let mut fastest = Duration::MAX;
    for _ in 0..20 {
        let began = Instant::now();
        assert!(older.iter().all(|gate| gate.step().because == Reason::Busy));
        fastest = fastest.min(began.elapsed());
        older.iter().for_each(Gate::done);
        eventually("a grant", || (newest.step().because == Reason::Granted).then_some(()));
        newest.done();
    }
    // A busy machine slows some of them, and who waits for an answer does so in each.
    assert!(fastest < Duration::from_millis(10), "they wait for nobody: {fastest:?}");
    let writers = of(&agent.seen(1)[before..]);
    assert!(!writers.is_empty() && writers.windows(2).all(|two| two[0] == two[1]), "{writers:?}");
    // The newest ends, and one of those that go on takes the turns, as a run of its own.
    let before = of(&agent.seen(1));
    drop(newest);
    let began = Instant::now();
    eventually("another gate to take the turns", || {
        let asked = older.iter().any(|gate| gate.step().because == Reason::Granted);
        older.iter().for_each(Gate::done);
        asked.then_some(())
    });
    assert!(began.elapsed() > Duration::from_secs(2), "a gate that pauses is not gone at once");
    // The agent notes what it answered after it has answered.
    eventually("a question of a run that was not there before", || {
        of(&agent.seen(1)).iter().any(|run| !before.contains(run)).then_some(())
    });
}

/// The page is mapped by two processes, one of them read-only: the kernel wakes all the same.
#[test]
fn an_agent_in_another_process_wakes_the_gate() {
    let directory = tempfile::tempdir().unwrap();
    let mut agent = Process::start("turns", directory.path());
    assert_eq!(agent.line(), "ready");
    let mut answered = |number: u64| {
        eventually("the grant", || {
            let line = agent.line();
            let (which, at) = line.strip_prefix("granted ")?.split_once(' ')?;
            (which.parse() == Ok(number)).then(|| NodeTime(at.parse().unwrap()))
        })
    };
    let granted = granted(&gate(directory.path()));
    let woken = median("another process", granted.into_iter().map(|(number, start)| start.since(answered(number))).collect());
    // Without a wake-up it would be the rest of a slice after the first millisecond.
    assert!(woken < SLICE, "{woken}");
}

#[test]
fn without_a_socket_the_job_goes_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let _page = page(directory.path(), &no_answer());
    let gate = gate(directory.path());
    let goes = || {
        let outcome = gate.step();
        gate.done();
        assert_eq!((outcome.because, outcome.held), (Reason::Unheard, Nanos(0)));
    };
    goes();
    // One whose agent has ended.
    drop(NoteReader::bind(directory.path()).unwrap());
    goes();
}

/// The agent restarts between two starts: the next note goes to the new socket, and not the one after it.
#[test]
fn a_gate_finds_the_socket_of_the_next_agent() {
    let directory = tempfile::tempdir().unwrap();
    let mut page = page(directory.path(), &no_answer());
    let gate = Arc::new(gate(directory.path()));
    for number in 1..UNHEARD_MAX.into() {
        let reader = NoteReader::bind(directory.path()).unwrap();
        // Only a start whose note was sent waits for an answer.
        assert!(gate.step().held > Nanos(0));
        assert_eq!(
            [next(&reader), next(&reader)].map(|note| (note.number, note.kind)),
            [(number, NoteKind::Ready), (number, NoteKind::Started)]
        );
    }
    let reader = NoteReader::bind(directory.path()).unwrap();
    let (step, ready) = held_back(&gate, &reader, &mut page);
    page.write_and_wake(&turns(ready.writer, ready.number, Permit::Go));
    assert_eq!(step.join().unwrap().because, Reason::Granted);
}

#[test]
fn without_an_answer_the_job_goes_and_soon_asks_no_more() {
    let directory = tempfile::tempdir().unwrap();
    let reader = NoteReader::bind(directory.path()).unwrap();
    let _page = page(directory.path(), &no_answer());
    let gate = gate(directory.path());
    for _ in 0..UNHEARD_MAX {
        let outcome = gate.step();
        assert_eq!(outcome.because, Reason::Unheard);
        assert!(outcome.held >= ANSWER_WITHIN);
    }
    let silent = now();
    let outcome = gate.step();
    // On a machine that stood still for a second, the silence is over.
    assert!(outcome.held == Nanos(0) || now().since(silent) >= SILENT_FOR);
    assert_eq!(outcome.because, Reason::Unheard);
    let kinds: Vec<(NoteKind, u64)> =
        iter::from_fn(|| reader.recv().ok()).map(|note| note.unwrap().note).map(|n| (n.kind, n.number)).collect();
    assert_eq!(kinds[..2], [(NoteKind::Ready, 1), (NoteKind::Started, 1)]);
    assert_eq!(kinds.last(), Some(&(NoteKind::Started, 4)));
}

/// Somebody who sends without end, or an agent that stands still: the kernel keeps no more, and the job does not wait for room.
#[test]
fn a_socket_that_is_full_lets_the_job_go() {
    let directory = tempfile::tempdir().unwrap();
    let _reader = NoteReader::bind(directory.path()).unwrap();
    let _page = page(directory.path(), &no_answer());
    let flood = UnixDatagram::unbound().unwrap();
    flood.set_nonblocking(true).unwrap();
    flood.connect(directory.path().join(SOCKET)).unwrap();
    while flood.send(&[0; 320]).is_ok() {}
    let outcome = gate(directory.path()).step();
    assert_eq!((outcome.because, outcome.held), (Reason::Unheard, Nanos(0)));
}

#[test]
fn an_agent_that_dies_while_a_start_waits_lets_it_go() {
    let directory = tempfile::tempdir().unwrap();
    let mut agent = Process::start("turns-hold", directory.path());
    assert_eq!(agent.line(), "ready");
    let gate = Arc::new(gate(directory.path()));
    let step = eventually("a wait that the heartbeat keeps alive", || {
        let step = step_in_thread(&gate);
        thread::sleep(Duration::from_millis(300));
        (!step.is_finished()).then_some(step)
    });
    agent.kill();
    let outcome = step.join().unwrap();
    assert_eq!(outcome.because, Reason::Stale);
    assert!(outcome.held < ms(20_000), "{}", outcome.held);
}

#[test]
fn a_page_that_is_taken_back_or_changed_ends_the_wait() {
    let directory = tempfile::tempdir().unwrap();
    let reader = NoteReader::bind(directory.path()).unwrap();
    let mut page = page(directory.path(), &no_answer());
    let gate = Arc::new(gate(directory.path()));
    let (step, _) = held_back(&gate, &reader, &mut page);
    page.write(&due_in(ms(20_000), ms(50_000)));
    assert_eq!(step.join().unwrap().because, Reason::NotHeld, "the slots of the next plan do not hold it a second time");
    page.write(&no_answer());
    let (step, _) = held_back(&gate, &reader, &mut page);
    page.remove().unwrap();
    assert_eq!(step.join().unwrap().because, Reason::NoPage);
}

#[test]
fn a_socket_is_one_agents_and_everybody_may_send_to_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(SOCKET);
    let mut agent = Process::start_with_umask("bind", directory.path());
    assert_eq!(agent.line(), "bound");
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o666);
    assert_eq!(NoteReader::bind(directory.path()).unwrap_err().kind(), ErrorKind::ResourceBusy);
    agent.kill();
    let first = NoteReader::bind(directory.path()).unwrap();
    first.remove().unwrap();
    assert!(!path.exists());
    let _second = NoteReader::bind(directory.path()).unwrap();
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "temporary names are gone");
    let other = tempfile::tempdir().unwrap();
    File::create(other.path().join(SOCKET)).unwrap();
    assert_eq!(NoteReader::bind(other.path()).unwrap_err().kind(), ErrorKind::AlreadyExists);
    let long = other.path().join("x".repeat(120));
    fs::create_dir(&long).unwrap();
    assert_eq!(NoteReader::bind(&long).unwrap_err().kind(), ErrorKind::InvalidInput);
}

/// Whether a start under this directory reaches a socket that is really read.
fn asks(directory: &Path) -> bool {
    gate(directory).step().held > Nanos(0)
}

#[test]
fn a_socket_that_is_not_to_be_believed_is_not_used() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(SOCKET);
    let _page = page(directory.path(), &no_answer());
    let _reader = NoteReader::bind(directory.path()).unwrap();
    assert!(asks(directory.path()));
    // The same socket under a link.
    fs::rename(&path, directory.path().join("other")).unwrap();
    symlink(directory.path().join("other"), &path).unwrap();
    assert!(!asks(directory.path()));
    fs::remove_file(&path).unwrap();
    fs::rename(directory.path().join("other"), &path).unwrap();
    assert!(asks(directory.path()));
    if !geteuid().is_root() {
        println!("skipped: without root no socket can be another user's");
        return;
    }
    chown(&path, Some(NOBODY), None).unwrap();
    assert!(!asks(directory.path()));
    // The owner of the directory runs the agent.
    chown(directory.path(), Some(NOBODY), None).unwrap();
    assert!(asks(directory.path()));
}

#[test]
fn a_job_of_another_user_takes_turns() {
    if !geteuid().is_root() {
        println!("skipped: without root nobody else can take turns");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
    let agent = Answering::start(directory.path(), JOB, true);
    let program = directory.path().join("program");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    eventually("an answer in time", || {
        let mut child = Process::start_as(NOBODY, &program, "step", directory.path());
        assert_eq!(child.line(), "ready");
        Some(child.line()).filter(|line| line == "granted held=true slip=false late=None")
    });
    // And the kernel says who he is.
    drop(agent);
    let reader = NoteReader::bind(directory.path()).unwrap();
    let _child = Process::start_as(NOBODY, &program, "step", directory.path());
    let heard = eventually("a note of another user", || reader.recv().ok()).unwrap();
    assert_eq!((heard.job.as_str(), heard.from), (JOB, NOBODY));
}

/// Found by a stranger: root of a container shrank a page, and each job of the host that had it mapped died, with the agent.
#[test]
fn a_container_needs_the_pages_for_reading_only() {
    if !geteuid().is_root() {
        println!("skipped: without root nothing can be mounted");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let report = ReportReader::open_or_create(directory.path(), JOB).unwrap();
    let agent = Answering::start(directory.path(), JOB, true);
    eventually("an answer in time", || {
        let mut child = Process::start_in_container("shrink", directory.path());
        assert_eq!(child.line(), "ReadOnlyFilesystem");
        Some(child.line()).filter(|line| line == "granted held=true slip=false late=None")
    });
    drop(agent);
    eventually("its report", || report.read().filter(|found| found.tracker.counters().iterations > 0));
}

/// A page of the first layout, as an agent wrote it that knew no turns.
#[test]
fn a_page_of_the_first_layout_is_followed_and_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(format!("{JOB}.page"));
    let plan = Schedule { stale_after: ms(600), ..due_in(ms(60), ms(100)) };
    drop(page(directory.path(), &plan));
    let file = File::options().write(true).open(&path).unwrap();
    file.write_all_at(&1_u64.to_le_bytes(), 8).unwrap();
    let before = fs::metadata(&path).unwrap().ino();
    let gate = gate(directory.path());
    assert_eq!(gate.step().because, Reason::OnTime);
    // The first layout has two modes.
    file.write_all_at(&2_u64.to_le_bytes(), 4 * 8).unwrap();
    assert_eq!(crate::ends::gate(directory.path()).step().because, Reason::Malformed);
    file.write_all_at(&1_u64.to_le_bytes(), 4 * 8).unwrap();
    // An agent of this layout makes a new file, which the gate finds when the old one is stale.
    let _page = page(directory.path(), &Schedule { plan_version: 9, ..due_in(ms(20), ms(100)) });
    assert_ne!(fs::metadata(&path).unwrap().ino(), before);
    eventually("following the new page", || (gate.step().plan_version == 9).then_some(()));
}
