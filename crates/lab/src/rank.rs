//! One rank of a job: a process in a namespace that sends to its successor on the ring, receives from its predecessor, and
//! computes by sleeping. `antiphase lab rank`, hidden, because only the lab starts it.
//!
//! A rank prints `READY` once its ring is closed, and is then told on standard input when to start and until when.
//!
//! An iteration is one phase or several. In each, the leader (rank 0) starts to send; each other rank starts to send when its
//! predecessor's first bytes arrive, as in a ring collective. When a rank has sent and received all, it passes a token on; once the
//! token is back at the leader, all ranks have finished. Then everybody computes. The leader passes its gate before the first
//! phase, or before each.

use std::{
    fmt,
    fs::File,
    io::{BufRead, Read, Write, stdin, stdout},
    net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpListener, TcpStream},
    path::PathBuf,
    str::FromStr,
    sync::mpsc::{Receiver, Sender, channel},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use gate::Gate;
use serde::{Deserialize, Serialize};
use units::{Nanos, splitmix64};

use crate::{network::CONGESTION_CONTROL, tool};

/// Every rank listens here, in a namespace of its own.
const PORT: u16 = 7_481;
/// How long the ranks of a job may take to find each other.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// How often a successor that does not listen yet is called again.
const CONNECT_RETRY: Duration = Duration::from_millis(10);
/// Longest silence of a peer: longer than any hold, Down phase or stretched Up phase of a case.
const SILENCE_MAX: Duration = Duration::from_secs(180);
/// Size of one read or write.
const CHUNK_BYTES: usize = 1 << 16;
/// The byte that ends an iteration's data.
const TOKEN: u8 = 1;

/// Arguments of `antiphase lab rank`.
#[derive(Clone, Debug, clap::Args)]
pub struct RankArgs {
    /// Id of the job.
    #[arg(long)]
    pub job: String,
    /// Number of this rank; 0 leads.
    #[arg(long)]
    pub rank: u32,
    /// Address to listen at.
    #[arg(long)]
    pub listen: Ipv4Addr,
    /// Address of the next rank on the ring.
    #[arg(long)]
    pub successor: Ipv4Addr,
    /// Bytes to send and length of the Down phase after them in ns, of each phase of an iteration: BYTES:NS.
    #[arg(long = "phase", value_name = "BYTES:NS", required = true)]
    pub phases: Vec<RankPhase>,
    /// At most this much is added to a Down phase, in ns.
    #[arg(long)]
    pub jitter_ns: u64,
    /// Seed of the jitter.
    #[arg(long)]
    pub seed: u64,
    /// Whether the leader passes a gate, whose files are in this folder.
    #[arg(long)]
    pub gate: Option<PathBuf>,
    /// Whether it passes its gate before each phase, and not only where an iteration starts.
    #[arg(long)]
    pub each_phase: bool,
    /// Period and time-shift, in ns of CLOCK_MONOTONIC, that the leader keeps by the control of the CASSINI paper: PERIOD:SHIFT.
    #[arg(long, value_name = "PERIOD:SHIFT", value_parser = read_drift)]
    pub drift: Option<sim::Drift>,
    /// The kernel's congestion control that it sends with.
    #[arg(long, default_value = CONGESTION_CONTROL)]
    pub congestion: String,
    /// Where the leader writes its iterations, one JSON line each.
    #[arg(long)]
    pub trace: Option<PathBuf>,
}

/// A phase as a rank plays it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankPhase {
    /// Bytes sent to the successor, at least 1.
    pub bytes: u64,
    /// Length of the Down phase, in ns.
    pub compute_ns: u64,
}

impl fmt::Display for RankPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.bytes, self.compute_ns)
    }
}

impl FromStr for RankPhase {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let two = text.split_once(':').and_then(|(bytes, ns)| Some((bytes.parse().ok()?, ns.parse().ok()?)));
        // A follower reads the first byte before the others.
        let (bytes, compute_ns) = two.filter(|(bytes, _)| *bytes > 0).ok_or_else(|| format!("{text:?} is not BYTES:NS"))?;
        Ok(Self { bytes, compute_ns })
    }
}

fn read_drift(text: &str) -> Result<sim::Drift, String> {
    let two = text.split_once(':').and_then(|(period, shift)| Some((period.parse().ok()?, shift.parse().ok()?)));
    two.map(|(period, shift)| sim::Drift::new(Nanos(period), Nanos(shift))).ok_or_else(|| format!("{text:?} is not PERIOD:SHIFT"))
}

/// One Up phase as the leader saw it; times of CLOCK_MONOTONIC, which all namespaces share, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Up {
    /// Ready to communicate, before the gate.
    pub ready: u64,
    /// Past the gate, if it passes one here: the Up phase begins.
    pub start: u64,
    /// Every rank has sent and received everything.
    pub end: u64,
}

/// One iteration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Iteration {
    /// Number, from 0.
    pub iteration: u64,
    /// Its Up phases, at least one.
    pub ups: Vec<Up>,
}

impl Iteration {
    /// When its first Up phase began; 0 for a trace of an iteration without one.
    #[must_use]
    pub fn began(&self) -> u64 {
        self.ups.first().map_or(0, |up| up.start)
    }
}

/// The line of a rank that waits to be told when to start.
pub(crate) const READY: &str = "ready";

/// When the iterations of a job are to start, in ns of CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// The first one.
    pub(crate) start: u64,
    /// None from here on.
    pub(crate) until: u64,
}

impl Span {
    /// From about now on, without an end.
    pub(crate) fn now() -> Self {
        Self { start: monotonic_ns(), until: u64::MAX }
    }

    /// The line that a rank reads.
    pub(crate) fn line(self) -> String {
        format!("{} {}\n", self.start, self.until)
    }

    fn read(line: &str) -> Option<Self> {
        let (start, until) = line.trim().split_once(' ')?;
        Some(Self { start: start.parse().ok()?, until: until.parse().ok()? })
    }
}

/// Time of CLOCK_MONOTONIC in ns.
#[must_use]
pub fn monotonic_ns() -> u64 {
    gate::now().0
}

pub(crate) fn sleep_until(at: u64) {
    let left = at.saturating_sub(monotonic_ns());
    if left > 0 {
        thread::sleep(Duration::from_nanos(left));
    }
}

/// Runs one rank to its end.
///
/// # Errors
/// A peer cannot be reached, goes away in the middle of an iteration, or says nothing for too long.
pub fn run(args: &RankArgs) -> Result<()> {
    // Listening comes first, so that a rank also ends with its lab while it still looks for its peers.
    let told = listen();
    // A rank without the right to a better priority keeps the priority that it has.
    let _ = rustix::process::nice(tool::NICENESS);
    let mut ring = Ring::connect(args)?;
    // The rank is part of the seed, because all ranks of a job get the same one.
    let mut down = Down { jitter: args.jitter_ns, seed: args.seed ^ (u64::from(args.rank) << 32) };
    let mut out = stdout();
    writeln!(out, "{READY}").and_then(|()| out.flush())?;
    let span = told.recv().context("the lab did not say when to start")?;
    if args.rank == 0 { lead(args, span, &mut ring, &mut down) } else { follow(args, &mut ring, &mut down) }
}

/// What the lab says on standard input. The lab holds the other end: however the lab ends, its ranks end with it.
fn listen() -> Receiver<Span> {
    let (tell, told) = channel();
    thread::spawn(move || {
        // A line that is no span is a lab that is not ours.
        for span in stdin().lock().lines().map_while(|line| Span::read(&line.ok()?)) {
            let _ = tell.send(span);
        }
        std::process::exit(3);
    });
    told
}

fn lead(args: &RankArgs, span: Span, ring: &mut Ring, down: &mut Down) -> Result<()> {
    let mut trace = args.trace.as_ref().map(|path| File::create(path).with_context(|| path.display().to_string())).transpose()?;
    // Only the leader has a gate: the other ranks start with its first bytes, so holding one rank holds the job.
    let gate = args.gate.as_ref().map(|folder| crate::control::open_gate(folder, &args.job)).transpose()?;
    let mut drift = args.drift.clone();
    sleep_until(span.start);
    // The loop ends at `span.until`; each of its waits is bounded by `SILENCE_MAX` or by the gate's longest hold.
    for iteration in 0.. {
        if monotonic_ns() >= span.until {
            break;
        }
        if let Some(drift) = &mut drift {
            sleep_until(drift.start(monotonic_ns()));
        }
        let mut ups = Vec::with_capacity(args.phases.len());
        for (k, phase) in args.phases.iter().enumerate() {
            // By turns each Up phase is a start of its own. A slot is that of the iteration, which ends with its last Up phase.
            let (asks, says) = if args.each_phase { (true, true) } else { (k == 0, k + 1 == args.phases.len()) };
            let name = if args.each_phase { k as u64 + 1 } else { gate_core::WHOLE_ITERATION };
            let up = communicate(ring, phase.bytes, gate.as_ref().filter(|_| asks), name)?;
            if let Some(gate) = gate.as_ref().filter(|_| says) {
                gate.done();
            }
            ups.push(up);
            // From the end of the Up phase on: what `done` costs is no part of the Down phase.
            if k + 1 < args.phases.len() {
                down.sleep(up.end, phase.compute_ns);
            }
        }
        let ended = ups.last().map_or(0, |up| up.end);
        if let Some(trace) = &mut trace {
            writeln!(trace, "{}", serde_json::to_string(&Iteration { iteration, ups })?)?;
        }
        down.sleep(ended, args.phases.last().map_or(0, |phase| phase.compute_ns));
    }
    ring.finish()
}

/// The leader's part of an Up phase.
fn communicate(ring: &mut Ring, bytes: u64, gate: Option<&Gate>, phase: u64) -> Result<Up> {
    let ready = monotonic_ns();
    if let Some(gate) = gate {
        gate.step_phase(phase);
    }
    let start = monotonic_ns();
    // Sending is a thread's work, so both directions are busy at once, as in a ring collective.
    ring.send(bytes)?;
    ring.receive(bytes)?;
    ring.sent()?;
    // The token passes each rank after that rank has sent and received all; back here it says that all ranks have.
    ring.pass_token()?;
    ring.receive_token()?;
    Ok(Up { ready, start, end: monotonic_ns() })
}

fn follow(args: &RankArgs, ring: &mut Ring, down: &mut Down) -> Result<()> {
    // The leader ends between iterations, so a follower that cycles through the phases stays in step with it.
    for phase in args.phases.iter().cycle() {
        if !ring.begun()? {
            break;
        }
        ring.send(phase.bytes)?;
        // `begun` has read the first byte; there is at least 1 (`RankPhase::from_str`).
        ring.receive(phase.bytes - 1)?;
        ring.sent()?;
        // A follower passes the token on only now, after all of its own data: its order is the reverse of the leader's.
        ring.receive_token()?;
        ring.pass_token()?;
        down.sleep(monotonic_ns(), phase.compute_ns);
    }
    ring.finish()
}

/// The Down phases.
struct Down {
    jitter: u64,
    seed: u64,
}

impl Down {
    fn sleep(&mut self, from: u64, compute: u64) {
        let drawn = splitmix64(&mut self.seed);
        let jitter = if self.jitter == 0 { 0 } else { drawn % (self.jitter + 1) };
        sleep_until(from + compute + jitter);
    }
}

/// The two connections of a rank. Sending is a thread's work, because both directions are busy at once.
struct Ring {
    from: TcpStream,
    orders: Sender<Order>,
    done: Receiver<std::io::Result<()>>,
    chunk: Vec<u8>,
}

enum Order {
    Send(u64),
    Token,
    Finish,
}

impl Ring {
    fn connect(args: &RankArgs) -> Result<Self> {
        let listener = TcpListener::bind(SocketAddrV4::new(args.listen, PORT)).with_context(|| format!("listening at {}", args.listen))?;
        listener.set_nonblocking(true)?;
        let end = Instant::now() + CONNECT_TIMEOUT;
        let (mut to, mut from) = (None, None);
        // Each rank calls its successor and accepts its predecessor in turns: waiting for one of them first could lock the whole ring.
        // `CONNECT_TIMEOUT` bounds the loop.
        while to.is_none() || from.is_none() {
            if Instant::now() > end {
                bail!("job {} rank {}: the ring did not close within {CONNECT_TIMEOUT:?}", args.job, args.rank);
            }
            if to.is_none() {
                to = TcpStream::connect_timeout(&SocketAddrV4::new(args.successor, PORT).into(), CONNECT_TIMEOUT).ok();
            }
            if from.is_none() {
                from = listener.accept().ok().map(|(stream, _)| stream);
            }
            if to.is_none() || from.is_none() {
                thread::sleep(CONNECT_RETRY);
            }
        }
        let (Some(to), Some(from)) = (to, from) else { bail!("invariant: both are there") };
        from.set_nonblocking(false)?;
        for stream in [&to, &from] {
            // The token is one byte, which Nagle's algorithm would hold back until earlier data is acknowledged.
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(SILENCE_MAX))?;
            stream.set_write_timeout(Some(SILENCE_MAX))?;
            // Some machines default to bbr, which does not react to ECN marks as cubic does.
            let control = &args.congestion;
            rustix::net::sockopt::set_tcp_congestion(stream, control).with_context(|| format!("congestion control {control}"))?;
        }
        let (orders, inbox) = channel();
        let (reply, done) = channel();
        thread::spawn(move || send_orders(to, &inbox, &reply));
        Ok(Self { from, orders, done, chunk: vec![0; CHUNK_BYTES] })
    }

    fn order(&self, order: Order) -> Result<()> {
        self.orders.send(order).context("the sending thread is gone")
    }

    fn send(&self, bytes: u64) -> Result<()> {
        self.order(Order::Send(bytes))
    }

    /// Waits until the last order is done.
    fn sent(&self) -> Result<()> {
        self.done.recv().context("the sending thread is gone")?.context("sending to the successor")
    }

    fn receive(&mut self, bytes: u64) -> Result<()> {
        let mut left = bytes;
        while left > 0 {
            let most = usize::try_from(left).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
            let got = self.from.read(&mut self.chunk[..most]).context("receiving from the predecessor")?;
            anyhow::ensure!(got > 0, "the predecessor closed with {left} bytes to come");
            left -= got as u64;
        }
        Ok(())
    }

    fn pass_token(&self) -> Result<()> {
        self.order(Order::Token)?;
        self.sent()
    }

    fn receive_token(&mut self) -> Result<()> {
        self.receive(1)?;
        anyhow::ensure!(self.chunk[0] == TOKEN, "the ring is out of step: {:#x} in place of a token", self.chunk[0]);
        Ok(())
    }

    /// Waits for the first byte of an iteration; false when the predecessor has finished.
    fn begun(&mut self) -> Result<bool> {
        Ok(self.from.read(&mut self.chunk[..1]).context("waiting for the predecessor")? == 1)
    }

    fn finish(&self) -> Result<()> {
        self.order(Order::Finish)?;
        self.sent()
    }
}

fn send_orders(mut to: TcpStream, inbox: &Receiver<Order>, reply: &Sender<std::io::Result<()>>) {
    let zeros = vec![0; CHUNK_BYTES];
    while let Ok(order) = inbox.recv() {
        // Every order has exactly one reply, in order, so `sent` always answers the last order.
        let result = match order {
            Order::Send(bytes) => send(&mut to, &zeros, bytes),
            Order::Token => to.write_all(&[TOKEN]),
            Order::Finish => to.shutdown(Shutdown::Write),
        };
        if reply.send(result).is_err() {
            return;
        }
    }
}

fn send(to: &mut TcpStream, zeros: &[u8], bytes: u64) -> std::io::Result<()> {
    let mut left = bytes;
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
        to.write_all(&zeros[..most])?;
        left -= most as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Plays a ring of two on loopback for 200 ms, and returns what the leader traced.
    fn play(net: u8, phases: &[RankPhase], gate: Option<&Path>, each_phase: bool) -> Vec<Iteration> {
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("trace");
        let span = Span { start: monotonic_ns(), until: monotonic_ns() + 200_000_000 };
        assert_eq!(Span::read(&span.line()), Some(span));
        let runs = [0_u32, 1].map(|rank| {
            let args = RankArgs {
                job: "a".into(),
                rank,
                listen: Ipv4Addr::new(127, 77, net, rank as u8 + 1),
                successor: Ipv4Addr::new(127, 77, net, 2 - rank as u8),
                phases: phases.to_vec(),
                jitter_ns: 1_000_000,
                seed: 1,
                gate: gate.filter(|_| rank == 0).map(Path::to_owned),
                each_phase,
                drift: None,
                congestion: CONGESTION_CONTROL.into(),
                trace: (rank == 0).then(|| trace.clone()),
            };
            thread::spawn(move || {
                let mut ring = Ring::connect(&args).unwrap();
                let mut down = Down { jitter: args.jitter_ns, seed: args.seed };
                if rank == 0 { lead(&args, span, &mut ring, &mut down) } else { follow(&args, &mut ring, &mut down) }
            })
        });
        for run in runs {
            run.join().unwrap().unwrap();
        }
        let text = std::fs::read_to_string(&trace).unwrap();
        text.lines().map(|l| serde_json::from_str(l).unwrap()).collect()
    }

    /// A ring of two on loopback does its iterations, and both ranks end when the leader does.
    #[test]
    fn a_ring_of_two_iterates_and_ends() {
        let iterations = play(0, &[RankPhase { bytes: 100_000, compute_ns: 2_000_000 }], None, false);
        assert!(iterations.len() >= 2, "{iterations:?}");
        for (i, pair) in iterations.windows(2).enumerate() {
            assert_eq!(pair[0].iteration, i as u64);
            let ([first], [second]) = (pair[0].ups.as_slice(), pair[1].ups.as_slice()) else { panic!("one phase: {pair:?}") };
            assert!(first.start < first.end && first.end + 2_000_000 <= second.ready, "{pair:?}");
        }
    }

    /// A page by which nobody waits: gates tell their starts and go.
    fn page(folder: &Path) -> gate::PageWriter {
        let mut page = gate::PageWriter::create(folder, "a").unwrap();
        page.write(&gate_core::Schedule {
            mode: gate_core::Mode::Turn,
            expires: units::NodeTime(u64::MAX),
            written: gate::now(),
            stale_after: Nanos(60_000_000_000),
            ..gate_core::Schedule::default()
        });
        page
    }

    /// Two phases follow each other, each after its own Down phase. The gate tells a start per iteration, or one per Up phase.
    #[test]
    fn a_gate_is_passed_where_an_iteration_starts_or_before_each_phase() {
        let phases = ["60000:5000000", "30000:1000000"].map(|text| text.parse::<RankPhase>().unwrap());
        for (net, each_phase, told) in [(1, false, vec![0]), (2, true, vec![1, 2])] {
            let folder = tempfile::tempdir().unwrap();
            gate::ReportReader::open_or_create(folder.path(), "a").unwrap();
            let (_page, notes) = (page(folder.path()), gate::NoteReader::bind(folder.path()).unwrap());
            // Read beside the ranks, because the socket's queue is short.
            let (stop, reading) = (std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false)), std::sync::Mutex::new(Vec::new()));
            let iterations = thread::scope(|scope| {
                scope.spawn(|| {
                    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                        match notes.recv() {
                            Ok(note) => reading.lock().unwrap().extend(note),
                            Err(_) => thread::sleep(Duration::from_micros(200)),
                        }
                    }
                });
                let iterations = play(net, &phases, Some(folder.path()), each_phase);
                stop.store(true, std::sync::atomic::Ordering::Relaxed);
                iterations
            });
            let started = reading.into_inner().unwrap().into_iter().filter(|n| n.note.kind == gate_core::NoteKind::Started);
            let phases: Vec<u64> = started.map(|n| n.note.phase).collect();
            assert!(phases.len() >= told.len() * 2 && phases.chunks(told.len()).all(|p| told.starts_with(p)), "{phases:?}");
            assert!(iterations.len() >= 2, "{iterations:?}");
            for pair in iterations.windows(2) {
                let [first, second] = pair[0].ups.as_slice() else { panic!("two phases: {pair:?}") };
                assert!(first.end + 5_000_000 <= second.ready && second.end + 1_000_000 <= pair[1].began(), "{pair:?}");
            }
            let report = gate::ReportReader::open_or_create(folder.path(), "a").unwrap().read().unwrap();
            assert_eq!(report.tracker.counters().iterations, iterations.len() as u64, "each_phase {each_phase}");
        }
    }

    #[test]
    fn a_phase_is_bytes_and_nanoseconds() {
        let phase = RankPhase { bytes: 1, compute_ns: 0 };
        assert_eq!(phase.to_string().parse(), Ok(phase));
        for bad in ["", "5", "0:7", "5:", "5:6:7", "-1:2"] {
            assert_eq!(bad.parse::<RankPhase>(), Err(format!("{bad:?} is not BYTES:NS")));
        }
    }
}
