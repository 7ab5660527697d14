//! A state file of an earlier schema under today's service.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod support;

use std::{fs, path::Path};

use rustix::process::Signal;
use serde_json::{Value, json};
use support::{Service, program};

const FABRIC: &str = "\
schema: antiphase.fabric/v1
name: two-leaves
hosts: [h1, h2, h3, h4]
switches:
- {name: spine, tier: 2}
- {name: leaf1, tier: 1}
- {name: leaf2, tier: 1}
cables:
- {ends: [leaf1, spine], capacity: 50G}
- {ends: [leaf2, spine], capacity: 50G}
- {ends: [h1, leaf1], capacity: 50G}
- {ends: [h2, leaf1], capacity: 50G}
- {ends: [h3, leaf2], capacity: 50G}
- {ends: [h4, leaf2], capacity: 50G}
";

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
        (job["hold"], job["hold_ended"], job["learn"]) = ("auto".into(), "".into(), "".into());
        for key in ["predicted_free_ns", "predicted_turns_ns", "declared_period_ns", "measured_up_ns", "iteration_mean_ns", "congestion"] {
            job[key] = Value::Null;
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
    service.wait_for_log("control = slots, as the configuration says");
    stop(service);
    let service = Service::with(program().arg("--state").arg(&old));
    service.wait_for_log("control = slots, as the state file was written last");
    stop(service);

    let fabric = folder.path().join("fabric.yaml");
    fs::write(&fabric, FABRIC).unwrap();
    let service = Service::with(program().arg("--state").arg(&new).arg("--fabric").arg(&fabric));
    service.wait_for_log("control = observe, as a new cluster begins");
    // Each sends for 40 of 100 ms over the one way between the leaves.
    let phase = json!({ "start_ns": 0, "duration_ns": 40_000_000, "rate_mbps": 45_000, "collective": "ring", "scope": "data" });
    let profile = json!({
        "schema": "antiphase.profile/v1", "name": "p", "period_ns": 100_000_000, "phases": [phase], "ranks": { "dp": 2 }, "source": "declared"
    });
    let job = |name: &str, hosts: [&str; 2]| json!({ "id": name, "profile": profile, "hosts": hosts });
    let body = json!({ "jobs": [job("a", ["h1", "h3"]), job("b", ["h2", "h4"])] }).to_string();
    assert_eq!(service.ask("POST", "/v1alpha1/commit", &body).0, 200);
    let (_, answer) = service.ask("GET", "/v1alpha1/jobs", "");
    let outlook = answer["outlook"].as_str().unwrap();
    assert!(outlook.starts_with("control = observe: turns would make 2 of 2 jobs faster, by "), "{answer}");
    service.wait_for_log(outlook);
    for job in answer["jobs"].as_array().unwrap() {
        assert!(!job["slot"]["turns"].as_bool().unwrap() && !job["slot"]["hold"].as_bool().unwrap(), "{job}");
        assert!(job["predicted_turns_ns"].as_u64().unwrap() < job["predicted_free_ns"].as_u64().unwrap(), "{job}");
    }
    let metrics = service.get("/metrics").body;
    assert!(metrics.contains("antiphase_job_predicted_turns_seconds{job_id=\"a\"}"), "{metrics}");
    stop(service);
    let service = Service::with(program().arg("--state").arg(&new));
    service.wait_for_log("control = observe, as the state file was written last");
    service.wait_for_log(outlook);
}
