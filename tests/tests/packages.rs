//! The packages, made of the programs of this debug build: what is in them can be installed and used.
//!
//! Set `ANTIPHASE_PACKAGES` to a folder of packages to test those: `make test-packages` does, with a release.
#![forbid(unsafe_code)]
#![cfg(unix)]

use std::{
    env, fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::{Command, Output},
};

use antiphase_tests::checkout;
use gate::{PageWriter, now};
use gate_core::{Mode, Schedule, Turn};
use tempfile::TempDir;
use units::{Nanos, NodeTime};

/// What is packed, as cargo names it.
const BUILT: [&str; 7] = [
    "antiphase",
    "antiphase-topology",
    "antiphase-agent",
    "antiphase-verbs",
    "libantiphase_gate.so",
    "libnccl_profiler_antiphase.so",
    "libnccl_calls_antiphase.so",
];

/// What tells a process which job it is, and where its library is.
const VARIABLES: [&str; 8] =
    ["ANTIPHASE_JOB", "ANTIPHASE_DIR", "ANTIPHASE_GATE", "ANTIPHASE_GATE_LIBRARY", "LD_LIBRARY_PATH", "PYTHONPATH", "RANK", "SLURM_PROCID"];

/// Three steps, then where the package and the libraries for NCCL are.
const STEPS: &str = "\
import antiphase_gate
for _ in range(3):
    step = antiphase_gate.step()
    print(step.reason, 'held' if step.held_ns > 0 else step.outcome)
print(antiphase_gate.__file__)
print(antiphase_gate.nccl_plugin())
print(antiphase_gate.nccl_calls())
";

fn said(output: &Output) -> String {
    [String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)].concat()
}

/// Runs a command that has to succeed; what it printed.
fn ran(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}\n{}", output.status, said(&output));
    said(&output)
}

/// The folder of this build's programs. `None` after a line that says what is missing.
fn programs() -> Option<PathBuf> {
    let test = env::current_exe().expect("this test is a file");
    let folder = test.parent().and_then(Path::parent).expect("cargo's tests are in deps").to_path_buf();
    match BUILT.iter().find(|name| !folder.join(name).is_file()) {
        None => Some(folder),
        Some(missing) => {
            println!("skipped: {missing} is not built, so nothing was packed; `make test` builds it");
            None
        }
    }
}

/// A folder with packages of these kinds, made now or those of the variable.
fn packages(kinds: &[&str]) -> Option<(PathBuf, Option<TempDir>)> {
    if let Some(folder) = env::var_os("ANTIPHASE_PACKAGES").filter(|folder| !folder.is_empty()) {
        return Some((folder.into(), None));
    }
    if !can("python3", &["--version"]) || !can("objdump", &["--version"]) {
        println!("skipped: python3 or objdump (binutils) is not installed, so nothing was packed");
        return None;
    }
    let (programs, into) = (programs()?, tempfile::tempdir().expect("a folder"));
    let mut script = Command::new(checkout().join("scripts/packages.sh"));
    script.args(["--fast", "--from"]).arg(programs).arg("--into").arg(into.path()).args(kinds);
    ran(&mut script);
    Some((into.path().to_path_buf(), Some(into)))
}

fn can(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success())
}

/// Files of a folder that end so, in order of their names.
fn files(folder: &Path, end: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the folder is there");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|file| file.to_string_lossy().ends_with(end));
    files.sort();
    files
}

/// A slot every 100 ms that no heartbeat has to renew.
fn schedule() -> Schedule {
    let (now, period) = (now(), Nanos::from_millis(100));
    Schedule {
        mode: Mode::Hold,
        plan_version: 1,
        slot: now.saturating_add(period),
        period,
        tolerance: Nanos(0),
        hold_max: period,
        slack: Nanos::from_millis(20),
        expires: NodeTime(u64::MAX),
        written: now,
        stale_after: Nanos::from_millis(600_000),
        clock_bound: Nanos::from_millis(1),
        turn: Turn::default(),
    }
}

/// The first block of commands below a heading of the ML engineer's page.
fn block(heading: &str) -> String {
    let page = fs::read_to_string(checkout().join("docs/ml-engineer.md")).expect("the page is there");
    let (_, section) = page.split_once(heading).unwrap_or_else(|| panic!("the page has no {heading:?}"));
    let (_, code) = section.split_once("```sh\n").expect("it has a block");
    code.split_once("```").expect("the block ends").0.to_owned()
}

/// A fresh environment of Python, which asks no registry.
struct Environment {
    folder: TempDir,
    /// The agent's directory.
    pages: TempDir,
}

impl Environment {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        ran(Command::new("python3").args(["-m", "venv"]).arg(folder.path()));
        Self { folder, pages: tempfile::tempdir().expect("a folder") }
    }

    /// A command of this environment, in its folder, for a job if there is one.
    fn command(&self, program: &str, job: Option<&str>) -> Command {
        let mut command = Command::new(program);
        VARIABLES.into_iter().for_each(|name| _ = command.env_remove(name));
        let path = env::var("PATH").expect("PATH is set");
        command.env("PATH", format!("{}:{path}", self.folder.path().join("bin").display()));
        command.env("PIP_NO_INDEX", "1").env("PIP_DISABLE_PIP_VERSION_CHECK", "1");
        command.current_dir(&self.folder).env("ANTIPHASE_DIR", self.pages.path());
        job.into_iter().for_each(|job| _ = command.env("ANTIPHASE_JOB", job));
        command
    }

    fn python(&self, arguments: &[&str], job: Option<&str>) -> Output {
        self.command(&self.folder.path().join("bin/python").to_string_lossy(), job).args(arguments).output().expect("Python runs")
    }
}

#[test]
fn a_wheel_brings_its_library_and_holds() {
    if !can("python3", &["-c", "import ensurepip, venv"]) {
        println!("skipped: python3 makes no environments (Debian: python3-venv), so the wheel was not installed");
        return;
    }
    let Some((folder, _made)) = packages(&["wheel"]) else { return };
    let wheels = files(&folder, ".whl");
    let [wheel] = &wheels[..] else { panic!("one wheel, not {wheels:?}") };
    let environment = Environment::new();
    fs::copy(wheel, environment.folder.path().join(wheel.file_name().expect("a name"))).expect("a copy");
    // What the page tells a reader to do; the last command fails while something is missing.
    let mut page = PageWriter::create(environment.pages.path(), "bert-7").expect("a page");
    page.write(&schedule());
    let told = ran(environment.command("sh", None).args(["-ec", &block("## Gate a PyTorch job in five minutes")]));
    assert!(told.contains("libantiphase_gate.so, interface 1"), "{told}");

    let mut page = PageWriter::create(environment.pages.path(), "held").expect("a page");
    page.write(&schedule());
    let output = environment.python(&["-W", "error", "-c", STEPS], Some("held"));
    let text = said(&output);
    assert!(output.status.success(), "{text}");
    let lines: Vec<&str> = text.lines().collect();
    // On a busy machine a step may be so late that nothing is left of its wait.
    assert!(lines[..3].iter().all(|line| line.starts_with("on-time ")) && lines[..3].contains(&"on-time held"), "{text}");
    assert!(lines[3].starts_with(&*environment.folder.path().to_string_lossy()), "another package was imported: {text}");
    assert!(Path::new(lines[4]).ends_with("antiphase_gate/libnccl-profiler-antiphase.so"), "{text}");
    assert!(Path::new(lines[5]).ends_with("antiphase_gate/libnccl-calls-antiphase.so"), "{text}");
    // Beside the gate's library in one process, neither must have the gate's names too, and the plugin none of NCCL's.
    let exported = |line: &str| ran(Command::new("objdump").args(["-T", line]));
    let (plugin, calls) = (exported(lines[4]), exported(lines[5]));
    assert!(plugin.contains("ncclProfiler_v6") && !plugin.contains("antiphase_gate_") && !plugin.contains("ncclAllReduce"), "{plugin}");
    assert!(calls.contains("ncclAllReduce") && !calls.contains("antiphase_gate_"), "{calls}");

    // A job without a name is an obstacle.
    let told = environment.python(&["-m", "antiphase_gate"], None);
    assert!(!told.status.success() && said(&told).contains("missing: ANTIPHASE_JOB"), "{}", said(&told));
}

#[test]
fn pip_in_a_checkout_installs_a_package_with_its_library() {
    let Some(programs) = can("python3", &["-c", "import ensurepip, venv"]).then(programs).flatten() else {
        println!("skipped: python3 makes no environments (Debian: python3-venv), or nothing is built; nothing was installed");
        return;
    };
    let environment = Environment::new();
    let folder = environment.folder.path();
    // The libraries of this build in place of a release, which takes too long here; what was asked of cargo is written down.
    fs::create_dir(folder.join("target")).expect("a folder");
    symlink(programs, folder.join("target/release")).expect("a link");
    let cargo = folder.join("bin/cargo");
    // Which crates are linked in is asked of the real one.
    let script = format!(
        "#!/bin/sh\n[ \"$1\" != metadata ] || exec '{}' \"$@\"\necho \"$@\" >'{}'\n",
        env!("CARGO"),
        folder.join("asked").display()
    );
    fs::write(&cargo, script).expect("a script");
    fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).expect("its mode");
    let mut pip = environment.command("pip", None);
    ran(pip.args(["install", "--quiet"]).arg(checkout().join("agent/gate/python")).env("CARGO_TARGET_DIR", folder.join("target")));
    let asked = fs::read_to_string(folder.join("asked")).expect("cargo was asked");
    assert_eq!(asked, "build --release -p antiphase-gate -p antiphase-nccl -p antiphase-nccl-calls\n");
    let told = environment.python(&["-m", "antiphase_gate"], Some("a"));
    assert!(!told.status.success() && said(&told).contains("/a.page; is the job committed"), "{}", said(&told));
    PageWriter::create(environment.pages.path(), "a").expect("a page").write(&schedule());
    let told = environment.python(&["-m", "antiphase_gate"], Some("a"));
    assert!(told.status.success() && said(&told).contains("libantiphase_gate.so, interface 1"), "{}", said(&told));
}

#[test]
fn debian_packages_install_start_upgrade_and_leave_nothing() {
    let overlay = "set -e; d=$(mktemp -d); mount -t tmpfs tmpfs $d; mkdir $d/u $d/w $d/r; \
        mount -t overlay overlay -o lowerdir=/,upperdir=$d/u,workdir=$d/w $d/r; umount -l $d; rmdir $d";
    if !can("unshare", &["--mount", "--net", "--pid", "--fork", "sh", "-c", overlay]) || !can("ip", &["-V"]) {
        println!("skipped: it needs root (namespaces of the kernel, an overlay of /) and iproute2; the packages were not installed");
        return;
    }
    if !can("dpkg-query", &["--show", "systemd", "init-system-helpers"]) {
        println!("skipped: packages are installed beside systemd and init-system-helpers, as on a Debian; they are not here");
        return;
    }
    let Some((folder, _made)) = packages(&["deb"]) else { return };
    assert_eq!(files(&folder, ".deb").len(), 4);
    let text = ran(Command::new(checkout().join("packaging/tests/debian.sh")).arg(&folder));
    assert!(text.ends_with("== done\n"), "{text}");
}

#[test]
fn images_are_whole_and_their_programs_run_without_a_machine_around_them() {
    if !can("dpkg-query", &["--show", "libc6"]) {
        println!("skipped: images take the C library of a Debian, and this is none");
        return;
    }
    let Some((folder, _made)) = packages(&["image"]) else { return };
    let images = files(&folder, ".oci.tar");
    assert_eq!(images.len(), 2);
    let text = ran(Command::new("python3").arg(checkout().join("packaging/tests/image.py")).args(images));
    println!("{text}");
}

#[test]
fn the_chart_has_the_versions_of_the_workspace() {
    let Some((folder, _made)) = packages(&["chart"]) else { return };
    assert_eq!(files(&folder, ".tgz").len(), 1);
}
