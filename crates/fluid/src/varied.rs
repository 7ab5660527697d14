//! Down phases that vary from iteration to iteration.

use alloc::vec::Vec;

use units::splitmix64;

use crate::{ITERATIONS_MAX, WARM_UP_ITERATIONS};

/// Most jitter: beyond it a job is not periodic. The simulator's limit too.
pub const JITTER_PERMILLE_MAX: u32 = 500;
/// Iterations of the slowest job in one run under jitter, warm-up included: a job that runs away takes about a dozen to
/// leave and as many to come back.
pub const ITERATIONS: usize = WARM_UP_ITERATIONS + 60;
/// Jobs times iterations that count in one run: a run of more jobs is shorter, because a commit waits for it. Eight jobs have all iterations.
const RUN_JOB_ITERATIONS: usize = 512;
/// Least iterations that count, of 32 jobs and more (`many_jobs_run_for_less`).
const AVERAGED_MIN: usize = 16;
/// Iterations of the slowest job in a blink, warm-up included: half of a glance, and what is seen in it is half as sure.
const BLINK_ITERATIONS: usize = 5;
/// Those before averages start in a blink: who begins in the middle of another's Up phase has waited once by then.
const BLINK_WARM_UP: usize = 2;
/// Iterations of the slowest job in a glance, warm-up included: a seventh of a run under jitter of few jobs.
const GLANCE_ITERATIONS: usize = 10;
/// Those before averages start in a glance: what it has to tell apart is larger than what is left of the beginning by then.
const GLANCE_WARM_UP: usize = 3;

/// How long a run is, in iterations of the slowest job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Length {
    /// In all.
    pub(crate) bound: usize,
    /// Before averages start.
    pub(crate) warm_up: usize,
}

impl Length {
    /// Where equal states have equal futures: a run ends when one recurs.
    pub(crate) const EXACT: Self = Self { bound: ITERATIONS_MAX, warm_up: WARM_UP_ITERATIONS };
    /// Enough to see what is far worse.
    pub(crate) const BLINK: Self = Self { bound: BLINK_ITERATIONS, warm_up: BLINK_WARM_UP };
    /// Enough to see what is clearly worse.
    pub(crate) const GLANCE: Self = Self { bound: GLANCE_ITERATIONS, warm_up: GLANCE_WARM_UP };

    /// Enough to see what is worse: as long as a run of many jobs.
    pub(crate) const LOOK: Self = Self { bound: WARM_UP_ITERATIONS + AVERAGED_MIN, warm_up: WARM_UP_ITERATIONS };

    /// Under jitter or by turns. Many jobs are a sample by themselves, so they need not run for as long.
    pub(crate) fn varied(jobs: usize) -> Self {
        let averaged = (RUN_JOB_ITERATIONS / jobs.max(1)).clamp(AVERAGED_MIN, ITERATIONS - WARM_UP_ITERATIONS);
        Self { bound: WARM_UP_ITERATIONS + averaged, warm_up: WARM_UP_ITERATIONS }
    }
}

/// Varies Down phases; equal seeds vary alike.
#[derive(Clone, Debug)]
pub(crate) struct Jitter {
    /// One state for each job, so that no job's draws depend on the order of events.
    seeds: Vec<u64>,
    /// Half of the width of the uniform distribution, in millionths of the length.
    width: u64,
}

impl Jitter {
    pub(crate) fn new(jobs: usize, seed: u64, permille: u32) -> Self {
        Self::of_millionths(jobs, seed, 1_000 * u64::from(permille.min(JITTER_PERMILLE_MAX)))
    }

    /// As [`Self::new`], but the standard deviation is in millionths of the length.
    pub(crate) fn of_millionths(jobs: usize, seed: u64, millionths: u64) -> Self {
        // A uniform distribution has sqrt(3) standard deviations to each side.
        let width = millionths * 1_732 / 1_000;
        // The upper half of a seed names the run and the lower half the job, so no two jobs of any runs begin alike.
        Self { seeds: (0..jobs as u64).map(|j| (seed << 32) + j).collect(), width }
    }

    /// The length of a Down phase of job `j`, this time; its mean is `length`.
    pub(crate) fn vary(&mut self, j: usize, length: u64) -> u64 {
        // Division by 128 bits is slow, and nearly every length does without.
        let half = match length.checked_mul(self.width) {
            Some(product) => u128::from(product / 1_000_000),
            None => u128::from(length) * u128::from(self.width) / 1_000_000,
        };
        // 32 random bits are finer than any clock, and leave room for the product.
        let drawn = ((2 * half + 1) * u128::from(splitmix64(&mut self.seeds[j]) >> 32)) >> 32;
        // At the largest jitter `half` is 0.866 of the length, so the difference stays above zero.
        u64::try_from((u128::from(length) + drawn).saturating_sub(half)).unwrap_or(u64::MAX)
    }
}
