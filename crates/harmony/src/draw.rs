//! Numbers from a seed.

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};

/// A stream of draws; equal seeds and streams give equal ones.
#[derive(Clone, Debug)]
pub struct Draw(ChaCha8Rng);

impl Draw {
    /// The stream of that number.
    #[must_use]
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(stream);
        Self(rng)
    }

    /// A number below `bound`; 0 for a bound of 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The upper half of the product: the multiplication method of Lemire (2019), whose bias is below 2^-32 for bounds below 2^32.
        ((u128::from(self.0.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Uniform in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        units::unit_interval(self.0.next_u64())
    }

    /// Exponentially distributed with that mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        // One minus it is above 0, so the logarithm exists.
        -mean * libm::log(1.0 - self.uniform())
    }

    /// Standard normal, by the method of Box and Muller.
    pub fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log(1.0 - self.uniform()));
        radius * libm::cos(core::f64::consts::TAU * self.uniform())
    }

    /// The place of one of `weights`, as likely as it is heavy; none where no weight is above 0.
    pub fn weighted(&mut self, weights: &[f32]) -> Option<usize> {
        let sum: f64 = weights.iter().map(|w| f64::from(*w)).sum();
        let mut left = self.uniform() * sum;
        let mut last = None;
        for (at, weight) in weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0) {
            last = Some(at);
            left -= f64::from(*weight);
            if left < 0.0 {
                break;
            }
        }
        last
    }
}
