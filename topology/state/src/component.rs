//! Jobs that meet, directly or through others, on links that can be over capacity.
//!
//! No shift in one component changes a score in another, so a change re-plans only those that it touches.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::ToString,
    sync::Arc,
    vec::Vec,
};

use circle::{Problem, ProblemBuilder, ProblemError, Solution, Ticks};
use fluid::{FluidJob, FluidLink, IterationTimes, jitter::JITTER_PERMILLE, predict};
use num_integer::Integer as _;
use plan::hold::{self, Question};
use units::{JobId, LinkId, Nanos, Rate};

use crate::{
    Refusal,
    plan::{Job, Name, Plan},
};

/// Links of equal capacity with the same jobs and demands: they score alike.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Class {
    pub(crate) capacity: Rate,
    pub(crate) links: Vec<LinkId>,
    /// (job of the component, index of its demand). A single one exceeds the link by itself; its links count in no mean.
    pub(crate) members: Vec<(u32, u32)>,
    pub(crate) score: f64,
    pub(crate) zero_shift_score: f64,
}

/// A component under its slots.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Component {
    /// By name.
    pub(crate) members: Vec<Name>,
    pub(crate) classes: Vec<Class>,
    /// The class of every link that two or more of the jobs can exceed, by link.
    pub(crate) class_of: Vec<(LinkId, u32)>,
    /// Mean over those links.
    pub(crate) score: f64,
    pub(crate) zero_shift_score: f64,
    /// Per member.
    pub(crate) times: Vec<IterationTimes>,
    /// Per member: predicted iteration when those are held whose slots say so.
    pub(crate) advised: Vec<Nanos>,
}

impl Component {
    /// Score and score without shifts of a link; `None` where nothing can be over capacity.
    pub(crate) fn scores(&self, link: LinkId) -> Option<(f64, f64)> {
        let at = self.class_of.binary_search_by_key(&link, |c| c.0).ok()?;
        let class = &self.classes[self.class_of[at].1 as usize];
        Some((class.score, class.zero_shift_score))
    }

    /// Predicted iterations of a member, and the one that follows from who is held.
    pub(crate) fn times(&self, job: &str) -> Option<(IterationTimes, Nanos)> {
        let at = self.members.binary_search_by(|m| (**m).cmp(job)).ok()?;
        self.times.get(at).copied().zip(self.advised.get(at).copied())
    }
}

/// The components of the jobs named, each with its jobs by name, in order of their first job. Jobs that meet nobody are groups
/// of one; unknown names are passed over.
pub(crate) fn groups(plan: &Plan, dirty: &BTreeSet<Name>) -> Vec<Vec<Arc<Job>>> {
    let mut seen: BTreeSet<Name> = BTreeSet::new();
    let mut walked: BTreeSet<LinkId> = BTreeSet::new();
    let mut out = Vec::new();
    for start in dirty {
        let Some(job) = plan.job(start) else { continue };
        if !seen.insert(start.clone()) {
            continue;
        }
        let mut group = Vec::new();
        let mut queue = alloc::vec![job];
        while let Some(job) = queue.pop() {
            for (link, _) in &job.load.demands.links {
                if plan.on(*link).len() < 2 || !walked.insert(*link) || !plan.is_contended(*link) {
                    continue;
                }
                queue.extend(plan.on(*link).iter().filter(|p| seen.insert(p.job.clone())).filter_map(|p| plan.job(&p.job)));
            }
            group.push(job.clone());
        }
        group.sort_by(|a, b| a.name.cmp(&b.name));
        out.push(group);
    }
    out
}

/// Who is to be held.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Holding<'h> {
    /// By joint set, whom holding helps ([`plan::hold`]). Per job: whether it is held now, if it runs already and met others.
    Advised(&'h [Option<bool>]),
    /// Those, per job: they were chosen before.
    Kept(&'h [bool]),
}

/// A component under a solution of its problem, and what each of its jobs is told; per job, in order of name.
#[derive(Debug)]
pub(crate) struct Assessed {
    pub(crate) component: Component,
    pub(crate) slacks: Vec<Nanos>,
    pub(crate) hold: Vec<bool>,
}

/// A component before it has slots.
pub(crate) struct Meeting<'a> {
    jobs: &'a [Arc<Job>],
    periods: Vec<Nanos>,
    classes: Vec<Class>,
    problem: Problem,
    /// First link of the problem of each class; `None` for links of one job.
    first: Vec<Option<usize>>,
}

impl<'a> Meeting<'a> {
    /// Whom `jobs` meet and where, at these periods.
    ///
    /// # Errors
    /// [`Refusal::Policy`] beyond the circle's limits.
    pub(crate) fn new(plan: &Plan, jobs: &'a [Arc<Job>], periods: Vec<Nanos>) -> Result<Self, Refusal> {
        let classes = classes(plan, jobs);
        let (problem, first) = problem(jobs, &periods, &classes).map_err(|(class, e)| {
            let link = class.and_then(|c: usize| classes[c].links.first().copied());
            let place =
                link.zip(plan.installed.as_ref()).map_or_else(Default::default, |(l, i)| format!("link {}: ", i.fabric().link_name(l)));
            Refusal::Policy(format!("{place}{e}"))
        })?;
        Ok(Self { jobs, periods, classes, problem, first })
    }

    pub(crate) fn problem(&self) -> &Problem {
        &self.problem
    }

    /// The scores of these shifts.
    ///
    /// # Errors
    /// [`Refusal::Policy`] when there are more shifts than jobs or fewer.
    pub(crate) fn evaluate(&self, shifts: &[Ticks]) -> Result<Solution, Refusal> {
        circle::evaluate(&self.problem, shifts).map_err(|e| Refusal::Policy(e.to_string()))
    }

    /// The component under a solution of its problem.
    pub(crate) fn assess(&self, solution: &Solution, tolerance_permille: u32, holding: Holding<'_>) -> Assessed {
        let shifts: Vec<Ticks> = solution.shifts.iter().map(|s| s.shift).collect();
        let mut classes = self.classes.clone();
        let mut class_of = Vec::new();
        for (c, class) in classes.iter_mut().enumerate() {
            let Some(scores) = self.first[c].and_then(|l| solution.links.get(l)) else { continue };
            (class.score, class.zero_shift_score) = (scores.score, scores.zero_shift_score);
            class_of.extend(class.links.iter().map(|l| (*l, c as u32)));
        }
        class_of.sort_unstable();
        let (times, advice) = self.predict(&shifts, tolerance_permille, holding);
        let component = Component {
            members: self.jobs.iter().map(|j| j.name.clone()).collect(),
            class_of,
            classes,
            score: solution.mean_score,
            zero_shift_score: solution.zero_shift_mean_score,
            times,
            advised: advice.times,
        };
        Assessed { component, slacks: solution.shifts.iter().map(|s| Nanos(s.slack.0)).collect(), hold: advice.hold }
    }

    /// The iteration alone is compared with the period of the slot, so what the headroom costs counts against holding.
    fn predict(&self, shifts: &[Ticks], tolerance_permille: u32, holding: Holding<'_>) -> (Vec<IterationTimes>, hold::Advice) {
        let job = |((job, period), shift): ((&Arc<Job>, &Nanos), &Ticks)| FluidJob {
            iteration: job.definition.job.period,
            period: *period,
            shift: Nanos(shift.0),
        };
        let jobs: Vec<FluidJob> = self.jobs.iter().zip(&self.periods).zip(shifts).map(job).collect();
        let demand = |&(j, d): &(u32, u32)| (j as usize, self.jobs[j as usize].load.demands.demands[d as usize].as_slice());
        let link = |c: &Class| FluidLink { capacity: c.capacity, demands: c.members.iter().map(demand).collect() };
        let links: Vec<FluidLink<'_>> = self.classes.iter().map(link).collect();
        let times = predict(&jobs, &links, tolerance_permille);
        let gpus: Vec<u32> = self.jobs.iter().map(|j| j.definition.job.gpus).collect();
        let before = if let Holding::Advised(before) = holding { before } else { &[] };
        let jitter_permille = JITTER_PERMILLE;
        let question = Question { jobs: &jobs, gpus: &gpus, links: &links, times: &times, before, tolerance_permille, jitter_permille };
        let advice = match holding {
            Holding::Advised(_) => hold::advise(&question, &hold::sets(jobs.len(), &links)),
            Holding::Kept(hold) => hold::Advice { hold: hold.to_vec(), times: hold::times_of(&question, hold) },
        };
        (times, advice)
    }
}

/// Which (job, demand) meet on a link, and its capacity in Mbit/s: what makes links alike.
type Content = (Vec<(u32, u32)>, u64);

/// The links that the jobs can exceed, together or one alone, equal ones together, in order of content.
fn classes(plan: &Plan, jobs: &[Arc<Job>]) -> Vec<Class> {
    let mut all: Vec<(LinkId, u32, u32)> = Vec::new();
    for (local, job) in jobs.iter().enumerate() {
        all.extend(job.load.demands.links.iter().map(|&(link, demand)| (link, local as u32, demand)));
    }
    all.sort_unstable();
    let mut found: BTreeMap<Content, Vec<LinkId>> = BTreeMap::new();
    for chunk in all.chunk_by(|a, b| a.0 == b.0) {
        let peak = |&(_, j, d): &(LinkId, u32, u32)| jobs[j as usize].load.peaks[d as usize];
        let capacity = plan.capacity(chunk[0].0);
        if chunk.iter().map(peak).fold(0, u64::saturating_add) > capacity {
            let members = chunk.iter().map(|&(_, j, d)| (j, d)).collect();
            found.entry((members, capacity)).or_default().push(chunk[0].0);
        }
    }
    let class = |((members, capacity), links)| Class { capacity: Rate(capacity), links, members, score: 1.0, zero_shift_score: 1.0 };
    found.into_iter().map(class).collect()
}

/// Where a problem could not be stated (class) and why.
type Unstated = (Option<usize>, ProblemError);

/// The circle problem: as many copies of each class as keep the means right, ticks of one nanosecond.
fn problem(jobs: &[Arc<Job>], periods: &[Nanos], classes: &[Class]) -> Result<(Problem, Vec<Option<usize>>), Unstated> {
    let mut builder = ProblemBuilder::new();
    for period in periods {
        builder.job(Ticks(period.0)).map_err(|e| (None, e))?;
    }
    let shared = |c: &&Class| c.members.len() > 1;
    let common = classes.iter().filter(shared).fold(0_u64, |g, c| g.gcd(&(c.links.len() as u64))).max(1) as usize;
    let mut first = Vec::with_capacity(classes.len());
    let mut links = 0;
    for (c, class) in classes.iter().enumerate() {
        if class.members.len() < 2 {
            first.push(None);
            continue;
        }
        first.push(Some(links));
        let mut members = Vec::with_capacity(class.members.len());
        for &(job, demand) in &class.members {
            let phases = &jobs[job as usize].load.demands.demands[demand as usize];
            members.push(builder.demand(JobId(job), phases).map_err(|e| (Some(c), e))?);
        }
        for _ in 0..class.links.len() / common {
            builder.link(class.capacity, members.clone()).map_err(|e| (Some(c), e))?;
            links += 1;
        }
    }
    Ok((builder.build(), first))
}
