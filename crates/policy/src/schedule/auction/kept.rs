//! Hosts that are kept for a job that does not fit now.

use alloc::vec::Vec;

use super::super::hosts::Capacity;

/// GPUs of a host that a lease gives back.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    pub(super) host: u32,
    pub(super) gpus: u32,
    pub(super) at_s: f64,
}

/// The free GPUs of those hosts on which a job of so many GPUs fits soonest, by host.
///
/// It takes hosts as [`Hosts`](super::super::hosts::Hosts) gives them: whole ones, and one more for the rest.
/// Nothing is kept for a job that the hosts which are there do not hold: nobody knows when the others are back.
pub(super) fn kept(capacity: &Capacity, gpus: u32, now_s: f64, mut ends: Vec<End>, free_of: impl Fn(u32) -> u32) -> Vec<(u32, u32)> {
    if gpus > capacity.gpus() {
        return Vec::new();
    }
    let there = || (0..capacity.full().len() as u32).filter(|host| capacity.gpus_of(*host) > 0);
    ends.sort_unstable_by(|a, b| a.host.cmp(&b.host).then(a.at_s.total_cmp(&b.at_s)));
    // When so many GPUs of a host are free: its leases give them back one after the other.
    let soonest_s = |host: u32, wants: u32| {
        let first = ends.partition_point(|end| end.host < host);
        let (mut free, mut at_s) = (free_of(host), now_s);
        for end in ends[first..].iter().take_while(|end| end.host == host) {
            if free >= wants {
                break;
            }
            (free, at_s) = (free + end.gpus, end.at_s);
        }
        at_s
    };
    let by_time = |a: &(f64, u32), b: &(f64, u32)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
    let (mut hosts, mut rest): (Vec<(f64, u32)>, u32) = (Vec::new(), gpus);
    if gpus > capacity.most() {
        hosts.extend(there().map(|host| (soonest_s(host, capacity.gpus_of(host)), host)));
        hosts.sort_unstable_by(by_time);
        hosts.retain(|(_, host)| {
            let whole = capacity.gpus_of(*host) <= rest;
            rest -= if whole { capacity.gpus_of(*host) } else { 0 };
            whole
        });
    }
    let mut kept: Vec<(u32, u32)> = hosts.iter().map(|&(_, host)| (host, free_of(host))).collect();
    if rest > 0 {
        let mut taken: Vec<u32> = hosts.iter().map(|(_, host)| *host).collect();
        taken.sort_unstable();
        let others = there().filter(|host| taken.binary_search(host).is_err() && capacity.gpus_of(*host) >= rest);
        let soonest = others.map(|host| (soonest_s(host, rest), host)).min_by(by_time);
        kept.extend(soonest.map(|(_, host)| (host, free_of(host).min(rest))));
    }
    kept.retain(|(_, gpus)| *gpus > 0);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    use super::super::super::hosts::Cluster;

    const CLUSTER: Cluster = Cluster { hosts: 3, gpus_per_host: 8 };

    /// Host 0 has 2 free and gives 6 back at 100 s; host 1 is full until 50 s, and then half of it until 200 s; host 2 is full until 150 s.
    fn found(gpus: u32) -> Vec<(u32, u32)> {
        let end = |host, gpus, at_s| End { host, gpus, at_s };
        let ends = [end(2, 8, 150.0), end(1, 4, 200.0), end(0, 6, 100.0), end(1, 4, 50.0)];
        kept(&Capacity::new(CLUSTER), gpus, 10.0, ends.to_vec(), |host| [2, 0, 0][host as usize])
    }

    #[test]
    fn no_host_that_is_out_is_waited_for() {
        // Host 2 is full until 50 s, host 0 has 3 free; host 1 is out, and so has neither free GPUs nor leases.
        let mut capacity = Capacity::new(CLUSTER);
        capacity.lose(1);
        let ends = [End { host: 2, gpus: 8, at_s: 50.0 }, End { host: 0, gpus: 5, at_s: 90.0 }];
        let found = |gpus| kept(&capacity, gpus, 10.0, ends.to_vec(), |host| [3, 0, 0][host as usize]);
        assert_eq!((found(16), found(4), found(17)), (alloc::vec![(0, 3)], Vec::new(), Vec::new()));
    }

    #[test]
    fn of_unequal_hosts_those_are_kept_that_a_job_can_have() {
        // Host 0 of 4 is free at 100 s, host 1 of 8 at 50 s, host 2 of 2 is idle.
        let capacity = Capacity::of_hosts(alloc::vec![4, 8, 2]);
        let ends = [End { host: 0, gpus: 3, at_s: 100.0 }, End { host: 1, gpus: 7, at_s: 50.0 }];
        let found = |gpus| kept(&capacity, gpus, 10.0, ends.to_vec(), |host| [1, 1, 2][host as usize]);
        // Six fit on host 1 alone; ten are host 2 and host 1, and fourteen all of them.
        assert_eq!((found(6), found(10)), (alloc::vec![(1, 1)], alloc::vec![(2, 2), (1, 1)]));
        assert_eq!((found(14), found(15)), (alloc::vec![(2, 2), (1, 1), (0, 1)], Vec::new()));
    }

    #[test]
    fn the_free_gpus_of_the_hosts_that_are_free_soonest_are_kept() {
        // 4 GPUs are free soonest on host 1, which has nothing to keep yet; 6 on host 0.
        assert_eq!((found(4), found(6)), (Vec::new(), alloc::vec![(0, 2)]));
        // Two hosts: 0 and 2. Twelve GPUs: host 0, and then 4 GPUs of host 1.
        assert_eq!((found(16), found(12)), (alloc::vec![(0, 2)], alloc::vec![(0, 2)]));
        // A job that wants 1 GPU keeps one.
        assert_eq!(found(1), [(0, 1)]);
    }
}
