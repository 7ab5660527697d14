//! The systemd units are what systemd takes, name what exists, and keep their promises of hardening.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{fs, path::Path, process::Command};

const UNITS: [&str; 2] = ["antiphase-agent.service", "antiphase-topology.service"];

fn text(unit: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd").join(unit)).unwrap()
}

/// The values of a key, in order.
fn values<'a>(text: &'a str, key: &str) -> Vec<&'a str> {
    text.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('=')).collect()
}

#[test]
fn systemd_takes_the_units() {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        println!("skipped: no systemd-analyze (package systemd)");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for unit in UNITS {
        // The programs of an installation are not here; what is verified is everything else.
        let text = text(unit);
        let program = values(&text, "ExecStart")[0].split(' ').next().unwrap();
        let path = folder.path().join(unit);
        fs::write(&path, text.replace(program, "/bin/true")).unwrap();
        let output = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&path).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        // Other units of this machine may have findings of their own.
        let ours: Vec<&str> = said.lines().filter(|line| line.contains("antiphase")).collect();
        assert!(ours.is_empty(), "{unit}: {ours:#?}");
        println!("systemd-analyze verify {unit}: {}", output.status);
    }
}

#[test]
fn systemd_analyze_finds_a_bad_key() {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        println!("skipped: no systemd-analyze (package systemd)");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("antiphase-bad.service");
    fs::write(&path, "[Service]\nExecStart=/bin/true\nRestart=perhaps\n").unwrap();
    let output = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&path).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("antiphase-bad"));
}

#[test]
fn no_unit_has_a_capability_it_does_not_need() {
    for unit in UNITS {
        let text = text(unit);
        assert_eq!(values(&text, "CapabilityBoundingSet"), [""], "{unit}");
        assert_eq!(values(&text, "User"), ["antiphase"], "{unit}");
        for (key, value) in [("NoNewPrivileges", "yes"), ("ProtectSystem", "strict"), ("MemoryDenyWriteExecute", "yes")] {
            assert_eq!(values(&text, key), [value], "{unit} {key}");
        }
    }
    // Gates of other users read the pages, and an agent that restarts finds them again.
    let agent = text("antiphase-agent.service");
    assert_eq!(values(&agent, "RuntimeDirectoryMode"), ["0755"]);
    assert_eq!(values(&agent, "RuntimeDirectoryPreserve"), ["restart"]);
    assert!(antiphase_agent::config::Config::default().page_dir.ends_with(values(&agent, "RuntimeDirectory")[0]));
}
