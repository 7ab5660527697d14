//! Jobs are committed: placed in the plan anew, or renewed where nothing but their lease changes.

use alloc::{collections::BTreeSet, format, sync::Arc, vec::Vec};

use units::{FabricTime, Score};

use super::{
    Done, as_measured_before, drafted, keys, listed, moved_notices, notice,
    renewal::{self, Terms},
    told_slot,
};
use crate::{
    Commit, Commitment, Config, JobDefinition, NoticeKind, Refusal, Reply, Severity, Slot,
    check::{check, distinct, limit},
    config::{COMMIT_JOBS_MAX, HEADROOM_MAX_PERMILLE, JOBS_MAX, KEY_BYTES_MAX, PHASES_MAX},
    crowded::crowded,
    leases::Lease,
    plan::{Job, Load, Name, Plan},
};

pub(super) fn commit(now: FabricTime, plan: &mut Plan, config: &Config, commit: Commit) -> Result<Done, Refusal> {
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
    // A few bytes of a pipeline's description are thousands of phases. Who changes nothing is not refused for what is there already.
    let phases: usize = jobs.iter().map(|definition| definition.job.phases.len()).sum();
    let replaced: usize = names.iter().filter_map(|name| plan.job(name)).map(|job| job.definition.job.phases.len()).sum();
    if phases > replaced {
        let all: usize = plan.jobs().map(|job| job.definition.job.phases.len()).sum();
        limit("phases of all jobs", all - replaced + phases, PHASES_MAX)?;
    }
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
    let mut notices = alloc::vec![notice(now, Severity::Info, NoticeKind::Committed, only.map(|n| &**n), plan_version, said)];
    notices.extend(leases.notices(now, plan_version));
    notices.extend(moved_notices(now, &settled, plan_version));
    notices.extend(answer.crowded.iter().map(|said| notice(now, Severity::Warning, NoticeKind::Crowded, None, plan_version, said.clone())));
    // Only a success is remembered: a refused commit may be repeated under the same key.
    let keys = keys::remember(plan, now, keyed, keys::own(&answer, &names));
    Ok(Done { reply: Some(Reply::Committed(answer)), notices, touched, keys, ..Done::default() })
}

/// A job without a slot.
fn new_job(name: Name, definition: JobDefinition, load: Arc<Load>, lease: Option<Lease>, config: &Config) -> Job {
    let slot = Slot::none(&name);
    let headroom_permille = config.headroom_permille.min(HEADROOM_MAX_PERMILLE);
    let definition = Arc::new(definition);
    let planned = Arc::clone(&definition);
    Job { name, definition, measured: None, planned, load, lease, headroom_permille, hold_ended: None, slot, component: None }
}
