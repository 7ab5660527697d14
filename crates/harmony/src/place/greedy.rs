//! The greedy rule: of all ways the one that leaves the largest sum of speeds, each job counting as much as it has ranks.

use alloc::vec::Vec;

use crate::{
    interference::Speeds,
    job::Job,
    place::ways::ways,
    server::Stand,
    world::{Placer, View},
};

/// See the top of the file. What it knows of speeds is what it is given: the truth, or what a model predicts.
#[derive(Clone, Copy)]
pub struct Greedy<'a> {
    speeds: &'a dyn Speeds,
}

impl core::fmt::Debug for Greedy<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Greedy")
    }
}

impl<'a> Greedy<'a> {
    /// With what is known of speeds.
    #[must_use]
    pub fn new(speeds: &'a dyn Speeds) -> Self {
        Self { speeds }
    }

    /// The ways, the largest sum first; of equal ones those that were found first.
    #[must_use]
    pub fn ranked(&self, view: &View<'_>, job: &Job) -> Vec<Stand> {
        let sum = |stand: &Stand| -> u64 {
            let mut jobs: Vec<(&Job, &Stand)> = view.running.iter().map(|r| (&r.job, &r.stand)).collect();
            jobs.push((job, stand));
            let speeds = self.speeds.speeds(view.servers, &jobs);
            speeds.iter().zip(&jobs).map(|(speed, (job, _))| u64::from(*speed) * u64::from(job.ranks)).sum()
        };
        let mut ranked: Vec<(u64, Stand)> = ways(view, job).into_iter().map(|stand| (sum(&stand), stand)).collect();
        ranked.sort_by_key(|(sum, _)| core::cmp::Reverse(*sum));
        ranked.into_iter().map(|(_, stand)| stand).collect()
    }
}

impl Placer for Greedy<'_> {
    fn place(&mut self, view: &View<'_>, job: &Job) -> Option<Stand> {
        self.ranked(view, job).into_iter().next()
    }
}
