//! Answers that are always given, and frames that ask for nothing: both have a bound, and others go on.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::Path,
    time::{Duration, Instant},
};

use antiphase_topology::tls::Role;

use crate::{
    RESIDENT_MAX_KIB, SERVED_WITHIN, STREAMS, asking, asking_with, curl, frame, issue, peak_kib, raise_descriptors, secure, secured,
    support::{Service, WAIT, job},
};

const JOBS: usize = 1_000;
/// The longest name of a job.
const NAME_BYTES: usize = 253;

/// Commits jobs with the longest names; `None`: there is no curl.
fn commit_long_names(service: &Service, folder: &Path) -> Option<String> {
    let jobs: Vec<_> = (0..JOBS).map(|n| job(&format!("{n:0>NAME_BYTES$}"), &["h1"])).collect();
    let body = folder.join("jobs.json");
    fs::write(&body, serde_json::json!({ "jobs": jobs, "fields": ["plan_version"] }).to_string()).unwrap();
    let mut command = curl(folder, "admin");
    command.args(["--max-time", "60", "--header", "content-type: application/json", "--data-binary"]).arg(format!("@{}", body.display()));
    let output = command.arg(format!("https://{}/v1alpha1/commit", service.address)).output();
    let output = output.inspect_err(|error| println!("skipped: curl cannot be run: {error}")).ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr))
}

/// The status and the bytes of an answer.
fn answered(service: &Service, folder: &Path, who: &str, path: &str) -> (String, usize) {
    let mut command = curl(folder, who);
    command.args(["--write-out", "%{http_code} %{size_download}", "--max-time", "30"]);
    let output = command.arg(format!("https://{}{path}", service.address)).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let (status, bytes) = said.split_once(' ').unwrap();
    (status.to_owned(), bytes.parse().unwrap())
}

/// One reader of metrics and one admin ask over hundreds of streams and read nothing.
#[test]
fn metrics_and_jobs_that_nobody_reads_have_a_budget_and_others_are_answered() {
    raise_descriptors();
    let folder = tempfile::tempdir().unwrap();
    let service = secured(folder.path(), 0);
    issue(folder.path(), Role::Read, "read-2");
    issue(folder.path(), Role::Admin, "admin-2");
    let Some(committed) = commit_long_names(&service, folder.path()) else { return };
    assert_eq!(committed, "200");
    let before = peak_kib(service.child.id());
    let list = "/antiphase.v1alpha1.Topology/ListJobs";
    let asked = [
        ("read", asking("/metrics", None)),
        ("read", asking("/metrics", None)),
        ("read", asking_with("/metrics", None, 1 << 20)),
        ("admin", asking("/v1alpha1/jobs", None)),
        ("admin", asking("/v1alpha1/jobs", None)),
        ("admin", asking(list, Some(&[0; 5]))),
        ("admin", asking_with(list, Some(&[0; 5]), 1 << 20)),
    ];
    let held = asked.map(|(who, said)| {
        let mut stream = secure(&service, folder.path(), who, "h2");
        stream.write_all(&said).unwrap();
        stream.flush().unwrap();
        stream
    });
    let until = Instant::now() + Duration::from_secs(6);
    let mut rounds = 0;
    while Instant::now() < until || rounds < 2 {
        for (who, path) in [("read-2", "/metrics"), ("read", "/metrics"), ("admin-2", "/v1alpha1/jobs"), ("read-2", "/readyz")] {
            let (status, bytes) = answered(&service, folder.path(), who, path);
            assert_eq!(status, "200", "{who} {path}");
            assert!(path == "/readyz" || bytes > JOBS * NAME_BYTES, "{who} {path}: {bytes} bytes");
        }
        rounds += 1;
    }
    let peak = peak_kib(service.child.id());
    println!("{} connections of {STREAMS} streams: {before} KiB before, {peak} KiB at the peak, {rounds} rounds of others", held.len());
    assert!(peak < RESIDENT_MAX_KIB, "{before} KiB before, {peak} KiB at the peak");
}

/// What a connection of HTTP/2 begins with, and windows for whatever comes.
fn begun(service: &Service, more: &[u8]) -> TcpStream {
    let mut socket = TcpStream::connect(service.address).unwrap();
    socket.set_write_timeout(Some(WAIT)).unwrap();
    socket.write_all(&[b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &frame(4, 0, 0, &[])[..], more].concat()).unwrap();
    socket
}

/// Sends the same frames until the connection is closed: how many bytes were taken.
fn flood(service: &Service, frames: &[u8]) -> usize {
    let mut socket = begun(service, &[]);
    let mut answers = socket.try_clone().unwrap();
    // Answers to pings are read, or the service would stop reading by itself.
    std::thread::spawn(move || while answers.read(&mut [0; 4_096]).is_ok_and(|read| read > 0) {});
    let (until, many) = (Instant::now() + WAIT, frames.repeat(200));
    let mut taken = 0;
    while socket.write_all(&many).is_ok() {
        taken += many.len();
        assert!(Instant::now() < until, "a flood goes on after {taken} bytes");
    }
    taken
}

#[test]
fn frames_that_ask_for_nothing_end_their_connection_and_honest_ones_live() {
    let folder = tempfile::tempdir().unwrap();
    let service = Service::start(&folder.path().join("s.redb"));
    // A reader of events, which opens windows, and a connection that asks nothing for now and is kept alive by pings.
    let window = i32::MAX as u32;
    let mut reader = TcpStream::connect(service.address).unwrap();
    reader.write_all(&asking_with("/v1alpha1/events/stream", None, window)).unwrap();
    let mut idle = begun(&service, &[]);
    let kinds =
        [("priority", frame(2, 0, 1, &[0, 0, 0, 0, 7])), ("window", frame(8, 0, 0, &[0, 0, 0, 1])), ("ping", frame(6, 0, 0, &[7; 8]))];
    for (kind, frames) in kinds.into_iter().chain([("settings", frame(4, 0, 0, &[])), ("unknown", frame(0xee, 0, 0, &[]))]) {
        for _ in 0..3 {
            let began = Instant::now();
            let taken = flood(&service, &frames);
            println!("{kind}: closed after {taken} bytes and {:?}", began.elapsed());
            idle.write_all(&frame(6, 0, 0, &[1; 8])).unwrap();
            reader.write_all(&frame(6, 0, 0, &[2; 8])).unwrap();
            let began = Instant::now();
            assert_eq!(service.commit("a", &["h1", "h5"]).0, 200);
            assert!(began.elapsed() < SERVED_WITHIN, "{:?}", began.elapsed());
        }
    }
    service.wait_for_log("frames that ask for nothing");
    // Both are still there: their last pings are answered.
    for (mut socket, said) in [(idle, [3_u8; 8]), (reader, [4; 8])] {
        socket.set_read_timeout(Some(WAIT)).unwrap();
        socket.write_all(&frame(6, 0, 0, &said)).unwrap();
        let wanted = frame(6, 1, 0, &said);
        let mut came = Vec::new();
        let mut piece = [0; 4_096];
        while !came.windows(wanted.len()).any(|bytes| bytes == wanted) {
            let read = socket.read(&mut piece).unwrap();
            assert!(read > 0, "an honest connection was closed");
            came.extend_from_slice(&piece[..read]);
        }
    }
}
