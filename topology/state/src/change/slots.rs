//! Slots answer to what gates report: a longer period, a slot that follows its job, or none any more.

use alloc::{collections::BTreeSet, format, string::String, sync::Arc, vec::Vec};

use units::{FabricTime, Nanos};

use super::{Done, drafted, listed, moved_notices, notice};
use crate::{
    Config, NoticeKind, Refusal, Severity,
    config::{HEADROOM_MAX_PERMILLE, HEADROOM_STEP_PERMILLE},
    plan::{Job, Name, Plan},
    transaction::Transaction,
    watch::HoldEnd,
};

pub(super) fn lengthen(now: FabricTime, plan: &mut Plan, config: &Config, name: &Name, plan_version: u64) -> Result<Done, Refusal> {
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
    let notices = alloc::vec![notice(now, Severity::Warning, NoticeKind::Headroom, Some(name), plan.version, said)];
    Ok(Done { notices, touched, ..Done::default() })
}

pub(super) fn realign(
    now: FabricTime,
    plan: &mut Plan,
    config: &Config,
    name: &Name,
    plan_version: u64,
    error: i64,
) -> Result<Done, Refusal> {
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
            let notices = alloc::vec![notice(now, Severity::Info, NoticeKind::Moved, Some(name), plan.version, said)];
            Ok(Done { notices, touched, ..Done::default() })
        }
        Err(_) => {
            let said = format!("job {name} is {error} ns from its slot, more than its slack of {}", slot.times.slack);
            let notices = alloc::vec![notice(now, Severity::Warning, NoticeKind::Drift, Some(name), plan.version, said)];
            Ok(Done { notices, ..Done::default() })
        }
    }
}

/// Ends the hold of a job that its slot does not fit. The jobs of its sets run as they come with it: what was predicted of them was
/// predicted for another job.
pub(super) fn end_hold(
    now: FabricTime,
    plan: &mut Plan,
    config: &Config,
    name: &Name,
    plan_version: u64,
    why: HoldEnd,
) -> Result<Done, Refusal> {
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
    let mut notices = alloc::vec![notice(now, Severity::Warning, NoticeKind::LetGo, Some(name), plan.version, said)];
    notices.extend(moved_notices(now, &settled, plan.version));
    Ok(Done { notices, touched, ..Done::default() })
}
