//! Medians of a few iterations and the mean of more, as an agent reports them.

use alloc::vec::Vec;

use units::{Nanos, is_pause, longest_usual, nearest_rank};

use crate::Sample;

/// What some consecutive iterations of a job look like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Median of start minus due start in nanoseconds: positive is late. `None` if no iteration had a plan.
    pub phase_error: Option<i64>,
    /// Median time from start to start; `None` below two iterations.
    pub iteration_p50: Option<Nanos>,
    /// 75th percentile of the time from start to start.
    pub iteration_p75: Option<Nanos>,
    /// 75th percentile of the time from a start until the job came to the gate again: what it would take alone.
    pub solo_p75: Option<Nanos>,
}

impl Summary {
    /// Summarises samples in the order of their iterations. No number of a sample is trusted: pairs whose starts do not
    /// increase are left out.
    #[must_use]
    pub fn of<'a>(samples: impl IntoIterator<Item = &'a Sample>) -> Self {
        let samples: Vec<Sample> = samples.into_iter().copied().collect();
        // A start without a plan has no lateness, and a zero in its place would flatter the median.
        let mut errors: Vec<i64> = samples.iter().filter_map(|sample| sample.late).collect();
        let (mut lengths, mut solos): (Vec<Nanos>, Vec<Nanos>) = iterations(&samples).unzip();
        Self {
            phase_error: percentile(&mut errors, 50),
            iteration_p50: percentile(&mut lengths, 50),
            iteration_p75: percentile(&mut lengths, 75),
            solo_p75: percentile(&mut solos, 75),
        }
    }
}

/// Mean time from start to start without pauses, of samples in the order of their iterations; `None` below two iterations. What predictions
/// say is such a mean, so this is what they are compared with.
#[must_use]
pub fn mean_iteration<'a>(samples: impl IntoIterator<Item = &'a Sample>) -> Option<Nanos> {
    let samples: Vec<Sample> = samples.into_iter().copied().collect();
    let iterations: Vec<(Nanos, Nanos)> = iterations(&samples).collect();
    let mut solos: Vec<u64> = iterations.iter().map(|(_, solo)| solo.0).collect();
    let usual = longest_usual(&mut solos)?;
    let counted = iterations.iter().filter(|(_, solo)| !is_pause(solo.0, usual)).map(|(length, _)| u128::from(length.0));
    // The usual iteration is itself among those counted, so there is one at least.
    let count = counted.clone().count().max(1) as u128;
    Some(Nanos(u64::try_from(counted.sum::<u128>() / count).unwrap_or(u64::MAX)))
}

/// Iterations of which the end of sending was told that [`up_and_down`] needs: fewer would make quantiles of chance.
const TOLD_MIN: usize = 24;
/// What others send makes a job's own sending longer, in most iterations where jobs meet in step. The lower tenth is the nearest to what
/// it takes alone that a single odd iteration does not move.
const UP_PERCENT: usize = 10;

/// How long the Up phase of a job takes at its shortest, and how long its Down phase usually does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpDown {
    /// From a start until its end was told: the lower tenth. Alone the job sends for no longer.
    pub up: Nanos,
    /// From that end until the job came to its gate again: the median. Traffic of others does not change it.
    pub down: Nanos,
}

/// How long a job sends and does not send, by samples in the order of their iterations; `None` where the ends of too few were told.
#[must_use]
pub fn up_and_down<'a>(samples: impl IntoIterator<Item = &'a Sample>) -> Option<UpDown> {
    let samples: Vec<Sample> = samples.into_iter().copied().collect();
    let (mut ups, mut downs) = (Vec::new(), Vec::new());
    for (before, after) in samples.iter().zip(samples.iter().skip(1)) {
        let length = after.start.since(before.start);
        // An end that was told after the next start, or never, says nothing of this iteration.
        if before.sent.0 > 0 && before.sent <= length {
            ups.push(before.sent);
            downs.push(Nanos((length.0 - before.sent.0).saturating_sub(after.held.0)));
        }
    }
    // Where a quarter tells no end, those that do may be another kind of iteration.
    if ups.len() < TOLD_MIN || ups.len() * 4 < (samples.len() - 1) * 3 {
        return None;
    }
    Some(UpDown { up: percentile(&mut ups, UP_PERCENT)?, down: percentile(&mut downs, 50)? })
}

/// Of each iteration that samples show its length, and the same without the hold.
fn iterations(samples: &[Sample]) -> impl Iterator<Item = (Nanos, Nanos)> {
    samples.windows(2).filter_map(|pair| {
        let [before, after] = pair else { return None };
        // `since` gives zero for a start that went back, so a report that lies about its order adds no length.
        let length = after.start.since(before.start);
        // The hold of `after` lies within this length. A report that claims a longer hold gives zero and no huge number.
        (length.0 > 0).then(|| (length, Nanos(length.0.saturating_sub(after.held.0))))
    })
}

/// A percentile by nearest rank; sorts its input.
fn percentile<T: Copy + Ord>(values: &mut [T], percent: usize) -> Option<T> {
    values.sort_unstable();
    nearest_rank(values, percent)
}

#[cfg(test)]
mod tests {
    use units::NodeTime;

    use super::*;

    fn sample(start: u64, late: Option<i64>, held: u64) -> Sample {
        Sample { start: NodeTime(start), late, held: Nanos(held), sent: Nanos(0) }
    }

    #[test]
    fn percentiles_are_by_nearest_rank() {
        let of = |percent| percentile(&mut [40, 10, 30, 20], percent);
        assert_eq!([of(50), of(75), of(76), of(100)], [Some(20), Some(30), Some(40), Some(40)]);
        assert_eq!(percentile::<i64>(&mut [], 50), None);
    }

    #[test]
    fn the_solo_iteration_is_the_iteration_less_its_hold() {
        let samples = [sample(1_000, Some(5), 0), sample(1_500, Some(-3), 30), sample(2_000, None, 20), sample(2_600, Some(9), 0)];
        let summary = Summary::of(&samples);
        // Errors -3, 5, 9. Lengths 500, 500, 600. Less holds 470, 480, 600.
        assert_eq!(summary.phase_error, Some(5));
        assert_eq!((summary.iteration_p50, summary.iteration_p75), (Some(Nanos(500)), Some(Nanos(600))));
        assert_eq!(summary.solo_p75, Some(Nanos(600)));
    }

    /// Samples of iterations that take so long each, and are held for so much of it.
    fn row(lengths: impl IntoIterator<Item = (u64, u64)>) -> Vec<Sample> {
        let mut at = 1_000;
        let first = sample(at, None, 0);
        let mut next = |(length, held)| {
            at += length;
            sample(at, None, held)
        };
        core::iter::once(first).chain(lengths.into_iter().map(&mut next)).collect()
    }

    #[test]
    fn a_mean_counts_a_long_tail_and_no_pause() {
        // Three of four take 340, each fourth 768: the median says nothing of those.
        let tail = row((0..40).map(|n| (if n % 4 == 3 { 768 } else { 340 }, 0)));
        assert_eq!((Summary::of(&tail).iteration_p50, mean_iteration(&tail)), (Some(Nanos(340)), Some(Nanos(447))));
        // A hold that is long is no pause, however rare: the job could have gone on.
        let held = row((0..40).map(|n| if n == 20 { (3_340, 3_000) } else { (340, 0) }));
        assert_eq!(mean_iteration(&held), Some(Nanos(340 + 3_000 / 40)));
        let checkpoints = row((0..40).map(|n| (if n % 10 == 9 { 30_000 } else { 340 }, 0)));
        assert_eq!(mean_iteration(&checkpoints), Some(Nanos(340)));
        assert_eq!(mean_iteration(&row([(340, 0), (900, 0)])), Some(Nanos(620)), "nobody knows yet what is usual");
        assert_eq!((mean_iteration(&row([])), mean_iteration(&[])), (None, None));
        let huge = [sample(0, None, 0), sample(u64::MAX, None, 0), sample(0, None, 0), sample(u64::MAX, None, u64::MAX)];
        assert_eq!(mean_iteration(&huge), Some(Nanos(u64::MAX)));
    }

    #[test]
    fn sending_and_its_pauses_are_told_where_most_ends_are() {
        // 100 alone and 140 beside another; every ninth iteration has a checkpoint before the next start, and the gate holds for 5.
        let row = |told: fn(u64) -> bool| {
            let mut at = 0;
            let mut next = |n: u64| {
                let up = if n.is_multiple_of(4) { 100 } else { 140 };
                let sample = Sample { sent: Nanos(if told(n) { up } else { 0 }), ..sample(at, None, 5) };
                at += up + if n % 9 == 8 { 9_000 } else { 200 } + 5;
                sample
            };
            (0..40).map(&mut next).collect::<Vec<_>>()
        };
        let expected = Some(UpDown { up: Nanos(100), down: Nanos(200) });
        assert_eq!(up_and_down(&row(|_| true)), expected);
        assert_eq!(up_and_down(&row(|n| n % 8 != 7)), expected);
        assert_eq!(up_and_down(&row(|n| n % 3 != 2)), None, "a third is not told");
        assert_eq!(up_and_down(&row(|_| true)[..TOLD_MIN]), None, "too few");
        // Ends after the next start, and starts that go back.
        let strange: Vec<Sample> = (0..40).map(|n| Sample { sent: Nanos(u64::MAX), ..sample(40 - n, None, 0) }).collect();
        assert_eq!((up_and_down(&strange), up_and_down(&[])), (None, None));
    }

    #[test]
    fn nonsense_is_left_out() {
        let samples = [sample(u64::MAX, Some(i64::MIN), u64::MAX), sample(0, None, u64::MAX), sample(7, None, u64::MAX)];
        let summary = Summary::of(&samples);
        assert_eq!(summary.iteration_p50, Some(Nanos(7)));
        assert_eq!(summary.solo_p75, Some(Nanos(0)));
        assert_eq!(Summary::of(&[]), Summary::default());
    }
}
