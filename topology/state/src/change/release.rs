//! Jobs leave the plan: somebody releases them, or their leases end.

use alloc::{
    collections::BTreeSet,
    format,
    string::{String, ToString},
    vec::Vec,
};

use units::FabricTime;

use super::{Done, drafted, moved_notices, notice, renewal};
use crate::{
    Config, Notice, NoticeKind, Refusal, Reply, Severity,
    check::limit,
    config::JOBS_MAX,
    leases::Lease,
    plan::{Name, Plan},
    transaction::{Settled, Transaction},
};

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

pub(super) fn release(now: FabricTime, plan: &mut Plan, config: &Config, jobs: &[String]) -> Result<Done, Refusal> {
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
    let told = |n: &Name| notice(now, Severity::Info, NoticeKind::Released, Some(n), plan_version, format!("job {n} was released"));
    let mut notices: Vec<Notice> = known.iter().map(told).collect();
    notices.extend(moved_notices(now, &settled, plan_version));
    Ok(Done { reply: Some(Reply::Released { plan_version, unknown }), notices, touched, ..Done::default() })
}

pub(super) fn expire(now: FabricTime, plan: &mut Plan, config: &Config, jobs: &[Name]) -> Result<Done, Refusal> {
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
