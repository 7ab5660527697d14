//! Turns as clients read them: who has them now, and what was predicted.

use std::collections::BTreeSet;

use proto::v1alpha1 as pb;
use state::turns::{Activity, GroupState, GroupView, JobTurns, Measured, TurnStart};

use super::{
    Api, ApiError,
    read::{distinct, not_committed},
};
use crate::controller::Snapshot;

/// Groups of one answer when the caller names no number, and at most: of more jobs than there may be, no group.
const GROUPS_DEFAULT: usize = 100;
const GROUPS_MAX: usize = state::config::JOBS_MAX;

impl Api {
    /// Groups of jobs that take turns, or those of the jobs that are named. A committed job that takes no turns has none.
    ///
    /// # Errors
    /// A name that is not committed, too many names, or the service is stopping.
    pub async fn turns(&self, request: &pb::ListTurnsRequest) -> Result<pb::ListTurnsResponse, ApiError> {
        let names: BTreeSet<&str> = distinct("jobs", &request.jobs)?.into_iter().collect();
        let snapshot = self.snapshot().await?;
        if let Some(name) = names.iter().find(|name| snapshot.job(name).is_none()) {
            return Err(not_committed(name, &snapshot));
        }
        let turns = self.0.controller.look_at_turns()?;
        let is_asked = |group: &&GroupView| names.is_empty() || group.jobs.iter().any(|job| names.contains(&*job.job));
        let mut groups: Vec<&GroupView> = turns.groups.iter().filter(is_asked).collect();
        let total = groups.len() as u32;
        // Troubled ones first, then large ones: a list that is cut short loses what matters least. A group has one job at least.
        groups.sort_by_cached_key(|g| (g.state, std::cmp::Reverse(g.jobs.len()), g.jobs.first().map(|j| j.job.clone())));
        let limit = if request.limit == 0 { GROUPS_DEFAULT } else { (request.limit as usize).min(GROUPS_MAX) };
        let groups = groups.into_iter().take(limit).map(|group| group_message(group, &snapshot)).collect();
        Ok(pb::ListTurnsResponse { groups, total, at_ns: turns.at.0, plan_version: snapshot.plan_version })
    }
}

fn group_message(group: &GroupView, snapshot: &Snapshot) -> pb::TurnGroup {
    let state = match group.state {
        GroupState::Held => pb::TurnGroupState::Held,
        GroupState::TriedFree => pb::TurnGroupState::TriedFree,
        GroupState::LetGo => pb::TurnGroupState::LetGo,
        GroupState::TriedHeld => pb::TurnGroupState::TriedHeld,
    };
    let verdict = group.judged.map(|(at, verdict)| pb::TurnVerdict {
        hold: verdict.hold,
        held_over_free: verdict.held_over_free,
        worst: verdict.worst,
        at_ns: at.0,
    });
    let jobs = group.jobs.iter().map(|job| job_message(job, snapshot)).collect();
    pb::TurnGroup { state: state.into(), reason: group.reason(), verdict, jobs }
}

fn job_message(job: &JobTurns, snapshot: &Snapshot) -> pb::TurnJob {
    let (activity, since, expected_end, until) = match job.activity {
        Activity::Away => (pb::TurnActivity::Away, None, None, None),
        Activity::Ahead => (pb::TurnActivity::Ahead, None, None, None),
        Activity::Waiting { since, until } => (pb::TurnActivity::Waiting, Some(since), None, Some(until)),
        Activity::Sending { since, expected, lease } => (pb::TurnActivity::Sending, Some(since), Some(expected), Some(lease)),
    };
    // The snapshot may be older or newer than the turns by one change.
    let planned = snapshot.job(&job.job).map(|planned| &planned.message);
    pb::TurnJob {
        job: job.job.as_ref().to_owned(),
        activity: activity.into(),
        since_ns: since.map(|t| t.0),
        expected_end_ns: expected_end.map(|t| t.0),
        until_ns: until.map(|t| t.0),
        waits_for: job.waits_for.iter().map(|name| name.as_ref().to_owned()).collect(),
        has_no_ends: job.has_no_ends,
        held: times(&job.held),
        free: times(&job.free),
        predicted_held_ns: planned.and_then(|p| p.predicted_interleaved_ns),
        predicted_free_ns: planned.and_then(|p| p.predicted_contended_ns),
        starts: job.counts.asked.saturating_add(job.counts.unasked),
        waited: job.counts.waited,
        bound: job.counts.bound,
        ahead: job.counts.ahead,
        last_starts: job.starts.iter().map(start_message).collect(),
    }
}

fn start_message(start: &TurnStart) -> pb::TurnStart {
    pb::TurnStart { ready_ns: start.ready.0, began_ns: start.began.map(|t| t.0), ended_ns: start.ended.map(|t| t.0) }
}

fn times(of: &Measured) -> Option<pb::TurnTimes> {
    (of.count > 0).then_some(pb::TurnTimes {
        iterations: of.count,
        mean_ns: of.mean.0,
        p50_ns: of.p50.0,
        p99_ns: of.p99.0,
        mean_wait_ns: of.mean_wait.0,
        spread_ns: of.spread.iter().map(|t| t.0).collect(),
    })
}
