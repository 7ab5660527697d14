//! The thread that reads counters.
//!
//! The thread wakes by the clock and not by the runtime's timer, which is only as fine as a millisecond and shares its thread with
//! the session. Byte counters are read at every wake, all others once per telemetry step. A port whose driver takes long to
//! answer is read less often, so that the agent stays cheap on NICs that ask their firmware.

use std::{
    collections::BTreeMap,
    num::NonZeroU64,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use gate::now;
use proto::v1alpha1::{CounterDeltas, Telemetry};
use rustix::{
    io::Errno,
    thread::{ClockId, Timespec},
};
use telemetry::{
    Counter, Increment, Interface, InterfaceTable, IpCounters, Learner, Observation, Port, PortSource, RdmaLink, Root, SAMPLES_MAX, Series,
    interface_names, rdma_ports,
};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::timeout,
};
use units::{Nanos, NodeTime};

use crate::{
    clock::ClockEstimate,
    config::{CountersConfig, PORTS_MAX},
    learning::{Learning, Question, Wanted},
    queues::QueuesHandle,
    wiring::SessionStatus,
};

/// How often ports are looked for: an interface that comes up is seen within this.
pub(crate) const SCAN: Nanos = Nanos::from_millis(10_000);
/// Longest wait for the first look. A look takes milliseconds; a driver that hangs must not keep the agent from its pages.
const FIRST_LOOK: Duration = Duration::from_secs(1);
/// How often periods are learned: a period is known after a few of its kind, and an analysis costs about a millisecond.
const LEARN: Nanos = Nanos::from_millis(5_000);
/// Frames of telemetry leave with the reports, and no slower than this: a frame holds a bounded number of samples.
const SEND_MAX: Nanos = Nanos::from_millis(1_000);
/// And no faster than this.
const SEND_MIN: Nanos = Nanos::from_millis(100);
/// Reading a port's bytes may take this share of the time, 1 of so many: where most readings take more, the port is read half as often. A
/// reading in the midst of which the thread lost its processor says nothing of the driver, and on a busy host there are always some.
const SHARE_OF_TIME: u64 = 500;
/// Most lines of the table of interfaces for each port that is read, or the files are less work: a line costs half of a file.
const TABLE_LINES_PER_PORT: usize = 3;
/// Slowest byte reading in sampling steps.
const EVERY_MAX: u64 = 64;
/// How far the thread may fall behind before it leaves out readings: a machine that slept must not read thousands of times.
const BEHIND_MAX: Nanos = Nanos::from_millis(1_000);
/// Most samples of one frame: a second at 1 ms.
const FRAME_SAMPLES_MAX: usize = 1_024;

/// What is known of a port, for metrics and reports.
#[derive(Clone, Debug, Default)]
pub struct PortView {
    /// The port's name.
    pub name: String,
    /// `interface`, `rdma` or `ip`.
    pub kind: &'static str,
    /// The interface of an RDMA port.
    pub netdev: Option<String>,
    /// The cable of an RDMA port, as of the last look at the ports.
    pub link: Option<RdmaLink>,
    /// How long the driver of an RDMA port keeps values.
    pub lifespan: Option<Nanos>,
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

/// How often the iterations of the job of this host are looked for: a look takes longer than one for a beat. In the first minute of a job,
/// which nobody knows yet, each time; later at every so many of them.
const LEARN_JOB: Nanos = Nanos::from_millis(5_000);
const FIRST_LOOKS: u64 = 12;
const LATER_ONE_IN: u64 = 4;

/// A running thread. The thread ends within a sampling step after this value is dropped, and nobody waits for the end: a driver
/// may hang.
#[derive(Debug)]
pub struct Sampling {
    view: Arc<Mutex<CountersView>>,
    stop: Arc<AtomicBool>,
    learning: Learning,
}

impl Sampling {
    /// Starts the thread. Frames leave by the session's ends while it is connected and the clock is known, and carry fabric time.
    /// The ports are known when this returns, unless the first look at them takes longer than a second.
    ///
    /// # Errors
    /// When the thread cannot be made.
    pub async fn start(
        root: Root,
        config: CountersConfig,
        clock: watch::Receiver<Option<ClockEstimate>>,
        status: watch::Receiver<SessionStatus>,
        frames: mpsc::Sender<Telemetry>,
        queues: QueuesHandle,
    ) -> std::io::Result<Self> {
        let view = Arc::new(Mutex::new(CountersView::default()));
        let stop = Arc::new(AtomicBool::new(false));
        let learning = Learning::start()?;
        let mut sampler = Sampler {
            root,
            config,
            clock,
            status,
            frames,
            queues,
            ports: Vec::new(),
            table: None,
            learner: Learner::default(),
            learning: learning.clone(),
            sought: None,
            skipped: 0,
            dropped: 0,
        };
        let (shown, stopped) = (Arc::clone(&view), Arc::clone(&stop));
        let (looked, first_look) = oneshot::channel();
        let work = move || {
            sampler.scan();
            sampler.show(&shown);
            // The caller may have stopped waiting (FIRST_LOOK).
            let _ = looked.send(());
            sampler.run(&shown, &stopped);
        };
        // A panic of the thread is on standard error; the rest of the agent does without counters.
        thread::Builder::new().name("counters".into()).spawn(work)?;
        let sampling = Self { view, stop, learning };
        if timeout(FIRST_LOOK, first_look).await.is_err() {
            tracing::warn!("counters: the first look at the ports takes long; the agent goes on without them");
        }
        Ok(sampling)
    }

    /// Says the names of the interfaces that are read.
    pub fn interfaces(&self) -> impl Fn() -> Vec<String> + Send + 'static {
        let view = Arc::clone(&self.view);
        move || {
            let view = view.lock().unwrap_or_else(PoisonError::into_inner);
            view.ports.iter().filter(|port| port.kind == "interface").map(|port| port.name.clone()).collect()
        }
    }

    /// What learns the job of this host.
    #[must_use]
    pub fn learning(&self) -> &Learning {
        &self.learning
    }

    /// What is known now.
    #[must_use]
    pub fn view(&self) -> CountersView {
        // A panic of the thread poisons the lock. The view is replaced in one assignment, so the last one is whole.
        self.view.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Sampling {
    fn drop(&mut self) {
        // The flag hands no data over, so relaxed is enough.
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// One port with its readings.
#[derive(Debug)]
struct Sampled {
    port: Port,
    series: Series,
    /// Bytes are read at every so many sampling steps.
    every: u64,
    /// Readings of bytes since the last look at them, and those that took long.
    readings: u64,
    slow: u64,
    observed: Option<Observation>,
    link: Option<RdmaLink>,
    pending: Telemetry,
    /// Parallel to the counters: absent at some sample of the frame.
    absent: Vec<bool>,
}

impl Sampled {
    fn new(port: Port, sampling: Nanos) -> Self {
        // Within its lifespan a driver repeats its values, and quicker readings would show rests and rushes that never were.
        let lifespan = if let PortSource::Rdma(rdma) = port.source() { rdma.lifespan() } else { Nanos(0) };
        // EVERY_MAX caps what a driver may claim, so every port keeps some readings.
        let every = lifespan.0.div_ceil(sampling.0.max(1)).clamp(1, EVERY_MAX);
        let counters = port.counters().iter().map(|counter| CounterDeltas { name: counter.name().into(), delta: Vec::new() });
        let pending = Telemetry { port: port.name().into(), at_ns: Vec::new(), counters: counters.collect(), queue_pairs: None };
        let absent = vec![false; pending.counters.len()];
        Self { port, series: Series::default(), every, readings: 0, slow: 0, observed: None, link: None, pending, absent }
    }

    /// The port's name in the table of interfaces.
    fn listed_as(&self) -> Option<&str> {
        matches!(self.port.source(), PortSource::Interface(_)).then(|| self.port.name())
    }

    fn has_bytes(&self) -> bool {
        !matches!(self.port.source(), PortSource::Ip(_))
    }

    /// Totals since it is read.
    fn sent_and_received(&self) -> (u64, u64) {
        let total = |wanted| self.port.counters().iter().zip(self.port.totals()).find(|(c, _)| **c == wanted).map_or(0, |(_, t)| *t);
        (total(Counter::TxBytes), total(Counter::RxBytes))
    }

    fn sample(&mut self, at: NodeTime, step: Nanos) {
        self.series.push(at, self.port.read_bytes());
        self.spend(now().since(at), step);
    }

    /// Counts a reading that took so long.
    fn spend(&mut self, time: Nanos, step: Nanos) {
        self.readings += 1;
        let between = step.0.saturating_mul(self.every);
        self.slow += u64::from(time.0.saturating_mul(SHARE_OF_TIME) > between);
    }

    fn view(&self) -> PortView {
        let (kind, netdev, lifespan) = match self.port.source() {
            PortSource::Rdma(rdma) => ("rdma", rdma.netdev().map(str::to_owned), Some(rdma.lifespan())),
            PortSource::Ip(_) => ("ip", None, None),
            _ => ("interface", None, None),
        };
        let totals = self.port.counters().iter().copied().zip(self.port.totals().iter().copied()).collect();
        let (name, resets, observed) = (self.port.name().into(), self.port.resets(), self.observed.clone());
        PortView { name, kind, netdev, link: self.link, lifespan, totals, resets, observed }
    }

    /// Reads all counters; what passed becomes a sample of the next frame, at fabric time if that is known.
    fn read(&mut self, at: NodeTime, clock: Option<ClockEstimate>) {
        let Some(delta) = self.port.read(at) else { return };
        let fabric = clock.and_then(|clock| clock.offset.fabric(at));
        // FRAME_SAMPLES_MAX bounds a frame that nobody takes; without fabric time a sample is of no use to the service.
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
        let empty = Telemetry { port: self.pending.port.clone(), at_ns: Vec::new(), counters: counters.collect(), queue_pairs: None };
        let mut frame = core::mem::replace(&mut self.pending, empty);
        // `retain` goes in order, so the flags stay beside their counters.
        let mut absent = self.absent.iter();
        frame.counters.retain(|_| absent.next() != Some(&true));
        self.absent.fill(false);
        Some(frame)
    }
}

/// A job that is looked for.
struct Sought {
    wanted: Wanted,
    /// How often it was looked for.
    looks: u64,
    /// What each port had sent and received when it was looked for first.
    before: BTreeMap<String, (u64, u64)>,
}

struct Sampler {
    root: Root,
    config: CountersConfig,
    clock: watch::Receiver<Option<ClockEstimate>>,
    status: watch::Receiver<SessionStatus>,
    frames: mpsc::Sender<Telemetry>,
    queues: QueuesHandle,
    ports: Vec<Sampled>,
    /// Where one reading of all interfaces is less work than their files, and says the same.
    table: Option<InterfaceTable>,
    learner: Learner,
    learning: Learning,
    /// The job of this host that is learned, if one is.
    sought: Option<Sought>,
    skipped: u64,
    dropped: u64,
}

impl Sampler {
    fn run(mut self, view: &Mutex<CountersView>, stop: &AtomicBool) {
        // With the default timer slack the kernel may wake the thread 50 us late to save power. Where the change is not allowed,
        // the readings are a little less even.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let step = self.config.sampling();
        let per = |interval: Nanos| (interval.0 / step.0).max(1);
        let (read, learn_every, scan) = (per(Nanos::from_millis(self.config.telemetry_ms)), per(LEARN), per(SCAN));
        let learn_job = per(LEARN_JOB);
        let mut due = now();
        let mut send_at = due;
        let mut tick: u64 = 0;
        while !stop.load(Ordering::Relaxed) {
            self.sample(tick);
            if tick.is_multiple_of(read) {
                let (at, clock) = (now(), *self.clock.borrow());
                self.ports.iter_mut().for_each(|port| port.read(at, clock));
            }
            if due >= send_at {
                let interval = self.send();
                send_at = due.saturating_add(interval);
                self.show(view);
            }
            // The ports take turns over the ticks of LEARN, so that no wake is long.
            self.learn(tick, learn_every);
            if tick % learn_job == learn_job - 1 {
                self.learn_job();
            }
            // Tick 0 does not scan, because `start` has looked at the ports just before.
            if tick % scan == scan - 1 {
                self.scan();
            }
            tick += 1;
            // The next wake follows the last due one and not the clock, so that the work of a wake does not shift the grid.
            due = due.saturating_add(step);
            let behind = now().since(due);
            if behind > BEHIND_MAX {
                // Readings that were missed are left out in one go, and the grid stays. The configuration refuses a step of zero.
                let missed = behind.0 / step.0;
                self.skipped += missed;
                due = due.saturating_add(Nanos(missed * step.0));
            }
            sleep_until(due);
        }
    }

    fn sample(&mut self, tick: u64) {
        let at = now();
        let table = self.table.as_mut().and_then(|table| table.read().then_some(table));
        let step = self.config.sampling();
        // Values that were read together count as read at one time, and the ports share the time that the reading took.
        let share = Nanos(now().since(at).0 / self.ports.len().max(1) as u64);
        for port in self.ports.iter_mut().filter(|port| port.has_bytes() && tick.is_multiple_of(port.every)) {
            let bytes = table.as_ref().and_then(|table| table.bytes(port.listed_as()?));
            if bytes.is_some() {
                port.series.push(at, bytes);
                port.spend(share, step);
            } else {
                port.sample(now(), step);
            }
        }
    }

    /// Learns the periods of the ports whose turn it is, and reads a port less often if reading it takes long.
    fn learn(&mut self, tick: u64, learn_every: u64) {
        let step = self.config.sampling();
        let turn = |index: usize| index as u64 % learn_every == tick % learn_every;
        for (_, port) in self.ports.iter_mut().enumerate().filter(|(index, port)| turn(*index) && port.has_bytes()) {
            let (readings, slow) = (core::mem::take(&mut port.readings), core::mem::take(&mut port.slow));
            if 2 * slow > readings && port.every < EVERY_MAX {
                port.every *= 2;
                tracing::info!(
                    port = port.port.name(),
                    every = port.every,
                    slow,
                    readings,
                    "reading takes long; its bytes are read less often"
                );
                // A series at two paces would look like two signals. EVERY_MAX bounds the doubling.
                port.series.clear();
            }
            let every = Nanos(step.0.saturating_mul(port.every));
            // No period is an answer as well: the one that was found before must not outlive the traffic that had it.
            port.observed = self.learner.learn(&port.series, every).ok();
        }
    }

    /// Asks what the busiest port says of its job. Of ports that are read at different paces one carries the same bytes as another: a verbs
    /// device and its interface count them both.
    fn learn_job(&mut self) {
        let wanted = self.learning.wanted();
        if wanted != self.sought.as_ref().map(|sought| sought.wanted) {
            let before = || self.ports.iter().map(|port| (port.port.name().to_owned(), port.sent_and_received())).collect();
            self.sought = wanted.map(|wanted| Sought { wanted, looks: 0, before: before() });
        }
        let Some(Sought { wanted: Wanted { generation, since }, looks, before }) = &mut self.sought else { return };
        *looks += 1;
        if *looks > FIRST_LOOKS && !looks.is_multiple_of(LATER_ONE_IN) {
            return;
        }
        let ports = self.ports.iter().filter(|port| port.has_bytes());
        let Some(port) = ports.max_by_key(|port| port.series.carried_since(*since)) else { return };
        let (sent, received) = port.sent_and_received();
        let (sent_before, received_before) = before.get(port.port.name()).copied().unwrap_or_default();
        let (sent, received) = (u128::from(sent.saturating_sub(sent_before)), u128::from(received.saturating_sub(received_before)));
        let sent_permille = (sent * 1_000).checked_div(sent + received).and_then(|share| u64::try_from(share).ok()).unwrap_or(500);
        let step = Nanos(self.config.sampling().0.saturating_mul(port.every));
        // Readings from before the job are another's.
        let series = port.series.since(*since);
        self.learning.ask(Question { generation: *generation, port: port.port.name().into(), series, step, sent_permille });
    }

    /// Hands the frames over, and says when to do it again. Without a session they are thrown away: old samples are worth nothing.
    fn send(&mut self) -> Nanos {
        let status = *self.status.borrow();
        for port in &mut self.ports {
            let Some(mut frame) = port.take_frame() else { continue };
            frame.queue_pairs = self.queues.message(&frame.port);
            // This thread never waits for the session: a full channel costs the frame and a count.
            self.dropped += u64::from(status.connected && self.frames.try_send(frame).is_err());
        }
        status.report_interval.clamp(SEND_MIN, SEND_MAX)
    }

    fn show(&self, view: &Mutex<CountersView>) {
        let ports = self.ports.iter().map(Sampled::view).collect();
        let new = CountersView { ports, skipped: self.skipped, dropped: self.dropped };
        *view.lock().unwrap_or_else(PoisonError::into_inner) = new;
    }

    /// Finds ports that came and drops those that went.
    fn scan(&mut self) {
        // Ports that went go first, so that one that came back under its name is opened anew.
        self.ports.retain(|port| port.port.is_present());
        let step = self.config.sampling();
        let known = |ports: &[Sampled], name: &str| ports.iter().any(|port| port.port.name() == name);
        for port in new_ports(&self.root, &self.config, |name| known(&self.ports, name)) {
            self.add(port, step);
        }
        if !known(&self.ports, telemetry::IP_PORT)
            && !self.config.leaves_out(telemetry::IP_PORT)
            && let Some(ip) = IpCounters::open(&self.root)
        {
            self.add(Port::ip(ip), step);
        }
        self.ports.sort_by(|a, b| a.port.name().cmp(b.port.name()));
        for sampled in &mut self.ports {
            sampled.link = if let PortSource::Rdma(rdma) = sampled.port.source() { Some(rdma.link()) } else { None };
        }
        self.table = self.agreeing_table();
    }

    /// The table of interfaces, if most of it is of use, and if it lists what the files say: the folders may be those of another
    /// network namespace than this process's, where the same name is another interface.
    fn agreeing_table(&self) -> Option<InterfaceTable> {
        let interfaces: Vec<&Sampled> = self.ports.iter().filter(|port| port.listed_as().is_some()).collect();
        let mut table = InterfaceTable::open(&self.root)?;
        if interfaces.len() < 2 || table.listed() > TABLE_LINES_PER_PORT * interfaces.len() {
            return None;
        }
        let mut agrees = |port: &&Sampled| {
            let before = port.port.read_bytes()?;
            let listed = table.read().then(|| table.bytes(port.port.name()))??;
            // The table agrees if its value lies between two readings of the files; the sums may wrap, so differences are compared.
            Some(listed.wrapping_sub(before) <= port.port.read_bytes()?.wrapping_sub(before))
        };
        interfaces.iter().all(|port| agrees(port) == Some(true)).then_some(table)
    }

    fn add(&mut self, port: Port, step: Nanos) {
        if self.ports.len() < PORTS_MAX {
            self.ports.push(Sampled::new(port, step));
        } else {
            tracing::warn!(port = port.name(), "not read: {PORTS_MAX} ports are read already; see counters.exclude");
        }
    }
}

/// The interfaces and RDMA ports of the host that are to be read and not known yet.
#[must_use]
pub fn new_ports(root: &Root, config: &CountersConfig, is_known: impl Fn(&str) -> bool) -> Vec<Port> {
    let is_wanted = |name: &str| config.takes(name) && !is_known(name);
    let interfaces = interface_names(root).into_iter().filter(|name| is_wanted(name));
    let opened = interfaces.filter_map(|name| Some(Port::new(name.clone(), PortSource::Interface(Interface::open(root, &name)?))));
    let rdma = rdma_ports(root).into_iter().filter(|port| is_wanted(port.name())).map(Port::rdma);
    opened.chain(rdma).take(PORTS_MAX).collect()
}

/// Sleeps until a time; signals do not end it early.
fn sleep_until(at: NodeTime) {
    let at = Timespec { tv_sec: (at.0 / 1_000_000_000).cast_signed(), tv_nsec: (at.0 % 1_000_000_000).cast_signed() };
    // The end is absolute, so signals that come again and again do not extend the sleep.
    while rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &at) == Err(Errno::INTR) {}
}

const _: () = assert!(SAMPLES_MAX >= 2_048, "the series must hold several periods of a second at 10 ms");

#[cfg(test)]
mod tests;
