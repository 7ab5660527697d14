//! Jobs that take turns, one for each agent: groups of five on one link, at five iterations a second.

use std::{
    sync::{Arc, Mutex},
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
use tokio::time::Instant;
use turns::{Group, Member, Up, Use};
use units::{Nanos, Rate};

use crate::agents::host;

const JOBS_PER_GROUP: usize = 5;
const ITERATION: Duration = Duration::from_millis(200);
/// Five of them fill 60 % of the time, so that a start finds the way free or not.
const SENDS: Duration = Duration::from_millis(24);
/// A gate that hears nothing goes after this.
const UNHEARD: Duration = Duration::from_millis(5);
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
    turns.groups(groups(jobs, ahead));
}

fn job(number: usize) -> String {
    format!("job-{number}")
}

/// What all jobs saw.
#[derive(Default)]
pub(crate) struct Board(Mutex<Seen>);

#[derive(Default)]
struct Seen {
    /// From ready to granted, of starts that were not held.
    free: Vec<Duration>,
    starts: usize,
    ahead: usize,
    held: usize,
    unheard: usize,
}

impl Board {
    /// Prints what it saw every few seconds.
    pub(crate) fn start() -> Arc<Self> {
        let board = Arc::new(Self::default());
        let shown = Arc::clone(&board);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(WINDOW).await;
                let mut seen = std::mem::take(&mut *shown.0.lock().unwrap());
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
}

impl Player {
    pub(crate) fn new(number: usize, board: Arc<Board>) -> Self {
        // Spread over an iteration, and each with one of its own, so that jobs of a group meet in every way.
        let due = Instant::now() + ITERATION.mul_f64((number * 37 % 101) as f64 / 101.0);
        Self { job: job(number), board, number: 0, ahead: 0, doing: Doing::Computes, due }
    }

    pub(crate) fn due(&self) -> Instant {
        self.due
    }

    /// What is due now.
    pub(crate) fn play(&mut self) -> Option<Bytes> {
        let now = Instant::now();
        match self.doing {
            Doing::Computes => {
                self.number += 1;
                if self.ahead == self.number {
                    self.board.0.lock().unwrap().ahead += 1;
                    return Some(self.start(now));
                }
                (self.doing, self.due) = (Doing::Waits { since: now, held: false }, now + UNHEARD);
                Some(self.note(turn_note::Kind::Ready))
            }
            Doing::Waits { .. } => {
                self.board.0.lock().unwrap().unheard += 1;
                Some(self.start(now))
            }
            Doing::Sends => {
                // Up to a tenth more or less.
                let jitter = (self.number * 7_919 % 1_000) as f64 / 5_000.0 - 0.1;
                let computes = ITERATION - SENDS;
                (self.doing, self.due) = (Doing::Computes, now + computes.mul_f64(1.0 + jitter));
                Some(self.note(turn_note::Kind::Ended))
            }
        }
    }

    /// What the service says.
    pub(crate) fn hear(&mut self, datagram: &[u8]) -> Vec<Bytes> {
        let orders = from_service(datagram).unwrap().orders;
        orders.iter().filter_map(|order| self.order(order)).collect()
    }

    fn order(&mut self, order: &TurnOrder) -> Option<Bytes> {
        let now = Instant::now();
        match (order.kind(), self.doing) {
            (turn_order::Kind::Grant, Doing::Waits { since, held }) if order.number == self.number => {
                let mut seen = self.board.0.lock().unwrap();
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
        self.board.0.lock().unwrap().starts += 1;
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
