//! The connection to the topology service: plans and clock in, reports and samples out, and back again after every loss.
//!
//! [`start`] runs one task for the life of the agent. Nothing it does can hold a job up: frames that cannot be sent are
//! dropped and counted, and while there is no session the pages live on until their plan expires.

mod backoff;
mod connect;
mod ends;
mod live;
mod run;
mod tls;

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use proto::v1alpha1::{AgentFrame, HostPlan, Telemetry, TurnNote, TurnOrder};
use tokio::{
    sync::{Notify, mpsc, watch},
    task::JoinHandle,
};

pub use crate::clock::ClockEstimate;
pub use connect::ConnectError;
pub use tls::CredentialsError;

/// Lowest version of the protocol that this agent speaks.
pub const PROTOCOL_MIN: u32 = 1;
/// Longest time for a handshake; the service allows as much.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// Longest time from Hello to Welcome: the first round trip, which is the admission (a TLS 1.3 client learns only then that its
/// certificate was refused).
const WELCOME_WITHIN: Duration = Duration::from_secs(5);
/// Silence of the service after which the session is given up, if the service asks for no less.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// Longest time for a goodbye to get out.
const GOODBYE_WITHIN: Duration = Duration::from_millis(500);
/// Waiting frames: two reports, some acks, neighbours. More means that the service does not read.
const FRAMES_WAITING_MAX: usize = 64;
/// Waiting frames of telemetry: one second of eight ports, with room for a stall.
const TELEMETRY_WAITING_MAX: usize = 64;
/// Turn notes that wait for the next datagram, and orders that wait to be taken: one for each job that a host may lead.
const TURNS_WAITING_MAX: usize = crate::pages::PAGES_MAX;
/// Quick probes at the start of a session, and the time between them: the first estimate is there within 0.2 s.
const QUICK_PROBES: u32 = 8;
const QUICK_PROBE_INTERVAL: Duration = Duration::from_millis(20);

/// How the agent and the service prove who they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// Read again at every connection, so that renewed files are taken up.
    Files {
        /// The authority that signed the service's certificate.
        ca: PathBuf,
        /// The agent's certificate, then its intermediates.
        certificate: PathBuf,
        /// The private key of that certificate.
        key: PathBuf,
    },
    /// No proof on either side. Only for a service on this machine; any other address is refused.
    InsecureLoopback,
}

/// The service to call, and the identity of the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionConfig {
    /// `host:port` of the service; every address of the name is tried.
    pub service: String,
    /// Name in the service's certificate, if not the host of `service`.
    pub server_name: Option<String>,
    /// The host that this agent speaks for.
    pub host: String,
    /// Version of this program.
    pub version: String,
    /// The ports of that host.
    pub ports: Vec<String>,
    /// How both sides prove who they are.
    pub credentials: Credentials,
}

/// What the service asked for in its Welcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// How often to report.
    pub report_interval: Duration,
    /// How often the clock is probed; the session does that.
    pub probe_interval: Duration,
}

/// Whether there is a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// Admitted by the service.
    Up(Pace),
    /// Not connected.
    Down {
        /// Why, for people; empty before the first attempt.
        reason: Arc<str>,
    },
}

/// Counts in [`SessionStats`].
pub const SESSION_COUNTS: usize = 8;

/// Counts since the start.
#[derive(Debug, Default)]
pub struct SessionStats {
    admitted: AtomicU64,
    failed: AtomicU64,
    frames_dropped: AtomicU64,
    telemetry_dropped: AtomicU64,
    clock_restarts: AtomicU64,
    notes_sent: AtomicU64,
    notes_dropped: AtomicU64,
    orders: AtomicU64,
}

impl SessionStats {
    /// Names and values, in a fixed order: sessions admitted, attempts that failed, frames and telemetry dropped for want of a
    /// session or room, steps of a clock, turn notes that were sent and dropped, turn orders that came.
    #[must_use]
    pub fn read(&self) -> [(&'static str, u64); SESSION_COUNTS] {
        // The counts guard no data and need not agree with each other, so relaxed is enough.
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        [
            ("admitted", get(&self.admitted)),
            ("failed", get(&self.failed)),
            ("frames_dropped", get(&self.frames_dropped)),
            ("telemetry_dropped", get(&self.telemetry_dropped)),
            ("clock_restarts", get(&self.clock_restarts)),
            ("notes_sent", get(&self.notes_sent)),
            ("notes_dropped", get(&self.notes_dropped)),
            ("orders", get(&self.orders)),
        ]
    }

    fn add(count: &AtomicU64) {
        Self::add_many(count, 1);
    }

    fn add_many(count: &AtomicU64, many: usize) {
        count.fetch_add(many as u64, Ordering::Relaxed);
    }
}

/// What the rest of the agent says to the service. Never waits; clones are the same way out.
#[derive(Clone, Debug)]
pub struct Uplink {
    frames: mpsc::Sender<AgentFrame>,
    telemetry: mpsc::Sender<Telemetry>,
    notes: mpsc::Sender<TurnNote>,
    stats: Arc<SessionStats>,
}

impl Uplink {
    /// Sends a frame, or drops it when there is no room. The plan version of the last plan ack is said again in the next Hello.
    pub fn send(&self, frame: AgentFrame) {
        // A full channel means that the service does not read; a frame that waited longer would be old.
        if self.frames.try_send(frame).is_err() {
            SessionStats::add(&self.stats.frames_dropped);
        }
    }

    /// Sends samples, or drops them when there is no room.
    pub fn telemetry(&self, frame: Telemetry) {
        if self.telemetry.try_send(frame).is_err() {
            SessionStats::add(&self.stats.telemetry_dropped);
        }
    }
}

impl Uplink {
    /// Sends a turn note in the next datagram, or drops it when there is no room.
    pub fn note(&self, note: TurnNote) {
        if self.notes.try_send(note).is_err() {
            SessionStats::add(&self.stats.notes_dropped);
        }
    }
}

/// The session as the rest of the agent sees it.
#[derive(Debug)]
pub struct Session {
    /// Plans of this host. A plan that is not taken is replaced by a newer one.
    pub plans: mpsc::Receiver<HostPlan>,
    /// The clock, `None` before the first echo. Kept through losses of the session; its bound grows ([`ClockEstimate::bound_at`]).
    pub clock: watch::Receiver<Option<ClockEstimate>>,
    /// Whether there is a session.
    pub link: watch::Receiver<LinkState>,
    /// What the service says of starts.
    pub orders: mpsc::Receiver<TurnOrder>,
    /// The way out.
    pub uplink: Uplink,
    /// Counts.
    pub stats: Arc<SessionStats>,
    /// Wakes the task to connect anew, with the files as they are now.
    pub reload: Arc<Notify>,
    /// Ends after `shutdown`, or when `plans` was dropped.
    pub task: JoinHandle<()>,
}

/// Starts the session on the present runtime. The session runs until `shutdown`.
#[must_use]
pub fn start(config: SessionConfig, shutdown: impl Future<Output = ()> + Send + 'static) -> Session {
    // The channel holds one plan; a second waits in the session, where a third replaces it.
    let (to_plans, plans) = mpsc::channel(1);
    // A watch keeps the last value only: nobody wants an older clock or state of the link.
    let (to_clock, clock) = watch::channel(None);
    let (to_link, link) = watch::channel(LinkState::Down { reason: "".into() });
    let (to_frames, frames) = mpsc::channel(FRAMES_WAITING_MAX);
    let (to_telemetry, telemetry) = mpsc::channel(TELEMETRY_WAITING_MAX);
    let (to_notes, notes) = mpsc::channel(TURNS_WAITING_MAX);
    let (to_orders, orders) = mpsc::channel(TURNS_WAITING_MAX);
    let stats = Arc::new(SessionStats::default());
    let reload = Arc::new(Notify::new());
    let uplink = Uplink { frames: to_frames, telemetry: to_telemetry, notes: to_notes, stats: Arc::clone(&stats) };
    let ends = ends::Ends {
        plans: to_plans,
        clock: to_clock,
        link: to_link,
        frames,
        telemetry,
        notes,
        orders: to_orders,
        stats: Arc::clone(&stats),
        reload: Arc::clone(&reload),
        plan_version: 0,
    };
    let task = tokio::spawn(run::run(config, ends, shutdown));
    Session { plans, clock, link, orders, uplink, stats, reload, task }
}
