//! Percentiles of few values, by the one rule that needs no arithmetic with them.

/// The smallest value with at least so many of a hundred at or below it: the percentile by nearest rank. Of percent 0 the smallest, and
/// nothing of no values. What is given is sorted.
///
/// ```
/// use antiphase_units::nearest_rank;
/// let sorted: Vec<u32> = (1..=150).collect();
/// assert_eq!([0, 50, 99, 100].map(|percent| nearest_rank(&sorted, percent)), [1, 75, 149, 150].map(Some));
/// assert_eq!(nearest_rank::<u32>(&[], 99), None);
/// ```
#[must_use]
pub fn nearest_rank<T: Copy>(sorted: &[T], percent: usize) -> Option<T> {
    // Ranks count from 1.
    sorted.get((sorted.len() * percent).div_ceil(100).max(1) - 1).copied()
}
