//! A real service on a free port with a state file of its own, and a small HTTP client.
#![allow(dead_code, reason = "each test file uses a part")]

pub(crate) mod groups;
pub(crate) mod order;

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, mpsc},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

/// Longest wait for anything in these tests: far above what a busy machine needs, so that a hang fails.
pub(crate) const WAIT: Duration = Duration::from_secs(60);

/// The program: the one that was built for these tests, or the one that `ANTIPHASE_TOPOLOGY_PROGRAM` names.
pub(crate) fn program_path() -> PathBuf {
    std::env::var_os("ANTIPHASE_TOPOLOGY_PROGRAM").map_or_else(|| env!("CARGO_BIN_EXE_antiphase-topology").into(), PathBuf::from)
}

/// A command that runs it.
pub(crate) fn program() -> Command {
    let mut command = Command::new(program_path());
    // What the machine's environment says must not matter.
    for name in ["LISTEN", "STATE", "FABRIC", "LOG_LEVEL", "LOG_FORMAT"] {
        command.env_remove(format!("ANTIPHASE_TOPOLOGY_{name}"));
    }
    command
}

/// The 24-server testbed.
pub(crate) fn testbed() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/testbed/fabric.yaml")
}

/// A running service.
pub(crate) struct Service {
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
    log: Arc<Mutex<String>>,
}

impl Service {
    /// Starts on a state file with the testbed's fabric.
    pub(crate) fn start(state: &Path) -> Self {
        Self::with(program().arg("--state").arg(state).arg("--fabric").arg(testbed()))
    }

    /// Starts with these arguments on a free port.
    pub(crate) fn with(command: &mut Command) -> Self {
        Self::try_with(command).expect("the service says where it listens")
    }

    /// As [`Service::with`]; an error is the exit status and what was said.
    pub(crate) fn try_with(command: &mut Command) -> Result<Self, (ExitStatus, String)> {
        Self::try_at(SocketAddr::from(([127, 0, 0, 1], 0)), command)
    }

    /// As [`Service::try_with`], where an earlier one listened.
    pub(crate) fn try_at(address: SocketAddr, command: &mut Command) -> Result<Self, (ExitStatus, String)> {
        let listen = address.to_string();
        let mut child = command.args(["--listen", &listen]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let (err, seen) = (child.stderr.take().unwrap(), Arc::clone(&log));
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(err).lines().map_while(Result::ok) {
                seen.lock().unwrap().push_str(&(line + "\n"));
            }
        });
        let (send, first) = mpsc::channel();
        let out = child.stdout.take().unwrap();
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                let _ = send.send(line);
            }
        });
        match first.recv_timeout(WAIT) {
            Ok(line) => {
                let address = line.rsplit("://").next().unwrap().parse().unwrap();
                Ok(Self { child, address, log })
            }
            Err(_) => {
                let _ = child.kill();
                let status = child.wait().unwrap();
                reader.join().unwrap();
                let said = log.lock().unwrap().clone();
                Err((status, said))
            }
        }
    }

    /// What it wrote to standard error so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Waits until the log holds a text.
    pub(crate) fn wait_for_log(&self, text: &str) {
        let until = Instant::now() + WAIT;
        while !self.log().contains(text) {
            assert!(Instant::now() < until, "{text:?} did not come:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Waits for the end.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let until = Instant::now() + WAIT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < until, "it does not end:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Asks and expects JSON.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let answer = request(self.address, method, path, &[], body.as_bytes()).unwrap();
        let value = serde_json::from_str(&answer.body).unwrap_or_else(|e| panic!("{method} {path}: {e}: {answer:?}"));
        (answer.status, value)
    }

    /// GET of text.
    pub(crate) fn get(&self, path: &str) -> Answer {
        request(self.address, "GET", path, &[], b"").unwrap()
    }

    /// Asks, expects a refusal, and checks its shape: what is wrong on one line.
    pub(crate) fn refused(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let (status, value) = self.ask(method, path, body);
        assert!(status >= 400, "{method} {path} was taken: {value}");
        let message = value["message"].as_str().unwrap().to_owned();
        assert!(!message.is_empty() && !message.contains('\n') && value["code"].is_string(), "{value}");
        (status, message)
    }

    /// Commits one VGG16 job.
    pub(crate) fn commit(&self, name: &str, hosts: &[&str]) -> (u16, Value) {
        self.ask("POST", "/v1alpha1/commit", &json!({ "jobs": [job(name, hosts)] }).to_string())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A job as in a commit.
pub(crate) fn job(name: &str, hosts: &[&str]) -> Value {
    json!({ "id": name, "model": { "name": "vgg16", "batch": 1_700 }, "hosts": hosts })
}

/// An HTTP answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

/// One request over a connection of its own.
pub(crate) fn request(address: SocketAddr, method: &str, path: &str, headers: &[&str], body: &[u8]) -> std::io::Result<Answer> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(WAIT))?;
    stream.set_write_timeout(Some(WAIT))?;
    let extra: String = headers.iter().map(|h| format!("{h}\r\n")).collect();
    let length = body.len();
    let has = |name: &str| headers.iter().any(|h| h.to_ascii_lowercase().starts_with(name));
    let host = if has("host:") { String::new() } else { format!("host: {address}\r\n") };
    let kind = if method == "POST" && !has("content-type:") { "content-type: application/json\r\n" } else { "" };
    write!(stream, "{method} {path} HTTP/1.1\r\n{host}{kind}connection: close\r\n{extra}content-length: {length}\r\n\r\n")?;
    // The service may answer before it has read everything.
    let _ = stream.write_all(body);
    let mut bytes = Vec::new();
    if let Err(error) = stream.read_to_end(&mut bytes)
        && bytes.is_empty()
    {
        return Err(error);
    }
    parse(&bytes).ok_or_else(|| std::io::Error::other(format!("not an answer: {:?}", String::from_utf8_lossy(&bytes))))
}

fn parse(bytes: &[u8]) -> Option<Answer> {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some(Answer { status, head: head.to_owned(), body: body.to_owned() })
}

/// Resident memory of a process in KiB.
pub(crate) fn resident_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
