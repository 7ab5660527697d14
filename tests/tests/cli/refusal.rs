//! A refusal: exit code 2, one line that names file, place and value, soon, in little memory.

use std::{process::Command, time::Duration};

use crate::{
    expected,
    process::{Run, documents, program, run},
    scratch::Scratch,
};

/// Memory that the program may map, in KiB.
const MEMORY_KIB: u64 = 4 << 20;
/// Time on a processor that the program may take. Most refusals take milliseconds, those of the
/// largest documents a few seconds in a debug build.
const CPU_SECONDS: u64 = 10;
/// The same for a clock on the wall, on a machine that has other things to do.
const SOON: Duration = Duration::from_secs(60);
/// Longest line on standard error, in characters.
const LINE_CHARS_MAX: usize = 1_000;

/// The program in limited memory and time, in the folder of the documents. A shell runs `first`, whose `$0` is `name`, and becomes
/// the program.
pub(crate) fn limited(first: &str, name: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -v {MEMORY_KIB} && ulimit -t {CPU_SECONDS} && {first} && exec \"$@\""), name]).arg(program());
    command.current_dir(documents());
    command
}

/// Runs the program in limited memory and checks that it refuses with one line; returns the line
/// without `antiphase: `.
pub(crate) fn refused(arguments: &[&str], stdin: &[u8]) -> String {
    line(&run(limited("true", "sh").args(arguments), arguments.join(" "), stdin))
}

/// Checks that a run refused with one line; returns the line without `antiphase: `.
pub(crate) fn line(run: &Run) -> String {
    let said = &run.stderr;
    let shown: String = said.chars().take(1_000).collect();
    assert_eq!(run.code, Some(2), "antiphase {}: {shown}", run.arguments);
    assert_eq!(run.stdout, "", "antiphase {}: a refusal prints nothing on standard output", run.arguments);
    assert_eq!(said.lines().count(), 1, "antiphase {}: one line, not {shown:?}", run.arguments);
    assert!(said.chars().count() <= LINE_CHARS_MAX, "antiphase {}: {} characters: {shown}", run.arguments, said.chars().count());
    assert!(!said.trim_end_matches('\n').chars().any(char::is_control), "antiphase {}: control characters: {shown:?}", run.arguments);
    assert!(run.took < SOON, "antiphase {}: took {:?}", run.arguments, run.took);
    println!("{:6} ms  {}", run.took.as_millis(), said.trim_end());
    let line = said.trim_end().strip_prefix("antiphase: ");
    line.unwrap_or_else(|| panic!("antiphase {}: does not say who speaks: {shown}", run.arguments)).to_owned()
}

/// A good document with one change, which must be one.
pub(crate) fn changed(good: &str, change: &str, to: &str) -> String {
    let changed = good.replacen(change, to, 1);
    assert!(changed != good, "{change:?} is not there to be changed");
    changed
}

/// Runs a command on each document, which is refused, and compares the lines with
/// `expected/refused-SUITE.txt`. `arguments` has the document's file where it says `DOCUMENT`.
pub(crate) fn refusals<D: AsRef<[u8]>>(suite: &str, arguments: &[&str], cases: impl IntoIterator<Item = (&'static str, D)>) {
    let scratch = Scratch::new(suite);
    let mut lines = String::new();
    for (case, document) in cases {
        let file = scratch.file("DOCUMENT", document);
        let arguments: Vec<&str> = arguments.iter().map(|a| if *a == "DOCUMENT" { &file[..] } else { *a }).collect();
        let line = refused(&arguments, b"");
        let said = line.strip_prefix(&format!("{file}: ")).unwrap_or_else(|| panic!("{case}: names another file: {line}"));
        lines.push_str(&format!("{case}\n    {said}\n"));
    }
    expected::check_text(&format!("refused-{suite}"), &lines);
}
