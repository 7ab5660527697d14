//! The node's clock.

use rustix::{
    io::Errno,
    thread::clock_nanosleep_absolute,
    time::{ClockId, Timespec, clock_gettime},
};
use units::NodeTime;

const SECOND: u64 = 1_000_000_000;

/// The node's `CLOCK_MONOTONIC` now; one call into the vDSO, no system call where the kernel offers that.
#[must_use]
#[inline]
pub fn now() -> NodeTime {
    let time = clock_gettime(ClockId::Monotonic);
    NodeTime((time.tv_sec as u64).wrapping_mul(SECOND).wrapping_add(time.tv_nsec as u64))
}

/// Sleeps until `at`, or less if a signal comes.
pub(crate) fn sleep_until(at: NodeTime) -> Result<(), Errno> {
    let Ok(tv_sec) = i64::try_from(at.0 / SECOND) else { return Err(Errno::INVAL) };
    let time = Timespec { tv_sec, tv_nsec: (at.0 % SECOND) as _ };
    match clock_nanosleep_absolute(ClockId::Monotonic, &time) {
        // The caller looks at the clock anyway.
        Ok(()) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error),
    }
}
