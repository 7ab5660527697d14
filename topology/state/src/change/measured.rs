//! Jobs that are planned anew because they were measured.

use alloc::{collections::BTreeSet, format, string::String, sync::Arc, vec::Vec};

use job::MeasuredProfile;
use units::{FabricTime, Nanos};

use super::{Done, drafted, moved_notices, notice};
use crate::{
    Config, Notice, NoticeKind, Refusal, Severity,
    check::check,
    measured::{Seen, another, as_planned, in_common_ratio, is_another},
    plan::{Installed, Job, Name, Plan},
    transaction::Transaction,
};

/// Re-plans measured jobs and the jobs that they meet. If fewer jobs would take turns then, the plan stays.
pub(super) fn measure(now: FabricTime, plan: &mut Plan, config: &Config, seen: &[(Name, Seen)]) -> Result<Done, Refusal> {
    let Some(installed) = plan.installed.clone() else { return Ok(Done::default()) };
    let mut found = Vec::new();
    for (name, seen) in seen {
        // A commit that came before may have declared what was measured, or released the job.
        let Some(job) = plan.job(name) else { continue };
        found.extend(another(plan, job, *seen).map(|measured| (name.clone(), job.definition.job.period, measured)));
    }
    in_common_ratio(&mut found);
    let others: Vec<Arc<Job>> = found.iter().filter_map(|(name, _, measured)| as_other(&installed, plan.job(name)?, *measured)).collect();
    if others.is_empty() {
        return Ok(Done::default());
    }
    let planned = drafted(plan, config, |transaction| {
        let mut dirty = BTreeSet::new();
        for job in &others {
            dirty.insert(job.name.clone());
            dirty.extend(transaction.members(job));
            transaction.put(&job.name, Some(job.clone()));
        }
        let takes_turns = |t: &Transaction<'_>, name: &&Name| t.plan.job(name).is_some_and(|j| j.slot.turns);
        let before = dirty.iter().filter(|name| takes_turns(transaction, name)).count();
        let settled = transaction.settle(&dirty, &BTreeSet::new())?;
        let after = dirty.iter().filter(|name| takes_turns(transaction, name)).count();
        // The refusal only makes `drafted` take everything back: nobody reads its text.
        if after < before { Err(Refusal::Policy(String::new())) } else { Ok(settled) }
    });
    let Ok((settled, touched)) = planned else { return Ok(Done::default()) };
    let mut notices: Vec<Notice> = others.iter().map(|job| measured_notice(now, job, plan.version)).collect();
    notices.extend(moved_notices(now, &settled, plan.version));
    Ok(Done { notices, touched, ..Done::default() })
}

/// The job as it was measured, or as declared where that is the same; `None` where no such job could be committed.
fn as_other(installed: &Installed, job: &Job, measured: MeasuredProfile) -> Option<Arc<Job>> {
    // What was found of its sending before still holds where a window did not tell.
    let sent = measured.sent.or(job.measured.and_then(|before| before.sent));
    let measured = Some(MeasuredProfile { sent, ..measured }).filter(|measured| is_another(&job.definition.job, *measured));
    let planned = as_planned(&job.definition, measured);
    let load = Arc::new(check(installed, &planned).ok()?);
    Some(Arc::new(Job { measured, planned, load, ..job.clone() }))
}

fn measured_notice(now: FabricTime, job: &Job, plan_version: u64) -> Notice {
    let (planned, declared) = (&job.planned.job, &job.definition.job);
    if job.measured.is_none() {
        let said = format!("job {} is what was declared after all, and is planned so", job.name);
        return notice(now, Severity::Info, NoticeKind::Measured, Some(&job.name), plan_version, said);
    }
    let said = format!(
        "job {} takes {} alone and sends for {} of it, as measured; {} and {} were declared: it is planned as measured until it is \
         committed with another profile",
        job.name,
        planned.period,
        Nanos(planned.up()),
        declared.period,
        Nanos(declared.up())
    );
    notice(now, Severity::Warning, NoticeKind::Measured, Some(&job.name), plan_version, said)
}
