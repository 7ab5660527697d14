//! The service, the agents and the jobs.

use std::{
    fs::{self, File},
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use agent::{
    config::Config,
    pages::Pages,
    run::Agent,
    wiring::{self, Connection},
};
use clap::Parser as _;
use gate::{Gate, JobName, PageReader};
use gate_core::{Mode, Reason};
use serde_json::{Value, json};
use telemetry::Root;
use tokio::sync::oneshot;

/// Every wait ends by then; none takes so long on a machine that works.
const SOON: Duration = Duration::from_secs(60);
/// Names the configuration of a service in a process of its own.
const CONFIG: &str = "ANTIPHASE_TURNS_TEST_CONFIG";
const SENDS: Duration = Duration::from_millis(40);
const COMPUTES: Duration = Duration::from_millis(60);
/// Where the kernel would show the counters of a node's NIC.
const NIC: &str = "sys/class/net/ens1/statistics";

pub(crate) const FABRIC: &str = "schema: antiphase.fabric/v1
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

/// The program of [`Service`].
pub(crate) fn serve() {
    let config = std::env::var(CONFIG).expect("the test that needs a service names its configuration");
    let _ = server::run(&server::Args::parse_from(["antiphase-topology", "--config", &config]));
}

/// The real service as a process, which can be killed.
pub(crate) struct Service {
    pub(crate) address: SocketAddr,
    child: Child,
    folder: tempfile::TempDir,
}

impl Service {
    pub(crate) fn start() -> Self {
        Self::with(Some(FABRIC), "")
    }

    /// With a fabric or without one, and with more of a configuration.
    pub(crate) fn with(fabric: Option<&str>, more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // A port that is free now; the service takes it for TCP and UDP.
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let mut config = format!("listen = \"{address}\"\nstate = \"{}\"\ncontrol = \"turns\"\n{more}", path("state.redb"));
        if let Some(fabric) = fabric {
            fs::write(folder.path().join("fabric.yaml"), fabric).unwrap();
            config += &format!("fabric = \"{}\"\n", path("fabric.yaml"));
        }
        fs::write(folder.path().join("config.toml"), config).unwrap();
        let child = spawn(folder.path());
        let service = Self { address, child, folder };
        service.listens();
        service
    }

    fn listens(&self) {
        let until = Instant::now() + SOON;
        // One that still reads what was committed says so with 503.
        while !self.answer("GET", "jobs", "").is_ok_and(|answer| answer.starts_with("HTTP/1.1 200")) {
            assert!(Instant::now() < until, "the service does not listen at {}", self.address);
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Two jobs over the link between the leaves, which are said to send for so many of so many milliseconds.
    pub(crate) fn commit(&self, sends_ms: u64, period_ms: u64) {
        self.ask("POST", "commit", &two_jobs(sends_ms, period_ms).to_string());
    }

    /// What the API answers; anything but 200 fails.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> Value {
        let answer = self.answer(method, path, body).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    }

    /// All that the API answers.
    fn answer(&self, method: &str, path: &str, body: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(self.address)?;
        let head = format!(
            "{method} /v1alpha1/{path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        stream.write_all((head + body).as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    /// Jobs `a` and `b`, committed so, once both are planned as measured. On a busy machine sleeps last longer where jobs wait for turns, and the comparison may let
    /// the group go before: free jobs are not measured, so the jobs are committed as new ones then.
    pub(crate) async fn measured(&self, sends_ms: u64, period_ms: u64) -> Vec<Value> {
        let (until, mut let_go) = (Instant::now() + SOON, 0);
        loop {
            let jobs = self.ask("GET", "jobs", "")["jobs"].as_array().unwrap().clone();
            if jobs.len() == 2 && jobs.iter().all(|job| job["declared_period_ns"].is_u64()) {
                return jobs;
            }
            assert!(Instant::now() < until, "not measured: {jobs:?}");
            let events = self.ask("GET", "events", "")["events"].as_array().unwrap().clone();
            let told = |event: &&Value| event["message"].as_str().is_some_and(|said| said.contains("take no turns any more"));
            let often = events.iter().filter(told).count();
            if often > let_go {
                let_go = often;
                self.ask("POST", "release", r#"{"jobs":["a","b"]}"#);
                self.commit(sends_ms, period_ms);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again, on the same state.
    pub(crate) fn again(&mut self) {
        self.child = spawn(self.folder.path());
        self.listens();
    }
}

/// The body of a commit or an evaluation: two jobs that are said to send for so many of so many milliseconds.
pub(crate) fn two_jobs(sends_ms: u64, period_ms: u64) -> Value {
    let phase = json!({ "start_ns": 0, "duration_ns": sends_ms * 1_000_000, "rate_mbps": 45_000, "collective": "ring", "scope": "data" });
    let profile = json!({
        "schema": "antiphase.profile/v1", "name": "p", "period_ns": period_ms * 1_000_000, "phases": [phase], "ranks": { "dp": 2 },
        "source": "declared",
    });
    let job = |id: &str, hosts: [&str; 2]| json!({ "id": id, "profile": profile, "hosts": hosts });
    json!({ "jobs": [job("a", ["h1", "h3"]), job("b", ["h2", "h4"])] })
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(folder: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "a_service_in_a_process_of_its_own", "--nocapture"]);
    command.env(CONFIG, folder.join("config.toml")).stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()
}

/// An agent.
pub(crate) struct Node {
    pub(crate) pages: PathBuf,
    _connection: Connection,
    _stop: oneshot::Sender<()>,
    folder: tempfile::TempDir,
}

impl Node {
    pub(crate) async fn start(service: SocketAddr, host: &str) -> Self {
        Self::with(service, host, None, "").await
    }

    /// Over files of its own in place of the kernel's, or over a root that is given; with more of a configuration.
    pub(crate) async fn with(service: SocketAddr, host: &str, root: Option<Root>, more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join(NIC)).unwrap();
        let text =
            format!("host = \"{host}\"\n[service]\naddress = \"{service}\"\ninsecure_loopback = true\n[metrics]\nlisten = \"\"\n{more}");
        let mut config = Config::parse(&text).unwrap();
        config.page_dir = folder.path().join("run");
        let (session_ends, agent_ends) = wiring::channels(None);
        let pages = Pages::new(&config.page_dir, &config.host).unwrap();
        let root = root.unwrap_or_else(|| Root::under(folder.path()));
        let agent = Agent::start(&config, root, pages, agent_ends).await.unwrap();
        let connection = Connection::start(&config, agent.ports(), session_ends).unwrap();
        let (stop, stopped) = oneshot::channel();
        tokio::spawn(agent.run(async { drop(stopped.await) }));
        Self { pages: config.page_dir, _connection: connection, _stop: stop, folder }
    }

    /// The node's NIC, which has counters from now on. The files stand for those of the kernel.
    pub(crate) fn nic(&self) -> Nic {
        let folder = self.folder.path().join(NIC);
        let nic = Nic(["rx_bytes", "tx_bytes"].map(|name| File::create(folder.join(name)).unwrap()), 0);
        nic.write();
        nic
    }

    /// Waits until the page of a job says this.
    pub(crate) async fn page(&self, job: &str, mode: Mode) {
        let name = JobName::try_new(job).unwrap();
        let until = Instant::now() + SOON;
        while PageReader::open(&self.pages, &name).ok().and_then(|page| page.read().ok()).map(|page| page.mode) != Some(mode) {
            assert!(Instant::now() < until, "no page of {job} that says {mode:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// The byte counters of a node.
pub(crate) struct Nic([File; 2], u64);

impl Nic {
    /// In place and at full length, so that no reading meets half of a number.
    fn write(&self) {
        self.0.iter().for_each(|file| file.write_all_at(format!("{:020}\n", self.1).as_bytes(), 0).unwrap());
    }

    /// Sends what takes that time alone.
    pub(crate) fn send(&mut self, part: Duration) {
        self.1 += part.as_micros() as u64 * 1_000;
        self.write();
    }
}

/// The link that both jobs send over: as long as both do, each gets half of it. So turns bring something, and the service lets nobody go
/// because its machine is busy.
#[derive(Clone, Default)]
pub(crate) struct Link(Arc<AtomicUsize>);

impl Link {
    /// Sends what takes `time` alone, and tells each part of it.
    pub(crate) fn send(&self, time: Duration, mut sent: impl FnMut(Duration)) {
        self.0.fetch_add(1, Ordering::Relaxed);
        let (mut left, mut last) = (time, Instant::now());
        while !left.is_zero() {
            let beside = self.0.load(Ordering::Relaxed) as u32;
            std::thread::sleep(Duration::from_millis(1).min(left * beside));
            let now = Instant::now();
            let part = ((now - last) / beside).min(left);
            (left, last) = (left - part, now);
            sent(part);
        }
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What is known of the end of what a job sends.
pub(crate) enum Ends {
    /// The job calls `done()`.
    Told,
    /// The counters of its node show it.
    Counted(Nic),
}

impl Ends {
    fn send(&mut self, gate: &Gate, link: &Link) {
        link.send(SENDS, |part| {
            if let Self::Counted(nic) = self {
                nic.send(part);
            }
        });
        if matches!(self, Self::Told) {
            gate.done();
        }
    }
}

/// A start of a job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    from: Instant,
    to: Instant,
    pub(crate) waited: Duration,
    pub(crate) because: Reason,
}

/// Two jobs, each in a thread.
pub(crate) struct Jobs {
    starts: [Arc<Mutex<Vec<Start>>>; 2],
    meet: [Arc<AtomicBool>; 2],
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Jobs {
    pub(crate) fn start(of: [(&Path, &str, Ends); 2]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (starts, meet) = (<[Arc<Mutex<Vec<Start>>>; 2]>::default(), <[Arc<AtomicBool>; 2]>::default());
        let link = Link::default();
        let threads = of.into_iter().zip(starts.iter().zip(&meet)).map(|((pages, job, mut ends), (starts, meet))| {
            let gate = Gate::open(&gate::Config::new(pages.to_path_buf(), JobName::try_new(job).unwrap()));
            let (starts, meet, stop, link) = (Arc::clone(starts), Arc::clone(meet), Arc::clone(&stop), link.clone());
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let outcome = gate.step();
                    let from = Instant::now();
                    ends.send(&gate, &link);
                    let to = Instant::now();
                    let waited = Duration::from_nanos(outcome.held.0);
                    starts.lock().unwrap().push(Start { from, to, waited, because: outcome.because });
                    // The one who is told to computes longer once, and then meets the other.
                    std::thread::sleep(if meet.swap(false, Ordering::Relaxed) { COMPUTES + SENDS } else { COMPUTES });
                }
            })
        });
        let threads = threads.collect();
        Self { starts, meet, stop, threads }
    }

    /// What was since this was called last.
    pub(crate) fn take(&self) -> [Vec<Start>; 2] {
        [0, 1].map(|job| std::mem::take(&mut *self.starts[job].lock().unwrap()))
    }

    /// Moves one job, so that it is ready while the other sends.
    pub(crate) fn meet(&self) {
        self.meet[0].store(true, Ordering::Relaxed);
    }

    pub(crate) fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

/// How long both sent.
pub(crate) fn overlap(starts: &[Vec<Start>; 2]) -> Duration {
    let both = |a: &Start, b: &Start| a.to.min(b.to).saturating_duration_since(a.from.max(b.from));
    starts[0].iter().flat_map(|a| starts[1].iter().map(move |b| both(a, b))).sum()
}

/// How long one sent, summed over both.
pub(crate) fn sent(starts: &[Vec<Start>; 2]) -> Duration {
    starts.iter().flatten().map(|start| start.to - start.from).sum()
}
