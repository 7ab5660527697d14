//! A job as it was measured, in place of what was declared of it.

use alloc::vec::Vec;

use units::Nanos;

use crate::{Job, TrafficPhase};

/// What was measured of a job while nobody was in its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasuredProfile {
    /// One iteration, without the time for which it waited for others.
    pub iteration: Nanos,
    /// How long it sends in an iteration, in all its Up phases together; `None` where nobody told.
    pub sent: Option<Nanos>,
}

impl Job {
    /// The job with the iteration that was measured, and its Up phases at their declared rates.
    ///
    /// Up phases are as long together as was measured, or as declared; what lies between them takes what is left, in the declared
    /// proportions. Where the declared Up phases would not fit, all of the job is shrunk alike.
    #[must_use]
    pub fn as_measured(&self, measured: MeasuredProfile) -> Self {
        let (iteration, up) = (measured.iteration.0, self.up());
        let down = self.period.0.saturating_sub(up);
        let sent = match measured.sent {
            Some(sent) => sent.0.min(iteration),
            None if up <= iteration => up,
            None => share(up, iteration, self.period.0),
        };
        let moved = |at: Nanos| {
            let before = self.up_before(at);
            Nanos(share(before, sent, up) + share(at.0 - before, iteration - sent, down))
        };
        let phase = |p: &TrafficPhase| TrafficPhase { start: moved(p.start), end: moved(p.end), ..p.clone() };
        Self { period: measured.iteration, phases: self.phases.iter().map(phase).collect(), ..self.clone() }
    }

    /// Whether another job sends as this one does: what was measured of one is so of the other.
    #[must_use]
    pub fn has_profile_of(&self, other: &Self) -> bool {
        let of = |p: &TrafficPhase| (p.start, p.end, p.rate);
        self.period == other.period && self.phases.iter().map(of).eq(other.phases.iter().map(of))
    }

    /// The one span in which the job sends, from its first byte to its last; `None` where it sends in several, or not at all.
    #[must_use]
    pub fn only_up(&self) -> Option<(Nanos, Nanos)> {
        let sends = || self.phases.iter().filter(|p| p.rate.0 > 0 && p.start < p.end);
        let (start, end) = (sends().map(|p| p.start).min()?, sends().map(|p| p.end).max()?);
        (end.0 - start.0 == self.up()).then_some((start, end))
    }

    /// How long the job sends in an iteration, by whatever phase.
    #[must_use]
    pub fn up(&self) -> u64 {
        self.up_before(self.period)
    }

    /// How much of the iteration before `at` the job sends.
    fn up_before(&self, at: Nanos) -> u64 {
        let mut spans: Vec<(u64, u64)> =
            self.phases.iter().filter(|p| p.rate.0 > 0).map(|p| (p.start.0.min(at.0), p.end.0.min(at.0))).collect();
        spans.sort_unstable();
        let (mut covered, mut until) = (0, 0);
        for (start, end) in spans {
            covered += end.saturating_sub(start.max(until));
            until = until.max(end);
        }
        covered
    }
}

/// `part` of `of`, as so much of `whole`: in 128 bits no product overflows.
fn share(part: u64, whole: u64, of: u64) -> u64 {
    let value = u128::from(part) * u128::from(whole) / u128::from(of.max(1));
    u64::try_from(value).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use alloc::{string::ToString, vec};

    use fabric::collective::Collective;
    use units::Rate;

    use super::*;
    use crate::Hold;

    fn job(period: u64, spans: &[(u64, u64)]) -> Job {
        let phase = |&(start, end): &(u64, u64)| TrafficPhase {
            start: Nanos(start),
            end: Nanos(end),
            rate: Rate(10),
            collective: Collective::Ring,
            groups: vec![vec![0, 1]].into(),
        };
        Job { name: "j".to_string(), gpus: 2, period: Nanos(period), hold: Hold::Auto, phases: spans.iter().map(phase).collect() }
    }

    fn measured(job: &Job, iteration: u64, sent: Option<u64>) -> (u64, Vec<(u64, u64)>) {
        let job = job.as_measured(MeasuredProfile { iteration: Nanos(iteration), sent: sent.map(Nanos) });
        (job.period.0, job.phases.iter().map(|p| (p.start.0, p.end.0)).collect())
    }

    #[test]
    fn a_longer_iteration_has_longer_gaps_and_the_same_up_phases() {
        let two = job(100, &[(20, 40), (60, 70)]);
        // 30 of 100 are Up, so 70 become 140.
        assert_eq!(measured(&two, 170, None), (170, vec![(40, 60), (100, 110)]));
        assert_eq!(measured(&two, 100, None), (100, vec![(20, 40), (60, 70)]));
        // And a shorter one shorter gaps.
        assert_eq!(measured(&two, 65, None), (65, vec![(10, 30), (40, 50)]));
    }

    #[test]
    fn up_phases_are_as_long_together_as_was_measured() {
        let two = job(100, &[(20, 40), (60, 70)]);
        assert_eq!(measured(&two, 100, Some(60)), (100, vec![(11, 51), (62, 82)]));
        // Phases that overlap are one span of sending.
        let three = job(100, &[(0, 30), (10, 40), (40, 50)]);
        assert_eq!(three.up(), 50);
        assert_eq!(measured(&three, 100, Some(25)), (100, vec![(0, 15), (5, 20), (20, 25)]));
    }

    #[test]
    fn what_does_not_fit_is_stretched_alike() {
        assert_eq!(measured(&job(100, &[(20, 80)]), 50, None), (50, vec![(10, 40)]));
        assert_eq!(measured(&job(100, &[(0, 100)]), 50, None), (50, vec![(0, 50)]));
        // A job that was declared to send all the time has no gap to stretch: it comes last.
        assert_eq!(measured(&job(100, &[(0, 50), (50, 100)]), 150, Some(120)), (150, vec![(0, 60), (60, 120)]));
        assert_eq!(measured(&job(100, &[]), 150, Some(10)), (150, vec![]));
        let most = u64::MAX;
        assert_eq!(measured(&job(most, &[(0, most / 2)]), most, Some(most)).0, most);
    }

    #[test]
    fn a_profile_is_when_and_how_fast_a_job_sends() {
        let one = job(100, &[(20, 40), (30, 60)]);
        assert_eq!((one.only_up(), job(100, &[(20, 40), (60, 70)]).only_up()), (Some((Nanos(20), Nanos(60))), None));
        assert!(one.has_profile_of(&Job { gpus: 7, hold: Hold::Phases, ..one.clone() }));
        assert!(!one.has_profile_of(&job(100, &[(20, 40), (30, 61)])) && !one.has_profile_of(&job(101, &[(20, 40), (30, 60)])));
    }

    /// Whatever is measured, phases stay inside of the iteration, in order, and a job that sends goes on to send.
    #[test]
    fn phases_stay_inside_of_the_iteration() {
        for (iteration, sent) in [(1, None), (7, Some(3)), (1_000_003, Some(1)), (90, Some(90)), (90, Some(0)), (90, Some(91))] {
            let (period, phases) = measured(&job(100, &[(0, 13), (13, 26), (99, 100)]), iteration, sent);
            assert!(phases.is_sorted() && phases.iter().all(|(start, end)| start <= end && *end <= period), "{phases:?} of {period}");
        }
    }
}
