//! A job as schedulers see it, and what they decide.

use alloc::vec::Vec;

/// Index of a job in the list that its owner keeps.
pub type JobIndex = u32;

/// A job that waits or runs. Who runs the jobs keeps it current; schedulers only read it.
///
/// Times are seconds in floats, because the figures that are reproduced here were computed in them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Job {
    /// GPUs that it needs, all or none.
    pub gpus: u32,
    /// The most that it can use where more are idle (Gandiva): no less than it needs, and as many for one that does not grow.
    pub gpus_max: u32,
    /// Its entry in [`Settings::profiles`](super::Settings::profiles).
    pub profile: u16,
    /// Whether it may only use what guaranteed jobs leave (AntMan).
    pub opportunistic: bool,
    /// How large a part of the turns of a crowded host it has beside others (Gandiva), above zero: twice the weight, twice the time.
    pub weight: u32,
    /// When it was submitted.
    pub submitted_s: f64,
    /// How long it runs alone, as it was declared.
    pub declared_s: f64,
    /// One iteration alone.
    pub alone_s: f64,
    /// Iterations that are left; a part of one counts.
    pub left: f64,
    /// How long it has run, restarts included.
    pub ran_s: f64,
    /// Whether it runs now.
    pub running: bool,
    /// Whether it ran before, now included.
    pub started: bool,
}

impl Job {
    /// How long it would still take alone.
    #[must_use]
    pub fn remaining_s(&self) -> f64 {
        self.left * self.alone_s
    }

    /// GPU time that it has had.
    #[must_use]
    pub fn service_s(&self) -> f64 {
        self.ran_s * f64::from(self.gpus)
    }
}

/// A job that runs from now on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    /// Which job.
    pub job: JobIndex,
    /// The group whose GPUs it uses; jobs of one group share them.
    pub group: u32,
    /// How long each of its iterations takes now.
    pub iteration_s: f64,
    /// What a start or a change costs before its next iteration.
    pub restart_s: f64,
}

/// Why a job runs or waits, or a group shares its GPUs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reason {
    /// It was at this place of the order, by this value (the less the sooner).
    Rank {
        /// Jobs before it.
        before: u32,
        /// What it was ordered by.
        value: f64,
    },
    /// Its members fill each other's gaps.
    Shares {
        /// How many share.
        members: u32,
        /// Their efficiency, of at most 1.
        efficiency: f64,
    },
    /// It leased its GPUs in an auction, or of what that left over (Themis).
    Fairness {
        /// How late it would have been, over its time alone on a fair share, with its GPUs one lease later.
        before: f64,
        /// How late with its GPUs from the auction on.
        after: f64,
        /// When its lease ends; now, where it won none.
        until_s: f64,
    },
    /// It has its GPUs in turns with others of its host (Gandiva).
    Turns {
        /// How many have the GPUs at once: 2 for a pair.
        members: u32,
        /// The share of the time in which they have them.
        share: f64,
    },
    /// It has idle GPUs of its hosts beyond those that it asked for (Gandiva).
    Grown {
        /// What it asked for.
        asked: u32,
        /// What it has.
        has: u32,
        /// The share of its iteration alone that its iterations take so.
        share: f64,
    },
}

/// A group that was weighed: whether its members share GPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// Who would share.
    pub members: Vec<JobIndex>,
    /// What they do together over what they do one after the other: above 1 they do more.
    pub rate: f64,
    /// Whether they share from now on.
    pub shares: bool,
}

/// GPUs of one host that a group has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The group.
    pub group: u32,
    /// The host, by number.
    pub host: u32,
    /// How many of its GPUs.
    pub gpus: u32,
}

/// Who runs from now on, in the scheduler's order. Who is not in it waits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// The jobs that run.
    pub runs: Vec<Run>,
    /// GPUs of the groups, group by group; empty for a policy that only counts GPUs.
    pub places: Vec<Place>,
    /// Whether groups may have the same GPUs (AntMan): never the case for others.
    pub groups_share: bool,
    /// Why, for each of the runs; only when it was asked for.
    pub reasons: Vec<Reason>,
    /// Who waits, in the policy's order, and what it had in place of that: the alternatives to those who run. Only when it was asked for.
    pub passed: Vec<(JobIndex, Reason)>,
    /// Groups that were weighed by what they do together: the pairs that share and those that were tried (Gandiva), and the groups that were
    /// split because they lose (Muri). Only when it was asked for.
    pub tried: Vec<Trial>,
}

impl Decision {
    pub(super) fn clear(&mut self) {
        self.runs.clear();
        self.places.clear();
        self.reasons.clear();
        self.passed.clear();
        self.tried.clear();
        self.groups_share = false;
    }
}

/// Jobs for tests.
#[cfg(test)]
pub(super) mod samples {
    use super::Job;

    /// A job that waits and needs that many GPUs.
    pub(in super::super) fn job(gpus: u32) -> Job {
        Job {
            gpus,
            gpus_max: gpus,
            profile: 0,
            opportunistic: false,
            weight: 1,
            submitted_s: 0.0,
            declared_s: 1.0,
            alone_s: 1.0,
            left: 1.0,
            ran_s: 0.0,
            running: false,
            started: false,
        }
    }
}
