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
use support::{Service, program, program_path, testbed};

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

/// As a controller that runs for longer than its certificate is good: renewed and revoked beside it, and then files that cannot be read.
const RENEWED: &str = r#"
import asyncio, pathlib, shutil, subprocess, sys, time
from antiphase import AntiphaseError, AsyncClient, Client, Retries, Unreachable
url, authority, certificate, key, program, pki = sys.argv[1:]
once = Retries(attempts=1)
client = Client(url, authority=authority, certificate=certificate, key=key, retries=once)
waiting = AsyncClient(url, authority=authority, certificate=certificate, key=key, retries=once)
def both():
    client.plan()
    asyncio.run(waiting.plan())
both()
old = [shutil.copy(path, path + ".old") for path in (certificate, key)]
subprocess.run([program, "pki", "renew", "--dir", pki, "--name", "s"], check=True)
subprocess.run([program, "pki", "revoke", "--dir", pki, old[0]], check=True)
end = time.monotonic() + 60
while time.monotonic() < end:
    try:
        Client(url, authority=authority, certificate=old[0], key=old[1], retries=once).plan()
        time.sleep(0.2)
    except Unreachable:
        break
else:
    raise SystemExit("the old certificate was not revoked")
both()
# In the middle of a renewal: files that do not fit, hold nothing, or are away.
new = pathlib.Path(key).read_bytes()
for change in (lambda: shutil.copy(old[1], key), lambda: pathlib.Path(key).write_bytes(b""), pathlib.Path(key).unlink):
    change()
    both()
for kind in (Client, AsyncClient):
    for files in ((authority, certificate, key), (authority, authority + "-gone", key), (key + "-gone", certificate, key), (certificate + ".empty", old[0], old[1])):
        pathlib.Path(certificate + ".empty").write_bytes(b"")
        try:
            kind(url, authority=files[0], certificate=files[1], key=files[2])
            raise SystemExit(f"{files} were taken")
        except (OSError, ValueError) as error:
            assert any(path in str(error) for path in (key, files[0], files[1])) and "\n" not in str(error), error
pathlib.Path(key).write_bytes(new)
both()
print("done")
"#;

#[test]
fn the_python_client_follows_its_certificate_when_it_is_renewed() {
    if !is_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let there = folder.join("pki");
    pki::init(&there, &["127.0.0.1".into()], false).unwrap();
    let client = Client { role: Role::Admin, name: "s".into(), hosts: Vec::new(), lifetime: CLIENT_LIFETIME };
    let issued = pki::issue(&there, &client, false).unwrap();
    let other = Client { name: "other".into(), ..client };
    let other = pki::issue(&there, &other, false).unwrap();
    // So that there is a list.
    let revoked = pki::revoke(&there, &other.certificate).unwrap();
    let (own, ca, config) = (pki::service_paths(&there), pki::authority_path(&there), folder.join("a.toml"));
    let tls = format!("[tls]\ncertificate = {:?}\nkey = {:?}\nclient_ca = {ca:?}\nrevoked = {revoked:?}\n", own.certificate, own.key);
    fs::write(&config, tls).unwrap();
    let service =
        Service::with(program().arg("--config").arg(&config).arg("--state").arg(folder.join("s.redb")).arg("--fabric").arg(testbed()));
    let (url, program) = (format!("https://{}", service.address), program_path());
    let files = [&ca, &issued.certificate, &issued.key, &program, &there].map(|path| path.to_str().unwrap());
    let said = run(&[&["-W", "error", "-c", RENEWED, &url][..], &files[..]].concat(), &[]);
    assert!(said.contains("done"), "{said}");
}
