//! Hosts with free GPUs, and where a job fits ("yarn" in the authors' simulator).
//!
//! The rules. Hosts are looked at in order of their number. A job that fits in one host gets the first that has enough free GPUs.
//! A larger one gets hosts without any job, the first ones, and for what is left over the first other host with enough. All or nothing.
//! Where hosts have unequal numbers of GPUs, a host without any job is left out that has more than the job still misses.

use alloc::{vec, vec::Vec};

use super::job::{Decision, Place};

/// A cluster of equal hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Hosts.
    pub hosts: u32,
    /// GPUs in each.
    pub gpus_per_host: u32,
}

impl Cluster {
    /// All GPUs.
    #[must_use]
    pub fn gpus(&self) -> u32 {
        self.hosts.saturating_mul(self.gpus_per_host)
    }

    /// Whether a job of this many GPUs fits when nobody else runs.
    #[must_use]
    pub fn holds(&self, gpus: u32) -> bool {
        gpus > 0 && u64::from(gpus) <= u64::from(self.hosts) * u64::from(self.gpus_per_host)
    }
}

/// What a cluster has to give: the GPUs of its hosts, but for those of hosts that are out. Who decides or places asks here, and nowhere else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// By host: its GPUs when it is there.
    full: Vec<u32>,
    /// By host: its GPUs, none while it is out.
    there: Vec<u32>,
    gpus: u32,
}

impl From<Cluster> for Capacity {
    fn from(cluster: Cluster) -> Self {
        Self::of_hosts(vec![cluster.gpus_per_host; cluster.hosts as usize])
    }
}

impl Capacity {
    /// All hosts of a cluster.
    #[must_use]
    pub fn new(cluster: Cluster) -> Self {
        cluster.into()
    }

    /// Hosts with these numbers of GPUs.
    #[must_use]
    pub fn of_hosts(full: Vec<u32>) -> Self {
        let gpus = full.iter().fold(0_u32, |sum, gpus| sum.saturating_add(*gpus));
        Self { there: full.clone(), full, gpus }
    }

    /// The GPUs of each host when all are there.
    #[must_use]
    pub fn full(&self) -> &[u32] {
        &self.full
    }

    /// The GPUs of all hosts when all are there.
    #[must_use]
    pub fn all(&self) -> u32 {
        self.full.iter().fold(0, |sum, gpus| sum.saturating_add(*gpus))
    }

    /// The GPUs of the largest host.
    #[must_use]
    pub fn most(&self) -> u32 {
        self.full.iter().copied().max().unwrap_or(0)
    }

    /// Whether a job of this many GPUs fits when nobody else runs, and all hosts are there.
    #[must_use]
    pub fn holds(&self, gpus: u32) -> bool {
        gpus > 0 && gpus <= self.all()
    }

    /// The cluster as if each host had as many GPUs as the largest.
    pub(super) fn cluster(&self) -> Cluster {
        Cluster { hosts: self.full.len() as u32, gpus_per_host: self.most() }
    }

    /// A host gives no GPUs from now on.
    pub fn lose(&mut self, host: u32) {
        if let Some(gpus) = self.there.get_mut(host as usize) {
            self.gpus = self.gpus.saturating_sub(core::mem::take(gpus));
        }
    }

    /// A host is back with all of its GPUs.
    pub fn regain(&mut self, host: u32) {
        if let Some((gpus, full)) = self.there.get_mut(host as usize).zip(self.full.get(host as usize)).filter(|(gpus, _)| **gpus == 0) {
            *gpus = *full;
            self.gpus = self.gpus.saturating_add(*full);
        }
    }

    /// The GPUs of a host, none while it is out.
    #[must_use]
    pub fn gpus_of(&self, host: u32) -> u32 {
        self.there.get(host as usize).copied().unwrap_or(0)
    }

    /// The GPUs of all hosts that are there.
    #[must_use]
    pub fn gpus(&self) -> u32 {
        self.gpus
    }

    /// The GPUs of each host.
    pub(super) fn by_host(&self) -> &[u32] {
        &self.there
    }
}

/// Free GPUs, host by host.
#[derive(Clone, Debug)]
pub(super) struct Hosts {
    /// The GPUs of the largest host.
    most: u32,
    /// GPUs of each host, taken or not.
    gpus: Vec<u32>,
    free: Vec<u32>,
    /// Free GPUs of all hosts.
    pub(super) left: u32,
    /// What the last job that fitted got.
    taken: Vec<(u32, u32)>,
    /// No host before this one has a free GPU.
    first: usize,
}

impl Hosts {
    pub(super) fn new(capacity: &Capacity) -> Self {
        let gpus = capacity.by_host().to_vec();
        Self { most: capacity.most(), free: gpus.clone(), gpus, left: capacity.gpus(), taken: Vec::new(), first: 0 }
    }

    /// Takes all jobs off: from now on what the cluster has to give is free.
    pub(super) fn clear(&mut self, capacity: &Capacity) {
        self.gpus.clear();
        self.gpus.extend_from_slice(capacity.by_host());
        self.free.clone_from(&self.gpus);
        self.left = capacity.gpus();
        self.first = 0;
    }

    /// Takes GPUs for a job, all or none.
    pub(super) fn take(&mut self, gpus: u32) -> bool {
        self.taken.clear();
        if gpus > self.left {
            return false;
        }
        let mut rest = gpus;
        // Hosts without a free GPU fit nobody, so a queue of small jobs does not look at all full hosts again for each of them.
        let first = self.first as u32;
        if gpus > self.most {
            let hosts = self.gpus[self.first..].iter().zip(&self.free[self.first..]).zip(first..);
            for ((&has, _), host) in hosts.filter(|((has, free), _)| has == free && **has > 0) {
                if has <= rest {
                    self.taken.push((host, has));
                    rest -= has;
                }
                if rest == 0 {
                    break;
                }
            }
        }
        if rest > 0 {
            // Whole hosts were taken in order, so they are found by halving.
            let taken = |host: u32| self.taken.binary_search_by_key(&host, |taken| taken.0).is_ok();
            let hosts = self.free[self.first..].iter().zip(first..);
            let room = hosts.filter(|(free, host)| **free >= rest && !taken(*host)).map(|(_, h)| h).next();
            let Some(host) = room else { return false };
            self.taken.push((host, rest));
        }
        for &(host, gpus) in &self.taken {
            self.free[host as usize] -= gpus;
        }
        self.left -= gpus;
        self.first += self.free[self.first..].iter().take_while(|free| **free == 0).count();
        true
    }

    /// Takes these GPUs, of each host once; all or none.
    pub(super) fn hold(&mut self, places: &[(u32, u32)]) -> bool {
        if places.iter().any(|&(host, gpus)| self.free_of(host) < gpus) {
            return false;
        }
        for &(host, gpus) in places {
            self.free[host as usize] -= gpus;
            self.left -= gpus;
        }
        true
    }

    /// Takes GPUs for a job wherever some are free, all or none.
    pub(super) fn scatter(&mut self, gpus: u32) -> bool {
        self.taken.clear();
        if gpus > self.left {
            return false;
        }
        let mut missing = gpus;
        for (free, host) in self.free.iter_mut().zip(0..) {
            let own = missing.min(*free);
            if own > 0 {
                self.taken.push((host, own));
                (*free, missing) = (*free - own, missing - own);
            }
        }
        self.left -= gpus;
        true
    }

    /// Gives back GPUs that were taken.
    pub(super) fn give(&mut self, places: &[(u32, u32)]) {
        for &(host, gpus) in places {
            self.free[host as usize] += gpus;
            self.left += gpus;
            self.first = self.first.min(host as usize);
        }
    }

    /// Hosts and GPUs that the last job that fitted got.
    pub(super) fn taken(&self) -> &[(u32, u32)] {
        &self.taken
    }

    /// Free GPUs of a host.
    pub(super) fn free_of(&self, host: u32) -> u32 {
        self.free.get(host as usize).copied().unwrap_or(0)
    }

    /// Writes down where the last job that fitted stands.
    pub(super) fn note(&self, group: u32, decision: &mut Decision) {
        decision.places.extend(self.taken.iter().map(|&(host, gpus)| Place { group, host, gpus }));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn jobs_fill_the_first_hosts_and_large_ones_want_idle_hosts() {
        let mut hosts = Hosts::new(&Cluster { hosts: 4, gpus_per_host: 8 }.into());
        assert!(hosts.take(4) && hosts.taken == [(0, 4)]);
        // 16 GPUs take two idle hosts, although 12 of the first two are free.
        assert!(hosts.take(16) && hosts.taken == [(1, 8), (2, 8)]);
        assert!(hosts.take(6) && hosts.taken == [(3, 6)]);
        assert!(!hosts.take(8), "no host has 8");
        assert_eq!(hosts.left, 6);
        let mut capacity = Capacity::new(Cluster { hosts: 4, gpus_per_host: 8 });
        hosts.clear(&capacity);
        // 20 GPUs: two idle hosts and 4 of the first other one.
        assert!(hosts.take(20) && hosts.taken == [(0, 8), (1, 8), (2, 4)]);
        // Nobody gets anything of a host that is out; what is lost twice is lost once.
        [1, 1, 9].into_iter().for_each(|host| capacity.lose(host));
        assert_eq!((capacity.gpus(), capacity.all(), capacity.gpus_of(1), capacity.gpus_of(2)), (24, 32, 0, 8));
        hosts.clear(&capacity);
        assert!(hosts.take(20) && hosts.taken == [(0, 8), (2, 8), (3, 4)]);
        assert!(!hosts.hold(&[(1, 1)]) && !hosts.take(5) && hosts.take(4) && hosts.left == 0);
        hosts.clear(&capacity);
        assert!(hosts.take(4) && hosts.scatter(11) && hosts.taken == [(0, 4), (2, 7)]);
        assert!(!hosts.scatter(10) && hosts.scatter(9) && hosts.taken == [(2, 1), (3, 8)] && hosts.left == 0);
        [1, 1].into_iter().for_each(|host| capacity.regain(host));
        assert_eq!(capacity, Capacity::new(Cluster { hosts: 4, gpus_per_host: 8 }));
    }

    #[test]
    fn unequal_hosts_give_no_more_than_they_have() {
        let mut capacity = Capacity::of_hosts(vec![4, 8, 2, 8]);
        let mut hosts = Hosts::new(&capacity);
        // A job that fits on a host stays on one; the first with room for it.
        assert!(hosts.take(6) && hosts.taken == [(1, 6)]);
        // A larger one takes idle hosts as long as it misses all that they have: 4, 2, and 4 of the last.
        assert!(hosts.take(10) && hosts.taken == [(0, 4), (2, 2), (3, 4)]);
        assert!(!hosts.take(5) && hosts.take(4) && hosts.taken == [(3, 4)] && hosts.left == 2);
        assert!((capacity.most(), capacity.all()) == (8, 22) && capacity.holds(22) && !capacity.holds(23));
        // A host that was out comes back as it was.
        capacity.lose(2);
        assert_eq!((capacity.gpus_of(2), capacity.gpus(), capacity.all()), (0, 20, 22));
        capacity.regain(2);
        assert_eq!((capacity.gpus_of(2), capacity.gpus()), (2, 22));
    }

    #[test]
    fn a_cluster_holds_what_fits_when_it_is_empty() {
        let cluster = Cluster { hosts: 2, gpus_per_host: 8 };
        assert!(cluster.holds(16) && cluster.holds(12) && !cluster.holds(17) && !cluster.holds(0));
        assert!(!Cluster { hosts: 3, gpus_per_host: 0 }.holds(1));
    }

    #[test]
    fn a_job_of_very_many_hosts_is_placed_at_once() {
        // Comparing each host with all that were taken before, this took ten billion steps.
        let cluster = Cluster { hosts: 100_000, gpus_per_host: 64 };
        let mut hosts = Hosts::new(&cluster.into());
        let gpus = 64 * 99_999 + 1;
        assert!(cluster.holds(gpus) && hosts.take(gpus));
        assert_eq!(hosts.taken.last(), Some(&(99_999, 1)));
        // Nor does a job look at all full hosts before it: this would take six billion steps.
        hosts.clear(&Capacity::new(cluster));
        assert!((0..cluster.gpus()).all(|_| hosts.take(1)) && hosts.left == 0);
    }

    proptest! {
        #[test]
        fn a_cluster_holds_what_its_empty_hosts_take(hosts in 0_u32..5, gpus_per_host in 0_u32..9, gpus in 0_u32..50) {
            let cluster = Cluster { hosts, gpus_per_host };
            prop_assert_eq!(cluster.holds(gpus), gpus > 0 && Hosts::new(&cluster.into()).take(gpus));
        }

        #[test]
        fn unequal_hosts_take_whatever_fits_while_they_are_empty(of in prop::collection::vec(0_u32..9, 0..6), gpus in 0_u32..50) {
            let capacity = Capacity::of_hosts(of);
            let mut hosts = Hosts::new(&capacity);
            prop_assert_eq!(capacity.holds(gpus), gpus > 0 && hosts.take(gpus));
            let gives = |(host, gpus): &(u32, u32)| *gpus > 0 && *gpus <= capacity.gpus_of(*host);
            prop_assert!(hosts.taken.iter().all(gives), "{:?}", hosts.taken);
        }

        /// The rules as they are written at the top, host by host.
        #[test]
        fn jobs_get_the_first_hosts_that_fit(hosts in 1_u32..6, jobs in prop::collection::vec(1_u32..20, 1..30)) {
            let cluster = Cluster { hosts, gpus_per_host: 4 };
            let (mut ours, mut free) = (Hosts::new(&cluster.into()), vec![4_u32; hosts as usize]);
            for gpus in jobs {
                let (whole, rest) = if gpus > 4 { (gpus as usize / 4, gpus % 4) } else { (0, gpus) };
                let mut expected: Vec<(u32, u32)> = (0..hosts).filter(|h| free[*h as usize] == 4).take(whole).map(|h| (h, 4)).collect();
                let mut fits = expected.len() == whole;
                if rest > 0 && fits {
                    let host = (0..hosts).find(|h| free[*h as usize] >= rest && expected.iter().all(|taken| taken.0 != *h));
                    expected.extend(host.map(|host| (host, rest)));
                    fits = host.is_some();
                }
                prop_assert_eq!(ours.take(gpus), fits);
                if fits {
                    prop_assert_eq!(&ours.taken, &expected);
                    expected.iter().for_each(|(host, gpus)| free[*host as usize] -= gpus);
                }
                prop_assert_eq!(ours.left, free.iter().sum::<u32>());
            }
        }
    }
}
