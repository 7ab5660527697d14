//! Bad configurations, damaged files, full disks, signals.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod support;

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::Command,
};

use antiphase_topology::pki;
use rustix::{
    fs::{CWD, FileType, Mode, mknodat},
    process::Signal,
};
use serde_json::json;
use support::{Service, WAIT, job, program, testbed};

/// Places of a state file at which one byte is changed.
const FLIPS: usize = 60;

/// Runs to the end: exit code, standard output, standard error.
fn run(arguments: &[&str]) -> (i32, String, String) {
    let output = program().args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn one_line(text: &str) -> &str {
    assert!(text.ends_with('\n') && text.lines().count() == 1, "{text:?}");
    text.trim_end()
}

#[test]
fn a_bad_configuration_is_one_line_and_exit_code_2() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.toml");
    let path = file.to_str().unwrap();
    let check = |text: &str| {
        fs::write(&file, text).unwrap();
        let (code, _, said) = run(&["config", "check", "--config", path]);
        assert_eq!(run(&["--config", path]), (2, String::new(), said.clone()), "starting says the same");
        assert_eq!(code, 2);
        one_line(&said).to_owned()
    };
    assert!(check("[limits]\nmoon = 1\n").contains("a.toml: line 2: unknown field `moon`"));
    assert!(check("listen = \"0.0.0.0:7480\"\n").contains("not a loopback address"));
    assert!(check("[plan]\nttl_s = 0\n").contains("plan.ttl_s: 0"));
    assert!(check("listen = [\n").contains("line "));
    assert!(check("state = \"a\"\nlisten = \"127.0.0.1\"\n").contains("a.toml: line 2: listen = \"127.0.0.1\": "));
    assert!(check("\u{0}").contains("line 1"));
    let (code, _, said) = run(&["config", "check", "--config", "/nonexistent.toml"]);
    assert!(code == 2 && one_line(&said).contains("/nonexistent.toml"));
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/antiphase-topology.toml");
    assert_eq!(run(&["config", "check", "--config", example]).0, 0);
}

#[test]
fn a_bad_fabric_stops_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let (state, fabric) = (folder.path().join("state.redb"), folder.path().join("fabric.yaml"));
    fs::write(&fabric, "schema: antiphase.fabric/v1\nname: x\nmoon: 1\n").unwrap();
    let (code, _, said) = run(&["--listen", "127.0.0.1:0", "--state", state.to_str().unwrap(), "--fabric", fabric.to_str().unwrap()]);
    assert!(code == 2 && said.lines().last().unwrap().contains("fabric.yaml"), "{said}");
}

#[test]
fn a_fabric_that_is_not_read_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state.redb");
    let first = Service::start(&state);
    assert!(!first.log().contains("is not read"), "{}", first.log());
    drop(first);
    // A file that is not there, so that nobody can have read it.
    let again = Service::with(program().arg("--state").arg(&state).args(["--fabric", "/nonexistent.yaml"]));
    again.wait_for_log("/nonexistent.yaml is not read; `antiphase fabric set /nonexistent.yaml` replaces it");
}

#[test]
fn a_start_that_finds_its_port_taken_keeps_no_fabric() {
    let folder = tempfile::tempdir().unwrap();
    let (state, wrong) = (folder.path().join("state.redb"), folder.path().join("wrong.yaml"));
    fs::write(&wrong, "schema: another/v1\n").unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().to_string();
    let state_arg = state.to_str().unwrap();
    let (code, _, said) = run(&["--state", state_arg, "--fabric", testbed().to_str().unwrap(), "--listen", &port]);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains(&format!("listen {port} (TCP)")), "{said}");
    // The next start reads the document that it is given: it finds what is wrong with this one.
    let (code, _, said) = run(&["--state", state_arg, "--fabric", wrong.to_str().unwrap(), "--listen", "127.0.0.1:0"]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("wrong.yaml"), "{said}");
}

#[test]
fn an_address_without_a_port_is_told_with_an_example() {
    let (code, _, said) = run(&["--listen", "7490"]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("'7490'") && said.contains("not an address and a port, as 127.0.0.1:7480"), "{said}");
}

#[test]
fn what_cannot_be_certified_is_exit_code_2() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().to_str().unwrap();
    let (gone, authority) = (format!("{at}/gone"), format!("{at}/ca.pem"));
    assert_eq!(run(&["pki", "init", "--dir", at]).0, 0);
    for arguments in [
        ["init", "--dir", at].as_slice(),
        &["issue", "--dir", at, "--role", "agent", "--name", "h1"],
        &["issue", "--dir", &gone, "--role", "read", "--name", "a"],
        &["renew", "--dir", at, "--name", "nobody"],
        &["revoke", "--dir", at, &gone],
        &["revoke", "--dir", at, &authority],
        &["show", &gone],
    ] {
        let (code, _, said) = run(&[&["pki"], arguments].concat());
        assert_eq!(code, 2, "{arguments:?}: {said}");
        one_line(&said);
    }
}

#[test]
fn a_damaged_state_file_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let good = folder.path().join("good.redb");
    let mut service = Service::start(&good);
    for n in 0..20 {
        service.commit(&format!("a{n}"), &["h1", "h5"]);
    }
    service.signal(Signal::TERM);
    assert!(service.wait().success());
    // What a restart shows: plans that no agent was told have no expiry.
    let kept = Service::start(&good).ask("GET", "/v1alpha1/jobs", "").1;
    let bytes = fs::read(&good).unwrap();

    let refused = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        let (code, _, said) = run(&["--listen", "127.0.0.1:0", "--state", path.to_str().unwrap()]);
        assert!(fs::read(&path).unwrap() == bytes, "{name} was changed");
        let last = said.lines().last().unwrap();
        assert!(code == 1 && last.contains(name) && last.contains("damaged"), "{name}: {code} {said}");
        assert!(!said.contains("panicked"), "{said}");
    };
    refused("empty.redb", b"");
    refused("text.redb", &b"not a database\n".repeat(10_000));
    refused("half.redb", &bytes[..bytes.len() / 2]);
    let mut mark = bytes.clone();
    mark[0] ^= 1;
    refused("mark.redb", &mark);
    // Records that are not ours.
    let mut foreign = bytes.clone();
    // Everywhere: which page is in force and which is free is not for this test to know.
    let places: Vec<usize> = bytes.windows(14).enumerate().filter(|(_, w)| w == b"\"plan_version\"").map(|(at, _)| at).collect();
    assert!(!places.is_empty());
    places.iter().for_each(|at| foreign[at + 1] = b'x');
    refused("foreign.redb", &foreign);

    // Flipped anywhere: refused or, where the flip is in free space, taken; never a crash, and never less than was kept.
    let mut taken = 0;
    // Most of a file of this size is zeroes that were never written.
    let used: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] != 0).collect();
    let flips: Vec<usize> = used.iter().copied().step_by(used.len() / FLIPS).collect();
    for &at in &flips {
        let path = folder.path().join("flipped.redb");
        let mut flipped = bytes.clone();
        flipped[at] ^= 0x55;
        fs::write(&path, &flipped).unwrap();
        match Service::try_with(program().arg("--state").arg(&path)) {
            Ok(service) => {
                assert_eq!(service.ask("GET", "/v1alpha1/jobs", "").1, kept, "byte {at}");
                taken += 1;
            }
            Err((status, said)) => {
                assert_eq!(status.code(), Some(1), "byte {at}: {said}");
                assert!(!said.contains("panicked") && said.lines().last().unwrap().contains("flipped.redb"), "byte {at}: {said}");
                assert!(fs::read(&path).unwrap() == flipped, "byte {at}: the file was changed");
            }
        }
    }
    println!("{taken} of {} flips were in pages that nothing refers to", flips.len());
    assert!(taken < flips.len(), "no flip was noticed");
}

#[test]
fn one_state_file_has_one_service_and_can_be_dumped() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state.redb");
    let mut service = Service::start(&state);
    service.commit("a", &["h1", "h5"]);
    let path = state.to_str().unwrap();
    let (code, _, said) = run(&["--listen", "127.0.0.1:0", "--state", path]);
    assert!(code == 1 && one_line(&said).contains("another process has it open"), "{said}");
    service.signal(Signal::TERM);
    assert!(service.wait().success());
    let (code, out, _) = run(&["store", "dump", path]);
    let keys: Vec<String> =
        out.lines().map(|l| serde_json::from_str::<serde_json::Value>(l).unwrap()["key"].as_str().unwrap().to_owned()).collect();
    assert_eq!(
        (code, keys),
        (
            0,
            ["audit/00000000000000000001", "audit/00000000000000000002", "fabric", "job/a", "plan_version", "slot/a"]
                .map(str::to_owned)
                .to_vec()
        )
    );
    // What is no state file is bad input, and is left as it is.
    let (text, at) = (folder.path().join("text.redb"), folder.path().to_str().unwrap());
    fs::write(&text, "no state\n").unwrap();
    for bad in ["/nonexistent.redb", "/nonexistent/a.redb", "/dev/null/a.redb", at, text.to_str().unwrap()] {
        let (code, out, said) = run(&["store", "dump", bad]);
        assert!(code == 2 && out.is_empty() && one_line(&said).contains(bad), "{bad}: {code} {said}");
    }
    assert_eq!(fs::read(&text).unwrap(), b"no state\n");
}

/// Mounts a small file system; the mount is taken away when this is dropped.
struct Tmpfs<'a>(&'a Path);

impl<'a> Tmpfs<'a> {
    fn mount(at: &'a Path, size: &str) -> Option<Self> {
        let done = Command::new("mount").args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(at).output();
        done.is_ok_and(|o| o.status.success()).then_some(Self(at))
    }
}

impl Drop for Tmpfs<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

/// A state file that is moved or deleted under a running service is written anew where the next start looks; one that somebody else has put
/// there is not replaced, and nothing is acknowledged meanwhile.
#[test]
fn a_state_file_that_is_taken_away_costs_nothing_that_was_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let (state, away) = (folder.path().join("state.redb"), folder.path().join("away.redb"));
    let mut service = Service::start(&state);
    assert_eq!(service.commit("a", &["h1", "h5"]).0, 200);
    fs::rename(&state, &away).unwrap();
    assert_eq!(service.commit("b", &["h2", "h6"]).0, 200);
    let restarted = |service: &mut Service| {
        service.signal(Signal::KILL);
        service.wait();
        let again = Service::start(&state);
        let jobs = again.ask("GET", "/v1alpha1/jobs?fields=jobs.id", "").1["jobs"].clone();
        (again, jobs)
    };
    let (mut service, jobs) = restarted(&mut service);
    assert_eq!(jobs, json!([{ "id": "a" }, { "id": "b" }]));
    // Nobody changes anything, and it is noticed.
    fs::remove_file(&state).unwrap();
    service.wait_for_log("the state file was written anew and is well");
    let (mut service, jobs) = restarted(&mut service);
    assert_eq!(jobs, json!([{ "id": "a" }, { "id": "b" }]));

    fs::rename(&state, &away).unwrap();
    let other = Service::start(&state);
    let (status, message) = service.refused("POST", "/v1alpha1/commit", &json!({ "jobs": [job("c", &["h3", "h7"])] }).to_string());
    assert!(status == 503 && message.contains("another file stands there"), "{status} {message}");
    assert_eq!(service.get("/readyz").status, 503);
    assert_eq!(other.commit("x", &["h4", "h8"]).0, 200);
    drop(other);
    fs::rename(&away, &state).unwrap();
    service.signal(Signal::KILL);
    service.wait();
    let jobs = Service::start(&state).ask("GET", "/v1alpha1/jobs?fields=jobs.id", "").1["jobs"].clone();
    assert_eq!(jobs, json!([{ "id": "a" }, { "id": "b" }]));
}

#[test]
fn a_full_disk_refuses_changes_and_serves_reads() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mount) = Tmpfs::mount(folder.path(), "8m") else {
        println!("skipped: mounting a tmpfs needs root, so a full disk was not tried");
        return;
    };
    let state = folder.path().join("state.redb");
    let service = Service::start(&state);
    assert_eq!(service.commit("a", &["h1", "h5"]).0, 200);
    let filler = folder.path().join("filler");
    let mut file = fs::File::create(&filler).unwrap();
    while file.write_all(&[7; 1 << 12]).is_ok() {}
    drop(file);
    // Each commit keeps a job and a key of its own, so the file has to grow.
    let mut refused = None;
    for n in 0..200 {
        let one = job(&format!("b{n}"), &["h2", "h6"]);
        let request = json!({ "jobs": [one], "idempotency_key": "k".repeat(200) + &n.to_string() });
        let (status, value) = service.ask("POST", "/v1alpha1/commit", &request.to_string());
        if status != 200 {
            refused = Some((status, value));
            break;
        }
    }
    let (status, value) = refused.expect("the disk is full, but every commit was taken");
    assert!(status == 503 && value["message"].as_str().unwrap().contains("store failed"), "{value}");
    let before = service.ask("GET", "/v1alpha1/jobs", "").1;
    let ready = service.get("/readyz");
    assert!(ready.status == 503 && ready.body.contains("in doubt"), "{ready:?}");
    assert_eq!(service.get("/healthz").status, 200);
    assert!(service.get("/metrics").body.contains("antiphase_store_up 0"));

    // A restart on the full disk serves what is kept, refuses changes, and is well again when there is room.
    drop(service);
    let service = Service::start(&state);
    assert_eq!(service.ask("GET", "/v1alpha1/jobs", "").1["jobs"], before["jobs"], "{}", service.log());
    assert_eq!((service.commit("full", &["h3", "h7"]).0, service.get("/healthz").status), (503, 200), "{}", service.log());
    let ready = service.get("/readyz");
    assert!(ready.status == 503 && ready.body.contains("No space left"), "{ready:?} {}", service.log());

    fs::remove_file(&filler).unwrap();
    assert_eq!(service.commit("after", &["h3", "h7"]).0, 200, "{}", service.log());
    assert_eq!(service.get("/readyz").status, 200);
    let after = service.ask("GET", "/v1alpha1/jobs", "").1["jobs"].as_array().unwrap().len();
    assert_eq!(after, before["jobs"].as_array().unwrap().len() + 1, "the refused commit left something");
    drop(service);
    let again = Service::start(&state);
    assert_eq!(again.ask("GET", "/v1alpha1/jobs", "").1["jobs"].as_array().unwrap().len(), after);
    drop(again);
    drop(mount);
}

/// What the operating system makes of a file system with errors. The mount is seen by this service only.
#[test]
fn a_read_only_file_system_refuses_changes_and_serves_reads_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state.redb");
    let mut service = Service::start(&state);
    assert_eq!(service.commit("a", &["h1", "h5"]).0, 200);
    service.signal(Signal::TERM);
    assert!(service.wait().success());
    let before = fs::read(&state).unwrap();
    let script = "mount --bind \"$0\" \"$0\" && mount -o remount,ro,bind \"$0\" && exec \"$@\"";
    let inside = |command: &mut Command| {
        let mut unshared = Command::new("unshare");
        unshared.args(["--mount", "sh", "-c", script]).arg(folder.path()).arg(command.get_program()).args(command.get_args());
        unshared
    };
    if !inside(&mut Command::new("true")).output().is_ok_and(|output| output.status.success()) {
        println!("skipped: a mount of its own needs root and unshare, so a read-only file system was not tried");
        return;
    }
    let service = Service::with(inside(program().arg("--state").arg(&state)).env_remove("ANTIPHASE_TOPOLOGY_LISTEN"));
    assert_eq!(service.ask("GET", "/v1alpha1/jobs?fields=jobs.id", "").1["jobs"], json!([{ "id": "a" }]), "{}", service.log());
    let (status, message) = service.refused("POST", "/v1alpha1/commit", &json!({ "jobs": [job("b", &["h2", "h6"])] }).to_string());
    assert!(status == 503 && message.contains("Read-only file system"), "{status} {message}");
    let ready = service.get("/readyz");
    assert!(ready.status == 503 && ready.body.contains("Read-only file system"), "{ready:?}");
    assert_eq!((service.get("/healthz").status, fs::read(&state).unwrap() == before), (200, true));
    // The file stays locked, and can be looked at nowhere else.
    assert_eq!(run(&["store", "dump", state.to_str().unwrap()]).0, 1);
    // When the file system can be written again, all of it is written anew.
    let pid = service.child.id().to_string();
    let remounted =
        Command::new("nsenter").args(["--mount", "--target", &pid, "mount", "-o", "remount,rw,bind"]).arg(folder.path()).status();
    assert!(remounted.unwrap().success());
    assert_eq!(service.commit("b", &["h2", "h6"]).0, 200, "{}", service.log());
    assert_eq!(service.get("/readyz").status, 200);
    drop(service);
    let jobs = Service::start(&state).ask("GET", "/v1alpha1/jobs?fields=jobs.id", "").1["jobs"].clone();
    assert_eq!(jobs, json!([{ "id": "a" }, { "id": "b" }]));
}

#[test]
fn a_reload_swaps_what_can_be_swapped_and_refuses_nonsense() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.toml");
    fs::write(&file, "[log]\nlevel = \"info\"\n").unwrap();
    let start = |c: &mut Command| {
        Service::with(c.arg("--config").arg(&file).arg("--state").arg(folder.path().join("s.redb")).arg("--fabric").arg(testbed()))
    };
    let service = start(&mut program());
    service.get("/healthz");
    assert!(!service.log().contains("healthz"));
    fs::write(&file, "[log]\nlevel = \"debug\"\n[limits]\nbody_mib = 1\n[plan]\nttl_s = 30\n").unwrap();
    service.signal(Signal::HUP);
    service.wait_for_log("these keys take effect at the next start keys=\"plan\"");
    service.get("/healthz");
    service.wait_for_log("healthz");
    let (status, message) = service.refused("POST", "/v1alpha1/solve", &" ".repeat((1 << 20) + 1));
    assert!(status == 413 && message.contains("1 MiB"), "{message}");
    // What needs a restart is said again as long as it is so.
    let said = |service: &Service| service.log().matches("keys=\"plan, limits.evaluations, log.format, traces\"").count();
    let traces = "[traces]\nendpoint = \"http://127.0.0.1:9\"\n";
    fs::write(&file, format!("[limits]\nevaluations = 3\n[log]\nformat = \"json\"\n[plan]\nttl_s = 30\n{traces}")).unwrap();
    for times in 1..=2 {
        service.signal(Signal::HUP);
        let until = std::time::Instant::now() + WAIT;
        while said(&service) < times {
            assert!(std::time::Instant::now() < until, "{}", service.log());
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
    fs::write(&file, "[moon]\n").unwrap();
    service.signal(Signal::HUP);
    service.wait_for_log("the configuration was not reloaded");
    assert_eq!(service.get("/healthz").status, 200);
}

/// One bad value among good ones: the line names it, and none of the good ones is taken.
#[test]
fn a_bad_configuration_changes_nothing_at_sighup() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.toml");
    fs::write(&file, "").unwrap();
    let mut command = program();
    command.arg("--config").arg(&file).arg("--state").arg(folder.path().join("s.redb")).arg("--fabric").arg(testbed());
    let service = Service::with(&mut command);
    let tls = "[tls]\ncertificate = \"/nonexistent/a.pem\"\nkey = \"/nonexistent/a.key\"\nclient_ca = \"/nonexistent/ca.pem\"\n";
    for (text, said) in [
        ("[agents]\nreport_ms = 9999999\n", "agents.report_ms: 9999999; must be 100 to 10000"),
        ("[agents]\nreport_ms = 6000\n", "agents.silence_ms: 10000; must be 12000 to 30000"),
        ("[plan]\nttl_s = 2\n", "plan.ttl_s: 2; must be 3 to 3600"),
        ("ecmp = \"sideways\"\n", "sideways"),
        (tls, "/nonexistent/a.pem"),
        ("[limits]\nstall_s = 0\n", "limits.stall_s: 0; must be 1 to 3600"),
    ] {
        // A level and a limit that would show.
        let good = if text.starts_with("[limits]") {
            "body_mib = 1\n[log]\nlevel = \"debug\"\n"
        } else {
            "[limits]\nbody_mib = 1\n[log]\nlevel = \"debug\"\n"
        };
        fs::write(&file, format!("{text}{good}")).unwrap();
        service.signal(Signal::HUP);
        service.wait_for_log(said);
        // The same file is refused at a start, with exit code 2.
        let checked = program().args(["config", "check", "--config"]).arg(&file).output().unwrap();
        if text != tls {
            let line = String::from_utf8(checked.stderr).unwrap();
            assert_eq!((checked.status.code(), line.lines().count()), (Some(2), 1), "{line}");
            assert!(line.contains(said), "{line}");
        }
    }
    assert_eq!(service.log().matches("the configuration was not reloaded").count(), 6, "{}", service.log());
    service.get("/healthz");
    assert!(!service.log().contains("healthz"), "the level changed");
    assert_eq!(service.refused("POST", "/v1alpha1/solve", &" ".repeat((1 << 20) + 1)).0, 400, "the limit changed");
}

/// A name may lead to a FIFO that nobody writes: who reads it is not held up, nor is whoever reloads or stops after that.
#[test]
fn a_fifo_in_place_of_a_file_holds_nobody_up() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let fifo = |name: &str| {
        let _ = fs::remove_file(at(name));
        mknodat(CWD, at(name), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    };
    let pki_folder = at("pki");
    pki::init(&pki_folder, &["127.0.0.1".into()], false).unwrap();
    let (issued, ca) = (pki::service_paths(&pki_folder), pki::authority_path(&pki_folder));
    let text = |ca: &Path| format!("[tls]\ncertificate = {:?}\nkey = {:?}\nclient_ca = {ca:?}\n", issued.certificate, issued.key);
    let good = text(&ca);
    fs::write(at("a.toml"), &good).unwrap();
    let mut command = program();
    command.arg("--config").arg(at("a.toml")).arg("--state").arg(at("s.redb")).arg("--fabric").arg(testbed());
    let mut service = Service::with(&mut command);
    // The configuration, then a certificate of the same names, then one of another name.
    fifo("a.toml");
    service.signal(Signal::HUP);
    service.wait_for_log("a.toml: is a FIFO, not a regular file");
    let authority = fs::read(&ca).unwrap();
    fs::remove_file(at("a.toml")).unwrap();
    fs::write(at("a.toml"), &good).unwrap();
    fifo("pki/ca.pem");
    assert_eq!(ca, at("pki/ca.pem"), "the name of the authority's file");
    service.signal(Signal::HUP);
    service.wait_for_log("ca.pem: is a FIFO, not a regular file");
    fs::remove_file(&ca).unwrap();
    fs::write(&ca, authority).unwrap();
    fifo("other.pem");
    fs::write(at("a.toml"), text(&at("other.pem"))).unwrap();
    service.signal(Signal::HUP);
    service.wait_for_log("other.pem: is a FIFO, not a regular file");
    // Nobody waits any more, so a good file is taken and the service stops.
    fs::write(at("a.toml"), good).unwrap();
    service.signal(Signal::HUP);
    service.wait_for_log("configuration reloaded");
    service.signal(Signal::TERM);
    assert!(service.wait().success());
    // A start does not wait either.
    fifo("fabric.yaml");
    let (state, fabric) = (at("new.redb"), at("fabric.yaml"));
    let (code, _, said) = run(&["--listen", "127.0.0.1:0", "--state", state.to_str().unwrap(), "--fabric", fabric.to_str().unwrap()]);
    assert!(code == 2 && said.lines().last().unwrap().ends_with("fabric.yaml: is a FIFO, not a regular file"), "{said}");
}

#[test]
fn a_signal_may_come_as_soon_as_the_service_says_that_it_listens() {
    // Several starts: the window in which a signal would end the process is short.
    for _ in 0..8 {
        let folder = tempfile::tempdir().unwrap();
        let mut service = Service::start(&folder.path().join("s.redb"));
        service.signal(Signal::HUP);
        service.wait_for_log("configuration reloaded");
        service.signal(Signal::TERM);
        assert!(service.wait().success());
    }
}

#[test]
fn json_logs_are_json() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = program();
    command.env("ANTIPHASE_TOPOLOGY_LOG_FORMAT", "json").arg("--state").arg(folder.path().join("s.redb")).arg("--fabric").arg(testbed());
    let service = Service::with(&mut command);
    service.commit("a", &["h1", "h5"]);
    service.wait_for_log("\"kind\":\"committed\"");
    for line in service.log().lines() {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(value["level"].is_string() && value["timestamp"].is_string(), "{line}");
    }
}

#[test]
fn a_stop_ends_what_was_begun_and_takes_nothing_new() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state.redb");
    let mut service = Service::start(&state);
    // A reader of events, an idle connection, and a request whose body is still on its way.
    let mut events = TcpStream::connect(service.address).unwrap();
    events.set_read_timeout(Some(WAIT)).unwrap();
    events.write_all(b"GET /v1alpha1/events/stream HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut first = [0; 12];
    events.read_exact(&mut first).unwrap();
    let idle = TcpStream::connect(service.address).unwrap();
    let body = json!({ "jobs": [job("late", &["h1", "h5"])] }).to_string();
    let mut slow = TcpStream::connect(service.address).unwrap();
    slow.set_read_timeout(Some(WAIT)).unwrap();
    let (begin, end) = body.split_at(20);
    write!(slow, "POST /v1alpha1/commit HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nexpect: 100-continue\r\ncontent-length: {}\r\n\r\n", body.len()).unwrap();
    // The service asks for the body once it has begun to read it.
    let mut go_on = [0; 25];
    slow.read_exact(&mut go_on).unwrap();
    assert!(go_on.starts_with(b"HTTP/1.1 100"));
    slow.write_all(begin.as_bytes()).unwrap();

    service.signal(Signal::TERM);
    service.wait_for_log("stopping");
    slow.write_all(end.as_bytes()).unwrap();
    let mut answer = String::new();
    slow.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"job\":\"late\""), "{answer}");
    let mut rest = Vec::new();
    events.read_to_end(&mut rest).unwrap();
    assert!(service.wait().success());
    assert!(TcpStream::connect(service.address).is_err());
    drop(idle);
    let again = Service::start(&state);
    assert_eq!(again.ask("GET", "/v1alpha1/jobs", "").1["jobs"][0]["id"], "late");
}
