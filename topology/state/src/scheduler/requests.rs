//! What is asked of submissions, what is learned of them, and what becomes of those that nobody speaks of.

use alloc::{
    collections::BTreeMap,
    format,
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};

use units::{FabricTime, Nanos};

use super::{
    draft::Draft,
    report::{RunReport, SubmissionRefusal},
    settings::{FAILURES_MAX, Hosts, OVER_BYTES_MAX, OVER_MAX, OWNER_PART, SUBMISSIONS_MAX, SUBMITTED_BYTES_MAX, Settings},
};
use crate::{
    Document, NoticeKind, RequestId, Severity,
    submission::{After, Submission, SubmissionSpec, SubmissionState},
};

/// What a client or the executor asks, and who, where a trail is kept of it.
#[derive(Clone, Debug)]
pub(super) enum Asked {
    Submit { by: Arc<str>, name: Arc<str>, spec: Arc<SubmissionSpec> },
    Withdraw { by: Arc<str>, name: String },
    Report { name: String, attempt: u32, report: RunReport },
}

/// What is said of a job that has a place in the plan, and sends nothing there until its agent has told.
pub(super) const LEARNS: &str = "; runs free until it is learned";
/// What is said of a job that is planned with what its agent told.
pub(super) const LEARNED: &str = "; planned as it was learned";

type Submissions = BTreeMap<Arc<str>, Arc<Submission>>;

/// Does what was asked, in the draft.
pub(super) fn apply(
    draft: &mut Draft,
    now: FabricTime,
    base: &Submissions,
    settings: &Settings,
    hosts: &Hosts,
    (request, asked): (RequestId, Asked),
) {
    let told = draft.notices.len();
    let (by, done) = match asked {
        Asked::Submit { by, name, spec } => (Some(by), submit(draft, now, base, hosts, (name, spec))),
        Asked::Withdraw { by, name } => (Some(by), withdraw(draft, now, base, settings, &name)),
        Asked::Report { name, attempt, report } => (None, reported(draft, now, base, &name, attempt, report)),
    };
    // What is told of it names who asked, and goes into the trail.
    draft.notices.iter_mut().skip(told).for_each(|notice| notice.by.clone_from(&by));
    draft.answers.push((request, done));
}

fn submit(
    draft: &mut Draft,
    now: FabricTime,
    base: &Submissions,
    hosts: &Hosts,
    (name, spec): (Arc<str>, Arc<SubmissionSpec>),
) -> Result<Arc<str>, SubmissionRefusal> {
    if let Some(known) = draft.get(base, &name) {
        // A repetition is answered as the first one was, whatever became of the job since.
        return if known.spec.asked == spec.asked { Ok(name) } else { Err(SubmissionRefusal::NameUsed(name.to_string())) };
    }
    if hosts.others.contains(&*name) {
        return Err(SubmissionRefusal::Committed(name.to_string()));
    }
    let has = hosts.gpus();
    if spec.gpus == 0 || spec.gpus > has {
        return Err(SubmissionRefusal::TooLarge { job: name.to_string(), gpus: spec.gpus, has });
    }
    has_room(draft, base, &spec)?;
    let submission = Submission {
        name: Arc::clone(&name),
        spec,
        submitted: now,
        state: SubmissionState::Queued,
        since: now,
        why: "was submitted".into(),
        place: Vec::new(),
        planned: false,
        learned: None,
        attempt: 0,
        failures: 0,
        ran: Nanos(0),
        started: None,
    };
    let message = format!("job {name} was submitted: {} GPUs", submission.spec.gpus);
    draft.tell(now, Severity::Info, NoticeKind::Submitted, &submission, message);
    draft.put(None, submission);
    Ok(name)
}

/// Whether there is room for one more submission that is not over: of all, and of whoever asks.
fn has_room(draft: &Draft, base: &Submissions, new: &SubmissionSpec) -> Result<(), SubmissionRefusal> {
    let (count_max, bytes_max) = (SUBMISSIONS_MAX as u64, SUBMITTED_BYTES_MAX);
    let (mut all, mut own) = ((1, new.bytes), (1, new.bytes));
    let untouched = base.values().filter(|s| !draft.changed.contains_key(&s.name));
    for submission in untouched.chain(draft.changed.values().flatten()).filter(|s| !s.state.is_over()) {
        let bytes = submission.spec.bytes;
        all = (all.0 + 1, all.1 + bytes);
        if new.owner.is_some() && submission.spec.owner == new.owner {
            own = (own.0 + 1, own.1 + bytes);
        }
    }
    let part = if new.owner.is_some() { OWNER_PART } else { 1 };
    let limits = [
        ("submissions", all.0, count_max),
        ("bytes of all submitted documents", all.1, bytes_max),
        ("submissions of this certificate", own.0, count_max / part),
        ("bytes of the submitted documents of this certificate", own.1, bytes_max / part),
    ];
    match limits.into_iter().find(|(_, value, max)| value > max) {
        Some((what, value, max)) => Err(SubmissionRefusal::Limit { what, value, max }),
        None => Ok(()),
    }
}

fn withdraw(
    draft: &mut Draft,
    now: FabricTime,
    base: &Submissions,
    settings: &Settings,
    name: &str,
) -> Result<Arc<str>, SubmissionRefusal> {
    let known = draft.get(base, name).cloned().ok_or_else(|| SubmissionRefusal::Unknown(name.into()))?;
    let why: String = "was withdrawn".into();
    match known.state {
        SubmissionState::Queued => over(draft, now, base, &known, SubmissionState::Withdrawn, why),
        SubmissionState::Starting | SubmissionState::Running => {
            stop(draft, now, settings, &known, After::Withdrawn, (NoticeKind::JobPreempt, &why));
        }
        // It stops already, and does not come back.
        SubmissionState::Stopping(After::Queue) => {
            let next = Submission { state: SubmissionState::Stopping(After::Withdrawn), why, ..(*known).clone() };
            let message = format!("job {name} was withdrawn, and does not come back when it has stopped");
            draft.tell(now, Severity::Info, NoticeKind::Withdrawing, &next, message);
            draft.put(Some(&known), next);
        }
        // A withdrawal can be repeated, and comes too late for a job that is over.
        SubmissionState::Stopping(After::Withdrawn) | SubmissionState::Finished | SubmissionState::Withdrawn | SubmissionState::Failed => {}
    }
    Ok(Arc::clone(&known.name))
}

/// Tells the executor to stop a job.
pub(super) fn stop(
    draft: &mut Draft,
    now: FabricTime,
    settings: &Settings,
    known: &Arc<Submission>,
    after: After,
    (kind, why): (NoticeKind, &str),
) {
    let next = known.enter(now, SubmissionState::Stopping(after), why.into());
    let until = now.saturating_add(stop_within(settings, known));
    draft.order(now, kind, &next, until, format!("job {} has to stop: {why}", known.name));
    draft.put(Some(known), next);
}

/// How long a job may take to stop: no longer than its lease.
fn stop_within(settings: &Settings, submission: &Submission) -> Nanos {
    submission.spec.lease.map_or(settings.stop_within, |lease| settings.stop_within.min(lease))
}

/// How long nobody may speak of a job in its state; `None`: for ever.
pub(super) fn patience(settings: &Settings, submission: &Submission) -> Option<Nanos> {
    match submission.state {
        SubmissionState::Starting => Some(settings.start_within),
        SubmissionState::Running => submission.spec.lease,
        SubmissionState::Stopping(_) => Some(stop_within(settings, submission)),
        _ => None,
    }
}

fn reported(
    draft: &mut Draft,
    now: FabricTime,
    base: &Submissions,
    name: &str,
    attempt: u32,
    report: RunReport,
) -> Result<Arc<str>, SubmissionRefusal> {
    let known = draft.get(base, name).cloned().ok_or_else(|| SubmissionRefusal::Unknown(name.into()))?;
    let stale = || SubmissionRefusal::Stale { job: name.into(), state: known.state.word(), present: known.attempt, attempt };
    if attempt != known.attempt || attempt == 0 {
        return Err(stale());
    }
    match (report, known.state) {
        (RunReport::Started, SubmissionState::Starting) => {
            let next = known.enter(now, SubmissionState::Running, known.why.clone());
            let next = Submission { started: Some(now), ..next };
            draft.tell(now, Severity::Info, NoticeKind::JobRunning, &next, format!("job {name} runs"));
            draft.put(Some(&known), next);
        }
        // A sign of life; who was told to stop has begun all the same, and is told so by the answer.
        (RunReport::Started, SubmissionState::Running | SubmissionState::Stopping(_)) => {}
        // It may have ended before it was given up: no start lies between, so nothing that ran is lost.
        (RunReport::Finished, state) if state.holds() || matches!(state, SubmissionState::Queued | SubmissionState::Failed) => {
            over(draft, now, base, &known, SubmissionState::Finished, "ran to its end".into());
        }
        (RunReport::Stopped, SubmissionState::Stopping(after)) => stopped(draft, now, base, &known, after, "stopped, as it was told"),
        (RunReport::Stopped, SubmissionState::Starting | SubmissionState::Running) => {
            in_vain(draft, now, base, &known, "stopped by itself");
        }
        // The same report again, of the last start.
        (RunReport::Finished, SubmissionState::Finished)
        | (RunReport::Stopped, SubmissionState::Queued | SubmissionState::Withdrawn | SubmissionState::Failed) => {}
        _ => return Err(stale()),
    }
    Ok(Arc::clone(&known.name))
}

fn stopped(draft: &mut Draft, now: FabricTime, base: &Submissions, known: &Arc<Submission>, after: After, how: &str) {
    match after {
        After::Withdrawn => over(draft, now, base, known, SubmissionState::Withdrawn, format!("was withdrawn; {how}")),
        After::Queue => {
            let next = known.enter(now, SubmissionState::Queued, format!("{how}: {}", known.why));
            draft.tell(now, Severity::Info, NoticeKind::JobStopped, &next, format!("job {} {how}", known.name));
            draft.put(Some(known), next);
        }
    }
}

/// A start that came to nothing: the job waits again, or has failed.
fn in_vain(draft: &mut Draft, now: FabricTime, base: &Submissions, known: &Arc<Submission>, how: &str) {
    let failures = known.failures.saturating_add(1);
    let known = &Arc::new(Submission { failures, ..(**known).clone() });
    if failures >= FAILURES_MAX {
        over(draft, now, base, known, SubmissionState::Failed, format!("{how}, at the last of {failures} starts in vain"));
        return;
    }
    let next = known.enter(now, SubmissionState::Queued, format!("{how} ({failures} of {FAILURES_MAX} starts in vain)"));
    draft.tell(
        now,
        Severity::Warning,
        NoticeKind::JobLost,
        &next,
        format!("job {} {how}; it waits again, and its GPUs are free", known.name),
    );
    draft.put(Some(known), next);
}

/// Ends a submission.
fn over(draft: &mut Draft, now: FabricTime, base: &Submissions, known: &Arc<Submission>, state: SubmissionState, why: String) {
    let next = known.enter(now, state, why);
    let (severity, kind) = match state {
        SubmissionState::Finished => (Severity::Info, NoticeKind::JobFinished),
        SubmissionState::Withdrawn => (Severity::Info, NoticeKind::JobWithdrawn),
        _ => (Severity::Error, NoticeKind::JobFailed),
    };
    draft.tell(now, severity, kind, &next, format!("job {} {}", known.name, next.why));
    draft.put(Some(known), next);
    forget(draft, base);
}

/// Forgets the submissions that have been over for longest, where too many are, or too large ones.
fn forget(draft: &mut Draft, base: &Submissions) {
    let is_over = |s: &&Arc<Submission>| s.state.is_over();
    let fresh = draft.changed.values().flatten().filter(is_over);
    let (mut count, mut bytes) = fresh.fold((0, 0), |(count, bytes), s| (count + 1, bytes + s.spec.bytes));
    let mut kept: Vec<&Arc<Submission>> = base.values().filter(|s| !draft.changed.contains_key(&s.name)).filter(is_over).collect();
    kept.iter().for_each(|s| (count, bytes) = (count + 1, bytes + s.spec.bytes));
    if count <= OVER_MAX && bytes <= OVER_BYTES_MAX {
        return;
    }
    kept.sort_unstable_by_key(|s| (s.since, &s.name));
    for oldest in kept {
        if count <= OVER_MAX && bytes <= OVER_BYTES_MAX {
            return;
        }
        (count, bytes) = (count - 1, bytes - oldest.spec.bytes);
        draft.changed.insert(Arc::clone(&oldest.name), None);
    }
}

/// Gives back the places of jobs of which nobody spoke for too long. `heard` is when somebody last did.
pub(super) fn overdue(draft: &mut Draft, now: FabricTime, base: &Submissions, settings: &Settings, known: &Arc<Submission>) {
    let Some(patience) = patience(settings, known) else { return };
    let lasted = patience.0 / 1_000_000_000;
    match known.state {
        SubmissionState::Starting => in_vain(draft, now, base, known, &format!("was not started within {lasted} s")),
        SubmissionState::Stopping(after) => {
            let message = format!("job {} was not reported to have stopped within {lasted} s: its place is given back", known.name);
            draft.tell(now, Severity::Warning, NoticeKind::JobOverdue, known, message);
            stopped(draft, now, base, known, after, &format!("nobody said within {lasted} s that it stopped"));
        }
        _ => {
            let message = format!("the lease of job {} ran out: its place is given back", known.name);
            draft.tell(now, Severity::Warning, NoticeKind::JobOverdue, known, message);
            in_vain(draft, now, base, known, &format!("was not reported for {lasted} s, its lease"));
        }
    }
}

/// Tells a job to stop because its place is no more; it starts in another one.
pub(super) fn move_away(draft: &mut Draft, now: FabricTime, settings: &Settings, known: &Arc<Submission>, why: &str) {
    stop(draft, now, settings, known, After::Queue, (NoticeKind::JobMove, why));
}

/// Tells a job to stop so that others can run.
pub(super) fn preempt(draft: &mut Draft, now: FabricTime, settings: &Settings, known: &Arc<Submission>, why: &str) {
    stop(draft, now, settings, known, After::Queue, (NoticeKind::JobPreempt, why));
}

/// Takes in what was learned of a job at its present start.
pub(super) fn learned(draft: &mut Draft, known: &Arc<Submission>, attempt: u32, document: Document) {
    // What was learned of a start that is over has left the plan with it.
    if !known.planned || known.attempt != attempt || known.learned.as_ref() == Some(&document) {
        return;
    }
    let why = known.why.strip_suffix(LEARNS).map_or_else(|| known.why.clone(), |why| format!("{why}{LEARNED}"));
    draft.put(Some(known), Submission { learned: Some(document), why, ..(**known).clone() });
}
