//! Words that one process writes and others read without a lock, whole or not at all.
//!
//! The writer makes the sequence odd, writes, and makes it even. A reader that saw the same even sequence before and after
//! has words of one write. The orderings are those of Boehm, "Can seqlocks get along with programming language memory
//! models?" (MSPC 2012). Reads are relaxed loads only, because those alone are defined on memory mapped read-only.

use std::{
    hint,
    sync::atomic::{AtomicU64, Ordering, fence},
};

/// Tries of a reader before it gives up: some 20 to 50 us, far longer than a write, which takes well below one. A reader
/// that gives up has met a writer that was stopped in the middle, and that may last for ever.
pub(crate) const READ_TRIES: u32 = 1_000;

/// An atomic word; loom has its own, which tries every interleaving.
pub(crate) trait Word {
    fn load(&self) -> u64;
    fn store(&self, value: u64, ordering: Ordering);
    fn fence(ordering: Ordering);
}

impl Word for AtomicU64 {
    #[inline]
    fn load(&self) -> u64 {
        self.load(Ordering::Relaxed)
    }

    #[inline]
    fn store(&self, value: u64, ordering: Ordering) {
        self.store(value, ordering);
    }

    #[inline]
    fn fence(ordering: Ordering) {
        fence(ordering);
    }
}

/// A sequence and the words under it.
#[derive(Debug)]
pub(crate) struct Seqlock<'a, W> {
    pub(crate) sequence: &'a W,
    pub(crate) words: &'a [W],
}

impl<W: Word> Seqlock<'_, W> {
    /// Whether a write is going on, or was when its writer died.
    pub(crate) fn is_torn(&self) -> bool {
        self.sequence.load() % 2 == 1
    }

    /// Replaces the words. There must be one writer at a time; a write that its writer left unfinished is taken over.
    pub(crate) fn write(&self, values: &[u64]) {
        // A sequence that is odd already is that of a writer that died: this write takes it over.
        let odd = self.sequence.load() | 1;
        self.sequence.store(odd, Ordering::Relaxed);
        // The release fence keeps every store to a word behind the odd sequence: a reader that sees such a word sees it as well.
        W::fence(Ordering::Release);
        for (word, &value) in self.words.iter().zip(values) {
            word.store(value, Ordering::Relaxed);
        }
        // The release store publishes the words before the even sequence. At ten writes a second the number never wraps.
        self.sequence.store(odd.wrapping_add(1), Ordering::Release);
    }

    /// The words of one write; `None` when a write was going on.
    #[inline]
    fn try_read<const N: usize>(&self) -> Option<[u64; N]> {
        // The fence behind this load keeps the loads of the words behind it, and the second fence keeps them before the last load.
        let before = self.sequence.load();
        W::fence(Ordering::Acquire);
        let mut values = [0; N];
        for (value, word) in values.iter_mut().zip(self.words) {
            *value = word.load();
        }
        W::fence(Ordering::Acquire);
        (before.is_multiple_of(2) && self.sequence.load() == before).then_some(values)
    }

    /// The words of one write; `None` when none could be had in [`READ_TRIES`].
    #[inline]
    pub(crate) fn read<const N: usize>(&self) -> Option<[u64; N]> {
        // The bound is the fail-open: without it a writer that died in a write would hold the job for ever (ADR 2, point 4).
        for _ in 0..READ_TRIES {
            if let Some(values) = self.try_read() {
                return Some(values);
            }
            hint::spin_loop();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let (sequence, words) = (AtomicU64::new(0), [const { AtomicU64::new(0) }; 3]);
        let lock = Seqlock { sequence: &sequence, words: &words };
        lock.write(&[1, 2, 3]);
        assert_eq!(lock.read(), Some([1, 2, 3]));
        assert_eq!(sequence.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_write_that_was_left_unfinished_stops_readers_until_the_next() {
        let (sequence, words) = (AtomicU64::new(7), [const { AtomicU64::new(0) }; 2]);
        let lock = Seqlock { sequence: &sequence, words: &words };
        assert!(lock.is_torn());
        assert_eq!(lock.read::<2>(), None);
        lock.write(&[4, 5]);
        assert_eq!(lock.read(), Some([4, 5]));
    }
}

/// Every interleaving and every value that the memory model lets a relaxed load return: `scripts/loom.sh`.
#[cfg(all(test, loom))]
mod loom_tests {
    use loom::{
        sync::{Arc, atomic},
        thread,
    };

    use super::*;

    impl Word for atomic::AtomicU64 {
        fn load(&self) -> u64 {
            self.load(Ordering::Relaxed)
        }

        fn store(&self, value: u64, ordering: Ordering) {
            self.store(value, ordering);
        }

        fn fence(ordering: Ordering) {
            atomic::fence(ordering);
        }
    }

    struct Shared {
        sequence: atomic::AtomicU64,
        words: Vec<atomic::AtomicU64>,
    }

    impl Shared {
        fn new() -> Arc<Self> {
            let words = (0..2).map(|_| atomic::AtomicU64::new(0)).collect();
            Arc::new(Self { sequence: atomic::AtomicU64::new(0), words })
        }

        fn lock(&self) -> Seqlock<'_, atomic::AtomicU64> {
            Seqlock { sequence: &self.sequence, words: &self.words }
        }
    }

    #[test]
    fn loom_a_reader_never_sees_two_writes_at_once() {
        loom::model(|| {
            let shared = Shared::new();
            let writer = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || (1..=2).for_each(|n| shared.lock().write(&[n, n])))
            };
            if let Some([a, b]) = shared.lock().try_read::<2>() {
                assert_eq!(a, b);
            }
            writer.join().unwrap();
            assert_eq!(shared.lock().try_read(), Some([2, 2]));
        });
    }

    #[test]
    fn loom_reads_do_not_go_back_in_time() {
        loom::model(|| {
            let shared = Shared::new();
            let writer = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || shared.lock().write(&[1, 1]))
            };
            let reads: Vec<[u64; 2]> = (0..2).filter_map(|_| shared.lock().try_read()).collect();
            assert!(reads.is_sorted());
            writer.join().unwrap();
        });
    }
}
