//! From a case and what its jobs were seen to take alone: periods, shifts and predictions. Pure.
//!
//! Solo iterations are measured; a case's own numbers only say how the periods relate. Each job's third quartile of solo
//! iterations is compared with its own numbers, the worst factor stretches all periods alike, so that 1 : 2 stays exactly 1 : 2,
//! and the headroom is added. Up phases keep their measured length; the added time is Down.

use anyhow::{Context, Result};
use job::{Candidate, Job, Placement};
use plan::{Cluster, Control, Evaluation, JobReport, Options, Outcome, slot::HEADROOM_PERMILLE};
use units::Nanos;

use crate::{
    case::{Case, Timing},
    hold::Hold,
};

/// Periods are whole microseconds.
const PERIOD_GRAIN: u64 = 1_000;

/// A job as a planner takes it.
type Planned = (Job, Placement);

/// The slots of a case.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Per job, in the order of the case.
    pub jobs: Vec<JobPlan>,
    /// Mean compatibility score of the shifts.
    pub score: f64,
    /// The same without shifts.
    pub zero_shift_score: f64,
    /// The links with two or more jobs that can be over capacity.
    pub links: Vec<LinkPlan>,
}

/// One link that can be over capacity.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkPlan {
    /// Its name.
    pub name: String,
    /// Compatibility score of the shifts.
    pub score: f64,
    /// The same without shifts.
    pub zero_shift_score: f64,
    /// Per job on it, by its position in the case: what its Up phase wants of this link, in Mbit/s.
    pub demands: Vec<(usize, u64)>,
}

impl LinkPlan {
    /// What the job at `position` of the case wants of this link, in Mbit/s; 0 where it is not on it.
    #[must_use]
    pub fn demand_mbps(&self, position: usize) -> u64 {
        self.demands.iter().find(|(job, _)| *job == position).map_or(0, |(_, mbps)| *mbps)
    }
}

/// The slot of one job, and its predicted iterations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobPlan {
    /// Solo iteration, stretched so that all periods keep their ratio; Up phases as measured.
    pub solo: Timing,
    /// Published period: the solo period, or what is declared in its place, and the headroom.
    pub period: Nanos,
    /// When its iterations start, modulo the period.
    pub shift: Nanos,
    /// How far it may drift before a score falls.
    pub slack: Nanos,
    /// How late it may be and still start at once.
    pub tolerance: Nanos,
    /// Whether it is held to its slots, where slots hold jobs.
    pub hold: bool,
    /// Whether it takes turns with others, where turns hold jobs.
    pub turns: bool,
    /// Period and time-shift without headroom, which the paper's control starts from.
    pub drift: (Nanos, Nanos),
    /// Predicted mean iteration beside the others, nobody held.
    pub contended: Nanos,
    /// Predicted mean iteration when those are held to slots that gain by it, if all profiles are true.
    pub by_slots: Nanos,
    /// The same when those take turns that gain by it, and ask once an iteration.
    pub by_turns: Nanos,
}

impl JobPlan {
    /// Predicted mean iteration when the jobs are held.
    #[must_use]
    pub fn predicted(&self, by: Hold) -> Nanos {
        match by {
            Hold::Turns => self.by_turns,
            Hold::Slots => self.by_slots,
        }
    }

    /// Whether the job is held.
    #[must_use]
    pub fn is_held(&self, by: Hold) -> bool {
        match by {
            Hold::Turns => self.turns,
            Hold::Slots => self.hold,
        }
    }
}

/// Makes the plan from the measured times of each job, in the order of the case.
///
/// # Errors
/// What the planner refuses: a job or a link out of its range.
pub fn plan(case: &Case, measured: &[Timing]) -> Result<Plan> {
    let solo = in_ratio(case, measured);
    // The headroom is the service's default, so that `direct` plans as `service` does.
    let options = Options { headroom_permille: HEADROOM_PERMILLE, ..Options::default() };
    let said: Vec<Planned> = case.jobs.iter().zip(&solo).map(|(job, timing)| job.planned(timing)).collect();
    let is: Vec<Planned> = case.jobs.iter().zip(&solo).map(|(job, timing)| job.played(timing)).collect();
    // Slots are made from what is declared; how long jobs take as they come depends on what they do.
    let truth = if is == said { None } else { Some(evaluate(case, &is, &options)?.0) };
    let (reports, evaluation) = evaluate(case, &said, &options)?;
    let (turns, _) = evaluate(case, &said, &Options { control: Control::Turns, ..options })?;
    let (bare, _) = evaluate(case, &said, &Options { headroom_permille: 0, ..options })?;
    let scores = evaluation.scores.context("the planner solved it and gave no scores")?;
    let job = |(position, timing): (usize, &Timing)| {
        // The planner reports every job of the case, in its order.
        let (report, by_turns) = (&reports[position], &turns[position]);
        let slot = report.slot(options.tolerance_permille);
        let bare = bare[position].slot(options.tolerance_permille);
        let free = truth.as_ref().map_or(report, |truth| &truth[position]);
        let contended = free.times.map_or(timing.period, |t| t.contended);
        JobPlan {
            solo: timing.clone(),
            period: slot.period,
            shift: slot.offset,
            slack: slot.slack,
            tolerance: slot.tolerance,
            hold: report.hold,
            turns: by_turns.turns,
            drift: (bare.period, bare.offset),
            contended,
            // A job that is not held runs as it comes, also among others that are. Where the planner predicts nothing, the iteration
            // is taken to be as long as the period.
            by_slots: if report.hold { report.interleaved.unwrap_or(slot.period) } else { contended },
            by_turns: if by_turns.turns { by_turns.interleaved.unwrap_or(contended) } else { contended },
        }
    };
    let jobs = solo.iter().enumerate().map(job).collect();
    let links = evaluation.links().filter(|l| l.jobs.len() > 1).flat_map(|l| link_plans(case, &l)).collect();
    Ok(Plan { jobs, score: scores.score, zero_shift_score: scores.zero_shift_score, links })
}

/// The links of one row of the planner's report: those that carry the same demands.
fn link_plans(case: &Case, row: &plan::LinkReport<'_>) -> Vec<LinkPlan> {
    let pairs = row.jobs.iter().zip(row.demands);
    let demands: Vec<(usize, u64)> = pairs.map(|(job, phases)| (job.index(), phases.iter().map(|p| p.rate.0).max().unwrap_or(0))).collect();
    let link = |&id| LinkPlan {
        name: case.fabric.link_name(id),
        score: row.score,
        zero_shift_score: row.zero_shift_score,
        demands: demands.clone(),
    };
    row.links.iter().map(link).collect()
}

/// Stretches the case's own periods by the worst factor seen.
fn in_ratio(case: &Case, measured: &[Timing]) -> Vec<Timing> {
    let factor = |(job, seen): (&crate::case::LabJob, &Timing)| {
        // Factors are in millionths and rounded up: a period too short would make every iteration of its job late.
        (u128::from(seen.period.0) * 1_000_000).div_ceil(u128::from(job.nominal().period.0.max(1)))
    };
    let worst = case.jobs.iter().zip(measured).map(factor).max().unwrap_or(1_000_000);
    let shortest = case.jobs.iter().map(|j| j.nominal().period.0.max(1)).min().unwrap_or(1);
    // The shortest period becomes a whole number of grains, so its multiples are whole as well.
    let base = (u128::from(shortest) * worst).div_ceil(1_000_000).div_ceil(u128::from(PERIOD_GRAIN)) * u128::from(PERIOD_GRAIN);
    let stretch = |(job, seen): (&crate::case::LabJob, &Timing)| {
        // Through the shortest period, so that whole multiples of it stay whole after rounding.
        let period = (u128::from(job.nominal().period.0) * base + u128::from(shortest) / 2) / u128::from(shortest);
        let period = u64::try_from(period).unwrap_or(u64::MAX);
        let ups = seen.ups.iter().map(|up| Nanos(up.0.min(period))).collect();
        Timing { period: Nanos((period + PERIOD_GRAIN / 2) / PERIOD_GRAIN * PERIOD_GRAIN), ups }
    };
    case.jobs.iter().zip(measured).map(stretch).collect()
}

fn evaluate(case: &Case, planned: &[Planned], options: &Options) -> Result<(Vec<JobReport>, Evaluation)> {
    let router = case.router()?;
    let (jobs, placements): (Vec<_>, Vec<_>) = planned.iter().cloned().unzip();
    let cluster = Cluster { fabric: &case.fabric, router: &router, jobs: &jobs, placements: &placements };
    let evaluation = plan::evaluate(&cluster, &Candidate { id: "lab".into(), placements: Vec::new() }, options)?;
    match &evaluation.outcome {
        Outcome::Solved => Ok((evaluation.jobs(&cluster), evaluation)),
        other => anyhow::bail!("the planner could not solve it: {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{BUILTIN, builtin};

    fn case(name: &str) -> Case {
        Case::read(builtin(name).unwrap(), &|_| Err("no files".into())).unwrap()
    }

    /// Every case shows what its author says, by its own numbers.
    #[test]
    fn cases_score_what_they_expect() {
        for (name, _) in BUILTIN {
            let case = case(name);
            let nominal: Vec<Timing> = case.jobs.iter().map(|j| j.nominal()).collect();
            let plan = plan(&case, &nominal).unwrap();
            let expected = case.expect.score.unwrap();
            assert!((plan.score - expected).abs() < 0.03, "{name}: score {} and not {expected}", plan.score);
            let helps = case.expect.helps(true).unwrap();
            assert_eq!(plan.jobs.iter().all(|j| j.hold), helps, "{name}: {:?}", plan.jobs);
            // The planner predicts turns as they are where jobs ask once an iteration.
            if case.jobs.iter().all(|job| job.phases.len() == 1) {
                assert_eq!(plan.jobs.iter().all(|j| j.turns), case.expect.helps(false).unwrap(), "{name}: {:?}", plan.jobs);
            }
            if helps {
                for job in &plan.jobs {
                    assert_eq!(job.by_slots, job.period, "{name}: held jobs keep their period");
                    assert!(!job.turns || job.by_turns < job.by_slots, "{name}: turns have no headroom: {job:?}");
                    assert!(job.contended > job.period, "{name}: {job:?}");
                }
            }
        }
    }

    /// One job was seen 3 % slow, the other 1 %: both periods are stretched by 3 % and stay 1 : 2.
    #[test]
    fn periods_keep_their_ratio_when_one_job_was_slow() {
        let case = case("one-to-two");
        let mut seen: Vec<Timing> = case.jobs.iter().map(|j| j.nominal()).collect();
        seen[0].period = Nanos(seen[0].period.0 * 103 / 100);
        seen[1].period = Nanos(seen[1].period.0 * 101 / 100);
        let plan = plan(&case, &seen).unwrap();
        assert_eq!(plan.jobs[1].period.0, 2 * plan.jobs[0].period.0);
        let nominal = case.jobs[0].nominal().period.0;
        assert!((nominal * 1_081 / 1_000..nominal * 1_083 / 1_000).contains(&plan.jobs[0].period.0), "1.03 * 1.05 = 1.0815");
    }
}
