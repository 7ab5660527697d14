//! The node's clock.

use rustix::{
    io::Errno,
    thread::clock_nanosleep_absolute,
    time::{ClockId, Timespec, clock_gettime},
};
use units::{Nanos, NodeTime};

/// The node's `CLOCK_MONOTONIC` now; one call into the vDSO, no system call where the kernel offers that.
#[must_use]
#[inline]
pub fn now() -> NodeTime {
    let time = clock_gettime(ClockId::Monotonic);
    // CLOCK_MONOTONIC counts from boot: it is not negative, and u64 nanoseconds last 584 years, so nothing wraps.
    NodeTime((time.tv_sec as u64).wrapping_mul(Nanos::PER_SECOND).wrapping_add(time.tv_nsec as u64))
}

/// Sleeps until `at`, or less if a signal comes.
pub(crate) fn sleep_until(at: NodeTime) -> Result<(), Errno> {
    // A u64 of nanoseconds has at most 1.8e10 seconds, so the conversion succeeds; an error would end the wait, not the job.
    let Ok(tv_sec) = i64::try_from(at.0 / Nanos::PER_SECOND) else { return Err(Errno::INVAL) };
    let time = Timespec { tv_sec, tv_nsec: (at.0 % Nanos::PER_SECOND) as _ };
    // The end is absolute: time that passes between the caller's look at the clock and this call adds no lateness.
    match clock_nanosleep_absolute(ClockId::Monotonic, &time) {
        // A signal ends the sleep early. The caller looks at the clock anyway, so this costs one more turn.
        Ok(()) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error),
    }
}
