//! Who is on which GPUs, and which places are taken.

use fabric::{
    generate::{Clos2, clos2},
    route::{Ecmp, Router},
};
use policy::{
    muri::{Profile, Stages, Timing},
    schedule::{Cluster, Decision, GandivaOptions, Job, Place, Rule, Run},
};
use units::Rate;

use super::{Network, NetworkControl, NetworkSetup, Part, Ranker, count, least_used};
use crate::trace::{Format, read};

#[test]
fn jobs_that_share_gpus_as_one_group_are_on_the_very_same_ones() {
    let rate = Rate(100_000);
    let fabric = clos2(&Clos2 { leaves: 2, spines: 1, hosts_per_leaf: 1, host_rate: rate, uplink_rate: rate, uplinks: 1 }).unwrap();
    let router = Router::new(&fabric, Ecmp::Spread, &[]).unwrap();
    let rows = "job_id,submit_s,gpus,iterations,iteration_ms,up_ms\na,0,4,10,300,100\nb,0,4,10,300,100\nc,0,4,10,300,100\n";
    let trace = read(Format::Antiphase, rows).unwrap();
    let setup = NetworkSetup { router: &router, ranker: Ranker::None, control: NetworkControl::Free, moves: false, seed: 1 };
    let rule = Rule::Gandiva(GandivaOptions::default());
    let mut network = Network::new(&trace, &Cluster { hosts: 2, gpus_per_host: 4 }.into(), rule, setup).unwrap();
    let stages = Stages { load_s: 0.0, gpu_s: 0.2, net_s: 0.1 };
    assert!(trace.profiles.iter().all(|profile| *profile == Profile { iteration_s: 0.3, stages, ..*profile }), "{:?}", trace.profiles);
    let job = Job {
        gpus: 4,
        gpus_max: 4,
        profile: 0,
        opportunistic: false,
        weight: 1,
        submitted_s: 0.0,
        declared_s: 3.0,
        alone_s: Timing::Paper.alone_s(0.3),
        left: 10.0,
        ran_s: 0.0,
        running: true,
        started: true,
    };
    let jobs = [job; 3];
    let place = |group, host| Place { group, host, gpus: 2 };
    let run = |job, group, iteration_s| Run { job, group, iteration_s, restart_s: 0.0 };
    let parts = |network: &Network<'_>, job: u32| -> Vec<Part> {
        network.stands.iter().find(|((members, ..), _)| members.contains(&job)).unwrap().1.parts.clone()
    };
    // Jobs 0 and 1 are a pair, and job 2 has the other GPUs; the pair counts once.
    let places = vec![place(0, 0), place(0, 1), place(2, 0), place(2, 1)];
    let mut pair = Decision { runs: vec![run(0, 0, 0.5), run(1, 0, 0.5), run(2, 2, 0.3)], places, ..Decision::default() };
    network.refresh(&trace, &jobs, &mut pair.clone()).unwrap();
    assert_eq!(parts(&network, 0), [(0, vec![0, 1]), (1, vec![0, 1])]);
    assert_eq!((parts(&network, 1), parts(&network, 2)), (parts(&network, 0), vec![(0, vec![2, 3]), (1, vec![2, 3])]));
    assert!(network.gpus.iter().flatten().all(|groups| *groups == 1));
    // Two that become a group are on the same ones too, also where both stood before.
    pair.runs = vec![run(0, 2, 0.5), run(2, 2, 0.3)];
    pair.places.retain(|place| place.group == 2);
    network.refresh(&trace, &jobs, &mut pair.clone()).unwrap();
    assert_eq!(parts(&network, 0), parts(&network, 2));
    assert_eq!(network.gpus.iter().flatten().map(|groups| u32::from(*groups)).sum::<u32>(), 4);
}

#[test]
fn any_number_of_groups_takes_turns_on_a_gpu() {
    let mut uses = [u16::MAX, 7];
    assert_eq!(least_used(&mut uses, 1), [1]);
    assert_eq!(least_used(&mut uses, 2), [0, 1]);
    count(&mut uses, 5);
    assert_eq!(uses, [u16::MAX, 9]);
}
