//! The routes. Each reads a request, asks [`Api`] and writes the answer.

use axum::{
    Extension, Router,
    body::Body,
    extract::{RawQuery, Request, State},
    http::HeaderMap,
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post, put},
};
use proto::v1alpha1::{self as pb, topology_server::TopologyServer};

use super::{
    answer::{Document, Rest, Text, message, text},
    query::Query,
    stream,
};
use crate::{
    api::{Api, ApiError, Kind},
    grpc::Rpcs,
    page,
    role::{Caller, Role},
    shutdown::Shutdown,
};

/// What handlers share.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    pub(super) api: Api,
    pub(super) shutdown: Shutdown,
}

type Answer = Result<Response, ApiError>;

/// All routes, gRPC and health included. Whoever accepts a connection adds a [`Caller`] to its requests.
pub fn router(api: Api, shutdown: Shutdown) -> Router {
    let limit = api.config().limits.body_bytes();
    let rpcs = TopologyServer::new(Rpcs::new(api.clone(), shutdown.clone()))
        .max_decoding_message_size(limit)
        .max_encoding_message_size(usize::MAX);
    let shared = Shared { api, shutdown };
    Router::new()
        .route("/v1alpha1/solve", post(solve))
        .route("/v1alpha1/evaluate", post(evaluate))
        .route("/v1alpha1/commit", post(commit))
        .route("/v1alpha1/release", post(release))
        .route("/v1alpha1/fabric", put(set_fabric).get(fabric))
        .route("/v1alpha1/jobs", get(jobs))
        .route("/v1alpha1/links", get(links))
        .route("/v1alpha1/agents", get(agents))
        .route("/v1alpha1/plan", get(plan))
        .route("/v1alpha1/events", get(events))
        .route("/v1alpha1/events/stream", get(stream::events))
        .route("/v1alpha1/telemetry", get(telemetry))
        .route("/metrics", get(metrics))
        .route("/healthz", get(health))
        .route("/readyz", get(ready))
        .merge(page::routes())
        .method_not_allowed_fallback(async || ApiError::new(Kind::Method, &"this path has no such method"))
        .fallback(async |request: Request| ApiError::new(Kind::NotFound, &format!("no path {:?}", request.uri().path())))
        .layer(middleware::from_fn_with_state(shared.clone(), count))
        .with_state(shared.clone())
        .route_service("/antiphase.v1alpha1.Topology/{*rpc}", rpcs)
        .layer(middleware::from_fn_with_state(shared, in_time))
}

/// Ends requests that take too long. Streams are over for this once they have begun.
async fn in_time(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    let limit = shared.api.config().limits.request();
    let grpc = request.headers().get("content-type").is_some_and(|v| v.as_bytes().starts_with(b"application/grpc"));
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let began = std::time::Instant::now();
    let response = match tokio::time::timeout(limit, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let error = ApiError::new(Kind::Timeout, &format!("not done within {} s", limit.as_secs()));
            shared.api.metrics().request(if grpc { "grpc" } else { "http" }, error.kind.code());
            if grpc { tonic::Status::from(error).into_http() } else { error.into_response() }
        }
    };
    tracing::debug!(%method, path, status = response.status().as_u16(), took = ?began.elapsed(), "request");
    response
}

/// Counts answers. Before an error is sent, the request is read to its end.
async fn count(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    let (body, rest) = Rest::of(body);
    let response = next.run(Request::from_parts(head, body)).await;
    let kind = response.extensions().get::<Kind>();
    if kind.is_some() {
        rest.drain(shared.api.config().limits.body_bytes()).await;
    }
    let result = kind.map_or("ok", |kind| kind.code());
    shared.api.metrics().request("http", result);
    response
}

/// The message in a JSON body.
async fn read<M: serde::de::DeserializeOwned>(shared: &Shared, body: Body) -> Result<M, ApiError> {
    message(&text(body, shared.api.config().limits.body_bytes()).await?)
}

fn json<M: serde::Serialize>(message: &M) -> Answer {
    Document::of(message).map(IntoResponse::into_response)
}

/// Query of a read: the role, and the keys.
pub(super) fn reading(caller: Caller, query: RawQuery) -> Result<Query, ApiError> {
    caller.require(Role::Read)?;
    Query::parse(query.0.as_deref().unwrap_or(""))
}

async fn solve(State(shared): State<Shared>, Extension(caller): Extension<Caller>, query: RawQuery, body: Body) -> Answer {
    caller.require(Role::Evaluate)?;
    let mut query = Query::parse(query.0.as_deref().unwrap_or(""))?;
    let mode = match query.text("mode")?.as_deref() {
        None | Some("exact") => pb::Mode::Exact,
        Some("cassini") => pb::Mode::Cassini,
        Some(other) => return Err(ApiError::invalid(format!("query: mode={other:?}; exact or cassini"))),
    };
    let robust_ticks = query.number("robust")?;
    let mut shifts = std::collections::BTreeMap::new();
    for pair in query.list("shifts") {
        let bad = || ApiError::invalid(format!("query: shifts {pair:?}; expected JOB=TICKS"));
        let (job, ticks) = pair.rsplit_once('=').ok_or_else(bad)?;
        shifts.insert(job.to_owned(), ticks.parse().map_err(|_| bad())?);
    }
    query.finish()?;
    let scenario = text(body, shared.api.config().limits.body_bytes()).await?;
    let request = pb::SolveRequest { scenario, mode: mode.into(), robust_ticks, shifts };
    Ok(Document(shared.api.solve(request).await?.solution).into_response())
}

async fn evaluate(State(shared): State<Shared>, Extension(caller): Extension<Caller>, body: Body) -> Answer {
    caller.require(Role::Evaluate)?;
    json(&shared.api.evaluate(read(&shared, body).await?).await?)
}

async fn commit(State(shared): State<Shared>, Extension(caller): Extension<Caller>, body: Body) -> Answer {
    caller.require(Role::Admin)?;
    json(&shared.api.commit(read(&shared, body).await?).await?)
}

async fn release(State(shared): State<Shared>, Extension(caller): Extension<Caller>, body: Body) -> Answer {
    caller.require(Role::Admin)?;
    json(&shared.api.release(read(&shared, body).await?).await?)
}

/// The body is the fabric's document itself, or with the content type of JSON the message that holds it.
async fn set_fabric(State(shared): State<Shared>, Extension(caller): Extension<Caller>, headers: HeaderMap, body: Body) -> Answer {
    caller.require(Role::Admin)?;
    let body = text(body, shared.api.config().limits.body_bytes()).await?;
    let is_json = headers.get("content-type").is_some_and(|v| v.as_bytes().starts_with(b"application/json"));
    let request = match message::<pb::SetFabricRequest>(&body) {
        Ok(request) if is_json && !request.fabric.is_empty() => request,
        // A fabric document may be JSON too.
        _ => pb::SetFabricRequest { fabric: body },
    };
    json(&shared.api.set_fabric(request).await?)
}

async fn fabric(State(shared): State<Shared>, Extension(caller): Extension<Caller>, query: RawQuery) -> Answer {
    let mut query = reading(caller, query)?;
    let request = pb::GetFabricRequest { summary: query.flag("summary")? };
    query.finish()?;
    json(&shared.api.fabric(&request).await?)
}

async fn jobs(State(shared): State<Shared>, Extension(caller): Extension<Caller>, query: RawQuery) -> Answer {
    let mut query = reading(caller, query)?;
    let request = pb::ListJobsRequest { jobs: query.list("jobs") };
    query.finish()?;
    json(&shared.api.jobs(&request).await?)
}

async fn links(State(shared): State<Shared>, Extension(caller): Extension<Caller>, query: RawQuery) -> Answer {
    let mut query = reading(caller, query)?;
    let (limit, demands) = (query.number("limit")?.unwrap_or(0), query.flag("demands")?);
    // Whole values: a link's name may hold a comma.
    let request = pb::ListLinksRequest { limit, links: query.values("links"), demands };
    query.finish()?;
    json(&shared.api.links(&request).await?)
}

async fn agents(State(shared): State<Shared>, Extension(caller): Extension<Caller>, query: RawQuery) -> Answer {
    reading(caller, query)?.finish()?;
    json(&shared.api.agents().await?)
}

async fn plan(State(shared): State<Shared>, Extension(caller): Extension<Caller>, query: RawQuery) -> Answer {
    reading(caller, query)?.finish()?;
    json(&shared.api.plan().await?)
}

async fn events(State(shared): State<Shared>, Extension(caller): Extension<Caller>, query: RawQuery) -> Answer {
    let mut query = reading(caller, query)?;
    let request = pb::ListEventsRequest { after: query.number("after")?.unwrap_or(0), limit: query.number("limit")?.unwrap_or(0) };
    query.finish()?;
    json(&shared.api.events(&request))
}

async fn telemetry(State(shared): State<Shared>, Extension(caller): Extension<Caller>, query: RawQuery) -> Answer {
    let mut query = reading(caller, query)?;
    let request = pb::GetTelemetryRequest {
        hosts: query.list("hosts"),
        jobs: query.list("jobs"),
        seconds: query.number("seconds")?.unwrap_or(0),
        all_hosts: query.flag("all_hosts")?,
    };
    query.finish()?;
    json(&shared.api.telemetry(&request))
}

async fn metrics(State(shared): State<Shared>, Extension(caller): Extension<Caller>) -> Answer {
    caller.require(Role::Read)?;
    Ok(Text("text/plain; version=0.0.4; charset=utf-8", shared.api.exposition().await?).into_response())
}

/// Alive: requests are answered. Anybody may ask.
async fn health() -> Text {
    Text("text/plain; charset=utf-8", "ok\n".into())
}

/// Whether changes can be taken. Anybody may ask.
async fn ready(State(shared): State<Shared>) -> Answer {
    shared.api.ready().await?;
    Ok(Text("text/plain; charset=utf-8", "ok\n".into()).into_response())
}
