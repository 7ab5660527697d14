//! What is counted as it happens, for `/metrics`; `scrape.rs` adds the state as it is then.
//!
//! Names follow Prometheus' own practice: one prefix, base units, `_total`. What grows with the cluster is capped by a named
//! limit, worst first, so that a scrape stays small.

use std::time::Duration;

use prometheus::{GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};
use state::{
    NoticeKind,
    turns::{Granted, Verdict},
};

/// From half a millisecond to half a minute.
const EVALUATE_BUCKETS: &[f64] = &[0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];
/// From an answer out of memory to one that waited for a disk or a plan. Each request has a series of each, so they are few.
const REQUEST_BUCKETS: &[f64] = &[0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];
/// From a fast SSD to a disk in trouble.
const STORE_BUCKETS: &[f64] = &[0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];

/// From a thread that was awake to one that waited for a processor.
const GRANT_BUCKETS: &[f64] = &[0.000_02, 0.000_05, 0.000_1, 0.000_2, 0.000_5, 0.001, 0.002, 0.005, 0.01, 0.05];

/// From a moment to the longest iteration that a wait may last.
const WAIT_BUCKETS: &[f64] = &[0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];
/// Why a start may go, and what a comparison comes to: each has a series from the first scrape on, so that its rate is known when it
/// happens for the first time.
const GRANT_REASONS: [&str; 6] = ["ahead", "at_once", "waited", "bound", "no_ends", "open"];
const VERDICTS: [&str; 4] = ["kept", "let_go", "held_again", "left_free"];

/// What is counted as it happens.
#[derive(Debug)]
pub struct Metrics {
    pub(crate) registry: Registry,
    evaluate: Histogram,
    store_commit: Histogram,
    store_failures: IntCounter,
    store_rewrites: IntCounter,
    requests: IntCounterVec,
    request_duration: HistogramVec,
    notices: IntCounterVec,
    connections: IntGauge,
    refused: IntCounter,
    stalled: IntCounter,
    turn_notes: IntCounter,
    turn_orders: IntCounter,
    turn_grant: Histogram,
    turns_waiting: IntGauge,
    turn_starts: IntCounterVec,
    turn_wait: Histogram,
    turn_verdicts: IntCounterVec,
    scheduler_decision: Histogram,
    submissions: IntGaugeVec,
    scheduler_gpus: IntGaugeVec,
}

impl Metrics {
    /// Registers everything.
    ///
    /// # Errors
    /// Two metrics of one name: our own bug.
    pub fn new() -> Result<Self, prometheus::Error> {
        // The registry is the service's own and not the global one, so that tests start several services in one process.
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
            request_duration: HistogramVec::new(
                HistogramOpts::new("request_duration_seconds", "Time from a request's head to its answer's, by protocol and request.")
                    .buckets(REQUEST_BUCKETS.to_vec()),
                &["protocol", "request"],
            )?,
            notices: IntCounterVec::new(Opts::new("events_total", "Events by kind."), &["kind"])?,
            connections: IntGauge::new("connections", "Open TCP connections.")?,
            refused: IntCounter::new(
                "connections_refused_total",
                "TCP connections cut, or told to come again, because there were too many.",
            )?,
            stalled: IntCounter::new("connections_stalled_total", "TCP connections cut because their clients stopped reading.")?,
            turn_notes: IntCounter::new("turn_notes_total", "Notes of agents about starts of jobs that take turns.")?,
            turn_orders: IntCounter::new("turn_orders_total", "Orders to agents about starts of jobs that take turns.")?,
            turn_grant: seconds("turn_grant_seconds", "Time from a note that asks to its grant, where the way was free.", GRANT_BUCKETS)?,
            turns_waiting: IntGauge::new("turns_waiting", "Jobs that wait for their turn.")?,
            turn_starts: IntCounterVec::new(Opts::new("turn_grants_total", "Starts that were told to go, by reason."), &["reason"])?,
            turn_wait: seconds("turn_wait_seconds", "How long starts waited for their turn that did not go at once.", WAIT_BUCKETS)?,
            turn_verdicts: IntCounterVec::new(
                Opts::new("turn_verdicts_total", "Comparisons of groups by turns and free, by what came of them."),
                &["verdict"],
            )?,
            scheduler_decision: seconds("scheduler_decision_seconds", "Time of one decision of the scheduler's policy.", EVALUATE_BUCKETS)?,
            submissions: IntGaugeVec::new(Opts::new("submissions", "Jobs that were submitted to the scheduler, by state."), &["state"])?,
            scheduler_gpus: IntGaugeVec::new(
                Opts::new("scheduler_gpus", "GPUs of the scheduler's hosts, and those of them held."),
                &["of"],
            )?,
            registry,
        };
        GRANT_REASONS.iter().for_each(|reason| drop(metrics.turn_starts.with_label_values(&[reason])));
        VERDICTS.iter().for_each(|verdict| drop(metrics.turn_verdicts.with_label_values(&[verdict])));
        let r = &metrics.registry;
        r.register(Box::new(metrics.evaluate.clone()))?;
        r.register(Box::new(metrics.store_commit.clone()))?;
        r.register(Box::new(metrics.store_failures.clone()))?;
        r.register(Box::new(metrics.store_rewrites.clone()))?;
        r.register(Box::new(metrics.requests.clone()))?;
        r.register(Box::new(metrics.request_duration.clone()))?;
        r.register(Box::new(metrics.notices.clone()))?;
        r.register(Box::new(metrics.connections.clone()))?;
        r.register(Box::new(metrics.refused.clone()))?;
        r.register(Box::new(metrics.stalled.clone()))?;
        r.register(Box::new(metrics.turn_notes.clone()))?;
        r.register(Box::new(metrics.turn_orders.clone()))?;
        r.register(Box::new(metrics.turn_grant.clone()))?;
        r.register(Box::new(metrics.turns_waiting.clone()))?;
        r.register(Box::new(metrics.turn_starts.clone()))?;
        r.register(Box::new(metrics.turn_wait.clone()))?;
        r.register(Box::new(metrics.turn_verdicts.clone()))?;
        r.register(Box::new(metrics.scheduler_decision.clone()))?;
        r.register(Box::new(metrics.submissions.clone()))?;
        r.register(Box::new(metrics.scheduler_gpus.clone()))?;
        Ok(metrics)
    }

    /// The scheduler decided within this time.
    pub fn scheduler_decided(&self, took: Duration) {
        self.scheduler_decision.observe(took.as_secs_f64());
    }

    /// So many submissions are in this state.
    pub fn submissions(&self, state: &str, count: usize) {
        self.submissions.with_label_values(&[state]).set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// The scheduler's GPUs, and those that its jobs hold.
    pub fn scheduler_gpus(&self, all: u32, held: u32) {
        self.scheduler_gpus.with_label_values(&["all"]).set(all.into());
        self.scheduler_gpus.with_label_values(&["held"]).set(held.into());
    }

    /// A ranking took this long.
    pub fn evaluated(&self, took: Duration) {
        self.evaluate.observe(took.as_secs_f64());
    }

    /// A transaction took this long; `rewritten`: because the whole file was written anew.
    pub fn store_commit(&self, took: Duration, ok: bool, rewritten: bool) {
        // Failures count in the histogram too: a disk in trouble is slow before it fails.
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

    /// A request was answered within this time; `request` is one of few names.
    pub fn answered(&self, protocol: &str, request: &str, took: Duration) {
        self.request_duration.with_label_values(&[protocol, request]).observe(took.as_secs_f64());
    }

    /// An event was logged.
    pub fn notice(&self, kind: NoticeKind) {
        self.notices.with_label_values(&[kind.word()]).inc();
    }

    /// A connection was opened (1) or closed (-1).
    pub fn connection(&self, by: i64) {
        self.connections.add(by);
    }

    /// So many turn notes were taken in.
    pub fn turn_notes(&self, count: usize) {
        self.turn_notes.inc_by(count as u64);
    }

    /// So many turn orders went out.
    pub fn turn_orders(&self, count: usize) {
        self.turn_orders.inc_by(count as u64);
    }

    /// A start was granted so long after its note came.
    pub fn turn_granted(&self, took: Duration) {
        self.turn_grant.observe(took.as_secs_f64());
    }

    /// So many jobs wait for their turn.
    pub fn turns_waiting(&self, count: usize) {
        self.turns_waiting.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// A start was told to go.
    pub fn turn_start(&self, granted: Granted) {
        let [ahead, at_once, waited, bound, no_ends, open] = GRANT_REASONS;
        let (reason, wait) = match granted {
            Granted::Ahead => (ahead, None),
            Granted::AtOnce => (at_once, None),
            Granted::Waited(wait) => (waited, Some(wait)),
            Granted::Bound(wait) => (bound, Some(wait)),
            Granted::NoEnds => (no_ends, None),
            Granted::Open => (open, None),
        };
        self.turn_starts.with_label_values(&[reason]).inc();
        wait.into_iter().for_each(|wait| self.turn_wait.observe(Duration::from_nanos(wait.0).as_secs_f64()));
    }

    /// A group was compared.
    pub fn turn_verdict(&self, verdict: &Verdict) {
        let [kept, let_go, held_again, left_free] = VERDICTS;
        let word = match (verdict.hold, verdict.is_new) {
            (true, false) => kept,
            (false, true) => let_go,
            (true, true) => held_again,
            (false, false) => left_free,
        };
        self.turn_verdicts.with_label_values(&[word]).inc();
    }

    /// A connection was cut because its client stopped reading.
    pub fn connection_stalled(&self) {
        self.stalled.inc();
    }

    /// A connection was refused.
    pub fn connection_refused(&self) {
        self.refused.inc();
    }
}
