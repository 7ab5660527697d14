//! What can change the plan, and how. A change is applied whole or leaves no trace.

mod keys;
mod measured;
mod renewal;

use alloc::{
    collections::BTreeSet,
    format,
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};

use fabric::{Fabric, route::Routing};
use job::MeasuredProfile;
use units::{FabricTime, Nanos, Score};

use crate::{
    Change, Commit, Commitment, Config, JobDefinition, Notice, Refusal, Reply, RequestId, Schedule, Severity, Slot,
    check::{check, distinct, limit},
    config::{COMMIT_JOBS_MAX, HEADROOM_MAX_PERMILLE, HEADROOM_STEP_PERMILLE, JOBS_MAX, KEY_BYTES_MAX},
    crowded::{contradiction, crowded},
    leases::Lease,
    measured::as_planned,
    plan::{Installed, Job, Load, Name, Plan},
    submission::{Submission, SubmissionState},
    transaction::{Settled, Transaction},
    turns::Comparison,
    watch::HoldEnd,
};
use renewal::Terms;

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
    LetGo { job: Name, plan_version: u64, why: HoldEnd },
    /// Jobs were measured to be others than they are planned.
    Measure { jobs: Vec<(Name, MeasuredProfile)> },
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
            | Self::LetGo { .. }
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
                self::commit(now, plan, config, commit).map(|done| done.asked_by(by.as_ref()).of_agent(agent))
            }
            Self::Asked { change: Change::Release { jobs, by }, .. } => {
                refuse_submitted(plan, config, jobs.iter().map(String::as_str))?;
                release(now, plan, config, &jobs).map(|done| done.asked_by(by.as_ref()))
            }
            Self::Asked { change: Change::Schedule(change), .. } => schedule(now, plan, config, *change),
            Self::Asked { change: Change::SetFabric { fabric, text, jobs, if_fabric, by }, .. } => {
                refuse_other_fabric(plan, if_fabric)?;
                set_fabric(now, plan, config, fabric, text, jobs).map(|done| done.asked_by(by.as_ref()))
            }
            Self::Expire { jobs } => expire(now, plan, config, &jobs),
            Self::Lengthen { job, plan_version } => {
                let agent = plan.leader(&job);
                lengthen(now, plan, config, &job, plan_version).map(|done| done.of_agent(agent))
            }
            Self::Realign { job, plan_version, error } => {
                let agent = plan.leader(&job);
                realign(now, plan, config, &job, plan_version, error).map(|done| done.of_agent(agent))
            }
            Self::LetGo { job, plan_version, why } => {
                let agent = plan.leader(&job);
                let_go(now, plan, config, &job, plan_version, why).map(|done| done.of_agent(agent))
            }
            Self::Measure { jobs } => {
                let agent = jobs.first().and_then(|(job, _)| plan.leader(job));
                measured::measure(now, plan, config, &jobs).map(|done| done.of_agent(agent))
            }
            Self::Compared { found } => Ok(compared(plan, found)),
        }
    }
}

fn notice(now: FabricTime, severity: Severity, kind: &'static str, job: Option<&str>, plan_version: u64, message: String) -> Notice {
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
    let told = move |name: &String| notice(now, Severity::Info, "moved", Some(name), plan_version, format!("job {name} got another slot"));
    settled.moved.iter().map(told)
}

fn commit(now: FabricTime, plan: &mut Plan, config: &Config, commit: Commit) -> Result<Done, Refusal> {
    let Commit { jobs, if_fabric, if_plan_version, lease, key, content, learned, by } = commit;
    // The key comes first: a repetition gets its answer even if plan and fabric moved on since the first try.
    if let Some(answer) = keys::repeated(now, plan, config, &jobs, &key, content)? {
        return Ok(Done { reply: Some(Reply::Committed(answer)), ..Done::default() });
    }
    if let Some(expected) = if_plan_version.filter(|e| *e != plan.version) {
        return Err(Refusal::PlanVersionMoved { plan_version: plan.version, expected });
    }
    let installed = plan.installed.clone().ok_or(Refusal::NoFabric)?;
    // The ids in a placement mean other nodes on another fabric.
    if let Some(expected) = if_fabric.filter(|version| *version != installed.version) {
        return Err(Refusal::FabricMoved { version: installed.version, expected });
    }
    if jobs.is_empty() {
        return Err(Refusal::Policy("a commit without jobs".into()));
    }
    // Limits come before `check`, which routes every job and is the expensive part.
    limit("jobs in one commit", jobs.len(), COMMIT_JOBS_MAX)?;
    limit("bytes of an idempotency key", key.len(), KEY_BYTES_MAX)?;
    let names = distinct(&jobs)?;
    let added = names.iter().filter(|n| plan.job(n).is_none()).count();
    // Jobs that are committed already are replaced, so only new names count.
    limit("jobs", plan.jobs().len() + added, JOBS_MAX)?;
    let terms = Terms { now, length: lease, learned, by: by.as_ref() };
    let mut checked: Vec<(JobDefinition, Option<Arc<Load>>)> = Vec::with_capacity(jobs.len());
    for definition in jobs {
        // A commit of an unchanged job is about its lease only: the job keeps its routes and counts as running.
        let same = plan.job(&definition.job.name).is_some_and(|j| *j.definition == definition);
        let load = if same { None } else { Some(Arc::new(check(&installed, &definition)?)) };
        checked.push((definition, load));
    }
    let keyed = keys::Keyed { key, content, by: by.clone() };
    if checked.iter().all(|(_, load)| load.is_none()) {
        return Ok(renewal::renew(plan, config, &names, &terms, keyed));
    }
    let count = checked.len();
    let leases = terms.changes(plan, &names);
    let (settled, touched) = drafted(plan, config, |transaction| {
        let (mut dirty, mut fresh) = (BTreeSet::new(), BTreeSet::new());
        for (definition, load) in checked {
            let name = Name::from(definition.job.name.as_str());
            let old = transaction.plan.job(&name).cloned();
            let lease = terms.lease(old.as_deref());
            dirty.insert(name.clone());
            // The component that a changed job leaves behind is planned again too: its links carry less from now on.
            dirty.extend(old.iter().flat_map(|o| transaction.members(o)));
            let job = match (load, old) {
                (None, Some(old)) => Job { lease, ..(*old).clone() },
                (load, old) => {
                    fresh.insert(name.clone());
                    // A job that changed is like a new one to the solver. A load is always there: no load means an unchanged job.
                    let new = new_job(name.clone(), definition, load.unwrap_or_else(|| Arc::new(Load::default())), lease, config);
                    as_measured_before(&installed, old.as_deref(), new)
                }
            };
            transaction.put(&name, Some(Arc::new(job)));
        }
        transaction.settle(&dirty, &fresh)
    })?;
    let plan_version = plan.version;
    let answer = Commitment {
        plan_version,
        slots: settled.jobs.iter().map(|job| told_slot(now, config, job)).collect(),
        moved: settled.moved.clone(),
        score: settled.score,
        crowded: crowded(plan, &names, config),
    };
    // The score is that of the shifts, which jobs that take turns do not follow.
    let apart = match settled.jobs.iter().filter(|job| job.slot.turns).count() {
        0 => format!("score {}", Score(settled.score)),
        turning => format!("{turning} by turns"),
    };
    let said = format!("committed {}: {apart}, {} moved", listed(names.iter().map(|n| &**n), count), settled.moved.len());
    let only = names.first().filter(|_| count == 1);
    let mut notices = alloc::vec![notice(now, Severity::Info, "committed", only.map(|n| &**n), plan_version, said)];
    notices.extend(leases.notices(now, plan_version));
    notices.extend(moved_notices(now, &settled, plan_version));
    notices.extend(answer.crowded.iter().map(|said| notice(now, Severity::Warning, "crowded", None, plan_version, said.clone())));
    // Only a success is remembered: a refused commit may be repeated under the same key.
    let keys = keys::remember(plan, now, keyed, keys::own(&answer, &names));
    Ok(Done { reply: Some(Reply::Committed(answer)), notices, touched, keys, ..Done::default() })
}

/// A slot as it is told. Slots are kept without an expiry, which differs with each plan that is sent; an answer says what a plan sent now
/// would.
fn told_slot(now: FabricTime, config: &Config, job: &Job) -> Slot {
    Slot { expires: now.saturating_add(config.plan_ttl), ..job.slot.clone() }
}

/// A job without a slot.
fn new_job(name: Name, definition: JobDefinition, load: Arc<Load>, lease: Option<Lease>, config: &Config) -> Job {
    let slot = Slot::none(&name);
    let headroom_permille = config.headroom_permille.min(HEADROOM_MAX_PERMILLE);
    let definition = Arc::new(definition);
    let planned = Arc::clone(&definition);
    Job { name, definition, measured: None, planned, load, lease, headroom_permille, hold_ended: None, slot, component: None }
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

/// Takes jobs away and re-plans those that they met.
fn remove(transaction: &mut Transaction<'_>, names: &BTreeSet<Name>) -> Result<Settled, Refusal> {
    let mut dirty = BTreeSet::new();
    for name in names {
        let Some(job) = transaction.plan.job(name).cloned() else { continue };
        // The names of jobs that go are among these; `groups` passes over names that it does not find.
        dirty.extend(transaction.members(&job));
        transaction.put(name, None);
    }
    transaction.settle(&dirty, &BTreeSet::new())
}

fn release(now: FabricTime, plan: &mut Plan, config: &Config, jobs: &[String]) -> Result<Done, Refusal> {
    // There are no more names to release than there can be jobs.
    limit("jobs in one release", jobs.len(), JOBS_MAX)?;
    let asked: BTreeSet<Name> = jobs.iter().map(|n| Name::from(n.as_str())).collect();
    let (known, unknown): (BTreeSet<Name>, BTreeSet<Name>) = asked.into_iter().partition(|n| plan.job(n).is_some());
    let unknown: Vec<String> = unknown.iter().map(|n| n.to_string()).collect();
    // A release that is repeated changes nothing and is no error: the jobs are as gone as the caller wants them.
    if known.is_empty() {
        return Ok(Done { reply: Some(Reply::Released { plan_version: plan.version, unknown }), ..Done::default() });
    }
    let (settled, touched) = drafted(plan, config, |transaction| remove(transaction, &known))?;
    let plan_version = plan.version;
    let told = |n: &Name| notice(now, Severity::Info, "released", Some(n), plan_version, format!("job {n} was released"));
    let mut notices: Vec<Notice> = known.iter().map(told).collect();
    notices.extend(moved_notices(now, &settled, plan_version));
    Ok(Done { reply: Some(Reply::Released { plan_version, unknown }), notices, touched, ..Done::default() })
}

fn expire(now: FabricTime, plan: &mut Plan, config: &Config, jobs: &[Name]) -> Result<Done, Refusal> {
    // A commit that came before may have renewed the lease.
    let over = |n: &&Name| plan.job(n).is_some_and(|j| j.lease.as_ref().is_some_and(|l| l.until <= now));
    let gone: BTreeSet<Name> = jobs.iter().filter(over).cloned().collect();
    if gone.is_empty() {
        return Ok(Done::default());
    }
    let ended: Vec<(&Name, Lease)> = gone.iter().filter_map(|n| Some((n, plan.job(n)?.lease.clone()?))).collect();
    let (settled, touched) = drafted(plan, config, |transaction| remove(transaction, &gone))?;
    let plan_version = plan.version;
    let mut notices: Vec<Notice> = ended.iter().map(|(name, lease)| renewal::expired(now, name, lease, plan_version)).collect();
    notices.extend(moved_notices(now, &settled, plan_version));
    Ok(Done { notices, touched, ..Done::default() })
}

fn set_fabric(
    now: FabricTime,
    plan: &mut Plan,
    config: &Config,
    fabric: Arc<Fabric>,
    text: Arc<str>,
    jobs: Vec<JobDefinition>,
) -> Result<Done, Refusal> {
    let names = distinct(&jobs)?;
    let as_committed = |d: &JobDefinition| plan.job(&d.job.name).is_some_and(|j| j.definition.document == d.document);
    if names.len() != plan.jobs().len() || !jobs.iter().all(as_committed) {
        // The caller placed the jobs on the new fabric: a job that is missing in the list would keep ids of the old one.
        return Err(Refusal::Policy("jobs were committed or released while the fabric was read; try again".into()));
    }
    contradiction(&fabric, config.gpus_per_host)?;
    let version = plan.installed.as_ref().map_or(0, |i| i.version) + 1;
    let routing = Routing::new(fabric, config.ecmp, &[]).map_err(|e| Refusal::Policy(e.to_string()))?;
    let installed = Arc::new(Installed { routing, text, version });
    let mut loads = Vec::with_capacity(jobs.len());
    for definition in jobs {
        // A job that cannot stand on the new fabric refuses the fabric before anything changes (docs/operating.md).
        let load = check(&installed, &definition)?;
        loads.push((definition, Arc::new(load)));
    }
    // Re-planning reads capacities from the plan, so the new fabric is in place before `settle` and goes back on a refusal.
    let before = plan.installed.replace(Arc::clone(&installed));
    let all: BTreeSet<Name> = names;
    let drafted = drafted(plan, config, |transaction| {
        for (definition, load) in loads {
            let Some(old) = transaction.plan.job(&definition.job.name).cloned() else { continue };
            // The old component names links of the old fabric.
            let definition = Arc::new(definition);
            let job = Job { planned: Arc::clone(&definition), definition, measured: None, load, component: None, ..(*old).clone() };
            let job = as_measured_before(&installed, Some(&old), job);
            transaction.put(&old.name, Some(Arc::new(job)));
        }
        transaction.settle(&all, &BTreeSet::new())
    });
    let (settled, touched) = drafted.inspect_err(|_| plan.installed = before)?;
    let plan_version = plan.version;
    let said = format!("fabric {version} is in force: {} moved", settled.moved.len());
    let mut notices = alloc::vec![notice(now, Severity::Info, "fabric", None, plan_version, said)];
    notices.extend(moved_notices(now, &settled, plan_version));
    Ok(Done { reply: Some(Reply::FabricSet { version, plan_version }), notices, touched, fabric: true, ..Done::default() })
}

fn lengthen(now: FabricTime, plan: &mut Plan, config: &Config, name: &Name, plan_version: u64) -> Result<Done, Refusal> {
    // Slips under a slot that has changed since ask for nothing, and `HEADROOM_MAX_PERMILLE` ends the lengthening.
    let Some(job) = plan.job(name).filter(|j| j.slot.plan_version == plan_version && j.headroom_permille < HEADROOM_MAX_PERMILLE).cloned()
    else {
        return Ok(Done::default());
    };
    let headroom = (job.headroom_permille + HEADROOM_STEP_PERMILLE).min(HEADROOM_MAX_PERMILLE);
    let (_, touched) = drafted(plan, config, |transaction| {
        // All that meet get the same headroom: with different ones their periods would lose their ratio (`plan::slot::periods`).
        let members: BTreeSet<Name> = transaction.members(&job).into_iter().collect();
        for name in &members {
            let Some(member) = transaction.plan.job(name).cloned() else { continue };
            transaction.put(name, Some(Arc::new(Job { headroom_permille: headroom, ..(*member).clone() })));
        }
        transaction.settle(&members, &BTreeSet::new())
    })?;
    let said = format!(
        "job {name} slipped more than once in {} iterations: headroom {} permille for all that it meets",
        crate::config::SLIPS_ONE_IN,
        headroom
    );
    let notices = alloc::vec![notice(now, Severity::Warning, "headroom", Some(name), plan.version, said)];
    Ok(Done { notices, touched, ..Done::default() })
}

fn realign(now: FabricTime, plan: &mut Plan, config: &Config, name: &Name, plan_version: u64, error: i64) -> Result<Done, Refusal> {
    let Some(job) = plan.job(name).filter(|j| j.slot.plan_version == plan_version).cloned() else { return Ok(Done::default()) };
    let slot = &job.slot;
    // The error is what an agent says and may be any 64 bits: in 128 bits the sum cannot overflow.
    let period = i128::from(slot.times.period.0);
    let offset = (i128::from(slot.times.offset.0) + i128::from(error)).rem_euclid(period.max(1));
    // The remainder is not negative and below a period of 64 bits, so it always fits.
    let offset = Nanos(u64::try_from(offset).unwrap_or(0));
    // The refusal only makes `drafted` take everything back: nobody reads its text.
    let stays = |transaction: &mut Transaction<'_>| {
        if transaction.shift_alone(name, offset)? { Ok(()) } else { Err(Refusal::Policy(String::new())) }
    };
    match drafted(plan, config, stays) {
        Ok(((), touched)) => {
            let said = format!("job {name} drifted by {error} ns; its slot follows it, at no cost to the others");
            let notices = alloc::vec![notice(now, Severity::Info, "moved", Some(name), plan.version, said)];
            Ok(Done { notices, touched, ..Done::default() })
        }
        Err(_) => {
            let said = format!("job {name} is {error} ns from its slot, more than its slack of {}", slot.times.slack);
            let notices = alloc::vec![notice(now, Severity::Warning, "drift", Some(name), plan.version, said)];
            Ok(Done { notices, ..Done::default() })
        }
    }
}

/// Keeps what a comparison found. Nobody's slot changes by it, and so the version of the plan stays.
fn compared(plan: &mut Plan, found: Arc<Comparison>) -> Done {
    // A change that came before may have made another group of the jobs.
    let is_theirs = |name: &Name| plan.job(name).and_then(|job| job.turn_group()).is_some_and(|group| found.is_of(group));
    let Some(name) = found.name().filter(|name| is_theirs(name)).cloned() else { return Done::default() };
    plan.replace_comparison(&name, Some(found));
    Done { comparison: Some(name), ..Done::default() }
}

/// Ends the hold of a job that its slot does not fit. The jobs of its sets run as they come with it: what was predicted of them was
/// predicted for another job.
fn let_go(now: FabricTime, plan: &mut Plan, config: &Config, name: &Name, plan_version: u64, why: HoldEnd) -> Result<Done, Refusal> {
    // What was seen under a slot that has changed since ends nothing: the next reports say what the new one is worth.
    let Some(job) = plan.job(name).filter(|j| j.slot.plan_version == plan_version && j.slot.hold).cloned() else {
        return Ok(Done::default());
    };
    let why = why.why();
    let ((settled, with), touched) = drafted(plan, config, |transaction| {
        let members: BTreeSet<Name> = transaction.members(&job).into_iter().collect();
        let held = |t: &Transaction<'_>, n: &Name| t.plan.job(n).is_some_and(|j| j.slot.hold);
        let before: Vec<Name> = members.iter().filter(|n| *n != name && held(transaction, n)).cloned().collect();
        transaction.put(name, Some(Arc::new(Job { hold_ended: Some(why.as_str().into()), ..(*job).clone() })));
        let settled = transaction.settle(&members, &BTreeSet::new())?;
        let with: Vec<Name> = before.into_iter().filter(|n| !held(transaction, n)).collect();
        Ok((settled, with))
    })?;
    let also = if with.is_empty() { String::new() } else { format!("; with it {}", listed(with.iter().map(|n| &**n), with.len())) };
    let said = format!("job {name} is not held any more: {why}; it runs as it comes until it is committed with another profile{also}");
    let mut notices = alloc::vec![notice(now, Severity::Warning, "let_go", Some(name), plan.version, said)];
    notices.extend(moved_notices(now, &settled, plan.version));
    Ok(Done { notices, touched, ..Done::default() })
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

/// Refuses a fabric that was made beside another one than that in force.
fn refuse_other_fabric(plan: &Plan, if_fabric: Option<u64>) -> Result<(), Refusal> {
    let version = plan.installed.as_ref().map_or(0, |installed| installed.version);
    let other = if_fabric.filter(|expected| *expected != version);
    other.map_or(Ok(()), |expected| Err(Refusal::FabricMoved { version, expected }))
}

/// Makes a step: the change of the plan, and the submissions with it.
fn schedule(now: FabricTime, plan: &mut Plan, config: &Config, step: Schedule) -> Result<Done, Refusal> {
    let Schedule { commit: job, release: jobs, submissions, notices } = step;
    // Somebody committed a job of that name meanwhile: it stays theirs.
    let own = |name: &str| plan.submission(name).is_some_and(|submission| submission.planned);
    let mut names = job.iter().flat_map(|commit| &commit.jobs).map(|definition| &definition.job.name);
    if let Some(theirs) = names.find(|name| plan.job(name).is_some() && !own(name)) {
        return Err(Refusal::Policy(format!("job {theirs:?} was committed by somebody else")));
    }
    if starts_beside_others(plan, &submissions) {
        // Only here the plan is at hand as it is: the scheduler chose hosts by what it saw before, and looks again.
        let expected = plan.version.saturating_sub(1);
        return Err(Refusal::PlanVersionMoved { plan_version: plan.version, expected });
    }
    let mut done = match job {
        Some(job) => commit(now, plan, config, job)?,
        None if jobs.is_empty() => Done::default(),
        None => release(now, plan, config, &jobs)?,
    };
    for (name, submission) in submissions {
        plan.replace_submission(&name, submission);
        done.submissions.insert(name);
    }
    let plan_version = plan.version;
    done.notices.extend(notices.into_iter().map(|notice| Notice { plan_version, ..notice }));
    done.several = true;
    done.reply = Some(Reply::Scheduled { plan_version });
    Ok(done)
}

/// Whether a submission would start, planned or free, on a host of a job that is not the scheduler's.
fn starts_beside_others(plan: &Plan, submissions: &[(Name, Option<Arc<Submission>>)]) -> bool {
    let starts = |next: &&Arc<Submission>| {
        let before = plan.submission(&next.name);
        next.state == SubmissionState::Starting && before.is_none_or(|before| (before.state, before.attempt) != (next.state, next.attempt))
    };
    let starting = submissions.iter().filter_map(|(_, next)| next.as_ref()).filter(starts);
    let wanted: BTreeSet<&str> = starting.flat_map(|next| &next.place).map(|place| place.host.as_str()).collect();
    if wanted.is_empty() {
        return false;
    }
    let others = plan.jobs().filter(|job| plan.submission(&job.name).is_none_or(|submission| !submission.planned));
    others.flat_map(|job| &job.definition.hosts).any(|host| wanted.contains(host.as_str()))
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
