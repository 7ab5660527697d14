//! What the last iterations of a job took, for people. The judge compares stretches of its own.

use alloc::{collections::VecDeque, vec::Vec};

use units::{Nanos, nearest_rank};

/// Iterations that are looked back on: enough for a 99th percentile that is not the longest one, and 4 KiB of a job.
const ITERATIONS: usize = 128;
/// Parts into which lengths are divided for a drawing of them: a step of five percent is what a reader tells apart.
pub const SPREAD_PARTS: usize = 20;

/// What iterations of one kind took: those held, or those that ran free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// How many these are, at most the last 128.
    pub count: u64,
    /// From one start of an iteration to the next.
    pub mean: Nanos,
    /// Half of them took no longer.
    pub p50: Nanos,
    /// Of a hundred, 99 took no longer.
    pub p99: Nanos,
    /// How long an iteration waited, in the mean.
    pub mean_wait: Nanos,
    /// The shortest, each twentieth by length, and the longest; zeros where there are none.
    pub spread: [Nanos; SPREAD_PARTS + 1],
}

/// The last iterations of one kind, in order of time and of length: nothing is sorted while turns are given.
#[derive(Clone, Debug, Default)]
pub(super) struct Recent {
    /// What each took and how long it waited.
    last: VecDeque<(u64, u64)>,
    sorted: Vec<u64>,
    sum: u64,
    waited: u64,
}

impl Recent {
    pub(super) fn push(&mut self, took: Nanos, waited: Nanos) {
        if self.last.len() >= ITERATIONS
            && let Some((old, old_waited)) = self.last.pop_front()
        {
            let at = self.sorted.partition_point(|&t| t < old);
            self.sorted.remove(at);
            (self.sum, self.waited) = (self.sum - old, self.waited - old_waited);
        }
        // What an agent says may be anything: no sum of so many values can overflow.
        let most = u64::MAX / (2 * ITERATIONS as u64);
        let (took, waited) = (took.0.min(most), waited.0.min(most));
        self.last.push_back((took, waited));
        let at = self.sorted.partition_point(|&t| t < took);
        self.sorted.insert(at, took);
        (self.sum, self.waited) = (self.sum + took, self.waited + waited);
    }

    pub(super) fn measured(&self) -> Measured {
        let count = self.sorted.len() as u64;
        let mean = |sum: u64| Nanos(sum.checked_div(count).unwrap_or(0));
        let percentile = |percent: usize| Nanos(nearest_rank(&self.sorted, percent).unwrap_or(0));
        Measured {
            count,
            mean: mean(self.sum),
            p50: percentile(50),
            p99: percentile(99),
            mean_wait: mean(self.waited),
            // The percentile of 0 is the shortest, because a rank below the first is the first.
            spread: core::array::from_fn(|part| percentile(part * 100 / SPREAD_PARTS)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_of_the_last_iterations_only() {
        let mut recent = Recent::default();
        assert_eq!(recent.measured(), Measured::default());
        (0..ITERATIONS).for_each(|_| recent.push(Nanos(9_999), Nanos(1_000)));
        // 1 to 128, the longest first: half take 64 at most, and 99 % of 128 are 126.7, so the 127th.
        (1..=ITERATIONS as u64).rev().for_each(|took| recent.push(Nanos(took), Nanos(took / 2)));
        let Measured { count, mean, p50, p99, mean_wait, spread } = recent.measured();
        assert_eq!((count, mean, p50, p99, mean_wait), (128, Nanos(64), Nanos(64), Nanos(127), Nanos(32)));
        // Five percent of 128 are 6.4, so the 7th; 95 are 121.6.
        assert_eq!([spread[0], spread[1], spread[10], spread[19], spread[20]], [1, 7, 64, 122, 128].map(Nanos));
        (0..ITERATIONS).for_each(|_| recent.push(Nanos(u64::MAX), Nanos(u64::MAX)));
        assert!(recent.measured().mean.0 > u64::MAX / 257, "it saturates");
    }

    #[test]
    fn few_iterations_have_percentiles_too() {
        let mut recent = Recent::default();
        recent.push(Nanos(30), Nanos(0));
        recent.push(Nanos(10), Nanos(4));
        let spread = core::array::from_fn(|part| Nanos(if part <= 10 { 10 } else { 30 }));
        assert_eq!(recent.measured(), Measured { count: 2, mean: Nanos(20), p50: Nanos(10), p99: Nanos(30), mean_wait: Nanos(2), spread });
    }
}
