//! The links of one candidate that can be over capacity.
//!
//! A candidate moves few jobs, so only the links that those jobs leave or enter are looked at again; the rest
//! is read from the base table. Links with equal capacity, jobs and demands form one class: whatever the
//! shifts, they score alike.

use alloc::{vec, vec::Vec};
use core::{hash::Hasher, ops::Range};

use circle::Affinity;
use fabric::Fabric;
use petgraph::unionfind::UnionFind;
use units::LinkId;

use crate::{
    PlanError,
    demand::{Demands, Routed},
    table::{Member, State, Table, state},
};

/// Links that score alike, as ranges into the pools of [`Classes`].
#[derive(Clone, Debug)]
pub(crate) struct Class {
    pub(crate) capacity: u64,
    pub(crate) members: Range<u32>,
    pub(crate) links: Range<u32>,
}

/// Classes of links in order of content (members, then capacity); the links of a class in order of id.
#[derive(Clone, Debug, Default)]
pub(crate) struct Classes {
    pub(crate) members: Vec<Member>,
    pub(crate) links: Vec<LinkId>,
    pub(crate) classes: Vec<Class>,
}

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

impl Classes {
    pub(crate) fn members_of(&self, class: &Class) -> &[Member] {
        &self.members[class.members.start as usize..class.members.end as usize]
    }

    pub(crate) fn links_of(&self, class: &Class) -> &[LinkId] {
        &self.links[class.links.start as usize..class.links.end as usize]
    }

    /// Groups links whose members are ranges of `pool`; sorts `hot` on the way.
    pub(crate) fn group(pool: &[Member], hot: &mut [(LinkId, u64, Range<u32>)]) -> Self {
        let slice = |r: &Range<u32>| &pool[r.start as usize..r.end as usize];
        // Sorting by hash first leaves full comparisons to links that are almost surely equal.
        let mut order: Vec<(u64, u32)> = hot.iter().enumerate().map(|(i, (_, c, r))| (hash(slice(r), *c), i as u32)).collect();
        order.sort_unstable_by(|a, b| {
            let (x, y) = (&hot[a.1 as usize], &hot[b.1 as usize]);
            a.0.cmp(&b.0).then_with(|| slice(&x.2).cmp(slice(&y.2))).then_with(|| (x.1, x.0).cmp(&(y.1, y.0)))
        });
        let mut out = Self::default();
        for run in order.chunk_by(|a, b| {
            a.0 == b.0 && hot[a.1 as usize].1 == hot[b.1 as usize].1 && slice(&hot[a.1 as usize].2) == slice(&hot[b.1 as usize].2)
        }) {
            let (_, capacity, range) = &hot[run[0].1 as usize];
            let (members, links) = (out.members.len() as u32, out.links.len() as u32);
            out.members.extend_from_slice(slice(range));
            out.links.extend(run.iter().map(|&(_, i)| hot[i as usize].0));
            out.classes.push(Class {
                capacity: *capacity,
                members: members..out.members.len() as u32,
                links: links..out.links.len() as u32,
            });
        }
        out.sort_by_content();
        out
    }

    fn sort_by_content(&mut self) {
        let members = &self.members;
        let slice = |c: &Class| &members[c.members.start as usize..c.members.end as usize];
        self.classes.sort_unstable_by(|a, b| slice(a).cmp(slice(b)).then(a.capacity.cmp(&b.capacity)));
    }

    /// The classes of `self` without the links for which `gone` holds, together with those of `other`.
    fn merged(&self, gone: impl Fn(LinkId) -> bool, other: &Self) -> Self {
        let mut out = Self {
            members: Vec::with_capacity(self.members.len() + other.members.len()),
            links: Vec::with_capacity(self.links.len() + other.links.len()),
            classes: Vec::with_capacity(self.classes.len() + other.classes.len()),
        };
        let (mut a, mut b) = (self.classes.iter().peekable(), other.classes.iter().peekable());
        loop {
            let order = match (a.peek(), b.peek()) {
                (None, None) => return out,
                (Some(_), None) => core::cmp::Ordering::Less,
                (None, Some(_)) => core::cmp::Ordering::Greater,
                (Some(x), Some(y)) => (self.members_of(x), x.capacity).cmp(&(other.members_of(y), y.capacity)),
            };
            let links = out.links.len();
            let mut content = None;
            if order.is_le()
                && let Some(class) = a.next()
            {
                out.links.extend(self.links_of(class).iter().filter(|l| !gone(**l)));
                content = Some((self.members_of(class), class.capacity));
            }
            if order.is_ge()
                && let Some(class) = b.next()
            {
                out.links.extend_from_slice(other.links_of(class));
                content = Some((other.members_of(class), class.capacity));
            }
            let Some((members, capacity)) = content else { return out };
            if out.links.len() == links {
                continue;
            }
            if order.is_eq() {
                out.links[links..].sort_unstable();
            }
            let first = out.members.len() as u32;
            out.members.extend_from_slice(members);
            out.classes.push(Class { capacity, members: first..out.members.len() as u32, links: links as u32..out.links.len() as u32 });
        }
    }
}

fn hash(members: &[Member], capacity: u64) -> u64 {
    let mut h = Fnv(0xcbf2_9ce4_8422_2325);
    h.write_u64(capacity);
    for m in members {
        h.write_u64(u64::from(m.job) << 32 | u64::from(m.demand));
    }
    h.finish()
}

/// FNV-1a over whole words. It only orders work; equality is always decided by content.
struct Fnv(u64);

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.write_u64(u64::from(*b));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(29);
    }
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
                        pool.truncate(first);
                    }
                }
                Err(e) if error.as_ref().is_none_or(|(l, _)| link < *l) => error = Some((link, e)),
                Err(_) => {}
            }
        }
        if let Some((_, e)) = error {
            return Err(e);
        }
        let fresh = Classes::group(&pool, &mut hot);
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
            for m in rest.iter().filter(|m| !joined.union(first.job, m.job)) {
                loops += 1;
                first_closed.get_or_insert((link, [first.job, m.job]));
            }
        }
        let (link, jobs) = first_closed?;
        let components = (0..self.moved.len() as u32).filter(|&j| sharing[j as usize] && joined.find(j) == j).count();
        Some(Loop { link, jobs, shared, affinity: Affinity { components, loops, merged_links: 0 } })
    }
}
