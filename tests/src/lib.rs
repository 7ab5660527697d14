//! What the test binaries share: where the checkout is, folders of golden cases, third-party data.
//!
//! A function here that cannot do its work panics with a sentence that says what to do, because
//! its callers are tests and a test that finds nothing to check must not pass.
#![forbid(unsafe_code)]

use std::{
    ffi::OsString,
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

/// Variable that names a folder of case suites used in place of `tests/golden`.
pub const CASES_VARIABLE: &str = "ANTIPHASE_CASES";
/// Variable that names a folder of third-party data, which this repository does not ship.
pub const DATA_VARIABLE: &str = "ANTIPHASE_DATA";

/// The root of the checkout that these tests were built from.
#[must_use]
pub fn checkout() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("invariant: this crate lives one level below the root").to_path_buf()
}

/// The cases of `suite`, sorted by name: the entries of `$ANTIPHASE_CASES/<suite>` when that
/// variable is set, else of `tests/golden/<suite>`. Hidden entries and `README.md` are not cases.
///
/// # Panics
/// When the folder cannot be read or holds no case: a suite without cases proves nothing.
#[must_use]
pub fn cases(suite: &str) -> Vec<PathBuf> {
    cases_in(&suite_folder(suite, std::env::var_os(CASES_VARIABLE)))
}

/// The folder of third-party data named by `$ANTIPHASE_DATA`, or `None` after a line that starts
/// with `skipped:` on standard error.
///
/// The line goes past the test runner's capture of `println!`, so that `cargo test` shows it
/// for a test that passes. cargo-nextest shows it with `--success-output=immediate`.
///
/// # Panics
/// When the variable is set to something that is not a folder.
#[must_use]
pub fn data_dir() -> Option<PathBuf> {
    let folder = data_folder(std::env::var_os(DATA_VARIABLE));
    if folder.is_none() {
        // Nothing to do when standard error is closed: the test itself still runs.
        let _ = writeln!(io::stderr(), "skipped: comparison with third-party data; set {DATA_VARIABLE} to a folder that holds it");
    }
    folder
}

/// Where the cases of `suite` are, given the value of [`CASES_VARIABLE`].
fn suite_folder(suite: &str, replacement: Option<OsString>) -> PathBuf {
    match replacement {
        Some(folder) if !folder.is_empty() => Path::new(&folder).join(suite),
        _ => checkout().join("tests/golden").join(suite),
    }
}

/// The entries of `folder` that are cases.
fn cases_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("no cases: {}: {error}; {HOW_TO_BRING_CASES}", folder.display()));
    let mut cases: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap_or_else(|error| panic!("{}: {error}", folder.display())).path())
        .filter(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(|name| !name.starts_with('.') && name != "README.md"))
        .collect();
    assert!(!cases.is_empty(), "no cases: {} is empty; {HOW_TO_BRING_CASES}", folder.display());
    cases.sort();
    cases
}

/// Ends every message about a missing suite.
const HOW_TO_BRING_CASES: &str = "put cases there, or unset ANTIPHASE_CASES to use those of tests/golden";

/// The folder that `value` of [`DATA_VARIABLE`] names.
fn data_folder(value: Option<OsString>) -> Option<PathBuf> {
    let folder = PathBuf::from(value.filter(|value| !value.is_empty())?);
    assert!(folder.is_dir(), "{DATA_VARIABLE} is {}, which is not a folder; unset it to skip the comparisons", folder.display());
    Some(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of our own under the system's temporary folder, emptied first.
    fn fresh_folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("antiphase-tests-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn the_checkout_is_the_workspace_root() {
        assert!(checkout().join("Cargo.lock").is_file());
    }

    #[test]
    fn a_replacement_folder_wins_over_tests_golden() {
        assert_eq!(suite_folder("single", Some("mine".into())), Path::new("mine/single"));
        assert_eq!(suite_folder("single", None), checkout().join("tests/golden/single"));
        // `ANTIPHASE_CASES=` in a shell means unset.
        assert_eq!(suite_folder("single", Some("".into())), checkout().join("tests/golden/single"));
    }

    #[test]
    fn cases_come_sorted_without_notes_and_hidden_files() {
        let folder = fresh_folder("sorted");
        for name in ["b.json", "a.json", "README.md", ".swp"] {
            fs::write(folder.join(name), "").unwrap();
        }
        assert_eq!(cases_in(&folder), [folder.join("a.json"), folder.join("b.json")]);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    #[should_panic(expected = "is empty; put cases there")]
    fn an_empty_suite_fails() {
        let folder = fresh_folder("empty");
        let _ = cases_in(&folder);
    }

    #[test]
    #[should_panic(expected = "no cases: nowhere/at/all")]
    fn a_missing_suite_fails() {
        let _ = cases_in(Path::new("nowhere/at/all"));
    }

    #[test]
    fn absent_data_is_none_and_present_data_is_its_folder() {
        assert_eq!(data_folder(None), None);
        assert_eq!(data_folder(Some("".into())), None);
        assert_eq!(data_folder(Some(checkout().into_os_string())), Some(checkout()));
    }

    #[test]
    #[should_panic(expected = "which is not a folder")]
    fn data_that_is_not_a_folder_fails() {
        let _ = data_folder(Some("nowhere/at/all".into()));
    }
}
