//! Who wins an auction: those together for whom the product of 1/rho is largest.
//!
//! The logarithm of the product is a sum, to which a winner adds its gain ln(rho without / rho with). So the gains of the winners are to be
//! as large as possible together, while all fit on the free GPUs, the largest being placed first. For up to [`EXACT_MAX`] bids all
//! sets are tried. Beyond that bids are served by gain per GPU, or by gain, whichever brings more in the end.

use alloc::vec::Vec;
use core::cmp::Ordering;

use super::{
    super::{hosts::Hosts, job::JobIndex},
    fairness::Rho,
};

/// Bids of which all sets are tried: 256 of them.
const EXACT_MAX: usize = 8;

/// A job that wants GPUs, all or none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bid {
    pub(super) job: JobIndex,
    pub(super) gpus: u32,
    pub(super) rho: Rho,
    /// Whether it had GPUs until now.
    pub(super) stays: bool,
}

impl Bid {
    /// What it adds to the logarithm of the product.
    pub(super) fn gain(&self) -> f64 {
        libm::log(self.rho.without / self.rho.with)
    }

    /// Whoever is later without GPUs comes first; of equals the first job.
    pub(super) fn worse(&self, other: &Self) -> Ordering {
        other.rho.without.total_cmp(&self.rho.without).then(self.job.cmp(&other.job))
    }
}

/// A bid that wins.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Win {
    /// Its place in the list of bids.
    pub(super) bid: usize,
    /// Hosts and GPUs with which all winners fit.
    pub(super) places: Vec<(u32, u32)>,
}

/// The gains of the winners together.
pub(super) fn value(bids: &[Bid], wins: &[Win]) -> f64 {
    wins.iter().map(|win| bids[win.bid].gain()).sum()
}

/// The winners among all bids but those `absent`. The hosts are left as they were.
pub(super) fn winners(hosts: &mut Hosts, bids: &[Bid], absent: &[usize]) -> Vec<Win> {
    let fits = |at: &usize| bids[*at].gpus <= hosts.left && !absent.contains(at);
    let present: Vec<usize> = (0..bids.len()).filter(fits).collect();
    if present.len() <= EXACT_MAX {
        return exact(hosts, bids, present);
    }
    let gains: Vec<f64> = bids.iter().map(Bid::gain).collect();
    let mut by_gain = present;
    by_gain.sort_by(|a, b| gains[*b].total_cmp(&gains[*a]));
    let mut by_share = by_gain.clone();
    let share = |at: usize| gains[at] / f64::from(bids[at].gpus);
    by_share.sort_by(|a, b| share(*b).total_cmp(&share(*a)));
    let [by_share, by_gain] = [by_share, by_gain].map(|order| served(hosts, bids, &order));
    if value(bids, &by_gain) > value(bids, &by_share) { by_gain } else { by_share }
}

/// The best of all sets of up to [`EXACT_MAX`] bids; of equally good ones the first, in which the worst by rho are.
fn exact(hosts: &mut Hosts, bids: &[Bid], mut order: Vec<usize>) -> Vec<Win> {
    // The largest first, equal ones in the order of the bids.
    order.sort_by_key(|at| core::cmp::Reverse(bids[*at].gpus));
    let (mut best, mut most) = (Vec::new(), 0.0);
    let mut set = Vec::with_capacity(order.len());
    for mask in 1_u32..1 << order.len() {
        set.clear();
        set.extend(order.iter().enumerate().filter(|(at, _)| mask & 1 << at != 0).map(|(_, bid)| *bid));
        let gain: f64 = set.iter().map(|at| bids[*at].gain()).sum();
        let gpus: u64 = set.iter().map(|at| u64::from(bids[*at].gpus)).sum();
        if gain > most && gpus <= u64::from(hosts.left) {
            let wins = served(hosts, bids, &set);
            if wins.len() == set.len() {
                (best, most) = (wins, gain);
            }
        }
    }
    best
}

/// Serves bids in this order, each that still fits. The hosts are left as they were.
fn served(hosts: &mut Hosts, bids: &[Bid], order: &[usize]) -> Vec<Win> {
    let mut wins = Vec::new();
    for &bid in order {
        if hosts.left == 0 {
            break;
        }
        if hosts.take(bids[bid].gpus) {
            wins.push(Win { bid, places: hosts.taken().to_vec() });
        }
    }
    wins.iter().for_each(|win| hosts.give(&win.places));
    wins
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::super::hosts::Cluster, *};

    const CLUSTER: Cluster = Cluster { hosts: 3, gpus_per_host: 4 };

    fn bid(job: u32, gpus: u32, without: f64, with: f64) -> Bid {
        Bid { job, gpus, rho: Rho { without, with }, stays: false }
    }

    /// Bids, and hosts of which some GPUs are taken.
    fn cases(most: usize) -> impl Strategy<Value = (Vec<Bid>, Vec<u32>)> {
        let parts = prop::collection::vec((0_u32..4, 1.0_f64..50.0, 0.05_f64..0.99), 0..most);
        (parts, prop::collection::vec(0_u32..5, 3)).prop_map(|(parts, taken)| {
            let bids = parts.iter().zip(0..).map(|((size, without, part), job)| bid(job, 1 << size, *without, without * part)).collect();
            (bids, taken)
        })
    }

    fn pool(taken: &[u32]) -> Hosts {
        let mut hosts = Hosts::new(&CLUSTER.into());
        let held: Vec<(u32, u32)> = (0..).zip(taken).map(|(host, gpus)| (host, *gpus)).filter(|(_, gpus)| *gpus > 0).collect();
        assert!(hosts.hold(&held));
        hosts
    }

    /// Whether jobs of these sizes fit in some way: each on one host, or on whole hosts.
    fn fit(free: &mut [u32; 3], sizes: &[u32]) -> bool {
        let Some((&size, others)) = sizes.split_first() else { return true };
        if size > 4 {
            let idle: Vec<usize> = (0..3).filter(|host| free[*host] == 4).collect();
            // All idle hosts are alike.
            let Some(taken) = idle.get(..size as usize / 4) else { return false };
            taken.iter().for_each(|host| free[*host] = 0);
            let fits = fit(free, others);
            taken.iter().for_each(|host| free[*host] = 4);
            return fits;
        }
        (0..3).any(|host| {
            free[host] >= size && {
                free[host] -= size;
                let fits = fit(free, others);
                free[host] += size;
                fits
            }
        })
    }

    proptest! {
        #[test]
        fn no_set_of_bids_has_a_larger_product((bids, taken) in cases(9)) {
            let mut hosts = pool(&taken);
            let before = hosts.left;
            let found = value(&bids, &winners(&mut hosts, &bids, &[]));
            prop_assert_eq!(hosts.left, before, "the hosts are as they were");
            let mut free = [4 - taken[0], 4 - taken[1], 4 - taken[2]];
            for mask in 0_u32..1 << bids.len() {
                let set: Vec<&Bid> = bids.iter().zip(0..).filter(|(_, at)| mask & 1 << at != 0).map(|(bid, _)| bid).collect();
                // The product of 1/rho of all who were offered GPUs, over that of nobody having any.
                let product: f64 = set.iter().map(|bid| bid.rho.without / bid.rho.with).product();
                let sizes: Vec<u32> = set.iter().map(|bid| bid.gpus).collect();
                prop_assert!(product.ln() <= found + 1e-9 || !fit(&mut free, &sizes), "{:?}", set);
            }
        }

        #[test]
        fn winners_fit_together_and_leave_no_room_for_another((bids, taken) in cases(40)) {
            let mut hosts = pool(&taken);
            let wins = winners(&mut hosts, &bids, &[]);
            prop_assert!(wins.iter().all(|win| hosts.hold(&win.places)));
            for (at, bid) in bids.iter().enumerate().filter(|(at, _)| wins.iter().all(|win| win.bid != *at)) {
                prop_assert!(!hosts.take(bid.gpus), "bid {at} fits as well");
            }
            let absent = wins.first().map(|win| win.bid);
            if let Some(absent) = absent {
                wins.iter().for_each(|win| hosts.give(&win.places));
                prop_assert!(winners(&mut hosts, &bids, &[absent]).iter().all(|win| win.bid != absent));
            }
        }
    }
}
