//! Who takes turns with whom, from the case alone.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
    sync::Arc,
    vec::Vec,
};

use state::turns::{TurnGroup, TurnJob};
use turns::{Group, Member, Up, Use};
use units::{Nanos, Rate};

use crate::testbed::{Case, SimError, SimJob, Workload, layout::Layout};

/// The groups of a case, by what its jobs declare: jobs take turns where they share a link that the peaks of its jobs exceed by more
/// than the price, which is 1,000 for none. Jobs that meet nobody are in no group.
///
/// # Errors
/// The case is malformed; see [`SimError`].
pub fn turn_groups(case: &Case<'_>, price_permille: u32, ahead: bool) -> Result<Vec<Arc<TurnGroup>>, SimError> {
    // The layout of the profiles, which a wrong profile makes another than that of the workloads.
    let declared: Vec<SimJob> = case.jobs.iter().map(|j| SimJob { workload: Workload::of_profile(&j.job), ..j.clone() }).collect();
    let layout = Layout::new(case.router, &declared)?;
    let limits: Vec<Rate> = layout.overloadable.capacities().iter().map(|c| limit(*c, price_permille)).collect();
    let uses: Vec<BTreeMap<u32, Vec<Up>>> = (0..declared.len()).map(|job| ups(&layout, job)).collect();
    let mut on: Vec<Vec<usize>> = limits.iter().map(|_| Vec::new()).collect();
    uses.iter().enumerate().for_each(|(job, uses)| uses.keys().for_each(|link| on[*link as usize].push(job)));
    let peak = |job: usize, link: usize| uses[job][&(link as u32)].iter().map(|up| up.rate.0).max().unwrap_or(0);
    let is_contested =
        |link: usize| on[link].len() > 1 && on[link].iter().map(|j| peak(*j, link)).fold(0, u64::saturating_add) > limits[link].0;
    let contested: Vec<usize> = (0..limits.len()).filter(|link| is_contested(*link)).collect();
    let opponents = |job: usize| -> BTreeSet<usize> {
        contested.iter().filter(|link| on[**link].contains(&job)).flat_map(|link| on[*link].iter().copied()).filter(|o| *o != job).collect()
    };
    let opponents: Vec<BTreeSet<usize>> = (0..declared.len()).map(opponents).collect();
    let group = |jobs: Vec<usize>| {
        let links: Vec<usize> = contested.iter().copied().filter(|link| on[*link].iter().any(|j| jobs.contains(j))).collect();
        let place = |job: usize| jobs.iter().position(|j| *j == job).map(|at| at as u32);
        let member = |job: &usize| Member {
            iteration: declared[*job].job.period,
            uses: (0..)
                .zip(&links)
                .filter_map(|(at, link)| Some(Use { link: at, ups: uses[*job].get(&(*link as u32))?.clone() }))
                .collect(),
            opponents: opponents[*job].iter().filter_map(|o| place(*o)).collect(),
        };
        let leader = |job: usize| {
            let rank = declared[job].placement.ranks.first();
            rank.map_or_else(String::new, |r| case.router.fabric().node(r.host).name.clone())
        };
        let name = |job: &usize| TurnJob { name: declared[*job].job.name.as_str().into(), leader_host: leader(*job).as_str().into() };
        let group = Group { members: jobs.iter().map(member).collect(), limits: links.iter().map(|l| limits[*l]).collect(), ahead };
        Arc::new(TurnGroup { jobs: jobs.iter().map(name).collect(), group })
    };
    Ok(components(&opponents).into_iter().map(group).collect())
}

/// How much may be demanded of a link before that is a conflict.
fn limit(capacity: u64, price_permille: u32) -> Rate {
    Rate(u64::try_from(u128::from(capacity) * u128::from(price_permille) / 1_000).unwrap_or(u64::MAX))
}

/// What a job sends over each class of links that can be exceeded.
fn ups(layout: &Layout, job: usize) -> BTreeMap<u32, Vec<Up>> {
    let mut uses: BTreeMap<u32, Vec<Up>> = BTreeMap::new();
    let mut start = Nanos(0);
    for span in &layout.jobs[job] {
        let end = Nanos(start.0.saturating_add(span.length.0));
        for &(link, rate) in layout.overloadable.used(&span.demands) {
            uses.entry(link).or_default().push(Up { start, end, rate: Rate(rate) });
        }
        start = end;
    }
    uses
}

/// Jobs that hang together, each list sorted; jobs without opponents are left out.
fn components(opponents: &[BTreeSet<usize>]) -> Vec<Vec<usize>> {
    let mut seen: BTreeSet<usize> = BTreeSet::new();
    let mut found = Vec::new();
    for job in (0..opponents.len()).filter(|job| !opponents[*job].is_empty()) {
        let (mut jobs, mut next) = (BTreeSet::new(), Vec::from([job]));
        // Each job is expanded once.
        while let Some(job) = next.pop().filter(|_| !seen.contains(&job)) {
            if jobs.insert(job) {
                next.extend(&opponents[job]);
            }
        }
        if !jobs.is_empty() {
            seen.extend(&jobs);
            found.push(jobs.into_iter().collect());
        }
    }
    found
}
