//! How often the solver finds shifts that were planted: links of 6 to 20 jobs that their jobs fill to the last tick, or nearly, so
//! that the optimum is 1.
//!
//! `cargo run --release -p antiphase-circle --example planted -- [COUNT [SEED [KIND]]]`: links of each kind (200), the seed (1). The link is
//! cut into lanes; a lane is cut into pieces of time, which are dealt to its jobs; every job is turned at random. Kinds: `equal`
//! periods, `harmonic` ones (jobs of the whole, a half or a third of the period scattered over each lane), `fine` and `fine-harmonic`,
//! the same with periods measured in microseconds, and `loose`, of which up to a twentieth of the time stays free. The numbers of
//! links that were missed are printed; the same seed and number give the same link.

#[path = "../tests/oracle/mod.rs"]
mod oracle;

use std::time::{Duration, Instant};

use antiphase_circle::{Options, Phase, Problem, ProblemBuilder, ProblemError, Rate, Ticks, solve};
use oracle::{Phases, Random};

const KINDS: [&str; 5] = ["equal", "harmonic", "fine", "fine-harmonic", "loose"];
/// How the capacity of 100 is divided into lanes.
const LANES: [&[u64]; 9] =
    [&[100], &[50, 50], &[60, 40], &[70, 30], &[40, 30, 30], &[50, 30, 20], &[25, 25, 25, 25], &[40, 20, 20, 20], &[30, 30, 20, 20]];

/// How often jobs of the shorter period of a lane send in the longer one; one of them is drawn for each lane.
const LAPS: [&[u64]; 4] = [&[2], &[2, 2, 1], &[3], &[2, 3, 1]];

/// Jobs of (period, phases) that fill a link of 100.
fn jobs(kind: &str, random: &mut Random) -> Vec<(u64, Phases)> {
    let lanes = *random.pick(&LANES);
    let count = random.range(6, 20).max(2 * lanes.len() as u64) as usize;
    let base = match kind {
        "fine" => *random.pick(&[250_000, 336_000, 243_119]),
        "fine-harmonic" => *random.pick(&[41_666, 40_519, 56_000]) * 6,
        _ => *random.pick(&[120, 180, 240, 360, 600, 1_200]),
    };
    let laps: &[u64] = match kind {
        "harmonic" | "fine-harmonic" => random.pick::<&[u64]>(&LAPS),
        "loose" if random.range(0, 1) == 0 => &[2],
        _ => &[1],
    };
    let mut jobs = Vec::new();
    for (l, &rate) in lanes.iter().enumerate() {
        let share = count * (l + 1) / lanes.len() - count * l / lanes.len();
        let laps = *random.pick(laps);
        // A job of more laps has the same pieces in each of them; the rest of each lap is cut anew.
        let short = if laps == 1 { 0 } else { random.range(0, share as u64) as usize };
        let lap = base / laps;
        let mut cuts: Vec<u64> = (0..2 * share).map(|_| random.range(1, lap - 1)).chain([0, lap]).collect();
        cuts.sort_unstable();
        cuts.dedup();
        let mut dealt: Vec<Phases> = vec![Vec::new(); share];
        let mut open: Phases = Vec::new();
        for cut in cuts.windows(2) {
            let to = random.range(0, share as u64 - 1) as usize;
            if to < short && dealt[to].len() < 3 {
                dealt[to].push((cut[0], cut[1], rate));
            } else {
                open.extend((0..laps).map(|n| (cut[0] + n * lap, cut[1] + n * lap, rate)));
            }
        }
        // Neighbouring open pieces are one, and are cut where that gives every long job a piece, and some of them more.
        open.sort_unstable();
        let mut joined: Phases = Vec::new();
        for piece in open {
            match joined.last_mut() {
                Some(last) if last.1 == piece.0 => last.1 = piece.1,
                _ => joined.push(piece),
            }
        }
        let long = share - short;
        let wanted = long + long / 3;
        while joined.len() < wanted {
            let whole: u64 = joined.iter().map(|p| p.1 - p.0).sum();
            if whole <= 2 * joined.len() as u64 {
                break;
            }
            let mut at = random.range(0, whole - 1);
            let mut i = 0;
            while at >= joined[i].1 - joined[i].0 {
                (at, i) = (at - (joined[i].1 - joined[i].0), i + 1);
            }
            let piece = joined[i];
            if at > 0 {
                joined[i].1 = piece.0 + at;
                joined.push((piece.0 + at, piece.1, rate));
            }
        }
        for i in (1..joined.len()).rev() {
            joined.swap(i, random.range(0, i as u64) as usize);
        }
        for (i, piece) in joined.into_iter().enumerate() {
            if long == 0 {
                // Nobody is left who sends once in the whole period: the piece stays free.
                continue;
            }
            let owner = if i < long { i } else { random.range(0, long as u64 - 1) as usize };
            dealt[short + owner].push(piece);
        }
        for (j, mut own) in dealt.into_iter().enumerate() {
            let period = if j < short { lap } else { base };
            if kind == "loose" {
                for piece in &mut own {
                    piece.1 -= (piece.1 - piece.0) * random.range(0, 8) / 100;
                }
            }
            own.retain(|p| p.0 < p.1);
            own.sort_unstable();
            if !own.is_empty() {
                jobs.push((period, turned(&own, random.range(0, period - 1), period)));
            }
        }
    }
    jobs
}

/// Phases that begin `turn` later, around the period.
fn turned(phases: &Phases, turn: u64, period: u64) -> Phases {
    let mut out: Phases = Vec::new();
    for &(start, end, rate) in phases {
        let (start, length) = ((start + turn) % period, end - start);
        out.push((start, (start + length).min(period), rate));
        if start + length > period {
            out.push((0, start + length - period, rate));
        }
    }
    out.sort_unstable();
    out
}

fn problem(jobs: &[(u64, Phases)]) -> Result<Problem, ProblemError> {
    let mut b = ProblemBuilder::new();
    let mut members = Vec::new();
    for (period, phases) in jobs {
        let job = b.job(Ticks(*period))?;
        let phases: Vec<Phase> = phases.iter().map(|p| Phase { start: Ticks(p.0), end: Ticks(p.1), rate: Rate(p.2) }).collect();
        members.push(b.demand(job, &phases)?);
    }
    b.link(Rate(100), members)?;
    Ok(b.build())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let count: u64 = arguments.next().map_or(Ok(200), |a| a.parse())?;
    let seed: u64 = arguments.next().map_or(Ok(1), |a| a.parse())?;
    let only = arguments.next();
    let one: Option<u64> = arguments.next().map(|a| a.parse()).transpose()?;
    println!("{:<14} links  jobs  missed  worst below 1  solve, mean and longest", "kind");
    for (k, kind) in KINDS.into_iter().enumerate().filter(|(_, kind)| only.as_deref().is_none_or(|only| only == *kind)) {
        let (mut missed, mut worst, mut spent, mut longest, mut all) = (Vec::new(), 0.0_f64, Duration::ZERO, Duration::ZERO, 0);
        for number in one.map_or(0..count, |n| n..n + 1) {
            let mut random = Random(seed.wrapping_mul(1_000_003) + number * 7_919 + k as u64);
            let jobs = jobs(kind, &mut random);
            if one.is_some() {
                jobs.iter().for_each(|job| println!("{job:?}"));
            }
            all += jobs.len();
            let problem = problem(&jobs)?;
            let began = Instant::now();
            let found = solve(&problem, &Options::default())?;
            let took = began.elapsed();
            (spent, longest) = (spent + took, longest.max(took));
            if found.mean_score < 1.0 - 1e-9 {
                missed.push((number, jobs.len(), 1.0 - found.mean_score));
                worst = worst.max(1.0 - found.mean_score);
            }
        }
        let count = if one.is_some() { 1 } else { count };
        let mean = spent.as_secs_f64() / count as f64;
        let jobs = all as f64 / count as f64;
        println!("{kind:<14} {count:>5}  {jobs:>4.1}  {:>6}  {worst:>13.4}  {mean:.3} s, {:.2} s", missed.len(), longest.as_secs_f64());
        for (number, jobs, below) in missed {
            println!("  {kind} {number}: {jobs} jobs, {below:.5} below 1");
        }
    }
    Ok(())
}
