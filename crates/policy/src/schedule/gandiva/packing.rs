//! What two jobs do on the same GPUs.

use alloc::{collections::BTreeMap, vec::Vec};

use super::super::{Settings, job::Job};
use crate::muri::{Order, Profile, Timing};

#[derive(Clone, Debug)]
pub(super) struct Packing {
    timing: Timing,
    profiles: Vec<Profile>,
    /// One iteration of a pair, by its profiles.
    pairs: BTreeMap<(u16, u16), f64>,
}

impl Packing {
    pub(super) fn new(settings: &Settings) -> Self {
        Self { timing: settings.timing, profiles: settings.profiles.clone(), pairs: BTreeMap::new() }
    }

    /// The share of an iteration in which a job uses the GPU.
    pub(super) fn use_of(&self, job: &Job) -> f64 {
        self.profiles[usize::from(job.profile)].stages.gpu_s / job.alone_s
    }

    /// One iteration of each of a pair.
    pub(super) fn pair_s(&self, job: &Job, other: &Job) -> f64 {
        let key = (job.profile.min(other.profile), job.profile.max(other.profile));
        self.pairs.get(&key).copied().unwrap_or_else(|| self.compute(key))
    }

    /// Whether a pair does more than its members in turns; measured once for each pair of profiles.
    pub(super) fn pays(&self, job: &Job, other: &Job) -> bool {
        let pair_s = self.pair_s(job, other);
        // In turns the sum is 1: each does its share of what it does alone.
        (job.alone_s + other.alone_s) / pair_s > 1.0
    }

    fn compute(&self, key: (u16, u16)) -> f64 {
        let stages = [key.0, key.1].map(|profile| self.profiles[usize::from(profile)].stages);
        self.timing.interleave(&stages, Order::Best).period_s * self.timing.sharing(2)
    }
}
