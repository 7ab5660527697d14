//! Times the commits of jobs of many phases that all meet on the same links, one after the other: what whoever may write a profile can cost.
//!
//! ```text
//! cargo run --release -p antiphase-state --example long_profiles -- [JOBS [PHASES [slots|turns|observe]]]
//! ```
//! Times are CPU time of all threads, so other work on the machine does not count.

mod timing;

use std::sync::Arc;

use antiphase_state::{Action, Change, Commit, Config, Document, Event, JobDefinition, RequestId, Service};
use fabric::{
    Fabric,
    collective::{Collective, Endpoint},
    generate::{Clos2, clos2},
};
use job::{Job, Placement, TrafficPhase};
use plan::Control;
use units::{FabricTime, Nanos, Rate};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let number = |n: usize, default: u64| std::env::args().nth(n).map_or(Ok(default), |s| s.parse::<u64>());
    let (jobs, phases) = (number(1, 8)?, number(2, 4_000)?);
    let control = timing::control(std::env::args().nth(3).as_deref(), Control::Turns)?;
    let rate = Rate(50_000);
    let fabric = Arc::new(clos2(&Clos2 { leaves: 2, spines: 1, hosts_per_leaf: 64, host_rate: rate, uplink_rate: rate, uplinks: 1 })?);
    let mut service = Service::new(Config { control, ..Config::default() });
    let mut requests = 0;
    let mut ask = |change: Change| {
        requests += 1;
        let now = FabricTime(requests);
        service.handle(now, Event::Asked { request: RequestId(requests), change });
        while let Some(action) = service.poll() {
            match action {
                Action::Persist { ticket, .. } => service.handle(now, Event::Persisted { ticket }),
                Action::Reply { result: Err(e), .. } => eprintln!("refused: {e}"),
                _ => {}
            }
        }
    };
    ask(Change::SetFabric { by: None, if_fabric: None, fabric: fabric.clone(), text: "".into(), jobs: vec![] });
    for n in 0..jobs {
        let job = long(&fabric, n, phases).ok_or("a host is missing")?;
        let start = timing::cpu_time();
        ask(Change::Commit(Commit { jobs: vec![job], ..Commit::default() }));
        println!("job {n}: {:.3} s", (timing::cpu_time() - start).as_secs_f64());
    }
    Ok(())
}

/// A ring of two hosts under two leaves. Its period shares no divisor with another's, and none of its phases is like another.
fn long(fabric: &Fabric, n: u64, phases: u64) -> Option<JobDefinition> {
    let hosts = [format!("h{}", 1 + n % 64), format!("h{}", 65 + n % 64)];
    let ranks = hosts.iter().map(|h| Some(Endpoint { host: fabric.find(h)?, rail: 0 })).collect::<Option<Vec<_>>>()?;
    let period = 399_999_983 + 1_000_020 * n;
    let step = period / phases;
    let groups: Arc<[Vec<u32>]> = Arc::from([vec![0, 1]]);
    let phase = |i: u64| TrafficPhase {
        start: Nanos(i * step),
        end: Nanos(i * step + step / 3 + (i * 7_919) % (step / 4)),
        rate: Rate(40_000 + i),
        collective: Collective::Ring,
        groups: groups.clone(),
    };
    let job =
        Job { name: format!("job{n}"), gpus: 2, period: Nanos(period), hold: job::Hold::Auto, phases: (0..phases).map(phase).collect() };
    Some(JobDefinition { job, placement: Placement { ranks }, hosts: hosts.to_vec(), document: Document::new(Arc::new(())) })
}
