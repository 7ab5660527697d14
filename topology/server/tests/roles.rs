//! What each role may do and what a failing disk or an agent may not, over real connections whose callers a test decides.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod support;

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use antiphase_topology::{
    FabricClock, TelemetryHandle,
    api::{Api, Parts},
    config::Config,
    controller::{Controller, Surroundings},
    discovery::Discovery,
    events::EventLog,
    http::{Accepted, Acceptor, router, serve},
    metrics::Metrics,
    pki,
    quic::{self, Controller as _, Outbox},
    role::{Caller, Role},
    shutdown::Shutdown,
};
use proto::v1alpha1::{self as pb, topology_client::TopologyClient};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use serde_json::{Value, json};
use state::{AgentReport, Event, GateReport, Origin, SessionId};
use store::{Loaded, StateFile, SyncGuard};
use support::{Service, WAIT, job, program, request, testbed};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    sync::{Notify, watch},
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use units::Nanos;

struct Served {
    address: SocketAddr,
    shutdown: Shutdown,
    controller: Controller,
    /// Cuts the connections.
    cut: Arc<Notify>,
    folder: tempfile::TempDir,
}

impl Served {
    async fn ask(&self, method: &'static str, path: &'static str, body: String) -> (u16, Value) {
        let address = self.address;
        let answer = tokio::task::spawn_blocking(move || request(address, method, path, &[], body.as_bytes()).unwrap()).await.unwrap();
        (answer.status, serde_json::from_str(&answer.body).unwrap_or_default())
    }

    async fn fabric(&self) {
        let fabric = std::fs::read_to_string(testbed()).unwrap();
        assert_eq!(self.ask("PUT", "/v1alpha1/fabric", fabric).await.0, 200);
    }

    async fn commit(&self, name: &str, hosts: &[&str]) -> (u16, Value) {
        self.ask("POST", "/v1alpha1/commit", json!({ "jobs": [job(name, hosts)] }).to_string()).await
    }

    async fn jobs(&self) -> Vec<String> {
        let (_, answer) = self.ask("GET", "/v1alpha1/jobs", String::new()).await;
        answer["jobs"].as_array().unwrap().iter().map(|j| j["id"].as_str().unwrap().to_owned()).collect()
    }

    /// What a service finds that starts after this one was killed now.
    fn after_a_kill(&self) -> Vec<String> {
        let copy = self.folder.path().join("copy.redb");
        std::fs::copy(self.folder.path().join("s.redb"), &copy).unwrap();
        let kept = StateFile::open(&copy).unwrap();
        kept.dump().filter_map(|(key, _)| key.strip_prefix("job/").map(str::to_owned)).collect()
    }

    async fn stop(self) {
        self.shutdown.begin();
        tokio::task::spawn_blocking(|| self.controller.stop()).await.unwrap();
    }
}

async fn serve_as(caller: Caller) -> Served {
    serve_on(caller, Arc::new(|| Ok(()))).await
}

async fn serve_on(caller: Caller, disk: SyncGuard) -> Served {
    serve_with(caller, disk, Config::default()).await
}

async fn serve_with(caller: Caller, disk: SyncGuard, config: Config) -> Served {
    let folder = tempfile::tempdir().unwrap();
    let (clock, metrics) = (FabricClock::start(), Arc::new(Metrics::new().unwrap()));
    let around =
        Surroundings { clock, events: EventLog::new(clock.now()), telemetry: TelemetryHandle::default(), metrics: Arc::clone(&metrics) };
    let file = StateFile::open_guarded(&folder.path().join("s.redb"), disk).unwrap();
    let controller = Controller::start(&state::Config::default(), file, Loaded::default(), around.clone()).unwrap();
    // The sender may go: the configuration stays as it is.
    let config = watch::Sender::new(Arc::new(config)).subscribe();
    let (events, telemetry) = (around.events, around.telemetry);
    let (handle, health) = (controller.handle.clone(), controller.health.clone());
    let sessions = Arc::new(quic::Stats::default());
    let api = Api::new(Parts {
        controller: handle,
        health,
        telemetry,
        discovery: Discovery::default(),
        events,
        metrics,
        sessions,
        clock,
        config,
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = Shutdown::default();
    let cut = Arc::new(Notify::new());
    let end = Arc::clone(&cut);
    let acceptor = Acceptor::With(Arc::new(move |stream, _| {
        let end = Arc::clone(&end);
        let until = Box::pin(async move {
            end.notified().await;
            "the test says so"
        });
        Box::pin(async move { Ok(Accepted { until, ..Accepted::for_good(Box::new(stream), caller) }) })
            as futures_util::future::BoxFuture<'static, _>
    }));
    tokio::spawn(serve(listener, acceptor, router(api.clone(), shutdown.clone()), api, shutdown.clone()));
    Served { address, shutdown, controller, cut, folder }
}

/// Status of each request, in order: a read, an evaluation, a change, health, the page.
async fn statuses(caller: Caller) -> ([u16; 5], [bool; 3]) {
    let served = serve_as(caller).await;
    let address = served.address;
    let http = tokio::task::spawn_blocking(move || {
        let ask = |method: &str, path: &str| request(address, method, path, &[], b"{}").unwrap().status;
        [
            ask("GET", "/v1alpha1/plan"),
            ask("POST", "/v1alpha1/solve"),
            ask("POST", "/v1alpha1/release"),
            ask("GET", "/healthz"),
            ask("GET", "/"),
        ]
    });
    let http = http.await.unwrap();
    let channel = tonic::transport::Channel::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
    let mut client = TopologyClient::new(channel);
    let denied = |status: Option<tonic::Status>| status.is_some_and(|s| s.code() == tonic::Code::PermissionDenied);
    let grpc = [
        denied(client.get_plan(pb::GetPlanRequest {}).await.err()),
        denied(client.solve(pb::SolveRequest::default()).await.err()),
        denied(client.release(pb::ReleaseRequest::default()).await.err()),
    ];
    served.stop().await;
    (http, grpc)
}

#[tokio::test]
async fn each_role_may_do_what_the_ones_before_it_may_and_more() {
    // 400 is a request that was let through: its body is bad.
    let role = |role| statuses(Caller { role, who: None });
    assert_eq!(role(None).await, ([403, 403, 403, 200, 403], [true, true, true]));
    assert_eq!(role(Some(Role::Read)).await, ([200, 403, 403, 200, 200], [false, true, true]));
    assert_eq!(role(Some(Role::Evaluate)).await, ([200, 400, 403, 200, 200], [false, false, true]));
    assert_eq!(role(Some(Role::Admin)).await, ([200, 400, 400, 200, 200], [false, false, false]));
}

#[tokio::test]
async fn submitting_and_reporting_need_the_role_of_a_commit() {
    // 412 is a request that was let through: there is no scheduler here.
    for (role, expected) in
        [(None, [403, 403]), (Some(Role::Read), [412, 403]), (Some(Role::Evaluate), [412, 403]), (Some(Role::Admin), [412, 412])]
    {
        let served = serve_as(Caller { role, who: None }).await;
        let [read, change] = expected;
        assert_eq!(served.ask("GET", "/v1alpha1/submissions", String::new()).await.0, read, "{role:?}");
        for path in ["/v1alpha1/submit", "/v1alpha1/withdraw", "/v1alpha1/report"] {
            let body = if path.ends_with("report") { r#"{"report": "started"}"# } else { "{}" };
            assert_eq!(served.ask("POST", path, body.into()).await.0, change, "{role:?} {path}");
        }
        let channel = tonic::transport::Channel::from_shared(format!("http://{}", served.address)).unwrap().connect().await.unwrap();
        let mut client = TopologyClient::new(channel);
        let codes = [
            client.submit(pb::SubmitRequest::default()).await.unwrap_err().code(),
            client.withdraw(pb::WithdrawRequest::default()).await.unwrap_err().code(),
            client.report(pb::ReportRequest::default()).await.unwrap_err().code(),
        ];
        let code = if change == 403 { tonic::Code::PermissionDenied } else { tonic::Code::FailedPrecondition };
        assert_eq!(codes, [code; 3], "{role:?}");
        served.stop().await;
    }
}

#[tokio::test]
async fn a_role_is_asked_for_before_anything_is_decoded() {
    let served = serve_as(Caller { role: Some(Role::Agent), who: None }).await;
    let channel = tonic::transport::Channel::from_shared(format!("http://{}", served.address)).unwrap().connect().await.unwrap();
    // What stands in the message of one RPC is sent to another, to which it is noise.
    let elsewhere = |path: &'static str| {
        let to = move |mut request: axum::http::Request<tonic::body::Body>| {
            *request.uri_mut() = format!("http://service{path}").parse().unwrap();
            request
        };
        TopologyClient::new(tower::util::MapRequest::new(channel.clone(), to))
    };
    for path in ["Solve", "Evaluate", "Commit", "Release", "SetFabric", "ListJobs", "GetPlan", "WatchEvents"] {
        let path: &'static str = format!("/antiphase.v1alpha1.Topology/{path}").leak();
        let noise = pb::SolveRequest { scenario: "\u{1}\u{7f}\u{7f}".repeat(100_000), ..Default::default() };
        let status = elsewhere(path).solve(noise).await.unwrap_err();
        assert_eq!(status.code(), tonic::Code::PermissionDenied, "{path}: {status}");
    }
    let unknown = elsewhere("/antiphase.v1alpha1.Topology/Moon").solve(pb::SolveRequest::default()).await.unwrap_err();
    assert_eq!(unknown.code(), tonic::Code::Unimplemented);
    served.stop().await;
}

#[tokio::test]
async fn a_connection_ends_when_its_caller_is_no_longer_known() {
    let served = serve_as(Caller::LOOPBACK).await;
    let (address, cut) = (served.address, Arc::clone(&served.cut));
    tokio::task::spawn_blocking(move || {
        let mut events = TcpStream::connect(address).unwrap();
        events.set_read_timeout(Some(WAIT)).unwrap();
        events.write_all(b"GET /v1alpha1/events/stream HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        let mut first = [0; 12];
        events.read_exact(&mut first).unwrap();
        assert!(first.ends_with(b"200"));
        // Kept for the connection if it does not wait yet.
        cut.notify_one();
        let began = std::time::Instant::now();
        // It would go on for ever, with a sign of life now and then.
        while events.read(&mut [0; 4_096]).is_ok_and(|read| read > 0) {
            assert!(began.elapsed() < WAIT, "it goes on");
        }
    })
    .await
    .unwrap();
    served.stop().await;
}

#[tokio::test]
async fn a_failed_sync_loses_nothing_acknowledged_and_keeps_nothing_refused() {
    let failing = Arc::new(AtomicBool::new(false));
    let disk = Arc::clone(&failing);
    let guard = move || if disk.load(Ordering::Relaxed) { Err(std::io::Error::other("EIO")) } else { Ok(()) };
    let served = serve_on(Caller::LOOPBACK, Arc::new(guard)).await;
    served.fabric().await;
    assert_eq!(served.commit("a", &["h1", "h5"]).await.0, 200);
    failing.store(true, Ordering::Relaxed);
    let (status, refused) = served.commit("phantom", &["h2", "h6"]).await;
    assert!(status == 503 && refused["hint"].as_str().unwrap().contains("/readyz"), "{refused}");
    assert_eq!(served.ask("POST", "/v1alpha1/release", r#"{"jobs":["a"]}"#.into()).await.0, 503);
    assert_eq!(served.ask("GET", "/readyz", String::new()).await.0, 503);
    assert_eq!(served.jobs().await, ["a"]);
    failing.store(false, Ordering::Relaxed);
    assert_eq!(served.commit("b", &["h3", "h7"]).await.0, 200);
    assert_eq!(served.ask("GET", "/readyz", String::new()).await.0, 200);
    assert_eq!(served.jobs().await, ["a", "b"]);
    assert_eq!(served.after_a_kill(), ["a", "b"]);
    let address = served.address;
    let metrics = tokio::task::spawn_blocking(move || request(address, "GET", "/metrics", &[], b"").unwrap().body).await.unwrap();
    assert!(metrics.contains("antiphase_store_rewrites_total 1") && metrics.contains("antiphase_store_up 1"), "{metrics}");
    served.stop().await;
}

/// A disk that hangs is no disk that fails: what waits for it may still come into force.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_hangs_is_not_ready_and_outcomes_are_not_guessed() {
    let hangs = Arc::new(AtomicBool::new(false));
    let disk = Arc::clone(&hangs);
    let guard = move || {
        while disk.load(Ordering::Relaxed) {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        Ok(())
    };
    let mut config = Config::default();
    config.limits.request_s = 6;
    let served = serve_with(Caller::LOOPBACK, Arc::new(guard), config).await;
    served.fabric().await;
    assert_eq!(served.ask("GET", "/readyz", String::new()).await.0, 200);
    hangs.store(true, Ordering::Relaxed);
    let body = json!({ "jobs": [job("a", &["h1", "h5"])], "idempotency_key": "k" }).to_string();
    let (status, answer) = served.ask("POST", "/v1alpha1/commit", body.clone()).await;
    assert_eq!((status, answer["code"].as_str()), (504, Some("timeout")), "{answer}");
    assert!(answer["message"].as_str().unwrap().ends_with("whether it comes into force is not known"), "{answer}");
    assert!(answer["hint"].as_str().unwrap().contains("idempotency_key"), "{answer}");
    let (status, answer) = served.ask("GET", "/readyz", String::new()).await;
    assert!(status == 503 && answer["message"].as_str().unwrap().contains("a change has waited for the disk for "), "{answer}");
    hangs.store(false, Ordering::Relaxed);
    // The same commit again is answered as the first would have been: it is in force, once.
    let (status, answer) = served.ask("POST", "/v1alpha1/commit", body).await;
    assert_eq!((status, served.jobs().await), (200, vec!["a".to_owned()]), "{answer}");
    assert_eq!(served.after_a_kill(), ["a"]);
    assert_eq!(served.ask("GET", "/readyz", String::new()).await.0, 200);
    served.stop().await;
}

#[tokio::test]
async fn an_agent_speaks_for_the_jobs_that_it_leads_and_for_no_others() {
    let served = serve_as(Caller::LOOPBACK).await;
    served.fabric().await;
    let (_, committed) = served.commit("a", &["h1", "h5"]).await;
    let controller = &served.controller.handle;
    let gate = |job: &str, slips, iteration| GateReport {
        job: job.into(),
        plan_version: committed["plan_version"].as_u64().unwrap(),
        iterations: 10,
        slips,
        phase_error: Some(0),
        iteration: Some(Nanos(iteration)),
        ..GateReport::default()
    };
    for (session, host) in [(1, "h1"), (2, "h5")] {
        let session = SessionId(session);
        controller.register(session, Outbox::new().0);
        let (version, ports) = ("1".to_owned(), Vec::new());
        controller
            .tell(Event::AgentHello { session, host: host.into(), version, ports, plan_version: 0, origin: Origin::default() })
            .await
            .unwrap();
    }
    let say = |session, gates| {
        let report = AgentReport { clock: None, gates };
        controller.tell(Event::Report { session: SessionId(session), report })
    };
    say(1, vec![gate("a", 1, 300)]).await.unwrap();
    say(1, vec![gate("a", 2, 300)]).await.unwrap();
    say(2, vec![gate("a", 10, 900), gate("invented", 10, 900)]).await.unwrap();
    say(7, vec![gate("a", 10, 900)]).await.unwrap();
    let (_, jobs) = served.ask("GET", "/v1alpha1/jobs", String::new()).await;
    assert_eq!((&jobs["jobs"][0]["slips"], &jobs["jobs"][0]["iterations"]), (&json!(3), &json!(20)), "{jobs}");
    let (_, telemetry) = served.ask("GET", "/v1alpha1/telemetry", String::new()).await;
    assert_eq!(telemetry["jobs"].as_array().unwrap().len(), 1, "{telemetry}");
    assert!(telemetry["jobs"][0]["iteration_ns"].as_array().unwrap().iter().all(|ns| *ns == 300), "{telemetry}");
    let address = served.address;
    let metrics = tokio::task::spawn_blocking(move || request(address, "GET", "/metrics", &[], b"").unwrap().body).await.unwrap();
    assert!(metrics.contains("# TYPE antiphase_job_slips_total counter\nantiphase_job_slips_total{job_id=\"a\"} 3"), "{metrics}");
    served.stop().await;
}

/// A client with a certificate of this lifetime that reads events over TLS, once its first bytes are here.
async fn events(dir: &Path, address: SocketAddr, name: &str, lifetime: std::time::Duration) -> TlsStream<tokio::net::TcpStream> {
    let client = pki::Client { role: Role::Read, name: name.into(), hosts: Vec::new(), lifetime };
    let issued = pki::issue(dir, &client, true).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(pki::authority_path(dir)).unwrap()).unwrap();
    let chain = CertificateDer::pem_file_iter(&issued.certificate).unwrap().map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(&issued.key).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_client_auth_cert(chain, key).unwrap();
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let mut stream = TlsConnector::from(Arc::new(config)).connect("localhost".try_into().unwrap(), stream).await.unwrap();
    stream.write_all(b"GET /v1alpha1/events/stream HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut first = [0; 12];
    stream.read_exact(&mut first).await.unwrap();
    assert!(first.ends_with(b"200"), "{first:?}");
    stream
}

/// Whether the service cuts it in time.
async fn is_cut(stream: &mut TlsStream<tokio::net::TcpStream>) -> bool {
    tokio::time::timeout(WAIT, stream.read_to_end(&mut Vec::new())).await.is_ok()
}

#[tokio::test]
async fn a_connection_lives_no_longer_than_its_certificate_and_its_authority() {
    let folder = tempfile::tempdir().unwrap();
    let pki_folder = folder.path().join("pki");
    pki::init(&pki_folder, &["localhost".into()], false).unwrap();
    let files = pki::service_paths(&pki_folder);
    let config = folder.path().join("a.toml");
    let tls = format!(
        "[tls]\ncertificate = {:?}\nkey = {:?}\nclient_ca = {:?}\n",
        files.certificate,
        files.key,
        pki::authority_path(&pki_folder)
    );
    std::fs::write(&config, tls).unwrap();
    let service = Service::with(program().arg("--config").arg(&config).arg("--state").arg(folder.path().join("s.redb")));
    let mut short = events(&pki_folder, service.address, "short", std::time::Duration::from_secs(4)).await;
    let mut long = events(&pki_folder, service.address, "long", pki::CLIENT_LIFETIME).await;
    assert!(is_cut(&mut short).await, "it outlived its certificate");
    service.wait_for_log("its certificate expired");

    // Read again, the authorities are the same.
    service.signal(rustix::process::Signal::HUP);
    service.wait_for_log("configuration reloaded");
    assert!(tokio::time::timeout(std::time::Duration::from_millis(300), long.read_to_end(&mut Vec::new())).await.is_err());
    pki::init(&pki_folder, &["localhost".into()], true).unwrap();
    service.signal(rustix::process::Signal::HUP);
    assert!(is_cut(&mut long).await, "it outlived its authority");
    service.wait_for_log("the client authorities changed");
}

/// A service whose configuration names a list of revoked certificates, and whose files change while it runs, without a signal.
#[tokio::test]
async fn certificates_are_renewed_and_revoked_without_a_signal() {
    let folder = tempfile::tempdir().unwrap();
    let pki_folder = folder.path().join("pki");
    pki::init(&pki_folder, &["localhost".into()], false).unwrap();
    let (files, config) = (pki::service_paths(&pki_folder), folder.path().join("a.toml"));
    let named = [&files.certificate, &files.key, &pki::authority_path(&pki_folder), &pki::revoked_path(&pki_folder)];
    let keys = ["certificate", "key", "client_ca", "revoked"];
    let tls: String = keys.iter().zip(named).map(|(key, path)| format!("{key} = {path:?}\n")).collect();
    std::fs::write(&config, format!("[tls]\n{tls}")).unwrap();
    let service = Service::with(program().arg("--config").arg(&config).arg("--state").arg(folder.path().join("s.redb")));
    let life = std::time::Duration::from_secs(3_600);
    let mut stolen = events(&pki_folder, service.address, "stolen", life).await;
    let mut kept = events(&pki_folder, service.address, "kept", life).await;
    let shown = |stream: &TlsStream<tokio::net::TcpStream>| stream.get_ref().1.peer_certificates().unwrap()[0].to_vec();
    let first = shown(&kept);

    // A certificate of the service that was half written changes nothing; the whole one is taken, and connections stay.
    let whole = std::fs::read(&files.certificate).unwrap();
    std::fs::write(&files.certificate, &whole[..100]).unwrap();
    service.wait_for_log("the certificates that changed were not taken");
    assert_eq!(shown(&events(&pki_folder, service.address, "between", life).await), first);
    std::fs::write(&files.certificate, &whole).unwrap();
    pki::renew(&pki_folder, "server", life).unwrap();
    let until = std::time::Instant::now() + WAIT;
    while shown(&events(&pki_folder, service.address, "later", life).await) == first {
        assert!(std::time::Instant::now() < until, "the new certificate was not taken:\n{}", service.log());
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    service.wait_for_log("certificates reloaded: their files changed");
    assert!(tokio::time::timeout(std::time::Duration::from_millis(300), kept.read_to_end(&mut Vec::new())).await.is_err());

    // Who is revoked is cut, and comes in no more; who renewed a certificate comes in with the new one.
    let paths = pki::paths(&pki_folder, "stolen");
    let thief = [std::fs::read(&paths.certificate).unwrap(), std::fs::read(&paths.key).unwrap()];
    pki::revoke(&pki_folder, &paths.certificate).unwrap();
    assert!(is_cut(&mut stolen).await, "it outlived its revocation");
    service.wait_for_log("the client authorities changed, or what they revoked");
    let renewed = pki::renew(&pki_folder, "stolen", life).unwrap();
    let status = |certificate: &[u8], key: &[u8]| {
        let at = folder.path().join("who.pem");
        std::fs::write(&at, [certificate, b"\n", key].concat()).unwrap();
        let output = std::process::Command::new("curl")
            .args(["--silent", "--max-time", "30", "--output", "/dev/null", "--write-out", "%{http_code}", "--resolve"])
            .arg(format!("localhost:{}:127.0.0.1", service.address.port()))
            .arg("--cacert")
            .arg(pki::authority_path(&pki_folder))
            .arg("--cert")
            .arg(&at)
            .arg(format!("https://localhost:{}/v1alpha1/plan", service.address.port()))
            .output();
        output.map(|output| String::from_utf8(output.stdout).unwrap())
    };
    let Ok(refused) = status(&thief[0], &thief[1]) else {
        println!("skipped: curl cannot be run, so a refused certificate was not tried");
        return;
    };
    assert_eq!(refused, "000");
    let now = status(&std::fs::read(&renewed.certificate).unwrap(), &std::fs::read(&renewed.key).unwrap()).unwrap();
    assert_eq!(now, "200");
}

/// What balancers and the kubelet do every few seconds. Whoever is refused is told all the same.
#[tokio::test]
async fn a_probe_of_the_port_writes_no_line() {
    let folder = tempfile::tempdir().unwrap();
    let pki_folder = folder.path().join("pki");
    pki::init(&pki_folder, &["localhost".into()], false).unwrap();
    let (files, ca, config) = (pki::service_paths(&pki_folder), pki::authority_path(&pki_folder), folder.path().join("a.toml"));
    std::fs::write(&config, format!("[tls]\ncertificate = {:?}\nkey = {:?}\nclient_ca = {ca:?}\n", files.certificate, files.key)).unwrap();
    let service = Service::with(program().arg("--config").arg(&config).arg("--state").arg(folder.path().join("s.redb")));
    for _ in 0..3 {
        drop(TcpStream::connect(service.address).unwrap());
    }
    let stranger = TcpStream::connect(service.address).unwrap();
    std::io::Write::write_all(&mut &stranger, b"GET / HTTP/1.0\r\n\r\n").unwrap();
    service.wait_for_log("a connection was not taken");
    assert_eq!(service.log().matches("a connection was").count(), 1, "{}", service.log());
}
