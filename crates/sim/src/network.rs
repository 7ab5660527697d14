//! The fluid network: who sends, how fast, and when each transfer ends.

use alloc::{vec, vec::Vec};

use units::Rate;

use crate::{
    ecn::{EcnModel, Queue},
    layout::{Layout, Span},
    share::{Demands, ONE, SPEED_BITS, fill},
};

/// A job's transfer under way.
#[derive(Clone, Copy, Debug)]
struct Sending {
    /// Index of the step.
    step: u32,
    /// What was left at `since`, in ns at full speed with [`SPEED_BITS`] after the point.
    left: u128,
    since: u64,
    speed: u64,
}

/// All transfers and all links that can be over capacity.
#[derive(Debug)]
pub(crate) struct Network<'a> {
    layout: &'a Layout,
    sending: Vec<Option<Sending>>,
    /// Jobs that send over each link.
    active: Vec<Vec<u32>>,
    queues: Vec<Queue>,
    /// Links whose jobs changed at this instant.
    changed: Vec<u32>,
    /// Number of each link within a filling, valid where `seen`.
    number: Vec<u32>,
    seen: Vec<bool>,
    job_seen: Vec<bool>,
    /// Fillings so far.
    pub(crate) fillings: u64,
}

impl<'a> Network<'a> {
    pub(crate) fn new(layout: &'a Layout, ecn: &EcnModel) -> Self {
        let links = layout.tight.len();
        Self {
            layout,
            sending: vec![None; layout.jobs.len()],
            active: vec![Vec::new(); links],
            queues: layout.tight.iter().map(|&c| Queue::new(ecn, Rate(c))).collect(),
            changed: Vec::new(),
            number: vec![0; links],
            seen: vec![false; links],
            job_seen: vec![false; layout.jobs.len()],
            fillings: 0,
        }
    }

    fn span(&self, job: u32, step: u32) -> &'a Span {
        &self.layout.jobs[job as usize][step as usize]
    }

    /// Begins a transfer; returns when it ends if no link holds it back. [`Network::settle`] has the last word.
    pub(crate) fn enter(&mut self, job: u32, step: u32, now: u64) -> u64 {
        let span = self.span(job, step);
        for &(link, _) in &span.demands {
            self.active[link as usize].push(job);
            self.changed.push(link);
        }
        let left = u128::from(span.length.0) << SPEED_BITS;
        self.sending[job as usize] = Some(Sending { step, left, since: now, speed: ONE });
        now.saturating_add(span.length.0)
    }

    /// Ends a job's transfer.
    pub(crate) fn leave(&mut self, job: u32) {
        let Some(sending) = self.sending[job as usize].take() else { return };
        for &(link, _) in &self.span(job, sending.step).demands {
            let active = &mut self.active[link as usize];
            if let Some(at) = active.iter().position(|j| *j == job) {
                active.swap_remove(at);
            }
            self.changed.push(link);
        }
    }

    /// Shares the links anew that changed at this instant, and all that hang together with them through jobs that send.
    /// Reports the new end of every transfer whose speed changed.
    pub(crate) fn settle(&mut self, now: u64, mut ends: impl FnMut(u32, u64)) {
        while let Some(start) = self.changed.pop() {
            if self.active[start as usize].is_empty() {
                self.queues[start as usize].update(now, 0, false);
                continue;
            }
            let (links, mut jobs) = self.component(start);
            // The order of arrival must not decide about rounding.
            jobs.sort_unstable();
            self.fillings += 1;
            let demands: Vec<Demands> = jobs.iter().map(|&j| self.renumbered(j)).collect();
            let capacities: Vec<u64> = links.iter().map(|&l| self.layout.tight[l as usize]).collect();
            let shares = fill(&demands, &capacities);
            let mut offered = vec![0_u64; links.len()];
            for ((&job, demands), &speed) in jobs.iter().zip(&demands).zip(&shares.speeds) {
                for &(l, rate) in demands {
                    // On a full link the queue sees what the NICs offer; elsewhere what passes the other links.
                    let passes = if shares.full[l as usize] { rate } else { ((u128::from(rate) * u128::from(speed)) >> SPEED_BITS) as u64 };
                    offered[l as usize] = offered[l as usize].saturating_add(passes);
                }
                if let Some(end) = self.adjust(job, now, speed) {
                    ends(job, end);
                }
            }
            for ((&l, &offered), &full) in links.iter().zip(&offered).zip(&shares.full) {
                self.queues[l as usize].update(now, offered, full);
                self.seen[l as usize] = false;
            }
            jobs.iter().for_each(|j| self.job_seen[*j as usize] = false);
            self.changed.retain(|l| links.binary_search(l).is_err());
        }
    }

    /// The links and jobs that hang together with a link, the links in order.
    fn component(&mut self, start: u32) -> (Vec<u32>, Vec<u32>) {
        let (mut links, mut jobs) = (vec![start], Vec::new());
        self.seen[start as usize] = true;
        let mut next = 0;
        while let Some(&link) = links.get(next) {
            next += 1;
            for &job in &self.active[link as usize] {
                if core::mem::replace(&mut self.job_seen[job as usize], true) {
                    continue;
                }
                jobs.push(job);
                let step = self.sending[job as usize].map_or(0, |s| s.step);
                for &(other, _) in &self.layout.jobs[job as usize][step as usize].demands {
                    if !core::mem::replace(&mut self.seen[other as usize], true) {
                        links.push(other);
                    }
                }
            }
        }
        links.sort_unstable();
        for (number, &link) in links.iter().enumerate() {
            self.number[link as usize] = number as u32;
        }
        (links, jobs)
    }

    fn renumbered(&self, job: u32) -> Demands {
        let step = self.sending[job as usize].map_or(0, |s| s.step);
        self.span(job, step).demands.iter().map(|&(l, rate)| (self.number[l as usize], rate)).collect()
    }

    /// Gives a transfer its speed; its new end if that changed.
    fn adjust(&mut self, job: u32, now: u64, speed: u64) -> Option<u64> {
        let sending = self.sending[job as usize].as_mut().filter(|s| s.speed != speed)?;
        let done = u128::from(now - sending.since) * u128::from(sending.speed);
        *sending = Sending { left: sending.left.saturating_sub(done), since: now, speed, ..*sending };
        // An end in this very instant waits one nanosecond, so that time always moves on.
        let time = sending.left.div_ceil(u128::from(speed)).max(1);
        Some(now.saturating_add(u64::try_from(time).unwrap_or(u64::MAX)))
    }

    /// All that decides how transfers and queues go on, relative to `now`.
    pub(crate) fn state(&self, now: u64, out: &mut Vec<u64>) {
        for sending in self.sending.iter().flatten() {
            let left = sending.left.saturating_sub(u128::from(now - sending.since) * u128::from(sending.speed));
            out.extend([u64::from(sending.step), left as u64, (left >> 64) as u64, sending.speed]);
        }
        self.queues.iter().for_each(|q| out.extend(q.state(now)));
    }

    pub(crate) fn areas(&self) -> Vec<u128> {
        self.queues.iter().map(Queue::area).collect()
    }

    /// Time goes on by `cycles` times `length`; see [`Queue::skip`].
    pub(crate) fn skip(&mut self, cycles: u64, length: u64, areas_before: &[u128]) {
        self.sending.iter_mut().flatten().for_each(|s| s.since += cycles * length);
        self.queues.iter_mut().zip(areas_before).for_each(|(q, before)| q.skip(cycles, length, *before));
    }

    /// Marks of a tight link up to `now`.
    pub(crate) fn marks(&mut self, link: u32, now: u64, ecn: &EcnModel) -> f64 {
        let queue = &mut self.queues[link as usize];
        queue.advance(now);
        queue.marks(ecn)
    }
}
