//! `antiphase jobs synth`.

use std::fs;

use crate::{expected, process::antiphase, scratch::Scratch};

#[test]
fn the_same_seed_gives_the_same_jobs() {
    let scratch = Scratch::new("jobs");
    let synth = |seed: &str, name: &str| {
        let (jobs, candidates) = (scratch.path(&format!("{name}-jobs.yaml")), scratch.path(&format!("{name}-candidates.yaml")));
        let arguments = ["jobs", "synth", "--fabric", "fabric.yaml", "--count", "2", "--candidates", "3", "--seed", seed];
        let run = antiphase(&[&arguments[..], &["--jobs-out", &jobs, "--candidates-out", &candidates]].concat());
        run.expect(0);
        let plan = antiphase(&["plan", "--fabric", "fabric.yaml", "--jobs", &jobs, "--candidates", &candidates, "-o", "json"]);
        plan.ok();
        assert_eq!(plan.json()["candidates"].as_array().map(Vec::len), Some(3));
        (fs::read_to_string(jobs).expect("written"), fs::read_to_string(candidates).expect("written"))
    };
    let first = synth("1", "a");
    assert_eq!(first, synth("1", "b"));
    assert_ne!(first, synth("2", "c"));
}

#[test]
fn what_cannot_be_drawn_is_said() {
    let scratch = Scratch::new("jobs-bad");
    let out = scratch.path("out.yaml");
    let jobs = ["jobs", "synth", "--fabric", "fabric.yaml", "--candidates-out", &out, "--jobs-out"];
    let line = crate::refusal::refused(&[&jobs[..], &[&out]].concat(), b"");
    assert_eq!(line, format!("--jobs-out and --candidates-out are both {out}"));
    let one_host = scratch.file("one.yaml", "schema: antiphase.fabric/v1\nhosts: [h1]\n");
    let other = scratch.path("other.yaml");
    let line = crate::refusal::refused(&["jobs", "synth", "--fabric", &one_host, "--jobs-out", &out, "--candidates-out", &other], b"");
    assert_eq!(line, format!("{one_host}: hosts: 1; no job that was drawn fits"));
    // One of two files cannot be written: neither is.
    let nowhere = scratch.path("no/such/folder.yaml");
    let run = antiphase(&["jobs", "synth", "--fabric", "fabric.yaml", "--jobs-out", &out, "--candidates-out", &nowhere]);
    run.expect(1);
    assert_eq!(scratch.names(), ["one.yaml"]);
    expected::check("jobs-too-many", &antiphase(&["jobs", "synth", "--fabric", "fabric.yaml", "--count", "100001"]));
}

#[test]
fn hosts_of_several_nics_are_taken_whole() {
    let scratch = Scratch::new("jobs-rail");
    let rail = antiphase(&["fabric", "generate", "rail", "--groups", "2", "--hosts-per-group", "8", "--rails", "4", "--spines", "2"]);
    let fabric = scratch.file("fabric.yaml", rail.expect(0));
    let (jobs, candidates) = (scratch.path("jobs.yaml"), scratch.path("candidates.yaml"));
    let synth = ["jobs", "synth", "--fabric", &fabric, "--count", "4", "--jobs-out", &jobs, "--candidates-out", &candidates];
    antiphase(&synth).expect(0);
    let plan = antiphase(&["plan", "--fabric", &fabric, "--jobs", &jobs, "--candidates", &candidates, "-o", "json"]);
    plan.ok();
    assert!(fs::read_to_string(&jobs).expect("written").contains("gpus_per_host: 4"));
}
