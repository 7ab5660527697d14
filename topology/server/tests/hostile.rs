//! Strangers: garbage, floods, slowness.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod support;

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::Path,
    time::{Duration, Instant},
};

use proptest::{
    prelude::Rng as _,
    test_runner::{RngAlgorithm, TestRng},
};
use proto::v1alpha1::{self as pb, topology_client::TopologyClient};
use rustix::net;
use serde_json::json;
use support::{Service, WAIT, groups, job, program, request, resident_kib, testbed};

/// Requests of one run, unless `ANTIPHASE_GARBAGE` says otherwise.
const GARBAGE: u32 = 10_000;
/// Memory that a flood of small bad requests may leave behind.
const GROWTH_KIB_MAX: u64 = 64 << 10;

/// A good request with bytes changed, cut or repeated, or plain noise.
fn garbage(random: &mut TestRng, good: &[Vec<u8>]) -> Vec<u8> {
    let mut below = |n: usize| (random.next_u64() % n.max(1) as u64) as usize;
    let mut bytes = if below(8) == 0 { Vec::new() } else { good[below(good.len())].clone() };
    if bytes.is_empty() {
        bytes = (0..below(400)).map(|_| below(256) as u8).collect();
    }
    for _ in 0..below(6) {
        let at = below(bytes.len());
        match below(4) {
            0 => bytes.truncate(at),
            1 if at < bytes.len() => bytes[at] = below(256) as u8,
            2 => bytes.extend_from_within(at.min(bytes.len())..),
            _ => bytes.insert(at, b"\r\n {}[]\":,%0"[below(12)]),
        }
        bytes.truncate(4_096);
    }
    bytes
}

fn good() -> Vec<Vec<u8>> {
    let commit = json!({ "jobs": [job("g", &["h1", "h5"])] }).to_string();
    let evaluate = json!({ "jobs": [job("g", &["h1", "h5"])], "candidates": [{ "id": "x", "placements": [] }] }).to_string();
    let scenario = include_str!("../../../examples/two-jobs.json");
    let post = |path: &str, body: &str| {
        format!("POST /v1alpha1/{path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())
            .into_bytes()
    };
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").into_bytes();
    let mut rpc = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    rpc.extend([0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 5, 1, 4, 0, 0, 0, 1, 0x82, 0x86, 0x84, 0x41, 0x8a]);
    vec![
        post("commit", &commit),
        post("evaluate", &evaluate),
        post("solve", scenario),
        get("/v1alpha1/links?limit=3&demands=true"),
        get("/v1alpha1/links/circles.svg?link=leaf1-%3Espine1&colour=3:a&fragment"),
        get("/metrics"),
        rpc,
    ]
}

#[test]
fn garbage_never_brings_it_down() {
    let count = std::env::var("ANTIPHASE_GARBAGE").ok().map_or(GARBAGE, |n| n.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let service = Service::start(&folder.path().join("state.redb"));
    let good = good();
    let mut random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut before = 0;
    for n in 0..count {
        // A tenth warms caches and allocators.
        if n == count / 10 {
            before = resident_kib(service.child.id());
        }
        let mut stream = TcpStream::connect(service.address).unwrap();
        stream.set_read_timeout(Some(WAIT)).unwrap();
        // It may hang up in the middle.
        let _ = stream.write_all(&garbage(&mut random, &good));
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    }
    let after = resident_kib(service.child.id());
    assert_eq!(service.get("/healthz").status, 200);
    assert!(!service.log().contains("panicked"), "{}", service.log());
    assert!(after < before + GROWTH_KIB_MAX, "{before} KiB before, {after} KiB after");
    println!("{count} requests; {before} KiB before, {after} KiB after");
}

#[test]
fn limits_hold() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.toml");
    fs::write(&file, "[limits]\nconnections = 8\nbody_mib = 1\nrequest_s = 1\nwatchers = 2\n").unwrap();
    let mut command = program();
    command.arg("--config").arg(&file).arg("--state").arg(folder.path().join("s.redb")).arg("--fabric").arg(testbed());
    let service = Service::with(&mut command);
    let large = service.refused("POST", "/v1alpha1/commit", &"[".repeat((1 << 20) + 1));
    assert_eq!(large.0, 413, "{}", large.1);
    // Deep and wide, but small enough.
    assert_eq!(service.refused("POST", "/v1alpha1/commit", &"[".repeat(1 << 19)).0, 400);
    assert_eq!(service.refused("PUT", "/v1alpha1/fabric", &"[".repeat(1 << 19)).0, 400);

    // A body that never comes is given up, with an answer.
    let mut stream = TcpStream::connect(service.address).unwrap();
    stream.set_read_timeout(Some(WAIT)).unwrap();
    stream.write_all(b"POST /v1alpha1/solve HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: 9\r\n\r\n{").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 504") && answer.contains("not done within 1 s"), "{answer}");

    let watch = || {
        let mut stream = TcpStream::connect(service.address).unwrap();
        stream.set_read_timeout(Some(WAIT)).unwrap();
        stream.write_all(b"GET /v1alpha1/events/stream HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        (String::from_utf8_lossy(&head).into_owned(), stream)
    };
    let (first, second) = (watch(), watch());
    assert!(first.0.ends_with("200") && second.0.ends_with("200"));
    assert!(watch().0.ends_with("429"));
    drop((first, second));

    // Eight connections that have asked and are kept; who comes then is served, and the one that was idle for longest is closed.
    let mut kept: Vec<TcpStream> = Vec::new();
    for n in 0..20 {
        let mut stream = TcpStream::connect(service.address).unwrap();
        stream.set_read_timeout(Some(WAIT)).unwrap();
        stream.write_all(b"GET /v1alpha1/plan HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        assert!(head.ends_with(b"200"), "{n}: {head:?}");
        kept.push(stream);
    }
    assert_eq!(service.get("/healthz").status, 200);
    let closed = |stream: &mut TcpStream| stream.read_to_end(&mut Vec::new()).is_ok();
    assert!(kept.iter_mut().take(11).all(closed), "more connections than the limit are open");
    kept.iter_mut().for_each(|stream| stream.set_read_timeout(Some(Duration::from_millis(10))).unwrap());
    assert!(!closed(&mut kept[19]), "the latest one");
}

/// A service that cuts a reader off after a second, and whose fabric document is too long for the buffers of a connection.
fn impatient(folder: &Path) -> Service {
    let (config, fabric) = (folder.join("a.toml"), folder.join("fabric.yaml"));
    fs::write(&config, "[limits]\nstall_s = 1\n").unwrap();
    // Loopback buffers some MiB.
    let padding = format!("# {}\n", "x".repeat(1_021)).repeat(16 << 10);
    fs::write(&fabric, fs::read_to_string(testbed()).unwrap() + &padding).unwrap();
    Service::with(program().arg("--config").arg(&config).arg("--state").arg(folder.join("s.redb")).arg("--fabric").arg(&fabric))
}

/// A value of the exposition.
fn metric(service: &Service, name: &str) -> f64 {
    let text = service.get("/metrics").body;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ').map(str::to_owned));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
}

/// Waits until the connection that asks is the only one.
fn wait_until_alone(service: &Service) {
    let until = Instant::now() + WAIT;
    while metric(service, "antiphase_connections") > 1.0 {
        assert!(Instant::now() < until, "a connection is held whose client does not read:\n{}", service.log());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Asks and reads nothing. The buffer is small from the start: a window that was offered cannot be taken back.
fn stopped(service: &Service, path: &str) -> TcpStream {
    let socket = net::socket(net::AddressFamily::INET, net::SocketType::STREAM, None).unwrap();
    net::sockopt::set_socket_recv_buffer_size(&socket, 4_096).unwrap();
    net::connect(&socket, &service.address).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(WAIT)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n").unwrap();
    stream
}

/// Commits and releases a job so often that the events are more than a small buffer holds.
fn make_events(service: &Service) {
    for _ in 0..60 {
        assert_eq!(service.commit("a", &["h1", "h5"]).0, 200);
        assert_eq!(service.ask("POST", "/v1alpha1/release", r#"{"jobs": ["a"]}"#).0, 200);
    }
}

#[test]
fn a_reader_that_stops_is_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let service = impatient(folder.path());
    make_events(&service);
    let length = service.get("/v1alpha1/fabric").body.len();
    assert!(length > 16 << 20, "{length}");
    let mut resident = Vec::new();
    for _ in 0..3 {
        let held: Vec<TcpStream> = (0..8).map(|_| stopped(&service, "/v1alpha1/fabric")).collect();
        let watching: Vec<TcpStream> = (0..4).map(|_| stopped(&service, "/v1alpha1/events/stream?after=0")).collect();
        wait_until_alone(&service);
        resident.push(resident_kib(service.child.id()));
        for mut stream in held.into_iter().chain(watching) {
            // The kernel ends a connection that does not move without a word, so the end of what is here is silence.
            stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest);
            assert!(rest.len() < length, "{} bytes came", rest.len());
        }
    }
    // Eight answers of 16 MiB were begun each time. An allocator may keep the room of the first, and nobody that of each.
    assert!(resident[2] < resident[0] + (64 << 10), "{resident:?} KiB");
    assert_eq!(service.get("/healthz").status, 200);
}

/// A client of HTTP/2 takes bytes and answers pings, but opens no window for its stream.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_nobody_reads_is_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let service = impatient(folder.path());
    make_events(&service);
    let endpoint = tonic::transport::Channel::from_shared(format!("http://{}", service.address)).unwrap().initial_stream_window_size(1_024);
    let mut client = TopologyClient::new(endpoint.connect().await.unwrap());
    let mut events = client.watch_events(pb::WatchEventsRequest { after: Some(0) }).await.unwrap().into_inner();
    events.message().await.unwrap().unwrap();
    tokio::task::block_in_place(|| {
        // What is there already fits into buffers; what comes next does not.
        make_events(&service);
        let until = Instant::now() + WAIT;
        while metric(&service, "antiphase_connections_stalled_total") < 1.0 {
            assert!(Instant::now() < until, "a stream is held that nobody reads:\n{}", service.log());
            std::thread::sleep(Duration::from_millis(50));
        }
        wait_until_alone(&service);
    });
    // What had come already can be read; then the connection is gone.
    while let Ok(event) = events.message().await {
        assert!(event.is_some(), "an end that looks well");
    }
}

/// Whoever reads slowly, but reads, gets everything.
#[test]
fn a_slow_reader_gets_everything() {
    let folder = tempfile::tempdir().unwrap();
    let service = impatient(folder.path());
    let mut stream = stopped(&service, "/v1alpha1/jobs");
    let mut answer = Vec::new();
    let mut byte = [0];
    while !answer.ends_with(b"}") {
        assert_eq!(stream.read(&mut byte).unwrap(), 1);
        answer.push(byte[0]);
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(answer.starts_with(b"HTTP/1.1 200"));
}

#[test]
fn a_connection_that_says_nothing_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let service = Service::start(&folder.path().join("state.redb"));
    let begin: [&[u8]; 3] = [b"", b"PRI", b"GET / HT"];
    let mut streams: Vec<TcpStream> = begin
        .iter()
        .map(|bytes| {
            let mut stream = TcpStream::connect(service.address).unwrap();
            stream.set_read_timeout(Some(WAIT)).unwrap();
            stream.write_all(bytes).unwrap();
            stream
        })
        .collect();
    for stream in &mut streams {
        // Ends without waiting for the client.
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(!rest.starts_with(b"HTTP/1.1 200"));
    }
}

/// Memory that a request which is refused for what it holds may take at its peak. Decoded, each below would take 500 MB.
const PEAK_KIB_MAX: u64 = 160 << 10;

fn peak_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|l| l.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn small_messages_that_become_large_are_refused_before_they_are_decoded() {
    let folder = tempfile::tempdir().unwrap();
    let service = Service::start(&folder.path().join("state.redb"));
    let before = resident_kib(service.child.id());
    let channel = tonic::transport::Channel::from_shared(format!("http://{}", service.address)).unwrap().connect().await.unwrap();
    // On the wire an empty name and an empty job are the same two bytes.
    let empty = pb::ListJobsRequest { jobs: vec![String::new(); 2_000_000], ..Default::default() };
    for rpc in ["Commit", "Evaluate"] {
        let path: &'static str = format!("/antiphase.v1alpha1.Topology/{rpc}").leak();
        let to = move |mut request: axum::http::Request<tonic::body::Body>| {
            *request.uri_mut() = format!("http://localhost{path}").parse().unwrap();
            request
        };
        let mut client = TopologyClient::new(tower::util::MapRequest::new(channel.clone(), to));
        let status = client.list_jobs(empty.clone()).await.unwrap_err();
        assert!(status.code() == tonic::Code::ResourceExhausted && status.message().contains("count"), "{rpc}: {status}");
    }
    // RPCs that list names have a smaller limit.
    let mut client = TopologyClient::new(channel);
    let names = pb::ListJobsRequest { jobs: vec!["a".repeat(100); 50_000], ..Default::default() };
    let status = client.list_jobs(names).await.unwrap_err();
    assert!(status.code() == tonic::Code::ResourceExhausted && status.message().contains("4 MiB"), "{status}");
    let many = client.list_jobs(pb::ListJobsRequest { jobs: vec!["a".into(); 20_000], ..Default::default() }).await.unwrap_err();
    assert!(many.code() == tonic::Code::InvalidArgument && many.message().contains("20000; at most 10000"), "{many}");
    let json = format!("{{\"jobs\":[{}{{}}]}}", "{},".repeat(1_000_000));
    for path in ["/v1alpha1/commit", "/v1alpha1/evaluate"] {
        let (status, message) = service.refused("POST", path, &json);
        assert!(status == 413 && message.contains("count"), "{path}: {status} {message}");
        // One text of many paths is one value of JSON, and no more than may be are taken from it.
        let (status, message) = service.refused("POST", path, &format!("{{\"fields\":\"{}\"}}", "a,".repeat(5_000_000)));
        assert!(status == 400 && message.contains("more than 200 paths"), "{path}: {status} {message}");
    }
    let peak = peak_kib(service.child.id());
    assert!(peak < before + PEAK_KIB_MAX, "{before} KiB before, {peak} KiB at the peak");

    // A name that is given often is one.
    assert_eq!(service.commit("a", &["h1", "h5"]).0, 200);
    let often = client.list_jobs(pb::ListJobsRequest { jobs: vec!["a".into(); 10_000], ..Default::default() }).await.unwrap().into_inner();
    assert_eq!(often.jobs.len(), 1);
}

async fn grpc(address: std::net::SocketAddr) -> TopologyClient<tonic::transport::Channel> {
    TopologyClient::new(tonic::transport::Channel::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap())
}

/// Jobs on the same links and candidates of one request: their answer would be 1.4 GB, and as much again before it is text.
const ANSWER_JOBS: usize = 400;
const ANSWER_CANDIDATES: usize = 1_000;
/// Memory that such a request may take at its peak: what an answer may count (192 MiB), which is more than it takes, and the jobs.
const ANSWER_KIB_MAX: u64 = 256 << 10;

/// A short question with a long answer is refused while the answer is made; whoever asks for less of it gets that.
#[tokio::test]
async fn an_answer_that_one_request_multiplies_is_not_made() {
    let folder = tempfile::tempdir().unwrap();
    let service = Service::start(&folder.path().join("state.redb"));
    let before = resident_kib(service.child.id());
    let name = |n: usize| format!("j{n:03}{}", "x".repeat(120));
    let jobs: Vec<_> = (0..ANSWER_JOBS).map(|n| job(&name(n), &["h1", "h5"])).collect();
    let placed = json!([{ "job": name(0), "hosts": ["h1", "h5"] }]);
    let candidates: Vec<_> = (0..ANSWER_CANDIDATES).map(|n| json!({ "id": format!("c{n}"), "placements": placed })).collect();
    let body = json!({ "jobs": jobs, "candidates": candidates }).to_string();
    for fields in ["", "?fields=ranked.links", "?fields=ranked.shifts"] {
        let (status, message) = service.refused("POST", &format!("/v1alpha1/evaluate{fields}"), &body);
        assert!(status == 413 && message.contains(" of 1000 it holds more than 192 MiB"), "{fields}: {status} {message}");
    }
    // Sixty names of 8 KB at each of a thousand links.
    let links: Vec<_> = (0..1_000).map(|n| json!({ "id": n.to_string(), "capacity_mbps": 1_000 })).collect();
    let names: Vec<_> = (0..1_000).map(|n| n.to_string()).collect();
    let phases = json!([{ "start": 0, "end": 3, "rate_mbps": 9 }]);
    let long = |n: usize| json!({ "id": n.to_string().repeat(4_000), "period_ticks": 9, "links": names, "phases": phases });
    let jobs: Vec<_> = (10..70).map(long).collect();
    let scenario = json!({ "schema": "antiphase.scenario/v1", "tick_ns": 1_000, "links": links, "jobs": jobs }).to_string();
    let (status, message) = service.refused("POST", "/v1alpha1/solve", &scenario);
    assert!(status == 413 && message.contains(" of 1000 it holds more than 192 MiB"), "{status} {message}");
    let (status, some) = service.ask("POST", "/v1alpha1/evaluate?fields=ranked.id,ranked.mean_score", &body);
    assert!(status == 200 && some["ranked"].as_array().unwrap().len() == ANSWER_CANDIDATES, "{status}");
    let mut client = grpc(service.address).await;
    let request: pb::EvaluateRequest = serde_json::from_str(&body).unwrap();
    let refused = client.evaluate(request).await.unwrap_err();
    assert!(refused.code() == tonic::Code::ResourceExhausted && refused.message().contains("192 MiB"), "{refused}");
    let peak = peak_kib(service.child.id());
    assert!(peak < before + ANSWER_KIB_MAX, "{before} KiB before, {peak} KiB at the peak");
}

/// Empty jobs in one request, which is nearly as much as one may hold: two bytes each, and hundreds once they are decoded.
const DECODED_JOBS: usize = 400_000;

/// The one thread of all tasks goes on with others while a body is decoded: an agent whose job asks for its turn is heard.
#[test]
fn a_large_body_is_decoded_beside_the_tasks() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state.redb");
    let service = Service::with(program().arg("--state").arg(&state).arg("--fabric").arg(testbed()).env("TOKIO_WORKER_THREADS", "1"));
    let address = service.address;
    let body = format!("{{\"jobs\":[{}{{}}]}}", "{},".repeat(DECODED_JOBS - 1));
    let began = Instant::now();
    let asked = std::thread::spawn(move || request(address, "POST", "/v1alpha1/evaluate", &[], body.as_bytes()).unwrap().status);
    // How long whoever asks meanwhile waits at most, beside how long the request takes.
    let mut longest = Duration::ZERO;
    while !asked.is_finished() {
        let began = Instant::now();
        assert_eq!(service.get("/healthz").status, 200);
        longest = longest.max(began.elapsed());
    }
    let whole = began.elapsed();
    assert_eq!(asked.join().unwrap(), 400, "so many jobs are not evaluated");
    println!("others waited {longest:?} of {whole:?}");
    assert!(longest < whole / 2 + Duration::from_millis(20), "others waited {longest:?} of {whole:?}");
}

/// Phases of a job that whoever may write a profile sends; a profile may have 4,096.
const PHASES: u64 = 700;
/// Processor time that four such jobs on the same links may take: they took 17 s, and take 2 s (debug build).
const PLANNED_CPU_S: f64 = 8.0;

/// Seconds of processor time of a process (proc(5), utime and stime, in hundredths of a second).
fn processor_s(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // The name, which may hold spaces, ends with the last bracket; the numbers are the 14th and the 15th field.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11..13].iter().map(|ticks| ticks.parse::<f64>().unwrap() / 100.0).sum()
}

/// Whoever may write a profile, such as any user of Kubernetes or Slurm, keeps nobody's change waiting for long by its phases.
#[test]
fn profiles_of_many_phases_cost_no_more_than_seconds_of_planning() {
    let folder = tempfile::tempdir().unwrap();
    let service = Service::start(&folder.path().join("state.redb"));
    for (n, period) in [399_999_983, 401_000_003, 397_000_021, 403_999_997].into_iter().enumerate() {
        let step = period / PHASES;
        let phase = |i: u64| {
            let duration = step / 3 + (i * 7_919) % (step / 4);
            json!({ "start_ns": i * step, "duration_ns": duration, "rate_mbps": 40_000 + i, "collective": "ring", "scope": "data" })
        };
        let profile = json!({
            "schema": "antiphase.profile/v1", "name": "x", "period_ns": period, "phases": (0..PHASES).map(phase).collect::<Vec<_>>(),
            "ranks": { "dp": 2 }, "source": "declared",
        });
        let job = json!({ "id": format!("j{n}"), "profile": profile.to_string(), "hosts": ["h1", "h5"] });
        let (status, answer) = service.ask("POST", "/v1alpha1/commit", &json!({ "jobs": [job] }).to_string());
        assert_eq!(status, 200, "{answer}");
    }
    let took = processor_s(service.child.id());
    println!("{took:.1} s of processor time");
    assert!(took < PLANNED_CPU_S, "{took} s");
}

/// Processor time that one commit of many groups of such jobs may take: it took 5.9 s, and takes 1.0 s (debug build); with phases drawn at
/// random 18 s and 1.2 GB, and 1.5 s.
const COMMIT_CPU_S: f64 = 4.0;

/// The groups that one commit plans share its work, so that a commit of 680 KB keeps everybody else waiting for no more than seconds.
#[test]
fn a_commit_of_many_groups_costs_no_more_than_seconds() {
    let folder = tempfile::tempdir().unwrap();
    let fabric = folder.path().join("fabric.yaml");
    fs::write(&fabric, groups::fabric()).unwrap();
    let config = folder.path().join("a.toml");
    fs::write(&config, "control = \"turns\"\n").unwrap();
    let mut command = program();
    command.arg("--config").arg(&config).arg("--state").arg(folder.path().join("s.redb")).arg("--fabric").arg(&fabric);
    let service = Service::with(&mut command);
    let before = processor_s(service.child.id());
    let (status, answer) = service.ask("POST", "/v1alpha1/commit", &json!({ "jobs": groups::jobs(groups::MAX) }).to_string());
    assert_eq!(status, 200, "{answer}");
    let took = processor_s(service.child.id()) - before;
    println!("{took:.1} s of processor time");
    assert!(took < COMMIT_CPU_S, "{took} s");
}

/// Groups of five jobs whose periods lock in several ways, which take long.
fn hard(groups: usize) -> String {
    let periods = [240_000, 360_000, 400_000, 300_000, 480_000];
    let phases = |period: u64, j: u64| -> Vec<_> {
        let start = |k: u64| period * k / 3 + 1_000 * j * k;
        let one =
            |k: u64| json!({ "start": start(k), "end": start(k) + period / 9 + 700 * j, "rate_mbps": 15_000 + 3_000 * k + 1_000 * j });
        (0..3).map(one).collect()
    };
    let links: Vec<_> = (0..groups).map(|g| json!({ "id": format!("l{g}"), "capacity_mbps": 50_000 })).collect();
    let one = |g: usize, j: usize| json!({ "id": format!("j{g}-{j}"), "period_ticks": periods[j], "links": [format!("l{g}")], "phases": phases(periods[j], j as u64) });
    let jobs: Vec<_> = (0..groups).flat_map(|g| (0..5).map(move |j| one(g, j))).collect();
    json!({ "schema": "antiphase.scenario/v1", "tick_ns": 1_000, "links": links, "jobs": jobs }).to_string()
}

#[test]
fn questions_that_take_long_do_not_keep_changes_out() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.toml");
    fs::write(&file, "[limits]\nevaluations = 1\n[scheduler]\npolicy = \"srtf\"\ngpus_per_host = 2\n").unwrap();
    let mut command = program();
    command.arg("--config").arg(&file).arg("--state").arg(folder.path().join("s.redb")).arg("--fabric").arg(testbed());
    let service = Service::with(&mut command);
    let large = service.refused("POST", "/v1alpha1/solve", &hard(201));
    assert!(large.1.contains("scenario: jobs: 1005; at most 1000"), "{}", large.1);
    // Many questions, one at a time; those that wait are before the commit in every line that they share with it.
    let address = service.address;
    let questions: Vec<TcpStream> = (0..12)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            let body = hard(150);
            let head = "POST /v1alpha1/solve HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close";
            stream.write_all(format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).as_bytes()).unwrap();
            stream
        })
        .collect();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(service.commit("a", &["h1", "h5"]).0, 200);
    // Nor do they keep the scheduler from ranking places.
    let job = json!({ "job": { "id": "ranked", "model": { "name": "vgg16" } }, "gpus": 4, "iterations": 10 });
    assert_eq!(service.ask("POST", "/v1alpha1/submit", &job.to_string()).0, 200);
    let why = || service.ask("GET", "/v1alpha1/submissions?jobs=ranked", "").1["submissions"][0]["why"].to_string();
    let until = Instant::now() + WAIT;
    while !why().contains("times alone (most compact") {
        assert!(Instant::now() < until, "{}", why());
        std::thread::sleep(Duration::from_millis(10));
    }
    let waiting = questions.iter().filter(|stream| {
        stream.set_nonblocking(true).unwrap();
        let mut byte = [0];
        stream.peek(&mut byte).is_err_and(|e| e.kind() == std::io::ErrorKind::WouldBlock)
    });
    assert!(waiting.count() > 0, "the commit and the ranking came after all questions, or these were too easy to tell");
}

#[test]
fn pages_of_other_sites_change_nothing_and_read_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let service = Service::start(&folder.path().join("state.redb"));
    assert_eq!(service.commit("a", &["h1", "h5"]).0, 200);
    let own = format!("origin: http://{}", service.address);
    let release = |headers: &[&str], body: &str| request(service.address, "POST", "/v1alpha1/release", headers, body.as_bytes()).unwrap();
    let body = r#"{"jobs":["a"]}"#;
    for (headers, status, part) in [
        (&["content-type: text/plain", "origin: http://evil.example", "host: evil.example", "sec-fetch-site: cross-site"][..], 403, "host"),
        (&["sec-fetch-site: cross-site"], 403, "sec-fetch-site"),
        (&["sec-fetch-site: same-site"], 403, "sec-fetch-site"),
        (&["origin: http://evil.example"], 403, "origin"),
        (&["origin: null"], 403, "origin"),
        (&["content-type: text/plain"], 400, "content-type"),
        (&["content-type: application/x-www-form-urlencoded"], 400, "content-type"),
    ] {
        let answer = release(headers, body);
        assert!(answer.status == status && answer.body.contains(part), "{headers:?}: {answer:?}");
    }
    for path in ["/v1alpha1/jobs", "/v1alpha1/links/circles.svg?link=h1-%3Eleaf1", "/", "/metrics"] {
        let rebound = request(service.address, "GET", path, &["host: evil.example:7480"], b"").unwrap();
        assert!(rebound.status == 403 && !rebound.body.contains("\"a\""), "{path}: {rebound:?}");
    }
    // The first name is ours and the second another site's, or the other way round: RFC 9112, section 3.2.
    for hosts in [["host: localhost", "host: evil.example"], ["host: evil.example", "host: localhost"]] {
        for path in ["/v1alpha1/jobs", "/healthz", "/", "/nowhere"] {
            let twice = request(service.address, "GET", path, &hosts, b"").unwrap();
            assert!(twice.status == 400 && twice.body.contains("host: 2 of them"), "{path}: {twice:?}");
        }
    }
    let put = request(service.address, "PUT", "/v1alpha1/fabric", &["sec-fetch-site: cross-site"], b"x").unwrap();
    assert_eq!(put.status, 403);
    assert_eq!(service.ask("GET", "/v1alpha1/jobs", "").1["jobs"][0]["id"], "a");
    assert_eq!(release(&[&own, "sec-fetch-site: same-origin", "content-type: application/json; charset=utf-8"], body).status, 200);
}
