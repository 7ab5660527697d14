//! Which batch a job should have (Pollux, sections 3.1 and 3.3).

use super::throughput::{Batch, Layout, Throughput};

/// Batches that are tried between the least and the most: as many as the published code tries.
pub const BATCHES_TRIED: u32 = 50;

/// What quotients are rounded up with, so that a float just above a whole number is that number.
const ROUNDING: f64 = 1e-8;

/// Which batches a job can have on a type of GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    /// The batch that its author chose, of all replicas: none is smaller.
    pub initial: u32,
    /// The largest of all replicas.
    pub most: u32,
    /// Fewest samples of a replica in one pass.
    pub samples_least: u32,
    /// Most: what fits in a GPU.
    pub samples_most: u32,
}

/// The best batch of a job on some GPUs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Best {
    /// Samples of the initial batch that it is worth, a second.
    pub goodput: f64,
    /// The batch.
    pub batch: Batch,
}

/// What a sample of a batch is worth beside one of the initial batch: (noise + 1) / (noise + scale), where the batch is `scale` times as large.
/// The noise is the variance of gradients over their squared mean, at the initial batch (McCandlish et al., arXiv 1812.06162; Pollux, equation 7).
#[must_use]
pub fn efficiency(noise: f64, scale: f64) -> f64 {
    // Endless noise leaves nothing to lose.
    if noise.is_finite() { (noise + 1.0) / (noise + scale) } else { 1.0 }
}

impl BatchLimits {
    /// How a batch of all replicas is split: in as few passes as fit in a GPU; at least two where one replica has more than the initial batch,
    /// because the noise of gradients cannot be measured from a single one.
    #[must_use]
    pub fn split(&self, total: f64, replicas: u32) -> Batch {
        let of_replica = total / f64::from(replicas.max(1));
        let mut passes = libm::ceil(of_replica / f64::from(self.samples_most.max(1)) - ROUNDING).max(1.0);
        if replicas == 1 && of_replica > f64::from(self.initial) + ROUNDING {
            passes = passes.max(2.0);
        }
        let samples = libm::ceil(of_replica / passes - ROUNDING).max(1.0);
        // Casts saturate, and what is that large is refused by the limits.
        Batch { samples: samples as u32, passes: passes as u32 }
    }

    /// Whether a GPU can compute that.
    #[must_use]
    pub fn holds(&self, batch: Batch) -> bool {
        (self.samples_least..=self.samples_most).contains(&batch.samples)
    }

    /// Most replicas that all have something to do.
    #[must_use]
    pub fn replicas_max(&self) -> u32 {
        self.most / self.samples_least.max(1)
    }

    /// The best of [`BATCHES_TRIED`] batches in geometric steps, the smallest of equals; `None` where none is possible.
    #[must_use]
    pub fn best(&self, throughput: &Throughput, noise: f64, layout: Layout) -> Option<Best> {
        let least = f64::from(self.initial.max(self.samples_least.saturating_mul(layout.replicas)));
        let most = f64::from(self.most);
        if layout.replicas == 0 || layout.nodes == 0 || self.initial == 0 || least > most {
            return None;
        }
        let factor = libm::pow(most / least, 1.0 / f64::from(BATCHES_TRIED - 1));
        let sync_s = throughput.sync_s(layout);
        let (mut found, mut last, mut total) = (None::<Best>, None, least);
        for at in 0..BATCHES_TRIED {
            let batch = self.split(if at + 1 == BATCHES_TRIED { most } else { total }, layout.replicas);
            total *= factor;
            // Neighbours are often split alike.
            if last.replace(batch) == Some(batch) || !self.holds(batch) {
                continue;
            }
            let samples = batch.total(layout.replicas) as f64;
            let goodput = samples / throughput.iteration_with(sync_s, batch) * efficiency(noise, samples / f64::from(self.initial));
            if found.is_none_or(|best| goodput > best.goodput) {
                found = Some(Best { goodput, batch });
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_batch_is_split_into_passes_that_fit() {
        let limits = BatchLimits { initial: 20, most: 640, samples_least: 5, samples_most: 32 };
        // 640 on 8 replicas are 80 each: three passes of 27 (rounded up).
        assert_eq!(limits.split(640.0, 8), Batch { samples: 27, passes: 3 });
        assert_eq!(limits.split(64.0, 2), Batch { samples: 32, passes: 1 });
        // One replica with more than the initial batch takes two passes, also where one would fit.
        assert_eq!(limits.split(30.0, 1), Batch { samples: 15, passes: 2 });
        assert_eq!(limits.split(20.0, 1), Batch { samples: 20, passes: 1 });
    }

    #[test]
    fn efficiency_is_one_at_the_initial_batch_and_falls() {
        for noise in [0.0, 0.3, 5.0, 1e6] {
            assert!((efficiency(noise, 1.0) - 1.0).abs() < 1e-12);
            let worths: Vec<f64> = [1.0, 2.0, 8.0, 64.0].iter().map(|scale| efficiency(noise, *scale)).collect();
            assert!(worths.windows(2).all(|pair| pair[1] <= pair[0]), "{worths:?}");
            // A batch of twice the size is worth one to two of the initial one.
            assert!((0.5..=1.0).contains(&worths[1]), "{worths:?}");
        }
        assert!((efficiency(0.0, 4.0) - 0.25).abs() < 1e-12, "without noise larger batches bring nothing");
        assert!((efficiency(f64::INFINITY, 4.0) - 1.0).abs() < 1e-12);
    }

    proptest! {
        /// Beside every batch that can be split exactly: what is chosen is at most a step of the grid worse.
        #[test]
        fn the_best_batch_is_near_that_of_trying_all(
            (alpha_c, beta_c, sync, gamma) in (0.01_f64..0.5, 0.000_1_f64..0.01, 0.0_f64..1.0, 1.0_f64..10.0),
            noise in 0.0_f64..200.0, replicas in 1_u32..17, initial in 8_u32..200, samples_most in 32_u32..600,
        ) {
            let throughput = Throughput { alpha_c, beta_c, alpha_n: sync, beta_n: 0.001, alpha_r: sync, beta_r: 0.001, gamma };
            let limits = BatchLimits { initial, most: initial * 32, samples_least: 4, samples_most };
            let layout = Layout { nodes: 1, replicas };
            let best = limits.best(&throughput, noise, layout);
            let least = initial.max(4 * replicas);
            let goodput = |batch: Batch| {
                let total = batch.total(replicas) as f64;
                throughput.samples_per_s(layout, batch) * efficiency(noise, total / f64::from(initial))
            };
            let all = (least..=limits.most).map(|total| limits.split(f64::from(total), replicas)).filter(|batch| limits.holds(*batch));
            let truly = all.map(goodput).fold(0.0, f64::max);
            let found = best.map_or(0.0, |best| best.goodput);
            if let Some(best) = best {
                prop_assert!((goodput(best.batch) - found).abs() < 1e-9 * found, "goodput is that of the batch");
            }
            // Neighbours on the grid differ by 32^(1/49) = 1.073, so a batch between them is at most 7.4 % larger or smaller than one of
            // them; goodput grows with the batch at most as fast as the batch, and falls at most as fast.
            prop_assert!(found <= truly * (1.0 + 1e-9) && found >= truly / 1.074 / 1.074, "{found} of {truly}");
        }
    }
}
