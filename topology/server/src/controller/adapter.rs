//! Between the server and `state::Service`: records in after a restart, messages out for reads.

use std::{collections::BTreeMap, sync::Arc};

use fabric::Fabric;
use proto::v1alpha1 as pb;
use state::{AuditEntry, Config, Document, JobDefinition, Restored, Service, View};
use units::{FabricTime, LinkId};

use super::snapshot::{FabricView, JobView, Snapshot, slot_message};
use crate::{links::LinkTable, records, resolve};

/// The service as it was when these records were written.
///
/// # Errors
/// One line: which record cannot be used.
pub(super) fn restore(config: &Config, now: FabricTime, records: Vec<store::Record>) -> Result<Service, String> {
    let fabric = |text: &str| fabric::native::read(text).map_err(|e| resolve::one_line(&e));
    let job = |fabric: &Fabric, name: &str, document: &Document| {
        // Jobs are placed one at a time: an error then names its record.
        let mut made = resolve::definitions(fabric, &[resolve::kept(name, document)?])?;
        made.pop().ok_or_else(|| "no job in it".to_owned())
    };
    let restored = Restored::from_records(records.into_iter().map(records::record), fabric, job).map_err(|e| resolve::one_line(&e))?;
    Service::restore(config.clone(), now, restored).map_err(|e| resolve::one_line(&e))
}

/// The fabric, once there is one.
pub(super) fn fabric(view: &View) -> Option<FabricView> {
    let (routing, text) = (view.routing()?, view.fabric_text()?);
    let fabric = Arc::clone(routing.fabric());
    Some(FabricView { version: view.fabric_version(), fabric, routing: routing.clone(), text: Arc::clone(text) })
}

/// So many entries of the trail after a number, or the last ones.
pub(super) fn audit(view: &View, after: Option<u64>, limit: usize) -> Vec<Arc<AuditEntry>> {
    match after {
        Some(number) => view.audit(number).take(limit).cloned().collect(),
        None => view.audit(0).skip(view.audit_len().saturating_sub(limit)).cloned().collect(),
    }
}

/// What reads see. Definitions are taken from an earlier snapshot of the same plan version, because they are large.
pub(super) fn snapshot(view: &View, earlier: Option<&Snapshot>) -> Snapshot {
    let fabric = fabric(view);
    let version = |s: &Snapshot| s.fabric.as_ref().map_or(0, |f| f.version);
    // Equal versions of plan and fabric mean equal definitions, so those are shared and not copied.
    let earlier = earlier.filter(|s| s.plan_version == view.plan_version() && version(s) == view.fabric_version());
    let definition = |job: &state::JobView<'_>| -> Arc<JobDefinition> {
        match earlier.and_then(|s| s.job(job.name())) {
            Some(known) => Arc::clone(&known.definition),
            None => Arc::new(job.planned().clone()),
        }
    };
    let mut names = LinkNames { view, names: BTreeMap::new() };
    let jobs = view
        .jobs()
        .map(|job| JobView {
            definition: definition(&job),
            measured: job.measured().map(|measured| (measured, Arc::new(job.committed().job.clone()))),
            message: job_message(&job, &mut names),
        })
        .collect();
    Snapshot {
        plan_version: view.plan_version(),
        fabric,
        jobs,
        agents: view.agents().map(|agent| agent_message(&agent)).collect(),
        submissions: view.submissions().cloned().collect(),
        outlook: view.outlook().map(|outlook| outlook.to_string()).unwrap_or_default(),
    }
}

/// Names of links, each made once: jobs share them.
struct LinkNames<'a> {
    view: &'a View,
    names: BTreeMap<LinkId, String>,
}

impl LinkNames<'_> {
    fn of(&mut self, id: LinkId) -> String {
        let make = || self.view.fabric().map_or_else(|| id.to_string(), |f| f.link_name(id));
        self.names.entry(id).or_insert_with(make).clone()
    }
}

/// Shared links named per job: a job on thousands of hosts crosses thousands, and `ListLinks` has them all.
pub(crate) const SHARED_LINKS_MAX: usize = 100;

/// Nothing is known of the job yet.
const LEARNING: &str = "learning";

fn job_message(job: &state::JobView<'_>, names: &mut LinkNames<'_>) -> pb::Job {
    let definition = job.planned();
    let (report, totals) = (job.report().map(|(_, report)| report), job.totals());
    let state = match job.state() {
        state::JobState::Committed => pb::JobState::Committed,
        state::JobState::Held => pb::JobState::Held,
        state::JobState::Free => pb::JobState::Free,
        state::JobState::Drifting => pb::JobState::Drifting,
        state::JobState::Open => pb::JobState::Open,
    };
    let (times, forecast) = (job.times(), job.forecast());
    let document = resolve::kept(job.name(), &definition.document).ok();
    let learn = match document.filter(|document| document.learn) {
        Some(document) if document.is_learned() => "learned",
        Some(_) if definition.job.phases.is_empty() => LEARNING,
        _ => "",
    };
    pb::Job {
        id: job.name().into(),
        state: state.into(),
        hosts: definition.hosts.clone(),
        gpus: definition.job.gpus,
        slot: Some(slot_message(&job.slot())),
        solo_period_ns: if learn == LEARNING { 0 } else { definition.job.period.0 },
        iteration_ns: report.and_then(|r| r.iteration).map(|t| t.0),
        phase_error_ns: report.and_then(|r| r.phase_error),
        iterations: totals.map(|t| t.iterations),
        slips: totals.map(|t| t.slips),
        fail_opens: totals.map(|t| t.fail_opens),
        // `SHARED_LINKS_MAX` bounds the answer: 10,000 jobs may each cross thousands of links.
        shared_links: job.shared_links().take(SHARED_LINKS_MAX).map(|id| names.of(id)).collect(),
        lease_expires_ns: job.lease_until().map_or(0, |t| t.0),
        observed_period_ns: report.and_then(|r| r.observed_period).map(|t| t.0),
        predicted_contended_ns: times.map(|t| t.contended.0),
        predicted_all_held_ns: times.and_then(|t| t.all_held).map(|held| held.time.0),
        period_mismatch_ns: job.period_mismatch().map(|t| t.0),
        predicted_interleaved_ns: job.interleaved().map(|t| t.0),
        hold: definition.job.hold.word().into(),
        hold_ended: job.hold_ended().unwrap_or_default().into(),
        predicted_free_ns: forecast.map(|t| t.free.0),
        predicted_turns_ns: forecast.map(|t| t.by_turns.0),
        declared_period_ns: job.measured().map(|_| job.committed().job.period.0),
        measured_up_ns: job.measured().and_then(|m| m.sent).map(|sent| sent.0),
        learn: learn.into(),
        iteration_mean_ns: report.and_then(|r| r.iteration_mean).map(|t| t.0),
        // Told by telemetry, when somebody asks.
        congestion: None,
    }
}

fn agent_message(agent: &state::AgentView<'_>) -> pb::Agent {
    let state = match agent.state() {
        state::AgentState::Connected => pb::AgentState::Connected,
        state::AgentState::Lost => pb::AgentState::Lost,
        state::AgentState::Quarantined => pb::AgentState::Quarantined,
    };
    pb::Agent {
        host: agent.host().into(),
        state: state.into(),
        version: agent.version().into(),
        plan_version: agent.plan_version(),
        clock_bound_ns: agent.clock().map(|c| c.bound.0),
        clock_rtt_ns: agent.clock().map(|c| c.rtt.0),
        last_seen_ns: agent.last_seen().0,
        jobs: agent.jobs().map(str::to_owned).collect(),
        ports: agent.ports().to_vec(),
        trouble: agent.trouble().unwrap_or_default(),
    }
}

/// Links with demand.
pub(super) fn links(view: &View) -> LinkTable {
    let Some(fabric) = view.fabric() else { return LinkTable::default() };
    let tiers = fabric::tier::tiers(fabric);
    let tier = |node: units::NodeId| tiers.get(node.index()).map_or(0, |t| u32::from(*t));
    let one = |link: state::LinkView<'_>| {
        let ends = fabric.link(link.id);
        let (from, to) = (ends.from.node, ends.to.node);
        pb::Link {
            id: link.name(),
            from_node: fabric.node(from).name.clone(),
            to_node: fabric.node(to).name.clone(),
            capacity_mbps: link.capacity.0,
            jobs: link.jobs().map(str::to_owned).collect(),
            score: link.score,
            zero_shift_score: link.zero_shift_score,
            // `check` refuses links without capacity; `max` keeps the ratio a number even so.
            peak_demand_ratio: link.peak.0 as f64 / link.capacity.0.max(1) as f64,
            demands: link.demands().map(demand).collect(),
            from_tier: tier(from),
            to_tier: tier(to),
            mean_demand_ratio: link.demands().map(|demand| mean_mbps(&demand)).sum::<f64>() / link.capacity.0.max(1) as f64,
            // What is measured changes each second and this table only with the plan: answers add it.
            measured_ratio: None,
            observed_mbps: None,
            observed_ratio: None,
            observed_excess_ratio: None,
            observed_age_ms: None,
            apart: apart(link.apart).into(),
        }
    };
    LinkTable::new(view.links().map(one).collect(), view.plan_version())
}

fn apart(apart: Option<state::Apart>) -> pb::Apart {
    match apart {
        None => pb::Apart::Unspecified,
        Some(state::Apart::Shifts) => pb::Apart::Shifts,
        Some(state::Apart::Turns) => pb::Apart::Turns,
        Some(state::Apart::Free) => pb::Apart::Free,
    }
}

/// What a job sends on a link on average, as it is planned.
fn mean_mbps(demand: &state::DemandView<'_>) -> f64 {
    let sent = |p: &circle::Phase| p.rate.0 as f64 * p.end.0.saturating_sub(p.start.0) as f64;
    demand.phases.iter().map(sent).sum::<f64>() / demand.period.0.max(1) as f64
}

fn demand(demand: state::DemandView<'_>) -> pb::Demand {
    let phase = |p: &circle::Phase| pb::Phase { start_ns: p.start.0, end_ns: p.end.0, rate_mbps: p.rate.0 };
    pb::Demand {
        job: demand.job.into(),
        period_ns: demand.period.0,
        shift_ns: demand.shift.0,
        phases: demand.phases.iter().map(phase).collect(),
    }
}
