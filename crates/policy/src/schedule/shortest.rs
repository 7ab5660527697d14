//! SRTF and SRSF: the job that is done soonest goes first.
//!
//! The rules. Jobs are put in order of their remaining time alone (SRTF), or of that times their GPUs (SRSF, the remaining
//! service); equal ones keep the order that they had. Everybody may be preempted: in that order each job runs whose GPUs are
//! still free, and one that does not fit is skipped.

use alloc::vec::Vec;

use super::{
    hosts::{Capacity, Hosts},
    job::{Decision, Job, JobIndex, Reason, Run},
    order::resort,
};

/// The jobs in order, with what they were ordered by.
#[derive(Clone, Debug)]
pub(super) struct Shortest {
    /// Whether the time counts once per GPU.
    service: bool,
    order: Vec<JobIndex>,
    key: Vec<f64>,
    /// Whether a job ran or came since the last decision, by job.
    moved: Vec<bool>,
    scratch: Vec<JobIndex>,
    hosts: Hosts,
}

impl Shortest {
    pub(super) fn new(capacity: &Capacity, service: bool) -> Self {
        Self { service, order: Vec::new(), key: Vec::new(), moved: Vec::new(), scratch: Vec::new(), hosts: Hosts::new(capacity) }
    }

    pub(super) fn arrive(&mut self, job: JobIndex) {
        self.order.push(job);
        if self.key.len() <= job as usize {
            self.key.resize(job as usize + 1, 0.0);
            self.moved.resize(job as usize + 1, false);
        }
        self.moved[job as usize] = true;
    }

    pub(super) fn leave(&mut self, job: JobIndex) {
        self.order.retain(|j| *j != job);
    }

    /// A job that waits again has more left than when it last ran.
    pub(super) fn fall(&mut self, job: JobIndex) {
        self.moved[job as usize] = true;
    }

    pub(super) fn decide(&mut self, jobs: &[Job], capacity: &Capacity, restart_s: impl Fn(&Job) -> f64, explain: bool, out: &mut Decision) {
        let Self { service, order, key, moved, scratch, hosts } = self;
        for &job in &*order {
            let j = &jobs[job as usize];
            // A job that waits keeps its key.
            if j.running || moved[job as usize] {
                moved[job as usize] = true;
                key[job as usize] = if *service { j.remaining_s() * f64::from(j.gpus) } else { j.remaining_s() };
            }
        }
        resort(order, scratch, key, |job| moved[job as usize]);
        order.iter().for_each(|job| moved[*job as usize] = false);
        hosts.clear(capacity);
        for (&job, before) in order.iter().zip(0..) {
            if hosts.left == 0 && !explain {
                break;
            }
            let j = &jobs[job as usize];
            let reason = Reason::Rank { before, value: key[job as usize] };
            if hosts.take(j.gpus) {
                let group = out.runs.len() as u32;
                hosts.note(group, out);
                out.runs.push(Run { job, group, iteration_s: j.alone_s, restart_s: restart_s(j) });
                out.reasons.extend(explain.then_some(reason));
            } else {
                out.passed.extend(explain.then_some((job, reason)));
            }
        }
    }
}
