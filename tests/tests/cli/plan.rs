//! `antiphase plan`.

use std::process::Command;

use crate::{
    expected::{self, timeless},
    process::{antiphase, antiphase_reading, document, program, run},
    scratch::Scratch,
    solve::keys,
};

const CLUSTER: [&str; 4] = ["--fabric", "fabric.yaml", "--jobs", "jobs.yaml"];
const CANDIDATES: [&str; 2] = ["--candidates", "candidates.yaml"];

/// `antiphase plan` of the documents with more arguments.
fn plan(more: &[&str]) -> crate::process::Run {
    antiphase(&[&["plan"], &CLUSTER[..], &CANDIDATES, more].concat())
}

#[test]
fn candidates_for_people() {
    expected::check("plan-table", &plan(&[]));
    expected::check("plan-as-placed", &antiphase(&[&["plan"], &CLUSTER[..]].concat()));
    expected::check("plan-time", &plan(&["--objective", "time", "--thorough", "--robust", "5", "--ecmp", "hashed:7"]));
    for control in ["slots", "observe"] {
        let run = antiphase(&["plan", "--fabric", "fabric.yaml", "--jobs", "near-jobs.yaml", "--control", control]);
        expected::check(&format!("plan-{control}"), &run);
    }
    for (name, objective) in [("plan-unlike", "time"), ("plan-quiet", "quiet")] {
        let run = antiphase(&["plan", "--fabric", "fabric.yaml", "--jobs", "unlike-jobs.yaml", "--objective", objective]);
        expected::check(name, &run);
    }
    expected::check("plan-profile-file", &antiphase(&["plan", "--fabric", "fabric.yaml", "--jobs", "profiled-jobs.yaml"]));
}

#[test]
fn a_plan_has_the_documented_fields() {
    let run = plan(&["-o", "json"]);
    run.ok();
    let plan = run.json();
    assert_eq!(keys(&plan), ["candidates", "control", "elapsed_us", "fabric", "mode", "objective", "schema"]);
    assert_eq!(plan["schema"], "antiphase.plan/v1");
    let candidate = &plan["candidates"][0];
    let fields = [
        "bound_gap",
        "certainty",
        "explanation",
        "id",
        "jobs",
        "links",
        "loops",
        "mean_score",
        "never_overloaded_links",
        "outcome",
        "overlap",
        "proven",
        "relative_time",
        "shared_links",
        "true_mean_score",
        "zero_shift_mean_score",
    ];
    assert_eq!(keys(candidate), fields);
    let fields = ["all_held", "by_slots", "by_turns", "contended", "free", "interleaved", "solo"];
    assert_eq!(keys(&candidate["relative_time"]), fields);
    assert_eq!(keys(&candidate["overlap"]), ["by_slots", "by_turns", "free"]);
    let across = plan["candidates"].as_array().expect("a list").iter().find(|c| c["id"] == "across").expect("a candidate");
    let link = &across["links"][0];
    assert_eq!(keys(link), ["approximate", "capacity_mbps", "jobs", "links", "score", "true_score", "uncertainty", "zero_shift_score"]);
    let job = &across["jobs"][1];
    let fields = [
        "all_held_ns",
        "by_slots_ns",
        "by_turns_ns",
        "contended_ns",
        "free_ns",
        "hold",
        "interleaved_ns",
        "job",
        "lock_ns",
        "meets_others",
        "period_ns",
        "shift_ns",
        "slack_ns",
        "solo_ns",
        "turns",
    ];
    assert_eq!(keys(job), fields);
    assert_eq!((&across["mean_score"], &job["shift_ns"]), (&1.0.into(), &127_500_000.into()));
    // What is compared comes from the same runs: under turns, as the jobs come is contended, and by turns is interleaved.
    assert_eq!((&job["contended_ns"], &job["interleaved_ns"]), (&job["free_ns"], &job["by_turns_ns"]));
    assert_eq!((&plan["control"], &job["turns"], &job["hold"]), (&"turns".into(), &true.into(), &false.into()));
}

#[test]
fn pictures_are_well_formed() {
    // As placed, the jobs meet; of the candidates the best is one where they do not.
    let run = antiphase(&[&["plan"], &CLUSTER[..], &["-o", "svg"]].concat());
    let svg = roxmltree::Document::parse(run.ok()).expect("well-formed");
    assert_eq!(svg.root_element().tag_name().name(), "svg");
    let run = antiphase(&[&["plan"], &CLUSTER[..], &["-o", "html"]].concat());
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    let html = roxmltree::Document::parse_with_options(run.ok(), options).expect("well-formed");
    assert_eq!(html.root_element().tag_name().name(), "html");
    assert!(run.stdout.contains("leaf1-&gt;spine1"), "the report names the contended link");
    // One self-contained page: nothing is fetched.
    for node in html.descendants() {
        let outside = node.attributes().filter(|a| ["src", "href"].contains(&a.name()) && !a.value().starts_with(['#', 'd']));
        assert_eq!(outside.count(), 0, "{node:?}");
    }
}

#[test]
fn no_candidate_is_good_enough_is_exit_code_5() {
    let run = antiphase(&[&["plan"], &CLUSTER[..], &["--min-score", "1.01"]].concat());
    assert_eq!((run.code, &run.stderr[..]), (Some(5), ""));
    assert!(run.stdout.starts_with("fabric pair:"), "the plan is printed all the same: {}", run.stdout);
    plan(&["--min-score", "1"]).ok();
    let compared_with_nothing = antiphase(&[&["plan"], &CLUSTER[..], &["--min-score", "nan"]].concat());
    assert_eq!(compared_with_nothing.code, Some(2), "{}", compared_with_nothing.stdout);
}

#[test]
fn only_loops_in_paper_mode_is_exit_code_3() {
    // Two jobs that meet on every link between two leaves. An option without a meaning there is refused.
    let drift = antiphase(&[&["plan"], &CLUSTER[..], &["--mode", "cassini", "--robust", "1"]].concat());
    assert_eq!((drift.code, drift.stderr.contains("knows no drift")), (Some(2), true), "{}", drift.stderr);
    let run = antiphase(&[&["plan"], &CLUSTER[..], &["--mode", "cassini"]].concat());
    assert_eq!((run.code, &run.stderr[..]), (Some(3), ""));
    expected::check("plan-loop", &run);
    let html = antiphase(&[&["plan"], &CLUSTER[..], &["--mode", "cassini", "-o", "html"]].concat());
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    roxmltree::Document::parse_with_options(html.expect(3), options).expect("well-formed without a solved candidate");
}

#[test]
fn a_link_of_unknown_capacity_is_refused_by_name() {
    let scratch = Scratch::new("plan-unknown");
    let text = document("fabric.yaml");
    let known = "- {ends: [leaf1, spine1]}";
    let unknown = text.replace(known, "- {ends: [leaf1, spine1], capacity: unknown}");
    assert_ne!(text, unknown);
    let file = scratch.file("fabric.yaml", unknown);
    let line = crate::refusal::refused(&["plan", "--fabric", &file, "--jobs", "jobs.yaml"], b"");
    assert_eq!(
        line,
        format!("{file}: link leaf1->spine1 has no known capacity; state it in the fabric file or import with --assume-capacity")
    );
    // Candidates that all leave it are ranked; one that stays on it is refused.
    let candidates = |right: &str| {
        format!("schema: antiphase.candidates/v1\ncandidates:\n- {{id: within, hosts: {{left: [h1, h2], right: {right}}}}}\n")
    };
    let leave = scratch.file("leave.yaml", candidates("[h3, h4]"));
    let ranked = antiphase(&["plan", "--fabric", &file, "--jobs", "jobs.yaml", "--candidates", &leave]);
    ranked.expect(0);
    assert_eq!(
        ranked.stderr,
        "unknown-capacity: leaf1->spine1 and 1 more: loaded where the jobs stand, by no candidate; so the ranking does not depend on it\n"
    );
    let stay = scratch.file("stay.yaml", candidates("[h2, h4]"));
    let line = crate::refusal::refused(&["plan", "--fabric", &file, "--jobs", "jobs.yaml", "--candidates", &stay], b"");
    assert!(line.starts_with(&format!("{file}: candidate \"within\": link leaf1->spine1 has no known capacity")), "{line}");
    // A link that nobody crosses may stay unknown.
    let jobs = document("jobs.yaml");
    let within = scratch.file("jobs.yaml", jobs.replace("[h1, h3]", "[h1, h2]").replace("[h2, h4]", "[h3, h4]"));
    antiphase(&["plan", "--fabric", &file, "--jobs", &within]).ok();
}

#[test]
fn one_document_comes_from_standard_input() {
    let text = document("jobs.yaml");
    let piped = antiphase_reading(&["plan", "--fabric", "fabric.yaml", "--jobs", "-"], text.as_bytes());
    assert_eq!(timeless(piped.ok()), timeless(&antiphase(&[&["plan"], &CLUSTER[..]].concat()).stdout));
    let fabric = document("fabric.yaml");
    let line = crate::refusal::refused(&["plan", "--fabric", "-", "--jobs", "-"], fabric.as_bytes());
    assert_eq!(line, "-: standard input is named twice; only one document can come from it");
}

/// P36: more cores change no byte.
#[test]
fn a_plan_is_the_same_on_any_number_of_cores() {
    let scratch = Scratch::new("plan-cores");
    let fabric =
        antiphase(&["fabric", "generate", "clos2", "--leaves", "8", "--spines", "2", "--hosts-per-leaf", "8", "--uplink-rate", "100G"]);
    let fabric = scratch.file("fabric.yaml", fabric.expect(0));
    let (jobs, candidates) = (scratch.path("jobs.yaml"), scratch.path("candidates.yaml"));
    let synth = ["jobs", "synth", "--fabric", &fabric, "--count", "12", "--candidates", "6", "--jobs-out", &jobs, "--candidates-out"];
    antiphase(&[&synth[..], &[&candidates]].concat()).expect(0);
    let on = |threads: &str| {
        let arguments = ["plan", "--fabric", &fabric, "--jobs", &jobs, "--candidates", &candidates, "-o", "json"];
        let mut command = Command::new(program());
        run(command.args(arguments).env("RAYON_NUM_THREADS", threads), arguments.join(" "), b"")
    };
    let one = on("1");
    assert!(one.json()["candidates"].as_array().expect("a list").iter().any(|c| c["links"][0].is_object()), "nothing is contended");
    assert_eq!(timeless(one.ok()), timeless(on("4").ok()));
    assert_eq!(timeless(one.ok()), timeless(on("1").ok()));
}
