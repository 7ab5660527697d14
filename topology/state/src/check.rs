//! What a job has to be before it may be committed, and the demand that it then makes.

use alloc::{
    collections::BTreeSet,
    format,
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};

use circle::PERIOD_TICKS_MAX;
use plan::{Cluster, PlanError, link_demands};

use crate::{
    JobDefinition, Refusal,
    config::HEADROOM_MAX_PERMILLE,
    plan::{Installed, Load, Name},
};

/// Checks a job on its own and routes it.
///
/// # Errors
/// [`Refusal::Policy`] or [`Refusal::Limit`] with the offending value.
pub(crate) fn check(installed: &Installed, definition: &JobDefinition) -> Result<Load, Refusal> {
    let name = &definition.job.name;
    let refuse = |problem: &str| Refusal::Policy(format!("job {name:?}: {problem}"));
    // The name stands in every message below and in a key of the store, so it is checked first.
    check_name(name)?;
    if definition.placement.ranks.is_empty() || definition.hosts.is_empty() {
        return Err(refuse("it has no hosts"));
    }
    // The same names on another fabric are other ids.
    let fabric = installed.fabric();
    let mut hosts: Vec<&str> = Vec::new();
    for rank in &definition.placement.ranks {
        let node = fabric.nodes().get(rank.host.index()).map(|n| n.name.as_str());
        let host = node.filter(|n| definition.hosts.iter().any(|h| h == n));
        hosts.push(host.ok_or_else(|| refuse("it was placed on another fabric; try again"))?);
    }
    if hosts.first().copied() != definition.hosts.first().map(|h| &**h) {
        // The slot's `leader_host` is the first host: its agent would speak for a job whose rank 0 is elsewhere.
        return Err(refuse("its first host is not that of rank 0"));
    }
    hosts.sort_unstable();
    hosts.dedup();
    // The period has to fit the circle at the largest headroom that slips can give the job: `lengthen` does not check it again.
    let longest = plan::slot::period(definition.job.period, HEADROOM_MAX_PERMILLE);
    if longest.0 > PERIOD_TICKS_MAX {
        return Err(refuse(&format!("a period of {} is too long", definition.job.period)));
    }
    let router = installed.routing.router();
    let cluster = Cluster { fabric, router: &router, jobs: &[], placements: &[] };
    let demands = link_demands(&cluster, &definition.job, &definition.placement).map_err(policy)?;
    for (link, _) in &demands.links {
        let capacity = fabric.capacity(*link).map_err(|e| policy(e.into()))?;
        // The score divides by the capacity (CASSINI, equation 2).
        if capacity.0 == 0 {
            return Err(policy(PlanError::ZeroCapacity { link: fabric.link_name(*link) }));
        }
    }
    let peaks = demands.demands.iter().map(|d| d.iter().map(|p| p.rate.0).max().unwrap_or(0)).collect();
    Ok(Load { demands, peaks, hosts: hosts.into_iter().map(Arc::from).collect() })
}

#[allow(clippy::needless_pass_by_value, reason = "it is what map_err hands over")]
fn policy(error: PlanError) -> Refusal {
    Refusal::Policy(error.to_string())
}

fn check_name(name: &str) -> Result<(), Refusal> {
    // A name that is refused may be of any length, and the message shows its beginning.
    units::check_name(name).map_err(|e| Refusal::Policy(format!("job {:?}: {e}", name.chars().take(64).collect::<String>())))
}

/// Refuses more than `max`.
pub(crate) fn limit(what: &'static str, value: usize, max: usize) -> Result<(), Refusal> {
    if value > max { Err(Refusal::Limit { what, value: value as u64, max: max as u64 }) } else { Ok(()) }
}

/// Refuses two jobs of one name.
pub(crate) fn distinct(jobs: &[JobDefinition]) -> Result<BTreeSet<Name>, Refusal> {
    let mut names = BTreeSet::new();
    for definition in jobs {
        if !names.insert(Name::from(definition.job.name.as_str())) {
            return Err(Refusal::Policy(format!("job {:?} is there twice", definition.job.name)));
        }
    }
    Ok(names)
}
