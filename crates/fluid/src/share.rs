//! Max-min fair shares of links by jobs that move through all of their links at one pace.

mod filling;
pub(crate) mod weighted;

use alloc::{vec, vec::Vec};
use core::ops::Range;

use self::filling::Filling;
use crate::rates::Rates;

/// What a job may get of a link that shares for itself: at most `rest / jobs` Mbit/s. `jobs` is 0 when all jobs are satisfied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Level {
    pub(crate) rest: u64,
    pub(crate) jobs: u64,
}

/// A job that is Up on a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Active {
    pub(crate) job: u32,
    /// In Mbit/s.
    pub(crate) demand: u64,
}

/// Water-filling of a link whose demands sum to more than its capacity: the smallest demands are satisfied first as long as they
/// ask for no more than an equal share of what is left; the others share the rest equally. `sorted` is working memory.
fn level(capacity: u64, demands: impl ExactSizeIterator<Item = u64>, sorted: &mut Vec<u64>) -> Level {
    let mut level = Level { rest: capacity, jobs: demands.len() as u64 };
    sorted.clear();
    sorted.extend(demands);
    // Mostly even the smallest demand is above an equal share, and then no order is needed.
    if sorted.iter().all(|demand| demand.saturating_mul(level.jobs) > capacity) {
        return level;
    }
    sorted.sort_unstable();
    for &demand in sorted.iter() {
        // A satisfied demand only raises the equal share of the others, so the first demand above it ends the walk. A saturated
        // product is still above what is left.
        if demand.saturating_mul(level.jobs) > level.rest {
            break;
        }
        level.rest -= demand;
        level.jobs -= 1;
    }
    level
}

/// A link and the jobs that are Up on it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shared {
    pub(crate) active: Vec<Active>,
    /// What these jobs demand together.
    sum: u128,
    pub(crate) level: Level,
    /// How many of these jobs get less on another of their links.
    leaving: u32,
    /// What it gives came from a filling.
    handed: bool,
    /// Its jobs changed at this instant.
    changed: bool,
    /// The link is in the list of those to be filled again.
    due: bool,
    /// Two or more of its jobs together want more than its capacity; anybody is Up on it.
    crowded: bool,
    busy: bool,
}

impl Shared {
    /// What one of its jobs leaves over goes to the others, or did when it was shared the last time.
    pub(crate) fn hands_on(&self) -> bool {
        self.leaving > 0 || self.handed
    }
}

/// What a job on a link that is filled counts, beside one that is looked at.
const FILLING_WORK: u64 = 8;

/// The speeds of all jobs that are Up.
///
/// Each link first shares for itself, as if no job were held back elsewhere. Where all links of a job would give it the same,
/// or only one of them is too full, that is already max-min fair, and most events end there. A link *hands on* if one of
/// its jobs gets less on another link than here: what that job leaves over is shared by `filling`, for links that hand on and
/// hang together. A link that does not hand on is not touched by what they do: a job that is held back there is held back by
/// no other link.
#[derive(Debug)]
pub struct Sharing<'a> {
    rates: &'a Rates,
    links: Vec<Shared>,
    changed: Vec<u32>,
    sorted: Vec<u64>,
    /// The demands of the segment in which each job is; none while it is Down.
    uses: Vec<Range<u32>>,
    /// Speed of each job if each link shares for itself.
    apart: Vec<u64>,
    /// Jobs that have to be looked at again; the list may name some that need not.
    stale: Vec<bool>,
    stale_list: Vec<u32>,
    /// Per entry of the rates: another link of that job gives it less. And per job: one of them is set.
    leaves_over: Vec<bool>,
    leaves: Vec<bool>,
    /// What each link of one job gives it.
    parts: Vec<u64>,
    /// Per entry of the rates: the level that its link had when it was looked at last, and what that gave the job: most looks are because of
    /// another link, and a part is a division.
    seen: Vec<(Level, u64)>,
    /// Links that hand on and have to be filled again; the list may name some that were.
    refill: Vec<u32>,
    filling: Filling,
    /// Speed of each job, and the jobs for which it may be new.
    speeds: Vec<u64>,
    moved: Vec<u32>,
    /// How many links are crowded, and how many busy.
    crowded: u32,
    busy: u32,
    /// Demands that were looked at so far.
    work: u64,
}

impl<'a> Sharing<'a> {
    /// No job is Up yet. Jobs are numbered below `jobs`.
    #[must_use]
    pub fn new(rates: &'a Rates, jobs: usize) -> Self {
        Self {
            rates,
            links: vec![Shared::default(); rates.capacities().len()],
            changed: Vec::new(),
            sorted: Vec::new(),
            uses: vec![0..0; jobs],
            apart: vec![rates.one(); jobs],
            stale: vec![false; jobs],
            stale_list: Vec::new(),
            leaves_over: vec![false; rates.entries()],
            leaves: vec![false; jobs],
            parts: Vec::new(),
            seen: vec![(Level::default(), 0); rates.entries()],
            refill: Vec::new(),
            filling: Filling::default(),
            speeds: vec![rates.one(); jobs],
            moved: Vec::new(),
            crowded: 0,
            busy: 0,
            work: 0,
        }
    }

    /// How many demands were looked at so far: what the sharing costs.
    pub(crate) fn work(&self) -> u64 {
        self.work
    }

    /// Job `j` goes Up with these demands ([`Rates::add`]), after it left what it had before. Without demands it is Down.
    pub fn enter(&mut self, j: usize, uses: &Range<u32>) {
        if uses.is_empty() {
            return;
        }
        for &(l, demand) in self.rates.used(uses) {
            let link = &mut self.links[l as usize];
            link.active.push(Active { job: j as u32, demand });
            link.sum += u128::from(demand);
            if !core::mem::replace(&mut link.changed, true) {
                self.changed.push(l);
            }
        }
        // The job is looked at even if no level changes, because its speed follows from links that it was not on before.
        self.uses[j] = uses.clone();
        self.stale[j] = true;
        self.stale_list.push(j as u32);
    }

    /// Job `j` goes Down.
    pub fn leave(&mut self, j: usize) {
        let uses = core::mem::replace(&mut self.uses[j], 0..0);
        for (entry, &(l, demand)) in (uses.start..).zip(self.rates.used(&uses)) {
            let link = &mut self.links[l as usize];
            if let Some(at) = link.active.iter().position(|a| a.job as usize == j) {
                // No share depends on the order of the active jobs, so the last one may take the free place.
                link.active.swap_remove(at);
                link.sum -= u128::from(demand);
            }
            link.leaving -= u32::from(core::mem::take(&mut self.leaves_over[entry as usize]));
            if !core::mem::replace(&mut link.changed, true) {
                self.changed.push(l);
            }
        }
        // The list of stale jobs may still name the job; the flag decides.
        self.stale[j] = false;
        self.leaves[j] = false;
    }

    /// Shares the changed links anew. [`Sharing::next_moved`] then tells whose speed may be another.
    pub fn share_again(&mut self) {
        // Levels come first, then the jobs on them, then the links that hand on: each step needs all results of the one before.
        while let Some(l) = self.changed.pop() {
            let (link, capacity) = (&mut self.links[l as usize], self.rates.capacities()[l as usize]);
            link.changed = false;
            self.work += link.active.len() as u64;
            let full = link.sum > u128::from(capacity);
            let (crowded, busy) = (full && link.active.len() > 1, !link.active.is_empty());
            // The additions come first, so the counts never fall below zero on the way.
            self.crowded = self.crowded + u32::from(crowded) - u32::from(core::mem::replace(&mut link.crowded, crowded));
            self.busy = self.busy + u32::from(busy) - u32::from(core::mem::replace(&mut link.busy, busy));
            let next = if full { level(capacity, link.active.iter().map(|a| a.demand), &mut self.sorted) } else { Level::default() };
            // A level that stays gives its jobs what it gave before, so most events touch few jobs.
            if next != link.level {
                link.level = next;
                link.active.iter().for_each(|a| self.stale[a.job as usize] = true);
                self.stale_list.extend(link.active.iter().map(|a| a.job));
            }
            if link.hands_on() && !core::mem::replace(&mut link.due, true) {
                self.refill.push(l);
            }
        }
        while let Some(j) = self.stale_list.pop() {
            if core::mem::take(&mut self.stale[j as usize]) {
                self.look(j as usize);
            }
        }
        while let Some(l) = self.refill.pop() {
            if self.links[l as usize].due {
                self.hand_on(l);
            }
        }
    }

    /// The jobs that are Up on a link, each with its demand there in Mbit/s.
    pub fn on(&self, link: u32) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.links[link as usize].active.iter().map(|a| (a.job as usize, a.demand))
    }

    /// How many links have two or more jobs Up that together want more than the capacity, and on how many any job is Up.
    pub(crate) fn crowded_and_busy(&self) -> (u32, u32) {
        (self.crowded, self.busy)
    }

    /// A job whose speed may have changed, and the speed. May name a job twice.
    pub fn next_moved(&mut self) -> Option<(usize, u64)> {
        let j = self.moved.pop()? as usize;
        Some((j, self.speeds[j]))
    }

    /// What the links of job `j` give it if each shares for itself, and whether it leaves something over on one of them.
    fn look(&mut self, j: usize) {
        let (mut least, mut most, mut hands_on) = (self.rates.one(), 0, false);
        self.parts.clear();
        self.work += self.uses[j].len() as u64;
        let entries = self.uses[j].start as usize..;
        for (entry, &(l, demand)) in entries.zip(self.rates.used(&self.uses[j])) {
            let link = &self.links[l as usize];
            // A link that is not full has enough for all its jobs; its part of 0 is never above the least.
            let mut part = 0;
            if let Level { rest, jobs: jobs @ 1.. } = link.level {
                let seen = &mut self.seen[entry];
                if seen.0 != link.level {
                    *seen = (link.level, self.rates.speed(rest, demand.saturating_mul(jobs)));
                }
                part = seen.1;
                (least, most) = (least.min(part), most.max(part));
            }
            self.parts.push(part);
            hands_on |= link.hands_on();
        }
        // A job that leaves as much as before changes nothing that a link hands on; a link marks itself where a job came or
        // went (`share_again`).
        let moved = core::mem::replace(&mut self.apart[j], least) != least;
        if !hands_on {
            self.speeds[j] = least;
            self.moved.push(j as u32);
        }
        if most > least || self.leaves[j] || hands_on && moved {
            self.note(j, least, moved);
            self.leaves[j] = most > least;
        }
    }

    /// Notes on which links job `j` leaves something over: on those that give it more than `least`. Links that hand on are to be
    /// filled again where that is new, or what it leaves has `moved`.
    fn note(&mut self, j: usize, least: u64, moved: bool) {
        let entries = self.uses[j].clone();
        for ((entry, &(l, _)), &part) in entries.clone().zip(self.rates.used(&entries)).zip(&self.parts) {
            let link = &mut self.links[l as usize];
            let leaves = part > least;
            let left = core::mem::replace(&mut self.leaves_over[entry as usize], leaves);
            // The addition comes first, so the count never falls below zero on the way.
            link.leaving = link.leaving + u32::from(leaves) - u32::from(left);
            if (moved && link.hands_on() || leaves != left) && !core::mem::replace(&mut link.due, true) {
                self.refill.push(l);
            }
        }
    }

    /// Fills the links that hand on and hang together with `first`.
    fn hand_on(&mut self, first: u32) {
        self.filling.fill(first, self.rates, &self.links, &self.uses);
        for &l in self.filling.links() {
            let link = &mut self.links[l as usize];
            // A link on which no job leaves anything over shares for itself again from here on.
            (link.due, link.handed) = (false, link.leaving > 0);
            // Filling walks over the jobs of its links some times; how often depends on their demands.
            self.work += FILLING_WORK * link.active.len() as u64;
        }
        for (j, speed) in self.filling.speeds(self.rates) {
            self.speeds[j as usize] = speed;
            self.moved.push(j);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(capacity: u64, demands: &[u64]) -> Level {
        level(capacity, demands.iter().copied(), &mut Vec::new())
    }

    #[test]
    fn the_modest_are_satisfied_and_the_rest_share_equally() {
        assert_eq!(of(50, &[20, 30]).jobs, 0, "50 of 50 fit");
        assert_eq!(of(50, &[30, 30]), Level { rest: 50, jobs: 2 });
        // 10 <= 60/3 is satisfied; 25 <= 50/2 too; 60 gets the remaining 25.
        assert_eq!(of(60, &[60, 10, 25]), Level { rest: 25, jobs: 1 });
        // Now 26 > 50/2: it shares with 60.
        assert_eq!(of(60, &[60, 10, 26]), Level { rest: 50, jobs: 2 });
        assert_eq!(of(5, &[10]), Level { rest: 5, jobs: 1 });
    }
}
