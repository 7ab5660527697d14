//! How late a job is beside a fair share.

use alloc::vec::Vec;

use super::{
    super::job::{Job, JobIndex},
    LEASE_S,
};

/// The least time that counts, so that a job of no length divides nothing by 0.
const SHORTEST_S: f64 = 1e-3;

/// Finish-time fairness of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rho {
    /// If it gets its GPUs one lease later.
    pub(super) without: f64,
    /// If it gets them now.
    pub(super) with: f64,
}

/// What is remembered of a job.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    came_s: f64,
    /// What [`Fairness::job_seconds`] was then.
    job_seconds: f64,
    /// How long all of it takes with its own GPUs.
    whole_s: f64,
}

/// Keeps count of how many jobs there were, for the share of each: how long a job would have taken alone on it.
#[derive(Clone, Debug)]
pub struct Fairness {
    gpus: f64,
    accounts: Vec<Account>,
    /// Jobs, and the time up to which they are counted.
    jobs: f64,
    now_s: f64,
    /// Jobs times time.
    job_seconds: f64,
}

impl Fairness {
    /// A cluster of so many GPUs without jobs, at time 0.
    #[must_use]
    pub fn new(gpus: u32) -> Self {
        Self { gpus: f64::from(gpus), accounts: Vec::new(), jobs: 0.0, now_s: 0.0, job_seconds: 0.0 }
    }

    /// Time passed with as many jobs as before.
    pub fn pass(&mut self, now_s: f64) {
        self.job_seconds += self.jobs * (now_s - self.now_s);
        self.now_s = now_s;
    }

    /// From now on there are so many jobs.
    pub fn crowd(&mut self, jobs: usize) {
        self.jobs = jobs as f64;
    }

    /// A job came, which has all its iterations before it.
    pub fn arrive(&mut self, job: JobIndex, j: &Job) {
        if self.accounts.len() <= job as usize {
            self.accounts.resize(job as usize + 1, Account::default());
        }
        let (came_s, job_seconds) = (self.now_s, self.job_seconds);
        self.accounts[job as usize] = Account { came_s, job_seconds, whole_s: j.remaining_s() };
    }

    /// A job is there that came before the count began: its crowd is counted from now on, its work is what was declared.
    pub(super) fn resume(&mut self, job: JobIndex, j: &Job) {
        self.arrive(job, j);
        self.accounts[job as usize].whole_s = j.declared_s;
    }

    /// How long the job takes alone on its share.
    ///
    /// All of its work over the least of its GPUs and of all GPUs over the mean number of jobs since it came. `job` came before.
    #[must_use]
    pub fn alone_s(&self, job: JobIndex, gpus: u32) -> f64 {
        let Account { came_s, job_seconds, whole_s } = self.accounts[job as usize];
        let here_s = self.now_s - came_s;
        let crowd = if here_s > 0.0 { (self.job_seconds - job_seconds) / here_s } else { self.jobs };
        (whole_s * (f64::from(gpus) * crowd / self.gpus).max(1.0)).max(SHORTEST_S)
    }

    /// The fairness of a job that has no GPUs; `stays` when it could go on where it was without a restart.
    pub(super) fn rho(&self, now_s: f64, job: JobIndex, j: &Job, restart_s: f64, stays: bool) -> Rho {
        let alone_s = self.alone_s(job, j.gpus);
        let waited_s = (now_s - j.submitted_s).max(0.0);
        let later_s = waited_s + LEASE_S + restart_s + j.remaining_s();
        let soon_s = waited_s + if stays { 0.0 } else { restart_s } + j.remaining_s();
        Rho { without: later_s / alone_s, with: soon_s.max(SHORTEST_S) / alone_s }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_alone_is_that_on_a_share_of_those_who_were_there() {
        let job = Job {
            gpus: 8,
            gpus_max: 8,
            profile: 0,
            opportunistic: false,
            weight: 1,
            submitted_s: 0.0,
            declared_s: 100.0,
            alone_s: 1.0,
            left: 100.0,
            ran_s: 0.0,
            running: false,
            started: false,
        };
        let mut fairness = Fairness::new(16);
        fairness.arrive(0, &job);
        // Alone in the cluster it has all it asks for, and two have so as well: 100 s.
        fairness.crowd(2);
        assert_eq!(fairness.alone_s(0, 8), 100.0);
        // Of four jobs each has 4 GPUs; two of 50 s and four of 150 s are 3.5 on average: 8 * 3.5 / 16 of 100 s.
        fairness.pass(50.0);
        fairness.crowd(4);
        fairness.pass(200.0);
        assert_eq!(fairness.alone_s(0, 8), 175.0);
        // It waited 200 s and has 100 s to go, after a restart of 25 s; without GPUs a lease of 1,200 s more.
        let rho = fairness.rho(200.0, 0, &job, 25.0, false);
        assert_eq!(rho, Rho { without: 1_525.0 / 175.0, with: 325.0 / 175.0 });
        assert_eq!(fairness.rho(200.0, 0, &job, 25.0, true).with, 300.0 / 175.0);
    }
}
