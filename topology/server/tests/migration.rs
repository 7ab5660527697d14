//! A state file of an earlier schema under today's service.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod support;

use std::{fs, path::Path};

use rustix::process::Signal;
use serde_json::Value;
use support::{Service, program};

fn fixture(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../store/tests/fixtures").join(name)
}

/// The jobs of an answer, and the ends of their leases apart from them: a start gives agents a whole lease to come back.
fn jobs(mut answer: Value) -> (Vec<Value>, Vec<u64>) {
    let mut jobs = std::mem::take(answer["jobs"].as_array_mut().unwrap());
    let ends = jobs.iter_mut().map(|job| job["lease_expires_ns"].take().as_u64().unwrap()).collect();
    (jobs, ends)
}

#[test]
fn a_service_serves_what_one_of_schema_1_served() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state.redb");
    fs::copy(fixture("schema-1.redb"), &state).unwrap();
    // The words of today for what that service called otherwise.
    let mut answer = fs::read_to_string(fixture("schema-1.jobs.json")).unwrap();
    for (then, now) in [
        ("\"epoch\"", "\"plan_version\""),
        ("predicted_unshifted_ns", "predicted_contended_ns"),
        ("predicted_shifted_ns", "predicted_all_held_ns"),
        ("predicted_advised_ns", "predicted_interleaved_ns"),
    ] {
        answer = answer.replace(then, now);
    }
    let (mut expected, leases) = jobs(serde_json::from_str(&answer).unwrap());
    // That service knew slots and no turns.
    expected.iter_mut().for_each(|job| job["slot"]["turns"] = false.into());
    let config = folder.path().join("config.toml");
    fs::write(&config, "control = \"slots\"\n").unwrap();
    // The second time, from the migrated file.
    for _ in 0..2 {
        let mut service = Service::with(program().arg("--config").arg(&config).arg("--state").arg(&state));
        let (shown, ends) = jobs(service.ask("GET", "/v1alpha1/jobs", "").1);
        assert_eq!(shown, expected);
        assert!(ends.iter().zip(&leases).all(|(now, then)| now >= then && (*now == 0) == (*then == 0)), "{ends:?} {leases:?}");
        assert_eq!(service.ask("GET", "/v1alpha1/plan", "").1["plan_version"], 7);
        assert!(service.ask("GET", "/v1alpha1/fabric", "").1["fabric"].as_str().unwrap().ends_with("# set anew\n"));
        service.signal(Signal::TERM);
        assert!(service.wait().success());
    }
    // It goes on: a new job beside the old ones.
    let service = Service::with(program().arg("--config").arg(&config).arg("--state").arg(&state));
    let (status, answer) = service.commit("new", &["h4", "h8"]);
    assert_eq!((status, answer["plan_version"].as_u64()), (200, Some(8)), "{answer}");
}
