//! What the CASSINI paper (NSDI 2024) prints, by figure, table and section, against what this repository computes.
//!
//! The authors' profiles are not public, so all but the figures' own numbers are synthesised. A test here asserts what is true
//! of our model, also where the paper found otherwise; docs/paper.md says which is which and why. Its tables are printed by
//! `cargo test --package antiphase-tests --test paper -- --nocapture`.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod figures;
mod pairs;
mod setting;
mod table2;

/// Prints the lines and fails unless docs/paper.md has them all, so that its tables cannot grow old.
fn documented(lines: &[String]) {
    lines.iter().for_each(|line| println!("{line}"));
    let document = include_str!("../../../docs/paper.md");
    for line in lines {
        assert!(document.lines().any(|have| have == line), "docs/paper.md must contain this line:\n{line}");
    }
}
