//! Clients that commit, release and read the same jobs at once, of a service that is killed again and again: what they saw has an order.
//!
//! The checker is `support/order.rs`. A request that a kill left without an answer has taken its moment before the kill, or never.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod support;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use support::{
    Service, job,
    order::{self, Op, Seen, ends},
    program, request, testbed,
};

/// Kills of one run, unless `ANTIPHASE_KILLS` says otherwise.
const KILLS: u64 = 25;
const CLIENTS: u64 = 4;
/// Fewer jobs than clients, so that they meet.
const JOBS: u64 = 3;
/// Hosts of the testbed; a pair of them is what a commit writes.
const HOSTS: u64 = 24;
/// Latest kill after the clients began.
const KILL_WITHIN_MS: u64 = 150;

#[test]
fn the_checker_knows_what_has_an_order() {
    let entry = |op, began: u64, answered: Option<u64>| order::Entry { op, began, answered };
    let seen = |text: &str| Some(text.to_owned());
    let (empty, writes, reads) = (BTreeSet::from([None]), |v: &str| Op::Writes(seen(v)), |v: &str| Op::Reads(seen(v)));
    // A read that overlaps a write sees the old or the new, and what comes after a read of the new cannot see the old.
    let overlaps = |second| vec![entry(writes("a"), 0, Some(10)), entry(reads("a"), 1, Some(2)), entry(second, 3, Some(4))];
    assert_eq!(ends(&empty, &overlaps(reads("a"))), BTreeSet::from([seen("a")]));
    assert!(ends(&empty, &overlaps(Op::Reads(None))).is_empty(), "new, then old");
    // What was acknowledged is lost.
    assert!(ends(&empty, &[entry(writes("a"), 0, Some(1)), entry(Op::Reads(None), 2, Some(3))]).is_empty());
    // Two writes at once end either way; one that was never answered may have been, or not, and may be late.
    let both = [entry(writes("a"), 0, Some(9)), entry(writes("b"), 1, Some(8))];
    assert_eq!(ends(&empty, &both), BTreeSet::from([seen("a"), seen("b")]));
    let unknown =
        [entry(writes("a"), 0, None), entry(writes("b"), 1, Some(2)), entry(reads("b"), 3, Some(4)), entry(reads("a"), 5, Some(6))];
    assert_eq!(ends(&empty, &unknown), BTreeSet::from([seen("a")]));
    assert_eq!(ends(&empty, &unknown[..2]), BTreeSet::from([seen("a"), seen("b")]));
    assert!(ends(&BTreeSet::from([None, seen("c")]), &[entry(reads("a"), 0, Some(1))]).is_empty());
}

/// One request of one client about one job.
type Entry = order::Entry<Instant>;
type Histories = Arc<Mutex<BTreeMap<String, Vec<Entry>>>>;

/// Asks until the service is gone.
fn client(address: SocketAddr, seed: u64, values: &AtomicU64, histories: &Histories) {
    let mut random = seed;
    loop {
        // Marsaglia, "Xorshift RNGs", 2003.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let name = format!("j{}", (random >> 8) % JOBS);
        let (op, answer, began, answered);
        match random % 5 {
            0 | 1 => {
                let value = values.fetch_add(1, Ordering::Relaxed);
                // Pairs of hosts in turn, so that the same one comes again only after hundreds of commits.
                let pair = [1 + value % HOSTS, 1 + (value + 1 + value / HOSTS % (HOSTS - 1)) % HOSTS].map(|host| format!("h{host}"));
                let body = json!({ "jobs": [job(&name, &[&pair[0], &pair[1]])] }).to_string();
                op = Op::Writes(Some(pair.join(",")));
                began = Instant::now();
                answer = request(address, "POST", "/v1alpha1/commit", &[], body.as_bytes());
                answered = Instant::now();
            }
            2 => {
                op = Op::Writes(None);
                began = Instant::now();
                answer = request(address, "POST", "/v1alpha1/release", &[], json!({ "jobs": [name] }).to_string().as_bytes());
                answered = Instant::now();
            }
            _ => {
                began = Instant::now();
                let list = request(address, "GET", "/v1alpha1/jobs?fields=jobs.id,jobs.hosts", &[], b"");
                answered = Instant::now();
                let Some(seen) = list.ok().filter(|list| list.status == 200).and_then(|list| read(&list.body)) else { return };
                // One list reads every job.
                let mut histories = histories.lock().unwrap();
                for number in 0..JOBS {
                    let name = format!("j{number}");
                    let op = Op::Reads(seen.get(&name).cloned());
                    histories.entry(name).or_default().push(Entry { op, began, answered: Some(answered) });
                }
                continue;
            }
        }
        // An answer that the kill cut short is none.
        let whole = answer.as_ref().ok().filter(|answer| serde_json::from_str::<Value>(&answer.body).is_ok());
        assert!(whole.is_none_or(|answer| answer.status == 200), "{answer:?}");
        let is_answered = whole.is_some();
        histories.lock().unwrap().entry(name).or_default().push(Entry { op, began, answered: is_answered.then_some(answered) });
        if !is_answered {
            return;
        }
    }
}

/// Hosts by job.
fn read(body: &str) -> Option<BTreeMap<String, String>> {
    let value: Value = serde_json::from_str(body).ok()?;
    let hosts = |job: &Value| job["hosts"].as_array().unwrap().iter().map(|host| host.as_str().unwrap()).collect::<Vec<_>>().join(",");
    // An empty list is left out.
    let jobs = value["jobs"].as_array().cloned().unwrap_or_default();
    Some(jobs.iter().map(|job| (job["id"].as_str().unwrap().to_owned(), hosts(job))).collect())
}

/// By slots, because a search for turns takes most of a commit in a debug build, and kills are to meet writes.
fn start(state: &Path) -> Service {
    let config = state.with_file_name("config.toml");
    std::fs::write(&config, "control = \"slots\"\n").unwrap();
    Service::with(program().arg("--config").arg(&config).arg("--state").arg(state).arg("--fabric").arg(testbed()))
}

#[test]
fn histories_of_clients_that_share_jobs_have_an_order_over_kills() {
    let kills = std::env::var("ANTIPHASE_KILLS").ok().map_or(KILLS, |n| n.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state.redb");
    let (values, mut random) = (Arc::new(AtomicU64::new(0)), 0x9E37_79B9_7F4A_7C15_u64);
    let mut held: BTreeMap<String, BTreeSet<Seen>> = (0..JOBS).map(|n| (format!("j{n}"), BTreeSet::from([None]))).collect();
    let (mut requests, mut unanswered, mut overlapping) = (0, 0, 0);
    for life in 0..=kills {
        let mut service = start(&state);
        let (address, histories) = (service.address, Histories::default());
        // What a restart found is a read of every job, which is over before anybody asks.
        let began = Instant::now();
        let found = read(&service.get("/v1alpha1/jobs?fields=jobs.id,jobs.hosts").body).unwrap();
        let answered = Some(Instant::now());
        for name in held.keys() {
            let entry = Entry { op: Op::Reads(found.get(name).cloned()), began, answered };
            histories.lock().unwrap().entry(name.clone()).or_default().push(entry);
        }
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client_id| {
                let (values, histories, seed) = (Arc::clone(&values), Arc::clone(&histories), 1 + life * CLIENTS + client_id);
                let seed = seed.wrapping_mul(0x2545_F491_4F6C_DD1D);
                std::thread::spawn(move || client(address, seed, &values, &histories))
            })
            .collect();
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(Duration::from_millis((random >> 33) % KILL_WITHIN_MS));
        service.child.kill().unwrap();
        service.child.wait().unwrap();
        clients.into_iter().for_each(|client| client.join().unwrap());
        for (name, history) in histories.lock().unwrap().iter() {
            let after = ends(&held[name], history);
            assert!(!after.is_empty(), "life {life}: what was seen of {name} has no order: {:?}, then {history:#?}", held[name]);
            requests += history.len();
            unanswered += history.iter().filter(|entry| entry.answered.is_none()).count();
            let overlaps = |a: &Entry, b: &Entry| a.began < b.began && a.answered.is_none_or(|answered| answered > b.began);
            overlapping += history.iter().filter(|a| history.iter().any(|b| overlaps(a, b))).count();
            held.insert(name.clone(), after);
        }
    }
    println!("{kills} kills: {requests} requests about {JOBS} jobs, {overlapping} that overlap others, {unanswered} without an answer");
    assert!(unanswered > 0 && overlapping as u64 > kills, "{unanswered} {overlapping}");
}
