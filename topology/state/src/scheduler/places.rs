//! Which GPUs are free, and where jobs that start could stand.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
    sync::Arc,
    vec::Vec,
};

use policy::schedule::{Capacity, Decision, Job, Place, Placer, Run};

use super::settings::{Hosts, SchedulerHost};
use crate::submission::{HostGpus, Submission};

/// GPUs of a host that a job is to have.
pub(super) type Share = (String, u32);

/// GPUs that jobs hold, by host.
#[derive(Clone, Debug, Default)]
pub(super) struct Occupied(BTreeMap<String, BTreeSet<u32>>);

impl Occupied {
    pub(super) fn of<'a>(submissions: impl IntoIterator<Item = &'a Arc<Submission>>) -> Self {
        let mut held: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
        for place in submissions.into_iter().flat_map(|s| &s.place) {
            held.entry(place.host.clone()).or_default().extend(&place.gpus);
        }
        Self(held)
    }

    fn on(&self, host: &str) -> u32 {
        self.0.get(host).map_or(0, |gpus| u32::try_from(gpus.len()).unwrap_or(u32::MAX))
    }

    /// The lowest free GPUs of each host; `None` where one has too few.
    pub(super) fn take(&self, shares: &[Share], hosts: &Hosts) -> Option<Vec<HostGpus>> {
        let of = hosts.by_name();
        let one = |(host, gpus): &Share| {
            let free =
                (0..of.get(host.as_str()).copied().unwrap_or(0)).filter(|gpu| !self.0.get(host).is_some_and(|held| held.contains(gpu)));
            let taken: Vec<u32> = free.take(*gpus as usize).collect();
            (taken.len() == *gpus as usize).then(|| HostGpus { host: host.clone(), gpus: taken })
        };
        shares.iter().map(one).collect()
    }
}

/// What a host can give to a job that starts.
fn free_of(hosts: &Hosts, occupied: &Occupied, host: &SchedulerHost) -> u32 {
    if hosts.taken.contains(&host.name) { 0 } else { host.gpus.saturating_sub(occupied.on(&host.name)) }
}

/// GPUs that jobs could start on now.
pub(super) fn free(hosts: &Hosts, occupied: &Occupied) -> u32 {
    hosts.all.iter().map(|host| free_of(hosts, occupied, host)).sum()
}

/// Ways to place jobs of these sizes at the same time, the most compact first: of each job what it has of each host, the hosts with
/// most first. None when they do not fit.
pub(super) fn candidates(hosts: &Hosts, occupied: &Occupied, sizes: &[u32], n: usize, seed: u64) -> Vec<Vec<Vec<Share>>> {
    let capacity = Capacity::of_hosts(hosts.all.iter().map(|host| host.gpus).collect());
    let count = u32::try_from(hosts.all.len()).unwrap_or(u32::MAX);
    let leaf_of: Vec<u32> = hosts.all.iter().map(|host| host.leaf).collect();
    // The placer derives free GPUs from jobs that stay. Each host gets one stand-in job that holds the GPUs which are not free.
    let used = hosts.all.iter().map(|host| host.gpus - free_of(hosts, occupied, host));
    let mut jobs: Vec<Job> = used.map(job).collect();
    let standing = (0..count).filter(|host| jobs[*host as usize].gpus > 0);
    let (mut before, first) = (Decision::default(), count);
    for host in standing {
        before.runs.push(run(host));
        before.places.push(Place { group: host, host, gpus: jobs[host as usize].gpus });
    }
    let mut decision = before.clone();
    for size in sizes {
        decision.runs.push(run(u32::try_from(jobs.len()).unwrap_or(u32::MAX)));
        jobs.push(job(*size));
    }
    let mut placer = Placer::new(capacity, &leaf_of);
    let unplaced = placer.keep(&before, &mut decision, &jobs);
    let shares = |places: Vec<Place>| {
        let mut of: Vec<Vec<Share>> = sizes.iter().map(|_| Vec::new()).collect();
        for place in places {
            let name = &hosts.all[place.host as usize].name;
            of[(place.group - first) as usize].push((name.clone(), place.gpus));
        }
        // The last host of a job may have fewer ranks than the others, and no other one.
        of.iter_mut().for_each(|shares| shares.sort_by_key(|(_, gpus)| core::cmp::Reverse(*gpus)));
        of
    };
    placer.candidates(&unplaced, n, seed).into_iter().map(shares).collect()
}

fn run(job: u32) -> Run {
    Run { job, group: job, iteration_s: 1.0, restart_s: 0.0 }
}

fn job(gpus: u32) -> Job {
    Job {
        gpus,
        gpus_max: gpus,
        profile: 0,
        opportunistic: false,
        weight: 1,
        submitted_s: 0.0,
        declared_s: 1.0,
        alone_s: 1.0,
        left: 1.0,
        ran_s: 0.0,
        running: false,
        started: false,
    }
}
