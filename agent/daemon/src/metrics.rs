//! What Prometheus scrapes: names, and the page of text.
//!
//! No label has a value that grows without bound: ports and jobs are bounded by their tables, and what a port does not count
//! has no series.

use gate_core::TurnCounts;
use prometheus::{
    Encoder as _, TextEncoder,
    proto::{Counter as CounterValue, Gauge, LabelPair, Metric, MetricFamily, MetricType},
};
use telemetry::{Counter, pfc::Pause};
use units::NodeTime;

use crate::{
    calls::Iteration,
    clock::ClockEstimate,
    counters::CountersView,
    gates::GateTotals,
    node_names::{self, Series, Shown},
    pauses::PausesView,
    queues::{Pairs, QueuesView},
    rdma::RdmaView,
    session::SESSION_COUNTS,
    turns::NoteCounts,
};

/// What of its configuration tells one agent from another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configured {
    /// Its host.
    pub host: String,
    /// Where its pages are.
    pub page_dir: String,
    /// Its service, as configured; empty: none.
    pub service: String,
}

/// What the agent knows, as of one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Which agent it is.
    pub configured: Configured,
    /// Ports.
    pub counters: CountersView,
    /// Gates, in order of their jobs.
    pub gates: Vec<(String, GateTotals)>,
    /// Turns, in order of their jobs.
    pub turns: Vec<(String, TurnCounts)>,
    /// Iterations by what jobs call, in order of the jobs; only of those that have a library which tells it.
    pub iterations: Vec<(String, Iteration)>,
    /// What came on the socket of the turns.
    pub notes: NoteCounts,
    /// The clock.
    pub clock: Option<ClockEstimate>,
    /// Whether there is a session with the service.
    pub connected: bool,
    /// Version of the plan on the pages.
    pub plan_version: u64,
    /// Pages that are kept.
    pub pages: usize,
    /// Heartbeats of pages that could not be written.
    pub page_errors: u64,
    /// Counts of the session ([`crate::session::SessionStats::read`]).
    pub session: Option<[(&'static str, u64); SESSION_COUNTS]>,
    /// RDMA devices; `None` where nobody tells of them.
    pub rdma: Option<RdmaView>,
    /// PFC pauses of interfaces.
    pub pauses: PausesView,
    /// Queue pairs and optional counters of RDMA ports.
    pub queues: QueuesView,
    /// Whether counters of ports have the names of node_exporter besides.
    pub node_exporter: bool,
}

/// The text for `GET /metrics`.
#[must_use]
pub fn text(snapshot: &Snapshot, now: NodeTime) -> String {
    let mut page = Page::default();
    own(&mut page, snapshot, now);
    ports(&mut page, &snapshot.counters);
    gates(&mut page, &snapshot.gates);
    calls(&mut page, &snapshot.iterations);
    turns(&mut page, snapshot);
    snapshot.rdma.iter().for_each(|view| rdma(&mut page, view));
    pauses(&mut page, &snapshot.pauses);
    queues(&mut page, &snapshot.queues);
    if snapshot.node_exporter {
        node_exporter(&mut page, snapshot);
    }
    process(&mut page);
    page.text()
}

fn own(page: &mut Page, snapshot: &Snapshot, now: NodeTime) {
    page.gauge("build_info", "The program's version.", &[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    let Configured { host, page_dir, service } = &snapshot.configured;
    let labels = [("host", host.as_str()), ("page_dir", page_dir.as_str()), ("service", service.as_str())];
    page.gauge("config_info", "What of its configuration tells this agent from another.", &labels, 1.0);
    page.gauge("connected", "1 while there is a session with the topology service.", &[], f64::from(u8::from(snapshot.connected)));
    page.gauge("plan_version", "Version of the plan on the schedule pages.", &[], snapshot.plan_version as f64);
    page.gauge("pages", "Schedule pages that are kept alive.", &[], snapshot.pages as f64);
    page.counter("page_errors_total", "Schedule pages that could not be written.", &[], snapshot.page_errors as f64);
    if let Some(clock) = &snapshot.clock {
        // The bound is that of the scrape: it has grown since the estimate.
        let bound = clock.bound_at(now).0 as f64 / 1e9;
        page.gauge("clock_bound_seconds", "Bound of the error of fabric time on this node.", &[], bound);
        page.gauge("clock_offset_seconds", "Fabric time less CLOCK_MONOTONIC of this node.", &[], clock.offset.0 as f64 / 1e9);
        page.gauge("clock_rtt_seconds", "Shortest round trip to the topology service.", &[], clock.rtt.0 as f64 / 1e9);
    }
    let counters = &snapshot.counters;
    page.counter("samples_skipped_total", "Readings left out because the agent woke too late.", &[], counters.skipped as f64);
    page.counter(
        "samples_dropped_total",
        "Frames of telemetry that found no room on the way to the session.",
        &[],
        counters.dropped as f64,
    );
    for (name, count) in snapshot.session.iter().flatten() {
        let help = match *name {
            "admitted" => "Sessions that the service admitted.",
            "failed" => "Attempts at a session that failed.",
            "frames_dropped" => "Control frames dropped for want of a session or room.",
            "telemetry_dropped" => "Frames of telemetry dropped for want of a session or room.",
            "notes_sent" => "Turn notes sent to the service.",
            "notes_dropped" => "Turn notes dropped for want of a session or room.",
            "orders" => "Turn orders that came from the service.",
            _ => "Steps of a clock, after which its estimate began anew.",
        };
        page.counter(&format!("session_{name}_total"), help, &[], *count as f64);
    }
}

/// What every client library exposes, under the names that all dashboards know: without our prefix.
fn process(page: &mut Page) {
    for files::process::Number { name, help, is_counter, value } in files::process::numbers() {
        let (kind, metric) = if is_counter { counted(value) } else { gauged(value) };
        page.add(name.to_owned(), help, kind, &[], metric);
    }
}

fn ports(page: &mut Page, view: &CountersView) {
    for port in &view.ports {
        let netdev = port.netdev.as_deref().unwrap_or_default();
        let labels = [("port", port.name.as_str()), ("kind", port.kind), ("netdev", netdev)];
        page.gauge("port_info", "A port whose counters are read; an RDMA port has a netdev.", &labels, 1.0);
        let labels = [("port", port.name.as_str())];
        page.counter("port_resets_total", "Times that a port's counters began anew.", &labels, port.resets as f64);
        // An aperiodic port has no series here; a period of 0 would look like a value.
        if let Some(observed) = &port.observed {
            let period = observed.period.0 as f64 / 1e9;
            page.gauge("port_observed_period_seconds", "Period found in a port's byte counter.", &labels, period);
            page.gauge("port_period_confidence_ratio", "Share of the signal's power that repeats.", &labels, observed.confidence);
        }
        for &(counter, total) in &port.totals {
            page.counter(&format!("port_{}_total", counter.name()), help(counter), &labels, total as f64);
        }
    }
}

fn rdma(page: &mut Page, view: &RdmaView) {
    page.gauge("rdma_up", "1 while antiphase-verbs tells of RDMA devices.", &[], f64::from(u8::from(view.up)));
    page.counter("rdma_failures_total", "Runs of antiphase-verbs that failed.", &[], view.failures as f64);
    for port in &view.ports {
        let number = port.port.to_string();
        let netdev = port.netdev.as_deref().unwrap_or_default();
        let labels = [("device", port.device.as_str()), ("rdma_port", &number)];
        let info = [labels[0], labels[1], ("link_layer", &port.link_layer), ("netdev", netdev), ("firmware", &port.firmware)];
        page.gauge("rdma_port_info", "A port of an RDMA device.", &info, 1.0);
        page.gauge("rdma_port_active", "1 while packets pass.", &labels, f64::from(u8::from(port.state == "active")));
        page.gauge("rdma_port_roce_v2_gids", "Addresses by which RoCE v2 reaches the port.", &labels, port.roce_v2() as f64);
        // A rate that nobody says has no series.
        if let Some(mbps) = port.rate_mbps {
            page.gauge("rdma_port_rate_bits_per_second", "The negotiated rate.", &labels, mbps as f64 * 1e6);
        }
    }
    for ((device, event), count) in &view.events {
        let labels = [("device", device.as_str()), ("event", event)];
        page.counter("rdma_events_total", "Asynchronous events of RDMA devices.", &labels, *count as f64);
    }
}

fn node_exporter(page: &mut Page, snapshot: &Snapshot) {
    for Series { name, labels, shown } in node_names::series(&snapshot.counters, &snapshot.pauses) {
        let (help, (kind, metric)) = match shown {
            Shown::Counter(counter, total) => (help(counter), counted(total as f64)),
            Shown::Statistic(total) => ("A statistic of the driver.", counted(total as f64)),
            Shown::Gauge(help, value) => (help, gauged(value)),
        };
        page.add(name, help, kind, &labels, metric);
    }
}

fn pauses(page: &mut Page, view: &PausesView) {
    for (port, totals) in view {
        for ((what, priority), total) in &totals.by_priority {
            let priority = priority.to_string();
            let labels = [("port", port.as_str()), ("priority", &priority)];
            let (help, value) = match what {
                Pause::Received => ("PFC frames received that stopped a priority.", *total as f64),
                Pause::Sent => ("PFC frames sent that stopped a priority of the neighbour.", *total as f64),
                Pause::ReceivedMicros => ("Time for which a priority was stopped.", *total as f64 / 1e6),
                Pause::SentMicros => ("Time for which a priority of the neighbour was stopped.", *total as f64 / 1e6),
            };
            page.counter(&format!("port_{}_total", what.name()), help, &labels, value);
        }
    }
}

fn queues(page: &mut Page, view: &QueuesView) {
    for (port, Pairs { of_jobs, others }) in &view.pairs {
        for (job, count) in of_jobs {
            let labels = [("port", port.as_str()), ("job_id", job.as_str())];
            page.gauge("port_queue_pairs", "Queue pairs of a job on a port of an RDMA device.", &labels, f64::from(*count));
        }
        let help = "Queue pairs of processes without a job, or whose job the agent may not see.";
        page.gauge("port_queue_pairs_of_others", help, &[("port", port.as_str())], f64::from(*others));
    }
    for (port, counters) in &view.optional {
        for (counter, total) in counters {
            let labels = [("port", port.as_str()), ("counter", counter.as_str())];
            let help = "A counter of an RDMA port that somebody has switched on, by the driver's name.";
            page.counter("port_optional_total", help, &labels, *total as f64);
        }
    }
}

fn gates(page: &mut Page, gates: &[(String, GateTotals)]) {
    for (job, totals) in gates {
        let labels = [("job_id", job.as_str())];
        page.counter("gate_iterations_total", "Starts that passed a job's gate.", &labels, totals.iterations as f64);
        page.counter("gate_holds_total", "Starts that were held.", &labels, totals.holds as f64);
        page.counter("gate_slips_total", "Starts that missed a slot.", &labels, totals.slips as f64);
        page.counter("gate_held_seconds_total", "Time spent in holds.", &labels, totals.held.0 as f64 / 1e9);
        // Only reasons that occurred have a series, which keeps a job at a few of them.
        for &(reason, count) in &totals.fail_opens {
            let labels = [("job_id", job.as_str()), ("reason", reason)];
            page.counter("gate_fail_open_total", "Starts let go because the plan could not be trusted.", &labels, count as f64);
        }
        if let Some(error) = totals.phase_error {
            page.gauge("gate_phase_error_seconds", "Median start minus slot; positive is late.", &labels, error as f64 / 1e9);
        }
        if let Some(iteration) = totals.iteration_p50 {
            page.gauge("gate_iteration_seconds", "Median time from start to start.", &labels, iteration.0 as f64 / 1e9);
        }
    }
}

fn calls(page: &mut Page, iterations: &[(String, Iteration)]) {
    for (job, iteration) in iterations {
        let labels = [("job_id", job.as_str())];
        let help = "Time from one iteration to the next, by what the job calls of its communication library.";
        page.gauge("job_called_period_seconds", help, &labels, iteration.period.0 as f64 / 1e9);
        page.gauge("job_calls_per_iteration", "Calls of one iteration.", &labels, iteration.calls as f64);
    }
}

fn turns(page: &mut Page, snapshot: &Snapshot) {
    let NoteCounts { heard, strange, dropped } = snapshot.notes;
    page.counter("turn_notes_total", "Notes of gates that take turns.", &[], heard as f64);
    page.counter(
        "turn_notes_strange_total",
        "Datagrams that were no note of a job that takes turns here, of a user who does not speak for it, or past the limit of one.",
        &[],
        strange as f64,
    );
    page.counter("turn_notes_dropped_total", "Notes for the service that found no room on the way to the session.", &[], dropped as f64);
    for (job, counts) in &snapshot.turns {
        let labels = [("job_id", job.as_str())];
        page.counter("turn_asked_total", "Starts for which the service was asked.", &labels, counts.asked as f64);
        page.counter("turn_granted_total", "Starts that the service granted when asked.", &labels, counts.granted as f64);
        page.counter("turn_granted_ahead_total", "Starts that went with a permission given ahead.", &labels, counts.ahead as f64);
        page.counter("turn_alone_total", "Starts let go because there was no service.", &labels, counts.alone as f64);
        let help = "Notes to which the service gave no answer, whatever the repeats.";
        page.counter("turn_unanswered_total", help, &labels, counts.unanswered as f64);
        let help = "Ends that the gate did not tell and the bytes of the ports showed.";
        page.counter("turn_ended_by_bytes_total", help, &labels, counts.ended_by_bytes as f64);
        let help = "Ends that the gate did not tell and the operations of the communication library showed.";
        page.counter("turn_ended_by_operations_total", help, &labels, counts.ended_by_operations as f64);
        let help = "Ends that the gate did not tell, taken from the time that a start sends.";
        page.counter("turn_ended_by_length_total", help, &labels, counts.ended_by_length as f64);
    }
}

const fn help(counter: Counter) -> &'static str {
    match counter {
        Counter::RxBytes => "Bytes received.",
        Counter::TxBytes => "Bytes sent.",
        Counter::RxPackets => "Packets received.",
        Counter::TxPackets => "Packets sent.",
        Counter::RxDrops => "Packets dropped on reception.",
        Counter::TxDrops => "Packets dropped on sending.",
        Counter::EcnMarkedRx => "Packets received with an ECN mark.",
        Counter::Ect0Rx => "Packets received as ECT(0).",
        Counter::Ect1Rx => "Packets received as ECT(1).",
        Counter::NotEctRx => "Packets received that were not ECN-capable.",
        Counter::EcnEchoed => "Packets sent that were marked, as receivers said.",
        Counter::CnpTx => "CNPs sent.",
        Counter::CnpRxHandled => "CNPs received and obeyed.",
        Counter::CnpRxIgnored => "CNPs received and ignored.",
        Counter::OutOfOrder => "Packets received out of order.",
        Counter::SeqErr => "Sequence errors that the other side reported.",
        Counter::AckTimeout => "Acknowledgements that did not come in time.",
        Counter::Rnr => "Receiver-not-ready answers received.",
        Counter::Retrans => "Packets sent again.",
        Counter::Duplicate => "Requests received twice.",
        Counter::NoBuffer => "Packets dropped for want of a receive buffer.",
        Counter::TxWait => "Device ticks in which a port had data and sent none.",
        _ => "A counter of the port.",
    }
}

fn gauged(value: f64) -> (MetricType, Metric) {
    let (mut gauge, mut metric) = (Gauge::default(), Metric::default());
    gauge.set_value(value);
    metric.set_gauge(gauge);
    (MetricType::GAUGE, metric)
}

fn counted(value: f64) -> (MetricType, Metric) {
    let (mut counter, mut metric) = (CounterValue::default(), Metric::default());
    counter.set_value(value);
    metric.set_counter(counter);
    (MetricType::COUNTER, metric)
}

/// Families in the order in which they first came, each name once.
#[derive(Default)]
struct Page {
    families: Vec<MetricFamily>,
}

impl Page {
    fn gauge(&mut self, name: &str, help: &str, labels: &[(&str, &str)], value: f64) {
        let (kind, metric) = gauged(value);
        self.add(format!("antiphase_agent_{name}"), help, kind, labels, metric);
    }

    fn counter(&mut self, name: &str, help: &str, labels: &[(&str, &str)], value: f64) {
        let (kind, metric) = counted(value);
        self.add(format!("antiphase_agent_{name}"), help, kind, labels, metric);
    }

    fn add(&mut self, name: String, help: &str, kind: MetricType, labels: &[(&str, &str)], mut metric: Metric) {
        let pairs = labels.iter().map(|(name, value)| {
            let mut pair = LabelPair::default();
            pair.set_name((*name).into());
            pair.set_value((*value).into());
            pair
        });
        metric.set_label(pairs.collect());
        // The text format wants all series of a name in one group, so a later series joins the family that is there.
        if let Some(family) = self.families.iter_mut().find(|family| family.name() == name) {
            family.mut_metric().push(metric);
            return;
        }
        let mut family = MetricFamily::default();
        family.set_name(name);
        family.set_help(help.into());
        family.set_field_type(kind);
        family.set_metric(vec![metric]);
        self.families.push(family);
    }

    fn text(&self) -> String {
        let mut text = Vec::new();
        // Fails only for a family without metrics, and `add` makes none.
        let encoded = TextEncoder::new().encode(&self.families, &mut text);
        debug_assert!(encoded.is_ok(), "{encoded:?}");
        String::from_utf8(text).unwrap_or_default()
    }
}
