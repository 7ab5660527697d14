//! Mixes of jobs from a seed.
//!
//! Kinds are as likely as each other, ranks are drawn by weights, and half of the jobs of several ranks have parameter servers, one for two ranks.
//! Run times are drawn by octaves, each as likely. Jobs come one after the other, so often that they would keep the GPUs busy for the share of
//! the time that is asked for if nobody disturbed them.

use alloc::vec::Vec;

use crate::{
    draw::Draw,
    job::{Job, KINDS},
    server::SERVER,
};

/// Ranks of a job, and their weights.
const RANKS: [(u32, u64); 4] = [(1, 2), (2, 3), (4, 3), (8, 1)];
/// Steps in which the place in an octave is drawn.
const STEPS: u64 = 1 << 20;
/// Parts of a load.
const PERMILLE: f64 = 1_000.0;

/// What jobs come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// How many.
    pub jobs: u32,
    /// Servers of the cluster.
    pub servers: usize,
    /// The shortest run time.
    pub run_ms: u64,
    /// Octaves of run times above it, at least one.
    pub octaves: u32,
    /// GPU time that comes over GPU time that passes, in thousandths.
    pub load_permille: u32,
}

/// Longest shortest job, a week, and most octaves above it: 2,000 times as long. Work is counted in millionths of these, in 64 bits.
const RUN_MS_MAX: u64 = 7 * 24 * 3_600_000;
const OCTAVES_MAX: u32 = 12;

/// The jobs, in order of submission.
#[must_use]
pub fn mix(mix: &Mix, seed: u64) -> Vec<Job> {
    let mut draw = Draw::new(seed, 0);
    let mut jobs: Vec<Job> = (0..mix.jobs).map(|id| job(mix, id, &mut draw)).collect();
    let gpu_ms: f64 = jobs.iter().map(|job| job.work_ms as f64 * f64::from(job.ranks)).sum();
    let gpus = mix.servers.max(1) as f64 * f64::from(SERVER[0]);
    let between_ms = gpu_ms / jobs.len().max(1) as f64 / gpus / (f64::from(mix.load_permille.max(1)) / PERMILLE);
    let mut at_ms = 0;
    for job in &mut jobs {
        job.submitted_ms = at_ms;
        at_ms += draw.exponential(between_ms) as u64;
    }
    jobs
}

fn job(mix: &Mix, id: u32, draw: &mut Draw) -> Job {
    let kind = draw.below(KINDS as u64) as usize;
    let ranks = ranks(draw);
    let parameter_servers = if ranks > 1 && draw.below(2) == 1 { ranks / 2 } else { 0 };
    let octave_ms = mix.run_ms.min(RUN_MS_MAX) << draw.below(u64::from(mix.octaves.clamp(1, OCTAVES_MAX)));
    Job { id, kind, ranks, parameter_servers, work_ms: octave_ms + octave_ms * draw.below(STEPS) / STEPS, submitted_ms: 0 }
}

fn ranks(draw: &mut Draw) -> u32 {
    let mut part = draw.below(RANKS.iter().map(|(_, weight)| weight).sum());
    for (ranks, weight) in RANKS {
        match part.checked_sub(weight) {
            Some(rest) => part = rest,
            None => return ranks,
        }
    }
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_follows_from_its_seed_and_has_the_load_that_was_asked_for() {
        let asked = Mix { jobs: 600, servers: 6, run_ms: 600_000, octaves: 4, load_permille: 700 };
        let jobs = mix(&asked, 3);
        assert_eq!(jobs, mix(&asked, 3));
        assert_ne!(jobs, mix(&asked, 4));
        // Three of nine jobs have two ranks: 200, and three standard deviations are 35.
        assert!(jobs.iter().filter(|job| job.ranks == 2).count().abs_diff(200) < 35);
        assert!(jobs.iter().all(|job| (600_000..9_600_000).contains(&job.work_ms) && job.parameter_servers <= job.ranks / 2));
        let gpu_ms: f64 = jobs.iter().map(|job| job.work_ms as f64 * f64::from(job.ranks)).sum();
        let load = gpu_ms / jobs[599].submitted_ms as f64 / 24.0;
        assert!((0.63..0.77).contains(&load), "{load}");
    }
}
