//! Jobs that are real PyTorch.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::support::{ALONE, PROGRAM, RUN_TIMEOUT, lab, lab_or_skip, labs, number, start, text, traces_of};

/// Runs in one of which equal jobs have to look equal.
const HELD_WITHIN: usize = 3;

/// Why no rank can be PyTorch here.
fn no_torch() -> Option<String> {
    let can = |python: &&str| {
        let probe = ["-c", "import torch.distributed as d; assert hasattr(d, 'ProcessGroupGloo')"];
        Command::new(python).args(probe).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    let none = ["python3", "/usr/bin/python3"].iter().find(|python| can(python)).is_none();
    none.then(|| "no python3 has PyTorch with gloo (Debian: python3-torch), so DistributedDataParallel was not played".into())
}

/// Real DDP over real links: it collides as the lab's own ranks do, and its gate in the communication hook keeps it apart.
/// That every rank ended well, with the same weights, is in the success of the run.
#[test]
fn ddp_jobs_collide_and_keep_apart_when_held() {
    lab_or_skip!();
    if let Some(why) = no_torch() {
        println!("skipped: {why}");
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    let folder = tempfile::tempdir().unwrap();
    // Iterations as long as those of the cases: an interpreter is slower than the lab's own ranks.
    let case = text(folder.path(), "test-ddp", 360);
    let run = || lab(&["run", &case, "--trainer", "ddp", "--repeats", "1", "--iterations", "7", "-q", "-o", "json"]);
    let report = |said: &String| -> Value { serde_json::from_str(said).unwrap() };
    // Jobs are held where that is predicted to help, from what they took alone: on a busy machine those times differ by a per cent,
    // with which jobs slide apart by themselves: they are rightly not held, or hardly meet as they come.
    let collides = |job: &Value| number(job, "/mean_ms/contended/median") > number(job, "/mean_ms/solo/median");
    let is_held = |said: &String| report(said)["jobs"].as_array().unwrap().iter().all(|job| job["hold"] == true && collides(job));
    let said = (0..HELD_WITHIN).map(|_| run()).find(is_held).expect("the jobs collide and are held in one of the runs");
    let report = report(&said);
    assert!(report["torch"].is_string(), "{said}");
    for job in report["jobs"].as_array().unwrap() {
        assert!(number(job, "/gates/iterations") >= 7.0 && number(job, "/gates/holds") > 0.0, "its gate held it: {said}");
        assert!(number(job, "/overlap_held/median") < number(job, "/overlap_contended/median"), "{said}");
    }
    // Both jobs send 360 * 4,500 bytes per iteration and direction, in packets of 1,514 bytes that carry 1,448. What begins
    // before the window or ends after it is some iterations' tenths.
    let expected = 360.0 * 4_500.0 * 1_514.0 / 1_448.0;
    for link in report["links"].as_array().unwrap() {
        let times: Vec<f64> = report["jobs"].as_array().unwrap().iter().map(|j| number(j, "/mean_ms/contended/median")).collect();
        let per_iteration = number(link, "/carried_mbps_contended/median") * 1e3 / 8.0 / times.iter().map(|ms| 1.0 / ms).sum::<f64>();
        assert!((0.75..1.33).contains(&(per_iteration / expected)), "{per_iteration} bytes and not {expected}: {said}");
    }
    assert!(labs("test-ddp").is_empty(), "the lab is gone after its run");
}

/// Interpreters end with their lab, however it ends.
#[test]
fn ddp_ranks_end_when_the_lab_is_killed() {
    lab_or_skip!();
    if let Some(why) = no_torch() {
        println!("skipped: {why}");
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    let folder = tempfile::tempdir().unwrap();
    let case = text(folder.path(), "test-ddp-kill", 360);
    let mut run = start(&["run", &case, "--trainer", "ddp", "--repeats", "9", "--iterations", "50"]);
    let mut line = String::new();
    BufReader::new(run.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("a alone"), "{line}");
    let ids = labs("test-ddp-kill");
    let [id] = ids.as_slice() else { panic!("one lab, not {ids:?}") };
    let ranks = || traces_of(id).iter().filter(|t| t.contains("ddp_rank.py")).count();
    let end = Instant::now() + RUN_TIMEOUT;
    while ranks() < 2 {
        assert!(Instant::now() < end, "no ranks started");
        thread::sleep(Duration::from_millis(20));
    }
    run.kill().unwrap();
    run.wait().unwrap();
    while ranks() > 0 {
        assert!(Instant::now() < end, "ranks outlive their lab");
        thread::sleep(Duration::from_millis(20));
    }
    lab(&["down", id]);
    assert_eq!(traces_of(id), Vec::<String>::new());
}

/// What PyTorch's trainer lacks is one line that says what to do, with exit code 2; no root is needed to hear it.
#[test]
fn a_missing_pytorch_is_one_line() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("torch.py"), "raise ImportError('not in this test')\n").unwrap();
    let cases = [
        ("/nonexistent/python3", "/nonexistent/python3: No such file"),
        ("python3", "no PyTorch (not in this test): install Debian's python3-torch"),
    ];
    for (python, expected) in cases {
        if Command::new("python3").arg("--version").output().is_err() && python == "python3" {
            println!("skipped: there is no python3, so an interpreter without PyTorch was not tried");
            continue;
        }
        let mut command = Command::new(PROGRAM);
        command.args(["run", "two-equal", "--trainer", "ddp"]).env("ANTIPHASE_PYTHON", python);
        // A folder without the package in front: the probe must look at PyTorch first.
        let output = command.env("ANTIPHASE_GATE_PYTHON", folder.path()).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("--trainer ddp: ") && said.contains(expected) && said.lines().count() == 1, "{said}");
    }
}
