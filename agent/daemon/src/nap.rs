//! Sleeps of threads that a flag can end.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

/// How often a thread looks whether it should end, and at what has no other sign.
pub(crate) const NAP: Duration = Duration::from_millis(100);

/// Sleeps for so long, or until `stop` is set: that is seen within [`NAP`].
pub(crate) fn until(length: Duration, stop: &AtomicBool) {
    let mut left = length;
    while !left.is_zero() && !stop.load(Ordering::Relaxed) {
        let nap = left.min(NAP);
        thread::sleep(nap);
        left -= nap;
    }
}
