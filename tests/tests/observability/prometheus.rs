//! A real Prometheus, and promtool.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use antiphase_tests::checkout;
use serde_json::Value;

use crate::rig::{SOON, http};

/// How many ports are tried: that one is taken between two steps of ours is rare.
const PORTS_TRIED: usize = 5;

pub(crate) fn folder() -> PathBuf {
    checkout().join("integrations/prometheus")
}

/// Whether a program of Prometheus is here; says so where not.
pub(crate) fn is_installed(program: &str) -> bool {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success());
    if !found {
        println!("skipped: {program} is not installed (Debian: prometheus), so rules and dashboards were not tried with it");
    }
    found
}

fn promtool(arguments: &[&str]) {
    let output = Command::new("promtool").args(arguments).current_dir(folder()).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "promtool {}: {}", arguments.join(" "), String::from_utf8_lossy(&said));
}

#[test]
fn rules_and_alerts_pass_their_unit_tests() {
    if is_installed("promtool") {
        promtool(&["check", "rules", "antiphase-recording.yaml", "antiphase-alerts.yaml"]);
        promtool(&["check", "config", "prometheus.yaml"]);
        promtool(&["test", "rules", "antiphase-tests.yaml"]);
    }
}

/// A Prometheus on a port that was free; `None` if it ended early.
fn try_start(folder: &Path) -> Option<(SocketAddr, Child)> {
    let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let path = |name: &str| folder.join(name).display().to_string();
    let mut child = Command::new("prometheus")
        .arg(format!("--config.file={}", path("prometheus.yaml")))
        .arg(format!("--storage.tsdb.path={}", path("data")))
        .arg(format!("--web.listen-address={address}"))
        .arg("--log.level=error")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let until = Instant::now() + SOON;
    // Another program at this port answers nothing that names our configuration.
    let is_ours = || http(address, "/api/v1/status/flags").is_some_and(|answer| answer.contains(&path("prometheus.yaml")));
    while !is_ours() || http(address, "/-/ready").is_none_or(|answer| !answer.contains(" 200 ")) {
        if child.try_wait().unwrap().is_some() {
            return None;
        }
        if Instant::now() >= until {
            let _ = child.kill();
            panic!("prometheus is not ready");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Some((address, child))
}

/// A Prometheus that scrapes each second.
pub(crate) struct Prometheus {
    address: SocketAddr,
    child: Child,
    _folder: tempfile::TempDir,
}

impl Prometheus {
    /// With the rules of the repository, and these targets.
    pub(crate) fn start(services: &[SocketAddr], agents: &[SocketAddr]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let job = |name: &str, targets: &[SocketAddr]| {
            let targets: Vec<String> = targets.iter().map(|target| format!("\"{target}\"")).collect();
            format!("- job_name: {name}\n  static_configs:\n  - targets: [{}]\n", targets.join(", "))
        };
        let rules = ["recording", "alerts"].map(|name| format!("- {}\n", self::folder().join(format!("antiphase-{name}.yaml")).display()));
        let config = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files:\n{}scrape_configs:\n{}{}",
            rules.concat(),
            job("antiphase-topology", services),
            job("antiphase-agent", agents)
        );
        fs::write(folder.path().join("prometheus.yaml"), config).unwrap();
        // It cannot be asked for a free port, so one is chosen that another program may take first.
        let (address, child) = (0..PORTS_TRIED).find_map(|_| try_start(folder.path())).expect("prometheus ended early on every port");
        Self { address, child, _folder: folder }
    }

    /// The answer of its HTTP interface, which has to be a success.
    pub(crate) fn ask(&self, path: &str) -> Value {
        let answer = http(self.address, path).unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let body: Value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{path}: {error}: {answer}"));
        assert_eq!(body["status"], "success", "{path}: {body}");
        body["data"].clone()
    }

    /// How many series a query has in a span, in seconds since 1970.
    pub(crate) fn series(&self, expr: &str, from: f64, to: f64) -> usize {
        let escaped: String = expr.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let data = self.ask(&format!("/api/v1/query_range?start={from:.3}&end={to:.3}&step=1&query={escaped}"));
        data["result"].as_array().unwrap().len()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
