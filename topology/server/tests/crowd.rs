//! Crowds: sockets that say nothing, readers that do not read, agents that come and go without end. Whoever has come to work is served.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

#[path = "quic/rig.rs"]
#[allow(dead_code, reason = "a part of it is used")]
mod rig;
mod support;
#[path = "crowd/unread.rs"]
mod unread;

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use antiphase_topology::{
    pki::{self, CLIENT_LIFETIME, Client},
    tls::Role,
};
use proto::v1alpha1::{agent_frame, service_frame};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use rustls_pki_types::{PrivateKeyDer, ServerName, pem::PemObject as _};
use support::{Service, job, program, request, resident_kib, testbed};

/// Sockets of a crowd that say nothing: more than there are places for such.
const SILENT: usize = 3_000;
/// The same where everything comes at once, unless `ANTIPHASE_SILENT` says otherwise.
fn silent() -> usize {
    std::env::var("ANTIPHASE_SILENT").map_or(SILENT, |count| count.parse().expect("ANTIPHASE_SILENT is a number"))
}

/// Streams of one connection that are not read.
const STREAMS: u32 = 128;
/// What the service may hold, whatever clients do.
const RESIDENT_MAX_KIB: u64 = 512 << 10;
/// How long all of them are there, unless `ANTIPHASE_HELLOS` says otherwise.
const SHORT: Duration = Duration::from_secs(10);
/// A request of somebody who works takes no longer, on a machine that has better things to do as well: the crowd is on it too.
const SERVED_WITHIN: Duration = Duration::from_secs(5);
/// The first one beside 812 that ask for a large fabric at once: 2 s on two quiet cores. Who is kept out waits for ever.
const FIRST_WITHIN: Duration = Duration::from_secs(20);

/// This process holds a crowd.
fn raise_descriptors() {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit { current: limit.maximum.map(|max| max.min(16_384)), ..limit };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, raised).unwrap();
}

/// The most that a process has held.
fn peak_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// The testbed in a document of that many MiB.
fn padded(folder: &Path, mib: usize) -> std::path::PathBuf {
    let file = folder.join("fabric.yaml");
    let padding = format!("# {}\n", "x".repeat(1_021)).repeat(mib << 10);
    fs::write(&file, fs::read_to_string(testbed()).unwrap() + &padding).unwrap();
    file
}

/// A client's certificate.
fn issue(folder: &Path, role: Role, name: &str) {
    let hosts = if role == Role::Agent { vec!["h1".to_owned()] } else { Vec::new() };
    pki::issue(&folder.join("pki"), &Client { role, name: name.into(), hosts, lifetime: CLIENT_LIFETIME }, false).unwrap();
}

/// A service with certificates and a large fabric, and a client of each role; the agent is of h1.
fn secured(folder: &Path, mib: usize) -> Service {
    let pki_folder = folder.join("pki");
    pki::init(&pki_folder, &["127.0.0.1".into(), "localhost".into()], false).unwrap();
    [Role::Read, Role::Admin, Role::Agent].into_iter().for_each(|role| issue(folder, role, role.word()));
    let (service, ca, config) = (pki::service_paths(&pki_folder), pki::authority_path(&pki_folder), folder.join("a.toml"));
    fs::write(&config, format!("[tls]\ncertificate = {:?}\nkey = {:?}\nclient_ca = {ca:?}\n", service.certificate, service.key)).unwrap();
    let mut command = program();
    command.arg("--config").arg(&config).arg("--state").arg(folder.join("s.redb")).arg("--fabric").arg(padded(folder, mib));
    Service::with(&mut command)
}

/// curl with a client's certificate, which says the status of an answer that came in time.
fn curl(folder: &Path, who: &str) -> Command {
    let (issued, mut command) = (pki::paths(&folder.join("pki"), who), Command::new("curl"));
    command.args(["--silent", "--show-error", "--output", "/dev/null", "--write-out", "%{http_code}"]);
    command.arg("--max-time").arg(SERVED_WITHIN.as_secs().to_string());
    command.arg("--cacert").arg(pki::authority_path(&folder.join("pki")));
    command.arg("--cert").arg(&issued.certificate).arg("--key").arg(&issued.key);
    command
}

/// What became of the calls of an admin.
#[derive(Default)]
struct Asked {
    all: usize,
    /// Answered with 200 in time.
    well: usize,
    /// The last other answer.
    last: String,
    slowest_s: f64,
}

/// Calls of an admin over connections of their own, while `goes_on` says so. `None`: there is no curl.
fn admin_asks(service: &Service, folder: &Path, goes_on: impl Fn() -> bool) -> Option<Asked> {
    let mut asked = Asked::default();
    while goes_on() {
        let Asked { all, well, last, slowest_s } = &mut asked;
        let mut command = curl(folder, "admin");
        command.args(["--write-out", "%{http_code} %{time_total}"]);
        let path = match *all % 3 {
            0 => "/readyz",
            1 => "/v1alpha1/jobs",
            _ => {
                let body = serde_json::json!({ "jobs": [job("a", &["h1", "h5"])] }).to_string();
                command.args(["--header", "content-type: application/json", "--data", &body]);
                "/v1alpha1/commit"
            }
        };
        let output = command.arg(format!("https://{}{path}", service.address)).output();
        let output = output.inspect_err(|error| println!("skipped: curl cannot be run: {error}")).ok()?;
        *all += 1;
        let said = String::from_utf8_lossy(&output.stdout);
        match said.split_once(' ') {
            Some(("200", took)) => (*well, *slowest_s) = (*well + 1, slowest_s.max(took.parse().unwrap_or(f64::MAX))),
            _ => *last = format!("{path}: {said} {}", String::from_utf8_lossy(&output.stderr)),
        }
    }
    Some(asked)
}

/// A thread that keeps sockets open which send the first bytes of something, one by one, and replaces those that are closed.
struct Crowd {
    stop: Arc<AtomicBool>,
    opened: Arc<AtomicUsize>,
    thread: JoinHandle<()>,
}

impl Crowd {
    fn start(address: SocketAddr, sockets: usize, drips: &'static [u8]) -> Self {
        let (stop, opened) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (stopped, count) = (Arc::clone(&stop), Arc::clone(&opened));
        let thread = std::thread::spawn(move || {
            let mut held: Vec<(TcpStream, usize)> = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                while held.len() < sockets && !stopped.load(Ordering::Relaxed) {
                    let Ok(socket) = TcpStream::connect_timeout(&address, Duration::from_secs(1)) else { break };
                    socket.set_nonblocking(true).unwrap();
                    count.fetch_add(1, Ordering::Relaxed);
                    held.push((socket, 0));
                }
                held.retain_mut(|(socket, said)| {
                    if let Some(byte) = drips.get(*said) {
                        *said += usize::from(socket.write(&[*byte]).is_ok());
                    }
                    socket.read(&mut [0; 64]).is_err_and(|e| e.kind() == std::io::ErrorKind::WouldBlock)
                });
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        Self { stop, opened, thread }
    }

    /// Waits until so many were opened.
    fn gather(&self, sockets: usize) {
        let until = Instant::now() + support::WAIT;
        while self.opened.load(Ordering::Relaxed) < sockets {
            assert!(Instant::now() < until, "{} sockets", self.opened.load(Ordering::Relaxed));
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn end(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        self.opened.load(Ordering::Relaxed)
    }
}

/// The head of a frame of HTTP/2 (RFC 9113, section 4.1), and what is in it.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// What a connection of HTTP/2 says whose streams ask and have no window for an answer.
fn asking(path: &str, grpc: Option<&[u8]>) -> Vec<u8> {
    asking_with(path, grpc, 0)
}

/// The same with a window.
fn asking_with(path: &str, grpc: Option<&[u8]>, window: u32) -> Vec<u8> {
    let text = |bytes: &str| [&[u8::try_from(bytes.len()).unwrap()], bytes.as_bytes()].concat();
    // HPACK (RFC 7541): names from the static table, values as they are.
    let mut head = vec![if grpc.is_some() { 0x83 } else { 0x82 }, 0x86, 0x04];
    head.extend(text(path));
    head.push(0x01);
    head.extend(text("localhost"));
    if grpc.is_some() {
        head.extend([0x0f, 0x10]);
        head.extend(text("application/grpc"));
        head.push(0x00);
        head.extend(text("te"));
        head.extend(text("trailers"));
    }
    let mut said = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    // SETTINGS_INITIAL_WINDOW_SIZE, and as much for the connection.
    said.extend(frame(4, 0, 0, &[&[0, 4][..], &window.to_be_bytes()].concat()));
    if window > 0 {
        said.extend(frame(8, 0, 0, &(window - 65_535).to_be_bytes()));
    }
    for n in 0..STREAMS {
        let stream = 1 + 2 * n;
        said.extend(frame(1, if grpc.is_some() { 0x4 } else { 0x5 }, stream, &head));
        if let Some(message) = grpc {
            said.extend(frame(0, 0x1, stream, message));
        }
    }
    said
}

fn asks_and_reads_nothing(address: SocketAddr, path: &str, grpc: Option<&[u8]>) -> TcpStream {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.write_all(&asking(path, grpc)).unwrap();
    socket
}

/// A connection with the certificate of a client, for a version of HTTP (RFC 7301).
fn secure(service: &Service, folder: &Path, who: &str, version: &str) -> StreamOwned<ClientConnection, TcpStream> {
    let pki_folder = folder.join("pki");
    let issued = pki::paths(&pki_folder, who);
    let mut roots = RootCertStore::empty();
    rig::certificates(&pki::authority_path(&pki_folder)).into_iter().for_each(|authority| roots.add(authority).unwrap());
    let key = PrivateKeyDer::from_pem_file(&issued.key).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
    let mut config = config.with_client_auth_cert(rig::certificates(&issued.certificate), key).unwrap();
    config.alpn_protocols = vec![version.into()];
    let name = ServerName::IpAddress(service.address.ip().into());
    StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), TcpStream::connect(service.address).unwrap())
}

/// An HTTP/1 client with a small buffer that asks and reads nothing.
fn asks_once(address: SocketAddr, path: &str) -> TcpStream {
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None).unwrap();
    rustix::net::sockopt::set_socket_recv_buffer_size(&socket, 4_096).unwrap();
    rustix::net::connect(&socket, &address).unwrap();
    let mut socket = TcpStream::from(socket);
    write!(socket, "GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    socket
}

#[test]
fn answers_that_nobody_reads_have_a_budget() {
    raise_descriptors();
    let folder = tempfile::tempdir().unwrap();
    let fabric = padded(folder.path(), 11);
    let service = Service::with(program().arg("--state").arg(folder.path().join("s.redb")).arg("--fabric").arg(&fabric));
    let before = resident_kib(service.child.id());
    let address = service.address;
    let mut held: Vec<TcpStream> = (0..2).map(|_| asks_and_reads_nothing(address, "/v1alpha1/fabric", None)).collect();
    held.extend((0..2).map(|_| asks_and_reads_nothing(address, "/antiphase.v1alpha1.Topology/GetFabric", Some(&[0; 5]))));
    held.extend((0..300).map(|_| asks_once(address, "/v1alpha1/fabric")));
    let until = Instant::now() + Duration::from_secs(8);
    let served = || {
        let began = Instant::now();
        assert_eq!(service.commit("a", &["h1", "h5"]).0, 200);
        assert_eq!(service.get("/v1alpha1/jobs").status, 200);
        began.elapsed()
    };
    let first = served();
    assert!(first < FIRST_WITHIN, "{first:?}");
    let (mut commits, mut slowest) = (1, Duration::ZERO);
    while Instant::now() < until {
        slowest = slowest.max(served());
        assert!(slowest < SERVED_WITHIN, "{slowest:?}");
        commits += 1;
    }
    let peak = peak_kib(service.child.id());
    println!(
        "{} readers that do not read: {before} KiB before, {peak} KiB at the peak, {commits} commits, the first in {first:?}, the others in {slowest:?} at most",
        held.len()
    );
    assert!(peak < RESIDENT_MAX_KIB, "{before} KiB before, {peak} KiB at the peak");
    // Whoever reads gets all of it.
    let whole = request(address, "GET", "/v1alpha1/fabric", &[], b"").unwrap();
    assert!(whole.status == 200 && whole.body.len() > 11 << 20, "{}", whole.status);
}

/// With a window HTTP/2 takes what TCP does not: it is held all the same.
#[test]
fn answers_that_http2_takes_before_they_are_sent_count_too() {
    raise_descriptors();
    let folder = tempfile::tempdir().unwrap();
    let service = Service::start(&folder.path().join("s.redb"));
    for _ in 0..250 {
        assert_eq!(service.commit("a", &["h1", "h5"]).0, 200);
        assert_eq!(service.ask("POST", "/v1alpha1/release", r#"{"jobs": ["a"]}"#).0, 200);
    }
    let length = service.get("/v1alpha1/events?limit=1000").body.len();
    assert!(length > 50_000, "{length}");
    let said = asking_with("/v1alpha1/events?limit=1000", None, i32::MAX as u32);
    let held: Vec<TcpStream> = (0..60)
        .map(|_| {
            let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None).unwrap();
            rustix::net::sockopt::set_socket_recv_buffer_size(&socket, 4_096).unwrap();
            rustix::net::connect(&socket, &service.address).unwrap();
            let mut socket = TcpStream::from(socket);
            socket.write_all(&said).unwrap();
            socket
        })
        .collect();
    let until = Instant::now() + Duration::from_secs(6);
    while Instant::now() < until {
        let began = Instant::now();
        assert_eq!(service.commit("a", &["h1", "h5"]).0, 200);
        assert!(began.elapsed() < SERVED_WITHIN, "{:?}", began.elapsed());
    }
    let peak = peak_kib(service.child.id());
    println!("{} connections of {STREAMS} answers of {length} bytes: {peak} KiB at the peak", held.len());
    assert!(peak < RESIDENT_MAX_KIB, "{peak} KiB at the peak");
}

#[test]
fn bodies_that_are_promised_and_never_come_keep_nobody_out() {
    raise_descriptors();
    let folder = tempfile::tempdir().unwrap();
    let service = Service::start(&folder.path().join("s.redb"));
    let promise = "POST /v1alpha1/evaluate HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{";
    let mut held = Vec::new();
    for n in 0..1_200 {
        let mut socket = TcpStream::connect(service.address).unwrap();
        socket.write_all(promise.as_bytes()).unwrap();
        held.push(socket);
        if n % 100 == 99 {
            assert_eq!((service.get("/v1alpha1/plan").status, service.commit("a", &["h1", "h5"]).0), (200, 200), "{n}");
        }
    }
}

#[test]
fn sockets_that_say_nothing_keep_nobody_out() {
    raise_descriptors();
    let folder = tempfile::tempdir().unwrap();
    let service = secured(folder.path(), 0);
    // The begin of a TLS record that is a ClientHello, and never ends.
    let crowds: Vec<Crowd> = (0..3).map(|_| Crowd::start(service.address, SILENT / 3, &[22, 3, 1, 1, 0, 1, 0, 0, 252, 3, 3])).collect();
    crowds.iter().for_each(|crowd| crowd.gather(SILENT / 3));
    let until = Instant::now() + Duration::from_secs(10);
    let asked = admin_asks(&service, folder.path(), || Instant::now() < until);
    let opened: usize = crowds.into_iter().map(Crowd::end).sum();
    let Some(Asked { well, all, last, .. }) = asked else { return };
    println!("{opened} sockets opened; {well} of {all} requests answered");
    assert!(opened > SILENT && all > 10 && well == all, "{opened} sockets; {well} of {all} answered; {last}");
    assert!(service.log().lines().count() < 1_000, "strangers fill the log: {} lines", service.log().lines().count());
}

/// A client that is slow in the middle of its handshake, as on a busy machine, while silent sockets take all places again and again.
#[test]
fn a_handshake_that_has_begun_is_cut_by_nobody_who_says_nothing() {
    raise_descriptors();
    let folder = tempfile::tempdir().unwrap();
    let service = secured(folder.path(), 0);
    let mut slow = secure(&service, folder.path(), "read", "http/1.1");
    // Its hello, and the first bytes of the answer.
    slow.conn.write_tls(&mut slow.sock).unwrap();
    slow.sock.peek(&mut [0]).unwrap();
    let crowd = Crowd::start(service.address, SILENT, &[22, 3, 1, 1, 0, 1, 0, 0, 252, 3, 3]);
    crowd.gather(SILENT);
    crowd.end();
    write!(slow, "GET /v1alpha1/plan HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut head = [0; 15];
    slow.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 200 OK");
}

/// Without certificates too: everybody on this machine may ask, and who asks nothing gives way.
#[test]
fn sockets_that_say_nothing_keep_nobody_of_this_machine_out() {
    raise_descriptors();
    let folder = tempfile::tempdir().unwrap();
    let service = Service::start(&folder.path().join("s.redb"));
    let crowd = Crowd::start(service.address, SILENT, b"GET /readyz HTTP/1.1\r\nx:");
    crowd.gather(SILENT);
    // Connections that have asked, and are kept: more than there are places.
    let mut kept = Vec::new();
    for n in 0..1_100 {
        let mut socket = TcpStream::connect(service.address).unwrap();
        socket.set_read_timeout(Some(support::WAIT)).unwrap();
        write!(socket, "GET /v1alpha1/plan HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        let mut head = [0; 15];
        socket.read_exact(&mut head).unwrap_or_else(|e| panic!("{n}: {e}"));
        assert_eq!(&head, b"HTTP/1.1 200 OK", "{n}");
        kept.push(socket);
        if n % 50 == 0 {
            assert_eq!((service.get("/readyz").status, service.commit("a", &["h1", "h5"]).0), (200, 200), "{n}");
        }
    }
    crowd.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_agent_that_comes_and_goes_leaves_others_their_sessions_and_events() {
    let folder = tempfile::tempdir().unwrap();
    let service = secured(folder.path(), 0);
    let pki_folder = folder.path().join("pki");
    let config = rig::client(&pki::authority_path(&pki_folder), Some(&pki::paths(&pki_folder, "agent")));
    let mut sessions = Vec::new();
    let (mut welcomed, mut refused) = (0, 0);
    // Every spelling of the name is the same host, whose later session ends the earlier one.
    for n in 0..200 {
        let Ok(mut agent) = rig::Agent::connect(service.address, config.clone()).await else { continue };
        let host = if n % 2 == 0 { "h1" } else { "H1" };
        agent.say(&rig::said(agent_frame::Kind::Hello(rig::hello(host)))).await;
        match agent.next().await {
            Ok(service_frame::Kind::Welcome(_)) => welcomed += 1,
            _ => refused += 1,
        }
        sessions.push(agent);
    }
    let alive = || sessions.iter().filter(|agent| agent.connection.close_reason().is_none()).count();
    rig::until("one session of one certificate is left", || alive() <= 1).await;
    assert!(welcomed >= 10 && refused > 100, "{welcomed} welcomed, {refused} told to wait");
    let lines = service.log().lines().count();
    assert!(lines < 500, "{lines} lines");
}

/// Silent sockets, streams that nobody reads, readers of events in all of their places, and hellos without end, all at once. It lasts for
/// ten seconds, or until `ANTIPHASE_HELLOS` were said.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_works_is_served_whatever_the_others_do() {
    raise_descriptors();
    let folder = tempfile::tempdir().unwrap();
    let service = secured(folder.path(), 11);
    let pki_folder = folder.path().join("pki");
    // One certificate has a quarter of the places of readers of events.
    let readers = ["read", "read-2", "read-3", "read-4", "read-5"];
    readers[1..].iter().for_each(|name| issue(folder.path(), Role::Read, name));
    let each = silent() / 3;
    let crowds: Vec<Crowd> = (0..3).map(|_| Crowd::start(service.address, each, &[22, 3, 1, 1, 0, 1, 0, 0, 252, 3, 3])).collect();
    crowds.iter().for_each(|crowd| crowd.gather(each));
    let events = "/v1alpha1/events/stream";
    let large = [("read", asking("/v1alpha1/fabric", None)), ("read", asking("/antiphase.v1alpha1.Topology/GetFabric", Some(&[0; 5])))];
    let mut held = Vec::new();
    for (who, said) in large.into_iter().chain(readers[..4].iter().map(|who| (*who, asking(events, None)))) {
        let mut stream = secure(&service, folder.path(), who, "h2");
        stream.write_all(&said).unwrap();
        // The head of the first frame: the service knows who it is.
        stream.read_exact(&mut [0; 9]).unwrap();
        held.push(stream);
    }
    let wanted: Option<usize> = std::env::var("ANTIPHASE_HELLOS").ok().map(|count| count.parse().unwrap());
    let said = Arc::new(AtomicUsize::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    let config = rig::client(&pki::authority_path(&pki_folder), Some(&pki::paths(&pki_folder, "agent")));
    let hello = || {
        let (address, config, stopped, said) = (service.address, config.clone(), Arc::clone(&stop), Arc::clone(&said));
        tokio::spawn(async move {
            while !stopped.load(Ordering::Relaxed) {
                let Ok(mut agent) = rig::Agent::connect(address, config.clone()).await else { continue };
                agent.say(&rig::said(agent_frame::Kind::Hello(rig::hello("h1")))).await;
                said.fetch_add(usize::from(agent.next().await.is_ok()), Ordering::Relaxed);
            }
        })
    };
    let hellos: Vec<_> = (0..2).map(|_| hello()).collect();
    let began = Instant::now();
    let goes_on = || match wanted {
        // A service that answers no hello ends the test too.
        Some(wanted) => said.load(Ordering::Relaxed) < wanted && began.elapsed() < Duration::from_secs(600),
        None => began.elapsed() < SHORT,
    };
    let (asked, fifth, peak) = tokio::task::block_in_place(|| {
        std::thread::scope(|scope| {
            // In the middle of a long run: who does not read is ended after a while, and gives its places back.
            let fifth = scope.spawn(|| {
                std::thread::sleep(SHORT);
                curl(folder.path(), "read-5").arg(format!("https://{}{events}", service.address)).output()
            });
            let asked = admin_asks(&service, folder.path(), goes_on);
            (asked, fifth.join().unwrap(), peak_kib(service.child.id()))
        })
    });
    stop.store(true, Ordering::Relaxed);
    for hello in hellos {
        hello.await.unwrap();
    }
    let opened: usize = crowds.into_iter().map(Crowd::end).sum();
    let Some(Asked { all, well, last, slowest_s }) = asked else { return };
    let said = said.load(Ordering::Relaxed);
    println!(
        "{opened} sockets, {said} hellos in {:.0} s, {} connections of {STREAMS} streams; {well} of {all} answered, the slowest in {slowest_s:.3} s; {peak} KiB",
        began.elapsed().as_secs_f64(),
        held.len()
    );
    assert!(said > 0 && all > 5 && well == all, "{well} of {all} answered; {last}\n{}", service.log());
    assert_eq!(fifth.unwrap().stdout, b"429", "all places of readers of events are taken");
    assert!(peak < RESIDENT_MAX_KIB, "{peak} KiB");
}

/// Twelve jobs of one period and many phases: the search for better shifts goes on for as long as it may.
fn long_scenario() -> String {
    let phase = |job: u64, i: u64| {
        let start = 1_000 * i + 37 * (job * i % 17);
        serde_json::json!({ "start": start, "end": start + 120 + 11 * (job + i) % 200, "rate_mbps": 9_000 + 500 * job })
    };
    let job = |job: u64| {
        let phases: Vec<_> = (0..60).map(|i| phase(job, i)).collect();
        serde_json::json!({ "id": format!("j{job}"), "period_ticks": 60_000, "links": ["l"], "phases": phases })
    };
    let jobs: Vec<_> = (0..12).map(job).collect();
    let links = [serde_json::json!({ "id": "l", "capacity_mbps": 30_000 })];
    serde_json::json!({ "schema": "antiphase.scenario/v1", "tick_ns": 1_000, "links": links, "jobs": jobs }).to_string()
}

fn post(path: &str, body: &[u8], length: usize) -> Vec<u8> {
    let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

/// Whether a small question of another client is answered; `None`: there is no curl.
fn other_asks(service: &Service, folder: &Path) -> Option<String> {
    let mut command = curl(folder, "other");
    let body = serde_json::json!({ "jobs": [job("a", &["h1", "h5"])] }).to_string();
    command.args(["--header", "content-type: application/json", "--data", &body]);
    let output = command.arg(format!("https://{}/v1alpha1/evaluate", service.address)).output();
    let output = output.inspect_err(|error| println!("skipped: curl cannot be run: {error}")).ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr))
}

#[test]
fn computations_that_one_certificate_lines_up_keep_no_other_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let service = secured(folder.path(), 0);
    ["greedy", "other"].into_iter().for_each(|name| issue(folder.path(), Role::Evaluate, name));
    let scenario = long_scenario();
    let asked: Vec<_> = (0..60)
        .map(|_| {
            let mut stream = secure(&service, folder.path(), "greedy", "http/1.1");
            stream.write_all(&post("/v1alpha1/solve", scenario.as_bytes(), scenario.len())).unwrap();
            stream.flush().unwrap();
            stream
        })
        .collect();
    for n in 0..3 {
        let Some(said) = other_asks(&service, folder.path()) else { return };
        assert_eq!(said, "200", "question {n} beside {} that were lined up", asked.len());
    }
}

#[test]
fn bodies_of_one_certificate_leave_room_for_those_of_others() {
    const BODY: usize = 60 << 20;
    let folder = tempfile::tempdir().unwrap();
    let service = secured(folder.path(), 0);
    ["greedy", "other"].into_iter().for_each(|name| issue(folder.path(), Role::Evaluate, name));
    let body = vec![b' '; BODY];
    let (mut held, mut refused) = (Vec::new(), 0);
    for _ in 0..9 {
        let mut stream = secure(&service, folder.path(), "greedy", "http/1.1");
        stream.sock.set_write_timeout(Some(SERVED_WITHIN)).unwrap();
        // The last byte never comes, so what came is held.
        let sent = stream.write_all(&post("/v1alpha1/evaluate", &body, BODY + 1)).and_then(|()| stream.flush());
        if sent.is_err() {
            refused += 1;
        } else {
            held.push(stream);
        }
        let Some(said) = other_asks(&service, folder.path()) else { return };
        assert_eq!(said, "200", "beside {} bodies that are held and {refused} that were refused", held.len());
    }
    println!("{} bodies of {BODY} bytes were taken, {refused} refused", held.len());
}
