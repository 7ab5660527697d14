//! `gate exec`: the start of a program is held, and the program is what the process becomes.

use std::{
    env,
    fs::File,
    io::Write as _,
    path::Path,
    process::{Command, Output, Stdio},
};

use antiphase_gate::exec::{NOT_FOUND, NOT_RUN, USAGE, run};
use gate_core::Schedule;
use rustix::fs::{OFlags, fcntl_setfl};
use units::NodeTime;

use crate::{
    child::{MODE, Process},
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
    assert_eq!(run(&["--job"]), USAGE);
}

/// `gate exec` with these arguments in a process of its own, where `ANTIPHASE_JOB` is `job`.
fn exec(job: &str, arguments: &str, stderr: Stdio) -> Output {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["child::entry", "--exact", "--nocapture"]).env(MODE, "run").env("ANTIPHASE_TEST_DIR", "").env("ANTIPHASE_JOB", job);
    command.env("ANTIPHASE_TEST_ARGUMENTS", arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr);
    command.spawn().unwrap().wait_with_output().unwrap()
}

/// ADR 2: a name that no job can have lets the program run, not held, whoever gave it.
#[test]
fn a_bad_name_does_not_stop_the_program() {
    let directory = tempfile::tempdir().unwrap();
    let plan = due_in(ms(1_500), ms(50_000));
    let _page = page(directory.path(), &plan);
    let of = |job: &str, options: &str| {
        let arguments = format!("{options}--dir {} -- /bin/echo ran", directory.path().display());
        let output = exec(job, &arguments, Stdio::piped());
        let said = String::from_utf8(output.stderr).unwrap();
        let ran = String::from_utf8(output.stdout).unwrap().contains("ran\n") && output.status.success();
        (ran, said, antiphase_gate::now())
    };
    for (job, options) in [("team/job", ""), ("", "--job team/job "), (JOB, "--job team/job ")] {
        let (ran, said, _) = of(job, options);
        assert!(ran && said.contains("gate exec: not held: job name \"team/job\""), "{said}");
    }
    // One that is given counts, and the program is held for its slot.
    let (ran, said, at) = of("team/job", &format!("--job {JOB} "));
    assert!(ran && said.is_empty() && at >= plan.slot, "{said}");
}

/// A full disk for standard error takes no line, nor does a pipe that nobody reads, and the program runs all the same.
#[test]
fn a_warning_that_cannot_be_written_does_not_stop_the_program() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let (reader, pipe) = std::io::pipe().unwrap();
    // As many bytes as the pipe holds, so that one more would wait.
    let blocks = |blocks: bool| fcntl_setfl(&pipe, if blocks { OFlags::empty() } else { OFlags::NONBLOCK }).unwrap();
    blocks(false);
    while (&pipe).write(&[0]).is_ok() {}
    blocks(true);
    for stderr in [Stdio::from(full), pipe.into()] {
        let output = exec("team/job", "-- /bin/echo ran", stderr);
        assert!(output.status.success() && String::from_utf8_lossy(&output.stdout).contains("ran\n"), "{output:?}");
    }
    drop(reader);
}
