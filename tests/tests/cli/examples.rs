//! The examples that `--help` prints: each of them runs.

use std::{env, fs, process::Command};

use crate::{
    process::{antiphase, documents, program, run},
    scratch::Scratch,
    shell::COMMANDS,
};

/// An example, and the exit codes with which it may end.
#[derive(Debug, PartialEq, Eq)]
struct Example {
    line: String,
    codes: Vec<i32>,
}

/// The lines of a help text that are commands; the line above one says `(exit code N)` where it may fail.
fn examples(help: &str) -> Vec<Example> {
    let mut found = Vec::new();
    let mut above = "";
    for line in help.lines() {
        if line.starts_with("    ") && line.contains("antiphase ") && !line.contains('`') {
            let code = above.split_once("(exit code ").and_then(|(_, rest)| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok());
            found.push(Example { line: line.trim().to_owned(), codes: [0].into_iter().chain(code).collect() });
        }
        above = line;
    }
    found
}

/// A folder with every file that an example names.
fn files(scratch: &Scratch) {
    for name in ["fabric.yaml", "jobs.yaml", "candidates.yaml", "scenario.json"] {
        fs::copy(documents().join(name), scratch.folder().join(name)).expect("a copy of a document");
    }
    let fixtures = documents().join("../../../../crates/fabric/tests/fixtures");
    fs::create_dir_all(scratch.folder().join("lldp")).expect("a folder");
    for (from, to) in [
        ("slurm/topology.yaml", "topology.yaml"),
        ("sonic/leaf1.json", "leaf1.json"),
        ("sonic/spine1.json", "leaf2.json"),
        ("lldp/gpu-01.json", "lldp/gpu-01.json"),
        ("lldp/leaf1.json", "lldp/leaf1.json"),
    ] {
        fs::copy(fixtures.join(from), scratch.folder().join(to)).expect("a copy of a fixture");
    }
    // What LLDP prints at the other end of an ssh.
    scratch.file("ssh", "#!/bin/sh\ncat lldp/leaf1.json\n");
    let mut executable = fs::metadata(scratch.folder().join("ssh")).expect("a file").permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut executable, 0o755);
    fs::set_permissions(scratch.folder().join("ssh"), executable).expect("an executable");
}

#[test]
fn every_example_of_the_help_runs() {
    let scratch = Scratch::new("examples");
    files(&scratch);
    let folders = [program().parent().expect("a program is in a folder"), scratch.folder()];
    let old = env::var_os("PATH").expect("PATH is set");
    let path = env::join_paths(folders.into_iter().map(Into::into).chain(env::split_paths(&old))).expect("a PATH");
    let with_examples = ["plan", "explain", "solve", "fabric import", "fabric generate", "profile synth", "jobs synth"];
    for command in COMMANDS {
        let help = antiphase(&[&command.split(' ').collect::<Vec<_>>()[..], &["--help"]].concat());
        let found = examples(help.ok());
        assert!(found.len() >= 2 || !with_examples.contains(&command), "{command} has {} examples", found.len());
        for example in found {
            let shell = run(
                Command::new("sh").args(["-c", &example.line]).current_dir(scratch.folder()).env("PATH", &path),
                example.line.clone(),
                b"",
            );
            assert!(shell.code.is_some_and(|code| example.codes.contains(&code)), "{command}: {example:?}: {shell:?}");
        }
    }
}

#[test]
fn the_first_plan_of_the_help_runs() {
    let scratch = Scratch::new("first-plan");
    let help = antiphase(&["--help"]);
    let lines: Vec<&str> = help.ok().lines().filter(|line| line.starts_with("  antiphase ")).collect();
    assert_eq!(lines.len(), 3, "{}", help.stdout);
    let script = lines.join(" && ").replace("antiphase ", &format!("'{}' ", program().display()));
    let shell = run(Command::new("sh").args(["-c", &script]).current_dir(scratch.folder()), script.clone(), b"");
    assert!(shell.expect(0).contains("\nbest: "), "{}", shell.stdout);
}

#[test]
fn examples_are_found() {
    let help =
        "EXAMPLES\n  Bad (exit code 3 for loops):\n    antiphase solve x\n  Good:\n    ssh a | antiphase fabric import lldp -\nOptions\n";
    let example = |line: &str, codes: &[i32]| Example { line: line.into(), codes: codes.to_vec() };
    assert_eq!(examples(help), [example("antiphase solve x", &[0, 3]), example("ssh a | antiphase fabric import lldp -", &[0])]);
}
