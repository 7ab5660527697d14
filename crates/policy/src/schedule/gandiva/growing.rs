//! Jobs that grow onto idle GPUs of their hosts, and give them back.
//!
//! The rules. Growth is laid over what the other rules say, and none of them sees it: who comes is placed as if nobody had grown, and so are those who
//! move, part and gather. So no job waits, or takes turns, that would not where nobody grows. Who has grown onto GPUs that others get has them no more: it shrinks
//! to what it asked for in the same decision, the one that grew last first.
//!
//! A job grows that may ([`Job::gpus_max`]), has its GPUs for itself all the time and is in no pair; only while nobody waits, no host is
//! over-subscribed and there are no pairs; onto idle GPUs of hosts on which it stands already, as many as there are and it can use. A trace of ours
//! knows whether that pays: growing and shrinking cost a restart each. How long GPUs will stay idle is known to nobody, so they are taken to stay idle for as
//! long again as they have been. A job grows once what it would save in that time makes up for the [two restarts](RESTARTS): onto GPUs that are as good as
//! idle for ever at once, and hardly ever where it gains little. Who is due first grows first; of two that are due at once, the one that came first.
//!
//! What is there of the paper, and what is not. Only jobs that say so grow, in times of little use, within their hosts, after a delay, and they shrink as soon as
//! others need the GPUs. The paper gives no value of the delay; this one is ours. It grows jobs of one server up to that server's GPUs; here a job that
//! is spread over several hosts may grow on each of them. A job shrinks at once, where it would at the end of a mini-batch. The paper compares
//! mini-batches before and after and undoes what was worse; here the speed is known before ([`Profile::share_on`](crate::muri::Profile::share_on)).

use alloc::{vec, vec::Vec};

use super::{Gandiva, Stand, has};
use crate::schedule::{
    hosts::Cluster,
    job::{Job, JobIndex},
};

/// Restarts that a job pays because it grew: one when it grows, one when it shrinks.
const RESTARTS: f64 = 2.0;

#[derive(Clone, Debug)]
pub(super) struct Growing {
    /// Who has grown, in the order in which they did.
    grown: Vec<JobIndex>,
    /// GPUs of each host that jobs have grown onto.
    taken: Vec<u32>,
    /// Since when what is idle of each host has been.
    since_s: Vec<f64>,
    /// Hosts to which jobs came, or which they left, since the last decision.
    touched: Vec<u32>,
    /// When the next job grows, if nothing else happens.
    next_s: f64,
}

impl Growing {
    pub(super) fn new(cluster: Cluster) -> Self {
        let hosts = cluster.hosts as usize;
        Self { grown: Vec::new(), taken: vec![0; hosts], since_s: vec![0.0; hosts], touched: Vec::new(), next_s: f64::INFINITY }
    }

    /// What is idle of a host changes.
    pub(super) fn touch(&mut self, host: u32) {
        self.touched.push(host);
    }
}

/// Idle GPUs that a job could grow onto.
struct Offer {
    job: JobIndex,
    beyond: Vec<(u32, u32)>,
    /// When it does.
    due_s: f64,
}

impl Gandiva {
    /// When the policy would decide otherwise though no job comes or ends.
    pub(in crate::schedule) fn next_change_s(&self) -> f64 {
        self.growing.next_s
    }

    /// Shrinks who is in somebody's way, and lets jobs grow.
    pub(super) fn grow(&mut self, now_s: f64, jobs: &[Job], restart_s: &impl Fn(&Job) -> f64) {
        self.growing.next_s = f64::INFINITY;
        self.shrink();
        for host in self.growing.touched.drain(..) {
            self.growing.since_s[host as usize] = now_s;
        }
        let grows = |job: &JobIndex| jobs[*job as usize].gpus_max > jobs[*job as usize].gpus;
        let may: Vec<JobIndex> = if self.options.growth { self.placed.iter().copied().filter(grows).collect() } else { Vec::new() };
        if may.is_empty() || self.is_crowded() {
            return;
        }
        loop {
            let mut offers: Vec<Offer> = may.iter().filter_map(|job| self.offer(*job, jobs, restart_s)).collect();
            // Stable, so of equal ones the first that came stays first.
            offers.sort_by(|a, b| a.due_s.total_cmp(&b.due_s));
            self.growing.next_s = offers.first().map_or(f64::INFINITY, |offer| offer.due_s);
            if self.growing.next_s > now_s {
                return;
            }
            for due in offers.iter().take_while(|offer| offer.due_s <= now_s) {
                // Who grew before it may have left it fewer, which are worth waiting for longer.
                if let Some(offer) = self.offer(due.job, jobs, restart_s).filter(|offer| offer.due_s <= now_s) {
                    self.take(offer);
                }
            }
        }
    }

    /// Takes the GPUs that others got from those who had grown onto them. Who grew first keeps what is left.
    fn shrink(&mut self) {
        let before = core::mem::take(&mut self.growing.grown);
        if before.is_empty() {
            return;
        }
        self.growing.taken.fill(0);
        for job in before {
            let stand = &self.stands[job as usize];
            let stays = self.is_alone(stand) && stand.beyond.iter().all(|(host, gpus)| self.idle(*host) >= *gpus);
            let beyond = core::mem::take(&mut self.stands[job as usize].beyond);
            match stays {
                // Who left its hosts has nothing beyond.
                true if beyond.is_empty() => {}
                true => self.take(Offer { job, beyond, due_s: 0.0 }),
                false => beyond.iter().for_each(|(host, _)| self.growing.touch(*host)),
            }
        }
    }

    /// A job has these GPUs of its hosts too.
    fn take(&mut self, offer: Offer) {
        let stand = &mut self.stands[offer.job as usize];
        if stand.beyond.is_empty() {
            self.growing.grown.push(offer.job);
        }
        for (host, gpus) in offer.beyond {
            self.growing.taken[host as usize] += gpus;
            match stand.beyond.iter_mut().find(|(on, _)| *on == host) {
                Some((_, more)) => *more += gpus,
                None => stand.beyond.push((host, gpus)),
            }
        }
    }

    /// Idle GPUs of its hosts for a job that could use them; none where they would save it nothing.
    fn offer(&self, job: JobIndex, jobs: &[Job], restart_s: &impl Fn(&Job) -> f64) -> Option<Offer> {
        let (j, stand) = (&jobs[job as usize], &self.stands[job as usize]);
        if !self.is_alone(stand) {
            return None;
        }
        let (has, mut since_s) = (has(j, stand), 0.0_f64);
        let (mut missing, mut beyond) = (j.gpus_max.saturating_sub(has), Vec::new());
        for &(host, _) in &stand.hosts {
            let gpus = self.idle(host).min(missing);
            if gpus > 0 {
                missing -= gpus;
                since_s = since_s.max(self.growing.since_s[host as usize]);
                beyond.push((host, gpus));
            }
        }
        let then = beyond.iter().fold(has, |sum, (_, gpus)| sum + gpus);
        let saves = 1.0 - self.packing.share_on(j, then) / self.packing.share_on(j, has);
        (saves > 0.0).then(|| Offer { job, beyond, due_s: since_s + RESTARTS * restart_s(j) / saves })
    }

    /// GPUs of a host that nobody has.
    fn idle(&self, host: u32) -> u32 {
        self.spare(host).saturating_sub(self.growing.taken[host as usize])
    }

    /// Whether a job has its GPUs for itself.
    fn is_alone(&self, stand: &Stand) -> bool {
        let crowded = |host: &u32| self.load[*host as usize] > self.cluster.gpus_per_host;
        !stand.hosts.is_empty() && stand.partner.is_none() && !stand.hosts.iter().any(|(host, _)| crowded(host))
    }

    /// Whether anybody waits, or shares.
    fn is_crowded(&self) -> bool {
        let crowded = self.load.iter().any(|load| *load > self.cluster.gpus_per_host);
        crowded || !self.waiting.is_empty() || self.placed.iter().any(|job| self.stands[*job as usize].partner.is_some())
    }
}
