//! `antiphase reproduce`.

use std::fs;

use antiphase_tests::data_dir;

use crate::{
    process::{antiphase, antiphase_reading, document},
    refusal::{changed, refusals},
};

#[test]
fn a_group_is_computed_again() {
    // Two A2C on one GPU, load 514 ms and GPU 14 ms each: the second loads while the first does, one phase later. The recurrence ends its
    // phases at 0, 514, 528 and 542 ms, and repeats. Sharing costs 1.33/1.015 of that: 710.2069 ms. Efficiency: 2 (514 + 14) / (4 * 710.2069).
    // Alone an iteration takes 517 * 1.015 ms, so both together do 1.4778 of one. Where they change roles they take 2 * 514 ms, which is worst.
    assert_eq!(antiphase(&["reproduce", "muri", "--groups", "groups.csv"]).ok(), "1 groups compared, 0 differ\n");
}

#[test]
fn a_value_that_differs_is_printed_and_ends_with_exit_code_1() {
    let good = document("groups.csv");
    let changes = [
        ("542.0,", "542.2,", "T_best_raw_ms 542.2"),
        ("0.371723", "0.371725", "gamma_best"),
        (",0,0/1", ",1,0/1", "autopack"),
        ("0/1\n", "0/-/1\n", "0/1"),
        ("0/1\n", "0/2\n", "0/1"),
    ];
    for (from, to, said) in changes {
        let run = antiphase_reading(&["reproduce", "muri", "--groups", "-"], changed(&good, from, to).as_bytes());
        let out = run.expect(1);
        assert!(out.starts_with("line 2: a2c+a2c on 1 GPUs: ") && out.contains(said), "{out}");
        assert!(out.ends_with("1 groups compared, 1 differ\n"), "{out}");
    }
}

/// Found by somebody who computed the rows himself: which of equal members comes first is nobody's rule.
#[test]
fn an_order_that_reaches_the_same_period_is_no_difference() {
    let other = changed(&document("groups.csv"), "0/1\n", "1/0\n");
    assert_eq!(antiphase_reading(&["reproduce", "muri", "--groups", "-"], other.as_bytes()).ok(), "1 groups compared, 0 differ\n");
}

#[test]
fn groups_that_are_none_are_refused() {
    let good = document("groups.csv");
    let row = |from: &str, to: &str| changed(&good, from, to);
    let cases = [
        ("no rows", good.lines().next().unwrap_or_default().to_owned()),
        ("a column is missing", row("gamma_best", "gamma")),
        ("a field is missing", row(",0,0/1", ",0")),
        ("unknown model", row("a2c+a2c", "a2c+resnet50")),
        ("a count that is not that of the names", row("1,2,a2c", "1,3,a2c")),
        ("one job", row("1,2,a2c+a2c", "1,1,a2c")),
        ("GPUs that were not measured", row("\n1,2", "\n3,2")),
        ("negative GPUs", row("\n1,2", "\n-1,2")),
        ("not a number", row("710.2069", "nan")),
        ("a word", row("710.2069", "fast")),
        ("neither 0 nor 1", row(",0,0/1", ",2,0/1")),
        ("a column twice", row("sum_norm_throughput", "gamma_best(again)")),
        ("Windows line ends", row("710.2069", "nan").replace('\n', "\r\n")),
        ("blank lines", row("\n1,2", "\n\n\n1,2").replace("710.2069", "nan")),
        ("a field is missing behind a blank line", row("\n1,2", "\n\n1,2").replace(",0,0/1", ",0")),
        ("empty", String::new()),
    ];
    refusals("groups", &["reproduce", "muri", "--groups", "DOCUMENT"], cases);
}

#[test]
fn all_groups_that_were_computed_by_the_authors_code_agree() {
    let Some(data) = data_dir() else { return };
    let file = data.join("muri/golden_groups.csv");
    let rows = fs::read_to_string(&file).expect("the file can be read").lines().count() - 1;
    let run = antiphase(&["reproduce", "muri", "--groups", file.to_str().expect("a path in UTF-8")]);
    assert_eq!(run.ok(), format!("{rows} groups compared, 0 differ\n"));
}

/// Any trace of the form does for the program; what the authors' own give is a question of data that are not ours.
#[test]
fn policies_over_muri_stand_beside_what_was_published() {
    let scratch = crate::scratch::Scratch::new("reproduce-muri");
    for name in ["testbed_400.csv", "trace3.csv"] {
        scratch.file(name, document("trace.csv"));
    }
    let folder = scratch.folder().to_str().expect("UTF-8").to_owned();
    let report = scratch.path("report.html");
    let arguments = ["reproduce", "muri", "--traces", &folder, "--quick", "--report", &report, "-o", "json"];
    let run = antiphase(&arguments);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let answer = run.json();
    let rows = answer["rows"].as_array().expect("rows");
    // Four policies on the testbed, and five twice on the third trace; three figures of each.
    assert_eq!(rows.len(), 3 * (4 + 5));
    let number = |row: &serde_json::Value, field: &str| row[field].as_f64().expect("a number");
    assert!(rows.iter().all(|row| number(row, "artifact") > 0.0 && number(row, "paper") > 0.0 && number(row, "published") >= 1.0));
    assert!(fs::read_to_string(&report).expect("a report").contains("Muri, reproduced"));
    assert!(antiphase(&["reproduce", "muri"]).stderr.contains("--groups"));
    let none = antiphase(&["reproduce", "muri", "--traces", "/nowhere"]);
    assert!(none.code == Some(2) && none.stderr.contains("testbed_400.csv"), "{}", none.stderr);
}

/// With the authors' traces: what their simulator reproduces, this reproduces.
#[test]
fn the_testbed_s_ratios_are_near_those_that_were_measured() {
    let Some(data) = data_dir() else {
        println!("skipped: ANTIPHASE_DATA is not set, and Muri's traces are not ours to ship");
        return;
    };
    let folder = data.join("muri/traces");
    let run = antiphase(&["reproduce", "muri", "--traces", folder.to_str().expect("UTF-8"), "--quick", "-o", "json"]);
    run.ok();
    let answer = run.json();
    for row in answer["rows"].as_array().expect("rows").iter().filter(|row| row["policy"] != "Themis") {
        let (published, artifact) = (row["published"].as_f64().expect("a number"), row["artifact"].as_f64().expect("a number"));
        // A simulator beside a testbed, and figures of which some were made with another setting.
        assert!((artifact / published - 1.0).abs() < 0.1 || row["metric"] == "p99 completion", "{row}");
    }
}

/// Job c is pinned to one old GPU, so nobody can have four of them. Of what is left, b gains most by two new ones, and a takes an old one.
#[test]
fn a_round_of_sia_is_solved() {
    let run = antiphase(&["reproduce", "sia", "--ilp", "round.json"]);
    run.ok();
    let answer = run.json();
    let objective = answer["objective"].as_f64().expect("a number");
    assert!((objective - 2.2).abs() < 1e-9 && answer["proven"] == true, "{answer}");
    assert_eq!(answer["gpus_used"], serde_json::json!({"old": 2, "new": 2}));
    assert_eq!(answer["assignment"], serde_json::json!([0, 3, 0]));
    let solve = |document: &str| antiphase_reading(&["reproduce", "sia", "--ilp", "-"], document.as_bytes());
    // The largest sum: a has 1.0, b 1.0, c is pinned.
    let largest = changed(&document("round.json"), "minimise", " MAXIMISE").replace("1.1", "-1.1");
    assert!((solve(&largest).json()["objective"].as_f64().expect("a number") - 3.0).abs() < 1e-9);
    // With a byte order mark, as some editors write it, and in each form that is asked for.
    let marked = format!("\u{feff}{}", document("round.json"));
    let asked = |form: &str| antiphase_reading(&["reproduce", "sia", "--ilp", "-", "-o", form], marked.as_bytes());
    assert_eq!(asked("json").json()["assignment"], answer["assignment"]);
    assert!(asked("yaml").ok().lines().any(|line| line == "proven: true"));
    let told = changed(&document("round.json"), "\"sense\"", "\"optimum\": {\"objective\": 2.21}, \"sense\"");
    assert_eq!(solve(&told).code, Some(1));
    assert_eq!(solve(&told.replace("2.21", "2.2")).code, Some(0));
}

#[test]
fn rounds_that_are_none_are_refused() {
    let good = document("round.json");
    let with = |from: &str, to: &str| changed(&good, from, to);
    let cases = [
        ("a capacity is missing", with("[4, 2]", "[4]")),
        ("a negative capacity", with("[4, 2]", "[4, -2]")),
        ("too large a capacity", with("[4, 2]", "[4, 20000]")),
        ("an unknown type", with("\"old\", \"nodes\": 1, \"gpus\": 1", "\"odd\", \"nodes\": 1, \"gpus\": 1")),
        ("a type twice", with("[\"old\", \"new\"]", "[\"old\", \"old\"]")),
        (
            "too many types",
            with("[\"old\", \"new\"]", &format!("{:?}", (0..256).map(|i| i.to_string()).collect::<Vec<_>>()))
                .replace("[4, 2]", &format!("{:?}", [1; 256])),
        ),
        ("neither least nor largest", with("minimise", "optimise")),
        ("a cost is missing", with("[1.0, 0.4, 0.7, 0.5]", "[1.0, 0.4, 0.7]")),
        ("a cost that is too large", with("0.7", "1e300")),
        ("a cost that is a word", with("0.7", "\"much\"")),
        ("an unknown job is pinned", with("[2, 0]", "[3, 0]")),
        ("pinned to an unknown configuration", with("[2, 0]", "[2, 4]")),
        ("pinned jobs that do not fit", with("[[2, 0]]", "[[2, 1], [1, 1]]")),
        ("pinned twice", with("[[2, 0]]", "[[2, 0], [2, 1]]")),
        ("a configuration of no GPUs", with("\"nodes\": 1, \"gpus\": 1", "\"nodes\": 1, \"gpus\": 0")),
        ("a list", "[]".to_owned()),
        ("a list for a configuration", with("\"configs\": [", "\"configs\": [[],")),
        ("no configurations", with("\"configs\"", "\"configurations\"")),
        ("not JSON", "jobs: 3".to_owned()),
        ("something behind it", format!("{good} 1")),
        ("empty", String::new()),
    ];
    refusals("rounds", &["reproduce", "sia", "--ilp", "DOCUMENT"], cases);
}

#[test]
fn rounds_of_the_authors_simulator_are_solved_to_the_optimum() {
    let Some(data) = data_dir() else {
        println!("skipped: ANTIPHASE_DATA is not set, and Sia's rounds are not ours to ship");
        return;
    };
    let mut solved = 0;
    for file in fs::read_dir(data.join("sia/ilp")).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        let run = antiphase(&["reproduce", "sia", "--ilp", file.to_str().expect("UTF-8")]);
        run.ok();
        assert_eq!(run.json()["proven"], true, "{}", file.display());
        solved += 1;
    }
    assert!(solved >= 6, "{solved} files");
}

/// With the data of Sia's authors. Their simulator, run again, gave 0.512 h under Sia and 0.721 h under Gavel.
#[test]
fn forty_jobs_of_sia_take_as_long_as_with_the_authors_simulator() {
    let none = antiphase(&["reproduce", "sia", "--traces", "/nowhere"]);
    assert!(none.code == Some(2) && none.stderr.contains("workload-1.csv"), "{}", none.stderr);
    let Some(data) = data_dir() else {
        println!("skipped: ANTIPHASE_DATA is not set, and Sia's traces are not ours to ship");
        return;
    };
    let folder = data.join("sia");
    let run = antiphase(&["reproduce", "sia", "--traces", folder.to_str().expect("UTF-8"), "--quick", "-o", "json"]);
    run.ok();
    let answer = run.json();
    let rows = answer["rows"].as_array().expect("rows");
    let number = |row: &serde_json::Value, field: &str| row[field].as_f64().expect("a number");
    for row in rows.iter().filter(|row| row["metric"] == "mean completion, h") {
        assert!((number(row, "artifact") / number(row, "peer") - 1.0).abs() < 0.03, "{row}");
    }
}

/// Two seeds of twelve jobs: what seeing brings there is no promise, and that iterations are longer where nobody sees is.
#[test]
fn what_seeing_the_network_brings_sia_is_told() {
    let answer = antiphase(&["reproduce", "sia", "--network", "--quick", "--seeds", "2", "-o", "json"]).json();
    assert_eq!(
        (&answer["schema"], &answer["seeds"], &answer["jobs"]),
        (&"antiphase.reproduce-sia-network/v1".into(), &2.into(), &12.into())
    );
    let rows = answer["rows"].as_array().expect("rows");
    let longer = |control: &str, sight: &str| {
        let row = rows.iter().find(|row| row["control"] == control && row["sight"] == sight).expect("a row");
        row["longer"]["mean"].as_f64().expect("a number")
    };
    for control in ["free", "turns"] {
        assert!(longer(control, "blind") > 1.0 && longer(control, "inside") < longer(control, "blind"), "{answer}");
    }
    assert!(answer["all"]["mean"].as_f64().is_some_and(|all| all > 1.0), "{answer}");
    let both = antiphase(&["reproduce", "sia", "--network", "--traces", "/nowhere"]);
    assert!(both.code == Some(2), "{}", both.stderr);
}

#[test]
fn placers_that_learn_and_others_stand_side_by_side() {
    let scratch = crate::scratch::Scratch::new("reproduce-harmony");
    let report = scratch.path("report.html");
    let run = antiphase(&["reproduce", "harmony", "--quick", "--report", &report, "-o", "json"]);
    run.expect(0);
    let answer = run.json();
    assert_eq!((&answer["schema"], &answer["mixes"]), (&"antiphase.reproduce-harmony/v1".into(), &2.into()));
    let number = |value: &serde_json::Value| value.as_f64().expect("a number");
    for felt in answer["interference"].as_array().expect("kinds") {
        // Others never help, and the worst is no better than the mean.
        assert!(
            number(&felt["apart"]) >= number(&felt["beside_mean"]) && number(&felt["beside_mean"]) >= number(&felt["beside_least"]),
            "{felt}"
        );
    }
    let loads = answer["loads"].as_array().expect("loads");
    assert_eq!(loads.len(), 1);
    let rows = loads[0]["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 9);
    // Alike to the same mixes of the other command.
    let judged = antiphase(&["learn", "evaluate", "--mixes", "2", "-o", "json"]).json();
    assert_eq!(answer["made_by"], judged["made_by"]);
    assert!(judged["mix"]["load_permille"] != 500 || judged["rows"].as_array() == Some(rows), "{judged}");
    let page = fs::read_to_string(&report).expect("a report");
    assert!(page.contains("Harmony, reproduced") && page.contains("learned policy") && page.contains("curve j1"));
    let none = antiphase(&["reproduce", "harmony", "--model", "/nowhere"]);
    assert!(none.code == Some(2) && none.stderr.lines().count() == 1, "{}", none.stderr);
}
