//! Jobs that keep no beat, learned from made-up byte counters: jitter that adds up, noise, late readings, two jobs on one port.
#![allow(clippy::unwrap_used, reason = "tests")]

use antiphase_telemetry::{Aperiodic, Learned, Series, learn_jobs};
use proptest::prelude::*;
use units::{Nanos, NodeTime, splitmix64, unit_interval};

const MS: f64 = 1e6;
/// Sampling, in milliseconds.
const STEP_MS: f64 = 5.0;
/// Bytes per millisecond of 10 Gbit/s.
const RATE: f64 = 1_250_000.0;

/// Reproducible numbers from a seed.
struct Noise(u64);

impl Noise {
    /// From 0 to 1.
    fn share(&mut self) -> f64 {
        unit_interval(splitmix64(&mut self.0))
    }

    /// About normal, with mean 0 and standard deviation 1.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.share()).sum::<f64>() - 6.0
    }
}

/// A period in milliseconds, and phases: start, length, rate as shares.
struct Shape {
    period_ms: f64,
    phases: &'static [(f64, f64, f64)],
}

const SHAPES: [Shape; 6] = [
    Shape { period_ms: 255.0, phases: &[(0.6, 0.4, 0.9)] },
    Shape { period_ms: 340.0, phases: &[(0.85, 0.15, 1.0)] },
    Shape { period_ms: 613.0, phases: &[(0.35, 0.1, 0.8), (0.7, 0.3, 0.8)] },
    Shape { period_ms: 1_250.0, phases: &[(0.3, 0.1, 1.0), (0.5, 0.1, 0.6), (0.7, 0.15, 0.9)] },
    Shape { period_ms: 120.0, phases: &[(0.4, 0.5, 0.5)] },
    Shape { period_ms: 480.0, phases: &[(0.2, 0.3, 0.7), (0.7, 0.2, 0.7)] },
];

/// Bursts of a job: when they begin and end in milliseconds, and bytes per millisecond.
type Bursts = Vec<(f64, f64, f64)>;

/// How iterations vary.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Jitter {
    /// Each is a little longer or shorter, and the next begins when it ended.
    AddsUp,
    /// Each begins a little early or late beside a beat that is kept.
    OnABeat,
}

/// Bursts of iterations that vary by so much, and the mean length of the iterations.
fn bursts(shape: &Shape, until_ms: f64, jitter: f64, kind: Jitter, noise: &mut Noise) -> (Bursts, f64) {
    let (mut at, mut found, mut count) = (noise.share() * shape.period_ms, Vec::new(), 0);
    let begun = at;
    while at < until_ms {
        let late = jitter * shape.period_ms * noise.normal();
        let start = at + late;
        found.extend(shape.phases.iter().map(|(from, length, rate)| {
            let from = start + from * shape.period_ms;
            (from, from + length * shape.period_ms, rate * RATE)
        }));
        at = shape.period_ms + if kind == Jitter::AddsUp { start } else { at };
        count += 1;
    }
    (found, (at - begun) / f64::from(count))
}

/// Readings about every step, late by up to a third of one, with a chatter of a hundredth.
fn readings(jobs: &[Bursts], until_ms: f64, noise: &mut Noise) -> Series {
    let mut series = Series::keeping(1 << 20);
    let mut chatter = 0.0;
    let sent = |job: &Bursts, at: f64| job.iter().map(|(start, end, rate)| (at - start).clamp(0.0, end - start) * rate).sum::<f64>();
    let mut at = 0.0;
    while at < until_ms {
        let read = at + STEP_MS / 3.0 * noise.share();
        chatter += 0.02 * RATE * STEP_MS * noise.share();
        let bytes: f64 = jobs.iter().map(|job| sent(job, read)).sum();
        series.push(NodeTime((read * MS) as u64), Some((bytes + chatter) as u64));
        at += STEP_MS;
    }
    series
}

fn step() -> Nanos {
    Nanos((STEP_MS * MS) as u64)
}

/// The largest distance of an edge from where it should be, in steps, when the first phases begin together.
fn edges_off(found: &Learned, shape: &Shape, period_ms: f64) -> f64 {
    let gaps = |at: usize| {
        let before = (at + shape.phases.len() - 1) % shape.phases.len();
        (shape.phases[at].0 - shape.phases[before].0 - shape.phases[before].1).rem_euclid(1.0)
    };
    let first = (0..shape.phases.len()).max_by(|a, b| gaps(*a).total_cmp(&gaps(*b)).then(b.cmp(a))).unwrap();
    if found.phases.len() != shape.phases.len() {
        return f64::INFINITY;
    }
    let mut off = 0.0_f64;
    for (at, seen) in found.phases.iter().enumerate() {
        let (start, length, _) = shape.phases[(first + at) % shape.phases.len()];
        let start_ms = (start - shape.phases[first].0).rem_euclid(1.0) * period_ms;
        let (seen_start, seen_end) = (seen.start.0 as f64 / MS, (seen.start.0 + seen.duration.0) as f64 / MS);
        off = off.max((seen_start - start_ms).abs()).max((seen_end - start_ms - length * shape.period_ms).abs());
    }
    off / STEP_MS
}

/// The largest errors of the period, as a share, and of the edges, in steps, over shapes and seeds.
fn worst(seconds: f64, jitter: f64, kind: Jitter, seeds: u64) -> (f64, f64) {
    let mut worst = (0.0_f64, 0.0_f64);
    for (at, shape) in SHAPES.iter().enumerate() {
        for seed in 0..seeds {
            let noise = &mut Noise(seed * 31 + at as u64);
            let until_ms = (1e3 * seconds).max(80.0 * shape.period_ms);
            let (job, mean_ms) = bursts(shape, until_ms, jitter, kind, noise);
            let found = learn_jobs(&readings(&[job], until_ms, noise), step());
            let found = found.unwrap_or_else(|e| panic!("{kind:?}, shape {at}, seed {seed}: {e}"));
            let off = (found[0].period.0 as f64 / MS / mean_ms - 1.0).abs();
            let edges = edges_off(&found[0], shape, mean_ms);
            if off >= 0.005 || edges > 2.0 || found.len() > 1 {
                println!("{kind:?}, shape {at}, seed {seed}: period off {:.2} %, edges by {edges:.1} steps, {found:?}", off * 100.0);
            }
            worst = (worst.0.max(off), worst.1.max(edges));
        }
    }
    println!("{kind:?} {seconds} s, {jitter}: {worst:?}");
    worst
}

#[test]
fn jobs_that_keep_no_beat_are_learned() {
    let (period, edges) = worst(60.0, 0.05, Jitter::AddsUp, 10);
    assert!(period < 0.005 && edges <= 2.0, "{period} {edges}");
}

/// A driver that is slow is read less often. Iterations that are too short for that are refused, and never taken for one of several.
#[test]
fn iterations_that_are_too_short_for_the_readings_are_refused() {
    let shape = |period_ms| Shape { period_ms, phases: &[(0.3, 0.4, 0.9)] };
    let (mut refused, mut long) = (0, 0);
    for period_ms in [17.0, 19.0, 23.0, 27.5, 31.0, 33.3, 38.0] {
        for jitter in [0.0, 0.02, 0.05] {
            for seed in 0..6 {
                let noise = &mut Noise(seed);
                let (job, _) = bursts(&shape(period_ms), 10_000.0, jitter, Jitter::AddsUp, noise);
                match learn_jobs(&readings(&[job], 10_000.0, noise), step()) {
                    Err(Aperiodic::TooFast { steps }) => {
                        refused += 1;
                        assert!(steps < 8, "{period_ms} ms: {steps} steps");
                    }
                    Err(_) => {}
                    // Just eight steps is as good as nearly eight.
                    Ok(found) => {
                        let is_long = found.iter().any(|job| job.period.0 as f64 > 1.3 * period_ms * MS);
                        long += usize::from(is_long);
                    }
                }
            }
        }
    }
    println!("{refused} of 126 are said to be too fast, {long} are taken for longer ones");
    // With jitter a few look like something longer: these are the ones of today, and no more may come.
    assert!(refused > 90 && long <= 6, "{refused} {long}");
}

#[test]
fn jobs_on_a_beat_are_learned() {
    for (seconds, jitter) in [(60.0, 0.05), (20.0, 0.02), (20.0, 0.0)] {
        let (period, edges) = worst(seconds, jitter, Jitter::OnABeat, 4);
        assert!(period < 0.005 && edges <= 2.0, "{seconds} s, {jitter}: {period} {edges}");
    }
}

/// What a port carries by chance, in bytes per millisecond, by step.
fn chance(kind: usize, steps: usize, noise: &mut Noise) -> Vec<f64> {
    let exponential = |mean: f64, noise: &mut Noise| -mean * (1.0 - noise.share()).ln();
    let mut rates = Vec::with_capacity(steps);
    let (mut walk, mut left, mut busy) = (0.5, 0.0, false);
    let mean = 10.0 + 90.0 * noise.share();
    for _ in 0..steps {
        let rate = match kind {
            // On for a while, off for a while, as chance has it.
            0 => {
                if left <= 0.0 {
                    (left, busy) = (exponential(mean, noise), !busy);
                }
                left -= 1.0;
                f64::from(u8::from(busy))
            }
            // Bursts of one length whose gaps are between 0.1 and 1.9 of their mean.
            1 => {
                if left <= 0.0 {
                    busy = !busy;
                    left = if busy { mean * 0.4 } else { mean * (0.1 + 1.8 * noise.share()) };
                }
                left -= 1.0;
                f64::from(u8::from(busy))
            }
            2 => noise.share(),
            // A walk between nothing and the line rate.
            3 => {
                walk = (walk + 0.05 * noise.normal()).clamp(0.0, 1.0);
                walk
            }
            // Transfers of any length and rate, back to back.
            _ => {
                if left <= 0.0 {
                    (left, walk) = (exponential(mean, noise), noise.share());
                }
                left -= 1.0;
                walk
            }
        };
        rates.push(rate * RATE);
    }
    rates
}

/// A recording that stops, and goes on: bytes spread evenly over the pause are no second job, and no silence either.
#[test]
fn a_pause_is_no_job_and_hides_none() {
    for seed in 0..3 {
        let noise = &mut Noise(seed);
        let (job, _) = bursts(&SHAPES[seed as usize], 60_000.0, 0.02, Jitter::AddsUp, noise);
        let whole = readings(std::slice::from_ref(&job), 60_000.0, noise);
        let alone = learn_jobs(&whole, step()).unwrap();
        for pause_ms in [1_000, 5_000, 600_000] {
            // What is read in the pause is left out, and of the longest one the counter goes on much later.
            let mut paused = Series::keeping(1 << 20);
            let (from, to) = (28_000, 28_000 + pause_ms.min(5_000));
            let (_, grid) = whole.grid(step());
            let mut bytes = 0.0;
            for (at, more) in grid.iter().enumerate() {
                bytes += more;
                let ms = (at as f64 * STEP_MS) as u64;
                if ms < from {
                    paused.push(NodeTime(ms * MS as u64), Some(bytes as u64));
                } else if ms >= to {
                    paused.push(
                        NodeTime((ms + pause_ms - (to - from)) * MS as u64),
                        Some((bytes + (pause_ms - (to - from)) as f64 * RATE / 3.0) as u64),
                    );
                }
            }
            let found = learn_jobs(&paused, step()).unwrap_or_else(|e| panic!("{pause_ms} ms, seed {seed}: {e}"));
            assert_eq!(found.len(), 1, "{pause_ms} ms, seed {seed}: {found:?}");
            let off = found[0].period.0 as f64 / alone[0].period.0 as f64 - 1.0;
            assert!(off.abs() < 0.01, "{pause_ms} ms, seed {seed}: {off}");
        }
    }
}

#[test]
fn chance_is_seldom_taken_for_a_period() {
    let mut taken = Vec::new();
    for seed in 0..100_u64 {
        let noise = &mut Noise(seed);
        let kind = seed as usize % 5;
        let mut series = Series::keeping(1 << 20);
        let mut bytes = 0.0;
        for (at, rate) in chance(kind, 8_000, noise).into_iter().enumerate() {
            series.push(NodeTime((at as f64 * STEP_MS * MS) as u64), Some(bytes as u64));
            bytes += rate * STEP_MS;
        }
        if let Ok(found) = learn_jobs(&series, step()) {
            taken.push((kind, seed, found[0].period, found[0].confidence, found[0].jitter, found[0].iterations));
        }
    }
    assert!(taken.len() <= 2, "{} {taken:?}", taken.len());
}

#[test]
fn two_jobs_on_a_port_are_told_apart() {
    let mut wrong = Vec::new();
    for (a, b) in [(0, 1), (0, 2), (1, 4), (2, 5), (5, 1), (3, 0)] {
        for seed in 0..2 {
            let noise = &mut Noise(seed);
            let until_ms = 60_000.0;
            let ((first, _), (second, _)) =
                (bursts(&SHAPES[a], until_ms, 0.02, Jitter::AddsUp, noise), bursts(&SHAPES[b], until_ms, 0.02, Jitter::AddsUp, noise));
            let found = learn_jobs(&readings(&[first, second], until_ms, noise), step());
            let mut periods: Vec<f64> = found.iter().flatten().map(|job| job.period.0 as f64 / MS).collect();
            periods.sort_by(f64::total_cmp);
            let mut wanted = [SHAPES[a].period_ms, SHAPES[b].period_ms];
            wanted.sort_by(f64::total_cmp);
            let right = periods.len() == 2 && periods.iter().zip(wanted).all(|(found, wanted)| (found / wanted - 1.0).abs() < 0.02);
            if !right {
                wrong.push((wanted, seed, periods, found.map(|f| f.iter().map(|j| j.confidence).collect::<Vec<_>>())));
            }
        }
    }
    assert!(wrong.len() <= 1, "{} of 12: {wrong:#?}", wrong.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_series_is_survived(
        values in prop::collection::vec((1_u64..1 << 22, 0_u64..1 << 40), 0..700), repeats in 1_usize..6, step in 1_u64..1 << 24,
    ) {
        let mut series = Series::keeping(1 << 20);
        let (mut at, mut sum) = (0, 0);
        for _ in 0..repeats {
            for (later, more) in &values {
                series.push(NodeTime(at), Some(sum));
                (at, sum) = (at + later, sum + more);
            }
        }
        for job in learn_jobs(&series, Nanos(step)).into_iter().flatten() {
            prop_assert!(job.period.0 > 0 && job.confidence <= 1.0 && job.phases.iter().all(|phase| phase.start < job.period), "{job:?}");
        }
    }
}

/// What is learned of a shape on a beat of so much jitter, and the errors of its period and edges.
fn errors(shape: &Shape, jitter: f64, kind: Jitter, seed: u64) -> (Learned, f64, f64) {
    let noise = &mut Noise(seed);
    let until_ms = 100.0 * shape.period_ms;
    let (job, mean_ms) = bursts(shape, until_ms, jitter, kind, noise);
    let found = learn_jobs(&readings(&[job], until_ms, noise), step()).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    assert_eq!(found.len(), 1, "seed {seed}: {found:?}");
    let (off, edges) = ((found[0].period.0 as f64 / MS / mean_ms - 1.0).abs(), edges_off(&found[0], shape, mean_ms));
    (found[0].clone(), off, edges)
}

#[test]
fn every_rate_of_an_iteration_is_a_phase() {
    let shapes = [
        Shape { period_ms: 300.0, phases: &[(0.1, 0.23, 1.0), (0.47, 0.3, 0.4)] },
        Shape { period_ms: 380.0, phases: &[(0.1, 0.13, 1.0), (0.4, 0.14, 0.41), (0.7, 0.2, 0.2)] },
    ];
    for (at, shape) in shapes.iter().enumerate() {
        for (jitter, seed) in [(0.0, 1), (0.01, 2), (0.02, 3)] {
            let (found, off, edges) = errors(shape, jitter, Jitter::AddsUp, seed);
            assert!(off < 0.005 && edges <= 2.0, "shape {at}, jitter {jitter}: {off} {edges} {found:?}");
            for (rate, seen) in shape.phases.iter().map(|phase| phase.2).zip(&found.phases) {
                assert!((seen.rate.0 as f64 / (rate * 10_000.0) - 1.0).abs() < 0.1, "shape {at}: {rate} {seen:?}");
            }
        }
    }
}

#[test]
fn parts_of_an_iteration_that_differ_by_turns_are_no_iterations() {
    let shapes = [
        Shape { period_ms: 255.0, phases: &[(0.0, 0.275, 1.0), (0.452, 0.263, 1.0)] },
        Shape { period_ms: 450.0, phases: &[(0.0, 0.157, 0.6), (0.331, 0.163, 0.6), (0.686, 0.185, 0.6)] },
    ];
    for (at, shape) in shapes.iter().enumerate() {
        for seed in 0..4 {
            let (found, off, edges) = errors(shape, 0.01, Jitter::AddsUp, seed);
            assert!(off < 0.005 && edges <= 2.0, "shape {at}, seed {seed}: {off} {edges} {found:?}");
        }
    }
}

#[test]
fn jitter_doubles_no_iteration() {
    let shape = Shape { period_ms: 255.0, phases: &[(0.6, 0.4, 0.9)] };
    for kind in [Jitter::AddsUp, Jitter::OnABeat] {
        for seed in 0..40 {
            let (found, off, _) = errors(&shape, 0.04, kind, 1_000 + seed);
            assert!(off < 0.01, "{kind:?}, seed {seed}: {off} {found:?}");
        }
    }
}

#[test]
fn a_job_that_is_seldom_silent_is_learned() {
    for seed in 0..6 {
        let (found, off, _) = errors(&Shape { period_ms: 340.0, phases: &[(0.05, 0.9, 0.9)] }, 0.02, Jitter::AddsUp, seed);
        assert!(off < 0.005, "seed {seed}: {off} {found:?}");
    }
}

/// A job of one phase, or of two, drawn by chance: period in milliseconds and phases as of [`Shape`], but owned.
fn drawn(period_ms: f64, noise: &mut Noise) -> (f64, Vec<(f64, f64, f64)>) {
    let rate = 0.3 + 0.7 * noise.share();
    let length = 0.1 + 0.4 * noise.share();
    let second = (noise.share() < 0.3).then(|| (length + 0.15 + 0.1 * noise.share(), 0.1 + 0.1 * noise.share(), rate));
    (period_ms, core::iter::once((0.0, length, rate)).chain(second).collect())
}

/// Bursts of such a job; iterations vary by so much, and by so much the rates of their phases.
fn played(job: &(f64, Vec<(f64, f64, f64)>), until_ms: f64, jitter: f64, rates: f64, noise: &mut Noise) -> Bursts {
    let (mut at, mut found) = (-noise.share() * job.0, Vec::new());
    while at < until_ms {
        for (from, length, rate) in &job.1 {
            let from = at + from * job.0;
            found.push((from, from + length * job.0, rate * RATE * (1.0 + rates * noise.normal())));
        }
        let silent = 1.0 - job.1.last().map_or(0.0, |last| last.0 + last.1);
        at += job.0 * (1.0 + (jitter * noise.normal()).max(-silent));
    }
    found
}

/// Pairs of any periods, also nearly equal and nearly harmonic ones: an answer is both jobs, or that there are two.
#[test]
fn two_jobs_are_seldom_taken_for_one() {
    let (mut apart, mut said, mut wrong) = (0, 0, Vec::new());
    for seed in 0..24 {
        let noise = &mut Noise(7_000 + seed);
        let first = 150.0 + 250.0 * noise.share();
        let ratio = match seed % 3 {
            0 => 1.1 + 1.9 * noise.share(),
            1 => 1.02 + 0.08 * noise.share(),
            _ => [1.5, 2.0, 3.0][seed as usize / 3 % 3] * (1.015 + 0.03 * noise.share()),
        };
        let jobs = [drawn(first, noise), drawn(first * ratio, noise)];
        let jitter = [0.0, 0.01, 0.02][seed as usize % 3];
        let until_ms = 60.0 * first * ratio;
        let bursts = jobs.each_ref().map(|job| played(job, until_ms, jitter, 0.0, noise));
        match learn_jobs(&readings(&bursts, until_ms, noise), step()) {
            Err(Aperiodic::Shared { .. }) => said += 1,
            Ok(found)
                if found.len() == 2
                    && jobs.iter().all(|job| found.iter().any(|f| (f.period.0 as f64 / MS / job.0 - 1.0).abs() < 0.015)) =>
            {
                apart += 1;
            }
            other => wrong.push((seed, first, ratio, other.map(|f| f.iter().map(|job| job.period.0 as f64 / MS).collect::<Vec<_>>()))),
        }
    }
    println!("{apart} apart, {said} said to be two, {wrong:?}");
    assert!(apart >= 14 && wrong.len() <= 2, "{apart} {said} {wrong:#?}");
}

/// Three jobs: no two of them are all, and no one is.
#[test]
fn more_jobs_than_are_told_apart_are_said_to_share_the_port() {
    for seed in [1, 9, 16] {
        let noise = &mut Noise(9_000 + seed);
        let first = 150.0 + 250.0 * noise.share();
        let jobs = [1.0, 1.1 + noise.share(), 1.1 + 1.9 * noise.share()].map(|ratio| drawn(first * ratio, noise));
        let until_ms = 150.0 * first;
        let bursts = jobs.each_ref().map(|job| played(job, until_ms, 0.02, 0.0, noise));
        let found = learn_jobs(&readings(&bursts, until_ms, noise), step());
        assert!(matches!(found, Err(Aperiodic::Shared { .. })), "{seed}: {found:?}");
    }
}

#[test]
fn a_job_whose_rates_vary_is_one_job() {
    for seed in 0..8 {
        let noise = &mut Noise(8_000 + seed);
        let job = drawn(150.0 + 250.0 * noise.share(), noise);
        let until_ms = 80.0 * job.0;
        let bursts = played(&job, until_ms, 0.02, 0.08, noise);
        let found = learn_jobs(&readings(&[bursts], until_ms, noise), step()).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        assert!(found.len() == 1 && (found[0].period.0 as f64 / MS / job.0 - 1.0).abs() < 0.015, "seed {seed}: {job:?} {found:?}");
    }
}

/// Its silence moves by half of its length, so the mean iteration has hardly any.
#[test]
fn a_job_of_nine_tenths_that_varies_is_learned() {
    let refused = |seed: &u64| {
        let noise = &mut Noise(9_000 + seed);
        let shape = Shape { period_ms: 200.0 + 300.0 * noise.share(), phases: &[(0.05, 0.9, 0.9)] };
        let until_ms = 100.0 * shape.period_ms;
        let (job, mean_ms) = bursts(&shape, until_ms, 0.05, Jitter::AddsUp, noise);
        let found = learn_jobs(&readings(&[job], until_ms, noise), step());
        found.as_ref().map_or(true, |found| found.len() > 1 || (found[0].period.0 as f64 / MS / mean_ms - 1.0).abs() > 0.01)
    };
    let refused: Vec<u64> = (0..12).filter(refused).collect();
    assert!(refused.len() <= 1, "{refused:?}");
}
