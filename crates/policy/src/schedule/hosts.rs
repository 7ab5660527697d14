//! Hosts with free GPUs, and where a job fits ("yarn" in the authors' simulator).
//!
//! The rules. Hosts are looked at in order of their number. A job that fits in one host gets the first that has enough free GPUs.
//! A larger one gets hosts without any job, the first ones, and for what is left over the first other host with enough. All or nothing.

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
        gpus > 0 && Hosts::new(*self).take(gpus)
    }
}

/// Free GPUs, host by host.
#[derive(Clone, Debug)]
pub(super) struct Hosts {
    cluster: Cluster,
    free: Vec<u32>,
    /// Free GPUs of all hosts.
    pub(super) left: u32,
    /// What the last job that fitted got.
    taken: Vec<(u32, u32)>,
}

impl Hosts {
    pub(super) fn new(cluster: Cluster) -> Self {
        let free = vec![cluster.gpus_per_host; cluster.hosts as usize];
        Self { cluster, free, left: cluster.gpus(), taken: Vec::new() }
    }

    /// Takes all jobs off.
    pub(super) fn clear(&mut self) {
        self.free.fill(self.cluster.gpus_per_host);
        self.left = self.cluster.gpus();
    }

    /// Takes GPUs for a job, all or none.
    pub(super) fn take(&mut self, gpus: u32) -> bool {
        self.taken.clear();
        let per_host = self.cluster.gpus_per_host;
        if gpus > self.left || per_host == 0 {
            return false;
        }
        let (whole, rest) = if gpus > per_host { (gpus / per_host, gpus % per_host) } else { (0, gpus) };
        if whole > 0 {
            let idle = self.free.iter().zip(0..).filter(|(free, _)| **free == per_host).take(whole as usize);
            self.taken.extend(idle.map(|(_, host)| (host, per_host)));
            if self.taken.len() < whole as usize {
                return false;
            }
        }
        if rest > 0 {
            let hosts = self.free.iter().zip(0..);
            let room =
                hosts.filter(|(free, host)| **free >= rest && self.taken.iter().all(|(taken, _)| taken != host)).map(|(_, h)| h).next();
            let Some(host) = room else { return false };
            self.taken.push((host, rest));
        }
        for &(host, gpus) in &self.taken {
            self.free[host as usize] -= gpus;
        }
        self.left -= gpus;
        true
    }

    /// Writes down where the last job that fitted stands.
    pub(super) fn note(&self, group: u32, decision: &mut Decision) {
        decision.places.extend(self.taken.iter().map(|&(host, gpus)| Place { group, host, gpus }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_fill_the_first_hosts_and_large_ones_want_idle_hosts() {
        let mut hosts = Hosts::new(Cluster { hosts: 4, gpus_per_host: 8 });
        assert!(hosts.take(4) && hosts.taken == [(0, 4)]);
        // 16 GPUs take two idle hosts, although 12 of the first two are free.
        assert!(hosts.take(16) && hosts.taken == [(1, 8), (2, 8)]);
        assert!(hosts.take(6) && hosts.taken == [(3, 6)]);
        assert!(!hosts.take(8), "no host has 8");
        assert_eq!(hosts.left, 6);
        hosts.clear();
        // 20 GPUs: two idle hosts and 4 of the first other one.
        assert!(hosts.take(20) && hosts.taken == [(0, 8), (1, 8), (2, 4)]);
    }

    #[test]
    fn a_cluster_holds_what_fits_when_it_is_empty() {
        let cluster = Cluster { hosts: 2, gpus_per_host: 8 };
        assert!(cluster.holds(16) && cluster.holds(12) && !cluster.holds(17) && !cluster.holds(0));
        assert!(!Cluster { hosts: 3, gpus_per_host: 0 }.holds(1));
    }
}
