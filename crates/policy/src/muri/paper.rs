//! A group as the paper times it.
//!
//! The rules (equations 2 to 4). The four resources come in a fixed order: storage, CPU, GPU, network. In phase j of a period the member
//! in slot i uses resource (j - i) mod 4, so no two members use the same; a phase lasts as long as the slowest of them. The period is
//! the sum of the four phases. Members may leave slots empty between them, and who stands in which slot is free but for rotation.

use super::{
    Stages,
    order::{GROUP_MAX, Interleaving, Order, keep, orders},
};

pub(super) fn interleave(members: &[Stages], order: Order) -> Interleaving {
    let mut found = None;
    // Orders of four with the first member in slot 0: rotating all slots changes no period. Places beyond the members are empty.
    for places in orders(GROUP_MAX).filter(|places| places[0] == 0) {
        let slots = places.map(|member| (member < members.len()).then_some(member as u8));
        let mut tried = Interleaving { period_s: 0.0, slots };
        tried.period_s = tried.phases(members).iter().map(|phase| phase.length_s).sum();
        keep(&mut found, tried, order);
    }
    found.unwrap_or(Interleaving { period_s: 0.0, slots: [None; GROUP_MAX] })
}

/// A phase of a group's period: how long it lasts alone, and which member has the network in it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GroupPhase {
    /// The time of the slowest member in it.
    pub length_s: f64,
    /// The member that has the network, an index into the members.
    pub network: Option<u8>,
}

impl Interleaving {
    /// The phases of a period by equation 3.
    #[must_use]
    pub fn phases(&self, members: &[Stages]) -> [GroupPhase; GROUP_MAX] {
        let mut phases = [GroupPhase::default(); GROUP_MAX];
        for (phase, found) in phases.iter_mut().enumerate() {
            for (slot, member) in self.slots.iter().enumerate() {
                let Some((member, job)) = member.and_then(|m| Some((m, members.get(usize::from(m))?))) else { continue };
                let used = (phase + GROUP_MAX - slot) % GROUP_MAX;
                found.length_s = found.length_s.max(resource(job, used));
                if used == NETWORK {
                    found.network = Some(member);
                }
            }
        }
        phases
    }
}

/// The last of the four resources.
const NETWORK: usize = GROUP_MAX - 1;

/// Seconds of a resource: storage, CPU, GPU, network. What was published has one number for the first two.
fn resource(job: &Stages, resource: usize) -> f64 {
    match resource {
        0 => 0.0,
        1 => job.load_s,
        2 => job.gpu_s,
        _ => job.net_s,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::muri::Timing;

    fn stages(load: f64, gpu: f64, net: f64) -> Stages {
        Stages { load_s: load, gpu_s: gpu, net_s: net }
    }

    #[test]
    fn jobs_of_one_resource_gain_nothing_and_jobs_of_three_take_the_longest() {
        let (load, gpu, net) = (stages(10.0, 0.0, 0.0), stages(0.0, 10.0, 0.0), stages(0.0, 0.0, 10.0));
        let period = |jobs: &[Stages]| Timing::Paper.interleave(jobs, Order::Best).period_s;
        // Two loads never meet in one phase, so they follow each other.
        assert!((period(&[load, load]) - 20.0).abs() < 1e-12);
        // Three resources at once: all in one phase.
        assert!((period(&[load, gpu, net]) - 10.0).abs() < 1e-12);
        // The worst order keeps them apart: three phases.
        assert!((Timing::Paper.interleave(&[load, gpu, net], Order::Worst).period_s - 30.0).abs() < 1e-12);
    }

    #[test]
    fn a_lone_job_takes_the_sum_of_its_stages() {
        let found = Timing::Paper.interleave(&[stages(3.0, 5.0, 7.0)], Order::Best);
        assert!((found.period_s - 15.0).abs() < 1e-12);
        assert_eq!(found.slots, [Some(0), None, None, None]);
    }
}
