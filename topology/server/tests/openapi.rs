//! The OpenAPI document and the JSON Schema, held against the real service.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod support;
#[path = "../../../proto/tests/regenerate/validator.rs"]
mod validator;

use std::{
    io::Write as _,
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use support::{Service, job, program, request, testbed};
use validator::{problems, strict};

fn service() -> (tempfile::TempDir, Service) {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config.toml");
    std::fs::write(&config, "[scheduler]\npolicy = \"srtf\"\n").unwrap();
    let state = folder.path().join("state.redb");
    let service = Service::with(program().arg("--config").arg(&config).arg("--state").arg(&state).arg("--fabric").arg(testbed()));
    (folder, service)
}

fn document(service: &Service, path: &str) -> Value {
    let answer = service.get(path);
    assert!(answer.status == 200 && answer.head.to_lowercase().contains("content-type: application/json"), "{}", answer.head);
    serde_json::from_str(&answer.body).unwrap()
}

/// Answers of every kind: the name of the message, and what the service wrote.
fn answers(service: &Service) -> Vec<(&'static str, Value)> {
    let mut out = Vec::new();
    let mut take = |message, method: &str, path: &str, body: Value| {
        let body = if method == "GET" { String::new() } else { body.to_string() };
        let (status, answer) = service.ask(method, path, &body);
        assert_eq!(status == 200, message != "Error", "{method} {path}: {answer}");
        out.push((message, answer));
    };
    let jobs = json!([job("a", &["h1", "h5"]), job("b", &["h2", "h6"])]);
    take("CommitResponse", "POST", "/v1alpha1/commit", json!({ "jobs": jobs }));
    take("CommitResponse", "POST", "/v1alpha1/commit?fields=slots.job", json!({ "jobs": [job("c", &["h3", "h7"])] }));
    let candidates = json!([{ "id": "x", "placements": [{ "job": "d", "hosts": ["h4", "h8"] }] }]);
    let new = json!([{ "id": "d", "model": { "name": "vgg16" } }]);
    let evaluate = json!({ "jobs": new, "candidates": candidates, "objective": "time", "predict": true, "explain": true });
    take("EvaluateResponse", "POST", "/v1alpha1/evaluate", evaluate);
    take("EvaluateResponse", "POST", "/v1alpha1/evaluate", json!({ "mode": "cassini" }));
    let submission = json!({ "job": { "id": "s", "model": { "name": "vgg16" } }, "gpus": 8, "iterations": 10 });
    take("Submission", "POST", "/v1alpha1/submit", submission);
    take("Submission", "POST", "/v1alpha1/withdraw", json!({ "job": "s" }));
    for (message, path) in [
        ("ListSubmissionsResponse", "submissions"),
        ("ListJobsResponse", "jobs"),
        ("ListLinksResponse", "links?demands=true"),
        ("ListAgentsResponse", "agents"),
        ("ListTurnsResponse", "turns"),
        ("Plan", "plan"),
        ("ListEventsResponse", "events"),
        ("GetTelemetryResponse", "telemetry?all_hosts"),
        ("GetFabricResponse", "fabric"),
        ("GetObservedResponse", "fabric/observed"),
    ] {
        take(message, "GET", &format!("/v1alpha1/{path}"), Value::Null);
    }
    take("ReleaseResponse", "POST", "/v1alpha1/release", json!({ "jobs": ["a", "moon"] }));
    take("Error", "POST", "/v1alpha1/commit", json!({ "if_epoch": 7 }));
    take("Error", "GET", "/v1alpha1/jobs?jobs=moon", Value::Null);
    take("Error", "GET", "/moon", Value::Null);
    out
}

#[test]
fn real_answers_fit_the_schema_that_is_served() {
    let (_folder, service) = service();
    let root = strict(&document(&service, "/schema.json"));
    for (message, answer) in answers(&service) {
        let found = problems(&root, &json!({ "$ref": format!("#/$defs/{message}") }), &answer, message);
        assert_eq!(found, Vec::<String>::new());
    }
}

/// The same by a validator of others, with the definitions of the OpenAPI document.
const PYTHON: &str = r"
import json, sys
from jsonschema import Draft202012Validator
root, answers = json.load(sys.stdin)
Draft202012Validator.check_schema(root)
for message, answer in answers:
    schema = dict(root, **{'$ref': '#/components/schemas/' + message})
    Draft202012Validator(schema).validate(answer)
print(len(answers), 'answers fit')
";

#[test]
fn real_answers_fit_by_another_validator() {
    let there = Command::new("python3").args(["-c", "import jsonschema"]).stderr(Stdio::null()).status();
    if !there.is_ok_and(|status| status.success()) {
        println!("skipped: python3 has no jsonschema (pip install jsonschema), so only our own validator was asked");
        return;
    }
    let (_folder, service) = service();
    let mut root = document(&service, "/openapi.json");
    for schema in root["components"]["schemas"].as_object_mut().unwrap().values_mut().filter(|schema| schema["type"] == "object") {
        schema["additionalProperties"] = false.into();
    }
    let root = json!({ "components": root["components"] });
    let mut python = Command::new("python3").args(["-c", PYTHON]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    python.stdin.take().unwrap().write_all(json!([root, answers(&service)]).to_string().as_bytes()).unwrap();
    let said = python.wait_with_output().unwrap();
    assert!(said.status.success() && String::from_utf8_lossy(&said.stdout).contains("answers fit"), "{said:?}");
}

#[test]
fn every_path_of_the_document_is_served_and_every_reference_leads_somewhere() {
    let (_folder, service) = service();
    let root = document(&service, "/openapi.json");
    assert!(root["openapi"].as_str().unwrap().starts_with("3.1"));
    let paths = root["paths"].as_object().unwrap();
    for (path, operations) in paths {
        for verb in ["get", "post", "put", "delete"] {
            if path.ends_with("/stream") && verb == "get" {
                continue;
            }
            let answer = request(service.address, &verb.to_uppercase(), path, &["content-type: application/json"], b"{").unwrap();
            let (is_there, said) = (operations.get(verb).is_some(), answer.body.contains("no path") || answer.status == 405);
            assert_eq!(is_there, !said, "{verb} {path}: {} {}", answer.status, answer.body);
        }
    }
    // What the service counts as an RPC has a path: the generator asks that of every method.
    assert!(paths.len() > 18, "{paths:?}");
    let text = root.to_string();
    for part in text.split("\"#/components").skip(1) {
        let name = part.split('"').next().unwrap();
        assert!(root.pointer(&format!("/components{name}")).is_some(), "{name}");
    }
}
