//! Fabric time: the one clock of the plan.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use units::FabricTime;

/// The service's clock: `CLOCK_REALTIME` read once, `CLOCK_MONOTONIC` since. It never steps while the service runs,
/// so that no slot moves because somebody set the wall clock.
#[derive(Clone, Copy, Debug)]
pub struct FabricClock {
    epoch: FabricTime,
    started: Instant,
}

impl FabricClock {
    /// Reads the wall clock. A wall clock before 1970 counts as 1970.
    #[must_use]
    pub fn start() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { epoch: FabricTime(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)), started: Instant::now() }
    }

    /// Now.
    #[must_use]
    pub fn now(&self) -> FabricTime {
        FabricTime(self.epoch.0.saturating_add(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)))
    }

    /// When a point of fabric time comes, as an instant of this process; in the past it is now.
    #[must_use]
    pub fn instant(&self, at: FabricTime) -> Instant {
        let wait = at.since(self.now());
        let now = Instant::now();
        now.checked_add(std::time::Duration::from_nanos(wait.0)).unwrap_or(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fabric_time_goes_forward_from_the_wall_clock() {
        let clock = FabricClock::start();
        let first = clock.now();
        // 2020-01-01: the machine's clock is set.
        assert!(first > FabricTime(1_577_836_800_000_000_000));
        assert!(clock.now() >= first);
        assert!(clock.instant(FabricTime(0)) <= Instant::now());
    }
}
