//! Field selection and the size of answers, over HTTP and gRPC, and requests in both spellings.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod support;

use std::fs;

use fabric::generate::{Clos2, clos2};
use proto::v1alpha1::{self as pb, topology_client::TopologyClient};
use serde_json::{Value, json};
use support::{Service, job, program};
use tonic::{Code, transport::Channel};
use units::Rate;

/// What a scheduler needs to choose one of its candidates.
const CHOICE: &str = "ranked.id,ranked.outcome,ranked.mean_score,ranked.time_by_turns,ranked.time_free,ranked.shared_links,plan_version";
/// Most bytes of an answer about ten candidates.
const CHOICE_BYTES_MAX: usize = 20_000;

/// The `n`-th host of a walk over all 1,024 that goes to another leaf at each step.
fn host(n: usize) -> String {
    format!("h{}", n * 33 % 1_024 + 1)
}

fn hosts(from: usize, count: usize) -> Vec<String> {
    (from..from + count).map(host).collect()
}

fn model(id: String, hosts: &[String]) -> Value {
    json!({ "id": id, "model": { "name": "vgg16", "batch": 1_700 }, "hosts": hosts })
}

fn rate(gbps: u64) -> Rate {
    Rate(gbps * 1_000)
}

#[test]
fn ten_candidates_among_200_jobs_on_1024_hosts_are_a_small_answer() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fabric.yaml");
    let spec = Clos2 { leaves: 32, spines: 8, hosts_per_leaf: 32, host_rate: rate(50), uplink_rate: rate(100), uplinks: 1 };
    fs::write(&file, fabric::native::write_yaml(&clos2(&spec).unwrap())).unwrap();
    let mut command = program();
    let service = Service::with(command.arg("--state").arg(folder.path().join("s.redb")).arg("--fabric").arg(&file));
    let jobs: Vec<Value> = (0..199).map(|i| model(format!("j{i}"), &hosts(5 * i, 5))).collect();
    let (status, committed) = service.ask("POST", "/v1alpha1/commit", &json!({ "jobs": jobs, "fields": "plan_version" }).to_string());
    assert_eq!((status, committed), (200, json!({ "plan_version": 2 })));

    let candidate = |i: usize| json!({ "id": format!("c{i}"), "placements": [{ "job": "new", "hosts": hosts(995 + 2 * i, 5) }] });
    let candidates: Vec<Value> = (0..10).map(candidate).collect();
    let request = json!({ "jobs": [model("new".into(), &[])], "candidates": candidates, "predict": true });
    let size = |path: &str, request: &Value| {
        let answer = support::request(service.address, "POST", path, &[], request.to_string().as_bytes()).unwrap();
        assert_eq!(answer.status, 200, "{}", answer.body);
        (answer.body.len(), serde_json::from_str::<Value>(&answer.body).unwrap())
    };
    let (whole, all) = size("/v1alpha1/evaluate", &request);
    let (small, few) = size(&format!("/v1alpha1/evaluate?fields={CHOICE}"), &request);
    println!("ten candidates, 200 jobs, 1,024 hosts: {whole} bytes with everything, {small} with {CHOICE}");
    assert!(small < CHOICE_BYTES_MAX && whole > 10 * small, "{small} of {whole}");
    // Nobody asked for sentences, so there are none; and what was selected is what stands there otherwise.
    assert!(all["ranked"].as_array().unwrap().iter().all(|c| c["explanation"] == json!([])));
    assert_eq!(few["ranked"].as_array().unwrap().len(), 10);
    for (of_all, of_few) in all["ranked"].as_array().unwrap().iter().zip(few["ranked"].as_array().unwrap()) {
        let fields = of_few.as_object().unwrap();
        assert_eq!(fields.len(), 6, "{of_few}");
        assert!(fields.iter().all(|(name, value)| of_all[name] == *value), "{of_few}");
    }
    let mut explained = request;
    explained["explain"] = json!(true);
    explained["fields"] = json!(["ranked.explanation"]);
    let (_, said) = size("/v1alpha1/evaluate", &explained);
    assert!(said["ranked"].as_array().unwrap().iter().all(|c| !c["explanation"].as_array().unwrap().is_empty()), "{said}");
}

fn service() -> (tempfile::TempDir, Service) {
    let folder = tempfile::tempdir().unwrap();
    let service = Service::start(&folder.path().join("state.redb"));
    (folder, service)
}

#[test]
fn a_path_that_leads_nowhere_is_named_and_changes_nothing() {
    let (_folder, service) = service();
    let commit = json!({ "jobs": [job("a", &["h1", "h5"])], "fields": ["slots.moon"] }).to_string();
    let (status, message) = service.refused("POST", "/v1alpha1/commit", &commit);
    assert!(status == 400 && message.contains("\"slots.moon\"") && message.contains("Slot has no field"), "{message}");
    assert_eq!(service.ask("GET", "/v1alpha1/jobs?fields=jobs.id", "").1, json!({ "jobs": [] }));
    for path in ["/v1alpha1/jobs?fields=moon", "/v1alpha1/links?fields=links.moon", "/v1alpha1/turns?fields=groups.jobs.job.x"] {
        assert_eq!(service.refused("GET", path, "").0, 400, "{path}");
    }
    assert!(service.refused("POST", "/v1alpha1/evaluate?field=ranked", "{}").1.contains("unknown key \"field\""));
    // In the query and in the body: both.
    service.commit("a", &["h1", "h5"]);
    let (_, both) = service.ask("POST", "/v1alpha1/evaluate?fields=ranked.id", r#"{"fields": "planVersion"}"#);
    assert_eq!(both, json!({ "ranked": [{ "id": "as placed" }], "plan_version": 2 }));
    let (_, jobs) = service.ask("GET", "/v1alpha1/jobs?fields=jobs.id,jobs.slot.leader_host", "");
    assert_eq!(jobs, json!({ "jobs": [{ "id": "a", "slot": { "leader_host": "h1" } }] }));
}

#[tokio::test]
async fn rpcs_select_too() {
    let (_folder, service) = service();
    service.commit("a", &["h1", "h5"]);
    let channel = Channel::from_shared(format!("http://{}", service.address)).unwrap().connect().await.unwrap();
    let mut client = TopologyClient::new(channel);
    let evaluate = |fields: &[&str]| pb::EvaluateRequest {
        fields: fields.iter().map(|f| (*f).to_owned()).collect(),
        ..pb::EvaluateRequest::default()
    };
    let some = client.evaluate(evaluate(&["ranked.id", "ranked.shifts.job"])).await.unwrap().into_inner();
    let shifts = vec![pb::JobShift { job: "a".into(), ..pb::JobShift::default() }];
    let ranked = vec![pb::Evaluation { id: "as placed".into(), shifts, ..pb::Evaluation::default() }];
    assert_eq!(some, pb::EvaluateResponse { ranked, ..pb::EvaluateResponse::default() });
    let refused = client.evaluate(evaluate(&["ranked.moon"])).await.unwrap_err();
    assert!(refused.code() == Code::InvalidArgument && refused.message().contains("ranked.moon"), "{refused}");
    let jobs = pb::ListJobsRequest { fields: vec!["jobs.id".into()], ..Default::default() };
    let jobs = client.list_jobs(jobs).await.unwrap().into_inner();
    assert_eq!(jobs.jobs, [pb::Job { id: "a".into(), ..pb::Job::default() }]);
}

/// A guard that is misspelt is refused, and one in protobuf's own spelling guards.
#[test]
fn a_guard_is_heard_or_refused() {
    let (_folder, service) = service();
    assert_eq!(service.commit("a", &["h1", "h5"]).0, 200);
    let commit = |guard: &str, value: Value| {
        let mut request = json!({ "jobs": [job("b", &["h2", "h6"])] });
        request[guard] = value;
        request.to_string()
    };
    for (guard, value) in [("ifEpoch", json!(1)), ("if_plan", json!(1)), ("leaseSeconds", json!(5)), ("key", json!("k"))] {
        let (status, message) = service.refused("POST", "/v1alpha1/commit", &commit(guard, value));
        assert!(status == 400 && message.contains(guard), "{message}");
    }
    let (status, message) = service.refused("POST", "/v1alpha1/commit", &commit("ifPlanVersion", json!("1")));
    assert!(status == 409, "{message}");
    let (status, _) = service.ask("POST", "/v1alpha1/commit", &commit("ifPlanVersion", json!("2")));
    assert_eq!(status, 200);
    let (_, jobs) = service.ask("POST", "/v1alpha1/commit", &commit("leaseMs", json!("600000")));
    assert!(jobs["plan_version"].is_number());
    let (_, jobs) = service.ask("GET", "/v1alpha1/jobs?jobs=b&fields=jobs.lease_expires_ns", "");
    assert!(jobs["jobs"][0]["lease_expires_ns"].as_u64().unwrap() > 0, "{jobs}");
}

/// An array in place of a message, or a key that stands twice: serde would read both, and the client may mean something else.
#[test]
fn what_is_ambiguous_in_a_body_is_refused_with_its_place() {
    const ARRAY: &str = "an array where an object with its keys is meant";
    let (_folder, service) = service();
    let profile = r#""schema": "antiphase.profile/v1", "name": "p", "period_ns": 100, "source": "declared""#;
    let commit = |job: &str| format!(r#"{{"jobs": [{{"id": "a", "hosts": ["h1"], {job}}}]}}"#);
    let text = |document: &str| serde_json::to_string(document).unwrap();
    for ((path, body), wanted) in [
        (("commit", r#"[[], 0, "", null, [], false]"#.to_owned()), ARRAY),
        (("commit", r#"{"jobs": [["a"]]}"#.to_owned()), ARRAY),
        (("release", r#"[["a"]]"#.to_owned()), ARRAY),
        (("submit", "[]".to_owned()), ARRAY),
        (("evaluate", r#"{"jobs": [], "candidates": [["c", []]]}"#.to_owned()), ARRAY),
        (("commit", commit(r#""model": ["vgg16"]"#)), ARRAY),
        (("commit", commit(r#""model": {"name": "vgg16", "name": "bert"}"#)), "duplicate field `name`"),
        (("commit", r#"{"jobs": [], "lease_ms": 1, "leaseMs": 2}"#.to_owned()), "duplicate field `lease_ms`"),
        (("commit", r#"{"jobs": [], "jobs": []}"#.to_owned()), "duplicate field `jobs`"),
        // A profile that stands inline, and in a text.
        (("commit", commit(&format!(r#""profile": {{{profile}, "ranks": {{"dp": 1, "dp": 2}}, "phases": []}}"#))), "duplicate key \"dp\""),
        (("commit", commit(&format!(r#""profile": {{{profile}, "phases": [[1, 2]]}}"#))), ARRAY),
        (("commit", commit(&format!(r#""profile": {}"#, text(&format!("{{{profile}, \"phases\": [[1, 2]]}}"))))), ARRAY),
    ] {
        let (status, message) = service.refused("POST", &format!("/v1alpha1/{path}"), &body);
        assert!(status == 400 && message.contains(wanted) && !message.contains('\n'), "{path} {body}: {status} {message}");
    }
    let (status, message) = service.refused("PUT", "/v1alpha1/fabric", "- antiphase.fabric/v1\n- []\n");
    assert!(status == 400 && message.contains("line 1, column 1: expected mapping start"), "{status} {message}");
    assert_eq!(service.ask("GET", "/v1alpha1/jobs?fields=jobs.id", "").1, json!({ "jobs": [] }));
}
