//! Operations of the network that are under way.
//!
//! A handle is the number of a slot and how often the slot was used, so a handle that was given back says nothing. No thread waits for
//! another: a slot is taken with one exchange, and one that is being taken is passed over.

use std::{
    array,
    sync::atomic::{AtomicU64, Ordering},
};

/// Operations that can be under way at once: 32 channels, both directions, 64 collectives. Further ones are not counted.
const SLOTS: usize = 4_096;
const SLOT_BITS: u32 = SLOTS.trailing_zeros();
/// Slots that are tried before an operation goes uncounted.
const TRIES: usize = 16;
/// The lowest bit of a slot: it is in use. The rest counts its uses.
const TAKEN: u64 = 1;
/// Uses are counted from below this: 2^50 uses are left before a handle is that of an earlier use.
const FIRST_MAX: u64 = (1 << 40) - 1;
/// The lowest bit of a handle that stands for a slot.
const COUNTED: u64 = 1;
/// In one word, so that nobody sees one without the other: operations under way below, those that finished above.
const UNDER_WAY_BITS: u32 = 16;
const FINISHED_ONE: u64 = 1 << UNDER_WAY_BITS;

/// What a handle is for an event that is observed and not counted. NCCL asks nothing about the children of a null handle.
pub(crate) const OBSERVED: u64 = 2;
/// What a handle is for a group of calls.
pub(crate) const GROUP: u64 = 4;
/// What a handle is for the launch of a kernel.
pub(crate) const LAUNCH: u64 = 6;

/// The operations began or ceased to run, when so many had finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The first is under way.
    Busy(u64),
    /// None is any more.
    Idle(u64),
}

/// The operations of all communicators of a process.
#[derive(Debug)]
pub(crate) struct Flight {
    slots: Box<[AtomicU64; SLOTS]>,
    next: AtomicU64,
    counts: AtomicU64,
}

impl Flight {
    /// Nothing is under way. Uses are counted from `first` on, which differs between processes: a handle of another one is none.
    pub(crate) fn new(first: u64) -> Self {
        let unused = first & FIRST_MAX;
        Self { slots: Box::new(array::from_fn(|_| AtomicU64::new(unused << 1))), next: AtomicU64::new(0), counts: AtomicU64::new(0) }
    }

    /// An operation begins. Its handle, and what that changed.
    #[inline]
    pub(crate) fn begin(&self) -> (u64, Option<Change>) {
        for _ in 0..TRIES {
            let at = self.next.fetch_add(1, Ordering::Relaxed) % SLOTS as u64;
            let Some(slot) = self.slots.get(at as usize) else { break };
            let before = slot.load(Ordering::Relaxed);
            if before & TAKEN == 0 && slot.compare_exchange(before, before | TAKEN, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                let counts = self.counts.fetch_add(1, Ordering::Relaxed);
                let change = (under_way(counts) == 0).then_some(Change::Busy(counts >> UNDER_WAY_BITS));
                return (handle(before >> 1, at), change);
            }
        }
        (OBSERVED, None)
    }

    /// An operation ends; `None` too for a handle that is of none, or of one that has ended.
    #[inline]
    pub(crate) fn end(&self, handle: u64) -> Option<Change> {
        let at = (handle >> 1) % SLOTS as u64;
        let slot = self.slots.get(at as usize).filter(|_| handle & COUNTED == COUNTED)?;
        let now = slot.load(Ordering::Relaxed);
        if now & TAKEN == 0 || self::handle(now >> 1, at) != handle {
            return None;
        }
        // Whoever wins this exchange ends the operation, and nobody else.
        let free = (now & !TAKEN).wrapping_add(TAKEN << 1);
        slot.compare_exchange(now, free, Ordering::Relaxed, Ordering::Relaxed).ok()?;
        let counts = self.counts.fetch_add(FINISHED_ONE - 1, Ordering::Relaxed).wrapping_add(FINISHED_ONE - 1);
        (under_way(counts) == 0).then_some(Change::Idle(counts >> UNDER_WAY_BITS))
    }

    /// Ends all operations: there is no communicator left that could.
    pub(crate) fn end_all(&self) -> Option<Change> {
        let taken = |(at, slot): (usize, &AtomicU64)| {
            let now = slot.load(Ordering::Relaxed);
            (now & TAKEN == TAKEN).then(|| handle(now >> 1, at as u64))
        };
        self.slots.iter().enumerate().filter_map(taken).filter_map(|handle| self.end(handle)).last()
    }
}

const fn under_way(counts: u64) -> u64 {
    counts & (FINISHED_ONE - 1)
}

const fn handle(uses: u64, slot: u64) -> u64 {
    uses << (SLOT_BITS + 1) | slot << 1 | COUNTED
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, thread};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_operation_ends_once() {
        let flight = Flight::new(0x1234_5678_9abc);
        let (first, change) = flight.begin();
        assert_eq!(change, Some(Change::Busy(0)));
        let (second, change) = flight.begin();
        assert_eq!(change, None);
        assert!(flight.end(first).is_none() && flight.end(first).is_none());
        assert_eq!(flight.end(second), Some(Change::Idle(2)));
        assert_eq!((flight.end(second), flight.end(0), flight.end(OBSERVED), flight.end(u64::MAX)), (None, None, None, None));
        assert_eq!(flight.begin().1, Some(Change::Busy(2)));
    }

    #[test]
    fn a_handle_that_was_given_back_is_none_though_its_slot_is_in_use() {
        let flight = Flight::new(0x1234_5678_9abc);
        let (old, _) = flight.begin();
        flight.end(old);
        let new: Vec<u64> = (0..SLOTS).map(|_| flight.begin().0).collect();
        assert_eq!(new.iter().collect::<BTreeSet<_>>().len(), SLOTS);
        assert!(!new.contains(&old) && flight.end(old).is_none());
        // All slots are in use.
        assert_eq!(flight.begin(), (OBSERVED, None));
        assert_eq!(flight.end_all(), Some(Change::Idle(SLOTS as u64 + 1)));
        assert!(new.into_iter().all(|handle| flight.end(handle).is_none()));
    }

    #[test]
    fn threads_count_every_operation_once() {
        const EACH: u64 = 100_000;
        let flight = Flight::new(0x1234_5678_9abc);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..EACH {
                        let (handle, _) = flight.begin();
                        flight.end(handle);
                        flight.end(handle);
                    }
                });
            }
        });
        let (last, change) = flight.begin();
        // Some may have found no slot in their tries; none is counted twice.
        assert!(matches!(change, Some(Change::Busy(finished)) if finished <= 3 * EACH && finished > 2 * EACH), "{change:?}");
        assert!(flight.end(last).is_some());
    }

    proptest! {
        /// Against a set of the handles that are out: any order of begins, ends, and ends of anything.
        #[test]
        fn it_counts_as_a_set_would(acts in prop::collection::vec((0_u8..4, any::<u64>()), 0..300)) {
            let (flight, mut out, mut all, mut finished) = (Flight::new(0x1234_5678_9abc), Vec::new(), Vec::new(), 0);
            for (act, pick) in acts {
                if act < 2 {
                    let (handle, change) = flight.begin();
                    prop_assert_eq!(change, out.is_empty().then_some(Change::Busy(finished)));
                    out.push(handle);
                    all.push(handle);
                    continue;
                }
                let handle = if act == 2 && !all.is_empty() { all[pick as usize % all.len()] } else { pick };
                let known = out.iter().position(|&there| there == handle);
                finished += u64::from(known.is_some());
                if let Some(at) = known {
                    out.swap_remove(at);
                }
                prop_assert_eq!(flight.end(handle), (known.is_some() && out.is_empty()).then_some(Change::Idle(finished)));
            }
        }
    }
}
