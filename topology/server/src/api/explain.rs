//! Why the plan is as it is after a change.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use circle::Cancel;
use job::Candidate;
use plan::{Cluster, Options, Predictions};

use super::{Api, ApiError, evaluate::LINES_MAX};
use crate::{
    controller::{SHARED_LINKS_MAX, Snapshot},
    tls::Who,
};

/// How long a change that is done waits to be explained: clients are used to an answer within seconds.
const EXPLAIN_MAX: Duration = Duration::from_secs(10);

impl Api {
    /// Sentences of the plan that name one of these jobs, as of now; none where nobody asked for them.
    ///
    /// The change is done and durable, so that it is not explained is one of the sentences and no error.
    pub(super) async fn explained_if(&self, who: Option<Who>, about: Option<BTreeSet<String>>) -> Vec<String> {
        let Some(about) = about else { return Vec::new() };
        let made = async {
            let (snapshot, options) = (self.snapshot().await?, Options { predict: Predictions::Compared, ..self.planned() });
            self.compute(who, move |cancel| explain(&snapshot, &about, &options, cancel)).await?
        };
        // The answer has to be there in the time of the request, or the client would not know that the change is made.
        let limit = EXPLAIN_MAX.min(self.config().limits.request() / 2);
        match tokio::time::timeout(limit, made).await {
            Ok(Ok(lines)) => lines,
            Ok(Err(error)) => vec![format!("the change is made, and is not explained: {error}")],
            Err(_) => {
                vec![format!("the change is made, and is not explained: it took longer than {} s; ask evaluate", limit.as_secs())]
            }
        }
    }

    /// The jobs that share links with these, without them: those that notice when these are gone.
    pub(super) async fn neighbours(&self, jobs: &[String]) -> Result<BTreeSet<String>, ApiError> {
        let snapshot = self.snapshot().await?;
        let names: BTreeSet<&str> = jobs.iter().map(String::as_str).collect();
        let met: Vec<&str> = match by_link(&snapshot) {
            Some(links) => links.into_values().filter(|jobs| jobs.iter().any(|job| names.contains(job))).flatten().collect(),
            None => snapshot.jobs.iter().map(|job| &job.message.id[..]).collect(),
        };
        Ok(met.into_iter().filter(|job| !names.contains(job)).map(str::to_owned).collect())
    }
}

/// The jobs on each shared link; `None` where a job has so many that its list of them is cut.
fn by_link(snapshot: &Snapshot) -> Option<BTreeMap<&str, Vec<&str>>> {
    if snapshot.jobs.iter().any(|job| job.message.shared_links.len() >= SHARED_LINKS_MAX) {
        return None;
    }
    let mut links: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for job in &snapshot.jobs {
        job.message.shared_links.iter().for_each(|link| links.entry(link).or_default().push(&job.message.id));
    }
    Some(links)
}

fn explain(snapshot: &Snapshot, about: &BTreeSet<String>, options: &Options, cancel: &Cancel) -> Result<Vec<String>, ApiError> {
    let view = snapshot.fabric.as_ref().ok_or(state::Refusal::NoFabric)?;
    let together = together(snapshot, about);
    if together.is_empty() {
        return Ok(Vec::new());
    }
    let of_them = snapshot.jobs.iter().filter(|job| together.contains(job.message.id.as_str()));
    let (jobs, placements): (Vec<_>, Vec<_>) = of_them.map(|job| (job.as_held(), job.definition.placement.clone())).unzip();
    let router = view.routing.router();
    let cluster = Cluster { fabric: &view.fabric, router: &router, jobs: &jobs, placements: &placements };
    let candidates = [Candidate { id: String::new(), placements: Vec::new() }];
    let ranked = plan::rank_until(&cluster, &candidates, options, cancel).map_err(ApiError::invalid)?;
    let sentences = ranked.iter().flat_map(|evaluation| evaluation.explain(&cluster));
    let of_interest = sentences.filter(|sentence| sentence.jobs.is_empty() || sentence.jobs.iter().any(|job| about.contains(job)));
    Ok(of_interest.take(LINES_MAX).map(|sentence| sentence.to_string()).collect())
}

/// These jobs, and those that hang together with them through links; all, where that is not known.
fn together<'a>(snapshot: &'a Snapshot, about: &'a BTreeSet<String>) -> BTreeSet<&'a str> {
    let Some(links) = by_link(snapshot) else { return snapshot.jobs.iter().map(|job| &job.message.id[..]).collect() };
    let shared: BTreeMap<&str, &[String]> = snapshot.jobs.iter().map(|job| (&job.message.id[..], &job.message.shared_links[..])).collect();
    let mut found: BTreeSet<&str> = about.iter().map(String::as_str).filter(|job| shared.contains_key(job)).collect();
    let mut open: Vec<&str> = found.iter().copied().collect();
    // Each job is opened once.
    while let Some(job) = open.pop() {
        let met = shared.get(job).into_iter().copied().flatten().filter_map(|link| links.get(link.as_str())).flatten();
        open.extend(met.filter(|job| found.insert(job)));
    }
    found
}
