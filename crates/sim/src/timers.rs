//! What happens next: one pending time per timer, earliest first, ties in the order in which they were set.

use alloc::{vec, vec::Vec};

/// Not in the heap.
const NOWHERE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    time: u64,
    /// Counts the calls of [`Timers::set`], so that no two entries are equal and order never depends on the heap's shape.
    sequence: u64,
    id: u32,
}

/// A binary heap with one entry per timer, whose time may be changed. Setting and taking cost a logarithm of the
/// timers that run, however often times change.
#[derive(Debug)]
pub(crate) struct Timers {
    heap: Vec<Entry>,
    /// Where each timer stands in the heap.
    at: Vec<u32>,
    sequence: u64,
}

impl Timers {
    pub(crate) fn new(count: usize) -> Self {
        Self { heap: Vec::with_capacity(count), at: vec![NOWHERE; count], sequence: 0 }
    }

    /// Sets the time of a timer, whether it runs or not.
    pub(crate) fn set(&mut self, id: u32, time: u64) {
        let entry = Entry { time, sequence: self.sequence, id };
        self.sequence += 1;
        let at = self.at[id as usize];
        if at == NOWHERE {
            self.heap.push(entry);
            self.rise(self.heap.len() - 1);
        } else {
            self.heap[at as usize] = entry;
            self.rise(at as usize);
            self.sink(self.at[id as usize] as usize);
        }
    }

    /// Stops a timer, whether it runs or not.
    pub(crate) fn stop(&mut self, id: u32) {
        let at = self.at[id as usize];
        if at != NOWHERE {
            self.remove(at as usize);
        }
    }

    /// The earliest time.
    pub(crate) fn next_time(&self) -> Option<u64> {
        self.heap.first().map(|e| e.time)
    }

    /// The time of a timer, if it runs.
    pub(crate) fn time_of(&self, id: u32) -> Option<u64> {
        self.heap.get(self.at[id as usize] as usize).map(|e| e.time)
    }

    /// Moves every timer on by as much; their order stays.
    pub(crate) fn shift(&mut self, by: u64) {
        self.heap.iter_mut().for_each(|e| e.time = e.time.saturating_add(by));
    }

    /// Takes the earliest timer if it is due at `now` or before.
    pub(crate) fn take_due(&mut self, now: u64) -> Option<u32> {
        let first = self.heap.first().filter(|e| e.time <= now)?.id;
        self.remove(0);
        Some(first)
    }

    fn remove(&mut self, at: usize) {
        let removed = self.heap.swap_remove(at);
        self.at[removed.id as usize] = NOWHERE;
        if at < self.heap.len() {
            self.at[self.heap[at].id as usize] = at as u32;
            self.rise(at);
            self.sink(at);
        }
    }

    fn rise(&mut self, mut at: usize) {
        let entry = self.heap[at];
        while at > 0 && entry < self.heap[(at - 1) / 2] {
            self.place(at, self.heap[(at - 1) / 2]);
            at = (at - 1) / 2;
        }
        self.place(at, entry);
    }

    fn sink(&mut self, mut at: usize) {
        let entry = self.heap[at];
        loop {
            let children = 2 * at + 1..self.heap.len().min(2 * at + 3);
            let Some(child) = children.min_by_key(|&c| self.heap[c]).filter(|&c| self.heap[c] < entry) else { break };
            self.place(at, self.heap[child]);
            at = child;
        }
        self.place(at, entry);
    }

    fn place(&mut self, at: usize, entry: Entry) {
        self.heap[at] = entry;
        self.at[entry.id as usize] = at as u32;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ties_come_in_the_order_in_which_they_were_set() {
        let mut timers = Timers::new(3);
        [2, 0, 1].into_iter().for_each(|id| timers.set(id, 7));
        // Set again: now the last of its time.
        timers.set(2, 7);
        assert_eq!(timers.take_due(6), None);
        assert_eq!([timers.take_due(7), timers.take_due(7), timers.take_due(7), timers.take_due(7)], [Some(0), Some(1), Some(2), None]);
    }

    proptest! {
        /// Against a sorted map that is searched whole.
        #[test]
        fn the_heap_takes_what_a_sorted_list_takes(steps in prop::collection::vec((0_u32..12, 0_u64..40, any::<bool>()), 0..200)) {
            let mut timers = Timers::new(12);
            let mut model: BTreeMap<u32, (u64, usize)> = BTreeMap::new();
            for (i, (id, time, take)) in steps.into_iter().enumerate() {
                if take {
                    let due = model.iter().filter(|(_, (t, _))| *t <= time).min_by_key(|(_, key)| **key).map(|(id, _)| *id);
                    prop_assert_eq!(timers.take_due(time), due);
                    due.map(|id| model.remove(&id));
                } else {
                    timers.set(id, time);
                    model.insert(id, (time, i));
                }
                prop_assert_eq!(timers.next_time(), model.values().map(|(t, _)| *t).min());
            }
        }
    }
}
