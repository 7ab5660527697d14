//! What it costs the agent to find the ends of a job that tells none.
//!
//! ```text
//! cargo run --release -p antiphase-agent --example ends [-- SECONDS [PORTS]]
//! ```
//! A job of 250 ms iterations that sends for 110 ms each takes turns on an agent with so many ports (default 8), first with
//! `done()` and then without. Files in `/dev/shm` stand for the NICs. Printed is the share of a core that the agent's threads take,
//! without the job's, over SECONDS (default 10).
#![forbid(unsafe_code)]

use std::{
    fs::{self, File},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use antiphase_agent::{clock::ClockEstimate, config::Config, pages::Pages, run::Agent, wiring};
use anyhow::Context as _;
use gate::{Gate, JobName};
use proto::v1alpha1::{HostPlan, Slot, TurnNote, TurnOrder, turn_note, turn_order};
use rustix::time::{ClockId, clock_gettime};
use telemetry::Root;
use units::{ClockOffset, Nanos};

const OFFSET: i64 = 1_700_000_000_000_000_000;
const SENDS: Duration = Duration::from_millis(110);
const COMPUTES: Duration = Duration::from_millis(140);

fn main() -> anyhow::Result<()> {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let mut next = |default| numbers.next().unwrap_or(Ok(default)).context("SECONDS and PORTS must be numbers");
    let (seconds, ports) = (next(10)?, next(8)?);
    for tells in [true, false] {
        let folder = PathBuf::from(format!("/dev/shm/antiphase-ends-{}", std::process::id()));
        let result = measure(Duration::from_secs(seconds), ports, tells, &folder);
        // Whatever happened, nothing is left.
        let _ = fs::remove_dir_all(&folder);
        result?;
    }
    Ok(())
}

fn measure(time: Duration, ports: u64, tells: bool, folder: &Path) -> anyhow::Result<()> {
    let mut config = Config::parse("host = \"h\"\n[metrics]\nlisten = \"\"\n[counters]\nexclude = []\n")?;
    config.page_dir = folder.join("run");
    let counters = files(folder, ports)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (mut session, ends) = wiring::channels(None);
        let agent = Agent::start(&config, Root::under(folder), Pages::new(&config.page_dir, "h")?, ends).await?;
        let clock = ClockEstimate { offset: ClockOffset(OFFSET), bound: Nanos(1), rtt: Nanos(1), at: gate::now() };
        session.clock.send(Some(clock))?;
        session.status.send(wiring::SessionStatus { connected: true, sessions: 1, ..Default::default() })?;
        let slot = Slot { job: "j".into(), plan_version: 1, expires_ns: u64::MAX, leader_host: "h".into(), turns: true, ..Slot::default() };
        session.plans.send(HostPlan { plan_version: 1, slots: vec![slot] }).await?;
        let (stop, own) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let gate = gate::Config::new(&config.page_dir, JobName::try_new("j")?);
        let job = thread::spawn({
            let (stop, own) = (Arc::clone(&stop), Arc::clone(&own));
            move || job(&gate, &counters, tells, &stop, &own)
        });
        let work = async {
            let mut ended = 0_u64;
            serve(&mut session, Duration::from_secs(3), &mut ended).await;
            let before = (cpu(ClockId::ProcessCPUTime), own.load(Ordering::Relaxed));
            ended = 0;
            serve(&mut session, time, &mut ended).await;
            let spent = (cpu(ClockId::ProcessCPUTime) - before.0) - (own.load(Ordering::Relaxed) - before.1);
            let share = spent as f64 / time.as_nanos() as f64 * 100.0;
            println!("{}: {ended} ends, {share:.2} % of a core", if tells { "the job tells its ends" } else { "the agent finds them" });
        };
        let (mut pages, _) = agent.run(work).await;
        pages.retire_all();
        stop.store(true, Ordering::Relaxed);
        job.join().map_err(|_| anyhow::anyhow!("the job ended by a panic"))
    })
}

/// Answers as a service does whose way is always free, and counts ends.
async fn serve(session: &mut wiring::SessionEnds, time: Duration, ended: &mut u64) {
    let until = tokio::time::Instant::now() + time;
    while let Ok(Some(note)) = tokio::time::timeout_at(until, session.notes.recv()).await {
        let TurnNote { job, writer, number, kind, .. } = note;
        *ended += u64::from(kind == i32::from(turn_note::Kind::Ended));
        let (answer, at_most_ns) = match turn_note::Kind::try_from(kind) {
            Ok(turn_note::Kind::Ready) => (turn_order::Kind::Grant, SENDS.as_nanos() as u64),
            _ => (turn_order::Kind::Heard, 0),
        };
        // A full channel costs a repeat.
        let _ = session.orders.try_send(TurnOrder { job, writer, number, kind: answer.into(), at_most_ns, heard: kind });
    }
}

fn job(config: &gate::Config, counters: &[File; 2], tells: bool, stop: &AtomicBool, own: &AtomicU64) {
    let (gate, mut sent) = (Gate::open(config), 0_u64);
    while !stop.load(Ordering::Relaxed) {
        gate.step();
        let began = Instant::now();
        while began.elapsed() < SENDS {
            thread::sleep(Duration::from_millis(1));
            sent += 12_500_000;
            // A counter that is not written stands still, which the figures would show.
            counters.iter().for_each(|file| drop(file.write_all_at(format!("{sent:020}\n").as_bytes(), 0)));
        }
        if tells {
            gate.done();
        }
        own.store(cpu(ClockId::ThreadCPUTime), Ordering::Relaxed);
        thread::sleep(COMPUTES);
    }
}

/// Counters of so many NICs; those of the first one.
fn files(folder: &Path, ports: u64) -> anyhow::Result<[File; 2]> {
    for port in 0..ports.max(1) {
        let statistics = folder.join(format!("sys/class/net/ens{port}/statistics"));
        fs::create_dir_all(&statistics)?;
        for file in ["rx_bytes", "tx_bytes"] {
            fs::write(statistics.join(file), format!("{:020}\n", 0))?;
        }
    }
    let first = folder.join("sys/class/net/ens0/statistics");
    let open = |name: &str| File::options().write(true).open(first.join(name));
    Ok([open("rx_bytes")?, open("tx_bytes")?])
}

/// User and system time in nanoseconds, of the thread or the whole process.
fn cpu(of: ClockId) -> u64 {
    let now = clock_gettime(of);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}
