//! scripts/soak.py, small: a soak of seconds, and that each of its limits can be missed.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failure here is a failed test")]

use std::{
    path::PathBuf,
    process::{Command, Output},
};

use antiphase_tests::checkout;

const PROGRAMS: [&str; 3] = ["antiphase-topology", "antiphase-agent", "libantiphase_gate.so"];

/// Python with arguments, in the folder of the scripts. `None`: there is none here.
fn python(arguments: &[&str]) -> Option<Output> {
    let mut command = Command::new("python3");
    command.env("PYTHONDONTWRITEBYTECODE", "1").current_dir(checkout().join("scripts")).args(arguments);
    match command.output() {
        Ok(output) => Some(output),
        Err(_) => {
            println!("skipped: needs python3");
            None
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_soak_of_seconds_loses_nothing_and_prints_its_table() {
    // Beside this test: target/debug/deps/soak-*.
    let folder = std::env::current_exe().unwrap().ancestors().nth(2).map(PathBuf::from).unwrap();
    if let Some(missing) = PROGRAMS.iter().find(|name| !folder.join(name).exists()) {
        println!("skipped: {missing} was not built: cargo build --workspace --lib --bins");
        return;
    }
    let Some(output) = python(&["soak.py", "--programs", folder.to_str().unwrap(), "--minutes", "0.1"]) else { return };
    let (said, complained) = (text(&output.stdout), text(&output.stderr));
    println!("{said}");
    assert!(output.status.success(), "{said}{complained}");
    for row in ["service, MiB", "agent, descriptors", "commit", "page", "acknowledged and lost: 0 of "] {
        assert!(said.contains(row), "{row}: {said}");
    }
    assert!(said.ends_with("nothing grew, nothing was lost\n"), "{said}");
}

/// A well run, and the same with one thing wrong at a time.
const LIMITS: &str = "
import soak
def run(late=(20.0, 30, 9), agent=(8.0, 14, 8), refused=0, lost=(), failures=()):
    samples = [[(20.0, 30, 9), (8.0, 14, 8)]] * 2 + [[late, agent]]
    tallies = {name: soak.Tally() for name in ('commit', 'scrape of agent')}
    for tally in tallies.values():
        for number in range(1000):
            tally.add(429 if number < refused else 200, 0.001)
    return soak.misses(samples, tallies, 1, list(lost), list(failures))
print(run())
for wrong in (dict(late=(20.0 + soak.SERVICE_MIB + 1, 30, 9)), dict(late=(20.0, 30 + soak.DESCRIPTORS + 1, 9)),
              dict(agent=(8.0 + soak.AGENT_MIB + 1, 14, 8)), dict(refused=1), dict(refused=2), dict(lost=['a']), dict(failures=['reader: gone'])):
    print(len(run(**wrong)) > 0, *run(**wrong)[:1])
print(soak.misses([[(1.0, 1, 1)] * 2] * 3, {'page': soak.Tally()}, 1, [], []))
";

#[test]
fn every_limit_of_a_soak_can_be_missed() {
    let Some(output) = python(&["-c", LIMITS]) else { return };
    let said = text(&output.stdout);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(
        lines,
        [
            "[]",
            "True the service has 25 MiB more than after a tenth of the time; at most 24",
            "True the service has 25 descriptors more than after a tenth of the time; at most 24",
            "True the agent has 11 MiB more than after a tenth of the time; at most 10",
            "False",
            "True commit: 2 of 1000 refused ({429: 2})",
            "True lost: a",
            "True reader: gone",
            "['no page was asked']",
        ],
        "{}",
        text(&output.stderr)
    );
}
