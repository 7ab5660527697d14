//! Who has grown, and what they had of it.

use alloc::{collections::BTreeMap, vec::Vec};

use policy::schedule::{Decision, Job, JobIndex, Rule};

use super::Trace;

/// What came of jobs that may grow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GrowthOutcome {
    /// How often a job grew onto idle GPUs.
    pub grown: u64,
    /// How often one that had grown went on with fewer.
    pub shrunk: u64,
    /// GPU seconds that jobs had beyond what they asked for, restarts included.
    pub gpu_s: f64,
}

/// Jobs that have grown.
#[derive(Debug)]
pub(super) struct Growth {
    /// By job: GPUs beyond those that it asked for.
    beyond: Vec<u32>,
    pub(super) outcome: GrowthOutcome,
}

impl Growth {
    /// `None` where no job may grow, or the policy lets none.
    pub(super) fn new(trace: &Trace, rule: Rule) -> Option<Self> {
        let grows = matches!(rule, Rule::Gandiva(options) if options.growth) && trace.grows();
        grows.then(|| Self { beyond: alloc::vec![0; trace.jobs.len()], outcome: GrowthOutcome::default() })
    }

    /// GPUs that a job has beyond those that it asked for.
    pub(super) fn beyond_of(&self, job: JobIndex) -> u32 {
        self.beyond[job as usize]
    }

    /// So much time passed under this decision.
    pub(super) fn pass(&mut self, decision: &Decision, seconds: f64) {
        let beyond: u64 = decision.runs.iter().map(|run| u64::from(self.beyond[run.job as usize])).sum();
        self.outcome.gpu_s += beyond as f64 * seconds;
    }

    /// From now on jobs have what this decision says.
    pub(super) fn follow(&mut self, decision: &Decision, jobs: &[Job]) {
        let mut has: BTreeMap<u32, u32> = BTreeMap::new();
        decision.places.iter().for_each(|place| *has.entry(place.group).or_default() += place.gpus);
        let mut before = core::mem::replace(&mut self.beyond, alloc::vec![0; jobs.len()]);
        for run in &decision.runs {
            let job = run.job as usize;
            let has = has.get(&run.group).copied().unwrap_or(0);
            let beyond = has.saturating_sub(jobs[job].gpus);
            let had = core::mem::take(&mut before[job]);
            self.outcome.grown += u64::from(beyond > had);
            self.outcome.shrunk += u64::from(beyond < had);
            self.beyond[job] = beyond;
        }
    }
}
