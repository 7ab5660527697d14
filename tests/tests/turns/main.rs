//! From end to end, with the real service in a process of its own and two agents: turns of two jobs with real gates in threads, the
//! cabling that agents see, and a job that an agent learns.
#![allow(clippy::unwrap_used, reason = "tests")]

mod cabling;
mod learned;
mod rig;
mod two_hosts;

use std::time::Duration;

use gate_core::{Mode, Reason};

use rig::{Ends, Jobs, Node, Service, Start, overlap, sent, two_jobs};
use serde_json::Value;

/// A start waits for no longer than this, whatever happens: an iteration of 100 ms, and what a busy machine adds.
const WAIT_MAX: Duration = Duration::from_millis(250);
/// Jobs that take turns are beside each other for a smaller share of the time in which they send.
const TOGETHER_MAX: f64 = 0.1;
/// How often jobs are looked at for three seconds.
const LOOKS: usize = 3;

fn longest(starts: &[Start]) -> Duration {
    starts.iter().map(|start| start.waited).max().unwrap_or_default()
}

/// Share of the time in which both send, of that in which one does.
fn share(starts: &[Vec<Start>; 2]) -> f64 {
    overlap(starts).as_secs_f64() / sent(starts).as_secs_f64().max(1e-9)
}

/// Two jobs of 40 ms in 100 ms begin at the same time, so that without turns they would send beside each other for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_take_turns_and_go_on_without_a_service_and_take_turns_again() {
    let mut service = Service::start();
    let nodes = [Node::start(service.address, "h1").await, Node::start(service.address, "h2").await];
    service.commit(40, 100);
    for (node, job) in nodes.iter().zip(["a", "b"]) {
        node.page(job, Mode::Turn).await;
    }

    let jobs = Jobs::start([(&nodes[0].pages, "a", Ends::Told), (&nodes[1].pages, "b", Ends::Told)]);
    tokio::time::sleep(Duration::from_millis(500)).await;
    jobs.take();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let starts = jobs.take();
    let by_turns = share(&starts);
    println!("{} and {} starts, {:.1} % beside each other", starts[0].len(), starts[1].len(), by_turns * 100.0);
    assert!(starts.iter().all(|starts| starts.len() > 10), "{starts:?}");
    assert!(by_turns < 0.05, "{starts:?}");
    let granted = starts.iter().flatten().filter(|start| start.because == Reason::Granted).count();
    assert!(granted * 10 > starts.iter().flatten().count() * 8, "{starts:?}");

    // Killed in a turn: nobody is told, and everybody goes on.
    service.kill();
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let starts = jobs.take();
    for starts in &starts {
        assert!(longest(starts) < WAIT_MAX && starts.len() > 7, "{starts:?}");
    }

    // It is there again: within 2 s the jobs take turns, whatever they do meanwhile.
    service.again();
    tokio::time::sleep(Duration::from_secs(2)).await;
    jobs.meet();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let between = jobs.take();
    assert!(between.iter().all(|starts| longest(starts) < WAIT_MAX), "{between:?}");
    tokio::time::sleep(Duration::from_secs(2)).await;
    let starts = jobs.take();
    println!("after the restart {:.1} % beside each other", share(&starts) * 100.0);
    assert!(share(&starts) < 0.05, "{starts:?}");
    jobs.stop();
}

/// How much two jobs that call only `step()` send beside each other, once their agents have learned when they end.
async fn without_done(declared: u64, ends: impl Fn(&Node) -> Ends) -> f64 {
    let service = Service::start();
    let nodes = [Node::start(service.address, "h1").await, Node::start(service.address, "h2").await];
    let [first, second] = [0, 1].map(|node| ends(&nodes[node]));
    service.commit(declared, 100);
    for (node, job) in nodes.iter().zip(["a", "b"]) {
        node.page(job, Mode::Turn).await;
    }
    let jobs = Jobs::start([(&nodes[0].pages, "a", first), (&nodes[1].pages, "b", second)]);
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    jobs.meet();
    tokio::time::sleep(Duration::from_millis(500)).await;
    jobs.take();
    let mut least = f64::INFINITY;
    // A comparison lets them run beside each other for twelve iterations, and may fall into one of three looks.
    for _ in 0..LOOKS {
        tokio::time::sleep(Duration::from_secs(2)).await;
        jobs.meet();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let starts = jobs.take();
        assert!(starts.iter().all(|starts| starts.len() > 10 && longest(starts) < WAIT_MAX), "{starts:?}");
        // Who takes turns is granted them; who takes none is let go at once, and meets the other after `meet`.
        let waited = starts.iter().flatten().any(|start| start.waited > Duration::from_millis(5));
        least = if waited { least.min(share(&starts)) } else { least };
        if least < TOGETHER_MAX {
            break;
        }
    }
    jobs.stop();
    least
}

/// The profile says half of what the jobs send, so an end that is taken from it would come in the middle of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_that_call_only_step_take_turns_by_the_bytes_of_their_nodes() {
    let by_bytes = without_done(20, |node| Ends::Counted(node.nic())).await;
    println!("{:.1} % beside each other", by_bytes * 100.0);
    assert!(by_bytes < TOGETHER_MAX, "{by_bytes}");
}

/// Declared are 70 ms of which 20 send; what runs takes 100 ms and sends for 40. The service plans with what it measured, says so, and
/// evaluates with it too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_with_a_wrong_profile_are_planned_as_measured() {
    let service = Service::start();
    let nodes = [Node::start(service.address, "h1").await, Node::start(service.address, "h2").await];
    service.commit(20, 70);
    for (node, job) in nodes.iter().zip(["a", "b"]) {
        node.page(job, Mode::Turn).await;
    }
    let jobs = Jobs::start([(&nodes[0].pages, "a", Ends::Told), (&nodes[1].pages, "b", Ends::Told)]);
    let measured = service.measured(20, 70).await;
    jobs.stop();

    // On a busy machine both compute and send for longer than they try to, but for far longer than declared in any case.
    let ms = |value: &Value| Duration::from_nanos(value.as_u64().unwrap_or_default());
    let (iteration, sends) = (Duration::from_millis(95)..Duration::from_millis(140), Duration::from_millis(38)..Duration::from_millis(70));
    for job in &measured {
        println!("{}: {:?}, sends for {:?}", job["id"], ms(&job["solo_period_ns"]), ms(&job["measured_up_ns"]));
        assert_eq!(ms(&job["declared_period_ns"]), Duration::from_millis(70), "{job}");
        assert!(iteration.contains(&ms(&job["solo_period_ns"])) && sends.contains(&ms(&job["measured_up_ns"])), "{job}");
    }
    let events = service.ask("GET", "events", "")["events"].as_array().unwrap().clone();
    assert!(events.iter().any(|event| event["kind"] == "measured"), "{events:?}");
    // The same profile again: it is the job that was measured. Another one is another job.
    let alone = |mut jobs: Value| {
        jobs["predict"] = true.into();
        let answer = service.ask("POST", "evaluate", &jobs.to_string());
        let shifts = answer["ranked"][0]["shifts"].as_array().unwrap();
        shifts.iter().map(|shift| ms(&shift["solo_ns"])).collect::<Vec<_>>()
    };
    let (same, other) = (alone(two_jobs(20, 70)), alone(two_jobs(20, 80)));
    assert!(same.len() == 2 && same.iter().all(|solo| iteration.contains(solo)), "{same:?}");
    assert_eq!(other, [Duration::from_millis(80); 2]);
}

#[test]
#[ignore = "the other tests run this as a process of its own"]
fn a_service_in_a_process_of_its_own() {
    rig::serve();
}
