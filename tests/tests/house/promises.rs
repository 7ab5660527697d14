//! Rule: each promise in docs/promises.md names what enforces it, and that exists, or says `[pending]`.

use crate::tree::{Finding, TextFile, expect_none, expect_one, paths, read, rust_files};

/// The tag of a promise, or of a part of one, that nothing enforces yet.
const PENDING: &str = "[pending";

/// What a proof may be looked up in.
struct Evidence {
    sources: Vec<TextFile>,
    paths: Vec<String>,
    makefile: String,
}

impl Evidence {
    /// Whether `proof` exists: `test NAME`, `bench FILE`, `script FILE` or `make TARGET`.
    fn has(&self, proof: &str) -> bool {
        match proof.split_once(' ') {
            Some(("test", name)) => self.sources.iter().any(|file| has_test(&file.text, name)),
            Some(("bench" | "script", file)) => self.paths.iter().any(|path| path == file),
            Some(("make", target)) => self.makefile.lines().any(|line| line.starts_with(&format!("{target}:"))),
            _ => false,
        }
    }
}

/// Whether `text` defines the test `name`; `#[test]` stands on one of the few lines above it, also inside `proptest!`.
fn has_test(text: &str, name: &str) -> bool {
    const ATTRIBUTE_LINES_MAX: usize = 6;
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    lines.iter().enumerate().any(|(at, line)| {
        line.strip_prefix("async ").unwrap_or(line).starts_with(&format!("fn {name}("))
            && lines[at.saturating_sub(ATTRIBUTE_LINES_MAX)..at]
                .iter()
                .rev()
                .take_while(|above| !above.starts_with('}'))
                .any(|above| *above == "#[test]" || above.starts_with("#[tokio::test"))
    })
}

/// Rows of the table that promise without proof, and numbers given twice.
fn findings(table: &str, evidence: &Evidence) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut numbers = Vec::new();
    for (number, line) in table.lines().enumerate() {
        let cells: Vec<&str> = line.trim().trim_matches('|').split('|').map(str::trim).collect();
        let id = cells[0];
        if !id.strip_prefix('P').is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())) {
            continue;
        }
        let at = format!("docs/promises.md:{}", number + 1);
        let [_, _, proof] = cells.as_slice() else {
            findings.push(Finding::new(&at, format!("{id} has {} cells; a row is number, promise, proof", cells.len())));
            continue;
        };
        if numbers.contains(&id) {
            findings.push(Finding::new(&at, format!("{id} stands twice; numbers are never used again")));
        }
        numbers.push(id);
        let proofs: Vec<&str> = proof.split('`').skip(1).step_by(2).collect();
        if proofs.is_empty() && !proof.contains(PENDING) {
            findings.push(Finding::new(&at, format!("{id} has no proof; name one in backticks or say [pending]")));
        }
        for missing in proofs.iter().filter(|proof| !evidence.has(proof)) {
            let what = format!(
                "{id} names `{missing}`, which does not exist; write `test NAME`, `bench FILE`, `script FILE` or `make TARGET`, or say [pending]"
            );
            findings.push(Finding::new(&at, what));
        }
    }
    findings
}

#[test]
fn every_promise_has_a_proof_or_says_pending() {
    let evidence = Evidence { sources: rust_files(), paths: paths(), makefile: read("Makefile") };
    let table = read("docs/promises.md");
    let rows = table.lines().filter(|line| line.starts_with("| P")).count();
    assert!(rows >= 10, "the table of docs/promises.md was not understood: {rows} rows");
    expect_none(&findings(&table, &evidence));
}

#[test]
fn a_promise_without_proof_is_found() {
    let evidence = Evidence {
        sources: vec![TextFile::new("x.rs", "#[test]\n#[cfg(unix)]\nfn holds() {\n}\nfn not_a_test() {}")],
        paths: vec!["b/benches/score.rs".into()],
        makefile: "lint: setup\n".into(),
    };
    let row = |row: &str| findings(row, &evidence);
    expect_one(&row("| P1 | fast | soon |"), "P1 has no proof");
    expect_one(&row("| P1 | fast | `test gone` |"), "does not exist");
    expect_one(&row("| P1 | fast | `test not_a_test` |"), "does not exist");
    expect_one(&row("| P1 | fast | `make demo` |"), "does not exist");
    expect_one(&row("| P1 | fast | `cargo test` |"), "does not exist");
    expect_one(&row("| P1 | a | b | [pending] |"), "P1 has 4 cells");
    expect_one(&row("| P1 | a | [pending] |\n| P1 | b | [pending] |"), "P1 stands twice");
    expect_none(&row(
        "| P1 | a | `test holds`, `bench b/benches/score.rs` |\n| P2 | b | `make lint`, [pending: speed] |\n| P3 | c | [pending] |",
    ));
}
