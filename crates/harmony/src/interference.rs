//! How fast jobs are beside each other: the truth of this world.
//!
//! GPUs, cores and memory are a part's own. What ranks share on a server is its loading (storage and the bus) and its NIC. A job that
//! loads or sends meets what the others there load or send on average, because nobody keeps them apart in time: so a stage takes
//! `max(1, own + others)` times as long, where `own` is what the job asks for while it is in that stage, over what the server has, and `others` is the
//! mean of theirs. Ranks go on together, so the slowest server counts. Who stands on one server sends nothing over its NIC.
//!
//! The stages are those that Muri's authors measured; how they add up is ours, and no server of anybody was measured for it.

use alloc::vec::Vec;

use crate::{
    job::{Job, Stages},
    server::{Seat, Stand},
};

/// A speed of one: as fast as alone on one server.
pub const PPM: u64 = 1_000_000;

/// A stage that takes as long as alone.
const ONE: u64 = 1_000;
/// So many ranks load at once without waiting for each other: half of a server's GPUs, so that four loaders of one server wait and two do not.
const LOADERS: u64 = 2;
/// What a parameter server loads of its server while its job sends: it adds gradients on the same cores.
const ADDS_PERMILLE: u64 = 250;

/// How fast jobs are where they stand.
pub trait Speeds {
    /// The speed of each job, in millionths of that alone on one server; from 1 to [`PPM`].
    fn speeds(&self, servers: usize, jobs: &[(&Job, &Stand)]) -> Vec<u32>;
}

/// The truth.
#[derive(Clone, Copy, Debug, Default)]
pub struct Interference;

/// What a seat asks of its server, in thousandths: while in the stage, and on average.
#[derive(Clone, Copy, Default)]
struct Asked {
    load: u64,
    load_mean: u64,
    net: u64,
    net_mean: u64,
}

impl Asked {
    fn of(job: &Job, stages: &Stages, stand: &Stand, seat: &Seat) -> Self {
        let mean = |peak: u64, stage_us: u64| peak * stage_us / stages.alone_us();
        let load = u64::from(seat.ranks) * ONE / LOADERS;
        let net = if stand.seats().len() > 1 { sends(job, seat) } else { 0 };
        let adds = u64::from(seat.parameter_servers) * ADDS_PERMILLE;
        Self { load, load_mean: mean(load, stages.load_us) + mean(adds, stages.net_us), net, net_mean: mean(net, stages.net_us) }
    }
}

/// What crosses a NIC over what a ring of the job's ranks would send there, in thousandths.
fn sends(job: &Job, seat: &Seat) -> u64 {
    if job.parameter_servers == 0 {
        return ONE;
    }
    let (all, here) = (u64::from(job.parameter_servers), u64::from(seat.parameter_servers));
    let (ranks, ranks_here) = (u64::from(job.ranks), u64::from(seat.ranks));
    // Each rank exchanges the model with all parameter servers, each of which keeps an equal part.
    ranks_here * (all - here.min(all)) * ONE / all + here * (ranks - ranks_here.min(ranks)) * ONE / all
}

impl Speeds for Interference {
    fn speeds(&self, servers: usize, jobs: &[(&Job, &Stand)]) -> Vec<u32> {
        let mut sums = alloc::vec![(0_u64, 0_u64); servers];
        let mut asked = Vec::with_capacity(jobs.len());
        for (job, stand) in jobs {
            let stages = job.stages();
            let own: Vec<Asked> = stand.seats().iter().map(|seat| Asked::of(job, &stages, stand, seat)).collect();
            for (seat, asked) in stand.seats().iter().zip(&own) {
                if let Some((load, net)) = sums.get_mut(seat.server) {
                    *load += asked.load_mean;
                    *net += asked.net_mean;
                }
            }
            asked.push((stages, own));
        }
        let speed = |((stages, own), (_, stand)): (&(Stages, Vec<Asked>), &(&Job, &Stand))| {
            let (mut load, mut net) = (ONE, ONE);
            for (seat, asked) in stand.seats().iter().zip(own) {
                let (all_load, all_net) = sums.get(seat.server).copied().unwrap_or_default();
                load = load.max(asked.load + all_load - asked.load_mean);
                net = net.max(asked.net + all_net - asked.net_mean);
            }
            let sending = if stand.seats().len() > 1 { stages.net_us * net } else { stages.within_us() * ONE };
            let iteration = stages.load_us * load + stages.gpu_us * ONE + sending;
            (stages.alone_us() * ONE * PPM / iteration.max(1)).clamp(1, PPM) as u32
        };
        asked.iter().zip(jobs).map(speed).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{KINDS, Part, kind_name};

    fn job(name: &str, ranks: u32, parameter_servers: u32) -> Job {
        let kind = (0..KINDS).find(|kind| kind_name(*kind) == name).unwrap();
        Job { id: 0, kind, ranks, parameter_servers, work_ms: 1, submitted_ms: 0 }
    }

    fn stand(ranks: &[usize], servers: &[usize]) -> Stand {
        let mut stand = Stand::default();
        ranks.iter().for_each(|server| stand.add(*server, Part::Rank));
        servers.iter().for_each(|server| stand.add(*server, Part::ParameterServer));
        stand
    }

    fn speeds(jobs: &[(Job, Stand)]) -> Vec<u32> {
        let jobs: Vec<(&Job, &Stand)> = jobs.iter().map(|(job, stand)| (job, stand)).collect();
        Interference.speeds(4, &jobs)
    }

    #[test]
    fn alone_on_one_server_a_job_of_two_is_as_fast_as_it_gets() {
        assert_eq!(speeds(&[(job("vgg16", 2, 0), stand(&[1, 1], &[]))]), [1_000_000]);
        // Four ranks load, two at a time: loading takes twice as long. VGG-16 on 4: 82, 72 and 67 ms; within a server 16.75 of 67.
        // (82 + 72 + 16.75) / (164 + 72 + 16.75) = 0.675568.
        assert_eq!(speeds(&[(job("vgg16", 4, 0), stand(&[1, 1, 1, 1], &[]))]), [675_568]);
        // Over two servers: nobody waits to load, and all of 67 ms is sent: 170.75 / 221.
        assert_eq!(speeds(&[(job("vgg16", 4, 0), stand(&[0, 0, 1, 1], &[]))]), [772_624]);
    }

    #[test]
    fn who_shares_a_nic_waits_for_what_the_other_sends_on_average() {
        // BERT on 2: 0.5, 163 and 18 ms; alone 168 ms, so each sends 18/168 = 0.107 of the time (cut to thousandths): 1.107 * 18 ms.
        let pair = [(job("bert", 2, 0), stand(&[0, 1], &[])), (job("bert", 2, 0), stand(&[0, 1], &[]))];
        let expected = 168_000.0_f64 / (500.0 + 163_000.0 + 18_000.0 * 1.107) * 1e6;
        assert_eq!(speeds(&pair), [expected as u32; 2]);
        // Who stays on a server neither sends nor feels it: two millionths are of loading, of which both do a little.
        let apart = [(job("bert", 2, 0), stand(&[0, 0], &[])), (job("bert", 2, 0), stand(&[0, 1], &[]))];
        assert!(speeds(&apart)[0] > 999_990);
        assert!(speeds(&apart)[1] > speeds(&pair)[1]);
    }

    #[test]
    fn one_parameter_server_far_from_its_ranks_is_a_bottleneck() {
        // Four ranks on two servers, one parameter server on a third: its NIC carries what four ranks exchange. Beside two of them: two.
        let far = speeds(&[(job("vgg19", 4, 1), stand(&[0, 0, 1, 1], &[2]))]);
        let near = speeds(&[(job("vgg19", 4, 1), stand(&[0, 0, 1, 1], &[1]))]);
        let within = speeds(&[(job("vgg19", 4, 1), stand(&[0, 0, 0, 0], &[0]))]);
        // 84, 85 and 73 ms; alone 187.25.
        assert_eq!(far, [(187.25 / (84.0 + 85.0 + 292.0) * 1e6) as u32]);
        assert_eq!(near, [(187.25 / (84.0 + 85.0 + 146.0) * 1e6) as u32]);
        assert!(within[0] > near[0]);
    }
}
