//! Which of the chosen jobs of one size share GPUs.
//!
//! Jobs with equal profiles are alike, so times and efficiencies are kept by profiles and computed once; and two rounds
//! that match the same profiles in the same order match the same pairs, so the last ones are remembered as well.

use alloc::{
    collections::{BTreeMap, VecDeque},
    vec::Vec,
};

use super::{
    super::job::{Job, JobIndex},
    Candidate, MuriOptions,
    bucket::Bucket,
};
use crate::{
    matching::{NODES_MAX, Weights, max_weight_matching, max_weight_matching_of_kinds, quantise},
    muri::{GROUP_MAX, Order, Profile, Stages, Timing, efficiency},
};

/// Rounds whose pairs are remembered: enough for the buckets and rounds of some decisions.
const REMEMBERED_MAX: usize = 64;

/// Groups whose times, and pairs whose weights, are kept: twice as many as eight models of six sizes make. What is
/// forgotten is computed again, so this limits memory and changes no answer.
const KNOWN_MAX: usize = 1 << 16;

/// Groups from which on their kinds are matched rather than they: fewer are searched in some milliseconds.
const MANY: usize = 257;

/// Groups of each kind, on average, that make this worth it.
const NODES_PER_KIND: usize = 4;

/// Jobs on the same GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Group {
    jobs: [JobIndex; GROUP_MAX],
    len: u8,
}

impl Group {
    pub(super) fn of(job: JobIndex) -> Self {
        Self { jobs: [job, 0, 0, 0], len: 1 }
    }

    pub(super) fn members(&self) -> &[JobIndex] {
        &self.jobs[..usize::from(self.len)]
    }

    /// Takes in the members of another group; together they must be at most [`GROUP_MAX`].
    fn join(&mut self, other: &Self) {
        for &job in other.members() {
            if let Some(place) = self.jobs.get_mut(usize::from(self.len)) {
                *place = job;
                self.len += 1;
            }
        }
    }
}

/// The profiles of a group's members in order, 16 bits each, each one more than its number: 0 is no member.
type Key = u64;

/// Bits of a member in a [`Key`].
const MEMBER_BITS: u32 = 16;

/// By what share of its efficiency a group weighs more than by its efficiency alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Lean {
    /// None.
    None,
    /// So much where it always sends, and in proportion.
    Sends(f64),
    /// Up to so much, drawn for its profiles and a seed.
    Drawn(f64, u64),
}

#[derive(Clone, Debug)]
pub(super) struct Grouping {
    timing: Timing,
    options: MuriOptions,
    profiles: Vec<Profile>,
    /// Replaces the cost of sharing for groups of four.
    pub(super) sharing_of_four: Option<f64>,
    /// Iterations in the best and in the worst order, with the cost of sharing.
    iterations: BTreeMap<Key, [f64; 2]>,
    weights: BTreeMap<Key, f64>,
    /// What was matched, under which lean.
    remembered: VecDeque<(Lean, Vec<Key>, Vec<Option<u32>>)>,
    /// To what weights lean.
    pub(super) lean: Lean,
    /// The graph of the last round, whose memory the next one uses.
    graph: Weights,
}

impl Grouping {
    pub(super) fn new(timing: Timing, options: MuriOptions, profiles: Vec<Profile>) -> Self {
        let (iterations, weights) = (BTreeMap::new(), BTreeMap::new());
        let (remembered, graph) = (VecDeque::new(), Weights::new(0));
        Self { timing, options, profiles, sharing_of_four: None, iterations, weights, remembered, lean: Lean::None, graph }
    }

    /// Whether groups may lean: not in artifact mode, which is as published.
    pub(super) fn may_lean(&self) -> bool {
        self.timing == Timing::Paper
    }

    /// One iteration of a group, a lone job's being what it takes alone.
    pub(super) fn iteration_s(&mut self, group: &Group, order: Order, jobs: &[Job]) -> f64 {
        match group.members() {
            [job] => jobs[*job as usize].alone_s,
            _ => self.shared_s(key(group, jobs), order),
        }
    }

    /// The efficiency of a group in the order in which it runs.
    pub(super) fn efficiency(&mut self, group: &Group, jobs: &[Job]) -> f64 {
        let iteration = self.iteration_s(group, self.options.order, jobs);
        efficiency(&self.stages(key(group, jobs)), iteration)
    }

    /// One iteration of two members or more.
    fn shared_s(&mut self, key: Key, order: Order) -> f64 {
        if !self.iterations.contains_key(&key) {
            let profiles: Vec<Profile> = members(key).map(|profile| self.profiles[profile]).collect();
            let sharing = match self.sharing_of_four {
                Some(of_four) if profiles.len() == GROUP_MAX => of_four,
                _ => self.timing.sharing(profiles.len()),
            };
            let of = |order| self.timing.shared_s(&profiles, order, sharing);
            let times = [of(Order::Best), of(Order::Worst)];
            forget(&mut self.iterations);
            self.iterations.insert(key, times);
        }
        let [best, worst] = self.iterations.get(&key).copied().unwrap_or_default();
        match order {
            Order::Best => best,
            Order::Worst => worst,
        }
    }

    fn stages(&self, key: Key) -> Vec<Stages> {
        members(key).map(|profile| self.profiles[profile].stages).collect()
    }

    /// The weight of an edge between two groups: the efficiency of their union, and what it leans to; 0 where it would be too large.
    fn weight(&mut self, a: Key, b: Key) -> f64 {
        let (count, others) = (members(a).count(), members(b).count());
        if count + others > usize::from(self.options.group_max).min(GROUP_MAX) {
            return 0.0;
        }
        let union = a | b << (MEMBER_BITS * count as u32);
        let weight = self.known_weight(union);
        let more = match self.lean {
            Lean::None => return weight,
            Lean::Sends(most) => {
                let sends_s: f64 = members(union).map(|profile| self.profiles[profile].stages.net_s).sum();
                most * (sends_s / self.shared_s(union, self.options.order)).min(1.0)
            }
            Lean::Drawn(most, seed) => most * drawn(sorted(union), seed),
        };
        quantise(weight * (1.0 + more))
    }

    /// The efficiency of a union.
    fn known_weight(&mut self, union: Key) -> f64 {
        if let Some(&known) = self.weights.get(&union) {
            return known;
        }
        let iteration = self.shared_s(union, self.options.order);
        let weight = efficiency(&self.stages(union), iteration);
        // The artifact's weights stay as they are, because their last bits decide between equal matchings.
        let weight = if self.timing == Timing::Artifact { weight } else { quantise(weight) };
        forget(&mut self.weights);
        self.weights.insert(union, weight);
        weight
    }

    /// Groups by rounds of matching; merges while the jobs `want` more GPUs than `have`.
    pub(super) fn by_matching(&mut self, order: &[usize], buckets: &[Bucket], jobs: &[Job], mut want: u64, have: u32) -> Vec<Candidate> {
        let lone = |&at: &usize| {
            let bucket = &buckets[at];
            (bucket.gpus, bucket.order[..bucket.chosen].iter().map(|job| Group::of(*job)).collect::<Vec<_>>())
        };
        let mut groups: Vec<(u32, Vec<Group>)> = order.iter().map(lone).collect();
        for _ in 0..self.options.group_max {
            for (gpus, groups) in &mut groups {
                let keys: Vec<Key> = groups.iter().map(|group| key(group, jobs)).collect();
                let mates = self.matched(keys);
                *groups = merge(groups, &mates, u64::from(*gpus), &mut want, u64::from(have));
            }
            if want <= u64::from(have) {
                break;
            }
        }
        let candidate = |(gpus, groups): (u32, Vec<Group>)| groups.into_iter().map(move |group| Candidate { gpus, group, value: 0.0 });
        groups.into_iter().flat_map(candidate).collect()
    }

    /// The partners of groups with these profiles. Groups beyond what the search takes stay alone, where they are of many kinds.
    fn matched(&mut self, mut keys: Vec<Key>) -> Vec<Option<u32>> {
        let all = keys.len();
        if let Some(mates) = self.matched_by_kind(&keys) {
            return mates;
        }
        // First of all, so that the table below has no kinds that the search never sees.
        keys.truncate(NODES_MAX);
        let mut mates = self.matched_few(keys);
        mates.resize(all, None);
        mates
    }

    /// The partners of very many groups of few kinds; `None` of others. Groups of equal profiles are of one kind, in whatever order these are.
    ///
    /// Not in artifact mode, where it matters which of equally heavy matchings is found.
    fn matched_by_kind(&mut self, keys: &[Key]) -> Option<Vec<Option<u32>>> {
        if self.timing == Timing::Artifact || keys.len() < MANY {
            return None;
        }
        let keys: Vec<Key> = keys.iter().map(|key| sorted(*key)).collect();
        let mut kinds = keys.clone();
        kinds.sort_unstable();
        kinds.dedup();
        if kinds.len() * NODES_PER_KIND > keys.len() {
            return None;
        }
        let mut table = Vec::with_capacity(kinds.len() * kinds.len());
        for &a in &kinds {
            for &b in &kinds {
                table.push(self.weight(a, b));
            }
        }
        let kind_of: Vec<usize> = keys.iter().map(|key| kinds.binary_search(key).unwrap_or(0)).collect();
        max_weight_matching_of_kinds(&kind_of, &table, kinds.len())
    }

    /// The partners of at most [`NODES_MAX`] groups.
    fn matched_few(&mut self, keys: Vec<Key>) -> Vec<Option<u32>> {
        let lean = self.lean;
        if let Some((.., mates)) = self.remembered.iter().find(|(leant, known, _)| *leant == lean && *known == keys) {
            return mates.clone();
        }
        let mut kinds = keys.clone();
        kinds.sort_unstable();
        kinds.dedup();
        let mut table = Vec::with_capacity(kinds.len() * kinds.len());
        for &a in &kinds {
            for &b in &kinds {
                table.push(self.weight(a, b));
            }
        }
        let kind_of: Vec<usize> = keys.iter().map(|key| kinds.binary_search(key).unwrap_or(0)).collect();
        self.graph.reset(keys.len());
        for u in 0..self.graph.nodes() {
            let row = &table[kind_of[u] * kinds.len()..][..kinds.len()];
            for (v, weight) in self.graph.row_mut(u).iter_mut().enumerate() {
                *weight = if u == v { 0.0 } else { row[kind_of[v]] };
            }
        }
        let mates = max_weight_matching(&self.graph);
        if self.remembered.len() >= REMEMBERED_MAX {
            self.remembered.pop_back();
        }
        self.remembered.push_front((lean, keys, mates.clone()));
        mates
    }

    /// Groups of neighbours in the order, each reservation with those that it chose.
    pub(super) fn by_neighbours(&self, order: &[usize], buckets: &[Bucket], mut want: u64, have: u32) -> Vec<Candidate> {
        let size = usize::from(self.options.group_max);
        let mut groups = Vec::new();
        for bucket in order.iter().map(|&at| &buckets[at]) {
            let (gpus, chosen) = (bucket.gpus, &bucket.order[..bucket.chosen]);
            for members in chosen.chunks(size).take(bucket.reserved) {
                let mut group = Group::of(members[0]);
                for &job in &members[1..] {
                    if want > u64::from(have) {
                        group.join(&Group::of(job));
                        want -= u64::from(gpus);
                    } else {
                        groups.push(Candidate { gpus, group: Group::of(job), value: 0.0 });
                    }
                }
                groups.push(Candidate { gpus, group, value: 0.0 });
            }
        }
        groups
    }
}

/// Makes room for one more entry.
fn forget<V>(known: &mut BTreeMap<Key, V>) {
    if known.len() >= KNOWN_MAX {
        known.clear();
    }
}

/// Merges matched pairs while more GPUs are wanted than there are. A pair stands where its later half stood.
fn merge(groups: &[Group], mates: &[Option<u32>], gpus: u64, want: &mut u64, have: u64) -> Vec<Group> {
    let mut merged = Vec::with_capacity(groups.len());
    for (at, (group, mate)) in groups.iter().zip(mates).enumerate() {
        match mate.map(|mate| mate as usize) {
            None => merged.push(*group),
            Some(mate) if mate < at => {
                let mut first = groups[mate];
                if *want > have {
                    first.join(group);
                    *want -= gpus;
                    merged.push(first);
                } else {
                    merged.extend([first, *group]);
                }
            }
            Some(_) => {}
        }
    }
    merged
}

fn key(group: &Group, jobs: &[Job]) -> Key {
    group.members().iter().rev().fold(0, |key, job| key << MEMBER_BITS | (u64::from(jobs[*job as usize].profile) + 1))
}

/// A number from 0 to 1 that looks random.
fn drawn(key: Key, seed: u64) -> f64 {
    // The upper 32 bits; the lowest are the least mixed.
    (units::mix64(key ^ seed.wrapping_mul(units::GOLDEN)) >> 32) as f64 / f64::from(u32::MAX)
}

/// The same members in order of their profiles.
fn sorted(key: Key) -> Key {
    let mut profiles: Vec<usize> = members(key).collect();
    profiles.sort_unstable();
    profiles.iter().rev().fold(0, |key, profile| key << MEMBER_BITS | (*profile as u64 + 1))
}

/// The profiles of a key.
fn members(key: Key) -> impl Iterator<Item = usize> {
    (0..GROUP_MAX as u32)
        .map(move |at| key >> (MEMBER_BITS * at) & 0xffff)
        .take_while(|member| *member != 0)
        .map(|member| member as usize - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Profiles that all differ.
    fn grouping(profiles: u32) -> Grouping {
        let profile = |n: u32| {
            let stages = Stages { load_s: f64::from(n % 97) + 1.0, gpu_s: f64::from(n) + 1.0, net_s: 1.0 };
            Profile { iteration_s: stages.sum(), stages, restart_s: 1.0 }
        };
        Grouping::new(Timing::Paper, MuriOptions::default(), (0..profiles).map(profile).collect())
    }

    #[test]
    fn what_is_kept_has_a_limit() {
        // 260 kinds make 67,600 pairs.
        let mut grouping = grouping(260);
        for a in 1..=260 {
            for b in 1..=260 {
                grouping.weight(a, b);
            }
        }
        assert!(grouping.weights.len() <= KNOWN_MAX && grouping.iterations.len() <= KNOWN_MAX);
        const { assert!(260 * 260 > KNOWN_MAX, "the limit was not reached") };
    }

    #[test]
    fn groups_of_few_kinds_are_all_matched_as_well_as_the_first() {
        // Four kinds, five times as many as the search takes; the first of them are matched among all nodes as well.
        let key = |at: u64| at * 7 % 4 + 1;
        let keys: Vec<Key> = (0..5 * NODES_MAX as u64).map(key).collect();
        let mut grouping = grouping(4);
        let mut sum = |keys: &[Key], mates: &[Option<u32>]| -> f64 {
            let pairs = mates.iter().enumerate().filter_map(|(u, mate)| mate.map(|v| (u, v as usize))).filter(|(u, v)| u < v);
            pairs.map(|(u, v)| grouping.weight(keys[u], keys[v])).sum()
        };
        let mut other = self::grouping(4);
        let (all, first) = (other.matched(keys.clone()), other.matched_few(keys[..NODES_MAX].to_vec()));
        assert!(all.iter().all(Option::is_some));
        assert!((sum(&keys, &all) - 5.0 * sum(&keys, &first)).abs() < 1e-6);
        // In artifact mode the order of the search decides, so only the first are matched.
        other.timing = Timing::Artifact;
        assert_eq!(other.matched(keys).iter().filter(|mate| mate.is_some()).count(), NODES_MAX);
    }

    #[test]
    fn groups_beyond_what_is_matched_cost_nothing() {
        // All of a kind but the last thousand, which the search never sees: no weight of theirs is asked for.
        let keys = (0..NODES_MAX as u64 + 1_000).map(|at| at.saturating_sub(NODES_MAX as u64 - 2) + 1);
        let mut grouping = grouping(1_100);
        let mates = grouping.matched(keys.collect());
        assert_eq!(mates.len(), NODES_MAX + 1_000);
        assert!(mates[NODES_MAX..].iter().all(Option::is_none) && mates[..NODES_MAX].iter().filter(|mate| mate.is_some()).count() > 1_000);
        assert!(grouping.weights.len() <= 4, "{} weights", grouping.weights.len());
    }
}
