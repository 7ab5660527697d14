//! How often something may happen.

use std::time::Instant;

/// A token bucket.
#[derive(Debug)]
pub(crate) struct Bucket {
    per_second: u32,
    burst: u32,
    tokens: f64,
    last: Instant,
}

impl Bucket {
    pub(crate) fn new(per_second: u32, burst: u32, now: Instant) -> Self {
        Self { per_second, burst, tokens: f64::from(burst), last: now }
    }

    /// Whether `cost` more is within the rate.
    pub(crate) fn take(&mut self, cost: u32, now: Instant) -> bool {
        // A clock that stands still earns nothing; what is earned ends at the burst, so silence saves up no flood.
        let earned = now.saturating_duration_since(self.last).as_secs_f64() * f64::from(self.per_second);
        self.tokens = (self.tokens + earned).min(f64::from(self.burst));
        self.last = now;
        let enough = self.tokens >= f64::from(cost);
        if enough {
            self.tokens -= f64::from(cost);
        }
        enough
    }

    /// Gives some back before they are earned; never more than the burst.
    pub(crate) fn give(&mut self, back: f64) {
        self.tokens = (self.tokens + back).min(f64::from(self.burst));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let start = Instant::now();
        let mut bucket = Bucket::new(10, 30, start);
        assert_eq!((0..100).filter(|_| bucket.take(1, start)).count(), 30);
        let later = start + Duration::from_millis(1_050);
        assert_eq!((0..100).filter(|_| bucket.take(1, later)).count(), 10);
        assert_eq!((0..100).filter(|_| bucket.take(1, later + Duration::from_secs(3_600))).count(), 30);
        assert!(!bucket.take(31, later + Duration::from_secs(7_200)));
        let last = later + Duration::from_secs(7_200);
        assert!(bucket.take(30, last) && !bucket.take(1, last));
        bucket.give(2.5);
        assert_eq!((0..100).filter(|_| bucket.take(1, last)).count(), 2);
        bucket.give(1e9);
        assert_eq!((0..100).filter(|_| bucket.take(1, last)).count(), 30);
    }
}
