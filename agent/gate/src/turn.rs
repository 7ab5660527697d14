//! A lock that is only tried, never waited for.
//!
//! `std::sync::Mutex` takes two locked instructions per turn, this takes one: unlocking is a plain store, because nobody sleeps
//! on it. In a step that costs two clock reads at most, that is a tenth.

use std::{
    cell::UnsafeCell,
    marker::PhantomData,
    ops::{Deref, DerefMut},
    sync::atomic::{AtomicBool, Ordering},
};

/// A value that one thread at a time may use.
#[derive(Debug)]
pub(crate) struct Turns<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached through a `Turn` only, and there is one at a time, so threads hand it on (`T: Send`) and never
// share it.
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
        Self { taken: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// `None` while another thread has its turn.
    #[inline]
    pub(crate) fn take(&self) -> Option<Turn<'_, T>> {
        (!self.taken.swap(true, Ordering::Acquire)).then_some(Turn { turns: self, borrow: PhantomData })
    }
}

impl<T> Deref for Turn<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: `taken` was false when this turn was made and is true until it is dropped, so there is no other turn, and the
        // borrow of `self` keeps this one from handing out `&mut T` meanwhile.
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
        self.turns.taken.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn there_is_one_turn_at_a_time() {
        let turns = Turns::new(0_u64);
        let taken = turns.take().unwrap();
        assert!(turns.take().is_none());
        drop(taken);
        // Two threads add to a number that is not atomic, as often as they get a turn.
        let added: u64 = thread::scope(|scope| {
            let add = || (0..100_000).filter(|_| turns.take().map(|mut turn| *turn += 1).is_some()).count() as u64;
            let threads = [scope.spawn(add), scope.spawn(add)];
            threads.map(|thread| thread.join().unwrap()).iter().sum()
        });
        assert_eq!(*turns.take().unwrap(), added);
    }
}
