//! Numbers for Prometheus: `/metrics`, what was counted and the state as gauges.

mod switches;

use std::sync::Arc;

use prometheus::{Counter, Encoder, Gauge, GaugeVec, IntCounterVec, Opts, Registry, TextEncoder};
use proto::v1alpha1 as pb;
use state::turns::{GroupState, Measured};

use crate::{
    controller::Snapshot,
    discovery::Found,
    links::LinkTable,
    metrics::Metrics,
    quic,
    sflow::{Observed, Table},
    turns::TurnsSnapshot,
};

/// Links with a series of their own: those with the lowest scores.
pub const LINKS_MAX: usize = 200;
/// The label of a training job. It is not `job`, because Prometheus sets that one itself.
const JOB: &str = "job_id";
/// Jobs with series of their own, by name.
pub const JOBS_MAX: usize = 1_000;

impl Metrics {
    /// The exposition: what was counted, and the state as gauges.
    ///
    /// # Errors
    /// A metric that cannot be written: our own bug.
    pub fn text(&self, now: &Now<'_>) -> Result<String, prometheus::Error> {
        // The state gets a registry of its own for each scrape: series of jobs and links that are gone leave no trace.
        let state = Registry::new_custom(Some("antiphase".into()), None)?;
        links(&state, now.links)?;
        jobs(&state, now.snapshot)?;
        congestion(&state, now)?;
        agents(&state, now.snapshot)?;
        sessions(&state, now.sessions)?;
        now.turns.map_or(Ok(()), |now| turns(&state, now))?;
        now.switches.as_ref().map_or(Ok(()), |(heard, table)| switches::switches(&state, heard, table, now.links))?;
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
        cabling(&state, now.observed)?;
        single(
            "telemetry_dropped_samples",
            "Samples dropped since the start: malformed, out of time, or too many series.",
            now.telemetry_dropped as f64,
        )?;
        let mut families = self.registry.gather();
        families.extend(state.gather());
        families.extend(process()?.gather());
        // Two registries are joined, so the order by name is made here.
        families.sort_by(|a, b| a.name().cmp(b.name()));
        let mut out = Vec::new();
        TextEncoder::new().encode(&families, &mut out)?;
        String::from_utf8(out).map_err(|e| prometheus::Error::Msg(e.to_string()))
    }
}

/// What every client library exposes, under the names that all dashboards know: without our prefix.
fn process() -> Result<Registry, prometheus::Error> {
    let registry = Registry::new();
    for files::process::Number { name, help, is_counter, value } in files::process::numbers() {
        if is_counter {
            let counter = Counter::new(name, help)?;
            counter.inc_by(value);
            registry.register(Box::new(counter))?;
        } else {
            let gauge = Gauge::new(name, help)?;
            gauge.set(value);
            registry.register(Box::new(gauge))?;
        }
    }
    Ok(registry)
}

/// Cables as agents see them.
fn cabling(registry: &Registry, found: &Found) -> Result<(), prometheus::Error> {
    let cables = gauges(registry, "cables", "Cables by what agents see of them.", ["state"])?;
    let states = [("seen", found.seen), ("confirmed", found.confirmed), ("unseen", found.unseen), ("different", found.differences.len())];
    states.iter().for_each(|(state, count)| cables.with_label_values(&[*state]).set(*count as f64));
    Ok(())
}

const NANOS_PER_SECOND: f64 = 1e9;

/// What a scrape looks at.
#[derive(Clone, Debug)]
pub struct Now<'a> {
    /// The state.
    pub snapshot: &'a Snapshot,
    /// The marks and CNPs of its first jobs, parallel to them.
    pub congestion: Vec<Option<pb::Congestion>>,
    /// Scores of the links.
    pub links: &'a LinkTable,
    /// Jobs that take turns; `None` where nobody gives any.
    pub turns: Option<&'a TurnsSnapshot>,
    /// Whether the last write succeeded.
    pub store_up: bool,
    /// Samples that telemetry dropped.
    pub telemetry_dropped: u64,
    /// Counts of agents' sessions.
    pub sessions: &'a quic::Stats,
    /// What agents see of the cabling.
    pub observed: &'a Found,
    /// What switches say, where they are heard.
    pub switches: Option<(&'a Observed, Arc<Table>)>,
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
    // The table is sorted worst first, so the bound cuts the links that matter least.
    for link in all.into_iter().take(LINKS_MAX) {
        score.with_label_values(&[&link.id]).set(link.score.unwrap_or(1.0));
        zero.with_label_values(&[&link.id]).set(link.zero_shift_score.unwrap_or(1.0));
        demand.with_label_values(&[&link.id]).set(link.peak_demand_ratio);
    }
    Ok(())
}

fn jobs(registry: &Registry, snapshot: &Snapshot) -> Result<(), prometheus::Error> {
    let count = gauges(registry, "jobs", "Committed jobs by state.", ["state"])?;
    let period = gauges(registry, "job_period_seconds", "Scheduled length of an iteration.", [JOB])?;
    let shift = gauges(registry, "job_time_shift_seconds", "Start of the iterations within the period, in fabric time.", [JOB])?;
    let solo = gauges(registry, "job_solo_period_seconds", "Length of an iteration alone, from the profile.", [JOB])?;
    let iteration = gauges(registry, "job_iteration_seconds", "Median iteration that the gate saw.", [JOB])?;
    let mean = gauges(registry, "job_iteration_mean_seconds", "Mean of the last iterations that the gate saw, without pauses.", [JOB])?;
    let mismatch = gauges(
        registry,
        "job_period_mismatch_seconds",
        "Learned period less the declared one, while it is further from the expected one than 5 %.",
        [JOB],
    )?;
    let free = gauges(registry, "job_predicted_free_seconds", "Predicted iteration as jobs come, while the service only observes.", [JOB])?;
    let by_turns = gauges(registry, "job_predicted_turns_seconds", "The same if jobs took turns where that is predicted to help.", [JOB])?;
    let error = gauges(registry, "job_shift_error_seconds", "Median start minus slot; positive is late.", [JOB])?;
    let counter = |name: &str, help: &str| -> Result<IntCounterVec, prometheus::Error> {
        let vec = IntCounterVec::new(Opts::new(name, help), &[JOB])?;
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
    // `JOBS_MAX` bounds the scrape: each job has up to eleven series.
    for job in snapshot.jobs.iter().take(JOBS_MAX).map(|j| &j.message) {
        let label = [job.id.as_str()];
        solo.with_label_values(&label).set(job.solo_period_ns as f64 / NANOS_PER_SECOND);
        if let Some(slot) = &job.slot {
            period.with_label_values(&label).set(slot.period_ns as f64 / NANOS_PER_SECOND);
            shift.with_label_values(&label).set(slot.offset_ns as f64 / NANOS_PER_SECOND);
        }
        // A value that was not reported gets no series: a 0 would look like a measurement.
        let set = |gauge: &GaugeVec, value: Option<f64>| value.into_iter().for_each(|v| gauge.with_label_values(&label).set(v));
        set(&iteration, job.iteration_ns.map(|ns| ns as f64 / NANOS_PER_SECOND));
        set(&mean, job.iteration_mean_ns.map(|ns| ns as f64 / NANOS_PER_SECOND));
        set(&mismatch, job.period_mismatch_ns.map(|ns| (ns as f64 - job.solo_period_ns as f64) / NANOS_PER_SECOND));
        set(&free, job.predicted_free_ns.map(|ns| ns as f64 / NANOS_PER_SECOND));
        set(&by_turns, job.predicted_turns_ns.map(|ns| ns as f64 / NANOS_PER_SECOND));
        set(&error, job.phase_error_ns.map(|ns| ns as f64 / NANOS_PER_SECOND));
        // The counters are new for each scrape, so the total is added to 0.
        job.slips.into_iter().for_each(|n| slips.with_label_values(&label).inc_by(n));
        job.fail_opens.into_iter().for_each(|n| opens.with_label_values(&label).inc_by(n));
    }
    Ok(())
}

/// Marks and CNPs of jobs. What no port counts has no series.
fn congestion(registry: &Registry, now: &Now<'_>) -> Result<(), prometheus::Error> {
    let counter = |name: &str, help: &str| -> Result<IntCounterVec, prometheus::Error> {
        let vec = IntCounterVec::new(Opts::new(name, help), &[JOB])?;
        registry.register(Box::new(vec.clone()))?;
        Ok(vec)
    };
    let marked = counter("job_ecn_marked_packets_total", "Packets with an ECN mark that came in at the hosts of a job.")?;
    let received = counter("job_received_packets_total", "Packets that came in there at the ports that count marks.")?;
    let sent = counter("job_cnps_sent_total", "CNPs that the hosts of a job sent.")?;
    let handled = counter("job_cnps_handled_total", "CNPs that the hosts of a job obeyed.")?;
    let ignored = counter("job_cnps_ignored_total", "CNPs that the hosts of a job got and ignored.")?;
    let help = "1 where some of these were counted for several jobs together, and split by what each sends as planned; else 0.";
    let shared = gauges(registry, "job_congestion_shared", help, [JOB])?;
    for (job, told) in now.snapshot.jobs.iter().zip(&now.congestion) {
        let (label, Some(told)) = ([job.message.id.as_str()], told) else { continue };
        let counted = [(&marked, told.marked), (&received, told.received), (&sent, told.cnps_sent), (&handled, told.cnps_handled)];
        for (vec, count) in counted.into_iter().chain([(&ignored, told.cnps_ignored)]) {
            count.into_iter().for_each(|count| vec.with_label_values(&label).inc_by(count));
        }
        shared.with_label_values(&label).set(f64::from(u8::from(told.attribution() == pb::Attribution::Shared)));
    }
    Ok(())
}

fn agents(registry: &Registry, snapshot: &Snapshot) -> Result<(), prometheus::Error> {
    let up = gauges(registry, "agent_up", "Agents with a session.", [])?;
    let count = gauges(registry, "agents", "Agents by state.", ["state"])?;
    let bound = gauges(registry, "agent_clock_bound_seconds_max", "Worst bound of the error of an agent's clock offset.", [])?;
    let help = "Agents of a host that the fabric lacks, and hosts for which two say hello.";
    let misnamed = gauges(registry, "agents_misnamed", help, [])?;
    misnamed.with_label_values::<&str>(&[]).set(snapshot.agents.iter().filter(|a| !a.trouble.is_empty()).count() as f64);
    let mut connected = 0;
    for state in [pb::AgentState::Connected, pb::AgentState::Lost, pb::AgentState::Quarantined] {
        let agents = snapshot.agents.iter().filter(|a| a.state() == state).count();
        // An agent in quarantine has a session too.
        connected += if state == pb::AgentState::Lost { 0 } else { agents };
        count.with_label_values(&[word(state.as_str_name(), "AGENT_STATE_")]).set(agents as f64);
    }
    up.with_label_values::<&str>(&[]).set(connected as f64);
    // Agents without a session have no bound here (`AgentView::clock`), so the worst is that of a connected agent.
    let worst = snapshot.agents.iter().filter_map(|a| a.clock_bound_ns).max();
    worst.into_iter().for_each(|ns| bound.with_label_values::<&str>(&[]).set(ns as f64 / 1e9));
    Ok(())
}

fn turns(registry: &Registry, turns: &TurnsSnapshot) -> Result<(), prometheus::Error> {
    let groups = gauges(registry, "turn_groups", "Groups of jobs that take turns, by what they do now.", ["state"])?;
    let labels = [JOB, "mode"];
    let mean = gauges(registry, "job_turn_iteration_seconds", "Mean of the last iterations, by turns and free.", labels)?;
    let longest = gauges(registry, "job_turn_iteration_p99_seconds", "99th percentile of the same iterations.", labels)?;
    let help = "1 while the job's group takes turns, free stretches to compare included; 0 once it was let go.";
    let held = gauges(registry, "job_turn_held", help, [JOB])?;
    let wait = gauges(registry, "job_turn_wait_ratio", "Share of its time by turns that the job waits for its turn.", [JOB])?;
    for state in GroupState::ALL {
        let word = match state {
            GroupState::Held => "held",
            GroupState::TriedFree => "tried_free",
            GroupState::LetGo => "let_go",
            GroupState::TriedHeld => "tried_held",
        };
        groups.with_label_values(&[word]).set(turns.groups.iter().filter(|g| g.state == state).count() as f64);
    }
    let mut jobs: Vec<_> = turns.groups.iter().flat_map(|g| g.jobs.iter().map(|job| (job, g.state))).collect();
    // The same jobs at each scrape: a series that comes and goes is none.
    jobs.sort_by(|(a, _), (b, _)| a.job.cmp(&b.job));
    // `JOBS_MAX` bounds the scrape: each job has up to six series.
    for (job, state) in jobs.into_iter().take(JOBS_MAX) {
        let is_held = matches!(state, GroupState::Held | GroupState::TriedFree);
        held.with_label_values(&[&*job.job]).set(f64::from(u8::from(is_held)));
        for (mode, Measured { count, mean: time, p99, .. }) in [("turns", job.held), ("free", job.free)] {
            // What was not measured gets no series: a 0 would look like a measurement.
            if count > 0 {
                mean.with_label_values(&[&*job.job, mode]).set(time.0 as f64 / NANOS_PER_SECOND);
                longest.with_label_values(&[&*job.job, mode]).set(p99.0 as f64 / NANOS_PER_SECOND);
            }
        }
        if job.held.count > 0 {
            wait.with_label_values(&[&*job.job]).set(job.held.mean_wait.0 as f64 / job.held.mean.0.max(1) as f64);
        }
    }
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

#[cfg(test)]
mod tests {
    use state::turns::{Activity, GroupView, JobTurns};

    use super::*;

    #[test]
    fn a_job_is_held_until_its_group_was_let_go() {
        let group = |state: GroupState| {
            let job = JobTurns {
                job: format!("{state:?}").into(),
                activity: Activity::Away,
                waits_for: Vec::new(),
                has_no_ends: false,
                held: Measured::default(),
                free: Measured::default(),
                counts: Default::default(),
                starts: Vec::new(),
            };
            GroupView { state, judged: None, jobs: vec![job] }
        };
        let now = TurnsSnapshot { groups: GroupState::ALL.map(group).into(), ..TurnsSnapshot::default() };
        let registry = Registry::new();
        turns(&registry, &now).unwrap();
        let families = registry.gather();
        let held = families.iter().find(|family| family.name() == "job_turn_held").unwrap();
        let mut of: Vec<_> = held.get_metric().iter().map(|m| (m.get_label()[0].value().to_owned(), m.get_gauge().get_value())).collect();
        of.sort_by(|a, b| a.0.cmp(&b.0));
        let expected = [("Held", 1.0), ("LetGo", 0.0), ("TriedFree", 1.0), ("TriedHeld", 0.0)];
        assert_eq!(of, expected.map(|(state, value)| (state.to_owned(), value)));
    }
}
