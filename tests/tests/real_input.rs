//! scripts/real-input.sh, small: on a generated fabric always, on the Lingjun fabric where its data are.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use antiphase_tests::{checkout, data_dir};
use serde_json::Value;

/// Settings of the script.
const SETTINGS: usize = 7;

/// What the script runs: the variable that names it, and the target of cargo.
const PROGRAMS: [(&str, &str); 2] = [("ANTIPHASE_PROGRAM", "antiphase"), ("ANTIPHASE_PLAN_SUMMARY", "plan_summary")];

/// The programs, those that the variables name or those that cargo builds; as `tests/cli/process.rs` builds its program.
fn programs() -> [PathBuf; 2] {
    let named = PROGRAMS.map(|(variable, _)| env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from));
    if let [Some(program), Some(summary)] = named {
        return [program, summary];
    }
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let targets = ["--workspace", "--bin", "antiphase", "--example", "plan_summary", "--test", "real_input"];
    let mut command = Command::new(cargo);
    command.arg("build").args(targets).args(["--message-format", "json-render-diagnostics"]).current_dir(checkout());
    let built = command.stderr(Stdio::inherit()).output().unwrap();
    assert!(built.status.success(), "cargo build {} failed", targets.join(" "));
    let messages = String::from_utf8(built.stdout).unwrap();
    let executable = |target: &str| {
        let mut found = messages.lines().filter_map(|line| {
            let message: Value = serde_json::from_str(line).ok()?;
            (message["target"]["name"] == target).then(|| message["executable"].as_str().map(PathBuf::from))?
        });
        found.next_back().expect("cargo names the executable that it built")
    };
    let mut named = named.into_iter();
    PROGRAMS.map(|(_, target)| named.next().flatten().unwrap_or_else(|| executable(target)))
}

/// Output of the script for `source`: few jobs, few candidates, one round.
fn script(source: &Path) -> String {
    let mut command = Command::new("bash");
    command.arg(checkout().join("scripts/real-input.sh")).arg(source).args(["7", "1"]);
    for ((variable, _), program) in PROGRAMS.into_iter().zip(programs()) {
        command.env(variable, program);
    }
    command.env("JOBS", "100").env("CANDIDATES", "3");
    let output = command.output().expect("bash runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The numbers of table `number`: a row of cells per setting, `-` as NaN.
fn table(text: &str, number: usize) -> Vec<Vec<f64>> {
    let heading = text.match_indices("\nsetting ").nth(number).expect("a table").0;
    let rows = text[heading + 1..].lines().skip(1).take_while(|l| !l.is_empty());
    // The label takes the first 20 columns.
    rows.map(|row| row[20..].split_whitespace().map(|cell| cell.parse().unwrap_or(f64::NAN)).collect()).collect()
}

/// What must be true of any input.
fn check(text: &str) {
    let [links, scores, times, turns] = [0, 1, 2, 3].map(|n| table(text, n));
    assert!([&links, &scores, &times, &turns].iter().all(|t| t.len() == SETTINGS), "{text}");
    for row in &scores {
        let [unshifted, worst, mean, best, best_unshifted] = row[..5] else { panic!("{row:?}") };
        assert!(worst <= mean && mean <= best && best <= 1.0, "{row:?}");
        assert!(unshifted <= mean && best_unshifted <= best, "shifting never loses: {row:?}");
    }
    for row in &times {
        let [blind, blind_held, _, by_score, by_time] = row[..5] else { panic!("{row:?}") };
        assert!(1.0 <= by_time && by_time <= by_score, "the best time is the smallest: {row:?}");
        assert!(blind_held <= blind && by_time <= blind_held, "advice never loses: {row:?}");
    }
    for row in &turns {
        let [free, _, by_turns, _, best_free, _, best_by_turns] = row[..7] else { panic!("{row:?}") };
        assert!(by_turns <= free && best_by_turns <= best_free, "turns never lose: {row:?}");
        assert!(row[11] <= 1.01, "nobody is more than 1 % slower than free: {row:?}");
    }
    // Jobs of one model and batch have one period on these hosts, and lock; those of two models do not.
    let lockable = |row: usize| links[row][4];
    assert!((lockable(5) - 1.0).abs() < 1e-9 && lockable(6) < 1.0, "{text}");
    assert!(links[0][2] < links[2][2], "fewer uplinks, more contended links: {text}");
}

#[test]
fn a_generated_fabric_is_summed_up() {
    check(&script(Path::new("--generated")));
}

#[test]
fn the_lingjun_fabric_is_summed_up() {
    let Some(data) = data_dir() else { return };
    let file = data.join("traces/alibaba-lingjun-2023/topo.csv");
    assert!(file.is_file(), "{} is not there", file.display());
    check(&script(&file));
}
