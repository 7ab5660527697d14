//! How often a proof fits into the work limit, and how long it takes, by number of jobs and kind of periods.
//!
//! `cargo run --release -p antiphase-circle --example proofs`; with `-- prove` by the effort of `antiphase solve --prove`; with
//! `-- list` it also says which links were not proven, and why.

#[path = "../tests/oracle/mod.rs"]
mod oracle;

use std::time::Instant;

use antiphase_circle::{Effort, Options, Phase, ProblemBuilder, ProblemError, Rate, Ticks, solve};
use oracle::Random;

/// Random single links per row.
const CASES: u64 = 40;

/// One link with `jobs` jobs of up to `bursts` phases; periods in ms, ticks of 1 us.
fn case(random: &mut Random, pool: &[u64], jobs: u64, bursts: u64) -> Result<antiphase_circle::Problem, ProblemError> {
    let mut b = ProblemBuilder::new();
    let mut members = Vec::new();
    for _ in 0..jobs {
        let period = *random.pick(pool) * 1_000;
        let job = b.job(Ticks(period))?;
        let bursts = random.range(1, bursts);
        let up = period * random.range(15, 100 / jobs + 20) / 100 / bursts;
        let down = period / bursts - up;
        let burst = |i: u64| {
            let start = (i * (up + down) + down) / 100 * 100;
            Phase { start: Ticks(start), end: Ticks(start + up / 100 * 100), rate: Rate(*random.pick(&[50_000, 45_000, 40_000, 25_000])) }
        };
        let phases: Vec<Phase> = (0..bursts).map(burst).collect();
        members.push(b.demand(job, &phases)?);
    }
    b.link(Rate(50_000), members)?;
    Ok(b.build())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let asked = |word: &str| std::env::args().any(|a| a == word);
    let effort = if asked("prove") { Effort::Proof } else { Effort::Thorough };
    let pools: [(&str, &[u64]); 3] = [
        ("equal periods", &[255]),
        ("round periods", &[100, 120, 150, 180, 200, 240, 300, 320, 400, 480, 600]),
        ("synthesised periods of the paper's models", &[78, 145, 179, 215, 255, 258, 336, 367]),
    ];
    println!("{:<44} jobs  phases  proven  median ms  worst ms  largest gap", "periods");
    for (label, pool) in pools {
        for jobs in [2, 3, 4, 5] {
            for bursts in [1, 3] {
                let (mut times, mut proven, mut gap) = (Vec::new(), 0, 0.0_f64);
                for seed in 0..CASES {
                    let problem = case(&mut Random(seed * 977 + jobs * 13 + bursts), pool, jobs, bursts)?;
                    let start = Instant::now();
                    let solution = solve(&problem, &Options { effort, ..Options::default() })?;
                    times.push(start.elapsed().as_secs_f64() * 1e3);
                    proven += u64::from(solution.optimality.proven);
                    gap = gap.max(solution.optimality.bound_gap);
                    if asked("list") && !solution.optimality.proven {
                        let periods: Vec<u64> = problem.periods().iter().map(|t| t.0 / 1_000).collect();
                        let (score, left) = (solution.mean_score, solution.optimality.bound_gap);
                        let averaged = if solution.links[0].is_approximate() { ", weak couplings averaged out" } else { "" };
                        println!("  seed {seed}: {periods:?} ms, up to {bursts} phases: score {score:.4}, gap {left:.4}{averaged}");
                    }
                }
                times.sort_by(f64::total_cmp);
                let (median, worst) = (times[times.len() / 2], times[times.len() - 1]);
                println!("{label:<44} {jobs:>4}  {bursts:>6}  {proven:>3}/{CASES}  {median:>9.3}  {worst:>8.1}  {gap:>11.4}");
            }
        }
    }
    Ok(())
}
