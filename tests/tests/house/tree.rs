//! The files of the checkout, and how findings are reported.

use std::{fmt, fs, path::Path, process::Command};

use antiphase_tests::checkout;

/// A broken rule: where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// A file, `file:line`, or a crate's folder.
    pub(crate) place: String,
    /// What is wrong and how to mend it.
    pub(crate) what: String,
}

impl Finding {
    pub(crate) fn new(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self { place: place.into(), what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

/// Fails the test with every finding on a line of its own.
pub(crate) fn expect_none(findings: &[Finding]) {
    let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert!(findings.is_empty(), "{} finding(s):\n{}", findings.len(), lines.join("\n"));
}

/// Fails unless `findings` is exactly one whose text contains `part`: for the tests that a rule can fail.
pub(crate) fn expect_one(findings: &[Finding], part: &str) {
    assert_eq!(findings.len(), 1, "expected one finding with {part:?}, got {findings:?}");
    let line = findings[0].to_string();
    assert!(line.contains(part), "expected a finding with {part:?}, got {line:?}");
}

/// A text file of the checkout.
#[derive(Clone, Debug)]
pub(crate) struct TextFile {
    /// Path from the root of the checkout, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl TextFile {
    pub(crate) fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        Self { path: path.into(), text: text.into() }
    }
}

/// Paths of all files that git tracks or would track, from the root of the checkout.
pub(crate) fn paths() -> Vec<String> {
    // A checkout may belong to another user than the one who tests it (a container, `sudo make test`);
    // listing its files is safe all the same.
    let listing = Command::new("git")
        .args(["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(checkout())
        .output()
        .expect("git runs; install it, the house tests ask it which files are ours");
    assert!(
        listing.status.success(),
        "git ls-files failed, and the house tests need a git checkout: {}",
        String::from_utf8_lossy(&listing.stderr)
    );
    let mut paths: Vec<String> = String::from_utf8(listing.stdout)
        .expect("file names are UTF-8")
        .split('\0')
        // A file that is deleted but not yet committed is still listed.
        .filter(|path| !path.is_empty() && checkout().join(path).is_file())
        .map(str::to_owned)
        .collect();
    paths.sort();
    paths.dedup();
    assert!(paths.iter().any(|path| path == "Cargo.toml"), "git lists no Cargo.toml: the checkout is not the root of its repository");
    paths
}

/// All files whose path `wanted` accepts; files that are not UTF-8 are left out.
pub(crate) fn text_files(wanted: impl Fn(&str) -> bool) -> Vec<TextFile> {
    paths()
        .into_iter()
        .filter(|path| wanted(path))
        .filter_map(|path| fs::read_to_string(checkout().join(&path)).ok().map(|text| TextFile { path, text }))
        .collect()
}

/// One file, by its path from the root of the checkout.
pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(checkout().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// All Rust files.
pub(crate) fn rust_files() -> Vec<TextFile> {
    text_files(|path| path.ends_with(".rs"))
}

/// `path` from the root of the checkout, with `/`.
pub(crate) fn relative(path: &Path) -> String {
    path.strip_prefix(checkout()).unwrap_or(path).to_string_lossy().replace('\\', "/")
}
