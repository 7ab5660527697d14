//! Who has the GPUs of a crowded host for how much of the time.
//!
//! The rules. What a host has is divided among the jobs on it by their weights: of two jobs one of twice the weight has its GPUs for twice as long,
//! however many they are. Nobody has more than all of the time; what such a job leaves is the others'. A pair is one job with the larger weight of
//! its members. A job on several hosts has its GPUs for as long as on the most crowded one.

use alloc::{vec, vec::Vec};

use super::Gandiva;
use crate::schedule::job::{Job, JobIndex};

/// How the GPUs of hosts are divided.
pub(super) struct Turns {
    /// The share of a job of weight 1 on each host; `None` where there is room for all, or all weigh the same.
    unit: Vec<Option<f64>>,
}

impl Turns {
    pub(super) fn of(room: &Gandiva, jobs: &[Job]) -> Self {
        let per_host = room.cluster.gpus_per_host;
        let mut unit = vec![None; room.load.len()];
        // By host: weight and GPUs of each of its jobs.
        let mut on: Vec<Vec<(u32, u32)>> = Vec::new();
        let weighs = |job: &JobIndex| jobs[*job as usize].weight != 1;
        if room.placed.iter().any(weighs) && room.load.iter().any(|load| *load > per_host) {
            on.resize(room.load.len(), Vec::new());
            for &job in &room.placed {
                let stand = &room.stands[job as usize];
                // The earlier member speaks for a pair.
                if stand.partner.is_none_or(|partner| job < partner) {
                    stand.hosts.iter().for_each(|&(host, gpus)| on[host as usize].push((room.weight(job, jobs), gpus)));
                }
            }
        }
        for (unit, on) in unit.iter_mut().zip(on) {
            *unit = unit_share(per_host, on);
        }
        Self { unit }
    }

    /// The share of the time in which a job has its GPUs: that of its most crowded host.
    pub(super) fn share(&self, room: &Gandiva, job: JobIndex, jobs: &[Job]) -> f64 {
        let per_host = f64::from(room.cluster.gpus_per_host);
        let of = |host: u32| match self.unit[host as usize] {
            Some(unit) => unit * f64::from(room.weight(job, jobs)),
            None => per_host / f64::from(room.load[host as usize].max(1)),
        };
        room.stands[job as usize].hosts.iter().map(|(host, _)| of(*host).min(1.0)).fold(1.0, f64::min)
    }
}

impl Gandiva {
    /// What a job weighs, with its partner where it has one.
    fn weight(&self, job: JobIndex, jobs: &[Job]) -> u32 {
        let of = |job: JobIndex| jobs[job as usize].weight.max(1);
        self.stands[job as usize].partner.map_or_else(|| of(job), |partner| of(job).max(of(partner)))
    }
}

/// The share of a job of weight 1 beside these jobs of a host; `None` where there is room for all, or all weigh the same.
fn unit_share(per_host: u32, mut on: Vec<(u32, u32)>) -> Option<f64> {
    let load: u64 = on.iter().map(|(_, gpus)| u64::from(*gpus)).sum();
    if load <= u64::from(per_host) || on.iter().all(|(weight, _)| *weight == on[0].0) {
        return None;
    }
    // The heaviest first: whoever would have more than all of the time has all of it, and the others divide what it leaves.
    on.sort_unstable_by_key(|(weight, _)| core::cmp::Reverse(*weight));
    let mut left = u64::from(per_host);
    let mut weighs: u64 = on.iter().map(|(weight, gpus)| u64::from(*weight) * u64::from(*gpus)).sum();
    for (weight, gpus) in on {
        if left * u64::from(weight) < weighs {
            break;
        }
        left -= u64::from(gpus);
        weighs -= u64::from(weight) * u64::from(gpus);
    }
    Some(left as f64 / weighs as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_divided_by_weight_and_nobody_has_more_than_all_of_it() {
        // Two jobs of four GPUs on four: a third and two thirds of the time.
        assert_eq!(unit_share(4, vec![(1, 4), (2, 4)]), Some(1.0 / 3.0));
        // Also where the heavier has fewer GPUs: 4/7 and 8/7 would be more than all of it, so it has all, and the other one half.
        assert_eq!(unit_share(4, vec![(1, 4), (3, 2)]), Some(0.5));
        assert_eq!(unit_share(8, vec![(1, 8), (1, 4), (9, 2)]), Some(0.5));
        // With room for all, and where all weigh the same, nothing is divided by weight.
        assert_eq!((unit_share(4, vec![(1, 2), (9, 2)]), unit_share(4, vec![(3, 4), (3, 2)])), (None, None));
        assert_eq!(unit_share(4, vec![]), None);
    }
}
