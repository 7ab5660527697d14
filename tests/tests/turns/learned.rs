//! A job of which nobody knows anything is learned by its agent from the counters of its node, and planned with that.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::rig::{Link, Nic, Node, Service};

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
    let until = Instant::now() + SOON;
    let learned = loop {
        let job = job(&service);
        if job["learn"] == "learned" {
            break job;
        }
        assert!(Instant::now() < until, "{job:#}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
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
