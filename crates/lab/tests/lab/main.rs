//! The lab on the real kernel: what it measures goes the way it should, and nothing is left behind.
#![allow(clippy::unwrap_used, reason = "integration tests")]

mod ddp;
mod executor;
mod live;
mod support;

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::support::{ALONE, RUN_TIMEOUT, finish, lab, lab_or_skip, labs, number, start, text, traces_of};

/// Two jobs that collide become slower and are marked; held they do not meet.
#[test]
fn two_jobs_collide_and_keep_apart_when_held() {
    lab_or_skip!();
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    let folder = tempfile::tempdir().unwrap();
    let case = text(folder.path(), "test-effect", 200);
    let said = lab(&["run", &case, "--repeats", "1", "--iterations", "8", "-q", "-o", "json"]);
    let report: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(report["schema"], "antiphase.lab-report/v1");
    for job in report["jobs"].as_array().unwrap() {
        let (solo, contended) = (number(job, "/mean_ms/solo/median"), number(job, "/mean_ms/contended/median"));
        let held = number(job, "/mean_ms/held/median");
        assert!(contended > solo, "together they are slower: {said}");
        assert_eq!(job["hold"], true, "{said}");
        assert!(number(job, "/gates/holds") > 0.0, "the gate held it: {said}");
        assert!(number(job, "/overlap_held/median") < number(job, "/overlap_contended/median"), "{said}");
        // A busy machine makes jobs miss slots, and then nothing can be said of times.
        if number(job, "/gates/slips") == 0.0 {
            assert!(held < contended, "held they are faster: {said}");
        }
    }
    let shared = report["links"].as_array().unwrap().iter().find(|l| l["link"] == "leaf1->spine1").unwrap();
    let marks = |run: &str| number(shared, &format!("/marks_per_iteration/{run}/median"));
    assert!(marks("contended") > marks("held"), "{said}");
    assert!(labs("test-effect").is_empty(), "the lab is gone after its run");
}

/// A lab whose process is killed leaves its namespaces; its ranks end by themselves, and `lab down` removes the rest.
#[test]
fn down_repairs_after_a_kill() {
    lab_or_skip!();
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    let folder = tempfile::tempdir().unwrap();
    let case = text(folder.path(), "test-kill", 200);
    let mut run = start(&["run", &case, "--repeats", "9", "--iterations", "50"]);
    let mut said = BufReader::new(run.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert!(line.contains("a alone"), "{line}");
    let ids = labs("test-kill");
    let [id] = ids.as_slice() else { panic!("one lab, not {ids:?}") };
    // Until the first ranks are there.
    let end = Instant::now() + RUN_TIMEOUT;
    while !traces_of(id).iter().any(|t| t.contains(" --trace ")) {
        assert!(Instant::now() < end, "no rank started");
        thread::sleep(Duration::from_millis(20));
    }
    let refused = lab(&["down", id]);
    assert!(refused.contains("runs; --force"), "{refused}");
    run.kill().unwrap();
    run.wait().unwrap();
    assert!(lab(&["status"]).contains("which is gone"), "status tells that it was left");
    assert!(!traces_of(id).is_empty(), "the namespaces stand");
    let gone = lab(&["down", id]);
    assert!(gone.contains("is gone"), "{gone}");
    assert_eq!(traces_of(id), Vec::<String>::new());
}

/// A lab that is up stays up, can be looked at, and goes.
#[test]
fn up_stays_and_down_leaves_nothing() {
    lab_or_skip!();
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    let folder = tempfile::tempdir().unwrap();
    let case = text(folder.path(), "test-up", 200);
    let before = programs();
    let said = lab(&["up", &case]);
    assert!(said.contains("-spine1"), "{said}");
    let ids = labs("test-up");
    let [id] = ids.as_slice() else { panic!("one lab, not {ids:?}") };
    let ours: BTreeSet<u64> = programs().difference(&before).copied().collect();
    assert_eq!(ours.len(), 4, "a queue at each end of the two cables between switches");
    lab(&["down", id]);
    assert_eq!(traces_of(id), Vec::<String>::new());
    // The kernel takes devices and programs away a moment after their namespace.
    let end = Instant::now() + Duration::from_secs(20);
    while programs().intersection(&ours).count() > 0 {
        assert!(Instant::now() < end, "programs {ours:?} stay in the kernel");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Numbers of the marking queues that the kernel holds.
fn programs() -> BTreeSet<u64> {
    let said = Command::new("bpftool").args(["-j", "prog", "show"]).output().unwrap().stdout;
    let all: Vec<Value> = serde_json::from_slice(&said).unwrap();
    all.iter().filter(|p| p["name"] == "ecn_queue").filter_map(|p| p["id"].as_u64()).collect()
}

/// Ctrl-C ends the run and takes the lab down.
#[test]
fn an_interrupt_takes_the_lab_down() {
    lab_or_skip!();
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    let folder = tempfile::tempdir().unwrap();
    let case = text(folder.path(), "test-interrupt", 200);
    let mut run = start(&["run", &case, "--repeats", "9", "--iterations", "50"]);
    let mut said = BufReader::new(run.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let pid = rustix::process::Pid::from_child(&run);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(finish(run).status.code(), Some(1));
    assert!(labs("test-interrupt").is_empty());
}

/// Bad input is one line with its place, and exit code 2; no root is needed to hear it.
#[test]
fn bad_cases_are_refused_on_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.yaml");
    std::fs::write(&file, antiphase_lab::case::builtin("two-equal").unwrap().replace("bytes: 1600000", "bytes: 0")).unwrap();
    for (name, expected) in
        [(file.to_str().unwrap(), r#"bad.yaml: jobs[0] ("a").bytes: 0;"#), ("no-such-case", "no such case (two-equal, ")]
    {
        let output = finish(start(&["run", name]));
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(expected) && said.lines().count() == 1, "{said}");
    }
}

/// What cannot hold jobs is refused on one line before anything is built, with what can.
#[test]
fn what_cannot_hold_jobs_is_refused_on_one_line() {
    let output = finish(start(&["run", "two-equal", "--control", "direct", "--hold", "turns"]));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert_eq!(said, "antiphase-lab: --hold: turns: pages that the lab writes itself hold jobs by slots\n");
}

/// The topology service and its agents hold the jobs by turns, and to their slots in a run of its own: commit, plan, page, gate.
#[test]
fn the_service_holds_the_jobs() {
    lab_or_skip!();
    if let Some(why) = support::no_service() {
        println!("skipped: {why}");
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    let folder = tempfile::tempdir().unwrap();
    let case = text(folder.path(), "test-service", 200);
    let service = ["--control", "service", "--hold", "turns", "--with", "drift,mltcp,slots"];
    let said = lab(&[&["run", &case, "--repeats", "1", "--iterations", "6", "-q", "-o", "json"], &service[..]].concat());
    let report: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&report["control"], &report["held_by"]), (&"service".into(), &"turns".into()));
    let jobs = report["jobs"].as_array().unwrap();
    for job in jobs {
        assert_eq!(job["hold"], true, "{said}");
        assert!(number(job, "/gates_slots/holds") > 0.0, "its gate followed the service's page: {said}");
        for run in ["/overlap_beside/slots/median", "/overlap_held/median"] {
            assert!(number(job, run) < number(job, "/overlap_contended/median"), "{run}: {said}");
        }
        // Where these end, a case of six iterations does not tell.
        for run in ["drift", "mltcp"] {
            let (took, alone) = (number(job, &format!("/mean_ms/{run}/median")), number(job, "/mean_ms/solo/median"));
            assert!(took > 0.9 * alone, "{run}: {said}");
        }
    }
    let registered = Command::new("bpftool").args(["struct_ops", "list"]).output().unwrap();
    let registered = String::from_utf8_lossy(&registered.stdout).into_owned();
    assert!(!registered.contains("mltcp"), "its congestion control is gone with the run: {registered}");
    // They begin together, so at least one of them waits for the other.
    assert!(jobs.iter().any(|job| number(job, "/gates/holds") > 0.0), "nobody waited for a turn: {said}");
    assert!(labs("test-service").is_empty(), "service and agents are gone after the run");
}
