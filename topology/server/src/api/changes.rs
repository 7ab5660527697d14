//! Changes of the plan and of the fabric.

use std::sync::Arc;

use prost::Message as _;
use proto::v1alpha1 as pb;
use sha2::{Digest as _, Sha256};
use state::{Change, Commit, Content, Refusal, Reply, config::KEY_BYTES_MAX};
use units::Nanos;

use super::{Api, ApiError, Kind, LEASE_MS_MAX, limit};
use crate::{
    controller::slot_message,
    discovery::SetFabric,
    learning::keep_learned,
    resolve::{self, one_line},
    tls::Subject,
};

impl Api {
    /// Commits jobs.
    ///
    /// # Errors
    /// [`ApiError`]: nothing was changed.
    pub async fn commit(&self, by: &Subject, request: pb::CommitRequest) -> Result<pb::CommitResponse, ApiError> {
        if request.jobs.is_empty() {
            return Err(ApiError::invalid("jobs: empty"));
        }
        // Limits of numbers and lengths come before the documents are read, which is the expensive part.
        if request.idempotency_key.len() > KEY_BYTES_MAX {
            let bytes = request.idempotency_key.len();
            return Err(ApiError::invalid(format!("idempotency_key: {bytes} bytes; at most {KEY_BYTES_MAX}")));
        }
        if request.lease_ms > LEASE_MS_MAX {
            return Err(ApiError::invalid(format!("lease_ms: {}; at most {LEASE_MS_MAX}", request.lease_ms)));
        }
        limit("jobs", request.jobs.len(), state::config::COMMIT_JOBS_MAX)?;
        for spec in &request.jobs {
            // The document is kept in the state file for as long as the job, so its size is bounded apart from the body's.
            let (what, value, max) = ("bytes of a job's document", spec.encoded_len() as u64, resolve::JOB_BYTES_MAX as u64);
            if value > max {
                return Err(Refusal::Limit { what, value, max }.into());
            }
        }
        let content = content(&request);
        // The jobs are placed on the fabric of now; its version goes with them, so that the controller notices another one.
        let view = self.0.controller.fabric().await?.ok_or(Refusal::NoFabric)?;
        let (specs, if_fabric) = (request.jobs, Some(view.version));
        let known = if specs.iter().any(|spec| spec.learn) { Some(self.snapshot().await?) } else { None };
        let read = move || {
            let mut documents = resolve::documents(&specs)?;
            if let Some(known) = known {
                documents = documents.into_iter().map(|document| keep_learned(document, &known)).collect();
            }
            resolve::definitions(&view.fabric, &documents)
        };
        // The documents are read beside the controller, which would otherwise answer nobody for as long.
        let jobs = self.read_change(by.who, read).await?.map_err(ApiError::invalid)?;
        let names: Vec<String> = jobs.iter().map(|job| job.job.name.to_string()).collect();
        let about = request.explain.then(|| names.iter().cloned().collect());
        let lease = (request.lease_ms > 0).then(|| Nanos::from_millis(request.lease_ms));
        let commit = Commit {
            jobs,
            if_fabric,
            if_plan_version: request.if_plan_version,
            lease,
            key: request.idempotency_key,
            content,
            learned: false,
            by: Some(by.told.clone()),
        };
        match self.0.controller.change(Change::Commit(commit)).await?? {
            Reply::Committed(c) => {
                let slots = c.slots.iter().map(slot_message).collect();
                let (explanation, mut warnings) = (self.explained_if(by.who, about).await, c.crowded);
                // The commit is in force: a service that stops now has nothing to add, and no error to tell.
                warnings.extend(self.0.controller.warnings(names).await.unwrap_or_default());
                Ok(pb::CommitResponse { plan_version: c.plan_version, slots, moved: c.moved, score: c.score, explanation, warnings })
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Forgets jobs.
    ///
    /// # Errors
    /// [`ApiError`]: nothing was changed.
    pub async fn release(&self, by: &Subject, request: pb::ReleaseRequest) -> Result<pb::ReleaseResponse, ApiError> {
        if request.jobs.is_empty() {
            return Err(ApiError::invalid("jobs: empty"));
        }
        // Whom they met is known before they are gone.
        let about = if request.explain { Some(self.neighbours(&request.jobs).await?) } else { None };
        match self.0.controller.change(Change::Release { by: Some(by.told.clone()), jobs: request.jobs }).await?? {
            Reply::Released { plan_version, unknown } => {
                let explanation = self.explained_if(by.who, about).await;
                Ok(pb::ReleaseResponse { plan_version, unknown, explanation })
            }
            other => Err(unexpected(&other)),
        }
    }

    /// How discovery makes a fabric the service's: as an administrator would, unless somebody has set another one since.
    pub(crate) fn fabric_setter(&self) -> SetFabric {
        let api = self.clone();
        Box::new(move |fabric, if_fabric| {
            let (api, request) = (api.clone(), pb::SetFabricRequest { fabric });
            Box::pin(async move {
                let set = api.set_fabric(&Subject::discovery(), request, Some(if_fabric)).await;
                set.map(|set| set.fabric_version).map_err(|error| error.to_string())
            })
        })
    }

    /// Replaces the fabric; one of the version `if_fabric`, where that is given, with 0 for none.
    ///
    /// # Errors
    /// [`ApiError`]: nothing was changed.
    pub async fn set_fabric(
        &self,
        by: &Subject,
        request: pb::SetFabricRequest,
        if_fabric: Option<u64>,
    ) -> Result<pb::SetFabricResponse, ApiError> {
        let text: Arc<str> = request.fabric.into();
        let document = Arc::clone(&text);
        let read = move || fabric::native::read(&document).map_err(|e| ApiError::invalid(format!("fabric: {}", one_line(&e))));
        let fabric = Arc::new(self.read_change(by.who, read).await??);
        // The list of jobs stays empty here: only the controller knows which jobs are committed when the change begins.
        let change = Change::SetFabric { by: Some(by.told.clone()), fabric, text, jobs: Vec::new(), if_fabric };
        match self.0.controller.change(change).await?? {
            Reply::FabricSet { version, plan_version } => Ok(pb::SetFabricResponse { fabric_version: version, plan_version }),
            other => Err(unexpected(&other)),
        }
    }
}

/// A digest of what a request commits. What it only asks for first (a plan version, fields of the answer) may differ in a repetition.
fn content(request: &pb::CommitRequest) -> Option<Content> {
    let mut digest = Sha256::new();
    digest.update(request.lease_ms.to_be_bytes());
    for job in &request.jobs {
        // Each with its length, so that no two lists of jobs run into the same bytes.
        digest.update((job.encoded_len() as u64).to_be_bytes());
        digest.update(job.encode_to_vec());
    }
    Some(digest.finalize().into())
}

fn unexpected(reply: &Reply) -> ApiError {
    tracing::error!(?reply, "the controller gave the answer of another request");
    ApiError::new(Kind::Internal, &"an answer of another kind")
}
