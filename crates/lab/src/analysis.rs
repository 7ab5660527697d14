//! Iteration times, overlap and marks of a take, by the statistics that the simulator uses too. Pure.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use sim::stats::{self, Interval, LinkUse, Summary};
use units::{Nanos, nearest_rank};

use crate::{
    case::Timing,
    rank::Iteration,
    traffic::{Take, Window},
};

/// Fewest iterations that a mean is made of.
pub const ITERATIONS_MIN: usize = 3;

/// The middle of several takes and how far they are apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    iterations.iter().filter(move |i| (window.from..window.until).contains(&i.began()))
}

/// Lengths of the iterations of a job in the window, from one Up phase to the next; nothing when there are fewer than
/// [`ITERATIONS_MIN`].
fn lengths(take: &Take, job: usize) -> Option<Vec<Nanos>> {
    // An iteration counts from Up phase to Up phase: what a gate holds is then part of the iteration before.
    let starts: Vec<u64> = measured(take.iterations.get(&job)?, take.window).map(Iteration::began).collect();
    let lengths: Vec<Nanos> = starts.windows(2).map(|w| Nanos(w[1] - w[0])).collect();
    (lengths.len() >= ITERATIONS_MIN).then_some(lengths)
}

/// Iteration times of a job in a take; nothing when there are fewer than [`ITERATIONS_MIN`].
#[must_use]
pub fn times(take: &Take, job: usize) -> Option<Summary> {
    Some(Summary::of(lengths(take, job)?))
}

/// Third quartiles of a solo take, by nearest rank: what the plan is made from. Nothing when there are too few iterations.
#[must_use]
pub fn calibrate(take: &Take, job: usize) -> Option<Timing> {
    // A mean would be late in half of the iterations; the third quartile leaves a quarter of them to the headroom and the tolerance.
    let third_quartile = |mut values: Vec<Nanos>| {
        values.sort_unstable();
        nearest_rank(&values, 75)
    };
    let all: Vec<&Iteration> = measured(take.iterations.get(&job)?, take.window).collect();
    let phase = |k: usize| third_quartile(all.iter().filter_map(|i| i.ups.get(k)).map(|up| Nanos(up.end - up.start)).collect());
    let ups = (0..all.first()?.ups.len()).map(phase).collect::<Option<Vec<Nanos>>>()?;
    Some(Timing { period: third_quartile(lengths(take, job)?)?, ups })
}

/// When a job communicated in the window.
fn communication(take: &Take, job: usize) -> Vec<Interval> {
    let all = take.iterations.get(&job).into_iter().flatten();
    let ups = all.flat_map(|i| &i.ups);
    let intervals: Vec<Interval> = ups.map(|up| Interval { start: Nanos(up.start), end: Nanos(up.end) }).collect();
    // Iterations that reach over an end of the window count with the part inside, as the queues' counters do.
    stats::clip(&intervals, Nanos(take.window.from), Nanos(take.window.until))
}

/// Share of a job's communication in the window during which one of `others` communicated as well.
#[must_use]
pub fn overlap(take: &Take, job: usize, others: &BTreeSet<usize>) -> f64 {
    let others: Vec<Vec<Interval>> = others.iter().map(|&other| communication(take, other)).collect();
    stats::overlap_share(&communication(take, job), &others.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

/// How the jobs of a link used it in the window.
#[must_use]
pub fn link_use(take: &Take, jobs: &[usize]) -> LinkUse {
    let jobs: Vec<Vec<Interval>> = jobs.iter().map(|&job| communication(take, job)).collect();
    LinkUse::of(&jobs.iter().map(Vec::as_slice).collect::<Vec<_>>())
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
    use crate::rank::Up;

    fn take(spans: &[(usize, &[(u64, u64)])]) -> Take {
        let iterations = |all: &[(u64, u64)]| {
            let up = |&(start, end): &(u64, u64)| Up { ready: start, start, end };
            all.iter().enumerate().map(|(n, span)| Iteration { iteration: n as u64, ups: vec![up(span)] }).collect()
        };
        Take {
            window: Window { start: 0, from: 100, until: 1_000 },
            iterations: spans.iter().map(|(job, all)| (*job, iterations(all))).collect(),
            marks: BTreeMap::new(),
            bytes: BTreeMap::new(),
        }
    }

    /// Job 0 communicates for 40 + 40 in the window; job 1 covers 10 of the first, job 2 the same 10 and 20 of the second.
    #[test]
    fn only_the_window_counts_and_a_moment_counts_once() {
        let spans: [(usize, &[(u64, u64)]); 3] =
            [(0, &[(0, 40), (200, 240), (400, 440)]), (1, &[(190, 210)]), (2, &[(10, 40), (200, 210), (420, 500)])];
        let take = take(&spans);
        assert!((overlap(&take, 0, &BTreeSet::from([1, 2])) - 30.0 / 80.0).abs() < 1e-9);
        assert!(overlap(&take, 0, &BTreeSet::new()).abs() < 1e-9, "nobody meets it");
        let used = link_use(&take, &[0, 1]);
        assert_eq!((used.communicating, used.overlapped), (Nanos(100), Nanos(20)));
    }

    /// Starts at 100, 200, 310, 410: lengths 100, 110, 100. The start at 0 is warm-up, the one at 1000 is after the end.
    #[test]
    fn iterations_are_counted_inside_the_window() {
        let take = take(&[(0, &[(0, 10), (100, 130), (200, 240), (310, 350), (410, 440), (1_000, 1_010)])]);
        let times = times(&take, 0).unwrap();
        assert_eq!((times.count, times.p50, times.max), (3, Nanos(100), Nanos(110)));
        assert_eq!(calibrate(&take, 0).unwrap(), Timing { period: Nanos(110), ups: vec![Nanos(40)] });
        assert_eq!(iterations(&take, &[0]), 4);
        // A second Up phase of 5 in each: another length to plan with, and no other iterations.
        let mut twice = take.clone();
        for iteration in twice.iterations.values_mut().flatten() {
            let after = iteration.ups[0].end + 20;
            iteration.ups.push(Up { ready: after, start: after, end: after + 5 });
        }
        assert_eq!(calibrate(&twice, 0).unwrap(), Timing { period: Nanos(110), ups: vec![Nanos(40), Nanos(5)] });
        assert_eq!(link_use(&twice, &[0]).communicating, Nanos(link_use(&take, &[0]).communicating.0 + 4 * 5));
        assert!(super::times(&take, 1).is_none());
    }

    #[test]
    fn a_spread_has_its_median_between_its_ends() {
        assert_eq!(Spread::of(vec![3.0, 1.0, 2.0, 10.0]), Spread { median: 2.5, least: 1.0, most: 10.0 });
        assert_eq!(Spread::of(vec![]), Spread::default());
    }
}
