//! Tiresias: who has had little service goes first, in a few steps (discretised two-dimensional LAS, Gu et al., NSDI 2019).
//!
//! The rules, as the authors' public simulator has them. Service is GPUs times the time in which a job ran. There are three queues; a
//! job enters the first, and falls to the next when its service reaches [`LIMITS`]. Queues go in order, and within a queue jobs that
//! run stay ahead of those that wait; both are first in, first out. Everybody may be preempted; a job runs when enough GPUs are free
//! anywhere, and one that does not fit is skipped. So no job is kept out by fragments, and its speed does not depend on where it stands.
//!
//! Two rules are off, as in the runs that are reproduced ([`TiresiasOptions`]). Promotion: a job that has run, is in a later queue and has
//! waited for so many times the time that it ran goes back to the end of the first queue, and its service counts from zero again. Consolidation:
//! a job runs only on as few hosts as can hold it. The paper asks this of models with large tensors, which it finds by profiling;
//! no trace says which these are, so here it is asked of all jobs or of none.

use alloc::{vec, vec::Vec};

use super::{
    hosts::{Capacity, Hosts},
    job::{Decision, Job, JobIndex, Reason, Run},
};

/// Service in GPU seconds at which a job falls to the next queue (`queue_limit` for three queues).
pub(super) const LIMITS: [u32; 2] = [3_250, 7_200];

/// What of Tiresias is on beside its queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TiresiasOptions {
    /// A job goes back to the first queue when it has waited for so many thousandths of the time that it ran (the PromoteKnob of the paper);
    /// `None`: nobody does.
    pub promote_permille: Option<u32>,
    /// Jobs run only on as few hosts as can hold them.
    pub consolidate: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Tiresias {
    options: TiresiasOptions,
    queues: [Vec<JobIndex>; LIMITS.len() + 1],
    /// What is known of each job.
    known: Vec<Known>,
    /// Jobs that run, in order of arrival.
    running: Vec<JobIndex>,
    arrivals: u32,
    hosts: Hosts,
}

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    queue: u8,
    /// How many jobs came before it.
    arrival: u32,
    /// How long it had run when it was promoted last: that time does not count.
    forgiven_s: f64,
    /// Since when it waits, if it does.
    waits_since_s: f64,
}

impl Known {
    /// How long it has run since it was promoted, if it was.
    fn ran_s(&self, job: &Job) -> f64 {
        job.ran_s - self.forgiven_s
    }

    /// Its service that counts.
    fn service_s(&self, job: &Job) -> f64 {
        self.ran_s(job) * f64::from(job.gpus)
    }
}

impl Tiresias {
    pub(super) fn new(capacity: &Capacity, options: TiresiasOptions) -> Self {
        let queues = [Vec::new(), Vec::new(), Vec::new()];
        Self { options, queues, known: Vec::new(), running: Vec::new(), arrivals: 0, hosts: Hosts::new(capacity) }
    }

    pub(super) fn arrive(&mut self, job: JobIndex) {
        let at = job as usize;
        if self.known.len() <= at {
            self.known.resize(at + 1, Known::default());
        }
        self.known[at] = Known { arrival: self.arrivals, ..Known::default() };
        self.arrivals += 1;
        self.queues[0].push(job);
    }

    /// A job that came had service before: it is in the queue to which that belongs. How long it waited is not known, so that counts from now on.
    pub(super) fn resume(&mut self, now_s: f64, job: JobIndex, jobs: &[Job]) {
        let j = &jobs[job as usize];
        let queue = LIMITS.iter().take_while(|limit| j.service_s() >= f64::from(**limit)).count();
        self.queues[0].retain(|other| *other != job);
        self.queues[queue].push(job);
        let known = &mut self.known[job as usize];
        (known.queue, known.waits_since_s) = (queue as u8, now_s);
        if j.running {
            self.running.push(job);
        }
    }

    pub(super) fn leave(&mut self, job: JobIndex) {
        self.queues[usize::from(self.known[job as usize].queue)].retain(|j| *j != job);
        self.running.retain(|j| *j != job);
    }

    /// When the next job falls to another queue or is promoted, if nothing changes before.
    pub(super) fn next_change_s(&self, now_s: f64, jobs: &[Job]) -> f64 {
        let falls = self.running.iter().filter_map(|&job| {
            let (j, known) = (&jobs[job as usize], &self.known[job as usize]);
            let limit = LIMITS.get(usize::from(known.queue))?;
            // Whole seconds of running, rounded up.
            Some(f64::from(limit.div_ceil(j.gpus)) - known.ran_s(j) + now_s)
        });
        let rises = self.queues[1..].iter().flatten().filter_map(|job| self.promotion_s(*job, jobs));
        // Where rounding leaves a job a hair below its limit, time must go on nevertheless.
        falls.chain(rises).fold(f64::INFINITY, f64::min).max(now_s.next_up())
    }

    /// When a job of a later queue goes back to the first one, if it waits until then.
    fn promotion_s(&self, job: JobIndex, jobs: &[Job]) -> Option<f64> {
        let (j, known) = (&jobs[job as usize], &self.known[job as usize]);
        let ran_s = known.ran_s(j);
        let knob = f64::from(self.options.promote_permille.filter(|_| !j.running && ran_s > 0.0)?) / 1e3;
        Some(known.waits_since_s + knob * ran_s)
    }

    /// Jobs that have waited for long go back to the end of the first queue, in the order of their queues.
    fn promote(&mut self, now_s: f64, jobs: &[Job]) {
        if self.options.promote_permille.is_none() {
            return;
        }
        for queue in 1..self.queues.len() {
            let due = |job: &JobIndex| self.promotion_s(*job, jobs).is_some_and(|due_s| due_s <= now_s);
            let rise: Vec<JobIndex> = self.queues[queue].iter().copied().filter(due).collect();
            self.queues[queue].retain(|job| !rise.contains(job));
            for job in rise {
                let known = &mut self.known[job as usize];
                (known.queue, known.forgiven_s, known.waits_since_s) = (0, jobs[job as usize].ran_s, now_s);
                self.queues[0].push(job);
            }
        }
    }

    pub(super) fn decide(
        &mut self,
        now_s: f64,
        (jobs, capacity): (&[Job], &Capacity),
        restart_s: impl Fn(&Job) -> f64,
        explain: bool,
        out: &mut Decision,
    ) {
        for &job in &self.running {
            let known = &mut self.known[job as usize];
            let queue = usize::from(known.queue);
            if LIMITS.get(queue).is_some_and(|limit| known.service_s(&jobs[job as usize]) >= f64::from(*limit)) {
                known.queue += 1;
                self.queues[queue].retain(|j| *j != job);
                self.queues[queue + 1].push(job);
            }
        }
        self.promote(now_s, jobs);
        self.hosts.clear(capacity);
        let (mut left, mut before) = (capacity.gpus(), 0);
        let mut waiting = vec![];
        for queue in &mut self.queues {
            waiting.clear();
            let mut kept = 0;
            for at in 0..queue.len() {
                let job = queue[at];
                let j = &jobs[job as usize];
                let reason = Reason::Rank { before, value: self.known[job as usize].service_s(j) };
                let fits = j.gpus <= left && (!self.options.consolidate || self.hosts.take(j.gpus));
                if fits {
                    left -= j.gpus;
                    let group = out.runs.len() as u32;
                    if self.options.consolidate {
                        self.hosts.note(group, out);
                    }
                    out.runs.push(Run { job, group, iteration_s: j.alone_s, restart_s: restart_s(j) });
                    out.reasons.extend(explain.then_some(reason));
                    queue[kept] = job;
                    kept += 1;
                } else {
                    waiting.push(job);
                    out.passed.extend(explain.then_some((job, reason)));
                }
                before += 1;
            }
            // Those that wait go behind those that run.
            queue[kept..].copy_from_slice(&waiting);
        }
        let runs: Vec<JobIndex> = out.runs.iter().map(|run| run.job).collect();
        // Who ran until now, and does not go on, waits from now on.
        for job in core::mem::replace(&mut self.running, runs) {
            self.known[job as usize].waits_since_s = now_s;
        }
        self.running.sort_unstable_by_key(|job| self.known[*job as usize].arrival);
    }
}
