//! Text that a person has read once, kept in `expected/`.

use std::fs;

use antiphase_tests::checkout;

use crate::process::Run;

/// What a run printed, with times made alike.
fn transcript(run: &Run) -> String {
    let mut text = format!("$ {}\n{}", format!("antiphase {}", run.arguments).trim_end(), timeless(&run.stdout));
    if !run.stderr.is_empty() {
        text.push_str(&format!("--- standard error\n{}", timeless(&run.stderr)));
    }
    match run.code {
        Some(0) => {}
        Some(code) => text.push_str(&format!("--- exit code {code}\n")),
        None => text.push_str("--- ended by a signal\n"),
    }
    text
}

/// `judged in 0.5 ms` and `"elapsed_us": 292` differ from run to run; nothing else may.
pub(crate) fn timeless(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let cut = |after: &str| line.find(after).map(|at| at + after.len());
        if let Some(at) = cut("judged in ").filter(|_| line.ends_with(" ms")) {
            out.push_str(&format!("{}T ms", &line[..at]));
        } else if let Some(at) = cut("\"elapsed_us\": ") {
            out.push_str(&format!("{}0{}", &line[..at], if line.ends_with(',') { "," } else { "" }));
        } else {
            out.push_str(line);
        }
        out.push('\n');
    }
    out
}

/// Compares a run with `expected/NAME.txt`.
pub(crate) fn check(name: &str, run: &Run) {
    check_text(name, &transcript(run));
}

/// Compares a text with `expected/NAME.txt`.
pub(crate) fn check_text(name: &str, got: &str) {
    let file = checkout().join(format!("tests/tests/cli/expected/{name}.txt"));
    if std::env::var_os("UPDATE_EXPECT").is_some_and(|value| value == "1") {
        fs::write(&file, got).expect("expected/ can be written");
        return;
    }
    let want = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}; make it with UPDATE_EXPECT=1", file.display()));
    if want == got {
        return;
    }
    let differs = want.lines().zip(got.lines()).position(|(a, b)| a != b).unwrap_or_else(|| want.lines().count().min(got.lines().count()));
    let line = |text: &str| text.lines().nth(differs).map(str::to_owned);
    panic!(
        "expected/{name}.txt differs from line {} on: expected {:?}, got {:?}; UPDATE_EXPECT=1 rewrites it.\n{got}",
        differs + 1,
        line(&want),
        line(got)
    );
}

#[test]
fn times_are_made_alike_and_nothing_else() {
    let text = "fabric pair: 2 candidate(s) judged in 12.5 ms\n  \"elapsed_us\": 292\n  \"elapsed_us\": 7,\nslack 13.6 ms\n";
    let want = "fabric pair: 2 candidate(s) judged in T ms\n  \"elapsed_us\": 0\n  \"elapsed_us\": 0,\nslack 13.6 ms\n";
    assert_eq!(timeless(text), want);
}
