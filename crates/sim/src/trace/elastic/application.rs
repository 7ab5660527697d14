//! Applications: what jobs of a trace train.

use alloc::vec::Vec;

use super::speeds::Speeds;

/// What is known of an application beside its measurements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Traits {
    /// Its name in traces.
    pub name: &'static str,
    /// What a restart costs, in seconds.
    pub restart_s: f64,
    /// What policies believe that it costs.
    pub restart_believed_s: f64,
    /// How much slower it is on a real cluster than its iterations alone say.
    pub slowdown: f64,
    /// Passes over its data until it is done.
    pub epochs: usize,
    /// The batches with which its learning was measured.
    pub batches: &'static [u32],
    /// The batch that it always has, on one GPU; `None` where both are tuned.
    pub only_batch: Option<u32>,
}

/// Sia's applications (siasosp23/artifacts, commit aaf7a0d: `applications.py`, `sia.py`, `simulator_config.py`).
const TRAITS: [Traits; 6] = [
    Traits {
        name: "cifar10",
        restart_s: 50.0,
        restart_believed_s: 30.0,
        slowdown: 1.8,
        epochs: 100,
        batches: &[128, 256, 512, 1_024, 2_048, 4_096],
        only_batch: None,
    },
    Traits {
        name: "bert",
        restart_s: 120.0,
        restart_believed_s: 120.0,
        slowdown: 1.2,
        epochs: 2,
        batches: &[12, 24, 48, 96, 192, 384],
        only_batch: None,
    },
    Traits {
        name: "deepspeech2",
        restart_s: 25.0,
        restart_believed_s: 25.0,
        slowdown: 1.2,
        epochs: 80,
        batches: &[20, 40, 80, 160, 320, 640],
        only_batch: None,
    },
    Traits {
        name: "imagenet",
        restart_s: 250.0,
        restart_believed_s: 250.0,
        slowdown: 1.2,
        epochs: 90,
        batches: &[200, 400, 800, 1_600, 3_200, 6_400, 12_800],
        only_batch: None,
    },
    Traits {
        name: "yolov3",
        restart_s: 80.0,
        restart_believed_s: 45.0,
        slowdown: 1.2,
        epochs: 50,
        batches: &[8, 16, 32, 64, 128, 256, 512],
        only_batch: None,
    },
    Traits {
        name: "ncf",
        restart_s: 15.0,
        restart_believed_s: 30.0,
        slowdown: 1.5,
        epochs: 10,
        batches: &[256, 512, 1_024, 2_048, 4_096, 8_192, 16_384, 32_768],
        only_batch: None,
    },
];

/// The applications that are known.
#[must_use]
pub fn traits() -> &'static [Traits] {
    &TRAITS
}

/// Most samples of a replica in one pass that are asked of a type, where that is less than was measured; the artifact sets it by hand.
#[must_use]
pub fn samples_limit(application: &str, gpu_type: &str) -> Option<u32> {
    (application == "deepspeech2" && gpu_type == "rtx").then_some(57)
}

/// How an application learns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Learning {
    /// Iterations of the initial batch that each part of its training ends with, from the beginning.
    pub ends: Vec<f64>,
    /// By batch: squared mean and variance of gradients in each part.
    pub gradients: Vec<(u32, Vec<(f64, f64)>)>,
}

impl Learning {
    /// The initial batch.
    #[must_use]
    pub fn initial(&self) -> u32 {
        self.gradients.first().map_or(1, |(batch, _)| *batch)
    }

    /// The largest batch.
    #[must_use]
    pub fn most(&self) -> u32 {
        self.gradients.last().map_or(1, |(batch, _)| *batch)
    }

    /// Squared mean and variance in a part, between the next two batches.
    #[must_use]
    pub fn gradient(&self, batch: u64, part: usize) -> (f64, f64) {
        let of = |at: usize| self.gradients.get(at).map(|(batch, parts)| (f64::from(*batch), parts.get(part).or(parts.last())));
        let above = self.gradients.iter().position(|(of, _)| u64::from(*of) >= batch).unwrap_or(self.gradients.len().saturating_sub(1));
        let (Some((low, Some(below))), Some((high, Some(above)))) = (of(above.saturating_sub(1)), of(above)) else { return (1.0, 0.0) };
        let share = if high > low { ((batch as f64 - low) / (high - low)).clamp(0.0, 1.0) } else { 1.0 };
        (below.0 + (above.0 - below.0) * share, below.1 + (above.1 - below.1) * share)
    }
}

/// An application on all types of GPU of a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Application {
    /// What is known of it.
    pub traits: Traits,
    /// How it learns.
    pub learning: Learning,
    /// How fast it is, by type of the cluster.
    pub speeds: Vec<Speeds>,
}

/// All applications.
pub type Applications = Vec<Application>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gradients_lie_between_those_of_the_next_batches() {
        let gradients = alloc::vec![(10, alloc::vec![(1.0, 4.0), (2.0, 8.0)]), (20, alloc::vec![(3.0, 6.0), (2.0, 2.0)])];
        let learning = Learning { ends: alloc::vec![5.0, 9.0], gradients };
        assert_eq!(learning.gradient(10, 0), (1.0, 4.0));
        assert_eq!(learning.gradient(15, 0), (2.0, 5.0));
        assert_eq!(learning.gradient(20, 1), (2.0, 2.0));
        assert_eq!(learning.gradient(99, 1), (2.0, 2.0), "beyond the largest it stays");
        assert_eq!((learning.initial(), learning.most()), (10, 20));
    }
}
