//! Rule: a relative link in a Markdown file leads to a file of the checkout, and its `#` part to a heading there.

use crate::tree::{Finding, TextFile, expect_none, expect_one, paths, text_files};

/// Dead links of `file`; `files` are the Markdown files and `paths` all files of the checkout.
fn dead_links(file: &TextFile, files: &[TextFile], paths: &[String]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in prose_lines(&file.text) {
        for target in targets(&line) {
            let at = format!("{}:{number}", file.path);
            let (path, heading) = target.split_once('#').unwrap_or((&target, ""));
            let path = if path.is_empty() { file.path.clone() } else { resolve(&file.path, path) };
            if !paths.iter().any(|have| *have == path || have.starts_with(&format!("{path}/"))) {
                findings.push(Finding::new(&at, format!("links to {target}, and there is no {path}; mend the link")));
            } else if !heading.is_empty()
                && !files.iter().any(|have| have.path == path && headings(&have.text).iter().any(|slug| slug == heading))
            {
                findings.push(Finding::new(&at, format!("links to {target}, and {path} has no such heading; mend the link")));
            }
        }
    }
    findings
}

/// Lines with their numbers, without fenced code and without `code` in a line.
fn prose_lines(text: &str) -> Vec<(usize, String)> {
    let mut fenced = false;
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            lines.push((index + 1, line.split('`').step_by(2).collect()));
        }
    }
    lines
}

/// Targets of the inline links of a line that stay in the checkout.
fn targets(line: &str) -> Vec<String> {
    let ends = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    ends.filter(|target| !target.contains("://") && !target.starts_with("mailto:") && !target.is_empty()).map(str::to_owned).collect()
}

/// `target`, seen from the folder of `file`, as a path from the root of the checkout.
fn resolve(file: &str, target: &str) -> String {
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for part in target.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            // One `..` too many gives a path that no file has, which is a finding as it should be.
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The names that forges give to the headings of a text.
fn headings(text: &str) -> Vec<String> {
    let mut fenced = false;
    let mut slugs = Vec::new();
    for line in text.lines() {
        fenced ^= line.trim_start().starts_with("```");
        if fenced || !line.starts_with('#') {
            continue;
        }
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        slugs.push(kept.map(|c| if c == ' ' { '-' } else { c }).collect());
    }
    slugs
}

#[test]
fn links_between_documents_are_alive() {
    let files = text_files(|path| path.ends_with(".md"));
    assert!(files.iter().any(|file| file.path == "ARCHITECTURE.md"), "the documents were not read");
    let paths = paths();
    let findings: Vec<Finding> = files.iter().flat_map(|file| dead_links(file, &files, &paths)).collect();
    expect_none(&findings);
}

#[test]
fn a_dead_link_is_found() {
    let files = [TextFile::new("docs/a.md", "# The title, here\n"), TextFile::new("README.md", "")];
    let paths = ["docs/a.md".to_owned(), "README.md".to_owned()];
    let check = |path: &str, text: &str| dead_links(&TextFile::new(path, text), &files, &paths);
    expect_one(&check("README.md", "x\n[a](docs/b.md)"), "README.md:2: links to docs/b.md");
    expect_one(&check("docs/a.md", "[a](README.md)"), "no docs/README.md");
    expect_one(&check("README.md", "[a](docs/a.md#nothing)"), "no such heading");
    expect_one(&check("docs/a.md", "[up](../../README.md)"), "no ../README.md");
    expect_none(&check("README.md", "[a](docs/a.md#the-title-here) [b](docs/) [c](https://example.org/x) `[d](gone.md)`"));
    expect_none(&check("docs/a.md", "[a](../README.md)\n```\n[b](gone.md)\n```"));
}
