//! Medians of a few iterations, as an agent reports them.

use alloc::vec::Vec;

use units::{Nanos, nearest_rank};

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
        let mut lengths = Vec::new();
        let mut solos = Vec::new();
        for pair in samples.windows(2) {
            let [before, after] = pair else { continue };
            // `since` gives zero for a start that went back, so a report that lies about its order adds no length.
            let length = after.start.since(before.start);
            if length.0 > 0 {
                lengths.push(length);
                // The hold of `after` lies within this length. A report that claims a longer hold gives zero and no huge number.
                solos.push(Nanos(length.0.saturating_sub(after.held.0)));
            }
        }
        Self {
            phase_error: percentile(&mut errors, 50),
            iteration_p50: percentile(&mut lengths, 50),
            iteration_p75: percentile(&mut lengths, 75),
            solo_p75: percentile(&mut solos, 75),
        }
    }
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

    #[test]
    fn nonsense_is_left_out() {
        let samples = [sample(u64::MAX, Some(i64::MIN), u64::MAX), sample(0, None, u64::MAX), sample(7, None, u64::MAX)];
        let summary = Summary::of(&samples);
        assert_eq!(summary.iteration_p50, Some(Nanos(7)));
        assert_eq!(summary.solo_p75, Some(Nanos(0)));
        assert_eq!(Summary::of(&[]), Summary::default());
    }
}
