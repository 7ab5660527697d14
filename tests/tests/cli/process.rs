//! The program under test, and one run of it.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

use antiphase_tests::checkout;

/// Variable that names a program to test instead of the one that cargo builds.
const PROGRAM_VARIABLE: &str = "ANTIPHASE_PROGRAM";

/// Where the program is, built first unless the variable names one.
pub(crate) fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| match std::env::var_os(PROGRAM_VARIABLE).filter(|path| !path.is_empty()) {
        Some(path) => Path::new(&path).canonicalize().unwrap_or_else(|error| panic!("{PROGRAM_VARIABLE}: {path:?}: {error}")),
        None => build(),
    })
}

/// Builds the program and asks cargo where it is: that honours `CARGO_TARGET_DIR` and the like.
///
/// It is built as a part of the workspace and beside a test. Alone it has other features of other people's crates than in a run of
/// all tests, and cargo would build nearly all of them a second time, which takes minutes.
fn build() -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--workspace", "--bin", "antiphase", "--test", "cli", "--message-format", "json-render-diagnostics"]);
    command.current_dir(checkout());
    let built = command.stderr(Stdio::inherit()).output().expect("cargo runs");
    assert!(built.status.success(), "cargo build --workspace --bin antiphase --test cli failed");
    let messages = String::from_utf8(built.stdout).expect("cargo prints UTF-8");
    let mut found = messages.lines().filter_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        (message["target"]["name"] == "antiphase").then(|| message["executable"].as_str().map(PathBuf::from))?
    });
    found.next_back().expect("cargo names the executable that it built")
}

/// Where the documents of these tests are; commands run there, so that messages name short files.
pub(crate) fn documents() -> PathBuf {
    checkout().join("tests/tests/cli/documents")
}

/// One of them.
pub(crate) fn document(name: &str) -> String {
    std::fs::read_to_string(documents().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// What one run did.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) arguments: String,
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) took: Duration,
}

/// Runs the program with those arguments in the folder of the documents.
pub(crate) fn antiphase(arguments: &[&str]) -> Run {
    run(Command::new(program()).args(arguments).current_dir(documents()), arguments.join(" "), b"")
}

/// The same, with something on standard input.
pub(crate) fn antiphase_reading(arguments: &[&str], stdin: &[u8]) -> Run {
    run(Command::new(program()).args(arguments).current_dir(documents()), arguments.join(" "), stdin)
}

/// Runs a command to its end.
pub(crate) fn run(command: &mut Command, arguments: String, stdin: &[u8]) -> Run {
    let begun = Instant::now();
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    let mut pipe = child.stdin.take().expect("invariant: a pipe was asked for");
    let output = thread::scope(|scope| {
        // A program that reads nothing may be gone already.
        scope.spawn(move || drop(pipe.write_all(stdin)));
        child.wait_with_output().expect("the program ends")
    });
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap_or_else(|error| panic!("{arguments}: not UTF-8: {error}"));
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    Run { code: output.status.code(), stdout, stderr, took: begun.elapsed(), arguments }
}

impl Run {
    /// Standard output of a run that must end with `code`.
    pub(crate) fn expect(&self, code: i32) -> &str {
        assert_eq!(self.code, Some(code), "antiphase {}: {}{}", self.arguments, self.stdout, self.stderr);
        &self.stdout
    }

    /// Standard output of a run that must succeed and say nothing beside it.
    pub(crate) fn ok(&self) -> &str {
        assert_eq!(self.stderr, "", "antiphase {}", self.arguments);
        self.expect(0)
    }

    /// Standard output as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("antiphase {}: {error}: {}", self.arguments, self.stdout))
    }
}

/// A number of a JSON document.
pub(crate) fn number(value: &serde_json::Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}
