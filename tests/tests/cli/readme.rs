//! The commands of README.md: each runs from the root of the checkout.

use std::{env, fs, process::Command};

use antiphase_tests::checkout;

use crate::process::{program, run};

/// What starts a command of ours in a console block.
const PROMPT: &str = "$ antiphase ";

/// The lines of ```` ```console ```` blocks that run our program, joined where a backslash ends them.
fn commands(markdown: &str) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    let (mut inside, mut continues) = (false, false);
    for line in markdown.lines() {
        if line.trim_start().starts_with("```") {
            inside = !inside && line.trim() == "```console";
            continues = false;
        } else if continues {
            let last = commands.last_mut().expect("invariant: a continued line has a first line");
            last.push_str(line.trim_end_matches('\\'));
            continues = line.ends_with('\\');
        } else if inside && line.starts_with(PROMPT) {
            commands.push(line["$ ".len()..].trim_end_matches('\\').to_owned());
            continues = line.ends_with('\\');
        }
    }
    commands
}

/// Runs each command in a shell, with the program under test first on PATH; the ones that fail.
fn failures(markdown: &str) -> Vec<String> {
    let old = env::var_os("PATH").expect("PATH is set");
    let folder = program().parent().expect("a program is in a folder").to_path_buf();
    let path = env::join_paths([folder].into_iter().chain(env::split_paths(&old))).expect("a PATH");
    let shell = |line: &String| run(Command::new("sh").args(["-c", line]).current_dir(checkout()).env("PATH", &path), line.clone(), b"");
    commands(markdown)
        .iter()
        .map(shell)
        .filter(|run| run.code != Some(0))
        .map(|run| format!("{}: {:?}: {}", run.arguments, run.code, run.stderr))
        .collect()
}

#[test]
fn every_command_of_the_readme_runs() {
    // The page is written last; until then there is nothing to run.
    let markdown = fs::read_to_string(checkout().join("README.md")).unwrap_or_default();
    let failed = failures(&markdown);
    assert!(failed.is_empty(), "{} commands of README.md fail:\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn a_command_that_fails_is_found() {
    let page = "text\n$ antiphase outside a block\n```console\n$ antiphase profile zoo\n$ ls /nowhere\n$ antiphase solve \\\n    missing.json\nantiphase: missing.json\n```\n```sh\n$ antiphase not a console\n```\n";
    assert_eq!(commands(page), ["antiphase profile zoo", "antiphase solve     missing.json"]);
    let failed = failures(page);
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert!(failed[0].contains("missing.json: Some(2)"), "{failed:?}");
}
