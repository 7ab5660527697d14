//! A whole agent against the service's QUIC endpoint, with a real gate: from a plan in the service to a start in its slot.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    fs,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use agent::{
    clock::ClockEstimate,
    config::Config,
    pages::Pages,
    run::Agent,
    wiring::{self, Connection},
};
use futures_util::future::BoxFuture;
use gate::{Gate, JobName, PageReader, StepOutcome};
use gate_core::Reason;
use proto::v1alpha1::{HostPlan, Slot, Telemetry};
use server::{
    FabricClock,
    quic::{self, Controller, ControllerGone, Outbox, Seams, Settings, Stats, TelemetrySink},
    tls::Tls,
};
use state::{Event, SessionId};
use telemetry::Root;
use tokio::{sync::oneshot, task::JoinHandle, time::timeout};

/// Every wait ends by then; none takes so long on a machine that works.
const SOON: Duration = Duration::from_secs(30);
const PERIOD_NS: u64 = 60_000_000;
const OFFSET_NS: u64 = 17_000_000;
const TOLERANCE_NS: u64 = 9_000_000;

/// A controller that remembers and decides nothing.
#[derive(Default)]
struct Memory {
    events: Mutex<Vec<Event>>,
    outbox: Mutex<Option<Outbox>>,
    telemetry: Mutex<Vec<(String, Telemetry)>>,
}

impl Controller for Memory {
    fn register(&self, _: SessionId, outbox: Outbox) {
        *self.outbox.lock().unwrap() = Some(outbox);
    }

    fn tell(&self, event: Event) -> BoxFuture<'_, Result<(), ControllerGone>> {
        self.events.lock().unwrap().push(event);
        Box::pin(std::future::ready(Ok(())))
    }
}

impl TelemetrySink for Memory {
    fn take(&self, host: &str, frame: Telemetry) {
        self.telemetry.lock().unwrap().push((host.to_owned(), frame));
    }
}

impl Memory {
    async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let waited = timeout(SOON, async {
            while !holds(self) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        assert!(waited.await.is_ok(), "{what}: not within {SOON:?}; {:?}", self.events.lock().unwrap());
    }

    fn saw(&self, wanted: impl Fn(&Event) -> bool) -> bool {
        self.events.lock().unwrap().iter().any(wanted)
    }

    fn iterations(&self) -> u64 {
        let of = |event: &Event| match event {
            Event::Report { report, .. } => report.gates.iter().map(|gate| gate.iterations).sum(),
            _ => 0,
        };
        self.events.lock().unwrap().iter().map(of).sum()
    }
}

struct Service {
    address: std::net::SocketAddr,
    memory: Arc<Memory>,
    clock: FabricClock,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Service {
    fn start() -> Self {
        let settings = Settings { report_interval: Duration::from_millis(200), ..Settings::default() };
        let tls = Arc::new(Tls::throw_away().unwrap());
        let endpoint = quic::endpoint((Ipv4Addr::LOCALHOST, 0).into(), &tls, &settings).unwrap();
        let address = endpoint.local_addr().unwrap();
        let (memory, clock) = (Arc::new(Memory::default()), FabricClock::start());
        let seams = Seams { controller: memory.clone(), telemetry: memory.clone(), clock, stats: Arc::new(Stats::default()) };
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(quic::serve(endpoint, tls, seams, settings, async { drop(stopped.await) }));
        Self { address, memory, clock, stop, task }
    }

    async fn stop(self) {
        self.stop.send(()).unwrap();
        timeout(SOON, self.task).await.unwrap().unwrap();
    }
}

/// A made interface, so that no port of this machine is in the test.
fn tree(root: &Path) {
    let statistics = root.join("sys/class/net/ens1f0/statistics");
    fs::create_dir_all(&statistics).unwrap();
    for file in ["rx_bytes", "tx_bytes"] {
        fs::write(statistics.join(file), "1000\n").unwrap();
    }
}

struct Node {
    connection: Connection,
    stop: oneshot::Sender<()>,
    agent: JoinHandle<(Pages, Option<ClockEstimate>)>,
    pages: PathBuf,
    _folder: tempfile::TempDir,
}

impl Node {
    async fn start(service: &Service) -> Self {
        let folder = tempfile::tempdir().unwrap();
        tree(folder.path());
        let text = format!(
            "host = \"gpu-01\"\n[service]\naddress = \"{}\"\ninsecure_loopback = true\n[metrics]\nlisten = \"\"\n",
            service.address
        );
        let mut config = Config::parse(&text).unwrap();
        config.page_dir = folder.path().join("run");
        let (session_ends, agent_ends) = wiring::channels(None);
        let pages = Pages::new(&config.page_dir, &config.host).unwrap();
        let mut agent = Agent::start(&config, Root::under(folder.path()), pages, agent_ends).await.unwrap();
        let connection = Connection::start(&config, agent.ports(), session_ends).unwrap();
        agent.show_session(connection.stats());
        let (stop, stopped) = oneshot::channel();
        let agent = tokio::spawn(agent.run(async { drop(stopped.await) }));
        Self { connection, stop, agent, pages: config.page_dir, _folder: folder }
    }
}

fn slot(service: &Service) -> Slot {
    Slot {
        job: "train".into(),
        plan_version: 4,
        period_ns: PERIOD_NS,
        offset_ns: OFFSET_NS,
        tolerance_ns: TOLERANCE_NS,
        slack_ns: 20_000_000,
        hold_max_ns: PERIOD_NS,
        hold: true,
        expires_ns: service.clock.now().0 + 60_000_000_000,
        leader_host: "gpu-01".into(),
        turns: false,
    }
}

/// Iterations of a job that works for 20 ms and then asks its gate, on a thread of its own as a job would.
async fn steps(pages: &Path, count: usize) -> Vec<StepOutcome> {
    let config = gate::Config::new(pages, JobName::try_new("train").unwrap());
    let job = tokio::task::spawn_blocking(move || {
        let gate = Gate::open(&config);
        let step = |_| {
            std::thread::sleep(Duration::from_millis(20));
            gate.step()
        };
        (0..count).map(step).collect()
    });
    timeout(SOON, job).await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_in_the_service_becomes_a_start_in_its_slot() {
    let service = Service::start();
    let node = Node::start(&service).await;
    let memory = Arc::clone(&service.memory);
    let hello = |event: &Event| matches!(event, Event::AgentHello { host, ports, .. } if host == "gpu-01" && ports == &["ens1f0"]);
    memory.until("hello", |memory| memory.saw(hello)).await;
    // The first estimate of the clock comes with the first probes; a plan that came before it would open the gate.
    memory.until("clock", |memory| memory.saw(|event| matches!(event, Event::Report { report, .. } if report.clock.is_some()))).await;
    memory.outbox.lock().unwrap().as_ref().unwrap().plan(HostPlan { plan_version: 4, slots: vec![slot(&service)] });
    memory.until("ack", |memory| memory.saw(|event| matches!(event, Event::PlanAck { plan_version: 4, .. }))).await;

    let outcomes = steps(&node.pages, 8).await;
    let fabric = service.clock.now().0 - gate::now().0;
    let held = outcomes.iter().filter(|outcome| outcome.held.0 > 0).count();
    // A job of 20 ms in a period of 60 ms is early every time.
    assert!(held >= 6, "{outcomes:?}");
    let mut on_time = 0;
    for outcome in &outcomes {
        assert_eq!(outcome.because, Reason::OnTime, "{outcomes:?}");
        assert_eq!(outcome.plan_version, 4);
        let late = (outcome.start.0 + fabric + PERIOD_NS - OFFSET_NS) % PERIOD_NS;
        // Due by the service's own clock: within the tolerance, or a few milliseconds early by the error of the clock.
        on_time += usize::from(late <= TOLERANCE_NS || PERIOD_NS - late <= 3_000_000);
    }
    // A busy machine may wake a job late once or twice.
    assert!(on_time >= 6, "{outcomes:?}");
    memory.until("reports of all iterations", |memory| memory.iterations() == 8).await;
    memory
        .until("telemetry", |memory| {
            memory.telemetry.lock().unwrap().iter().any(|(host, frame)| host == "gpu-01" && frame.port == "ens1f0")
        })
        .await;

    // The service goes away; the plan stays, and so does the hold.
    service.stop().await;
    tokio::time::sleep(Duration::from_millis(700)).await;
    let outcomes = steps(&node.pages, 4).await;
    assert!(outcomes.iter().all(|outcome| outcome.because == Reason::OnTime), "{outcomes:?}");

    // The agent stops: the gate need not wait for its heartbeat to grow old.
    let page = PageReader::open(&node.pages, &JobName::try_new("train").unwrap()).unwrap();
    node.stop.send(()).unwrap();
    let (mut pages, clock) = timeout(SOON, node.agent).await.unwrap().unwrap();
    assert!(clock.is_some());
    pages.retire_all();
    timeout(SOON, node.connection.close()).await.unwrap();
    assert_eq!(page.read(), Err(Reason::NoPage));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_stops_says_goodbye() {
    let service = Service::start();
    let node = Node::start(&service).await;
    let memory = Arc::clone(&service.memory);
    memory.until("hello", |memory| memory.saw(|event| matches!(event, Event::AgentHello { .. }))).await;
    node.stop.send(()).unwrap();
    timeout(SOON, node.agent).await.unwrap().unwrap();
    node.connection.close().await;
    memory.until("gone", |memory| memory.saw(|event| matches!(event, Event::AgentGone { .. }))).await;
    service.stop().await;
}
