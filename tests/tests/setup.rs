//! `make setup` on machines that lack something: what it says, and what it asks the package manager for.
//!
//! The script runs with a PATH of its own, which holds links to the plain tools of the system and
//! made-up `id`, `cc`, `cargo` and `apt-get`, so that nothing is installed here.
#![forbid(unsafe_code)]
#![cfg(unix)]

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Output},
};

use antiphase_tests::checkout;

/// What the script may take for granted on any Debian.
const PLAIN_TOOLS: [&str; 9] = ["bash", "cut", "dirname", "git", "head", "mktemp", "rm", "sed", "sort"];

/// A machine: its PATH, and the file in which its `apt-get` writes down its arguments.
struct Machine {
    folder: PathBuf,
}

impl Machine {
    /// A machine with a compiler and a Rust that is new enough, used by `user` (0 is root).
    fn new(name: &str, user: u32) -> Self {
        let folder = std::env::temp_dir().join(format!("antiphase-setup-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("bin")).expect("a folder for a made-up machine");
        let machine = Self { folder };
        for tool in PLAIN_TOOLS {
            symlink(which(tool), machine.folder.join("bin").join(tool)).expect("a link to a plain tool");
        }
        machine.has("id", &format!("echo {user}"));
        // It reads the program it is given, as a compiler does.
        machine.has("cc", "while read -r _; do :; done");
        machine.has("cargo", "echo 'cargo 1.999.0 (made up)'");
        for tool in ["ip", "clang", "bpftool", "ethtool"] {
            machine.has(tool, "true");
        }
        machine.has("apt-get", &format!("echo \"$@\" >>'{}'", machine.log().display()));
        machine
    }

    /// Installs a program that runs `script`.
    fn has(&self, program: &str, script: &str) {
        let path = self.folder.join("bin").join(program);
        fs::write(&path, format!("#!/usr/bin/env bash\n{script}\n")).expect("a made-up program");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("an executable");
    }

    fn lacks(&self, program: &str) {
        fs::remove_file(self.folder.join("bin").join(program)).expect("a program to take away");
    }

    fn log(&self) -> PathBuf {
        self.folder.join("apt-get.log")
    }

    /// What `apt-get` was asked, one call a line.
    fn asked(&self) -> String {
        fs::read_to_string(self.log()).unwrap_or_default()
    }

    fn setup(&self) -> Output {
        let script = checkout().join("scripts/setup.sh");
        Command::new(which("bash")).arg(script).env("PATH", self.folder.join("bin")).output().expect("bash runs")
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Where the real `tool` is.
fn which(tool: &str) -> PathBuf {
    let path = std::env::var_os("PATH").expect("PATH is set");
    let found = std::env::split_paths(&path).map(|folder| folder.join(tool)).find(|file| Path::is_file(file));
    found.unwrap_or_else(|| panic!("{tool} is not on PATH; this test runs scripts/setup.sh with it"))
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout)
}

#[test]
fn setup_is_silent_and_asks_for_nothing_when_nothing_is_missing() {
    let machine = Machine::new("whole", 0);
    let output = machine.setup();
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(said(&output), "");
    assert_eq!(machine.asked(), "");
}

#[test]
fn setup_installs_only_what_is_missing_as_root() {
    let machine = Machine::new("root", 0);
    machine.lacks("cc");
    let output = machine.setup();
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(machine.asked(), "update -qq\ninstall -y --no-install-recommends gcc libc6-dev\n");
}

#[test]
fn setup_installs_from_old_lists_when_update_fails() {
    let machine = Machine::new("offline", 0);
    machine.lacks("cc");
    machine.has("apt-get", &format!("echo \"$@\" >>'{}'; [[ $1 != update ]]", machine.log().display()));
    assert!(machine.setup().status.success());
    assert_eq!(machine.asked().lines().count(), 2);
}

#[test]
fn setup_prints_the_command_to_an_ordinary_user() {
    let machine = Machine::new("user", 1000);
    machine.lacks("cc");
    let output = machine.setup();
    assert_eq!(output.status.code(), Some(1));
    let said = said(&output);
    assert!(said.contains("sudo apt-get update && sudo apt-get install -y --no-install-recommends gcc libc6-dev\n"), "{said}");
    assert_eq!(machine.asked(), "");
}

#[test]
fn setup_finds_a_compiler_that_cannot_link() {
    let machine = Machine::new("headers", 1000);
    machine.has("cc", "exit 1");
    let said = said(&machine.setup());
    assert!(said.contains("missing gcc libc6-dev"), "{said}");
}

#[test]
fn setup_names_the_packages_where_there_is_no_apt_get() {
    let machine = Machine::new("other", 0);
    machine.lacks("cc");
    machine.lacks("apt-get");
    let output = machine.setup();
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("there is no apt-get here"), "{}", said(&output));
}

#[test]
fn setup_refuses_a_rust_that_is_missing_or_too_old() {
    let machine = Machine::new("rust", 0);
    // 1.9 is older than 1.95 by number, and would be newer by letters.
    machine.has("cargo", "echo 'cargo 1.9.0 (made up)'");
    let output = machine.setup();
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("cargo is 1.9.0"), "{}", said(&output));
    machine.lacks("cargo");
    let output = machine.setup();
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("cargo is not on PATH"), "{}", said(&output));
}
