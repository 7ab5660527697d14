//! Jobs that meet, directly or through others, on links that can be over capacity.
//!
//! No shift in one component changes a score in another, so a change re-plans only those that it touches.

use alloc::{collections::BTreeSet, format, string::ToString, sync::Arc, vec::Vec};

use circle::{Effort, Ticks};
use fluid::jitter::JITTER_PERMILLE;
use job::Hold;
use plan::{
    Control, Coupled, Gates, Holding, JobTimes, LinkDemands, Member, Options, Predictions, Standing,
    turns::{Arbitrated, Limits, Objective, Taking},
};
use units::{LinkId, Nanos};

use crate::{
    Config, Forecast, Refusal,
    config::{COMPONENT_WORK_MIN, MOVE_TOLERANCE, PLANNING_WORK_MAX},
    plan::{Job, Name, Plan},
    turns::{TurnGroup, TurnJob},
};

/// The scores of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LinkScore {
    pub(crate) link: LinkId,
    pub(crate) score: f64,
    pub(crate) zero_shift_score: f64,
}

/// A component under its slots.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Component {
    /// By name.
    pub(crate) members: Vec<Name>,
    /// Every link that two or more of the jobs can exceed, by link.
    pub(crate) links: Vec<LinkScore>,
    /// Mean over those links.
    pub(crate) score: f64,
    pub(crate) zero_shift_score: f64,
    /// Per member.
    pub(crate) times: Vec<JobTimes>,
    /// Per member: predicted iteration when those are held, or take turns, whose slots say so.
    pub(crate) interleaved: Vec<Nanos>,
    /// Per member, where nobody is to be held: what turns would bring; else empty.
    pub(crate) forecasts: Vec<Forecast>,
    /// Members that take turns, directly or through others.
    pub(crate) turns: Vec<Arc<TurnGroup>>,
}

impl Component {
    /// Score and score without shifts of a link; `None` where nothing can be over capacity.
    pub(crate) fn scores(&self, link: LinkId) -> Option<(f64, f64)> {
        let at = self.links.binary_search_by_key(&link, |l| l.link).ok()?;
        Some((self.links[at].score, self.links[at].zero_shift_score))
    }

    /// Predicted iterations of a member, and the one that follows from who is held.
    pub(crate) fn times(&self, job: &str) -> Option<(JobTimes, Nanos)> {
        let at = self.members.binary_search_by(|m| (**m).cmp(job)).ok()?;
        self.times.get(at).copied().zip(self.interleaved.get(at).copied())
    }

    /// What turns would bring to a member, where nobody is to be held.
    pub(crate) fn forecast(&self, job: &str) -> Option<Forecast> {
        let at = self.members.binary_search_by(|m| (**m).cmp(job)).ok()?;
        self.forecasts.get(at).copied()
    }
}

/// The components of the jobs named, each with its jobs by name, in order of their first job. Jobs that meet nobody are groups
/// of one; unknown names are passed over.
pub(crate) fn groups(plan: &Plan, dirty: &BTreeSet<Name>) -> Vec<Vec<Arc<Job>>> {
    let mut seen: BTreeSet<Name> = BTreeSet::new();
    let mut walked: BTreeSet<LinkId> = BTreeSet::new();
    let mut out = Vec::new();
    for start in dirty {
        // A name may be that of a job which this change takes away.
        let Some(job) = plan.job(start) else { continue };
        if !seen.insert(start.clone()) {
            continue;
        }
        let mut group = Vec::new();
        let mut queue = alloc::vec![job];
        while let Some(job) = queue.pop() {
            for (link, _) in &job.load.demands.links {
                // A link that its jobs cannot exceed joins nobody. Each link is walked and each job queued once: that bounds the search.
                if plan.on(*link).len() < 2 || !walked.insert(*link) || !plan.is_contended(*link) {
                    continue;
                }
                queue.extend(plan.on(*link).iter().filter(|p| seen.insert(p.job.clone())).filter_map(|p| plan.job(&p.job)));
            }
            group.push(job.clone());
        }
        // Members are found by binary search, and the solver's answer must not depend on where the search began.
        group.sort_by(|a, b| a.name.cmp(&b.name));
        out.push(group);
    }
    out
}

/// How much of the work `of_all` there is for each of the components that are planned together, in units of about 10 ns: by their phases,
/// and never more than one change has.
pub(crate) fn work_of_each(groups: &[Vec<Arc<Job>>], of_all: u64) -> Vec<u64> {
    let phases: Vec<u64> = groups.iter().map(|group| phases_of(group)).collect();
    let all = phases.iter().sum::<u64>().max(1);
    let share = |own: &u64| u128::from(of_all) * u128::from(*own) / u128::from(all);
    // No share is above the whole, which has 64 bits.
    phases.iter().map(|own| (share(own) as u64).clamp(COMPONENT_WORK_MIN, PLANNING_WORK_MAX)).collect()
}

/// The phases that are looked at when a component is planned; none of a job that meets nobody.
pub(crate) fn phases_of(group: &[Arc<Job>]) -> u64 {
    if group.len() > 1 { group.iter().map(|job| phases_on_links(job)).sum() } else { 0 }
}

/// The phases of a job on all its links: how much it adds to what is planned.
fn phases_on_links(job: &Job) -> u64 {
    let LinkDemands { links, demands } = &job.load.demands;
    // An empty demand has its link to be looked at.
    links.iter().map(|&(_, demand)| demands[demand as usize].len() as u64 + 1).sum()
}

/// A component under a solution of its problem, and what each of its jobs is told; per job, in order of name.
#[derive(Debug)]
pub(crate) struct Assessed {
    pub(crate) component: Component,
    pub(crate) slacks: Vec<Nanos>,
    pub(crate) hold: Vec<bool>,
    pub(crate) turns: Vec<bool>,
}

/// A component before it has slots.
pub(crate) struct ComponentProblem<'a> {
    jobs: &'a [Arc<Job>],
    coupled: Coupled,
    /// Most work on it, in units of about 10 ns.
    work: u64,
}

/// The part of the work on a component, as a divisor, that each search for shifts has, and each scoring of some.
const SHIFTS_SHARE: u64 = 4;
/// The part that choosing turns has, and demands that their runs look at in one unit.
const TURNS_SHARE: u64 = 2;
const DEMANDS_PER_WORK: u64 = 10;

impl<'a> ComponentProblem<'a> {
    /// Whom `jobs` meet and where, at these periods; `work` is how much may be spent on planning them, in units of about 10 ns.
    ///
    /// # Errors
    /// [`Refusal::Policy`] beyond the circle's limits.
    pub(crate) fn new(plan: &Plan, config: &Config, jobs: &'a [Arc<Job>], periods: &[Nanos], work: u64) -> Result<Self, Refusal> {
        // A slot needs a period that fits; turns need none, so what ended a hold in slots is nothing to them.
        let is_let_go = |job: &Job| job.hold_ended.is_some() && config.control == Control::Slots;
        let member = |(job, period): (&'a Arc<Job>, &Nanos)| Member {
            iteration: job.planned.job.period,
            period: *period,
            gpus: job.planned.job.gpus,
            hold: if is_let_go(job) { Hold::Never } else { job.planned.job.hold },
            demands: &job.load.demands,
            peaks: &job.load.peaks,
        };
        let members: Vec<Member<'a>> = jobs.iter().zip(periods).map(member).collect();
        let coupled = Coupled::new(&members, |link| plan.capacity(link)).map_err(|(link, e)| {
            let place =
                link.zip(plan.installed.as_ref()).map_or_else(Default::default, |(l, i)| format!("link {}: ", i.fabric().link_name(l)));
            Refusal::Policy(format!("{place}{e}"))
        })?;
        Ok(Self { jobs, coupled, work })
    }

    fn shifts_work(&self) -> Option<u64> {
        Some(self.work / SHIFTS_SHARE)
    }

    /// An evaluation of candidates tries as much, so what it says is what a commit does, as far as one change may work.
    fn turns_limits(&self) -> Limits {
        let work_max = (self.work / TURNS_SHARE).saturating_mul(DEMANDS_PER_WORK);
        Limits { work_max: work_max.min(Limits::RANKING.work_max), ..Limits::RANKING }
    }

    /// The best shifts of jobs none of which runs.
    ///
    /// # Errors
    /// [`Refusal::Policy`]: what the solver refuses.
    pub(crate) fn solve(&self, effort: Effort) -> Result<Standing, Refusal> {
        // Iteration times are predicted by `assess`, which every solution goes through.
        let options = Options { effort, predict: Predictions::Needed, work_max: self.shifts_work(), ..Options::default() };
        self.coupled.solve(&options).map_err(|e| Refusal::Policy(e.to_string()))
    }

    /// Shifts near those that running jobs have; `None` for a job that does not run.
    ///
    /// # Errors
    /// [`Refusal::Policy`]: what the solver refuses.
    pub(crate) fn adjust(&self, effort: Effort, current: &[Option<Ticks>]) -> Result<Standing, Refusal> {
        let options = circle::Options { effort, work_max: self.shifts_work(), ..circle::Options::default() };
        let found =
            circle::adjust(self.coupled.problem(), &options, current, MOVE_TOLERANCE).map_err(|e| Refusal::Policy(e.to_string()))?;
        Ok(self.coupled.standing(&found.solution))
    }

    /// What these shifts are worth.
    ///
    /// # Errors
    /// [`Refusal::Policy`] when there are more shifts than jobs or fewer.
    pub(crate) fn evaluate(&self, shifts: &[Ticks]) -> Result<Standing, Refusal> {
        let solution =
            circle::evaluate_within(self.coupled.problem(), shifts, self.shifts_work()).map_err(|e| Refusal::Policy(e.to_string()))?;
        Ok(self.coupled.standing(&solution))
    }

    /// The component under these shifts. `holding` says who is held by slots, where slots are the control.
    pub(crate) fn assess(&self, standing: &Standing, config: &Config, holding: Holding<'_>) -> Assessed {
        let mut links: Vec<LinkScore> = Vec::new();
        for exceeded in self.coupled.exceeded(standing) {
            let Some((score, zero_shift_score)) = exceeded.scores else { continue };
            links.extend(exceeded.links.iter().map(|&link| LinkScore { link, score, zero_shift_score }));
        }
        // `Component::scores` finds a link by binary search.
        links.sort_unstable_by_key(|l| l.link);
        let gates = Gates {
            tolerance_permille: config.tolerance_permille,
            jitter_permille: JITTER_PERMILLE,
            control: config.control,
            limits: self.turns_limits(),
            objective: config.objective,
        };
        let (times, advice) = self.coupled.predict(standing, gates, holding);
        let turns = self.turn_groups(&advice.turns);
        let takes = |name: &Name| turns.iter().any(|g: &Arc<TurnGroup>| g.jobs.iter().any(|j| j.name == *name));
        let takes_turns: Vec<bool> = self.jobs.iter().map(|j| takes(&j.name)).collect();
        let component = Component {
            members: self.jobs.iter().map(|j| j.name.clone()).collect(),
            links,
            score: standing.score,
            zero_shift_score: standing.zero_shift_score,
            times,
            interleaved: advice.times,
            forecasts: if config.control == Control::Observe { self.forecasts(config.objective) } else { Vec::new() },
            turns,
        };
        Assessed { component, slacks: standing.slacks.clone(), hold: advice.hold, turns: takes_turns }
    }

    /// What turns would bring: the same advice as a service that gives turns would follow.
    fn forecasts(&self, objective: Objective) -> Vec<Forecast> {
        let advice = self.coupled.take_turns(JITTER_PERMILLE, self.turns_limits());
        let both = advice.free.times.iter().zip(&advice.chosen_for(objective).times);
        both.map(|(free, by_turns)| Forecast { free: *free, by_turns: *by_turns }).collect()
    }

    /// The groups that a choice of turns makes.
    fn turn_groups(&self, taking: &Taking) -> Vec<Arc<TurnGroup>> {
        let job = |j: &usize| {
            let job = &self.jobs[*j];
            TurnJob { name: job.name.clone(), leader_host: job.planned.hosts.first().map_or("", |h| h).into() }
        };
        // A permission ahead saves the way to the service, where there is one.
        let group = |a: Arbitrated| TurnGroup { jobs: a.jobs.iter().map(job).collect(), group: ::turns::Group { ahead: true, ..a.group } };
        self.coupled.arbitrated(taking).into_iter().map(|a| Arc::new(group(a))).collect()
    }
}
