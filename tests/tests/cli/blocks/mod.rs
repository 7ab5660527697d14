//! Every block of every page is run as it is written, or is checked by the program that reads it, or says why not: `pages.rs` has the
//! list. What a reader does by hand is done here: the service of a page is started from the page's own line, on a free port.

mod find;
mod pages;
mod run;

use std::{collections::BTreeSet, fs, process::Command};

use antiphase_tests::checkout;
use find::{Block, blocks};
use pages::{Check, EVERYWHERE, PAGES, Page};

/// Languages that a block may have: what is run, what a program reads, and `text` for what somebody reads.
const LANGUAGES: [&str; 9] = ["sh", "console", "python", "toml", "yaml", "json", "conf", "rust", "text"];

fn read(path: &str) -> String {
    fs::read_to_string(checkout().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn runs(path: &str) {
    let missing = ["curl", "python3", "gzip"].into_iter().find(|tool| Command::new(tool).arg("--version").output().is_err());
    if let Some(tool) = missing {
        println!("skipped: {tool} is not installed, so the blocks of {path} were not run");
        return;
    }
    let page = PAGES.iter().find(|page| page.path == path).unwrap_or_else(|| panic!("{path} is not listed"));
    if let Err(failed) = run::run(page, &read(path)) {
        panic!("{path}:\n{failed}");
    }
}

// Each page has a test, so that they run beside each other.

#[test]
fn every_block_of_readme_runs() {
    runs("README.md");
}

#[test]
fn every_block_of_the_page_for_network_engineers_runs() {
    runs("docs/network-engineer.md");
}

#[test]
fn every_block_of_the_page_for_ml_engineers_runs() {
    runs("docs/ml-engineer.md");
}

#[test]
fn every_block_of_the_page_for_authors_of_schedulers_runs() {
    runs("docs/scheduler-author.md");
}

#[test]
fn every_block_of_the_page_for_operators_runs() {
    runs("docs/operator.md");
}

#[test]
fn every_block_of_operating_runs() {
    runs("docs/operating.md");
}

#[test]
fn every_block_of_the_api_reference_runs() {
    runs("docs/api.md");
}

#[test]
fn every_block_of_scheduler_runs() {
    runs("docs/scheduler.md");
}

#[test]
fn every_block_of_agent_runs() {
    runs("docs/agent.md");
}

#[test]
fn every_block_of_kubernetes_runs() {
    runs("docs/kubernetes.md");
}

#[test]
fn every_block_of_slurm_runs() {
    runs("docs/slurm.md");
}

#[test]
fn every_block_of_lab_runs() {
    runs("docs/lab.md");
}

#[test]
fn every_block_of_policies_runs() {
    runs("docs/policies.md");
}

#[test]
fn every_block_of_profiles_runs() {
    runs("docs/profiles.md");
}

#[test]
fn every_block_of_the_clients_readme_runs() {
    runs("clients/python/README.md");
}

#[test]
fn every_block_of_the_gates_readme_runs() {
    runs("agent/gate/python/README.md");
}

#[test]
fn every_block_of_the_example_runs() {
    runs("examples/two-hosts/README.md");
}

#[test]
fn every_block_of_contributing_runs() {
    runs("CONTRIBUTING.md");
}

#[test]
fn every_block_of_decisions_runs() {
    runs("docs/adr/0001-pure-crates-are-no-std.md");
}

/// Every page of the repository.
fn pages() -> Vec<String> {
    let output = Command::new("git").args(["ls-files", "*.md"]).current_dir(checkout()).output().expect("git runs");
    let paths: Vec<String> = String::from_utf8(output.stdout).expect("names are text").lines().map(str::to_owned).collect();
    assert!(paths.len() > 20, "the pages were not found");
    paths
}

/// What is wrong with what is said of a page's blocks.
fn findings(page: &Page, blocks: &[Block]) -> Vec<String> {
    let mut found = Vec::new();
    let at = |block: &Block| format!("{}:{}", page.path, block.line);
    for block in blocks {
        if !LANGUAGES.contains(&&*block.language) {
            found.push(format!("{}: a block of the language {:?}; `text` is for what is no input", at(block), block.language));
        }
        let typed =
            |line: &str| ["$ ", "antiphase ", "antiphase-", "curl ", "make ", "apt-get "].iter().any(|begin| line.starts_with(begin));
        if block.language == "text" && block.text.lines().any(typed) {
            found.push(format!("{}: commands in a block of text", at(block)));
        }
        if !block.is_shell() && block.language != "text" && run::check(page, block).is_none() {
            found.push(format!("{}: nothing checks this block ({})", at(block), block.language));
        }
    }
    let lines = || blocks.iter().filter(|block| block.is_shell()).flat_map(|block| block.text.lines());
    let typed = |line: &str| line.trim_start_matches("$ ").to_owned();
    for (begin, why) in page.except {
        if !lines().any(|line| typed(line).starts_with(begin)) {
            found.push(format!("{}: no line begins with {begin:?} ({why})", page.path));
        }
    }
    for (part, _) in page.checked {
        if !blocks.iter().any(|block| block.text.contains(part)) {
            found.push(format!("{}: no block has {part:?}", page.path));
        }
    }
    for (theirs, _, why) in page.instead {
        if !blocks.iter().any(|block| block.text.contains(theirs)) {
            found.push(format!("{}: no block has {theirs:?} ({why})", page.path));
        }
    }
    found
}

#[test]
fn no_block_is_neither_run_nor_checked_nor_excepted() {
    let mut found = Vec::new();
    for path in pages() {
        let blocks = blocks(&read(&path));
        match PAGES.iter().find(|page| page.path == path) {
            Some(page) => found.extend(findings(page, &blocks)),
            None => found.extend(findings(&Page { path: "", ..Page::NONE }, &blocks).iter().map(|what| format!("{path}{what}"))),
        }
        let is_tested = include_str!("mod.rs").contains(&format!("    runs({path:?});\n"));
        if !is_tested && blocks.iter().any(|block| block.language != "text") {
            found.push(format!("{path}: has blocks and no test"));
        }
    }
    for (begin, why) in EVERYWHERE {
        if !PAGES.iter().any(|page| blocks(&read(page.path)).iter().any(|block| block.text.lines().any(|line| line.starts_with(begin)))) {
            found.push(format!("no line begins with {begin:?} ({why})"));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn the_tests_that_check_other_blocks_are_there() {
    let output = Command::new("git").args(["grep", "-hoE", "(fn|def) [a-z0-9_]+", "--", "*.rs", "*.py"]).current_dir(checkout()).output();
    let names = String::from_utf8(output.expect("git runs").stdout).expect("names are text");
    let names: BTreeSet<&str> = names.lines().filter_map(|line| line.split(' ').nth(1)).collect();
    for page in PAGES {
        for (part, check) in page.checked {
            if let Check::By(test) = check {
                assert!(names.contains(test), "{}: {part:?} is checked by {test}, which is no test", page.path);
            }
        }
    }
}

#[test]
fn a_block_that_fails_is_found() {
    let page = Page { path: "x.md", serve: "antiphase serve --state x.redb --fabric examples/testbed/fabric.yaml", ..Page::NONE };
    let failed =
        run::run(&page, "- text\n\n  ```sh\n  S=http://127.0.0.1:7480\n  curl -s $S/moon\n  ```\n```text\ncurl\n```\n").unwrap_err();
    assert!(failed.contains("/moon") && failed.contains("not_found"), "{failed}");
    let page = Page { path: "y.md", except: &[("antiphase lab up", "it needs root")], ..Page::NONE };
    let run = |markdown: &str| run::run(&page, markdown);
    assert_eq!(run("```console\n$ echo a\na\n$ echo b\n```\n"), Ok(()));
    assert!(run("```console\n$ echo a\nb\n```\n").unwrap_err().contains("prints\na"));
    // What does not run here has to be an invocation all the same.
    assert_eq!(run("```sh\nantiphase lab up two-equal   # a comment\n```\n"), Ok(()));
    assert!(run("```sh\nantiphase lab up --moon\n```\n").unwrap_err().contains("--moon"));
}

#[test]
fn a_block_that_nothing_checks_is_found() {
    let page = Page { path: "x.md", except: &[("make ", "no")], checked: &[("a = 1", Check::By("x"))], ..Page::NONE };
    let of = |markdown: &str| findings(&page, &blocks(markdown));
    assert_eq!(of("```sh\nmake x\n```\n```toml\na = 1\n```\n"), [""; 0]);
    let found = of("```\nx\n```\n```toml\nb = 1\n```\n```text\nmake x\n```\n").join("\n");
    for what in
        ["x.md:1: a block of the language \"\"", "x.md:4: nothing checks", "x.md:7: commands in", "begins with \"make \"", "has \"a = 1\""]
    {
        assert!(found.contains(what), "{what}: {found}");
    }
}
