//! Rule: nothing committed names a folder of one machine or the host of a package registry.
//!
//! A path of one machine is false on every other; a registry's host bypasses whatever mirror the
//! user's package client is set up with. Patterns are written in two halves, so that this file
//! does not break its own rule.

use crate::tree::{Finding, TextFile, expect_none, expect_one, text_files};

/// Folders that exist on a builder's machine and not on a user's.
const FOLDERS: [&str; 2] = [concat!("/wo", "rk"), concat!("/ro", "ot")];

/// Hosts of package registries.
const HOSTS: [&str; 7] = [
    concat!("crates", ".io"),
    concat!("pypi", ".org"),
    concat!("files.python", "hosted.org"),
    concat!("registry.npm", "js.org"),
    concat!("deb.deb", "ian.org"),
    concat!("security.deb", "ian.org"),
    concat!("proxy.go", "lang.org"),
];

fn findings(file: &TextFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in file.text.lines().enumerate() {
        let at = format!("{}:{}", file.path, number + 1);
        for folder in FOLDERS.iter().filter(|folder| names(line, folder)) {
            findings.push(Finding::new(
                &at,
                format!("names {folder}, a folder of one machine; use a relative path, a variable or a made-up path"),
            ));
        }
        for host in HOSTS.iter().filter(|host| names(line, host)) {
            findings.push(Finding::new(
                &at,
                format!("names {host}, a package registry's host; name the package only (for a lock file, tell the client to omit hosts)"),
            ));
        }
    }
    findings
}

/// Whether `line` has `name` as a whole word: a longer word, a folder below another one and the index of Cargo.lock are not it.
fn names(line: &str, name: &str) -> bool {
    let before_ok = |c: char| !(c.is_ascii_alphanumeric() || "_-.".contains(c)) || !name.starts_with('/');
    let after_ok = |c: char| !(c.is_ascii_alphanumeric() || "_-".contains(c));
    line.match_indices(name)
        .any(|(at, _)| line[..at].chars().next_back().is_none_or(before_ok) && line[at + name.len()..].chars().next().is_none_or(after_ok))
}

#[test]
fn no_file_names_a_machine_or_a_registry_host() {
    let files = text_files(|_| true);
    assert!(files.iter().any(|file| file.path == "Cargo.lock"), "the files were not read");
    let found: Vec<Finding> = files.iter().flat_map(findings).collect();
    expect_none(&found);
}

#[test]
fn such_a_name_is_found() {
    let file = |text: &str| findings(&TextFile::new("x.md", text));
    expect_one(&file(concat!("see /wo", "rk/shared")), "x.md:1: names /");
    expect_one(&file(concat!("a\nHOME=/ro", "ot")), "x.md:2: names /");
    expect_one(&file(concat!("https://static.crates", ".io/crates/x")), "registry's host");
    expect_none(&file(concat!("lives in tests/wo", "rk/x, /network/y and /wo", "rkspace; rooted at ro", "ot/")));
    expect_none(&file(concat!("source = \"registry+https://github.com/rust-lang/crates", ".io-index\"")));
}
