//! What two jobs do on the same GPUs, and what one does on more of them.

use alloc::vec::Vec;

use super::super::{Settings, job::Job};
use crate::muri::{Order, Profile, Timing};

#[derive(Clone, Debug)]
pub(super) struct Packing {
    timing: Timing,
    profiles: Vec<Profile>,
}

impl Packing {
    pub(super) fn new(settings: &Settings) -> Self {
        Self { timing: settings.timing, profiles: settings.profiles.clone() }
    }

    /// The share of an iteration in which a job uses the GPU.
    pub(super) fn use_of(&self, job: &Job) -> f64 {
        self.profiles[usize::from(job.profile)].stages.gpu_s / job.alone_s
    }

    /// One iteration of each of a pair.
    pub(super) fn pair_s(&self, job: &Job, other: &Job) -> f64 {
        // The order of the two decides nothing but the last bits of the sums, which are to be the same both ways.
        let pair = [job.profile.min(other.profile), job.profile.max(other.profile)];
        self.timing.shared_s(&pair.map(|profile| self.profiles[usize::from(profile)]), Order::Best, self.timing.sharing(2))
    }

    /// The share of its iteration alone that a job takes on so many GPUs.
    pub(super) fn share_on(&self, job: &Job, has: u32) -> f64 {
        self.profiles[usize::from(job.profile)].share_on(job.gpus, has)
    }

    /// What a pair does over what its members do in turns: above 1 it pays.
    pub(super) fn rate(&self, job: &Job, other: &Job) -> f64 {
        let pair_s = self.pair_s(job, other);
        // In turns the sum is 1: each does its share of what it does alone.
        (job.alone_s + other.alone_s) / pair_s
    }
}
