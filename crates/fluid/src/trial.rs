//! Runs whose mean is taken, so that several ways to keep jobs apart can be compared.
//!
//! Equal trials draw alike whoever is held and whoever takes turns, so two choices can be compared by few runs.

use alloc::{vec, vec::Vec};

use units::{Nanos, splitmix64};

use crate::{
    FluidJob,
    layout::Layout,
    run::{Rules, Seen, run},
    varied::Jitter,
};

/// When the jobs of a run start for the first time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Begin {
    /// All at once: what jobs fear most.
    #[default]
    Together,
    /// Each anywhere in its iteration, drawn anew in each run: what is seen over many jobs. The iteration of each job has as many parts as
    /// there are runs, and how far it starts behind the first job is in another part in each: jobs of equal periods, which keep their
    /// leads, meet in some run if they may meet in a part of their iteration that is twice as long.
    Anywhere,
}

/// Runs whose mean is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trial {
    /// How much Down phases vary, in thousandths; at most [`crate::jitter::JITTER_PERMILLE_MAX`].
    pub jitter_permille: u32,
    /// Seed of the first run; the others have the numbers after it. A choice is judged by seeds by which it was not made.
    pub seed: u32,
    /// How many; 0 counts as one.
    pub runs: u32,
    /// When jobs start that no gate holds.
    pub begin: Begin,
    /// By turns: from the end of one job to the start of one that waits for it.
    pub way: Nanos,
}

/// What jobs take in the runs of a trial.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrialTimes {
    /// Per job: mean time from one start of an iteration to the next.
    pub times: Vec<Nanos>,
    /// Of the time in which anybody sends on a link, the share in which two or more together want more than its capacity; over all
    /// links. This is when switches mark.
    pub overlap: f64,
    /// A run ended before it saw all of its iterations, because it cost too much ([`crate::WORK_MAX`]).
    pub cut_short: bool,
}

impl Trial {
    /// The means of the runs; `control` adds to each run what keeps the jobs apart.
    pub(crate) fn runs(&self, layout: &Layout, jobs: &[FluidJob], control: impl Fn(Rules) -> Rules) -> TrialTimes {
        let seen = (0..self.runs.max(1)).map(|run_of| run(layout, control(self.rules(jobs, run_of))));
        TrialTimes::mean(jobs.len(), seen)
    }

    /// What disturbs the jobs in one of the runs, and when they start.
    pub(crate) fn rules(&self, jobs: &[FluidJob], run_of: u32) -> Rules {
        let seed = u64::from(self.seed) + u64::from(run_of);
        Rules {
            jitter: (self.jitter_permille > 0).then(|| Jitter::new(jobs.len(), seed, self.jitter_permille)),
            first: self.first_starts(jobs, run_of),
            ..Rules::default()
        }
    }
}

impl Trial {
    /// When each job starts first in one of the runs; nothing where all start at once.
    fn first_starts(&self, jobs: &[FluidJob], run_of: u32) -> Vec<u64> {
        let Begin::Anywhere = self.begin else { return Vec::new() };
        // The states of a run's jitter are small numbers, and these are far from them.
        let mut state = !(u64::from(self.seed) + u64::from(run_of));
        let first = splitmix64(&mut state);
        let start = |(at, job): (usize, &FluidJob)| {
            let iteration = job.iteration.0.max(1);
            let drawn = splitmix64(&mut state);
            if at == 0 {
                return first % iteration;
            }
            let runs = self.runs.max(1);
            let part = u128::from(part_of(self.seed, at, run_of % runs, runs));
            // Anywhere in the part: 64 bits drawn, as a share of it.
            let behind = (part * u128::from(iteration) + ((u128::from(iteration) * u128::from(drawn)) >> 64)) / u128::from(runs);
            ((u128::from(first) + behind) % u128::from(iteration)) as u64
        };
        jobs.iter().enumerate().map(start).collect()
    }
}

/// The part of its iteration in which a job starts behind the first one, in one of the runs: each part in one run, in an order of the job's
/// own, so that jobs behind the first one start anywhere beside each other too.
fn part_of(seed: u32, job: usize, run_of: u32, runs: u32) -> u32 {
    // Apart from the states above, which differ in their low bits only.
    let mut state = (u64::from(seed) << 32) ^ (job as u64).wrapping_mul(0xd1b5_4a32_d192_ed03);
    let mut parts: Vec<u32> = (0..runs).collect();
    // Fisher and Yates, from the end: what is behind `last` stands fast.
    for last in (1..runs as usize).rev() {
        parts.swap(last, (splitmix64(&mut state) % (last as u64 + 1)) as usize);
    }
    parts[run_of as usize]
}

impl TrialTimes {
    /// The mean over what some runs saw of that many jobs.
    pub(crate) fn mean(jobs: usize, seen: impl Iterator<Item = Seen>) -> Self {
        let mut sums = vec![0u64; jobs];
        let (mut over, mut busy, mut runs, mut cut_short) = (0u128, 0u128, 0, false);
        for seen in seen {
            runs += 1;
            cut_short |= seen.cut_short;
            sums.iter_mut().zip(&seen.jobs).for_each(|(sum, m)| *sum = sum.saturating_add(m.mean));
            over += u128::from(seen.meter.over);
            busy += u128::from(seen.meter.busy);
        }
        let runs: u64 = u64::max(runs, 1);
        let overlap = if busy == 0 { 0.0 } else { over as f64 / busy as f64 };
        Self { times: sums.into_iter().map(|sum| Nanos((sum + runs / 2) / runs)).collect(), overlap, cut_short }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_leads_of_a_job_fall_into_each_part_of_its_iteration() {
        let jobs: Vec<FluidJob> =
            [100, 100, 77, 1_000_003].map(|t| FluidJob { iteration: Nanos(t * 1_000), period: Nanos(t * 1_000), shift: Nanos(0) }).to_vec();
        let mut leads_of_others = vec![0; 8];
        for seed in 1..200 {
            for runs in [1, 3, 8] {
                let trial = Trial { jitter_permille: 5, seed, runs, begin: Begin::Anywhere, way: Nanos(0) };
                let starts: Vec<Vec<u64>> = (0..runs).map(|run_of| trial.first_starts(&jobs, run_of)).collect();
                assert!(starts.iter().all(|run| run.iter().zip(&jobs).all(|(start, job)| *start < job.iteration.0)));
                // Of the two whose iterations are equal.
                let part = |run: &Vec<u64>| (run[1] + 100_000 - run[0]) % 100_000 * u64::from(runs) / 100_000;
                let mut parts: Vec<u64> = starts.iter().map(part).collect();
                parts.sort_unstable();
                assert_eq!(parts, (0..u64::from(runs)).collect::<Vec<_>>());
                // Two that are behind the first one start anywhere beside each other.
                if runs == 8 {
                    let equal = [jobs[0], jobs[1], jobs[1]];
                    (0..8).map(|run_of| trial.first_starts(&equal, run_of)).for_each(|run| {
                        leads_of_others[((run[2] + 100_000 - run[1]) % 100_000 * 8 / 100_000) as usize] += 1;
                    });
                }
            }
        }
        // 199 in each, but for chance: five times its deviation of 13.
        assert!(leads_of_others.iter().all(|n: &i32| n.abs_diff(199) < 66), "{leads_of_others:?}");
    }
}
