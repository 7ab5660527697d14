//! What came of the network over a whole trace.

use alloc::vec::Vec;

use units::LinkId;

use super::{Network, busy::LinkStay};
use crate::statistics::{P99, weighted};

/// How iterations of the jobs that sent over the network fared, over the same alone where they stand. Each counts as long as it takes alone, so
/// that jobs of short iterations count as much as others.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkOutcome {
    /// Mean of iteration over iteration alone; 1 where nobody sent.
    pub iteration_mean: f64,
    /// The 99th percentile of the same.
    pub iteration_p99: f64,
    /// The percentiles of the same: entry `i` is the `i`-th, from the 0th to the 100th.
    pub percentiles: [f64; 101],
    /// ECN marks on all links for each iteration.
    pub marks_per_iteration: f64,
    /// The percentiles of the same over all iterations, each with the marks of those that meet: entry `i` is the `i`-th.
    pub mark_percentiles: [f64; 101],
    /// Share of that time in which somebody could be in the way.
    pub met_share: f64,
    /// Components that were played.
    pub played: u64,
    /// Components of so many jobs that what is predicted of them stands in place of a play, as for all but a sample of them.
    pub predicted: u64,
    /// Jobs that ran and were moved to a better place.
    pub moved: u64,
    /// Times that a component was met again, whose play was remembered.
    pub remembered: u64,
    /// Difference between what was played and what the planner predicted, as a share of the prediction: the mean over the time, and the largest. `None`
    /// where nothing was predicted.
    pub predicted_off: Option<(f64, f64)>,
    /// The dozen links that were busiest, each with the share of its capacity that it carried from the first submission to the last end; the busiest
    /// first.
    pub busiest: Vec<(LinkId, f64)>,
    /// Who sent over these links from when to when: link by link in the same order, each in order of time. Of more than a million on all links
    /// the first.
    pub stays: Vec<LinkStay>,
}

impl Network<'_> {
    /// What came of it from the first submission until `now_s`.
    pub(in crate::trace) fn outcome(&self, began_s: f64, now_s: f64) -> NetworkOutcome {
        let mut samples: Vec<(f32, f64)> = Vec::new();
        if self.undisturbed.1 > 0.0 {
            samples.push((1.0, self.undisturbed.1));
        }
        let (mut marks, mut count, mut met_s) = (0.0, self.undisturbed.0, 0.0);
        // Iterations that met nobody have none.
        let mut marked: Vec<(f32, f64)> = alloc::vec![(0.0, self.undisturbed.0)];
        let (mut off, mut told, mut off_max) = (0.0, 0.0, 0.0_f64);
        for known in &self.known {
            for (at, iterations) in known.iterations.iter().enumerate().filter(|(_, iterations)| **iterations > 0.0) {
                let (ratios, alone_s) = (&known.played.ratios[at], iterations * known.alone_s[at]);
                let weight = alone_s / ratios.len().max(1) as f64;
                samples.extend(ratios.iter().map(|ratio| (*ratio, weight)));
                count += iterations;
                marks += iterations * known.played.marks_per_iteration;
                marked.push((known.played.marks_per_iteration as f32, *iterations));
                // A component of one exceeds a link by itself, and meets nobody.
                met_s += if known.iterations.len() > 1 { alone_s } else { 0.0 };
                // What was not played is what was predicted.
                if let Some(predicted) = known.forecast.means.get(at).filter(|_| known.played.is_seen) {
                    let difference = (known.played.means[at] / predicted - 1.0).abs();
                    off += difference * alone_s;
                    told += alone_s;
                    off_max = off_max.max(difference);
                }
            }
        }
        samples.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        marked.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let mark_percentile = |percent: usize| weighted(&marked, percent as f64 / 100.0 * count).map_or(0.0, f64::from);
        let all: f64 = samples.iter().map(|sample| sample.1).sum();
        let mean = samples.iter().map(|(ratio, weight)| f64::from(*ratio) * weight).sum::<f64>() / all;
        let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        let busiest = self.busy.busiest(now_s - began_s, |link| self.capacity(link));
        NetworkOutcome {
            iteration_mean: if all > 0.0 { mean } else { 1.0 },
            iteration_p99: percentile(&samples, P99 * all),
            percentiles: core::array::from_fn(|percent| percentile(&samples, percent as f64 / 100.0 * all)),
            marks_per_iteration: share(marks, count),
            mark_percentiles: core::array::from_fn(mark_percentile),
            met_share: share(met_s, all),
            played: self.known.iter().filter(|known| known.played.is_seen).count() as u64,
            predicted: self.known.iter().filter(|known| !known.played.is_seen).count() as u64,
            moved: self.moves.count,
            remembered: self.again,
            predicted_off: (told > 0.0).then(|| (off / told, off_max)),
            stays: self.busy.stays(&busiest, now_s),
            busiest,
        }
    }
}

/// 1 for none.
fn percentile(samples: &[(f32, f64)], weight: f64) -> f64 {
    weighted(samples, weight).map_or(1.0, f64::from)
}
