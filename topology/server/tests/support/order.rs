//! Whether what clients saw of one job has an order: the job is a register that commits write, releases empty and lists read.
//!
//! A history is right if every request can be given one moment between its beginning and its answer so that, in the order of these
//! moments, every read sees what was written last (Herlihy and Wing, "Linearizability", 1990).
#![allow(dead_code, reason = "each test file uses a part")]

use std::collections::BTreeSet;

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

/// The contents that a register can have after a history that begins with one of these; empty: the history has no order.
pub(crate) fn ends<T: Ord + Copy>(begins: &BTreeSet<Seen>, history: &[Entry<T>]) -> BTreeSet<Seen> {
    let mut events: Vec<(T, bool, usize)> = Vec::new();
    for (at, entry) in history.iter().enumerate() {
        events.push((entry.began, true, at));
        events.extend(entry.answered.map(|answered| (answered, false, at)));
    }
    events.sort();
    // What the register may hold now, and which open requests have had their moment.
    let mut worlds: BTreeSet<(Seen, BTreeSet<usize>)> = begins.iter().map(|seen| (seen.clone(), BTreeSet::new())).collect();
    let mut open: BTreeSet<usize> = BTreeSet::new();
    for (_, begins, at) in events {
        if begins {
            open.insert(at);
            continue;
        }
        worlds = all_moments(worlds, &open, history).into_iter().filter(|(_, had)| had.contains(&at)).collect();
        open.remove(&at);
        worlds = worlds.into_iter().map(|(seen, had)| (seen, had.into_iter().filter(|other| *other != at).collect())).collect();
    }
    all_moments(worlds, &open, history).into_iter().map(|(seen, _)| seen).collect()
}

/// All worlds that come of these by giving open requests their moment, one after another.
fn all_moments<T>(
    worlds: BTreeSet<(Seen, BTreeSet<usize>)>,
    open: &BTreeSet<usize>,
    history: &[Entry<T>],
) -> BTreeSet<(Seen, BTreeSet<usize>)> {
    let (mut found, mut new) = (worlds.clone(), Vec::from_iter(worlds));
    while let Some((seen, had)) = new.pop() {
        for at in open.difference(&had) {
            let next = match &history[*at].op {
                Op::Writes(value) => value.clone(),
                Op::Reads(value) if *value == seen => seen.clone(),
                Op::Reads(_) => continue,
            };
            let world = (next, had.iter().copied().chain([*at]).collect());
            if found.insert(world.clone()) {
                new.push(world);
            }
        }
    }
    found
}
