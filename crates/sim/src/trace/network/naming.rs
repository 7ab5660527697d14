//! Which hosts of the fabric the hosts of a policy are that places its jobs itself (AntMan, Gandiva).
//!
//! The rules. To such a policy all hosts are alike, so its hosts are names: it says who is beside whom, and which host of the
//! fabric a name means is chosen when somebody comes to a host on which nobody stands. A name keeps its host while a job stands there that stood
//! there before; nobody moves who would not move otherwise. Names that are new are taken group by group, those with the most hosts
//! first, by the rules of [`Placer`](policy::schedule::Placer) for hosts in place of GPUs: within the leaf with the least room that is enough, else over as few leaves as it
//! takes; and candidates differ in which.

use alloc::{collections::BTreeSet, string::String, vec, vec::Vec};

use policy::schedule::{CANDIDATES, Decision, Job, Place, Unplaced};

use super::{Network, NetworkControl, Ranker};
use crate::trace::Trace;

/// The hosts of the fabric by name, and the names by host.
#[derive(Clone, Debug)]
pub(super) struct Naming {
    host_of: Vec<u32>,
    name_of: Vec<u32>,
}

impl Naming {
    /// Every name means the host of its number.
    pub(super) fn new(hosts: u32) -> Self {
        let numbers: Vec<u32> = (0..hosts).collect();
        Self { host_of: numbers.clone(), name_of: numbers }
    }

    fn host(&self, name: u32) -> u32 {
        self.host_of.get(name as usize).copied().unwrap_or(name)
    }

    /// From now on the name means this host; what the host was called is the name of the other one.
    fn rename(&mut self, name: u32, host: u32) {
        let (old_host, old_name) = (self.host(name), self.name_of.get(host as usize).copied().unwrap_or(host));
        set(&mut self.host_of, old_name, old_host);
        set(&mut self.host_of, name, host);
        set(&mut self.name_of, old_host, old_name);
        set(&mut self.name_of, host, name);
    }

    /// The same places on the hosts that the names mean.
    fn places(&self, named: &[Place]) -> Vec<Place> {
        named.iter().map(|place| Place { host: self.host(place.host), ..*place }).collect()
    }
}

fn set(numbers: &mut [u32], at: u32, value: u32) {
    if let Some(number) = numbers.get_mut(at as usize) {
        *number = value;
    }
}

/// A group that comes to hosts on which nobody stands, and their names.
struct Newcomer {
    group: u32,
    names: Vec<u32>,
}

impl Network<'_> {
    /// Puts the jobs of a decision whose hosts are names on hosts of the fabric. `before` is the decision before, on such hosts.
    ///
    /// # Errors
    /// What the planner refuses.
    pub(in crate::trace) fn name_hosts(
        &mut self,
        (trace, jobs): (&Trace, &[Job]),
        before: &Decision,
        decision: &mut Decision,
        turn: u64,
    ) -> Result<(), String> {
        let named = core::mem::take(&mut decision.places);
        let groups: BTreeSet<u32> = before.runs.iter().map(|run| run.group).collect();
        let kept: BTreeSet<u32> = before.places.iter().filter(|place| groups.contains(&place.group)).map(|place| place.host).collect();
        let newcomers = newcomers(&named, |name| kept.contains(&self.naming.host(name)));
        let lodgings = self.lodgings(&kept, &newcomers, turn);
        let mut candidates: Vec<Naming> = lodgings.iter().map(|places| self.named(&newcomers, places)).collect();
        let mut costs = Vec::with_capacity(candidates.len());
        if candidates.len() > 1 {
            for naming in &candidates {
                decision.places = naming.places(&named);
                let stands = self.stand(trace, jobs, decision)?.0;
                costs.push(self.cost(&stands)?);
            }
        }
        let come: BTreeSet<u32> = newcomers.iter().flat_map(|newcomer| newcomer.names.iter().copied()).collect();
        let gpus = named.iter().filter(|place| come.contains(&place.host)).fold(0, |sum: u32, place| sum.saturating_add(place.gpus));
        let best = self.taken(&costs, gpus);
        if best < candidates.len() {
            self.naming = candidates.swap_remove(best);
        }
        decision.places = self.naming.places(&named);
        Ok(())
    }

    /// Hosts for the newcomers, beside those that are kept.
    fn lodgings(&mut self, kept: &BTreeSet<u32>, newcomers: &[Newcomer], turn: u64) -> Vec<Vec<Place>> {
        if newcomers.is_empty() {
            return Vec::new();
        }
        let taken = kept.iter().map(|host| Place { group: 0, host: *host, gpus: 1 }).collect();
        let placer = &mut self.lodger;
        placer.occupy(&Decision { places: taken, ..Decision::default() });
        let wanted: Vec<Unplaced> =
            newcomers.iter().map(|newcomer| Unplaced { group: newcomer.group, gpus: newcomer.names.len() as u32 }).collect();
        let seed = self.setup.seed ^ turn.rotate_left(32);
        match self.setup.ranker {
            Ranker::Random => vec![placer.scatter(&wanted, seed)],
            Ranker::Cassini | Ranker::Antiphase if self.setup.control != NetworkControl::Ideal => {
                placer.candidates(&wanted, CANDIDATES, seed)
            }
            Ranker::None | Ranker::Cassini | Ranker::Antiphase => placer.candidates(&wanted, 1, seed),
        }
    }

    /// The names after the newcomers took these hosts.
    fn named(&self, newcomers: &[Newcomer], places: &[Place]) -> Naming {
        let mut naming = self.naming.clone();
        for newcomer in newcomers {
            let hosts = places.iter().filter(|place| place.group == newcomer.group).map(|place| place.host);
            newcomer.names.iter().zip(hosts).for_each(|(name, host)| naming.rename(*name, host));
        }
        naming
    }
}

/// The groups with names that are not kept, those with the most of them first. A name that several have is that of the first.
fn newcomers(named: &[Place], kept: impl Fn(u32) -> bool) -> Vec<Newcomer> {
    let mut found: Vec<Newcomer> = Vec::new();
    let mut seen: BTreeSet<u32> = BTreeSet::new();
    for place in named.iter().filter(|place| !kept(place.host)) {
        if !seen.insert(place.host) {
            continue;
        }
        match found.iter_mut().find(|newcomer| newcomer.group == place.group) {
            Some(newcomer) => newcomer.names.push(place.host),
            None => found.push(Newcomer { group: place.group, names: vec![place.host] }),
        }
    }
    found.sort_by_key(|newcomer| core::cmp::Reverse(newcomer.names.len()));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(group: u32, host: u32, gpus: u32) -> Place {
        Place { group, host, gpus }
    }

    #[test]
    fn names_and_hosts_stay_one_to_one() {
        let mut naming = Naming::new(5);
        for (name, host) in [(0, 3), (3, 3), (4, 3), (1, 1), (0, 4), (2, 0)] {
            naming.rename(name, host);
            assert_eq!(naming.host(name), host);
            let hosts: BTreeSet<u32> = naming.host_of.iter().copied().collect();
            assert_eq!(hosts.len(), 5);
            assert!((0..5).all(|name| naming.name_of[naming.host(name) as usize] == name));
        }
        assert_eq!(naming.places(&[place(7, 2, 3)]), [place(7, 0, 3)]);
    }

    #[test]
    fn whoever_comes_to_hosts_of_others_takes_no_new_ones() {
        // Hosts 0 and 1 are kept; group 5 also has 0, group 6 comes to 2, 3 and 4, of which group 7 shares one.
        let named = [place(5, 0, 4), place(5, 7, 4), place(6, 2, 8), place(6, 3, 8), place(6, 4, 4), place(7, 4, 4), place(8, 1, 1)];
        let found = newcomers(&named, |host| host < 2);
        let groups: Vec<(u32, &[u32])> = found.iter().map(|newcomer| (newcomer.group, newcomer.names.as_slice())).collect();
        assert_eq!(groups, [(6, &[2, 3, 4][..]), (5, &[7])]);
    }
}
