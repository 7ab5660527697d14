//! How long to wait before calling again.

use std::time::Duration;

/// The wait after the first failure is drawn up to this: 10,000 agents that lose their service together come back over a
/// second and not at once.
const FIRST_MAX: Duration = Duration::from_secs(1);
/// No wait is drawn above this, so that a service that is back has all agents within it.
const WAIT_MAX: Duration = Duration::from_secs(15);
/// The least wait.
const WAIT_MIN: Duration = Duration::from_millis(100);
/// After a refusal that trying again does not help: somebody has to change a file first.
const REFUSED_WAIT_MAX: Duration = Duration::from_secs(60);
/// A session that lasted this long was a good one: the next failure is a first one.
const STEADY: Duration = Duration::from_secs(10);

/// Exponential backoff with full jitter, capped.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// A session ended after `lasted`.
    pub(super) fn lasted(&mut self, lasted: Duration) {
        if lasted >= STEADY {
            self.failures = 0;
        }
    }

    /// The next wait. `hopeless`: the service said that trying again does not help.
    pub(super) fn wait(&mut self, hopeless: bool, random: u64) -> Duration {
        let most = if hopeless {
            REFUSED_WAIT_MAX
        } else {
            // From 32 failures on the shift has no result and the largest factor stands in; WAIT_MAX caps every product.
            FIRST_MAX.saturating_mul(1_u32.checked_shl(self.failures).unwrap_or(u32::MAX)).min(WAIT_MAX)
        };
        // A hopeless case must not come early by luck.
        let least = if hopeless { REFUSED_WAIT_MAX / 2 } else { WAIT_MIN };
        // The count only grows while the service is away, and must not wrap to a short wait.
        self.failures = self.failures.saturating_add(1);
        let span = u64::try_from((most - least).as_nanos()).unwrap_or(u64::MAX);
        // The spans are at most half a minute, so the remainder of a u64 is even enough for a jitter.
        least + Duration::from_nanos(random % span.max(1))
    }
}

/// A random number from the provider of cryptography, which is here anyway. Zero if the provider fails, which costs the jitter
/// only.
pub(super) fn random() -> u64 {
    let mut bytes = [0; 8];
    match rustls::crypto::ring::default_provider().secure_random.fill(&mut bytes) {
        Ok(()) => u64::from_ne_bytes(bytes),
        Err(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_cap_and_begin_again_after_a_steady_session() {
        let mut backoff = Backoff::default();
        let longest: Vec<u64> = (0..8)
            .map(|_| {
                let span = |most: Duration| u64::try_from((most - WAIT_MIN).as_nanos()).unwrap();
                // The largest remainder of this failure's span.
                let most = FIRST_MAX.saturating_mul(1 << backoff.failures.min(10)).min(WAIT_MAX);
                backoff.wait(false, span(most) - 1).as_millis() as u64
            })
            .collect();
        assert_eq!(longest, [999, 1_999, 3_999, 7_999, 14_999, 14_999, 14_999, 14_999]);
        backoff.failures = u32::MAX;
        assert!(backoff.wait(false, u64::MAX) <= WAIT_MAX);
        backoff.lasted(STEADY - Duration::from_millis(1));
        assert_eq!(backoff.failures, u32::MAX);
        backoff.lasted(STEADY);
        assert_eq!(backoff.wait(false, 0), WAIT_MIN);
    }

    #[test]
    fn a_hopeless_case_waits_long_and_jitter_spreads() {
        assert!(Backoff::default().wait(true, 0) >= REFUSED_WAIT_MAX / 2);
        let waits: std::collections::BTreeSet<_> = (0..100).map(|_| Backoff::default().wait(false, random())).collect();
        assert!(waits.len() > 90, "{}", waits.len());
        assert!(waits.iter().all(|&wait| (WAIT_MIN..FIRST_MAX).contains(&wait)));
    }
}
