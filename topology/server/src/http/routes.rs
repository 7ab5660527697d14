//! The routes. Each reads a request, asks [`Api`] and writes the answer.

mod bodies;
mod export;
mod extender;
mod metrics;
mod pictures;
mod services;
mod stream;

use std::time::Duration;

use axum::{
    Extension, Router,
    body::{Body, Bytes},
    extract::{MatchedPath, RawQuery, Request, State},
    http::{HeaderMap, Method, StatusCode},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post, put},
};
use proto::{
    mask::Mask,
    v1alpha1::{self as pb, topology_server::TopologyServer},
};
use tracing::Instrument as _;

use self::bodies::{admit_rpc, read, whole};
use super::{
    answer::{Document, Rest, Text, changes, is_grpc, message},
    connection::METRICS,
    load::Loads,
    local, origin, proxied,
    query::Query,
};
use crate::{
    api::{Api, ApiError, Kind},
    grpc::{self, Rpcs},
    owed::SharedBytes,
    page,
    role::{Caller, Role},
    shutdown::Shutdown,
    tls::Subject,
    traces,
};

/// What handlers share.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    pub(super) api: Api,
    pub(super) shutdown: Shutdown,
    loads: Loads,
    expositions: metrics::Expositions,
}

type Answer = Result<Response, ApiError>;

/// All routes, gRPC and health included. Whoever accepts a connection adds a [`Caller`] to its requests.
pub fn router(api: Api, shutdown: Shutdown) -> Router {
    // tonic's own limits are off: `admit_rpc` decides how large a message may be before tonic sees it.
    let rpcs = TopologyServer::new(Rpcs::new(api.clone(), shutdown.clone()))
        .max_decoding_message_size(usize::MAX)
        .max_encoding_message_size(usize::MAX);
    let shared = Shared { api, shutdown, loads: Loads::default(), expositions: metrics::Expositions::default() };
    let rpcs = Router::new()
        .route_service("/antiphase.v1alpha1.Topology/{*rpc}", rpcs)
        .layer(middleware::from_fn_with_state(shared.clone(), read_beside))
        .layer(middleware::from_fn_with_state(shared.clone(), admit_rpc));
    Router::new()
        .route("/v1alpha1/solve", post(solve))
        .route("/v1alpha1/evaluate", post(evaluate))
        .route("/v1alpha1/commit", post(commit))
        .route("/v1alpha1/release", post(release))
        .route("/v1alpha1/submit", post(submit))
        .route("/v1alpha1/withdraw", post(withdraw))
        .route("/v1alpha1/submissions", get(submissions))
        .route("/v1alpha1/report", post(report))
        .route("/v1alpha1/fabric", put(set_fabric).get(fabric))
        .route("/v1alpha1/fabric/map.svg", get(pictures::map))
        .route("/v1alpha1/fabric/export", get(export::export))
        .route("/v1alpha1/fabric/observed", get(observed))
        .route("/v1alpha1/jobs", get(jobs))
        .route("/v1alpha1/jobs/iterations.svg", get(pictures::iterations))
        .route("/v1alpha1/links", get(links))
        .route("/v1alpha1/links/circles.svg", get(pictures::circles))
        .route("/v1alpha1/agents", get(agents))
        .route("/v1alpha1/exporters", get(exporters))
        .route("/v1alpha1/turns", get(turns))
        .route("/v1alpha1/plan", get(plan))
        .route("/v1alpha1/history.svg", get(pictures::history))
        .route("/v1alpha1/events", get(events))
        .route("/v1alpha1/audit", get(audit))
        .route("/v1alpha1/events/stream", get(stream::events))
        .route("/v1alpha1/telemetry", get(telemetry))
        .route("/openapi.json", get(|caller| schema(caller, proto::schema::OPENAPI)))
        .route("/schema.json", get(|caller| schema(caller, proto::schema::JSON_SCHEMA)))
        .route(METRICS, get(metrics::metrics))
        .route("/healthz", get(health))
        .route("/readyz", get(ready))
        .merge(extender::routes())
        .merge(page::routes())
        .method_not_allowed_fallback(async || ApiError::new(Kind::Method, &"this path has no such method"))
        .fallback(async |request: Request| ApiError::new(Kind::NotFound, &format!("no path {:?}", request.uri().path())))
        // A layer that is added later runs earlier: time, then the user's name, then the count, then the origin, then the place of a
        // reader, then the handler.
        .layer(middleware::from_fn_with_state(shared.clone(), read_beside))
        .layer(middleware::from_fn_with_state(shared.clone(), own_pages))
        .layer(middleware::from_fn_with_state(shared.clone(), count))
        .with_state(shared.clone())
        .merge(rpcs)
        .merge(services::routes(&shared))
        .layer(middleware::from_fn_with_state(shared.clone(), named))
        .layer(middleware::from_fn_with_state(shared, in_time))
}

/// Changes are told of the user whom the configured proxy names, or whose connection it is.
async fn named(State(shared): State<Shared>, mut request: Request, next: Next) -> Response {
    local::name_user(&mut request).await;
    match proxied::name_user(shared.api.config().proxy.as_ref(), &mut request) {
        Ok(()) => next.run(request).await,
        Err(error) => {
            let grpc = is_grpc(request.headers());
            // Some clients of HTTP/2 lose an answer that comes while they still send.
            Rest::of(request.into_body()).1.drain(shared.api.config().limits.body_bytes()).await;
            shared.api.metrics().request(if grpc { "grpc" } else { "http" }, error.kind.code());
            error.answer(grpc)
        }
    }
}

/// Ends requests that take too long. Streams are over for this once they have begun.
async fn in_time(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    // The limit is read for each request, so SIGHUP changes it without a restart.
    let limit = shared.api.config().limits.request();
    let grpc = is_grpc(request.headers());
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let route = request.extensions().get::<MatchedPath>().cloned();
    let began = std::time::Instant::now();
    let span = traces::request(request.headers(), &method);
    let response = match tokio::time::timeout(limit, next.run(request).instrument(span.clone())).await {
        Ok(response) => response,
        Err(_) => {
            let error = timed_out(limit, changes(&method, &path));
            shared.api.metrics().request(if grpc { "grpc" } else { "http" }, error.kind.code());
            error.answer(grpc)
        }
    };
    let took = began.elapsed();
    let name = told(grpc, &method, &path, route.as_ref().map(MatchedPath::as_str), response.status());
    traces::answered(&span, &name, response.status());
    shared.api.metrics().answered(if grpc { "grpc" } else { "http" }, &name, took);
    tracing::debug!(%method, path, status = response.status().as_u16(), ?took, "request");
    response
}

/// What a request is called among the metrics: its method and route, its RPC, or what such requests have in common. The name is made
/// of our own words only, as whatever a client says would be a series for ever, refused or not.
fn told(grpc: bool, method: &Method, path: &str, route: Option<&str>, status: StatusCode) -> String {
    const OTHER: &str = "other";
    if grpc {
        let name = path.rsplit('/').next().unwrap_or_default();
        return if grpc::rpc(path).is_some() { name } else { OTHER }.to_owned();
    }
    let is_ours = matches!(*method, Method::GET | Method::HEAD | Method::POST | Method::PUT);
    let Some(route) = route.filter(|_| is_ours && status != StatusCode::METHOD_NOT_ALLOWED) else {
        return OTHER.to_owned();
    };
    match route.strip_prefix("/v1alpha1/") {
        Some(request) => format!("{method} {request}"),
        None if route.starts_with("/extender/") || matches!(route, "/metrics" | "/readyz" | "/healthz") => {
            format!("{method} {}", &route[1..])
        }
        // The files of the web page, and the descriptions of the interface.
        None => "page".to_owned(),
    }
}

fn timed_out(limit: Duration, changes: bool) -> ApiError {
    let within = format!("not done within {} s", limit.as_secs());
    if !changes {
        return ApiError::new(Kind::Timeout, &within);
    }
    // A change that is on its way to the disk cannot be taken back.
    let problem = format!("{within}; whether it comes into force is not known");
    ApiError::new(Kind::Timeout, &problem)
        .hint("repeat it, a commit with the same idempotency_key: the answer says what became of the first")
}

impl Shared {
    fn origin(&self, request: &Request) -> Result<(), ApiError> {
        origin::check(request.method(), request.uri(), request.headers(), self.api.config().tls.is_none())
    }
}

/// Refuses what a browser sends for another site's page.
async fn own_pages(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    match shared.origin(&request) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

/// Whether a request reads what may be long: lists, pictures and metrics.
fn reads(method: &Method, path: &str) -> bool {
    match grpc::rpc(path) {
        Some(rpc) => rpc.needed == Role::Read,
        None => matches!(*method, Method::GET | Method::HEAD) && (path.starts_with("/v1alpha1/") || path == METRICS),
    }
}

/// Answers readers beside the tasks.
async fn read_beside(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    if !reads(request.method(), request.uri().path()) {
        return next.run(request).await;
    }
    let who = request.extensions().get::<Caller>().copied().unwrap_or(Caller::NOBODY).who;
    let grpc = is_grpc(request.headers());
    shared.api.read(who, next.run(request)).await.unwrap_or_else(|error| error.answer(grpc))
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

fn json<M: serde::Serialize>(message: &M) -> Answer {
    Document::of(message).map(IntoResponse::into_response)
}

/// Text of which all answers share the bytes.
fn shared_text(kind: &'static str, bytes: Bytes) -> Response {
    let mut response = Text(kind, bytes).into_response();
    response.extensions_mut().insert(SharedBytes);
    response
}

fn masked<M: serde::Serialize>(mask: &Mask, message: &M) -> Answer {
    Document::masked(message, mask).map(IntoResponse::into_response)
}

/// The query of a POST: the fields that are wanted, which may stand in the body too.
fn asking(query: RawQuery) -> Result<Vec<String>, ApiError> {
    let mut query = Query::parse(query.0.as_deref().unwrap_or(""))?;
    let fields = query.list("fields");
    query.finish()?;
    Ok(fields)
}

/// Query of a read: the role, and the keys.
pub(super) fn reading(caller: Caller, query: RawQuery) -> Result<Query, ApiError> {
    caller.require(Role::Read)?;
    Query::parse(query.0.as_deref().unwrap_or(""))
}

async fn solve(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    query: RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    caller.require(Role::Evaluate)?;
    origin::is_json(&headers)?;
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
        // The last `=` splits: a job's name may hold one.
        let (job, ticks) = pair.rsplit_once('=').ok_or_else(bad)?;
        shifts.insert(job.to_owned(), ticks.parse().map_err(|_| bad())?);
    }
    query.finish()?;
    // A scenario is text here and is not weighed: `Api::solve` bounds its bytes before it is parsed.
    let (scenario, _held) = whole(&shared, caller, body, false, |text, held| Ok((text, held))).await?;
    let request = pb::SolveRequest { scenario, mode: mode.into(), robust_ticks, shifts };
    Ok(Document(shared.api.solve(caller.who, request).await?.solution).into_response())
}

async fn evaluate(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    query: RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    caller.require(Role::Evaluate)?;
    let mut fields = asking(query)?;
    let (mut request, _held) = read::<pb::EvaluateRequest>(&shared, caller, &headers, body, false).await?;
    request.fields.append(&mut fields);
    let mask = grpc::mask("EvaluateResponse", &request.fields)?;
    let document = shared.api.evaluate(caller.who, request, move |answer| Document::masked(&answer, &mask)).await?;
    Ok(document.into_response())
}

async fn commit(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Extension(by): Extension<Subject>,
    query: RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    caller.require(Role::Admin)?;
    let mut fields = asking(query)?;
    let (request, _held) = read::<pb::CommitRequest>(&shared, caller, &headers, body, true).await?;
    fields.extend_from_slice(&request.fields);
    // What cannot be answered is refused before anything changes.
    let mask = grpc::mask("CommitResponse", &fields)?;
    masked(&mask, &shared.api.commit(&by, request).await?)
}

async fn release(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Extension(by): Extension<Subject>,
    query: RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    caller.require(Role::Admin)?;
    let mut fields = asking(query)?;
    let (request, _held) = read::<pb::ReleaseRequest>(&shared, caller, &headers, body, true).await?;
    fields.extend_from_slice(&request.fields);
    let mask = grpc::mask("ReleaseResponse", &fields)?;
    masked(&mask, &shared.api.release(&by, request).await?)
}

async fn submit(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Extension(by): Extension<Subject>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    caller.require(Role::Admin)?;
    let (request, _held) = read(&shared, caller, &headers, body, true).await?;
    json(&shared.api.submit(&by, request).await?)
}

async fn withdraw(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Extension(by): Extension<Subject>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    caller.require(Role::Admin)?;
    let (request, _held) = read(&shared, caller, &headers, body, true).await?;
    json(&shared.api.withdraw(&by, request).await?)
}

async fn report(State(shared): State<Shared>, Extension(caller): Extension<Caller>, headers: HeaderMap, body: Body) -> Answer {
    caller.require(Role::Admin)?;
    let (request, _held) = read(&shared, caller, &headers, body, true).await?;
    json(&shared.api.report(request).await?)
}

async fn submissions(State(shared): State<Shared>, Extension(caller): Extension<Caller>, query: RawQuery) -> Answer {
    let mut query = reading(caller, query)?;
    let request = pb::ListSubmissionsRequest { jobs: query.list("jobs"), live: query.flag("live")?, fields: query.list("fields") };
    query.finish()?;
    masked(&grpc::mask("ListSubmissionsResponse", &request.fields)?, &shared.api.submissions(&request).await?)
}

/// The body is the fabric's document itself, or with the content type of JSON the message that holds it.
async fn set_fabric(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Extension(by): Extension<Subject>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    caller.require(Role::Admin)?;
    let is_json = headers.get("content-type").is_some_and(|v| v.as_bytes().starts_with(b"application/json"));
    let read = move |text: String, held| {
        let told = is_json.then(|| message::<pb::SetFabricRequest>(&text).ok()).flatten();
        // A fabric document may be JSON too.
        let request = told.filter(|request| !request.fabric.is_empty()).unwrap_or(pb::SetFabricRequest { fabric: text });
        Ok((request, held))
    };
    let (request, _held) = whole(&shared, caller, body, true, read).await?;
    json(&shared.api.set_fabric(&by, request, None).await?)
}

async fn fabric(State(shared): State<Shared>, Extension(caller): Extension<Caller>, query: RawQuery) -> Answer {
    let mut query = reading(caller, query)?;
    let request = pb::GetFabricRequest { summary: query.flag("summary")? };
    query.finish()?;
    if request.summary {
        json(&shared.api.fabric(&request).await?)
    } else {
        Ok(shared_text("application/json", shared.api.fabric_json().await?))
    }
}

async fn observed(State(shared): State<Shared>, Extension(caller): Extension<Caller>, query: RawQuery) -> Answer {
    let mut query = reading(caller, query)?;
    let request = pb::GetObservedRequest { summary: query.flag("summary")? };
    query.finish()?;
    json(&shared.api.observed(&request))
}

async fn jobs(State(shared): State<Shared>, Extension(caller): Extension<Caller>, query: RawQuery) -> Answer {
    let mut query = reading(caller, query)?;
    let request = pb::ListJobsRequest { jobs: query.list("jobs"), fields: query.list("fields") };
    query.finish()?;
    masked(&grpc::mask("ListJobsResponse", &request.fields)?, &shared.api.jobs(&request).await?)
}

async fn links(State(shared): State<Shared>, Extension(caller): Extension<Caller>, query: RawQuery) -> Answer {
    let mut query = reading(caller, query)?;
    let (limit, demands) = (query.number("limit")?.unwrap_or(0), query.flag("demands")?);
    // Whole values: a link's name may hold a comma.
    let (measured, observed) = (query.flag("measured")?, query.flag("observed")?);
    let (links, jobs, fields) = (query.values("links"), query.list("jobs"), query.list("fields"));
    let request = pb::ListLinksRequest { limit, links, demands, fields, measured, observed, jobs };
    query.finish()?;
    masked(&grpc::mask("ListLinksResponse", &request.fields)?, &shared.api.links(&request).await?)
}

async fn exporters(State(shared): State<Shared>, Extension(caller): Extension<Caller>, query: RawQuery) -> Answer {
    reading(caller, query)?.finish()?;
    json(&shared.api.exporters().await?)
}

async fn agents(State(shared): State<Shared>, Extension(caller): Extension<Caller>, query: RawQuery) -> Answer {
    reading(caller, query)?.finish()?;
    json(&shared.api.agents().await?)
}

async fn turns(State(shared): State<Shared>, Extension(caller): Extension<Caller>, query: RawQuery) -> Answer {
    let mut query = reading(caller, query)?;
    let (limit, fields) = (query.number("limit")?.unwrap_or(0), query.list("fields"));
    let request = pb::ListTurnsRequest { jobs: query.list("jobs"), limit, fields };
    query.finish()?;
    masked(&grpc::mask("ListTurnsResponse", &request.fields)?, &shared.api.turns(&request).await?)
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

async fn audit(State(shared): State<Shared>, Extension(caller): Extension<Caller>, query: RawQuery) -> Answer {
    let mut query = reading(caller, query)?;
    let request = pb::ListAuditRequest { after: query.number("after")?.unwrap_or(0), limit: query.number("limit")?.unwrap_or(0) };
    query.finish()?;
    json(&shared.api.audit(&request).await?)
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

/// A description of the interface, which is the same for as long as the program.
async fn schema(Extension(caller): Extension<Caller>, document: &'static str) -> Answer {
    caller.require(Role::Read)?;
    Ok(shared_text("application/json", Bytes::from_static(document.as_bytes())))
}

/// Alive: requests are answered. Anybody may ask.
async fn health() -> Text {
    Text("text/plain; charset=utf-8", "ok\n".to_owned())
}

/// Whether changes can be taken. Anybody may ask.
async fn ready(State(shared): State<Shared>) -> Answer {
    shared.api.ready().await?;
    Ok(Text("text/plain; charset=utf-8", "ok\n".to_owned()).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_reads_is_answered_beside_the_tasks_and_nobody_else() {
        for path in ["/v1alpha1/jobs", "/v1alpha1/links/circles.svg", "/metrics", "/antiphase.v1alpha1.Topology/ListJobs"] {
            // An RPC is always a POST.
            let method = if grpc::rpc(path).is_some() { Method::POST } else { Method::GET };
            assert!(reads(&method, path), "{path}");
        }
        for path in ["/healthz", "/readyz", "/", "/antiphase.v1alpha1.Topology/Commit", "/antiphase.v1alpha1.Topology/Evaluate"] {
            assert!(!reads(&Method::GET, path), "{path}");
        }
        assert!(!reads(&Method::POST, "/v1alpha1/commit") && !reads(&Method::PUT, "/v1alpha1/fabric"));
    }
}
