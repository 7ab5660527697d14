//! Where groups stand: who stays, and where the others could go.
//!
//! The rules. A group that has members of a group of before, and needs as many GPUs, keeps the GPUs of the one of which it has the
//! most; a group of before gives its GPUs to one group only. So a job that the decision leaves alone is not moved. The others are placed
//! in order of size, the largest first: on the host with the least room that is enough; else within the leaf with the least room that is
//! enough; else over as few leaves as it takes. With enough free GPUs in sum there is always a place, because a job may be spread.
//!
//! Candidates differ in which of the hosts and leaves that are enough is taken, so a planner can choose among them. All use as many GPUs;
//! a drawn one may lie on more leaves than the first, which is the most compact.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec,
    vec::Vec,
};

use super::{
    hosts::Capacity,
    job::{Decision, Job, JobIndex, Place},
};

/// Tries for each candidate that is asked for: where few places are free, most tries find one that is known.
const TRIES_PER_CANDIDATE: usize = 4;

/// A group that has no GPUs yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unplaced {
    /// The group.
    pub group: u32,
    /// GPUs that it needs.
    pub gpus: u32,
}

/// The hosts of a cluster, the leaves that they hang on, and what is free of them.
#[derive(Clone, Debug)]
pub struct Placer {
    capacity: Capacity,
    /// Hosts by leaf.
    leaves: Vec<Vec<u32>>,
    /// Free GPUs by host.
    free: Vec<u32>,
}

impl Placer {
    /// A cluster without jobs. `leaf_of` says which leaf each host hangs on; hosts that it does not name hang on the first.
    #[must_use]
    pub fn new(hosts: impl Into<Capacity>, leaf_of: &[u32]) -> Self {
        let capacity = hosts.into();
        let mut leaves = vec![Vec::new(); leaf_of.iter().max().map_or(1, |last| *last as usize + 1)];
        for host in 0..capacity.full().len() as u32 {
            let leaf = leaf_of.get(host as usize).copied().unwrap_or(0);
            leaves[leaf as usize].push(host);
        }
        Self { free: capacity.by_host().to_vec(), capacity, leaves }
    }

    /// From now on this is what hosts have to give.
    pub fn follow(&mut self, capacity: &Capacity) {
        self.capacity.clone_from(capacity);
    }

    /// Replaces the places of a decision by those of the groups that stay where they were, and names the groups that have none, the
    /// largest first.
    pub fn keep(&mut self, before: &Decision, decision: &mut Decision, jobs: &[Job]) -> Vec<Unplaced> {
        let stays = stays(before, decision, jobs);
        decision.places.clear();
        let mut unplaced: Vec<Unplaced> = Vec::new();
        let mut seen: BTreeSet<u32> = BTreeSet::new();
        let mut parts: BTreeMap<u32, Vec<Place>> = BTreeMap::new();
        before.places.iter().for_each(|place| parts.entry(place.group).or_default().push(*place));
        for run in decision.runs.iter().filter(|run| seen.insert(run.group)) {
            match stays.get(&run.group).and_then(|old| parts.get(old)) {
                Some(parts) => decision.places.extend(parts.iter().map(|part| Place { group: run.group, ..*part })),
                None => unplaced.push(Unplaced { group: run.group, gpus: jobs[run.job as usize].gpus }),
            }
        }
        self.occupy(decision);
        unplaced.sort_by_key(|group| core::cmp::Reverse(group.gpus));
        unplaced
    }

    /// From now on the groups of this decision, which was checked, have their GPUs, and nobody else has any.
    pub fn occupy(&mut self, decision: &Decision) {
        self.free.clear();
        self.free.extend_from_slice(self.capacity.by_host());
        for place in &decision.places {
            if let Some(free) = self.free.get_mut(place.host as usize) {
                *free = free.saturating_sub(place.gpus);
            }
        }
    }

    /// Up to `n` ways to place these groups beside those that stay, no two alike; the first is the most compact. Empty when they do
    /// not fit.
    #[must_use]
    pub fn candidates(&self, unplaced: &[Unplaced], n: usize, seed: u64) -> Vec<Vec<Place>> {
        let mut found: Vec<Vec<Place>> = Vec::new();
        for turn in 0..n.saturating_mul(TRIES_PER_CANDIDATE) as u64 {
            if found.len() >= n {
                break;
            }
            let mut draw = (turn > 0).then(|| Draw(seed ^ turn.wrapping_mul(units::GOLDEN)));
            let Some(places) = self.place(unplaced, &mut draw) else { break };
            if !found.contains(&places) {
                found.push(places);
            }
        }
        found
    }

    /// Places these groups anywhere, as a scheduler does that knows nothing of leaves. Empty when they do not fit.
    #[must_use]
    pub fn scatter(&self, unplaced: &[Unplaced], seed: u64) -> Vec<Place> {
        let (mut free, mut draw, mut places) = (self.free.clone(), Draw(seed), Vec::new());
        for group in unplaced {
            let mut hosts: Vec<u32> = (0..free.len() as u32).filter(|host| free[*host as usize] > 0).collect();
            draw.shuffle(&mut hosts);
            if !take(&mut free, group, hosts, &mut places) {
                return Vec::new();
            }
        }
        places
    }

    /// One way to place the groups: the most compact, or where there is a choice by draw.
    fn place(&self, unplaced: &[Unplaced], draw: &mut Option<Draw>) -> Option<Vec<Place>> {
        let (mut free, mut places) = (self.free.clone(), Vec::new());
        for group in unplaced {
            let hosts = self.on_one_host(&free, group.gpus, draw);
            let hosts = hosts.or_else(|| self.on_one_leaf(&free, group.gpus, draw));
            let hosts = hosts.unwrap_or_else(|| self.on_all_leaves(&free, draw));
            if !take(&mut free, group, hosts, &mut places) {
                return None;
            }
        }
        Some(places)
    }

    /// Of the hosts with enough room one with the least.
    fn on_one_host(&self, free: &[u32], gpus: u32, draw: &mut Option<Draw>) -> Option<Vec<u32>> {
        let least = free.iter().copied().filter(|room| *room >= gpus).min()?;
        let equal: Vec<u32> = free.iter().zip(0..).filter(|(room, _)| **room == least).map(|(_, host)| host).collect();
        Some(vec![pick(&equal, draw)?])
    }

    /// Hosts of the leaf with the least room that is enough, or of any that has enough where it is drawn.
    fn on_one_leaf(&self, free: &[u32], gpus: u32, draw: &mut Option<Draw>) -> Option<Vec<u32>> {
        let mut enough: Vec<(u32, u32)> =
            (0..self.leaves.len() as u32).map(|leaf| (self.room(free, leaf), leaf)).filter(|(room, _)| *room >= gpus).collect();
        enough.sort_unstable();
        let leaves: Vec<u32> = enough.into_iter().map(|(_, leaf)| leaf).collect();
        Some(self.hosts_of(free, pick(&leaves, draw)?))
    }

    /// All hosts, leaf by leaf, those with the most room first, or as they are drawn.
    fn on_all_leaves(&self, free: &[u32], draw: &mut Option<Draw>) -> Vec<u32> {
        let mut leaves: Vec<u32> = (0..self.leaves.len() as u32).collect();
        leaves.sort_by_key(|leaf| core::cmp::Reverse(self.room(free, *leaf)));
        if let Some(draw) = draw {
            draw.shuffle(&mut leaves);
        }
        leaves.into_iter().flat_map(|leaf| self.hosts_of(free, leaf)).collect()
    }

    fn room(&self, free: &[u32], leaf: u32) -> u32 {
        self.leaves[leaf as usize].iter().map(|host| free[*host as usize]).sum()
    }

    /// The hosts of a leaf that have room, those with the most first.
    fn hosts_of(&self, free: &[u32], leaf: u32) -> Vec<u32> {
        let mut hosts: Vec<u32> = self.leaves[leaf as usize].iter().copied().filter(|host| free[*host as usize] > 0).collect();
        hosts.sort_by_key(|host| core::cmp::Reverse(free[*host as usize]));
        hosts
    }
}

/// Takes the GPUs of a group from these hosts, in this order; false when they have not enough.
fn take(free: &mut [u32], group: &Unplaced, hosts: Vec<u32>, places: &mut Vec<Place>) -> bool {
    let mut missing = group.gpus;
    for host in hosts {
        let gpus = free[host as usize].min(missing);
        if gpus > 0 {
            free[host as usize] -= gpus;
            missing -= gpus;
            places.push(Place { group: group.group, host, gpus });
        }
    }
    missing == 0
}

/// For each group that stays: the group of before whose GPUs it keeps.
fn stays(before: &Decision, decision: &Decision, jobs: &[Job]) -> BTreeMap<u32, u32> {
    let was: BTreeMap<JobIndex, u32> = before.runs.iter().map(|run| (run.job, run.group)).collect();
    let mut has: BTreeMap<u32, u32> = BTreeMap::new();
    before.places.iter().for_each(|place| *has.entry(place.group).or_default() += place.gpus);
    // Members that a group has of each group of before, where both are as large.
    let mut shared: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    for run in &decision.runs {
        let Some(old) = was.get(&run.job) else { continue };
        if has.get(old) == Some(&jobs[run.job as usize].gpus) {
            *shared.entry((run.group, *old)).or_default() += 1;
        }
    }
    let mut by_members: Vec<((u32, u32), u32)> = shared.into_iter().collect();
    // Stable, so equal ones stay in order of group.
    by_members.sort_by_key(|(_, members)| core::cmp::Reverse(*members));
    let (mut stays, mut given) = (BTreeMap::new(), BTreeSet::new());
    for ((group, old), _) in by_members {
        if !stays.contains_key(&group) && given.insert(old) {
            stays.insert(group, old);
        }
    }
    stays
}

/// The first, or any by draw.
fn pick(of: &[u32], draw: &mut Option<Draw>) -> Option<u32> {
    match draw {
        None => of.first().copied(),
        Some(draw) => of.get(draw.below(of.len())).copied(),
    }
}

/// Numbers that look random, of a seed: SplitMix64. Which of equal places is taken needs no better ones.
#[derive(Debug)]
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: usize) -> usize {
        // The upper half of the product is below the bound (Lemire, 2019).
        ((u128::from(units::splitmix64(&mut self.0)) * bound as u128) >> 64) as usize
    }

    fn shuffle(&mut self, list: &mut [u32]) {
        for last in (1..list.len()).rev() {
            let other = self.below(last + 1);
            list.swap(last, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{
        super::{
            hosts::Cluster,
            job::{Run, samples::job},
        },
        *,
    };

    const CLUSTER: Cluster = Cluster { hosts: 6, gpus_per_host: 4 };
    const LEAF_OF: [u32; 6] = [0, 0, 1, 1, 2, 2];

    fn decision(groups: &[&[JobIndex]]) -> Decision {
        let run = |(group, job): (u32, JobIndex)| Run { job, group, iteration_s: 1.0, restart_s: 0.0 };
        let runs = (0..).zip(groups).flat_map(|(group, jobs)| jobs.iter().map(move |job| (group, *job))).map(run).collect();
        Decision { runs, ..Decision::default() }
    }

    /// Decides, and takes the most compact places.
    fn settle(placer: &mut Placer, before: &Decision, mut next: Decision, jobs: &[Job]) -> Decision {
        let unplaced = placer.keep(before, &mut next, jobs);
        next.places.extend(placer.candidates(&unplaced, 1, 7).swap_remove(0));
        next.check(&CLUSTER.into(), jobs).unwrap();
        next
    }

    fn hosts(decision: &Decision, group: u32) -> Vec<(u32, u32)> {
        decision.places.iter().filter(|p| p.group == group).map(|p| (p.host, p.gpus)).collect()
    }

    #[test]
    fn who_stays_is_not_moved_and_the_others_are_packed() {
        let jobs: Vec<Job> = [4, 6, 2, 8, 1].map(job).to_vec();
        let mut placer = Placer::new(CLUSTER, &LEAF_OF);
        let first = settle(&mut placer, &Decision::default(), decision(&[&[0], &[1], &[2]]), &jobs);
        // Six GPUs need two hosts of one leaf, four a host, two what is left of the second host.
        assert_eq!(hosts(&first, 1), [(0, 4), (1, 2)]);
        assert_eq!((hosts(&first, 0), hosts(&first, 2)), (vec![(2, 4)], vec![(1, 2)]));
        // Job 1 leaves, and groups get other numbers; nobody else moves.
        let second = settle(&mut placer, &first, decision(&[&[3], &[2], &[0], &[4]]), &jobs);
        assert_eq!((hosts(&second, 1), hosts(&second, 2)), (hosts(&first, 2), hosts(&first, 0)));
        assert_eq!((hosts(&second, 0), hosts(&second, 3)), (vec![(4, 4), (5, 4)], vec![(1, 1)]));
    }

    #[test]
    fn a_group_keeps_the_gpus_of_those_it_has_most_of() {
        let jobs: Vec<Job> = [4, 4, 4, 4, 4, 2].map(job).to_vec();
        let mut placer = Placer::new(CLUSTER, &LEAF_OF);
        let first = settle(&mut placer, &Decision::default(), decision(&[&[0], &[1, 2, 3]]), &jobs);
        let second = settle(&mut placer, &first, decision(&[&[0, 2, 3], &[1, 4]]), &jobs);
        assert_eq!(hosts(&second, 0), hosts(&first, 1));
        // What is left of that group finds its GPUs taken. Nobody of the second group stood anywhere else.
        assert!(!hosts(&first, 1).contains(&hosts(&second, 1)[0]));
        // A job that asks for other GPUs than its old group has cannot stay.
        let third = settle(&mut placer, &second, decision(&[&[5]]), &jobs);
        assert_eq!(hosts(&third, 0), [(0, 2)]);
    }

    #[test]
    fn a_job_is_spread_where_no_leaf_has_room() {
        let jobs: Vec<Job> = [3, 3, 3, 3, 3, 3, 6].map(job).to_vec();
        let mut placer = Placer::new(CLUSTER, &LEAF_OF);
        let first = settle(&mut placer, &Decision::default(), decision(&[&[0], &[1], &[2], &[3], &[4], &[5]]), &jobs);
        let second = settle(&mut placer, &first, decision(&[&[0], &[1], &[2], &[3], &[4], &[5], &[6]]), &jobs);
        assert_eq!(hosts(&second, 6).len(), 6);
        assert!(placer.scatter(&[Unplaced { group: 9, gpus: 7 }], 1).is_empty(), "six are free");
    }

    proptest! {
        #[test]
        fn candidates_fit_differ_and_move_nobody(sizes in prop::collection::vec(1_u32..9, 1..8), stay in 0_usize..4, seed: u64) {
            let jobs: Vec<Job> = sizes.iter().copied().map(job).collect();
            let all: Vec<[JobIndex; 1]> = (0..jobs.len() as u32).map(|job| [job]).collect();
            let groups: Vec<&[JobIndex]> = all.iter().map(<[JobIndex; 1]>::as_slice).collect();
            let mut placer = Placer::new(CLUSTER, &LEAF_OF);
            let sum = |jobs: &[Job]| jobs.iter().map(|job| job.gpus).sum::<u32>();
            prop_assume!(sum(&jobs) <= CLUSTER.gpus());
            let stay = stay.min(jobs.len());
            let first = settle(&mut placer, &Decision::default(), decision(&groups[..stay]), &jobs);
            let mut next = decision(&groups);
            let unplaced = placer.keep(&first, &mut next, &jobs);
            (0..stay as u32).for_each(|group| assert_eq!(hosts(&next, group), hosts(&first, group)));
            let mut found = placer.candidates(&unplaced, 10, seed);
            prop_assert!(!found.is_empty());
            found.push(placer.scatter(&unplaced, seed));
            for places in &found {
                let whole = Decision { places: [first.places.clone(), places.clone()].concat(), ..next.clone() };
                prop_assert_eq!(whole.check(&CLUSTER.into(), &jobs), Ok(()));
            }
            found.pop();
            for (at, places) in found.iter().enumerate() {
                prop_assert!(!found[..at].contains(places));
            }
        }
    }
}
