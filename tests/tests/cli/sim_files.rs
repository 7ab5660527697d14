//! `antiphase sim`: which files it writes, what it refuses before it plays, and that a trace may begin at any time of its clock.

use std::{collections::BTreeSet, fs};

use serde_json::Value;

use crate::{
    process::{antiphase, antiphase_reading},
    refusal::refused,
    scratch::Scratch,
};

const HEADER: &str = "job_id,submit_s,gpus,iterations,iteration_ms\n";
const SIA: &str = "name,time,application,num_replicas,batch_size\n";

fn trace(first_s: u32) -> String {
    let jobs = [("a", 0, 4, 3_600), ("b", 100, 8, 1_800), ("c", 4_000, 2, 900)];
    let row = |(id, at, gpus, iterations): (&str, u32, u32, u32)| format!("{id},{},{gpus},{iterations},1000\n", first_s + at);
    HEADER.to_owned() + &jobs.map(row).concat()
}

/// Every option that names a file to write, against the inputs and against each other, by every name that a file can have.
#[test]
fn no_output_is_written_over_an_input_or_over_another_output() {
    let scratch = Scratch::new("sim-files");
    let (good, others) = (trace(0), "former runs\n");
    let trace = scratch.file("trace.csv", &good);
    let (hard, soft, new) = (scratch.path("hard.csv"), scratch.path("soft.csv"), scratch.path("new"));
    fs::hard_link(&trace, &hard).expect("a link");
    std::os::unix::fs::symlink(&trace, &soft).expect("a link");
    let lines = scratch.file("lines.jsonl", others);
    let run = ["sim", "run", "--trace", &trace, "--format", "antiphase", "--policy", "srtf"];
    let sweep = ["sim", "sweep", "--trace", &trace, "--format", "antiphase", "--policies", "srtf,fifo"];
    let refused = |arguments: &[&str], problem: &str| {
        let run = antiphase(arguments);
        assert!(run.code == Some(2) && run.stderr.contains(problem), "{arguments:?}: {:?} {}", run.code, run.stderr);
        assert!(run.stdout.is_empty() && run.stderr.lines().count() == 1, "{}", run.stderr);
        let kept = |file: &str| fs::read_to_string(file).expect("the file");
        assert_eq!((kept(&trace), kept(&lines)), (good.clone(), others.to_owned()), "{arguments:?}");
    };
    for name in [&trace, &hard, &soft] {
        for option in ["--events", "--report"] {
            refused(&[&run[..], &[option, name]].concat(), "is an input");
        }
        refused(&[&sweep[..], &["--lines", name]].concat(), "is an input");
    }
    refused(&[&run[..], &["--events", &new, "--report", &new]].concat(), "is an output already");
    // What cannot be played empties no file of former runs.
    let large = scratch.file("large.csv", HEADER.to_owned() + "a,0,1000,1,1\n");
    refused(
        &["sim", "sweep", "--trace", &large, "--format", "antiphase", "--policies", "srtf", "--lines", &lines],
        "line 2: job \"a\" needs 1000",
    );
    // Other commands write through the same place.
    let fabric = scratch.file("fabric.yaml", antiphase(&["fabric", "generate", "cassini24"]).expect(0));
    let synth = antiphase(&["jobs", "synth", "--fabric", &fabric, "--count", "2", "--jobs-out", &fabric, "--candidates-out", &new]);
    assert!(synth.code == Some(2) && synth.stderr.contains("is an input"), "{}", synth.stderr);
    assert!(!fs::exists(&new).expect("a folder"), "all or none");
    // A device takes what it is given, and stays a device.
    antiphase(&[&run[..], &["--events", "/dev/null", "--report", "/dev/null"]].concat()).expect(0);
    assert!(!fs::metadata("/dev/null").expect("a device").is_file());
    antiphase(&[&sweep[..], &["--lines", &lines]].concat()).expect(0);
    assert_eq!(fs::read_to_string(&lines).expect("lines").lines().count(), 2);
}

/// A report has the same pictures, and an answer the same figures, whenever the first job was submitted.
#[test]
fn a_trace_may_begin_at_any_time_of_its_clock() {
    let scratch = Scratch::new("sim-late");
    let generate = ["fabric", "generate", "clos2", "--leaves", "4", "--spines", "1", "--hosts-per-leaf", "1", "--uplink-rate", "25G"];
    let fabric = scratch.file("fabric.yaml", antiphase(&generate).expect(0));
    let play = |first_s: u32| {
        let rows = "vgg16,0,3,400,vgg16\nbert,0,3,500,bert\nlate,100,2,300,vgg19\n";
        let shifted = rows.replace(",0,", &format!(",{first_s},")).replace(",100,", &format!(",{},", first_s + 100));
        let trace = scratch.file("trace.csv", format!("job_id,submit_s,gpus,iterations,model\n{shifted}"));
        let report = scratch.path("report.html");
        let arguments =
            ["sim", "run", "--trace", &trace, "--format", "antiphase", "--policy", "srsf", "--gpus-per-node", "2", "-o", "json"];
        let mut answer = antiphase(&[&arguments[..], &["--fabric", &fabric, "--report", &report]].concat()).json();
        answer["cpu_s"] = Value::Null;
        (answer, fs::read_to_string(report).expect("a report"))
    };
    let (early, late) = (play(0), play(360_000));
    let figures = |answer: &Value| -> Vec<f64> { answer.as_object().expect("fields").values().filter_map(Value::as_f64).collect() };
    for (a, b) in figures(&early.0).into_iter().zip(figures(&late.0)) {
        assert!((a - b).abs() <= 1e-6 * a.abs(), "{} {}", early.0, late.0);
    }
    assert!(early.1.contains("The busiest links"), "there is a network to be drawn");
    assert_eq!(early.1, late.1);
    assert!(early.1.contains("hours since the first submission"));
}

#[test]
fn a_job_that_no_type_holds_is_refused_before_it_waits() {
    let play = |rows: &str, policy: &str| {
        let arguments = ["sim", "run", "--trace", "-", "--format", "sia", "--policy", policy, "--gpu-types", "aws:2x4,rtx:1x8"];
        antiphase_reading(&arguments, format!("{SIA}small,0,cifar10,2,1024\n{rows}").as_bytes())
    };
    let refused = |rows: &str, policy: &str, line: &str| {
        let run = play(rows, policy);
        assert_eq!((run.code, run.stderr.trim()), (Some(2), format!("antiphase: -: {line}").as_str()), "{rows}");
    };
    refused("big,0,cifar10,30,4096\n", "gavel", "line 3: job \"big\" asks for 30 GPUs; the largest type has 8");
    let batch = "batch_size \"4000000000\" must be a whole number from 1 to 10,000,000";
    refused("big,0,cifar10,2,4000000000\n", "gavel", &format!("line 3: {batch}"));
    // Who chooses counts gives fewer.
    play("big,0,cifar10,30,4096\n", "sia").expect(0);
    let ncf = play("n,0,ncf,1,4096\n", "srtf");
    assert!(ncf.stderr.contains("--gpu-types"), "{}", ncf.stderr);
    let ncf = antiphase_reading(
        &["sim", "run", "--trace", "-", "--format", "sia", "--policy", "srtf"],
        format!("{SIA}n,0,ncf,1,4096\n").as_bytes(),
    );
    assert!(
        ncf.code == Some(2) && ncf.stderr.contains("line 2: application \"ncf\" must be") && ncf.stderr.contains("elastic policies"),
        "{}",
        ncf.stderr
    );
}

/// Each option of `sim run` is either used by an elastic policy, or refused: whoever adds one has to say which.
#[test]
fn an_elastic_policy_uses_an_option_or_refuses_it() {
    let scratch = Scratch::new("sim-options");
    let fabric = scratch.file(
        "fabric.yaml",
        antiphase(&["fabric", "generate", "clos2", "--leaves", "2", "--spines", "1", "--hosts-per-leaf", "2"]).expect(0),
    );
    let used = [
        "--trace",
        "--format",
        "--nodes",
        "--gpus-per-node",
        "--timing",
        "--fabric",
        "--ecmp",
        "--output",
        "--control",
        "--policy",
        "--gpu-types",
    ];
    // With another policy, another timing or a fabric.
    let sometimes = ["--profiles", "--round", "--search", "--sight", "--seed"];
    let refused: [&[&str]; 20] = [
        &["--workers", "w.csv"],
        &["--faults", "f.csv"],
        &["--host-mtbf-h", "10", "--host-mttr-h", "1"],
        &["--host-mttr-h", "1", "--host-mtbf-h", "10"],
        &["--link-mtbf-h", "10", "--link-mttr-h", "1"],
        &["--link-mttr-h", "1", "--link-mtbf-h", "10"],
        &["--checkpoint-s", "60"],
        &["--ranker", "none"],
        &["--moves"],
        &["--events", "e.jsonl"],
        &["--report", "r.html"],
        &["--group-max", "2"],
        &["--no-matching"],
        &["--worst-order"],
        &["--no-autopack"],
        &["--no-growth"],
        &["--promote", "1"],
        &["--consolidate"],
        &["--blind-groups"],
        &["--gpu-types", "aws:2x4", "--gpus-per-node", "3"],
    ];
    let help = antiphase(&["sim", "run", "--help"]).expect(0).to_owned();
    let known: BTreeSet<&str> = used.iter().chain(&sometimes).copied().chain(refused.iter().map(|option| option[0])).collect();
    let options = help.split_once("Options:").and_then(|(_, behind)| behind.split_once("EXAMPLES")).expect("options before examples").0;
    // An option's own line begins with it, in short or at length; others tell of it.
    let lines = options.lines().map(str::trim_start).filter(|line| line.starts_with('-') && !line.starts_with("- "));
    let named = lines.filter_map(|line| line.split(' ').find(|word| word.starts_with("--")));
    let unknown: Vec<&str> = named.filter(|name| !known.contains(name) && *name != "--help").collect();
    assert_eq!(unknown, Vec::<&str>::new());
    let arguments = ["sim", "run", "--trace", "-", "--format", "sia", "--policy", "sia"];
    let play = |more: &[&str]| antiphase_reading(&[&arguments[..], more].concat(), format!("{SIA}a,0,cifar10,2,1024\n").as_bytes());
    for option in refused {
        let run = play(&[&["--fabric", &fabric], option].concat());
        assert!(run.code == Some(2) && run.stderr.contains("has no use for it"), "{option:?}: {:?} {}", run.code, run.stderr);
    }
    let run = play(&["--gpus-per-node", "3"]);
    assert!(run.code == Some(2) && run.stderr.contains("has no use for it"), "{}", run.stderr);
    // All hosts of the fabric, where nobody asks for fewer.
    let types = |more: &[&str]| play(&[&["-o", "json", "--fabric", &fabric], more].concat()).json()["gpu_types"].clone();
    assert_eq!(types(&[]), serde_json::json!(["aws:4x8"]));
    assert_eq!(types(&["--gpus-per-node", "4"]), serde_json::json!(["aws:4x4"]));
    assert_eq!(types(&["--nodes", "2"]), serde_json::json!(["aws:2x8"]));
}

#[test]
fn only_lingjun_has_workers() {
    let line = refused(&["sim", "run", "--trace", "jobs.csv", "--format", "antiphase", "--workers", "trace.csv", "--policy", "srtf"], b"");
    assert_eq!(line, "--workers: only --format lingjun has workers");
    let missing = refused(&["sim", "run", "--trace", "jobs.csv", "--format", "lingjun", "--policy", "srtf"], b"");
    assert!(missing.contains("--workers"), "{missing}");
    // The message names the file in which the line is.
    let line = refused(&["sim", "run", "--trace", "jobs.csv", "--format", "lingjun", "--workers", "trace.csv", "--policy", "srtf"], b"");
    assert_eq!(line, "trace.csv: line 1: no column \"job_name\"");
}
