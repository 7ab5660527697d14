//! What the service believes of starts, written down from outside as it changes.

use alloc::{collections::BTreeMap, vec::Vec};

use state::turns::NoteKind;
use units::Nanos;

use super::log::{Belief, Over};

/// The run of a gate, and which start of it.
type Place = (u64, u64);

/// What the service just handled.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cause {
    Note { job: u32, place: Place, kind: NoteKind },
    Other,
}

/// What the service says of a job.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    pub(super) job: u32,
    pub(super) sends_until: Option<u64>,
    pub(super) let_go: u64,
    /// Its group does not run free.
    pub(super) is_held: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Now {
    /// The start that the service takes for one that sends, and until when.
    sends: Option<(Place, u64)>,
    let_go: u64,
}

/// Beliefs of each job's starts, in order.
#[derive(Debug, Default)]
pub(crate) struct Beliefs {
    now: Vec<Now>,
    all: BTreeMap<(u32, Place), Vec<Belief>>,
    /// Starts that were granted though somebody may have been in the way, and when.
    unfree: BTreeMap<(u32, Place), Nanos>,
}

impl Beliefs {
    pub(super) fn new(jobs: usize) -> Self {
        Self { now: alloc::vec![Now::default(); jobs], ..Self::default() }
    }

    pub(super) fn is_kept(&self) -> bool {
        !self.now.is_empty()
    }

    /// Beliefs of one start.
    pub(crate) fn of(&self, job: u32, place: Place) -> Vec<Belief> {
        self.all.get(&(job, place)).cloned().unwrap_or_default()
    }

    /// When a start was granted though somebody may have been in the way.
    pub(crate) fn unfree(&self, job: u32, place: Place) -> Option<Nanos> {
        self.unfree.get(&(job, place)).copied()
    }

    /// Compares what the service believes now with what it believed before.
    pub(super) fn update(&mut self, now: u64, cause: Cause, granted: &[(u32, Place)], views: impl Iterator<Item = View>) {
        for View { job, sends_until, let_go, is_held } in views {
            let before = self.now[job as usize];
            let grant = granted.iter().rev().find(|(j, _)| *j == job).map(|(_, place)| *place);
            let note = match cause {
                Cause::Note { job: j, place, kind } if j == job => Some((place, kind)),
                _ => None,
            };
            if let Some(place) = grant.filter(|_| let_go > before.let_go) {
                self.unfree.entry((job, place)).or_insert(Nanos(now));
            }
            self.now[job as usize].let_go = let_go;
            if before.sends.map(|(_, until)| until) == sends_until {
                continue;
            }
            if let Some((place, _)) = before.sends {
                let over = match note {
                    Some((told, NoteKind::Ended)) if told == place => Over::Told,
                    Some(_) => Over::Superseded,
                    None => Over::Lease,
                };
                self.end(job, place, now, over);
            }
            let begins = grant.or_else(|| note.map(|(place, _)| place));
            self.now[job as usize].sends = sends_until.zip(begins).map(|(until, place)| (place, until));
            if let Some((place, _)) = self.now[job as usize].sends {
                if !is_held {
                    self.unfree.entry((job, place)).or_insert(Nanos(now));
                }
                self.all.entry((job, place)).or_default().push(Belief { from: Nanos(now), until: None });
            }
        }
    }

    /// The service died.
    pub(super) fn forget(&mut self, now: u64) {
        for job in 0..self.now.len() as u32 {
            if let Some((place, _)) = core::mem::take(&mut self.now[job as usize]).sends {
                self.end(job, place, now, Over::Forgotten);
            }
        }
    }

    fn end(&mut self, job: u32, place: Place, now: u64, over: Over) {
        if let Some(last) = self.all.get_mut(&(job, place)).and_then(|all| all.last_mut()) {
            last.until = Some((Nanos(now), over));
        }
    }
}
