//! `antiphase doctor` against the real service, and against what never answers.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use antiphase_tests::checkout;

use crate::{
    process::{Run, program, run},
    scratch::Scratch,
};

/// What of its environment the program reads.
const VARIABLES: [&str; 8] = [
    "ANTIPHASE_JOB",
    "ANTIPHASE_DIR",
    "ANTIPHASE_GATE",
    "ANTIPHASE_GATE_LIBRARY",
    "ANTIPHASE_SERVER",
    "ANTIPHASE_CA",
    "RANK",
    "SLURM_PROCID",
];

/// A service of its own, on a free port.
pub(crate) struct Service {
    pub(crate) url: String,
    child: Child,
    _scratch: Scratch,
}

impl Service {
    pub(crate) fn start(name: &str) -> Self {
        Self::with(name, &[])
    }

    /// With more arguments.
    pub(crate) fn with(name: &str, arguments: &[&str]) -> Self {
        let scratch = Scratch::new(name);
        let mut command = Command::new(program());
        command.args(["serve", "--listen", "127.0.0.1:0", "--state", &scratch.path("state.redb")]);
        command.arg("--fabric").arg(checkout().join("examples/testbed/fabric.yaml")).args(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the program starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("invariant: a pipe was asked for");
        BufReader::new(stdout).read_line(&mut line).expect("the service says where it listens");
        let url = line.trim().rsplit(' ').next().expect("invariant: rsplit gives one part").to_owned();
        assert!(url.starts_with("http://"), "{line}");
        Self { url, child, _scratch: scratch }
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Sends a signal, by its name.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status().expect("kill runs");
        assert!(sent.success(), "{name}");
    }

    /// The program with this service and nothing else in its environment.
    pub(crate) fn ask(&self, arguments: &[&str]) -> Run {
        doctor_like(&[arguments, &["--server", &self.url]].concat())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.kill();
    }
}

fn doctor_like(arguments: &[&str]) -> Run {
    let mut command = Command::new(program());
    for name in VARIABLES {
        command.env_remove(name);
    }
    run(command.args(arguments).current_dir(checkout()), arguments.join(" "), b"")
}

/// Verdict and text of the findings of a check.
fn findings(said: &serde_json::Value, check: &str) -> Vec<(String, String)> {
    let word = |one: &serde_json::Value, key: &str| one[key].as_str().unwrap_or_default().to_owned();
    let all = said["findings"].as_array().expect("a list of findings").iter();
    all.filter(|one| one["check"] == check).map(|one| (word(one, "verdict"), word(one, "says"))).collect()
}

#[test]
fn the_page_says_of_real_nics_what_the_doctor_says() {
    // A service that is not there, so that there is nothing to wait for.
    let said = doctor_like(&["doctor", "--server", "http://127.0.0.1:1", "-o", "json"]).json();
    let checks = said["check_first"].as_array().expect("a list of what to look at first").clone();
    let page = fs::read_to_string(checkout().join("docs/limits.md")).unwrap();
    let part = page.split_once("### What to look at first on real NICs").expect("a part of the page").1.split("\n#").next().unwrap();
    let rows: Vec<String> =
        part.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| |")).map(|line| line.replace('`', "")).collect();
    let expected: Vec<String> = (1..)
        .zip(&checks)
        .map(|(at, check)| format!("| {at} | {} | {} |", check[0].as_str().unwrap(), check[1].as_str().unwrap()))
        .collect();
    assert_eq!(rows, expected, "docs/limits.md and crates/cli/src/commands/doctor/nics.rs");
    // What no test shows has a place to look at.
    let unseen = page.split_once("### What no test here can show").expect("a part of the page").1.split("\n#").next().unwrap();
    for row in unseen.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| what")) {
        let named = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
        assert!(named.split(", ").all(|name| checks.iter().any(|check| check[0] == name)), "{row}");
    }
}

#[test]
fn a_service_that_is_well_is_well_and_a_job_that_is_not_there_is_wrong() {
    let service = Service::start("doctor");
    if Path::new("/run/antiphase").exists() || Path::new("/etc/antiphase").exists() {
        println!("skipped: an agent or a service of this machine is installed, and doctor looks at it");
        return;
    }
    let well = service.ask(&["doctor", "--fabric", "examples/testbed/fabric.yaml"]);
    let said = well.ok();
    for part in
        ["takes changes", "the service has 24 hosts", "examples/testbed/fabric.yaml: 24 hosts", "0 wrong", "On real NICs look first at"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    let scratch = Scratch::new("doctor-node");
    let pages = scratch.path("pages");
    fs::create_dir(&pages).unwrap();
    let node = service.ask(&["doctor", "--dir", &pages, "--job", "a", "--library", "libc.so.6", "-o", "json"]);
    node.expect(1);
    let said = node.json();
    assert!(findings(&said, "job").contains(&("wrong".into(), "a is not committed; no job is".into())), "{said}");
    assert!(findings(&said, "gate")[0].1.starts_with("a: not held (no-page)"), "{said}");
    let library = &findings(&said, "library")[0];
    assert!(library.0 == "wrong" && library.1.contains("libc.so.6 has no antiphase_gate_version"), "{said}");
    for check in ["pages", "counters", "verbs"] {
        assert!(!findings(&said, check).is_empty(), "{check}: {said}");
    }
    // Who is told that something is not well is told what to do.
    let all = said["findings"].as_array().unwrap();
    // No registry has the package: the operator builds it.
    let fix = all.iter().find(|one| one["check"] == "library").unwrap()["fix"].as_str().unwrap();
    assert!(fix.contains("make packages") && !fix.contains("pip install"), "{fix}");
    for one in all {
        let fix = one["fix"].as_str().unwrap_or_default();
        assert_eq!(one["verdict"] == "well", fix.is_empty(), "{one}");
        assert!(!fix.contains('\n') && !one["says"].as_str().unwrap().contains('\n'), "{one}");
    }
    assert_eq!(said["wrong"], all.iter().filter(|one| one["verdict"] == "wrong").count());
}

#[test]
fn nothing_that_hangs_keeps_the_doctor() {
    let scratch = Scratch::new("doctor-hangs");
    // Connections are taken by the kernel, and nobody ever reads them.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", silent.local_addr().unwrap());
    let hangs = scratch.path("hangs");
    fs::write(&hangs, "#!/bin/sh\nexec sleep 60\n").unwrap();
    fs::set_permissions(&hangs, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let fifo = scratch.path("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let run = doctor_like(&["doctor", "--server", &server, "--verbs", &hangs, "--fabric", &fifo, "--service-config", &fifo, "-o", "json"]);
    run.expect(1);
    let said = run.json();
    assert!(findings(&said, "service")[0].1.contains("does not answer within"), "{said}");
    assert!(findings(&said, "verbs")[0].1.contains("does not answer within"), "{said}");
    assert!(findings(&said, "fabric")[0].1.contains("is a FIFO"), "{said}");
    assert!(findings(&said, "configuration")[0].1.contains("is a FIFO"), "{said}");
    // Its help says 20 seconds; a busy machine adds to what the program allows itself.
    assert!(run.took < Duration::from_secs(60), "{:?}", run.took);
}

#[test]
fn bad_input_of_the_doctor_is_exit_code_2() {
    for (arguments, part) in
        [(["--job", "a/b"], "--job: job name \"a/b\""), (["--server", "moon"], "--server \"moon\": needs http:// or https://")]
    {
        let run = doctor_like(&[&["doctor"], &arguments[..]].concat());
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{}", run.stderr);
        assert!(run.stderr.contains(part) && run.stderr.lines().count() == 1, "{}", run.stderr);
    }
    let nobody = doctor_like(&["doctor", "--server", "http://127.0.0.1:1"]);
    assert!(nobody.expect(1).contains("fix: no service runs here; start one with"), "{}", nobody.stdout);
}
