//! The same experiment in virtual time: the simulator runs the service and the gates as they are, on a fluid fabric.
//!
//! Virtual time needs neither root nor Linux, and takes milliseconds. The model leaves out what a kernel adds: slow start, queues that
//! take turns, processes that wait for a core (docs/limits.md).

use std::{collections::BTreeMap, sync::Arc};

use anyhow::{Context, Result};
use job::Collective;
use sim::{Comparison, Config, Control as SimControl, EcnModel, ServiceControl, SimJob, Step, Transfer, Transport, TurnsControl, Workload};
use units::Nanos;

use crate::{
    analysis::Spread,
    case::{Case, LabJob, LabPhase, Timing},
    control::GateTotals,
    hold::{Baseline, Baselines, Control, Hold},
    plan::{LinkPlan, Plan, plan},
    report::{Formula, JobRow, LinkRow, REPORT_SCHEMA, Report, Runs, UpRow},
};

/// Least spread of compute times in thousandths: 0.2 ms of 200, what sleeping processes on an unloaded machine show.
const JITTER_PERMILLE_MIN: u32 = 1;

/// One repeat: the case held by what was asked for, and the baselines beside that.
struct Round {
    asked: Comparison,
    beside: Baselines<Comparison>,
}

/// Plays a case in virtual time, held by `hold`, and these baselines in runs of their own. Repeats differ in their seed.
///
/// # Errors
/// What the planner or the simulator refuses.
pub fn run(case: &Case, repeats: u32, iterations: u32, (hold, beside): (Hold, &[Baseline])) -> Result<Report> {
    let calibrated: Vec<_> = case.jobs.iter().map(calibrated).collect();
    let plan = plan(case, &calibrated)?;
    let router = case.router()?;
    let jobs: Vec<SimJob> = case.jobs.iter().map(sim_job).collect();
    let played = sim::Case { router: &router, jobs: &jobs };
    let compare = |seed: u64, control: SimControl, transport: Transport| -> Result<Comparison> {
        let config = Config {
            seed,
            iterations: u64::from(iterations),
            jitter_permille: jitter_permille(case),
            ecn: EcnModel::LAB,
            control,
            transport,
            ..Config::default()
        };
        Ok(sim::compare(&played, &config)?)
    };
    let baseline = |seed: u64, baseline: Baseline| match baseline {
        Baseline::Drift => compare(seed, drift(&played)?, Transport::Fair),
        Baseline::Mltcp => compare(seed, SimControl::Free, Transport::Mltcp),
        Baseline::Slots => compare(seed, control(case, &played, Hold::Slots)?, Transport::Fair),
    };
    let rounds = (1..=u64::from(repeats)).map(|seed| {
        let asked = compare(seed, control(case, &played, hold)?, Transport::Fair)?;
        Ok(Round { asked, beside: Baselines::try_of(beside, |b| baseline(seed, b))? })
    });
    let rounds: Vec<Round> = rounds.collect::<Result<_>>()?;
    let last = rounds.last().context("no round was played")?;
    Ok(Report {
        schema: REPORT_SCHEMA.into(),
        case: case.name.clone(),
        about: case.about.clone(),
        control: Control::Service,
        held_by: hold,
        torch: None,
        backend: None,
        repeats,
        load: None,
        score: plan.score,
        zero_shift_score: plan.zero_shift_score,
        jobs: (0..case.jobs.len()).map(|job| job_row(case, (&plan, hold), &rounds, job)).collect(),
        links: last.asked.links.iter().enumerate().map(|(i, link)| link_row(case, &plan, &rounds, i, &link.name)).collect(),
    })
}

/// Who holds the jobs of a case in virtual time. The one place that turns what holds them into words of the simulator.
fn control(case: &Case, played: &sim::Case<'_>, hold: Hold) -> Result<SimControl> {
    let mut service = ServiceControl::default();
    // The service must route as the simulated fabric does, or it would plan for other links.
    service.config.ecmp = case.ecmp;
    Ok(match hold {
        Hold::Turns => SimControl::Turns(TurnsControl {
            groups: sim::planned_groups(played, &service.config)?,
            // As the lab's own ranks ask.
            per_phase: true,
            ..TurnsControl::default()
        }),
        Hold::Slots => {
            service.config.control = ::plan::Control::Slots;
            SimControl::Service(service)
        }
    })
}

/// The control of the paper: every job begins at its time-shift, whatever that is predicted to bring.
fn drift(played: &sim::Case<'_>) -> Result<SimControl> {
    Ok(SimControl::Drift(sim::direct_slots(played, &::plan::Options::default())?))
}

/// The third quartiles that a calibration on a kernel would see of a job alone.
fn calibrated(job: &LabJob) -> Timing {
    let Timing { period, ups } = job.nominal();
    Timing { period: Nanos(period.0.saturating_add(job.drawn(job.phases.len()).third_quartile.0)), ups }
}

/// Spread of Down phases in thousandths of their length, of the phase where it is largest: the simulator takes one for all.
fn jitter_permille(case: &Case) -> u32 {
    let of = |job: &LabJob, phase: &LabPhase| (job.drawn(1).deviation.0 as f64 / phase.compute.0.max(1) as f64 * 1e3).round() as u32;
    let all = case.jobs.iter().flat_map(|job| job.phases.iter().map(move |phase| of(job, phase)));
    // The simulator refuses a spread above `SIGMA_PERMILLE_MAX`, so a case with more is played with that.
    all.max().unwrap_or(0).clamp(JITTER_PERMILLE_MIN, sim::SIGMA_PERMILLE_MAX)
}

/// Up phases at the rate of the NIC, each with its Down phase after it; the profile may say something else.
fn sim_job(job: &LabJob) -> SimJob {
    let (planned, placement) = job.planned(&calibrated(job));
    let groups: Arc<[Vec<u32>]> = Arc::from([(0..placement.ranks.len() as u32).collect::<Vec<u32>>()]);
    let steps = job.phases.iter().zip(job.wire_times()).enumerate().flat_map(|(k, (phase, up))| {
        let transfer = Transfer { collective: Collective::Ring, groups: Arc::clone(&groups), rate: job.rate(k, up) };
        let compute = Nanos(phase.compute.0.saturating_add(job.drawn(1).mean.0));
        [Step { length: up, transfers: vec![transfer] }, Step { length: compute, transfers: Vec::new() }]
    });
    SimJob { job: planned, placement, workload: Workload { steps: steps.collect() }, begins: Nanos(0) }
}

fn spread(rounds: &[Round], of: impl Fn(&Comparison) -> f64) -> Spread {
    Spread::of(rounds.iter().map(|round| of(&round.asked)).collect())
}

/// The same of the baselines beside the other.
fn spread_beside(rounds: &[Round], of: impl Fn(&Comparison) -> f64) -> Baselines<Spread> {
    // All rounds are played alike, so the last one has every run.
    let played = rounds.last().map(|round| round.beside.map(|_, _| ())).unwrap_or_default();
    played.map(|baseline, ()| Spread::of(rounds.iter().filter_map(|round| Some(of(round.beside.get(baseline)?))).collect()))
}

fn gates(of: &Comparison, job: usize) -> GateTotals {
    let records = &of.interleaved.jobs[job].records;
    GateTotals {
        iterations: records.len() as u64,
        holds: records.iter().filter(|i| i.held() > Nanos(0)).count() as u64,
        slips: of.jobs[job].slips,
        fail_opens: of.jobs[job].fail_opens,
        reasons: BTreeMap::new(),
    }
}

fn job_row(case: &Case, (plan, hold): (&Plan, Hold), rounds: &[Round], job: usize) -> JobRow {
    let (spec, slot) = (&case.jobs[job], &plan.jobs[job]);
    // The same columns as on the kernel, so that one report type and one table serve both.
    let times = |of: fn(&sim::stats::Summary) -> f64| Runs {
        solo: spread(rounds, |r| of(&r.jobs[job].solo)),
        contended: spread(rounds, |r| of(&r.jobs[job].contended)),
        beside: spread_beside(rounds, |r| of(&r.jobs[job].interleaved)),
        held: spread(rounds, |r| of(&r.jobs[job].interleaved)),
    };
    let with_slots = rounds.iter().any(|r| r.beside.slots.is_some());
    let said = Formula::of(slot, hold, with_slots);
    JobRow {
        id: spec.id.clone(),
        up_ms: slot.solo.up().as_millis_f64(),
        ups: UpRow::of(spec, slot),
        period_ms: slot.period.as_millis_f64(),
        shift_ms: slot.shift.as_millis_f64(),
        slack_ms: slot.slack.as_millis_f64(),
        hold: slot.is_held(hold),
        mean_ms: times(|s| s.mean_ms()),
        median_ms: times(|s| s.p50.as_millis_f64()),
        p99_ms: times(|s| s.p99.as_millis_f64()),
        gain: spread(rounds, |r| 1.0 - r.jobs[job].interleaved.mean / r.jobs[job].contended.mean),
        overlap_contended: spread(rounds, |r| r.contended.jobs[job].overlap_share),
        overlap_beside: spread_beside(rounds, |r| r.interleaved.jobs[job].overlap_share),
        overlap_held: spread(rounds, |r| r.interleaved.jobs[job].overlap_share),
        formula_ms: Formula::over(&vec![said; rounds.len()]),
        gates: rounds.iter().map(|r| gates(&r.asked, job)).sum(),
        gates_slots: with_slots.then(|| rounds.iter().filter_map(|r| r.beside.slots.as_ref()).map(|r| gates(r, job)).sum()),
    }
}

fn link_row(case: &Case, plan: &Plan, rounds: &[Round], link: usize, name: &str) -> LinkRow {
    // The fabric and its jobs are the same in every repeat, so every repeat has every link.
    let pair = |of: fn(&sim::LinkRow) -> [f64; 2], which: usize| move |r: &Comparison| r.links.get(link).map_or(0.0, |row| of(row)[which]);
    let (marks, overlap) = (|r: &sim::LinkRow| r.marks_per_iteration, |r: &sim::LinkRow| r.overlap_share);
    let jobs: Vec<String> = rounds.last().and_then(|r| r.asked.links.get(link)).map_or_else(Vec::new, |r| r.jobs.clone());
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
        marks_per_iteration: Runs {
            // A job alone never exceeds a link: its NIC is slower.
            solo: Spread::of(vec![0.0; rounds.len()]),
            contended: spread(rounds, pair(marks, 0)),
            beside: spread_beside(rounds, pair(marks, 1)),
            held: spread(rounds, pair(marks, 1)),
        },
        carried_mbps_contended: None,
        carried_mbps_held: None,
        overlap_contended: spread(rounds, pair(overlap, 0)),
        overlap_beside: spread_beside(rounds, pair(overlap, 1)),
        overlap_held: spread(rounds, pair(overlap, 1)),
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
            let report = run(&case, 2, 60, (Hold::Slots, &[])).unwrap();
            for job in &report.jobs {
                let pairs = [
                    (job.mean_ms.solo.median, job.formula_ms.solo.median),
                    (job.mean_ms.contended.median, job.formula_ms.contended.median),
                    (job.mean_ms.held.median, job.formula_ms.held.median),
                ];
                for (seen, predicted) in pairs {
                    assert!((seen / predicted - 1.0).abs() < 0.05, "{name} {}: {seen} ms and not {predicted} ms", job.id);
                }
                if job.hold {
                    assert!(job.overlap_held.median < 0.1, "{name} {}: {:?}", job.id, job.overlap_held);
                    assert!(job.gain.median > 0.0, "{name} {}: {:?}", job.id, job.gain);
                }
            }
            for link in report.links.iter().filter(|l| l.shared && l.score > 1.0 - 1e-9) {
                let marks = &link.marks_per_iteration;
                assert!(marks.contended.median >= 10.0 * marks.held.median, "{name} {}: {marks:?}", link.link);
            }
        }
    }
}
