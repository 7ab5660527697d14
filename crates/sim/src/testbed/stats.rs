//! Statistics of iterations and of communication times, for the simulator and for the lab alike, so that the two mean the
//! same by each word.
//!
//! Times are nanoseconds since any one origin.

use alloc::vec::Vec;

use units::Nanos;

use crate::statistics::nearest_rank;

/// A span of time in which a job communicates: from `start` up to but not including `end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Interval {
    /// First nanosecond.
    pub start: Nanos,
    /// One past the last.
    pub end: Nanos,
}

/// Mean, percentiles and extremes of a list of times.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Summary {
    /// How many there are.
    pub count: u64,
    /// Their mean in nanoseconds.
    pub mean: f64,
    /// Median, by nearest rank.
    pub p50: Nanos,
    /// 99th percentile, by nearest rank: the largest value below 100 values.
    pub p99: Nanos,
    /// The shortest.
    pub min: Nanos,
    /// The longest.
    pub max: Nanos,
}

impl Summary {
    /// Summarises times in any order; all zero for none.
    #[must_use]
    pub fn of(times: impl IntoIterator<Item = Nanos>) -> Self {
        let mut times: Vec<Nanos> = times.into_iter().collect();
        times.sort_unstable();
        let (Some(&min), Some(&max)) = (times.first(), times.last()) else { return Self::default() };
        let sum: u128 = times.iter().map(|t| u128::from(t.0)).sum();
        let rank = |percent: usize| nearest_rank(&times, percent).unwrap_or_default();
        Self { count: times.len() as u64, mean: sum as f64 / times.len() as f64, p50: rank(50), p99: rank(99), min, max }
    }

    /// The mean in milliseconds, for people.
    #[must_use]
    pub fn mean_ms(&self) -> f64 {
        self.mean / 1e6
    }
}

/// How the jobs of one link use it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkUse {
    /// Time in which at least one job communicates.
    pub busy: Nanos,
    /// Communication time of all jobs, added up.
    pub communicating: Nanos,
    /// The part of `communicating` in which another job communicates too.
    pub overlapped: Nanos,
}

impl LinkUse {
    /// Adds up what the jobs of a link do; one sorted list of disjoint intervals for each job.
    #[must_use]
    pub fn of(jobs: &[&[Interval]]) -> Self {
        let mut edges: Vec<(Nanos, bool)> = jobs.iter().flat_map(|j| j.iter()).flat_map(|i| [(i.start, true), (i.end, false)]).collect();
        // Stable, because it merges the runs that each job's intervals are.
        // At one instant an end sorts before a beginning (`false` before `true`), so jobs that only touch do not overlap.
        edges.sort();
        let (mut found, mut active, mut since) = (Self::default(), 0_u64, Nanos(0));
        for (time, begins) in edges {
            let span = time.0 - since.0;
            if active > 0 {
                found.busy.0 += span;
                found.communicating.0 += span * active;
            }
            if active > 1 {
                found.overlapped.0 += span * active;
            }
            // Saturation matters only for intervals that end before they begin, which callers do not make.
            active = if begins { active + 1 } else { active.saturating_sub(1) };
            since = time;
        }
        found
    }

    /// Fraction of communication time in which another job of the link communicates too; 0 when nobody does.
    #[must_use]
    pub fn overlap_share(&self) -> f64 {
        share(self.overlapped, self.communicating)
    }

    /// Fraction of `window` in which at least one job communicates; 0 for a window of no length.
    #[must_use]
    pub fn busy_share(&self, window: Nanos) -> f64 {
        share(self.busy, window)
    }
}

/// Fraction of the time of `mine` in which at least one of `others` communicates too; 0 when `mine` is empty. One sorted
/// list of disjoint intervals for each job: with every job that shares a link, this is a job's overlap share.
#[must_use]
pub fn overlap_share(mine: &[Interval], others: &[&[Interval]]) -> f64 {
    let mut union: Vec<Interval> = others.iter().flat_map(|o| o.iter().copied()).collect();
    // `LinkUse` wants disjoint intervals in each list, so those of the other jobs become one list without overlaps.
    union.sort();
    union.dedup_by(|next, kept| {
        let touches = next.start <= kept.end;
        if touches {
            kept.end = kept.end.max(next.end);
        }
        touches
    });
    // `LinkUse` counts common time once for each of the two lists, so half of the sum is the time of `mine`.
    let both = LinkUse::of(&[mine, &union]).overlapped.0 / 2;
    share(Nanos(both), Nanos(mine.iter().map(|i| i.end.0 - i.start.0).sum()))
}

/// The parts of the intervals between `from` and `to`; an interval that reaches beyond is cut.
#[must_use]
pub fn clip(intervals: &[Interval], from: Nanos, to: Nanos) -> Vec<Interval> {
    let cut = intervals.iter().map(|i| Interval { start: i.start.max(from), end: i.end.min(to) });
    cut.filter(|i| i.start < i.end).collect()
}

/// Marks that one iteration of one job meets on a link, on average: all marks of the link over all iterations of all
/// of its jobs. 0 without iterations.
#[must_use]
pub fn marks_per_iteration(marks: f64, iterations: u64) -> f64 {
    if iterations == 0 { 0.0 } else { marks / iterations as f64 }
}

fn share(part: Nanos, whole: Nanos) -> f64 {
    if whole.0 == 0 { 0.0 } else { part.0 as f64 / whole.0 as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn intervals(spans: &[(u64, u64)]) -> Vec<Interval> {
        spans.iter().map(|&(a, b)| Interval { start: Nanos(a), end: Nanos(b) }).collect()
    }

    #[test]
    fn percentiles_are_by_nearest_rank() {
        let summary = Summary::of([30, 10, 20, 40].map(Nanos));
        assert_eq!((summary.count, summary.mean, summary.p50, summary.p99), (4, 25.0, Nanos(20), Nanos(40)));
        assert_eq!((summary.min, summary.max), (Nanos(10), Nanos(40)));
        assert_eq!(Summary::of([]), Summary::default());
        assert_eq!(Summary::of((1..=200).map(Nanos)).p99, Nanos(198));
    }

    #[test]
    fn overlap_counts_every_job_that_is_not_alone() {
        let (a, b, c) = (intervals(&[(0, 10), (20, 30)]), intervals(&[(5, 15)]), intervals(&[(8, 9), (29, 40)]));
        // [5,8) two, [8,9) three, [9,10) two, [29,30) two.
        let used = LinkUse::of(&[&a, &b, &c]);
        assert_eq!(used, LinkUse { busy: Nanos(35), communicating: Nanos(42), overlapped: Nanos(6 + 3 + 2 + 2) });
        assert!((used.overlap_share() - 13.0 / 42.0).abs() < 1e-12 && used.busy_share(Nanos(70)) == 0.5);
        // a is with another in [5,10) and [29,30).
        assert_eq!(overlap_share(&a, &[&b, &c]), 6.0 / 20.0);
        assert_eq!(overlap_share(&c, &[&a, &b]), 2.0 / 12.0);
        assert_eq!(overlap_share(&[], &[&a]), 0.0);
        assert_eq!(LinkUse::of(&[]), LinkUse::default());
    }

    #[test]
    fn jobs_that_touch_do_not_overlap() {
        let (a, b) = (intervals(&[(0, 10), (20, 30)]), intervals(&[(10, 20), (30, 40)]));
        assert_eq!(LinkUse::of(&[&a, &b]), LinkUse { busy: Nanos(40), communicating: Nanos(40), overlapped: Nanos(0) });
        assert_eq!(overlap_share(&a, &[&b]), 0.0);
    }

    #[test]
    fn clipping_cuts_at_both_ends() {
        assert_eq!(clip(&intervals(&[(0, 10), (12, 14), (18, 30)]), Nanos(5), Nanos(20)), intervals(&[(5, 10), (12, 14), (18, 20)]));
        assert_eq!(marks_per_iteration(10.0, 4), 2.5);
        assert_eq!(marks_per_iteration(10.0, 0), 0.0);
    }
}
