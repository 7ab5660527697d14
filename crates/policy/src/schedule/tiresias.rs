//! Tiresias: who has had little service goes first, in a few steps (discretised two-dimensional LAS, Gu et al., NSDI 2019).
//!
//! The rules, as the authors' public simulator has them. Service is GPUs times the time in which a job ran. There are three queues; a
//! job enters the first, and falls to the next when its service reaches [`LIMITS`]. Queues go in order, and within a queue jobs that
//! run stay ahead of those that wait; both are first in, first out. Everybody may be preempted; a job runs when enough GPUs are free
//! anywhere, and one that does not fit is skipped. So no job is kept out by fragments, and its speed does not depend on where it stands.
//! Promotion of starved jobs is off, as in the runs that are reproduced.

use alloc::{vec, vec::Vec};

use super::{
    hosts::Capacity,
    job::{Decision, Job, JobIndex, Reason, Run},
};

/// Service in GPU seconds at which a job falls to the next queue (`queue_limit` for three queues).
pub(super) const LIMITS: [u32; 2] = [3_250, 7_200];

#[derive(Clone, Debug)]
pub(super) struct Tiresias {
    queues: [Vec<JobIndex>; LIMITS.len() + 1],
    /// The queue of each job.
    queue_of: Vec<u8>,
    /// Jobs that run, in order of arrival.
    running: Vec<JobIndex>,
    /// How many jobs came before each.
    arrival: Vec<u32>,
    arrivals: u32,
}

impl Tiresias {
    pub(super) fn new() -> Self {
        let queues = [Vec::new(), Vec::new(), Vec::new()];
        Self { queues, queue_of: Vec::new(), running: Vec::new(), arrival: Vec::new(), arrivals: 0 }
    }

    pub(super) fn arrive(&mut self, job: JobIndex) {
        let at = job as usize;
        if self.queue_of.len() <= at {
            self.queue_of.resize(at + 1, 0);
            self.arrival.resize(at + 1, 0);
        }
        (self.queue_of[at], self.arrival[at]) = (0, self.arrivals);
        self.arrivals += 1;
        self.queues[0].push(job);
    }

    /// A job that came had service before: it is in the queue to which that belongs.
    pub(super) fn resume(&mut self, job: JobIndex, jobs: &[Job]) {
        let j = &jobs[job as usize];
        let queue = LIMITS.iter().take_while(|limit| j.service_s() >= f64::from(**limit)).count();
        self.queues[0].retain(|other| *other != job);
        self.queues[queue].push(job);
        self.queue_of[job as usize] = queue as u8;
        if j.running {
            self.running.push(job);
        }
    }

    pub(super) fn leave(&mut self, job: JobIndex) {
        self.queues[usize::from(self.queue_of[job as usize])].retain(|j| *j != job);
        self.running.retain(|j| *j != job);
    }

    /// When the next job falls to another queue, if nothing changes before.
    pub(super) fn next_change_s(&self, now_s: f64, jobs: &[Job]) -> f64 {
        let falls = self.running.iter().filter_map(|&job| {
            let j = &jobs[job as usize];
            let limit = LIMITS.get(usize::from(self.queue_of[job as usize]))?;
            // Whole seconds of running, rounded up.
            Some(f64::from(limit.div_ceil(j.gpus)) - j.ran_s + now_s)
        });
        // Where rounding leaves a job a hair below its limit, time must go on nevertheless.
        falls.fold(f64::INFINITY, f64::min).max(now_s.next_up())
    }

    pub(super) fn decide(&mut self, jobs: &[Job], capacity: &Capacity, restart_s: impl Fn(&Job) -> f64, explain: bool, out: &mut Decision) {
        for &job in &self.running {
            let queue = usize::from(self.queue_of[job as usize]);
            if LIMITS.get(queue).is_some_and(|limit| jobs[job as usize].service_s() >= f64::from(*limit)) {
                self.queues[queue].retain(|j| *j != job);
                self.queues[queue + 1].push(job);
                self.queue_of[job as usize] += 1;
            }
        }
        let (mut left, mut before) = (capacity.gpus(), 0);
        let mut waiting = vec![];
        for queue in &mut self.queues {
            waiting.clear();
            let mut kept = 0;
            for at in 0..queue.len() {
                let job = queue[at];
                let j = &jobs[job as usize];
                if j.gpus > left {
                    waiting.push(job);
                } else {
                    left -= j.gpus;
                    out.runs.push(Run { job, group: out.runs.len() as u32, iteration_s: j.alone_s, restart_s: restart_s(j) });
                    if explain {
                        out.reasons.push(Reason::Rank { before, value: j.service_s() });
                    }
                    queue[kept] = job;
                    kept += 1;
                }
                before += 1;
            }
            // Those that wait go behind those that run.
            queue[kept..].copy_from_slice(&waiting);
        }
        self.running.clear();
        self.running.extend(out.runs.iter().map(|run| run.job));
        self.running.sort_unstable_by_key(|job| self.arrival[*job as usize]);
    }
}
