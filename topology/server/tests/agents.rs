//! The whole program with certificates: an agent over QUIC, people over HTTPS, both on one port.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

#[allow(dead_code, reason = "the tests of sessions use the rest")]
#[path = "quic/rig.rs"]
mod rig;
mod support;

use std::{fs, path::Path, process::Command, time::Instant};

use antiphase_topology::{
    pki::{self, Issued},
    tls::Role,
};
use proto::{
    frame,
    v1alpha1::{self as pb, agent_frame, service_frame},
};
use rig::{Agent, Pki, client, hello, said};
use rustix::process::Signal;
use serde_json::{Value, json};
use support::{Service, WAIT, job, program, testbed};

fn start(pki: &Pki, folder: &Path) -> Service {
    let service = pki::service_paths(pki.dir());
    let (certificate, key, ca) = (service.certificate, service.key, pki::authority_path(pki.dir()));
    let config = folder.join("a.toml");
    fs::write(&config, format!("[tls]\ncertificate = {certificate:?}\nkey = {key:?}\nclient_ca = {ca:?}\n")).unwrap();
    Service::with(program().arg("--config").arg(config).arg("--state").arg(folder.join("s.redb")).arg("--fabric").arg(testbed()))
}

/// Status and body; `None` for the status when no connection came about.
fn curl(pki: &Pki, who: Option<&Issued>, service: &Service, method: &str, path: &str, body: &Value) -> (Option<u16>, Value) {
    let mut command = Command::new("curl");
    command.args(["-sS", "-m", "30", "-X", method, "-w", "\n%{http_code}", "--cacert"]).arg(pki::authority_path(pki.dir()));
    if let Some(issued) = who {
        command.arg("--cert").arg(&issued.certificate).arg("--key").arg(&issued.key);
    }
    if method != "GET" {
        command.args(["-H", "content-type: application/json", "-d", &body.to_string()]);
    }
    let output = command.arg(format!("https://127.0.0.1:{}{path}", service.address.port())).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (body, status) = text.rsplit_once('\n').unwrap_or_default();
    let status = status.parse().ok().filter(|s| *s != 0);
    (status, serde_json::from_str(body).unwrap_or_default())
}

fn has_curl() -> bool {
    let found = Command::new("curl").arg("--version").output().is_ok();
    if !found {
        println!("skipped: curl is not installed, so HTTPS with certificates was not tried");
    }
    found
}

#[test]
fn certificates_decide_over_https() {
    if !has_curl() {
        return;
    }
    let (pki, folder) = (Pki::new(), tempfile::tempdir().unwrap());
    let service = start(&pki, folder.path());
    let issue = |role: Role| pki.issue(role, role.word(), &[], pki::CLIENT_LIFETIME);
    let (read, evaluate, admin) = (issue(Role::Read), issue(Role::Evaluate), issue(Role::Admin));
    let agent = pki.agent("h1");
    let commit = json!({ "jobs": [job("a", &["h1", "h5"])] });
    let ask = |who: Option<&Issued>, method: &str, path: &str, body: &Value| curl(&pki, who, &service, method, path, body).0;
    assert_eq!(ask(None, "GET", "/healthz", &json!({})), None, "no certificate, no connection");
    for (who, statuses) in [(&agent, [403, 403, 403]), (&read, [200, 403, 403]), (&evaluate, [200, 400, 403]), (&admin, [200, 400, 200])] {
        let seen = [
            ask(Some(who), "GET", "/v1alpha1/plan", &json!({})),
            ask(Some(who), "POST", "/v1alpha1/solve", &json!({})),
            ask(Some(who), "POST", "/v1alpha1/commit", &commit),
        ];
        assert_eq!(seen, statuses.map(Some), "{}", who.certificate.display());
    }
    // An authority of strangers.
    let foreign = Pki::new().issue(Role::Admin, "admin", &[], pki::CLIENT_LIFETIME);
    assert_eq!(ask(Some(&foreign), "GET", "/healthz", &json!({})), None);
}

/// Plans and telemetry between the program and an agent.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_gets_its_plan_and_its_reports_are_seen() {
    if !has_curl() {
        return;
    }
    let (pki, folder) = (Pki::new(), tempfile::tempdir().unwrap());
    let mut service = start(&pki, folder.path());
    let admin = pki.issue(Role::Admin, "admin", &[], pki::CLIENT_LIFETIME);
    let config = client(&pki::authority_path(pki.dir()), Some(&pki.agent("h1")));
    let mut agent = Agent::connect(service.address, config).await.unwrap();
    agent.say(&said(agent_frame::Kind::Hello(hello("h1")))).await;
    assert!(matches!(agent.next().await.unwrap(), service_frame::Kind::Welcome(_)));

    let commit = json!({ "jobs": [job("a", &["h1", "h5"]), job("b", &["h2", "h6"])] });
    let (status, committed) = curl(&pki, Some(&admin), &service, "POST", "/v1alpha1/commit", &commit);
    assert_eq!(status, Some(200), "{committed}");
    let plan_version = committed["plan_version"].as_u64().unwrap();
    // The plan of a host without jobs may come first.
    let plan = loop {
        match agent.next().await.unwrap() {
            service_frame::Kind::Plan(plan) if plan.plan_version == plan_version => break plan,
            service_frame::Kind::Plan(plan) => assert!(plan.plan_version < plan_version),
            other => panic!("{other:?}"),
        }
    };
    let slots: Vec<(&str, &str)> = plan.slots.iter().map(|s| (s.job.as_str(), s.leader_host.as_str())).collect();
    assert_eq!(slots, [("a", "h1")], "only the jobs with ranks on the host");
    assert!(plan.slots[0].expires_ns > 0);

    agent.say(&said(agent_frame::Kind::PlanAck(pb::PlanAck { plan_version, written_ns: 1 }))).await;
    let gate = pb::GateReport {
        job: "a".into(),
        plan_version,
        iterations: 25,
        holds: 20,
        phase_error_ns: Some(-1_000),
        iteration_p50_ns: Some(325_500_000),
        iteration_mean_ns: Some(447_000_000),
        ..pb::GateReport::default()
    };
    let clock = Some(pb::ClockQuality { offset_ns: 5, bound_ns: 40_000, rtt_ns: 70_000 });
    agent.say(&said(agent_frame::Kind::Report(pb::Report { sequence: 1, clock, gates: vec![gate] }))).await;
    let sample = |at_ns: u64| pb::Telemetry {
        port: "eth0".into(),
        at_ns: vec![at_ns],
        counters: vec![pb::CounterDeltas { name: "rx_bytes".into(), delta: vec![1_000] }],
        queue_pairs: None,
    };
    let mut stream = agent.connection.open_uni().await.unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
    stream.write_all(&frame::encode(&sample(now)).unwrap()).await.unwrap();

    let until = Instant::now() + WAIT;
    loop {
        let get = |path: &str| curl(&pki, Some(&admin), &service, "GET", path, &Value::Null).1;
        let (agents, jobs, telemetry) = (get("/v1alpha1/agents"), get("/v1alpha1/jobs?jobs=a"), get("/v1alpha1/telemetry?all_hosts"));
        let (first, job) = (&agents["agents"][0], &jobs["jobs"][0]);
        let agent_seen = first["host"] == "h1"
            && first["state"] == "connected"
            && first["plan_version"] == plan_version
            && first["clock_bound_ns"] == 40_000;
        let job_seen = job["iteration_ns"] == 325_500_000
            && job["iteration_mean_ns"] == 447_000_000
            && job["phase_error_ns"] == -1_000
            && job["iterations"] == 25;
        let counter = &telemetry["hosts"][0]["counters"][0];
        if agent_seen && job_seen && counter["name"] == "rx_bytes" && counter["delta"] == json!([1_000]) {
            break;
        }
        assert!(Instant::now() < until, "{agents}\n{jobs}\n{telemetry}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }

    service.signal(Signal::TERM);
    agent.closed().await;
    assert!(service.wait().success(), "{}", service.log());
}

/// The agents of two hosts: one counts marks and sends CNPs, the other obeys them.
#[tokio::test]
async fn marks_at_one_host_and_cnps_at_another_are_the_jobs() {
    if !has_curl() {
        return;
    }
    let (pki, folder) = (Pki::new(), tempfile::tempdir().unwrap());
    let mut service = start(&pki, folder.path());
    let admin = pki.issue(Role::Admin, "admin", &[], pki::CLIENT_LIFETIME);
    let mut agents = Vec::new();
    for host in ["h1", "h5"] {
        let config = client(&pki::authority_path(pki.dir()), Some(&pki.agent(host)));
        let mut agent = Agent::connect(service.address, config).await.unwrap();
        agent.say(&said(agent_frame::Kind::Hello(hello(host)))).await;
        assert!(matches!(agent.next().await.unwrap(), service_frame::Kind::Welcome(_)));
        let stream = agent.connection.open_uni().await.unwrap();
        agents.push((agent, stream));
    }
    // Both jobs have ranks on h5, whose queue pairs are of one of them; on h1 it is alone.
    let commit = json!({ "jobs": [job("a", &["h1", "h5"]), job("b", &["h2", "h5"])] });
    let (status, committed) = curl(&pki, Some(&admin), &service, "POST", "/v1alpha1/commit", &commit);
    assert_eq!(status, Some(200), "{committed}");

    let frame = |counters: &[(&str, u64)], jobs: &[&str]| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
        let counters = counters.iter().map(|(name, delta)| pb::CounterDeltas { name: (*name).into(), delta: vec![*delta] });
        let jobs: Vec<_> = jobs.iter().map(|job| pb::JobQueuePairs { job: (*job).into(), count: 8 }).collect();
        let queue_pairs = (!jobs.is_empty()).then_some(pb::QueuePairs { jobs, others: 0 });
        frame::encode(&pb::Telemetry { port: "mlx5_0/1".into(), at_ns: vec![now], counters: counters.collect(), queue_pairs }).unwrap()
    };
    let until = Instant::now() + WAIT;
    // What is counted before the service has looked where jobs stand is nobody's, so it is told again and again.
    let told = loop {
        agents[0].1.write_all(&frame(&[("cnp_rx_handled", 1)], &[])).await.unwrap();
        agents[1].1.write_all(&frame(&[("ecn_marked_rx", 4), ("rx_packets", 100), ("cnp_tx", 2)], &["a"])).await.unwrap();
        let jobs = curl(&pki, Some(&admin), &service, "GET", "/v1alpha1/jobs", &Value::Null).1;
        let told = jobs["jobs"][0]["congestion"].clone();
        if told["marked"].as_u64() > Some(0) && told["cnps_handled"].as_u64() > Some(0) {
            assert_eq!(jobs["jobs"][1].get("congestion").filter(|told| !told.is_null()), None, "{jobs}");
            break told;
        }
        assert!(Instant::now() < until, "{jobs}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    };
    let number = |name: &str| told[name].as_u64().unwrap();
    assert_eq!((number("received"), number("cnps_sent")), (25 * number("marked"), number("marked") / 2), "{told}");
    let words = ["attribution", "marked_host", "slowed_host"].map(|name| told[name].as_str().unwrap());
    // On h1 the job is known by its placement, which is weaker than by queue pairs.
    assert_eq!(words, ["alone", "h5", "h1"], "{told}");
    assert!(told.get("cnps_ignored").is_none_or(Value::is_null), "{told}");
    service.signal(Signal::TERM);
    assert!(service.wait().success(), "{}", service.log());
}
