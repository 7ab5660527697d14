//! How far the solver is from what a simple annealer finds in ten times its time, for links of 6 to 20 jobs.
//!
//! `cargo run --release -p antiphase-circle --example annealing -- [SECONDS [CASES]]`: seconds of annealing for each link (10),
//! links a row (5). The annealer moves one job at a time to a random shift on an array of ticks (Metropolis) and shares no code
//! with the solver. In the rows `packed` the jobs are cut from lanes that fill the link to the last tick, so the optimum is 1.

#[path = "../tests/oracle/mod.rs"]
mod oracle;

use std::time::{Duration, Instant};

use antiphase_circle::{Options, Phase, Problem, ProblemBuilder, ProblemError, Rate, Ticks, solve};
use oracle::{Phases, Random, lcm};

/// Jobs of (period, phases) on one link.
struct Link {
    capacity: u64,
    jobs: Vec<(u64, Phases)>,
}

impl Link {
    fn problem(&self) -> Result<Problem, ProblemError> {
        let mut b = ProblemBuilder::new();
        let mut members = Vec::new();
        for (period, phases) in &self.jobs {
            let job = b.job(Ticks(*period))?;
            let phases: Vec<Phase> = phases.iter().map(|p| Phase { start: Ticks(p.0), end: Ticks(p.1), rate: Rate(p.2) }).collect();
            members.push(b.demand(job, &phases)?);
        }
        b.link(Rate(self.capacity), members)?;
        Ok(b.build())
    }

    /// Jobs of those periods with up to three phases of one rate, at three quarters to nearly all of the capacity.
    fn loaded(random: &mut Random, jobs: u64, periods: &[u64]) -> Self {
        let load = random.range(750, 980);
        let job = |random: &mut Random| {
            let (period, rate) = (*random.pick(periods), *random.pick(&[10_000, 12_500, 15_000, 20_000, 25_000, 30_000]));
            let up = (period * load * 50 / jobs * random.range(60, 140) / 100 / rate).clamp(3, period * 9 / 10);
            let bursts = random.range(1, 3);
            let (burst, gap) = (up / bursts, (period - up) / bursts);
            let phases = (0..bursts).map(|i| {
                let start = i * (burst + gap) + random.range(0, gap.saturating_sub(1));
                (start, start + burst, rate)
            });
            (period, phases.filter(|p| p.0 < p.1).collect())
        };
        Self { capacity: 50_000, jobs: (0..jobs).map(|_| job(random)).collect() }
    }

    /// Lanes of 50, or of 40, 30 and 30, of 100: each is cut into pieces, which are dealt to its jobs; every job is turned.
    fn packed(random: &mut Random, jobs: u64) -> Self {
        let lanes: &[u64] = if random.range(0, 1) == 0 { &[50, 50] } else { &[40, 30, 30] };
        let mut link = Self { capacity: 100, jobs: Vec::new() };
        for (l, &rate) in lanes.iter().enumerate() {
            let share = (jobs as usize * (l + 1)) / lanes.len() - (jobs as usize * l) / lanes.len();
            let period = if random.range(0, 1) == 0 { 240 } else { 120 };
            let mut cuts: Vec<u64> = (0..share + share / 3).map(|_| random.range(1, period - 1)).chain([0, period]).collect();
            cuts.sort_unstable();
            cuts.dedup();
            let mut dealt: Vec<Phases> = vec![Vec::new(); share];
            for (i, cut) in cuts.windows(2).enumerate() {
                let owner = if i < share { i } else { random.range(0, share as u64 - 1) as usize };
                dealt[owner].push((cut[0], cut[1], rate));
            }
            link.jobs.extend(dealt.into_iter().filter(|d| !d.is_empty()).map(|own| {
                let turn = random.range(0, period - 1);
                (period, turned(&own, turn, period))
            }));
        }
        link
    }

    /// The score that annealing finds.
    fn annealed(&self, random: &mut Random, time: Duration) -> f64 {
        let perimeter = self.jobs.iter().fold(1, |l, j| lcm(l, j.0)) as usize;
        let wave = |(period, phases): &(u64, Phases)| -> Vec<i64> {
            let at = |t: u64| phases.iter().find(|p| p.0 <= t && t < p.1).map_or(0, |p| p.2 as i64);
            (0..perimeter as u64).map(|t| at(t % period)).collect()
        };
        let waves: Vec<Vec<i64>> = self.jobs.iter().map(wave).collect();
        let over = |level: i64| (level - self.capacity as i64).max(0);
        let mut best = i64::MAX;
        for _ in 0..4 {
            let mut shifts: Vec<usize> = self.jobs.iter().map(|j| random.range(0, j.0 - 1) as usize).collect();
            let mut total = vec![0; perimeter];
            for (wave, shift) in waves.iter().zip(&shifts) {
                (0..perimeter).for_each(|t| total[(t + shift) % perimeter] += wave[t]);
            }
            let mut cost: i64 = total.iter().map(|&level| over(level)).sum();
            let began = Instant::now();
            let hot = 0.005 * self.capacity as f64 * perimeter as f64;
            loop {
                let part = began.elapsed().as_secs_f64() / (time.as_secs_f64() / 4.0);
                if part >= 1.0 || best == 0 {
                    break;
                }
                let temperature = hot * (-7.6 * part).exp();
                for _ in 0..100 {
                    let job = random.range(0, waves.len() as u64 - 1) as usize;
                    let to = random.range(0, self.jobs[job].0 - 1) as usize;
                    let (old, new) = (perimeter - shifts[job], perimeter - to);
                    let level = |t: usize, from: usize| waves[job][(t + from) % perimeter];
                    let moved = |t: usize| over(total[t] - level(t, old) + level(t, new)) - over(total[t]);
                    let change: i64 = (0..perimeter).map(moved).sum();
                    if change <= 0 || (random.range(0, 1 << 40) as f64) < (1_u64 << 40) as f64 * (-(change as f64) / temperature).exp() {
                        (0..perimeter).for_each(|t| total[t] += level(t, new) - level(t, old));
                        shifts[job] = to;
                        cost += change;
                        best = best.min(cost);
                    }
                }
            }
        }
        1.0 - best as f64 / (perimeter as f64 * self.capacity as f64)
    }
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

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let time = Duration::from_secs_f64(arguments.next().map_or(Ok(10.0), |a| a.parse())?);
    let cases: u64 = arguments.next().map_or(Ok(5), |a| a.parse())?;
    println!("{:<10} jobs  proven  worst below annealing  mean below annealing  largest gap  longest solve", "periods");
    for (row, periods) in [("equal", &[240][..]), ("harmonic", &[240, 120, 60]), ("mixed", &[240, 180, 160, 120]), ("packed", &[])] {
        for jobs in [6, 8, 12, 16, 20] {
            let (mut proven, mut below, mut gap, mut longest) = (0, Vec::new(), 0.0_f64, Duration::ZERO);
            for seed in 0..cases {
                let mut random = Random(seed * 7_919 + jobs * 31 + row.len() as u64);
                let link = if row == "packed" { Link::packed(&mut random, jobs) } else { Link::loaded(&mut random, jobs, periods) };
                let problem = link.problem()?;
                let began = Instant::now();
                let solution = solve(&problem, &Options::default())?;
                longest = longest.max(began.elapsed());
                let best = if row == "packed" { 1.0 } else { link.annealed(&mut random, time) };
                proven += u64::from(solution.optimality.proven);
                gap = gap.max(solution.optimality.bound_gap);
                below.push(best - solution.mean_score);
                let bound = solution.mean_score + solution.optimality.bound_gap;
                assert!(bound >= best - 1e-9, "{row}, seed {seed}: the bound {bound} is below {best}");
            }
            let worst = below.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let mean = below.iter().sum::<f64>() / below.len() as f64;
            let longest = longest.as_secs_f64();
            println!("{row:<10} {jobs:>4}  {proven:>3}/{cases:<2}  {worst:>21.4}  {mean:>20.4}  {gap:>11.4}  {longest:>11.2} s");
        }
    }
    Ok(())
}
