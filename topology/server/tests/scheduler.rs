//! The scheduler through the real service: submissions, orders, reports, and what a restart finds.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod support;

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use proto::v1alpha1::{self as pb, topology_client::TopologyClient};
use rustix::process::Signal;
use serde_json::{Value, json};
use support::{Service, WAIT, program, testbed};
use tonic::transport::Channel;

/// A service of the testbed's 24 hosts with two GPUs each.
fn start(folder: &Path, policy: &str, more: &str) -> Service {
    let config = folder.join("config.toml");
    let text = format!("control = \"turns\"\n[scheduler]\npolicy = \"{policy}\"\ngpus_per_host = 2\n{more}");
    fs::write(&config, text).unwrap();
    Service::with(program().arg("--config").arg(&config).arg("--state").arg(folder.join("state.redb")).arg("--fabric").arg(testbed()))
}

fn job(name: &str, gpus: u32, iterations: u64) -> Value {
    json!({ "job": { "id": name, "model": { "name": "vgg16" } }, "gpus": gpus, "iterations": iterations })
}

fn submit(service: &Service, body: &Value) -> Value {
    let (status, answer) = service.ask("POST", "/v1alpha1/submit", &body.to_string());
    assert_eq!(status, 200, "{answer}");
    answer
}

fn report(service: &Service, job: &str, attempt: u64, report: &str) -> (u16, Value) {
    service.ask("POST", "/v1alpha1/report", &json!({ "job": job, "attempt": attempt, "report": report }).to_string())
}

fn one(service: &Service, job: &str) -> Value {
    let (status, mut answer) = service.ask("GET", &format!("/v1alpha1/submissions?jobs={job}"), "");
    assert_eq!(status, 200, "{answer}");
    answer["submissions"][0].take()
}

fn wait(service: &Service, job: &str, state: &str) -> Value {
    let until = Instant::now() + WAIT;
    loop {
        let found = one(service, job);
        if found["state"] == state {
            return found;
        }
        assert!(Instant::now() < until, "{job} is not {state}: {found}\n{}", service.log());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The orders so far: kind, job, attempt.
fn orders(service: &Service) -> Vec<(String, String, u64)> {
    let (_, answer) = service.ask("GET", "/v1alpha1/events?limit=1000", "");
    let events = answer["events"].as_array().unwrap().iter().filter(|event| event["order"].is_object());
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    events.map(|e| (text(&e["kind"]), text(&e["job"]), e["order"]["attempt"].as_u64().unwrap())).collect()
}

fn planned(service: &Service) -> Vec<String> {
    let (_, answer) = service.ask("GET", "/v1alpha1/jobs", "");
    answer["jobs"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn without_the_table_every_call_says_so_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let service = Service::start(&folder.path().join("state.redb"));
    for (method, path, body) in [
        ("POST", "submit", job("a", 1, 1)),
        ("POST", "withdraw", json!({ "job": "a" })),
        ("POST", "report", json!({ "job": "a", "attempt": 1, "report": "started" })),
        ("GET", "submissions", Value::Null),
    ] {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (status, message) = service.refused(method, &format!("/v1alpha1/{path}"), &body);
        assert_eq!((status, message.as_str()), (412, "this service has no scheduler"), "{path}");
    }
}

#[test]
fn jobs_are_queued_started_preempted_and_end() {
    let folder = tempfile::tempdir().unwrap();
    let service = start(folder.path(), "srtf", "");
    // All 48 GPUs, for a long time; then a short job of 8.
    assert_eq!(submit(&service, &job("long", 48, 1_000_000))["gpus"], 48);
    let long = wait(&service, "long", "starting");
    assert_eq!((long["attempt"].as_u64(), long["place"].as_array().unwrap().len(), long["planned"].as_bool()), (Some(1), 24, Some(true)));
    assert_eq!(planned(&service), ["long"]);
    assert_eq!(report(&service, "long", 1, "started").1["state"], "running");
    submit(&service, &job("short", 8, 1_000));
    let long = wait(&service, "long", "stopping");
    assert!(long["why"].as_str().unwrap().contains("short"), "{long}");
    let short = one(&service, "short");
    assert_eq!((short["state"].as_str(), short["place"].as_array().unwrap().len()), (Some("queued"), 0), "the GPUs are not free yet");
    assert!(short["why"].as_str().unwrap().contains("others have to stop"), "{short}");
    assert_eq!(report(&service, "long", 1, "stopped").0, 200);
    let short = wait(&service, "short", "starting");
    // Eight ranks on four hosts of two GPUs; ten places were compared.
    let place = short["place"].as_array().unwrap();
    assert!(place.len() == 4 && place.iter().all(|place| place["gpus"] == json!([0, 1])), "{short}");
    assert!(short["why"].as_str().unwrap().contains("times alone (most compact"), "{short}");
    assert_eq!(planned(&service), ["short"]);
    report(&service, "short", 1, "started");
    let (status, finished) = report(&service, "short", 1, "finished");
    assert_eq!((status, finished["state"].as_str()), (200, Some("finished")));
    wait(&service, "long", "starting");
    assert_eq!(planned(&service), ["long"]);
    let (status, refused) = report(&service, "long", 1, "started");
    assert_eq!((status, refused["code"].as_str()), (409, Some("conflict")), "{refused}");
    let expected = [("job_start", "long", 1), ("job_preempt", "long", 1), ("job_start", "short", 1), ("job_start", "long", 2)];
    assert_eq!(orders(&service), expected.map(|(kind, job, attempt)| (kind.to_owned(), job.to_owned(), attempt)));
    let metrics = service.get("/metrics").body;
    for line in [
        "antiphase_submissions{state=\"starting\"} 1",
        "antiphase_submissions{state=\"finished\"} 1",
        "antiphase_scheduler_gpus{of=\"held\"} 48",
        "antiphase_events_total{kind=\"job_preempt\"} 1",
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
    assert!(metrics.contains("antiphase_scheduler_decision_seconds_count"));
    // Who submitted and who withdrew is kept, also where the job has to stop first.
    assert_eq!(service.ask("POST", "/v1alpha1/withdraw", r#"{"job": "long"}"#).0, 200);
    let (_, audit) = service.ask("GET", "/v1alpha1/audit", "");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let trail: Vec<_> = audit["entries"].as_array().unwrap().iter().map(|e| (text(&e["kind"]), text(&e["message"]))).collect();
    let expected = [
        ("submitted", "job long was submitted: 48 GPUs"),
        ("submitted", "job short was submitted: 8 GPUs"),
        ("job_preempt", "job long has to stop: was withdrawn"),
    ];
    assert_eq!(trail[1..], expected.map(|(kind, message)| (kind.to_owned(), message.to_owned())), "after the fabric: {audit}");
    assert!(audit["entries"][3]["by"].as_str().unwrap().ends_with(" on this machine"), "{audit}");
}

#[test]
fn what_others_commit_stays_theirs_and_what_is_submitted_stays_the_schedulers() {
    let folder = tempfile::tempdir().unwrap();
    let service = start(folder.path(), "themis", "without = [\"h1\", \"h2\"]\n");
    let others: Vec<String> = (3..=20).map(|host| format!("h{host}")).collect();
    let others: Vec<&str> = others.iter().map(String::as_str).collect();
    assert_eq!(service.commit("theirs", &others).0, 200);
    // Four hosts are left, of which one job wants all and another one none.
    let big = json!({ "job": { "id": "a" }, "gpus": 8, "duration_s": 60 });
    submit(&service, &big);
    let a = wait(&service, "a", "starting");
    let hosts: Vec<&str> = a["place"].as_array().unwrap().iter().map(|place| place["host"].as_str().unwrap()).collect();
    assert_eq!(hosts, ["h21", "h22", "h23", "h24"]);
    assert!(
        !a["planned"].as_bool().unwrap() && a["why"].as_str().unwrap().ends_with("runs free, without a profile and not to be learned"),
        "{a}"
    );
    submit(&service, &job("b", 4, 10));
    assert_eq!(wait(&service, "b", "queued")["attempt"], 0);
    // The hosts that others give back are used at once.
    service.ask("POST", "/v1alpha1/release", &json!({ "jobs": ["theirs"] }).to_string());
    wait(&service, "b", "starting");
    let (status, message) = service.refused("POST", "/v1alpha1/release", &json!({ "jobs": ["b"] }).to_string());
    assert_eq!((status, message.as_str()), (409, "job \"b\" is the scheduler's; withdraw it there"));
    assert_eq!(service.commit("b", &["h3", "h4"]).0, 409);
    let (status, message) = service.refused("POST", "/v1alpha1/submit", &job("x", 45, 10).to_string());
    assert_eq!((status, message.as_str()), (400, "job \"x\" needs 45 GPUs; the cluster has 44"));
    service.commit("mine", &["h5", "h6"]);
    let mine = json!({ "job": { "id": "mine" }, "gpus": 1, "duration_s": 1 }).to_string();
    let (status, message) = service.refused("POST", "/v1alpha1/submit", &mine);
    assert_eq!((status, message.as_str()), (409, "job \"mine\" was committed by somebody else"));
}

#[test]
fn the_fabric_says_how_many_gpus_hosts_have_and_nobody_contradicts_it() {
    let folder = tempfile::tempdir().unwrap();
    let (config, file) = (folder.path().join("config.toml"), folder.path().join("fabric.yaml"));
    let with = |gpus: &str| format!("{}\ngpus: {gpus}\n", fs::read_to_string(testbed()).unwrap());
    let large = with("[{hosts: [h1], count: 8}, {hosts: [h3], count: 1}, {count: 2}]");
    fs::write(&file, &large).unwrap();
    let write = |more: &str| fs::write(&config, format!("control = \"turns\"\n[scheduler]\npolicy = \"srtf\"\n{more}")).unwrap();
    let start = |state: &str| {
        let state = folder.path().join(state);
        Service::try_with(program().arg("--config").arg(&config).arg("--state").arg(state).arg("--fabric").arg(&file))
    };
    write("");
    let mut service = start("state.redb").unwrap_or_else(|(_, said)| panic!("{said}"));
    let (status, message) = service.refused("POST", "/v1alpha1/submit", &job("x", 54, 10).to_string());
    assert_eq!((status, message.as_str()), (400, "job \"x\" needs 54 GPUs; the cluster has 53"));
    submit(&service, &job("a", 8, 1_000_000));
    let a = wait(&service, "a", "starting");
    assert_eq!(a["place"], json!([{ "host": "h1", "gpus": [0, 1, 2, 3, 4, 5, 6, 7] }]), "{a}");
    // Whoever commits more than a host has is told so.
    assert!(!service.commit("one", &["h3"]).1.to_string().contains("GPUs"));
    let crowded = "host h3: the jobs one, two use 2 GPUs, and it has 1 (GPUs): some may be on the same GPU";
    assert_eq!(service.commit("two", &["h3"]).1["warnings"][0], crowded);
    // A host that loses GPUs gives its job up, which then stands on four others.
    let (status, answer) = service.ask("PUT", "/v1alpha1/fabric", &with("[{count: 2}]"));
    assert_eq!(status, 200, "{answer}");
    let stops = wait(&service, "a", "stopping");
    assert!(stops["why"].as_str().unwrap().contains("host \"h1\" has fewer GPUs"), "{stops}");
    report(&service, "a", 1, "stopped");
    assert_eq!(wait(&service, "a", "starting")["place"].as_array().unwrap().len(), 4);
    // Whoever says the same twice is no contradiction; another number is refused, as a fabric and as a configuration.
    service.signal(Signal::TERM);
    service.wait();
    write("gpus_per_host = 2\n");
    let mut service = start("state.redb").unwrap_or_else(|(_, said)| panic!("{said}"));
    let said = |has: u32, said: u32| {
        format!("host \"h1\" has {has} GPUs as the fabric states, and scheduler.gpus_per_host is {said}: leave scheduler.gpus_per_host out")
    };
    let (status, message) = service.refused("PUT", "/v1alpha1/fabric", &large);
    assert_eq!((status, message), (400, said(8, 2)));
    service.signal(Signal::TERM);
    service.wait();
    write("gpus_per_host = 4\n");
    let (status, wrong) = start("state.redb").err().unwrap();
    let last = wrong.trim_end().lines().last().unwrap();
    assert!(status.code() == Some(2) && last == format!("antiphase-topology: {}", said(2, 4)), "{status}: {wrong}");
    let (status, wrong) = start("new.redb").err().unwrap();
    assert!(status.code() == Some(2) && wrong.contains("fabric.yaml: ") && wrong.contains(&said(8, 4)), "{status}: {wrong}");
}

#[test]
fn an_executor_that_never_answers_costs_a_bounded_wait() {
    let folder = tempfile::tempdir().unwrap();
    let service = start(folder.path(), "srsf", "start_s = 1\nstop_s = 1\n");
    submit(&service, &job("a", 2, 10));
    let failed = wait(&service, "a", "failed");
    assert_eq!((failed["failures"].as_u64(), failed["place"].as_array().unwrap().len()), (Some(3), 0), "{failed}");
    submit(&service, &job("b", 2, 10));
    wait(&service, "b", "starting");
    report(&service, "b", 1, "started");
    assert_eq!(service.ask("POST", "/v1alpha1/withdraw", &json!({ "job": "b" }).to_string()).1["state"], "stopping");
    let withdrawn = wait(&service, "b", "withdrawn");
    assert!(withdrawn["why"].as_str().unwrap().contains("nobody said within 1 s that it stopped"), "{withdrawn}");
    assert_eq!(planned(&service), [""; 0]);
}

#[test]
fn after_a_kill_the_queue_and_the_running_jobs_are_as_before() {
    let folder = tempfile::tempdir().unwrap();
    let mut service = start(folder.path(), "themis", "");
    for n in 0..30 {
        let body = if n % 3 == 0 {
            json!({ "job": { "id": format!("j{n}") }, "gpus": 3, "duration_s": 600 })
        } else {
            job(&format!("j{n}"), 4, 5_000)
        };
        submit(&service, &body);
    }
    for round in 0..3 {
        let until = Instant::now() + WAIT;
        // All GPUs that jobs fit on are given out; who was told to start is reported.
        let listed = loop {
            let (_, answer) = service.ask("GET", "/v1alpha1/submissions?live", "");
            let all = answer["submissions"].as_array().unwrap().clone();
            let starting: Vec<&Value> = all.iter().filter(|s| s["state"] == "starting").collect();
            if starting.is_empty() && answer["gpus_held"].as_u64().unwrap() >= 44 {
                break all;
            }
            for s in starting {
                report(&service, s["job"].as_str().unwrap(), s["attempt"].as_u64().unwrap(), "started");
            }
            assert!(Instant::now() < until, "{answer}");
        };
        // One more is acknowledged, and the service is killed at once.
        let last = format!("last{round}");
        submit(&service, &job(&last, 48, 10));
        service.signal(Signal::KILL);
        service.wait();
        service = start(folder.path(), "themis", "");
        let (_, answer) = service.ask("GET", "/v1alpha1/submissions?live", "");
        let again = answer["submissions"].as_array().unwrap();
        let key = |s: &Value| ["job", "state", "attempt", "place", "submitted_ns", "planned"].map(|key| s[key].clone());
        assert_eq!(again.len(), listed.len() + 1);
        for (before, after) in listed.iter().zip(again) {
            // The first round of the new service may start a job of the queue, for the first time or again.
            let next = before["state"] == "queued" && after["state"] == "starting";
            let started = next && after["attempt"].as_u64() == before["attempt"].as_u64().map(|attempt| attempt + 1);
            assert!(started || key(before) == key(after), "{before} {after}");
            // What a job ran goes on over the restart.
            assert!(after["ran_ns"].as_u64() >= before["ran_ns"].as_u64());
        }
        assert_eq!((&again[listed.len()]["job"], &again[listed.len()]["state"]), (&json!(last), &json!("queued")));
        // A start may come between two questions, so they are asked until they agree.
        let until = Instant::now() + WAIT;
        let again = loop {
            let (_, answer) = service.ask("GET", "/v1alpha1/submissions?live", "");
            let again = answer["submissions"].as_array().unwrap().clone();
            let mut in_plan: Vec<&str> = again.iter().filter(|s| s["planned"] == true).map(|s| s["job"].as_str().unwrap()).collect();
            in_plan.sort_unstable();
            let plan = planned(&service);
            if plan == in_plan {
                break again;
            }
            assert!(Instant::now() < until, "{plan:?} {in_plan:?}");
        };
        // One ends, so that the next round has something to do.
        let running = again.iter().find(|s| s["state"] == "running").unwrap();
        report(&service, running["job"].as_str().unwrap(), running["attempt"].as_u64().unwrap(), "finished");
    }
}

#[test]
fn a_job_submitted_again_is_the_same_on_another_fabric() {
    let folder = tempfile::tempdir().unwrap();
    let mut service = start(folder.path(), "srtf", "");
    let body = job("a", 4, 1_000);
    submit(&service, &body);
    let text = fs::read_to_string(testbed()).unwrap();
    let slower = text.replace("50G", "25G");
    assert_ne!(text, slower);
    assert_eq!(service.ask("PUT", "/v1alpha1/fabric", &slower).0, 200);
    assert_eq!(submit(&service, &body)["job"], "a");
    assert_eq!(service.refused("POST", "/v1alpha1/submit", &job("a", 4, 1_001).to_string()).0, 409);
    // What was asked is kept, and one host is too few for a new job of the same size.
    service.signal(Signal::KILL);
    service.wait();
    let without: Vec<String> = (2..=24).map(|host| format!("\"h{host}\"")).collect();
    let service = start(folder.path(), "srtf", &format!("without = [{}]\n", without.join(", ")));
    assert_eq!(submit(&service, &body)["job"], "a");
    assert_eq!(service.refused("POST", "/v1alpha1/submit", &job("b", 4, 1_000).to_string()).0, 400);
}

#[test]
fn a_pause_of_the_service_is_not_held_against_the_executor() {
    let folder = tempfile::tempdir().unwrap();
    let service = start(folder.path(), "srtf", "");
    let mut body = job("a", 2, 1_000_000);
    body["lease_ms"] = json!(3_000);
    submit(&service, &body);
    wait(&service, "a", "starting");
    assert_eq!(report(&service, "a", 1, "started").0, 200);
    service.signal(Signal::STOP);
    std::thread::sleep(Duration::from_secs(5));
    service.signal(Signal::CONT);
    assert_eq!(report(&service, "a", 1, "started").0, 200, "{}", service.log());
    let a = one(&service, "a");
    assert_eq!((a["state"].as_str(), a["attempt"].as_u64()), (Some("running"), Some(1)), "{a}");
    // Silence of its own still ends the lease.
    let until = Instant::now() + WAIT;
    while one(&service, "a")["failures"] != 1 {
        assert!(Instant::now() < until, "{}", service.log());
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn bad_submissions_and_reports_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let service = start(folder.path(), "srtf", "");
    submit(&service, &job("a", 2, 10));
    let profile = json!({
        "schema": "antiphase.profile/v1", "name": "p", "period_ns": 100_000_000, "ranks": { "dp": 4 }, "source": "declared",
        "phases": [{ "start_ns": 0, "duration_ns": 40_000_000, "rate_mbps": 45_000, "collective": "ring", "scope": "data" }]
    });
    for (change, status, said) in [
        (json!({ "gpus": 3 }), 409, "job \"a\" was submitted with another content"),
        (json!({ "iterations": 11 }), 409, "job \"a\" was submitted with another content"),
        (json!({ "gpus": 0 }), 400, "job \"a\" needs 0 GPUs; the cluster has 48"),
        (json!({ "gpus": 4_000_000_000_u32 }), 400, "job \"a\" needs 4000000000 GPUs; the cluster has 48"),
        (json!({ "iterations": null }), 400, "needs exactly one of iterations and duration_s"),
        (json!({ "duration_s": 5 }), 400, "needs exactly one of iterations and duration_s"),
        (json!({ "iterations": 0 }), 400, "the job takes 0 s alone; must be above 0 and at most 316224000"),
        (json!({ "iterations": u64::MAX }), 400, "the job takes 18446744073 s alone; must be above 0 and at most 316224000"),
        (json!({ "iteration_ms": 0 }), 400, "iteration_ms: 0"),
        (json!({ "priority": "high" }), 400, "priority: \"high\"; expected guaranteed or opportunistic"),
        (json!({ "lease_ms": u64::MAX }), 400, "lease_ms: 18446744073709551615; at most 31622400000"),
        (json!({ "lease_ms": 999 }), 400, "lease_ms: 999; at least 1000, or 0"),
        (json!({ "job": null }), 400, "job: missing"),
        (json!({ "job": { "id": "b" } }), 400, "iteration_ms: missing, and no profile says how long an iteration takes"),
        (json!({ "job": { "id": "../b" }, "duration_s": 1, "iterations": null }), 400, "jobs[0] (\"../b\"): id: "),
        (json!({ "job": { "id": "b", "model": { "name": "vgg16" }, "hosts": ["h1"] } }), 400, "job.hosts: the scheduler chooses them"),
        (json!({ "job": { "id": "b", "model": { "name": "moon" } } }), 400, "unknown model \"moon\""),
        (json!({ "job": { "id": "b", "profile": profile } }), 400, "2"),
        (json!({ "moon": 1 }), 400, "unknown field `moon`"),
    ] {
        let mut body = job("a", 2, 10);
        for (key, value) in change.as_object().unwrap() {
            body[key] = value.clone();
        }
        let body = body.as_object().unwrap().iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (k.clone(), v.clone()));
        let body = Value::Object(body.collect());
        let (found, message) = service.refused("POST", "/v1alpha1/submit", &body.to_string());
        assert!(found == status && message.contains(said), "{body}: {found} {message}");
    }
    for (path, body, status, said) in [
        ("report", json!({ "job": "a", "attempt": 7, "report": "started" }), 409, "this report is of start 7"),
        ("report", json!({ "job": "a", "attempt": 1 }), 400, "expected started, finished or stopped"),
        ("report", json!({ "job": "a", "attempt": 1, "report": "moon" }), 400, "moon"),
        ("report", json!({ "job": "moon", "attempt": 1, "report": "started" }), 404, "no submission \"moon\""),
        ("withdraw", json!({ "job": "moon" }), 404, "no submission \"moon\""),
    ] {
        let (found, message) = service.refused("POST", &format!("/v1alpha1/{path}"), &body.to_string());
        assert!(found == status && message.contains(said), "{body}: {found} {message}");
    }
    assert_eq!(service.refused("GET", "/v1alpha1/submissions?jobs=moon", "").0, 404);
    // The same again is no error, and changes nothing.
    assert_eq!(submit(&service, &job("a", 2, 10))["attempt"], 1);
    let (_, answer) = service.ask("GET", "/v1alpha1/submissions?fields=submissions.job,policy", "");
    assert_eq!((&answer["submissions"], &answer["policy"]), (&json!([{ "job": "a" }]), &json!("srtf")));
}

#[test]
fn an_executor_over_grpc_hears_of_orders_as_they_come() {
    let folder = tempfile::tempdir().unwrap();
    let service = start(folder.path(), "srtf", "");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let asked = async {
        let channel = Channel::from_shared(format!("http://{}", service.address)).unwrap().connect().await.unwrap();
        let mut client = TopologyClient::new(channel);
        let mut events = client.watch_events(pb::WatchEventsRequest { after: None }).await.unwrap().into_inner();
        let model = Some(pb::Model { name: "vgg16".into(), ..pb::Model::default() });
        let job = pb::JobSpec { id: "a".into(), model, ..pb::JobSpec::default() };
        let request = pb::SubmitRequest { job: Some(job), gpus: 4, iterations: Some(10), ..pb::SubmitRequest::default() };
        client.submit(request).await.unwrap();
        let order = loop {
            let event = events.message().await.unwrap().unwrap();
            if event.kind == "job_start" {
                break event;
            }
        };
        let place = order.order.unwrap();
        assert_eq!((order.job.as_str(), place.attempt, place.place.len(), &*place.place[0].gpus), ("a", 1, 2, &[0, 1][..]));
        assert!(place.until_ns > order.at_ns);
        let say = |report: pb::RunReport| pb::ReportRequest { job: "a".into(), attempt: 1, report: report.into() };
        assert_eq!(client.report(say(pb::RunReport::Started)).await.unwrap().into_inner().state(), pb::SubmissionState::Running);
        let listed = client.list_submissions(pb::ListSubmissionsRequest::default()).await.unwrap().into_inner();
        assert_eq!((listed.gpus, listed.gpus_held, listed.submissions.len()), (48, 4, 1));
        assert_eq!(client.report(say(pb::RunReport::Finished)).await.unwrap().into_inner().state(), pb::SubmissionState::Finished);
        assert_eq!(client.report(say(pb::RunReport::Unspecified)).await.unwrap_err().code(), tonic::Code::InvalidArgument);
    };
    runtime.block_on(async { tokio::time::timeout(WAIT, asked).await }).unwrap();
}
