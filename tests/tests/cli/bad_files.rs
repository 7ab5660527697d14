//! Files that are no documents at all, given to every command that reads one.

use std::fs;

use crate::{refusal::refused, scratch::Scratch};

/// Every way to read a document; the file stands where it says `DOCUMENT`.
const READERS: [&str; 24] = [
    "solve DOCUMENT",
    "plan --fabric DOCUMENT --jobs jobs.yaml",
    "plan --fabric fabric.yaml --jobs DOCUMENT",
    "plan --fabric fabric.yaml --jobs jobs.yaml --candidates DOCUMENT",
    "explain --fabric DOCUMENT --jobs jobs.yaml",
    "explain --fabric fabric.yaml --jobs DOCUMENT",
    "explain --fabric fabric.yaml --jobs jobs.yaml --candidates DOCUMENT",
    "fabric show DOCUMENT",
    "fabric diff DOCUMENT fabric.yaml",
    "fabric diff fabric.yaml DOCUMENT",
    "fabric export DOCUMENT -f slurm-yaml",
    "fabric routes DOCUMENT --from h1 --to h2",
    "fabric import slurm-yaml DOCUMENT",
    "fabric import slurm-conf DOCUMENT",
    "fabric import lldp DOCUMENT",
    "fabric import sonic DOCUMENT",
    "fabric import topograph DOCUMENT",
    "fabric import lingjun DOCUMENT",
    "fabric import containerlab DOCUMENT",
    "fabric import containerlab ../../../../crates/fabric/tests/fixtures/containerlab/lab.clab.yml --with sonic=DOCUMENT",
    "profile show DOCUMENT",
    "profile show DOCUMENT -o json",
    "jobs synth --fabric DOCUMENT --jobs-out /dev/null/a --candidates-out /dev/null/b",
    "solve DOCUMENT --mode cassini",
];

/// Every reader refuses `file`; returns what they say after its name.
fn every_reader_refuses(file: &str, stdin: &[u8]) -> Vec<String> {
    let said = READERS.iter().map(|reader| {
        let arguments: Vec<String> = reader.split(' ').map(|word| word.replace("DOCUMENT", file)).collect();
        let line = refused(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), stdin);
        line.strip_prefix(&format!("{file}: ")).unwrap_or_else(|| panic!("{reader}: names another file: {line}")).to_owned()
    });
    said.collect()
}

fn all_say(file: &str, stdin: &[u8], problem: &str) {
    for (reader, said) in READERS.iter().zip(every_reader_refuses(file, stdin)) {
        assert_eq!(said, problem, "{reader}");
    }
}

#[test]
fn a_missing_file() {
    all_say("missing.yaml", b"", "No such file or directory (os error 2)");
}

#[test]
fn a_directory() {
    all_say("expected", b"", "No such file or directory (os error 2)");
    all_say("..", b"", "is a directory, not a document");
}

#[test]
fn bytes_without_end() {
    all_say("/dev/zero", b"", "larger than 64 MiB");
}

#[test]
fn a_file_over_the_limit_is_not_read() {
    let scratch = Scratch::new("over");
    let file = scratch.file("DOCUMENT", "");
    // No block of it is on the disk.
    fs::OpenOptions::new().write(true).open(&file).and_then(|f| f.set_len(1 << 30)).expect("a sparse file");
    all_say(&file, b"", "larger than 64 MiB");
}

#[test]
fn a_pipe_over_the_limit_is_left() {
    all_say("-", &vec![b'['; 65 << 20], "larger than 64 MiB");
}

#[test]
fn a_file_that_may_not_be_read() {
    // `/proc/self/mem` is a file of the system that even root cannot read from its beginning.
    if fs::metadata("/proc/self/mem").is_err() {
        eprintln!("skipped: there is no /proc/self/mem here");
        return;
    }
    all_say("/proc/self/mem", b"", "Input/output error (os error 5)");
}

#[test]
fn text_that_is_not_utf_8() {
    let scratch = Scratch::new("utf-8");
    let file = scratch.file("DOCUMENT", b"schema: x\nname: a\xffb\n");
    all_say(&file, b"", "line 2: byte 17 is 0xff, which is not UTF-8");
}

#[test]
fn nothing_and_nonsense() {
    let scratch = Scratch::new("nonsense");
    for (name, text) in [
        ("empty", ""),
        ("blank", " \n\n\t \n"),
        ("word", "hello"),
        ("number", "42"),
        ("null", "null"),
        ("open", "{"),
        ("closed", "]"),
        ("nul", "\0\0\0"),
        ("escape", "\u{1b}[31mred\u{1b}[0m: \u{202e}1"),
        ("alias", "a: *a"),
        ("tag", "!!python/object/apply:os.system [\"false\"]"),
        ("long-key", &"x".repeat(1 << 20)),
    ] {
        let file = scratch.file(name, text);
        if text.trim().is_empty() {
            all_say(&file, b"", "is empty");
        } else {
            every_reader_refuses(&file, b"");
        }
    }
}

#[test]
fn brackets_up_to_the_limit() {
    let scratch = Scratch::new("brackets");
    for (name, text) in [("lists", "["), ("objects", "{\"a\":"), ("items", "- ")] {
        let file = scratch.file(name, text.repeat((63 << 20) / text.len()));
        every_reader_refuses(&file, b"");
        fs::remove_file(file).expect("the file is there");
    }
}

#[test]
fn laughs() {
    // Nine levels of nine aliases each are 9^9 = 387 million values.
    let mut laughs = String::from("a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n");
    for i in 1..9 {
        let again = format!("*a{}", i - 1);
        laughs.push_str(&format!("a{i}: &a{i} [{}]\n", [&again[..]; 9].join(", ")));
    }
    let scratch = Scratch::new("laughs");
    let file = scratch.file("DOCUMENT", &laughs);
    every_reader_refuses(&file, b"");
    // The same below the keys of each document, so that it is not refused for its first key.
    for (reader, prefix) in [
        ("plan --fabric DOCUMENT --jobs jobs.yaml", "schema: antiphase.fabric/v1\nhosts: "),
        ("plan --fabric fabric.yaml --jobs DOCUMENT", "schema: antiphase.jobs/v1\njobs: "),
        ("plan --fabric fabric.yaml --jobs jobs.yaml --candidates DOCUMENT", "schema: antiphase.candidates/v1\ncandidates: "),
        ("profile show DOCUMENT", "schema: antiphase.profile/v1\nname: "),
        ("fabric import containerlab DOCUMENT", "topology: {nodes: {}}\nname: "),
        ("fabric import slurm-yaml DOCUMENT", "- topology: "),
    ] {
        let bomb = "[&a [x, x, x, x, x, x, x, x, x]".to_owned() + &", &b [*a, *a, *a, *a, *a, *a, *a, *a, *a]".repeat(9) + "]";
        let file = scratch.file("below", format!("{prefix}{bomb}\n{laughs}"));
        let arguments: Vec<String> = reader.split(' ').map(|word| word.replace("DOCUMENT", &file)).collect();
        refused(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), b"");
    }
}
