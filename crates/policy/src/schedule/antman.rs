//! AntMan as a baseline: guaranteed jobs first, opportunistic ones on what these leave of their GPUs (Xiao et al., OSDI 2020).
//!
//! The rules, as the Muri authors' simulator has them; its source calls them unfinished, and they are kept as they are. Nobody is
//! preempted. Guaranteed jobs go first, then opportunistic ones, each in order of submission. A guaranteed job takes the first host with
//! enough GPUs that no guaranteed job has; where there is none, it takes what the fullest host can give and holds that while
//! it waits for the rest. An opportunistic job takes the GPUs with the least tracked use below [`USED_MAX`], on any hosts, all or none.
//! Two guaranteed jobs that each hold a part of a host, and both want the whole of it, would so wait for each other for ever. In paper mode
//! therefore only the first guaranteed job that waits holds GPUs: whoever waits gives back what it held before anybody is given
//! anything, and of those that then still miss some all but the first give back what they took. So when nobody runs, the first finds
//! all GPUs free. Artifact mode stays as published.
//! A guaranteed job is never slowed. An opportunistic one makes progress in the gaps that each guaranteed job on its GPUs leaves, and takes twice as
//! long beside another opportunistic one.

mod sharing;

use alloc::{vec, vec::Vec};

use self::sharing::slowed_s;
use super::{
    hosts::{Capacity, Cluster},
    job::{Decision, Job, JobIndex, Place, Reason, Run},
};
use crate::muri::{Profile, Timing};

/// Tracked use of a GPU from which on no opportunistic job is put there.
const USED_MAX: f64 = 0.8;

/// Use that is tracked for a guaranteed and for an opportunistic job: assumed by the simulator ("not real"), not measured.
const USES: [f64; 2] = [0.1, 0.9];

/// The part of a guaranteed job's use that is tracked only when it has all its GPUs.
const USE_WHOLE: f64 = 0.01;

#[derive(Clone, Debug, Default)]
struct Gpu {
    guaranteed: Option<JobIndex>,
    opportunistic: Vec<JobIndex>,
    used: f64,
}

/// What a job holds.
#[derive(Clone, Debug, Default)]
struct Held {
    /// GPUs that it still waits for.
    missing: u32,
    gpus: Vec<u32>,
    /// The host on which it took less than whole hosts.
    host: u32,
}

#[derive(Clone, Debug)]
pub(super) struct AntMan {
    cluster: Cluster,
    capacity: Capacity,
    timing: Timing,
    gpus: Vec<Gpu>,
    /// By job.
    held: Vec<Held>,
    /// Jobs that wait, in order.
    waiting: Vec<JobIndex>,
    /// Jobs that run, in order.
    running: Vec<JobIndex>,
}

impl AntMan {
    pub(super) fn new(cluster: Cluster, timing: Timing) -> Self {
        let gpus = vec![Gpu::default(); cluster.gpus() as usize];
        Self { cluster, capacity: Capacity::new(cluster), timing, gpus, held: Vec::new(), waiting: Vec::new(), running: Vec::new() }
    }

    pub(super) fn arrive(&mut self, job: JobIndex) {
        if self.held.len() <= job as usize {
            self.held.resize(job as usize + 1, Held::default());
        }
        self.waiting.push(job);
    }

    pub(super) fn leave(&mut self, job: JobIndex, jobs: &[Job]) {
        let opportunistic = jobs[job as usize].opportunistic;
        if !opportunistic && self.held[job as usize].missing > 0 {
            self.give_back(job);
        }
        for &gpu in &self.held[job as usize].gpus {
            let gpu = &mut self.gpus[gpu as usize];
            if opportunistic {
                gpu.opportunistic.retain(|j| *j != job);
            } else {
                gpu.guaranteed = None;
            }
            gpu.used -= USES[usize::from(opportunistic)];
        }
        self.held[job as usize] = Held::default();
        self.running.retain(|j| *j != job);
        self.waiting.retain(|j| *j != job);
    }

    pub(super) fn decide(&mut self, jobs: &[Job], capacity: &Capacity, profiles: &[Profile], explain: bool, out: &mut Decision) {
        self.capacity.clone_from(capacity);
        let order = |a: &JobIndex, b: &JobIndex| {
            let (x, y) = (&jobs[*a as usize], &jobs[*b as usize]);
            x.opportunistic.cmp(&y.opportunistic).then(x.submitted_s.total_cmp(&y.submitted_s)).then(a.cmp(b))
        };
        self.waiting.sort_by(order);
        let one_holds = self.timing == Timing::Paper;
        if one_holds {
            for at in 0..self.waiting.len() {
                self.give_back(self.waiting[at]);
            }
        }
        let mut held = false;
        let (mut free, mut idle) = (self.free(), self.idle().count());
        let waiting = core::mem::take(&mut self.waiting);
        for job in waiting {
            let j = &jobs[job as usize];
            // Jobs that nothing can be given to are not asked; this changes no answer.
            let starts = match j.opportunistic {
                false if free == 0 => false,
                true if idle < j.gpus as usize => false,
                false => self.take_guaranteed(job, j.gpus),
                true => self.take_opportunistic(job, j.gpus),
            };
            if one_holds && !starts && !j.opportunistic && core::mem::replace(&mut held, true) {
                self.give_back(job);
            }
            (free, idle) = (self.free(), self.idle().count());
            if starts { self.running.push(job) } else { self.waiting.push(job) }
        }
        self.running.sort_by(order);
        out.groups_share = true;
        for (&job, group) in self.running.iter().zip(0..) {
            let j = &jobs[job as usize];
            let iteration_s = if j.opportunistic { self.slowed(job, jobs, profiles) } else { j.alone_s };
            let restart_s = profiles[usize::from(j.profile)].restart_s;
            out.runs.push(Run { job, group, iteration_s, restart_s });
            self.note(group, job, out);
            if explain {
                out.reasons.push(Reason::Rank { before: group, value: j.submitted_s });
            }
        }
        if explain {
            let ran = self.running.len() as u32;
            let waits = self.waiting.iter().zip(ran..);
            out.passed.extend(waits.map(|(job, before)| (*job, Reason::Rank { before, value: jobs[*job as usize].submitted_s })));
        }
    }

    /// How many GPUs no guaranteed job has.
    fn free(&self) -> usize {
        (0..).zip(&self.gpus).filter(|(gpu, held)| held.guaranteed.is_none() && self.is_there(*gpu)).count()
    }

    /// GPUs with room for an opportunistic job.
    fn idle(&self) -> impl Iterator<Item = u32> {
        (0..).zip(&self.gpus).filter(|(gpu, held)| held.used < USED_MAX && self.is_there(*gpu)).map(|(gpu, _)| gpu)
    }

    fn is_there(&self, gpu: u32) -> bool {
        // There are GPUs only where hosts have some.
        self.capacity.gpus_of(gpu / self.cluster.gpus_per_host) > 0
    }

    /// GPUs of a host that no guaranteed job has.
    fn free_of(&self, host: u32) -> Vec<u32> {
        let first = host * self.cluster.gpus_per_host;
        (first..first + self.capacity.gpus_of(host)).filter(|gpu| self.gpus[*gpu as usize].guaranteed.is_none()).collect()
    }

    fn give(&mut self, job: JobIndex, gpus: &[u32]) {
        for &gpu in gpus {
            let gpu = &mut self.gpus[gpu as usize];
            gpu.guaranteed = Some(job);
            gpu.used += USES[0] - USE_WHOLE;
        }
        let held = &mut self.held[job as usize];
        held.missing -= gpus.len() as u32;
        held.gpus.extend(gpus);
    }

    /// Takes from a job that waits the GPUs that it holds. An opportunistic one holds none.
    fn give_back(&mut self, job: JobIndex) {
        for gpu in core::mem::take(&mut self.held[job as usize]).gpus {
            let gpu = &mut self.gpus[gpu as usize];
            gpu.guaranteed = None;
            gpu.used -= USES[0] - USE_WHOLE;
        }
    }

    /// Takes what there is for a guaranteed job; true when it has all.
    fn take_guaranteed(&mut self, job: JobIndex, wants: u32) -> bool {
        let held = &mut self.held[job as usize];
        if held.gpus.is_empty() {
            held.missing = wants;
        }
        let per_host = self.cluster.gpus_per_host;
        let (missing, partial) = (held.missing, if wants > per_host { wants % per_host } else { wants });
        let (whole, rest) = if wants > per_host { (missing / per_host, missing % per_host) } else { (0, missing) };
        let idle = (0..self.cluster.hosts).filter(|host| self.free_of(*host).len() as u32 == per_host);
        let idle: Vec<u32> = idle.take(whole as usize).collect();
        if rest > 0 {
            // A host that gave a part gives the rest as well.
            let host = if rest < partial { Some(self.held[job as usize].host) } else { self.host_for(rest, &idle) };
            if let Some(host) = host {
                self.held[job as usize].host = host;
                let mut gpus = self.free_of(host);
                gpus.truncate(rest as usize);
                self.give(job, &gpus);
            }
        }
        for host in idle {
            let gpus = self.free_of(host);
            self.give(job, &gpus);
        }
        if self.held[job as usize].missing > 0 {
            return false;
        }
        for &gpu in &self.held[job as usize].gpus {
            self.gpus[gpu as usize].used += USE_WHOLE;
        }
        true
    }

    /// The first host beside `others` with enough free GPUs, or that with the most.
    fn host_for(&self, gpus: u32, others: &[u32]) -> Option<u32> {
        let mut most = (0, None);
        for host in (0..self.cluster.hosts).filter(|host| !others.contains(host)) {
            let free = self.free_of(host).len() as u32;
            if free >= gpus {
                return Some(host);
            }
            if free > most.0 {
                most = (free, Some(host));
            }
        }
        most.1
    }

    fn take_opportunistic(&mut self, job: JobIndex, wants: u32) -> bool {
        let mut gpus: Vec<u32> = self.idle().collect();
        if gpus.len() < wants as usize {
            return false;
        }
        gpus.sort_by(|a, b| self.gpus[*a as usize].used.total_cmp(&self.gpus[*b as usize].used));
        gpus.truncate(wants as usize);
        for &gpu in &gpus {
            let gpu = &mut self.gpus[gpu as usize];
            gpu.used += USES[1];
            gpu.opportunistic.push(job);
        }
        self.held[job as usize] = Held { missing: 0, gpus, host: 0 };
        true
    }

    /// One iteration of an opportunistic job beside those on its GPUs; the slowest GPU counts.
    fn slowed(&self, job: JobIndex, jobs: &[Job], profiles: &[Profile]) -> f64 {
        let j = &jobs[job as usize];
        let stages = profiles[usize::from(j.profile)].stages;
        let mut longest = j.alone_s;
        for &gpu in &self.held[job as usize].gpus {
            let gpu = &self.gpus[gpu as usize];
            // Who still waits for GPUs does not compute on those that it holds.
            if let Some(other) = gpu.guaranteed.filter(|other| self.held[*other as usize].missing == 0) {
                let other = &jobs[other as usize];
                longest = longest.max(slowed_s(&stages, &profiles[usize::from(other.profile)].stages, other.alone_s));
            }
            if gpu.opportunistic.iter().any(|other| *other != job) {
                longest = longest.max(j.alone_s * 2.0);
            }
        }
        longest
    }

    fn note(&self, group: u32, job: JobIndex, out: &mut Decision) {
        let first = out.places.len();
        for gpu in &self.held[job as usize].gpus {
            let host = gpu / self.cluster.gpus_per_host;
            match out.places[first..].iter_mut().find(|place| place.host == host) {
                Some(place) => place.gpus += 1,
                None => out.places.push(Place { group, host, gpus: 1 }),
            }
        }
    }
}
