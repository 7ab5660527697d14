//! Whether what clients saw of one job has an order: the job is a register that commits write, releases empty and lists read.
//!
//! A history is right if every request can be given one moment between its beginning and its answer so that, in the order of these
//! moments, every read sees what was written last (Herlihy and Wing, "Linearizability", 1990).
#![allow(dead_code, reason = "each test file uses a part")]

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Hosts of a job, or none where it is not committed.
pub(crate) type Seen = Option<String>;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Op {
    Writes(Seen),
    Reads(Seen),
}

/// One request of one client about one job.
#[derive(Clone, Debug)]
pub(crate) struct Entry<T> {
    pub(crate) op: Op,
    pub(crate) began: T,
    /// `None`: it was never answered, and has taken its moment at any time after it began, or never.
    pub(crate) answered: Option<T>,
}

/// What a register may hold, and which open requests have had their moment.
type World = (Seen, BTreeSet<usize>);

/// Worlds of which each can do something that no other can.
#[derive(Default)]
struct Worlds(BTreeMap<World, Vec<BTreeSet<usize>>>);

impl Worlds {
    /// Whether the world is new. One that holds the same, and in which fewer of the requests that are never answered had their moment, can do
    /// all that it can: without this there would be twice as many worlds for each such request.
    fn insert<T>(&mut self, (seen, had): World, history: &[Entry<T>]) -> bool {
        let (spent, had): (BTreeSet<usize>, _) = had.into_iter().partition(|at| history[*at].answered.is_none());
        let others = self.0.entry((seen, had)).or_default();
        if others.iter().any(|other| other.is_subset(&spent)) {
            return false;
        }
        others.retain(|other| !spent.is_subset(other));
        others.push(spent);
        true
    }

    fn into_worlds(self) -> impl Iterator<Item = World> {
        let all = |((seen, had), spent): (World, Vec<BTreeSet<usize>>)| {
            spent.into_iter().map(move |spent| (seen.clone(), had.union(&spent).copied().collect()))
        };
        self.0.into_iter().flat_map(all)
    }
}

/// The contents that a register can have after a history that begins with one of these; empty: the history has no order.
pub(crate) fn ends<T: Ord + Copy>(begins: &BTreeSet<Seen>, history: &[Entry<T>]) -> BTreeSet<Seen> {
    let mut events: Vec<(T, bool, usize)> = Vec::new();
    for (at, entry) in history.iter().enumerate() {
        events.push((entry.began, true, at));
        events.extend(entry.answered.map(|answered| (answered, false, at)));
    }
    events.sort();
    let mut worlds: Vec<World> = begins.iter().map(|seen| (seen.clone(), BTreeSet::new())).collect();
    let mut open: BTreeSet<usize> = BTreeSet::new();
    for (_, begins, at) in events {
        if begins {
            open.insert(at);
            continue;
        }
        // Who was answered has had its moment.
        worlds = all_moments(worlds, &open, history).filter(|(_, had)| had.contains(&at)).collect();
        for (_, had) in &mut worlds {
            had.remove(&at);
        }
        open.remove(&at);
    }
    all_moments(worlds, &open, history).map(|(seen, _)| seen).collect()
}

/// All worlds that come of these by giving open requests their moment, one after another.
fn all_moments<T>(worlds: Vec<World>, open: &BTreeSet<usize>, history: &[Entry<T>]) -> impl Iterator<Item = World> {
    let (mut found, mut new) = (Worlds::default(), VecDeque::new());
    for world in worlds {
        if found.insert(world.clone(), history) {
            new.push_back(world);
        }
    }
    // Few moments first, so that what they can do is known when more come to the same.
    while let Some((seen, had)) = new.pop_front() {
        for at in open.difference(&had) {
            let next = match &history[*at].op {
                Op::Writes(value) => value.clone(),
                Op::Reads(value) if *value == seen => seen.clone(),
                Op::Reads(_) => continue,
            };
            let world = (next, had.iter().copied().chain([*at]).collect());
            if found.insert(world.clone(), history) {
                new.push_back(world);
            }
        }
    }
    found.into_worlds()
}
