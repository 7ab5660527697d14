//! The lab that one can watch.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::support::{ALONE, RUN_TIMEOUT, finish, lab_or_skip, labs, no_service, number, start, text, traces_of};

/// What a browser would get: head and body.
fn get(address: &str, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{path}: {answer:?}"));
    (head.to_owned(), body.to_owned())
}

fn json(address: &str, path: &str) -> Value {
    let (head, body) = get(address, path);
    assert!(head.starts_with("HTTP/1.1 200"), "{path}: {head}");
    serde_json::from_str(&body).unwrap()
}

/// Somebody watches on loopback: the page, jobs that are held with their iteration times, agents with their clocks, and ECN marks.
/// Nobody changes anything there; a Ctrl-C takes everything down.
#[test]
fn a_live_lab_is_watched_and_goes() {
    lab_or_skip!();
    if let Some(why) = no_service() {
        println!("skipped: {why}");
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    let folder = tempfile::tempdir().unwrap();
    let case = text(folder.path(), "test-live", 200);
    let mut live = start(&["live", &case, "--listen", "127.0.0.1:0", "--free", "4", "--for", "90"]);
    let mut said = BufReader::new(live.stderr.take().unwrap()).lines().map_while(Result::ok);
    let first = said.next().unwrap();
    let address = first.strip_prefix("the page is http://").unwrap_or_else(|| panic!("{first}")).split('/').next().unwrap().to_owned();
    let ids = labs("test-live");
    let [id] = ids.as_slice() else { panic!("one lab, not {ids:?}") };

    let (head, page) = get(&address, "/");
    assert!(head.starts_with("HTTP/1.1 200") && page.contains("Antiphase"), "{head}");
    let agents = json(&address, "/v1alpha1/agents");
    assert_eq!(agents["agents"].as_array().unwrap().len(), 4, "one beside every rank: {agents}");

    assert!(said.any(|line| line.starts_with("committed: 2 of 2 jobs are held")), "the jobs are committed");
    let end = Instant::now() + RUN_TIMEOUT;
    let held = loop {
        let answer = json(&address, "/v1alpha1/jobs");
        let jobs = answer["jobs"].as_array().unwrap().clone();
        if jobs.len() == 2 && jobs.iter().all(|job| job["state"] == "held" && job["iteration_ns"].is_number()) {
            break jobs;
        }
        assert!(Instant::now() < end, "gates do not report: {answer}");
        thread::sleep(Duration::from_millis(200));
    };
    assert!(held.iter().all(|job| number(job, "/iteration_ns") > 0.0), "{held:?}");
    let telemetry = json(&address, "/v1alpha1/telemetry?all_hosts=true&seconds=120");
    let marks = |host: &Value| {
        let counters = host["counters"].as_array().into_iter().flatten().filter(|c| c["name"] == "ecn_marked_rx");
        counters.flat_map(|c| c["delta"].as_array().cloned().unwrap_or_default()).filter_map(|d| d.as_f64()).sum::<f64>()
    };
    let hosts = telemetry["hosts"].as_array().unwrap();
    assert!(hosts.iter().map(marks).sum::<f64>() > 0.0, "jobs that ran as they came were marked: {telemetry}");

    let mut stream = TcpStream::connect(&address).unwrap();
    let body = r#"{"jobs":["a"]}"#;
    write!(stream, "POST /v1alpha1/release HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
        .unwrap();
    let mut refused = String::new();
    stream.read_to_string(&mut refused).unwrap();
    assert!(refused.starts_with("HTTP/1.1 403"), "{refused}");

    rustix::process::kill_process(rustix::process::Pid::from_child(&live), rustix::process::Signal::INT).unwrap();
    let rest: Vec<String> = said.collect();
    assert_eq!(finish(live).status.code(), Some(0), "{rest:?}");
    assert!(rest.iter().any(|line| line.starts_with("a: ") && line.contains(" held")), "{rest:?}");
    assert_eq!(traces_of(id), Vec::<String>::new());
    assert!(TcpStream::connect(&address).is_err(), "nobody listens any more");
}

/// Only loopback: the page asks nobody who he is.
#[test]
fn a_live_lab_is_for_loopback() {
    let output = finish(start(&["live", "two-equal", "--listen", "0.0.0.0:0"]));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--listen: 0.0.0.0:0") && said.lines().count() == 1, "{said}");
}
