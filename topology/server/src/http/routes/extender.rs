//! The verbs of schedulers of Kubernetes, in the shapes that these send: kube-scheduler's extender (`k8s.io/kube-scheduler/extender/v1`)
//! and Volcano's plugin `extender`. Neither shape is versioned, so no more is read of them than is needed.

use std::collections::BTreeMap;

use axum::{
    Extension, Router,
    body::Body,
    extract::State,
    http::{HeaderMap, HeaderName, HeaderValue},
    response::{IntoResponse, Response},
    routing::post,
};
use serde::{Deserialize, Serialize, de::IgnoredAny};
use serde_json::Value;

use super::{
    Answer, Shared,
    bodies::{read_as, whole},
    message,
};
use crate::{
    api::ApiError,
    extender::{self, Judged, Metadata, Pod, Question},
    http::{answer::Document, origin},
    role::{Caller, Role, Who},
};

/// The highest score of kube-scheduler's extenders (`MaxExtenderPriority`).
const SCORE_MAX: f64 = 10.0;
/// One point of ten for so much of an iteration that jobs lose in sum: differences below half of it are noise of a prediction.
const SLOWER_PER_POINT: f64 = 0.05;
/// Volcano adds scores of its plugins, which are up to 100.
const VOLCANO_PER_POINT: f64 = 10.0;
/// Why all nodes are equal: the answers themselves have no place for it that schedulers would not take for a failure.
const MESSAGE: HeaderName = HeaderName::from_static("x-antiphase-message");

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/extender/filter", post(filter))
        .route("/extender/prioritize", post(prioritize))
        .route("/extender/volcano/predicate", post(predicate))
        .route("/extender/volcano/prioritize", post(batch_node_order))
        .route("/extender/volcano/preemptable", post(victims))
        .route("/extender/volcano/reclaimable", post(victims))
}

/// What kube-scheduler sends (`ExtenderArgs`). It names nodes where `nodeCacheCapable` is set, and sends them whole elsewhere.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Args {
    pod: Option<Pod>,
    nodes: Option<NodeList>,
    node_names: Option<Vec<String>>,
}

/// A list of nodes (`v1.NodeList`), which goes back as it came.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct NodeList {
    items: Vec<Value>,
}

/// What kube-scheduler reads of a filter (`ExtenderFilterResult`).
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Filtered {
    nodes: Option<NodeList>,
    node_names: Option<Vec<String>>,
    failed_nodes: BTreeMap<String, String>,
    failed_and_unresolvable_nodes: BTreeMap<String, String>,
    error: &'static str,
}

/// One node's score (`HostPriority`).
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct HostPriority {
    host: String,
    score: i64,
}

/// What is read of Volcano's `TaskInfo`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Task {
    job: String,
    pod: Option<Pod>,
}

/// What is read of a task that stands on a node.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Placed {
    job: String,
}

/// What is read of Volcano's `NodeInfo`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct VolcanoNode {
    name: String,
    // Go writes pointers to nothing as null.
    tasks: Option<BTreeMap<String, Option<Placed>>>,
}

/// Volcano's `PrioritizeRequest`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Prioritize {
    task: Option<Task>,
    nodes: Option<Vec<VolcanoNode>>,
}

/// Volcano's `PrioritizeResponse`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Prioritized {
    node_score: BTreeMap<String, f64>,
    error_message: &'static str,
}

/// Who may ask, and whether anybody may.
fn admit(shared: &Shared, caller: Caller) -> Result<(), ApiError> {
    caller.require(Role::Evaluate)?;
    extender::enabled(&shared.api.config().extender)
}

fn answer<M: Serialize>(judged: &Judged, message: &M) -> Answer {
    Ok(with_reason(Document::of(message)?.into_response(), judged))
}

fn with_reason(mut response: Response, judged: &Judged) -> Response {
    // A header is ASCII (RFC 9110, section 5.5), and names in a reason may be anything.
    let ascii = |c: char| if c.is_ascii_graphic() || c == ' ' { c } else { '?' };
    let reason = judged.open.as_deref().map(|reason| reason.chars().map(ascii).collect::<String>());
    if let Some(Ok(reason)) = reason.map(HeaderValue::try_from) {
        response.headers_mut().insert(MESSAGE, reason);
    }
    response
}

/// The names of the nodes, each once.
fn names(args: &Args) -> Vec<String> {
    let whole = args.nodes.iter().flat_map(|list| &list.items).filter_map(name);
    let mut names: Vec<String> = args.node_names.iter().flatten().cloned().chain(whole).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn name(node: &Value) -> Option<String> {
    Metadata::deserialize(node.get("metadata")?).ok().map(|metadata| metadata.name)
}

fn named(args: Args) -> (Args, Vec<String>) {
    let nodes = names(&args);
    (args, nodes)
}

async fn judged(shared: &Shared, who: Option<Who>, args: &Args, nodes: Vec<String>) -> Judged {
    let question = Question { who, pod: args.pod.as_ref().unwrap_or(&Pod::NONE), nodes, placed: Vec::new() };
    extender::judge(&shared.api, &shared.api.config().extender, question).await
}

/// Which nodes pass: all, unless `extender.slower_percent` says otherwise; the best one always does.
async fn filter(State(shared): State<Shared>, Extension(caller): Extension<Caller>, headers: HeaderMap, body: Body) -> Answer {
    admit(&shared, caller)?;
    let ((args, nodes), held) = read_as(&shared, caller, &headers, body, false, named).await?;
    let percent = shared.api.config().extender.slower_percent;
    // With `slower_percent = 0` every node passes without an evaluation. `prioritize` asks for one, and says why it has none.
    let judged = if percent > 0 { judged(&shared, caller.who, &args, nodes).await } else { Judged::default() };
    let bytes = held.bytes();
    // Nodes that came whole go back whole.
    shared.beside(caller, false, bytes, move || answer(&judged, &filtered(args, &judged, percent))).await
}

fn filtered(mut args: Args, judged: &Judged, percent: u32) -> Filtered {
    let too_slow = judged.nodes.iter().filter(|node| node.slower * 100.0 > f64::from(percent));
    let why =
        |slower: f64| format!("antiphase: jobs are predicted to lose {:.0} % of an iteration more than on the best node", slower * 100.0);
    let failed: BTreeMap<String, String> = too_slow.map(|node| (node.name.clone(), why(node.slower))).collect();
    if let Some(list) = &mut args.nodes {
        list.items.retain(|node| name(node).is_none_or(|name| !failed.contains_key(&name)));
    }
    if let Some(names) = &mut args.node_names {
        names.retain(|name| !failed.contains_key(name));
    }
    Filtered {
        nodes: args.nodes,
        node_names: args.node_names,
        failed_nodes: failed,
        failed_and_unresolvable_nodes: BTreeMap::new(),
        error: "",
    }
}

/// Ten points of the best node, and one less for each [`SLOWER_PER_POINT`].
fn points(slower: f64) -> f64 {
    (SCORE_MAX - slower / SLOWER_PER_POINT).clamp(0.0, SCORE_MAX)
}

/// Scores of nodes, 0 to 10.
async fn prioritize(State(shared): State<Shared>, Extension(caller): Extension<Caller>, headers: HeaderMap, body: Body) -> Answer {
    admit(&shared, caller)?;
    let ((args, nodes), _held) = read_as(&shared, caller, &headers, body, false, named).await?;
    let judged = judged(&shared, caller.who, &args, nodes).await;
    let one = |node: &extender::Node| HostPriority { host: node.name.clone(), score: points(node.slower).round() as i64 };
    let scores: Vec<HostPriority> = judged.nodes.iter().map(one).collect();
    answer(&judged, &scores)
}

/// Reads a body of which nothing is wanted: values that are skipped make no objects, so they weigh nothing.
async fn ignore(shared: &Shared, caller: Caller, headers: &HeaderMap, body: Body) -> Result<(), ApiError> {
    origin::is_json(headers)?;
    whole(shared, caller, body, false, |text, _held| message::<IgnoredAny>(&text).map(|_| ())).await
}

/// Volcano asks of one node at a time, and there is nothing to compare it with: it passes, and `prioritize` says which is best.
async fn predicate(State(shared): State<Shared>, Extension(caller): Extension<Caller>, headers: HeaderMap, body: Body) -> Answer {
    admit(&shared, caller)?;
    ignore(&shared, caller, &headers, body).await?;
    Ok(Document(r#"{"status":"","code":0}"#.into()).into_response())
}

/// Whom to evict is not for us to say: 0 abstains (Volcano's `Abstain`), and the other plugins decide.
async fn victims(State(shared): State<Shared>, Extension(caller): Extension<Caller>, headers: HeaderMap, body: Body) -> Answer {
    admit(&shared, caller)?;
    ignore(&shared, caller, &headers, body).await?;
    Ok(Document(r#"{"status":0,"victims":[]}"#.into()).into_response())
}

/// Scores of nodes for Volcano, which calls this batch node order. Its nodes know which tasks of the job they run.
async fn batch_node_order(State(shared): State<Shared>, Extension(caller): Extension<Caller>, headers: HeaderMap, body: Body) -> Answer {
    admit(&shared, caller)?;
    let ((pod, nodes, placed), _held) = read_as(&shared, caller, &headers, body, false, tasks).await?;
    let judged = extender::judge(&shared.api, &shared.api.config().extender, Question { who: caller.who, pod: &pod, nodes, placed }).await;
    let node_score = judged.nodes.iter().map(|node| (node.name.clone(), points(node.slower) * VOLCANO_PER_POINT)).collect();
    answer(&judged, &Prioritized { node_score, error_message: "" })
}

/// The pod, the names of the nodes, each once, and those of them that run tasks of its job.
fn tasks(request: Prioritize) -> (Pod, Vec<String>, Vec<String>) {
    let nodes = request.nodes.unwrap_or_default();
    let task = request.task.unwrap_or_default();
    let is_ours = |placed: &Placed| !placed.job.is_empty() && placed.job == task.job;
    let runs = |node: &&VolcanoNode| node.tasks.iter().flatten().any(|(_, task)| task.as_ref().is_some_and(is_ours));
    let placed = nodes.iter().filter(runs).map(|node| node.name.clone()).collect();
    let mut names: Vec<String> = nodes.iter().map(|node| node.name.clone()).collect();
    names.sort_unstable();
    names.dedup();
    (task.pod.unwrap_or_default(), names, placed)
}
