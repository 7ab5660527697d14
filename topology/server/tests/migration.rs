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
    for job in &mut expected {
        job["slot"]["turns"] = false.into();
        for (key, value) in
            [("hold", "auto".into()), ("hold_ended", "".into()), ("predicted_free_ns", Value::Null), ("predicted_turns_ns", Value::Null)]
        {
            job[key] = value;
        }
    }
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

/// Without the key a file of a service that kept no control goes on with turns, then with what was written last; a new one observes, and
/// says what turns would bring.
#[test]
fn an_upgrade_changes_no_control_and_a_new_cluster_observes() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new, config) = (folder.path().join("old.redb"), folder.path().join("new.redb"), folder.path().join("config.toml"));
    fs::copy(fixture("schema-1.redb"), &old).unwrap();
    let stop = |mut service: Service| {
        service.signal(Signal::TERM);
        assert!(service.wait().success());
    };
    let service = Service::with(program().arg("--state").arg(&old));
    service.wait_for_log("control = turns, as the state file was written last");
    stop(service);
    fs::write(&config, "control = \"slots\"\n").unwrap();
    let service = Service::with(program().arg("--config").arg(&config).arg("--state").arg(&old));
    assert_eq!(service.commit("new", &["h4", "h8"]).0, 200);
    assert!(!service.log().contains("control ="), "the configuration says it: {}", service.log());
    stop(service);
    let service = Service::with(program().arg("--state").arg(&old));
    service.wait_for_log("control = slots, as the state file was written last");
    stop(service);

    let service = Service::start(&new);
    service.wait_for_log("control = observe, as a new cluster begins");
    // Two spines: two jobs never exceed a link, and three do.
    for (name, hosts) in [("a", ["h1", "h5"]), ("b", ["h2", "h6"]), ("c", ["h3", "h7"])] {
        assert_eq!(service.commit(name, &hosts).0, 200);
    }
    let (_, answer) = service.ask("GET", "/v1alpha1/jobs", "");
    let outlook = answer["outlook"].as_str().unwrap();
    assert!(outlook.starts_with("control = observe: turns would make 3 of 3 jobs faster, by "), "{answer}");
    service.wait_for_log(&format!("{outlook} kind=\"observe\""));
    for job in answer["jobs"].as_array().unwrap() {
        assert!(!job["slot"]["turns"].as_bool().unwrap() && !job["slot"]["hold"].as_bool().unwrap(), "{job}");
        assert!(job["predicted_turns_ns"].as_u64().unwrap() < job["predicted_free_ns"].as_u64().unwrap(), "{job}");
    }
    let metrics = service.get("/metrics").body;
    assert!(metrics.contains("antiphase_job_predicted_turns_seconds{job=\"a\"}"), "{metrics}");
    stop(service);
    let service = Service::with(program().arg("--state").arg(&new));
    service.wait_for_log("control = observe, as the state file was written last");
    service.wait_for_log(outlook);
}
