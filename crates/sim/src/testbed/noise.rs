//! Jitter of compute times: lognormal, from a seed.
//!
//! Logarithm and exponential are computed here from additions, multiplications and divisions, which IEEE 754 defines to
//! the last bit, so that a seed gives the same times on every machine. The mathematics of a platform's library does not.

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use units::{Nanos, unit_interval};

/// Largest spread, in thousandths. At half, one iteration in twenty takes more than twice its median; beyond, a job is
/// not periodic and has no place on a circle.
pub const SIGMA_PERMILLE_MAX: u32 = 500;

/// Tries of the polar method before the deviate is taken as 0. Each fails with probability 0.21.
const TRIES_MAX: usize = 64;

/// One job's source of jitter.
#[derive(Debug)]
pub(crate) struct Noise {
    rng: ChaCha8Rng,
    sigma: f64,
}

impl Noise {
    /// Jobs draw from streams of their own, so that adding one changes nothing for the others.
    pub(crate) fn new(seed: u64, stream: u64, sigma_permille: u32) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(stream);
        Self { rng, sigma: f64::from(sigma_permille.min(SIGMA_PERMILLE_MAX)) / 1_000.0 }
    }

    /// `time` times a lognormal factor of mean 1.
    pub(crate) fn jitter(&mut self, time: Nanos) -> Nanos {
        if self.sigma == 0.0 {
            return time;
        }
        // A lognormal factor exp(s N) has the mean exp(s^2 / 2), which the second term takes away.
        let factor = exp(self.sigma * self.normal() - self.sigma * self.sigma / 2.0);
        Nanos((time.0 as f64 * factor + 0.5) as u64)
    }

    /// A number below `bound`; 0 for a bound of 0. The bias is below 2^-32 for bounds below 2^32.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        let draw = u128::from(self.rng.next_u64());
        // The upper half of the product is the multiplication method of Lemire (2019), without its rejection step.
        ((draw * u128::from(bound)) >> 64) as u64
    }

    /// A number with an exponential distribution of that mean.
    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        // One step of the draws is added, because 0 has no logarithm; so it is above 0 and at most 1.
        let uniform = unit_interval(self.rng.next_u64()) + f64::EPSILON / 2.0;
        -mean * ln(uniform)
    }

    /// Standard normal, by Marsaglia's polar method.
    fn normal(&mut self) -> f64 {
        for _ in 0..TRIES_MAX {
            let (u, v) = (self.symmetric(), self.symmetric());
            let s = u * u + v * v;
            // A point on the disc is taken; its centre is left out, because its logarithm does not exist.
            if s > 0.0 && s < 1.0 {
                return u * sqrt(-2.0 * ln(s) / s);
            }
        }
        0.0
    }

    /// Uniform in [-1, 1).
    fn symmetric(&mut self) -> f64 {
        // Twice a draw is exact, and so is what is one less.
        2.0 * unit_interval(self.rng.next_u64()) - 1.0
    }
}

/// Natural logarithm of a positive normal number: mantissa and exponent, and the series of the inverse hyperbolic tangent.
fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let mut exponent = ((bits >> 52) & 0x7ff) as i64 - 1023;
    let mut m = f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52));
    // A mantissa between 1/sqrt(2) and sqrt(2) keeps |t| small, on which the number of terms below rests.
    if m > core::f64::consts::SQRT_2 {
        m /= 2.0;
        exponent += 1;
    }
    // |t| < 0.172: 10 terms are below 1e-16.
    let t = (m - 1.0) / (m + 1.0);
    let mut sum = 0.0;
    for k in (0..10).rev() {
        sum = sum * t * t + 1.0 / f64::from(2 * k + 1);
    }
    2.0 * t * sum + exponent as f64 * core::f64::consts::LN_2
}

/// Exponential for |x| below 20, which is all that [`SIGMA_PERMILLE_MAX`] allows: halved ten times, then Taylor.
fn exp(x: f64) -> f64 {
    let small = x / 1024.0;
    let mut sum = 1.0;
    for k in (1..=8).rev() {
        sum = 1.0 + sum * small / f64::from(k);
    }
    (0..10).fold(sum, |y, _| y * y)
}

/// Square root of a positive number by Newton's rule; the deviates that need it are below 10^17.
fn sqrt(x: f64) -> f64 {
    // Half of the exponent is right within a factor of 1.5; each step doubles the number of right digits.
    let guess = f64::from_bits((x.to_bits() >> 1) + (1023_u64 << 51));
    (0..6).fold(guess, |y, _| 0.5 * (y + x / y))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_functions_agree_with_the_platforms() {
        for i in 1..2_000 {
            let x = f64::from(i) * 0.013;
            assert!((ln(x) - x.ln()).abs() < 1e-14 * (1.0 + x.ln().abs()), "ln {x}");
            assert!((sqrt(x) / x.sqrt() - 1.0).abs() < 1e-14, "sqrt {x}");
            let y = x - 13.0;
            assert!((exp(y) / y.exp() - 1.0).abs() < 1e-11, "exp {y}: {} {}", exp(y), y.exp());
        }
        assert!((ln(1e-300) - 1e-300_f64.ln()).abs() < 1e-11);
    }

    #[test]
    fn jitter_has_the_mean_and_the_spread_that_were_asked_for() {
        let mut noise = Noise::new(7, 0, 30);
        let draws: Vec<f64> = (0..20_000).map(|_| noise.jitter(Nanos(1_000_000_000)).0 as f64 / 1e9).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let spread = (draws.iter().map(|d| (d.ln() + 0.00045).powi(2)).sum::<f64>() / draws.len() as f64).sqrt();
        // Five standard errors: 5 * 0.03 / sqrt(20000) = 0.0011; of the spread 5 * 0.03 / sqrt(40000) = 0.00075.
        assert!((mean - 1.0).abs() < 0.0011, "{mean}");
        assert!((spread - 0.03).abs() < 0.00075, "{spread}");
    }

    #[test]
    fn streams_differ_and_repeat() {
        let draw = |seed, stream| Noise::new(seed, stream, 100).jitter(Nanos(1_000_000));
        assert_eq!(draw(1, 0), draw(1, 0));
        assert_ne!(draw(1, 0), draw(1, 1));
        assert_ne!(draw(1, 0), draw(2, 0));
        assert_eq!(Noise::new(1, 0, 0).jitter(Nanos(5)), Nanos(5), "no noise");
        assert!((0..100).all(|_| Noise::new(3, 3, 0).below(4) < 4));
        assert_eq!(Noise::new(3, 3, 0).below(0), 0);
    }
}
