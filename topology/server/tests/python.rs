//! The Python client, with the machine's own interpreter, against the real service.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod support;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use antiphase_topology::{
    pki::{self, CLIENT_LIFETIME, Client},
    tls::Role,
};
use support::{Service, program, testbed};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Whether the machine's Python can do this; else what is missing is said.
fn python_can(code: &str, missing: &str) -> bool {
    let status = Command::new("python3").args(["-c", code]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    let can = status.is_ok_and(|status| status.success());
    if !can {
        println!("skipped: {missing}");
    }
    can
}

const OLD: &str = "there is no python3 of 3.10 or newer, so the Python client was not tested";

fn is_there() -> bool {
    python_can("import sys; assert sys.version_info >= (3, 10)", OLD)
}

/// Runs Python in the client's folder and shows what it printed.
fn run(arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let mut command = Command::new("python3");
    command.args(arguments).current_dir(root().join("clients/python")).env("PYTHONDONTWRITEBYTECODE", "1");
    command.env("PYTHONPATH", root().join("clients/python").canonicalize().unwrap()).envs(environment.iter().copied());
    let output = command.output().unwrap();
    let text = [String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)].concat();
    println!("{text}");
    assert!(output.status.success(), "python3 {arguments:?}: {}\n{text}", output.status);
    text
}

#[test]
fn the_python_client_asks_the_service() {
    if !is_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let service = Service::start(&folder.path().join("state.redb"));
    let url = format!("http://{}", service.address);
    let said = run(&["-W", "error", "-m", "unittest", "discover", "-v"], &[("ANTIPHASE_URL", &url)]);
    assert!(said.contains("OK") && said.contains("test_a_round") && !said.contains("skipped="), "{said}");
}

#[test]
fn the_messages_of_the_python_client_are_current() {
    if is_there() {
        run(&["generate.py", "--check"], &[]);
    }
}

#[test]
fn the_python_client_is_typed() {
    if !is_there() || !python_can("import mypy", "python3 has no mypy (pip install mypy), so types of the Python client were not checked") {
        return;
    }
    let cache = tempfile::tempdir().unwrap();
    let cache = cache.path().to_str().unwrap();
    run(&["-m", "mypy", "--strict", "--cache-dir", cache, "antiphase", "generate.py", "tests", "../../examples/themis_loop.py"], &[]);
    // Each of these folders has a package `tests` of its own, so each is checked by itself.
    for (folder, what) in [("slurm", "antiphase_slurm.py"), ("kubernetes", "antiphase_kubernetes")] {
        let path = root().join("integrations").join(folder).canonicalize().unwrap();
        let at = |name: &str| path.join(name).to_str().unwrap().to_owned();
        run(&["-m", "mypy", "--strict", "--cache-dir", cache, &at(what)], &[("MYPYPATH", path.to_str().unwrap())]);
    }
}

/// The worked example of docs/scheduler-author.md: its own auction, ten candidates a round, one commit for the best.
#[test]
fn a_scheduler_keeps_its_auction_and_asks_for_its_candidates() {
    if !is_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let service = Service::start(&folder.path().join("state.redb"));
    let url = format!("http://{}", service.address);
    // The example stops by itself where the candidate that it took is not the best one of its round.
    let said = run(&["-W", "error", "../../examples/themis_loop.py", "--url", &url], &[]);
    let end = said.lines().find(|line| line.starts_with("20 jobs are done")).unwrap();
    let numbers: Vec<u32> = end.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect();
    let (commits, gained) = (numbers[2], numbers[3]);
    assert!(commits > 5 && gained > 0, "asking brought nothing: {end}");
    // Each round was one commit, and what was committed was released.
    let (_, jobs) = service.ask("GET", "/v1alpha1/jobs", "");
    assert_eq!(jobs["jobs"], serde_json::json!([]));
    let (_, events) = service.ask("GET", "/v1alpha1/events?limit=1000", "");
    let committed = events["events"].as_array().unwrap().iter().filter(|e| e["kind"] == "committed").count();
    assert!(committed >= commits as usize, "{committed} events of {commits} commits");
}

/// With a certificate of the role evaluate: it may evaluate, may not commit, and nobody else is believed.
const SECURED: &str = r#"
import asyncio, sys
from antiphase import AsyncClient, Client, Forbidden, JobSpec, Model, Retries, TooLarge, Unreachable
url, authority, certificate, key = sys.argv[1:]
job = JobSpec(id="a", model=Model(name="vgg16"), hosts=["h1", "h5"])
ours = dict(authority=authority, certificate=certificate, key=key)
assert Client(url, **ours).evaluate([job]).ranked[0].outcome == "solved"
assert asyncio.run(AsyncClient(url, **ours).evaluate([job])).ranked[0].outcome == "solved"
try:
    Client(url, **ours).commit([job])
    raise SystemExit("a commit was taken")
except Forbidden as error:
    print(error)
# The service hangs up on a body of more than twice its limit; what it said before that is heard.
large = [JobSpec(id="x" * (8 << 20), model=Model(name="vgg16"), hosts=["h1", "h5"])]
for ask in (lambda: Client(url, **ours).evaluate(large), lambda: asyncio.run(AsyncClient(url, **ours).evaluate(large))):
    try:
        ask()
        raise SystemExit("8 MiB were taken")
    except TooLarge as error:
        assert "more than 1 MiB" in str(error), error
for more in (dict(authority=authority), dict()):
    try:
        Client(url, retries=Retries(attempts=1), **more).plan()
        raise SystemExit(f"{more} was taken")
    except Unreachable as error:
        assert "\n" not in str(error), error
print("done")
"#;

#[test]
fn the_python_client_has_the_role_of_its_certificate() {
    if !is_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let there = folder.join("pki");
    pki::init(&there, &["127.0.0.1".into()], false).unwrap();
    let client = Client { role: Role::Evaluate, name: "s".into(), hosts: Vec::new(), lifetime: CLIENT_LIFETIME };
    pki::issue(&there, &client, false).unwrap();
    let (own, ca, config) = (pki::service_paths(&there), pki::authority_path(&there), folder.join("a.toml"));
    let tls = format!("[tls]\ncertificate = {:?}\nkey = {:?}\nclient_ca = {ca:?}\n", own.certificate, own.key);
    fs::write(&config, tls + "[limits]\nbody_mib = 1\n").unwrap();
    let mut command = program();
    let service =
        Service::with(command.arg("--config").arg(&config).arg("--state").arg(folder.join("s.redb")).arg("--fabric").arg(testbed()));
    let (issued, url) = (pki::paths(&there, "s"), format!("https://{}", service.address));
    let files = [&ca, &issued.certificate, &issued.key].map(|path| path.to_str().unwrap());
    let said = run(&["-W", "error", "-c", SECURED, &url, files[0], files[1], files[2]], &[]);
    assert!(said.contains("done") && said.contains("role evaluate may not do this"), "{said}");
}
