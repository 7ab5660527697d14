//! The fluid network: who sends, how fast, and when each transfer ends. Links are shared by [`fluid::Sharing`], as in every
//! prediction; what is added here are the queues and their marks.

use alloc::{vec, vec::Vec};

use fluid::{SPEED_BITS_MAX, Sharing};
use units::Rate;

use crate::testbed::{
    ecn::{EcnModel, Queue},
    layout::{Layout, Span},
};

/// A link is full when it carries its capacity but for one part in 2^20: speeds are whole numbers of 2^-30.
const FULL_BITS: u32 = 20;

/// A job's transfer under way.
#[derive(Clone, Copy, Debug)]
struct Sending {
    /// Index of the step.
    step: u32,
    /// The rest at `since`, in ns at full speed with [`SPEED_BITS_MAX`] after the point.
    left: u128,
    since: u64,
    speed: u64,
}

/// All transfers and all links that can be over capacity.
#[derive(Debug)]
pub(crate) struct Network<'a> {
    layout: &'a Layout,
    sending: Vec<Option<Sending>>,
    sharing: Sharing<'a>,
    queues: Vec<Queue>,
    /// Links for whose queues something changed at this instant, and whether each is among them.
    changed: Vec<u32>,
    is_changed: Vec<bool>,
}

impl<'a> Network<'a> {
    pub(crate) fn new(layout: &'a Layout, ecn: &EcnModel) -> Self {
        let capacities = layout.overloadable.capacities();
        Self {
            layout,
            sending: vec![None; layout.jobs.len()],
            sharing: Sharing::new(&layout.overloadable, layout.jobs.len()),
            queues: capacities.iter().map(|&c| Queue::new(ecn, Rate(c))).collect(),
            changed: Vec::new(),
            is_changed: vec![false; capacities.len()],
        }
    }

    fn span(&self, job: u32, step: u32) -> &'a Span {
        &self.layout.jobs[job as usize][step as usize]
    }

    /// Notes that a step's links have other jobs, or jobs of another speed.
    fn touch(&mut self, span: &Span) {
        for &(link, _) in self.layout.overloadable.used(&span.demands) {
            // The flag keeps a link on the list once, however many of its jobs change at this instant.
            if !core::mem::replace(&mut self.is_changed[link as usize], true) {
                self.changed.push(link);
            }
        }
    }

    /// Begins a transfer; returns when it ends if no link holds it back. [`Network::settle`] has the last word.
    pub(crate) fn enter(&mut self, job: u32, step: u32, now: u64) -> u64 {
        let span = self.span(job, step);
        self.sharing.enter(job as usize, &span.demands);
        self.touch(span);
        // A length of 64 bits and 30 bits after the point fit 128 bits, so transfers need no rounding here.
        let left = u128::from(span.length.0) << SPEED_BITS_MAX;
        self.sending[job as usize] = Some(Sending { step, left, since: now, speed: self.layout.overloadable.one() });
        now.saturating_add(span.length.0)
    }

    /// Ends a job's transfer.
    pub(crate) fn leave(&mut self, job: u32) {
        let Some(sending) = self.sending[job as usize].take() else { return };
        self.sharing.leave(job as usize);
        self.touch(self.span(job, sending.step));
    }

    /// Shares the links anew that changed at this instant, and all that hang together with them through jobs that send.
    /// Reports the new end of every transfer whose speed changed.
    pub(crate) fn settle(&mut self, now: u64, mut ends: impl FnMut(u32, u64)) {
        // Speeds come first and queues second: what is offered to a queue depends on the speeds of all of its jobs.
        self.sharing.share_again();
        // `next_moved` may name a job twice; `adjust` answers only where the speed differs, so the end is reported once.
        while let Some((job, speed)) = self.sharing.next_moved() {
            let job = job as u32;
            if let Some(end) = self.adjust(job, now, speed) {
                ends(job, end);
                let step = self.sending[job as usize].map_or(0, |s| s.step);
                // A job that changes speed changes what it offers on each of its links, also on those that nobody entered or left.
                self.touch(self.span(job, step));
            }
        }
        while let Some(link) = self.changed.pop() {
            self.is_changed[link as usize] = false;
            let (offered, full) = self.offered(link);
            self.queues[link as usize].update(now, offered, full);
        }
    }

    /// What is offered to a link in Mbit/s, and whether the link is full and holds somebody back. On a full link the queue sees what
    /// the NICs offer; elsewhere what passes the other links.
    fn offered(&self, link: u32) -> (u64, bool) {
        let one = self.layout.overloadable.one();
        let (mut demand, mut passes, mut carried, mut held) = (0_u64, 0_u64, 0_u128, false);
        for (job, rate) in self.sharing.on(link) {
            // Sums fit 64 bits: at most 2^16 jobs (`JOBS_MAX`) with 2^40 Mbit/s each (`RATE_MAX`).
            let speed = self.sending[job].map_or(one, |s| s.speed);
            let part = u128::from(rate) * u128::from(speed);
            demand = demand.saturating_add(rate);
            passes = passes.saturating_add((part >> SPEED_BITS_MAX) as u64);
            carried += part;
            held |= speed < one;
        }
        let capacity = u128::from(self.layout.overloadable.capacities()[link as usize]) << SPEED_BITS_MAX;
        // A link can carry its capacity and slow nobody; what is offered then passes, and makes no queue.
        let full = held && carried + (capacity >> FULL_BITS) >= capacity;
        (if full { demand } else { passes }, full)
    }

    /// Gives a transfer its speed; its new end if that changed.
    fn adjust(&mut self, job: u32, now: u64, speed: u64) -> Option<u64> {
        let sending = self.sending[job as usize].as_mut().filter(|s| s.speed != speed)?;
        // The transfer went at the old speed until now; the new speed counts from here.
        let done = u128::from(now - sending.since) * u128::from(sending.speed);
        *sending = Sending { left: sending.left.saturating_sub(done), since: now, speed, ..*sending };
        // An end in this very instant waits one nanosecond, so that time always moves on.
        // Rounding up keeps a transfer from ending before its last byte; `fluid::Rates` gives no speed of 0.
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

    /// Marks of an overloadable link up to `now`.
    pub(crate) fn marks(&mut self, link: u32, now: u64, ecn: &EcnModel) -> f64 {
        let queue = &mut self.queues[link as usize];
        queue.advance(now);
        queue.marks(ecn)
    }
}
