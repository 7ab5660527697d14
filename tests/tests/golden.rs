//! Golden cases of the solver: scenario files with expected scores: `tests/golden/{single,tree,loop}` of the repository, or the
//! same folders below `$ANTIPHASE_CASES`, so that anyone can bring their own cases.
//!
//! Scores are compared, never shifts: many shifts are equally good.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{fs, path::PathBuf};

use antiphase_tests::cases;
use circle::{Mode, Options, Outcome, Solution, Ticks, evaluate, scenario::Scenario, solve};
use serde_json::Value;

const TOLERANCE: f64 = 1e-9;

fn read(suite: &str) -> Vec<(String, Scenario, Value)> {
    let read = |file: PathBuf| {
        let text = fs::read_to_string(&file).unwrap();
        let scenario = Scenario::parse(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let expect = serde_json::from_str::<Value>(&text).unwrap()["expect"].clone();
        (file.file_stem().unwrap().to_string_lossy().into_owned(), scenario, expect)
    };
    cases(suite).into_iter().map(read).collect()
}

fn exact(name: &str, scenario: &Scenario) -> Solution {
    let solution = solve(&scenario.problem, &Options::default()).unwrap();
    let again = evaluate(&scenario.problem, &solution.shifts.iter().map(|s| s.shift).collect::<Vec<Ticks>>()).unwrap();
    assert!(
        (again.mean_score - solution.mean_score).abs() < TOLERANCE,
        "{name}: {} evaluates to {}",
        solution.mean_score,
        again.mean_score
    );
    assert!(solution.optimality.proven, "{name}: not proven, gap {}", solution.optimality.bound_gap);
    solution
}

fn number(expect: &Value, key: &str) -> f64 {
    expect[key].as_f64().unwrap_or_else(|| panic!("no {key} in {expect}"))
}

fn cassini(scenario: &Scenario) -> Solution {
    solve(&scenario.problem, &Options { mode: Mode::Cassini, ..Options::default() }).unwrap()
}

#[test]
fn single_links_reach_the_optimum_and_paper_mode_the_grid() {
    for (name, scenario, expect) in read("single") {
        let solution = exact(&name, &scenario);
        assert!(solution.mean_score >= number(&expect, "optimum") - TOLERANCE, "{name}: {} below {expect}", solution.mean_score);
        assert!((solution.zero_shift_mean_score - number(&expect, "zero_shift_score")).abs() < TOLERANCE, "{name}");
        let paper = cassini(&scenario);
        assert!((paper.mean_score - number(&expect, "grid5_score")).abs() < TOLERANCE, "{name}: grid {} not {expect}", paper.mean_score);
        let truth = paper.links[0].true_score;
        assert!(truth <= solution.mean_score + TOLERANCE, "{name}: the grid's shifts beat the optimum");
    }
}

#[test]
fn trees_are_at_least_as_good_as_exact_links_and_algorithm_1() {
    for (name, scenario, expect) in read("tree") {
        let solution = exact(&name, &scenario);
        assert!(solution.mean_score >= number(&expect, "exact_bfs_mean") - TOLERANCE, "{name}: {} below {expect}", solution.mean_score);
        let paper = cassini(&scenario);
        assert_eq!(paper.outcome, Outcome::Solved, "{name}");
        let zero: Vec<f64> = expect["zero_shift_link_scores"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();
        assert!((solution.zero_shift_mean_score - zero.iter().sum::<f64>() / zero.len() as f64).abs() < TOLERANCE, "{name}");
    }
}

#[test]
fn loops_reach_the_joint_optimum_and_paper_mode_refuses_them() {
    for (name, scenario, expect) in read("loop") {
        let solution = exact(&name, &scenario);
        assert!(solution.mean_score >= number(&expect, "joint_optimum_mean") - TOLERANCE, "{name}: {} below {expect}", solution.mean_score);
        assert_eq!(cassini(&scenario).outcome, Outcome::Loop, "{name}");
    }
}
