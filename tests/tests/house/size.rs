//! Rule: a file is one idea and fits a sitting.

use crate::{
    production::GENERATED,
    source::lines_outside_tests,
    tree::{Finding, TextFile, expect_none, expect_one, rust_files},
};

/// Most lines of a Rust file outside its `#[cfg(test)]` items. The aim is 200; above 600 a reader
/// no longer holds the file in mind.
const LINES_MAX: usize = 600;

fn findings(file: &TextFile) -> Option<Finding> {
    let lines = lines_outside_tests(file);
    let what = format!("{lines} lines outside tests, the limit is {LINES_MAX}; split it by idea");
    (lines > LINES_MAX).then(|| Finding::new(&file.path, what))
}

#[test]
fn no_rust_file_is_too_long() {
    let found: Vec<Finding> = rust_files().iter().filter(|f| !f.path.starts_with(GENERATED)).filter_map(findings).collect();
    expect_none(&found);
}

#[test]
fn a_file_that_is_too_long_is_found() {
    let code = "fn f() {}\n".repeat(LINES_MAX).replace("fn f", "const _: fn() = || {}; fn f");
    let tests = format!("#[cfg(test)]\nmod tests {{\n{code}}}\n");
    expect_none(&findings(&TextFile::new("x.rs", format!("{code}{tests}"))).into_iter().collect::<Vec<_>>());
    let found = findings(&TextFile::new("x.rs", format!("{code}\n{tests}"))).into_iter().collect::<Vec<_>>();
    expect_one(&found, "601 lines");
}
