//! Themis: GPUs are leased to those who would be latest beside a fair share, by a partial auction (Mahajan et al., NSDI 2020).
//!
//! The rules, for jobs that want all of their GPUs or none. A job's finish-time fairness rho is how long it takes here, from its submission
//! to its end, over how long it would take alone on its share of the cluster: of the GPUs over the jobs that were there on average
//! since it came, and of no more than it asks for. GPUs are leased for [`LEASE_S`]. A lease is kept: until its end, or that of the job,
//! nobody moves or stops it. Whenever GPUs are free, because a lease or a job ended or because nobody wanted them before, they are
//! auctioned at once among the jobs without a lease, so a job that comes waits for free GPUs or for the next end of a lease:
//!
//! 1. Each tells two values of rho: with its GPUs now, and without, which is with its GPUs one lease later. A job that has to start or to move counts
//!    its restart; one whose lease has just ended may stay where it is, and counts none.
//! 2. The worst of them by rho without, a share of 1 - [`FAIRNESS`] rounded up, are offered all free GPUs.
//! 3. Of these those win together for whom the product of 1/rho of all who were offered is largest: exactly for up to
//!    eight, and greedily by the gain of the logarithm beyond that (`winners.rs`).
//! 4. A winner pays for what its presence costs the others: it keeps the share c of its GPU time, the product of 1/rho of the others over what
//!    that would be without it. Who wants all GPUs or none cannot give back some of them, so it pays in time: its lease lasts c of the
//!    term, and at least [`LEAST`] of it.
//! 5. What is left over goes to those outside the auction: first to those whose lease has just ended and whose GPUs are still free, then
//!    to the others, the worst by rho first, in place of the random order of the paper.
//!
//! Two rules are not in the paper, whose jobs take any number of GPUs. Winners whose lease has just ended stay where they are if all winners fit so. And
//! the worst of all by rho who had no GPUs for a whole term is served before the auction; where its GPUs are not free, the hosts on
//! which they are free soonest are kept for it (`kept.rs`). As no lease is longer than a term, it has them one term later at the
//! latest, unless another one becomes the worst. Jobs shorter than a lease always do, because one lease more is most of their time: beside them a long
//! large job can wait for days.
//!
//! Hosts are equal and the network is not played, so rho does not depend on where a job stands; the slowdown of a spread placement belongs into
//! [`Fairness::rho`](fairness::Fairness::rho) when it is.

mod fairness;
mod kept;
mod winners;

use alloc::vec::Vec;

pub use self::fairness::Fairness;
use self::{
    fairness::Rho,
    winners::{Bid, Win},
};
use super::{
    hosts::{Capacity, Hosts},
    job::{Decision, Job, JobIndex, Reason, Run},
};

/// How long GPUs are leased for, as published: 20 minutes.
pub const LEASE_S: f64 = 1_200.0;

/// The share of the jobs that are not offered GPUs in an auction (the fairness knob f), as published.
const FAIRNESS: f64 = 0.8;

/// The least share of the term that a winner keeps: with less, a lease would be mostly restarts, of which the longest measured one takes 46 s.
const LEAST: f64 = 0.25;

/// GPUs that a job has, or had.
#[derive(Clone, Debug, Default)]
struct Lease {
    /// Hosts, and GPUs of each; none for a job that never had any, or was stopped.
    places: Vec<(u32, u32)>,
    /// When it ends. Of a job that waits: since when it has had none.
    ends_s: f64,
    /// What it was given for.
    rho: Rho,
}

#[derive(Clone, Debug)]
pub(super) struct Auction {
    /// Jobs in the order in which they came.
    present: Vec<JobIndex>,
    /// Jobs that came since the last decision.
    arrived: Vec<JobIndex>,
    fairness: Fairness,
    /// By job.
    leases: Vec<Lease>,
    hosts: Hosts,
    capacity: Capacity,
}

impl Auction {
    pub(super) fn new(capacity: &Capacity) -> Self {
        let (present, arrived, leases) = (Vec::new(), Vec::new(), Vec::new());
        Self { present, arrived, fairness: Fairness::new(capacity.all()), leases, hosts: Hosts::new(capacity), capacity: capacity.clone() }
    }

    pub(super) fn arrive(&mut self, job: JobIndex) {
        if self.leases.len() <= job as usize {
            self.leases.resize(job as usize + 1, Lease::default());
        }
        self.present.push(job);
        self.arrived.push(job);
    }

    pub(super) fn leave(&mut self, job: JobIndex) {
        self.leases[job as usize] = Lease::default();
        self.present.retain(|j| *j != job);
        self.arrived.retain(|j| *j != job);
    }

    /// A job that came has these GPUs, for so long; one without GPUs has had none for so long.
    pub(super) fn resume(&mut self, now_s: f64, job: JobIndex, jobs: &[Job], places: &[(u32, u32)], until_s: f64) {
        self.arrived.retain(|j| *j != job);
        self.fairness.pass(now_s);
        self.fairness.crowd(self.present.len());
        self.fairness.resume(job, &jobs[job as usize]);
        self.leases[job as usize] = Lease { places: places.to_vec(), ends_s: until_s, rho: Rho::default() };
    }

    /// A job has lost its GPUs, and has had none since then.
    pub(super) fn fall(&mut self, now_s: f64, job: JobIndex) {
        self.leases[job as usize] = Lease { ends_s: now_s, ..Lease::default() };
    }

    /// When the lease of a job ends that has one.
    pub(super) fn until_s(&self, job: JobIndex) -> Option<f64> {
        self.leases.get(job as usize).filter(|lease| !lease.places.is_empty()).map(|lease| lease.ends_s)
    }

    /// When the next lease ends.
    pub(super) fn next_change_s(&self, now_s: f64) -> f64 {
        let ends = self.present.iter().map(|job| self.leases[*job as usize].ends_s);
        ends.filter(|end| *end > now_s).fold(f64::INFINITY, f64::min)
    }

    pub(super) fn decide(
        &mut self,
        now_s: f64,
        (jobs, capacity): (&[Job], &Capacity),
        restart_s: impl Fn(&Job) -> f64,
        explain: bool,
        out: &mut Decision,
    ) {
        self.capacity.clone_from(capacity);
        self.fairness.pass(now_s);
        for job in self.arrived.drain(..) {
            self.fairness.arrive(job, &jobs[job as usize]);
            self.leases[job as usize] = Lease { ends_s: now_s, ..Lease::default() };
        }
        self.fairness.crowd(self.present.len());
        self.hosts.clear(capacity);
        let mut displaced: Vec<JobIndex> = Vec::new();
        for &job in &self.present {
            let lease = &self.leases[job as usize];
            // Leases were given by these very hosts, so they fit unless a host is out.
            if lease.ends_s > now_s && !self.hosts.hold(&lease.places) {
                displaced.push(job);
            }
        }
        // Who runs the jobs may have placed them elsewhere, and then it is others who lost that host and have fallen. These go on, and so their
        // leases count on GPUs that are there.
        for job in displaced {
            if self.hosts.scatter(jobs[job as usize].gpus) {
                self.leases[job as usize].places = self.hosts.taken().to_vec();
            }
        }
        if self.hosts.left > 0 {
            self.auction(now_s, jobs, &restart_s);
        }
        for &job in &self.present {
            let (j, lease) = (&jobs[job as usize], &mut self.leases[job as usize]);
            if lease.ends_s <= now_s {
                if explain {
                    let Rho { without, with } = self.fairness.rho(now_s, job, j, restart_s(j), !lease.places.is_empty());
                    out.passed.push((job, Reason::Fairness { before: without, after: with, until_s: now_s }));
                }
                lease.places.clear();
                continue;
            }
            let group = out.runs.len() as u32;
            out.places.extend(lease.places.iter().map(|&(host, gpus)| super::job::Place { group, host, gpus }));
            out.runs.push(Run { job, group, iteration_s: j.alone_s, restart_s: restart_s(j) });
            if explain {
                let Rho { without, with } = lease.rho;
                out.reasons.push(Reason::Fairness { before: without, after: with, until_s: lease.ends_s });
            }
        }
    }

    /// Leases free GPUs to jobs that have none.
    fn auction(&mut self, now_s: f64, jobs: &[Job], restart_s: &impl Fn(&Job) -> f64) {
        let mut bids = self.bids(now_s, jobs, restart_s);
        let offered = offered(bids.len());
        if bids.len() > offered && offered > 0 {
            bids.select_nth_unstable_by(offered - 1, Bid::worse);
        }
        bids[..offered].sort_unstable_by(Bid::worse);
        let mut begin = 0;
        if let Some(worst) = bids.first().filter(|worst| now_s - self.leases[worst.job as usize].ends_s >= LEASE_S) {
            begin = 1;
            if self.hosts.take(worst.gpus) {
                let places = self.hosts.taken().to_vec();
                self.lease(now_s, worst, places, 1.0);
            } else {
                self.keep(now_s, worst.gpus);
            }
        }
        self.serve(now_s, &bids[begin..offered]);
        // A bidder that won nothing finds no left-over GPUs either, except where winners stayed in place.
        self.left_over(now_s, &mut bids[begin..]);
    }

    /// What each job without a lease says.
    fn bids(&self, now_s: f64, jobs: &[Job], restart_s: &impl Fn(&Job) -> f64) -> Vec<Bid> {
        let without = self.present.iter().filter(|job| self.leases[**job as usize].ends_s <= now_s);
        let bid = |&job: &JobIndex| {
            let j = &jobs[job as usize];
            let stays = !self.leases[job as usize].places.is_empty();
            let rho = self.fairness.rho(now_s, job, j, restart_s(j), stays);
            Bid { job, gpus: j.gpus, rho, stays }
        };
        without.map(bid).collect()
    }

    /// Leases GPUs to the winners of an auction.
    fn serve(&mut self, now_s: f64, bids: &[Bid]) {
        let wins = winners::winners(&mut self.hosts, bids, &[]);
        let value = winners::value(bids, &wins);
        // What each pays, before anybody is placed: the auction without it is held on the same GPUs.
        let mut shares = Vec::with_capacity(wins.len());
        for win in &wins {
            let without = winners::winners(&mut self.hosts, bids, &[win.bid]);
            let others = value - bids[win.bid].gain();
            shares.push(libm::exp(others - winners::value(bids, &without)).clamp(LEAST, 1.0));
        }
        let places = self.stay(bids, &wins).unwrap_or_else(|| {
            wins.iter().for_each(|win| _ = self.hosts.hold(&win.places));
            wins.iter().map(|win| win.places.clone()).collect()
        });
        for ((win, places), share) in wins.iter().zip(places).zip(shares) {
            self.lease(now_s, &bids[win.bid], places, share);
        }
    }

    /// Places for the winners of which those who may stay do; `None`, and nobody placed, where the others do not fit beside them.
    fn stay(&mut self, bids: &[Bid], wins: &[Win]) -> Option<Vec<Vec<(u32, u32)>>> {
        let mut found: Vec<Option<Vec<(u32, u32)>>> = alloc::vec![None; wins.len()];
        let mut order: Vec<usize> = (0..wins.len()).collect();
        // Who stays comes first, and of the others the largest.
        order.sort_by_key(|at| (!bids[wins[*at].bid].stays, core::cmp::Reverse(bids[wins[*at].bid].gpus)));
        for &at in &order {
            let bid = &bids[wins[at].bid];
            let own = &self.leases[bid.job as usize].places;
            found[at] = if bid.stays && self.hosts.hold(own) {
                Some(own.clone())
            } else {
                self.hosts.take(bid.gpus).then(|| self.hosts.taken().to_vec())
            };
        }
        if found.iter().all(Option::is_some) {
            return found.into_iter().collect();
        }
        found.iter().flatten().for_each(|places| self.hosts.give(places));
        None
    }

    /// Leases what is left over, for a whole term.
    fn left_over(&mut self, now_s: f64, bids: &mut [Bid]) {
        if self.hosts.left == 0 {
            return;
        }
        bids.sort_unstable_by(|a, b| b.stays.cmp(&a.stays).then(a.worse(b)));
        for bid in &*bids {
            if self.hosts.left == 0 {
                break;
            }
            let lease = &self.leases[bid.job as usize];
            // Who has won has a lease by now.
            if bid.gpus > self.hosts.left || lease.ends_s > now_s {
                continue;
            }
            if bid.stays && self.hosts.hold(&lease.places) {
                let places = lease.places.clone();
                self.lease(now_s, bid, places, 1.0);
            } else if self.hosts.take(bid.gpus) {
                let places = self.hosts.taken().to_vec();
                self.lease(now_s, bid, places, 1.0);
            }
        }
    }

    fn lease(&mut self, now_s: f64, bid: &Bid, places: Vec<(u32, u32)>, share: f64) {
        self.leases[bid.job as usize] = Lease { places, ends_s: now_s + LEASE_S * share, rho: bid.rho };
    }

    /// Takes the free GPUs that are kept for a job of this size off the market, until the next decision.
    fn keep(&mut self, now_s: f64, gpus: u32) {
        let leases = self.present.iter().map(|job| &self.leases[*job as usize]).filter(|lease| lease.ends_s > now_s);
        let ends: Vec<kept::End> =
            leases.flat_map(|lease| lease.places.iter().map(|&(host, gpus)| kept::End { host, gpus, at_s: lease.ends_s })).collect();
        let kept = kept::kept(&self.capacity, gpus, now_s, ends, |host| self.hosts.free_of(host));
        self.hosts.hold(&kept);
    }
}

/// How many of the jobs without a lease are offered GPUs.
fn offered(bidders: usize) -> usize {
    // Rounded up, so at least one of any; a product of floats a hair above a whole number must not count as the next.
    let share = libm::ceil((1.0 - FAIRNESS) * bidders as f64 - 1e-9);
    (share as usize).max(1).min(bidders)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifth_of_those_who_wait_is_offered_gpus() {
        assert_eq!([0, 1, 4, 5, 6, 10, 11].map(offered), [0, 1, 1, 1, 2, 2, 3]);
    }
}
