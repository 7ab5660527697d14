//! Means and percentiles, each rule once.
//!
//! A percentile of few values depends on the rule: of a hundred the 99th by nearest rank is the last but one, at its place it is the last, and
//! interpolated it lies between. A published figure is compared with ours by the rule of whoever published it.

use alloc::vec::Vec;

pub(crate) use units::nearest_rank;

/// The share that is at most the p99.
pub(crate) const P99: f64 = 0.99;

/// The mean; 0 of none.
pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

pub(crate) fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The value at place `share` n of n, places counting from 0: as the scripts of Muri's authors take a p99. It is that by nearest rank wherever
/// `share` n is no whole number.
pub(crate) fn at_place(sorted: &[f64], share: f64) -> Option<f64> {
    // Casting cuts, which is what the scripts do.
    sorted.get((share * sorted.len() as f64) as usize).copied()
}

/// Between the two values next to place `share` (n - 1) of n: as numpy does, and with it the scripts of Sia's authors.
pub(crate) fn interpolated(sorted: &[f64], share: f64) -> Option<f64> {
    let place = share.clamp(0.0, 1.0) * sorted.len().saturating_sub(1) as f64;
    // Casting cuts.
    let below = place as usize;
    let (low, high) = (sorted.get(below)?, sorted.get(below + 1).or(sorted.last())?);
    Some(low + (high - low) * (place - below as f64))
}

/// The first value at or below which that much weight is.
pub(crate) fn weighted<T: Copy>(sorted: &[(T, f64)], weight: f64) -> Option<T> {
    let mut sum = 0.0;
    let found = sorted.iter().find(|(_, own)| {
        sum += own;
        sum >= weight
    });
    // Rounding of the sum may leave the last value a hair below the whole weight.
    found.or(sorted.last()).map(|(value, _)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_is_the_one_that_it_says() {
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!((nearest_rank(&hundred, 99), at_place(&hundred, 0.99)), (Some(99.0), Some(100.0)));
        // numpy.percentile(range(1, 101), 99) is 99.01.
        assert!(interpolated(&hundred, 0.99).is_some_and(|value| (value - 99.01).abs() < 1e-9));
        // Of 150 values 0.99 n is 148.5: both orders take the value at place 148.
        let more: Vec<f64> = (1..=150).map(f64::from).collect();
        assert_eq!((nearest_rank(&more, 99), at_place(&more, 0.99)), (Some(149.0), Some(149.0)));
        assert_eq!(weighted(&[(1.0, 90.0), (2.0, 9.0), (3.0, 1.0)], 99.0), Some(2.0));
        assert_eq!((mean(&[]), mean(&[1.0, 2.0]), sorted(&[2.0, 1.0])), (0.0, 1.5, alloc::vec![1.0, 2.0]));
        assert_eq!(
            (nearest_rank::<f64>(&[], 99), at_place(&[], 0.99), interpolated(&[], 0.5), weighted::<f64>(&[], 1.0)),
            (None, None, None, None)
        );
    }
}
