//! Jobs and links as the event loop needs them: numbered, with the demand of every step.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec,
    vec::Vec,
};

use fabric::{
    collective::{Endpoint, try_flows},
    route::{RouteScratch, Router},
};
use units::{LinkId, Nanos, Rate};

use crate::{SimError, SimJob, Step, Transfer, share::RATE_MAX};

/// Most jobs of a case: as many as a large cluster runs.
pub(crate) const JOBS_MAX: usize = 1 << 16;
/// Most steps of a job's iteration, as many as the circle takes phases, with the gaps between them.
pub(crate) const STEPS_MAX: usize = 2 * circle::PHASES_PER_DEMAND_MAX + 1;
/// Longest iteration that nothing hinders: as long as the longest period of the circle.
pub(crate) const ITERATION_MAX: Nanos = Nanos(circle::PERIOD_TICKS_MAX);

/// A step, ready to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) length: Nanos,
    /// Whether anything is sent.
    pub(crate) sends: bool,
    /// (tight link, demand in Mbit/s at full speed), sorted by link.
    pub(crate) demands: Vec<(u32, u64)>,
}

/// A link that carries demand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Crossed {
    pub(crate) link: LinkId,
    pub(crate) capacity: Rate,
    /// The jobs that ever send over it, in order.
    pub(crate) jobs: Vec<u32>,
    /// Its number among the links that can be over capacity, if it is one.
    pub(crate) tight: Option<u32>,
}

/// A case, resolved.
#[derive(Debug)]
pub(crate) struct Layout {
    /// Steps of each job that take time.
    pub(crate) jobs: Vec<Vec<Span>>,
    /// Every link that carries demand, in order of id.
    pub(crate) links: Vec<Crossed>,
    /// Capacities of the tight links in Mbit/s. The others can never hold anybody back, and are left out of the sharing.
    pub(crate) tight: Vec<u64>,
}

impl Layout {
    /// # Errors
    /// A malformed job; flows without a route; a link that carries demand and has no capacity.
    pub(crate) fn new(router: &Router<'_>, jobs: &[SimJob]) -> Result<Self, SimError> {
        if jobs.len() > JOBS_MAX {
            return Err(SimError::Config { what: "number of jobs", value: jobs.len() as u64, problem: "more than 65536" });
        }
        let mut names = BTreeSet::new();
        if let Some(twice) = jobs.iter().position(|j| !names.insert(&j.job.name)) {
            return Err(SimError::Job {
                job: jobs[twice].job.name.clone(),
                problem: "its name is another's too; job",
                value: twice as u64,
            });
        }
        let mut scratch = RouteScratch::new();
        let mut steps: Vec<Vec<Vec<(LinkId, u64)>>> = Vec::with_capacity(jobs.len());
        for job in jobs {
            validate(job)?;
            let mut known = Vec::new();
            let demands = job.workload.steps.iter().map(|s| demands(router, &mut scratch, &mut known, job, s));
            steps.push(demands.collect::<Result<_, _>>()?);
        }
        // Highest demand of each job on each link.
        let mut peaks: BTreeMap<LinkId, BTreeMap<u32, u64>> = BTreeMap::new();
        for (j, steps) in steps.iter().enumerate() {
            for &(link, rate) in steps.iter().flatten() {
                let peak = peaks.entry(link).or_default().entry(j as u32).or_default();
                *peak = rate.max(*peak);
            }
        }
        let mut layout = Self { jobs: Vec::with_capacity(jobs.len()), links: Vec::with_capacity(peaks.len()), tight: Vec::new() };
        for (link, peaks) in peaks {
            let capacity = router.fabric().capacity(link)?;
            let is_tight = peaks.values().fold(0, |sum: u64, p| sum.saturating_add(*p)) > capacity.0;
            let tight = is_tight.then_some(layout.tight.len() as u32);
            layout.tight.extend(tight.map(|_| capacity.0));
            layout.links.push(Crossed { link, capacity, jobs: peaks.into_keys().collect(), tight });
        }
        for (job, steps) in jobs.iter().zip(steps) {
            let spans = job.workload.steps.iter().zip(steps).filter(|(step, _)| step.length > Nanos(0));
            layout.jobs.push(spans.map(|(step, demands)| layout.span(step, &demands)).collect());
        }
        Ok(layout)
    }

    fn span(&self, step: &Step, demands: &[(LinkId, u64)]) -> Span {
        let tight = |link: &LinkId| self.links.binary_search_by_key(link, |l| l.link).ok().and_then(|at| self.links[at].tight);
        let demands = demands.iter().filter_map(|(link, rate)| Some((tight(link)?, *rate))).collect();
        Span { length: step.length, sends: !step.transfers.is_empty(), demands }
    }
}

fn validate(job: &SimJob) -> Result<(), SimError> {
    let refuse = |problem, value| Err(SimError::Job { job: job.job.name.clone(), problem, value });
    let length = job.workload.unhindered();
    if length == Nanos(0) || length > ITERATION_MAX {
        return refuse("its iteration takes no time or too much (ns):", length.0);
    }
    if job.workload.steps.len() > STEPS_MAX {
        return refuse("it has too many steps:", job.workload.steps.len() as u64);
    }
    let rate = job.workload.steps.iter().flat_map(|s| &s.transfers).map(|t| t.rate.0).max().unwrap_or(0);
    if rate > RATE_MAX { refuse("it sends at more than 2^40 Mbit/s:", rate) } else { Ok(()) }
}

/// Loads of sets of transfers that were routed before, by collective and groups.
type Known<'a> = Vec<(&'a Transfer, Vec<(LinkId, units::Share)>)>;

/// What a step demands of every link, sorted by link.
fn demands<'a>(
    router: &Router<'_>,
    scratch: &mut RouteScratch,
    known: &mut Known<'a>,
    job: &SimJob,
    step: &'a Step,
) -> Result<Vec<(LinkId, u64)>, SimError> {
    let mut sums: BTreeMap<LinkId, u64> = BTreeMap::new();
    for transfer in &step.transfers {
        let at = match known.iter().position(|(t, _)| t.collective == transfer.collective && t.groups == transfer.groups) {
            Some(at) => at,
            None => {
                known.push((transfer, loads(router, scratch, job, transfer)?));
                known.len() - 1
            }
        };
        for (link, share) in &known[at].1 {
            let rate = transfer.rate.scaled(*share).filter(|r| r.0 <= RATE_MAX);
            let sum = sums.entry(*link).or_default();
            *sum = rate.and_then(|r| sum.checked_add(r.0)).filter(|s| *s <= RATE_MAX).ok_or_else(|| SimError::Job {
                job: job.job.name.clone(),
                problem: "it puts more than 2^40 Mbit/s on link",
                value: u64::from(link.0),
            })?;
        }
    }
    Ok(sums.into_iter().filter(|(_, rate)| *rate > 0).collect())
}

fn loads(
    router: &Router<'_>,
    scratch: &mut RouteScratch,
    job: &SimJob,
    transfer: &Transfer,
) -> Result<Vec<(LinkId, units::Share)>, SimError> {
    let mut flows = Vec::new();
    for group in transfer.groups.iter() {
        let mut ranks: Vec<Endpoint> = vec![];
        for &rank in group {
            let endpoint = job.placement.ranks.get(rank as usize).copied();
            ranks.push(endpoint.ok_or_else(|| SimError::Job {
                job: job.job.name.clone(),
                problem: "a group names a rank that is not placed:",
                value: u64::from(rank),
            })?);
        }
        flows.extend(try_flows(transfer.collective, &ranks)?);
    }
    Ok(router.loads_with(scratch, &flows)?)
}
