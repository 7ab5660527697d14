//! `gate exec`: the start of a program is held, and the program is what the process becomes.

use std::{env, path::Path};

use antiphase_gate::exec::{NOT_FOUND, NOT_RUN, USAGE, run};
use gate_core::Schedule;
use units::NodeTime;

use crate::{
    child::Process,
    ends::{JOB, due_in, ms, page},
};

/// What the program that was started said of its beginning.
fn started(directory: &Path) -> NodeTime {
    let mut process = Process::start("exec", directory);
    let line = process.line();
    let (job, at) = line.split_once(' ').unwrap();
    assert_eq!(job, JOB);
    NodeTime(at.parse().unwrap())
}

#[test]
fn the_program_starts_in_the_slot() {
    let directory = tempfile::tempdir().unwrap();
    // Far enough ahead that the process comes before it.
    let plan = due_in(ms(1_500), ms(50_000));
    let _page = page(directory.path(), &plan);
    assert!(started(directory.path()) >= plan.slot);
}

#[test]
fn without_a_plan_the_program_starts_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let begin = antiphase_gate::now();
    assert!(started(directory.path()) > begin);
    let _page = page(directory.path(), &Schedule::default());
    assert!(started(directory.path()) > begin);
}

#[test]
fn a_program_that_cannot_run_has_the_shells_exit_code() {
    let run = |args: &[&str]| run(args.iter().map(Into::into));
    assert_eq!(run(&["--", "/nonexistent/program"]), NOT_FOUND);
    let directory = env::temp_dir();
    assert_eq!(run(&["--", directory.to_str().unwrap()]), NOT_RUN);
    assert_eq!(run(&[]), USAGE);
    assert_eq!(run(&["--job", "a/b", "true"]), USAGE);
}
