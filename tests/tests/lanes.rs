//! `scripts/test.sh` and `scripts/fresh.sh` when something fails: what still runs, what is said, and the exit code.
//!
//! The scripts run with a made-up `cargo`, which writes down its arguments and fails as it is told, so that nothing is built here.
#![forbid(unsafe_code)]
#![cfg(unix)]

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    process::{Command, Output},
};

use antiphase_tests::checkout;
use tempfile::TempDir;

/// The report of a made-up run of nextest, in its form: JUnit's XML with one test case on a line.
const REPORT: &str = r#"<testsuites>
    <testsuite name="a::b">
        <testcase name="module::quick" classname="a::b" timestamp="2026-11-22T10:00:00.000Z" time="0.020">
            <system-out>skipped: a&lt;b is &quot;missing&quot; (package c), so &apos;d&apos; was not tried</system-out>
        </testcase>
        <testcase name="module::slow" classname="a::b" timestamp="2026-11-22T10:00:00.000Z" time="12.340">
            <system-out>
running 1 test
nothing was skipped: this line is about something else
skipped: no tool &amp; no root
test module::slow ... ok
</system-out>
            <system-err>skipped: no data
</system-err>
        <testcase name="module::slower" classname="a" timestamp="2026-11-22T10:00:00.000Z" time="101.000">
"#;

/// What nextest prints of a test that fails, in the run and once more at its end, and what cargo prints of one.
const FAILURE: &str = "        FAIL [   0.003s] ( 7/99) antiphase-profile document::tests::a_damaged_document_never_panics
        FAIL [   0.003s] ( 7/99) antiphase-profile document::tests::a_damaged_document_never_panics
";

/// A folder with the made-up `cargo`; nextest and the doctests exit with these codes.
struct Lane {
    folder: TempDir,
}

impl Lane {
    fn new(tests: i32, doctests: i32) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let here = folder.path().display();
        let script = format!(
            "#!/bin/sh\necho \"seed=$PROPTEST_RNG_SEED $*\" >>{here}/said\ncase \"$*\" in\n\
             *nextest\\ --version*) ;;\n\
             *nextest\\ run*) mkdir -p {here}/nextest/default; cp {here}/report {here}/nextest/default/junit.xml; cat {here}/failure; exit {tests} ;;\n\
             *--doc*) exit {doctests} ;;\nesac\n"
        );
        fs::write(folder.path().join("report"), REPORT).expect("the report");
        fs::write(folder.path().join("failure"), if tests == 0 { "" } else { FAILURE }).expect("the failure");
        let cargo = folder.path().join("cargo");
        fs::write(&cargo, script).expect("cargo");
        fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).expect("cargo can be run");
        Self { folder }
    }

    fn run(&self, script: &str, arguments: &[&str]) -> Output {
        let path = format!("{}:{}", self.folder.path().display(), std::env::var("PATH").expect("a PATH"));
        let mut command = Command::new(checkout().join("scripts").join(script));
        command.args(arguments).env("PATH", path).env("CARGO_TARGET_DIR", self.folder.path());
        command.env_remove("PROPTEST_RNG_SEED").output().expect("the script runs")
    }

    /// What cargo was asked for.
    fn said(&self) -> String {
        fs::read_to_string(self.folder.path().join("said")).expect("cargo was asked for something")
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_failed_test_does_not_hide_the_doctests() {
    for (tests, doctests, code, failed) in [(0, 0, 0, ""), (100, 0, 1, "tests"), (0, 101, 1, "doctests"), (100, 101, 1, "tests doctests")] {
        let lane = Lane::new(tests, doctests);
        let output = lane.run("test.sh", &[]);
        assert_eq!(output.status.code(), Some(code), "{tests} {doctests}: {}", text(&output.stderr));
        assert!(lane.said().contains("test --workspace --doc"), "{}", lane.said());
        let says = text(&output.stderr).lines().last().unwrap_or_default().strip_prefix("test: FAILED: ").unwrap_or_default().to_owned();
        assert_eq!(says, failed);
    }
}

#[test]
fn the_slowest_tests_are_named() {
    let output = text(&Lane::new(0, 0).run("test.sh", &[]).stdout);
    let named: Vec<&str> = output.lines().filter(|line| line.contains("module::") && !line.starts_with("test:   a")).collect();
    let expected = ["test:    101.0  a module::slower", "test:     12.3  a::b module::slow", "test:      0.0  a::b module::quick"];
    assert_eq!(named, expected, "{output}");
}

/// nextest prints nothing of a test that passed, so what was missing would be seen by nobody.
#[test]
fn what_was_skipped_is_told_with_the_reason() {
    let output = text(&Lane::new(0, 0).run("test.sh", &[]).stdout);
    let told: Vec<&str> = output.lines().skip_while(|line| !line.contains("counted as passed")).take(4).collect();
    let expected = [
        "test: skipped for want of something, and counted as passed: 3 times",
        "test:   a::b module::quick: a<b is \"missing\" (package c), so 'd' was not tried",
        "test:   a::b module::slow: no tool & no root",
        "test:   a::b module::slow: no data",
    ];
    assert_eq!(told, expected, "{output}");
}

#[test]
fn fresh_seeds_report_and_do_not_block() {
    let asked = ["--rounds", "2", "--documents", "5", "--seed", "41"];
    let lane = Lane::new(100, 0);
    let output = lane.run("fresh.sh", &asked);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}{}", text(&output.stderr));
    for seed in [41, 42] {
        let again = format!(
            "fresh:     PROPTEST_RNG_SEED={seed} cargo test --workspace --lib --bins --tests document::tests::a_damaged_document_never_panics"
        );
        assert_eq!(said.matches(&again).count(), 1, "{said}");
        // Every property test is asked for by its name.
        assert!(lane.said().contains(&format!("seed={seed} nextest run")), "{}", lane.said());
    }
    assert!(lane.said().contains(" a_damaged_document_never_panics ") && lane.said().contains(" two_jobs_on_one_link "), "{}", lane.said());
    assert!(lane.said().contains("--example fuzz -- --count 5 --seed 43"), "{}", lane.said());

    let strict = Lane::new(100, 0).run("fresh.sh", &[&asked[..], &["--strict"]].concat());
    assert_eq!(strict.status.code(), Some(1));
    let clean = Lane::new(0, 0).run("fresh.sh", &[&asked[..], &["--strict"]].concat());
    assert_eq!((clean.status.code(), text(&clean.stdout).lines().last()), (Some(0), Some("fresh: nothing was found")));
    assert_eq!(Lane::new(0, 0).run("fresh.sh", &["--rounds", "few"]).status.code(), Some(2));
}
