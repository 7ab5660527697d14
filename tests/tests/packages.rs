//! The packages, made of the programs of this debug build: what is in them can be installed and used.
//!
//! Set `ANTIPHASE_PACKAGES` to a folder of packages to test those: `make test-packages` does, with a release.
#![forbid(unsafe_code)]
#![cfg(unix)]

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use antiphase_tests::checkout;
use gate::{PageWriter, now};
use gate_core::{Mode, Schedule, Turn};
use tempfile::TempDir;
use units::{Nanos, NodeTime};

/// What is packed, as cargo names it.
const BUILT: [&str; 6] =
    ["antiphase", "antiphase-topology", "antiphase-agent", "antiphase-verbs", "libantiphase_gate.so", "libnccl_profiler_antiphase.so"];

/// What tells a process which job it is, and where its library is.
const VARIABLES: [&str; 8] =
    ["ANTIPHASE_JOB", "ANTIPHASE_DIR", "ANTIPHASE_GATE", "ANTIPHASE_GATE_LIBRARY", "LD_LIBRARY_PATH", "PYTHONPATH", "RANK", "SLURM_PROCID"];

/// Three steps, then what the plugin's path is.
const STEPS: &str = "\
import antiphase_gate
for _ in range(3):
    step = antiphase_gate.step()
    print(step.outcome, step.reason)
print(antiphase_gate.__file__)
print(antiphase_gate.nccl_plugin())
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

/// A fresh environment of Python with the wheel; the interpreter in it.
fn installed(wheel: &Path, folder: &Path) -> PathBuf {
    ran(Command::new("python3").args(["-m", "venv"]).arg(folder));
    let python = folder.join("bin/python");
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]).arg(wheel);
    ran(&mut pip);
    python
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
    let (environment, pages) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let python = installed(wheel, environment.path());
    let run = |arguments: &[&str], job: Option<&str>| {
        let mut command = Command::new(&python);
        VARIABLES.into_iter().for_each(|name| _ = command.env_remove(name));
        command.args(arguments).current_dir(environment.path()).env("ANTIPHASE_DIR", pages.path());
        job.into_iter().for_each(|job| _ = command.env("ANTIPHASE_JOB", job));
        command.output().expect("the interpreter runs")
    };

    let mut page = PageWriter::create(pages.path(), "held").expect("a page");
    page.write(&schedule());
    let output = run(&["-W", "error", "-c", STEPS], Some("held"));
    let text = said(&output);
    assert!(output.status.success(), "{text}");
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[..3].iter().all(|line| ["held on-time", "slipped on-time"].contains(line)), "{text}");
    assert!(lines[..3].contains(&"held on-time"), "{text}");
    assert!(lines[3].starts_with(&*environment.path().to_string_lossy()), "another package was imported: {text}");
    assert!(Path::new(lines[4]).ends_with("antiphase_gate/libnccl-profiler-antiphase.so") && Path::new(lines[4]).is_file(), "{text}");

    // Who asks is told, and a job without a name is an obstacle.
    let told = run(&["-m", "antiphase_gate"], Some("held"));
    assert!(told.status.success() && said(&told).contains("libantiphase_gate.so, interface 1"), "{}", said(&told));
    let told = run(&["-m", "antiphase_gate"], None);
    assert!(!told.status.success() && said(&told).contains("missing: ANTIPHASE_JOB"), "{}", said(&told));
}

#[test]
fn debian_packages_install_start_upgrade_and_leave_nothing() {
    if !can("unshare", &["--mount", "--net", "--pid", "--fork", "true"]) || !can("ip", &["-V"]) || !Path::new("/usr/bin/dpkg-deb").exists()
    {
        println!("skipped: it needs root (namespaces of the kernel), iproute2 and a Debian; the packages were not installed");
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
