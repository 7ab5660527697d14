//! Services, agents and jobs that go well and wrong, so that every metric is there.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    os::unix::fs::{FileExt as _, symlink},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use agent::{
    config::Config,
    metrics,
    pages::Pages,
    pauses::Totals,
    run::Agent,
    wiring::{self, Connection},
};
use clap::Parser as _;
use gate::{Gate, JobName};
use serde_json::json;
use telemetry::{Driver, Root, aliases, pfc::Pause};
use tokio::sync::oneshot;

/// Every wait ends by then; none takes so long on a machine that works.
pub(crate) const SOON: Duration = Duration::from_secs(60);
/// Names the configuration of a service in a process of its own.
const CONFIG: &str = "ANTIPHASE_OBSERVABILITY_TEST_CONFIG";

const FABRIC: &str = "schema: antiphase.fabric/v1
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

/// The head and body of an answer; `None` where nobody answers.
pub(crate) fn http(address: SocketAddr, path: &str) -> Option<String> {
    ask(address, "GET", path, "")
}

fn ask(address: SocketAddr, method: &str, path: &str, body: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(SOON)).ok()?;
    let length = body.len();
    // Version 1.0 asks for an answer in one piece.
    let head = format!("{method} {path} HTTP/1.0\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all((head + body).as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

/// The real service as a process.
pub(crate) struct Service {
    pub(crate) address: SocketAddr,
    child: Child,
    _folder: tempfile::TempDir,
}

impl Service {
    /// With these lines in its configuration besides.
    pub(crate) fn start(config: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("fabric.yaml"), FABRIC).unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let config = format!(
            "listen = \"127.0.0.1:0\"\nstate = \"{}\"\nfabric = \"{}\"\n{config}[log]\nlevel = \"error\"\n",
            path("state.redb"),
            path("fabric.yaml")
        );
        fs::write(folder.path().join("config.toml"), config).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "a_service_in_a_process_of_its_own", "--nocapture"]);
        command.env(CONFIG, folder.path().join("config.toml")).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // It takes a free port itself and says which, among what the test that it is prints.
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = said.find_map(|line| line.unwrap().split_once("listening on http://")?.1.trim().parse().ok());
        let address = address.expect("the service ended before it listened");
        // What it prints later is read, so that it never waits for us.
        std::thread::spawn(move || said.for_each(drop));
        Self { address, child, _folder: folder }
    }

    pub(crate) fn post(&self, path: &str, body: &serde_json::Value) {
        let answer = ask(self.address, "POST", &format!("/v1alpha1/{path}"), &body.to_string()).unwrap();
        assert!(answer.starts_with("HTTP/1.0 200") || answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Jobs `a` and `b` over the link between the leaves, which are said to send for so many of so many milliseconds.
pub(crate) fn two_jobs(sends_ms: u64, period_ms: u64) -> serde_json::Value {
    let phase = json!({ "start_ns": 0, "duration_ns": sends_ms * 1_000_000, "rate_mbps": 45_000, "collective": "ring", "scope": "data" });
    let profile = json!({
        "schema": "antiphase.profile/v1", "name": "p", "period_ns": period_ms * 1_000_000, "phases": [phase], "ranks": { "dp": 2 },
        "source": "declared",
    });
    let job = |id: &str, hosts: [&str; 2]| json!({ "id": id, "profile": profile, "hosts": hosts });
    json!({ "jobs": [job("a", ["h1", "h3"]), job("b", ["h2", "h4"])] })
}

/// An agent on a node with one NIC, whose files stand for those of the kernel and of mlx5.
pub(crate) struct Node {
    pub(crate) pages: PathBuf,
    pub(crate) metrics: SocketAddr,
    _connection: Connection,
    _stop: oneshot::Sender<()>,
    beating: Arc<AtomicBool>,
    _folder: tempfile::TempDir,
}

impl Node {
    pub(crate) async fn start(service: SocketAddr, host: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = tree(folder.path());
        let text = format!(
            "host = \"{host}\"\n[service]\naddress = \"{service}\"\ninsecure_loopback = true\n[metrics]\nlisten = \"127.0.0.1:0\"\n"
        );
        let mut config = Config::parse(&text).unwrap();
        config.page_dir = folder.path().join("run");
        let (session_ends, agent_ends) = wiring::channels(None);
        let pages = Pages::new(&config.page_dir, &config.host).unwrap();
        let mut agent = Agent::start(&config, Root::under(folder.path()), pages, agent_ends).await.unwrap();
        let connection = Connection::start(&config, agent.ports(), session_ends).unwrap();
        agent.show_session(connection.stats());
        let metrics = agent.metrics_address().unwrap();
        let (stop, stopped) = oneshot::channel();
        tokio::spawn(agent.run(async { drop(stopped.await) }));
        let beating = Arc::new(AtomicBool::new(true));
        let beats = Arc::clone(&beating);
        std::thread::spawn(move || beat(&files, &beats));
        Self { pages: config.page_dir, metrics, _connection: connection, _stop: stop, beating, _folder: folder }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.beating.store(false, Ordering::Relaxed);
    }
}

/// The files of an interface, of an RDMA port of mlx5 with all that its driver has names for, and of IP.
fn tree(root: &Path) -> Vec<File> {
    let make = |path: PathBuf| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        File::create(path).unwrap()
    };
    let interface = root.join("sys/class/net/ens1/statistics");
    let statistics = ["rx_bytes", "tx_bytes", "rx_packets", "tx_packets", "rx_dropped", "tx_dropped"];
    let device = root.join("sys/class/infiniband/mlx5_0");
    let mut files: Vec<File> = statistics.iter().map(|name| make(interface.join(name))).collect();
    files.extend(aliases(Driver::Mlx5).map(|alias| make(device.join("ports/1").join(alias.file))));
    fs::create_dir_all(device.join("device")).unwrap();
    symlink("../../bus/pci/drivers/mlx5_core", device.join("device/driver")).unwrap();
    let names =
        "TcpExt: TCPDeliveredCE\nTcpExt: 5\nIpExt: InCEPkts InECT0Pkts InECT1Pkts InNoECTPkts InOctets OutOctets\nIpExt: 1 2 3 4 5 6\n";
    make(root.join("proc/net/netstat")).write_all(names.as_bytes()).unwrap();
    files.iter().for_each(|file| write(file, 0));
    files
}

/// In place and at full length, so that no reading meets half of a number. Counters of 32 bits stay below their end.
fn write(file: &File, value: u64) {
    file.write_all_at(format!("{value:020}\n").as_bytes(), 0).unwrap();
}

/// Every counter grows for 40 ms of each 100, as those of a job do, until the node is gone.
fn beat(files: &[File], beating: &AtomicBool) {
    let began = Instant::now();
    let mut value = 0;
    while beating.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(5));
        if began.elapsed().as_millis() % 100 < 40 {
            value += 1_000;
            files.iter().for_each(|file| write(file, value));
        }
    }
}

/// Runs a job until it is told to stop: it sends and computes for these times.
pub(crate) fn job(pages: &Path, name: &str, sends: Duration, computes: Duration, stop: &Arc<AtomicBool>) {
    let gate = Gate::open(&gate::Config::new(pages.to_path_buf(), JobName::try_new(name).unwrap()));
    let stop = Arc::clone(stop);
    std::thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            gate.step();
            std::thread::sleep(sends);
            gate.done();
            std::thread::sleep(computes);
        }
    });
}

/// What an agent exposes on a host whose NIC has PFC, which no machine of the tests has: the agent's own text, of pauses that grow.
pub(crate) fn agent_with_pauses() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for (scrape, stream) in (0..).zip(listener.incoming()) {
            let Ok(mut stream) = stream else { return };
            let mut head = BufReader::new(&stream).lines();
            // The head ends with an empty line; bytes that nobody read would make the end a reset.
            while head.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            let totals = Pause::ALL.into_iter().flat_map(|what| [3, 4].map(|priority| ((what, priority), 1_000 * scrape)));
            let totals = Totals { by_priority: totals.collect(), ..Totals::default() };
            let pauses = [("ens1".to_owned(), totals)].into();
            let text = metrics::text(&metrics::Snapshot { pauses, ..metrics::Snapshot::default() }, gate::now());
            let text: String = text.split_inclusive('\n').filter(|line| line.contains("_pfc_")).collect();
            // A scrape that was given up is none.
            let _ = stream.write_all(format!("HTTP/1.0 200 OK\r\ncontent-type: text/plain; version=0.0.4\r\n\r\n{text}").as_bytes());
        }
    });
    address
}
