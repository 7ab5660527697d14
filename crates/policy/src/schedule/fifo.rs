//! FIFO: first come, first served.
//!
//! The rules, as the Tiresias authors' public simulator has them for its one queue. Jobs stand in the order in which they came. A job that
//! runs keeps its GPUs until it ends: nobody is preempted. The first job that waits runs when enough GPUs are free anywhere, then the
//! next; the first one that does not fit keeps all behind it waiting, though some of them would fit (no backfill). So nobody is overtaken,
//! and a large job at the head leaves GPUs idle. A job that lost its GPUs keeps its place in the order, before all that came later. Where
//! GPUs are gone, those of the order go on that still fit.

use alloc::vec::Vec;

use super::{
    hosts::Capacity,
    job::{Decision, Job, JobIndex, Reason, Run},
};

/// The jobs in the order in which they came.
#[derive(Clone, Debug, Default)]
pub(super) struct Fifo {
    order: Vec<JobIndex>,
}

impl Fifo {
    pub(super) fn arrive(&mut self, job: JobIndex) {
        self.order.push(job);
    }

    pub(super) fn leave(&mut self, job: JobIndex) {
        self.order.retain(|j| *j != job);
    }

    pub(super) fn decide(&self, jobs: &[Job], capacity: &Capacity, restart_s: impl Fn(&Job) -> f64, explain: bool, out: &mut Decision) {
        let of = |job: &JobIndex| &jobs[*job as usize];
        // Running jobs come first in this order, and only they hold GPUs.
        let held = self.order.iter().map(of).filter(|job| job.running).fold(0_u32, |sum, job| sum.saturating_add(job.gpus));
        let (mut stay, mut free) = (capacity.gpus().min(held), capacity.gpus().saturating_sub(held));
        let mut blocked = false;
        for (&job, before) in self.order.iter().zip(0..) {
            let j = of(&job);
            let room = if j.running { &mut stay } else { &mut free };
            let fits = j.gpus <= *room && (j.running || !blocked);
            let reason = Reason::Rank { before, value: j.submitted_s };
            if !fits {
                blocked |= !j.running;
                out.passed.extend(explain.then_some((job, reason)));
                continue;
            }
            *room -= j.gpus;
            out.runs.push(Run { job, group: out.runs.len() as u32, iteration_s: j.alone_s, restart_s: restart_s(j) });
            out.reasons.extend(explain.then_some(reason));
        }
    }
}
