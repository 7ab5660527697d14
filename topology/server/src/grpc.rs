//! gRPC: the RPCs of `topology.proto`, each one call of [`Api`].

use std::{pin::Pin, sync::Arc};

use futures_util::{Stream, StreamExt as _, stream};
use prost::Message;
use proto::{
    mask::Mask,
    v1alpha1::{self as pb, topology_server::Topology},
};
use tonic::{Request, Response, Status};

use crate::{
    api::{Api, ApiError, Kind, Watcher},
    owed::Account,
    role::{Caller, Role},
    shutdown::Shutdown,
    tls::Subject,
};

/// Largest message of an RPC that lists names: 10,000 of the longest take 2.5 MB.
const NAMES_BYTES_MAX: usize = 4 << 20;

/// The fields of a message that are messages, with theirs.
pub(crate) struct Shape(pub(crate) &'static [(u64, &'static Shape)]);

const FLAT: Shape = Shape(&[]);
const JOB: Shape = Shape(&[(2, &FLAT)]);
const CANDIDATE: Shape = Shape(&[(2, &FLAT)]);

/// What is decided of an RPC before its message is decoded.
pub(crate) struct Rpc {
    name: &'static str,
    /// The role that may call the RPC.
    pub(crate) needed: Role,
    /// The RPC's largest message; `None`: as large as a body.
    pub(crate) bytes_max: Option<usize>,
    /// Where messages stand in its message.
    pub(crate) shape: &'static Shape,
}

const fn lists(name: &'static str, needed: Role) -> Rpc {
    Rpc { name, needed, bytes_max: Some(NAMES_BYTES_MAX), shape: &FLAT }
}

const fn large(name: &'static str, needed: Role, shape: &'static Shape) -> Rpc {
    Rpc { name, needed, bytes_max: None, shape }
}

/// All RPCs: an RPC that is not in this list cannot be called.
const RPCS: [Rpc; 21] = [
    large("Solve", Role::Evaluate, &Shape(&[(4, &FLAT)])),
    large("Evaluate", Role::Evaluate, &Shape(&[(1, &JOB), (2, &CANDIDATE)])),
    large("Commit", Role::Admin, &Shape(&[(1, &JOB)])),
    lists("Release", Role::Admin),
    large("SetFabric", Role::Admin, &FLAT),
    lists("GetFabric", Role::Read),
    lists("GetObserved", Role::Read),
    lists("ListJobs", Role::Read),
    lists("ListLinks", Role::Read),
    lists("ListAgents", Role::Read),
    lists("ListExporters", Role::Read),
    lists("ListTurns", Role::Read),
    lists("GetPlan", Role::Read),
    lists("ListEvents", Role::Read),
    lists("ListAudit", Role::Read),
    lists("WatchEvents", Role::Read),
    lists("GetTelemetry", Role::Read),
    large("Submit", Role::Admin, &Shape(&[(1, &JOB)])),
    lists("Withdraw", Role::Admin),
    lists("ListSubmissions", Role::Read),
    lists("Report", Role::Admin),
];

/// The RPC at a path.
pub(crate) fn rpc(path: &str) -> Option<&'static Rpc> {
    let name = path.strip_prefix("/antiphase.v1alpha1.Topology/")?;
    // The whole name has to match, so no path passes for an RPC of a lesser role.
    RPCS.iter().find(|rpc| rpc.name == name)
}

/// The RPCs.
#[derive(Clone, Debug)]
pub struct Rpcs {
    api: Api,
    shutdown: Shutdown,
}

impl Rpcs {
    /// Answers with `api` until `shutdown`.
    #[must_use]
    pub fn new(api: Api, shutdown: Shutdown) -> Self {
        Self { api, shutdown }
    }

    /// Counts the answer. The caller's role was looked at before the message was read: see [`rpc`].
    async fn answer<T, R, F>(&self, request: Request<T>, call: impl FnOnce(T) -> F) -> Result<Response<R>, Status>
    where
        R: Message,
        F: Future<Output = Result<R, ApiError>>,
    {
        let account = request.extensions().get::<Account>().cloned();
        let result = call(request.into_inner()).await.and_then(|answer| {
            // A message is held as it is until it is encoded, and then as bytes.
            let owed = account.map(|account| account.owe(answer.encoded_len().saturating_mul(2))).transpose()?;
            let mut response = Response::new(answer);
            owed.map(|owed| response.extensions_mut().insert(Arc::new(owed)));
            Ok(response)
        });
        self.counted(result).map_err(Status::from)
    }

    /// Answers of calls are counted here; `admit_rpc` and `in_time` count the requests that never come this far.
    fn counted<R>(&self, result: Result<R, ApiError>) -> Result<R, ApiError> {
        self.api.metrics().request("grpc", result.as_ref().err().map_or("ok", |e| e.kind.code()));
        result
    }
}

/// The fields of the answer that a request names.
///
/// # Errors
/// Names the path that leads nowhere.
pub(crate) fn mask(message: &str, fields: &[String]) -> Result<Mask, ApiError> {
    Mask::parse(message, fields).map_err(ApiError::invalid)
}

/// Who asks, and with which role.
fn caller<T>(request: &Request<T>) -> Caller {
    // A request without a caller has no role: a way in that forgot to say who calls opens nothing.
    request.extensions().get::<Caller>().copied().unwrap_or(Caller::NOBODY)
}

/// Who asks for a change; whoever accepts a connection says it of each request.
fn subject<T>(request: &Request<T>) -> Subject {
    request.extensions().get::<Subject>().cloned().unwrap_or_else(Subject::local)
}

fn keep<M: Message + Default>(mask: &Mask, answer: M) -> Result<M, ApiError> {
    mask.keep(answer).map_err(|e| ApiError::new(Kind::Internal, &e))
}

type Events = Pin<Box<dyn Stream<Item = Result<pb::Event, Status>> + Send>>;

#[tonic::async_trait]
impl Topology for Rpcs {
    async fn solve(&self, request: Request<pb::SolveRequest>) -> Result<Response<pb::SolveResponse>, Status> {
        let who = caller(&request).who;
        self.answer(request, |r| self.api.solve(who, r)).await
    }

    async fn evaluate(&self, request: Request<pb::EvaluateRequest>) -> Result<Response<pb::EvaluateResponse>, Status> {
        let who = caller(&request).who;
        self.answer(request, async |r| {
            let mask = mask("EvaluateResponse", &r.fields)?;
            self.api.evaluate(who, r, move |answer| keep(&mask, answer)).await
        })
        .await
    }

    async fn commit(&self, request: Request<pb::CommitRequest>) -> Result<Response<pb::CommitResponse>, Status> {
        let by = subject(&request);
        self.answer(request, async |r| {
            // What cannot be answered is refused before anything changes.
            let mask = mask("CommitResponse", &r.fields)?;
            keep(&mask, self.api.commit(&by, r).await?)
        })
        .await
    }

    async fn release(&self, request: Request<pb::ReleaseRequest>) -> Result<Response<pb::ReleaseResponse>, Status> {
        let by = subject(&request);
        self.answer(request, async |r| {
            let mask = mask("ReleaseResponse", &r.fields)?;
            keep(&mask, self.api.release(&by, r).await?)
        })
        .await
    }

    async fn set_fabric(&self, request: Request<pb::SetFabricRequest>) -> Result<Response<pb::SetFabricResponse>, Status> {
        let by = subject(&request);
        self.answer(request, async |r| self.api.set_fabric(&by, r, None).await).await
    }

    async fn get_fabric(&self, request: Request<pb::GetFabricRequest>) -> Result<Response<pb::GetFabricResponse>, Status> {
        self.answer(request, async |r| self.api.fabric(&r).await).await
    }

    async fn get_observed(&self, request: Request<pb::GetObservedRequest>) -> Result<Response<pb::GetObservedResponse>, Status> {
        self.answer(request, async |r| Ok(self.api.observed(&r))).await
    }

    async fn list_jobs(&self, request: Request<pb::ListJobsRequest>) -> Result<Response<pb::ListJobsResponse>, Status> {
        self.answer(request, async |r| keep(&mask("ListJobsResponse", &r.fields)?, self.api.jobs(&r).await?)).await
    }

    async fn list_links(&self, request: Request<pb::ListLinksRequest>) -> Result<Response<pb::ListLinksResponse>, Status> {
        self.answer(request, async |r| keep(&mask("ListLinksResponse", &r.fields)?, self.api.links(&r).await?)).await
    }

    async fn list_exporters(&self, request: Request<pb::ListExportersRequest>) -> Result<Response<pb::ListExportersResponse>, Status> {
        self.answer(request, async |_| self.api.exporters().await).await
    }

    async fn list_agents(&self, request: Request<pb::ListAgentsRequest>) -> Result<Response<pb::ListAgentsResponse>, Status> {
        self.answer(request, |_| self.api.agents()).await
    }

    async fn list_turns(&self, request: Request<pb::ListTurnsRequest>) -> Result<Response<pb::ListTurnsResponse>, Status> {
        self.answer(request, async |r| keep(&mask("ListTurnsResponse", &r.fields)?, self.api.turns(&r).await?)).await
    }

    async fn get_plan(&self, request: Request<pb::GetPlanRequest>) -> Result<Response<pb::Plan>, Status> {
        self.answer(request, |_| self.api.plan()).await
    }

    async fn list_events(&self, request: Request<pb::ListEventsRequest>) -> Result<Response<pb::ListEventsResponse>, Status> {
        self.answer(request, async |r| Ok(self.api.events(&r))).await
    }

    async fn list_audit(&self, request: Request<pb::ListAuditRequest>) -> Result<Response<pb::ListAuditResponse>, Status> {
        self.answer(request, async |r| self.api.audit(&r).await).await
    }

    type WatchEventsStream = Events;

    async fn watch_events(&self, request: Request<pb::WatchEventsRequest>) -> Result<Response<Events>, Status> {
        // The stream ends with the service: a watch that went on would outlast the grace of a shutdown.
        let end = self.shutdown.clone();
        let watcher = self.counted(self.api.watch(caller(&request).who, request.into_inner().after)).map_err(Status::from)?;
        let events = batches(watcher).map(stream::iter).flatten().map(Ok).take_until(async move { end.wait().await });
        Ok(Response::new(Box::pin(events)))
    }

    async fn get_telemetry(&self, request: Request<pb::GetTelemetryRequest>) -> Result<Response<pb::GetTelemetryResponse>, Status> {
        self.answer(request, async |r| Ok(self.api.telemetry(&r))).await
    }

    async fn submit(&self, request: Request<pb::SubmitRequest>) -> Result<Response<pb::Submission>, Status> {
        let by = subject(&request);
        self.answer(request, async |r| self.api.submit(&by, r).await).await
    }

    async fn withdraw(&self, request: Request<pb::WithdrawRequest>) -> Result<Response<pb::Submission>, Status> {
        let by = subject(&request);
        self.answer(request, async |r| self.api.withdraw(&by, r).await).await
    }

    async fn list_submissions(
        &self,
        request: Request<pb::ListSubmissionsRequest>,
    ) -> Result<Response<pb::ListSubmissionsResponse>, Status> {
        self.answer(request, async |r| keep(&mask("ListSubmissionsResponse", &r.fields)?, self.api.submissions(&r).await?)).await
    }

    async fn report(&self, request: Request<pb::ReportRequest>) -> Result<Response<pb::Submission>, Status> {
        self.answer(request, |r| self.api.report(r)).await
    }
}

/// Events as they come, several at a time.
pub fn batches(watcher: Watcher) -> impl Stream<Item = Vec<pb::Event>> + Send {
    stream::unfold(watcher, |mut watcher| async move {
        let first = watcher.gap.take();
        match first {
            Some(gap) => Some((vec![gap], watcher)),
            None => watcher.reader.next().await.map(|events| (events, watcher)),
        }
    })
}
