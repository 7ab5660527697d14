//! Streams of a GPU that pass the gate: a program of C with the driver's own names, here with a driver without a GPU (`c/cuda.c`). With
//! `ANTIPHASE_CUDA=1` it runs with the driver of the machine (`make test-gpu`).

use std::{
    env, fs,
    process::{Command, Stdio},
};

use gate_core::{Note, NoteKind};

use crate::{
    c_interface::{build, has, library, run, source},
    ends::{Agent, due_far},
    turns::Answering,
};

/// Starts of the C program that are looked at.
const STARTS: usize = 5;

/// The program is killed after this; it needs a second or two.
const PROGRAM_SECONDS: &str = "60";

#[test]
fn a_stream_waits_and_the_host_does_not() {
    if !has("gcc") {
        println!("skipped: gcc is not installed, so no stream was held");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (here, drivers) = (directory.path().to_owned(), directory.path().join("driver"));
    let program = build("gcc", "-std=c11", "stream.c", directory.path());
    fs::create_dir(&drivers).unwrap();
    let real = env::var("ANTIPHASE_CUDA").is_ok();
    if !real {
        let mut command = Command::new("gcc");
        command.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", "-pthread"]).arg(source("c/cuda.c"));
        run(command.arg("-o").arg(drivers.join("libcuda.so.1")));
    }
    let (turns, _far) = (Answering::start(&here, "turns", true), Agent::start(here.clone(), "far", due_far()));
    let mut paths = vec![drivers, library().parent().unwrap().to_owned()];
    paths.extend(env::split_paths(&env::var_os("LD_LIBRARY_PATH").unwrap_or_default()).filter(|_| real));
    let mut command = Command::new("timeout");
    command.arg(PROGRAM_SECONDS).arg(&program).arg(&here).args(["turns", "far"]).env("LD_LIBRARY_PATH", env::join_paths(paths).unwrap());
    let output = command.env_remove("ANTIPHASE_GATE").env_remove("CUDA_DEVICE_MAX_CONNECTIONS").stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && said.ends_with("ok\n"), "{}: {said}{}", output.status, String::from_utf8_lossy(&output.stderr));
    let times: Vec<(u64, u64)> = said
        .lines()
        .take(STARTS)
        .map(|line| {
            let (computed, started) = line.split_once(' ').unwrap();
            (computed.parse().unwrap(), started.parse().unwrap())
        })
        .collect();
    assert_eq!(times.len(), STARTS);
    // The agent hears that a job is ready when its stream is, and not when its host enqueued the start. On a machine that is busy with
    // other work answers come too late, and after some of those a gate asks no more for a while.
    let notes: Vec<Note> = turns.seen(STARTS).into_iter().map(|(note, _)| note).collect();
    let first = notes[0].writer;
    let mut asked = 0;
    for (number, (computed, started)) in (1..).zip(times) {
        let of = |kind: NoteKind| notes.iter().find(|n| n.writer == first && n.number == number && n.kind == kind).map(|note| note.at.0);
        let (Some(went), Some(ended)) = (of(NoteKind::Started), of(NoteKind::Ended)) else {
            panic!("start {number} is not told: {notes:?}")
        };
        assert!(computed <= went && went <= started && went <= ended, "{computed} {went} {started} {ended}");
        if let Some(ready) = of(NoteKind::Ready) {
            assert!(computed <= ready && ready <= went, "{computed} {ready} {went}");
            asked += 1;
        }
    }
    assert!(asked > 0, "{notes:?}");
}
