//! The experiment: every job alone, all together as they come, all together held; several times over.

use std::{fs, path::PathBuf};

use anyhow::{Context, Result};
use sim::stats::{Summary, marks_per_iteration};
use units::LinkId;

use crate::{
    analysis::{self, Spread},
    case::Timing,
    control::{self, By, GateTotals},
    hold::{Baseline, Baselines, Control, Hold},
    interrupt::Interrupt,
    mltcp::Mltcp,
    network::Lab,
    plan::{Plan, plan},
    report::{Formula, JobRow, LinkRow, REPORT_SCHEMA, Report, Runs, UpRow},
    traffic::{Lengths, Take, play},
    trainer::Starter,
};

/// Iterations of the slowest job that are not measured when it is alone or held: slow start, and the gates' way to their slots.
pub(crate) const WARM_UP_ITERATIONS: u32 = 4;
/// The same where all run as they come: what the fluid model leaves out too.
const WARM_UP_CONTENDED: u64 = fluid::WARM_UP_ITERATIONS as u64;
/// Room for iterations that the others stretch, in percent of the case's own period.
const STRETCH_PERCENT: u64 = 140;

/// Iterations of a job alone that its profile is made from where nothing else is measured: a few show the third quartile, and somebody waits.
pub(crate) const SOLO_ITERATIONS: u32 = 6;

/// How much to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How often the whole experiment is done.
    pub repeats: u32,
    /// About how many iterations of the slowest job each take measures.
    pub iterations: u32,
    /// The same of the take in which all run as they come. Three jobs need about 60: they fall out of step and come back.
    pub contended: u32,
    /// How many of the held take come before.
    pub warm_up: u32,
    /// Who holds the jobs.
    pub control: Control,
    /// What they are held by.
    pub hold: Hold,
    /// What is played beside that.
    pub beside: Vec<Baseline>,
    /// Folder of the programs of the service; by default that of this program.
    pub programs: Option<PathBuf>,
}

/// One round of the experiment.
struct Round {
    solo: Vec<Take>,
    contended: Take,
    beside: Baselines<Played>,
    /// The plan by which jobs were held in `held`.
    plan: Plan,
    held: Played,
}

/// A run with all jobs, and what their gates did, where they passed any.
struct Played {
    take: Take,
    gates: Vec<GateTotals>,
}

/// What a row of the report is made from: a number of each run, where it was played.
struct OfRuns<T> {
    solo: T,
    contended: T,
    beside: Baselines<T>,
    held: T,
}

impl<T> OfRuns<T> {
    fn runs(&self, of: impl Fn(&T) -> Spread) -> Runs {
        Runs { solo: of(&self.solo), contended: of(&self.contended), beside: self.beside.map(|_, t| of(t)), held: of(&self.held) }
    }
}

/// Does the experiment. `progress` is told what is being played.
///
/// # Errors
/// A rank fails, a take has too few iterations, or somebody interrupts.
pub fn run(lab: &Lab, starter: &Starter, options: &Options, interrupt: &Interrupt, progress: &mut dyn FnMut(&str)) -> Result<Report> {
    let load_before = load();
    let mut rounds = Vec::new();
    for repeat in 1..=options.repeats {
        rounds.push(round(lab, starter, options, interrupt, &mut |what| progress(&format!("{repeat}/{}: {what}", options.repeats)))?);
    }
    report(lab, starter, options, &rounds, [load_before, load()])
}

fn round(lab: &Lab, starter: &Starter, options: &Options, interrupt: &Interrupt, progress: &mut dyn FnMut(&str)) -> Result<Round> {
    let jobs: Vec<usize> = (0..lab.case.jobs.len()).collect();
    let (solo, measured): (Vec<Take>, Vec<Timing>) = alone(lab, starter, options.iterations, interrupt, progress)?.into_iter().unzip();
    // Each round plans anew from its own solo times, so that the spread over rounds holds the spread of calibrations.
    let plan = plan(&lab.case, &measured)?;
    progress("all together, as they come");
    let free = lengths(lab, &jobs, WARM_UP_CONTENDED, options.contended);
    let contended = play(lab, starter, &jobs, free, By::Nothing, interrupt)?;
    let beside = Baselines::try_of(&options.beside, |baseline| -> Result<Played> {
        progress(&format!("all together, {}", baseline.about()));
        let take = |by| Ok(Played { take: play(lab, starter, &jobs, free, by, interrupt)?, gates: Vec::new() });
        match baseline {
            Baseline::Drift => take(By::Drift(&plan)),
            Baseline::Mltcp => take(By::Congestion(Mltcp::register(&lab.record().folder())?.name())),
            Baseline::Slots => held(lab, starter, options, (&mut plan.clone(), Hold::Slots), interrupt),
        }
    })?;
    progress(match options.hold {
        Hold::Turns => "all together, held by turns",
        Hold::Slots => "all together, held to their slots",
    });
    let mut plan = plan;
    let held = held(lab, starter, options, (&mut plan, options.hold), interrupt)?;
    Ok(Round { solo, contended, beside, plan, held })
}

/// Plays all jobs held; with a service, the plan becomes the service's.
fn held(lab: &Lab, starter: &Starter, options: &Options, (plan, hold): (&mut Plan, Hold), interrupt: &Interrupt) -> Result<Played> {
    let jobs: Vec<usize> = (0..lab.case.jobs.len()).collect();
    // The session lives until the end of this function: pages must stay fresh until the last rank has stopped.
    let session = control::start(lab, plan, options.control, hold, options.programs.as_deref())?;
    let lengths = lengths(lab, &jobs, u64::from(options.warm_up), options.iterations);
    let take = play(lab, starter, &jobs, lengths, By::Gates(session.gates()), interrupt)?;
    // Totals are read before the session goes, because the gates' files belong to its folder.
    Ok(Played { take, gates: session.totals() })
}

/// Plays every job alone and returns what was seen and what to plan with, in the order of the case.
pub(crate) fn alone(
    lab: &Lab,
    starter: &Starter,
    iterations: u32,
    interrupt: &Interrupt,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<(Take, Timing)>> {
    let mut seen = Vec::new();
    for (job, spec) in lab.case.jobs.iter().enumerate() {
        progress(&format!("{} alone", spec.id));
        // The gates stay out of solo takes: a plan is made from these times, so no plan can exist yet.
        let take = play(lab, starter, &[job], lengths(lab, &[job], u64::from(WARM_UP_ITERATIONS), iterations), By::Nothing, interrupt)?;
        let few = || format!("job {:?} alone made fewer than {} iterations", spec.id, analysis::ITERATIONS_MIN);
        let timing = analysis::calibrate(&take, job).with_context(few)?;
        seen.push((take, timing));
    }
    Ok(seen)
}

fn lengths(lab: &Lab, jobs: &[usize], warm_up: u64, iterations: u32) -> Lengths {
    let slowest = jobs.iter().map(|&j| lab.case.jobs[j].longest().0).max().unwrap_or(0);
    // A take is measured in time and not in iterations, so the length allows for iterations that the others stretch.
    let stretched = slowest / 100 * STRETCH_PERCENT;
    Lengths { warm_up: stretched * warm_up, measured: stretched * u64::from(iterations) }
}

fn report(lab: &Lab, starter: &Starter, options: &Options, rounds: &[Round], load: [f64; 2]) -> Result<Report> {
    let last = rounds.last().context("no round was played")?;
    let jobs: Result<Vec<JobRow>> = (0..lab.case.jobs.len()).map(|job| job_row(lab, options, (rounds, last), job)).collect();
    Ok(Report {
        schema: REPORT_SCHEMA.into(),
        case: lab.case.name.clone(),
        about: lab.case.about.clone(),
        control: options.control,
        held_by: options.hold,
        torch: starter.torch().map(str::to_owned),
        backend: starter.backend().map(str::to_owned),
        repeats: options.repeats,
        load: Some(load),
        score: last.plan.score,
        zero_shift_score: last.plan.zero_shift_score,
        jobs: jobs?,
        links: lab.wiring.crossings.iter().map(|(link, jobs)| link_row(lab, rounds, *link, jobs)).collect(),
    })
}

fn job_row(lab: &Lab, options: &Options, (rounds, last): (&[Round], &Round), job: usize) -> Result<JobRow> {
    let spec = &lab.case.jobs[job];
    let (id, others) = (spec.id.clone(), &lab.wiring.meets()[job]);
    let times = |of: &dyn Fn(&Round) -> Option<&Take>| -> Result<Vec<Summary>> {
        let few = || format!("job {id:?} made fewer than {} iterations; ask for more with --iterations", analysis::ITERATIONS_MIN);
        rounds.iter().filter_map(of).map(|take| analysis::times(take, job).with_context(few)).collect()
    };
    let seen = OfRuns {
        solo: times(&|r| r.solo.get(job))?,
        contended: times(&|r| Some(&r.contended))?,
        beside: Baselines::try_of(&options.beside, |baseline| times(&|r| Some(&r.beside.get(baseline)?.take)))?,
        held: times(&|r| Some(&r.held.take))?,
    };
    let runs = |value: fn(&Summary) -> f64| seen.runs(|times: &Vec<Summary>| Spread::of(times.iter().map(value).collect()));
    let overlap = |of: &dyn Fn(&Round) -> Option<&Take>| {
        let shares: Vec<f64> = rounds.iter().filter_map(of).map(|take| analysis::overlap(take, job, others)).collect();
        Spread::of(shares)
    };
    // Gains are formed per round, so that a slow machine in one round slows both sides of one quotient.
    let gains = seen.contended.iter().zip(&seen.held).map(|(before, after)| 1.0 - after.mean / before.mean);
    let plan = &last.plan.jobs[job];
    let said = |r: &Round| Formula::of(&r.plan.jobs[job], options.hold, r.beside.slots.is_some());
    let gates = |of: &dyn Fn(&Round) -> Option<&Played>| rounds.iter().filter_map(of).filter_map(|h| h.gates.get(job)).cloned().sum();
    Ok(JobRow {
        up_ms: plan.solo.up().as_millis_f64(),
        ups: UpRow::of(spec, plan),
        period_ms: plan.period.as_millis_f64(),
        shift_ms: plan.shift.as_millis_f64(),
        slack_ms: plan.slack.as_millis_f64(),
        hold: plan.is_held(options.hold),
        mean_ms: runs(Summary::mean_ms),
        median_ms: runs(|t| t.p50.as_millis_f64()),
        p99_ms: runs(|t| t.p99.as_millis_f64()),
        gain: Spread::of(gains.collect()),
        overlap_contended: overlap(&|r| Some(&r.contended)),
        overlap_beside: last.beside.map(|baseline, _| overlap(&|r| Some(&r.beside.get(baseline)?.take))),
        overlap_held: overlap(&|r| Some(&r.held.take)),
        formula_ms: Formula::over(&rounds.iter().map(said).collect::<Vec<_>>()),
        gates: gates(&|r| Some(&r.held)),
        gates_slots: last.beside.slots.is_some().then(|| gates(&|r| r.beside.slots.as_ref())),
        id,
    })
}

fn link_row(lab: &Lab, rounds: &[Round], link: LinkId, jobs: &[usize]) -> LinkRow {
    let name = lab.case.fabric.link_name(link);
    // All rounds are played alike, so the last one has every run.
    let beside = rounds.last().map(|r| r.beside.map(|_, _| ())).unwrap_or_default();
    let marks = |of: &dyn Fn(&Round) -> Vec<&Take>| {
        let per_iteration = |round: &Round| {
            let takes = of(round);
            // Solo takes of all jobs count together here, because a link is marked by each of its jobs in a take of its own.
            let marks: u64 = takes.iter().filter_map(|t| t.marks.get(&link)).sum();
            let iterations: usize = takes.iter().map(|t| analysis::iterations(t, jobs)).sum();
            marks_per_iteration(marks as f64, iterations as u64)
        };
        Spread::of(rounds.iter().map(per_iteration).collect())
    };
    let shared = |of: &dyn Fn(&Round) -> Option<&Take>| {
        Spread::of(rounds.iter().filter_map(of).map(|take| analysis::link_use(take, jobs).overlap_share()).collect())
    };
    let carried = |of: &dyn Fn(&Round) -> &Take| {
        // Bytes per nanosecond times 8,000 are Mbit/s.
        let mbps =
            |take: &Take| take.bytes.get(&link).map_or(0.0, |&bytes| bytes as f64 * 8e3 / (take.window.until - take.window.from) as f64);
        Spread::of(rounds.iter().map(|r| mbps(of(r))).collect())
    };
    let plan = rounds.last().and_then(|r| r.plan.links.iter().find(|l| l.name == name));
    LinkRow {
        capacity_mbps: lab.case.fabric.link(link).capacity.map_or(0, units::Rate::mbps),
        jobs: jobs.iter().map(|&j| lab.case.jobs[j].id.clone()).collect(),
        // A link that its jobs together cannot fill has no score of its own: nothing on it depends on shifts.
        score: plan.map_or(1.0, |l| l.score),
        zero_shift_score: plan.map(|l| l.zero_shift_score),
        demand_mbps: plan.map_or_else(Vec::new, |l| jobs.iter().map(|&j| l.demand_mbps(j)).collect()),
        shared: jobs.len() > 1,
        marks_per_iteration: Runs {
            solo: marks(&|r| jobs.iter().map(|&j| &r.solo[j]).collect()),
            contended: marks(&|r| vec![&r.contended]),
            beside: beside.map(|baseline, ()| marks(&|r| r.beside.get(baseline).map(|played| &played.take).into_iter().collect())),
            held: marks(&|r| vec![&r.held.take]),
        },
        carried_mbps_contended: Some(carried(&|r| &r.contended)),
        carried_mbps_held: Some(carried(&|r| &r.held.take)),
        overlap_contended: shared(&|r| Some(&r.contended)),
        overlap_beside: beside.map(|baseline, ()| shared(&|r| Some(&r.beside.get(baseline)?.take))),
        overlap_held: shared(&|r| Some(&r.held.take)),
        link: name,
    }
}

/// Processes that wanted a core in the last minute; what else runs on this machine is in every figure.
fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(0.0)
}
