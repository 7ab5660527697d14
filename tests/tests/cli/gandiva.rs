//! Gandiva: its figures, and jobs of a trace that grow onto idle GPUs.

use serde_json::Value;

use crate::{
    process::{antiphase, antiphase_reading, document},
    refusal::{changed, refused},
};

#[test]
fn jobs_that_grow_are_done_sooner_and_a_gpus_max_that_is_none_is_refused() {
    let scratch = crate::scratch::Scratch::new("growth");
    let events = scratch.path("events.jsonl");
    let arguments = ["sim", "run", "--trace", "growing.csv", "--format", "antiphase", "--nodes", "4", "-o", "json", "--policy"];
    let play = |more: &[&str]| {
        let run = antiphase(&[&arguments[..], more].concat());
        run.expect(0);
        run.json()
    };
    let with = play(&["gandiva", "--events", &events]);
    let without = play(&["gandiva", "--no-growth"]);
    let mean = |answer: &Value| answer["avg_jct_s"].as_f64().expect("a number");
    assert!(mean(&with) < 0.8 * mean(&without), "{with} {without}");
    assert!(with["grown"].as_u64() > with["shrunk"].as_u64() && with["shrunk"].as_u64() > Some(0), "{with}");
    assert!(with["grown_gpu_s"].as_f64() > Some(0.0) && without["grown"].is_null() && play(&["srtf"])["grown"].is_null());
    let lines = std::fs::read_to_string(&events).expect("events");
    let count = |event: &str| lines.lines().filter(|line| line.contains(&format!("\"event\":\"{event}\""))).count() as u64;
    assert_eq!((Some(count("grow")), Some(count("shrink"))), (with["grown"].as_u64(), with["shrunk"].as_u64()));
    // An option that does nothing is refused, and what cannot be grown to with its file, line and value.
    let refuse =
        |arguments: &[&str]| refused(&[&["sim", "run", "--trace", "growing.csv", "--format", "antiphase"], arguments].concat(), b"");
    assert_eq!(refuse(&["--policy", "srtf", "--no-growth"]), "--no-growth: under --policy srtf no job grows");
    let small = refuse(&["--nodes", "1", "--gpus-per-node", "6", "--policy", "gandiva"]);
    assert_eq!(small, "growing.csv: line 2: gpus_max 8 of job \"vgg16-1\"; 1 hosts have 6");
    let own = |text: &str| refused(&["sim", "run", "--trace", "-", "--format", "antiphase", "--policy", "gandiva"], text.as_bytes());
    let first = |gpus_max: &str| own(&changed(&document("growing.csv"), "vgg16-1,0,4,8", &format!("vgg16-1,0,4,{gpus_max}")));
    assert_eq!(first("3"), "-: line 2: gpus_max \"3\" must be a whole number, of at least gpus");
    for wrong in ["0", "-8", "8.5", "many", "4294967296"] {
        assert!(first(wrong).contains(&format!("line 2: gpus_max \"{wrong}\" must be a whole number above 0")));
    }
    let beside = own("job_id,submit_s,gpus,gpus_max,iterations,model\na,0,2,4,500,vgg16\n");
    assert_eq!(beside, "-: line 2: gpus_max stands beside model; give one of them");
}

#[test]
fn jobs_of_more_weight_have_longer_turns_and_a_weight_that_is_none_is_refused() {
    let arguments = ["sim", "run", "--trace", "-", "--format", "antiphase", "--nodes", "1", "--policy", "gandiva"];
    let trace = |weight: &str| {
        format!("job_id,submit_s,gpus,iterations,iteration_ms,restart_s,weight\na,0,8,300,1000,0,{weight}\nb,0,8,300,1000,0,\n")
    };
    let mean = |weight: &str| {
        let run = antiphase_reading(&[&arguments[..], &["-o", "json"]].concat(), trace(weight).as_bytes());
        run.ok();
        run.json()["avg_jct_s"].as_f64().expect("a number")
    };
    // In equal turns, each of which costs 2 %, both end at 612 s; with two thirds of the time the first ends at 459 s, the other at 609 s.
    assert!((mean("") - 612.0).abs() < 1e-6 && (mean("2") - 534.0).abs() < 1e-6, "{} {}", mean(""), mean("2"));
    assert_eq!(refused(&arguments, trace("1001").as_bytes()), "-: line 2: weight \"1001\" must be a whole number from 1 to 1000");
}

#[test]
fn the_figures_of_gandiva_are_printed_beside_ours() {
    let scratch = crate::scratch::Scratch::new("reproduce-gandiva");
    let report = scratch.path("report.html");
    let run = antiphase(&["reproduce", "gandiva", "--quick", "-o", "json", "--report", &report]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let answer = run.json();
    let ours = |figure: &str| {
        let rows = answer["rows"].as_array().expect("rows");
        let row = rows.iter().find(|row| row["figure"] == figure).expect("a figure");
        row["ours"]["mean"].as_f64().expect("a number")
    };
    // Each turn is charged 2 %, and a restart is paid once in hours.
    assert!((0.9..=0.981).contains(&ours("time slicing")), "{answer}");
    // Ten trials for each GPU: the last of those that wait begins after nine others, and has a tenth of ten to wait for among those that take turns.
    assert!((7.0..20.0).contains(&ours("feedback")), "{answer}");
    assert!(ours("packing") > 1.0, "{answer}");
    // Nobody is twice as fast on twice the GPUs who sends, restarts, or has no idle GPUs beside it.
    assert!((1.05..2.0).contains(&ours("growth")), "{answer}");
    let page = std::fs::read_to_string(&report).expect("a report");
    assert!(page.contains("antiphase reproduce gandiva --quick --seeds 2") && page.contains("1.26") && !page.contains("<script"));
}
