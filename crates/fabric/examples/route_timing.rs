//! How long the router takes for many jobs on a large fabric:
//! `cargo run --release -p antiphase-fabric --example route_timing [PODS]`.

use std::time::Instant;

use antiphase_fabric as fabric;
use fabric::{
    collective::{Collective, Endpoint, Flow, flows},
    generate::{Clos3, clos3},
    route::{Ecmp, RouteScratch, Router},
};
use units::{NodeId, Rate};

/// 20 pods of 16 leaves with 32 hosts: 10,240 hosts, 2:1 at the leaf. The argument changes the
/// number of pods.
const FABRIC: Clos3 = Clos3 {
    pods: 20,
    leaves_per_pod: 16,
    spines_per_pod: 8,
    cores_per_spine: 16,
    hosts_per_leaf: 32,
    host_rate: Rate(400_000),
    uplink_rate: Rate(800_000),
    core_rate: Rate(800_000),
};
const JOBS: u32 = 1_000;
const HOSTS_PER_JOB: u32 = 10;

fn main() {
    let pods = std::env::args().nth(1).map_or(Ok(FABRIC.pods), |pods| pods.parse()).expect("the argument is a number of pods");
    let begin = Instant::now();
    let fabric = clos3(&Clos3 { pods, ..FABRIC }).expect("a fabric within the limits");
    println!("{:>10.2?}  generate {} nodes, {} links", begin.elapsed(), fabric.nodes().len(), fabric.links().len());
    let hosts: Vec<NodeId> = fabric.hosts().collect();
    // Worst case: every job is scattered over all pods by a fixed stride.
    let jobs: Vec<Vec<Flow>> = (0..JOBS)
        .map(|job| {
            let rank = |r: u32| hosts[((job * HOSTS_PER_JOB + r) as usize * 3_571) % hosts.len()];
            let ranks: Vec<_> = (0..HOSTS_PER_JOB).map(|r| Endpoint { host: rank(r), rail: 0 }).collect();
            flows(Collective::Ring, &ranks)
        })
        .collect();
    for ecmp in [Ecmp::Spread, Ecmp::Hashed { seed: 1 }] {
        let begin = Instant::now();
        let router = Router::new(&fabric, ecmp, &[]).expect("the generated fabric is within the limits");
        println!("{:>10.2?}  build the router, {ecmp}", begin.elapsed());
        let mut scratch = RouteScratch::new();
        for round in 0..3 {
            let begin = Instant::now();
            let entries: usize = jobs.iter().map(|f| router.loads_with(&mut scratch, f).expect("all hosts reach each other").len()).sum();
            println!("{:>10.2?}  {JOBS} ring jobs of {HOSTS_PER_JOB} hosts, {entries} loaded links, round {round}", begin.elapsed());
        }
    }
}
