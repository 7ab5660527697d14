//! Slots without a service: straight from the planner.

use alloc::{string::String, vec::Vec};

use job::{Candidate, Job, Placement};
use plan::{Cluster, Options, Predictions, evaluate};
use state::Slot;
use units::FabricTime;

use crate::testbed::{Case, SimError};

/// The slots that the planner gives the jobs of a case, with the headroom of `options`. A job that holding is not predicted to
/// help gets a slot that does not hold.
///
/// # Errors
/// The planner refused the case.
pub fn direct_slots(case: &Case<'_>, options: &Options) -> Result<Vec<Slot>, SimError> {
    let jobs: Vec<Job> = case.jobs.iter().map(|j| j.job.clone()).collect();
    let placements: Vec<Placement> = case.jobs.iter().map(|j| j.placement.clone()).collect();
    let fabric = case.router.fabric();
    let cluster = Cluster { fabric, router: case.router, jobs: &jobs, placements: &placements };
    // Whether to hold a job is decided from predicted iterations, so prediction is on whatever `options` say.
    let evaluation = evaluate(&cluster, &Candidate::default(), &Options { predict: Predictions::Control, ..*options })?;
    let slot = |report: plan::JobReport| {
        let job = &jobs[report.job.index()];
        let leader = case.jobs[report.job.index()].placement.ranks.first();
        Slot {
            plan_version: 1,
            times: report.slot(options.tolerance_permille),
            hold: report.hold,
            // No service renews these slots, so they last for the whole run.
            expires: FabricTime(u64::MAX),
            leader_host: leader.map_or_else(String::new, |l| fabric.node(l.host).name.clone()),
            ..Slot::none(&job.name)
        }
    };
    Ok(evaluation.jobs(&cluster).into_iter().map(slot).collect())
}
