//! Muri: groups of jobs that share GPUs, one resource each at a time (Zhao et al., SIGCOMM 2022).
//!
//! The rules. Jobs are put in order of their remaining service (Muri-S), or of the service that they had where nobody knows how long
//! jobs run (Muri-L). In that order GPUs are reserved; each reservation chooses the job and the next ones of its size, as many as a
//! group may have. So up to four times as many jobs are chosen as fit. Jobs of one size are then matched in rounds: the weight of two groups is
//! the efficiency of their union, and matched pairs merge while the chosen jobs want more GPUs than there are. A group that takes
//! longer than its members one after the other is split again (autopack), and groups are admitted in order of their best member. The largest are
//! placed first; all members of a group stand on the same GPUs, and whoever is in no group waits.

mod bucket;
mod grouping;

use alloc::{collections::BTreeSet, vec::Vec};

use self::{
    bucket::Bucket,
    grouping::{Group, Grouping, Lean},
};
use super::{
    Settings,
    hosts::{Capacity, Hosts},
    job::{Decision, Job, JobIndex, Reason, Run, Trial},
};
use crate::muri::{GROUP_MAX, Order, Timing};

/// What of Muri is on, for ablations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MuriOptions {
    /// Order by remaining service (Muri-S) rather than by attained service (Muri-L).
    pub durations_known: bool,
    /// Most jobs in a group, from 1 to [`GROUP_MAX`].
    pub group_max: u8,
    /// Which order of its members a group runs in.
    pub order: Order,
    /// Match by weight; otherwise neighbours in the order form groups.
    pub matching: bool,
    /// Split groups that take longer than their members one after the other.
    pub autopack: bool,
    /// Offer other groups to who knows the network ([`Scheduler::alternatives`](super::Scheduler::alternatives)).
    pub offers: bool,
}

impl Default for MuriOptions {
    fn default() -> Self {
        Self { durations_known: true, group_max: GROUP_MAX as u8, order: Order::Best, matching: true, autopack: true, offers: true }
    }
}

/// What measured sharing costs four members where neighbours form groups, as the authors' simulator has it.
const SHARING_UNMATCHED: f64 = 1.3 / 1.015;

/// Biases that make the alternatives. They are small: the efficiency lost is below what meeting jobs lose on links.
const LEANS: [Lean; 6] =
    [Lean::Sends(0.03), Lean::Sends(-0.03), Lean::Drawn(0.02, 1), Lean::Drawn(0.02, 2), Lean::Drawn(0.02, 3), Lean::Drawn(0.02, 4)];

#[derive(Clone, Debug)]
pub(super) struct Muri {
    capacity: Capacity,
    options: MuriOptions,
    /// Jobs by GPUs, the most GPUs first.
    buckets: Vec<Bucket>,
    /// What the jobs were ordered by, by job.
    key: Vec<f64>,
    /// Whether a job ran or came since the last decision, by job.
    moved: Vec<bool>,
    /// Jobs that came since the last decision, in order.
    arrived: Vec<JobIndex>,
    /// By job: its place among all that came since the last decision, 1 being the first; 0 for one that was here before.
    newcomer: Vec<u32>,
    arrivals: u32,
    /// The buckets of the last decision in order, and the GPUs that the chosen jobs want.
    chosen: (Vec<usize>, u64),
    grouping: Grouping,
    hosts: Hosts,
    scratch: Vec<JobIndex>,
}

/// A group that wants GPUs.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    gpus: u32,
    group: Group,
    /// The value of its best member.
    value: f64,
}

impl Muri {
    pub(super) fn new(capacity: &Capacity, settings: &Settings, options: MuriOptions) -> Self {
        let mut grouping = Grouping::new(settings.timing, options, settings.profiles.clone());
        if !options.matching && settings.timing == Timing::Artifact {
            grouping.sharing_of_four = Some(SHARING_UNMATCHED);
        }
        Self {
            capacity: capacity.clone(),
            options,
            buckets: Vec::new(),
            key: Vec::new(),
            moved: Vec::new(),
            arrived: Vec::new(),
            newcomer: Vec::new(),
            arrivals: 0,
            chosen: (Vec::new(), 0),
            grouping,
            hosts: Hosts::new(capacity),
            scratch: Vec::new(),
        }
    }

    pub(super) fn arrive(&mut self, job: JobIndex) {
        if self.key.len() <= job as usize {
            self.key.resize(job as usize + 1, 0.0);
            self.moved.resize(job as usize + 1, false);
            self.newcomer.resize(job as usize + 1, 0);
        }
        self.moved[job as usize] = true;
        self.arrivals += 1;
        self.newcomer[job as usize] = self.arrivals;
        self.arrived.push(job);
    }

    pub(super) fn leave(&mut self, job: JobIndex, jobs: &[Job]) {
        if let Some(bucket) = self.buckets.iter_mut().find(|b| b.gpus == jobs[job as usize].gpus) {
            bucket.order.retain(|j| *j != job);
        }
        self.arrived.retain(|j| *j != job);
        self.newcomer[job as usize] = 0;
    }

    pub(super) fn decide(&mut self, jobs: &[Job], capacity: &Capacity, restart_s: impl Fn(&Job) -> f64, explain: bool, out: &mut Decision) {
        self.buckets.retain(|bucket| !bucket.order.is_empty());
        self.capacity.clone_from(capacity);
        self.sort(jobs);
        self.chosen = self.choose();
        self.group(jobs, restart_s, explain, out);
    }

    /// The last decision with groups that are nearly as efficient: some bring jobs together that send much or keep them apart, the others are drawn.
    pub(super) fn alternatives(&mut self, jobs: &[Job], restart_s: impl Fn(&Job) -> f64, explain: bool) -> Vec<Decision> {
        // Without matching nothing is weighed, and artifact mode is as published.
        if !self.options.matching || !self.options.offers || !self.grouping.may_lean() {
            return Vec::new();
        }
        let mut found = Vec::new();
        for lean in LEANS {
            let mut decision = Decision::default();
            self.grouping.lean = lean;
            self.group(jobs, &restart_s, explain, &mut decision);
            if !found.contains(&decision) {
                found.push(decision);
            }
        }
        self.grouping.lean = Lean::None;
        found
    }

    /// Groups the jobs that were chosen, and places the groups.
    fn group(&mut self, jobs: &[Job], restart_s: impl Fn(&Job) -> f64, explain: bool, out: &mut Decision) {
        let (order, required) = &self.chosen;
        let mut groups = if self.options.matching {
            self.grouping.by_matching(order, &self.buckets, jobs, *required, self.capacity.gpus())
        } else {
            self.grouping.by_neighbours(order, &self.buckets, *required, self.capacity.gpus())
        };
        if self.options.autopack {
            self.split(&mut groups, jobs, explain, out);
            self.admit(&mut groups);
        }
        self.place(&groups, jobs, restart_s, explain, out);
        if explain {
            self.say_waiting(out);
        }
    }

    /// Writes down who is in no group that runs, and what it was ordered by.
    fn say_waiting(&self, out: &mut Decision) {
        let (ranks, runs) = (self.ranks(), out.runs.iter().map(|run| run.job).collect::<BTreeSet<_>>());
        let waits = ranks.iter().zip(0..).filter(|((_, job), _)| !runs.contains(job));
        out.passed.extend(waits.map(|((value, job), before)| (*job, Reason::Rank { before, value: *value })));
    }

    /// All jobs in the order of what they are ordered by.
    fn ranks(&self) -> Vec<(f64, JobIndex)> {
        let jobs = self.buckets.iter().flat_map(|bucket| &bucket.order);
        let mut ranks: Vec<(f64, JobIndex)> = jobs.map(|job| (self.key[*job as usize], *job)).collect();
        ranks.sort_by(|a, b| a.0.total_cmp(&b.0));
        ranks
    }

    /// Puts the jobs of each bucket in order, arrivals behind equal ones.
    fn sort(&mut self, jobs: &[Job]) {
        for &job in &self.arrived {
            let gpus = jobs[job as usize].gpus;
            let at = self.buckets.partition_point(|bucket| bucket.gpus > gpus);
            if self.buckets.get(at).is_none_or(|bucket| bucket.gpus != gpus) {
                self.buckets.insert(at, Bucket::new(gpus));
            }
            self.buckets[at].order.push(job);
        }
        for bucket in &mut self.buckets {
            for &job in &bucket.order {
                let j = &jobs[job as usize];
                if j.running || self.moved[job as usize] {
                    self.moved[job as usize] = true;
                    self.key[job as usize] = value(j, self.options.durations_known);
                }
            }
            bucket.sort(&self.key, &self.moved, &mut self.scratch);
            bucket.order.iter().for_each(|job| self.moved[*job as usize] = false);
        }
    }

    /// Reserves GPUs in order and chooses jobs for them. Returns the buckets in order of their first job, and the GPUs that the chosen want.
    fn choose(&mut self) -> (Vec<usize>, u64) {
        let Self { buckets, key, arrived, newcomer, arrivals, hosts, options, capacity, .. } = self;
        // Equal values: jobs that were here before, then larger ones; among those of one size, as they stand in the bucket.
        // A job that arrived now stands behind all that were here.
        let rank = |bucket: &Bucket| {
            let job = *bucket.order.get(bucket.chosen)? as usize;
            Some((key[job], newcomer[job], core::cmp::Reverse(bucket.gpus)))
        };
        let before = |a: &(f64, u32, core::cmp::Reverse<u32>), b: &(f64, u32, core::cmp::Reverse<u32>)| {
            a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2))
        };
        buckets.iter_mut().for_each(|bucket| (bucket.chosen, bucket.reserved) = (0, 0));
        let mut order: Vec<usize> = (0..buckets.len()).filter(|at| !buckets[*at].order.is_empty()).collect();
        let heads: Vec<_> = buckets.iter().map(rank).collect();
        order.sort_by(|a, b| match (&heads[*a], &heads[*b]) {
            (Some(a), Some(b)) => before(a, b),
            _ => core::cmp::Ordering::Equal,
        });
        hosts.clear(capacity);
        let mut open: Vec<usize> = order.clone();
        loop {
            let next = open.iter().copied().filter_map(|at| rank(&buckets[at]).map(|rank| (at, rank))).min_by(|a, b| before(&a.1, &b.1));
            let Some((at, _)) = next else { break };
            if hosts.take(buckets[at].gpus) {
                let bucket = &mut buckets[at];
                bucket.reserved += 1;
                bucket.chosen = bucket.order.len().min(bucket.chosen + usize::from(options.group_max));
            } else {
                // No later job of that size fits either.
                open.retain(|other| *other != at);
            }
        }
        arrived.drain(..).for_each(|job| newcomer[job as usize] = 0);
        *arrivals = 0;
        let required = buckets.iter().map(|bucket| bucket.chosen as u64 * u64::from(bucket.gpus)).sum();
        (order, required)
    }

    /// Splits groups that take longer than their members one after the other.
    fn split(&mut self, groups: &mut Vec<Candidate>, jobs: &[Job], explain: bool, out: &mut Decision) {
        let mut kept = Vec::with_capacity(groups.len());
        for candidate in groups.drain(..) {
            let members = candidate.group.members();
            let one_by_one: f64 = members.iter().map(|job| jobs[*job as usize].alone_s).sum();
            // The best order is asked for even where groups run in the worst, as in the authors' simulator.
            let iteration_s = self.grouping.iteration_s(&candidate.group, Order::Best, jobs);
            if iteration_s / one_by_one > 1.0 {
                out.tried.extend(explain.then(|| Trial { members: members.to_vec(), rate: one_by_one / iteration_s, shares: false }));
                kept.extend(members.iter().map(|&job| Candidate { group: Group::of(job), ..candidate }));
            } else {
                kept.push(candidate);
            }
        }
        for candidate in &mut kept {
            candidate.value = candidate.group.members().iter().map(|job| self.key[*job as usize]).fold(f64::INFINITY, f64::min);
        }
        *groups = kept;
    }

    /// Keeps the groups that fit, in order of their best member.
    fn admit(&mut self, groups: &mut Vec<Candidate>) {
        groups.sort_by(|a, b| a.value.total_cmp(&b.value));
        self.hosts.clear(&self.capacity);
        let hosts = &mut self.hosts;
        groups.retain(|candidate| hosts.take(candidate.gpus));
    }

    /// Places groups, the largest first and of equally large ones that with the first job in order.
    fn place(&mut self, groups: &[Candidate], jobs: &[Job], restart_s: impl Fn(&Job) -> f64, explain: bool, out: &mut Decision) {
        let mut group_of: Vec<(JobIndex, u32)> =
            groups.iter().zip(0..).flat_map(|(candidate, at)| candidate.group.members().iter().map(move |job| (*job, at))).collect();
        group_of.sort_unstable();
        self.hosts.clear(&self.capacity);
        let mut placed: Vec<Option<u32>> = alloc::vec![None; groups.len()];
        let mut next_group = 0;
        let ranks = if explain { self.ranks() } else { Vec::new() };
        for bucket in &self.buckets {
            // Jobs that were not chosen are in no group.
            for &job in &bucket.order[..bucket.chosen] {
                let Ok(found) = group_of.binary_search_by_key(&job, |entry| entry.0) else { continue };
                let at = group_of[found].1 as usize;
                let group = &groups[at].group;
                if placed[at].is_none() {
                    if !self.hosts.take(bucket.gpus) {
                        continue;
                    }
                    self.hosts.note(next_group, out);
                    placed[at] = Some(next_group);
                    next_group += 1;
                }
                let Some(number) = placed[at] else { continue };
                let restart_s = group.members().iter().map(|member| restart_s(&jobs[*member as usize])).sum();
                let iteration_s = self.grouping.iteration_s(group, self.options.order, jobs);
                out.runs.push(Run { job, group: number, iteration_s, restart_s });
                if explain {
                    let members = group.members().len() as u32;
                    out.reasons.push(match members {
                        1 => {
                            let value = self.key[job as usize];
                            Reason::Rank { before: ranks.partition_point(|(other, _)| *other < value) as u32, value }
                        }
                        _ => Reason::Shares { members, efficiency: self.grouping.efficiency(group, jobs) },
                    });
                }
            }
        }
    }
}

/// What jobs are ordered by.
fn value(job: &Job, durations_known: bool) -> f64 {
    match (durations_known, job.started) {
        (true, true) => job.remaining_s() * f64::from(job.gpus),
        // Before it runs, a job is as long as it was declared.
        (true, false) => job.declared_s * f64::from(job.gpus),
        (false, _) => job.service_s(),
    }
}
