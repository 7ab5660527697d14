//! The systemd units are what systemd takes, name what exists, and keep their promises of hardening.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{fs, path::Path, process::Command};

const UNITS: [&str; 2] = ["antiphase-agent.service", "antiphase-topology.service"];
/// What else is verified.
const MOUNT: &str = "run-antiphase.mount";

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
    for unit in UNITS.into_iter().chain([MOUNT]) {
        // The programs of an installation are not here; what is verified is everything else.
        let text = text(unit);
        let program = values(&text, "ExecStart").first().and_then(|line| line.split(' ').next());
        let path = folder.path().join(unit);
        fs::write(&path, program.map_or(text.clone(), |program| text.replace(program, "/bin/true"))).unwrap();
        let output = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&path).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        // Other units of this machine may have findings of their own.
        // A systemd before 254 says that it does not know how to wait longer each time, and starts the service all the same.
        let known = |line: &&str| line.contains("antiphase") && !line.contains("RestartSteps") && !line.contains("RestartMaxDelaySec");
        let ours: Vec<&str> = said.lines().filter(known).collect();
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
}

/// Gates of other users read the pages, an agent that restarts finds them again, and who fills the file system fills no other.
#[test]
fn pages_and_reports_have_a_small_file_system_of_their_own() {
    let (agent, mount) = (text("antiphase-agent.service"), text("run-antiphase.mount"));
    let directory = antiphase_agent::config::Config::default().page_dir;
    let directory = directory.to_str().unwrap();
    assert_eq!((values(&agent, "RequiresMountsFor"), values(&agent, "ReadWritePaths")), (vec![directory], vec![directory]));
    // A directory that systemd makes for the service would be cleared with it, under the mount.
    assert_eq!(values(&agent, "RuntimeDirectory"), Vec::<&str>::new());
    assert_eq!((values(&mount, "Where"), values(&mount, "Type")), (vec![directory], vec!["tmpfs"]));
    let options: Vec<&str> = values(&mount, "Options")[0].split(',').collect();
    for option in ["size=8M", "nr_inodes=4096", "mode=0755", "uid=antiphase", "nosuid", "nodev", "noexec"] {
        assert!(options.contains(&option), "{option}: {options:?}");
    }
}

#[test]
fn a_service_that_fails_is_started_again_for_ever_and_ever_more_slowly() {
    for unit in ["antiphase-agent.service", "antiphase-topology.service"] {
        let text = text(unit);
        let of = |key: &str| values(&text, key).first().copied().unwrap_or_default().to_owned();
        assert_eq!((of("Restart"), of("StartLimitIntervalSec")), ("on-failure".into(), "0".into()), "{unit}");
        assert_eq!((of("RestartSec"), of("RestartSteps"), of("RestartMaxDelaySec")), ("1".into(), "8".into(), "60".into()), "{unit}");
    }
}
