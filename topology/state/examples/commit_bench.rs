//! Times commits, one job each, on a Clos of 1,024 hosts whose store answers at once.
//!
//! ```text
//! cargo run --release -p antiphase-state --example commit_bench -- [JOBS [slots|turns|observe]]
//! ```
//! `apart`: every job stays under its leaf. `meeting`: rings of two to four hosts over neighbouring leaves, so that about half of
//! the jobs meet others. Times are CPU time of all threads, so other work on the machine does not count.

mod timing;

use std::{sync::Arc, time::Duration};

use antiphase_state::{Action, AgentReport, Change, Commit, Config, Document, Event, JobDefinition, Origin, RequestId, Service, SessionId};
use fabric::{
    Fabric,
    collective::{Collective, Endpoint},
    generate::{Clos2, clos2},
};
use job::{Job, Placement, TrafficPhase};
use plan::Control;
use units::{FabricTime, Nanos, Rate};

const MS: u64 = 1_000_000;
const PERIODS_MS: [u64; 6] = [100, 120, 150, 200, 240, 300];
const HOSTS: u64 = 1_024;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let jobs: u64 = std::env::args().nth(1).map_or(Ok(500), |s| s.parse())?;
    let control = timing::control(std::env::args().nth(2).as_deref(), Control::Slots)?;
    let rate = Rate(50_000);
    for (name, spines, spread) in [("apart", 16, 0), ("meeting, 16 spines", 16, 32), ("meeting, 4 spines", 4, 32)] {
        let fabric = clos2(&Clos2 { leaves: 32, spines, hosts_per_leaf: 32, host_rate: rate, uplink_rate: rate, uplinks: 1 })?;
        run(name, Arc::new(fabric), jobs, spread, control)?;
    }
    Ok(())
}

/// The service with its store.
struct Bench {
    service: Service,
    now: FabricTime,
    requests: u64,
    plan_version: u64,
}

impl Bench {
    fn handle(&mut self, event: Event) {
        self.service.handle(self.now, event);
        while let Some(action) = self.service.poll() {
            match action {
                Action::Persist { ticket, .. } => self.service.handle(self.now, Event::Persisted { ticket }),
                Action::Reply { result: Ok(_), .. } => self.plan_version = self.service.view().plan_version(),
                Action::Reply { result: Err(e), .. } => eprintln!("refused: {e}"),
                _ => {}
            }
        }
        self.now = self.now.saturating_add(Nanos(1));
    }

    fn request(&mut self) -> RequestId {
        self.requests += 1;
        RequestId(self.requests)
    }
}

fn run(name: &str, fabric: Arc<Fabric>, jobs: u64, spread: u64, control: Control) -> Result<(), Box<dyn std::error::Error>> {
    let mut bench =
        Bench { service: Service::new(Config { control, ..Config::default() }), now: FabricTime(1), requests: 0, plan_version: 0 };
    let request = bench.request();
    bench.handle(Event::Asked {
        request,
        change: Change::SetFabric { by: None, if_fabric: None, fabric: fabric.clone(), text: "".into(), jobs: vec![] },
    });
    for host in 0..HOSTS {
        let host = format!("h{}", host + 1);
        bench.handle(Event::AgentHello {
            session: SessionId(bench.requests),
            host,
            version: "1".into(),
            ports: vec![],
            plan_version: 0,
            origin: Origin::default(),
        });
        bench.request();
    }
    let mut commits = Vec::new();
    for n in 0..jobs {
        let definition = definition(&fabric, n, spread).ok_or("a host is missing")?;
        let request = bench.request();
        let start = timing::cpu_time();
        bench.handle(Event::Asked { request, change: Change::Commit(Commit { jobs: vec![definition], ..Commit::default() }) });
        commits.push(timing::cpu_time() - start);
    }
    let view = bench.service.view();
    let largest = view.jobs().map(|j| j.component().count()).max().unwrap_or(0);
    let meeting = view.jobs().filter(|j| j.component().next().is_some()).count();
    let sessions: Vec<SessionId> = view.agents().filter_map(|a| a.session()).collect();
    println!("{name}: {jobs} jobs, {meeting} meet others, {largest} in the largest component, {} links with demand", view.links().len());
    print("  commit", commits);
    let mut reports = Vec::new();
    for session in sessions {
        let start = timing::cpu_time();
        bench.handle(Event::Report { session, report: AgentReport::default() });
        reports.push(timing::cpu_time() - start);
    }
    print("  report", reports);
    let mut releases = Vec::new();
    for n in (0..jobs).step_by(7) {
        let request = bench.request();
        let start = timing::cpu_time();
        bench.handle(Event::Asked { request, change: Change::Release { by: None, jobs: vec![format!("job{n}")] } });
        releases.push(timing::cpu_time() - start);
    }
    print("  release", releases);
    Ok(())
}

/// A ring over two to four hosts; `spread` hosts lie between neighbours, 0 = next to each other.
fn definition(fabric: &Fabric, n: u64, spread: u64) -> Option<JobDefinition> {
    let size = 2 + n % 3;
    let first = n * 17 % HOSTS;
    let leaf = first / 32 * 32;
    let at = |i: u64| if spread == 0 { leaf + (first + i) % 32 } else { (first + i * spread + i) % HOSTS };
    let hosts: Vec<String> = (0..size).map(|i| format!("h{}", at(i) + 1)).collect();
    let ranks = hosts.iter().map(|h| Some(Endpoint { host: fabric.find(h)?, rail: 0 })).collect::<Option<Vec<_>>>()?;
    let period = PERIODS_MS[(n % 6) as usize] * MS;
    // Rings of one leaf share NICs; what stays below half of a NIC meets nobody there.
    let rate = Rate(if spread == 0 { 10_000 } else { 45_000 });
    let phase = TrafficPhase {
        start: Nanos(0),
        end: Nanos(period * 3 / 10),
        rate,
        collective: Collective::Ring,
        groups: Arc::from([(0..size as u32).collect::<Vec<u32>>()]),
    };
    let job = Job { name: format!("job{n}"), gpus: size as u32, period: Nanos(period), hold: job::Hold::Auto, phases: vec![phase] };
    Some(JobDefinition { job, placement: Placement { ranks }, hosts, document: Document::new(Arc::new(())) })
}

fn print(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let total: Duration = times.iter().sum();
    let at = |percent: usize| times.get((times.len() * percent / 100).min(times.len().saturating_sub(1))).copied().unwrap_or_default();
    println!(
        "{what}: p50 {:?}, p99 {:?}, max {:?}, {:.0} per second",
        at(50),
        at(99),
        at(100),
        times.len() as f64 / total.as_secs_f64().max(1e-9)
    );
}
