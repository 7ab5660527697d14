//! Reads: of one snapshot each.

use std::{
    collections::BTreeSet,
    sync::{Arc, PoisonError, atomic::Ordering},
    time::Instant,
};

use axum::body::Bytes;
use fabric::{Fabric, NodeKind};
use proto::v1alpha1 as pb;
use state::AuditEntry;

use super::{Api, ApiError, Kind, NAMES_MAX, Place, Watcher, limit, switches::fullest};
use crate::{
    controller::{FabricView, Snapshot},
    loads::Loads,
    scrape::{self, Now},
    tls::Who,
};

/// Links of one answer when the caller names no number, and at most.
const LINKS_DEFAULT: usize = 100;
const LINKS_MAX: usize = 10_000;
/// Entries of the trail in one answer when the caller names no number, and at most.
const AUDIT_DEFAULT: usize = 100;
const AUDIT_LIMIT_MAX: usize = 1_000;

impl Api {
    /// The fabric.
    ///
    /// # Errors
    /// None is set, or the service is stopping.
    pub async fn fabric(&self, request: &pb::GetFabricRequest) -> Result<pb::GetFabricResponse, ApiError> {
        Ok(described(&self.fabric_view().await?, !request.summary))
    }

    /// The fabric as JSON, in bytes that all answers share: its document may have tens of MiB.
    ///
    /// # Errors
    /// As [`Api::fabric`].
    pub async fn fabric_json(&self) -> Result<Bytes, ApiError> {
        let view = self.fabric_view().await?;
        // Made once for each fabric, by whoever asks first; others that ask at the same time wait for it.
        let mut known = self.0.fabric_json.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((version, json)) = &*known
            && *version == view.version
        {
            return Ok(json.clone());
        }
        let json = serde_json::to_vec(&described(&view, true)).map_err(|e| ApiError::new(Kind::Internal, &e))?;
        let json = Bytes::from(json);
        *known = Some((view.version, json.clone()));
        Ok(json)
    }

    /// What agents see of the cabling, beside the fabric.
    #[must_use]
    pub fn observed(&self, request: &pb::GetObservedRequest) -> pb::GetObservedResponse {
        self.0.discovery.found().answer(!request.summary)
    }

    pub(super) async fn fabric_view(&self) -> Result<FabricView, ApiError> {
        let missing = || ApiError::new(Kind::NotFound, &"no fabric is set").hint("PUT /v1alpha1/fabric");
        self.0.controller.fabric().await?.ok_or_else(missing)
    }

    /// Committed jobs.
    ///
    /// # Errors
    /// A name that is not committed, or the service is stopping.
    pub async fn jobs(&self, request: &pb::ListJobsRequest) -> Result<pb::ListJobsResponse, ApiError> {
        let names = distinct("jobs", &request.jobs)?;
        let snapshot = self.snapshot().await?;
        let mut jobs: Vec<pb::Job> = if request.jobs.is_empty() {
            snapshot.jobs.iter().map(|j| j.message.clone()).collect()
        } else {
            let find = |name: &str| snapshot.job(name).map(|j| j.message.clone()).ok_or_else(|| not_committed(name, &snapshot));
            names.into_iter().map(find).collect::<Result<_, _>>()?
        };
        let congestion = self.0.telemetry.congestion(jobs.iter().map(|job| job.id.as_str()));
        jobs.iter_mut().zip(congestion).for_each(|(job, told)| job.congestion = told);
        let warnings = self.0.controller.warnings(request.jobs.clone()).await?;
        Ok(pb::ListJobsResponse { jobs, plan_version: snapshot.plan_version, outlook: snapshot.outlook.clone(), warnings })
    }

    /// Links with demand, worst first, or those of them that are named.
    ///
    /// A name of a link without demand is no error: jobs come and go between two questions, and that nothing is there is the answer.
    ///
    /// # Errors
    /// Too many names, a job that is not committed, or the service is stopping.
    pub async fn links(&self, request: &pb::ListLinksRequest) -> Result<pb::ListLinksResponse, ApiError> {
        let (names, jobs) = (distinct("links", &request.links)?, distinct("jobs", &request.jobs)?);
        if !jobs.is_empty() {
            let snapshot = self.snapshot().await?;
            jobs.iter().find(|job| snapshot.job(job).is_none()).map_or(Ok(()), |job| Err(not_committed(job, &snapshot)))?;
        }
        // The names are bounded and made distinct before the controller is asked.
        let table = self.0.controller.links().await?;
        let fabric = self.0.controller.fabric().await?;
        let (loads, observed, now) = (self.loads(fabric.as_ref()), self.carried(fabric.as_ref()), Instant::now());
        let limit = if request.limit == 0 { LINKS_DEFAULT } else { (request.limit as usize).min(LINKS_MAX) };
        let uses = |link: &pb::Link| jobs.is_empty() || link.jobs.iter().any(|job| jobs.contains(&job.as_str()));
        let is_wanted = |link: &&pb::Link| uses(link) && (!request.measured || loads.of(&link.from_node, &link.to_node).is_some());
        // Demands are most of the answer, so they come only to those who ask for them, and are not copied for others.
        let told = |link: &pb::Link| {
            let mut link = if request.demands { link.clone() } else { without_demands(link) };
            loads.tell(&mut link);
            observed.tell(&mut link, now);
            link
        };
        if request.observed {
            let fullest = fabric.as_ref().map(|fabric| fullest(&observed, &table, fabric, &names)).unwrap_or_default();
            let links = fullest.iter().map(|link| &**link).filter(is_wanted).take(limit).map(told).collect();
            return Ok(pb::ListLinksResponse { links, total: observed.len() as u32, plan_version: table.plan_version });
        }
        let links: Vec<pb::Link> = if request.links.is_empty() {
            table.links.iter().filter(is_wanted).take(limit).map(told).collect()
        } else {
            let find = |id: &str| table.links.iter().find(|l| l.id == *id);
            names.into_iter().filter_map(find).filter(is_wanted).take(limit).map(told).collect()
        };
        let total = table.links.iter().filter(|link| uses(link)).count();
        Ok(pb::ListLinksResponse { links, total: total as u32, plan_version: table.plan_version })
    }

    /// What hosts send and receive now.
    pub(super) fn loads(&self, fabric: Option<&FabricView>) -> Loads {
        fabric.map_or_else(Loads::default, |view| Loads::new(&view.fabric, &self.0.telemetry, self.0.clock.now()))
    }

    /// Agents.
    ///
    /// # Errors
    /// The service is stopping.
    pub async fn agents(&self) -> Result<pb::ListAgentsResponse, ApiError> {
        Ok(pb::ListAgentsResponse { agents: self.snapshot().await?.agents.clone() })
    }

    /// Every job's slot.
    ///
    /// # Errors
    /// The service is stopping.
    pub async fn plan(&self) -> Result<pb::Plan, ApiError> {
        let snapshot = self.snapshot().await?;
        Ok(pb::Plan { plan_version: snapshot.plan_version, slots: snapshot.jobs.iter().filter_map(|j| j.message.slot.clone()).collect() })
    }

    /// What happened. After a number that this service has not reached, or that is before what it holds: that, and then what it holds.
    #[must_use]
    pub fn events(&self, request: &pb::ListEventsRequest) -> pb::ListEventsResponse {
        let Some(gap) = self.gap(request.after) else { return self.0.events.list(request.after, request.limit) };
        let mut answer = self.0.events.list(gap.sequence.max(1), request.limit);
        answer.events.insert(0, gap);
        answer
    }

    /// What is told to who comes from a number that this service has not reached, or from one before all that it holds. Numbers are times of the
    /// service that counts them: another machine, or a clock that went back, has lower ones, and who waited for the own number would miss
    /// everything until then; one that was started again holds nothing of before.
    fn gap(&self, after: u64) -> Option<pb::Event> {
        let newest = self.0.events.newest();
        let oldest = self.0.events.list(1, 1).oldest;
        let message = if after > newest {
            format!(
                "event {after} is ahead of this service, whose newest is {newest}: what happened in between is not known here; the events that it holds follow, from {oldest} on"
            )
        } else if after > 0 && after + 1 < oldest {
            format!(
                "event {after} is older than all that this service holds: what happened after it may be forgotten; the events that it holds follow, from {oldest} on"
            )
        } else {
            return None;
        };
        Some(pb::Event {
            // A reader that comes back with this number goes on from here.
            sequence: oldest.saturating_sub(1),
            at_ns: self.0.clock.now().0,
            severity: pb::Severity::Warning.into(),
            kind: "gap".into(),
            message,
            ..pb::Event::default()
        })
    }

    /// Who changed what, oldest first.
    ///
    /// # Errors
    /// The service is stopping.
    pub async fn audit(&self, request: &pb::ListAuditRequest) -> Result<pb::ListAuditResponse, ApiError> {
        let limit = if request.limit == 0 { AUDIT_DEFAULT } else { (request.limit as usize).min(AUDIT_LIMIT_MAX) };
        let entries = self.0.controller.audit((request.after > 0).then_some(request.after), limit).await?;
        let message = |entry: &Arc<AuditEntry>| {
            let AuditEntry { number, at, by, kind, message, plan_version } = &**entry;
            pb::AuditEntry {
                number: *number,
                at_ns: at.0,
                by: by.to_string(),
                kind: kind.clone(),
                message: message.clone(),
                plan_version: *plan_version,
            }
        };
        Ok(pb::ListAuditResponse { entries: entries.iter().map(message).collect() })
    }

    /// What happens from now on, or from a sequence number on.
    ///
    /// # Errors
    /// There are too many readers.
    pub fn watch(&self, who: Option<Who>, after: Option<u64>) -> Result<Watcher, ApiError> {
        let place = self.place(who)?;
        let gap = after.and_then(|after| self.gap(after));
        let after = gap.as_ref().map(|gap| gap.sequence).or(after);
        Ok(Watcher { place, reader: self.0.events.reader(after), gap })
    }

    /// A place for one more stream.
    ///
    /// # Errors
    /// There are too many, or too many of this caller.
    pub fn place(&self, who: Option<Who>) -> Result<Place, ApiError> {
        let limit = self.config().limits.watchers;
        self.0.places.take(who, limit).map_err(|open| {
            let whose = if open < limit { "your certificate has" } else { "there are" };
            ApiError::new(Kind::Exhausted, &format!("{whose} {open} streams open; no more are taken (limits.watchers: {limit})"))
        })
    }

    /// Counters and iteration times.
    #[must_use]
    pub fn telemetry(&self, request: &pb::GetTelemetryRequest) -> pb::GetTelemetryResponse {
        self.0.telemetry.read(self.0.clock.now(), request)
    }

    /// The exposition for Prometheus.
    ///
    /// # Errors
    /// The service is stopping, or a metric cannot be written.
    pub async fn exposition(&self) -> Result<String, ApiError> {
        let snapshot = self.snapshot().await?;
        let links = self.0.controller.links().await?;
        // Whatever has become of turns, the rest is told.
        let turns = self.0.controller.look_at_turns().ok();
        let names = snapshot.jobs.iter().take(scrape::JOBS_MAX).map(|job| job.message.id.as_str());
        let now = Now {
            snapshot: &snapshot,
            congestion: self.0.telemetry.congestion(names),
            links: &links,
            turns: turns.as_deref(),
            store_up: self.0.health.problem(Instant::now()).is_none(),
            telemetry_dropped: self.0.telemetry.dropped(),
            sessions: &self.0.sessions,
            observed: &self.0.discovery.found(),
            switches: self.switches().map(|switches| (switches, switches.table(snapshot.fabric.as_ref()))),
        };
        self.0.metrics.text(&now).map_err(|e| ApiError::new(Kind::Internal, &e))
    }

    /// Whether changes can be taken.
    ///
    /// # Errors
    /// Why not: the store, the fabric, or stopping.
    pub async fn ready(&self) -> Result<(), ApiError> {
        // A fabric never goes again. So a controller that makes a long plan is asked once only, and a probe is answered meanwhile.
        let has_fabric = self.0.has_fabric.load(Ordering::Relaxed) || self.0.controller.fabric().await?.is_some();
        self.0.has_fabric.store(has_fabric, Ordering::Relaxed);
        if let Some(problem) = self.0.health.problem(Instant::now()) {
            return Err(ApiError::new(Kind::Unavailable, &format!("the state file is in doubt or cannot be written: {problem}")));
        }
        if has_fabric { Ok(()) } else { Err(ApiError::new(Kind::Unavailable, &"no fabric is set").hint("PUT /v1alpha1/fabric")) }
    }
}

/// Names, each once, in the order in which they were given.
pub(super) fn distinct<'a>(what: &str, names: &'a [String]) -> Result<Vec<&'a str>, ApiError> {
    limit(what, names.len(), NAMES_MAX)?;
    // A name that stands twice would double its part of the answer, which is bounded by names.
    let mut seen = BTreeSet::new();
    Ok(names.iter().map(String::as_str).filter(|name| seen.insert(*name)).collect())
}

/// There is no such job. Names are typed by hand, so what may have been meant is said.
pub(super) fn not_committed(name: &str, snapshot: &Snapshot) -> ApiError {
    let committed = snapshot.jobs.iter().map(|job| job.message.id.as_str());
    let meant = job::nearest(name, committed).map(|meant| format!("; did you mean {meant:?}?")).unwrap_or_default();
    ApiError::new(Kind::NotFound, &format!("no job {name:?} is committed{meant}"))
}

fn without_demands(link: &pb::Link) -> pb::Link {
    pb::Link {
        id: link.id.clone(),
        from_node: link.from_node.clone(),
        to_node: link.to_node.clone(),
        jobs: link.jobs.clone(),
        demands: Vec::new(),
        ..*link
    }
}

fn described(view: &FabricView, whole: bool) -> pb::GetFabricResponse {
    let (hosts, switches) = nodes(&view.fabric);
    let links = view.fabric.links().len() as u32;
    let fabric = if whole { view.text.as_ref().to_owned() } else { String::new() };
    pb::GetFabricResponse { fabric, fabric_version: view.version, hosts, switches, links }
}

fn nodes(fabric: &Fabric) -> (u32, u32) {
    let hosts = fabric.nodes().iter().filter(|n| matches!(n.kind, NodeKind::Host)).count();
    (hosts as u32, (fabric.nodes().len() - hosts) as u32)
}
