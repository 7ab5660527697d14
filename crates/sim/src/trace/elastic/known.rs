//! The form of what is built in.

use policy::goodput::Throughput;

use super::speeds::Speeds;

/// An application.
pub(super) struct Known {
    pub(super) name: &'static str,
    pub(super) fits: &'static [Fit],
    /// Iterations of the initial batch at the end of each part.
    pub(super) ends: &'static [f64],
    /// By batch: variance over squared mean of gradients in each part.
    pub(super) noise: &'static [(u32, &'static [f64])],
}

/// An application on a type of GPU.
pub(super) struct Fit {
    pub(super) gpu_type: &'static str,
    /// In the order of [`Throughput`].
    pub(super) parameters: [f64; 7],
    /// Fewest and most samples of a replica in one pass.
    pub(super) samples: (u32, u32),
    /// Samples a second of one GPU.
    pub(super) alone: f64,
}

impl Fit {
    pub(super) fn speeds(&self) -> Speeds {
        let [alpha_c, beta_c, alpha_n, beta_n, alpha_r, beta_r, gamma] = self.parameters;
        let throughput = Throughput { alpha_c, beta_c, alpha_n, beta_n, alpha_r, beta_r, gamma };
        Speeds::Fitted { throughput, samples_least: self.samples.0, samples_most: self.samples.1, alone: self.alone }
    }
}
