//! Runs of the Muri authors' simulator, played again: average and 99th percentile of completion times, and makespan.
//!
//! Needs their traces and what their code printed: third-party data, which `ANTIPHASE_DATA` names.
#![forbid(unsafe_code)]

use std::{fs, path::Path};

use antiphase_tests::data_dir;
use policy::{
    muri::{Order, Timing},
    schedule::{Cluster, MuriOptions, Rule},
};
use serde_json::Value;
use sim::trace::{Setup, Trace, read_muri, run};

/// By how much a figure may differ, as a share of it. The decisions are the same ones, so only the last digits of sums may differ.
const TOLERANCE: f64 = 1e-9;

/// Runs that must have been compared, so that a renamed field does not pass as nothing to do.
const RUNS_MIN: usize = 40;

/// The policy of a run, `None` for one that is not built as theirs is.
fn rule(run: &Value) -> Option<Rule> {
    let muri = |durations_known, matching, order| {
        let group_max = run["packing_num"].as_u64().and_then(|n| u8::try_from(n).ok()).expect("packing_num");
        let autopack = run["autopack"].as_bool().expect("autopack");
        Some(Rule::Muri(MuriOptions { durations_known, group_max, order, matching, autopack, ..MuriOptions::default() }))
    };
    match run["policy"].as_str().expect("policy") {
        "shortest" => Some(Rule::Srtf),
        "shortest-gpu" => Some(Rule::Srsf),
        "dlas-gpu" => Some(Rule::TIRESIAS),
        "antman" => Some(Rule::AntMan),
        "multi-resource-blossom-same-gpu" => muri(true, true, Order::Best),
        "multi-resource-blossom-same-gpu-unaware" => muri(false, true, Order::Best),
        "multi-resource-blossom-same-gpu-unaware-worstordering" => muri(false, true, Order::Worst),
        "multi-resource-gpu-unaware" => muri(false, false, Order::Best),
        _ => None,
    }
}

/// A trace by the name that the runs have for it.
fn trace(data: &Path, name: &str) -> Trace {
    let read = |name: &str| {
        let file = data.join(format!("muri/traces/{name}.csv"));
        read_muri(&fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()))).expect("a trace")
    };
    match name {
        "cluster_trace" => read("testbed_400"),
        "testbed_first100" => {
            let mut trace = read("testbed_400");
            trace.jobs.truncate(100);
            trace
        }
        // The same jobs, all submitted at 0.
        _ => name.strip_suffix("_pr").map_or_else(
            || read(name),
            |name| {
                let mut trace = read(name);
                trace.jobs.iter_mut().for_each(|job| job.submitted_s = 0.0);
                trace
            },
        ),
    }
}

#[test]
fn the_peers_runs_are_reproduced() {
    let Some(data) = data_dir() else { return };
    let text = fs::read_to_string(data.join("muri_peer_results.json")).expect("muri_peer_results.json");
    let results: Value = serde_json::from_str(&text).expect("JSON");
    let mut compared = 0;
    for theirs in results["runs"].as_array().expect("runs").iter().filter(|run| run["complete"] == true) {
        let Some(rule) = rule(theirs) else { continue };
        let name = theirs["trace"].as_str().expect("trace");
        let setup = Setup { cluster: Cluster { hosts: 8, gpus_per_host: 8 }, rule, timing: Timing::Artifact, network: None, faults: None };
        let ours = run(&trace(&data, name), &setup).expect("a run");
        for (what, ours) in [("avg_jct_s", ours.mean_s()), ("p99_jct_s", ours.p99_s()), ("makespan_s", ours.makespan_s)] {
            let theirs = theirs[what].as_f64().expect("a number");
            assert!((ours / theirs - 1.0).abs() < TOLERANCE, "{name}, {rule:?}: {what} {ours}, theirs {theirs}");
        }
        compared += 1;
    }
    assert!(compared >= RUNS_MIN, "only {compared} runs compared");
}
