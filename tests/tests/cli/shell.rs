//! What a shell sees: completions, manual pages, pipes, help, usage.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};

use crate::{
    expected,
    process::{antiphase, documents, program},
    scratch::Scratch,
};

/// Every command, as it is typed.
pub(crate) const COMMANDS: [&str; 19] = [
    "plan",
    "explain",
    "solve",
    "fabric import",
    "fabric export",
    "fabric generate clos2",
    "fabric generate clos3",
    "fabric generate rail",
    "fabric generate cassini24",
    "fabric generate",
    "fabric show",
    "fabric diff",
    "fabric routes",
    "profile synth",
    "profile show",
    "profile zoo",
    "jobs synth",
    "completions",
    "man",
];

#[test]
fn completions_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let run = antiphase(&["completions", shell]);
        for word in ["candidates", "cassini24", "assume-capacity"] {
            assert!(run.ok().contains(word), "{shell}: {word} is not completed");
        }
    }
    for (program, words) in
        [("antiphase-topology", ["ecmp", "pki"]), ("antiphase-agent", ["config", "check"]), ("antiphase-verbs", ["traffic-class", "probe"])]
    {
        for shell in ["bash", "zsh", "fish"] {
            let run = antiphase(&["completions", shell, program]);
            let text = run.ok();
            assert!(text.contains(program) && words.iter().all(|word| text.contains(word)), "{shell}: {program}");
            assert!(!text.contains("cassini24"), "{shell}: {program} is completed as antiphase");
        }
    }
}

#[test]
fn a_manual_page_for_every_command() {
    let scratch = Scratch::new("man");
    let folder = scratch.path("pages");
    antiphase(&["man", &folder]).ok();
    for command in COMMANDS {
        let page = format!("{folder}/antiphase-{}.1", command.replace(' ', "-"));
        let text = fs::read_to_string(&page).unwrap_or_else(|error| panic!("{page}: {error}"));
        assert!(text.contains(".SH SYNOPSIS") && text.contains(".SH OPTIONS"), "{page}: {text}");
    }
    for (page, words) in [
        ("antiphase-topology", ["topology.redb", "vital thread"]),
        ("antiphase-topology-pki-issue", ["role", "topology.redb"]),
        ("antiphase-agent", ["antiphase\\-agent.toml", "/run/antiphase"]),
        ("antiphase-agent-config-check", ["config", "the pages are taken back"]),
        ("antiphase-verbs", ["ib_uverbs", "libibverbs.so.1"]),
        ("antiphase-verbs-write", ["compute\\-ms", "/run/antiphase"]),
        ("antiphase-solve", ["A loop in paper mode", "antiphase\\-topology"]),
    ] {
        let text = fs::read_to_string(format!("{folder}/{page}.1")).unwrap_or_else(|error| panic!("{page}: {error}"));
        for word in ["EXIT STATUS", "FILES", "SEE ALSO"].into_iter().chain(words) {
            assert!(text.contains(word), "{page}: {word}: {text}");
        }
    }
    // A file where the folder should be is a failure, not bad input.
    let taken = scratch.file("taken", "");
    antiphase(&["man", &taken]).expect(1);
}

#[test]
fn help_is_there_for_every_command() {
    expected::check("help", &antiphase(&["--help"]));
    for command in COMMANDS {
        let words: Vec<&str> = command.split(' ').collect();
        let run = antiphase(&[&words[..], &["--help"]].concat());
        assert!(run.ok().contains(&format!("Usage: antiphase {command}")), "{command}: {}", run.stdout);
        // Every option says what it does: a line with a dash and nothing behind it explains nothing.
        let short = antiphase(&[&words[..], &["-h"]].concat());
        let lines: Vec<&str> = short.ok().lines().collect();
        for (at, line) in lines.iter().enumerate().filter(|(_, line)| line.trim_start().starts_with("--") || line.starts_with("  -")) {
            let said = line.trim().split_once("  ").map(|(_, said)| said).or_else(|| lines.get(at + 1).copied());
            let said = said.unwrap_or_default().trim_start();
            assert!(!said.is_empty() && !said.starts_with(['-', '[']), "{command}: {line:?} is not explained");
        }
    }
}

#[test]
fn a_closed_pipe_is_no_error() {
    let profile = ["profile", "zoo"];
    let big = ["fabric", "generate", "clos2", "--leaves", "64", "--spines", "8", "--hosts-per-leaf", "64"];
    for arguments in [&profile[..], &big] {
        let mut child = Command::new(program())
            .args(arguments)
            .current_dir(documents())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut first = String::new();
        let stdout = child.stdout.take().expect("invariant: a pipe was asked for");
        BufReader::with_capacity(16, stdout).read_line(&mut first).expect("a line");
        assert!(!first.trim().is_empty());
        // The reader is gone now, as `head -1` is.
        let output = child.wait_with_output().expect("the program ends");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {said}");
        assert!(!said.contains("error") && !said.contains("panicked"), "{arguments:?}: {said}");
    }
}

#[test]
fn a_full_disk_is_a_failure() {
    if !cfg!(target_os = "linux") {
        eprintln!("skipped: /dev/full is Linux's");
        return;
    }
    let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
    let output = Command::new(program()).args(["profile", "zoo"]).stdout(full).output().expect("the program runs");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "antiphase: standard output: No space left on device (os error 28)\n");
}

#[test]
fn standard_error_may_be_gone() {
    let mut child = Command::new(program()).args(["solve", "missing.json"]).stderr(Stdio::piped()).spawn().expect("the program starts");
    drop(child.stderr.take());
    assert_eq!(child.wait().expect("the program ends").code(), Some(2));
}

#[test]
fn usage_mistakes_are_exit_code_2() {
    expected::check("usage-no-command", &antiphase(&[]));
    expected::check("usage-unknown-option", &antiphase(&["plan", "--fabrik", "x"]));
    expected::check("usage-wrong-value", &antiphase(&["solve", "x", "-o", "png"]));
    expected::check("usage-capacity", &antiphase(&["fabric", "import", "lldp", "x", "--assume-capacity", "host-leaf=50"]));
    for robust in ["0", "-1", "nan", "1e9"] {
        antiphase(&["plan", "--fabric", "fabric.yaml", "--jobs", "jobs.yaml", &format!("--robust={robust}")]).expect(2);
    }
}
