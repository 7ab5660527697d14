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
        keep(&mut found, Interleaving { period_s: period(&slots, members), slots }, order);
    }
    found.unwrap_or(Interleaving { period_s: 0.0, slots: [None; GROUP_MAX] })
}

fn period(slots: &[Option<u8>; GROUP_MAX], members: &[Stages]) -> f64 {
    let mut sum = 0.0;
    for phase in 0..GROUP_MAX {
        let mut longest = 0.0_f64;
        for (slot, member) in slots.iter().enumerate() {
            if let Some(job) = member.and_then(|m| members.get(usize::from(m))) {
                longest = longest.max(resource(job, (phase + GROUP_MAX - slot) % GROUP_MAX));
            }
        }
        sum += longest;
    }
    sum
}

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
