//! What a job was seen to do. What is measured replaces what was declared.

use alloc::vec::Vec;

use units::{FabricTime, Nanos};

use crate::Ask;

/// Starts in a row without an end before a job counts as one whose ends nobody tells: one or two may be lost on the way.
pub const ENDS_MISSED_MAX: u32 = 3;
/// What a lease is longer than a quarter more than the expected time: messages and schedulers need some, however short the Up phase is.
pub const LEASE_GRACE: Nanos = Nanos::from_millis(2);
/// Up phases of an iteration whose lengths are learned one by one; those beyond share the last place.
const PHASES_MAX: usize = 64;
/// A value that grew moves the estimate by this part of the difference. Contention makes values grow, and is not the job's own time.
const SLOWLY: u64 = 8;

/// Measured lengths of one job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Learned {
    /// From a start for a whole iteration to its end.
    sent: Option<Nanos>,
    /// The same for starts for single Up phases.
    phases: Vec<Option<Nanos>>,
    /// From ready to ready, less what it waited.
    pub(crate) iteration: Option<Nanos>,
    /// When it was ready for the iteration under way.
    ready: Option<FabricTime>,
    /// How long it has waited since.
    waited: Nanos,
    /// Starts since the last end that was told.
    missed: u32,
}

/// An estimate follows smaller values at once and larger ones slowly.
fn follow(estimate: Option<Nanos>, seen: Nanos) -> Nanos {
    match estimate {
        Some(Nanos(before)) if seen.0 > before => Nanos(before + (seen.0 - before).div_ceil(SLOWLY)),
        _ => seen,
    }
}

impl Learned {
    /// The job is ready; `first` where an iteration begins with it.
    pub(crate) fn ready(&mut self, now: FabricTime, first: bool) {
        if !first {
            return;
        }
        if let Some(before) = self.ready.replace(now) {
            let alone = now.since(before).0.saturating_sub(self.waited.0);
            // Two starts at one instant say nothing of the length of an iteration.
            if alone > 0 {
                self.iteration = Some(follow(self.iteration, Nanos(alone)));
            }
        }
        self.waited = Nanos(0);
    }

    /// The job waited before a start.
    pub(crate) fn waited(&mut self, by: Nanos) {
        self.waited = Nanos(self.waited.0.saturating_add(by.0));
    }

    pub(crate) fn started(&mut self) {
        self.missed = self.missed.saturating_add(1);
    }

    /// The end of a start for `asked` was told.
    pub(crate) fn ended(&mut self, asked: Ask, sent: Nanos) {
        self.missed = 0;
        let estimate = match asked {
            Ask::Iteration => &mut self.sent,
            Ask::Phase(k) => {
                let k = (k as usize).min(PHASES_MAX - 1);
                if self.phases.len() <= k {
                    self.phases.resize(k + 1, None);
                }
                &mut self.phases[k]
            }
        };
        if sent.0 > 0 {
            *estimate = Some(follow(*estimate, sent));
        }
    }

    /// How long a start for that was seen to send.
    pub(crate) fn sent(&self, asked: Ask) -> Option<Nanos> {
        match asked {
            Ask::Iteration => self.sent,
            Ask::Phase(k) => self.phases.get((k as usize).min(PHASES_MAX - 1)).copied().flatten(),
        }
    }

    /// Nobody tells the job's ends.
    pub(crate) fn is_mute(&self) -> bool {
        self.missed > ENDS_MISSED_MAX
    }

    /// When the job will be ready again, if it ended at `ended`.
    pub(crate) fn next_ready(&self, ended: FabricTime) -> FabricTime {
        let down = self
            .iteration
            .zip(self.sent.or(self.phases.first().copied().flatten()))
            .map_or(0, |(whole, sent)| whole.0.saturating_sub(sent.0));
        ended.saturating_add(Nanos(down))
    }
}

/// How long a start may keep others waiting that is expected to send for so long.
pub(crate) fn lease(expected: Nanos) -> Nanos {
    Nanos(expected.0.saturating_add(expected.0 / 4).saturating_add(LEASE_GRACE.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_iteration_is_from_ready_to_ready_without_the_wait() {
        let mut learned = Learned::default();
        learned.ready(FabricTime(100), true);
        learned.waited(Nanos(30));
        learned.ready(FabricTime(150), false);
        learned.ready(FabricTime(200), true);
        assert_eq!(learned.iteration, Some(Nanos(70)));
        learned.ready(FabricTime(350), true);
        assert_eq!(learned.iteration, Some(Nanos(80)), "an eighth of the way to 150");
        learned.ready(FabricTime(360), true);
        assert_eq!(learned.iteration, Some(Nanos(10)));
    }

    #[test]
    fn a_job_without_ends_is_mute_until_one_is_told() {
        let mut learned = Learned::default();
        (0..ENDS_MISSED_MAX).for_each(|_| learned.started());
        assert!(!learned.is_mute());
        learned.started();
        assert!(learned.is_mute());
        learned.ended(Ask::Iteration, Nanos(5));
        assert!(!learned.is_mute());
        assert_eq!(learned.sent, Some(Nanos(5)));
    }

    #[test]
    fn a_lease_is_a_quarter_longer_and_never_overflows() {
        assert_eq!(lease(Nanos(100_000_000)), Nanos(127_000_000));
        assert_eq!(lease(Nanos(u64::MAX)), Nanos(u64::MAX));
    }
}
