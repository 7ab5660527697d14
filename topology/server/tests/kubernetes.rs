//! Controller and exporter for Kubernetes, with the machine's own Python, against the real service and an API server: that of their tests,
//! and a real one where there is one.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what cannot be had is a failed test")]

mod support;

use std::{path::Path, process::Command};

use support::Service;

fn has_python() -> bool {
    let new_enough = Command::new("python3").args(["-c", "import sys; assert sys.version_info >= (3, 10)"]).output();
    let has = new_enough.is_ok_and(|output| output.status.success());
    if !has {
        println!("skipped: there is no python3 of 3.10 or newer, so controller and exporter for Kubernetes were not tested");
    }
    has
}

/// Python in the folder of the integration, which takes warnings as errors.
fn python(arguments: &[&str]) -> Command {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let mut command = Command::new("python3");
    command.args(["-W", "error"]).args(arguments).current_dir(root.join("integrations/kubernetes"));
    command.env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONPATH", root.join("clients/python"));
    command
}

/// Runs tests of the integration that all have to run, beside a real service.
fn passes(module: &str, one_of_them: &str) {
    if !has_python() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let service = Service::start(&folder.path().join("state.redb"));
    let mut command = python(&["-m", "unittest", "-v", module]);
    let output = command.env("ANTIPHASE_URL", format!("http://{}", service.address)).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    println!("{said}");
    assert!(output.status.success() && said.contains(one_of_them) && !said.contains("skipped="), "{said}");
}

#[test]
fn gangs_of_kubernetes_are_placed_before_they_are_scheduled() {
    passes("tests.test_controller", "test_the_program_follows_what_happens");
}

#[test]
fn labels_and_hyper_nodes_of_kubernetes_follow_the_fabric() {
    passes("tests.test_export", "test_labels_follow_the_fabric_and_the_nodes");
}

/// What needs an API server of Kubernetes: `make test-kubernetes` makes one where Debian has its sources.
#[test]
fn a_real_api_server_takes_what_controller_and_exporter_write() {
    if !has_python() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let service = Service::start(&folder.path().join("state.redb"));
    let mut command = python(&["-m", "unittest", "-v", "tests.real_cluster"]);
    let output = command.env("ANTIPHASE_URL", format!("http://{}", service.address)).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    println!("{said}");
    for reason in said.lines().filter_map(|line| line.split_once("skipped '")).map(|(_, reason)| reason.trim_end_matches('\'')) {
        println!("skipped: {reason}");
    }
    assert!(output.status.success() && said.contains("Ran 2 tests"), "{said}");
}
