//! What is asked of the scheduler.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use job::JobDoc;
use prost::Message as _;
use proto::v1alpha1 as pb;
use sha2::{Digest as _, Sha256};
use state::{
    Content, Document, Refusal,
    scheduler::{RunReport, Submission, SubmissionRefusal, SubmissionSpec, SubmissionState},
};
use units::{FabricTime, Nanos};

use super::{Api, ApiError, Kind, LEASE_MS_MAX, NAMES_MAX, limit};
use crate::{
    events::place_message,
    placed::placed,
    queue::SchedulerHandle,
    resolve,
    tls::{Subject, Who},
};

/// The shortest lease: a job may take no longer than it to stop, and nobody saves a state in less.
const LEASE_MS_MIN: u64 = 1_000;
/// Longest job: ten years, against a mistake of units.
const TOTAL_MAX: Nanos = Nanos(10 * 366 * 86_400 * Nanos::PER_SECOND);
/// An iteration of which nobody knows more than how long the whole job takes.
const ITERATION: Nanos = Nanos(Nanos::PER_SECOND);
/// The shortest iteration: below it a time was meant in another unit.
const ITERATION_MIN: Nanos = Nanos(Duration::from_micros(1).as_nanos() as u64);

impl Api {
    /// Lets requests reach the scheduler. The first one stays.
    pub(crate) fn attach(&self, scheduler: SchedulerHandle) {
        let _ = self.0.scheduler.set(scheduler);
    }

    pub(crate) fn scheduler(&self) -> Result<&SchedulerHandle, ApiError> {
        let off =
            || ApiError::new(Kind::Precondition, &"this service has no scheduler").hint("its configuration needs a table [scheduler]");
        self.0.scheduler.get().ok_or_else(off)
    }

    /// Submits a job.
    ///
    /// # Errors
    /// [`ApiError`]: nothing was changed.
    pub async fn submit(&self, by: &Subject, request: pb::SubmitRequest) -> Result<pb::Submission, ApiError> {
        let scheduler = self.scheduler()?;
        let spec = request.job.as_ref().ok_or_else(|| ApiError::invalid("job: missing"))?;
        let (what, value, max) = ("bytes of a job's document", spec.encoded_len() as u64, resolve::JOB_BYTES_MAX as u64);
        if value > max {
            return Err(Refusal::Limit { what, value, max }.into());
        }
        if !spec.hosts.is_empty() {
            return Err(ApiError::invalid("job.hosts: the scheduler chooses them"));
        }
        if request.lease_ms > LEASE_MS_MAX {
            return Err(ApiError::invalid(format!("lease_ms: {}; at most {LEASE_MS_MAX}", request.lease_ms)));
        }
        if (1..LEASE_MS_MIN).contains(&request.lease_ms) {
            return Err(ApiError::invalid(format!("lease_ms: {}; at least {LEASE_MS_MIN}, or 0", request.lease_ms)));
        }
        let opportunistic = match request.priority.as_deref() {
            None | Some("guaranteed") => false,
            Some("opportunistic") => true,
            Some(other) => return Err(ApiError::invalid(format!("priority: {other:?}; expected guaranteed or opportunistic"))),
        };
        let doc = Arc::new(resolve::document(0, spec).map_err(ApiError::invalid)?);
        // The scheduler hears of commits a moment later than they are answered.
        let snapshot = self.snapshot().await?;
        let own = |s: &Arc<Submission>| s.planned && *s.name == *doc.id;
        if snapshot.job(&doc.id).is_some() && !snapshot.submissions.iter().any(own) {
            return Err(SubmissionRefusal::Committed(doc.id.clone()).into());
        }
        let asked = asked(&request);
        // What was acknowledged is, whatever fabric there is by now.
        if let Some(known) = snapshot.submissions.iter().find(|s| *s.name == *doc.id && s.spec.asked == asked) {
            return Ok(message(known, None, self.0.clock.now()));
        }
        let period = if resolve::has_profile(&doc) { Some(self.period(by.who, scheduler, &doc, request.gpus).await?) } else { None };
        let (iteration, total) = work(&request, period)?;
        let spec = SubmissionSpec {
            asked,
            owner: by.who.map(|_| Arc::clone(&by.told)),
            bytes: resolve::bytes(&doc),
            gpus: request.gpus,
            has_profile: period.is_some(),
            learn: doc.learn,
            opportunistic,
            iteration,
            total,
            lease: (request.lease_ms > 0).then(|| Nanos::from_millis(request.lease_ms)),
            document: Document::new(Arc::clone(&doc)),
        };
        let submission = scheduler.submit(by.told.clone(), doc.id.as_str().into(), spec).await??;
        Ok(message(&submission, None, self.0.clock.now()))
    }

    /// How long an iteration of a job takes alone, and that it is a job: it is placed for trial on the first hosts of the fabric.
    async fn period(&self, who: Option<Who>, scheduler: &SchedulerHandle, doc: &Arc<JobDoc>, gpus: u32) -> Result<Nanos, ApiError> {
        let view = self.0.controller.fabric().await?.ok_or(Refusal::NoFabric)?;
        let config = scheduler.config.clone();
        let (doc, version) = (Arc::clone(doc), view.version);
        let read = move || {
            let fabric = &view.fabric;
            let all = fabric.hosts().map(|host| (fabric.node(host).name.clone(), config.gpus(fabric, host)));
            let mut hosts: Vec<(String, u32)> = all.filter(|(name, _)| !config.without.contains(name)).collect();
            let has = hosts.iter().fold(0_u32, |sum, (_, gpus)| sum.saturating_add(*gpus));
            // The plan knows jobs with as many ranks on each host but the last; how long an iteration takes alone depends little on which.
            hosts.sort_by_key(|(_, gpus)| std::cmp::Reverse(*gpus));
            let per_host = hosts.first().map_or(1, |(_, gpus)| *gpus);
            if gpus == 0 || gpus > has {
                return Err(SubmissionRefusal::TooLarge { job: doc.id.clone(), gpus, has }.to_string());
            }
            let share = |(at, (host, _)): (u32, (String, u32))| (host, per_host.min(gpus - at * per_host));
            let place: Vec<(String, u32)> = (0..gpus.div_ceil(per_host)).zip(hosts).map(share).collect();
            resolve::definitions(fabric, &[Arc::new(placed(&doc, &place)?)])
        };
        let mut made = self.read_change(who, read).await?.map_err(ApiError::invalid)?;
        let job = made.pop().ok_or_else(|| ApiError::new(Kind::Internal, &format!("no job on fabric {version}")))?.job;
        if job.gpus != gpus {
            return Err(ApiError::invalid(format!("gpus: {gpus}; the profile has {} ranks", job.gpus)));
        }
        Ok(job.period)
    }

    /// Takes a job back.
    ///
    /// # Errors
    /// [`ApiError`]: nothing was changed.
    pub async fn withdraw(&self, by: &Subject, request: pb::WithdrawRequest) -> Result<pb::Submission, ApiError> {
        let submission = self.scheduler()?.withdraw(by.told.clone(), request.job).await??;
        Ok(message(&submission, None, self.0.clock.now()))
    }

    /// Takes in what the executor tells.
    ///
    /// # Errors
    /// [`ApiError`]: nothing was changed.
    pub async fn report(&self, request: pb::ReportRequest) -> Result<pb::Submission, ApiError> {
        let scheduler = self.scheduler()?;
        let report = match request.report() {
            pb::RunReport::Started => RunReport::Started,
            pb::RunReport::Finished => RunReport::Finished,
            pb::RunReport::Stopped => RunReport::Stopped,
            pb::RunReport::Unspecified => return Err(ApiError::invalid("report: expected started, finished or stopped")),
        };
        let submission = scheduler.report(request.job, request.attempt, report).await??;
        Ok(message(&submission, None, self.0.clock.now()))
    }

    /// What was submitted.
    ///
    /// # Errors
    /// A name that is not there, or no scheduler.
    pub async fn submissions(&self, request: &pb::ListSubmissionsRequest) -> Result<pb::ListSubmissionsResponse, ApiError> {
        limit("jobs", request.jobs.len(), NAMES_MAX)?;
        let scheduler = self.scheduler()?;
        let queue = scheduler.queue().await?;
        let known: BTreeSet<&str> = queue.submissions.iter().map(|(s, _)| &*s.name).collect();
        if let Some(unknown) = request.jobs.iter().find(|name| !known.contains(name.as_str())) {
            return Err(SubmissionRefusal::Unknown(unknown.clone()).into());
        }
        let asked: BTreeSet<&str> = request.jobs.iter().map(String::as_str).collect();
        let wanted = |s: &Submission| (asked.is_empty() || asked.contains(&*s.name)) && !(request.live && s.state.is_over());
        let shown = queue.submissions.iter().filter(|(s, _)| wanted(s)).map(|(s, waits)| message(s, waits.as_deref(), queue.now));
        let (gpus, gpus_held) = (queue.gpus, queue.gpus_held);
        Ok(pb::ListSubmissionsResponse { submissions: shown.collect(), gpus, gpus_held, policy: scheduler.config.policy.word().into() })
    }
}

/// A digest of all that a request asks.
fn asked(request: &pb::SubmitRequest) -> Content {
    Sha256::digest(request.encode_to_vec()).into()
}

/// One iteration alone, and all of them.
fn work(request: &pb::SubmitRequest, period: Option<Nanos>) -> Result<(Nanos, Nanos), ApiError> {
    let declared = request.iteration_ms.map(Nanos::from_millis);
    if declared.is_some_and(|declared| declared < ITERATION_MIN) {
        return Err(ApiError::invalid("iteration_ms: 0"));
    }
    let iteration = declared.or(period);
    let total = match (request.iterations, request.duration_s, iteration) {
        (Some(iterations), None, Some(iteration)) => iterations.saturating_mul(iteration.0),
        (Some(_), None, None) => return Err(ApiError::invalid("iteration_ms: missing, and no profile says how long an iteration takes")),
        (None, Some(seconds), _) => seconds.saturating_mul(Nanos::PER_SECOND),
        _ => return Err(ApiError::invalid("needs exactly one of iterations and duration_s")),
    };
    if total == 0 || total > TOTAL_MAX.0 {
        return Err(ApiError::invalid(format!(
            "the job takes {} s alone; must be above 0 and at most {}",
            total / Nanos::PER_SECOND,
            TOTAL_MAX.0 / Nanos::PER_SECOND
        )));
    }
    Ok((iteration.unwrap_or(ITERATION), Nanos(total)))
}

fn message(submission: &Submission, waits: Option<&str>, now: FabricTime) -> pb::Submission {
    let state = match submission.state {
        SubmissionState::Queued => pb::SubmissionState::Queued,
        SubmissionState::Starting => pb::SubmissionState::Starting,
        SubmissionState::Running => pb::SubmissionState::Running,
        SubmissionState::Stopping(_) => pb::SubmissionState::Stopping,
        SubmissionState::Finished => pb::SubmissionState::Finished,
        SubmissionState::Withdrawn => pb::SubmissionState::Withdrawn,
        SubmissionState::Failed => pb::SubmissionState::Failed,
    };
    pb::Submission {
        job: submission.name.to_string(),
        state: state.into(),
        submitted_ns: submission.submitted.0,
        since_ns: submission.since.0,
        why: waits.map_or_else(|| submission.why.clone(), str::to_owned),
        gpus: submission.spec.gpus,
        place: submission.place.iter().map(place_message).collect(),
        planned: submission.planned,
        attempt: submission.attempt,
        failures: submission.failures,
        ran_ns: submission.ran_at(now).0,
        left_ns: submission.left_at(now).0,
        opportunistic: submission.spec.opportunistic,
        lease_ms: submission.spec.lease.map_or(0, |lease| lease.0 / Nanos::PER_MILLI),
    }
}
