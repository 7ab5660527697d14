//! A whole agent with a made-up session: plans in, acknowledgements, reports, telemetry and metrics out.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    fs,
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use antiphase_agent::{
    clock::ClockEstimate,
    config::Config,
    pages::Pages,
    run::{Agent, Endpoint, Parts},
    wiring::{self, SessionEnds, SessionStatus},
};
use gate::{Gate, JobName, PageReader, now};
use gate_core::Reason;
use proto::v1alpha1::{AgentFrame, HostPlan, Slot, agent_frame::Kind};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use telemetry::Root;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::oneshot,
    task::JoinHandle,
    time::timeout,
};
use units::{ClockOffset, Nanos};

/// How long anything may take on a busy machine before the test says that it will not come.
const PATIENCE: Duration = Duration::from_secs(20);
const OFFSET: i64 = 1_700_000_000_000_000_000;

/// A made tree: one interface, one RDMA port, and IP.
fn tree(root: &Path) {
    let write = |file: &str, text: &str| {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    for file in ["rx_bytes", "tx_bytes", "rx_packets"] {
        write(&format!("sys/class/net/ens1f0/statistics/{file}"), "1000\n");
        write(&format!("sys/class/net/lo/statistics/{file}"), "1000\n");
    }
    write("sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts", "5\n");
    write("sys/class/infiniband/rxe0/ports/1/gid_attrs/ndevs/0", "ens1f0\n");
    write("proc/net/netstat", "IpExt: InCEPkts InOctets\nIpExt: 3 4\n");
}

#[path = "agent/node_exporter.rs"]
mod node_exporter;

struct Running {
    folder: tempfile::TempDir,
    session: SessionEnds,
    ports: Vec<String>,
    metrics: std::net::SocketAddr,
    config: Config,
    endpoint: Endpoint,
    stop: oneshot::Sender<()>,
    agent: JoinHandle<(Pages, Option<ClockEstimate>)>,
}

impl Running {
    async fn start() -> Self {
        Self::with("", tree).await
    }

    /// With more keys of `[metrics]`, over what is laid out.
    async fn with(metrics: &str, lay: impl Fn(&Path)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        lay(folder.path());
        let mut config = Config::parse(&format!("host = \"gpu-01\"\n[metrics]\nlisten = \"127.0.0.1:0\"\n{metrics}")).unwrap();
        config.page_dir = folder.path().join("run");
        let (session, ends) = wiring::channels(None);
        let pages = Pages::new(&config.page_dir, &config.host).unwrap();
        let parts = Parts::make(&config, Root::under(folder.path()), ends, &Endpoint::default()).await.unwrap();
        let endpoint = parts.endpoint();
        let agent = Agent::new(parts, pages);
        let (ports, metrics) = (agent.ports(), agent.metrics_address().unwrap());
        let (stop, stopped) = oneshot::channel();
        let agent = tokio::spawn(agent.run(async { drop(stopped.await) }));
        Self { folder, session, ports, metrics, config, endpoint, stop, agent }
    }

    fn connect(&self, sessions: u64) {
        let clock = ClockEstimate { offset: ClockOffset(OFFSET), bound: Nanos(1_000), rtt: Nanos(300), at: now() };
        self.session.clock.send(Some(clock)).unwrap();
        let status = SessionStatus { connected: true, sessions, report_interval: Nanos::from_millis(200) };
        self.session.status.send(status).unwrap();
    }

    async fn frame(&mut self) -> Kind {
        let AgentFrame { kind } = timeout(PATIENCE, self.session.frames.recv()).await.unwrap().unwrap();
        kind.unwrap()
    }

    async fn get(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.metrics).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        timeout(PATIENCE, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
        answer
    }

    async fn metrics(&self) -> String {
        let answer = self.get("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        let (head, text) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains(&format!("Content-Length: {}", text.len())), "{head}");
        text.to_owned()
    }
}

fn slot() -> Slot {
    Slot {
        job: "train-7".into(),
        plan_version: 5,
        period_ns: 100_000_000,
        offset_ns: 0,
        tolerance_ns: 15_000_000,
        slack_ns: 10_000_000,
        hold_max_ns: 100_000_000,
        hold: true,
        expires_ns: now().0 + OFFSET.cast_unsigned() + 60_000_000_000,
        leader_host: "gpu-01".into(),
        turns: false,
    }
}

#[tokio::test]
async fn from_plan_to_page_to_report() {
    let mut running = Running::start().await;
    running.connect(1);
    assert_eq!(running.ports, ["ens1f0", "ip", "rxe0/1"]);
    running.session.plans.send(HostPlan { plan_version: 5, slots: vec![slot()] }).await.unwrap();
    let ack = loop {
        if let Kind::PlanAck(ack) = running.frame().await {
            break ack;
        }
    };
    assert_eq!(ack.plan_version, 5);
    let fabric = now().0 + OFFSET.cast_unsigned();
    assert!(ack.written_ns <= fabric && fabric - ack.written_ns < 30_000_000_000, "{ack:?}");
    let directory = running.folder.path().join("run");
    let job = JobName::try_new("train-7").unwrap();
    let page = PageReader::open(&directory, &job).unwrap();
    let first = page.read().unwrap();
    // A real job steps through its gate, and the agent's next reports say so.
    let stepping = std::thread::spawn(move || {
        let gate = Gate::open(&gate::Config::new(directory, job));
        for _ in 0..5 {
            gate.step();
            std::thread::sleep(Duration::from_millis(30));
        }
    });
    let mut iterations = 0;
    let mut sequence = 0;
    while iterations < 5 {
        let Kind::Report(report) = running.frame().await else { continue };
        assert!(report.sequence > sequence);
        sequence = report.sequence;
        let clock = report.clock.unwrap();
        assert!(clock.offset_ns == OFFSET && clock.rtt_ns == 300 && clock.bound_ns >= 1_000, "{clock:?}");
        iterations += report.gates.iter().map(|gate| gate.iterations).sum::<u64>();
    }
    stepping.join().unwrap();
    assert_eq!(iterations, 5);
    // The heartbeat went on all the while.
    assert!(page.read().unwrap().written > first.written);
    let text = running.metrics().await;
    assert!(text.contains("antiphase_agent_gate_iterations_total{job_id=\"train-7\"} 5\n"), "{text}");
    // The session is lost: the page goes on, with the clock that was known last.
    running.session.clock.send(None).unwrap();
    running.session.status.send(SessionStatus::default()).unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(page.read().unwrap().distrust(now()), None);
    running.stop.send(()).unwrap();
    let (mut pages, clock) = timeout(PATIENCE, running.agent).await.unwrap().unwrap();
    assert!(clock.is_some());
    pages.retire_all();
    assert_eq!(page.read(), Err(Reason::NoPage));
}

/// Two jobs beside each other, of which neither takes turns and neither calls the gate: what each calls shows its iterations.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_jobs_call_shows_the_iterations_of_each() {
    let mut running = Running::start().await;
    running.connect(1);
    let other = Slot { job: "other-9".into(), hold: false, ..slot() };
    running.session.plans.send(HostPlan { plan_version: 5, slots: vec![other, slot()] }).await.unwrap();
    while !matches!(running.frame().await, Kind::PlanAck(_)) {}
    let directory = running.folder.path().join("run");
    let calling = |job: &str, calls: u64, every: Duration| {
        let teller = gate::Teller::new(&gate::Config::new(&directory, JobName::try_new(job).unwrap())).unwrap();
        std::thread::spawn(move || {
            let began = Instant::now();
            for _ in 0..12 {
                // The last call is another one, so that an iteration is not taken for a call.
                (0..calls).for_each(|n| teller.called(u64::MAX / (1 + n / (calls - 1))));
                std::thread::sleep(every);
            }
            began.elapsed().as_secs_f64() / 12.0
        })
    };
    let jobs = [("other-9", 3, 20), ("train-7", 50, 45)];
    let threads = jobs.map(|(job, calls, ms)| (job, calls, calling(job, calls, Duration::from_millis(ms))));
    for (job, calls, thread) in threads {
        let mean = thread.join().unwrap();
        let value = |text: &str, name: &str| {
            let series = format!("antiphase_agent_{name}{{job_id=\"{job}\"}} ");
            text.lines().find_map(|line| line.strip_prefix(&series)?.parse::<f64>().ok())
        };
        let shown = timeout(PATIENCE, async {
            loop {
                let text = running.metrics().await;
                let found = value(&text, "job_called_period_seconds").zip(value(&text, "job_calls_per_iteration"));
                if let Some((period, of)) = found.filter(|(_, of)| *of == calls as f64) {
                    return (period, of);
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        let (period, _) = shown.await.expect("the iteration is found in time");
        // A median beside a mean: a busy machine wakes some of them late.
        assert!(period > mean / 2.0 && period < mean * 1.5, "{job}: {period} {mean}");
    }
}

#[tokio::test]
async fn telemetry_has_fabric_time_and_only_what_is_there() {
    let mut running = Running::start().await;
    running.connect(1);
    let statistics = running.folder.path().join("sys/class/net/ens1f0/statistics");
    let (mut sent, mut seen) = (0, 0);
    let mut names = Vec::new();
    let mut last = 0;
    while seen < 3_000 {
        let frame = timeout(PATIENCE, running.session.telemetry.recv()).await.unwrap().unwrap();
        assert!(!frame.at_ns.is_empty() && frame.at_ns.is_sorted());
        assert!(frame.counters.iter().all(|counter| counter.delta.len() == frame.at_ns.len()), "{frame:?}");
        let names_here: Vec<String> = frame.counters.iter().map(|counter| counter.name.clone()).collect();
        names.push((frame.port.clone(), names_here));
        if frame.port != "ens1f0" {
            continue;
        }
        assert!(frame.at_ns[0] > last, "samples are told once");
        last = *frame.at_ns.last().unwrap();
        assert!(last.abs_diff(now().0 + OFFSET.cast_unsigned()) < 30_000_000_000);
        seen += frame.counters[0].delta.iter().sum::<u64>();
        if sent < 3_000 {
            sent += 1_000;
            fs::write(statistics.join("rx_bytes"), format!("{}\n", 1_000 + sent)).unwrap();
        }
    }
    assert_eq!(seen, 3_000);
    let of = |port: &str| names.iter().find(|(name, _)| name == port).map(|(_, names)| names.join(" "));
    assert_eq!(of("ens1f0").as_deref(), Some("rx_bytes tx_bytes rx_packets"));
    assert_eq!(of("rxe0/1").as_deref(), Some("tx_packets"));
    assert_eq!(of("ip").as_deref(), Some("ecn_marked_rx rx_bytes"));
    assert_eq!(of("lo"), None);
    drop(running.stop);
}

#[tokio::test]
async fn promtool_takes_the_metrics() {
    let running = Running::start().await;
    running.connect(1);
    running.session.plans.send(HostPlan { plan_version: 5, slots: vec![slot()] }).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let text = running.metrics().await;
    for line in [
        "antiphase_agent_port_rx_bytes_total{port=\"ens1f0\"} 0",
        "antiphase_agent_port_ecn_marked_rx_total{port=\"ip\"} 0",
        "antiphase_agent_port_info{port=\"rxe0/1\",kind=\"rdma\",netdev=\"ens1f0\"} 1",
        "antiphase_agent_connected 1",
        "antiphase_agent_pages 1",
        "antiphase_agent_plan_version 5",
        "# TYPE process_cpu_seconds_total counter",
        "# TYPE process_resident_memory_bytes gauge",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    // Absent is not 0.
    assert!(!text.contains("tx_drops") && !text.contains("cnp"), "{text}");
    let of_nic = text.lines().filter(|line| line.contains("port=\"ens1f0\"")).count();
    assert!(of_nic <= 40, "{of_nic} series of one NIC");
    let promtool = tokio::process::Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut promtool) = promtool else {
        println!("skipped: no promtool (package prometheus)");
        return;
    };
    promtool.stdin.take().unwrap().write_all(text.as_bytes()).await.unwrap();
    let output = timeout(PATIENCE, promtool.wait_with_output()).await.unwrap().unwrap();
    assert!(output.status.success(), "{}{}\n{text}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
}

#[tokio::test]
async fn the_endpoint_answers_what_it_has_and_refuses_the_rest() {
    let running = Running::start().await;
    let status = async |request: &str| running.get(request).await.lines().next().unwrap_or_default().to_owned();
    assert_eq!(status("GET /healthz HTTP/1.1\r\n\r\n").await, "HTTP/1.1 200 OK");
    assert_eq!(status("GET /metrics?x=1 HTTP/1.0\r\n\r\n").await, "HTTP/1.1 200 OK");
    assert_eq!(status("GET / HTTP/1.1\r\n\r\n").await, "HTTP/1.1 404 Not Found");
    assert_eq!(status("POST /metrics HTTP/1.1\r\n\r\n").await, "HTTP/1.1 405 Method Not Allowed");
    assert!(running.get("HEAD /metrics HTTP/1.1\r\n\r\n").await.ends_with("\r\n\r\n"));
    // A web page reaches the endpoint by a name of its own, and must not read it.
    for host in ["evil.example", "evil.example:7481", "localhost.evil.example", "", "10.0.0.1"] {
        let forbidden = running.get(&format!("GET /metrics HTTP/1.1\r\nAccept: */*\r\nhOsT : {host}\r\n\r\n")).await;
        assert!(forbidden.starts_with("HTTP/1.1 403 Forbidden") && !forbidden.contains("antiphase_agent_"), "{host}: {forbidden}");
    }
    assert_eq!(status("GET http://evil.example/metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").await, "HTTP/1.1 403 Forbidden");
    assert_eq!(status("GET /metrics HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n").await, "HTTP/1.1 403 Forbidden");
    for host in ["localhost", "127.0.0.1:7481", "[::1]:7481"] {
        assert_eq!(status(&format!("GET /healthz HTTP/1.1\r\nHost: {host}\r\n\r\n")).await, "HTTP/1.1 200 OK");
    }
    assert_eq!(status(&format!("GET /{} HTTP/1.1", "x".repeat(9_000))).await, "HTTP/1.1 400 Bad Request");
    // Clients that say nothing do not keep the others out for ever: they are cut after a while, and here they go themselves.
    let silent = mute(running.metrics).await;
    drop(silent);
    assert_eq!(status("GET /healthz HTTP/1.1\r\n\r\n").await, "HTTP/1.1 200 OK");
}

async fn mute(address: std::net::SocketAddr) -> Vec<TcpStream> {
    let mut streams = Vec::new();
    for _ in 0..8 {
        streams.push(TcpStream::connect(address).await.unwrap());
    }
    streams
}

/// A node's clean-up, or a mount that came late: what was there before is made anew, under its own names.
#[tokio::test]
async fn what_somebody_removes_from_the_directory_of_pages_comes_back() {
    let running = Running::start().await;
    running.connect(1);
    running.session.plans.send(HostPlan { plan_version: 5, slots: vec![Slot { hold: false, turns: true, ..slot() }] }).await.unwrap();
    let directory = running.folder.path().join("run");
    let files = ["train-7.page", "reports/train-7.report", "turns.sock"].map(|file| directory.join(file));
    let there = async || {
        while !files.iter().all(|file| file.exists()) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, there()).await.unwrap();
    for removed in [&files[0], &files[2], &directory] {
        if removed.is_dir() {
            fs::remove_dir_all(removed).unwrap()
        } else {
            fs::remove_file(removed).unwrap()
        }
        timeout(PATIENCE, there()).await.unwrap_or_else(|_| panic!("{} was removed, and not everything came back", removed.display()));
    }
    // A new gate is heard: only a start whose note was sent waits for an answer, which no service gives here.
    let gate = Gate::open(&gate::Config::new(&directory, JobName::try_new("train-7").unwrap()));
    let outcome = tokio::task::spawn_blocking(move || gate.step()).await.unwrap();
    assert!(outcome.held > Nanos(0), "{outcome:?}");
}

/// As SIGHUP does it: the next agent is made while the first one works, and gates and scrapers notice nothing.
#[tokio::test]
async fn an_agent_that_is_configured_anew_keeps_its_pages_and_its_port() {
    let running = Running::start().await;
    running.connect(1);
    running.session.plans.send(HostPlan { plan_version: 5, slots: vec![slot()] }).await.unwrap();
    let directory = running.folder.path().join("run");
    let page = async || loop {
        match PageReader::open(&directory, &JobName::try_new("train-7").unwrap()) {
            Ok(page) => break page,
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    };
    let page = timeout(PATIENCE, page()).await.unwrap();
    let root = || Root::under(running.folder.path());
    // A configuration that cannot be taken: the port is somebody else's.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut bad = running.config.clone();
    bad.metrics.listen = taken.local_addr().unwrap().to_string();
    let refused = Parts::make(&bad, root(), wiring::channels(None).1, &running.endpoint).await.unwrap_err();
    assert!(refused.to_string().starts_with(&format!("metrics.listen = {}", bad.metrics.listen)), "{refused}");
    assert!(running.metrics().await.contains("antiphase_agent_pages 1\n"));
    // One that can.
    let (session, ends) = wiring::channels(None);
    let parts = Parts::make(&running.config, root(), ends, &running.endpoint).await.unwrap();
    // A scrape whose head comes when that agent is about to end is answered by it.
    let mut scrape = TcpStream::connect(running.metrics).await.unwrap();
    scrape.write_all(b"GET /metrics HTTP/1.1\r\n").await.unwrap();
    let mut accepted = TcpStream::connect(running.metrics).await.unwrap();
    accepted.write_all(b"GET /healthz HTTP/1.1\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    timeout(PATIENCE, accepted.read_to_string(&mut answer)).await.unwrap().unwrap();
    let began = Instant::now();
    running.stop.send(()).unwrap();
    tokio::task::yield_now().await;
    scrape.write_all(b"\r\n").await.unwrap();
    let (pages, clock) = timeout(PATIENCE, running.agent).await.unwrap().unwrap();
    answer.clear();
    timeout(PATIENCE, scrape.read_to_string(&mut answer)).await.unwrap().unwrap();
    // An agent waits for scrapes for a tenth of a second; a machine that is slower than that shows nothing.
    let is_slow = began.elapsed() >= Duration::from_millis(100);
    assert!(is_slow || answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert_eq!(page.read().unwrap().distrust(now()), None);
    session.clock.send_replace(clock);
    let agent = Agent::new(parts, pages);
    assert_eq!(agent.metrics_address(), Some(running.metrics));
    let before = page.read().unwrap().written;
    let (stop, stopped) = oneshot::channel();
    let agent = tokio::spawn(agent.run(async { drop(stopped.await) }));
    let mut stream = TcpStream::connect(running.metrics).await.unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert!(answer.contains("antiphase_agent_plan_version 5\n"), "{answer}");
    while page.read().unwrap().written == before {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    stop.send(()).unwrap();
    let (mut pages, _) = timeout(PATIENCE, agent).await.unwrap().unwrap();
    pages.retire_all();
    assert_eq!(page.read(), Err(Reason::NoPage));
}

/// A FIFO stands for a driver that never answers: opening it waits for ever.
#[test]
fn a_driver_that_hangs_holds_nothing_up() {
    let folder = tempfile::tempdir().unwrap();
    tree(folder.path());
    let file = folder.path().join("sys/class/net/ens1f0/statistics/rx_bytes");
    fs::remove_file(&file).unwrap();
    mknodat(CWD, &file, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let (done, ended) = std::sync::mpsc::channel();
    let root = folder.path().to_owned();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let read = runtime.block_on(async {
            let config = Config::parse("host = \"gpu-01\"\n[metrics]\nlisten = \"\"\n").unwrap();
            let (session, ends) = wiring::channels(None);
            let directory = root.join("run");
            let agent = Agent::start(&config, Root::under(&root), Pages::new(&directory, "gpu-01").unwrap(), ends).await.unwrap();
            session.plans.send(HostPlan { plan_version: 5, slots: vec![slot()] }).await.unwrap();
            let mut page = None;
            let led = async {
                while page.as_ref().is_none_or(|page: &PageReader| page.read().is_err()) {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    page = PageReader::open(&directory, &JobName::try_new("train-7").unwrap()).ok();
                }
            };
            let (mut pages, _) = agent.run(led).await;
            pages.retire_all();
            page.unwrap().read()
        });
        done.send(read).unwrap();
    });
    assert_eq!(ended.recv_timeout(PATIENCE).expect("the agent hangs with the driver"), Err(Reason::NoPage));
}
