//! Plays a trace of Muri under each policy on 64 GPUs and prints what came of it and what it cost, in seconds of a core, of which Linux tells.
//!
//! ```text
//! cargo run --release -p antiphase-sim --example trace_bench -- TRACE [artifact|paper] [POLICY]
//! ```

use std::time::Instant;

use antiphase_sim::trace::{Setup, read_muri, run};
use policy::{
    muri::{Order, Timing},
    schedule::{Cluster, GandivaOptions, MuriOptions, Rule},
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let file = arguments.first().ok_or("which trace?")?;
    let timing = if arguments.get(1).is_some_and(|word| word == "paper") { Timing::Paper } else { Timing::Artifact };
    let begun = Instant::now();
    let trace = read_muri(&std::fs::read_to_string(file)?)?;
    println!("{file}: {} jobs, read in {:.3} s", trace.jobs.len(), begun.elapsed().as_secs_f64());
    println!("{:28} {:>12} {:>12} {:>12} {:>10} {:>8}", "policy", "avg JCT s", "p99 JCT s", "makespan s", "decisions", "CPU s");
    let muri = MuriOptions::default();
    let rules = [
        ("fifo", Rule::Fifo),
        ("srtf", Rule::Srtf),
        ("srsf", Rule::Srsf),
        ("tiresias", Rule::TIRESIAS),
        ("antman", Rule::AntMan),
        ("themis", Rule::Themis),
        ("gandiva", Rule::Gandiva(GandivaOptions::default())),
        ("muri-s", Rule::Muri(muri)),
        ("muri-s, no autopack", Rule::Muri(MuriOptions { autopack: false, ..muri })),
        ("muri-l", Rule::Muri(MuriOptions { durations_known: false, ..muri })),
        ("muri-l, no autopack", Rule::Muri(MuriOptions { durations_known: false, autopack: false, ..muri })),
        ("muri-l, no matching", Rule::Muri(MuriOptions { durations_known: false, matching: false, ..muri })),
        ("muri-l, worst order", Rule::Muri(MuriOptions { durations_known: false, order: Order::Worst, ..muri })),
    ];
    for (name, rule) in rules.into_iter().filter(|rule| arguments.get(2).is_none_or(|asked| asked == rule.0)) {
        let begun = cpu_s();
        let outcome = run(&trace, &Setup { cluster: Cluster { hosts: 8, gpus_per_host: 8 }, rule, timing, network: None, faults: None })?;
        println!(
            "{name:28} {:>12.0} {:>12.0} {:>12.0} {:>10} {:>8.3}",
            outcome.mean_s(),
            outcome.p99_s(),
            outcome.makespan_s,
            outcome.decisions,
            cpu_s() - begun
        );
    }
    Ok(())
}

/// Time that this thread had on a core; 0 where the kernel does not tell. Without a fabric a trace is played by one thread.
fn cpu_s() -> f64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    told.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}
