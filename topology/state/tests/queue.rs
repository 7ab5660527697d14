//! Changes that wait for the store: how many may, in which order, and in which batches.
#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap has failed")]

mod world;

use antiphase_state::{
    Change, Event, Refusal, RequestId,
    config::{BATCH_MAX, QUEUE_MAX},
};
use world::Driver;

/// Up for 40 of 100 ms, over the spine between leaves 1 and 2.
const A: (&str, &str) = ("a", "100 0-40 h1,h5");

#[test]
fn a_queue_that_is_full_refuses() {
    let mut driver = Driver::with_fabric();
    driver.slow = true;
    driver.send_commit(&[A]);
    for _ in 0..QUEUE_MAX {
        let request = driver.request();
        driver.handle(Event::Asked { request, change: Change::Release { by: None, jobs: vec![] } });
        assert!(driver.reply(request).is_none());
    }
    let request = driver.request();
    driver.handle(Event::Asked { request, change: Change::Release { by: None, jobs: vec![] } });
    assert!(matches!(driver.reply(request), Some(Err(Refusal::Limit { .. }))));
}

/// Who asks for many changes is served in turn with the others, also where batches are short.
#[test]
fn changes_of_one_user_keep_those_of_others_waiting_for_no_more_than_a_few() {
    let mut driver = Driver::with_fabric();
    driver.slow = true;
    driver.send_commit(&[A]);
    let mut release = |by: &str, name: String| {
        let request = driver.request();
        driver.handle(Event::Asked { request, change: Change::Release { by: Some(by.into()), jobs: vec![name] } });
        request
    };
    let alice: Vec<RequestId> = (0..3 * BATCH_MAX).map(|n| release("alice", format!("a{n}"))).collect();
    let bob = [release("bob", "b0".into()), release("bob", "b1".into())];
    // The next batch holds as many as it may.
    driver.persisted();
    assert!(bob.iter().all(|request| driver.reply(*request).is_some()));
    let answered = alice.iter().filter(|request| driver.reply(**request).is_some()).count();
    assert!(answered >= BATCH_MAX - 2, "{answered}");
}

#[test]
fn a_batch_ends_once_it_has_touched_many_jobs() {
    let mut driver = Driver::with_fabric();
    let names: Vec<String> = (0..260).map(|n| format!("j{n:03}")).collect();
    let jobs: Vec<(&str, &str)> = names.iter().map(|n| (n.as_str(), "100 0-1 h1,h5")).collect();
    driver.commit(&jobs);
    // Seven changes; those behind the first wait for the store, and each touches all that are left.
    driver.slow = true;
    let requests: Vec<RequestId> = names[..7]
        .iter()
        .map(|name| {
            let request = driver.request();
            driver.handle(Event::Asked { request, change: Change::Release { by: None, jobs: vec![name.clone()] } });
            request
        })
        .collect();
    let mut done = Vec::new();
    while driver.waiting.is_some() {
        driver.persisted();
        done.push(requests.iter().filter(|r| driver.reply(**r).is_some()).count());
    }
    // 259 + 258 + 257 + 256 = 1,030; and each plans more phases than a batch may.
    assert_eq!(done, [1, 2, 3, 4, 5, 6, 7]);
}

/// A component of four jobs of eight phases takes half a second to plan, though it has few jobs and phases.
#[test]
fn a_batch_of_small_changes_that_take_long_ends_soon() {
    let mut driver = Driver::with_fabric();
    let spans = |from: u64| (0..8).map(|n| format!("{}-{}", 100 * n + from, 100 * n + from + 30)).collect::<Vec<_>>().join(" ");
    let hosts = ["h1,h5", "h2,h6", "h3,h7", "h4,h8"];
    driver.slow = true;
    let requests: Vec<RequestId> = (0..12)
        .map(|change| {
            // Each time other profiles, or nothing would have to be planned.
            let job = |n: u64| format!("{} {} {}", 800 + 30 * n, spans(7 * n + change), hosts[n as usize]);
            let jobs = [0, 1, 2, 3].map(job);
            driver.send_commit(&[("a", &*jobs[0]), ("b", &*jobs[1]), ("c", &*jobs[2]), ("d", &*jobs[3])])
        })
        .collect();
    let mut before = 0;
    while driver.waiting.is_some() {
        driver.persisted();
        let done = requests.iter().filter(|r| driver.reply(**r).is_some()).count();
        assert!(done - before <= 4, "{before} changes were answered, and then {done}");
        before = done;
    }
    assert_eq!(before, requests.len());
}

/// Few jobs of so many phases that planning them takes long: each change is a batch of its own.
#[test]
fn a_batch_ends_once_it_has_planned_many_phases() {
    let mut driver = Driver::with_fabric();
    let spans: Vec<String> = (0..2_000).map(|n| format!("{}-{}", 2 * n, 2 * n + 1)).collect();
    let long = |hosts: &str| format!("4000 {} {hosts}", spans.join(" "));
    driver.commit(&[("a", &long("h1,h5")), ("b", &long("h2,h6"))]);
    driver.slow = true;
    let others = [("c", "100 0-1 h3,h7"), ("d", "100 0-1 h4,h8"), ("e", "100 0-1 h1,h6")];
    let requests: Vec<RequestId> = others.iter().map(|job| driver.send_commit(&[*job])).collect();
    let mut done = Vec::new();
    while driver.waiting.is_some() {
        driver.persisted();
        done.push(requests.iter().filter(|r| driver.reply(**r).is_some()).count());
    }
    assert_eq!(done, [1, 2, 3]);
}
