//! Killed at any moment, the service has everything that it acknowledged.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod support;

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use proptest::test_runner::{RngAlgorithm, TestRng};
use serde_json::{Value, json};
use support::{Service, job, program, request, testbed};

/// Kills of one run, unless `ANTIPHASE_KILLS` says otherwise.
const KILLS: u32 = 40;
const CLIENTS: u64 = 3;
/// Jobs come and go among these, so that a run of any length stays small.
const NAMES: u64 = 8;
/// Latest kill after the storm began.
const KILL_WITHIN_MS: u64 = 120;

/// What a client knows of one job. Only what was acknowledged is certain; one request may be under way when the service dies.
#[derive(Clone, Debug, Default)]
struct Known {
    /// `Some(slot)`: committed, and this was answered. `None`: released, or never committed.
    acknowledged: Option<Value>,
    /// Asked for and not answered.
    pending: bool,
}

type Ledger = Arc<Mutex<BTreeMap<String, Known>>>;

/// Commits and releases jobs of its own until the service is gone.
fn client(address: SocketAddr, id: u64, life: u32, ledger: &Ledger, plan_version: &AtomicU64, stop: &AtomicBool) {
    for round in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let name = format!("c{id}-{}", round % NAMES);
        // Every client has hosts of its own on two leaves, so that its jobs meet those of the others on the uplinks.
        // A commit of a job as it stands would write nothing, so each one has other hosts than the last one of its name, or another order.
        let turn = (round / NAMES + 2 * u64::from(life)) % 4;
        let mut hosts = [format!("h{}", 1 + id), format!("h{}", 5 + turn / 2 * 4 + id)];
        if turn % 2 == 1 {
            hosts.reverse();
        }
        let commit = round / NAMES % 3 != 2;
        let (path, body) = if commit {
            let job = job(&name, &[&hosts[0], &hosts[1]]);
            ("/v1alpha1/commit", json!({ "jobs": [job], "idempotency_key": format!("{name}-{life}-{round}") }))
        } else {
            ("/v1alpha1/release", json!({ "jobs": [name] }))
        };
        ledger.lock().unwrap().entry(name.clone()).or_default().pending = true;
        let Ok(answer) = request(address, "POST", path, &[], body.to_string().as_bytes()) else { return };
        assert_eq!(answer.status, 200, "{answer:?}");
        // The answer may be cut short by the kill, and then it was not acknowledged.
        let Ok(value) = serde_json::from_str::<Value>(&answer.body) else { return };
        plan_version.fetch_max(value["plan_version"].as_u64().unwrap(), Ordering::Relaxed);
        let slot = |s: &Value| s["slots"].as_array().unwrap().iter().find(|s| s["job"] == *name).cloned().unwrap();
        let acknowledged = commit.then(|| slot(&value));
        ledger.lock().unwrap().insert(name, Known { acknowledged, pending: false });
    }
}

/// Everything acknowledged is there, and nothing that was never asked for.
fn check(service: &Service, ledger: &Ledger, plan_version: &AtomicU64) {
    let (_, plan) = service.ask("GET", "/v1alpha1/plan", "");
    assert!(plan["plan_version"].as_u64().unwrap() >= plan_version.load(Ordering::Relaxed), "an acknowledged plan version is gone: {plan}");
    let slots: BTreeMap<&str, &Value> = plan["slots"].as_array().unwrap().iter().map(|s| (s["job"].as_str().unwrap(), s)).collect();
    let mut ledger = ledger.lock().unwrap();
    for (name, known) in ledger.iter_mut() {
        let there = slots.get(name.as_str());
        if !known.pending {
            assert_eq!(there.is_some(), known.acknowledged.is_some(), "{name}: acknowledged {known:?}, found {there:?}");
        }
        if let (Some(there), Some(acknowledged), false) = (there, &known.acknowledged, known.pending) {
            assert_eq!((&there["period_ns"], &there["leader_host"]), (&acknowledged["period_ns"], &acknowledged["leader_host"]));
            // A later commit may have moved it, and then its plan version is later.
            let same = there["offset_ns"] == acknowledged["offset_ns"];
            assert!(same || there["plan_version"].as_u64() > acknowledged["plan_version"].as_u64(), "{name}: {there} after {acknowledged}");
        }
        *known = Known { acknowledged: there.map(|s| (*s).clone()), pending: false };
    }
    assert!(slots.keys().all(|name| ledger.contains_key(*name)), "a job that nobody committed: {slots:?}");
}

/// By slots, because a search for turns takes most of a commit in a debug build, and kills are to meet writes.
fn start(state: &Path) -> Service {
    let config = state.with_file_name("config.toml");
    std::fs::write(&config, "control = \"slots\"\n").unwrap();
    Service::with(program().arg("--config").arg(&config).arg("--state").arg(state).arg("--fabric").arg(testbed()))
}

fn storm(state: &Path, life: u32, ledger: &Ledger, plan_version: &Arc<AtomicU64>, delay: Duration) {
    let mut service = start(state);
    check(&service, ledger, plan_version);
    let stop = Arc::new(AtomicBool::new(false));
    let address = service.address;
    let clients: Vec<_> = (0..CLIENTS)
        .map(|id| {
            let (ledger, plan_version, stop) = (Arc::clone(ledger), Arc::clone(plan_version), Arc::clone(&stop));
            std::thread::spawn(move || client(address, id, life, &ledger, &plan_version, &stop))
        })
        .collect();
    std::thread::sleep(delay);
    service.child.kill().unwrap();
    service.child.wait().unwrap();
    stop.store(true, Ordering::Relaxed);
    clients.into_iter().for_each(|c| c.join().unwrap());
}

#[test]
fn what_was_acknowledged_survives_kills() {
    let kills = std::env::var("ANTIPHASE_KILLS").ok().map_or(KILLS, |n| n.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state.redb");
    let ledger = Ledger::default();
    let plan_version = Arc::new(AtomicU64::new(0));
    let mut random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    for life in 0..kills {
        let delay = Duration::from_micros(rand_below(&mut random, KILL_WITHIN_MS * 1_000));
        storm(&state, life, &ledger, &plan_version, delay);
    }
    let service = start(&state);
    check(&service, &ledger, &plan_version);
    println!("{kills} kills, {} plan versions acknowledged", plan_version.load(Ordering::Relaxed));
    assert!(plan_version.load(Ordering::Relaxed) > u64::from(kills), "hardly anything was committed between the kills");
}

fn rand_below(random: &mut TestRng, bound: u64) -> u64 {
    use proptest::prelude::Rng as _;
    random.next_u64() % bound
}
