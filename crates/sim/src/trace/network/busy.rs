//! How busy links were over a trace, and who sent over them when.

use alloc::{collections::BTreeMap, vec, vec::Vec};

use policy::schedule::JobIndex;
use units::LinkId;

use super::sender::Sender;

/// Links that are named.
const NAMED: usize = 12;

/// Most stays that are remembered, 24 bytes each; of more the first.
const STAYS_MAX: usize = 1_000_000;

/// From when to when a job that sends over a link stood where it does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkStay {
    /// The link.
    pub link: LinkId,
    /// The job, by its place in the trace.
    pub job: JobIndex,
    /// From when on, in seconds of the trace's clock.
    pub from_s: f64,
    /// Until when.
    pub until_s: f64,
}

/// What links carried.
#[derive(Debug)]
pub(super) struct Busy {
    /// By link: megabits that it carried.
    carried: Vec<f64>,
    /// What links carry now, in Mbit/s over whole iterations, and for how long they have.
    now: BTreeMap<LinkId, f64>,
    since_s: f64,
    now_s: f64,
    /// Who sends over which link now, and since when.
    sends: BTreeMap<(LinkId, JobIndex), f64>,
    stays: Vec<LinkStay>,
}

impl Busy {
    /// Links that carry nothing.
    pub(super) fn new(links: usize) -> Self {
        let (sends, stays) = (BTreeMap::new(), Vec::new());
        Self { carried: vec![0.0; links], now: BTreeMap::new(), since_s: 0.0, now_s: 0.0, sends, stays }
    }

    pub(super) fn pass(&mut self, seconds: f64) {
        self.since_s += seconds;
        self.now_s += seconds;
    }

    /// From now on these send, each with how many times as long its iterations are, and the jobs that it is.
    pub(super) fn send<'s>(&mut self, senders: impl Iterator<Item = (&'s Sender, f64, &'s [JobIndex])>) {
        let since_s = core::mem::take(&mut self.since_s);
        for (link, rate) in core::mem::take(&mut self.now) {
            self.carried[link.0 as usize] += rate * since_s;
        }
        let before = core::mem::take(&mut self.sends);
        for (sender, longer, jobs) in senders {
            let period = sender.job.period.0 as f64 * longer;
            for &(link, demand) in &sender.demands.links {
                let since = |job: &JobIndex| ((link, *job), before.get(&(link, *job)).copied().unwrap_or(self.now_s));
                self.sends.extend(jobs.iter().map(since));
                let phases = &sender.demands.demands[demand as usize];
                let sent: f64 = phases.iter().map(|phase| (phase.end.0 - phase.start.0) as f64 * phase.rate.0 as f64).sum();
                *self.now.entry(link).or_default() += sent / period;
            }
        }
        let until_s = self.now_s;
        let gone = before.into_iter().filter(|(key, from_s)| until_s > *from_s && !self.sends.contains_key(key));
        let left = STAYS_MAX.saturating_sub(self.stays.len());
        self.stays.extend(gone.take(left).map(|((link, job), from_s)| LinkStay { link, job, from_s, until_s }));
    }

    /// Who sent over these links until `now_s`, link by link in their order, and in order of time.
    pub(super) fn stays(&self, links: &[(LinkId, f64)], now_s: f64) -> Vec<LinkStay> {
        let still = self.sends.iter().map(|(&(link, job), &from_s)| LinkStay { link, job, from_s, until_s: now_s });
        let all: Vec<LinkStay> = self.stays.iter().copied().chain(still.filter(|stay| now_s > stay.from_s)).collect();
        let of = |(link, _): &(LinkId, f64)| {
            let mut own: Vec<LinkStay> = all.iter().filter(|stay| stay.link == *link).copied().collect();
            own.sort_by(|a, b| a.from_s.total_cmp(&b.from_s).then(a.job.cmp(&b.job)));
            own
        };
        links.iter().flat_map(of).collect()
    }

    /// The busiest links, each with the share of its capacity that it carried over that time; the busiest first.
    pub(super) fn busiest(&self, over_s: f64, capacity: impl Fn(LinkId) -> u64) -> Vec<(LinkId, f64)> {
        let last = |link: LinkId| self.now.get(&link).map_or(0.0, |rate| rate * self.since_s);
        let share = |(carried, link): (&f64, u32)| {
            let link = LinkId(link);
            (link, (carried + last(link)) / over_s / capacity(link).max(1) as f64)
        };
        let mut links: Vec<(LinkId, f64)> = self.carried.iter().zip(0..).map(share).filter(|(_, share)| *share > 0.0).collect();
        links.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        links.truncate(NAMED);
        links
    }
}
