//! `antiphase learn`.

use std::fs;

use antiphase_tests::checkout;

use crate::{
    process::{antiphase, antiphase_reading},
    refusal::{changed, refusals},
    scratch::Scratch,
};

/// The hash of no bytes.
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn shipped() -> String {
    fs::read_to_string(checkout().join("models/harmony.json")).expect("the model that the program has with it")
}

/// A field's text, between its quotes.
fn field<'a>(model: &'a str, name: &str) -> &'a str {
    let (_, behind) = model.split_once(&format!("\"{name}\": \"")).expect("the field");
    behind.split_once('"').expect("its end").0
}

#[test]
fn the_help_prints_the_command_that_made_the_model() {
    let help = antiphase(&["learn", "train", "--help"]).expect(0).to_owned();
    let made_by = shipped();
    let command = format!("{} --model harmony.json", field(&made_by, "made_by"));
    assert!(help.lines().any(|line| line.trim() == command), "{command}: {help}");
}

#[test]
fn the_same_seed_trains_the_same_bytes() {
    let scratch = Scratch::new("learn-train");
    let train = |seed: &str, name: &str| {
        let run = antiphase(&["learn", "train", "--quick", "--seed", seed, "--model", &scratch.path(name), "-o", "json"]);
        run.expect(0);
        (run.json(), run.stderr, fs::read_to_string(scratch.path(name)).expect("a model"))
    };
    let (answer, said, first) = train("3", "first");
    assert_eq!(train("3", "second").2, first);
    assert_ne!(train("4", "third").2, first);
    assert_eq!((field(&first, "schema"), &answer["schema"]), ("antiphase.harmony-model/v1", &"antiphase.learn-train/v1".into()));
    assert_eq!(field(&first, "made_by"), "antiphase learn train --seed 3 --rounds 2 --quick");
    assert_eq!(answer["sha256"], field(&first, "sha256"));
    // A line for each round, with all that is known of it.
    let rounds: Vec<&str> = said.lines().filter(|line| line.starts_with("improve ")).collect();
    assert_eq!(rounds.len(), 2, "{said}");
    assert!(rounds.iter().all(|line| ["loss ", "reward ", "over greedy "].iter().all(|part| line.contains(part))), "{said}");
    // Before anything, after imitation, two rounds and one in the true world; the best of them was kept.
    let curve: Vec<f64> =
        answer["curve"].as_array().expect("a curve").iter().map(|p| p["over_greedy"].as_f64().expect("a number")).collect();
    assert_eq!(curve.len(), 5);
    assert_eq!(answer["over_greedy"].as_f64(), curve.into_iter().reduce(f64::min));
    // What was written can be read.
    let judged = antiphase(&["learn", "evaluate", &scratch.path("first"), "--mixes", "1", "-o", "json"]);
    judged.ok();
    assert_eq!(judged.json()["mix"]["jobs"], 20);
}

#[test]
fn the_shipped_model_is_judged_beside_others() {
    let run = antiphase(&["learn", "evaluate", "--mixes", "6", "-o", "json"]);
    run.ok();
    let answer = run.json();
    assert!(answer["made_by"].as_str().is_some_and(|command| command.starts_with("antiphase learn train --seed ")), "{answer}");
    let over_greedy = |placer: &str, knows: &str| {
        let row = answer["rows"].as_array().expect("rows").iter().find(|row| row["placer"] == placer && row["knows"] == knows);
        row.and_then(|row| row["over_greedy"]["mean"].as_f64()).expect("a figure")
    };
    assert!((over_greedy("greedy", "the truth") - 1.0).abs() < 1e-12);
    let learned = over_greedy("learned policy", "what it learned");
    assert!(learned < over_greedy("packing", "nothing"), "{answer}");
    // The file in the repository is the one in the program; another number of servers is no obstacle.
    let file = checkout().join("models/harmony.json");
    let arguments = ["learn", "evaluate", file.to_str().expect("UTF-8"), "--mixes", "1", "--servers", "9", "--jobs", "20", "-o", "json"];
    assert_eq!(antiphase(&arguments).json()["made_by"], answer["made_by"]);
}

#[test]
fn what_is_no_model_is_refused() {
    let good = shipped();
    let with = |from: &str, to: &str| changed(&good, from, to);
    let (policy, speeds, sha256) = (field(&good, "policy"), field(&good, "speeds"), field(&good, "sha256"));
    let cases = [
        ("another schema", with("harmony-model/v1", "harmony-model/v9")),
        ("no weights", with(policy, "").replacen(speeds, "", 1).replacen(sha256, EMPTY, 1)),
        ("weights that are none", with(policy, "fast!")),
        ("a field that is not known", with("\"sha256\"", "\"extra\": 1, \"sha256\"")),
        ("a field twice", with("\"sha256\"", "\"schema\": \"a\", \"sha256\"")),
        ("too many servers", with("\"servers\": 6", "\"servers\": 1000000")),
        ("no servers", with("\"servers\": 6", "\"servers\": 0")),
        ("a run time that is too long", with("\"run_ms\": 600000", "\"run_ms\": 18446744073709551615")),
        ("too many octaves", with("\"octaves\": 4", "\"octaves\": 64")),
        ("a text for a number", with("\"octaves\": 4", "\"octaves\": \"4\"")),
        ("a command without end", with("antiphase learn", &"antiphase ".repeat(200))),
        ("cut off", good[..good.len() / 2].to_owned()),
        ("something behind it", format!("{good} 1")),
        ("another document", "jobs: 3".to_owned()),
        ("empty", String::new()),
    ];
    refusals("models", &["learn", "evaluate", "DOCUMENT"], cases);
    // These lines have hashes, which another model would change.
    for other in [with(&policy[..4], "AAAA"), with(policy, &policy[..policy.len() / 2 / 4 * 4])] {
        let run = antiphase_reading(&["learn", "evaluate", "-"], other.as_bytes());
        assert!(run.code == Some(2) && run.stderr.starts_with(&format!("antiphase: -: sha256: {sha256:?}, but")), "{}", run.stderr);
        assert_eq!(run.stderr.lines().count(), 1);
    }
    let large = antiphase_reading(&["learn", "evaluate", "-"], &[b'{'; (4 << 20) + 1]);
    assert!(large.code == Some(2) && large.stderr.contains("larger than 4 MiB"), "{}", large.stderr);
}

#[test]
fn odd_numbers_are_mistakes_of_usage() {
    let cases: [&[&str]; 9] = [
        &["train", "--seed", "-1"],
        &["train", "--seed", "4294967296"],
        &["train", "--rounds", "100001"],
        &["train", "--servers", "2"],
        &["train", "--load", "0"],
        &["train", "--jobs", "1001"],
        &["evaluate", "--mixes", "0"],
        &["evaluate", "--servers", "65"],
        &["evaluate", "/nowhere"],
    ];
    for case in cases {
        let run = antiphase(&[&["learn"], case].concat());
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{}: {}", run.arguments, run.stderr);
    }
}
