//! Measures the code of this repository: the table of CONTRIBUTING.md. `make measure` prints it.
//!
//! Code is what the libraries and programs compile, without generated code and without `#[cfg(test)]` items; a function's lines go
//! from its `fn` to its closing brace, those of in-file tests included. A line that is neither blank nor a comment alone is a line
//! of code. Test lines are those of `tests` folders and of `#[cfg(test)]` items and modules. Benches and examples are not counted.

mod count;

#[path = "../../tests/house/cargo.rs"]
#[allow(dead_code, reason = "the house tests ask for more")]
mod cargo;
#[path = "../../tests/house/cycles.rs"]
#[allow(dead_code, unused_imports, reason = "its tests run with the house tests")]
mod cycles;
#[path = "../../tests/house/modules.rs"]
mod modules;
#[path = "../../tests/house/production.rs"]
mod production;
#[path = "../../tests/house/rooms.rs"]
#[allow(dead_code, reason = "the house tests ask for more")]
mod rooms;
#[path = "../../tests/house/source.rs"]
#[allow(dead_code, reason = "the house tests ask for more")]
mod source;
#[path = "../../tests/house/tree.rs"]
#[allow(dead_code, reason = "the house tests ask for more")]
mod tree;

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    cargo::Metadata,
    count::{Count, functions, is_test, tests_in},
    production::{Crate, GENERATED, crates},
    tree::{TextFile, rust_files},
};

/// Crates that are named, the largest first.
const LARGEST: usize = 10;
/// Longest function that fits a screen.
const FUNCTION_LINES: usize = 70;

fn main() {
    let crates = crates();
    // A file that both a library and a program compile counts once.
    let code: BTreeMap<&str, (&str, &TextFile)> =
        crates.iter().flat_map(|c| c.files.iter().map(|file| (file.path.as_str(), (c.folder.as_str(), file)))).collect();
    let mut all = Count::default();
    let mut by_crate: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut files, mut lengths) = (Vec::new(), Vec::new());
    for (folder, file) in code.values() {
        let count = Count::of(file);
        files.push(count.lines);
        lengths.extend(functions(file));
        *by_crate.entry(folder).or_default() += count.code;
        all += count;
    }
    let others: Vec<TextFile> =
        rust_files().into_iter().filter(|f| !code.contains_key(f.path.as_str()) && !f.path.starts_with(GENERATED)).collect();
    let in_folders: usize = others.iter().filter(|file| is_test(&file.path)).map(|file| file.text.lines().count()).sum();
    let tests: usize = code.values().map(|(_, file)| tests_in(file)).chain(others.iter().map(tests_in)).sum();
    print(&all, &mut files, &mut lengths, (in_folders + all.test_lines, tests));
    print_crates(&crates, by_crate);
}

/// The table, one row per line.
fn print(all: &Count, files: &mut [usize], lengths: &mut [usize], (test_lines, tests): (usize, usize)) {
    let packages = Metadata::read().own_packages().count();
    let per_thousand = |count: usize| count as f64 * 1_000.0 / all.code as f64;
    let percent = |part: usize, whole: usize| part as f64 * 100.0 / whole as f64;
    let long = lengths.iter().filter(|lines| **lines > FUNCTION_LINES).count();
    let filled = all.lines - all.blank;
    println!("| measured | Antiphase |\n|---|---|");
    println!("| packages / code kLoC | {packages} / {:.1} |", all.code as f64 / 1_000.0);
    println!("| file lines: median / p90 / max | {} / {} / {} |", part(files, 50), part(files, 90), part(files, 100));
    println!(
        "| fn lines: median / p90 / p99; share > {FUNCTION_LINES} | {} / {} / {}; {:.1}% |",
        part(lengths, 50),
        part(lengths, 90),
        part(lengths, 99),
        percent(long, lengths.len())
    );
    println!("| doc% / other comment% | {:.0} / {:.0} |", percent(all.doc, filled), percent(all.comment, filled));
    println!("| test lines / non-test lines; `#[test]` | {:.2}; {tests} |", test_lines as f64 / all.lines as f64);
    println!("| `.unwrap()` per kLoC (non-test) | {:.1} |", per_thousand(all.unwraps));
    println!("| unsafe per kLoC | {:.1} |", per_thousand(all.unsafes));
}

/// The crates, the cycles of their files, and the largest of them.
fn print_crates(crates: &[Crate], by_crate: BTreeMap<&str, usize>) {
    let cycles: Vec<String> = crates
        .iter()
        .flat_map(|c| {
            cycles::cycles(&c.files).into_iter().map(|cycle| {
                let parent = [core::slice::from_ref(&c.folder), &cycle.parent[..]].concat().join("/");
                format!("{parent}: {}", cycle.neighbours.join(", "))
            })
        })
        .collect();
    let folders: BTreeSet<&str> = crates.iter().map(|c| c.folder.as_str()).collect();
    println!("\n{} crates with {} libraries and programs; cycles of files: {}", folders.len(), crates.len(), cycles.len());
    cycles.iter().for_each(|cycle| println!("  {cycle}"));
    let mut largest: Vec<(usize, &str)> = by_crate.into_iter().map(|(folder, lines)| (lines, folder)).collect();
    largest.sort_unstable_by(|a, b| b.cmp(a));
    println!("\nlargest crates, in lines of code:");
    largest.iter().take(LARGEST).for_each(|(lines, folder)| println!("{lines:>7}  {folder}"));
}

/// The value below which `percent` of the values are.
fn part(values: &mut [usize], percent: usize) -> usize {
    values.sort_unstable();
    values.get((values.len() * percent / 100).min(values.len().saturating_sub(1))).copied().unwrap_or(0)
}
