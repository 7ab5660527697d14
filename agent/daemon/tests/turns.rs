//! An agent with a real gate that takes turns; the test is the service.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    env, fs,
    os::unix::{fs::PermissionsExt as _, net::UnixDatagram, process::CommandExt as _},
    process::Command,
    time::Duration,
};

use antiphase_agent::{
    clock::ClockEstimate,
    config::Config,
    pages::Pages,
    run::Agent,
    wiring::{self, SessionEnds, SessionStatus},
};
use gate::{
    Gate, JobName, PageReader, StepOutcome,
    events::{Event, EventKind, EventWriter},
    notes::Greeting,
    now,
};
use gate_core::{Mode, Note, NoteKind, Reason};
use proto::v1alpha1::{HostPlan, Slot, TurnNote, TurnOrder, turn_note, turn_order};
use telemetry::Root;
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::timeout,
};
use units::{ClockOffset, Nanos, NodeTime};

const PATIENCE: Duration = Duration::from_secs(30);
/// The user who may do nothing, on every Linux.
const NOBODY: u32 = 65_534;
/// What the process of another user sends: the directory, and the run of the gate.
const FORGED: [&str; 2] = ["ANTIPHASE_FORGED_DIR", "ANTIPHASE_FORGED_WRITER"];
const OFFSET: i64 = 1_700_000_000_000_000_000;

struct Running {
    folder: tempfile::TempDir,
    session: SessionEnds,
    stop: oneshot::Sender<()>,
    agent: JoinHandle<(Pages, Option<ClockEstimate>)>,
}

fn slot(turns: bool) -> Slot {
    Slot {
        job: "train-7".into(),
        plan_version: 5,
        period_ns: 100_000_000,
        hold_max_ns: 400_000_000,
        expires_ns: now().0 + OFFSET.cast_unsigned() + 60_000_000_000,
        leader_host: "gpu-01".into(),
        turns,
        ..Slot::default()
    }
}

impl Running {
    async fn start() -> Self {
        let running = Self::start_without_a_plan().await;
        running.plan(true).await;
        running
    }

    async fn start_without_a_plan() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("sys/class/net")).unwrap();
        let mut config = Config::parse("host = \"gpu-01\"\n[metrics]\nlisten = \"\"\n").unwrap();
        config.page_dir = folder.path().join("run");
        let (session, ends) = wiring::channels(None);
        let pages = Pages::new(&config.page_dir, &config.host).unwrap();
        let agent = Agent::start(&config, Root::under(folder.path()), pages, ends).await.unwrap();
        let (stop, stopped) = oneshot::channel();
        let agent = tokio::spawn(agent.run(async { drop(stopped.await) }));
        let clock = ClockEstimate { offset: ClockOffset(OFFSET), bound: Nanos(1_000), rtt: Nanos(300), at: now() };
        session.clock.send(Some(clock)).unwrap();
        let running = Self { folder, session, stop, agent };
        running.connect(true);
        running
    }

    fn connect(&self, connected: bool) {
        self.session.status.send(SessionStatus { connected, sessions: 1, report_interval: Nanos::from_millis(200) }).unwrap();
    }

    async fn plan(&self, turns: bool) {
        self.session.plans.send(HostPlan { plan_version: 5, slots: vec![slot(turns)] }).await.unwrap();
        let job = JobName::try_new("train-7").unwrap();
        let wanted = if turns { Mode::Turn } else { Mode::Pass };
        let written = timeout(PATIENCE, async {
            while PageReader::open(&self.folder.path().join("run"), &job).ok().and_then(|page| page.read().ok()).map(|page| page.mode)
                != Some(wanted)
            {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        });
        written.await.expect("the page is written in time");
    }

    /// Starts of the job: each is done after 2 ms.
    fn job(&self, starts: usize) -> mpsc::UnboundedReceiver<StepOutcome> {
        self.job_that_sends(starts, Duration::from_millis(2))
    }

    fn job_that_sends(&self, starts: usize, sends: Duration) -> mpsc::UnboundedReceiver<StepOutcome> {
        let config = gate::Config::new(self.folder.path().join("run"), JobName::try_new("train-7").unwrap());
        let (send, outcomes) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            let gate = Gate::open(&config);
            for _ in 0..starts {
                send.send(gate.step()).unwrap();
                std::thread::sleep(sends);
                gate.done();
            }
        });
        outcomes
    }

    async fn note(&mut self, kind: turn_note::Kind) -> TurnNote {
        loop {
            let note = timeout(PATIENCE, self.session.notes.recv()).await.expect("a note in time").unwrap();
            // Others are repeats of what has been answered meanwhile.
            if note.kind() == kind {
                return note;
            }
        }
    }

    fn order(&self, note: &TurnNote, kind: turn_order::Kind, at_most: Duration) {
        let number = note.number + u64::from(matches!(kind, turn_order::Kind::GrantAhead | turn_order::Kind::Withdraw));
        let at_most_ns = at_most.as_nanos() as u64;
        let order = TurnOrder { job: note.job.clone(), writer: note.writer, number, kind: kind.into(), at_most_ns, heard: note.kind };
        self.session.orders.try_send(order).unwrap();
    }
}

async fn next(outcomes: &mut mpsc::UnboundedReceiver<StepOutcome>) -> StepOutcome {
    timeout(PATIENCE, outcomes.recv()).await.expect("a start in time").unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_asks_waits_is_granted_and_the_next_needs_not_ask() {
    let mut running = Running::start().await;
    let mut outcomes = running.job(2);
    let ready = running.note(turn_note::Kind::Ready).await;
    assert_eq!((ready.job.as_str(), ready.number, ready.phase), ("train-7", 1, 0));
    running.order(&ready, turn_order::Kind::Hold, Duration::from_millis(300));
    tokio::time::sleep(Duration::from_millis(40)).await;
    running.order(&ready, turn_order::Kind::Grant, Duration::ZERO);
    let outcome = next(&mut outcomes).await;
    // Beyond the 15 ms after which it goes unheard, and before the end of the hold.
    assert!(outcome.because == Reason::Granted && (20..300).contains(&(outcome.held.0 / 1_000_000)), "{outcome:?}");
    let ended = running.note(turn_note::Kind::Ended).await;
    assert!(ended.number == 1 && ended.up_ns >= 2_000_000, "{ended:?}");
    running.order(&ended, turn_order::Kind::GrantAhead, Duration::ZERO);
    let outcome = next(&mut outcomes).await;
    // The second start may be ready before its permission is there, and is then granted by nobody.
    assert!(matches!(outcome.because, Reason::Granted | Reason::NotBefore), "{outcome:?}");
    running.stop.send(()).unwrap();
    let (mut pages, _) = timeout(PATIENCE, running.agent).await.unwrap().unwrap();
    pages.retire_all();
    let left: Vec<_> = fs::read_dir(running.folder.path().join("run")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name != "turns.sock"), "{left:?}");
}

/// A gate that reads on its page that it has to ask, and finds nobody, goes without asking.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_reads_that_starts_take_turns_finds_somebody_to_ask() {
    for _ in 0..30 {
        let running = Running::start_without_a_plan().await;
        let directory = running.folder.path().join("run");
        let gate = std::thread::spawn(move || {
            let job = JobName::try_new("train-7").unwrap();
            let until = std::time::Instant::now() + PATIENCE;
            while std::time::Instant::now() < until {
                let page = PageReader::open(&directory, &job).ok().and_then(|page| page.read().ok());
                if page.is_some_and(|page| page.mode == Mode::Turn) {
                    return directory.join("turns.sock").exists();
                }
                std::hint::spin_loop();
            }
            false
        });
        running.plan(true).await;
        assert!(gate.join().unwrap(), "the socket comes after the page");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_ends_at_its_time_though_the_grant_is_lost() {
    let mut running = Running::start().await;
    let mut outcomes = running.job(1);
    let ready = running.note(turn_note::Kind::Ready).await;
    running.order(&ready, turn_order::Kind::Hold, Duration::from_millis(60));
    let outcome = next(&mut outcomes).await;
    assert!(outcome.because == Reason::NotBefore && outcome.held.0 >= 50_000_000, "{outcome:?}");
    running.note(turn_note::Kind::Started).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_waits_for_a_service_that_is_not_there() {
    let mut running = Running::start().await;
    let mut outcomes = running.job(30);
    running.note(turn_note::Kind::Ready).await;
    running.connect(false);
    let mut waited = Vec::new();
    for _ in 0..30 {
        let outcome = next(&mut outcomes).await;
        waited.push((outcome.because, outcome.held.0 / 1_000));
    }
    // The first may have waited for its 25 ms; the others have the permission before they ask.
    assert!(waited[1..].iter().filter(|(because, _)| *because == Reason::Granted).count() > 20, "{waited:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_takes_no_turns_any_more_is_let_go() {
    let mut running = Running::start().await;
    let mut outcomes = running.job(1);
    let ready = running.note(turn_note::Kind::Ready).await;
    running.order(&ready, turn_order::Kind::Hold, Duration::from_secs(1));
    running.plan(false).await;
    let outcome = next(&mut outcomes).await;
    assert!(outcome.because == Reason::NotHeld && outcome.held.0 < 300_000_000, "{outcome:?}");
}

/// Another user says that the job has ended, while it sends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_else_ends_the_turn_of_a_job() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: without root there is no other user");
        return;
    }
    let mut running = Running::start().await;
    let sends = Duration::from_millis(1_500);
    let mut outcomes = running.job_that_sends(1, sends);
    let ready = running.note(turn_note::Kind::Ready).await;
    running.order(&ready, turn_order::Kind::Grant, Duration::from_millis(300));
    next(&mut outcomes).await;
    let program = running.folder.path().join("program");
    fs::copy(env::current_exe().unwrap(), &program).unwrap();
    fs::set_permissions(running.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut forger = Command::new(program);
    forger.args(["--ignored", "--exact", "a_forger"]).uid(NOBODY).current_dir("/");
    forger.env(FORGED[0], running.folder.path().join("run")).env(FORGED[1], ready.writer.to_string());
    let sent = forger.output().unwrap();
    assert!(sent.status.success(), "{sent:?}");
    let ended = running.note(turn_note::Kind::Ended).await;
    // The forged end would have come with the time until then, which the machine may have taken long for.
    assert!(ended.up_ns >= sends.as_nanos() as u64, "{ended:?}");
}

#[test]
#[ignore = "the other test runs this as another user"]
fn a_forger() {
    let (directory, writer) = (env::var_os(FORGED[0]).unwrap(), env::var(FORGED[1]).unwrap());
    let note = Note { kind: NoteKind::Ended, writer: writer.parse().unwrap(), number: 1, phase: 0, at: NodeTime(now().0) };
    let bytes = gate::notes::encode(&JobName::try_new("train-7").unwrap(), &note);
    let socket = UnixDatagram::unbound().unwrap();
    assert_eq!(socket.send_to(&bytes, std::path::Path::new(&directory).join("turns.sock")).unwrap(), bytes.len());
}

/// A job that never says `done`, with the ring that a plugin of its communication library passes: 24 operations in each start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plugin_tells_the_ends_that_the_job_does_not() {
    const STARTS: u64 = 10;
    let mut running = Running::start().await;
    let directory = running.folder.path().join("run");
    let job = JobName::try_new("train-7").unwrap();
    let player = tokio::task::spawn_blocking(move || {
        let ring = EventWriter::create().unwrap();
        let greeting = Greeting::new(&directory, &job, &ring);
        let gate = Gate::open(&gate::Config::new(&directory, job));
        let push = |kind, finished| {
            let at = now();
            ring.push(Event { kind, at, value: finished });
            at
        };
        push(EventKind::Idle, 0);
        assert!(greeting.send(&ring));
        let start = |number: u64| {
            let went = gate.step().start;
            let mut end = went;
            for done in [0, 12] {
                std::thread::sleep(Duration::from_millis(10));
                push(EventKind::Busy, 24 * number + done);
                std::thread::sleep(Duration::from_millis(10));
                end = push(EventKind::Idle, 24 * number + done + 12);
            }
            std::thread::sleep(Duration::from_millis(60));
            (number + 1, end.since(went).0)
        };
        (0..STARTS).map(start).collect::<Vec<(u64, u64)>>()
    });
    let mut ends = std::collections::BTreeMap::new();
    // Until the job has ended, and all that it said was told.
    while let Ok(Some(note)) = timeout(Duration::from_millis(500), running.session.notes.recv()).await {
        match note.kind() {
            turn_note::Kind::Ready => running.order(&note, turn_order::Kind::Grant, Duration::from_secs(5)),
            kind => {
                running.order(&note, turn_order::Kind::Heard, Duration::ZERO);
                if kind == turn_note::Kind::Ended {
                    ends.insert(note.number, note.up_ns);
                }
            }
        }
    }
    let sent: std::collections::BTreeMap<u64, u64> = player.await.unwrap().into_iter().collect();
    assert!(ends.iter().all(|(number, up)| sent.get(number) == Some(up)), "to the nanosecond: {ends:?} {sent:?}");
    // The first two may still tell their ends, and two have to agree; one more may go unheard on a machine that is busy.
    assert!(ends.len() >= STARTS as usize - 5, "{ends:?}");
}
