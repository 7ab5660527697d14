//! What schedulers of Kubernetes are told of nodes: how much more time jobs lose with a pod here than on the best node.
//!
//! A pod is judged where its job's other pods stand: each node is a candidate that places the job on their hosts and on this node, and
//! the candidates are evaluated as any others. Whatever is not known opens: all nodes are equal then, and the reason is told, because
//! a scheduler that cannot ask must go on as if nobody had been asked.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use proto::v1alpha1 as pb;
use serde::Deserialize;

use crate::{
    api::{Api, ApiError, Kind},
    config::ExtenderConfig,
    lines::LineLimit,
    resolve::one_line,
    tls::Who,
};

/// Nodes of one request that are judged: as many as an evaluation takes candidates, which takes seconds.
const NODES_MAX: usize = 1_000;
/// Hosts in all candidates of one request: a job of 1,000 hosts on 1,000 nodes, which takes some 50 MB while it is judged.
const PLACES_MAX: usize = 1_000_000;

/// Hosts that a pod may name: as many as the largest fabrics have. Another list would only take long to read.
const SAID_MAX: usize = 100_000;
/// Lines about questions that cannot be judged: whoever may evaluate can ask thousands a second.
static LINES: LineLimit = LineLimit::new(5, Duration::from_secs(10));

/// What is read of a pod (`v1.Pod`): its annotations and labels.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Pod {
    metadata: Option<Metadata>,
}

/// What is read of the metadata of an object (`metav1.ObjectMeta`).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Metadata {
    /// The object's name.
    pub(crate) name: String,
    /// The namespace in which that name is the only one; empty for objects without one, such as nodes.
    namespace: String,
    // Go writes maps that were never made as null.
    annotations: Option<BTreeMap<String, String>>,
    labels: Option<BTreeMap<String, String>>,
}

impl Pod {
    /// A pod that says nothing.
    pub(crate) const NONE: Self = Self { metadata: None };

    /// What the pod says under a name, as an annotation or else as a label; nothing where it is empty.
    pub(crate) fn says(&self, name: &str) -> Option<&str> {
        let Metadata { annotations, labels, .. } = self.metadata.as_ref()?;
        let said = [annotations, labels].into_iter().flatten().find_map(|map| map.get(name));
        said.map(|text| text.trim()).filter(|text| !text.is_empty())
    }

    fn namespace(&self) -> Option<&str> {
        self.metadata.as_ref().map(|metadata| &*metadata.namespace).filter(|namespace| !namespace.is_empty())
    }
}

/// A pod that looks for a node.
#[derive(Debug)]
pub(crate) struct Question<'a> {
    /// By whom limits are shared.
    pub(crate) who: Option<Who>,
    pub(crate) pod: &'a Pod,
    /// Names of the nodes that it may stand on, each once.
    pub(crate) nodes: Vec<String>,
    /// Nodes on which the scheduler knows pods of the same job.
    pub(crate) placed: Vec<String>,
}

/// Nodes in the order of the question, and why they are all equal where they are for want of knowledge.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Judged {
    pub(crate) nodes: Vec<Node>,
    /// Why nothing is said of the nodes; `None`: they were judged.
    pub(crate) open: Option<String>,
}

/// One node.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) name: String,
    /// How much more time all jobs lose than with the best node, as a share of one job's time: 0.1 is a tenth of an iteration of one
    /// job, or a twentieth of two. A mean over all jobs would make every node of a large cluster equal.
    pub(crate) slower: f64,
}

/// Judges the nodes of a question; whatever is not known opens.
pub(crate) async fn judge(api: &Api, config: &ExtenderConfig, question: Question<'_>) -> Judged {
    let equal = || question.nodes.iter().map(|name| Node { name: name.clone(), slower: 0.0 }).collect();
    match losses(api, config, &question).await {
        Ok(losses) => {
            let best = losses.iter().flatten().copied().fold(f64::INFINITY, f64::min);
            // A node where the job stands already adds no link, so it is as good as the best.
            let slower = |loss: &Option<f64>| loss.map_or(0.0, |loss| loss - best);
            let nodes = question.nodes.iter().zip(&losses).map(|(name, loss)| Node { name: name.clone(), slower: slower(loss) });
            Judged { nodes: nodes.collect(), open: None }
        }
        Err(problem) => {
            // What a pod says may be of any length and anything.
            let reason = one_line(&problem);
            LINES.say(|dropped| tracing::info!(reason, dropped, "extender: all nodes are equal"));
            Judged { nodes: equal(), open: Some(reason) }
        }
    }
}

/// What all jobs lose with the pod on each node, in iterations of one; `None` where the job stands already.
async fn losses(api: &Api, config: &ExtenderConfig, question: &Question<'_>) -> Result<Vec<Option<f64>>, String> {
    if question.nodes.len() > NODES_MAX {
        return Err(format!("{} nodes; at most {NODES_MAX} are judged", question.nodes.len()));
    }
    let name = question.pod.says(&config.job).ok_or_else(|| format!("the pod has no annotation or label {:?}", config.job))?;
    let said = question.pod.says(&config.hosts).unwrap_or_default();
    if said.split(',').nth(SAID_MAX).is_some() {
        return Err(format!("{}: more than {SAID_MAX} hosts", config.hosts));
    }
    let (name, placed) = placed(api, question, name, said).await;
    if placed.is_empty() {
        return Err(format!("no host is known of job {name:?}: its first pod sends to nobody"));
    }
    if placed.len().saturating_mul(question.nodes.len()) > PLACES_MAX {
        return Err(format!("job {name:?}: {} hosts and {} nodes are too many", placed.len(), question.nodes.len()));
    }
    let hosts = |node: &String| placed.iter().chain([node]).cloned().collect();
    let candidate =
        |node: &String| pb::Candidate { id: node.clone(), placements: vec![pb::JobHosts { job: name.clone(), hosts: hosts(node) }] };
    let candidates: Vec<pb::Candidate> = question.nodes.iter().filter(|node| !placed.contains(node)).map(candidate).collect();
    if candidates.is_empty() {
        return Ok(vec![None; question.nodes.len()]);
    }
    let request = pb::EvaluateRequest {
        jobs: vec![spec(config, question.pod, &name)?],
        candidates,
        objective: pb::Objective::Time.into(),
        predict: true,
        ..pb::EvaluateRequest::default()
    };
    let losses = api.losses(question.who, request).await.map_err(|e| e.message)?;
    Ok(question.nodes.iter().map(|node| losses.get(node).copied()).collect())
}

/// What the pod's job is called in the plan, and where pods of it stand: as the scheduler knows, as the pod says, and as it is committed.
async fn placed(api: &Api, question: &Question<'_>, name: &str, said: &str) -> (String, Vec<String>) {
    let said = said.split(',').map(str::trim).filter(|host| !host.is_empty());
    // The controller for whole gangs commits `NAMESPACE.JOB`, whoever commits by himself may say the bare name.
    let names = question.pod.namespace().map(|namespace| format!("{namespace}.{name}")).into_iter().chain([name.to_owned()]);
    let mut known = None;
    for name in names {
        let one = pb::ListJobsRequest { jobs: vec![name], ..pb::ListJobsRequest::default() };
        // A job that is not committed has no hosts that we know of.
        known = api.jobs(&one).await.ok().and_then(|answer| answer.jobs.into_iter().next());
        if known.is_some() {
            break;
        }
    }
    let (name, committed) = known.map_or_else(|| (name.to_owned(), Vec::new()), |job| (job.id, job.hosts));
    let mut seen = BTreeSet::new();
    let all = committed.iter().map(String::as_str).chain(said).chain(question.placed.iter().map(String::as_str));
    let all = all.filter(|host| seen.insert(*host)).map(str::to_owned).collect();
    (name, all)
}

/// The pod's job as it would be committed.
fn spec(config: &ExtenderConfig, pod: &Pod, name: &str) -> Result<pb::JobSpec, String> {
    let profile = pod.says(&config.profile).ok_or_else(|| format!("the pod has no annotation or label {:?}", config.profile))?;
    let gpus = pod.says(&config.gpus).map(|text| text.parse::<u32>().map_err(|_| format!("{}: {text:?} is no number", config.gpus)));
    let gpus = gpus.transpose()?;
    let spec = pb::JobSpec { id: name.to_owned(), ..pb::JobSpec::default() };
    if profile.starts_with('{') {
        return Ok(pb::JobSpec { profile: Some(profile.to_owned()), ..spec });
    }
    let model = pb::Model { name: profile.to_owned(), gpus_per_host: gpus, ..pb::Model::default() };
    Ok(pb::JobSpec { model: Some(model), ..spec })
}

/// The verbs are served only where the configuration says so.
///
/// # Errors
/// They are off.
pub(crate) fn enabled(config: &ExtenderConfig) -> Result<(), ApiError> {
    let off = || ApiError::new(Kind::NotFound, &"the verbs for Kubernetes are off");
    if config.enabled { Ok(()) } else { Err(off().hint("extender.enabled in the configuration")) }
}
