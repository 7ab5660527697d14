//! The header and the shared library, from C and C++ programs built by the machine's compilers.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use antiphase_gate::ReportReader;
use gate_core::{NoteKind, Schedule};
use units::Nanos;

use crate::{
    ends::{Agent, due_far, due_in, ms},
    turns::Answering,
};

/// Strict, so that the header is clean in anybody's project.
const FLAGS: [&str; 5] = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1"];

pub(crate) fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The folder in which cargo put the shared library for this run, beside this program.
pub(crate) fn library() -> PathBuf {
    let program = env::current_exe().unwrap();
    let library = program.parent().unwrap().join("libantiphase_gate.so");
    assert!(library.exists(), "{} was not built with the tests", library.display());
    library
}

pub(crate) fn run(command: &mut Command) -> Output {
    // Cargo's own search path has folders in which an older library may lie.
    command.env("LD_LIBRARY_PATH", library().parent().unwrap());
    let output = command.output().unwrap_or_else(|error| panic!("{:?}: {error}; gcc and g++ are needed", command.get_program()));
    assert!(output.status.success(), "{command:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    output
}

/// Builds `c/NAME` against the shared library.
pub(crate) fn build(compiler: &str, standard: &str, name: &str, into: &Path) -> PathBuf {
    let program = into.join(name.replace('.', "-"));
    let folder = library().parent().unwrap().to_owned();
    let mut command = Command::new(compiler);
    command.arg(standard).args(FLAGS).arg("-I").arg(source("include")).arg(source("c").join(name)).arg("-o").arg(&program);
    command.arg("-L").arg(&folder).args(["-lantiphase_gate", "-pthread"]);
    run(&mut command);
    program
}

pub(crate) fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

#[test]
fn a_c_program_uses_the_gate() {
    let directory = tempfile::tempdir().unwrap();
    let program = build("gcc", "-std=c11", "test.c", directory.path());
    let here = directory.path().to_owned();
    let _agents = [
        Agent::start(here.clone(), "pass", Schedule::default()),
        Agent::start(here.clone(), "held", Schedule { tolerance: Nanos(0), ..due_in(ms(100), ms(200)) }),
        Agent::start(here.clone(), "far", due_far()),
        Agent::start(here.clone(), "slow", Schedule { tolerance: Nanos(0), ..due_in(ms(500), ms(900)) }),
    ];
    let turns = Answering::start(&here, "turns", true);
    let [passed, held, slow] = ["pass", "held", "slow"].map(|job| ReportReader::open_or_create(&here, job).unwrap());
    let output = run(Command::new(&program).arg(&here).args(["pass", "held", "far", "slow", "turns"]).env_remove("ANTIPHASE_GATE"));
    assert_eq!(output.stdout, b"ok\n");
    // The child took the report over from its parent, and its only start is in it; likewise where its parent was held.
    let iterations = |reader: &ReportReader| reader.read().unwrap().tracker.counters().iterations;
    assert_eq!((iterations(&held), iterations(&slow)), (1, 2));
    // The parent's first start ends after the whole life of its child, which is another run.
    let seen = turns.seen(3);
    let of = |parent: bool| {
        let notes = seen.iter().map(|(note, _)| note).filter(|note| (note.writer == seen[0].0.writer) == parent);
        let notes: Vec<(u64, NoteKind)> = notes.map(|note| (note.number, note.kind)).collect();
        assert!(notes.is_sorted() && notes[0].0 == 1, "{notes:?}");
        notes.iter().filter(|(_, kind)| *kind == NoteKind::Ended).count()
    };
    assert_eq!((of(true), of(false)), (2, 1));
    // A child that did not step left its parent's report alone.
    assert_eq!(iterations(&passed), 3);
}

#[test]
fn a_cpp_program_uses_the_gate() {
    if !has("g++") {
        println!("skipped: g++ is not installed, so the header was not compiled as C++");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let program = build("g++", "-std=c++17", "test.cpp", directory.path());
    run(&mut Command::new(program));
}

#[test]
fn the_benchmark_in_c_runs() {
    let directory = tempfile::tempdir().unwrap();
    let program = build("gcc", "-std=c11", "bench.c", directory.path());
    // Every start is in a slot of its own: one is due in every nanosecond.
    let plan = due_in(ms(0), Nanos(1));
    let _agent = Agent::start(directory.path().to_owned(), "job", Schedule { tolerance: Nanos(0), ..plan });
    let output = run(Command::new(program).arg(directory.path()).args(["job", "1000000"]));
    let line = String::from_utf8(output.stdout).unwrap();
    println!("{line}");
    assert!(line.starts_with("step (on-time) median "), "{line}");
}

/// Every function of the header is exported, nothing else of ours is, and the library is never unloaded.
#[test]
fn the_library_exports_what_the_header_declares() {
    if !has("readelf") {
        println!("skipped: readelf (binutils) is not installed, so the library's symbols were not compared with the header");
        return;
    }
    let header = fs::read_to_string(source("include/antiphase_gate.h")).unwrap();
    let names = header.split(|c: char| !c.is_alphanumeric() && c != '_');
    let mut declared: Vec<&str> = names.filter(|name| name.starts_with("antiphase_gate_")).collect();
    declared.sort_unstable();
    declared.dedup();
    let output = run(Command::new("readelf").args(["--wide", "--dyn-syms", "--dynamic"]).arg(library()));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("NODELETE"), "the library could be unloaded");
    let mut exported: Vec<&str> = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|words| words.len() == 8 && words[4] == "GLOBAL" && words[6] != "UND")
        .map(|words| words[7])
        .collect();
    exported.sort_unstable();
    assert_eq!(exported, declared);
}
