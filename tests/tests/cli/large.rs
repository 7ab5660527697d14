//! Documents that take a search to its limits: whatever is in them, an answer comes soon, in little memory.

use std::process::Command;

use crate::{
    process::{documents, program, run},
    scratch::Scratch,
};

/// Memory that the program may map, in KiB.
const MEMORY_KIB: u64 = 2 << 20;
/// Time on a processor: what a debug build takes is three to six times that of a release build.
const CPU_SECONDS: u64 = 20;

/// One phase of every job in turn: (start, length, rate).
type Phase = (u64, u64, u64);

/// Jobs of those periods with `phases` each, all on `links` links. Lengths and rates differ from phase to phase and job to job.
fn scenario(periods: &[u64], phases: u64, links: u64) -> String {
    let phase = |period: u64, job: u64, i: u64| -> Phase {
        let step = period / phases;
        let length = 1 + (step / 2).saturating_sub(1) * ((7 * i + 3 * job) % 11 + 1) / 12;
        (i * step + (step / 4) * ((5 * i + job) % 3), length, 1_000 + 137 * ((i * job + i + 3 * job) % 89))
    };
    let names: Vec<String> = (0..links).map(|l| format!(r#""l{l}""#)).collect();
    let job = |(j, &period): (usize, &u64)| {
        let phases: Vec<String> = (0..phases)
            .map(|i| phase(period, j as u64, i))
            .map(|(start, length, rate)| format!(r#"{{"start":{start},"end":{},"rate_mbps":{rate}}}"#, start + length))
            .collect();
        format!(r#"{{"id":"j{j}","period_ticks":{period},"links":[{}],"phases":[{}]}}"#, names.join(","), phases.join(","))
    };
    let jobs: Vec<String> = periods.iter().enumerate().map(job).collect();
    let links: Vec<String> = (0..links).map(|l| format!(r#"{{"id":"l{l}","capacity_mbps":{}}}"#, 40_000 + l)).collect();
    format!(r#"{{"schema":"antiphase.scenario/v1","tick_ns":1000,"links":[{}],"jobs":[{}]}}"#, links.join(","), jobs.join(","))
}

#[test]
fn documents_below_a_megabyte_are_answered_soon() {
    let of = |count: u64, period: &dyn Fn(u64) -> u64| -> Vec<u64> { (0..count).map(period).collect() };
    let round = |i: u64| [250_000, 240_000, 300_000, 243_119, 251_003][i as usize % 5];
    let measured = |i: u64| 150_000 + 7_919 * i % 200_003;
    let cases = [
        ("64 jobs of 25 phases", scenario(&of(64, &round), 25, 1)),
        ("400 jobs of 25 phases", scenario(&of(400, &round), 25, 1)),
        ("1,000 jobs of 8 phases", scenario(&of(1_000, &round), 8, 1)),
        ("1,000 measured periods", scenario(&of(1_000, &measured), 8, 1)),
        ("20 measured periods of 300 phases", scenario(&of(20, &measured), 300, 1)),
        ("40 jobs on 40 links", scenario(&of(40, &round), 3, 40)),
        ("5 jobs of 2,000 phases", scenario(&of(5, &round), 2_000, 1)),
        ("16 measured periods of 256 levels on 20 links", scenario(&of(16, &measured), 256, 20)),
    ];
    let scratch = Scratch::new("large");
    for (case, document) in cases {
        assert!(document.len() < 1_000_000, "{case}: {} bytes", document.len());
        let file = scratch.file("scenario.json", &document);
        for arguments in [&["solve", &file][..], &["solve", &file, "--robust", "1000"]] {
            let mut command = Command::new("sh");
            command.args(["-c", &format!("ulimit -v {MEMORY_KIB} && ulimit -t {CPU_SECONDS} && exec \"$@\""), "sh"]).arg(program());
            let run = run(command.args(arguments).current_dir(documents()), format!("{case}: {}", arguments[0]), b"");
            println!("{:6} ms  {case} {}", run.took.as_millis(), arguments[2..].join(" "));
            let solution = run.json();
            assert_eq!(run.code, Some(0), "{case}");
            let (score, none) = (solution["mean_score"].as_f64(), solution["zero_shift_mean_score"].as_f64());
            assert!(score >= none, "{case}: {score:?} and {none:?} without shifts");
        }
    }
}
