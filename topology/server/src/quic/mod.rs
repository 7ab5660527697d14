//! Agents over QUIC: who may come in, what they may send, and how plans reach them.
//!
//! One task per connection ([`serve`]). What an agent says becomes [`state::Event`]s for the [`Controller`]; what the controller wants
//! of an agent goes through its [`Outbox`], which holds one plan: the newest. Nothing here decides about plans.
//!
//! Everything that an agent can make grow has a limit below, and an agent that goes past one is cut with a reason.

mod clock;
mod convert;
mod endpoint;
mod hello;
mod limits;
mod live;
mod outbox;
mod serve;
mod stats;

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use futures_util::future::BoxFuture;
use proto::v1alpha1 as wire;
use state::{Event, SessionId};

use self::limits::Hellos;
use crate::{FabricClock, tls::Tls, turns::TurnsHandle};

pub use endpoint::endpoint;
pub use outbox::{Inbox, Outbox, Outgoing};
pub use serve::serve;
pub use stats::Stats;

/// How often an agent reports. Slower than an iteration, faster than anybody looks.
pub const REPORT_INTERVAL: Duration = Duration::from_secs(2);
/// How often an agent probes the clock: drift adds 0.4 ms to the bound between two probes, and slacks are milliseconds.
pub const PROBE_INTERVAL: Duration = Duration::from_secs(2);
/// Silence after which a session is given up: five reports in a row lost.
pub const SILENCE_MAX: Duration = Duration::from_secs(10);
/// Most open connections: the promise is 10,000 agents, and a restart may hold some of them twice for [`SILENCE_MAX`].
pub const SESSIONS_MAX: usize = state::config::AGENTS_MAX;

/// Lowest version of the protocol that is still spoken.
pub const PROTOCOL_MIN: u32 = 1;
/// From the first packet to the end of the TLS handshake.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(5);
/// From the end of the handshake to a whole Hello.
const HELLO_WITHIN: Duration = Duration::from_secs(5);
/// For a refusal to reach the agent before the connection is closed.
const FAREWELL_WITHIN: Duration = Duration::from_secs(1);
/// For all sessions to end after a shutdown.
const SHUTDOWN_WITHIN: Duration = Duration::from_secs(3);

/// Handshakes under way at once; each takes about 1 ms of a core and 50 KiB.
const HANDSHAKES_MAX: usize = 1_024;
/// Handshakes under way from one address: racks behind one NAT restart together, a single host needs one.
const HANDSHAKES_PER_ADDRESS_MAX: usize = 64;
/// Above so many handshakes in all, an address must prove itself by a stateless retry first (RFC 9000 section 8.1.2).
const RETRY_ABOVE: usize = 256;
/// The same for one address, which may be spoofed.
const RETRY_PER_ADDRESS_ABOVE: usize = 16;

/// Largest frame on the control stream from an agent: a report of 400 jobs.
pub const CONTROL_FRAME_BYTES_MAX: usize = 64 * 1024;
/// Largest frame of telemetry: a second of 100 samples of 60 counters.
pub const TELEMETRY_FRAME_BYTES_MAX: usize = 128 * 1024;
/// One control stream, and one stream of telemetry at a time.
const STREAMS_MAX: u32 = 1;
/// What an agent may have sent on one stream before it is read. A larger frame comes in several windows.
const STREAM_WINDOW_BYTES: u32 = 64 * 1024;
/// The same for all its streams.
const CONNECTION_WINDOW_BYTES: u32 = 2 * STREAM_WINDOW_BYTES;
/// What is buffered for an agent that does not read. A host's plan takes a few KiB.
const SEND_WINDOW_BYTES: u64 = 128 * 1024;
/// What is taken from a stream at once.
const READ_BYTES: usize = 16 * 1024;

/// Hellos of one agent per second, and how many at once: one that restarts says one.
const HELLOS_PER_SECOND_MAX: u32 = 1;
const HELLOS_BURST: u32 = 10;
/// Frames and reads on the control stream, per second: an agent needs 2 a second, and some more after a commit.
pub const FRAMES_PER_SECOND_MAX: u32 = 50;
/// How many may come at once: a large frame in small packets takes 60 reads.
pub const FRAMES_BURST: u32 = 400;
/// Clock probes per second; the quick ones at the start are 8.
const PROBES_PER_SECOND_MAX: u32 = 20;
const PROBES_BURST: u32 = 100;
/// Bytes of telemetry per second: eight ports of 60 counters at 10 ms take 0.5 MiB.
const TELEMETRY_BYTES_PER_SECOND_MAX: u32 = 1024 * 1024;
const TELEMETRY_BYTES_BURST: u32 = 4 * 1024 * 1024;
/// Jobs that one host leads; agents keep as many pages.
const JOBS_LED_MAX: u32 = 256;
/// Turn notes of one job per second: asked, ended and one more for each of ten iterations, or of five with three Up phases.
const NOTES_PER_JOB_MAX: u32 = 40;
/// Turn notes per second, and how many at once: all jobs of a host may begin together, and tell everything again to a new service.
/// What is beyond is dropped and counted, and ends no session: whoever is not answered goes as it comes.
const NOTES_PER_SECOND_MAX: u32 = JOBS_LED_MAX * NOTES_PER_JOB_MAX;
const NOTES_BURST: u32 = 2 * NOTES_PER_SECOND_MAX;
/// Datagrams with turn notes per second. An agent puts into one what is there at once: beyond so many there are jobs by the hundred,
/// and then datagrams are shared.
const NOTE_DATAGRAMS_PER_SECOND_MAX: u32 = 2_000;
const NOTE_DATAGRAMS_BURST: u32 = 4_000;
/// UDP datagrams per second, whatever is in them; telemetry at its limit takes 1,000, and turn notes 2,000 with as many
/// acknowledgements of orders.
const DATAGRAMS_PER_SECOND_MAX: u64 = 6_000;

/// Longest name of a port of an agent: that of a host.
const PORT_BYTES_MAX: usize = units::NAME_BYTES_MAX;
/// Most jobs in one report.
const GATES_MAX: usize = state::config::GATES_PER_REPORT_MAX;

/// Whether a port may have this name, which stands in logs, events and tables.
pub(crate) fn is_port(name: &str) -> bool {
    !name.is_empty() && name.len() <= PORT_BYTES_MAX && !name.chars().any(char::is_control)
}

/// The controller is gone: the service is stopping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the service is stopping")]
pub struct ControllerGone;

/// Where sessions bring what agents say. [`Event::AgentHello`] comes first and [`Event::AgentGone`] last, once each.
pub trait Controller: Send + Sync + 'static {
    /// A session is about to say hello; what the controller has for it goes into `outbox`.
    fn register(&self, session: SessionId, outbox: Outbox);

    /// Takes an event. While the future waits, nothing more is read from this agent.
    fn tell(&self, event: Event) -> BoxFuture<'_, Result<(), ControllerGone>>;

    /// Where turn notes go; by default nobody takes turns.
    fn turns(&self) -> Option<TurnsHandle> {
        None
    }
}

/// Receives what agents observe on their hosts. Must not wait.
pub trait TelemetrySink: Send + Sync + 'static {
    /// Counter samples of one port of `host`.
    fn take(&self, host: &str, frame: wire::Telemetry);

    /// What LLDP told the agent of `host`; by default nobody asks.
    fn neighbours(&self, host: &str, told: wire::Neighbours) {
        let _ = (host, told);
    }

    /// What the agent of `host` learned of the job there; by default nobody asks.
    fn learned(&self, host: &str, told: wire::LearnedJob) {
        let _ = (host, told);
    }
}

/// What a session needs of the rest of the service.
#[derive(Clone)]
pub struct Seams {
    /// The controller.
    pub controller: Arc<dyn Controller>,
    /// The store of samples.
    pub telemetry: Arc<dyn TelemetrySink>,
    /// Fabric time.
    pub clock: FabricClock,
    /// Counts what happened.
    pub stats: Arc<Stats>,
}

impl std::fmt::Debug for Seams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seams").field("clock", &self.clock).field("stats", &self.stats).finish_non_exhaustive()
    }
}

/// What all sessions share.
struct Shared {
    hellos: Hellos,
    seams: Seams,
    settings: Settings,
    tls: Arc<Tls>,
    /// Never given twice while the service runs.
    next_session: AtomicU64,
}

/// What a site may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Told to agents: how often they report.
    pub report_interval: Duration,
    /// Told to agents: how often they probe the clock.
    pub probe_interval: Duration,
    /// Silence after which a session is given up. At least twice the report interval.
    pub silence_max: Duration,
    /// Most open connections.
    pub sessions_max: usize,
    /// Of this program, told to agents.
    pub version: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            report_interval: REPORT_INTERVAL,
            probe_interval: PROBE_INTERVAL,
            silence_max: SILENCE_MAX,
            sessions_max: SESSIONS_MAX,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

/// Code with which the service closes a connection; the reason in words comes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum CloseCode {
    /// Both sides are done.
    Done = 0,
    /// The service stops; come again.
    Stopping = 1,
    /// Not admitted: role, host or protocol.
    Refused = 2,
    /// Past a limit of rate.
    Flood = 3,
    /// A frame that no agent of this protocol sends.
    Malformed = 4,
    /// Silent, or does not read.
    Silent = 5,
    /// The controller ended the session.
    Ended = 6,
    /// The certificate has expired since the handshake.
    Expired = 7,
    /// The client authorities are others since the handshake, and the certificate is of none of them.
    Untrusted = 8,
}

impl From<CloseCode> for quinn::VarInt {
    fn from(code: CloseCode) -> Self {
        Self::from_u32(code as u32)
    }
}

/// How a session ended, on our side.
#[derive(Clone, Debug, PartialEq, Eq)]
struct End {
    code: CloseCode,
    reason: String,
    /// The agent hears it as a Refusal before the close, with whether trying again can help.
    farewell: Option<bool>,
}

impl End {
    fn new(code: CloseCode, reason: impl Into<String>) -> Self {
        Self { code, reason: reason.into(), farewell: None }
    }

    fn refused(reason: impl Into<String>, retry: bool) -> Self {
        Self { code: CloseCode::Refused, reason: reason.into(), farewell: Some(retry) }
    }
}
