//! Periods and phases learned from made-up byte counters: jitter, noise, late readings, two jobs on one port.
#![allow(clippy::unwrap_used, reason = "tests")]

use antiphase_telemetry::{Aperiodic, Observation, SAMPLES_MAX, Series, learn, phase_error};
use proptest::prelude::*;
use units::{Nanos, NodeTime, splitmix64, unit_interval};

const STEP: Nanos = Nanos(10_000_000);
const MS: u64 = 1_000_000;

/// More of them with `PROPTEST_CASES`.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(48)
}

/// Reproducible numbers in [-1, 1] from a seed.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        2.0 * unit_interval(splitmix64(&mut self.0)) - 1.0
    }
}

/// A job that sends for `up` at `rate` bytes per ms from each start on.
struct Job {
    starts: Vec<u64>,
    up: u64,
    rate: u64,
}

impl Job {
    /// Starts every `period` from `offset` on, each off by up to `jitter` of the period; held jobs do not accumulate it.
    fn held(period: u64, offset: u64, up: u64, jitter: f64, noise: &mut Noise) -> Self {
        let count = SAMPLES_MAX as u64 * STEP.0 / period + 2;
        let starts = (0..count).map(|i| (offset + i * period).saturating_add_signed((jitter * period as f64 * noise.next()) as i64));
        Self { starts: starts.collect(), up, rate: 100_000 }
    }

    fn sent(&self, at: u64) -> u64 {
        self.starts.iter().map(|start| at.saturating_sub(*start).min(self.up) / 1_000 * self.rate / 1_000).sum()
    }
}

/// Readings every 10 ms, late by up to `late` of a step, over `steps`.
fn readings(jobs: &[Job], steps: usize, late: f64, noise: &mut Noise) -> Series {
    let mut series = Series::default();
    let mut background = 0.0;
    for i in 1..=steps as u64 {
        let at = i * STEP.0 + (late * STEP.0 as f64 * noise.next().abs()) as u64;
        // A chatter of about 1 % of the jobs' rate.
        background += 10_000.0 * (1.0 + noise.next());
        series.push(NodeTime(at), Some(jobs.iter().map(|job| job.sent(at)).sum::<u64>() + background as u64));
    }
    series
}

fn off_by(observation: &Observation, period: u64) -> f64 {
    (observation.period.0 as f64 - period as f64).abs() / period as f64
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn a_held_job_is_found(
        period_ms in 60_u64..1_500, share in 0.15_f64..0.7, jitter in 0.0_f64..0.03, offset in 0.0_f64..1.0, late in 0.0_f64..0.9, seed: u64,
    ) {
        let noise = &mut Noise(seed);
        let period = period_ms * MS + (noise.next().abs() * MS as f64) as u64;
        let up = (share * period as f64) as u64;
        let planned = (offset * period as f64) as u64;
        let job = Job::held(period, planned, up, jitter, noise);
        let found = learn(&readings(&[job], 3_000, late, noise), STEP).unwrap();
        prop_assert!(off_by(&found, period) < 0.005, "{period} ns, found {:?}", found);
        prop_assert_eq!(found.phases.len(), 1, "{:?}", found);
        // Within two steps or the jitter, of the plan's own time.
        let error = phase_error(found.origin.0 + found.phases[0].start.0, planned, Nanos(period));
        prop_assert!(error.unsigned_abs() <= 2 * STEP.0 + (0.05 * period as f64) as u64, "late by {error} ns: {found:?}");
        let length = found.phases[0].duration.0.abs_diff(up);
        prop_assert!(length <= 2 * STEP.0 + (0.08 * period as f64) as u64, "off by {length} ns of {up}: {found:?}");
    }

    #[test]
    fn two_jobs_with_one_period_are_one_signal(period_ms in 150_u64..800, seed: u64) {
        let noise = &mut Noise(seed);
        let period = period_ms * MS;
        let jobs = [Job::held(period, 0, period / 5, 0.01, noise), Job::held(period, period * 35 / 100, period * 2 / 5, 0.01, noise)];
        let found = learn(&readings(&jobs, 3_000, 0.3, noise), STEP).unwrap();
        prop_assert!(off_by(&found, period) < 0.005, "{found:?}");
        prop_assert_eq!(found.phases.len(), 2, "{:?}", found);
    }

    #[test]
    fn two_jobs_without_a_lock_are_never_a_third_period_with_confidence(a_ms in 100_u64..400, ratio in 1.15_f64..1.9, seed: u64) {
        let noise = &mut Noise(seed);
        let (a, b) = (a_ms * MS, (a_ms as f64 * ratio) as u64 * MS);
        let jobs = [Job::held(a, 0, a / 3, 0.01, noise), Job::held(b, 0, b / 3, 0.01, noise)];
        if let Ok(found) = learn(&readings(&jobs, 3_000, 0.3, noise), STEP) {
            // What repeats is then nearly a multiple of both.
            let away = |period: u64| phase_error(found.period.0, 0, Nanos(period)).unsigned_abs() as f64 / period as f64;
            prop_assert!(found.confidence < 0.8 || (away(a) < 0.15 && away(b) < 0.15), "{a} and {b}: {found:?}");
        }
    }

    #[test]
    fn chance_is_aperiodic(mean_ms in 50_u64..600, seed: u64) {
        // Starts with gaps that are uniform between 0.1 and 1.9 times the mean: no period.
        let noise = &mut Noise(seed);
        let mut at = 0;
        let mut starts = Vec::new();
        while at < 3_000 * STEP.0 {
            starts.push(at);
            at += (mean_ms as f64 * MS as f64 * (1.0 + 0.9 * noise.next())) as u64;
        }
        let job = Job { starts, up: mean_ms * MS / 10, rate: 100_000 };
        let found = learn(&readings(&[job], 3_000, 0.3, noise), STEP);
        prop_assert!(matches!(found, Err(Aperiodic::NoPeak { .. })), "{found:?}");
    }

    #[test]
    fn any_series_is_survived(values in prop::collection::vec((any::<u64>(), prop::option::of(any::<u64>())), 0..200), step in 0_u64..1 << 40) {
        let mut series = Series::default();
        for (at, value) in values {
            series.push(NodeTime(at), value);
        }
        if let Ok(found) = learn(&series, Nanos(step)) {
            prop_assert!(found.period.0 > 0);
        }
    }
}

/// Found by the law above: 24 periods, each late by up to 2.6 %, whose peaks are round.
#[test]
fn jitter_does_not_stop_the_search_at_the_first_peak() {
    let noise = &mut Noise(3_049_897_614_398_183_623);
    let period = 1_256 * MS + (noise.next().abs() * MS as f64) as u64;
    let job = Job::held(period, 0, period * 15 / 100, 0.026_195_668_646_963_384, noise);
    let found = learn(&readings(&[job], 3_000, 0.0, noise), STEP).unwrap();
    assert!(off_by(&found, period) < 0.005, "{period} ns, found {found:?}");
}

/// Found by the law above: nine and a half steps, of which the job is busy for one and a half.
#[test]
fn a_period_between_two_steps_is_not_doubled() {
    let noise = &mut Noise(0);
    let period = 94 * MS + (noise.next().abs() * MS as f64) as u64;
    let job = Job::held(period, 0, period * 15 / 100, 0.0, noise);
    let found = learn(&readings(&[job], 3_000, 0.0, noise), STEP).unwrap();
    assert!(off_by(&found, period) < 0.005, "{period} ns, found {found:?}");
}

#[test]
fn silence_and_a_steady_stream_are_constant() {
    let series = |rate: u64| {
        let mut series = Series::default();
        (1..500).for_each(|i| series.push(NodeTime(i * STEP.0), Some(i * rate)));
        series
    };
    assert_eq!(learn(&series(0), STEP), Err(Aperiodic::Constant));
    assert_eq!(learn(&series(1_000_000), STEP), Err(Aperiodic::Constant));
}

#[test]
fn a_short_look_says_so() {
    let noise = &mut Noise(1);
    let job = Job::held(500 * MS, 0, 100 * MS, 0.0, noise);
    assert_eq!(learn(&readings(&[job], 10, 0.0, noise), STEP), Err(Aperiodic::TooShort { steps: 9 }));
    // 1.2 s of a period of 500 ms: whatever is found, it is not that.
    let job = Job::held(500 * MS, 0, 100 * MS, 0.0, noise);
    assert!(learn(&readings(&[job], 120, 0.0, noise), STEP).is_err());
}
