//! How busy links were over a trace.

use alloc::{collections::BTreeMap, vec, vec::Vec};

use units::LinkId;

use super::sender::Sender;

/// Links that are named.
const NAMED: usize = 12;

/// What links carried.
#[derive(Debug)]
pub(super) struct Busy {
    /// By link: megabits that it carried.
    carried: Vec<f64>,
    /// What links carry now, in Mbit/s over whole iterations, and for how long they have.
    now: BTreeMap<LinkId, f64>,
    since_s: f64,
}

impl Busy {
    /// Links that carry nothing.
    pub(super) fn new(links: usize) -> Self {
        Self { carried: vec![0.0; links], now: BTreeMap::new(), since_s: 0.0 }
    }

    pub(super) fn pass(&mut self, seconds: f64) {
        self.since_s += seconds;
    }

    /// From now on these send, each with how many times as long its iterations are.
    pub(super) fn send<'s>(&mut self, senders: impl Iterator<Item = (&'s Sender, f64)>) {
        let since_s = core::mem::take(&mut self.since_s);
        for (link, rate) in core::mem::take(&mut self.now) {
            self.carried[link.0 as usize] += rate * since_s;
        }
        for (sender, longer) in senders {
            let period = sender.job.period.0 as f64 * longer;
            for &(link, demand) in &sender.demands.links {
                let phases = &sender.demands.demands[demand as usize];
                let sent: f64 = phases.iter().map(|phase| (phase.end.0 - phase.start.0) as f64 * phase.rate.0 as f64).sum();
                *self.now.entry(link).or_default() += sent / period;
            }
        }
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
