//! `antiphase profile`.

use crate::{
    expected,
    process::{antiphase, antiphase_reading, document},
    refusal::{changed, refusals},
    scratch::Scratch,
};

#[test]
fn what_synth_writes_show_reads() {
    let synth = ["profile", "synth", "vgg16", "--batch", "1400", "--nic", "50G"];
    let table = antiphase(&synth);
    expected::check("profile-synth", &table);
    for format in ["json", "yaml"] {
        let document = antiphase(&[&synth[..], &["-o", format]].concat());
        let show = |more: &[&str]| antiphase_reading(&[&["profile", "show", "-"], more].concat(), document.ok().as_bytes());
        assert_eq!(show(&[]).ok(), table.stdout);
        assert_eq!(show(&["-o", format]).ok(), document.stdout);
    }
}

#[test]
fn a_profile_is_shown() {
    expected::check("profile-show", &antiphase(&["profile", "show", "profile.yaml"]));
    let profile = antiphase(&["profile", "show", "profile.yaml", "-o", "json"]).json();
    let fields = ["confidence", "iterations", "model", "name", "period_ns", "phases", "ranks", "schema", "source", "variance"];
    assert_eq!(crate::solve::keys(&profile), fields);
    assert_eq!(crate::solve::keys(&profile["phases"][0]), ["collective", "duration_ns", "rate_mbps", "scope", "start_ns"]);
    assert_eq!(crate::solve::keys(&profile["ranks"]), ["cp", "dp", "ep", "gpus_per_host", "pp", "tp"]);
    // What it prints is the document that it read, completed.
    let text = document("profile.yaml");
    let yaml = antiphase_reading(&["profile", "show", "-", "-o", "yaml"], text.as_bytes());
    assert_eq!(antiphase_reading(&["profile", "show", "-", "-o", "yaml"], yaml.ok().as_bytes()).ok(), yaml.stdout);
}

#[test]
fn options_reach_the_synthesis() {
    let synth = |options: &[&str]| antiphase(&[&["profile", "synth"], options].concat());
    let table = synth(&["llama-70b", "--tp", "8", "--pp", "4", "--dp", "2", "--gpus-per-host", "8", "--nic", "100G"]);
    assert!(table.ok().contains("64 = tp 8 x cp 1 x pp 4 x dp 2"), "{}", table.stdout);
    let fsdp = synth(&["llama-7b", "--strategy", "fsdp", "--ranks", "16"]);
    assert!(fsdp.ok().contains("llama-7b-fsdp16-b2") && fsdp.stdout.contains("more; -o json lists them all"), "{}", fsdp.stdout);
}

#[test]
fn the_zoo_is_listed() {
    assert!(antiphase(&["profile", "zoo"]).ok().starts_with("MODEL "));
    let one = antiphase(&["profile", "zoo", "vgg16"]);
    assert!(one.ok().starts_with("NUMBER ") && one.stdout.contains("reference setting: dp"), "{}", one.stdout);
}

#[test]
fn mistakes_in_options_are_one_line() {
    for (options, want) in [
        (&["synth", "vgg13"][..], "model \"vgg13\": not in the zoo; known: vgg11, "),
        (&["zoo", "vgg13"], "model \"vgg13\": not in the zoo; known: vgg11, "),
        (&["synth", "vgg16", "--nic", "50"], "--nic: capacity \"50\": expected a number with the unit M, G or T, for example 400G"),
        (&["synth", "vgg16", "--nic", "99999999999999T"], "--nic: capacity \"99999999999999T\": too large"),
        (&["synth", "vgg16", "--strategy", "ddp"], "--strategy: unknown strategy \"ddp\""),
        (&["synth", "gpt3", "--tp", "3", "--ranks", "8"], "ranks: 8; must be a multiple"),
        (&["synth", "vgg16", "--batch", "18446744073709551615"], "batch: 18446744073709551615; "),
        (&["synth", "vgg16", "--ranks", "4294967295"], "dp: 4294967295; must be 1 to "),
        (&["synth", "vgg16", "--gpu", "18446744073709551615"], "gpu: 18446744073709551615 TFLOP/s; too large"),
        (&["synth", "vgg16", "--gpu", "0"], "gpu_gflops: 0; "),
        (&["synth", "vgg16", "--efficiency", "0"], "efficiency"),
        (&["synth", "vgg16", "--overlap", "101"], "overlap"),
        (&["synth", "vgg16", "--micro-batches", "4294967295"], "micro_batches: 4294967295; "),
        (&["synth", "vgg16", "--gpus-per-host", "0"], "gpus_per_host: 0; "),
        (&["synth", "vgg16", "--nics-per-host", "0"], "nics_per_host: 0; "),
    ] {
        let got = crate::refusal::refused(&[&["profile"], options].concat(), b"");
        assert!(got.starts_with(want), "{options:?}: {got}");
    }
}

/// Readings every 5 ms of a port that sends for 120 of every 300 ms at 4 Gbit/s, each iteration 6 ms longer or shorter than the one before.
fn counters() -> String {
    let (mut text, mut bytes, mut at_ms, mut begun, mut count) = ("t_ns,tx_bytes,rx_bytes\n".to_owned(), 7_u64, 0_u64, 0_u64, 0_u64);
    while at_ms < 12_000 {
        text += &format!("{},{bytes},{}\n", at_ms * 1_000_000, at_ms);
        for _ in 0..5 {
            at_ms += 1;
            if at_ms - begun == if count % 2 == 0 { 303 } else { 297 } {
                (begun, count) = (at_ms, count + 1);
            }
            bytes += if (180..300).contains(&(at_ms - begun)) { 500_000 } else { 0 };
        }
    }
    text
}

#[test]
fn a_profile_is_learned_from_counters() {
    let learn = |text: &str, more: &[&str]| antiphase_reading(&[&["profile", "learn", "-"], more].concat(), text.as_bytes());
    let text = counters();
    let learned = learn(&text, &["-o", "json"]).json();
    let number = |of: &serde_json::Value| of.as_f64().expect("a number");
    assert_eq!((&learned["schema"], &learned["periodic"]), (&"antiphase.learned/v1".into(), &true.into()));
    assert!((number(&learned["period_ns"]) / 3e8 - 1.0).abs() < 0.005 && number(&learned["confidence"]) > 0.9, "{learned}");
    let phases = learned["phases"].as_array().expect("phases");
    assert_eq!((phases.len(), &phases[0]["start_ns"]), (1, &0.into()));
    // An iteration of 297 ms sends for 117.
    assert!(
        (number(&phases[0]["duration_ns"]) - 1.185e8).abs() < 1e7 && (number(&phases[0]["rate_mbps"]) - 4_000.0).abs() < 40.0,
        "{learned}"
    );
    assert!(learn(&text, &[]).ok().starts_with("job: 300"), "{}", learn(&text, &[]).stdout);
    // What came in grew steadily.
    let steady = learn(&text, &["-o", "json", "--direction", "rx"]).json();
    assert_eq!(
        (&steady["periodic"], &steady["why"], &steady["period_ns"]),
        (&false.into(), &"the rate does not vary".into(), &serde_json::Value::Null)
    );
    // A counter that begins anew in the middle of its way leaves the longer part.
    let half = text.lines().nth(900).expect("a line").split(',').nth(1).expect("bytes").to_owned();
    let anew: Vec<String> = text
        .lines()
        .enumerate()
        .map(|(at, line)| if at > 900 { line.replacen(&format!(",{half}"), ",0", 1) } else { line.to_owned() })
        .collect();
    let part = learn(&anew.join("\n"), &["-o", "json"]).json();
    assert!(part["periodic"] == true, "{part}");
}

/// Reading paused for 7 s in the middle: no second job on the port, and the pause is counted.
#[test]
fn a_pause_in_a_recording_is_told_and_no_job() {
    let paused: String = counters()
        .lines()
        .map(|line| match line.split_once(',').map(|(at, rest)| (at.parse::<u64>(), rest)) {
            Some((Ok(at), rest)) if at >= 5_000_000_000 => format!("{},{rest}\n", at + 7_000_000_000),
            _ => format!("{line}\n"),
        })
        .collect();
    let learn = |more: &[&str]| antiphase_reading(&[&["profile", "learn", "-"], more].concat(), paused.as_bytes());
    let found = learn(&["-o", "json"]).json();
    assert_eq!(
        (&found["periodic"], &found["gaps"], &found["resets"], &found["others"]),
        (&true.into(), &1.into(), &0.into(), &serde_json::Value::Null)
    );
    assert!((found["period_ns"].as_f64().expect("a period") / 3e8 - 1.0).abs() < 0.005, "{found}");
    let said = learn(&[]).ok().to_owned();
    assert!(said.starts_with("times that nothing was read for long: 1; the longest stretch without is looked at\njob: "), "{said}");
}

/// What `import` prints is a profile of a job, and is planned as it stands.
#[test]
fn what_was_learned_is_planned() {
    let scratch = Scratch::new("learned");
    let learned = antiphase_reading(&["profile", "import", "-", "-o", "json"], trace().as_bytes()).ok().to_owned();
    let file = scratch.file("learned.json", learned);
    let file = file.as_str();
    let shown = antiphase(&["profile", "show", file, "-o", "json"]).json();
    assert_eq!(
        (&shown["schema"], &shown["period_ns"], &shown["source"]),
        (&"antiphase.profile/v1".into(), &100_000_000.into(), &"learned".into())
    );
    assert_eq!((&shown["ranks"]["dp"], &shown["phases"][0]["duration_ns"]), (&2.into(), &17_000_000.into()));
    let jobs = "schema: antiphase.jobs/v1\njobs:\n- {id: left, profile_file: learned.json, hosts: [h1, h3]}\n\
        - {id: right, profile_file: learned.json, hosts: [h2, h4]}\n";
    let jobs = scratch.file("jobs.yaml", jobs);
    let plan = antiphase(&["plan", "--fabric", "fabric.yaml", "--jobs", &jobs, "-o", "json"]).json();
    assert_eq!(plan["schema"], "antiphase.plan/v1", "{plan}");
    assert!(plan.to_string().contains("\"left\"") && plan.to_string().contains("\"right\""), "{plan}");
    // Without a period there is nothing to plan by.
    scratch.file("learned.json", r#"{"schema": "antiphase.learned/v1", "periodic": false, "why": "the rate does not vary"}"#);
    let refused = antiphase(&["plan", "--fabric", "fabric.yaml", "--jobs", &jobs]);
    assert!(refused.code == Some(2) && refused.stderr.contains("periodic: false (the rate does not vary)"), "{}", refused.stderr);
}

#[test]
fn counters_that_are_none_are_refused() {
    let good = "t_ns,tx_bytes,rx_bytes\n0,1,1\n5,2,2\n10,3,3\n".to_owned();
    let with = |from: &str, to: &str| changed(&good, from, to);
    let cases = [
        ("a column is missing", with("rx_bytes", "rx")),
        ("a column twice", with("rx_bytes", "tx_bytes")),
        ("a field is missing", with("5,2,2", "5,2")),
        ("negative bytes", with("5,2,2", "5,-2,2")),
        ("a fraction of a byte", with("5,2,2", "5,2.5,2")),
        ("more than 64 bits", with("5,2,2", "5,18446744073709551616,2")),
        ("a time that goes back", with("10,3,3", "4,3,3")),
        ("a time twice, with Windows line ends", with("10,3,3", "5,3,3").replace('\n', "\r\n")),
        ("one reading", "t_ns,tx_bytes,rx_bytes\n0,1,1\n".to_owned()),
        ("empty", String::new()),
    ];
    refusals("counters", &["profile", "learn", "DOCUMENT"], cases);
}

/// Five iterations of 100 ms in a trace of PyTorch: two buckets 1 ms apart, of 10 and 8 MB among 4 ranks, in 8 ms each.
fn trace() -> String {
    let bucket = |at_us: u64, elements: u64| {
        format!(
            r#"{{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", "ts": {at_us}.25, "dur": 8000, "pid": 0, "tid": 7,
                "args": {{"stream": 7, "Collective name": "allreduce", "In msg nelems": {elements}, "Group size": 4, "dtype": "Float"}}}}"#
        )
    };
    let events: Vec<String> =
        (0..5).flat_map(|n| [bucket(1_000_000 + n * 100_000, 2_500_000), bucket(1_009_000 + n * 100_000, 2_000_000)]).collect();
    let compute = r#"{"ph": "X", "cat": "kernel", "name": "gemm", "ts": 1, "dur": 2, "args": {}}, {"ph": "M", "name": "process_name"}"#;
    format!(r#"{{"schemaVersion": 1, "traceEvents": [{compute}, {}]}}"#, events.join(",\n"))
}

/// A file of gzip (RFC 1952) that packs nothing: blocks as they are, and CRC-32 and length behind them.
fn gzip(text: &[u8]) -> Vec<u8> {
    let step = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
    let crc = !text.iter().fold(u32::MAX, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), step));
    let mut packed = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let blocks: Vec<&[u8]> = text.chunks(60_000).collect();
    for (at, block) in blocks.iter().enumerate() {
        let length = u16::try_from(block.len()).expect("a short block");
        packed.push(u8::from(at + 1 == blocks.len()));
        packed.extend(length.to_le_bytes().into_iter().chain((!length).to_le_bytes()));
        packed.extend_from_slice(block);
    }
    let length = u32::try_from(text.len()).expect("a short text");
    packed.extend(crc.to_le_bytes().into_iter().chain(length.to_le_bytes()));
    packed
}

#[test]
fn a_profile_is_imported_from_traces() {
    let import = |bytes: &[u8], more: &[&str]| antiphase_reading(&[&["profile", "import", "-"], more].concat(), bytes);
    let text = trace();
    let found = import(text.as_bytes(), &["-o", "json"]).json();
    assert_eq!((&found["schema"], &found["format"], &found["periodic"]), (&"antiphase.learned/v1".into(), &"kineto".into(), &true.into()));
    assert_eq!((&found["period_ns"], &found["iterations"], &found["collectives"]), (&100_000_000.into(), &5.into(), &10.into()));
    // Of 18 MB 27 MB leave each of 4 ranks in 17 ms: one phase, as 1 ms is no time for another job.
    let phases = serde_json::json!([{"start_ns": 0, "duration_ns": 17_000_000, "rate_mbps": 12_705}]);
    assert_eq!(found["phases"], phases);
    assert_eq!(import(&gzip(text.as_bytes()), &["-o", "json"]).json(), found);
    assert!(import(text.as_bytes(), &[]).ok().starts_with("kineto: 10 collectives, 0 without a size\njob: 100.000 ms an iteration"));
    // Nsight Systems does not say how much was sent, so somebody has to.
    let kernels: String = (0..4).map(|n| format!("{},5000000,ncclDevKernel_AllReduce(x)\n", n * 50_000_000)).collect();
    let table = format!("Start (ns),Duration (ns),Name\n{kernels}");
    let found = import(table.as_bytes(), &["--rate", "100G", "-o", "json"]).json();
    assert_eq!(found["phases"], serde_json::json!([{"start_ns": 0, "duration_ns": 5_000_000, "rate_mbps": 100_000}]));
    // Two iterations are none yet: an answer, and no failure.
    let few = import(table.lines().take(3).collect::<Vec<_>>().join("\n").as_bytes(), &["-o", "json"]).json();
    assert!(few["periodic"] == false && few["why"].as_str().is_some_and(|why| why.contains("record more iterations")), "{few}");
}

/// What rank 0 of two recorded on an H100 (PyTorch 2.11.0, NCCL 2.28.9, `all_reduce` of four million bytes), of which NCCL's kernels and what
/// PyTorch notes beside them are kept. Rank 0 recorded first, and waited 454 ms in its first all-reduce until rank 1 did too.
#[test]
fn a_trace_from_a_gpu_is_imported() {
    let text = include_str!("traces/pytorch-2.11-nccl-2.28-h100.json");
    let import = |more: &[&str]| antiphase_reading(&[&["profile", "import", "-"], more].concat(), text.as_bytes());
    let found = import(&["-o", "json"]).json();
    let number = |key: &str| found[key].as_f64().unwrap_or_else(|| panic!("{key} in {found}"));
    assert_eq!((number("collectives"), number("without_size"), number("stalled"), number("iterations")), (10.0, 0.0, 1.0, 10.0), "{found}");
    // As between the starts of the last nine kernels.
    assert!((29.0e6..29.1e6).contains(&number("period_ns")) && number("jitter") < 0.01, "{found}");
    let phases = found["phases"].as_array().expect("phases");
    assert!(phases.len() == 1 && (3.9e6..4.1e6).contains(&phases[0]["duration_ns"].as_f64().expect("a length")), "{found}");
    assert!(import(&[]).ok().contains("are left out: 1\n"));
}

/// Two tables by the documented schema, made by Python's SQLite: the answer is that of the same kernels as a table of text.
#[test]
fn a_profile_is_imported_from_an_export_to_sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("report.sqlite");
    let script = "import sqlite3, sys\nc = sqlite3.connect(sys.argv[1])\n\
        c.execute('CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL)')\n\
        c.execute('CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, demangledName INTEGER NOT NULL)')\n\
        c.execute(\"INSERT INTO StringIds VALUES (9, 'ncclDevKernel_AllReduce(x)')\")\n\
        for n in range(4): c.execute('INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, 9)', (n * 50000000, n * 50000000 + 5000000))\n\
        c.commit()\n";
    let made = std::process::Command::new("python3").args(["-c", script]).arg(&path).output();
    if !made.is_ok_and(|made| made.status.success()) {
        println!("skipped: python3 with sqlite3 is not here, so no export was made");
        return;
    }
    let kernels: String = (0..4).map(|n| format!("{},5000000,ncclDevKernel_AllReduce(x)\n", n * 50_000_000)).collect();
    let table = format!("Start (ns),Duration (ns),Name\n{kernels}");
    let more = ["--rate", "100G", "-o", "json"];
    let mut expected = antiphase_reading(&[&["profile", "import", "-"][..], &more].concat(), table.as_bytes()).json();
    expected["format"] = "nsight-sqlite".into();
    let name = path.to_str().expect("a name of UTF-8");
    assert_eq!(antiphase(&[&["profile", "import", name][..], &more].concat()).json(), expected);
    let bytes = std::fs::read(&path).expect("the file");
    for bytes in [gzip(&bytes), bytes] {
        assert_eq!(antiphase_reading(&[&["profile", "import", "-"][..], &more].concat(), &bytes).json(), expected);
    }
    // Somebody still writes it.
    std::fs::write(folder.path().join("report.sqlite-wal"), "x").expect("a file");
    let refused = antiphase(&[&["profile", "import", name][..], &more].concat());
    assert!(refused.code == Some(2) && refused.stderr.contains("report.sqlite-wal has a part of it"), "{}", refused.stderr);
}

#[test]
fn traces_that_lack_what_is_needed_are_refused() {
    let mut cut = gzip(trace().as_bytes());
    cut.truncate(500);
    let kernels = (0..4).map(|n| format!("{},5,ncclX\n", n * 50)).collect::<String>();
    let cases: [(&'static str, Vec<u8>); 8] = [
        ("empty", Vec::new()),
        ("another table", b"t_ns,tx_bytes,rx_bytes\n0,1,1\n".to_vec()),
        ("a trace without communication", b"{\"traceEvents\": []}".to_vec()),
        ("a trace that is cut", trace().as_bytes()[..900].to_vec()),
        ("a packed trace that is cut", cut),
        ("no sizes", format!("Start (ns),Duration (ns),Name\n{kernels}").into_bytes()),
        ("an export to SQLite", b"SQLite format 3\0\x10".to_vec()),
        ("a log without times", br#"{"header": {"n_ranks": 8}, "coll_perf": {"coll": "AllReduce", "coll_msg_size_bytes": 8}}"#.to_vec()),
    ];
    refusals("imports", &["profile", "import", "DOCUMENT"], cases);
}
