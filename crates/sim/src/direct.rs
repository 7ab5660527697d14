//! Slots without a service: straight from the planner.

use alloc::{string::String, vec::Vec};

use job::{Candidate, Job, Placement};
use plan::{Cluster, Options, evaluate};
use state::Slot;
use units::{FabricTime, Nanos};

use crate::{Case, SimError};

/// Headroom of the scheduled period over the solo iteration in thousandths: the service's default.
pub const HEADROOM_PERMILLE: u32 = 50;

/// The slots that the planner gives the jobs of a case, their periods lengthened by `headroom_permille` as
/// [`state::Config::periods`] does; phases keep their lengths. A job that holding is not predicted to help gets a slot that does not hold.
///
/// # Errors
/// The planner refused the case.
pub fn direct_slots(case: &Case<'_>, options: &Options, headroom_permille: u32) -> Result<Vec<Slot>, SimError> {
    let solos: Vec<Nanos> = case.jobs.iter().map(|j| j.job.period).collect();
    let periods = if headroom_permille == 0 { solos } else { state::Config::periods(&solos, headroom_permille) };
    let jobs: Vec<Job> = case.jobs.iter().zip(periods).map(|(j, period)| Job { period, ..j.job.clone() }).collect();
    let placements: Vec<Placement> = case.jobs.iter().map(|j| j.placement.clone()).collect();
    let fabric = case.router.fabric();
    let cluster = Cluster { fabric, router: case.router, jobs: &jobs, placements: &placements };
    let evaluation = evaluate(&cluster, &Candidate::default(), &Options { predict: true, ..*options })?;
    let slot = |report: plan::JobReport| {
        let job = &jobs[report.job.index()];
        let leader = case.jobs[report.job.index()].placement.ranks.first();
        let tolerance = u128::from(job.period.0) * u128::from(options.tolerance_permille) / 1_000;
        Slot {
            job: job.name.clone(),
            epoch: 1,
            period: job.period,
            offset: Nanos(report.shift.0 % job.period.0),
            tolerance: Nanos(u64::try_from(tolerance).unwrap_or(u64::MAX)),
            slack: report.slack,
            hold_max: job.period,
            hold: report.hold,
            expires: FabricTime(u64::MAX),
            leader_host: leader.map_or_else(String::new, |l| fabric.node(l.host).name.clone()),
        }
    };
    Ok(evaluation.jobs(&cluster).into_iter().map(slot).collect())
}
