//! Numbers for Prometheus: `/metrics`.
//!
//! Names follow Prometheus' own practice: one prefix, base units, `_total`. What grows with the cluster is capped by a named
//! limit, worst first, so that a scrape stays small.

use std::time::Duration;

use prometheus::{Encoder, Gauge, GaugeVec, Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, Opts, Registry, TextEncoder};
use proto::v1alpha1 as pb;

use crate::{controller::Snapshot, links::LinkTable, quic};

/// Links with a series of their own: those with the lowest scores.
pub const LINKS_MAX: usize = 200;
/// Jobs with series of their own, by name.
pub const JOBS_MAX: usize = 1_000;
/// From half a millisecond to half a minute.
const EVALUATE_BUCKETS: &[f64] = &[0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];
/// From a fast SSD to a disk in trouble.
const STORE_BUCKETS: &[f64] = &[0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];

/// What is counted as it happens.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    evaluate: Histogram,
    store_commit: Histogram,
    store_failures: IntCounter,
    store_rewrites: IntCounter,
    requests: IntCounterVec,
    notices: IntCounterVec,
    connections: IntGauge,
    refused: IntCounter,
    stalled: IntCounter,
}

impl Metrics {
    /// Registers everything.
    ///
    /// # Errors
    /// Two metrics of one name: our own bug.
    pub fn new() -> Result<Self, prometheus::Error> {
        let registry = Registry::new_custom(Some("antiphase".into()), None)?;
        let build = GaugeVec::new(Opts::new("build_info", "Version of the running program; always 1."), &["version"])?;
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1.0);
        registry.register(Box::new(build))?;
        let seconds =
            |name: &str, help: &str, buckets: &[f64]| Histogram::with_opts(HistogramOpts::new(name, help).buckets(buckets.to_vec()));
        let metrics = Self {
            evaluate: seconds("evaluate_duration_seconds", "Time to rank the candidates of one request.", EVALUATE_BUCKETS)?,
            store_commit: seconds("store_commit_seconds", "Time of one transaction of the state file, fsync included.", STORE_BUCKETS)?,
            store_failures: IntCounter::new("store_failures_total", "Transactions of the state file that failed.")?,
            store_rewrites: IntCounter::new(
                "store_rewrites_total",
                "Times that the whole state file was written anew after a failed write.",
            )?,
            requests: IntCounterVec::new(Opts::new("requests_total", "Requests by protocol and result."), &["protocol", "result"])?,
            notices: IntCounterVec::new(Opts::new("events_total", "Events by kind."), &["kind"])?,
            connections: IntGauge::new("connections", "Open TCP connections.")?,
            refused: IntCounter::new("connections_refused_total", "TCP connections refused because there were too many.")?,
            stalled: IntCounter::new("connections_stalled_total", "TCP connections cut because their clients stopped reading.")?,
            registry,
        };
        let r = &metrics.registry;
        r.register(Box::new(metrics.evaluate.clone()))?;
        r.register(Box::new(metrics.store_commit.clone()))?;
        r.register(Box::new(metrics.store_failures.clone()))?;
        r.register(Box::new(metrics.store_rewrites.clone()))?;
        r.register(Box::new(metrics.requests.clone()))?;
        r.register(Box::new(metrics.notices.clone()))?;
        r.register(Box::new(metrics.connections.clone()))?;
        r.register(Box::new(metrics.refused.clone()))?;
        r.register(Box::new(metrics.stalled.clone()))?;
        Ok(metrics)
    }

    /// A ranking took this long.
    pub fn evaluated(&self, took: Duration) {
        self.evaluate.observe(took.as_secs_f64());
    }

    /// A transaction took this long; `rewritten`: because the whole file was written anew.
    pub fn store_commit(&self, took: Duration, ok: bool, rewritten: bool) {
        self.store_commit.observe(took.as_secs_f64());
        if !ok {
            self.store_failures.inc();
        }
        if rewritten {
            self.store_rewrites.inc();
        }
    }

    /// A request was answered; `result` is `ok` or the code of an error.
    pub fn request(&self, protocol: &str, result: &str) {
        self.requests.with_label_values(&[protocol, result]).inc();
    }

    /// An event was logged.
    pub fn notice(&self, kind: &str) {
        self.notices.with_label_values(&[kind]).inc();
    }

    /// A connection was opened (1) or closed (-1).
    pub fn connection(&self, by: i64) {
        self.connections.add(by);
    }

    /// A connection was cut because its client stopped reading.
    pub fn connection_stalled(&self) {
        self.stalled.inc();
    }

    /// A connection was refused.
    pub fn connection_refused(&self) {
        self.refused.inc();
    }

    /// The exposition: what was counted, and the state as gauges.
    ///
    /// # Errors
    /// A metric that cannot be written: our own bug.
    pub fn text(&self, now: &Now<'_>) -> Result<String, prometheus::Error> {
        let state = Registry::new_custom(Some("antiphase".into()), None)?;
        links(&state, now.links)?;
        jobs(&state, now.snapshot)?;
        agents(&state, now.snapshot)?;
        sessions(&state, now.sessions)?;
        let single = |name: &str, help: &str, value: f64| -> Result<(), prometheus::Error> {
            let gauge = Gauge::new(name, help)?;
            gauge.set(value);
            state.register(Box::new(gauge))
        };
        single("plan_version", "Version of the plan.", now.snapshot.plan_version as f64)?;
        single(
            "topology_version",
            "Version of the fabric; 0 without one.",
            now.snapshot.fabric.as_ref().map_or(0.0, |f| f.version as f64),
        )?;
        single(
            "topology_links",
            "Directed links of the fabric.",
            now.snapshot.fabric.as_ref().map_or(0.0, |f| f.fabric.links().len() as f64),
        )?;
        single("store_up", "1 when the last write of the state file succeeded, else 0.", f64::from(u8::from(now.store_up)))?;
        single(
            "telemetry_dropped_samples",
            "Samples dropped since the start: malformed, out of time, or too many series.",
            now.telemetry_dropped as f64,
        )?;
        let mut families = self.registry.gather();
        families.extend(state.gather());
        families.sort_by(|a, b| a.name().cmp(b.name()));
        let mut out = Vec::new();
        TextEncoder::new().encode(&families, &mut out)?;
        String::from_utf8(out).map_err(|e| prometheus::Error::Msg(e.to_string()))
    }
}

/// What a scrape looks at.
#[derive(Clone, Copy, Debug)]
pub struct Now<'a> {
    /// The state.
    pub snapshot: &'a Snapshot,
    /// Scores of the links.
    pub links: &'a LinkTable,
    /// Whether the last write succeeded.
    pub store_up: bool,
    /// Samples that telemetry dropped.
    pub telemetry_dropped: u64,
    /// Counts of agents' sessions.
    pub sessions: &'a quic::Stats,
}

fn gauges<const N: usize>(registry: &Registry, name: &str, help: &str, labels: [&str; N]) -> Result<GaugeVec, prometheus::Error> {
    let vec = GaugeVec::new(Opts::new(name, help), &labels)?;
    registry.register(Box::new(vec.clone()))?;
    Ok(vec)
}

fn links(registry: &Registry, table: &LinkTable) -> Result<(), prometheus::Error> {
    let score = gauges(
        registry,
        "link_compatibility_score",
        "Score of a link with two or more jobs under the committed shifts; 1 is never over capacity. The worst 200.",
        ["link"],
    )?;
    let zero = gauges(registry, "link_zero_shift_score", "The same link's score if nobody were shifted.", ["link"])?;
    let demand = gauges(registry, "link_demand_ratio", "Sum of the jobs' highest demands over the link's capacity.", ["link"])?;
    let shared = gauges(registry, "shared_links", "Links with two or more jobs.", [])?;
    let all: Vec<_> = table.links.iter().filter(|l| l.score.is_some()).collect();
    shared.with_label_values::<&str>(&[]).set(all.len() as f64);
    for link in all.into_iter().take(LINKS_MAX) {
        score.with_label_values(&[&link.id]).set(link.score.unwrap_or(1.0));
        zero.with_label_values(&[&link.id]).set(link.zero_shift_score.unwrap_or(1.0));
        demand.with_label_values(&[&link.id]).set(link.peak_demand_ratio);
    }
    Ok(())
}

fn jobs(registry: &Registry, snapshot: &Snapshot) -> Result<(), prometheus::Error> {
    const NANOS_PER_SECOND: f64 = 1e9;
    let count = gauges(registry, "jobs", "Committed jobs by state.", ["state"])?;
    let period = gauges(registry, "job_period_seconds", "Scheduled length of an iteration.", ["job"])?;
    let shift = gauges(registry, "job_time_shift_seconds", "Start of the iterations within the period, in fabric time.", ["job"])?;
    let solo = gauges(registry, "job_solo_period_seconds", "Length of an iteration alone, from the profile.", ["job"])?;
    let iteration = gauges(registry, "job_iteration_seconds", "Median iteration that the gate saw.", ["job"])?;
    let mismatch = gauges(
        registry,
        "job_period_mismatch_seconds",
        "Learned period less the declared one, while the slack does not cover it.",
        ["job"],
    )?;
    let error = gauges(registry, "job_shift_error_seconds", "Median start minus slot; positive is late.", ["job"])?;
    let counter = |name: &str, help: &str| -> Result<IntCounterVec, prometheus::Error> {
        let vec = IntCounterVec::new(Opts::new(name, help), &["job"])?;
        registry.register(Box::new(vec.clone()))?;
        Ok(vec)
    };
    let slips = counter("job_slips_total", "Starts that waited for the next slot, since the job was committed or the service started.")?;
    let opens = counter(
        "job_fail_opens_total",
        "Starts let through because the plan could not be trusted, since the job was committed or the service started.",
    )?;
    for state in [pb::JobState::Committed, pb::JobState::Held, pb::JobState::Free, pb::JobState::Drifting, pb::JobState::Open] {
        let jobs = snapshot.jobs.iter().filter(|j| j.message.state() == state).count();
        count.with_label_values(&[word(state.as_str_name(), "JOB_STATE_")]).set(jobs as f64);
    }
    for job in snapshot.jobs.iter().take(JOBS_MAX).map(|j| &j.message) {
        let label = [job.id.as_str()];
        solo.with_label_values(&label).set(job.solo_period_ns as f64 / NANOS_PER_SECOND);
        if let Some(slot) = &job.slot {
            period.with_label_values(&label).set(slot.period_ns as f64 / NANOS_PER_SECOND);
            shift.with_label_values(&label).set(slot.offset_ns as f64 / NANOS_PER_SECOND);
        }
        let set = |gauge: &GaugeVec, value: Option<f64>| value.into_iter().for_each(|v| gauge.with_label_values(&label).set(v));
        set(&iteration, job.iteration_ns.map(|ns| ns as f64 / NANOS_PER_SECOND));
        set(&mismatch, job.period_mismatch_ns.map(|ns| (ns as f64 - job.solo_period_ns as f64) / NANOS_PER_SECOND));
        set(&error, job.phase_error_ns.map(|ns| ns as f64 / NANOS_PER_SECOND));
        job.slips.into_iter().for_each(|n| slips.with_label_values(&label).inc_by(n));
        job.fail_opens.into_iter().for_each(|n| opens.with_label_values(&label).inc_by(n));
    }
    Ok(())
}

fn agents(registry: &Registry, snapshot: &Snapshot) -> Result<(), prometheus::Error> {
    let up = gauges(registry, "agent_up", "Agents with a session.", [])?;
    let count = gauges(registry, "agents", "Agents by state.", ["state"])?;
    let bound = gauges(registry, "agent_clock_bound_seconds_max", "Worst bound of the error of an agent's clock offset.", [])?;
    let mut connected = 0;
    for state in [pb::AgentState::Connected, pb::AgentState::Lost, pb::AgentState::Quarantined] {
        let agents = snapshot.agents.iter().filter(|a| a.state() == state).count();
        connected += if state == pb::AgentState::Lost { 0 } else { agents };
        count.with_label_values(&[word(state.as_str_name(), "AGENT_STATE_")]).set(agents as f64);
    }
    up.with_label_values::<&str>(&[]).set(connected as f64);
    let worst = snapshot.agents.iter().filter_map(|a| a.clock_bound_ns).max();
    worst.into_iter().for_each(|ns| bound.with_label_values::<&str>(&[]).set(ns as f64 / 1e9));
    Ok(())
}

fn sessions(registry: &Registry, stats: &quic::Stats) -> Result<(), prometheus::Error> {
    let count = IntCounterVec::new(Opts::new("agent_protocol_total", "What happened on the side of the agents, by kind."), &["what"])?;
    registry.register(Box::new(count.clone()))?;
    for (what, value) in stats.read() {
        count.with_label_values(&[what]).inc_by(value);
    }
    Ok(())
}

fn word(name: &'static str, prefix: &str) -> &'static str {
    match name.strip_prefix(prefix) {
        Some("COMMITTED") => "committed",
        Some("HELD") => "held",
        Some("FREE") => "free",
        Some("DRIFTING") => "drifting",
        Some("OPEN") => "open",
        Some("CONNECTED") => "connected",
        Some("LOST") => "lost",
        Some("QUARANTINED") => "quarantined",
        _ => name,
    }
}
