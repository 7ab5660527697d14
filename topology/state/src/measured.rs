//! What was measured of a job against what it is planned with: the measured one wins.
//!
//! Turns need no profile to keep jobs apart, but whom to keep apart is predicted from one. A job that takes turns and is predicted to
//! run as if alone shows what it is: its iteration without its waits, and what it sends where it tells. Where that is another job than
//! the planned one, the job is planned anew. Beside others that it meets as it comes, an iteration shows those as well, and says nothing.
//!
//! Only the plan's figures follow, never the end of turns: a prediction from a measurement may be wrong too, and jobs without turns are
//! measured no more. Whether turns do what they should is for their own measurements to say (`turns/judge.rs`).

use alloc::{sync::Arc, vec::Vec};

use job::{Hold, Job as JobProfile, MeasuredProfile};
use units::Nanos;

use crate::{
    JobDefinition,
    config::{MEASURED_SENT_TIMES, MISMATCH_PERMILLE},
    plan::{Job, Name},
};

/// The job as it is planned.
pub(crate) fn as_planned(definition: &Arc<JobDefinition>, measured: Option<MeasuredProfile>) -> Arc<JobDefinition> {
    let Some(measured) = measured else { return Arc::clone(definition) };
    let job = definition.job.as_measured(measured);
    Arc::new(JobDefinition { job, ..(**definition).clone() })
}

/// Whether what was measured is another job than this one.
pub(crate) fn is_another(job: &JobProfile, measured: MeasuredProfile) -> bool {
    let within = plan::slot::share(job.period, MISMATCH_PERMILLE);
    let far = |measured: Nanos, planned: Nanos| measured.0.abs_diff(planned.0) > within.0;
    far(measured.iteration, job.period) || measured.sent.is_some_and(|sent| far(sent, Nanos(job.up())))
}

/// What was measured of a job as far as it can be believed; `None` where it was not measured alone.
pub(crate) fn believed(job: &Job, measured: MeasuredProfile) -> Option<MeasuredProfile> {
    let planned = &job.planned.job;
    let longest = planned.period.0.saturating_add(plan::slot::share(planned.period, MISMATCH_PERMILLE).0);
    let runs_alone = job.component.as_ref().and_then(|c| c.times(&job.name)).is_some_and(|(_, predicted)| predicted.0 <= longest);
    let sent = measured.sent.filter(|sent| sends_like(planned, *sent));
    (job.slot.turns && runs_alone).then_some(MeasuredProfile { sent, ..measured })
}

/// Whether a time from a job's starts to their ends can be what it sends. A job that asks for the whole of an iteration tells the time to
/// its last end, with what it computes between its Up phases, and before the first one where it asks that early; a gate around a call
/// that only begins to send tells next to nothing.
fn sends_like(job: &JobProfile, sent: Nanos) -> bool {
    let up = job.up();
    let asks_so = match (job.hold, job.only_up()) {
        (Hold::Phases, _) => true,
        (_, Some((start, end))) => sent.0.abs_diff(end.0 - start.0) <= sent.0.abs_diff(end.0),
        (_, None) => false,
    };
    asks_so && sent.0 >= up / MEASURED_SENT_TIMES && sent.0 <= up.saturating_mul(MEASURED_SENT_TIMES)
}

/// Scales all jobs by one factor if their ratios agree within [`COMMON_PERMILLE`]. Equal jobs then stay equal.
pub(crate) fn in_common_ratio(jobs: &mut [(Name, Nanos, MeasuredProfile)]) {
    let permille = |planned: Nanos, measured: Nanos| {
        let value = (u128::from(measured.0) * 1_000 + u128::from(planned.0) / 2) / u128::from(planned.0.max(1));
        u64::try_from(value).unwrap_or(u64::MAX)
    };
    let ratios: Vec<u64> = jobs.iter().map(|(_, planned, measured)| permille(*planned, measured.iteration)).collect();
    let (Some(&least), Some(&most)) = (ratios.iter().min(), ratios.iter().max()) else { return };
    let common = (most - least <= COMMON_PERMILLE).then_some(least + (most - least) / 2);
    for ((_, planned, measured), own) in jobs.iter_mut().zip(ratios) {
        let iteration = u128::from(planned.0) * u128::from(common.unwrap_or(own)) / 1_000;
        measured.iteration = Nanos(u64::try_from(iteration).unwrap_or(u64::MAX));
    }
}

/// Ratios that differ by no more than this, in thousandths, are one: windows are trusted that differ by as much.
const COMMON_PERMILLE: u64 = 20;

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn ratio(jobs: &[(u64, u64)]) -> Vec<u64> {
        let one =
            |&(planned, iteration): &(u64, u64)| ("j".into(), Nanos(planned), MeasuredProfile { iteration: Nanos(iteration), sent: None });
        let mut jobs: Vec<_> = jobs.iter().map(one).collect();
        in_common_ratio(&mut jobs);
        jobs.iter().map(|(_, _, measured)| measured.iteration.0).collect()
    }

    #[test]
    fn jobs_that_are_wrong_alike_keep_the_ratio_of_their_periods() {
        // 1.329, 1.345 and 1.34: all 1.337.
        assert_eq!(ratio(&[(100_000, 132_900), (200_000, 269_000), (100_000, 134_000)]), [133_700, 267_400, 133_700]);
        assert_eq!(ratio(&[(100_000, 132_900), (100_000, 150_000)]), [132_900, 150_000]);
        assert_eq!(ratio(&[]), vec![0u64; 0]);
        assert_eq!(ratio(&[(u64::MAX, u64::MAX), (1, u64::MAX)]).len(), 2);
    }
}
