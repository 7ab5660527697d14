//! Links that score alike, whatever the shifts: those of equal capacity, jobs and demands form one class.

use alloc::vec::Vec;
use core::{hash::Hasher, ops::Range};

use units::LinkId;

/// One job on one link. Jobs are numbered in order of name, demands in order of content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Member {
    pub(crate) job: u32,
    pub(crate) demand: u32,
}

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
        // Different content with equal hashes is told apart here, so a collision costs time only.
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
        // The order by hash was good for grouping only; callers merge classes by content (`merged`).
        out.sort_by_content();
        out
    }

    fn sort_by_content(&mut self) {
        let members = &self.members;
        let slice = |c: &Class| &members[c.members.start as usize..c.members.end as usize];
        self.classes.sort_unstable_by(|a, b| slice(a).cmp(slice(b)).then(a.capacity.cmp(&b.capacity)));
    }

    /// The classes of `self` without the links for which `gone` holds, together with those of `other`.
    pub(crate) fn merged(&self, gone: impl Fn(LinkId) -> bool, other: &Self) -> Self {
        let mut out = Self {
            members: Vec::with_capacity(self.members.len() + other.members.len()),
            links: Vec::with_capacity(self.links.len() + other.links.len()),
            classes: Vec::with_capacity(self.classes.len() + other.classes.len()),
        };
        let (mut a, mut b) = (self.classes.iter().peekable(), other.classes.iter().peekable());
        loop {
            // Both lists are in order of content, so one pass merges them; each round takes a class of at least one list.
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
            // A class that lost all of its links is no class of the candidate.
            if out.links.len() == links {
                continue;
            }
            // The links of either class are in order of id, but those of the other may lie between them.
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
    let mut h = ContentHasher(units::FNV_OFFSET);
    h.write_u64(capacity);
    for m in members {
        h.write_u64(u64::from(m.job) << 32 | u64::from(m.demand));
    }
    h.finish()
}

/// A step like FNV's over words, with a rotation. It only orders work; equality is always decided by content.
struct ContentHasher(u64);

impl Hasher for ContentHasher {
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
