//! Two equal jobs on one link, in virtual time: alone, as they come, and held by the service.
//!
//! `cargo run --release -p antiphase-sim --example virtual_lab`
#![forbid(unsafe_code)]

use std::{error::Error, sync::Arc, time::Instant};

use antiphase_sim::{Case, Config, Control, EcnModel, ServiceControl, SimJob, Workload, compare, run};
use fabric::{
    Fabric,
    collective::Endpoint,
    generate::{Clos2, clos2},
    route::{Ecmp, Router},
};
use job::{Collective, Job, Placement, TrafficPhase};
use units::{Bytes, Nanos, Rate};

/// A ring of two hosts: 2.5 MB at 200 Mbit/s, 150 ms of compute.
fn job(fabric: &Fabric, name: &str, hosts: [&str; 2]) -> Result<SimJob, Box<dyn Error>> {
    let ranks =
        hosts.iter().map(|h| Some(Endpoint { host: fabric.find(h)?, rail: 0 })).collect::<Option<Vec<_>>>().ok_or("no such host")?;
    let workload = Workload::ring(2, Bytes(2_500_000), Rate(200), Nanos::from_millis(150)).ok_or("no rate")?;
    let phase = TrafficPhase {
        start: Nanos(0),
        end: workload.steps[0].length,
        rate: Rate(200),
        collective: Collective::Ring,
        groups: Arc::from([vec![0, 1]]),
    };
    let job = Job { name: name.into(), gpus: 2, period: workload.unhindered(), hold: job::Hold::Auto, phases: vec![phase] };
    Ok(SimJob { job, placement: Placement { ranks }, workload, begins: Nanos(0) })
}

fn main() -> Result<(), Box<dyn Error>> {
    let rate = Rate(200);
    let fabric = clos2(&Clos2 { leaves: 2, spines: 1, hosts_per_leaf: 2, host_rate: rate, uplink_rate: rate, uplinks: 1 })?;
    let router = Router::new(&fabric, Ecmp::Spread, &[])?;
    let jobs = [job(&fabric, "a", ["h1", "h3"])?, job(&fabric, "b", ["h2", "h4"])?];
    let case = Case { router: &router, jobs: &jobs };
    let control = Control::Service(ServiceControl::default());
    let config = Config { ecn: EcnModel::LAB, jitter_permille: 10, warm_up: 20, iterations: 200, control, ..Config::default() };

    let found = compare(&case, &config)?;
    println!("{:<4} {:>10} {:>14} {:>16} {:>7} {:>6}", "job", "solo ms", "contended ms", "interleaved ms", "gain", "slips");
    for row in &found.jobs {
        let (solo, contended, interleaved) = (row.solo.mean_ms(), row.contended.mean_ms(), row.interleaved.mean_ms());
        println!("{:<4} {solo:>10.1} {contended:>14.1} {interleaved:>16.1} {:>7.2} {:>6}", row.name, row.gain, row.slips);
    }
    println!("\n{:<18} {:>28} {:>22}", "link", "ECN marks per iteration", "overlap");
    for row in &found.links {
        let ([m0, m1], [o0, o1]) = (row.marks_per_iteration, row.overlap_share);
        println!("{:<18} {m0:>12.1} -> {m1:>12.1} {o0:>10.2} -> {o1:>8.2}", row.name);
    }

    let bench = Config { iterations: 100_000, control: Control::Free, ..config.clone() };
    speed("free", &case, &bench)?;
    speed("free, without jitter: cycles are copied", &case, &Config { jitter_permille: 0, ..bench.clone() })?;
    speed("with the service", &case, &Config { control: config.control, ..bench })
}

/// Prints simulated iterations per second of this machine.
fn speed(what: &str, case: &Case<'_>, config: &Config) -> Result<(), Box<dyn Error>> {
    let begun = Instant::now();
    let report = run(case, &config.clone())?;
    let (seconds, iterations) = (begun.elapsed().as_secs_f64(), report.jobs.iter().map(|j| j.records.len()).sum::<usize>());
    let virtual_hours = report.to.as_millis_f64() / 3.6e6;
    println!(
        "\n{what}: {iterations} iterations, {virtual_hours:.1} virtual hours, in {seconds:.2} s: {:.0} iterations/s",
        iterations as f64 / seconds
    );
    Ok(())
}
