//! Sia's integer programs beside HiGHS, a solver of others (MIT): where ours says that an answer is proven, HiGHS finds no better one and no
//! worse one, and where it does not, the optimum lies between its bound and its answer. `make setup` fetches HiGHS.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use antiphase_policy::knapsack::{Choice, Item, Problem, solve};
use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use rayon::prelude::*;

/// As many as Sia's rounds may list (`elastic/sia.rs`).
const SUMS_MAX: u64 = 8_000_000;
/// How far two optima may be apart: what a sum of a hundred costs is exact to, in both.
const SAME: f64 = 1e-6;
/// Where scripts/setup.sh puts HiGHS, below what is built.
const HIGHS: &str = "highs/1.15.1";

/// How costs come about.
#[derive(Clone, Copy, Debug)]
enum Costs {
    /// Goodputs to the power -0.5, as in the paper.
    Powers,
    /// The same in cents, as in the published simulator: many are equal.
    Cents,
    /// Goodputs to a power above 0, whose sum is to be large.
    Gains,
    /// Drawn, so that more GPUs may cost more.
    Drawn,
}

/// Programs that are alike: types, jobs, GPUs for each job, costs, and every which job is pinned.
type Kind = (usize, usize, f64, Costs, Option<usize>);

/// From a few jobs to more than there are GPUs, from one type to as many as there can be.
const KINDS: [Kind; 20] = [
    (1, 5, 4.0, Costs::Powers, None),
    (1, 40, 2.0, Costs::Cents, None),
    (1, 60, 0.5, Costs::Powers, Some(6)),
    (2, 12, 3.0, Costs::Drawn, None),
    (2, 30, 1.0, Costs::Cents, Some(4)),
    (2, 80, 2.0, Costs::Powers, None),
    (3, 10, 6.0, Costs::Cents, None),
    (3, 32, 2.0, Costs::Cents, Some(3)),
    (3, 32, 2.0, Costs::Powers, None),
    (3, 64, 1.0, Costs::Gains, None),
    (3, 160, 2.0, Costs::Powers, Some(10)),
    (3, 20, 4.0, Costs::Drawn, Some(7)),
    (4, 24, 3.0, Costs::Powers, None),
    (4, 50, 1.5, Costs::Gains, Some(9)),
    (4, 12, 5.0, Costs::Drawn, None),
    (5, 20, 4.0, Costs::Cents, None),
    (5, 30, 2.0, Costs::Powers, None),
    (6, 16, 4.0, Costs::Powers, None),
    (7, 14, 4.0, Costs::Cents, None),
    (8, 10, 5.0, Costs::Powers, None),
];
/// Larger ones, with as many types as there can be, of which few are proven; and the seed.
const LARGE: [(Kind, u64); 3] =
    [((8, 60, 2.0, Costs::Drawn, None), 1), ((8, 60, 2.0, Costs::Powers, None), 1), ((8, 60, 4.0, Costs::Cents, None), 3)];
/// How far above the optimum an answer without a proof may be here, as a part of it; it was 0.0007 at most, and 0.02 without what looks for better ones.
const NEAR: f64 = 0.005;
/// Programs of each kind.
const SEEDS: u64 = 10;

/// A round as Sia's: jobs that are faster on some types and gain less and less by more GPUs, some with an allocation that they would lose.
fn round((types, jobs, gpus_per_job, costs, pinned): Kind, seed: u64) -> Problem {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut share = move || units::unit_interval(rng.next_u64());
    let per_type = (jobs as f64 * gpus_per_job / types as f64).ceil() as u32;
    // GPUs of a node, and of all nodes of the type.
    let nodes: Vec<(u32, u32)> = (0..types as u32).map(|at| 1 << (1 + at % 3)).map(|of| (of, per_type.next_multiple_of(of))).collect();
    let mut shapes: Vec<(u8, u32, u32)> = Vec::new();
    for ((of, all), kind) in nodes.iter().zip(0..) {
        shapes.extend((0..=of.ilog2()).map(|power| (kind, 1, 1 << power)));
        shapes.extend((2..=(all / of).min(8)).map(|nodes| (kind, nodes, nodes * of)));
    }
    let mut left: Vec<u32> = nodes.iter().map(|(_, all)| *all).collect();
    let capacities = left.clone();
    let mut item = |job: usize| {
        let speeds: Vec<f64> = nodes.iter().map(|_| 1.0 + 4.0 * share()).collect();
        let (within, between, most) = (0.08 * share(), 0.2 * share(), 1 << (7.0 * share()) as u32);
        let (now, restart) = ((share() * shapes.len() as f64) as usize, 0.3 + 0.7 * share());
        let goodput = |&(kind, nodes, gpus): &(u8, u32, u32)| {
            let scaled = f64::from(gpus) / (1.0 + within * f64::from(gpus - 1) + between * f64::from(nodes - 1));
            speeds[usize::from(kind)] * scaled
        };
        let least = shapes.iter().map(goodput).fold(f64::INFINITY, f64::min);
        let mut cost = |at: usize| {
            let kept = goodput(&shapes[at]) / least * if at == now { 1.0 } else { restart };
            match costs {
                Costs::Powers => kept.powf(-0.5),
                Costs::Cents => (100.0 * kept.powf(-0.5)).round() / 100.0,
                Costs::Gains => -kept.sqrt(),
                Costs::Drawn => share(),
            }
        };
        let within = (0..shapes.len()).filter(|at| shapes[*at].2 <= most);
        let choices: Vec<Choice> = within.map(|at| Choice { kind: shapes[at].0, units: shapes[at].2, cost: cost(at) }).collect();
        let waits = if matches!(costs, Costs::Gains) { -0.1 } else { 1.1 };
        // Who is pinned has one choice, which still fits beside those of the others who are.
        let keeps = pinned.filter(|every| job.is_multiple_of(*every)).and_then(|_| {
            let fits = |choice: &&Choice| choice.units <= left[usize::from(choice.kind)];
            choices.iter().rev().find(fits).copied()
        });
        match keeps {
            Some(keeps) => {
                left[usize::from(keeps.kind)] -= keeps.units;
                Item { choices: vec![keeps], nothing: None }
            }
            None => Item { choices, nothing: Some(waits) },
        }
    };
    Problem { items: (0..jobs).map(&mut item).collect(), capacities }
}

/// The program in the format of LP files: `x` of a job and a choice, `n` of a job that has none.
fn lp(problem: &Problem) -> String {
    let mut text = String::from("Minimize\n obj:");
    let names = |job: usize, item: &Item| -> Vec<String> { (0..item.choices.len()).map(|at| format!("x{job}_{at}")).collect() };
    let mut all = Vec::new();
    let mut one = String::new();
    for (job, item) in problem.items.iter().enumerate() {
        let mut own = names(job, item);
        for (name, choice) in own.iter().zip(&item.choices) {
            let _ = writeln!(text, " {:+} {name}", choice.cost);
        }
        if let Some(cost) = item.nothing {
            let _ = writeln!(text, " {cost:+} n{job}");
            own.push(format!("n{job}"));
        }
        let _ = writeln!(one, " j{job}: {} = 1", own.join(" + "));
        all.extend(own);
    }
    let _ = writeln!(text, "Subject To\n{one}");
    for (kind, capacity) in problem.capacities.iter().enumerate() {
        let used: Vec<String> = (problem.items.iter().enumerate())
            .flat_map(|(job, item)| item.choices.iter().zip(names(job, item)))
            .filter(|(choice, _)| usize::from(choice.kind) == kind)
            .map(|(choice, name)| format!("{} {name}", choice.units))
            .collect();
        // Lines of such files may be no longer than some hundred characters in some readers.
        if !used.is_empty() {
            let _ = writeln!(text, " k{kind}: {} <= {capacity}", used.join("\n + "));
        }
    }
    let _ = writeln!(text, "Binary\n {}\nEnd", all.join("\n "));
    text
}

/// HiGHS, where it was fetched; otherwise a line says that it was not.
fn highs() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("..").join(HIGHS);
    if folder.join("bin/highs").is_file() {
        return Some(folder);
    }
    println!(
        "skipped: HiGHS is not there ({HIGHS} among what is built), so no integer program was held against it; `make setup` fetches it"
    );
    None
}

/// What HiGHS chooses, with no gap left.
fn chosen(highs: &Path, scratch: &Path, problem: &Problem) -> Vec<Option<u32>> {
    let (model, options, solution) = (scratch.with_extension("lp"), scratch.with_extension("options"), scratch.with_extension("solution"));
    fs::write(&model, lp(problem)).unwrap();
    fs::write(&options, "mip_rel_gap = 0\nmip_abs_gap = 0\nthreads = 1\nparallel = off\noutput_flag = false\n").unwrap();
    let mut command = Command::new(highs.join("bin/highs"));
    command.env("LD_LIBRARY_PATH", highs.join("lib"));
    command.arg("--options_file").arg(&options).arg("--solution_file").arg(&solution).arg(&model);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let text = fs::read_to_string(&solution).unwrap();
    assert!(text.contains("Model status\nOptimal\n"), "{text}");
    let mut chosen = vec![None; problem.items.len()];
    for line in text.lines().take_while(|line| !line.starts_with("# Dual")) {
        let Some((name, value)) = line.split_once(' ') else { continue };
        let Some((job, at)) = name.strip_prefix('x').and_then(|name| name.split_once('_')) else { continue };
        if value.parse::<f64>().unwrap() > 0.5 {
            chosen[job.parse::<usize>().unwrap()] = Some(at.parse().unwrap());
        }
    }
    [model, options, solution].iter().for_each(|file| fs::remove_file(file).unwrap());
    chosen
}

fn fits(problem: &Problem, chosen: &[Option<u32>]) -> bool {
    problem.of(chosen).1.iter().zip(&problem.capacities).all(|(used, has)| used <= has)
}

/// A folder of our own for the files that HiGHS reads and writes.
fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("highs-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Whether our answer is proven, and by which part of the optimum it is above it.
fn beside(highs: &Path, scratch: &Path, kind: Kind, seed: u64) -> (bool, f64) {
    let problem = round(kind, seed);
    let ours = solve(&problem, SUMS_MAX).unwrap();
    let theirs = chosen(highs, scratch, &problem);
    assert!(fits(&problem, &ours.chosen) && fits(&problem, &theirs));
    let optimum = problem.of(&theirs).0;
    let about = format!("{kind:?}, seed {seed}: ours {} (bound {}), HiGHS {optimum}", ours.cost, ours.bound);
    assert!(ours.bound <= optimum + SAME && optimum <= ours.cost + SAME, "{about}");
    assert!(!ours.proven || (ours.cost - optimum).abs() < SAME, "{about}");
    (ours.proven, (ours.cost - optimum) / optimum.abs())
}

#[test]
fn what_is_proven_is_what_another_solver_finds() {
    let Some(highs) = highs() else { return };
    let scratch = scratch("proven");
    let all: Vec<(usize, u64)> = (0..KINDS.len()).flat_map(|kind| (0..SEEDS).map(move |seed| (kind, seed))).collect();
    let found = all.par_iter().map(|&(kind, seed)| beside(&highs, &scratch.join(format!("{kind}-{seed}")), KINDS[kind], seed));
    let proven = found.filter(|found| found.0).count();
    fs::remove_dir(&scratch).unwrap();
    println!("{proven} of {} proven", all.len());
    assert!(proven * 20 >= all.len() * 19, "{proven} of {} proven", all.len());
}

#[test]
fn what_is_not_proven_is_near_what_another_solver_finds() {
    let Some(highs) = highs() else { return };
    let scratch = scratch("near");
    for (kind, seed) in LARGE {
        let (proven, above) = beside(&highs, &scratch.join(seed.to_string()), kind, seed);
        println!("{kind:?}, seed {seed}: proven {proven}, {above:.5} above the optimum");
        assert!(above <= NEAR, "{kind:?}, seed {seed}: {above} above the optimum");
    }
    fs::remove_dir(&scratch).unwrap();
}
