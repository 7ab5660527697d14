//! From a placement to what a job demands of each link.
//!
//! Ranks run collectives, collectives are flows, flows take routes, and a route puts a [`Share`] of the NIC's
//! rate on each link. Phases that overlap in time add up to demand of several levels. A job has only a few
//! distinct demands however many links it crosses, so links refer to them by index.

use alloc::{collections::BTreeMap, sync::Arc, vec, vec::Vec};

use circle::{PHASES_PER_DEMAND_MAX, Phase};
use fabric::{
    collective::{Endpoint, try_flows},
    route::RouteScratch,
};
use rayon::prelude::*;
use units::{LinkId, Rate, Share, Ticks};

use crate::{Cluster, PlanError};
use job::{Job, Placement, TrafficPhase};

/// Every distinct demand of a run, in order of content, so that equal inputs get equal indices in whatever
/// order jobs and candidates are given.
#[derive(Debug, Default)]
pub(crate) struct Demands {
    pub(crate) phases: Vec<Arc<[Phase]>>,
    /// Highest rate of each demand in Mbit/s.
    pub(crate) peaks: Vec<u64>,
}

/// What one job demands of every link in one placement: (link, index into [`Demands`]), sorted by link.
#[derive(Debug, Default)]
pub(crate) struct Routed {
    pub(crate) links: Vec<(LinkId, u32)>,
}

/// A [`Routed`] whose indices refer to its own list of demands.
struct Local {
    links: Vec<(LinkId, u32)>,
    demands: Vec<Vec<Phase>>,
}

/// What one placed job demands of the links that it crosses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkDemands {
    /// (link, index into `demands`), sorted by link.
    pub links: Vec<(LinkId, u32)>,
    /// The distinct demands: phases sorted and disjoint, rates above zero.
    pub demands: Vec<Vec<Phase>>,
}

/// What `job`, standing at `placement`, demands of each link: for callers that keep demands beside the jobs. The jobs
/// and placements of `cluster` are not looked at.
///
/// # Errors
/// [`PlanError`]: the job is malformed, has no route, or its demand overflows.
pub fn link_demands(cluster: &Cluster<'_>, job: &Job, placement: &Placement) -> Result<LinkDemands, PlanError> {
    job.validate()?;
    let Local { links, demands } = route_one(cluster, &mut RouteScratch::new(), job, placement)?;
    Ok(LinkDemands { links, demands })
}

/// Routes every (job, placement) given. The result of item `i` stands at index `i`.
pub(crate) fn route_all(cluster: &Cluster<'_>, items: &[(&Job, &Placement)]) -> Result<(Vec<Routed>, Demands), PlanError> {
    let routed: Vec<Result<Local, PlanError>> =
        items.par_iter().map_init(RouteScratch::new, |scratch, (job, placement)| route_one(cluster, scratch, job, placement)).collect();
    // The first error in order of items is reported, whichever thread met one first.
    let locals = routed.into_iter().collect::<Result<Vec<_>, _>>()?;
    // A sorted map numbers demands by content, so the numbers do not depend on the order of jobs and candidates.
    let mut ranks: BTreeMap<&[Phase], u32> = locals.iter().flat_map(|l| &l.demands).map(|d| (d.as_slice(), 0)).collect();
    let mut demands = Demands::default();
    for (content, rank) in &mut ranks {
        *rank = demands.phases.len() as u32;
        demands.phases.push(Arc::from(*content));
        demands.peaks.push(content.iter().map(|p| p.rate.0).max().unwrap_or(0));
    }
    let global: Vec<Vec<u32>> = locals.iter().map(|l| l.demands.iter().map(|d| ranks[d.as_slice()]).collect()).collect();
    let routed = locals
        .into_iter()
        .zip(global)
        .map(|(local, global)| Routed { links: local.links.into_iter().map(|(link, d)| (link, global[d as usize])).collect() })
        .collect();
    Ok((routed, demands))
}

/// The shares of a job's sources on some link.
type Shares = Vec<(u32, Share)>;

/// One entry per link and per distinct set of routes: the share of the NIC rate that the link carries.
type Load = (LinkId, u32, Share);

fn route_one(cluster: &Cluster<'_>, scratch: &mut RouteScratch, job: &Job, placement: &Placement) -> Result<Local, PlanError> {
    // A job that stands nowhere demands nothing, and its phases may name ranks that it does not have now.
    if placement.ranks.is_empty() {
        return Ok(Local { links: Vec::new(), demands: Vec::new() });
    }
    // Phases that run the same collective in the same groups take the same routes: route each such set once.
    let mut sources: Vec<&TrafficPhase> = Vec::new();
    let mut source_of: Vec<u32> = Vec::with_capacity(job.phases.len());
    for phase in &job.phases {
        let known = sources
            .iter()
            .position(|s| s.collective == phase.collective && (Arc::ptr_eq(&s.groups, &phase.groups) || s.groups == phase.groups));
        source_of.push(known.unwrap_or(sources.len()) as u32);
        if known.is_none() {
            sources.push(phase);
        }
    }
    let mut loads: Vec<Load> = Vec::new();
    for (i, source) in sources.iter().enumerate() {
        loads.extend(source_loads(cluster, scratch, job, placement, source)?.into_iter().map(|(link, share)| (link, i as u32, share)));
    }
    // The loads of one source are in order of link already (`source_loads`).
    if sources.len() > 1 {
        loads.sort_unstable();
    }
    let mut local = Local { links: Vec::with_capacity(loads.len()), demands: Vec::new() };
    // Distinct shares seen so far and the demand that each makes; `None` where nothing is sent.
    let mut known: Vec<(Shares, Option<u32>)> = Vec::new();
    let mut key: Shares = Vec::new();
    for chunk in loads.chunk_by(|a, b| a.0 == b.0) {
        key.clear();
        key.extend(chunk.iter().map(|&(_, source, share)| (source, share)));
        // Neighbouring links mostly carry equal shares, so the last one found is tried first.
        let found = known.iter().rev().find(|(k, _)| *k == key).map(|(_, d)| *d);
        let demand = match found {
            Some(demand) => demand,
            None => {
                let phases = demand_of(job, &source_of, &key)
                    .ok_or_else(|| PlanError::DemandOverflow { job: job.name.clone(), link: cluster.fabric.link_name(chunk[0].0) })?;
                // A share can have nothing to carry, because phases of rate 0 are allowed; such a link is not crossed.
                let demand = if phases.is_empty() {
                    None
                } else {
                    local.demands.push(phases);
                    Some(local.demands.len() as u32 - 1)
                };
                known.push((key.clone(), demand));
                demand
            }
        };
        local.links.extend(demand.map(|d| (chunk[0].0, d)));
    }
    Ok(local)
}

/// The shares that one phase's groups put on links, sorted by link.
fn source_loads(
    cluster: &Cluster<'_>,
    scratch: &mut RouteScratch,
    job: &Job,
    placement: &Placement,
    phase: &TrafficPhase,
) -> Result<Vec<(LinkId, Share)>, PlanError> {
    let mut all = Vec::new();
    let mut ranks: Vec<Endpoint> = Vec::new();
    for group in phase.groups.iter() {
        ranks.clear();
        for &rank in group {
            let endpoint = placement.ranks.get(rank as usize);
            let endpoint = endpoint.ok_or_else(|| PlanError::UnknownRank { job: job.name.clone(), rank, ranks: placement.ranks.len() })?;
            ranks.push(*endpoint);
        }
        all.extend(try_flows(phase.collective, &ranks)?);
    }
    Ok(cluster.router.loads_with(scratch, &all)?)
}

/// The phases that `shares` of the job's sources make together: sorted, disjoint, no zero rates. `None` = a rate overflows
/// or there are more than the circle takes.
fn demand_of(job: &Job, source_of: &[u32], shares: &[(u32, Share)]) -> Option<Vec<Phase>> {
    // Edges of the phases: at `time` the demand rises by the first and falls by the second rate.
    let mut edges: Vec<(u64, u64, u64)> = Vec::with_capacity(2 * job.phases.len());
    for (phase, source) in job.phases.iter().zip(source_of) {
        let Some((_, share)) = shares.iter().find(|(s, _)| s == source) else { continue };
        let rate = phase.rate.scaled(*share)?.0;
        if rate > 0 {
            edges.push((phase.start.0, rate, 0));
            edges.push((phase.end.0, 0, rate));
        }
    }
    edges.sort_unstable();
    let mut phases: Vec<Phase> = vec![];
    let (mut level, mut since) = (0u64, 0u64);
    for chunk in edges.chunk_by(|a, b| a.0 == b.0) {
        let time = chunk[0].0;
        // The stretch from `since` to `time` has one level; it is written before the edges at `time` change the level.
        if level > 0 && time > since {
            match phases.last_mut() {
                Some(last) if last.end.0 == since && last.rate.0 == level => last.end = Ticks(time),
                _ => phases.push(Phase { start: Ticks(since), end: Ticks(time), rate: Rate(level) }),
            }
        }
        for &(_, up, _) in chunk {
            level = level.checked_add(up)?;
        }
        for &(_, _, down) in chunk {
            level = level.checked_sub(down)?;
        }
        since = time;
    }
    // Phases of several sources that overlap can make more steps than each source has phases.
    (phases.len() <= PHASES_PER_DEMAND_MAX).then_some(phases)
}

#[cfg(test)]
mod tests {
    use super::*;
    use job::Collective;
    use units::Nanos;

    fn phase(start: u64, end: u64, rate: u64) -> TrafficPhase {
        TrafficPhase { start: Nanos(start), end: Nanos(end), rate: Rate(rate), collective: Collective::Ring, groups: Arc::from([]) }
    }

    fn job(phases: Vec<TrafficPhase>) -> Job {
        Job { name: "j".into(), gpus: 1, period: Nanos(100), hold: job::Hold::Auto, phases }
    }

    fn levels(phases: &[Phase]) -> Vec<(u64, u64, u64)> {
        phases.iter().map(|p| (p.start.0, p.end.0, p.rate.0)).collect()
    }

    #[test]
    fn overlapping_phases_add_up_and_equal_neighbours_merge() {
        // [0,50) at 10 and [20,80) at 5 from two sources; the link carries all of the first and a third of 15 of the second.
        let two = job(vec![phase(0, 50, 10), phase(20, 80, 15)]);
        let both = demand_of(&two, &[0, 1], &[(0, Share::ONE), (1, Share::ONE.split(3))]).unwrap();
        assert_eq!(levels(&both), [(0, 20, 10), (20, 50, 15), (50, 80, 5)]);
        // Only one source crosses the link.
        assert_eq!(levels(&demand_of(&two, &[0, 1], &[(1, Share::ONE)]).unwrap()), [(20, 80, 15)]);
        // One phase ends where the next of equal rate starts.
        let touching = job(vec![phase(30, 60, 7), phase(0, 30, 7)]);
        assert_eq!(levels(&demand_of(&touching, &[0, 0], &[(0, Share::ONE)]).unwrap()), [(0, 60, 7)]);
    }

    #[test]
    fn zero_rates_make_no_demand_and_overflow_is_refused() {
        assert_eq!(demand_of(&job(vec![phase(0, 9, 0)]), &[0], &[(0, Share::ONE)]), Some(vec![]));
        let huge = job(vec![phase(0, 9, u64::MAX), phase(0, 9, 1)]);
        assert_eq!(demand_of(&huge, &[0, 0], &[(0, Share::ONE)]), None);
    }
}
