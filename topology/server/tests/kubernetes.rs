//! The controller for Kubernetes, with the machine's own Python, against the real service and an API server of its tests.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what cannot be had is a failed test")]

mod support;

use std::{path::Path, process::Command};

use support::Service;

#[test]
fn gangs_of_kubernetes_are_placed_before_they_are_scheduled() {
    let new_enough = Command::new("python3").args(["-c", "import sys; assert sys.version_info >= (3, 10)"]).output();
    if !new_enough.is_ok_and(|output| output.status.success()) {
        println!("skipped: there is no python3 of 3.10 or newer, so the controller for Kubernetes was not tested");
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let service = Service::start(&folder.path().join("state.redb"));
    let mut command = Command::new("python3");
    command.args(["-W", "error", "-m", "unittest", "discover", "-v"]).current_dir(root.join("integrations/kubernetes"));
    command.env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONPATH", root.join("clients/python"));
    let output = command.env("ANTIPHASE_URL", format!("http://{}", service.address)).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    println!("{said}");
    assert!(output.status.success() && said.contains("test_the_program_follows_what_happens") && !said.contains("skipped="), "{said}");
}
