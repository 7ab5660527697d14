//! One change of a plan, all or nothing: the components that it touches get their slots anew, the others keep theirs.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};

use circle::Ticks;
use plan::{
    Holding, Standing,
    slot::{self, SlotTimes},
};
use units::{FabricTime, Nanos};

use crate::{
    Config, Refusal, Slot,
    component::{Assessed, Component, ComponentProblem, groups, phases_of, work_of_each},
    config::PLANNING_WORK_MAX,
    plan::{Job, Name, Plan},
};

/// A change under way; [`Transaction::undo`] takes it back.
pub(crate) struct Transaction<'a> {
    pub(crate) plan: &'a mut Plan,
    pub(crate) config: &'a Config,
    /// Plan version of the slots that it changes.
    pub(crate) plan_version: u64,
    before: BTreeMap<Name, Option<Arc<Job>>>,
}

/// How a job is kept from the others.
#[derive(Clone, Copy, Debug)]
struct Kept {
    hold: bool,
    turns: bool,
    slack: Nanos,
}

/// What re-planning came to.
#[derive(Debug)]
pub(crate) struct Settled {
    /// Jobs of the touched components, by name.
    pub(crate) jobs: Vec<Arc<Job>>,
    /// Those that were running and whose slot moved, by name.
    pub(crate) moved: Vec<String>,
    /// Mean over the links of those components that can be over capacity; 1 when there is none.
    pub(crate) score: f64,
}

impl<'a> Transaction<'a> {
    pub(crate) fn new(plan: &'a mut Plan, config: &'a Config) -> Self {
        let plan_version = plan.version.max(plan.seen) + 1;
        Self { plan, config, plan_version, before: BTreeMap::new() }
    }

    pub(crate) fn put(&mut self, name: &Name, job: Option<Arc<Job>>) {
        let plan = &self.plan;
        // Only the first value counts: `undo` goes back to before the transaction and not to a step inside it.
        self.before.entry(name.clone()).or_insert_with(|| plan.job(name).cloned());
        self.plan.replace(name, job);
    }

    /// Takes everything back.
    pub(crate) fn undo(self) {
        for (name, job) in self.before {
            self.plan.replace(&name, job);
        }
    }

    /// The names that it touched. The plan moves on to the plan version of the change.
    pub(crate) fn finish(self) -> BTreeSet<Name> {
        self.plan.version = self.plan_version;
        self.before.into_keys().collect()
    }

    /// The members of a job's component, itself included.
    pub(crate) fn members(&self, job: &Job) -> Vec<Name> {
        job.component.as_ref().map_or_else(|| alloc::vec![job.name.clone()], |c| c.members.clone())
    }

    /// Gives slots to the components of the jobs named. `fresh` ones may stand anywhere; the others keep their slots where
    /// that costs little.
    ///
    /// # Errors
    /// [`Refusal::Policy`]: the solver's limits.
    pub(crate) fn settle(&mut self, dirty: &BTreeSet<Name>, fresh: &BTreeSet<Name>) -> Result<Settled, Refusal> {
        let mut out = Settled { jobs: Vec::new(), moved: Vec::new(), score: 1.0 };
        let (mut loss, mut links) = (0.0, 0usize);
        // The groups are found once: slots, which are all that the loop changes, do not decide who meets whom.
        let groups = groups(self.plan, dirty);
        for (work, group) in work_of_each(&groups, PLANNING_WORK_MAX).into_iter().zip(groups) {
            self.plan.planned += phases_of(&group);
            let settled = if let [job] = &group[..] { alloc::vec![self.alone(job)] } else { self.together(&group, fresh, work)? };
            if let Some(component) = settled.first().and_then(|j| j.component.as_ref()) {
                // The score is a mean over links, so each component weighs as many links as it has.
                loss += (1.0 - component.score) * component.links.len() as f64;
                links += component.links.len();
            }
            for (old, new) in group.iter().zip(settled) {
                let turned = old.slot.times.offset != new.slot.times.offset || old.slot.times.period != new.slot.times.period;
                // A fresh job had no slot from which it could move.
                if turned && !fresh.contains(&old.name) {
                    out.moved.push(old.name.to_string());
                }
                let new = Arc::new(new);
                self.put(&old.name, Some(new.clone()));
                out.jobs.push(new);
            }
        }
        if links > 0 {
            out.score = 1.0 - loss / links as f64;
        }
        out.jobs.sort_by(|a, b| a.name.cmp(&b.name));
        out.moved.sort_unstable();
        Ok(out)
    }

    /// A job that meets nobody.
    fn alone(&self, job: &Arc<Job>) -> Job {
        let period = slot::period(job.planned.job.period, job.headroom_permille);
        // Any offset is good for a job that meets nobody, so the old one stays: nothing moves without need.
        let offset = if job.slot.times.period == period { job.slot.times.offset } else { Nanos(0) };
        // Half of the period is the largest slack that a slot has: this job may drift as it likes.
        let kept = Kept { hold: false, turns: false, slack: Nanos(period.0 / 2) };
        self.with_slot(job, job.headroom_permille, (period, offset), kept, None)
    }

    /// Jobs that meet: one headroom for all, so that their periods keep their ratio.
    fn together(&self, group: &[Arc<Job>], fresh: &BTreeSet<Name>, work: u64) -> Result<Vec<Job>, Refusal> {
        // The largest headroom counts: a job that slipped keeps its room whomever it meets.
        let headroom = group.iter().map(|j| j.headroom_permille).max().unwrap_or(0);
        let solos: Vec<Nanos> = group.iter().map(|j| j.planned.job.period).collect();
        let periods = slot::periods(&solos, headroom);
        let problem = ComponentProblem::new(self.plan, self.config, group, &periods, work)?;
        let stays = |(job, period): (&Arc<Job>, &Nanos)| {
            // An offset within another period says nothing about this one.
            (!fresh.contains(&job.name) && job.slot.times.period == *period).then_some(Ticks(job.slot.times.offset.0))
        };
        let current: Vec<Option<Ticks>> = group.iter().zip(&periods).map(stays).collect();
        let effort = self.config.effort;
        // Without a slot to keep, the solver looks for the best shifts and not for the nearest good ones.
        let standing = if current.iter().all(Option::is_none) { problem.solve(effort)? } else { problem.adjust(effort, &current)? };
        // A job without a component has no history of being held.
        let held = |job: &Arc<Job>| (!fresh.contains(&job.name) && job.component.is_some()).then_some(job.slot.hold);
        let before: Vec<Option<bool>> = group.iter().map(held).collect();
        Ok(self.under(group, &problem, &periods, headroom, &standing, Holding::Advised(&before)))
    }

    /// The jobs of a component under a solution of its problem.
    fn under(
        &self,
        group: &[Arc<Job>],
        problem: &ComponentProblem<'_>,
        periods: &[Nanos],
        headroom: u32,
        standing: &Standing,
        holding: Holding<'_>,
    ) -> Vec<Job> {
        let Assessed { component, slacks, hold, turns } = problem.assess(standing, self.config, holding);
        let component = Arc::new(component);
        let job = |(i, job): (usize, &Arc<Job>)| {
            let start = (periods[i], standing.shifts[i]);
            let kept = Kept { hold: hold[i], turns: turns[i], slack: slacks[i] };
            self.with_slot(job, headroom, start, kept, Some(component.clone()))
        };
        group.iter().enumerate().map(job).collect()
    }

    /// Moves one job to `offset` and nobody else, if no score of its component falls. Jobs that are held stay held.
    ///
    /// # Errors
    /// [`Refusal::Policy`]: the solver's limits.
    pub(crate) fn shift_alone(&mut self, name: &Name, offset: Nanos) -> Result<bool, Refusal> {
        let Some(component) = self.plan.job(name).and_then(|j| j.component.clone()) else { return Ok(false) };
        let group: Vec<Arc<Job>> = component.members.iter().filter_map(|n| self.plan.job(n).cloned()).collect();
        self.plan.planned += phases_of(&group);
        let periods: Vec<Nanos> = group.iter().map(|j| j.slot.times.period).collect();
        let problem = ComponentProblem::new(self.plan, self.config, &group, &periods, PLANNING_WORK_MAX)?;
        let shifts: Vec<Ticks> = group.iter().map(|j| Ticks(if j.name == *name { offset.0 } else { j.slot.times.offset.0 })).collect();
        let headroom = group.iter().map(|j| j.headroom_permille).max().unwrap_or(0);
        let hold: Vec<bool> = group.iter().map(|j| j.slot.hold).collect();
        // Both are scored with the same work here: the score that is kept may be of a change that had less for it.
        let present: Vec<Ticks> = group.iter().map(|j| Ticks(j.slot.times.offset.0)).collect();
        let (next, now) = (problem.evaluate(&shifts)?, problem.evaluate(&present)?);
        // `PROOF_TOLERANCE` is the rounding of the sums: a difference below it is no fall.
        if next.score + circle::PROOF_TOLERANCE < now.score {
            return Ok(false);
        }
        let moved = self.under(&group, &problem, &periods, headroom, &next, Holding::Kept(&hold));
        // The whole component is put back, because slacks and predictions of the others follow from the new offset too.
        for job in moved {
            self.put(&job.name.clone(), Some(Arc::new(job)));
        }
        Ok(true)
    }

    fn with_slot(&self, job: &Job, headroom: u32, start: (Nanos, Nanos), kept: Kept, component: Option<Arc<Component>>) -> Job {
        let (period, offset) = start;
        // The old version and no expiry: a slot that differs in nothing else is neither written nor told as changed.
        let mut slot = Slot {
            job: job.name.to_string(),
            plan_version: job.slot.plan_version,
            times: SlotTimes::new(period, offset, kept.slack, self.config.tolerance_permille),
            hold: kept.hold,
            turns: kept.turns,
            expires: FabricTime(0),
            leader_host: job.planned.hosts.first().cloned().unwrap_or_default(),
        };
        // Plan version 0 is before every plan: the slot of a job that has none yet.
        if slot != job.slot || slot.plan_version == 0 {
            slot.plan_version = self.plan_version;
        }
        Job { slot, headroom_permille: headroom, component, ..job.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        JobDefinition,
        config::COMPONENT_WORK_MIN,
        plan::{Load, Presence},
    };
    use plan::LinkDemands;
    use units::LinkId;

    fn job(name: &str, links: &[u32]) -> (Name, Arc<Job>) {
        let slot = Slot {
            job: name.into(),
            plan_version: 1,
            times: SlotTimes { period: Nanos(1_000), offset: Nanos(0), tolerance: Nanos(150), slack: Nanos(500), hold_max: Nanos(1_000) },
            hold: false,
            turns: false,
            expires: FabricTime(0),
            leader_host: "h".into(),
        };
        let definition = JobDefinition {
            job: job::Job { name: name.into(), gpus: 1, period: Nanos(1_000), hold: job::Hold::Auto, phases: Vec::new() },
            placement: job::Placement::default(),
            hosts: Vec::new(),
            document: crate::Document::new(Arc::new(())),
        };
        let demands = LinkDemands { links: links.iter().map(|l| (LinkId(*l), 0)).collect(), demands: alloc::vec![Vec::new()] };
        let load = Arc::new(Load { demands, peaks: alloc::vec![7], hosts: alloc::vec!["h".into()] });
        let name = Name::from(name);
        let job = Job {
            name: name.clone(),
            definition: Arc::new(definition.clone()),
            measured: None,
            planned: Arc::new(definition),
            load,
            lease: None,
            headroom_permille: 50,
            hold_ended: None,
            slot,
            component: None,
        };
        (name, Arc::new(job))
    }

    #[test]
    fn components_share_the_work_of_a_change_by_their_phases() {
        let group = |links: &[u32]| ["a", "b"].map(|name| job(name, links).1).to_vec();
        let alone = alloc::vec![job("c", &[1, 2, 3]).1];
        assert_eq!(work_of_each(&[group(&[1, 2]), alone], PLANNING_WORK_MAX), [PLANNING_WORK_MAX, COMPONENT_WORK_MIN]);
        assert_eq!(work_of_each(&[group(&[1, 2, 3]), group(&[4])], PLANNING_WORK_MAX), [PLANNING_WORK_MAX / 4 * 3, PLANNING_WORK_MAX / 4]);
        assert_eq!(work_of_each(&alloc::vec![group(&[1]); 1_000], PLANNING_WORK_MAX), [COMPONENT_WORK_MIN; 1_000]);
        // At the start there is more for all, and for each as much as in a change of its own.
        assert_eq!(work_of_each(&[group(&[1]), group(&[2])], 10 * PLANNING_WORK_MAX), [PLANNING_WORK_MAX; 2]);
    }

    fn shape(plan: &Plan) -> Vec<(u32, Vec<(String, u64)>)> {
        let here = |p: &[Presence]| p.iter().map(|p| (p.job.to_string(), p.peak)).collect();
        plan.links().map(|(l, p)| (l.0, here(p))).collect()
    }

    #[test]
    fn a_draft_taken_back_leaves_jobs_links_hosts_and_plan_version_as_they_were() {
        let (config, mut plan) = (Config::default(), Plan::default());
        let (a, first) = job("a", &[1, 2]);
        plan.replace(&a, Some(first.clone()));
        let before = shape(&plan);
        let mut transaction = Transaction::new(&mut plan, &config);
        let (b, second) = job("b", &[2, 3]);
        transaction.put(&a, Some(job("a", &[3]).1));
        transaction.put(&b, Some(second));
        transaction.put(&a, None);
        assert_eq!(shape(transaction.plan), [(2, alloc::vec![("b".into(), 7)]), (3, alloc::vec![("b".into(), 7)])]);
        transaction.undo();
        assert_eq!((shape(&plan), plan.version, plan.jobs().len(), plan.at("h").count()), (before, 0, 1, 1));
        assert!(Arc::ptr_eq(plan.job("a").unwrap(), &first));
    }

    #[test]
    fn a_draft_that_is_kept_names_what_it_touched() {
        let (config, mut plan) = (Config::default(), Plan::default());
        let (a, first) = job("a", &[1]);
        let mut transaction = Transaction::new(&mut plan, &config);
        transaction.put(&a, Some(first));
        let settled = transaction.settle(&BTreeSet::from([a.clone()]), &BTreeSet::new()).unwrap();
        // The default headroom of 5 %: another period than the 1,000 ns that it had, so its slot moves.
        assert_eq!((settled.moved.len(), settled.score), (1, 1.0));
        assert_eq!(transaction.finish(), BTreeSet::from([a.clone()]));
        assert_eq!((plan.version, plan.job("a").unwrap().slot.times.period), (1, Nanos(2_000)));
    }
}
