//! Sleeping until a word of a page changes, and waking those who sleep (futex(2)).
//!
//! The word is on a page that is a file, which two processes map, one of them read-only; or it is of this process alone
//! (`stream/tickets.rs`). The kernel finds those who sleep at a file by file and place and not by address, and does not write the word,
//! so a read-only mapping is enough for a sleeper.

use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::{
    io::Errno,
    thread::{Timespec, futex},
};
use units::Nanos;

use crate::clock::{now, sleep_until};

/// How long a sleep is where the kernel has no futex for the page: a hundred looks in the time of a turn cost nothing.
const NAP: Nanos = Nanos::from_micros(200);

/// The low half of a word, which is what a futex looks at.
fn low_half(word: &AtomicU64) -> &AtomicU32 {
    // SAFETY: the half lies within the word, is aligned, lives as long as the word, and comes first, because we build for
    // little-endian only (words.rs). Nobody reads or writes through this reference in this process: only its address goes to
    // the kernel, so no accesses of two sizes meet.
    unsafe { AtomicU32::from_ptr(std::ptr::from_ref(word).cast_mut().cast()) }
}

/// Sleeps until [`wake_all`] or for `at_most`, or less if a signal comes; not at all unless the low half of the word is `seen`.
///
/// Where the kernel cannot wait for this word, sleeps for [`NAP`] at most. An error is one of that sleep.
pub(crate) fn wait(word: &AtomicU64, seen: u32, at_most: Nanos) -> Result<(), Errno> {
    let timeout = Timespec { tv_sec: (at_most.0 / Nanos::PER_SECOND).cast_signed(), tv_nsec: (at_most.0 % Nanos::PER_SECOND) as _ };
    // Not FUTEX_PRIVATE: the one who wakes may be another process. The timeout is measured by CLOCK_MONOTONIC.
    match futex::wait(low_half(word), futex::Flags::empty(), seen, Some(&timeout)) {
        // AGAIN: the word has changed since. The caller looks at page and clock anyway, so each of these costs one more turn.
        Ok(()) | Err(Errno::TIMEDOUT | Errno::AGAIN | Errno::INTR) => Ok(()),
        // ENOSYS, or EFAULT for a mapping that this kernel has no futex for, or a filter of system calls (EPERM).
        Err(_) => sleep_until(now().saturating_add(at_most.min(NAP))),
    }
}

/// Wakes everybody who sleeps at this word, in any process.
pub(crate) fn wake_all(word: &AtomicU64) {
    // Nobody can be asleep at a word for which this fails, so there is nothing to say.
    let _ = futex::wake(low_half(word), futex::Flags::empty(), i32::MAX.cast_unsigned());
}
