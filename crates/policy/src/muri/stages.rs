//! What an iteration of a job asks of each resource.

/// Longest iteration or stage, in seconds: an hour, far above any that was measured, so that sums of them stay exact enough to compare.
const SECONDS_MAX: f64 = 3_600.0;

/// The stages of one iteration of a job that runs alone, in seconds.
///
/// Floats, because the efficiencies made of them are scores, and because the figures of the authors' simulator are floats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stages {
    /// Reading and preparing data, on storage and CPU; what was published does not split the two.
    pub load_s: f64,
    /// Computing.
    pub gpu_s: f64,
    /// Communicating.
    pub net_s: f64,
}

impl Stages {
    /// All stages one after the other.
    #[must_use]
    pub fn sum(&self) -> f64 {
        // From the left, as the authors' simulator adds: another order gives other last bits, and ties fall otherwise.
        self.load_s + self.gpu_s + self.net_s
    }
}

/// A job as Muri sees it: its iteration alone, its stages, and what a restart costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Profile {
    /// One iteration of the job alone. Less than the sum of the stages where they overlap within the job.
    pub iteration_s: f64,
    /// Its stages.
    pub stages: Stages,
    /// From the decision to run until the first iteration begins.
    pub restart_s: f64,
}

/// Why measured times are not a profile.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StagesError {
    /// A time that is negative, too long or not a number.
    #[error("{what} of {seconds} s; must be from 0 to {SECONDS_MAX} s")]
    Time {
        /// Which time.
        what: &'static str,
        /// The value given.
        seconds: f64,
    },
    /// An iteration that takes no time.
    #[error("an iteration of 0 s")]
    NoIteration,
    /// No stage takes time.
    #[error("no stage takes time")]
    NoStages,
}

impl Profile {
    /// Checks measured times.
    ///
    /// # Errors
    /// [`StagesError`].
    pub fn try_new(iteration_s: f64, stages: Stages, restart_s: f64) -> Result<Self, StagesError> {
        let times =
            [("iteration", iteration_s), ("load", stages.load_s), ("gpu", stages.gpu_s), ("net", stages.net_s), ("restart", restart_s)];
        for (what, seconds) in times {
            // The range also refuses what is not a number.
            if !(0.0..=SECONDS_MAX).contains(&seconds) {
                return Err(StagesError::Time { what, seconds });
            }
        }
        if iteration_s == 0.0 {
            return Err(StagesError::NoIteration);
        }
        if stages.sum() == 0.0 {
            return Err(StagesError::NoStages);
        }
        Ok(Self { iteration_s, stages, restart_s })
    }

    /// The share of its iteration that a job takes that asked for `asked` GPUs and has `has`: what it loads and computes is divided among all that it
    /// has, and its network part stays as it is. The batch stays too, so an iteration is worth the same on any of them.
    ///
    /// This is the throughput of Pollux ([`goodput::Throughput`](crate::goodput::Throughput)) where nothing overlaps and a pass costs nothing but
    /// its samples. Where stages of a job overlap, its network part hides some of the others, which then counts as not divided.
    #[must_use]
    pub fn share_on(&self, asked: u32, has: u32) -> f64 {
        let stays_s = self.stages.net_s.min(self.iteration_s);
        let divided_s = self.iteration_s - stays_s;
        (stays_s + divided_s * f64::from(asked) / f64::from(has.max(1))) / self.iteration_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::goodput::{Batch, Layout, Throughput};

    #[test]
    fn on_more_gpus_only_the_network_part_stays() {
        let stages = Stages { load_s: 0.2, gpu_s: 0.6, net_s: 0.2 };
        let profile = Profile { iteration_s: 1.0, stages, restart_s: 10.0 };
        // 0.8 s on 2 GPUs are 0.4 s on 4, and 0.2 s of sending come after them.
        assert!((profile.share_on(2, 4) - 0.6).abs() < 1e-12);
        assert!((profile.share_on(2, 2) - 1.0).abs() < 1e-12);
        // Stages that overlap: 0.9 s of the iteration are sending, whatever lies beside it.
        let overlapping = Profile { stages: Stages { net_s: 0.9, ..stages }, ..profile };
        assert!((overlapping.share_on(1, 4) - 0.925).abs() < 1e-12);
        let sends = Profile { stages: Stages { net_s: 3.0, ..stages }, ..profile };
        assert!((sends.share_on(1, 8) - 1.0).abs() < 1e-12, "who only sends gains nothing");
    }

    #[test]
    fn it_is_the_throughput_of_pollux_without_overlap() {
        let stages = Stages { load_s: 0.0, gpu_s: 0.75, net_s: 0.25 };
        let profile = Profile { iteration_s: 1.0, stages, restart_s: 10.0 };
        // 48 samples, of which each of two replicas computes 24 in 0.75 s.
        let (alpha, beta_c) = (0.25, 0.75 / 24.0);
        let pollux = Throughput { alpha_c: 0.0, beta_c, alpha_n: alpha, beta_n: 0.0, alpha_r: alpha, beta_r: 0.0, gamma: 1.0 };
        for replicas in [2, 3, 4, 6, 8] {
            let there = pollux.iteration_s(Layout { nodes: 1, replicas }, Batch { samples: 48 / replicas, passes: 1 });
            assert!((there - profile.share_on(2, replicas)).abs() < 1e-12, "{replicas}: {there}");
        }
    }
}
