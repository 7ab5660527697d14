//! Small fabrics and jobs.

use std::sync::Arc;

use antiphase_sim::{Case, Config, Control, Report, SimJob, Workload, direct_slots, run};
use fabric::{
    Fabric,
    collective::Endpoint,
    generate::{Clos2, clos2},
    route::{Ecmp, Router},
};
use job::{Collective, Job, Placement, TrafficPhase};
use plan::Options;
use units::{Nanos, Rate};

pub(crate) const MS: u64 = 1_000_000;
/// NICs of every fabric here.
pub(crate) const NIC: Rate = Rate(100);

/// Leaves around one spine, two hosts on each: `h1` and `h2` on the first leaf and so on. A job between two leaves uses the
/// uplinks of both, in both directions.
pub(crate) fn star(leaves: u32, uplink: u64) -> Fabric {
    star_of(leaves, 2, uplink)
}

/// The same with so many hosts on each leaf.
pub(crate) fn star_of(leaves: u32, hosts_per_leaf: u32, uplink: u64) -> Fabric {
    clos2(&Clos2 { leaves, spines: 1, hosts_per_leaf, host_rate: NIC, uplink_rate: Rate(uplink), uplinks: 1 }).unwrap()
}

/// A ring between hosts that sends for `comm` at `rate`, then computes for `compute`; times in ns.
pub(crate) fn ring_at(fabric: &Fabric, name: &str, hosts: &[&str], rate: Rate, comm: u64, compute: u64) -> SimJob {
    let ranks = hosts.iter().map(|h| Endpoint { host: fabric.find(h).unwrap(), rail: 0 }).collect();
    let phase = TrafficPhase {
        start: Nanos(0),
        end: Nanos(comm),
        rate,
        collective: Collective::Ring,
        groups: Arc::from([(0..hosts.len() as u32).collect::<Vec<_>>()]),
    };
    let job =
        Job { name: name.into(), gpus: hosts.len() as u32, period: Nanos(comm + compute), hold: job::Hold::Auto, phases: vec![phase] };
    let workload = Workload::of_profile(&job);
    SimJob { job, placement: Placement { ranks }, workload, begins: Nanos(0) }
}

pub(crate) fn ring(fabric: &Fabric, name: &str, hosts: &[&str], comm_ms: u64, compute_ms: u64) -> SimJob {
    ring_at(fabric, name, hosts, NIC, comm_ms * MS, compute_ms * MS)
}

pub(crate) fn play(fabric: &Fabric, jobs: &[SimJob], config: &Config) -> Report {
    let router = Router::new(fabric, Ecmp::Spread, &[]).unwrap();
    run(&Case { router: &router, jobs }, config).unwrap()
}

/// The planner's slots, with so much headroom.
pub(crate) fn slots(fabric: &Fabric, jobs: &[SimJob], headroom_permille: u32) -> Control {
    let router = Router::new(fabric, Ecmp::Spread, &[]).unwrap();
    Control::Direct(direct_slots(&Case { router: &router, jobs }, &Options { headroom_permille, ..Options::default() }).unwrap())
}

/// Held to the planner's slots.
pub(crate) fn held(fabric: &Fabric, jobs: &[SimJob], headroom_permille: u32, config: &Config) -> Report {
    play(fabric, jobs, &Config { control: slots(fabric, jobs, headroom_permille), ..config.clone() })
}

/// Mean iterations in ms.
pub(crate) fn means(report: &Report) -> Vec<f64> {
    report.jobs.iter().map(|j| j.iteration.mean_ms()).collect()
}

/// Two jobs that meet between the two leaves: 100 ms of communication each, 150 ms of compute.
pub(crate) fn two_equal() -> (Fabric, Vec<SimJob>) {
    let fabric = star(2, 100);
    let jobs = vec![ring(&fabric, "a", &["h1", "h3"], 100, 150), ring(&fabric, "b", &["h2", "h4"], 100, 150)];
    (fabric, jobs)
}
