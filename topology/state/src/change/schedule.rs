//! A step of the scheduler: what it starts and stops in the plan, and what becomes of its submissions, in one change.

use alloc::{collections::BTreeSet, format, sync::Arc};

use units::FabricTime;

use super::{Done, commit::commit, release::release};
use crate::{
    Config, Notice, Refusal, Reply, Schedule,
    plan::{Name, Plan},
    submission::{Submission, SubmissionState},
};

/// Makes a step: the change of the plan, and the submissions with it.
pub(super) fn schedule(now: FabricTime, plan: &mut Plan, config: &Config, step: Schedule) -> Result<Done, Refusal> {
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
