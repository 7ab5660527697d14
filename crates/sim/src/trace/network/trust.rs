//! Which of several places is taken: how far a prediction is trusted.
//!
//! The rules. The first candidate is the scheduler's own, the most compact one, which also leaves the most room for those who come after it. Another
//! one is taken where it costs less by more than predictions are off: [`TRUST_PERMILLE`] of an iteration for each GPU that is placed. Of
//! those the cheapest is taken, the first of equal ones. Whoever counts scores and not times (the paper's rules) takes the cheapest,
//! as published.

use super::{Network, NetworkControl, Ranker};

/// How far predicted iterations are from what is played, in thousandths of an iteration: 1 to 5 are measured in the experiments of the
/// CASSINI paper (`predicted_off_mean`), and what is compared are two predictions.
const TRUST_PERMILLE: i64 = 5;

/// Costs are in millionths.
const MILLIONTHS_PER_PERMILLE: i64 = 1_000;

impl Network<'_> {
    /// Which of candidates of these costs is taken, in which so many GPUs are placed.
    pub(super) fn taken(&self, costs: &[i64], gpus: u32) -> usize {
        let counts_time = self.setup.ranker == Ranker::Antiphase && self.setup.control != NetworkControl::Paper;
        let margin = if counts_time { i64::from(gpus).saturating_mul(TRUST_PERMILLE * MILLIONTHS_PER_PERMILLE) } else { 0 };
        taken(costs, margin)
    }
}

/// The place of the least cost, the first of equal ones, where it is below that of the first by more than the margin.
fn taken(costs: &[i64], margin: i64) -> usize {
    let first = costs.first().copied().unwrap_or(0);
    let least = costs.iter().zip(0..).min_by_key(|(cost, _)| **cost);
    least.filter(|(cost, _)| first.saturating_sub(**cost) > margin).map_or(0, |(_, at)| at)
}

#[cfg(test)]
mod tests {
    use super::taken;

    #[test]
    fn another_place_is_taken_for_more_than_predictions_are_off() {
        assert_eq!(taken(&[], 5), 0);
        assert_eq!(taken(&[100, 95, 96], 5), 0);
        assert_eq!(taken(&[100, 95, 94, 93, 93], 5), 3);
        assert_eq!(taken(&[100, 99, 99], 0), 1);
        assert_eq!(taken(&[7, 7, 8], 0), 0);
        // A candidate that is left out costs the most that there is.
        assert_eq!(taken(&[i64::MAX, 3, i64::MAX], 5), 1);
        assert_eq!(taken(&[i64::MAX, i64::MAX], 0), 0);
    }
}
