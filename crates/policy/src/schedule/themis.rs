//! Themis: who would be latest beside a fair share goes first (Mahajan et al., NSDI 2020), in the form of the Muri authors' simulator.
//!
//! The rules. A job's finish-time fairness rho is how long it takes here, from its submission to its end, over how long it would take alone on
//! its share of the cluster. After each event the fractions of time x are found with which the largest rho is least, all jobs
//! together having no more than the GPUs there are. Jobs are then put in order of x over the time that they have run, the largest first; a
//! job that never ran goes before all that did. In that order GPUs are reserved, and those who have some are placed, the largest first.
//! There are no leases and no auction; Themis with these is in `auction.rs`, for paper mode.
//!
//! As in that simulator the time alone divides the iterations that are left by the share, and not by the iterations that the share does in a
//! second, as it should: rho then mixes iterations and seconds, which favours models with short iterations.
//!
//! That simulator takes the fractions as its solver leaves them, so jobs whose fractions are nearly equal go in an order by chance. It
//! matters: nobody is stopped between events, so a set of long jobs, once chosen, has the GPUs until the first of them ends. Here every
//! fraction is off by a draw within [`SOLVER_ERROR`].

mod fractions;

use alloc::vec::Vec;

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};

use self::fractions::{Claim, fractions};
use super::{
    hosts::{Capacity, Hosts},
    job::{Decision, Job, JobIndex, Reason, Run},
};

/// What stands for x over no time: larger than what any job that ran has.
const NEVER_RAN: f64 = 1e9;

/// By how much of itself a fraction is off at most, either way.
///
/// Measured: on the first 60 decisions of Muri's first and third trace, all jobs at once, the solver of that simulator (ECOS 2.0.10 with
/// its tolerance of 1e-8, on the same program) gives fractions that differ by 4e-7 and 6e-7 (median) from its own with the jobs listed in
/// another order.
const SOLVER_ERROR: f64 = 1e-6;

/// Where the draws begin.
const SEED: u64 = 1;

/// What is remembered of a job from decision to decision.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    /// Time that what it has done would have taken alone on its shares.
    alone_s: f64,
    /// What was left, and its share, at the last decision; no share before the first.
    left: f64,
    share: f64,
    /// Time that its fractions added up to.
    due_s: f64,
    /// Its fraction now, and what it is ordered by.
    fraction: f64,
    value: f64,
}

#[derive(Clone, Debug)]
pub(super) struct Themis {
    /// GPUs of all hosts.
    gpus: u32,
    order: Vec<JobIndex>,
    accounts: Vec<Account>,
    last_s: f64,
    hosts: Hosts,
    draws: ChaCha8Rng,
}

impl Themis {
    pub(super) fn new(capacity: &Capacity) -> Self {
        let draws = ChaCha8Rng::seed_from_u64(SEED);
        Self { gpus: capacity.all(), order: Vec::new(), accounts: Vec::new(), last_s: 0.0, hosts: Hosts::new(capacity), draws }
    }

    pub(super) fn arrive(&mut self, job: JobIndex) {
        if self.accounts.len() <= job as usize {
            self.accounts.resize(job as usize + 1, Account::default());
        }
        self.accounts[job as usize] = Account::default();
        self.order.push(job);
    }

    pub(super) fn leave(&mut self, job: JobIndex) {
        self.order.retain(|j| *j != job);
    }

    pub(super) fn decide(
        &mut self,
        now_s: f64,
        (jobs, capacity): (&[Job], &Capacity),
        restart_s: impl Fn(&Job) -> f64,
        explain: bool,
        out: &mut Decision,
    ) {
        let passed_s = now_s - self.last_s;
        self.last_s = now_s;
        self.value(now_s, jobs);
        let Self { order, accounts, hosts, .. } = self;
        // The largest first, equal ones in the order that they had.
        order.sort_by(|a, b| {
            let (x, y) = (&accounts[*a as usize], &accounts[*b as usize]);
            let late = |account: &Account, job: JobIndex| account.due_s - jobs[job as usize].ran_s;
            y.value.total_cmp(&x.value).then(late(y, *b).total_cmp(&late(x, *a))).then(y.fraction.total_cmp(&x.fraction))
        });
        hosts.clear(capacity);
        let mut chosen: Vec<(u32, JobIndex)> = Vec::new();
        for (&job, before) in order.iter().zip(0..) {
            if hosts.left == 0 && !explain {
                break;
            }
            if hosts.take(jobs[job as usize].gpus) {
                chosen.push((before, job));
            } else if explain {
                out.passed.push((job, Reason::Rank { before, value: accounts[job as usize].value }));
            }
        }
        order.sort_by_key(|job| core::cmp::Reverse(jobs[*job as usize].gpus));
        chosen.sort_by_key(|(_, job)| core::cmp::Reverse(jobs[*job as usize].gpus));
        hosts.clear(capacity);
        for (before, job) in chosen {
            let j = &jobs[job as usize];
            if hosts.take(j.gpus) {
                let group = out.runs.len() as u32;
                hosts.note(group, out);
                out.runs.push(Run { job, group, iteration_s: j.alone_s, restart_s: restart_s(j) });
                if explain {
                    out.reasons.push(Reason::Rank { before, value: accounts[job as usize].value });
                }
            } else if explain {
                out.passed.push((job, Reason::Rank { before, value: accounts[job as usize].value }));
            }
        }
        // As in the authors' simulator: the time until now counts with the fraction that was found now.
        for &job in &*order {
            let account = &mut accounts[job as usize];
            account.due_s += account.fraction * passed_s;
        }
    }

    /// Finds the fractions, and what jobs are ordered by.
    fn value(&mut self, now_s: f64, jobs: &[Job]) {
        let n = self.order.len();
        if n == 0 {
            return;
        }
        // The share of each job in GPUs, rounded up.
        let gpus = f64::from(self.gpus.div_ceil(n as u32));
        let mut claims = Vec::with_capacity(n);
        for &job in &self.order {
            let (j, account) = (&jobs[job as usize], &mut self.accounts[job as usize]);
            let share = (gpus / f64::from(j.gpus)).min(1.0);
            // The slip of the artifact: an iteration is taken for a second.
            if account.share > 0.0 {
                account.alone_s += (account.left - j.left) / account.share;
            }
            (account.left, account.share) = (j.left, share);
            let alone_s = account.alone_s + j.left / share;
            claims.push(Claim { gpus: f64::from(j.gpus), waited: (now_s - j.submitted_s) / alone_s, left: j.remaining_s() / alone_s });
        }
        let fractions = fractions(&claims, f64::from(self.gpus));
        for (&job, fraction) in self.order.iter().zip(fractions) {
            let account = &mut self.accounts[job as usize];
            let ran_s = jobs[job as usize].ran_s;
            // From -1 to 1.
            let drawn = f64::from(self.draws.next_u32()) / f64::from(u32::MAX) * 2.0 - 1.0;
            let fraction = fraction * (1.0 + SOLVER_ERROR * drawn);
            account.fraction = fraction;
            account.value = if ran_s == 0.0 { fraction * NEVER_RAN } else { fraction / ran_s };
        }
    }
}
