//! Documents of tens of megabytes that are good until their far end, and what never ends.
//!
//! Prints time and memory of each: `ANTIPHASE_PROGRAM=target/release/antiphase cargo test -p antiphase-tests --test cli far_end --
//! --nocapture` is how docs/promises.md measures them.

use std::{fs, io::Write, process::Command, thread, time::Duration};

use crate::{
    expected,
    process::{Run, run},
    refusal::{limited, line, refused},
    scratch::Scratch,
};

/// As large as a document may be, nearly: 64 MiB is the limit.
const NEARLY_ALL: usize = 63 << 20;
/// Most memory that a refusal may take, in MiB.
const MEMORY_MIB: u64 = 1 << 10;

/// A document: what opens it, as many entries as fit, and how it ends.
struct Document {
    case: &'static str,
    arguments: &'static [&'static str],
    head: &'static str,
    entry: fn(usize) -> String,
    tail: &'static [u8],
    bytes: usize,
}

impl Document {
    fn text(&self) -> Vec<u8> {
        let mut text = self.head.as_bytes().to_vec();
        for i in 0.. {
            let entry = (self.entry)(i);
            if text.len() + entry.len() + self.tail.len() > self.bytes {
                break;
            }
            text.extend_from_slice(entry.as_bytes());
        }
        text.extend_from_slice(self.tail);
        text
    }
}

const SCENARIO: &str = r#"{"schema":"antiphase.scenario/v1","tick_ns":1000,"links":[{"id":"l0","capacity_mbps":1000}],"jobs":["#;

fn scenario_job(i: usize) -> String {
    format!(r#"{{"id":"j{i}","period_ticks":1000,"links":["l0"],"phases":[{{"start":0,"end":10,"rate_mbps":1}}]}},"#)
}

const DOCUMENTS: [Document; 17] = [
    Document {
        case: "scenario, an unknown link last",
        arguments: &["solve", "DOCUMENT"],
        head: SCENARIO,
        entry: scenario_job,
        tail: br#"{"id":"z","period_ticks":1000,"links":["nowhere"],"phases":[]}]}"#,
        bytes: NEARLY_ALL,
    },
    Document {
        case: "scenario, not UTF-8 at the end",
        arguments: &["solve", "DOCUMENT"],
        head: SCENARIO,
        entry: scenario_job,
        tail: b"\xff]}",
        bytes: NEARLY_ALL,
    },
    Document {
        case: "scenario, a text without end",
        arguments: &["solve", "DOCUMENT"],
        head: r#"{"schema":""#,
        entry: |_| "\u{2028}".into(),
        tail: br#""}"#,
        bytes: NEARLY_ALL,
    },
    Document {
        case: "fabric, a port twice at the end",
        arguments: &["fabric", "show", "DOCUMENT"],
        head: "schema: antiphase.fabric/v1\nhosts: [a, b]\ncables:\n",
        entry: |i| format!("- {{ends: ['a:p{i}', 'b:p{i}'], capacity: 1G}}\n"),
        tail: b"- {ends: ['a:p0', 'b:z']}\n",
        bytes: 8 << 20,
    },
    Document {
        case: "fabric, hosts without end",
        arguments: &["fabric", "show", "DOCUMENT"],
        head: "schema: antiphase.fabric/v1\nhosts: [",
        entry: |i| format!("h{i}, "),
        tail: b"h0]\n",
        bytes: NEARLY_ALL,
    },
    Document {
        case: "fabric, a key of words without end",
        arguments: &["fabric", "show", "DOCUMENT"],
        head: "{",
        entry: |_| "a ".into(),
        tail: b": 1}\n",
        bytes: NEARLY_ALL,
    },
    Document {
        case: "jobs of a thousand micro-batches, an id twice at the end",
        arguments: &["plan", "--fabric", "fabric.yaml", "--jobs", "DOCUMENT"],
        head: "schema: antiphase.jobs/v1\njobs:\n",
        entry: |i| format!("- {{id: j{i}, model: {{name: gpt3, batch: 1024, micro_batches: 1000}}, hosts: [h1, h2, h3, h4]}}\n"),
        tail: b"- {id: j0, model: {name: bert}, hosts: [h1, h3]}\n",
        bytes: 2 << 20,
    },
    Document {
        case: "candidates, an id twice at the end",
        arguments: &["plan", "--fabric", "fabric.yaml", "--jobs", "jobs.yaml", "--candidates", "DOCUMENT"],
        head: "schema: antiphase.candidates/v1\ncandidates:\n",
        entry: |i| format!("- {{id: c{i}, hosts: {{left: [h1, h3]}}}}\n"),
        tail: b"- {id: c0, hosts: {left: [h1, h3]}}\n",
        bytes: 3 << 20,
    },
    Document {
        case: "topology.yaml, a switch twice at the end",
        arguments: &["fabric", "import", "slurm-yaml", "DOCUMENT"],
        head: "- topology: t\n  cluster_default: true\n  tree:\n    switches:\n",
        entry: |i| format!("    - {{switch: s{i}, nodes: n{i}}}\n"),
        tail: b"    - {switch: s0, nodes: n0}\n",
        bytes: NEARLY_ALL,
    },
    Document {
        case: "topology.conf, nonsense at the end",
        arguments: &["fabric", "import", "slurm-conf", "DOCUMENT"],
        head: "",
        entry: |i| format!("SwitchName=s{i} Nodes=n{i}\n"),
        tail: b"nonsense\n",
        bytes: 8 << 20,
    },
    Document {
        case: "topology.conf, lines of one character",
        arguments: &["fabric", "import", "slurm-conf", "DOCUMENT"],
        head: "SwitchName=s Nodes=n\n",
        entry: |_| "-\n".into(),
        tail: b"",
        bytes: NEARLY_ALL,
    },
    Document {
        case: "topology.conf, switches of nothing",
        arguments: &["fabric", "import", "slurm-conf", "DOCUMENT"],
        head: "",
        entry: |i| format!("SwitchName=s{i}\n"),
        tail: b"",
        bytes: NEARLY_ALL,
    },
    Document {
        case: "lldp, a number for an interface at the end",
        arguments: &["fabric", "import", "lldp", "DOCUMENT"],
        head: r#"{"lldp":{"interface":["#,
        entry: |i| {
            format!(
                r#"{{"eth{i}":{{"chassis":{{"leaf{i}":{{"id":{{"type":"mac","value":"00:00:00:00:00:01"}}}}}},"port":{{"id":{{"type":"ifname","value":"p{i}"}}}}}}}},"#
            )
        },
        tail: br#"{"eth0":7}]}}"#,
        bytes: NEARLY_ALL,
    },
    Document {
        case: "config_db, a number for a name at the end",
        arguments: &["fabric", "import", "sonic", "DOCUMENT"],
        head: r#"{"DEVICE_METADATA":{"localhost":{"hostname":"leaf1"}},"DEVICE_NEIGHBOR":{"#,
        entry: |i| format!(r#""Ethernet{i}":{{"name":"h{i}","port":"eth0"}},"#),
        tail: br#""Ethernet":{"name":5}}}"#,
        bytes: NEARLY_ALL,
    },
    Document {
        case: "topo.csv, a short row at the end",
        arguments: &["fabric", "import", "lingjun", "DOCUMENT"],
        head: "ip,DSW,PSW,ASW\n",
        entry: |i| format!("ip{i},dsw{},psw{},asw{}\n", i % 3, i % 9, i % 100),
        tail: b"x\n",
        bytes: 8 << 20,
    },
    Document {
        case: "topo.csv, a row of nothing but fields",
        arguments: &["fabric", "import", "lingjun", "DOCUMENT"],
        head: "ip,DSW,PSW,ASW\n",
        entry: |_| ",".into(),
        tail: b"",
        bytes: NEARLY_ALL,
    },
    Document {
        case: "containerlab, an unknown node at the end",
        arguments: &["fabric", "import", "containerlab", "DOCUMENT"],
        head: "name: a\ntopology:\n  nodes: {a: {kind: linux}, b: {kind: linux}}\n  links:\n",
        entry: |i| format!("  - endpoints: [\"a:eth{i}\", \"b:eth{i}\"]\n"),
        tail: b"  - endpoints: [\"a:eth0\", \"c:e\"]\n",
        bytes: NEARLY_ALL,
    },
];

/// Runs the program within the limits of every refusal and watches the most memory that it has at once, in MiB; 0 where the system does not tell.
fn watched(arguments: &[&str]) -> (Run, u64) {
    let scratch = Scratch::new("far-end-watched");
    let file = scratch.path("pid");
    // The shell leaves its number and becomes the program, so the number is the program's.
    let mut command = limited("echo $$ > \"$0\"", &file);
    command.args(arguments);
    let watcher = thread::spawn(move || {
        let (mut most, mut seen) = (0, false);
        // As long as the program may run at all; it ends when the program has.
        for _ in 0..12_000 {
            let status = fs::read_to_string(&file).ok().and_then(|pid| fs::read_to_string(format!("/proc/{}/status", pid.trim())).ok());
            let peak = status
                .as_ref()
                .and_then(|s| s.lines().find_map(|l| l.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse::<u64>().ok()));
            match peak {
                Some(kib) => (most, seen) = (most.max(kib >> 10), true),
                None if seen => break,
                None => {}
            }
            thread::sleep(Duration::from_millis(5));
        }
        most
    });
    let ran = run(&mut command, arguments.join(" "), b"");
    drop(scratch);
    (ran, watcher.join().expect("it only looks"))
}

#[test]
fn a_good_document_with_a_bad_far_end_is_refused_in_bounded_memory() {
    let scratch = Scratch::new("far-end");
    let mut lines = String::new();
    for document in &DOCUMENTS {
        let text = document.text();
        let file = scratch.file("DOCUMENT", &text);
        let arguments: Vec<&str> = document.arguments.iter().map(|a| if *a == "DOCUMENT" { &file[..] } else { *a }).collect();
        let (ran, memory) = watched(&arguments);
        let line = line(&ran);
        let said = line.strip_prefix(&format!("{file}: ")).unwrap_or_else(|| panic!("{}: names another file: {line}", document.case));
        println!("{:58} {:3} MiB {:6} ms {memory:5} MiB", document.case, text.len() >> 20, ran.took.as_millis());
        assert!(memory <= MEMORY_MIB, "{}: {memory} MiB", document.case);
        lines.push_str(&format!("{}\n    {said}\n", document.case));
    }
    expected::check_text("refused-far-end", &lines);
}

#[test]
fn a_pipe_that_never_ends_is_left() {
    let scratch = Scratch::new("endless");
    let pipe = scratch.path("pipe");
    if !Command::new("mkfifo").arg(&pipe).status().is_ok_and(|s| s.success()) {
        println!("skipped: mkfifo is not installed");
        return;
    }
    for reader in [&["solve", "PIPE"][..], &["fabric", "show", "PIPE"], &["fabric", "import", "lldp", "PIPE"]] {
        let path = pipe.clone();
        // Ends when the program closes its end.
        let writer = thread::spawn(move || {
            let mut file = fs::OpenOptions::new().write(true).open(path).expect("the program reads");
            while file.write_all(&[b' '; 1 << 16]).is_ok() {}
        });
        let arguments: Vec<&str> = reader.iter().map(|a| if *a == "PIPE" { &pipe[..] } else { *a }).collect();
        assert_eq!(refused(&arguments, b""), format!("{pipe}: larger than 64 MiB"));
        writer.join().expect("a writer that nobody reads from ends");
    }
}
