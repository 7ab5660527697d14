//! What was measured of a job against what it is planned with: the measured one wins.
//!
//! Turns need no profile to keep jobs apart, but whom to keep apart is predicted from one. A job that takes turns and is predicted to
//! run as if alone shows what it is: its iteration without its waits, and what it sends where it tells. Where that is another job than
//! the planned one, the job is planned anew.
//!
//! A job that runs free beside others, or is predicted to wait by turns, shows less. What it does not send is its own, whatever others do, and what it sends takes no longer
//! alone than at its shortest beside them. Where neither fits what is planned, the job is planned by what does ([`shown_beside_others`]): a
//! declared Up phase of twice the real one would else keep a job from the turns that would measure it.
//!
//! Only the plan's figures follow, never the end of turns: a prediction from a measurement may be wrong too, and of jobs without
//! turns less is known. Whether turns do what they should is for their own measurements to say (`turns/judge.rs`).

use alloc::{sync::Arc, vec::Vec};

use job::{Hold, Job as JobProfile, MeasuredProfile};
use units::Nanos;

use crate::{
    JobDefinition,
    config::{MEASURED_SENT_TIMES, MISMATCH_PERMILLE},
    plan::{Job, Name, Plan, Presence},
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

/// What was seen of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// By turns, with nobody in its way.
    ByTurns(MeasuredProfile),
    /// Beside others in its way: how long it sends at its shortest, and how long it does not.
    BesideOthers { up: Nanos, down: Nanos },
}

/// The job that was seen, where that can be believed and is another than the planned one.
pub(crate) fn another(plan: &Plan, job: &Job, seen: Seen) -> Option<MeasuredProfile> {
    let measured = match seen {
        Seen::ByTurns(measured) => believed(job, measured),
        // Turns say more where they are believed; and a job that meets nobody changes nobody's plan.
        Seen::BesideOthers { up, down } if !takes_turns_alone(job) && job.component.is_some() => {
            let is_full = |measured| is_full(plan, job, measured);
            shown_beside_others(&job.planned.job, job.definition.job.period, (up, down), is_full)
        }
        Seen::BesideOthers { .. } => None,
    };
    measured.filter(|measured| is_another(&job.planned.job, *measured))
}

/// Whether a link of the job has more to carry than it can, were the job this one: then it is not always alone while it sends.
fn is_full(plan: &Plan, job: &Job, measured: MeasuredProfile) -> bool {
    let carried = |presence: &Presence| {
        let other = plan.job(&presence.job).map_or((0, 0), |other| (other.planned.job.up(), other.planned.job.period.0));
        let (up, period) = if presence.job == job.name { (measured.sent.map_or(0, |up| up.0), measured.iteration.0) } else { other };
        u128::from(presence.peak) * u128::from(up) / u128::from(period.max(1))
    };
    let mut links = job.load.demands.links.iter().map(|(link, _)| *link);
    links.any(|link| plan.on(link).iter().map(carried).sum::<u128>() > u128::from(plan.capacity(link)))
}

/// The job that sends and does not send for so long beside others, if it is not the planned one. `declared` is its iteration alone as it
/// was declared, which people know best. `is_full`: whether a job would wait for links.
fn shown_beside_others(
    planned: &JobProfile,
    declared: Nanos,
    (up, down): (Nanos, Nanos),
    is_full: impl Fn(MeasuredProfile) -> bool,
) -> Option<MeasuredProfile> {
    // Of a job that asks for each Up phase nobody tells how long the whole is.
    if planned.hold == Hold::Phases || !sends_like(planned, up) {
        return None;
    }
    let within = plan::slot::share(planned.period, MISMATCH_PERMILLE).0;
    let sends = Nanos(planned.up());
    let profile = |up: Nanos| MeasuredProfile { iteration: Nanos(down.0.saturating_add(up.0)), sent: Some(up) };
    if down.0.abs_diff(planned.period.0.saturating_sub(sends.0)) <= within {
        // What is longer than planned is what others send.
        return (up.0.saturating_add(within) < sends.0).then(|| profile(up));
    }
    // An Up phase as planned is the job's own where nobody has to be in its way. Two of half the length, in step, seem as long.
    let as_planned = Some(profile(sends)).filter(|as_planned| up.0.abs_diff(sends.0) <= within && !is_full(*as_planned));
    let declared_rest = || {
        // Others can make the Up phase seem as long as it is now, not shorter.
        let rest = declared.0.checked_sub(down.0)?;
        (rest <= up.0.saturating_add(within) && rest >= up.0 / MEASURED_SENT_TIMES).then(|| profile(Nanos(rest)))
    };
    Some(as_planned.or_else(declared_rest).unwrap_or_else(|| profile(up.min(sends))))
}

/// What was measured of a job by turns as far as it can be believed; `None` where it was not measured alone.
fn believed(job: &Job, measured: MeasuredProfile) -> Option<MeasuredProfile> {
    let sent = measured.sent.filter(|sent| sends_like(&job.planned.job, *sent));
    takes_turns_alone(job).then_some(MeasuredProfile { sent, ..measured })
}

/// Whether a job takes turns in which it is predicted to run as if alone.
fn takes_turns_alone(job: &Job) -> bool {
    let planned = &job.planned.job;
    let longest = planned.period.0.saturating_add(plan::slot::share(planned.period, MISMATCH_PERMILLE).0);
    let runs_alone = job.component.as_ref().and_then(|c| c.times(&job.name)).is_some_and(|(_, predicted)| predicted.0 <= longest);
    job.slot.turns && runs_alone
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
    use alloc::{string::ToString, vec};

    use fabric::collective::Collective;
    use job::TrafficPhase;
    use units::Rate;

    use super::*;

    /// A job that sends for the first part of its period.
    fn sending(period: u64, up: u64) -> JobProfile {
        let phase =
            TrafficPhase { start: Nanos(0), end: Nanos(up), rate: Rate(10), collective: Collective::Ring, groups: vec![vec![0, 1]].into() };
        JobProfile { name: "j".to_string(), gpus: 2, period: Nanos(period), hold: Hold::Auto, phases: vec![phase] }
    }

    /// What a job of 250 that sends for 110 is taken for, with these declared, where it sends for so long beside others.
    fn free(declared: (u64, u64), seen: u64) -> Option<(u64, u64)> {
        let (period, up) = declared;
        // Beside an equal one: half of the time is sending at most.
        let is_full = |measured: MeasuredProfile| measured.sent.is_some_and(|up| 2 * up.0 > measured.iteration.0);
        let measured = shown_beside_others(&sending(period, up), Nanos(period), (Nanos(seen), Nanos(140)), is_full)?;
        Some((measured.iteration.0, measured.sent?.0))
    }

    #[test]
    fn a_job_that_runs_free_shows_its_down_phase_and_no_more_than_its_up_phase() {
        // Beside others the Up phase takes as long again, or a part of that.
        for seen in [105, 110, 160, 220] {
            assert_eq!(free((250, 110), seen), None, "{seen}");
        }
        // Up double and half: the declared period holds.
        for seen in [110, 160, 200, 220] {
            assert_eq!(free((250, 220), seen), Some((250, 110)), "{seen}");
            assert_eq!(free((250, 55), seen), Some((250, 110)), "{seen}");
        }
        // Another period: the Up phase is the declared one, as is seen where others do not lengthen it.
        assert_eq!(free((325, 110), 110), Some((250, 110)));
        assert_eq!(free((175, 110), 115), Some((250, 110)));
        // Both: what is seen, or what is declared where that is less.
        assert_eq!(free((500, 220), 112), Some((252, 112)));
        assert_eq!(free((100, 90), 130), Some((230, 90)));
        // A shorter Up phase and iteration.
        assert_eq!(free((300, 160), 120), Some((260, 120)));
        // No such job: a gate around a call that only begins to send.
        assert_eq!(free((250, 220), 10), None);
        assert_eq!(free((u64::MAX, u64::MAX), u64::MAX), None);
    }

    #[test]
    fn numbers_that_no_job_has_are_refused_or_taken_for_large_ones() {
        for (up, down) in [(0, 0), (u64::MAX, u64::MAX), (110, u64::MAX), (u64::MAX, 0), (110, 0)] {
            let seen = shown_beside_others(&sending(250, 110), Nanos(250), (Nanos(up), Nanos(down)), |_| up < down);
            assert!(seen.is_none_or(|m| m.sent.is_some_and(|sent| sent.0 > 0 && sent <= m.iteration)), "{up} {down}: {seen:?}");
        }
    }

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
