//! The links of one candidate that can be over capacity.
//!
//! A candidate moves few jobs, so only the links that those jobs leave or enter are looked at again; the rest
//! is read from the base table. Links with equal capacity, jobs and demands form one class: whatever the
//! shifts, they score alike.

use alloc::{vec, vec::Vec};
use core::ops::Range;

use circle::Affinity;
use fabric::Fabric;
use petgraph::unionfind::UnionFind;
use units::LinkId;

use crate::{
    PlanError,
    classes::{Classes, Member},
    demand::{Demands, Routed},
    table::{State, Table, state},
};

/// What one candidate does to the links.
#[derive(Debug)]
pub(crate) struct Contention {
    /// Links with two or more jobs.
    pub(crate) shared: usize,
    /// Those of them that can never be over capacity.
    pub(crate) never_overloaded: usize,
    pub(crate) classes: Classes,
}

/// A loop of the affinity graph: its last edge closes at this link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Loop {
    pub(crate) link: LinkId,
    pub(crate) jobs: [u32; 2],
    /// Links with two or more jobs in the whole candidate.
    pub(crate) shared: usize,
    /// Shape of the graph over all of them, unmerged.
    pub(crate) affinity: Affinity,
}

/// Where one job goes in a candidate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Move<'a> {
    pub(crate) job: u32,
    pub(crate) old: &'a Routed,
    pub(crate) new: &'a Routed,
}

/// Working memory for candidates, one per thread: as many slots as the fabric has links.
#[derive(Debug)]
pub(crate) struct Overlay<'a> {
    fabric: &'a Fabric,
    table: &'a Table,
    demands: &'a Demands,
    /// Per link: [`UNTOUCHED`], [`TOUCHED`], or [`FIRST`] + index of its first entry in `added`.
    head: Vec<u32>,
    touched: Vec<LinkId>,
    /// New members, chained per link: (member, next entry as in `head`).
    added: Vec<(Member, u32)>,
    moved: Vec<bool>,
}

const UNTOUCHED: u32 = 0;
const TOUCHED: u32 = 1;
const FIRST: u32 = 2;

impl<'a> Overlay<'a> {
    pub(crate) fn new(fabric: &'a Fabric, table: &'a Table, demands: &'a Demands, jobs: usize) -> Self {
        let head = vec![UNTOUCHED; fabric.links().len()];
        Self { fabric, table, demands, head, touched: Vec::new(), added: Vec::new(), moved: vec![false; jobs] }
    }

    /// Puts the moves of a candidate, sorted by job, over the base table.
    pub(crate) fn lay(&mut self, moves: &[Move<'_>]) {
        // Only what the last candidate touched is reset: a fabric has far more links than a few moves reach.
        for link in self.touched.drain(..) {
            self.head[link.index()] = UNTOUCHED;
        }
        self.added.clear();
        self.moved.fill(false);
        // Chains are built by putting in front, so the last job goes first.
        for m in moves.iter().rev() {
            self.moved[m.job as usize] = true;
            for (link, _) in &m.old.links {
                self.touch(*link);
            }
            for &(link, demand) in &m.new.links {
                self.touch(link);
                let next = core::mem::replace(&mut self.head[link.index()], FIRST + self.added.len() as u32);
                self.added.push((Member { job: m.job, demand }, next));
            }
        }
    }

    fn touch(&mut self, link: LinkId) {
        let head = &mut self.head[link.index()];
        if *head == UNTOUCHED {
            *head = TOUCHED;
            self.touched.push(link);
        }
    }

    /// Appends the members of a touched link, in order of job.
    fn members_into(&self, link: LinkId, out: &mut Vec<Member>) {
        let mut next = self.head[link.index()];
        // Both lists are in order of job, and so is what they merge into; equal links then have equal members.
        let mut stay = self.table.members(link).iter().filter(|m| !self.moved[m.job as usize]).copied().peekable();
        while next >= FIRST {
            let (member, after) = self.added[(next - FIRST) as usize];
            while let Some(m) = stay.next_if(|m| m.job < member.job) {
                out.push(m);
            }
            out.push(member);
            next = after;
        }
        out.extend(stay);
    }

    /// The links of the candidate that can be over capacity.
    ///
    /// # Errors
    /// A link that carries demand has no capacity; of several, the one of lowest id is named.
    pub(crate) fn contention(&self) -> Result<Contention, PlanError> {
        let (mut shared, mut never_overloaded) = (self.table.shared, self.table.never_overloaded);
        let mut pool: Vec<Member> = Vec::new();
        let mut hot: Vec<(LinkId, u64, Range<u32>)> = Vec::new();
        let mut error: Option<(LinkId, PlanError)> = None;
        for &link in &self.touched {
            let was = self.table.states[link.index()];
            // A touched link leaves the counts of the base and enters those of the candidate with its new state.
            shared -= usize::from(matches!(was, State::NeverOverloaded | State::Contended));
            never_overloaded -= usize::from(was == State::NeverOverloaded);
            let first = pool.len();
            self.members_into(link, &mut pool);
            match state(self.fabric, link, &pool[first..], &self.demands.peaks) {
                Ok((now, capacity)) => {
                    shared += usize::from(matches!(now, State::NeverOverloaded | State::Contended));
                    never_overloaded += usize::from(now == State::NeverOverloaded);
                    if matches!(now, State::Overrun | State::Contended) {
                        hot.push((link, capacity, first as u32..pool.len() as u32));
                    } else {
                        // A link that cannot be over capacity is in no class, so its members make room for those of the next link.
                        pool.truncate(first);
                    }
                }
                // Links are touched in the order of the moves, so the lowest id has to be looked for.
                Err(e) if error.as_ref().is_none_or(|(l, _)| link < *l) => error = Some((link, e)),
                Err(_) => {}
            }
        }
        if let Some((_, e)) = error {
            return Err(e);
        }
        let fresh = Classes::group(&pool, &mut hot);
        // Touched links leave the classes of the base; those that can still be over capacity come back with the fresh ones.
        let classes = self.table.classes.merged(|l| self.head[l.index()] != UNTOUCHED, &fresh);
        Ok(Contention { shared, never_overloaded, classes })
    }

    /// The first loop of the affinity graph over all shared links, every link a vertex of its own: what makes
    /// CASSINI discard a placement (Algorithm 2).
    pub(crate) fn first_loop(&self) -> Option<Loop> {
        let mut joined: UnionFind<u32> = UnionFind::new(self.moved.len());
        let mut buffer = Vec::new();
        let mut first_closed = None;
        let (mut shared, mut loops) = (0, 0);
        let mut sharing = vec![false; self.moved.len()];
        for l in 0..self.head.len() {
            let link = LinkId(l as u32);
            let members = if self.head[l] == UNTOUCHED {
                self.table.members(link)
            } else {
                buffer.clear();
                self.members_into(link, &mut buffer);
                &buffer
            };
            let Some((first, rest)) = members.split_first() else { continue };
            if rest.is_empty() {
                continue;
            }
            shared += 1;
            members.iter().for_each(|m| sharing[m.job as usize] = true);
            // Two jobs that are joined already meet elsewhere, so one more edge between them closes a loop.
            for m in rest.iter().filter(|m| !joined.union(first.job, m.job)) {
                loops += 1;
                first_closed.get_or_insert((link, [first.job, m.job]));
            }
        }
        let (link, jobs) = first_closed?;
        // The representative of a component is itself on a shared link, because only such jobs are joined.
        let components = (0..self.moved.len() as u32).filter(|&j| sharing[j as usize] && joined.find(j) == j).count();
        Some(Loop { link, jobs, shared, affinity: Affinity { components, loops, merged_links: 0 } })
    }
}
