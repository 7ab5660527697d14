//! Gandiva: jobs are time-sliced on few hosts of their kind, packed where that pays, and moved when room appears (Xiao et al., OSDI 2018).
//!
//! The rules. A host is of the kind of its first job: the number of GPUs that this asks for. A job that comes is put (Algorithm 1) on the
//! host of its kind with the least load, if it has room; else on idle hosts; else on whatever GPUs are free, also of several hosts; else it
//! over-subscribes the least-loaded hosts of its kind; and where there are none it waits. Nobody is stopped for others: jobs of an
//! over-subscribed host take its GPUs in turns of a minute, each its share by its [weight](Job::weight) (`turns.rs`). When a job leaves, one of the most crowded host moves to the
//! GPUs that are free, and else a job that is spread over hosts moves onto one. What is then left of hosts is gathered: the jobs of the
//! emptiest host move to fuller ones of its kind, as long as a host has [`FRAGMENT`] of its GPUs free and some job of it has room elsewhere.
//! On a host that is still over-subscribed jobs are packed: those that use the GPU least are tried with each other, and a pair stays
//! when together it does more than the two would in turns (measured throughputs over those alone, summed, above 1); a pair that
//! failed is not tried again. Pairs are for crowded times: when GPUs come free for which nobody waits, pairs part, the latest first, on their
//! own host if that has room, and else by a member that moves. When a cluster is under-used, jobs that may grow take idle GPUs of their own hosts
//! (`growing.rs`).
//!
//! What is there of the paper, and what is not. Algorithm 1 is as published. Turns are not played one by one: a job makes progress by its share at
//! all times, which differs from turns of a minute by less than one of them, and [`SWITCH`] is what suspending at the end of a mini-batch costs; jobs
//! weigh the same unless a trace of our own says otherwise, and there are no jobs of higher priority. Introspection is exact: what a pair does is computed
//! as the timing of groups has it, so that a trial costs nothing and none has to be undone; memory is in nobody's way, because no
//! trace has any. A job that moves pays its restart, of 4 to 46 s for the models of the traces, where the paper's toolkits need 1 to 10 s.
//! Interference on a host's bus is not modelled.

mod growing;
mod packing;
mod turns;

use alloc::{vec, vec::Vec};

use self::{growing::Growing, packing::Packing, turns::Turns};
use super::{
    Settings,
    hosts::{Capacity, Cluster},
    job::{Decision, Job, JobIndex, Place, Reason, Run, Trial},
};

/// The share of a host's GPUs that must be free for its jobs to be gathered elsewhere: 3 of 4, as published.
const FRAGMENT: (u32, u32) = (3, 4);

/// What of Gandiva is on, for ablations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GandivaOptions {
    /// Pairs share GPUs where that pays.
    pub packing: bool,
    /// Jobs move to GPUs that became free.
    pub migration: bool,
    /// Jobs that may grow do so onto idle GPUs of their hosts.
    pub growth: bool,
}

impl Default for GandivaOptions {
    fn default() -> Self {
        Self { packing: true, migration: true, growth: true }
    }
}

/// What suspending and resuming costs a turn of a minute: 2 % of it at most, as published.
const SWITCH: f64 = 1.02;

/// Where a job stands; no hosts while it waits.
#[derive(Clone, Debug, Default)]
struct Stand {
    /// Hosts, and GPUs of each.
    hosts: Vec<(u32, u32)>,
    partner: Option<JobIndex>,
    /// What it has grown onto: hosts of it, and GPUs of each beyond those that it asked for.
    beyond: Vec<(u32, u32)>,
}

#[derive(Clone, Debug)]
pub(super) struct Gandiva {
    cluster: Cluster,
    capacity: Capacity,
    /// GPUs that jobs want of each host; a pair counts once.
    load: Vec<u32>,
    /// GPUs of the first job of each host, 0 for an idle one.
    kind: Vec<u32>,
    stands: Vec<Stand>,
    /// Jobs on hosts, in order of arrival.
    placed: Vec<JobIndex>,
    waiting: Vec<JobIndex>,
    arrived: Vec<JobIndex>,
    /// A job left since the last decision.
    left: bool,
    options: GandivaOptions,
    packing: Packing,
    growing: Growing,
}

impl Gandiva {
    pub(super) fn new(cluster: Cluster, settings: &Settings, options: GandivaOptions) -> Self {
        let hosts = cluster.hosts as usize;
        Self {
            cluster,
            capacity: Capacity::new(cluster),
            load: vec![0; hosts],
            kind: vec![0; hosts],
            stands: Vec::new(),
            placed: Vec::new(),
            waiting: Vec::new(),
            arrived: Vec::new(),
            left: false,
            options,
            packing: Packing::new(settings),
            growing: Growing::new(cluster),
        }
    }

    pub(super) fn arrive(&mut self, job: JobIndex) {
        if self.stands.len() <= job as usize {
            self.stands.resize(job as usize + 1, Stand::default());
        }
        self.arrived.push(job);
    }

    pub(super) fn leave(&mut self, job: JobIndex) {
        self.unpack(job);
        self.take_off(job);
        self.placed.retain(|j| *j != job);
        self.waiting.retain(|j| *j != job);
        self.left = true;
    }

    pub(super) fn decide(
        &mut self,
        now_s: f64,
        (jobs, capacity): (&[Job], &Capacity),
        restart_s: impl Fn(&Job) -> f64,
        explain: bool,
        out: &mut Decision,
    ) {
        self.capacity.clone_from(capacity);
        let waiting: Vec<JobIndex> = self.waiting.drain(..).chain(self.arrived.drain(..)).collect();
        for job in waiting {
            match self.room(jobs[job as usize].gpus) {
                Some(hosts) => self.put(job, hosts, jobs[job as usize].gpus),
                None => self.waiting.push(job),
            }
        }
        if core::mem::take(&mut self.left) {
            if self.options.migration {
                self.migrate(jobs);
            }
            self.part(jobs);
            if self.options.migration {
                self.gather(jobs);
            }
        }
        if explain {
            self.say_pairs(jobs, out);
        }
        if self.options.packing {
            self.pack(jobs, explain, out);
        }
        self.grow(now_s, jobs, &restart_s);
        self.say(jobs, restart_s, explain, out);
        if explain {
            self.say_waiting(jobs, out);
        }
    }

    /// Writes down who runs.
    fn say(&self, jobs: &[Job], restart_s: impl Fn(&Job) -> f64, explain: bool, out: &mut Decision) {
        out.groups_share = true;
        let turns = Turns::of(self, jobs);
        for at in 0..self.placed.len() {
            let job = self.placed[at];
            let (j, stand) = (&jobs[job as usize], &self.stands[job as usize]);
            // A pair is the group of its earlier member.
            let group = stand.partner.map_or(job, |partner| partner.min(job));
            let share = turns.share(self, job, jobs);
            let has = has(j, stand);
            let alone_s = || if has > j.gpus { j.alone_s * self.packing.share_on(j, has) } else { j.alone_s };
            let unit_s = stand.partner.map_or_else(alone_s, |partner| self.packing.pair_s(j, &jobs[partner as usize]));
            let iteration_s = if share < 1.0 { unit_s / share * SWITCH } else { unit_s };
            out.runs.push(Run { job, group, iteration_s, restart_s: restart_s(j) });
            if group == job {
                let beyond = |host| stand.beyond.iter().find(|(on, _)| *on == host).map_or(0, |(_, gpus)| *gpus);
                out.places.extend(stand.hosts.iter().map(|&(host, gpus)| Place { group, host, gpus: gpus + beyond(host) }));
            }
            if explain {
                out.reasons.push(if has > j.gpus {
                    Reason::Grown { asked: j.gpus, has, share: self.packing.share_on(j, has) }
                } else {
                    Reason::Turns { members: 1 + u32::from(stand.partner.is_some()), share }
                });
            }
        }
    }

    /// Writes down who waits: there is no host of its kind, and nothing is left of others.
    fn say_waiting(&self, jobs: &[Job], out: &mut Decision) {
        let ran = self.placed.len() as u32;
        let waits = self.waiting.iter().zip(ran..);
        out.passed.extend(waits.map(|(job, before)| (*job, Reason::Rank { before, value: jobs[*job as usize].submitted_s })));
    }

    /// Writes down the pairs that there are, and what they do together.
    fn say_pairs(&self, jobs: &[Job], out: &mut Decision) {
        let pairs = self
            .placed
            .iter()
            .filter_map(|&job| self.stands[job as usize].partner.filter(|partner| job < *partner).map(|partner| (job, partner)));
        out.tried.extend(pairs.map(|(job, other)| {
            let rate = self.packing.rate(&jobs[job as usize], &jobs[other as usize]);
            Trial { members: vec![job, other], rate, shares: true }
        }));
    }

    /// Where Algorithm 1 puts a job of this many GPUs.
    fn room(&self, gpus: u32) -> Option<Vec<(u32, u32)>> {
        let per_host = self.cluster.gpus_per_host;
        let wants = gpus.div_ceil(per_host.max(1)) as usize;
        let part = |at: usize| if at + 1 < wants { per_host } else { gpus - per_host * (wants as u32 - 1) };
        let mut own: Vec<u32> = (0..self.cluster.hosts).filter(|host| self.kind[*host as usize] == gpus).collect();
        own.sort_by_key(|host| self.load[*host as usize]);
        let on = |hosts: &[u32]| hosts.iter().zip(0..).map(|(host, at)| (*host, part(at))).collect::<Vec<_>>();
        let fits = |hosts: &[(u32, u32)]| hosts.iter().all(|(host, gpus)| self.load[*host as usize] + gpus <= per_host);
        let least = (own.len() >= wants).then(|| on(&own[..wants]));
        if let Some(hosts) = least.as_ref().filter(|hosts| fits(hosts)) {
            return Some(hosts.clone());
        }
        let idle: Vec<u32> =
            (0..self.cluster.hosts).filter(|host| self.load[*host as usize] == 0 && self.capacity.gpus_of(*host) > 0).take(wants).collect();
        if idle.len() == wants {
            return Some(on(&idle));
        }
        self.free(gpus).or(least)
    }

    /// Free GPUs of any hosts: of one that has enough, the fullest, and else of as few as it takes.
    fn free(&self, gpus: u32) -> Option<Vec<(u32, u32)>> {
        let spare = |host: u32| self.spare(host);
        let enough = (0..self.cluster.hosts).filter(|host| spare(*host) >= gpus).min_by_key(|host| spare(*host));
        if let Some(host) = enough {
            return Some(vec![(host, gpus)]);
        }
        let mut hosts: Vec<u32> = (0..self.cluster.hosts).filter(|host| spare(*host) > 0).collect();
        hosts.sort_by_key(|host| core::cmp::Reverse(spare(*host)));
        let (mut missing, mut taken) = (gpus, Vec::new());
        for host in hosts {
            let part = spare(host).min(missing);
            taken.push((host, part));
            missing -= part;
            if missing == 0 {
                return Some(taken);
            }
        }
        None
    }

    /// GPUs of a host that nobody wants.
    fn spare(&self, host: u32) -> u32 {
        self.capacity.gpus_of(host).saturating_sub(self.load[host as usize])
    }

    fn put(&mut self, job: JobIndex, hosts: Vec<(u32, u32)>, gpus: u32) {
        for &(host, part) in &hosts {
            if self.load[host as usize] == 0 {
                self.kind[host as usize] = gpus;
            }
            self.load[host as usize] += part;
            self.growing.touch(host);
        }
        self.stands[job as usize].hosts = hosts;
        if !self.placed.contains(&job) {
            self.placed.push(job);
        }
    }

    fn take_off(&mut self, job: JobIndex) {
        let Stand { hosts, beyond, .. } = &mut self.stands[job as usize];
        // Its hosts have what it grew onto too.
        beyond.clear();
        for (host, part) in core::mem::take(hosts) {
            self.load[host as usize] -= part;
            self.growing.touch(host);
            if self.load[host as usize] == 0 {
                self.kind[host as usize] = 0;
            }
        }
    }

    /// Ends a pair; the other member wants GPUs of its own again.
    fn unpack(&mut self, job: JobIndex) {
        if let Some(partner) = self.stands[job as usize].partner.take() {
            self.stands[partner as usize].partner = None;
            for &(host, part) in &self.stands[partner as usize].hosts {
                self.load[host as usize] += part;
                self.growing.touch(host);
            }
        }
    }

    /// Moves jobs from crowded hosts to free GPUs, then spread jobs onto one host.
    fn migrate(&mut self, jobs: &[Job]) {
        let per_host = self.cluster.gpus_per_host;
        while let Some(crowded) =
            (0..self.cluster.hosts).filter(|h| self.load[*h as usize] > per_host).max_by_key(|h| self.load[*h as usize])
        {
            let stands = |job: &&JobIndex| {
                let stand = &self.stands[**job as usize];
                stand.partner.is_none() && stand.hosts.iter().any(|(host, _)| *host == crowded)
            };
            // The latest that came moves, so the others keep their places.
            let moves = self.placed.iter().rev().filter(stands).find_map(|&job| self.free(jobs[job as usize].gpus).map(|to| (job, to)));
            let Some((job, to)) = moves else { break };
            self.take_off(job);
            self.put(job, to, jobs[job as usize].gpus);
        }
        for at in 0..self.placed.len() {
            let job = self.placed[at];
            let (gpus, stand) = (jobs[job as usize].gpus, &self.stands[job as usize]);
            if stand.partner.is_some() || stand.hosts.len() <= gpus.div_ceil(per_host.max(1)) as usize {
                continue;
            }
            let whole = (0..self.cluster.hosts).find(|host| self.spare(*host) >= gpus);
            if let Some(host) = whole {
                self.take_off(job);
                self.put(job, vec![(host, gpus)], gpus);
            }
        }
    }

    /// Ends pairs whose members can both have GPUs of their own: each then runs as it does alone.
    fn part(&mut self, jobs: &[Job]) {
        let mut spare: u32 = (0..self.cluster.hosts).map(|host| self.spare(host)).sum();
        for at in (0..self.placed.len()).rev() {
            let job = self.placed[at];
            let (gpus, stand) = (jobs[job as usize].gpus, &self.stands[job as usize]);
            if stand.partner.is_none() || gpus > spare {
                continue;
            }
            let here = stand.hosts.iter().all(|&(host, part)| self.spare(host) >= part);
            let elsewhere = if here || !self.options.migration { None } else { self.free(gpus) };
            if here || elsewhere.is_some() {
                self.unpack(job);
                spare -= gpus;
            }
            if let Some(hosts) = elsewhere {
                self.take_off(job);
                self.put(job, hosts, gpus);
            }
        }
    }

    /// Moves the jobs of hosts of which little is used to fuller ones of their kind.
    fn gather(&mut self, jobs: &[Job]) {
        let per_host = self.cluster.gpus_per_host;
        let sparse = |load: u32| load > 0 && (per_host.saturating_sub(load)) * FRAGMENT.1 >= per_host * FRAGMENT.0;
        let mut sources: Vec<u32> = (0..self.cluster.hosts).filter(|host| sparse(self.load[*host as usize])).collect();
        sources.sort_by_key(|host| self.load[*host as usize]);
        for source in sources {
            // Another source may have filled it.
            if !sparse(self.load[source as usize]) {
                continue;
            }
            let alone = |job: &&JobIndex| {
                let stand = &self.stands[**job as usize];
                stand.partner.is_none() && stand.hosts.len() == 1 && stand.hosts[0].0 == source
            };
            let movers: Vec<JobIndex> = self.placed.iter().filter(alone).copied().collect();
            for job in movers {
                let gpus = jobs[job as usize].gpus;
                let (load, kind) = (&self.load, &self.kind);
                let fuller = |host: &u32| {
                    let (to, from) = (load[*host as usize], load[source as usize]);
                    *host != source && kind[*host as usize] == kind[source as usize] && to >= from && self.spare(*host) >= gpus
                };
                // The fullest that has room; of equal ones the first.
                let target = (0..self.cluster.hosts).filter(fuller).min_by_key(|host| self.spare(*host));
                if let Some(host) = target {
                    self.take_off(job);
                    self.put(job, vec![(host, gpus)], gpus);
                }
            }
        }
    }

    /// Packs jobs of over-subscribed hosts in pairs that do more together than in turns.
    fn pack(&mut self, jobs: &[Job], explain: bool, out: &mut Decision) {
        for host in 0..self.cluster.hosts {
            if self.load[host as usize] <= self.cluster.gpus_per_host {
                continue;
            }
            let mut lone: Vec<JobIndex> = self
                .placed
                .iter()
                .copied()
                .filter(|job| {
                    let stand = &self.stands[*job as usize];
                    stand.partner.is_none() && stand.hosts.iter().any(|(on, _)| *on == host)
                })
                .collect();
            lone.sort_by(|a, b| self.packing.use_of(&jobs[*a as usize]).total_cmp(&self.packing.use_of(&jobs[*b as usize])));
            while self.load[host as usize] > self.cluster.gpus_per_host && !lone.is_empty() {
                let job = lone.remove(0);
                let alike = |other: &JobIndex| self.stands[*other as usize].hosts == self.stands[job as usize].hosts;
                let found = lone.iter().position(|other| {
                    if !alike(other) {
                        return false;
                    }
                    let rate = self.packing.rate(&jobs[job as usize], &jobs[*other as usize]);
                    out.tried.extend(explain.then(|| Trial { members: vec![job, *other], rate, shares: rate > 1.0 }));
                    rate > 1.0
                });
                if let Some(at) = found {
                    let other = lone.remove(at);
                    self.stands[job as usize].partner = Some(other);
                    self.stands[other as usize].partner = Some(job);
                    for &(on, part) in &self.stands[other as usize].hosts {
                        self.load[on as usize] -= part;
                        self.growing.touch(on);
                    }
                }
            }
        }
    }
}

/// GPUs that a job has where it stands.
fn has(job: &Job, stand: &Stand) -> u32 {
    stand.beyond.iter().fold(job.gpus, |sum, (_, gpus)| sum + gpus)
}
