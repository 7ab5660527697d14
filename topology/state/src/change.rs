//! What can change the plan, and how. A change is applied whole or leaves no trace.

mod commit;
mod fabric;
mod keys;
mod measured;
mod release;
mod renewal;
mod schedule;
mod slots;

use alloc::{collections::BTreeSet, format, string::String, sync::Arc, vec::Vec};

use units::FabricTime;

use crate::{
    Change, Config, Notice, NoticeKind, Refusal, Reply, RequestId, Severity, Slot,
    check::check,
    measured::{Seen, as_planned},
    plan::{Installed, Job, Name, Plan},
    transaction::{Settled, Transaction},
    turns::Comparison,
    watch::HoldEnd,
};

/// A change that waits for its turn.
#[derive(Debug)]
pub(crate) enum Queued {
    /// A client asked for it.
    Asked { request: RequestId, change: Change },
    /// The leases of these jobs ran out.
    Expire { jobs: Vec<Name> },
    /// A job slipped too often under the slot of this plan version.
    Lengthen { job: Name, plan_version: u64 },
    /// A job stands this far from its slot of this plan version.
    Realign { job: Name, plan_version: u64, error: i64 },
    /// Holding a job to its slot of this plan version has to end.
    EndHold { job: Name, plan_version: u64, why: HoldEnd },
    /// Jobs were measured to be others than they are planned.
    Measure { jobs: Vec<(Name, Seen)> },
    /// A group that takes turns was compared with itself, held and free.
    Compared { found: Arc<Comparison> },
}

/// What a change did, to be told when it is durable.
#[derive(Debug, Default)]
pub(crate) struct Done {
    pub(crate) reply: Option<Reply>,
    pub(crate) notices: Vec<Notice>,
    pub(crate) touched: BTreeSet<Name>,
    pub(crate) keys: BTreeSet<Arc<str>>,
    pub(crate) fabric: bool,
    pub(crate) submissions: BTreeSet<Name>,
    /// The first job of the group that was compared.
    pub(crate) comparison: Option<Name>,
    /// Whether each notice that names a caller belongs to its own request.
    pub(crate) several: bool,
}

impl Done {
    /// What is told names who asked.
    fn asked_by(mut self, by: Option<&Arc<str>>) -> Self {
        self.notices.iter_mut().for_each(|notice| notice.by = by.cloned());
        self
    }

    /// What is told came of what the agent of this host reports.
    fn of_agent(mut self, host: Option<Arc<str>>) -> Self {
        self.notices.iter_mut().for_each(|notice| notice.agent.clone_from(&host));
        self
    }
}

impl Queued {
    /// The request that waits for the answer.
    pub(crate) fn request(&self) -> Option<RequestId> {
        match self {
            Self::Asked { request, .. } => Some(*request),
            Self::Expire { .. }
            | Self::Lengthen { .. }
            | Self::Realign { .. }
            | Self::EndHold { .. }
            | Self::Measure { .. }
            | Self::Compared { .. } => None,
        }
    }

    /// Applies the change.
    ///
    /// # Errors
    /// Why it was refused; the plan is as before.
    pub(crate) fn apply(self, now: FabricTime, plan: &mut Plan, config: &Config) -> Result<Done, Refusal> {
        match self {
            Self::Asked { change: Change::Commit(commit), .. } => {
                let names = commit.jobs.iter().map(|definition| definition.job.name.as_str());
                if commit.learned {
                    refuse_unknown(plan, names)?;
                } else {
                    refuse_submitted(plan, config, names)?;
                }
                let by = commit.by.clone();
                let agent = commit.jobs.first().filter(|_| commit.learned).and_then(|d| plan.leader(&Name::from(d.job.name.as_str())));
                commit::commit(now, plan, config, commit).map(|done| done.asked_by(by.as_ref()).of_agent(agent))
            }
            Self::Asked { change: Change::Release { jobs, by }, .. } => {
                refuse_submitted(plan, config, jobs.iter().map(String::as_str))?;
                release::release(now, plan, config, &jobs).map(|done| done.asked_by(by.as_ref()))
            }
            Self::Asked { change: Change::Schedule(change), .. } => schedule::schedule(now, plan, config, *change),
            Self::Asked { change: Change::SetFabric { fabric, text, jobs, if_fabric, by }, .. } => {
                fabric::refuse_other_fabric(plan, if_fabric)?;
                fabric::set_fabric(now, plan, config, fabric, text, jobs).map(|done| done.asked_by(by.as_ref()))
            }
            Self::Expire { jobs } => release::expire(now, plan, config, &jobs),
            Self::Lengthen { job, plan_version } => {
                let agent = plan.leader(&job);
                slots::lengthen(now, plan, config, &job, plan_version).map(|done| done.of_agent(agent))
            }
            Self::Realign { job, plan_version, error } => {
                let agent = plan.leader(&job);
                slots::realign(now, plan, config, &job, plan_version, error).map(|done| done.of_agent(agent))
            }
            Self::EndHold { job, plan_version, why } => {
                let agent = plan.leader(&job);
                slots::end_hold(now, plan, config, &job, plan_version, why).map(|done| done.of_agent(agent))
            }
            Self::Measure { jobs } => {
                let agent = jobs.first().and_then(|(job, _)| plan.leader(job));
                measured::measure(now, plan, config, &jobs).map(|done| done.of_agent(agent))
            }
            Self::Compared { found } => Ok(compared(plan, found)),
        }
    }
}

fn notice(now: FabricTime, severity: Severity, kind: NoticeKind, job: Option<&str>, plan_version: u64, message: String) -> Notice {
    Notice { by: None, at: now, severity, kind, message, job: job.map(String::from), host: None, agent: None, plan_version, order: None }
}

/// Runs `work` on a transaction and keeps all of it or nothing.
fn drafted<T>(
    plan: &mut Plan,
    config: &Config,
    work: impl FnOnce(&mut Transaction<'_>) -> Result<T, Refusal>,
) -> Result<(T, BTreeSet<Name>), Refusal> {
    let mut transaction = Transaction::new(plan, config);
    match work(&mut transaction) {
        Ok(out) => Ok((out, transaction.finish())),
        Err(refusal) => {
            // Some jobs may have been replaced before the refusal: a change leaves no trace unless it is applied whole.
            transaction.undo();
            Err(refusal)
        }
    }
}

fn moved_notices(now: FabricTime, settled: &Settled, plan_version: u64) -> impl Iterator<Item = Notice> {
    let told = move |name: &String| {
        notice(now, Severity::Info, NoticeKind::Moved, Some(name), plan_version, format!("job {name} got another slot"))
    };
    settled.moved.iter().map(told)
}

/// A slot as it is told. Slots are kept without an expiry, which differs with each plan that is sent; an answer says what a plan sent now
/// would.
fn told_slot(now: FabricTime, config: &Config, job: &Job) -> Slot {
    Slot { expires: now.saturating_add(config.plan_ttl), ..job.slot.clone() }
}

/// A job that moved, or that changed in something else than its profile, is still what it was measured to be.
fn as_measured_before(installed: &Installed, old: Option<&Job>, new: Job) -> Job {
    let same = old.filter(|old| old.definition.job.has_profile_of(&new.definition.job));
    let Some(measured) = same.and_then(|old| old.measured) else { return new };
    let planned = as_planned(&new.definition, Some(measured));
    // On other links it may not be possible: then it stands as declared.
    let Ok(load) = check(installed, &planned) else { return new };
    Job { measured: Some(measured), planned, load: Arc::new(load), ..new }
}

/// Keeps what a comparison found. Nobody's slot changes by it, and so the version of the plan stays.
fn compared(plan: &mut Plan, found: Arc<Comparison>) -> Done {
    // A change that came before may have made another group of the jobs.
    let is_theirs = |name: &Name| plan.job(name).and_then(|job| job.turn_group()).is_some_and(|group| found.is_of(group));
    let Some(name) = found.name().filter(|name| is_theirs(name)).cloned() else { return Done::default() };
    plan.replace_comparison(&name, Some(found));
    Done { comparison: Some(name), ..Done::default() }
}

/// Refuses jobs that the scheduler commits and releases: whoever else did would give its GPUs away, or take its place in the plan.
fn refuse_submitted<'n>(plan: &Plan, config: &Config, mut names: impl Iterator<Item = &'n str>) -> Result<(), Refusal> {
    let theirs = |name: &&str| config.scheduled && plan.submission(name).is_some_and(|submission| submission.planned);
    names.find(theirs).map_or(Ok(()), |job| Err(Refusal::Submitted { job: job.into() }))
}

/// Refuses what was learned of jobs that are not committed any more.
fn refuse_unknown<'n>(plan: &Plan, mut names: impl Iterator<Item = &'n str>) -> Result<(), Refusal> {
    let gone = names.find(|name| plan.job(name).is_none());
    gone.map_or(Ok(()), |job| Err(Refusal::Policy(format!("job {job:?} is not committed any more"))))
}

/// `a, b, c and 5 more`.
pub(crate) fn listed<'n>(names: impl Iterator<Item = &'n str>, count: usize) -> String {
    const SHOWN: usize = 4;
    let shown: Vec<&str> = names.take(SHOWN).collect();
    let joined = shown.join(", ");
    if count > shown.len() { format!("{joined} and {} more", count - shown.len()) } else { joined }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_are_cut() {
        assert_eq!(listed(["a", "b"].into_iter(), 2), "a, b");
        assert_eq!(listed(["a", "b", "c", "d", "e", "f"].into_iter(), 6), "a, b, c, d and 2 more");
    }
}
