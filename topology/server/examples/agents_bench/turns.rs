//! Jobs that take turns, one for each agent: groups of five on one link, at five iterations a second.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        mpsc::{RecvTimeoutError, Sender, channel},
    },
    time::Duration,
};

use antiphase_topology::turns::TurnsHandle;
use bytes::Bytes;
use prost::Message;
use proto::{
    datagram::from_service,
    v1alpha1::{AgentDatagram, TurnNote, TurnOrder, turn_note, turn_order},
};
use state::turns::{TurnGroup, TurnJob};
use tokio::{sync::Notify, time::Instant};
use turns::{Group, Member, Up, Use};
use units::{Nanos, Rate};

use crate::agents::host;

const JOBS_PER_GROUP: usize = 5;
const ITERATION: Duration = Duration::from_millis(200);
/// Five of them fill 60 % of the time, so that a start finds the way free or not.
const SENDS: Duration = Duration::from_millis(24);
/// A gate that hears nothing goes after this (`gate_core::ANSWER_WITHIN`).
const UNHEARD: Duration = Duration::from_millis(15);
const WINDOW: Duration = Duration::from_secs(5);

/// The groups of `jobs` agents. `ahead`: whether starts are permitted before they ask.
pub(crate) fn groups(jobs: usize, ahead: bool) -> Vec<Arc<TurnGroup>> {
    let nanos = |duration: Duration| Nanos(duration.as_nanos() as u64);
    let up = Up { start: Nanos(0), end: nanos(SENDS), rate: Rate(50_000) };
    let group = |first: usize| {
        let here: Vec<usize> = (first..jobs.min(first + JOBS_PER_GROUP)).collect();
        let names = here.iter().map(|&number| TurnJob { name: job(number).into(), leader_host: host(number).into() });
        let member = |index: u32| Member {
            iteration: nanos(ITERATION),
            uses: vec![Use { link: 0, ups: vec![up] }],
            opponents: (0..here.len() as u32).filter(|&other| other != index).collect(),
        };
        let group = Group { members: (0..here.len() as u32).map(member).collect(), limits: vec![Rate(50_000)], ahead };
        Arc::new(TurnGroup { jobs: names.collect(), group })
    };
    (0..jobs).step_by(JOBS_PER_GROUP).map(group).collect()
}

/// Puts them in force.
pub(crate) fn begin(turns: &TurnsHandle, jobs: usize, ahead: bool) {
    turns.groups(groups(jobs, ahead), Vec::new());
}

fn job(number: usize) -> String {
    format!("job-{number}")
}

/// What all jobs saw.
pub(crate) struct Board {
    seen: Mutex<Seen>,
    alarm: Mutex<Sender<(Instant, Arc<Notify>)>>,
}

#[derive(Default)]
struct Seen {
    /// From ready to granted, or to going unheard, of starts that were not held.
    free: Vec<Duration>,
    starts: usize,
    ahead: usize,
    held: usize,
    unheard: usize,
}

impl Board {
    /// Prints what it saw every few seconds.
    pub(crate) fn start() -> Arc<Self> {
        let board = Arc::new(Self { seen: Mutex::default(), alarm: Mutex::new(alarm()) });
        let shown = Arc::clone(&board);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(WINDOW).await;
                let mut seen = std::mem::take(&mut *shown.seen.lock().unwrap());
                seen.free.sort_unstable();
                let Some(last) = seen.free.len().checked_sub(1) else { continue };
                let at = |permille: usize| seen.free[last * permille / 1_000].as_secs_f64() * 1e6;
                println!(
                    "{} starts, {} ahead, {} held, {} unheard; {} asked and found the way free: p50 {:.0} us, p99 {:.0} us, max {:.0} us",
                    seen.starts,
                    seen.ahead,
                    seen.held,
                    seen.unheard,
                    last + 1,
                    at(500),
                    at(990),
                    at(1_000)
                );
            }
        });
        board
    }
}

/// Wakes jobs at times of their own. The runtime's timers go by the millisecond: with them all jobs of a millisecond would be ready at
/// once, which jobs on a thousand machines are not.
fn alarm() -> Sender<(Instant, Arc<Notify>)> {
    let (send, asked) = channel::<(Instant, Arc<Notify>)>();
    std::thread::spawn(move || {
        let mut due: BTreeMap<(Instant, u64), Arc<Notify>> = BTreeMap::new();
        for number in 0.. {
            while let Some(first) = due.first_entry().filter(|first| first.key().0 <= Instant::now()) {
                first.remove().notify_one();
            }
            let wait = due.first_key_value().map_or(WINDOW, |((at, _), _)| at.saturating_duration_since(Instant::now()));
            match asked.recv_timeout(wait) {
                Ok((at, notify)) => drop(due.insert((at, number), notify)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    });
    send
}

#[derive(Clone, Copy)]
enum Doing {
    Computes,
    Waits { since: Instant, held: bool },
    Sends,
}

/// One job.
pub(crate) struct Player {
    job: String,
    board: Arc<Board>,
    number: u64,
    ahead: u64,
    doing: Doing,
    due: Instant,
    woken: Arc<Notify>,
}

impl Player {
    pub(crate) fn new(number: usize, board: Arc<Board>) -> Self {
        // Spread over an iteration, and each with one of its own, so that jobs of a group meet in every way.
        let due = Instant::now() + ITERATION.mul_f64((number * 37 % 101) as f64 / 101.0);
        let player = Self { job: job(number), board, number: 0, ahead: 0, doing: Doing::Computes, due, woken: Arc::default() };
        player.wake_at_due();
        player
    }

    /// Waits for when something is due, or was before that changed.
    pub(crate) async fn due(&self) {
        self.woken.notified().await;
    }

    fn wake_at_due(&self) {
        self.board.alarm.lock().unwrap().send((self.due, Arc::clone(&self.woken))).unwrap();
    }

    /// What is due now.
    pub(crate) fn play(&mut self) -> Option<Bytes> {
        let now = Instant::now();
        if now < self.due {
            return None;
        }
        let said = self.play_at(now);
        self.wake_at_due();
        said
    }

    fn play_at(&mut self, now: Instant) -> Option<Bytes> {
        match self.doing {
            Doing::Computes => {
                self.number += 1;
                if self.ahead == self.number {
                    self.board.seen.lock().unwrap().ahead += 1;
                    return Some(self.start(now));
                }
                (self.doing, self.due) = (Doing::Waits { since: now, held: false }, now + UNHEARD);
                Some(self.note(turn_note::Kind::Ready))
            }
            Doing::Waits { since, held } => {
                let mut seen = self.board.seen.lock().unwrap();
                seen.unheard += 1;
                if !held {
                    seen.free.push(now - since)
                }
                drop(seen);
                Some(self.start(now))
            }
            Doing::Sends => {
                // Up to a tenth more or less.
                let mixed = (self.number * 7_919).wrapping_add(self.job.bytes().fold(0, |sum, byte| sum * 31 + u64::from(byte)));
                let jitter = (mixed % 1_000) as f64 / 5_000.0 - 0.1;
                let computes = ITERATION - SENDS;
                (self.doing, self.due) = (Doing::Computes, now + computes.mul_f64(1.0 + jitter));
                Some(self.note(turn_note::Kind::Ended))
            }
        }
    }

    /// What the service says.
    pub(crate) fn hear(&mut self, datagram: &[u8]) -> Vec<Bytes> {
        let orders = from_service(datagram).unwrap().orders;
        let before = self.due;
        let said = orders.iter().filter_map(|order| self.order(order)).collect();
        if self.due != before {
            self.wake_at_due();
        }
        said
    }

    fn order(&mut self, order: &TurnOrder) -> Option<Bytes> {
        let now = Instant::now();
        match (order.kind(), self.doing) {
            (turn_order::Kind::Grant, Doing::Waits { since, held }) if order.number == self.number => {
                let mut seen = self.board.seen.lock().unwrap();
                if held {
                    seen.held += 1
                } else {
                    seen.free.push(now - since)
                }
                drop(seen);
                let _known = self.start(now);
                None
            }
            (turn_order::Kind::Hold, Doing::Waits { since, .. }) if order.number == self.number => {
                self.doing = Doing::Waits { since, held: true };
                self.due = now + Duration::from_nanos(order.at_most_ns);
                None
            }
            (turn_order::Kind::GrantAhead, Doing::Computes) if order.number == self.number + 1 => {
                self.ahead = order.number;
                None
            }
            (turn_order::Kind::Withdraw, Doing::Computes) if order.number == self.number + 1 => {
                self.ahead = 0;
                Some(self.note_of(turn_note::Kind::Withdrawn, order.number))
            }
            (turn_order::Kind::Withdraw, doing) => {
                let kind = if matches!(doing, Doing::Sends) { turn_note::Kind::Started } else { turn_note::Kind::Ready };
                Some(self.note(kind))
            }
            _ => None,
        }
    }

    fn start(&mut self, now: Instant) -> Bytes {
        self.board.seen.lock().unwrap().starts += 1;
        (self.doing, self.due) = (Doing::Sends, now + SENDS);
        self.note(turn_note::Kind::Started)
    }

    fn note(&self, kind: turn_note::Kind) -> Bytes {
        self.note_of(kind, self.number)
    }

    fn note_of(&self, kind: turn_note::Kind, number: u64) -> Bytes {
        let up_ns = if kind == turn_note::Kind::Ended { SENDS.as_nanos() as u64 } else { 0 };
        let note = TurnNote { job: self.job.clone(), writer: 1, number, kind: kind.into(), up_ns, ..TurnNote::default() };
        AgentDatagram { notes: vec![note], ..AgentDatagram::default() }.encode_to_vec().into()
    }
}
