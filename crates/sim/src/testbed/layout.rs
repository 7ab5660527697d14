//! Jobs and links as the event loop needs them: numbered, with the demand of every step.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec,
    vec::Vec,
};
use core::ops::Range;

use fabric::{
    collective::{Endpoint, try_flows},
    route::{RouteScratch, Router},
};
use fluid::{Rates, SPEED_BITS_MAX};
use units::{LinkId, Nanos, Rate};

use crate::testbed::{SimError, SimJob, Step, Transfer};

/// Most jobs of a case: as many as a large cluster runs.
pub(crate) const JOBS_MAX: usize = 1 << 16;
/// Most steps of a job's iteration, as many as the circle takes phases, with the gaps between them.
pub(crate) const STEPS_MAX: usize = 2 * circle::PHASES_PER_DEMAND_MAX + 1;
/// Longest iteration that nothing hinders: as long as the longest period of the circle.
pub(crate) const ITERATION_MAX: Nanos = Nanos(circle::PERIOD_TICKS_MAX);

/// Most that a job demands of a link, in Mbit/s: 2^40, far beyond any link, so that sums of 2^16 jobs fit 64 bits.
pub(crate) const RATE_MAX: u64 = 1 << 40;

/// A step, ready to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) length: Nanos,
    /// Whether anything is sent.
    pub(crate) sends: bool,
    /// The demand of this step on classes of overloadable links, in [`Layout::overloadable`].
    pub(crate) demands: Range<u32>,
}

/// A link that carries demand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Crossed {
    pub(crate) link: LinkId,
    pub(crate) capacity: Rate,
    /// The jobs that ever send over it, in order.
    pub(crate) jobs: Vec<u32>,
    /// If it can be over capacity: the number of its class. Links of one class have the same capacity and always the same
    /// demand, so one stands for all.
    pub(crate) overloadable: Option<u32>,
}

/// A case, resolved.
#[derive(Debug)]
pub(crate) struct Layout {
    /// Steps of each job that take time.
    pub(crate) jobs: Vec<Vec<Span>>,
    /// Every link that carries demand, in order of id.
    pub(crate) links: Vec<Crossed>,
    /// The classes of overloadable links, and what is demanded of them. The other links can never hold anybody back, and are left out of the
    /// sharing.
    pub(crate) overloadable: Rates,
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
            // Routes are known per job only: another job has other ranks, and so other links for the same groups.
            let mut known = Vec::new();
            let demands = job.workload.steps.iter().map(|s| demands(router, &mut scratch, &mut known, job, s));
            steps.push(demands.collect::<Result<_, _>>()?);
        }
        // Each load comes out sorted by job and step, on which `chunk_by` below and the classes rely.
        let mut loads: BTreeMap<LinkId, Load> = BTreeMap::new();
        for (j, steps) in (0..).zip(&steps) {
            for (s, demands) in (0..).zip(steps) {
                demands.iter().for_each(|&(link, rate)| loads.entry(link).or_default().push((j, s, rate)));
            }
        }
        let mut links = Vec::with_capacity(loads.len());
        let mut capacities = Vec::new();
        let mut classes: BTreeMap<(Rate, Load), u32> = BTreeMap::new();
        for (link, load) in loads {
            let capacity = router.fabric().capacity(link)?;
            let on: Vec<(u32, u64)> =
                load.chunk_by(|a, b| a.0 == b.0).map(|steps| (steps[0].0, steps.iter().map(|s| s.2).max().unwrap_or(0))).collect();
            // The largest step of each job counts, because jobs may meet in any combination of steps.
            let is_tight = plan::can_exceed(on.iter().map(|(_, peak)| *peak), capacity.0);
            let overloadable = is_tight.then(|| {
                // Links of one class fill and empty together, so one queue and one share stand for all of them.
                *classes.entry((capacity, load)).or_insert_with(|| {
                    capacities.push(capacity.0);
                    capacities.len() as u32 - 1
                })
            });
            links.push(Crossed { link, capacity, jobs: on.into_iter().map(|(j, _)| j).collect(), overloadable });
        }
        let mut layout = Self { jobs: Vec::with_capacity(jobs.len()), links, overloadable: Rates::new(capacities, SPEED_BITS_MAX) };
        for (job, steps) in jobs.iter().zip(steps) {
            // Steps of no length are left out, so that every step moves the time on.
            let spans = job.workload.steps.iter().zip(steps).filter(|(step, _)| step.length > Nanos(0));
            let spans = spans.map(|(step, demands)| layout.span(step, &demands)).collect();
            layout.jobs.push(spans);
        }
        Ok(layout)
    }

    fn span(&mut self, step: &Step, demands: &[(LinkId, u64)]) -> Span {
        let overloadable =
            |link: &LinkId| self.links.binary_search_by_key(link, |l| l.link).ok().and_then(|at| self.links[at].overloadable);
        let mut demands: Vec<(u32, u64)> = demands.iter().filter_map(|(link, rate)| Some((overloadable(link)?, *rate))).collect();
        demands.sort_unstable();
        // Links of one class carry the same demand, so the class is listed once.
        demands.dedup_by_key(|(class, _)| *class);
        Span { length: step.length, sends: !step.transfers.is_empty(), demands: self.overloadable.add(demands.into_iter()) }
    }
}

/// Demands of jobs on one link: (job, step, Mbit/s), in order.
type Load = Vec<(u32, u32, u64)>;

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

/// The demand of a step on every link, sorted by link.
fn demands<'a>(
    router: &Router<'_>,
    scratch: &mut RouteScratch,
    known: &mut Known<'a>,
    job: &SimJob,
    step: &'a Step,
) -> Result<Vec<(LinkId, u64)>, SimError> {
    let mut sums: BTreeMap<LinkId, u64> = BTreeMap::new();
    for transfer in &step.transfers {
        // Collective and groups decide the routes, and the rate only scales them: routing is the expensive part and is done once.
        let at = match known.iter().position(|(t, _)| t.collective == transfer.collective && t.groups == transfer.groups) {
            Some(at) => at,
            None => {
                known.push((transfer, loads(router, scratch, job, transfer)?));
                known.len() - 1
            }
        };
        for (link, share) in &known[at].1 {
            // The bound on every partial sum keeps later sums over 2^16 jobs within 64 bits.
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
