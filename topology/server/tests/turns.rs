//! What gives turns, with agents that are channels.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    sync::{
        Arc,
        mpsc::{Receiver, Sender, channel},
    },
    time::{Duration, Instant},
};

use antiphase_topology::{
    FabricClock,
    controller::Snapshot,
    links::LinkTable,
    metrics::Metrics,
    quic::Stats,
    scrape::Now,
    turns::{TurnsSnapshot, TurnsThread, Way},
};
use proto::{
    datagram::from_service,
    v1alpha1::{TurnOrder, turn_note, turn_order::Kind},
};
use state::{
    SessionId,
    turns::{GroupView, Note, NoteKind, TurnEvent, TurnGroup, TurnJob, Turns},
};
use turns::{Activity, Group, Member, Up, Use};
use units::{FabricTime, Nanos, Rate};

/// Everything comes by then.
const SOON: Duration = Duration::from_secs(30);
const MS: u64 = 1_000_000;

struct Channel {
    room: usize,
    to: Sender<Vec<u8>>,
}

impl Way for Channel {
    fn room(&self) -> Option<usize> {
        Some(self.room)
    }

    fn send(&self, datagram: Vec<u8>) {
        assert!(datagram.len() <= self.room);
        let _ = self.to.send(datagram);
    }
}

struct Agent {
    session: SessionId,
    orders: Receiver<Vec<u8>>,
}

impl Agent {
    /// The orders of the next datagram.
    fn orders(&self) -> Vec<TurnOrder> {
        from_service(&self.orders.recv_timeout(SOON).unwrap()).unwrap().orders
    }

    fn order(&self) -> (Kind, u64, turn_note::Kind) {
        let orders = self.orders();
        let [order] = &orders[..] else { panic!("{orders:?}") };
        (order.kind(), order.number, order.heard())
    }
}

/// Jobs on hosts of the same names: each sends 40 of 100 ms at the rate of one link.
fn group(names: &[&str]) -> Arc<TurnGroup> {
    let up = Up { start: Nanos(0), end: Nanos(40 * MS), rate: Rate(50_000) };
    let member = |index: u32| Member {
        iteration: Nanos(100 * MS),
        uses: vec![Use { link: 0, ups: vec![up] }],
        opponents: (0..names.len() as u32).filter(|&other| other != index).collect(),
    };
    let members = (0..names.len() as u32).map(member).collect();
    let jobs = names.iter().map(|&name| TurnJob { name: name.into(), leader_host: name.into() }).collect();
    Arc::new(TurnGroup { jobs, group: Group { members, limits: vec![Rate(50_000)], ahead: false } })
}

fn note(job: &str, number: u64, kind: NoteKind) -> Note {
    Note { job: job.into(), writer: 7, number, kind, phase: 0, age: Nanos(0), sent: Nanos(40 * MS) }
}

struct Running {
    thread: TurnsThread,
    clock: FabricClock,
    metrics: Arc<Metrics>,
}

impl Running {
    fn start(names: &[&str]) -> Self {
        let (clock, metrics) = (FabricClock::start(), Arc::new(Metrics::new().unwrap()));
        let thread = TurnsThread::start(clock, Arc::clone(&metrics), |_| {}).unwrap();
        thread.handle.groups(vec![group(names)], Vec::new());
        Self { thread, clock, metrics }
    }

    /// What a reader sees.
    fn look(&self) -> Arc<TurnsSnapshot> {
        self.thread.handle.look().unwrap()
    }

    /// What `/metrics` answers, of an empty plan.
    fn exposition(&self) -> String {
        let (snapshot, links, sessions) = (Snapshot::default(), LinkTable::default(), Stats::default());
        let turns = self.look();
        let now = Now {
            snapshot: &snapshot,
            congestion: Vec::new(),
            observed: &antiphase_topology::discovery::Found::default(),
            links: &links,
            turns: Some(&turns),
            store_up: true,
            telemetry_dropped: 0,
            sessions: &sessions,
            switches: None,
        };
        self.metrics.text(&now).unwrap()
    }

    fn agent(&self, number: u64, host: &str, room: usize) -> Agent {
        let (to, orders) = channel();
        self.thread.handle.session(SessionId(number), host.into(), Channel { room, to });
        Agent { session: SessionId(number), orders }
    }

    fn say(&self, agent: &Agent, notes: Vec<Note>) {
        self.thread.handle.notes(agent.session, self.clock.now(), notes);
    }
}

#[test]
fn notes_are_answered_and_leases_end_by_themselves() {
    let running = Running::start(&["a", "b"]);
    let (a, b) = (running.agent(1, "a", 1_200), running.agent(2, "b", 1_200));
    running.say(&a, vec![note("a", 1, NoteKind::Ready)]);
    assert_eq!(a.order(), (Kind::Grant, 1, turn_note::Kind::Unspecified));
    running.say(&b, vec![note("b", 1, NoteKind::Ready)]);
    assert_eq!(b.order(), (Kind::Hold, 1, turn_note::Kind::Unspecified));
    running.say(&a, vec![note("a", 1, NoteKind::Ended)]);
    assert_eq!(a.order(), (Kind::Heard, 1, turn_note::Kind::Ended));
    assert_eq!(b.order(), (Kind::Grant, 1, turn_note::Kind::Unspecified));
    // b says nothing more: its lease ends by the clock, and the thread wakes for it.
    running.say(&a, vec![note("a", 2, NoteKind::Ready)]);
    assert_eq!(a.order().0, Kind::Hold);
    loop {
        // Nearer ends may be said before.
        match a.order() {
            (Kind::Hold, 2, _) => {}
            granted => break assert_eq!(granted.0, Kind::Grant),
        }
    }
    running.thread.stop();
}

#[test]
fn orders_of_one_wake_share_datagrams_that_fit() {
    let names: Vec<String> = (0..12).map(|i| format!("job-{i}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let running = Running::start(&[]);
    let agent = running.agent(1, "host", 100);
    // Jobs that take no turns here: each is let go.
    running.say(&agent, names.iter().map(|name| note(name, 1, NoteKind::Ready)).collect());
    let mut datagrams = Vec::new();
    while datagrams.iter().map(Vec::len).sum::<usize>() < names.len() {
        datagrams.push(agent.orders());
    }
    assert!(datagrams.len() > 1 && datagrams.len() < names.len() / 2, "{datagrams:?}");
    assert!(datagrams.iter().flatten().all(|order| order.kind() == Kind::Grant));
    running.thread.stop();
}

#[test]
fn a_session_that_is_gone_hears_nothing_more() {
    let running = Running::start(&["a", "b"]);
    let (a, b) = (running.agent(1, "a", 1_200), running.agent(2, "b", 1_200));
    running.say(&a, vec![note("a", 1, NoteKind::Ready)]);
    assert_eq!(a.order().0, Kind::Grant);
    running.thread.handle.gone(a.session);
    running.say(&b, vec![note("b", 1, NoteKind::Ready)]);
    // What a sends ends with its lease.
    assert_eq!(b.order().0, Kind::Hold);
    loop {
        match b.order().0 {
            Kind::Hold => {}
            kind => break assert_eq!(kind, Kind::Grant),
        }
    }
    assert!(a.orders.recv_timeout(SOON).is_err(), "its way was dropped");
    running.thread.stop();
}

#[test]
fn a_reader_sees_who_sends_and_who_waits() {
    let running = Running::start(&["a", "b"]);
    let (a, b) = (running.agent(1, "a", 1_200), running.agent(2, "b", 1_200));
    running.say(&a, vec![note("a", 1, NoteKind::Ready)]);
    running.say(&b, vec![note("b", 1, NoteKind::Ready)]);
    assert_eq!((a.order().0, b.order().0), (Kind::Grant, Kind::Hold));
    let seen = running.look();
    let jobs = &seen.groups[0].jobs;
    assert!(matches!(jobs[0].activity, Activity::Sending { since, .. } if since <= seen.at), "{jobs:?}");
    assert!(matches!(jobs[1].activity, Activity::Waiting { .. }) && *jobs[1].waits_for[0] == *"a", "{jobs:?}");
    // However often it is asked, a snapshot is made twice a second at most.
    assert!(Arc::ptr_eq(&seen, &running.look()));

    running.say(&a, vec![note("a", 1, NoteKind::Ended)]);
    assert_eq!(b.order().0, Kind::Grant);
    let metrics = running.exposition();
    let has = |line: &str| assert!(metrics.lines().any(|l| l.starts_with(line)), "no {line:?} in:\n{metrics}");
    has("antiphase_turn_groups{state=\"held\"} 1");
    has("antiphase_turn_groups{state=\"let_go\"} 0");
    has("antiphase_job_turn_held{job_id=\"a\"} 1");
    has("antiphase_turn_grants_total{reason=\"at_once\"} 1");
    has("antiphase_turn_grants_total{reason=\"waited\"} 1");
    has("antiphase_turn_grants_total{reason=\"bound\"} 0");
    has("antiphase_turn_wait_seconds_count 1");
    has("antiphase_turn_verdicts_total{verdict=\"let_go\"} 0");
    // Of no iteration no length is said.
    assert!(!metrics.contains("antiphase_job_turn_iteration_seconds{"), "{metrics}");
    running.thread.stop();
}

/// What a look takes, in which no turns are given: printed.
#[test]
fn a_look_at_ten_thousand_jobs_is_short() {
    const GROUPS: u64 = 5_000;
    let names: Vec<[String; 2]> = (0..GROUPS).map(|n| [format!("a{n}"), format!("b{n}")]).collect();
    let mut turns = Turns::default();
    turns.handle(FabricTime(1), TurnEvent::Groups(names.iter().map(|[a, b]| group(&[a, b])).collect()));
    for (host, session) in names.iter().flatten().zip(1..) {
        turns.handle(FabricTime(1), TurnEvent::Session { session: SessionId(session), host: host.as_str().into() });
    }
    // Iterations of 100 ms, one after the other, of which the look tells.
    for number in 1..=12 {
        for (job, session) in names.iter().flatten().zip(1..) {
            for (ms, kind) in [(0, NoteKind::Ready), (40, NoteKind::Ended)] {
                let at = FabricTime((100 * number + ms + 50 * (session % 2)) * MS);
                turns.handle(at, TurnEvent::Note { session: SessionId(session), note: note(job, number, kind) });
                while turns.poll().is_some() {}
            }
        }
    }
    let looks = (0..10).map(|_| {
        let began = Instant::now();
        let groups: Vec<GroupView> = turns.groups().collect();
        let took = began.elapsed();
        let jobs: Vec<_> = groups.iter().flat_map(|g| &g.jobs).collect();
        assert!(jobs.len() == 10_000 && jobs.iter().all(|job| job.held.count > 0 && job.starts.len() == 8), "{:?}", jobs[0]);
        took
    });
    println!("a look at 10,000 jobs in 5,000 groups takes {:?}", looks.min().unwrap());
}
