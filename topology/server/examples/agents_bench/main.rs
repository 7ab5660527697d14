//! What many agents cost, over real QUIC on loopback: this process is the service, a child of it is all the agents.
//!
//! `cargo run --release -p antiphase-topology --example agents_bench [-- COMMITTING IDLE SECONDS]`
//! prints one table: the time from a commit to the acks of COMMITTING agents (default 1,000), then the processor time and
//! resident memory of holding IDLE agents (default 10,000) for SECONDS (default 30), each side apart. An idle agent reports
//! and probes the clock at the service's default pace, with a certificate of its own host. COMMITTING 0 leaves the first part out.
//!
//! `... -- turns [AGENTS [SECONDS [ahead]]]` lets AGENTS jobs (default 1,000) in groups of five take turns at five iterations a second
//! each, for SECONDS (default 30). The agents print how long starts waited for their grant when the way was free, the service prints its
//! cores. With `ahead` the service gives permissions ahead where nobody is in the way, and few starts ask.
#![allow(clippy::unwrap_used, reason = "a program for measuring: what fails ends it")]

mod agents;
mod subject;
mod turns;

use std::{
    fs,
    net::Ipv4Addr,
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use antiphase_topology::{
    FabricClock,
    pki::{self, CLIENT_LIFETIME, Client, HOSTS_MAX},
    quic::{self, Controller as _, Seams, Settings, Stats},
    tls::{Role, Tls, TlsFiles},
};

use subject::{Metered, Subject};

const COMMITS: u64 = 20;
const SINGLE_COMMITS: u64 = 200;
/// The child's first argument: agents that are there, or whose jobs take turns too.
const AGENTS: &str = "agents";
const AGENTS_WITH_TURNS: &str = "agents-with-turns";
/// Handshakes and first estimates are over by then.
const SETTLE: Duration = Duration::from_secs(5);
const CONNECTED_WITHIN: Duration = Duration::from_secs(180);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [word, address, dir, count] = &arguments[..]
        && word.starts_with("agents")
    {
        return agents::main(address.parse().unwrap(), Path::new(dir), count.parse().unwrap(), word == AGENTS_WITH_TURNS);
    }
    if arguments.first().is_some_and(|word| word == "turns") {
        let number = |at: usize, default: usize| arguments.get(at).map_or(default, |text| text.parse().expect("a number"));
        let ahead = arguments.get(3).is_some_and(|word| word == "ahead");
        return runtime().block_on(taking_turns(number(1, 1_000), Duration::from_secs(number(2, 30) as u64), ahead));
    }
    let number = |at: usize, default: usize| arguments.get(at).map_or(default, |text| text.parse().expect("a number"));
    let (committing, idle, seconds) = (number(0, 1_000), number(1, 10_000), number(2, 30));
    if committing > 0 {
        println!("{:<34} {:>8} {:>10} {:>10} {:>10}", "what", "agents", "p50 ms", "p99 ms", "max ms");
        runtime().block_on(committed(committing));
    }
    println!("{:<34} {:>8} {:>10} {:>10} {:>10}", "what", "agents", "cores", "RSS MiB", "KiB/agent");
    runtime().block_on(held(idle, Duration::from_secs(seconds as u64)));
}

/// With ANTIPHASE_WIRE_ONLY set the controller only sends: the wire alone, without deciding and without the disk.
fn wire_only() -> bool {
    std::env::var_os("ANTIPHASE_WIRE_ONLY").is_some()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// A service with agents that said hello.
struct Running {
    stats: Arc<Stats>,
    subject: Arc<Metered>,
    agents: Child,
    _dir: tempfile::TempDir,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.agents.kill();
        let _ = self.agents.wait();
    }
}

async fn start(count: usize, as_what: &str) -> Running {
    let dir = tempfile::tempdir().unwrap();
    pki::init(dir.path(), &["localhost".into()], false).unwrap();
    for group in 0..count.div_ceil(HOSTS_MAX) {
        let hosts = (group * HOSTS_MAX..count.min((group + 1) * HOSTS_MAX)).map(agents::host).collect();
        let client = Client { role: Role::Agent, name: agents::group_name(group), hosts, lifetime: CLIENT_LIFETIME };
        pki::issue(dir.path(), &client, false).unwrap();
    }
    let service = pki::service_paths(dir.path());
    let files = TlsFiles { certificate: service.certificate, key: service.key, client_ca: pki::authority_path(dir.path()), revoked: None };
    let (tls, settings) = (Arc::new(Tls::load(files).unwrap()), Settings::default());
    let endpoint = quic::endpoint((Ipv4Addr::LOCALHOST, 0).into(), &tls, &settings).unwrap();
    let address = endpoint.local_addr().unwrap();
    let subject = if wire_only() { Subject::fake() } else { Subject::real(count, dir.path()).await };
    let subject = Arc::new(Metered::new(subject));
    let stats = Arc::new(Stats::default());
    let seams = Seams {
        controller: Arc::clone(&subject) as _,
        telemetry: Arc::clone(&subject) as _,
        clock: FabricClock::start(),
        stats: Arc::clone(&stats),
    };
    tokio::spawn(quic::serve(endpoint, tls, seams, settings, std::future::pending()));
    let agents = Command::new(std::env::current_exe().unwrap())
        .args([as_what, &address.to_string(), dir.path().to_str().unwrap(), &count.to_string()])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while subject.connected() < count {
        assert!(begun.elapsed() < CONNECTED_WITHIN, "{} of {count} agents connected", subject.connected());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    println!("{count} agents connected within {:.1} s", begun.elapsed().as_secs_f64());
    tokio::time::sleep(SETTLE).await;
    Running { stats, subject, agents, _dir: dir }
}

async fn committed(count: usize) {
    let running = start(count, AGENTS).await;
    let mut all = Vec::new();
    for plan_version in 1..=COMMITS {
        all.extend(running.subject.commit(plan_version, None).await);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    row("commit to ack, every agent at once", count, all);
    let mut one = Vec::new();
    for plan_version in COMMITS + 1..=COMMITS + SINGLE_COMMITS {
        one.extend(running.subject.commit(plan_version, Some(plan_version as usize % count)).await);
    }
    row("commit to ack, one agent of them", count, one);
}

fn row(what: &str, agents: usize, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |permille: usize| times[(times.len() - 1) * permille / 1_000].as_secs_f64() * 1e3;
    println!("{what:<34} {agents:>8} {:>10.2} {:>10.2} {:>10.2}", at(500), at(990), at(1_000));
}

async fn held(count: usize, time: Duration) {
    measure(&start(count, AGENTS).await, count, time).await;
}

async fn taking_turns(count: usize, time: Duration, ahead: bool) {
    let running = start(count, AGENTS_WITH_TURNS).await;
    turns::begin(&running.subject.turns().expect("the real controller has turns"), count, ahead);
    tokio::time::sleep(SETTLE).await;
    println!("{:<34} {:>8} {:>10} {:>10} {:>10}", "what", "agents", "cores", "RSS MiB", "KiB/agent");
    measure(&running, count, time).await;
}

async fn measure(running: &Running, count: usize, time: Duration) {
    let ids = [std::process::id(), running.agents.id()];
    let before = ids.map(processor_seconds);
    let (begun, reports) = (Instant::now(), running.subject.reports());
    tokio::time::sleep(time).await;
    let elapsed = begun.elapsed().as_secs_f64();
    let cores: Vec<f64> = ids.iter().zip(before).map(|(&id, before)| (processor_seconds(id) - before) / elapsed).collect();
    let memory = ids.map(resident_mib);
    let lost = count.abs_diff(running.subject.connected());
    let rows = [("held: the service", cores[0], memory[0]), ("held: the agents", cores[1], memory[1])];
    for (what, cores, mib) in rows.into_iter().chain([("held: both", cores[0] + cores[1], memory[0] + memory[1])]) {
        println!("{what:<34} {count:>8} {cores:>10.2} {mib:>10.0} {:>10.1}", mib * 1024.0 / count as f64);
    }
    println!(
        "{:.0} reports a second meanwhile; {lost} agents without a session at the end",
        (running.subject.reports() - reports) as f64 / elapsed
    );
    let counts: Vec<String> = running.stats.read().iter().map(|(name, count)| format!("{name} {count}")).collect();
    println!("service: {}", counts.join(", "));
}

/// User and system time of a process. Linux counts them in hundredths of a second (proc(5), USER_HZ).
fn processor_seconds(process: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    // The name, in parentheses, may hold spaces.
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

fn resident_mib(process: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
}
