//! What dashboards, rules and alerts ask for is exposed, and every query has an answer.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use serde_json::json;

use crate::{
    grafana::{Query, queries},
    prometheus::{Prometheus, folder, is_installed},
    rig::{Node, SOON, Service, agent_with_pauses, http, job, two_jobs},
};

/// Metrics of others: of Prometheus itself.
const OF_OTHERS: [&str; 1] = ["up"];
/// Queries that may be empty in a run of seconds, and why. They are asked all the same: each has to be a query.
const EMPTY: [(&str, &str); 3] = [
    ("job_period_mismatch_seconds{", "the jobs keep the period that they declare, unless the machine is too busy for it"),
    ("held_over_free", "a group runs free to compare after 224 iterations"),
    ("agent_connected{instance=~\".*\"} == 0", "who is without a session is counted, or 0"),
];

/// Names of metrics in PromQL: words of ours, without those that are labels or functions.
fn names(text: &str) -> BTreeSet<String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let ours = |word: &&str| ["antiphase_", "antiphase:", "process_"].iter().any(|begin| word.starts_with(begin));
    text.split(|c| !is_word(c)).filter(ours).map(str::to_owned).collect()
}

/// Names of the families and series in an exposition.
fn exposed(text: &str) -> BTreeSet<String> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split(['{', ' ']).next()).map(str::to_owned).collect()
}

/// Expressions of the rule files, each with the name of what it makes.
fn rules() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for file in ["antiphase-recording.yaml", "antiphase-alerts.yaml"] {
        let text = fs::read_to_string(folder().join(file)).unwrap();
        // A rule begins with its name, and its expression goes on up to the next key.
        for rule in text.split("\n      - ").skip(1) {
            let name = rule.lines().next().unwrap().split_once(": ").unwrap().1.to_owned();
            let expr = rule.split_once("expr:").unwrap().1;
            let lines = expr.lines().take_while(|line| !["for:", "labels:", "annotations:"].iter().any(|key| line.trim().starts_with(key)));
            found.insert(name, lines.filter(|line| !line.trim().starts_with('#')).collect::<Vec<_>>().join("\n"));
        }
    }
    assert!(found.len() >= 30, "the rules were not understood: {found:?}");
    found
}

/// All that is asked for and is not made by a rule.
fn wanted() -> BTreeSet<String> {
    let rules = rules();
    let mut wanted = BTreeSet::new();
    for (of, expr) in queries().into_iter().map(|query| (query.of, query.expr)).chain(rules.clone()) {
        for name in names(&expr) {
            let is_made = name.starts_with("antiphase:");
            assert!(!is_made || rules.contains_key(&name), "{of}: {name} is made by no rule");
            if !is_made {
                wanted.insert(name);
            }
        }
        let is_others = OF_OTHERS.iter().any(|other| expr.contains(other));
        assert!(is_others || !names(&expr).is_empty(), "{of}: asks for nothing of ours: {expr}");
    }
    wanted
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

/// Takes what the targets expose until all of `wanted` was there.
async fn seen(wanted: &BTreeSet<String>, targets: &[SocketAddr], seen: &mut BTreeSet<String>) {
    let until = Instant::now() + SOON;
    loop {
        for target in targets {
            seen.extend(exposed(&http(*target, "/metrics").unwrap_or_default()));
        }
        let missing: Vec<_> = wanted.difference(seen).collect();
        if missing.is_empty() {
            return;
        }
        assert!(Instant::now() < until, "asked for and not exposed: {missing:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Why a query may be empty.
fn why_empty(query: &Query) -> Option<&'static str> {
    EMPTY.iter().find(|(part, _)| query.expr.contains(part)).map(|(_, why)| *why)
}

/// Asks until every query has had an answer since `began`. Rates need two scrapes, and rules two rounds after those.
async fn answered(prometheus: &Prometheus, queries: Vec<Query>, began: f64) {
    let (may_be_empty, mut left): (Vec<_>, Vec<_>) = queries.into_iter().partition(|query| why_empty(query).is_some());
    for query in may_be_empty {
        // Prometheus refuses what is no query, or has many series on both sides of an operator.
        let (series, why) = (prometheus.series(&query.expr, began, now()), why_empty(&query).unwrap());
        println!("{series} series of {}, which may have none ({why}): {}", query.of, query.expr);
    }
    let until = Instant::now() + SOON;
    loop {
        left.retain(|query| prometheus.series(&query.expr, began, now()) == 0);
        if left.is_empty() {
            return;
        }
        let lines: Vec<_> = left.iter().map(|query| format!("{}: {}", query.of, query.expr)).collect();
        assert!(Instant::now() < until, "queries without an answer:\n{}", lines.join("\n"));
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Four services: jobs by turns; jobs in slots, and in slots with one that is longer than declared; and one that observes and schedules.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_that_is_asked_for_is_exposed_and_every_query_has_an_answer() {
    let (wanted, began) = (wanted(), now());
    let mut turns = Service::start("control = \"turns\"\n[plan]\nttl_s = 3\n[agents]\nreport_ms = 200\n");
    let [slots, wrong] = [(); 2].map(|()| Service::start("control = \"slots\"\n[agents]\nreport_ms = 200\n"));
    let observes = Service::start("control = \"observe\"\n[scheduler]\npolicy = \"srtf\"\ngpus_per_host = 8\n");
    let (services, stop) = ([turns.address, slots.address, wrong.address, observes.address], Arc::new(AtomicBool::new(false)));
    let mut nodes = Vec::new();
    for service in [turns.address, slots.address, wrong.address] {
        for host in ["h1", "h2"] {
            nodes.push(Node::start(service, host).await);
        }
    }
    let agents: Vec<SocketAddr> = nodes.iter().map(|node| node.metrics).chain([agent_with_pauses()]).collect();
    let prometheus = is_installed("prometheus").then(|| Prometheus::start(&services, &agents));
    for service in [&turns, &slots, &wrong, &observes] {
        service.post("commit", &two_jobs(40, 100));
        service.post("evaluate", &json!({}));
    }
    observes.post("submit", &json!({ "job": { "id": "c" }, "gpus": 16, "duration_s": 60 }));
    let ms = Duration::from_millis;
    for (node, (name, computes)) in nodes.iter().zip([("a", 60), ("b", 60), ("a", 60), ("b", 60), ("a", 60), ("b", 100)]) {
        job(&node.pages, name, ms(40), ms(computes), &stop);
    }
    let targets: Vec<SocketAddr> = services.into_iter().chain(agents.iter().copied()).collect();
    let at_the_end: BTreeSet<String> = ["antiphase_agent_gate_fail_open_total".to_owned()].into();
    let first = wanted.difference(&at_the_end).cloned().collect();
    let mut found = BTreeSet::new();
    seen(&first, &targets, &mut found).await;
    // Gates fail open only when the service is gone, and all other queries have to be answered before.
    let (after, before): (Vec<_>, Vec<_>) = queries().into_iter().partition(|query| query.expr.contains("fail_open"));
    if let Some(prometheus) = &prometheus {
        answered(prometheus, before, began).await;
    }
    turns.kill();
    seen(&at_the_end, &targets, &mut found).await;
    if let Some(prometheus) = &prometheus {
        answered(prometheus, after, began).await;
    }
    stop.store(true, Ordering::Relaxed);
    let Some(prometheus) = prometheus else { return };

    let groups = prometheus.ask("/api/v1/rules");
    let rules: Vec<_> = groups["groups"].as_array().unwrap().iter().flat_map(|group| group["rules"].as_array().unwrap()).collect();
    assert!(rules.len() >= 30, "{groups}");
    let sick: Vec<_> = rules.iter().filter(|rule| rule["health"] != "ok").collect();
    assert!(sick.is_empty(), "rules that cannot be evaluated: {sick:?}");
}

#[test]
fn every_exception_is_needed_by_a_query() {
    let queries = queries();
    let needless = |part: &str| !queries.iter().any(|query| query.expr.contains(part));
    let found: Vec<_> = EMPTY.iter().filter(|(part, _)| needless(part)).collect();
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn a_query_that_prometheus_refuses_is_found() {
    if !is_installed("prometheus") {
        return;
    }
    let prometheus = Prometheus::start(&[], &[]);
    assert_eq!(prometheus.series("held_over_free", now() - 1.0, now()), 0);
    let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| prometheus.series("held_over_free{", now() - 1.0, now())));
    let said = refused.unwrap_err();
    assert!(said.downcast_ref::<String>().is_some_and(|said| said.contains("bad_data")), "another failure");
}

#[test]
fn names_are_found_in_queries_and_expositions() {
    let of = |text: &str| names(text).into_iter().collect::<Vec<_>>();
    assert_eq!(of("rate(antiphase_a_total{x=\"antiphase\"}[5m]) / on (instance) antiphase:b:c"), ["antiphase:b:c", "antiphase_a_total"]);
    assert!(of("up == 0").is_empty());
    let lines = "# HELP a b\nantiphase_a{x=\"1\"} 2\nprocess_b 3\n";
    assert_eq!(exposed(lines).into_iter().collect::<Vec<_>>(), ["antiphase_a", "process_b"]);
    let rules = rules();
    assert!(rules["AntiphaseServiceDown"].trim() == "up{job=\"antiphase-topology\"} == 0", "{rules:?}");
    assert_eq!(names(&rules["antiphase:port_losses:rate5m"]).len(), 3);
}
