//! Counters of ports under the names of node_exporter: only where they are asked for, and as a real node_exporter has them.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::{PATIENCE, Running};

/// The program of Debian's package.
const PROGRAM: &str = "prometheus-node-exporter";
/// Counters of both, which grow.
const COUNTERS: [&str; 8] = [
    "counters/port_rcv_data",
    "counters/port_xmit_data",
    "counters/port_rcv_packets",
    "counters/port_xmit_packets",
    "counters/port_rcv_errors",
    "counters/port_xmit_discards",
    "counters/port_xmit_wait",
    "hw_counters/np_cnp_sent",
];

/// Over what is there, which is as long: a file that is empty for a moment has no number, and what passed meanwhile would not be known.
fn write(root: &Path, file: &str, text: &str) {
    let path = root.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(false).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// One interface and two RDMA devices, of a driver that node_exporter knows and of one that it does not, each counter at `more` and above.
fn tree(root: &Path, more: u64) {
    let interface = ["rx_bytes", "tx_bytes", "rx_packets", "tx_packets", "rx_dropped", "tx_dropped"];
    let values: Vec<u64> = (1..).map(|at| at * 1_000 + at * more).take(interface.len()).collect();
    for (file, value) in interface.iter().zip(&values) {
        write(root, &format!("sys/class/net/ens1f0/statistics/{file}"), &format!("{value}\n"));
    }
    let [rx_bytes, tx_bytes, rx_packets, tx_packets, rx_dropped, tx_dropped] = values[..] else { panic!() };
    let line = format!("ens1f0: {rx_bytes} {rx_packets} 0 {rx_dropped} 0 0 0 0 {tx_bytes} {tx_packets} 0 {tx_dropped} 0 0 0 0\n");
    write(
        root,
        "proc/net/dev",
        &format!(
            "Inter-|   Receive                            |  Transmit\n face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n{line}"
        ),
    );
    let mlx5 = "sys/class/infiniband/mlx5_0";
    for (file, text) in [("fw_ver", "16.35.2000"), ("board_id", "MT_0000000010"), ("hca_type", "MT4119")] {
        write(root, &format!("{mlx5}/{file}"), &format!("{text}\n"));
    }
    for (file, text) in
        [("state", "4: ACTIVE"), ("phys_state", "5: LinkUp"), ("rate", "100 Gb/sec (4X EDR)"), ("hw_counters/lifespan", "10")]
    {
        write(root, &format!("{mlx5}/ports/1/{file}"), &format!("{text}\n"));
    }
    for (at, file) in (1..).zip(COUNTERS) {
        write(root, &format!("{mlx5}/ports/1/{file}"), &format!("{}\n", at * 500 + at * more));
    }
    let driver = root.join("sys/bus/drivers/mlx5_core");
    if !driver.exists() {
        fs::create_dir_all(&driver).unwrap();
        fs::create_dir_all(root.join(mlx5).join("device")).unwrap();
        std::os::unix::fs::symlink(driver, root.join(mlx5).join("device/driver")).unwrap();
    }
}

/// The series of node_exporter in a page: names with labels, and values.
fn series(page: &str) -> BTreeMap<String, f64> {
    let lines =
        page.lines().filter(|line| ["node_network_", "node_infiniband_", "node_ethtool_"].iter().any(|name| line.starts_with(name)));
    lines.map(|line| line.rsplit_once(' ').unwrap()).map(|(name, value)| (name.to_owned(), value.parse().unwrap())).collect()
}

/// Waits until every counter of these ports was read, so that what grows from now on is told. A frame has what passed between two readings.
async fn read_all(running: &mut Running, ports: &[&str]) {
    running.connect(1);
    let mut missing = ports.to_vec();
    while !missing.is_empty() {
        let frame = tokio::time::timeout(PATIENCE, running.session.telemetry.recv()).await.unwrap().unwrap();
        missing.retain(|port| *port != frame.port);
    }
}

/// Waits until a page is well; the agent reads ten times a second, and shows what it read once a second.
async fn until(running: &Running, well: impl Fn(&BTreeMap<String, f64>) -> bool) -> String {
    let until = Instant::now() + PATIENCE;
    loop {
        let page = running.metrics().await;
        if well(&series(&page)) {
            return page;
        }
        assert!(Instant::now() < until, "{page}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn names_of_node_exporter_are_there_where_they_are_asked_for() {
    let plain = Running::with("", |root| tree(root, 0)).await;
    let page = plain.metrics().await;
    assert!(page.contains("antiphase_agent_port_cnp_tx_total{port=\"mlx5_0/1\"} 0\n"), "{page}");
    assert_eq!(series(&page), BTreeMap::new());

    // Soft-RoCE beside it, which node_exporter shows nothing of.
    let mut both = Running::with("node_exporter = true\n", |root| {
        tree(root, 0);
        write(root, "sys/class/infiniband/rxe0/ports/1/hw_counters/rcvd_seq_err", "5\n");
    })
    .await;
    read_all(&mut both, &["ens1f0", "mlx5_0/1", "rxe0/1"]).await;
    tree(both.folder.path(), 10);
    write(both.folder.path(), "sys/class/infiniband/rxe0/ports/1/hw_counters/rcvd_seq_err", "8\n");
    let expected = [
        ("node_infiniband_np_cnp_packets_sent_total{device=\"mlx5_0\",port=\"1\"}", 80.0),
        // Words of four bytes are bytes, as there.
        ("node_infiniband_port_data_received_bytes_total{device=\"mlx5_0\",port=\"1\"}", 40.0),
        ("node_infiniband_lifespan_seconds{device=\"mlx5_0\",port=\"1\"}", 0.01),
        ("node_infiniband_rate_bytes_per_second{device=\"mlx5_0\",port=\"1\"}", 12.5e9),
        ("node_infiniband_packet_sequence_errors_total{device=\"rxe0\",port=\"1\"}", 3.0),
        ("node_network_transmit_bytes_total{device=\"ens1f0\"}", 20.0),
    ];
    let page = until(&both, |found| expected.iter().all(|(name, value)| found.get(*name) == Some(value))).await;
    assert!(page.contains("antiphase_agent_port_cnp_tx_total{port=\"mlx5_0/1\"} 80\n"), "our own names stay: {page}");
    // What is absent is not 0.
    assert!(!page.contains("node_infiniband_np_cnp_packets_sent_total{device=\"rxe0\""), "{page}");
}

/// A real node_exporter over the same files.
struct Exporter {
    child: Child,
    address: String,
}

impl Exporter {
    /// `None` prints what is missing.
    fn start(root: &Path) -> Option<Self> {
        let mut command = Command::new(PROGRAM);
        command.args(["--collector.disable-defaults", "--collector.infiniband", "--collector.netdev", "--no-collector.netdev.netlink"]);
        command.arg(format!("--path.sysfs={}", root.join("sys").display())).arg(format!("--path.procfs={}", root.join("proc").display()));
        command.args(["--web.listen-address=127.0.0.1:0"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let Ok(mut child) = command.spawn() else {
            println!("skipped: needs node_exporter (Debian: {PROGRAM})");
            return None;
        };
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let address = lines.find_map(|line| Some(line.split_once("msg=\"Listening on\" address=")?.1.to_owned()));
        let address = address.unwrap_or_else(|| panic!("node_exporter did not say where it listens"));
        // It says more, and a program in Go dies of SIGPIPE where nobody reads its standard error.
        thread::spawn(move || lines.for_each(drop));
        Some(Self { child, address })
    }

    async fn series(&self) -> BTreeMap<String, f64> {
        let mut stream = TcpStream::connect(&self.address).await.unwrap();
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        tokio::time::timeout(PATIENCE, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
        series(&answer)
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn a_real_node_exporter_says_the_same_under_the_same_names() {
    let mut running = Running::with("node_exporter = true\n", |root| tree(root, 0)).await;
    let Some(exporter) = Exporter::start(running.folder.path()) else { return };
    read_all(&mut running, &["ens1f0", "mlx5_0/1"]).await;
    // The agent shows once a second what it has read.
    let shown = |found: &BTreeMap<String, f64>| ["ens1f0", "mlx5_0"].iter().all(|device| found.keys().any(|name| name.contains(device)));
    let (ours, theirs) = (series(&until(&running, shown).await), exporter.series().await);
    let common: Vec<&String> = ours.keys().filter(|name| theirs.contains_key(*name)).collect();
    // Six of the interface, and of the port three gauges and the counters of its management agent. Debian 12's version, 1.5, has no
    // counters of hardware.
    assert_eq!(common.len(), 6 + 3 + 7, "{common:?}; ours {ours:?}; theirs {theirs:?}");
    let unknown: Vec<&String> = ours.keys().filter(|name| !theirs.contains_key(*name)).collect();
    assert!(unknown.iter().all(|name| name.contains("np_cnp_packets_sent") || name.contains("lifespan")), "{unknown:?}");

    tree(running.folder.path(), 10);
    let theirs_later = exporter.series().await;
    // Ours count from the agent's start, theirs from the driver's: dashboards show what passes.
    let passed = |name: &String, before: &BTreeMap<String, f64>, after: &BTreeMap<String, f64>| {
        let is_gauge = ["state_id", "rate_bytes"].iter().any(|part| name.contains(part));
        if is_gauge { after[name] } else { after[name] - before[name] }
    };
    assert!(common.iter().all(|name| passed(name, &theirs, &theirs_later) > 0.0), "{theirs_later:?}");
    until(&running, |later| common.iter().all(|name| passed(name, &ours, later) == passed(name, &theirs, &theirs_later))).await;
}
