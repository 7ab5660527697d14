//! What a take says: iteration times, overlap, marks. Pure.

use std::collections::BTreeSet;

use serde::Serialize;
use units::Nanos;

use crate::{
    case::Timing,
    rank::Iteration,
    traffic::{Take, Window},
};

/// Fewest iterations that a mean is made of.
pub const ITERATIONS_MIN: usize = 3;

/// Iteration times of one job in one take, in ms.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Times {
    /// How many.
    pub count: usize,
    /// Mean.
    pub mean_ms: f64,
    /// Median.
    pub median_ms: f64,
    /// 99th percentile: of few iterations, their largest.
    pub p99_ms: f64,
}

/// The middle of several takes and how far they are apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// Median over the takes.
    pub median: f64,
    /// Smallest.
    pub least: f64,
    /// Largest.
    pub most: f64,
}

impl Spread {
    /// Of values in any order; of none, zeros.
    #[must_use]
    pub fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let (Some(&least), Some(&most)) = (values.first(), values.last()) else { return Self::default() };
        let half = values.len() / 2;
        let median = if values.len() % 2 == 1 { values[half] } else { f64::midpoint(values[half - 1], values[half]) };
        Self { median, least, most }
    }
}

/// The iterations that begin to communicate inside the window.
fn measured(iterations: &[Iteration], window: Window) -> impl Iterator<Item = &Iteration> {
    iterations.iter().filter(move |i| (window.from..window.until).contains(&i.comm_start))
}

/// Lengths of the iterations in the window, from one Up phase to the next, sorted, in ns.
fn lengths(iterations: &[Iteration], window: Window) -> Vec<u64> {
    let starts: Vec<u64> = measured(iterations, window).map(|i| i.comm_start).collect();
    let mut lengths: Vec<u64> = starts.windows(2).map(|w| w[1] - w[0]).collect();
    lengths.sort_unstable();
    lengths
}

/// The value below which `permille` of the sorted values lie, by nearest rank.
fn quantile(sorted: &[u64], permille: usize) -> u64 {
    let rank = (sorted.len() * permille).div_ceil(1_000).max(1);
    sorted.get(rank - 1).copied().unwrap_or(0)
}

/// Iteration times of a job in a take; nothing when there are fewer than [`ITERATIONS_MIN`].
#[must_use]
pub fn times(take: &Take, job: usize) -> Option<Times> {
    let lengths = lengths(take.iterations.get(&job)?, take.window);
    if lengths.len() < ITERATIONS_MIN {
        return None;
    }
    let ms = |ns: u64| ns as f64 / 1e6;
    Some(Times {
        count: lengths.len(),
        mean_ms: lengths.iter().map(|&l| ms(l)).sum::<f64>() / lengths.len() as f64,
        median_ms: ms(quantile(&lengths, 500)),
        p99_ms: ms(quantile(&lengths, 990)),
    })
}

/// Third quartiles of a solo take: what the plan is made from. Nothing when there are too few iterations.
#[must_use]
pub fn calibrate(take: &Take, job: usize) -> Option<Timing> {
    let iterations = take.iterations.get(&job)?;
    let lengths = lengths(iterations, take.window);
    let mut ups: Vec<u64> = measured(iterations, take.window).map(|i| i.comm_end - i.comm_start).collect();
    ups.sort_unstable();
    (lengths.len() >= ITERATIONS_MIN).then(|| Timing { period: Nanos(quantile(&lengths, 750)), up: Nanos(quantile(&ups, 750)) })
}

/// Share of a job's communication in the window during which one of `others` communicated as well.
#[must_use]
pub fn overlap(take: &Take, job: usize, others: &BTreeSet<usize>) -> f64 {
    let spans = |job: &usize| take.iterations.get(job).into_iter().flatten().map(|i| (i.comm_start, i.comm_end));
    let mut busy: Vec<(u64, u64)> = others.iter().flat_map(spans).collect();
    busy.sort_unstable();
    // Spans of different jobs may overlap each other; each moment counts once.
    let mut merged: Vec<(u64, u64)> = Vec::new();
    for (start, end) in busy {
        match merged.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => merged.push((start, end)),
        }
    }
    let (mut own, mut both) = (0, 0);
    for i in take.iterations.get(&job).into_iter().flat_map(|all| measured(all, take.window)) {
        own += i.comm_end - i.comm_start;
        both += merged.iter().map(|&(s, e)| e.min(i.comm_end).saturating_sub(s.max(i.comm_start))).sum::<u64>();
    }
    if own == 0 { 0.0 } else { both as f64 / own as f64 }
}

/// Iterations of some jobs that began to communicate inside the window.
#[must_use]
pub fn iterations(take: &Take, jobs: &[usize]) -> usize {
    jobs.iter().filter_map(|job| take.iterations.get(job)).map(|all| measured(all, take.window).count()).sum()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn take(spans: &[(usize, &[(u64, u64)])]) -> Take {
        let iterations = |all: &[(u64, u64)]| {
            all.iter().enumerate().map(|(n, &(s, e))| Iteration { iteration: n as u64, start: s, comm_start: s, comm_end: e }).collect()
        };
        Take {
            window: Window { start: 0, from: 100, until: 1_000 },
            iterations: spans.iter().map(|(job, all)| (*job, iterations(all))).collect(),
            marks: BTreeMap::new(),
            bytes: BTreeMap::new(),
            peaks: BTreeMap::new(),
        }
    }

    /// Job 0 communicates for 40 + 40 in the window; job 1 covers 10 of the first, job 2 the same 10 and 20 of the second.
    #[test]
    fn a_moment_counts_once_however_many_others_communicate() {
        let take = take(&[(0, &[(0, 40), (200, 240), (400, 440)]), (1, &[(190, 210)]), (2, &[(195, 210), (420, 500)]), (3, &[(200, 240)])]);
        assert!((overlap(&take, 0, &BTreeSet::from([1, 2])) - 30.0 / 80.0).abs() < 1e-9);
        assert!(overlap(&take, 0, &BTreeSet::new()).abs() < 1e-9, "nobody meets it");
    }

    /// Starts at 100, 200, 310, 410: lengths 100, 110, 100. The start at 0 is warm-up, the one at 1000 is after the end.
    #[test]
    fn iterations_are_counted_inside_the_window() {
        let take = take(&[(0, &[(0, 10), (100, 130), (200, 240), (310, 350), (410, 440), (1_000, 1_010)])]);
        let times = times(&take, 0).unwrap();
        assert_eq!(times.count, 3);
        assert!((times.mean_ms - 310.0 / 3e6).abs() < 1e-12);
        assert_eq!(calibrate(&take, 0).unwrap(), Timing { period: Nanos(110), up: Nanos(40) });
        assert_eq!(iterations(&take, &[0]), 4);
    }

    #[test]
    fn quantiles_are_by_nearest_rank() {
        let sorted = [1, 2, 3, 4];
        assert_eq!([0, 250, 251, 500, 750, 990, 1_000].map(|p| quantile(&sorted, p)), [1, 1, 2, 2, 3, 4, 4]);
        assert_eq!(Spread::of(vec![3.0, 1.0, 2.0, 10.0]), Spread { median: 2.5, least: 1.0, most: 10.0 });
    }
}
