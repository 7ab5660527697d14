//! Fabric time.

use rustix::time::{ClockId, Timespec, clock_gettime};
use units::{ClockOffset, FabricTime};

/// Pairs of readings at the start, of which the one least disturbed counts.
const READINGS: usize = 16;

/// Fabric time: `CLOCK_REALTIME` as it was when the service started, carried on by `CLOCK_MONOTONIC`. Fabric time never steps while
/// the service runs, whatever is done to the node's time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FabricClock {
    offset: ClockOffset,
}

impl FabricClock {
    /// Reads the time of day, once.
    #[must_use]
    pub fn start() -> Self {
        let reading = || {
            // The reading between two others is uncertain by their distance: a process that was interrupted in between shows it.
            let before = nanos(clock_gettime(ClockId::Monotonic));
            let real = nanos(clock_gettime(ClockId::Realtime));
            let after = nanos(clock_gettime(ClockId::Monotonic));
            (after - before, real - (before + (after - before) / 2))
        };
        let best = (0..READINGS).map(|_| reading()).min_by_key(|&(width, _)| width);
        Self { offset: ClockOffset(best.map_or(0, |(_, offset)| offset)) }
    }

    /// Now.
    #[must_use]
    pub fn now(&self) -> FabricTime {
        // Only the monotonic clock is read: a step of the time of day must not move slots that gates wait for.
        let now = nanos(clock_gettime(ClockId::Monotonic)).saturating_add(self.offset.0);
        FabricTime(u64::try_from(now).unwrap_or(0))
    }

    /// Fabric time minus this machine's own `CLOCK_MONOTONIC`: what an agent on this machine has to find.
    #[must_use]
    pub const fn offset(&self) -> ClockOffset {
        self.offset
    }
}

/// The kernel's clocks hold 292 years in an `i64` of nanoseconds.
fn nanos(time: Timespec) -> i64 {
    time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fabric_time_begins_as_the_time_of_day_and_never_goes_back() {
        let clock = FabricClock::start();
        let real = nanos(clock_gettime(ClockId::Realtime));
        let error = (i64::try_from(clock.now().0).unwrap() - real).abs();
        // A minute is far more than a test machine loses between two lines, and far less than a wrong unit.
        assert!(error < 60_000_000_000, "{error} ns");
        let times: Vec<_> = (0..1_000).map(|_| clock.now()).collect();
        assert!(times.is_sorted());
    }
}
