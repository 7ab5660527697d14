//! The fluid network: who sends, how fast, and when each transfer ends. Links are shared by [`fluid::Sharing`], as in every
//! prediction; what is added here are the queues and their marks.

use alloc::{boxed::Box, vec, vec::Vec};

use fluid::{SPEED_BITS_MAX, Sharing, WEIGHT_ONE, WeightedSharing};
use units::Rate;

use crate::testbed::{
    Transport,
    ecn::{EcnModel, Queue},
    layout::{Layout, Span},
};

/// A link is full when it carries its capacity but for one part in 2^20: speeds are whole numbers of 2^-30.
const FULL_BITS: u32 = 20;

/// Weights of MLTCP: at the beginning of the iteration's bytes, and what is added until their end (arXiv 2402.09589).
const WEIGHT_FIRST: u64 = WEIGHT_ONE / 4;
const WEIGHT_MORE: u64 = WEIGHT_ONE * 7 / 4;
/// A weight changes so often in an iteration: finer steps change no mean iteration by a thousandth.
const WEIGHT_STEPS: u128 = 32;

/// How links are shared.
#[derive(Debug)]
enum Shares<'a> {
    Fair(Box<Sharing<'a>>),
    Weighted(WeightedSharing<'a>),
}

/// What a job has sent of its iteration, in ns at full speed times Mbit/s.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// In the steps before.
    done: u128,
    /// In all steps.
    total: u128,
    /// The weight's step.
    step: u128,
    /// In all steps that ended since the run began.
    carried: u128,
    /// How much of its workload the job sends, in thousandths.
    permille: u32,
}

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
    sharing: Shares<'a>,
    progress: Vec<Progress>,
    queues: Vec<Queue>,
    /// Links for whose queues something changed at this instant, and whether each is among them.
    changed: Vec<u32>,
    is_changed: Vec<bool>,
}

impl<'a> Network<'a> {
    pub(crate) fn new(layout: &'a Layout, ecn: &EcnModel, transport: Transport) -> Self {
        let capacities = layout.overloadable.capacities();
        let jobs = layout.jobs.len();
        let total = |job: &Vec<Span>| job.iter().map(|span| work(layout, span)).sum();
        let progress = layout.jobs.iter().map(|job| Progress { total: total(job), permille: 1_000, ..Progress::default() }).collect();
        let sharing = match transport {
            Transport::Fair => Shares::Fair(Box::new(Sharing::new(&layout.overloadable, jobs))),
            Transport::Mltcp => Shares::Weighted(WeightedSharing::new(&layout.overloadable, jobs)),
        };
        Self {
            layout,
            sending: vec![None; layout.jobs.len()],
            sharing,
            progress,
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
        self.touch(span);
        match &mut self.sharing {
            Shares::Fair(sharing) => sharing.enter(job as usize, &span.demands),
            Shares::Weighted(sharing) => sharing.enter(job as usize, &span.demands),
        }
        // A length of 64 bits and 30 bits after the point fit 128 bits, so transfers need no rounding here.
        let left = (u128::from(span.length.0) << SPEED_BITS_MAX) * u128::from(self.progress[job as usize].permille) / 1_000;
        let sending = Sending { step, left, since: now, speed: self.layout.overloadable.one() };
        self.sending[job as usize] = Some(sending);
        let before = &self.layout.jobs[job as usize][..step as usize];
        let done = before.iter().map(|span| self.work(job, span)).sum();
        self.progress[job as usize].done = done;
        self.weigh(job);
        now.saturating_add(self.next(job, &sending))
    }

    /// Whether a transfer whose time has come only changes its weight; then when to look again. [`Network::settle`] has the last word.
    pub(crate) fn goes_on(&mut self, job: u32, now: u64) -> Option<u64> {
        if matches!(self.sharing, Shares::Fair(_)) {
            return None;
        }
        let sending = self.sending[job as usize].as_mut()?;
        sending.left = sending.left.saturating_sub(u128::from(now - sending.since) * u128::from(sending.speed));
        sending.since = now;
        let sending = *sending;
        if sending.left == 0 {
            return None;
        }
        self.weigh(job);
        Some(now.saturating_add(self.next(job, &sending)))
    }

    /// The work of a job's iteration that is done, at the beginning of `sending`.
    fn done(&self, job: u32, sending: &Sending) -> u128 {
        let span = self.span(job, sending.step);
        self.progress[job as usize].done + self.work(job, span).saturating_sub((sending.left >> SPEED_BITS_MAX) * rate(self.layout, span))
    }

    /// What a job has sent since the run began, in ns at full speed times Mbit/s.
    pub(crate) fn carried(&self, job: u32, now: u64) -> u128 {
        let before = self.progress[job as usize].carried;
        self.sending[job as usize].map_or(before, |sending| before + self.sent(job, &sending, now))
    }

    /// What of its step a transfer has sent.
    fn sent(&self, job: u32, sending: &Sending, now: u64) -> u128 {
        let left = sending.left.saturating_sub(u128::from(now - sending.since) * u128::from(sending.speed)) >> SPEED_BITS_MAX;
        let span = self.span(job, sending.step);
        self.work(job, span).saturating_sub(left * rate(self.layout, span))
    }

    /// What a step of a job sends now, in ns times Mbit/s.
    fn work(&self, job: u32, span: &Span) -> u128 {
        work(self.layout, span) * u128::from(self.progress[job as usize].permille) / 1_000
    }

    /// From the next step on a job sends so much of its workload.
    pub(crate) fn set_work(&mut self, job: u32, permille: u32) {
        let total = self.layout.jobs[job as usize].iter().map(|span| work(self.layout, span)).sum::<u128>();
        let progress = &mut self.progress[job as usize];
        (progress.permille, progress.total) = (permille, total * u128::from(permille) / 1_000);
    }

    /// Gives a job the weight of its progress.
    fn weigh(&mut self, job: u32) {
        let Some(sending) = self.sending[job as usize].filter(|_| matches!(self.sharing, Shares::Weighted(_))) else { return };
        let (done, total) = (self.done(job, &sending), self.progress[job as usize].total);
        let step = (done * WEIGHT_STEPS).checked_div(total).unwrap_or(0).min(WEIGHT_STEPS);
        self.progress[job as usize].step = step;
        let weight = WEIGHT_FIRST + WEIGHT_MORE * step as u64 / WEIGHT_STEPS as u64;
        if let Shares::Weighted(sharing) = &mut self.sharing {
            sharing.set_weight(job as usize, weight);
        }
    }

    /// Time until a transfer ends, or until its weight changes.
    fn next(&self, job: u32, sending: &Sending) -> u64 {
        let speed = u128::from(sending.speed);
        let mut time = sending.left.div_ceil(speed);
        let progress = &self.progress[job as usize];
        let rate = rate(self.layout, self.span(job, sending.step));
        if matches!(self.sharing, Shares::Weighted(_)) && rate > 0 {
            let boundary = ((progress.step + 1) * progress.total).div_ceil(WEIGHT_STEPS);
            let work = boundary.saturating_sub(self.done(job, sending));
            // One nanosecond of work more, so that rounding cannot end before the boundary.
            time = time.min(((work.div_ceil(rate) + 1) << SPEED_BITS_MAX).div_ceil(speed));
        }
        // An end in this very instant waits one nanosecond, so that time always moves on.
        u64::try_from(time.max(1)).unwrap_or(u64::MAX)
    }

    /// Ends a job's transfer.
    pub(crate) fn leave(&mut self, job: u32, now: u64) {
        let Some(sending) = self.sending[job as usize] else { return };
        self.progress[job as usize].carried += self.sent(job, &sending, now);
        self.sending[job as usize] = None;
        match &mut self.sharing {
            Shares::Fair(sharing) => sharing.leave(job as usize),
            Shares::Weighted(sharing) => sharing.leave(job as usize),
        }
        self.touch(self.span(job, sending.step));
    }

    /// Shares the links anew that changed at this instant, and all that hang together with them through jobs that send.
    /// Reports the new end of every transfer whose speed changed.
    pub(crate) fn settle(&mut self, now: u64, mut ends: impl FnMut(u32, u64)) {
        // Speeds come first and queues second: what is offered to a queue depends on the speeds of all of its jobs.
        match &mut self.sharing {
            Shares::Fair(sharing) => sharing.share_again(),
            Shares::Weighted(sharing) => sharing.share_again(),
        }
        // `next_moved` may name a job twice; `adjust` answers only where the speed differs, so the end is reported once.
        while let Some((job, speed)) = self.next_moved() {
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

    fn next_moved(&mut self) -> Option<(usize, u64)> {
        match &mut self.sharing {
            Shares::Fair(sharing) => sharing.next_moved(),
            Shares::Weighted(sharing) => sharing.next_moved(),
        }
    }

    /// The jobs that are Up on a link, each with its demand there.
    fn on(&self, link: u32) -> Vec<(usize, u64)> {
        match &self.sharing {
            Shares::Fair(sharing) => sharing.on(link).collect(),
            Shares::Weighted(sharing) => sharing.on(link).collect(),
        }
    }

    /// What is offered to a link in Mbit/s, and whether the link is full and holds somebody back. On a full link the queue sees what
    /// the NICs offer; elsewhere what passes the other links.
    fn offered(&self, link: u32) -> (u64, bool) {
        let one = self.layout.overloadable.one();
        let (mut demand, mut passes, mut carried, mut held) = (0_u64, 0_u64, 0_u128, false);
        for (job, rate) in self.on(link) {
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
        let sending = *sending;
        // Rounding up keeps a transfer from ending before its last byte; `fluid::Rates` gives no speed of 0.
        Some(now.saturating_add(self.next(job, &sending)))
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

/// What a step sends over the link that it loads most, in Mbit/s.
fn rate(layout: &Layout, span: &Span) -> u128 {
    layout.overloadable.used(&span.demands).iter().map(|(_, rate)| u128::from(*rate)).max().unwrap_or(0)
}

/// What a step sends, in ns times Mbit/s.
fn work(layout: &Layout, span: &Span) -> u128 {
    u128::from(span.length.0) * rate(layout, span)
}
