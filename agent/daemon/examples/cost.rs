//! What the agent costs: share of a core and resident memory while it samples 8 ports every 10 ms.
//!
//! ```text
//! cargo run --release -p antiphase-agent --example cost [-- SECONDS [INTERFACE...]]
//! ```
//! Without interfaces it makes files in `/dev/shm` that stand for eight NICs and their RDMA ports; with some it reads those.
//! It runs the whole agent with one page and a scrape per second, and prints the averages over SECONDS (default 20). The
//! session with the service is not part of it.
#![forbid(unsafe_code)]

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use antiphase_agent::{clock::ClockEstimate, config::Config, pages::Pages, run::Agent, wiring};
use anyhow::Context as _;
use proto::v1alpha1::{HostPlan, Slot};
use telemetry::{Learner, Root, SAMPLES_MAX, Series};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use units::{ClockOffset, Nanos, NodeTime};

const OFFSET: i64 = 1_700_000_000_000_000_000;
const PORTS: usize = 8;

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let seconds: u64 = arguments.next().map_or(Ok(20), |text| text.parse()).context("SECONDS must be a number")?;
    let interfaces: Vec<String> = arguments.collect();
    let folder = PathBuf::from(format!("/dev/shm/antiphase-cost-{}", std::process::id()));
    let result = measure(seconds, &interfaces, &folder);
    // Whatever happened, nothing is left.
    let _ = fs::remove_dir_all(&folder);
    result
}

fn measure(seconds: u64, interfaces: &[String], folder: &Path) -> anyhow::Result<()> {
    let mut config = Config::parse("host = \"cost\"\n[metrics]\nlisten = \"127.0.0.1:0\"\n[counters]\nexclude = []\n")?;
    config.page_dir = folder.join("run");
    let root = if interfaces.is_empty() {
        files(folder)?;
        Root::under(folder)
    } else {
        config.counters.include = interfaces.to_vec();
        Root::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (mut session, ends) = wiring::channels(None);
        let pages = Pages::new(&config.page_dir, &config.host)?;
        let agent = Agent::start(&config, root, pages, ends).await?;
        let metrics = agent.metrics_address().context("no metrics address")?;
        let clock = ClockEstimate { offset: ClockOffset(OFFSET), bound: Nanos(1), rtt: Nanos(1), at: gate::now() };
        session.clock.send(Some(clock))?;
        session.status.send(wiring::SessionStatus { connected: true, ..Default::default() })?;
        session.plans.send(HostPlan { plan_version: 1, slots: vec![slot()] }).await?;
        println!("ports: {}", agent.ports().join(" "));
        let work = async {
            let mut frames: u64 = 0;
            // The first seconds find ports and grow the series; they are not counted.
            settle(&mut session, metrics, &mut frames, 3).await?;
            let before = cpu()?;
            frames = 0;
            settle(&mut session, metrics, &mut frames, seconds).await?;
            let spent = cpu()? - before;
            let share = spent.as_secs_f64() / seconds as f64 * 100.0;
            look();
            println!("{frames} telemetry frames, {seconds} s: {:.2} % of a core, {:.1} MiB resident", share, resident()?);
            anyhow::Ok(())
        };
        let mut outcome = Ok(());
        let (mut pages, _) = agent.run(async { outcome = work.await }).await;
        pages.retire_all();
        outcome
    })
}

/// The longest single work of the counters' thread: a look for the period of a full series.
fn look() {
    let mut series = Series::default();
    let mut sent = 0;
    for n in 0..SAMPLES_MAX as u64 {
        sent += if n % 23 < 9 { 1_000_000 } else { 0 };
        series.push(NodeTime(n * 10_000_000), Some(sent));
    }
    let mut learner = Learner::default();
    let mut took = Vec::new();
    for _ in 0..20 {
        let begun = gate::now();
        let found = learner.learn(&series, Nanos::from_millis(10));
        took.push(gate::now().since(begun));
        assert!(found.is_ok_and(|found| found.period.0.abs_diff(230_000_000) < 1_000_000));
    }
    took.sort_unstable();
    println!("a look for a period takes {} (median of {})", took[took.len() / 2], took.len());
}

/// Scrapes once a second and takes what would go to the service.
async fn settle(session: &mut wiring::SessionEnds, metrics: std::net::SocketAddr, frames: &mut u64, seconds: u64) -> anyhow::Result<()> {
    for _ in 0..seconds {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let mut stream = TcpStream::connect(metrics).await?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").await?;
        stream.read_to_string(&mut String::new()).await?;
        while session.telemetry.try_recv().is_ok() {
            *frames += 1;
        }
        while session.frames.try_recv().is_ok() {}
    }
    Ok(())
}

fn files(folder: &Path) -> anyhow::Result<()> {
    for port in 0..PORTS {
        let statistics = folder.join(format!("sys/class/net/ens{port}/statistics"));
        fs::create_dir_all(&statistics)?;
        for file in ["rx_bytes", "tx_bytes", "rx_packets", "tx_packets", "rx_dropped", "tx_dropped"] {
            fs::write(statistics.join(file), "123456789012\n")?;
        }
    }
    fs::create_dir_all(folder.join("proc/net"))?;
    Ok(fs::copy("/proc/net/netstat", folder.join("proc/net/netstat")).map(drop)?)
}

fn slot() -> Slot {
    Slot {
        job: "cost".into(),
        plan_version: 1,
        period_ns: 100_000_000,
        slack_ns: 5_000_000,
        hold_max_ns: 100_000_000,
        hold: true,
        expires_ns: u64::MAX,
        leader_host: "cost".into(),
        turns: false,
        ..Slot::default()
    }
}

/// User and system time of all threads of this process.
fn cpu() -> anyhow::Result<Duration> {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Ok(Duration::new(now.tv_sec.try_into()?, now.tv_nsec.try_into()?))
}

/// MiB of resident memory.
fn resident() -> anyhow::Result<f64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kib: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib / 1_024.0)
}
