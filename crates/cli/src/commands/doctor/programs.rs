//! What jobs and operators load and start beside us: the gate's library, and the program for RDMA devices.

use std::{env, ffi::OsString, io::ErrorKind, path::PathBuf, process::Command, time::Duration};

use serde::Deserialize;

use super::{bounded::run, finding::Finding};

/// Longest time for one program: a driver that answers takes milliseconds.
const PROGRAM_WITHIN: Duration = Duration::from_secs(4);
const VERBS: &str = "antiphase-verbs";

const INSTALL: &str = "install the wheel or the package antiphase-gate that your operator built with `make packages`, or set \
                       ANTIPHASE_GATE_LIBRARY to the path of libantiphase_gate.so";

/// A file beside this program, if it is there.
fn beside(name: &str) -> Option<OsString> {
    let file = env::current_exe().ok()?.with_file_name(name);
    file.is_file().then(|| file.into_os_string())
}

/// The library that jobs load. `named`: by an option or by ANTIPHASE_GATE_LIBRARY.
pub(super) fn library(named: Option<PathBuf>) -> Finding {
    let is_named = named.is_some();
    // The loader takes a name without a slash for one to look for.
    let named = named.map(|file| file.canonicalize().unwrap_or(file));
    let file = named.map_or_else(|| beside(gate::library::NAME).unwrap_or_else(|| gate::library::NAME.into()), PathBuf::into_os_string);
    let shown = file.display().to_string();
    let Ok(ourselves) = env::current_exe() else {
        return Finding::note("library", format!("{shown} was not tried: this program does not find itself"), "run it by its path");
    };
    // In a process of its own: loading runs what is in the file, whatever that is.
    let ran = run(Command::new(ourselves).args(["gate", "library"]).arg(&file), PROGRAM_WITHIN);
    match ran {
        Ok(ran) if ran.code == Some(0) => judge(&shown, ran.stdout.trim()),
        Ok(ran) if ran.code == Some(1) => {
            let says = format!("cannot be loaded: {}", ran.error.trim_start_matches("antiphase: "));
            // Jobs that take the library out of the wheel need none in the loader's path.
            if is_named { Finding::wrong("library", says, INSTALL) } else { Finding::note("library", says, INSTALL) }
        }
        Ok(_) => Finding::wrong("library", format!("{shown}: loading it ends in a crash, or does not end"), INSTALL),
        Err(error) => Finding::note("library", format!("{shown} was not tried: {error}"), INSTALL),
    }
}

fn judge(file: &str, said: &str) -> Finding {
    let ours = format!("{} {}", env!("CARGO_PKG_VERSION"), gate::library::ABI);
    let says = format!("{file} loads: version and interface {said}");
    if said == ours {
        Finding::well("library", says)
    } else {
        Finding::wrong("library", format!("{says}, this program is {ours}"), "install gate, agent and this program from the same release")
    }
}

/// A line of `antiphase-verbs devices`.
#[derive(Debug, Deserialize)]
struct Port {
    device: String,
    port: u8,
    state: String,
    #[serde(default)]
    gids: Vec<Gid>,
}

#[derive(Debug, Deserialize)]
struct Gid {
    version: String,
}

/// RDMA devices, as the program for them sees them.
pub(super) fn verbs(named: Option<PathBuf>) -> Vec<Finding> {
    let is_named = named.is_some();
    let program = named.map_or_else(|| beside(VERBS).unwrap_or_else(|| VERBS.into()), PathBuf::into_os_string);
    let shown = program.display().to_string();
    let ran = match run(Command::new(&program).arg("devices"), PROGRAM_WITHIN) {
        Ok(ran) => ran,
        Err(error) if error.kind() == ErrorKind::NotFound && !is_named => {
            return vec![Finding::note(
                "verbs",
                format!("{shown} is not installed: RDMA devices were not looked at"),
                "install it where RDMA is to be tried (docs/agent.md, RDMA devices)",
            )];
        }
        Err(error) => return vec![Finding::wrong("verbs", format!("{shown}: {error}"), "--verbs names the program antiphase-verbs")],
    };
    let said = ran.error.trim_start_matches("antiphase-verbs: ").to_owned();
    // The codes of agent/verbs/src/main.rs. A host without RDMA is none that is broken.
    match ran.code {
        Some(0) => ports(&ran.stdout),
        Some(3) => vec![Finding::note("verbs", said, "apt-get install libibverbs1 ibverbs-providers, where this host has RDMA NICs")],
        Some(4) => vec![Finding::note("verbs", said, "modprobe ib_uverbs, and the driver of the NIC, where this host has one")],
        Some(5) => vec![Finding::note("verbs", said, "load the NIC's driver, and install its part of the library (ibverbs-providers)")],
        Some(code) => {
            vec![Finding::wrong("verbs", format!("{shown} ends with exit code {code}: {said}"), "run `antiphase-verbs devices` by hand")]
        }
        None => vec![Finding::wrong(
            "verbs",
            format!("{shown} does not answer within {} s", PROGRAM_WITHIN.as_secs()),
            "a driver hangs: look at dmesg",
        )],
    }
}

fn ports(lines: &str) -> Vec<Finding> {
    let one = |line: &str| {
        let Ok(port) = serde_json::from_str::<Port>(line) else {
            return Finding::wrong(
                "verbs",
                format!("a line that is no port: {line}"),
                "install antiphase-verbs and this program from the same release",
            );
        };
        let name = format!("{}/{}", port.device, port.port);
        if port.state != "active" {
            Finding::wrong(
                "verbs",
                format!("{name} is {}: no packet passes", port.state),
                "set the interface up, and look at cable and switch port",
            )
        } else if port.gids.iter().any(|gid| gid.version == "roce-v2") {
            Finding::well("verbs", format!("{name} is active, with a GID of RoCE v2"))
        } else {
            Finding::note(
                "verbs",
                format!("{name} is active and has no GID of RoCE v2: no router passes its packets"),
                "give its interface an IP address; InfiniBand has none",
            )
        }
    };
    lines.lines().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::{super::finding::Verdict, *};

    #[test]
    fn a_library_of_another_version_is_wrong() {
        assert_eq!(judge("a", &format!("{} 1", env!("CARGO_PKG_VERSION"))).verdict, Verdict::Well);
        assert_eq!(judge("a", "9.9.9 1").verdict, Verdict::Wrong);
    }

    #[test]
    fn ports_are_judged_by_state_and_gid() {
        let port = |state: &str, version: &str| {
            format!(r#"{{"device":"rxe0","port":1,"state":"{state}","mtu":1024,"gids":[{{"index":0,"gid":"::","version":"{version}"}}]}}"#)
        };
        let of = |line: &str| ports(line).iter().map(|one| one.verdict).collect::<Vec<_>>();
        assert_eq!(of(&port("active", "roce-v2")), [Verdict::Well]);
        assert_eq!(of(&port("active", "roce-v1")), [Verdict::Note]);
        assert_eq!(of(&port("down", "roce-v2")), [Verdict::Wrong]);
        assert_eq!(of("moon"), [Verdict::Wrong]);
    }

    #[test]
    fn a_program_that_is_not_there_was_not_asked_for() {
        assert_eq!(verbs(Some("/nowhere/antiphase-verbs".into()))[0].verdict, Verdict::Wrong);
        // The exit codes are those of the program; `sh` stands for one that says so.
        let folder = env::temp_dir().join(format!("antiphase-doctor-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for (code, verdict) in [(3, Verdict::Note), (4, Verdict::Note), (5, Verdict::Note), (1, Verdict::Wrong)] {
            use std::os::unix::fs::PermissionsExt as _;
            let program = folder.join(format!("verbs-{code}"));
            std::fs::write(&program, format!("#!/bin/sh\necho antiphase-verbs: because >&2\nexit {code}\n")).unwrap();
            std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
            let found = verbs(Some(program)).remove(0);
            assert!(
                found.verdict == verdict && found.says.contains("because") && !found.says.contains("antiphase-verbs: because"),
                "{found:?}"
            );
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
