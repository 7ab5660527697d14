//! `antiphase sim`.

use serde_json::Value;

use crate::{
    process::{antiphase, antiphase_reading, document},
    refusal::{changed, refusals, refused},
    solve::keys,
};

/// The answer for the trace on one host of 8 GPUs.
fn answer(policy: &[&str]) -> Value {
    let mut arguments = vec!["sim", "run", "--trace", "trace.csv", "--format", "muri", "--nodes", "1", "--gpus-per-node", "8"];
    arguments.extend(["-o", "json", "--policy"]);
    arguments.extend(policy);
    let run = antiphase(&arguments);
    run.ok();
    run.json()
}

/// The mean completion time.
fn mean(policy: &[&str]) -> f64 {
    answer(policy)["avg_jct_s"].as_f64().expect("a number")
}

#[test]
fn an_answer_has_the_documented_fields() {
    let answer = antiphase(&["sim", "run", "--trace", "trace.csv", "--policy", "srtf", "-o", "json"]).json();
    let fields =
        ["avg_jct_s", "cpu_s", "decisions", "jobs", "left_out", "makespan_s", "p99_jct_s", "policy", "preemptions", "schema", "timing"];
    assert_eq!(keys(&answer), fields);
    assert_eq!((&answer["schema"], &answer["jobs"]), (&"antiphase.sim/v1".into(), &2.into()));
}

/// Runs the trace on the paper's testbed, on hosts of one GPU.
fn on_fabric(more: &[&str]) -> Value {
    let fabric = antiphase(&["fabric", "generate", "cassini24"]).stdout;
    let arguments = ["sim", "run", "--trace", "trace.csv", "--gpus-per-node", "1", "--policy", "srtf", "--fabric", "-", "-o", "json"];
    let run = antiphase_reading(&[&arguments[..], more].concat(), fabric.as_bytes());
    // Standard error may say which files were written.
    run.expect(0);
    run.json()
}

#[test]
fn on_a_fabric_the_answer_says_what_the_network_did() {
    let answer = on_fabric(&["--ranker", "antiphase", "--control", "turns"]);
    for field in ["iteration_mean", "iteration_p99", "marks_per_iteration", "met_share", "components_played"] {
        assert!(answer[field].is_number(), "{field}: {answer}");
    }
    assert_eq!((&answer["ranker"], &answer["control"]), (&"antiphase".into(), &"turns".into()));
    let of_few = on_fabric(&["--nodes", "24"]);
    assert_eq!((&of_few["ranker"], &of_few["control"]), (&"none".into(), &"free".into()));
}

#[test]
fn a_fabric_that_is_too_small_is_refused_and_so_are_its_options_without_one() {
    let arguments = ["sim", "run", "--trace", "trace.csv", "--policy", "srtf", "--nodes", "3", "--fabric", "-"];
    let one =
        "schema: antiphase.fabric/v1\nname: one\nhosts: [h1]\nswitches: [{name: s, tier: 1}]\ncables: [{ends: [h1, s], capacity: 1G}]\n";
    assert_eq!(refused(&arguments, one.as_bytes()), "-: 1 hosts; --nodes 3");
    let unknown = one.replace(", capacity: 1G", "");
    let arguments = ["sim", "run", "--trace", "trace.csv", "--policy", "srtf", "--fabric", "-", "--gpus-per-node", "8"];
    let line = refused(&arguments, unknown.as_bytes());
    assert!(line.starts_with("-: at 0 s on the fabric: link ") && line.ends_with("has no capacity"), "{line}");
    let ranked = ["sim", "run", "--trace", "trace.csv", "--fabric", "-", "--ranker", "antiphase"];
    for (more, said) in [
        (&["--policy", "gandiva", "--moves"][..], "--moves: --policy gandiva places its jobs itself"),
        (&["--policy", "srtf", "--control", "ideal"], "with --control ideal"),
    ] {
        assert!(refused(&[&ranked, more].concat(), one.as_bytes()).contains(said));
    }
    let moves = ["sim", "run", "--trace", "trace.csv", "--policy", "srtf", "--fabric", "-", "--moves"];
    assert!(refused(&moves, one.as_bytes()).starts_with("--moves: only --ranker antiphase predicts times"));
    let without = antiphase(&["sim", "run", "--trace", "trace.csv", "--policy", "srtf", "--control", "turns"]);
    assert!(without.stderr.contains("--fabric"), "{}", without.stderr);
}

#[test]
fn a_short_job_preempts_a_long_one_and_both_pay_for_restarts() {
    // Artifact: iterations take 1.015 of the profile. The long job (194.88 s) ran 90 s of the first 100, for its restart takes 10. The short one
    // takes 5.16635 s, because ends are predicted without restarts; then the rest of the long one, 104.88 s: it ends at 210.04635.
    assert!((mean(&["srtf", "--timing", "artifact"]) - f64::midpoint(210.046_35, 5.166_35)).abs() < 1e-6);
    // Paper: 6 s of restart and 5.09 s; the long one restarts for 10 s and runs the 102 s that are left: it ends at 223.09.
    assert!((mean(&["srtf", "--timing", "paper"]) - f64::midpoint(223.09, 11.09)).abs() < 1e-6);
}

#[test]
fn under_fifo_a_short_job_waits_for_a_long_one() {
    // The long one is not stopped: it restarts for 10 s and runs 192 s. The short one came at 100 s and starts when that has ended: 6 s of
    // restart and 5.09 s.
    let fifo = answer(&["fifo"]);
    assert!((fifo["avg_jct_s"].as_f64().expect("a number") - f64::midpoint(202.0, 113.09)).abs() < 1e-6, "{fifo}");
    assert_eq!((&fifo["policy"], &fifo["preemptions"]), (&"fifo".into(), &0.into()));
    assert!(mean(&["srtf"]) < mean(&["fifo"]));
    let many = ["--trace", "trace.csv", "--nodes", "1", "--policies", "fifo,srtf", "-o", "json"];
    let comparison = antiphase(&[&["sim", "compare"], &many[..]].concat()).json();
    assert_eq!(comparison["runs"][0]["avg_jct_s"], fifo["avg_jct_s"]);
    let sweep = antiphase(&[&["sim", "sweep"], &many[..]].concat()).json();
    assert_eq!(sweep["rows"][0]["avg_jct_s"]["mean"], fifo["avg_jct_s"]);
}

#[test]
fn under_antman_a_short_job_runs_beside_a_long_one() {
    // Nobody is preempted, and the short job is opportunistic: it finds the GPUs tracked as hardly used, so it shares them. It loads for
    // 435 ms in gaps of 226 ms, so it needs two iterations of the long one: 2 x 192 ms, less than the 509 ms that it takes alone.
    // Paper: the long one is never disturbed and ends at 10 + 192 s; the short one takes 6 s of restart and 5.09 s.
    assert!((mean(&["antman", "--timing", "paper"]) - f64::midpoint(202.0, 11.09)).abs() < 1e-6);
    // Artifact: both pay for restarts at each event, so the times are those of the preempted job above, and nobody is preempted.
    let answer = answer(&["antman", "--timing", "artifact"]);
    assert!((answer["avg_jct_s"].as_f64().expect("a number") - f64::midpoint(210.046_35, 5.166_35)).abs() < 1e-6);
    assert_eq!(answer["preemptions"], 0);
}

#[test]
fn a_pair_shares_gpus_under_muri() {
    // The long job is stopped for the short one where GPUs are not shared, and goes on beside it where they are.
    let preemptions = |policy| answer(&[policy])["preemptions"].clone();
    assert_eq!((preemptions("srsf"), preemptions("muri-s")), (1.into(), 0.into()));
}

#[test]
fn policies_are_compared_with_the_first() {
    let arguments =
        ["sim", "compare", "--trace", "trace.csv", "--nodes", "1", "--policies", "srtf,tiresias,gandiva", "--timing", "artifact"];
    let comparison = antiphase(&[&arguments[..], &["-o", "json"]].concat()).json();
    assert_eq!(comparison["schema"], "antiphase.sim-comparison/v1");
    let runs = comparison["runs"].as_array().expect("runs");
    assert_eq!(runs.iter().map(|run| run["policy"].as_str().expect("a name")).collect::<Vec<_>>(), ["srtf", "tiresias", "gandiva"]);
    assert!((runs[0]["avg_jct_s"].as_f64().expect("a number") - mean(&["srtf", "--timing", "artifact"])).abs() < 1e-9);
    let table = antiphase(&arguments);
    assert!(table.ok().lines().next().is_some_and(|headings| headings.ends_with("MAKESPAN RATIO")));
    // The first is compared with itself.
    assert!(table.stdout.lines().nth(1).is_some_and(|first| first.ends_with("1.00")));
}

#[test]
fn what_happens_to_jobs_is_written_and_drawn() {
    let scratch = crate::scratch::Scratch::new("sim-events");
    let (events, report) = (scratch.path("events.jsonl"), scratch.path("report.html"));
    let arguments = ["sim", "run", "--trace", "trace.csv", "--nodes", "1", "--policy", "srtf", "--events", &events, "--report", &report];
    antiphase(&arguments).expect(0);
    let text = std::fs::read_to_string(&events).expect("events");
    // As computed above: the short one stops the long one at 100 s and ends 11.09 s later, the long one at 223.09 s.
    let expected = [
        r#"{"at_s":0.0,"job":"long","event":"arrive"}"#,
        r#"{"at_s":0.0,"job":"long","event":"start","hosts":[{"number":0,"gpus":8}]}"#,
        r#"{"at_s":100.0,"job":"short","event":"arrive"}"#,
        r#"{"at_s":100.0,"job":"long","event":"stop"}"#,
        r#"{"at_s":100.0,"job":"short","event":"start","hosts":[{"number":0,"gpus":8}]}"#,
        r#"{"at_s":111.09,"job":"short","event":"end"}"#,
        r#"{"at_s":111.09,"job":"long","event":"start","hosts":[{"number":0,"gpus":8}]}"#,
    ];
    assert_eq!(text.lines().take(7).collect::<Vec<_>>(), expected);
    let last: Value = serde_json::from_str(text.lines().nth(7).expect("an end")).expect("JSON");
    assert!((last["at_s"].as_f64().expect("a number") - 223.09).abs() < 1e-6 && text.lines().count() == 8, "{last}");
    let page = std::fs::read_to_string(&report).expect("a report");
    for heading in ["Completion times", "Finish-time fairness", "Utilisation", "GPUs by job"] {
        assert!(page.contains(&format!("<h2>{heading}</h2>")), "{heading}");
    }
    assert!(page.contains("host 0 gpu 7") && !page.contains("<script"), "the page loads nothing");
    // The same run writes the same bytes.
    antiphase(&arguments).expect(0);
    assert_eq!((std::fs::read_to_string(&events).ok(), std::fs::read_to_string(&report).ok()), (Some(text), Some(page)));
}

#[test]
fn on_a_fabric_the_report_has_iterations_and_links() {
    let scratch = crate::scratch::Scratch::new("sim-report");
    let (events, report) = (scratch.path("events.jsonl"), scratch.path("report.html"));
    on_fabric(&["--events", &events, "--report", &report]);
    let page = std::fs::read_to_string(&report).expect("a report");
    assert!(
        page.contains("Iterations on the fabric") && page.contains("<h2>The busiest links by job</h2>") && page.contains("control free")
    );
    assert!(std::fs::read_to_string(&events).is_ok_and(|text| text.contains(r#"{"number":0,"name":"h1","gpus":1}"#)));
    // The jobs of the trace meet nobody; three that stand anywhere and send for most of the time have marks.
    assert!(page.contains("<h2>ECN marks</h2><p>None.</p>"));
    let rows: String = (0..3).map(|job| format!("{job},0,8,1000,100,90\n")).collect();
    let trace = scratch.file("meet.csv", format!("job_id,submit_s,gpus,iterations,iteration_ms,up_ms\n{rows}"));
    let fabric = scratch.file("fabric.yaml", antiphase(&["fabric", "generate", "cassini24"]).stdout);
    let arguments = ["sim", "run", "--format", "antiphase", "--gpus-per-node", "1", "--policy", "srtf", "--ranker", "random"];
    let run = antiphase(&[&arguments[..], &["--trace", &trace, "--fabric", &fabric, "--report", &report, "-o", "json"]].concat());
    run.expect(0);
    let marks = run.json()["marks_per_iteration"].as_f64().expect("a number");
    let page = std::fs::read_to_string(&report).expect("a report");
    let each = format!("with {marks:.1} ECN marks each");
    assert!(marks > 0.0 && page.contains(&each) && page.contains("<h2>ECN marks</h2><figure>"), "{marks}");
}

/// One job of 1,000 s on 8 GPUs, on two hosts, with a checkpoint every 300 s.
const FAULTY: [&str; 12] =
    ["sim", "run", "--trace", "-", "--format", "antiphase", "--nodes", "2", "--policy", "srtf", "--checkpoint-s", "300"];
const ONE: &[u8] = b"job_id,submit_s,gpus,iterations,iteration_ms\na,0,8,1000,1000\n";

#[test]
fn a_job_loses_its_host_and_the_events_say_so() {
    let scratch = crate::scratch::Scratch::new("sim-faults");
    let faults = scratch.file("faults.csv", "at_s,kind,name,until_s,factor\n700,host,0,900,\n1000,straggler,0,1050,2\n");
    let (events, report) = (scratch.path("events.jsonl"), scratch.path("report.html"));
    let arguments = [&FAULTY[..], &["--faults", &faults, "--events", &events, "--report", &report, "-o", "json"]].concat();
    let run = antiphase_reading(&arguments, ONE);
    run.expect(0);
    let answer = run.json();
    // After 690 s it had saved 600 iterations; 10 s of restart on the other host, and 400 more.
    assert_eq!((&answer["avg_jct_s"], &answer["failures"], &answer["faults"]), (&1_110.0.into(), &1.into(), &2.into()));
    assert_eq!((&answer["lost_gpu_s"], &answer["still_gpu_s"]), (&720.0.into(), &0.0.into()));
    let expected = [
        r#"{"at_s":0.0,"job":"a","event":"arrive"}"#,
        r#"{"at_s":0.0,"job":"a","event":"start","hosts":[{"number":0,"gpus":8}]}"#,
        r#"{"at_s":700.0,"event":"fault","kind":"host","name":"0"}"#,
        r#"{"at_s":700.0,"job":"a","event":"fail"}"#,
        r#"{"at_s":700.0,"job":"a","event":"start","hosts":[{"number":1,"gpus":8}]}"#,
        r#"{"at_s":900.0,"event":"repair","kind":"host","name":"0"}"#,
        r#"{"at_s":1000.0,"event":"fault","kind":"straggler","name":"0","factor":2.0}"#,
        r#"{"at_s":1050.0,"event":"repair","kind":"straggler","name":"0","factor":2.0}"#,
        r#"{"at_s":1110.0,"job":"a","event":"end"}"#,
    ];
    assert_eq!(std::fs::read_to_string(&events).expect("events").lines().collect::<Vec<_>>(), expected);
    assert!(std::fs::read_to_string(&report).is_ok_and(|page| page.contains("GPUs by job")));
}

#[test]
fn hosts_that_go_down_by_chance_follow_from_the_seed() {
    let run = |seed: &str| {
        let by_chance = ["--host-mtbf-h", "0.5", "--host-mttr-h", "0.1", "--seed", seed, "-o", "json"];
        let mut answer = antiphase_reading(&[&FAULTY[..], &by_chance].concat(), ONE).json();
        answer.as_object_mut().and_then(|answer| answer.remove("cpu_s"));
        answer
    };
    let runs: Vec<Value> = ["1", "2", "3", "4"].map(run).to_vec();
    assert_eq!(runs[0], run("1"));
    assert!(runs.iter().any(|run| run != &runs[0]) && runs.iter().any(|run| run["failures"] != 0), "{runs:?}");
}

#[test]
fn faults_that_cannot_be_played_are_refused() {
    let good = "at_s,kind,name,until_s,factor\n700,host,0,900,\n";
    let row = |row: &str| format!("{good}{row}\n");
    let cases = [
        ("a column is missing", good.replace("until_s", "until")),
        ("before the beginning", row("-1,host,0,5,")),
        ("it ends before it begins", row("5,host,0,5,")),
        ("no such kind", row("1,disk,0,5,")),
        ("no such host", row("1,host,8,5,")),
        ("a link without a fabric", row("1,link,leaf1->spine1,5,")),
        ("an agent without a fabric", row("1,agent,0,5,")),
        ("a factor of a host", row("1,host,0,5,2")),
        ("a straggler that is faster", row("1,straggler,0,5,0.5")),
        ("a field is missing", row("1,host,0,5")),
    ];
    refusals("faults", &["sim", "run", "--trace", "trace.csv", "--policy", "srtf", "--faults", "DOCUMENT"], cases);
    let with = |more: &[&str]| refused(&[&["sim", "run", "--trace", "trace.csv", "--policy", "srtf"], more].concat(), good.as_bytes());
    let counted = with(&["--timing", "artifact", "--faults", "-"]);
    assert_eq!(counted, "--faults: with --timing artifact GPUs are only counted, and no job stands on a host");
    assert_eq!(with(&["--checkpoint-s", "60"]), "--checkpoint-s: nothing fails without --faults, --host-mtbf-h or --link-mtbf-h");
    assert_eq!(with(&["--seed", "2", "--faults", "-"]), "--seed: without --fabric or --host-mtbf-h nothing is drawn");
    for wrong in [
        ["--host-mtbf-h", "0"].as_slice(),
        &["--host-mtbf-h", "5"],
        &["--link-mtbf-h", "5", "--link-mttr-h", "1"],
        &["--checkpoint-s", "nan"],
    ] {
        antiphase(&[&["sim", "run", "--trace", "trace.csv", "--policy", "srtf"], wrong].concat()).expect(2);
    }
}

#[test]
fn a_sweep_plays_every_combination_in_order() {
    let scratch = crate::scratch::Scratch::new("sim-sweep");
    let fabric = scratch.file("fabric.yaml", antiphase(&["fabric", "generate", "cassini24"]).expect(0));
    let lines = scratch.path("runs.jsonl");
    let grid = ["--policies", "srtf,themis", "--rankers", "none,random", "--controls", "free,turns", "--seeds", "2"];
    let arguments = [&["sim", "sweep", "--trace", "trace.csv", "--gpus-per-node", "1", "--fabric", &fabric], &grid[..]].concat();
    let table = antiphase(&[&arguments[..], &["--lines", &lines]].concat());
    // A heading, eight combinations, and what the numbers are.
    assert_eq!(table.ok().lines().count(), 10, "{}", table.stdout);
    assert!(table.stdout.lines().nth(1).is_some_and(|row| row.contains("srtf") && row.contains('±')), "{}", table.stdout);
    let text = std::fs::read_to_string(&lines).expect("lines");
    let runs: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let word = |run: &Value, key: &str| run[key].as_str().expect("a word").to_owned();
    let of = |run: &Value| (word(run, "policy"), word(run, "ranker"), word(run, "control"), run["seed"].as_u64().expect("a seed"));
    let mut expected = Vec::new();
    for policy in ["srtf", "themis"] {
        for ranker in ["none", "random"] {
            for control in ["free", "turns"] {
                expected.extend([1, 2].map(|seed| (policy.to_owned(), ranker.to_owned(), control.to_owned(), seed)));
            }
        }
    }
    assert_eq!(runs.iter().map(of).collect::<Vec<_>>(), expected);
    // A run of the grid is the run that is asked for alone, and on any number of cores the same bytes come.
    let alone = on_fabric(&["--ranker", "random", "--control", "turns", "--seed", "2"]);
    assert_eq!((&alone["avg_jct_s"], &alone["iteration_mean"]), (&runs[7]["avg_jct_s"], &runs[7]["iteration_mean"]));
    let to_stdout = antiphase(&[&arguments[..], &["--lines", "-"]].concat());
    assert_eq!(to_stdout.ok(), text);
}

#[test]
fn a_sweep_in_which_nothing_is_drawn_has_one_seed() {
    let line = refused(&["sim", "sweep", "--trace", "trace.csv", "--policies", "srtf", "--seeds", "3"], b"");
    assert_eq!(line, "--seeds: without --fabric or --host-mtbf-h nothing is drawn");
    let sweep = antiphase(&["sim", "sweep", "--trace", "trace.csv", "--nodes", "1", "--policies", "srtf,srsf", "-o", "json"]).json();
    assert_eq!((&sweep["schema"], sweep["rows"].as_array().map(Vec::len)), (&"antiphase.sim-sweep/v1".into(), Some(2)));
    assert!((sweep["rows"][0]["avg_jct_s"]["mean"].as_f64().expect("a number") - mean(&["srtf"])).abs() < 1e-9);
}

#[test]
fn options_that_do_nothing_are_refused() {
    // Also the value that is the default, because somebody asked for it.
    for option in [["--group-max", "2"].as_slice(), &["--group-max", "4"], &["--no-matching"], &["--worst-order"], &["--no-autopack"]] {
        let line = refused(&[&["sim", "run", "--trace", "trace.csv", "--policy", "srtf"], option].concat(), b"");
        assert_eq!(line, format!("{}: --policy srtf has no groups", option[0]));
    }
}

#[test]
fn jobs_of_our_own_are_played() {
    let arguments = ["sim", "run", "--trace", "jobs.csv", "--format", "antiphase", "--nodes", "1", "-o", "json", "--policy"];
    let run = |policy| antiphase(&[&arguments[..], &[policy]].concat()).json();
    // One host of 8. SRSF: the long job runs from 10 s on, and has 160 s left when VGG16 comes, which wants 2 GPUs for 127.5 s, so less
    // service: it stops the long one and ends at 50 + 10 + 127.5 = 187.5 s. The late job of 8 GPUs for 15 s is shorter still: it stops VGG16
    // at 60 s, which has just restarted, and ends at 80 s. VGG16 begins again: 80 + 10 + 127.5 = 217.5 s. Then the long one: 10 + 160 s.
    let srsf = run("srsf");
    let mean = (387.5 + (217.5 - 50.0) + 20.0) / 3.0;
    assert!((srsf["avg_jct_s"].as_f64().expect("a number") - mean).abs() < 1e-6, "{srsf}");
    // Themis: the long job has a lease until it ends at 210 s. Then all GPUs are auctioned among two, of which the worst by rho is offered them.
    let themis = run("themis");
    assert_eq!(themis["preemptions"], 0);
}

#[test]
fn traces_that_are_none_are_refused() {
    let good = document("trace.csv");
    let row = |from: &str, to: &str| changed(&good, from, to);
    let cases = [
        ("a column is missing", row("submit_time", "submitted")),
        ("a field is missing", row(",59,0\n", ",59\n")),
        ("negative time", row("long,8,0", "long,8,-1")),
        ("negative duration", row("192000", "-192000")),
        ("a time that is none", row("100000,10", "soon,10")),
        ("infinite time", row("100000,10", "inf,10")),
        ("no iterations", row(",1000,bert", ",0,bert")),
        ("unknown model", row("bert", "alexnet")),
        ("no GPUs", row("long,8", "long,0")),
        ("half a GPU", row("long,8", "long,0.5")),
        ("more GPUs than the cluster", row("short,8", "short,128")),
        ("an iteration of 0", row(",192,", ",0,")),
        ("an iteration of years", row(",192,", ",1e11,")),
        ("a priority of 2", row(",59,0", ",59,2")),
        ("an id twice", row("short", "long")),
        ("no id", row("short", "")),
        ("a column twice", row("batch_size", "num_gpu")),
        ("ages", row(",1000,bert", ",1e14,bert")),
        ("Windows line ends", row("bert", "alexnet").replace('\n', "\r\n")),
        ("blank lines", row("bert", "alexnet").replace("long", "\n\nlong")),
        ("a field is missing behind a blank line", row(",59,0\n", ",59,0\n\n").replace(",8,0.5,1", ",8,0.5")),
        ("no jobs", good.lines().next().unwrap_or_default().to_owned()),
        ("empty", String::new()),
    ];
    refusals("traces", &["sim", "run", "--trace", "DOCUMENT", "--policy", "srtf"], cases);
}

#[test]
fn a_trace_comes_from_standard_input_too() {
    let arguments = ["sim", "run", "--trace", "-", "--policy", "tiresias"];
    let run = antiphase_reading(&arguments, document("trace.csv").as_bytes());
    assert!(run.ok().contains("tiresias"));
}

/// The whole of it takes half a minute, so one test looks at all that a quick run must show.
#[test]
fn the_experiments_of_cassini_are_played_and_reported() {
    let scratch = crate::scratch::Scratch::new("reproduce-cassini");
    let report = scratch.path("report.html");
    let run = antiphase(&["reproduce", "cassini", "--quick", "--seeds", "1", "-o", "json", "--report", &report]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let answer = run.json();
    assert_eq!((&answer["schema"], &answer["seeds"]), (&"antiphase.reproduce-cassini/v1".into(), &1.into()));
    let experiments = answer["experiments"].as_array().expect("experiments");
    let mean = |experiment: &Value, scheme: &str| -> f64 {
        let rows = experiment["schemes"].as_array().expect("schemes");
        let row = rows.iter().find(|row| row["scheme"] == scheme).expect("a scheme");
        row["iteration_mean"]["mean"].as_f64().expect("a number")
    };
    for experiment in experiments {
        assert!((mean(experiment, "ideal") - 1.0).abs() < 1e-9, "{experiment}");
        // Who is chosen by prediction is not worse than who is not, but for what two runs of a trace differ by.
        assert!(mean(experiment, "turns") <= mean(experiment, "Themis") * 1.02, "{experiment}");
        assert!(mean(experiment, "turns") <= mean(experiment, "CASSINI") * 1.03, "{experiment}");
    }
    // Table 2: each snapshot with its periods as they are, then locked, beside what the paper prints.
    let snapshots = answer["snapshots"].as_array().expect("snapshots");
    assert_eq!(snapshots.len(), 10);
    let sends = |job: &Value, control: usize| job["under"][control]["sends_ms"]["mean"].as_f64().expect("a number");
    for job in snapshots.iter().flat_map(|snapshot| snapshot["jobs"].as_array().expect("jobs")) {
        let alone = job["sends_alone_ms"].as_f64().expect("a number");
        assert!((0..4).all(|control| sends(job, control) > 0.99 * alone) && job["published_themis_ms"].as_f64().is_some(), "{job}");
    }
    let first = &snapshots[5];
    assert_eq!((&first["snapshot"], &first["locked"], &first["published_score"]), (&1.into(), &true.into(), &1.0.into()));
    for job in first["jobs"].as_array().expect("jobs") {
        assert!(sends(job, 3) < 0.95 * sends(job, 0), "turns keep jobs apart whose periods lock: {job}");
    }
    let sweep = experiments.iter().find(|e| e["experiment"] == "sweep").expect("the sweep");
    let lost = |scheme| mean(sweep, scheme) - 1.0;
    assert!(lost("random, turns") < 0.25 * lost("random"), "turns win back what jobs lose whose periods lock: {sweep}");
    let page = std::fs::read_to_string(&report).expect("a report");
    assert!(page.contains("antiphase reproduce cassini --quick --seeds 1") && page.contains("as published") && page.contains("<svg"));
    assert!(!page.contains("http://") || !page.contains("<script"), "the page loads nothing");
}

/// Sharing and network together: who is played under an ideal network loses nothing, and the parts of the gain are told.
#[test]
fn what_of_a_gain_is_sharing_placing_and_turns_is_told() {
    let scratch = crate::scratch::Scratch::new("reproduce-sharing");
    let report = scratch.path("report.html");
    let run = antiphase(&["reproduce", "sharing", "--quick", "--seeds", "2", "-o", "json", "--report", &report]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let answer = run.json();
    let rows = answer["rows"].as_array().expect("rows");
    // Three policies under ten combinations each, and Muri with blind groups under two.
    assert_eq!((&answer["schema"], rows.len()), (&"antiphase.reproduce-sharing/v1".into(), 32));
    for row in rows {
        let iteration = row["iteration_mean"]["mean"].as_f64().expect("a number");
        assert!(iteration >= 1.0 - 1e-9 && (row["control"] != "ideal" || iteration <= 1.0 + 1e-9), "{row}");
        if row["ranker"] == "none" && row["control"] == "free" {
            assert_eq!(row["jct_gain"]["mean"], 1.0, "{row}");
        }
    }
    let shares = answer["shares"].as_array().expect("shares");
    assert_eq!(shares.iter().map(|share| share["policy"].as_str().expect("a name")).collect::<Vec<_>>(), ["srsf", "gandiva", "muri-s"]);
    let part = |share: &Value, part: &str| share[part]["mean"].as_f64().expect("a number");
    assert_eq!(part(&shares[0], "sharing"), 1.0, "nobody shares under SRSF");
    assert!(shares[0]["groups"].is_null() && part(&shares[2], "groups") > 0.97, "{}", shares[2]);
    let page = std::fs::read_to_string(&report).expect("a report");
    assert!(page.contains("antiphase reproduce sharing --quick --seeds 2") && page.contains("<svg") && !page.contains("<script"));
}

/// A trace of Sia, played without a file beside it.
const ELASTIC: &str = "name,time,application,num_replicas,batch_size\na,30,cifar10,4,1024\nb,90,bert,8,192\nc,400,deepspeech2,2,80\n";

/// Four hosts on two leaves, one cable to leave each.
const FABRIC: [&str; 13] = [
    "fabric",
    "generate",
    "clos2",
    "--leaves",
    "2",
    "--spines",
    "1",
    "--hosts-per-leaf",
    "2",
    "--host-rate",
    "25G",
    "--uplink-rate",
    "25G",
];

#[test]
fn elastic_jobs_meet_on_a_fabric() {
    let scratch = crate::scratch::Scratch::new("sim-elastic-fabric");
    let fabric = scratch.file("fabric.yaml", antiphase(&FABRIC).expect(0));
    for (policy, sight) in [("sia", "blind"), ("sia", "inside"), ("pollux", ""), ("gavel", "")] {
        let sight = if sight.is_empty() { vec![] } else { vec!["--sight", sight] };
        let on = [policy, "--nodes", "4", "--gpus-per-node", "4", "--fabric", &fabric, "--control", "turns", "-o", "json"];
        let answer = elastic(&[&on[..], &sight].concat()).json();
        let (mean, p99) = (answer["iteration_mean"].as_f64().expect("a mean"), answer["iteration_p99"].as_f64().expect("a p99"));
        assert!((1.0..3.0).contains(&mean) && p99 >= mean, "{answer}");
        assert_eq!(answer["control"], "turns");
        let sees = sight.get(1).copied().unwrap_or("blind");
        assert_eq!((&answer["sight"], answer["ranker"] == "antiphase"), (&sees.into(), sees != "blind"));
        // One schema: each field that says what a fabric did to other jobs is there, and null where nothing was played that could tell.
        assert!(answer.as_object().is_some_and(|fields| fields.get("marks_per_iteration").is_some_and(Value::is_null)), "{answer}");
        assert_eq!(answer["components_played"], 0);
    }
}

fn elastic(more: &[&str]) -> crate::process::Run {
    let arguments = ["sim", "run", "--trace", "-", "--format", "sia", "--policy"];
    antiphase_reading(&[&arguments[..], more].concat(), ELASTIC.as_bytes())
}

#[test]
fn elastic_jobs_are_played_without_files() {
    for policy in ["sia", "pollux", "gavel"] {
        let run = elastic(&[policy, "-o", "json"]);
        run.ok();
        let answer = run.json();
        assert_eq!((&answer["schema"], &answer["jobs"], &answer["profiles"]), (&"antiphase.sim/v1".into(), &3.into(), &"fitted".into()));
        for field in ["avg_jct_s", "p99_jct_s", "makespan_s", "cpu_s", "restarts_per_job", "policy_ms_median", "policy_ms_p95"] {
            assert!(answer[field].is_number(), "{field}: {answer}");
        }
        assert_eq!(answer["gpu_types"], serde_json::json!(["aws:6x4", "dgx-ext:2x8", "rtx:3x8"]));
        assert_eq!(answer["per_job"].as_array().map(Vec::len), Some(3));
    }
    let nodes = elastic(&["sia", "--nodes", "4", "--gpus-per-node", "4", "-o", "json"]).json();
    assert_eq!(nodes["gpu_types"], serde_json::json!(["aws:4x4"]));
    let published = elastic(&["pollux", "--search", "published", "--gpu-types", "rtx:1x8", "-o", "json"]).json();
    assert_eq!(published["gpu_types"], serde_json::json!(["rtx:1x8"]));
}

/// Eight hosts on one leaf, of which the first so many have the first line of GPUs, and so on.
fn fabric_with(gpus: &str) -> String {
    let hosts: Vec<String> = (1..=8).map(|host| format!("h{host}")).collect();
    let cables: String = hosts.iter().map(|host| format!("  - {{ends: [{host}, s], capacity: 100G}}\n")).collect();
    format!("schema: antiphase.fabric/v1\nhosts: [{}]\n{gpus}\nswitches: [{{name: s, tier: 1}}]\ncables:\n{cables}", hosts.join(", "))
}

#[test]
fn the_hosts_of_a_fabric_say_how_many_gpus_they_have_and_of_which_type() {
    let scratch = crate::scratch::Scratch::new("sim-gpus");
    let write = |gpus: &str| scratch.file("fabric.yaml", fabric_with(gpus));
    let rigid = |fabric: &str, more: &[&str]| {
        let policy: &[&str] = if more.contains(&"--policy") { &[] } else { &["--policy", "srtf"] };
        let arguments = ["sim", "run", "--trace", "trace.csv", "-o", "json", "--fabric", fabric];
        antiphase(&[&arguments[..], policy, more].concat())
    };
    // Both jobs of the trace want 8 GPUs: two hosts of 4 each. Where nothing is said, a host has 8, and nobody sends.
    let decided = |run: &crate::process::Run| (run.json()["met_share"].clone(), run.json()["avg_jct_s"].clone());
    let four = write("gpus: [{count: 4}]");
    assert_eq!(decided(&rigid(&four, &[])), decided(&rigid(&write(""), &["--gpus-per-node", "4"])));
    let line = |run: crate::process::Run| {
        run.expect(2);
        run.stderr.trim_start_matches("antiphase: ").trim_start_matches(&four).trim().to_owned()
    };
    let four = write("gpus: [{count: 4}]");
    assert_eq!(line(rigid(&four, &["--gpus-per-node", "8"])), ": host \"h1\" has 4 GPUs; --gpus-per-node 8");
    let uneven = write("gpus: [{hosts: [h8], count: 2}, {count: 4}]");
    // Thirty GPUs, each host with its own; a policy that counts by the host wants them equal.
    for policy in ["fifo", "srtf", "srsf", "tiresias", "themis", "muri-s", "muri-l"] {
        assert_eq!(decided(&rigid(&uneven, &["--policy", policy])), decided(&rigid(&four, &["--policy", policy])), "{policy}");
    }
    let uneven = write("gpus: [{hosts: [h8], count: 2}, {count: 4}]");
    for policy in ["antman", "gandiva"] {
        let refused = line(rigid(&uneven, &["--policy", policy]));
        let said = ": host \"h1\" has 4 GPUs and host \"h8\" has 2; this policy wants equal hosts; --gpus-per-node 2 uses as many of each";
        assert_eq!(refused, said);
        rigid(&uneven, &["--policy", policy, "--gpus-per-node", "2"]).expect(0);
    }
    let small = write("gpus: [{hosts: [h1], count: 7}, {count: 1}]");
    let refused = rigid(&small, &["--nodes", "1"]);
    assert!(refused.code == Some(2) && refused.stderr.contains("needs 8 GPUs; 1 hosts have 7"), "{}", refused.stderr);
    assert_eq!(rigid(&small, &["--nodes", "2"]).code, Some(0));
    let silent = write("gpus: [{hosts: [h8], count: 2}]");
    let said = ": host \"h8\" has 2 GPUs and host \"h1\" does not say; --gpus-per-node says how many of each are used";
    assert_eq!(line(rigid(&silent, &[])), said);
    let uneven = write("gpus: [{hosts: [h8], count: 2}, {count: 4}]");
    rigid(&uneven, &["--gpus-per-node", "2"]).expect(0);
    rigid(&uneven, &["--nodes", "7"]).expect(0);

    let mixed = write("gpus: [{hosts: [h1, h2], count: 8, type: dgx-ext}, {count: 4, type: aws}]");
    let types = |more: &[&str]| elastic(&[&["sia", "-o", "json", "--fabric", &mixed], more].concat()).json()["gpu_types"].clone();
    assert_eq!(types(&[]), serde_json::json!(["dgx-ext:2x8", "aws:6x4"]));
    assert_eq!(types(&["--nodes", "3"]), serde_json::json!(["dgx-ext:2x8", "aws:1x4"]));
    assert_eq!(types(&["--gpu-types", "rtx:8x4"]), serde_json::json!(["rtx:8x4"]));
    for (gpus, said) in [
        ("gpus: [{hosts: [h2], count: 8, type: rtx}, {count: 4, type: aws}]", "host \"h3\": type \"aws\" comes again after another one"),
        ("gpus: [{hosts: [h2], count: 8, type: aws}, {count: 4, type: aws}]", "host \"h2\" has 8 GPUs of type \"aws\" and another one 4"),
        ("gpus: [{hosts: [h1], count: 8, type: aws}]", "host \"h2\" does not say how many GPUs of which type it has"),
        ("gpus: [{count: 65, type: aws}]", "has 65 GPUs; an elastic policy looks at 64 at most"),
        ("gpus: [{count: 8, type: h100}]", "GPU type \"h100\": without --profiles there are aws"),
    ] {
        let run = elastic(&["sia", "--fabric", &write(gpus)]);
        assert!(run.code == Some(2) && run.stderr.contains(said), "{gpus}: {}", run.stderr);
    }
}

#[test]
fn options_that_elastic_policies_do_not_know_are_refused() {
    let refused = |more: &[&str], problem: &str| {
        let run = elastic(more);
        assert!(run.code == Some(2) && run.stderr.contains(problem), "{more:?}: {}", run.stderr);
    };
    refused(&["sia", "--gpu-types", "h100:6x4"], "without --profiles there are aws, azure, dgx-ext, quad, rtx");
    refused(&["sia", "--gpu-types", "aws:0x4"], "is not TYPE:NODESxGPUS");
    refused(&["sia", "--gpu-types", "aws:1x4,aws:2x4"], "twice");
    refused(&["sia", "--profiles", "/nowhere"], "placements-aws.csv");
    refused(&["sia", "--search", "exact"], "--search");
    refused(&["srtf", "--gpu-types", "aws:1x4"], "--gpu-types");
    refused(&["gavel", "--no-matching"], "--no-matching");
    let scratch = crate::scratch::Scratch::new("sim-elastic");
    let fabric = scratch.file("fabric.yaml", antiphase(&FABRIC).expect(0));
    refused(&["sia", "--sight", "after"], "--fabric");
    refused(&["gavel", "--fabric", &fabric, "--sight", "after"], "--sight");
    refused(&["sia", "--fabric", &fabric, "--ranker", "antiphase"], "--ranker");
    refused(&["sia", "--fabric", &fabric, "--nodes", "11"], "the fabric has 4 hosts, the cluster 11");
    refused(&["sia", "--fabric", &fabric, "--nodes", "4", "--control", "paper"], "has no prediction of times");
    let unknown = ELASTIC.replace("bert", "alexnet");
    let run = antiphase_reading(&["sim", "run", "--trace", "-", "--format", "sia", "--policy", "sia"], unknown.as_bytes());
    assert!(run.code == Some(2) && run.stderr.contains("line 3: unknown application \"alexnet\""), "{}", run.stderr);
    let muri = antiphase(&["sim", "run", "--trace", "trace.csv", "--policy", "sia"]);
    assert!(muri.code == Some(2) && muri.stderr.contains("--format sia"), "{}", muri.stderr);
    let compare = antiphase(&["sim", "compare", "--trace", "trace.csv", "--policies", "srtf,sia"]);
    assert!(compare.code == Some(2) && compare.stderr.contains("elastic"), "{}", compare.stderr);
}
