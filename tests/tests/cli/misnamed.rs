//! Agents under a wrong name, as the commands show them: real agents, a real service.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::{doctor::Service, process::program, scratch::Scratch};

/// Two agents of one host find each other within some calls, between which each waits for up to 15 s.
const WITHIN: Duration = Duration::from_secs(90);

/// An agent of its own, without root.
struct Agent {
    child: Child,
    config: String,
}

impl Agent {
    /// `None`, and a line that says so, where the program is not built.
    fn start(scratch: &Scratch, name: &str, host: &str, service: &Service) -> Option<Self> {
        let agent = program().with_file_name("antiphase-agent");
        if !agent.exists() {
            println!("skipped: {} is not built (cargo build --workspace)", agent.display());
            return None;
        }
        let address = service.url.strip_prefix("http://").expect("invariant: it begins so");
        let listen = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
        let text = format!(
            "host = {host:?}\npage_dir = {:?}\n[service]\naddress = {address:?}\ninsecure_loopback = true\n[metrics]\nlisten = \"{listen}\"\n",
            scratch.path(&format!("pages-{name}"))
        );
        let config = scratch.file(&format!("{name}.toml"), &text);
        let child = Command::new(agent).args(["--config", &config]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        Some(Self { child, config })
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks until the answer has all parts.
fn until(service: &Service, arguments: &[&str], parts: &[&str]) -> String {
    let began = Instant::now();
    loop {
        let run = service.ask(arguments);
        if parts.iter().all(|part| run.stdout.contains(part)) {
            return run.stdout;
        }
        assert!(began.elapsed() < WITHIN, "{arguments:?} does not say {parts:?}: {}{}", run.stdout, run.stderr);
        thread::sleep(Duration::from_millis(100));
    }
}

/// What the service tells Prometheus.
fn metrics(service: &Service) -> String {
    let address = service.url.strip_prefix("http://").expect("invariant: it begins so");
    let mut stream = TcpStream::connect(address).expect("it listens");
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").expect("it reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("it answers in text");
    text
}

#[test]
fn an_agent_of_an_unknown_host_and_two_of_one_host_are_told_everywhere() {
    let service = Service::start("misnamed");
    let scratch = Scratch::new("misnamed-agents");
    let Some(mut stranger) = Agent::start(&scratch, "stranger", "gpu-1", &service) else { return };
    let unknown = "host gpu-1: its agent is connected, from 127.0.0.1, and the fabric has no such host";
    until(&service, &["agents"], &["gpu-1  wrong name", &format!("warning: {unknown}")]);
    until(&service, &["status"], &["wrong:", unknown]);
    until(&service, &["events"], &["unknown_host", unknown]);
    until(&service, &["jobs"], &["no jobs are committed", unknown]);
    until(&service, &["top", "--count", "1"], &["\ngpu-1  wrong name", unknown]);
    let metrics = metrics(&service);
    assert!(metrics.contains("\nantiphase_agents_misnamed 1\n"), "{metrics}");
    let doctor = service.ask(&["doctor", "--agent-config", &stranger.config]);
    assert!(doctor.expect(1).contains(unknown), "{}", doctor.stdout);

    let _one = Agent::start(&scratch, "one", "h1", &service);
    until(&service, &["agents"], &["h1     connected"]);
    let _other = Agent::start(&scratch, "other", "h1", &service);
    let two = "host h1: two agents say that they are its, both from 127.0.0.1, and end each other's sessions";
    until(&service, &["agents"], &["h1     wrong name", two]);
    until(&service, &["status"], &[two, unknown]);
    until(&service, &["events"], &["two_agents", two]);

    // Started again under a right name, the wrong one is nobody any more.
    stranger.child.kill().expect("it runs");
    let began = Instant::now();
    while service.ask(&["agents"]).stdout.contains("gpu-1") {
        assert!(began.elapsed() < WITHIN, "gpu-1 stays");
        thread::sleep(Duration::from_millis(100));
    }
}

/// The file that doctor was given is of one agent, and another answers at its address.
#[test]
fn a_doctor_of_another_agents_file_says_so() {
    let service = Service::start("another-file");
    let scratch = Scratch::new("another-file-agents");
    let Some(agent) = Agent::start(&scratch, "one", "h1", &service) else { return };
    until(&service, &["agents"], &["h1    connected"]);
    let other = fs::read_to_string(&agent.config).expect("the file").replace("\"h1\"", "\"h2\"").replace("pages-one", "pages-two");
    let other = scratch.file("two.toml", &other);
    let said = "runs with another configuration: host = \"h1\" there, \"h2\" in the file; page_dir = ";
    until(&service, &["doctor", "--agent-config", &other], &[said]);
    let own = service.ask(&["doctor", "--agent-config", &agent.config]);
    assert!(!own.stdout.contains("another configuration"), "{}", own.stdout);
}
