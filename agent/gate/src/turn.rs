//! A lock that is only tried, never waited for. (Its turns are those of threads in one gate, not of jobs on a link.)
//!
//! `std::sync::Mutex` takes two locked instructions per turn, this takes one: unlocking is a plain store, because nobody sleeps
//! on it. In a step that costs two clock reads at most, that is a tenth.
//!
//! A fork copies the lock and not the thread that has its turn. So the lock says in which process it was taken, and a child
//! that finds a turn of its parent's begins with a new value: the old one may be half changed, and is neither read nor dropped.

use std::{
    cell::UnsafeCell,
    marker::PhantomData,
    mem::ManuallyDrop,
    ops::{Deref, DerefMut},
    sync::atomic::{AtomicU64, Ordering},
};

use crate::fork;

/// Nobody has a turn. A turn is one more than the generation of its process.
const FREE: u64 = 0;

/// A value that one thread at a time may use.
#[derive(Debug)]
pub(crate) struct Turns<T> {
    taken: AtomicU64,
    value: UnsafeCell<ManuallyDrop<T>>,
}

// SAFETY: the value is reached through a `Turn` only, and there is one at a time in a process, so threads hand it on (`T: Send`)
// and never share it.
unsafe impl<T: Send> Sync for Turns<T> {}

/// The right to use the value until this is dropped.
#[derive(Debug)]
pub(crate) struct Turn<'a, T> {
    turns: &'a Turns<T>,
    /// A turn is shared by threads and sent between them only if a `&mut T` is.
    borrow: PhantomData<&'a mut T>,
}

impl<T> Turns<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { taken: AtomicU64::new(FREE), value: UnsafeCell::new(ManuallyDrop::new(value)) }
    }

    /// `None` while another thread has its turn, and in a child whose parent was using the value.
    pub(crate) fn take(&self) -> Option<Turn<'_, T>> {
        let ours = fork::generation() + 1;
        // Acquire pairs with the release in `Turn::drop`; a failure reads nothing of the value, so it needs no order.
        self.taken.compare_exchange(FREE, ours, Ordering::Acquire, Ordering::Relaxed).ok()?;
        Some(Turn { turns: self, borrow: PhantomData })
    }

    /// `None` while another thread has its turn. `anew` makes the value of a child whose parent was using this one; where it
    /// cannot, nobody has a turn any more.
    #[inline]
    pub(crate) fn take_or(&self, anew: impl FnOnce() -> Option<T>) -> Option<Turn<'_, T>> {
        let ours = fork::generation() + 1;
        // A swap is enough: if another thread of this process has its turn, the word holds `ours` before and after.
        let before = self.taken.swap(ours, Ordering::Acquire);
        if before == ours {
            return None;
        }
        if before != FREE {
            // Another process's number means a parent's thread, which does not exist here and will never free the word.
            self.replace(anew()?);
        }
        Some(Turn { turns: self, borrow: PhantomData })
    }

    /// To be called once `taken` is ours and was our parent's.
    #[cold]
    fn replace(&self, value: T) {
        // SAFETY: the turn of the parent is of a thread that a fork does not copy: no turn outlives a call of the gate, and no
        // call of the gate forks. The swap made the turn of this process ours, so nobody else has a reference. Writing does
        // not read or drop what was there, which may be half changed.
        unsafe { self.value.get().write(ManuallyDrop::new(value)) };
    }
}

impl<T> Drop for Turns<T> {
    fn drop(&mut self) {
        // A turn that is still taken is one of a parent's thread. Its value may be half changed, and to drop it could read that:
        // the value leaks instead.
        if *self.taken.get_mut() == FREE {
            // SAFETY: nobody uses the value, and nobody will after this.
            unsafe { ManuallyDrop::drop(self.value.get_mut()) };
        }
    }
}

impl<T> Deref for Turn<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: `taken` was not of this process when this turn was made and is until it is dropped, so there is no other turn in
        // this process, and the borrow of `self` keeps this one from handing out `&mut T` meanwhile.
        unsafe { &*self.turns.value.get() }
    }
}

impl<T> DerefMut for Turn<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and `self` is borrowed alone.
        unsafe { &mut *self.turns.value.get() }
    }
}

impl<T> Drop for Turn<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // Pairs with the acquiring swap: the next turn sees what this one wrote.
        self.turns.taken.store(FREE, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// What a child finds after a fork in which another thread of its parent had a turn.
    #[test]
    fn a_turn_of_another_process_is_taken_over_with_a_new_value() {
        struct Whole(Option<&'static str>);
        impl Drop for Whole {
            fn drop(&mut self) {
                assert!(self.0.is_some(), "a value that was half changed is dropped");
            }
        }
        let turns = Turns::new(Whole(Some("old")));
        let orphan = || turns.taken.store(fork::generation() + 7, Ordering::Relaxed);
        turns.take().unwrap().0 = None;
        orphan();
        assert!(turns.take().is_none());
        let taken = turns.take_or(|| Some(Whole(Some("new")))).unwrap();
        assert_eq!(taken.0, Some("new"));
        assert!(turns.take_or(|| None).is_none());
        drop(taken);
        // Where there is no new value, nobody has a turn, and the old one is not dropped either.
        turns.take().unwrap().0 = None;
        orphan();
        assert!(turns.take_or(|| None).is_none());
        assert!(turns.take_or(|| Some(Whole(Some("late")))).is_none());
    }

    #[test]
    fn there_is_one_turn_at_a_time() {
        let turns = Turns::new(0_u64);
        let never = || unreachable!("there is no fork here");
        let taken = turns.take().unwrap();
        // More than once: who gets no turn must not end that of another.
        for _ in 0..2 {
            assert!(turns.take().is_none() && turns.take_or(never).is_none());
        }
        drop(taken);
        // Two threads add to a number that is not atomic, as often as they get a turn.
        let added: u64 = thread::scope(|scope| {
            let add = || (0..100_000).filter(|_| turns.take_or(never).map(|mut turn| *turn += 1).is_some()).count() as u64;
            let threads = [scope.spawn(add), scope.spawn(add)];
            threads.map(|thread| thread.join().unwrap()).iter().sum()
        });
        assert_eq!(*turns.take().unwrap(), added);
    }
}
