//! Where jobs ask the arbiter, and what it answers.
//!
//! A job that comes to its gate asks. With nobody in its way it starts at once, as one does that has its permission ahead; one that has to
//! wait starts some time after those ahead have ended ([`crate::TURN_WAY`]), and after it ended itself what it sent before. The gate stands where real jobs have it, right before what they
//! send, even if the profile begins with a Down phase.

use alloc::vec::Vec;

use turns::{Action, Arbiter, Ask, Event, Group};
use units::{FabricTime, Nanos};

use crate::layout::{Layout, Segment};

/// Where in its iteration a job asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Asks {
    /// Once, right before its first Up phase, for all of them.
    #[default]
    Iteration,
    /// Before every Up phase, for that one.
    Phases,
}

/// What a job does at the border of a segment.
#[derive(Clone, Copy, Debug, Default)]
struct Border {
    /// It asks for this before it enters.
    ask: Option<Ask>,
    /// It has sent what it asked for when it leaves.
    ends: bool,
}

/// The arbiter, and where jobs ask it.
#[derive(Clone, Debug)]
pub(crate) struct Asking {
    arbiter: Arbiter,
    /// Per job and segment.
    borders: Vec<Vec<Border>>,
    /// When each job asked last.
    asked: Vec<u64>,
    /// When each job was granted its last start, and when it ended what it sent then.
    started: Vec<u64>,
    ended: Vec<Option<u64>>,
    /// From an end to the start of a job that waits for it.
    way: Nanos,
}

impl Asking {
    pub(crate) fn new(group: Group, asks: &[Asks], way: Nanos, layout: &Layout) -> Self {
        let asks_at_all = |j: usize| group.members.get(j).is_some_and(|m| !m.opponents.is_empty());
        let border = |(j, segments): (usize, &Vec<Segment>)| {
            let ups: Vec<bool> = segments.iter().map(|s| !s.uses.is_empty()).collect();
            // A job without opponents is in nobody's way and nobody is in its, so it would be granted every start at once.
            if asks_at_all(j) { borders(&ups, asks.get(j).copied().unwrap_or_default()) } else { alloc::vec![Border::default(); ups.len()] }
        };
        let borders = layout.segments.iter().enumerate().map(border).collect();
        let never = alloc::vec![0; layout.segments.len()];
        Self {
            arbiter: Arbiter::without_holds(group),
            borders,
            asked: never.clone(),
            started: never,
            ended: alloc::vec![None; layout.segments.len()],
            way,
        }
    }

    /// Job `j` is about to enter a segment; true when it has to wait for [`Asking::granted`].
    pub(crate) fn arrives(&mut self, j: usize, segment: u32, now: u64) -> bool {
        let ask = self.borders[j][segment as usize].ask;
        if let Some(ask) = ask {
            self.asked[j] = now;
            self.arbiter.handle(FabricTime(now), Event::Ready { job: j as u32, ask });
        }
        ask.is_some()
    }

    /// Job `j` has left a segment.
    pub(crate) fn leaves(&mut self, j: usize, segment: u32, now: u64) {
        if self.borders[j][segment as usize].ends {
            self.ended[j] = Some(now);
            self.arbiter.handle(FabricTime(now), Event::Ended { job: j as u32, sent: Nanos(now - self.started[j]) });
        }
    }

    /// What the arbiter has looked at ([`Arbiter::work`]).
    pub(crate) fn work(&self) -> u64 {
        self.arbiter.work()
    }

    pub(crate) fn tick(&mut self, now: u64) {
        self.arbiter.handle(FabricTime(now), Event::Tick);
    }

    /// A job that may enter its segment, and when it does.
    pub(crate) fn granted(&mut self, now: u64) -> Option<(usize, u64)> {
        while let Some(action) = self.arbiter.poll() {
            if let Action::Grant { job, .. } = action {
                let j = job as usize;
                // The permission ahead is given when the service knows of the end, so a job that asks again at once waits for it.
                let since = if self.asked[j] == now { self.ended[j] } else { Some(now) };
                let at = since.filter(|_| self.way.0 > 0).map_or(now, |since| since.saturating_add(self.way.0).max(now));
                self.started[j] = at;
                return Some((j, at));
            }
        }
        None
    }

    /// When to call [`Asking::tick`] next, after `now`; the end of time if never.
    pub(crate) fn deadline(&self, now: u64) -> u64 {
        self.arbiter.deadline().map_or(u64::MAX, |at| at.0.max(now.saturating_add(1)))
    }
}

/// Where a job asks whose segments are Up or not.
fn borders(ups: &[bool], asks: Asks) -> Vec<Border> {
    let mut borders = alloc::vec![Border::default(); ups.len()];
    let mut phases = 0;
    for s in 0..ups.len() {
        let begins = ups[s] && !(s > 0 && ups[s - 1]);
        let ends = ups[s] && ups.get(s + 1) != Some(&true);
        match asks {
            Asks::Phases => {
                borders[s] = Border { ask: begins.then_some(Ask::Phase(phases)), ends };
                phases += u32::from(begins);
            }
            Asks::Iteration => {
                let first = ups.iter().position(|up| *up) == Some(s);
                let last = ups.iter().rposition(|up| *up) == Some(s);
                borders[s] = Border { ask: first.then_some(Ask::Iteration), ends: last };
            }
        }
    }
    borders
}
