//! `antiphase reproduce deepshare`: with tables of our own, and with those of its authors where they are.

use std::fs;

use antiphase_tests::data_dir;

use crate::{
    process::{antiphase, number},
    refusal::line,
    scratch::Scratch,
};

const MODELS: [&str; 6] = ["MobileNetV3", "GraphSage", "FSDP", "Transformer-XL", "DLRM", "MoE"];
const SPREADS: [(u32, u32); 6] = [(2, 2), (4, 2), (4, 4), (8, 2), (8, 4), (8, 8)];

/// The files of a folder as the authors have it; models of one half take each other 0.4 of their speed, and others nothing.
fn files() -> Vec<(&'static str, String)> {
    let row = |model: usize, (gpus, nodes): (u32, u32)| format!("\"{},{gpus},{nodes}\"", MODELS[model]);
    let all: Vec<(usize, String)> = (0..MODELS.len()).flat_map(|model| SPREADS.map(move |spread| (model, row(model, spread)))).collect();
    let names: Vec<&str> = all.iter().map(|(_, name)| name.as_str()).collect();
    let mut alone = String::from(",isol_thp\n");
    let mut beside = format!(",{}\n", names.join(","));
    for (model, name) in &all {
        alone += &format!("{name},10.0\n");
        let shares: Vec<&str> = all.iter().map(|(other, _)| if model / 3 == other / 3 { "0.62" } else { "1.0" }).collect();
        beside += &format!("{name},{}\n", shares.join(","));
    }
    // With the mark that spreadsheets put before a text.
    let samples = format!("\u{feff},2,4,8\n{}", MODELS.map(|model| format!("{model},15000,15000,15000\n")).concat());
    let job = |at: usize| {
        let (model, gpus) = (MODELS[at % 6], [2, 4, 8][at / 6 % 3]);
        format!("\"{at}\": {{\"model\": \"{model}\", \"gpu_demand\": {gpus}, \"total_samples_to_train\": 15000.0}}")
    };
    let trace = |jobs: usize| format!("{{{}}}", (0..jobs).map(job).collect::<Vec<_>>().join(", "));
    vec![
        ("jobs/isolated_thp.csv", alone),
        ("jobs/shared_thp_ratio.csv", beside),
        ("jobs/total_samples_trained.csv", samples),
        ("traces/simulate/trace0", trace(24)),
        ("traces/real/trace0", trace(18)),
    ]
}

#[test]
fn rules_and_a_learned_policy_stand_side_by_side() {
    let scratch = Scratch::with("deepshare", &files());
    let report = scratch.path("report.html");
    let data = scratch.path("");
    let run = antiphase(&["reproduce", "deepshare", "--data", &data, "--quick", "--seeds", "1", "--report", &report, "-o", "json"]);
    run.expect(0);
    let answer = run.json();
    assert_eq!((&answer["schema"], &answer["drawn"]), (&"antiphase.reproduce-deepshare/v1".into(), &1.into()));
    let jobs: Vec<u64> = answer["traces"].as_array().expect("traces").iter().map(|trace| trace["jobs"].as_u64().expect("jobs")).collect();
    assert_eq!(jobs, [24, 18]);
    let rows = answer["traces"][0]["rows"].as_array().expect("rows");
    // Ten rules, five policies of others, and ours.
    assert_eq!(rows.len(), 16);
    let of = |name: &str| rows.iter().find(|row| row["rule"] == name).unwrap_or_else(|| panic!("no row {name}"));
    for row in rows.iter().filter(|row| !row["ours"].is_null()) {
        let ours = &row["ours"];
        // A job trains for 1,500 s alone: five rounds. Who waits is not done sooner than who runs.
        assert!(number(&ours["ran_h"]) >= 1_500.0 / 3_600.0 - 1e-9 && number(&ours["completion_h"]) >= number(&ours["ran_h"]), "{row}");
        assert!((0.0..=1.0).contains(&number(&ours["used"])) && (0.35..=1.0).contains(&number(&ours["share"])), "{row}");
    }
    // A greedy rule that asks for much leaves everybody his speed.
    assert!(number(&of("greedy above 0.7")["ours"]["share"]) > number(&of("packing")["ours"]["share"]), "{answer}");
    let held = answer["held_out"].as_array().expect("rules");
    assert_eq!(held.len(), 11);
    assert!(held.iter().any(|row| row["rule"] == "greedy" && number(&row["over_greedy"]["mean"]) == 1.0), "{answer}");
    let page = fs::read_to_string(&report).expect("a report");
    assert!(page.contains("DeepShare, reproduced") && page.contains("learned policy") && page.contains("weights 0.3 and 0.7"));
}

#[test]
fn what_is_missing_or_wrong_in_the_folder_is_said_in_one_line() {
    let cases: [(&str, usize, &str, &str, &str); 8] = [
        ("no-row", 0, "\"MoE,8,8\"", "\"MoE,8,9\"", "no row \"MoE,8,8\""),
        ("no-column", 1, "\"DLRM,4,4\"", "\"DLRM,4,5\"", "DLRM,4,4"),
        ("word", 1, "0.62", "much", "\"much\" is no number above 0"),
        ("nothing", 2, "15000", "0", "\"0\" is no number above 0"),
        ("model", 3, "\"FSDP\"", "\"GPT\"", "unknown model \"GPT\""),
        ("gpus", 3, "\"gpu_demand\": 4", "\"gpu_demand\": 3", "gpu_demand 3 is not 2, 4 or 8"),
        ("samples", 4, "15000.0", "-1.0", "total_samples_to_train -1 is not above 0"),
        ("json", 4, "{\"0\"", "[\"0\"", "an object of jobs"),
    ];
    for (name, file, from, to, said) in cases {
        let mut files = files();
        assert!(files[file].1.contains(from), "{name}");
        files[file].1 = files[file].1.replacen(from, to, 1);
        let scratch = Scratch::with(&format!("deepshare-{name}"), &files);
        let run = antiphase(&["reproduce", "deepshare", "--quick", "--data", &scratch.path("")]);
        assert!(run.code == Some(2) && line(&run).contains(said), "{name}: {:?} {}", run.code, run.stderr);
    }
    let run = antiphase(&["reproduce", "deepshare", "--data", "/nowhere"]);
    assert!(run.code == Some(2) && line(&run).contains("neither isolated_thp.csv nor jobs/isolated_thp.csv"), "{}", run.stderr);
}

/// The simulator of DeepShare's authors, run again, gave the same to the digit for their baselines and for the greedy rules.
#[test]
fn rules_of_deepshare_take_as_long_as_in_the_authors_simulator() {
    let Some(data) = data_dir() else {
        println!("skipped: ANTIPHASE_DATA is not set, and DeepShare's tables are not ours to ship");
        return;
    };
    let run = antiphase(&["reproduce", "deepshare", "--data", data.to_str().expect("UTF-8"), "--quick", "--seeds", "1", "-o", "json"]);
    run.ok();
    let answer = run.json();
    let mut compared = 0;
    for row in answer["traces"].as_array().expect("traces").iter().flat_map(|trace| trace["rows"].as_array().expect("rows")) {
        if row["ours"].is_null() || row["peer"].is_null() {
            continue;
        }
        for (figure, digit) in
            [("ran_h", 1e-3), ("ran_p99_h", 1e-3), ("used", 1e-3), ("share", 1e-3), ("completion_h", 1e-2), ("makespan_h", 1e-2)]
        {
            let (peer, ours) = (number(&row["peer"][figure]), number(&row["ours"][figure]));
            // Rounded half to even there.
            assert!((peer - ours).abs() <= 0.500_1 * digit, "{figure}: {row}");
        }
        compared += 1;
    }
    assert_eq!(compared, 12);
}
