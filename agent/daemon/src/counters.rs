//! The thread that reads counters.
//!
//! It wakes by the clock and not by the runtime's timer, which is only as fine as a millisecond and shares its thread with
//! the session. Byte counters are read at every wake, all others once per telemetry step. A port whose driver takes long to
//! answer is read less often, so that the agent stays cheap on NICs that ask their firmware.

use std::{
    num::NonZeroU64,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use gate::now;
use proto::v1alpha1::{CounterDeltas, Telemetry};
use rustix::{
    io::Errno,
    thread::{ClockId, Timespec},
};
use telemetry::{
    Counter, Increment, Interface, IpCounters, Observation, Port, PortSource, Root, SAMPLES_MAX, Series, interface_names, learn, rdma_ports,
};
use tokio::sync::{mpsc, watch};
use units::{Nanos, NodeTime};

use crate::{clock::ClockEstimate, config::CountersConfig};

/// How often ports are looked for: an interface that comes up is seen within this.
const SCAN: Nanos = Nanos::from_millis(10_000);
/// How often periods are learned: a period is known after a few of its kind, and an analysis costs about a millisecond.
const LEARN: Nanos = Nanos::from_millis(5_000);
/// How often frames of telemetry leave.
const SEND: Nanos = Nanos::from_millis(1_000);
/// Most ports: 8 NICs with an interface and an RDMA port each, and as many again.
pub const PORTS_MAX: usize = 64;
/// Reading a port's bytes may take this share of the time, 1 of so many: beyond it the port is read half as often.
const SHARE_OF_TIME: u64 = 500;
/// Slowest byte reading in sampling steps.
const EVERY_MAX: u64 = 64;
/// How far the thread may fall behind before it leaves out readings: a machine that slept must not read thousands of times.
const BEHIND_MAX: Nanos = Nanos::from_millis(1_000);
/// Most samples of one frame: a second at 1 ms.
const FRAME_SAMPLES_MAX: usize = 1_024;

/// What is known of a port, for metrics and reports.
#[derive(Clone, Debug, Default)]
pub struct PortView {
    /// Its name.
    pub name: String,
    /// `interface`, `rdma` or `ip`.
    pub kind: &'static str,
    /// The interface of an RDMA port.
    pub netdev: Option<String>,
    /// Counters that it has, and their totals since the agent started.
    pub totals: Vec<(Counter, u64)>,
    /// Times that its counters began anew.
    pub resets: u64,
    /// The last period that was found; `None` when what it carries has none.
    pub observed: Option<Observation>,
}

/// All ports, and how the thread does.
#[derive(Clone, Debug, Default)]
pub struct CountersView {
    /// In order of their names.
    pub ports: Vec<PortView>,
    /// Readings that were left out because the thread woke too late.
    pub skipped: u64,
    /// Frames of telemetry that nobody took in time.
    pub dropped: u64,
}

/// A running thread. It ends with the value.
#[derive(Debug)]
pub struct Sampling {
    view: Arc<Mutex<CountersView>>,
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Sampling {
    /// Starts it. Frames go to `frames` once a second while `clock` has an estimate; they carry fabric time.
    ///
    /// # Errors
    /// When the thread cannot be made.
    pub fn start(
        root: Root,
        config: CountersConfig,
        clock: watch::Receiver<Option<ClockEstimate>>,
        frames: mpsc::Sender<Telemetry>,
    ) -> std::io::Result<Self> {
        let view = Arc::new(Mutex::new(CountersView::default()));
        let stop = Arc::new(AtomicBool::new(false));
        let mut sampler = Sampler::new(root, config, clock, frames);
        let (shown, stopped) = (Arc::clone(&view), Arc::clone(&stop));
        // The first look is here, so that the ports are known to who starts this.
        sampler.scan();
        sampler.show(&shown);
        let thread = thread::Builder::new().name("counters".into()).spawn(move || sampler.run(&shown, &stopped))?;
        Ok(Self { view, stop, thread: Some(thread) })
    }

    /// What is known now.
    #[must_use]
    pub fn view(&self) -> CountersView {
        self.view.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Sampling {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It ends within one sampling step. A panic of its own is already on standard error.
            let _ = thread.join();
        }
    }
}

/// One port with its readings.
#[derive(Debug)]
struct Sampled {
    port: Port,
    series: Series,
    /// Bytes are read at every so many sampling steps.
    every: u64,
    /// Time spent reading bytes since the last look at it.
    spent: Nanos,
    observed: Option<Observation>,
    pending: Telemetry,
    /// Parallel to the counters: absent at some sample of the frame.
    absent: Vec<bool>,
}

impl Sampled {
    fn new(port: Port, sampling: Nanos) -> Self {
        // Within its lifespan a driver repeats itself.
        let lifespan = if let PortSource::Rdma(rdma) = port.source() { rdma.lifespan() } else { Nanos(0) };
        let every = lifespan.0.div_ceil(sampling.0.max(1)).clamp(1, EVERY_MAX);
        let counters = port.counters().iter().map(|counter| CounterDeltas { name: counter.name().into(), delta: Vec::new() });
        let pending = Telemetry { port: port.name().into(), at_ns: Vec::new(), counters: counters.collect() };
        let absent = vec![false; pending.counters.len()];
        Self { port, series: Series::default(), every, spent: Nanos(0), observed: None, pending, absent }
    }

    fn has_bytes(&self) -> bool {
        !matches!(self.port.source(), PortSource::Ip(_))
    }

    fn sample(&mut self, at: NodeTime) {
        self.series.push(at, self.port.read_bytes());
        self.spent = Nanos(self.spent.0.saturating_add(now().since(at).0));
    }

    fn view(&self) -> PortView {
        let (kind, netdev) = match self.port.source() {
            PortSource::Rdma(rdma) => ("rdma", rdma.netdev().map(str::to_owned)),
            PortSource::Ip(_) => ("ip", None),
            _ => ("interface", None),
        };
        let totals = self.port.counters().iter().copied().zip(self.port.totals().iter().copied()).collect();
        PortView { name: self.port.name().into(), kind, netdev, totals, resets: self.port.resets(), observed: self.observed.clone() }
    }

    /// Reads all counters; what passed becomes a sample of the next frame, at fabric time if that is known.
    fn read(&mut self, at: NodeTime, clock: Option<ClockEstimate>) {
        let Some(delta) = self.port.read(at) else { return };
        let fabric = clock.and_then(|clock| clock.offset.fabric(at));
        let room = self.pending.at_ns.len() < FRAME_SAMPLES_MAX && self.port.is_present();
        let Some(fabric) = fabric.filter(|_| room) else { return };
        self.pending.at_ns.push(fabric.0);
        for ((deltas, absent), increment) in self.pending.counters.iter_mut().zip(&mut self.absent).zip(&delta.increments) {
            *absent |= *increment == Increment::Absent;
            // A frame has one number per sample: a reset counts as nothing passed, and the reset itself is a metric.
            deltas.delta.push(increment.known().unwrap_or(0));
        }
    }

    /// The samples since the last frame. A counter that was absent at one of them is not listed.
    fn take_frame(&mut self) -> Option<Telemetry> {
        if self.pending.at_ns.is_empty() {
            return None;
        }
        let counters = self.pending.counters.iter().map(|deltas| CounterDeltas { name: deltas.name.clone(), delta: Vec::new() });
        let empty = Telemetry { port: self.pending.port.clone(), at_ns: Vec::new(), counters: counters.collect() };
        let mut frame = core::mem::replace(&mut self.pending, empty);
        let mut absent = self.absent.iter();
        frame.counters.retain(|_| absent.next() != Some(&true));
        self.absent.fill(false);
        Some(frame)
    }
}

struct Sampler {
    root: Root,
    config: CountersConfig,
    clock: watch::Receiver<Option<ClockEstimate>>,
    frames: mpsc::Sender<Telemetry>,
    ports: Vec<Sampled>,
    skipped: u64,
    dropped: u64,
}

impl Sampler {
    const fn new(
        root: Root,
        config: CountersConfig,
        clock: watch::Receiver<Option<ClockEstimate>>,
        frames: mpsc::Sender<Telemetry>,
    ) -> Self {
        Self { root, config, clock, frames, ports: Vec::new(), skipped: 0, dropped: 0 }
    }

    fn run(mut self, view: &Mutex<CountersView>, stop: &AtomicBool) {
        // Without it the kernel may wake us 50 us late to save power. Harmless where it is not allowed.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let step = self.config.sampling();
        let per = |interval: Nanos| (interval.0 / step.0).max(1);
        let (read, send, learn_every, scan) = (per(Nanos::from_millis(self.config.telemetry_ms)), per(SEND), per(LEARN), per(SCAN));
        let mut due = now();
        let mut tick: u64 = 0;
        while !stop.load(Ordering::Relaxed) {
            self.sample(tick);
            if tick.is_multiple_of(read) {
                let (at, clock) = (now(), *self.clock.borrow());
                self.ports.iter_mut().for_each(|port| port.read(at, clock));
            }
            if tick.is_multiple_of(send) {
                self.send();
                self.show(view);
            }
            // One port at a time, so that no wake is long.
            let turn = tick % learn_every;
            self.learn(usize::try_from(turn).unwrap_or(usize::MAX));
            if tick % scan == scan - 1 {
                self.scan();
            }
            tick += 1;
            due = due.saturating_add(step);
            let behind = now().since(due);
            if behind > BEHIND_MAX {
                let missed = behind.0 / step.0;
                self.skipped += missed;
                due = due.saturating_add(Nanos(missed * step.0));
            }
            sleep_until(due);
        }
    }

    fn sample(&mut self, tick: u64) {
        for port in self.ports.iter_mut().filter(|port| port.has_bytes() && tick.is_multiple_of(port.every)) {
            port.sample(now());
        }
    }

    /// Learns the period of the port whose turn it is, and reads it less often if reading it takes long.
    fn learn(&mut self, turn: usize) {
        let step = self.config.sampling();
        let Some(port) = self.ports.get_mut(turn).filter(|port| port.has_bytes()) else { return };
        let spent = core::mem::take(&mut port.spent);
        if spent.0 > LEARN.0 / SHARE_OF_TIME && port.every < EVERY_MAX {
            port.every *= 2;
            tracing::info!(port = port.port.name(), every = port.every, ?spent, "reading takes long; its bytes are read less often");
            port.series.clear();
        }
        let every = Nanos(step.0.saturating_mul(port.every));
        port.observed = learn(&port.series, every).ok();
    }

    fn send(&mut self) {
        for port in &mut self.ports {
            let Some(frame) = port.take_frame() else { continue };
            self.dropped += u64::from(self.frames.try_send(frame).is_err());
        }
    }

    fn show(&self, view: &Mutex<CountersView>) {
        let ports = self.ports.iter().map(Sampled::view).collect();
        let new = CountersView { ports, skipped: self.skipped, dropped: self.dropped };
        *view.lock().unwrap_or_else(PoisonError::into_inner) = new;
    }

    /// Finds ports that came and drops those that went.
    fn scan(&mut self) {
        self.ports.retain(|port| port.port.is_present());
        let step = self.config.sampling();
        let known = |ports: &[Sampled], name: &str| ports.iter().any(|port| port.port.name() == name);
        for name in interface_names(&self.root) {
            if self.config.takes(&name)
                && !known(&self.ports, &name)
                && let Some(interface) = Interface::open(&self.root, &name)
            {
                self.add(Port::new(name, PortSource::Interface(interface)), step);
            }
        }
        for rdma in rdma_ports(&self.root) {
            if self.config.takes(rdma.name()) && !known(&self.ports, rdma.name()) {
                self.add(Port::rdma(rdma), step);
            }
        }
        if !known(&self.ports, telemetry::IP_PORT)
            && let Some(ip) = IpCounters::open(&self.root)
        {
            self.add(Port::ip(ip), step);
        }
        self.ports.sort_by(|a, b| a.port.name().cmp(b.port.name()));
    }

    fn add(&mut self, port: Port, step: Nanos) {
        if self.ports.len() < PORTS_MAX {
            self.ports.push(Sampled::new(port, step));
        } else {
            tracing::warn!(port = port.name(), "not read: {PORTS_MAX} ports are read already; see counters.exclude");
        }
    }
}

/// Sleeps until a time; signals do not end it early.
fn sleep_until(at: NodeTime) {
    let at = Timespec { tv_sec: (at.0 / 1_000_000_000).cast_signed(), tv_nsec: (at.0 % 1_000_000_000).cast_signed() };
    while rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &at) == Err(Errno::INTR) {}
}

const _: () = assert!(SAMPLES_MAX >= 2_048, "the series must hold several periods of a second at 10 ms");
