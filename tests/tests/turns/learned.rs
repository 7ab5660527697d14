//! A job of which nobody knows anything is learned by its agent from the counters of its node, and planned with that: one that was
//! committed, and one that the scheduler started.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::rig::{FABRIC, Link, Nic, Node, Service};

/// Every wait ends by then.
const SOON: Duration = Duration::from_secs(60);
const LEASE_MS: u64 = 600_000;

/// Sends for 160 ms and computes for 224 to 256, so that it keeps no beat; the mean of its iterations. On a busy machine readings take long,
/// and are made less often then: an iteration has to last for some.
fn run(mut nic: Nic, stop: &AtomicBool) -> Duration {
    let begun = Instant::now();
    let mut iterations = 0_u32;
    while !stop.load(Ordering::Relaxed) {
        Link::default().send(Duration::from_millis(160), |part| nic.send(part));
        std::thread::sleep(Duration::from_millis(224 + 4 * u64::from(iterations * 7 % 9)));
        iterations += 1;
    }
    begun.elapsed() / iterations.max(1)
}

fn job(service: &Service) -> Value {
    service.ask("GET", "jobs", "")["jobs"][0].clone()
}

/// The job, once it is learned.
async fn learned(service: &Service) -> Value {
    let until = Instant::now() + SOON;
    loop {
        let job = job(service);
        if job["learn"] == "learned" {
            return job;
        }
        assert!(Instant::now() < until, "{job:#}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// A submission, once it is as it should be.
async fn submission(service: &Service, name: &str, is: impl Fn(&Value) -> bool) -> Value {
    let until = Instant::now() + SOON;
    loop {
        let found = service.ask("GET", &format!("submissions?jobs={name}"), "")["submissions"][0].take();
        if is(&found) {
            return found;
        }
        assert!(Instant::now() < until, "{found:#}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_without_a_profile_is_learned_and_planned() {
    let service = Service::start();
    let node = Node::start(service.address, "h1").await;
    let (nic, stop) = (node.nic(), Arc::new(AtomicBool::new(false)));
    let commit = json!({ "jobs": [{ "id": "a", "hosts": ["h1", "h3"], "learn": true }], "lease_ms": LEASE_MS }).to_string();
    service.ask("POST", "commit", &commit);
    let before = job(&service);
    assert_eq!((&before["learn"], before["solo_period_ns"].as_u64().unwrap_or(0)), (&json!("learning"), 0), "{before:#}");

    let stopped = Arc::clone(&stop);
    let runs = std::thread::spawn(move || run(nic, &stopped));
    let learned = learned(&service).await;
    stop.store(true, Ordering::Relaxed);
    let mean = u64::try_from(runs.join().unwrap().as_nanos()).unwrap();

    // As it ran, as far as a busy machine keeps its pace; its lease is the one that it was committed with.
    let period = learned["solo_period_ns"].as_u64().unwrap();
    assert!(period.abs_diff(mean) < mean / 4, "{period} in place of {mean}");
    assert_eq!(learned["lease_expires_ns"].as_u64().unwrap(), before["lease_expires_ns"].as_u64().unwrap());
    let events = service.ask("GET", "events?limit=1000", "");
    let said: Vec<&str> =
        events["events"].as_array().unwrap().iter().filter(|e| e["kind"] == "learned").map(|e| e["message"].as_str().unwrap()).collect();
    assert!(said.len() == 1 && said[0].starts_with("job a was learned: "), "{said:?}");
    println!("{}", said[0]);
    // The links have its demand now, at what one direction carries of the 16 Gb/s both ways.
    let links = service.ask("GET", "links?demands=true", "");
    let rates: Vec<u64> =
        links["links"].as_array().unwrap().iter().filter_map(|link| link["demands"][0]["phases"][0]["rate_mbps"].as_u64()).collect();
    assert!(!rates.is_empty() && rates.iter().all(|rate| (4_000..=10_000).contains(rate)), "{links:#}");
    // Committed again as it was, to renew its lease, it is still known.
    service.ask("POST", "commit", &commit);
    let again = job(&service);
    assert_eq!((&again["learn"], again["solo_period_ns"].as_u64()), (&json!("learned"), Some(period)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_is_submitted_to_be_learned_is_planned_and_starts_again_as_it_was_learned() {
    let service = Service::with(Some(FABRIC), "scheduler = { policy = \"srtf\", gpus_per_host = 1 }\n");
    let submit = json!({ "job": { "id": "a", "learn": true }, "gpus": 2, "duration_s": 36_000 });
    service.ask("POST", "submit", &submit.to_string());
    let report = |job: &str, attempt: u32, report: &str| {
        service.ask("POST", "report", &json!({ "job": job, "attempt": attempt, "report": report }).to_string());
    };
    let starting = submission(&service, "a", |a| a["state"] == "starting").await;
    assert!(starting["why"].as_str().unwrap().ends_with("; runs free until it is learned"), "{starting:#}");
    let leader = starting["place"][0]["host"].as_str().unwrap().to_owned();
    let node = Node::start(service.address, &leader).await;
    report("a", 1, "started");
    let (nic, stop) = (node.nic(), Arc::new(AtomicBool::new(false)));
    let stopped = Arc::clone(&stop);
    let runs = std::thread::spawn(move || run(nic, &stopped));
    let before = learned(&service).await;
    stop.store(true, Ordering::Relaxed);
    runs.join().unwrap();
    let kept = submission(&service, "a", |a| a["why"].as_str().unwrap().ends_with("; planned as it was learned")).await;
    assert_eq!((&kept["state"], &kept["planned"], kept["attempt"].as_u64()), (&json!("running"), &json!(true), Some(1)));

    // A shorter one takes its place, and nobody has to learn it anew.
    service.ask("POST", "submit", &json!({ "job": { "id": "b" }, "gpus": 4, "duration_s": 5 }).to_string());
    submission(&service, "a", |a| a["state"] == "stopping").await;
    report("a", 1, "stopped");
    let free = submission(&service, "b", |b| b["state"] == "starting").await;
    assert!(free["why"].as_str().unwrap().ends_with("; runs free, without a profile and not to be learned"), "{free:#}");
    report("b", 1, "finished");
    submission(&service, "a", |a| a["state"] == "starting" && a["attempt"] == 2).await;
    let again = job(&service);
    assert_eq!((&again["learn"], &again["solo_period_ns"]), (&json!("learned"), &before["solo_period_ns"]), "{again:#}");
    let events = service.ask("GET", "events?limit=1000", "");
    let count = |kind: &str| events["events"].as_array().unwrap().iter().filter(|event| event["kind"] == kind).count();
    assert_eq!(count("learned"), 1, "{events:#}");
}
