//! How much a guaranteed job slows an opportunistic one on the same GPU.

use crate::muri::Stages;

/// One iteration of a job with these stages in the gaps of an `owner` whose iteration takes `owner_s`.
///
/// The rule of the authors' simulator. The job loads while the owner computes and talks, computes while the owner loads and talks, and talks
/// while the owner loads and computes; each stage takes as many iterations of the owner as its gaps must be summed up for, and what a
/// begun gap has left is used by the next stage. The whole takes that many iterations of the owner.
pub(super) fn slowed_s(job: &Stages, owner: &Stages, owner_s: f64) -> f64 {
    let (mut gpu, mut net) = (job.gpu_s, job.net_s);
    let (not_load, not_gpu, not_net) = (owner.gpu_s + owner.net_s, owner.load_s + owner.net_s, owner.load_s + owner.gpu_s);
    let (mut iterations, begun) = gaps(job.load_s, not_load);
    if begun > 0.0 {
        iterations += 1.0;
        gpu -= gpu.min(owner.net_s).min(not_load - begun);
    }
    let (more, begun) = gaps(gpu, not_gpu);
    iterations += more;
    if begun > 0.0 {
        iterations += 1.0;
        if begun < owner.load_s {
            net -= net.min(not_net - begun);
        }
    }
    let (more, begun) = gaps(net, not_net);
    iterations += more;
    if begun > owner.load_s {
        iterations += 1.0;
    }
    iterations * owner_s
}

/// Whole gaps that a stage fills, and how much of the next one. An owner without such a gap is in nobody's way.
fn gaps(stage: f64, gap: f64) -> (f64, f64) {
    if gap <= 0.0 {
        return (0.0, 0.0);
    }
    // Casting cuts, which is rounding down because neither is negative.
    ((stage / gap) as u64 as f64, stage % gap)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stages(load: f64, gpu: f64, net: f64) -> Stages {
        Stages { load_s: load, gpu_s: gpu, net_s: net }
    }

    #[test]
    fn a_job_takes_as_many_iterations_of_its_owner_as_its_stages_need_gaps() {
        // Load of 5 in gaps of 1 + 1: two and a half, so three; what the third has left (1) is used by the GPU stage, of which 3 remain, in
        // gaps of 2 + 1: one. Nothing to talk.
        let slowed = slowed_s(&stages(5.0, 4.0, 0.0), &stages(2.0, 1.0, 1.0), 4.0);
        assert_eq!(slowed, (3.0 + 1.0) * 4.0);
    }
}
