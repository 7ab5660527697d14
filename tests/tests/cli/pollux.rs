//! `antiphase reproduce pollux`, with measurements of our own. Those of its authors take minutes, so `make bench` plays them.

use std::fs;

use crate::{
    process::{antiphase, number},
    refusal::line,
    scratch::Scratch,
};

/// Applications: epochs, and batches with which their learning was measured.
const APPLICATIONS: [(&str, usize, &[u32]); 6] = [
    ("cifar10", 100, &[128, 256, 512, 1_024, 2_048, 4_096]),
    ("bert", 2, &[12, 24, 48, 96, 192, 384]),
    ("deepspeech2", 80, &[20, 40, 80, 160, 320, 640]),
    ("imagenet", 90, &[200, 400, 800, 1_600, 3_200, 6_400, 12_800]),
    ("yolov3", 50, &[8, 16, 32, 64, 128, 256, 512]),
    ("ncf", 10, &[256, 512, 1_024, 2_048, 4_096, 8_192, 16_384, 32_768]),
];

/// The files of an application that needs some minutes of one GPU, as the authors' simulator has them.
fn files() -> Vec<(String, String)> {
    let mut files = Vec::new();
    for (name, epochs, batches) in APPLICATIONS {
        let (least, most) = (batches[0] / 4, batches[0]);
        let time = |samples: u32, nodes: usize, gpus: u32| {
            let sync_s = if nodes > 1 { 0.02 } else { 0.005 } * f64::from(gpus - 1).min(4.0);
            format!("{samples},{},{sync_s}\n", 0.02 + 0.08 * f64::from(samples) / f64::from(most) + sync_s)
        };
        let mut placements = String::from("placement,local_bsz,step_time,sync_time\n");
        for placement in ["1", "2", "3", "4", "11", "12", "22", "13", "14", "24", "34", "44"] {
            let gpus = placement.bytes().map(|digit| u32::from(digit - b'0')).sum();
            for samples in [least, most] {
                placements += &format!("{placement},{}", time(samples, placement.len(), gpus));
            }
        }
        let mut scalability = String::from("num_nodes,num_replicas,local_bsz,step_time,sync_time\n");
        for nodes in [4, 8, 16_u32] {
            for samples in [least, most] {
                scalability += &format!("{nodes},{},{}", nodes * 4, time(samples, nodes as usize, nodes * 4));
            }
        }
        files.push((format!("traces/{name}/placements.csv"), placements));
        files.push((format!("traces/{name}/scalability.csv"), scalability));
        for batch in batches {
            let row = |epoch: usize| format!("{},1,1,1.0,{}\n", 3_000 * (epoch + 1) / epochs, 2 + epoch);
            let rows: String = (0..epochs).map(row).collect();
            files.push((format!("traces/{name}/validation-{batch}.csv"), format!("progress,iteration,metric,grad_sqr,grad_var\n{rows}")));
        }
    }
    files.push((String::from("workloads/workload-2.csv"), workload("bert", 3)));
    files
}

fn workload(application: &str, jobs: usize) -> String {
    let job = |at: usize| format!("job-{at},{},{application},1,96\n", 20 * at);
    format!("name,time,application,num_replicas,batch_size\n{}", (0..jobs).map(job).collect::<String>())
}

#[test]
fn both_searches_of_pollux_stand_beside_what_was_published() {
    let scratch = Scratch::with("pollux", &files());
    let (report, data) = (scratch.path("report.html"), scratch.path(""));
    let run = antiphase(&["reproduce", "pollux", "--data", &data, "--quick", "--report", &report, "-o", "json"]);
    // These jobs are not theirs, and far shorter.
    run.expect(1);
    let answer = run.json();
    assert_eq!((&answer["schema"], &answer["workloads"]), (&"antiphase.reproduce-pollux/v1".into(), &serde_json::json!([2])));
    let rows = answer["rows"].as_array().expect("rows");
    let settings: Vec<&str> = rows.iter().filter_map(|row| row["setting"].as_str()).collect();
    assert_eq!(settings, ["avoided", "allowed, nothing lost", "allowed, 25 % lost", "allowed, 50 % lost"]);
    for row in rows {
        // A round of waiting, and a restart of 30 s.
        assert!(number(&row["ours_h"]) * 3_600.0 > 50.0 && number(&row["published_h"]) > 0.9, "{row}");
        assert!((number(&row["ours_h"]) / number(&row["published_h"]) - number(&row["over_published"])).abs() < 1e-9);
        assert_eq!(row["exact_h"].is_number(), row["setting"] == "avoided", "the exact search always avoids");
    }
    let decisions = answer["decisions"].as_array().expect("decisions");
    assert_eq!(decisions.len(), 3);
    // Breeding ten thousand placements takes longer than choosing counts: the command says how many times as long.
    assert!(number(&decisions[1]["over_exact"]) > 5.0 && number(&decisions[2]["over_exact"]) == 1.0, "{answer}");
    let page = fs::read_to_string(&report).expect("a report");
    assert!(page.contains("Pollux, reproduced") && page.contains("allowed, 50 % lost") && page.contains("exact, ours"));
}

#[test]
fn what_a_folder_of_pollux_lacks_is_said_in_one_line() {
    let without = |name: &str| files().into_iter().filter(|(file, _)| file != name).collect::<Vec<_>>();
    let cases = [
        ("workload", "workloads/workload-2.csv", "neither workloads/workload-6.csv nor pollux/workloads/tuned-6.csv is there"),
        (
            "learning",
            "traces/bert/validation-48.csv",
            "neither traces/bert/validation-48.csv nor sia/profiles/bert/validation-48.csv is there",
        ),
        ("placements", "traces/ncf/placements.csv", "neither traces/ncf/placements.csv nor sia/profiles/ncf/placements-aws.csv is there"),
    ];
    for (name, file, said) in cases {
        let scratch = Scratch::with(&format!("pollux-{name}"), &without(file));
        let run = antiphase(&["reproduce", "pollux", "--data", &scratch.path("")]);
        assert!(run.code == Some(2) && line(&run).contains(said), "{name}: {:?} {}", run.code, run.stderr);
    }
    let mut unknown = without("workloads/workload-2.csv");
    unknown.push((String::from("workloads/workload-2.csv"), workload("gpt", 1)));
    let scratch = Scratch::with("pollux-unknown", &unknown);
    let run = antiphase(&["reproduce", "pollux", "--data", &scratch.path("")]);
    assert!(run.code == Some(2) && line(&run).contains("unknown application \"gpt\""), "{:?} {}", run.code, run.stderr);
}
