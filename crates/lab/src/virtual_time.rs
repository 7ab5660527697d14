//! The same experiment in virtual time: the simulator runs the service and the gates as they are, on a fluid fabric.
//!
//! Virtual time needs neither root nor Linux, and takes milliseconds. The model leaves out what a kernel adds: slow start, queues that
//! take turns, processes that wait for a core (docs/limits.md).

use std::sync::Arc;

use anyhow::{Context, Result};
use job::Collective;
use sim::{Comparison, Config, Control as SimControl, EcnModel, ServiceControl, SimJob, Step, Transfer, Workload};
use units::Nanos;

use crate::{
    analysis::Spread,
    case::{Case, LabJob, Timing},
    control::{Control, GateTotals},
    plan::{LinkPlan, Plan, plan},
    report::{JobRow, LinkRow, Prediction, REPORT_SCHEMA, Report, Three},
};

/// Least spread of compute times in thousandths: 0.2 ms of 200, what sleeping processes on an unloaded machine show.
const JITTER_PERMILLE_MIN: u32 = 1;

/// Plays a case in virtual time. Repeats differ in their seed.
///
/// # Errors
/// What the planner or the simulator refuses.
pub fn run(case: &Case, repeats: u32, iterations: u32) -> Result<Report> {
    let calibrated: Vec<_> = case.jobs.iter().map(calibrated).collect();
    let plan = plan(case, &calibrated)?;
    let router = case.router()?;
    let jobs: Vec<SimJob> = case.jobs.iter().map(sim_job).collect();
    let rounds = (1..=u64::from(repeats)).map(|seed| {
        let mut service = ServiceControl::default();
        // The service must route as the simulated fabric does, or it would plan for other links.
        service.config.ecmp = case.ecmp;
        let config = Config {
            seed,
            iterations: u64::from(iterations),
            jitter_permille: jitter_permille(case),
            ecn: EcnModel::LAB,
            control: SimControl::Service(service),
            ..Config::default()
        };
        Ok(sim::compare(&sim::Case { router: &router, jobs: &jobs }, &config)?)
    });
    let rounds: Vec<Comparison> = rounds.collect::<Result<_>>()?;
    let last = rounds.last().context("no round was played")?;
    Ok(Report {
        schema: REPORT_SCHEMA.into(),
        case: case.name.clone(),
        about: case.about.clone(),
        control: Control::Service,
        torch: None,
        repeats,
        load: None,
        score: plan.score,
        zero_shift_score: plan.zero_shift_score,
        jobs: (0..case.jobs.len()).map(|job| job_row(case, &plan, &rounds, job)).collect(),
        links: last.links.iter().enumerate().map(|(i, link)| link_row(case, &plan, &rounds, i, &link.name)).collect(),
    })
}

/// The third quartiles that a calibration on a kernel would see of a job alone.
fn calibrated(job: &LabJob) -> Timing {
    let Timing { period, up } = job.nominal();
    Timing { period: Nanos(period.0.saturating_add(job.drawn().third_quartile.0)), up }
}

/// Spread of Down phases in thousandths of their length, of the job where it is largest: the simulator takes one for all.
fn jitter_permille(case: &Case) -> u32 {
    let permille = |job: &LabJob| (job.drawn().deviation.0 as f64 / job.compute.0.max(1) as f64 * 1e3).round() as u32;
    // The simulator refuses a spread above `SIGMA_PERMILLE_MAX`, so a case with more is played with that.
    case.jobs.iter().map(permille).max().unwrap_or(0).clamp(JITTER_PERMILLE_MIN, sim::SIGMA_PERMILLE_MAX)
}

/// An Up phase at the rate of the NIC, then the Down phase.
fn sim_job(job: &LabJob) -> SimJob {
    let (timing, compute) = (job.nominal(), Nanos(job.compute.0.saturating_add(job.drawn().mean.0)));
    let (planned, placement) = job.planned(calibrated(job));
    let ranks = placement.ranks.len() as u32;
    let transfer =
        Transfer { collective: Collective::Ring, groups: Arc::from([(0..ranks).collect::<Vec<u32>>()]), rate: job.rate(timing.up) };
    let steps = vec![Step { length: timing.up, transfers: vec![transfer] }, Step { length: compute, transfers: Vec::new() }];
    SimJob { job: planned, placement, workload: Workload { steps }, begins: Nanos(0) }
}

fn three(rounds: &[Comparison], of: impl Fn(&Comparison) -> [f64; 3]) -> Three {
    let spread = |which: usize| Spread::of(rounds.iter().map(|r| of(r)[which]).collect());
    Three { solo: spread(0), contended: spread(1), interleaved: spread(2) }
}

fn job_row(case: &Case, plan: &Plan, rounds: &[Comparison], job: usize) -> JobRow {
    let slot = &plan.jobs[job];
    // The same columns as on the kernel, so that one report type and one table serve both.
    let times = |of: fn(&sim::stats::Summary) -> f64| {
        three(rounds, |r| [of(&r.jobs[job].solo), of(&r.jobs[job].contended), of(&r.jobs[job].interleaved)])
    };
    let spread = |of: &dyn Fn(&Comparison) -> f64| Spread::of(rounds.iter().map(of).collect());
    let sum = |of: &dyn Fn(&Comparison) -> u64| rounds.iter().map(of).sum();
    JobRow {
        id: case.jobs[job].id.clone(),
        up_ms: slot.solo.up.as_millis_f64(),
        period_ms: slot.period.as_millis_f64(),
        shift_ms: slot.shift.as_millis_f64(),
        slack_ms: slot.slack.as_millis_f64(),
        hold: slot.hold,
        mean_ms: times(|s| s.mean_ms()),
        median_ms: times(|s| s.p50.as_millis_f64()),
        p99_ms: times(|s| s.p99.as_millis_f64()),
        gain: spread(&|r| 1.0 - r.jobs[job].interleaved.mean / r.jobs[job].contended.mean),
        overlap_contended: spread(&|r| r.contended.jobs[job].overlap_share),
        overlap_interleaved: spread(&|r| r.interleaved.jobs[job].overlap_share),
        predicted: Prediction::of(slot),
        formula_ms: three(rounds, |_| {
            let said = Prediction::of(slot);
            [said.solo_ms, said.contended_ms, said.interleaved_ms]
        }),
        gates: GateTotals {
            iterations: sum(&|r| r.interleaved.jobs[job].records.len() as u64),
            holds: sum(&|r| r.interleaved.jobs[job].records.iter().filter(|i| i.held() > Nanos(0)).count() as u64),
            slips: sum(&|r| r.jobs[job].slips),
            fail_opens: sum(&|r| r.jobs[job].fail_opens),
        },
    }
}

fn link_row(case: &Case, plan: &Plan, rounds: &[Comparison], link: usize, name: &str) -> LinkRow {
    let row = |r: &Comparison| r.links.get(link).cloned();
    let pair =
        |of: fn(&sim::LinkRow) -> [f64; 2], which: usize| Spread::of(rounds.iter().filter_map(|r| Some(of(&row(r)?)[which])).collect());
    let jobs: Vec<String> = rounds.last().and_then(row).map_or_else(Vec::new, |r| r.jobs);
    let capacity = case.fabric.links().iter().enumerate().find_map(|(i, l)| {
        let id = units::LinkId::from_index(i)?;
        (case.fabric.link_name(id) == name).then_some(l.capacity)?
    });
    let planned = plan.links.iter().find(|l| l.name == name);
    let position = |id: &String| case.jobs.iter().position(|j| j.id == *id);
    let demand = |l: &LinkPlan| jobs.iter().map(|id| position(id).map_or(0, |job| l.demand_mbps(job))).collect();
    LinkRow {
        link: name.to_owned(),
        capacity_mbps: capacity.map_or(0, units::Rate::mbps),
        shared: jobs.len() > 1,
        score: planned.map_or(1.0, |l| l.score),
        zero_shift_score: planned.map(|l| l.zero_shift_score),
        demand_mbps: planned.map_or_else(Vec::new, demand),
        jobs,
        marks_per_iteration: Three {
            // A job alone never exceeds a link: its NIC is slower.
            solo: Spread::of(vec![0.0; rounds.len()]),
            contended: pair(|r| r.marks_per_iteration, 0),
            interleaved: pair(|r| r.marks_per_iteration, 1),
        },
        carried_mbps_contended: None,
        carried_mbps_interleaved: None,
        overlap_contended: pair(|r| r.overlap_share, 0),
        overlap_interleaved: pair(|r| r.overlap_share, 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{BUILTIN, builtin};

    /// Every case that comes with the program: virtual time agrees with the formula within 5 %, and shows what the case promises.
    #[test]
    fn virtual_time_agrees_with_the_formula() {
        for (name, _) in BUILTIN {
            let case = Case::read(builtin(name).unwrap(), &|_| Err("no files".into())).unwrap();
            let report = run(&case, 2, 60).unwrap();
            for job in &report.jobs {
                let pairs = [
                    (job.mean_ms.solo.median, job.predicted.solo_ms),
                    (job.mean_ms.contended.median, job.predicted.contended_ms),
                    (job.mean_ms.interleaved.median, job.predicted.interleaved_ms),
                ];
                for (seen, predicted) in pairs {
                    assert!((seen / predicted - 1.0).abs() < 0.05, "{name} {}: {seen} ms and not {predicted} ms", job.id);
                }
                if job.hold {
                    assert!(job.overlap_interleaved.median < 0.1, "{name} {}: {:?}", job.id, job.overlap_interleaved);
                    assert!(job.gain.median > 0.0, "{name} {}: {:?}", job.id, job.gain);
                }
            }
            for link in report.links.iter().filter(|l| l.shared && l.score > 1.0 - 1e-9) {
                let marks = &link.marks_per_iteration;
                assert!(marks.contended.median >= 10.0 * marks.interleaved.median, "{name} {}: {marks:?}", link.link);
            }
        }
    }
}
