//! `antiphase solve`.

use serde_json::{Value, json};

use crate::{
    expected,
    process::{antiphase, antiphase_reading, document},
    refusal::changed,
};

/// The keys of an object, in the order in which they are printed.
pub(crate) fn keys(object: &Value) -> Vec<&str> {
    object.as_object().expect("an object").keys().map(String::as_str).collect()
}

#[test]
fn a_scenario_for_people_and_for_programs() {
    expected::check("solve-table", &antiphase(&["solve", "scenario.json", "-o", "table"]));
    expected::check("solve-json", &antiphase(&["solve", "scenario.json"]));
    expected::check("solve-robust", &antiphase(&["solve", "scenario.json", "--robust", "20", "-o", "table"]));
    expected::check("solve-pad", &antiphase(&["solve", "scenario.json", "--pad", "5", "-o", "table"]));
}

#[test]
fn a_solution_has_the_documented_fields() {
    let solution = antiphase(&["solve", "scenario.json"]).json();
    // serde_json sorts keys, so this is a comparison of sets.
    let top =
        ["affinity", "elapsed_us", "links", "mean_score", "mode", "optimality", "outcome", "schema", "shifts", "zero_shift_mean_score"];
    assert_eq!(keys(&solution), top);
    assert_eq!(solution["schema"], "antiphase.solution/v1");
    assert_eq!((&solution["mode"], &solution["outcome"]), (&"exact".into(), &"solved".into()));
    assert_eq!(keys(&solution["optimality"]), ["bound_gap", "proven"]);
    assert_eq!(keys(&solution["affinity"]), ["components", "loops", "merged_links"]);
    assert_eq!(keys(&solution["links"][0]), ["id", "jobs", "score", "zero_shift_score"]);
    assert_eq!(keys(&solution["shifts"][0]), ["job", "lock_ticks", "shift_ticks", "slack_ticks"]);
    // 40 Gbit/s over 50 for 60 of 200 ticks: the excess is 0.8 * 0.3 = 0.24.
    assert_eq!(solution["zero_shift_mean_score"], 0.76);
    assert_eq!(solution["mean_score"], 1.0);
    let robust = antiphase(&["solve", "scenario.json", "--robust", "20"]).json();
    assert_eq!(robust["robust_mean_score"], 1.0);
    let paper = antiphase(&["solve", "scenario.json", "--mode", "cassini"]).json();
    assert_eq!((&paper["mode"], keys(&paper["links"][0]).contains(&"true_score")), (&"cassini".into(), true));
    assert!(paper["shifts"][0]["slack_ticks"].is_null() && solution["shifts"][0]["slack_ticks"].is_u64(), "paper mode knows no slack");
}

#[test]
fn given_shifts_are_evaluated() {
    let evaluated = antiphase(&["solve", "scenario.json", "--shifts", "right=100"]).json();
    assert_eq!((&evaluated["outcome"], &evaluated["mean_score"]), (&"evaluated".into(), &1.0.into()));
    let zero = antiphase(&["solve", "scenario.json", "--shifts", "left=0"]).json();
    assert_eq!(zero["mean_score"], 0.76);
    expected::check("solve-shifts-unknown", &antiphase(&["solve", "scenario.json", "--shifts", "nobody=1"]));
    expected::check("solve-shifts-word", &antiphase(&["solve", "scenario.json", "--shifts", "left=soon"]));
    expected::check("solve-shifts-twice", &antiphase(&["solve", "scenario.json", "--shifts", "left=1,right=2,left=3"]));
    expected::check("solve-pad-too-much", &antiphase(&["solve", "scenario.json", "--pad", "1000"]));
    expected::check("solve-robust-cassini", &antiphase(&["solve", "scenario.json", "--mode", "cassini", "--robust", "2"]));
}

#[test]
fn a_padded_solution_says_what_it_stretched() {
    let near = changed(&document("scenario.json"), "\"period_ticks\": 200", "\"period_ticks\": 199");
    let solution = antiphase_reading(&["solve", "-", "--pad", "1"], near.as_bytes()).json();
    let padding = &solution["padding"];
    assert_eq!(keys(padding), ["jobs", "price", "saving", "unpadded_mean_score"]);
    let padded = &padding["jobs"][0];
    assert_eq!((&padded["period_ticks"], &padded["padded_ticks"]), (&199.into(), &200.into()));
    assert!(padding["unpadded_mean_score"].as_f64() < solution["mean_score"].as_f64(), "{solution}");
    assert_eq!(antiphase(&["solve", "scenario.json", "--pad", "1"]).json()["padding"]["jobs"], Value::Array(Vec::new()));
}

#[test]
fn a_table_says_what_it_leaves_out() {
    let job = |n: usize| json!({"id": format!("j{n}"), "period_ticks": 10, "links": [], "phases": []});
    let jobs: Vec<Value> = (0..203).map(job).collect();
    let scenario = json!({"schema": "antiphase.scenario/v1", "tick_ns": 1_000_000, "links": [], "jobs": jobs}).to_string();
    let run = antiphase_reading(&["solve", "-", "-o", "table"], scenario.as_bytes());
    assert!(run.ok().contains("and 3 more jobs; -o json has them all"), "{}", run.stdout);
}

#[test]
fn a_loop_in_paper_mode_is_an_outcome_with_exit_code_3() {
    let run = antiphase(&["solve", "loop.json", "--mode", "cassini"]);
    assert_eq!((run.code, &run.stderr[..]), (Some(3), ""));
    let solution = run.json();
    assert_eq!(solution["outcome"], "loop");
    assert_eq!(solution["shifts"], Value::Array(Vec::new()));
    expected::check("solve-loop-table", &antiphase(&["solve", "loop.json", "--mode", "cassini", "-o", "table"]));
    // In exact mode the same scenario is solved.
    let exact = antiphase(&["solve", "loop.json"]).json();
    assert_eq!((&exact["outcome"], &exact["affinity"]["loops"], &exact["mean_score"]), (&"solved".into(), &1.into(), &1.0.into()));
}

#[test]
fn circles_are_well_formed() {
    let run = antiphase(&["solve", "scenario.json", "-o", "svg"]);
    let svg = roxmltree::Document::parse(run.ok()).expect("well-formed");
    assert_eq!(svg.root_element().tag_name().name(), "svg");
    assert!(svg.descendants().any(|n| n.text().is_some_and(|t| t.contains("uplink"))), "the picture names its link");
    // There is nothing to draw where there are no shifts: a failure, not bad input.
    expected::check("solve-loop-svg", &antiphase(&["solve", "loop.json", "--mode", "cassini", "-o", "svg"]));
}

#[test]
fn a_scenario_comes_from_standard_input() {
    let text = document("scenario.json");
    let piped = antiphase_reading(&["solve", "-", "-o", "table"], text.as_bytes());
    assert_eq!(piped.ok(), antiphase(&["solve", "scenario.json", "-o", "table"]).stdout);
}
