//! One case three times: every job alone, all as they come, all held. What the lab measures, in virtual time.

use alloc::{string::String, vec, vec::Vec};

use crate::testbed::{Case, Config, Control, Report, SimError, SimJob, run, stats::Summary};

/// One job in the three runs.
#[derive(Clone, Debug, PartialEq)]
pub struct JobRow {
    /// Its name.
    pub name: String,
    /// Iterations with nobody else on the fabric.
    pub solo: Summary,
    /// With the others, nobody held.
    pub contended: Summary,
    /// With the others, under control.
    pub interleaved: Summary,
    /// Mean contended over mean interleaved iteration: 1.25 is a quarter more iterations per hour.
    pub gain: f64,
    /// Starts under control that missed a slot.
    pub slips: u64,
    /// Starts under control that were let through because the plan could not be trusted.
    pub fail_opens: u64,
}

/// One link in two runs.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkRow {
    /// Its name.
    pub name: String,
    /// Names of its jobs.
    pub jobs: Vec<String>,
    /// ECN marks per iteration of one of its jobs, contended and interleaved.
    pub marks_per_iteration: [f64; 2],
    /// Fraction of communication time in which another of its jobs communicates too, contended and interleaved.
    pub overlap_share: [f64; 2],
}

/// The three runs side by side.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Every job of the case, in order.
    pub jobs: Vec<JobRow>,
    /// Links with two jobs or more, or that one job exceeds by itself, in order of id.
    pub links: Vec<LinkRow>,
    /// The run in which nobody was held.
    pub contended: Report,
    /// The run under control.
    pub interleaved: Report,
}

/// Runs every job of a case alone, all without control, and all under the control of `config`. Faults and clocks belong to
/// the run under control only: what goes wrong there is compared with what goes right.
///
/// # Errors
/// As [`run`].
pub fn compare(case: &Case<'_>, config: &Config) -> Result<Comparison, SimError> {
    let free = Config { control: Control::Free, faults: vec![], clocks: vec![], ..config.clone() };
    let contended = run(case, &free)?;
    let interleaved = run(case, config)?;
    let mut jobs = Vec::with_capacity(case.jobs.len());
    for (i, (before, after)) in contended.jobs.iter().zip(&interleaved.jobs).enumerate() {
        // Lifetimes name jobs by their place in the whole case, which a solo run does not have; the solo job begins at once.
        let alone = SimJob { begins: units::Nanos(0), ..case.jobs[i].clone() };
        let solo = run(&Case { router: case.router, jobs: &[alone] }, &Config { lifetimes: vec![], ..free.clone() })?;
        jobs.push(JobRow {
            name: before.name.clone(),
            solo: solo.jobs.first().map_or_else(Summary::default, |j| j.iteration),
            contended: before.iteration,
            interleaved: after.iteration,
            gain: if after.iteration.mean > 0.0 { before.iteration.mean / after.iteration.mean } else { 1.0 },
            slips: after.slips,
            fail_opens: after.fail_opens,
        });
    }
    let row = |(before, after): (&crate::testbed::LinkReport, &crate::testbed::LinkReport)| LinkRow {
        name: before.name.clone(),
        jobs: before.jobs.iter().map(|j| case.jobs[j.index()].job.name.clone()).collect(),
        marks_per_iteration: [before.marks_per_iteration, after.marks_per_iteration],
        overlap_share: [before.overlap_share, after.overlap_share],
    };
    let links = contended.links.iter().zip(&interleaved.links).map(row).collect();
    Ok(Comparison { jobs, links, contended, interleaved })
}
