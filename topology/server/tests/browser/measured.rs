//! What agents measured: a service in this process, so that the test can be its agents.

use std::{net::SocketAddr, sync::Arc};

use antiphase_topology::{
    ControllerHandle, FabricClock, TelemetryHandle,
    api::{Api, Parts},
    config::Config,
    controller::{Controller, Surroundings},
    discovery::Discovery,
    events::EventLog,
    http::{Acceptor, router, serve},
    metrics::Metrics,
    quic::{self, Controller as _, Outbox},
    shutdown::Shutdown,
};
use proto::v1alpha1::{CounterDeltas, Telemetry};
use serde_json::{Value, json};
use state::{AgentReport, ClockQuality, Event, GateReport, Origin, SessionId};
use store::{Loaded, StateFile};
use tokio::{net::TcpListener, runtime::Runtime, sync::watch};
use units::{FabricTime, Nanos};

use crate::{
    chromium::Browser,
    fabrics::small,
    few::CONTRAST,
    support::{job, request},
};

const SECOND: u64 = 1_000_000_000;

pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    pub(crate) controller: Controller,
    telemetry: TelemetryHandle,
    pub(crate) discovery: Discovery,
    pub(crate) around: Surroundings,
    pub(crate) clock: FabricClock,
    pub(crate) shutdown: Shutdown,
    _folder: tempfile::TempDir,
}

/// A service whose agents are the test.
pub(crate) async fn start(config: &state::Config) -> Served {
    let folder = tempfile::tempdir().unwrap();
    let (clock, metrics) = (FabricClock::start(), Arc::new(Metrics::new().unwrap()));
    let (events, telemetry) = (EventLog::new(clock.now()), TelemetryHandle::default());
    let around = Surroundings { clock, events: events.clone(), telemetry: telemetry.clone(), metrics: Arc::clone(&metrics) };
    let file = StateFile::open(&folder.path().join("s.redb")).unwrap();
    let controller = Controller::start(config, file, Loaded::default(), around.clone()).unwrap();
    let discovery = Discovery::default();
    let api = Api::new(Parts {
        controller: controller.handle.clone(),
        health: controller.health.clone(),
        telemetry: telemetry.clone(),
        discovery: discovery.clone(),
        events,
        metrics,
        sessions: Arc::new(quic::Stats::default()),
        clock,
        config: watch::Sender::new(Arc::new(Config::default())).subscribe(),
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = Shutdown::default();
    tokio::spawn(serve(listener, Acceptor::Plain, router(api.clone(), shutdown.clone()), api, shutdown.clone()));
    Served { address, controller, telemetry, discovery, around, clock, shutdown, _folder: folder }
}

impl Served {
    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> Value {
        let answer = request(self.address, method, path, &[], body.as_bytes()).unwrap();
        assert_eq!(answer.status, 200, "{method} {path}: {}", answer.body);
        serde_json::from_str(&answer.body).unwrap()
    }

    /// Marks that a port received: many until now, few from now on.
    pub(crate) fn marks(&self, host: &str, port: &str, scale: u64) {
        let now = self.clock.now();
        let at_ns = (0..62).map(|n| now.0 - 60 * SECOND + n * SECOND).collect();
        let counter = |name: &str, of: u64| {
            let delta = (0..62).map(|n: u64| if n < 60 { of * (80 + n * 37 % 40) } else { of }).collect();
            CounterDeltas { name: name.into(), delta }
        };
        let counters = vec![counter("ecn_marked_rx", scale), counter("cnp_tx", scale / 2), counter("rx_bytes", 1_000)];
        self.telemetry.port(now, host, &Telemetry { port: port.into(), at_ns, counters, queue_pairs: None });
    }

    /// One second of 10 Gb/s that a host receives.
    fn receives(&self, host: &str) {
        let counters = vec![CounterDeltas { name: "rx_bytes".into(), delta: vec![1_250_000_000] }];
        let now = self.clock.now();
        self.telemetry.port(now, host, &Telemetry { port: "mlx5_0/1".into(), at_ns: vec![now.0], counters, queue_pairs: None });
    }

    /// Iteration times of the last minute.
    pub(crate) fn iterations(&self, job: &str, nanos: u64) {
        let now = self.clock.now().0;
        (1..60).for_each(|n| self.telemetry.job(FabricTime(now - (60 - n) * SECOND), job, Nanos(nanos + n * 7 % 5 * 100_000), 0));
    }
}

/// An agent that says hello, follows the plan and reports what the gate of its job saw.
pub(crate) async fn agent(controller: &ControllerHandle, session: u64, host: &str, plan_version: u64, bound: Nanos, gate: GateReport) {
    let session = SessionId(session);
    controller.register(session, Outbox::new().0);
    let (version, ports) = ("1.2.3".to_owned(), vec!["mlx5_0/1".to_owned()]);
    controller
        .tell(Event::AgentHello { session, host: host.into(), version, ports, plan_version: 0, origin: Origin::default() })
        .await
        .unwrap();
    controller.tell(Event::PlanAck { session, plan_version }).await.unwrap();
    let clock = Some(ClockQuality { bound, rtt: Nanos(40_000) });
    controller.tell(Event::Report { session, report: AgentReport { clock, gates: vec![gate] } }).await.unwrap();
}

/// Of a job with a long tail the median says that all is well; an agent from before means tells nothing else, and then it is called a median.
#[test]
fn a_median_never_stands_where_a_mean_is_meant() {
    let Some(mut browser) = Browser::start(1440, 1400) else { return };
    let runtime = Runtime::new().unwrap();
    let served = runtime.block_on(start(&state::Config::default()));
    served.ask("PUT", "/v1alpha1/fabric", &small());
    let jobs = [job("alpha", &["h1", "h5"]), job("beta", &["h2", "h6"])];
    let committed = served.ask("POST", "/v1alpha1/commit", &json!({ "jobs": jobs }).to_string());
    let plan_version = committed["plan_version"].as_u64().unwrap();
    let gate = |job: &str, mean: Option<u64>| {
        let (iteration, iteration_mean) = (Some(Nanos(340_000_000)), mean.map(Nanos));
        GateReport { job: job.into(), plan_version, iterations: 40, iteration, iteration_mean, ..GateReport::default() }
    };
    let controller = &served.controller.handle;
    runtime.block_on(agent(controller, 1, "h1", plan_version, Nanos(5_000), gate("alpha", Some(447_000_000))));
    runtime.block_on(agent(controller, 2, "h2", plan_version, Nanos(7_000), gate("beta", None)));

    browser.go(&format!("http://{}/", served.address));
    browser.until("document.querySelector('#jobs tr[data-row=beta]')?.textContent.includes('340.0 ms')");
    let text =
        |browser: &mut Browser, of: &str| browser.eval(&format!("document.querySelector('{of}').textContent")).as_str().unwrap().to_owned();
    let alpha = text(&mut browser, "#jobs tr[data-row=alpha]");
    assert!(alpha.contains("447.0 ms") && !alpha.contains("340.0 ms") && !alpha.contains("median"), "{alpha}");
    let beta = text(&mut browser, "#jobs tr[data-row=beta]");
    assert!(beta.contains(" median"), "{beta}");
    let verdict = text(&mut browser, "#verdict");
    let alone = served.ask("GET", "/v1alpha1/jobs", "")["jobs"].clone();
    let over = |job: &Value, iteration: f64| iteration / job["predicted_contended_ns"].as_f64().unwrap();
    let longer = 100.0 * ((over(&alone[0], 447e6) + over(&alone[1], 340e6)) / 2.0 - 1.0);
    let way = if longer < 0.0 { "shorter" } else { "longer" };
    assert!(verdict.contains(&format!("iterations of 2 jobs are on average {:.1} % {way} than", longer.abs())), "{verdict} {longer}");
    assert!(verdict.contains("Of 1 of them that is the median"), "{verdict}");

    let fact = |browser: &mut Browser, job: &str| {
        browser.go(&format!("http://{}/#job={job}", served.address));
        browser.until(&format!("document.querySelector('#job-detail').dataset.key === '{job}' && document.querySelector('#job-facts dd')"));
        text(browser, "#job-facts")
    };
    let (alpha, beta) = (fact(&mut browser, "alpha"), fact(&mut browser, "beta"));
    assert!(alpha.contains("Iteration now447.0 ms") && !alpha.contains("median"), "{alpha}");
    assert!(beta.contains("Iteration now340.0 ms median"), "{beta}");
}

#[test]
fn measurements_of_agents_are_shown() {
    let Some(mut browser) = Browser::start(1440, 1400) else { return };
    let runtime = Runtime::new().unwrap();
    let served = runtime.block_on(start(&state::Config::default()));
    served.ask("PUT", "/v1alpha1/fabric", &small());
    let committed =
        served.ask("POST", "/v1alpha1/commit", &json!({ "jobs": [job("alpha", &["h1", "h5"]), job("beta", &["h2", "h6"])] }).to_string());
    let plan_version = committed["plan_version"].as_u64().unwrap();
    let gate = |job: &str, iteration| GateReport {
        job: job.into(),
        plan_version,
        iterations: 40,
        holds: 39,
        slips: 1,
        phase_error: Some(1_200_000),
        // Each fourth iteration takes long: the median says nothing of it.
        iteration: Some(Nanos(250_000_000)),
        iteration_mean: Some(Nanos(iteration)),
        ..GateReport::default()
    };
    let controller = &served.controller.handle;
    // The minute before the report: samples older than the last one are not taken.
    served.iterations("alpha", 326_000_000);
    runtime.block_on(agent(controller, 1, "h1", plan_version, Nanos(5_000), gate("alpha", 326_000_000)));
    runtime.block_on(agent(controller, 2, "h2", plan_version, Nanos(7_000), gate("beta", 327_000_000)));
    served.marks("h5", "mlx5_0/1", 3);
    served.marks("h6", "mlx5_0/1", 200);

    browser.go(&format!("http://{}/", served.address));
    browser.until("document.querySelectorAll('#marks .chart').length === 2 && document.querySelectorAll('#agents tbody tr').length === 2");
    let text = |browser: &mut Browser, selector: &str| {
        browser.eval(&format!("document.querySelector({}).innerText", json!(selector))).as_str().unwrap().to_owned()
    };
    let alpha = text(&mut browser, "#jobs tr[data-row=alpha]");
    assert!(["alpha", "held", "326.0 ms", "+1.20 ms"].iter().all(|part| alpha.contains(part)), "{alpha}");
    // The page asks for iterations over time beside the rest, and draws them when they come.
    browser.until("document.querySelectorAll('#jobs tr[data-row=alpha] svg path').length === 1");
    let agent = text(&mut browser, "#agents tbody tr:first-child");
    assert!(["h1", "connected", "5.0 µs", "40.0 µs", "1.2.3", "alpha"].iter().all(|part| agent.contains(part)), "{agent}");
    let verdict = text(&mut browser, "#verdict");
    assert!(verdict.contains("Measured: iterations of 2 jobs") && verdict.contains("shorter"), "{verdict}");
    assert!(!verdict.contains("median") && !alpha.contains("median"), "{verdict} {alpha}");
    // The port with most marks first; received and sent are two lines, and bytes are none of them; a stroke where the plan changed.
    let chart = "#marks .chart:first-child";
    let title = text(&mut browser, chart);
    assert!(title.contains("h6 mlx5_0/1") && title.contains("ECN marks received") && title.contains("CNPs sent"), "{title}");
    assert_eq!(browser.eval(&format!("document.querySelectorAll('{chart} path').length")), 2);
    assert!(browser.eval(&format!("document.querySelectorAll('{chart} .event').length")).as_u64().unwrap() >= 1);
    let least = browser.eval(CONTRAST);
    assert!(least[0].as_f64().unwrap() >= 4.5, "{least}");
    browser.shot("measured-light");
    browser.prefer("dark");
    let least = browser.eval(CONTRAST);
    assert!(least[0].as_f64().unwrap() >= 4.5, "{least}");
    browser.shot("measured-dark");

    runtime.block_on(controller.tell(Event::AgentGone { session: SessionId(1) })).unwrap();
    browser.until("document.querySelector('#agents tbody tr .state-lost') && document.querySelector('#vitals .bad').textContent.includes('1 agent lost')");
    // What comes to h2 is measured for as long as its agent tells it, beside what was planned; nobody measures what comes to h1.
    let cell = |end: &str| {
        let row =
            format!("[...document.querySelectorAll('#links tbody tr')].find((r) => r.dataset.row.endsWith({}))", json!(format!(">{end}")));
        format!("{row}.children[6].textContent")
    };
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while browser.eval(&format!("/^[0-9.]+ %$/.test({})", cell("h2"))) != true {
        assert!(std::time::Instant::now() < until, "{}", text(&mut browser, "#links"));
        served.receives("h2");
        std::thread::sleep(std::time::Duration::from_secs(1));
    }
    assert_eq!(browser.eval(&cell("h1")), "–");
    // An answer has 512 ports, and the page says that these are not all.
    (0..600).for_each(|host| served.marks(&format!("other{host}"), "mlx5_0/1", 1));
    browser.until("document.querySelector('#marks-note').textContent.includes('512 of 603 ports asked for')");
    assert_eq!(browser.troubles(), [""; 0]);
    browser.shot("measured-many-ports");
    served.shutdown.begin();
    served.controller.stop();
}

/// An agent under a wrong name is connected, and nothing else on the page would show that it holds nobody.
#[test]
fn agents_under_a_wrong_name_are_told() {
    let Some(mut browser) = Browser::start(1440, 900) else { return };
    let runtime = Runtime::new().unwrap();
    let served = runtime.block_on(start(&state::Config::default()));
    served.ask("PUT", "/v1alpha1/fabric", &small());
    let controller = &served.controller.handle;
    let mut session = 0;
    let mut hello = |host: &str, instance: u64, from: &str| {
        session += 1;
        let origin = Origin { instance, from: from.into() };
        let (session, version) = (SessionId(session), "1.2.3".to_owned());
        controller.register(session, Outbox::new().0);
        let event = Event::AgentHello { session, host: host.into(), version, ports: Vec::new(), plan_version: 0, origin };
        runtime.block_on(controller.tell(event)).unwrap();
    };
    hello("gpu-1", 1, "10.0.0.9");
    hello("h2", 2, "10.0.0.2");
    browser.go(&format!("http://{}/", served.address));
    // Before any job: this is when hosts are named.
    browser.until("document.querySelector('#verdict')?.innerText.includes('Host gpu-1: its agent is connected, from 10.0.0.9, and the fabric has no such host')");
    browser.until("document.querySelectorAll('#agents tbody tr').length === 2");
    let row = |browser: &mut Browser| {
        browser.eval("document.querySelector('#agents tbody tr:first-child').innerText").as_str().unwrap().to_owned()
    };
    let first = row(&mut browser);
    assert!(first.contains("gpu-1") && first.contains("wrong name"), "worst first: {first}");
    served.ask("POST", "/v1alpha1/commit", &json!({ "jobs": [job("alpha", &["h1", "h5"]), job("beta", &["h2", "h6"])] }).to_string());
    for (instance, from) in [(3, "10.0.0.5"), (4, "10.0.0.6"), (3, "10.0.0.5")] {
        hello("h1", instance, from);
    }
    browser.until("document.querySelector('#verdict').innerText.includes('Host h1: two agents say that they are its, from 10.0.0.5 and from 10.0.0.6')");
    browser.until("document.querySelector('#verdict').innerText.includes('Host gpu-1')");
    browser.until("document.querySelector('#vitals .bad').textContent.includes('2 agents under a wrong name')");
    browser.until("document.querySelectorAll('#agents tbody tr .state-lost').length === 2");
    browser.until("[...document.querySelectorAll('#events li')].filter((e) => /unknown_host|two_agents/.test(e.textContent)).length === 2");
    let least = browser.eval(CONTRAST);
    assert!(least[0].as_f64().unwrap() >= 4.5, "{least}");
    browser.shot("wrong-names");
    assert_eq!(browser.troubles(), [""; 0]);
    served.shutdown.begin();
}
