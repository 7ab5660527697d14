//! Runs whose mean is taken, so that several ways to keep jobs apart can be compared.
//!
//! Equal trials draw alike whoever is held and whoever takes turns, so two choices can be compared by few runs.

use alloc::{vec, vec::Vec};

use units::Nanos;

use crate::{
    FluidJob,
    layout::Layout,
    run::{Rules, Seen, run},
    varied::{Jitter, splitmix},
};

/// When the jobs of a run start for the first time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Begin {
    /// All at once: what jobs fear most.
    #[default]
    Together,
    /// Each anywhere in its iteration, drawn anew in each run: what is seen over many jobs.
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
            first: first_starts(jobs, self.begin, seed),
            ..Rules::default()
        }
    }
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

/// When each job starts first; nothing where all start at once.
fn first_starts(jobs: &[FluidJob], begin: Begin, seed: u64) -> Vec<u64> {
    match begin {
        Begin::Together => Vec::new(),
        // The states of a run's jitter are small numbers, and these are far from them.
        Begin::Anywhere => {
            let mut state = !seed;
            jobs.iter().map(|job| splitmix(&mut state) % job.iteration.0.max(1)).collect()
        }
    }
}
