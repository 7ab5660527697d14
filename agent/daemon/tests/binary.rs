//! The program itself: bad configurations, signals, exit codes.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Output, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};

use rustix::{
    fs::{CWD, FileType, Mode, mknodat},
    process::{Pid, Signal, kill_process},
};

const PATIENCE: Duration = Duration::from_secs(20);

fn agent(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_antiphase-agent")).args(arguments).output().unwrap()
}

fn config(folder: &Path, port: u16) -> String {
    let text = format!(
        "host = \"gpu-01\"\npage_dir = {:?}\n[metrics]\nlisten = \"127.0.0.1:{port}\"\n[counters]\ninclude = [\"lo\"]\nexclude = []\n",
        folder.join("run")
    );
    let path = folder.join("agent.toml");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A running agent and the lines that it says.
struct Running {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Running {
    fn start(config: &str) -> Self {
        let mut child =
            Command::new(env!("CARGO_BIN_EXE_antiphase-agent")).args(["--config", config]).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || stderr.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, lines }
    }

    fn expect(&self, what: &str) {
        let begun = Instant::now();
        let mut seen = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(PATIENCE.saturating_sub(begun.elapsed())) {
            if line.contains(what) {
                return;
            }
            seen.push(line);
        }
        panic!("{what:?} was not said: {seen:#?}");
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn wait(&mut self) -> Option<i32> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(begun.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ask(port: u16, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn healthy(port: u16) -> bool {
    ask(port, "/healthz").is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
}

#[test]
fn a_bad_configuration_is_one_line_and_exit_code_2() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.toml");
    let path = path.to_str().unwrap();
    for text in ["sampling_ms = 10\n", "[counters]\nsampling_ms = 0\n", "[service]\naddress = \"a\"\n", "\u{0}"] {
        fs::write(path, text).unwrap();
        for arguments in [&["--config", path][..], &["--config", path, "config", "check"]] {
            let output = agent(arguments);
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{text:?} {said}");
            assert!(said.lines().count() == 1 && said.starts_with(&format!("antiphase-agent: {path}: ")), "{said}");
        }
    }
    let missing = agent(&["--config", "/no/such/file.toml", "config", "check"]);
    assert_eq!((missing.status.code(), String::from_utf8_lossy(&missing.stderr).lines().count()), (Some(2), 1));
}

#[test]
fn a_good_configuration_is_said_to_be_so() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/antiphase-agent.toml");
    let output = agent(&["config", "check", "--config", example]);
    assert_eq!((output.status.code(), String::from_utf8(output.stdout).unwrap()), (Some(0), format!("{example}: well\n")));
}

#[test]
fn an_address_that_is_taken_is_exit_code_1() {
    let folder = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut running = Running::start(&config(folder.path(), taken.local_addr().unwrap().port()));
    running.expect("metrics.listen = 127.0.0.1:");
    assert_eq!(running.wait(), Some(1));
}

#[test]
fn signals_reload_and_stop() {
    let folder = tempfile::tempdir().unwrap();
    let (port, other) = (free_port(), free_port());
    let path = config(folder.path(), port);
    let mut running = Running::start(&path);
    running.expect("agent host=\"gpu-01\"");
    assert!(healthy(port));
    // A bad file changes nothing.
    let good = fs::read_to_string(&path).unwrap();
    fs::write(&path, good.replace("host", "hoast")).unwrap();
    running.signal(Signal::HUP);
    running.expect("the old one stays");
    assert!(healthy(port));
    // A good one is taken.
    fs::write(&path, good.replace(&port.to_string(), &other.to_string())).unwrap();
    running.signal(Signal::HUP);
    running.expect("configuration read again");
    running.expect("agent host=\"gpu-01\"");
    assert!(healthy(other) && !healthy(port));
    running.signal(Signal::TERM);
    running.expect("the pages are taken back");
    assert_eq!(running.wait(), Some(0));
}

/// `systemctl reload` of an unchanged file: the port is the agent's own, and it keeps it.
#[test]
fn a_reload_of_the_same_file_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let mut running = Running::start(&config(folder.path(), port));
    running.expect("agent host=\"gpu-01\"");
    for _ in 0..3 {
        running.signal(Signal::HUP);
        running.expect("configuration read again");
        running.expect("agent host=\"gpu-01\"");
        assert!(healthy(port));
    }
    running.signal(Signal::TERM);
    running.expect("the pages are taken back");
    assert_eq!(running.wait(), Some(0));
}

#[test]
fn a_reload_that_the_machine_refuses_is_one_line_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (port, taken) = (free_port(), std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let path = config(folder.path(), port);
    let mut running = Running::start(&path);
    running.expect("agent host=\"gpu-01\"");
    let good = fs::read_to_string(&path).unwrap();
    let mine = format!("127.0.0.1:{port}");
    let file = folder.path().join("agent.toml/run");
    // A port of somebody else, an address of no interface here (RFC 5737), and a directory that cannot be made.
    for bad in [
        good.replace(&mine, &taken.local_addr().unwrap().to_string()),
        good.replace(&mine, "192.0.2.1:7481"),
        good.replace(&mine, "127.0.0.1:0").replace(folder.path().join("run").to_str().unwrap(), file.to_str().unwrap()),
    ] {
        assert_ne!(bad, good);
        fs::write(&path, bad).unwrap();
        running.signal(Signal::HUP);
        running.expect("configuration not taken; the old one stays");
        assert!(healthy(port));
    }
    fs::write(&path, &good).unwrap();
    running.signal(Signal::HUP);
    running.expect("configuration read again");
    running.expect("agent host=\"gpu-01\"");
    assert!(healthy(port));
    // A file that would not answer is none, and is not waited for.
    fs::remove_file(&path).unwrap();
    mknodat(CWD, path.as_str(), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    running.signal(Signal::HUP);
    running.expect("is a FIFO, not a regular file");
    assert!(healthy(port));
    running.signal(Signal::HUP);
    running.signal(Signal::TERM);
    running.expect("the pages are taken back");
    assert_eq!(running.wait(), Some(0));
}

/// A program of RDMA that is missing, or that dies by a signal, costs the agent nothing but its metrics.
#[test]
fn the_agent_works_without_the_program_of_rdma() {
    let folder = tempfile::tempdir().unwrap();
    let dies = folder.path().join("dies");
    fs::write(&dies, "#!/bin/sh\nkill -SEGV $$\n").unwrap();
    fs::set_permissions(&dies, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    for program in [dies.as_path(), Path::new("/no/such/program")] {
        let port = free_port();
        let path = config(folder.path(), port);
        fs::write(&path, fs::read_to_string(&path).unwrap() + &format!("[rdma]\nprogram = {program:?}\n")).unwrap();
        let mut running = Running::start(&path);
        running.expect("RDMA devices are not known");
        let until = Instant::now() + PATIENCE;
        let metrics = loop {
            match ask(port, "/metrics") {
                Ok(metrics) if metrics.contains("antiphase_agent_rdma_failures_total 1") => break metrics,
                other => assert!(Instant::now() < until, "{other:?}"),
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        assert!(metrics.contains("antiphase_agent_rdma_up 0\n") && !metrics.contains("antiphase_agent_rdma_port"), "{metrics}");
        assert!(metrics.contains("port=\"lo\"") && healthy(port), "counters are read all the same: {metrics}");
        running.signal(Signal::TERM);
        assert_eq!(running.wait(), Some(0));
    }
}

/// The kernel of most machines has no RDMA, or no device, which is said in one line; one that has both has lines of JSON.
#[test]
fn what_netlink_tells_of_rdma_is_printed_or_said_to_be_missing() {
    for command in ["queues", "counters"] {
        let output = agent(&[command]);
        let (lines, said) = (String::from_utf8(output.stdout.clone()).unwrap(), String::from_utf8(output.stderr.clone()).unwrap());
        if output.status.success() {
            assert!(lines.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok_and(|one| one["device"].is_string())));
        } else {
            let reasons = ["no kernel support: ", "no device: ", "the kernel does not tell: "];
            let is_told = reasons.iter().any(|reason| said.starts_with(&format!("antiphase-agent: {reason}")));
            assert!(output.status.code() == Some(1) && said.lines().count() == 1 && is_told && lines.is_empty(), "{output:?}");
        }
    }
}

/// Frames of a switch's mirror, over a real veth: one marked packet of data and one notification.
#[test]
fn marks_and_notifications_on_a_port_are_counted_by_queue_pair() {
    let missing = agent(&["capture", "no-such-port"]);
    assert_eq!((missing.status.code(), String::from_utf8_lossy(&missing.stderr).contains("no interface")), (Some(2), true));
    let name = format!("apq{}", std::process::id() % 1_000_000);
    let ip = |arguments: &str| Command::new("ip").args(arguments.split(' ')).output().is_ok_and(|output| output.status.success());
    let made = ip(&format!("link add {name} type veth peer name {name}p"));
    if !(made && ip(&format!("link set {name} up")) && ip(&format!("link set {name}p up"))) {
        println!("skipped: needs root, iproute2 and a kernel with veth for `ip link add ... type veth`");
        return;
    }
    let capture = Command::new(env!("CARGO_BIN_EXE_antiphase-agent"))
        .args(["capture", &name, "--seconds", "3"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let far = pnet::datalink::interfaces().into_iter().find(|interface| interface.name == format!("{name}p")).unwrap();
    let Ok(pnet::datalink::Channel::Ethernet(mut sender, _)) = pnet::datalink::channel(&far, pnet::datalink::Config::default()) else {
        panic!()
    };
    let (source, destination) = ([10, 9, 0, 2].into(), [10, 9, 0, 1].into());
    let frame = telemetry::roce::CnpFrame {
        destination_mac: [2; 6],
        source_mac: [4; 6],
        source,
        destination,
        source_port: 49_152,
        queue_pair: 210,
    };
    let notification = telemetry::roce::cnp(&frame).to_vec();
    let mut data = notification.clone();
    // CE in the IP header, and an RDMA write in place of the notification.
    (data[15], data[42]) = (data[15] | 3, 0x0a);
    // The capture begins within these two seconds, and what it counts of each is as much of both.
    for _ in 0..20 {
        sender.send_to(&notification, None).unwrap().unwrap();
        sender.send_to(&data, None).unwrap().unwrap();
        std::thread::sleep(Duration::from_millis(100));
    }
    let output = capture.wait_with_output().unwrap();
    ip(&format!("link del {name}"));
    let lines = String::from_utf8(output.stdout).unwrap();
    let found: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [pair] = &found[..] else { panic!("{lines}") };
    let count = |key: &str| pair[key].as_u64().unwrap();
    assert_eq!((pair["source"].as_str(), pair["destination"].as_str(), count("queue_pair")), (Some("10.9.0.2"), Some("10.9.0.1"), 210));
    assert!((5..=20).contains(&count("cnp")) && count("cnp").abs_diff(count("packets")) <= 1, "{pair}");
    assert_eq!((count("ecn_marked"), count("broken")), (count("packets"), count("packets")), "the checksum covers the operation");
}
