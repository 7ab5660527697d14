//! The channels between the session with the service and the rest of the agent.
//!
//! Both run on one thread, so a channel is only a queue; each is bounded, and what does not fit is dropped and counted by
//! the sender, because what is old is worth nothing here.

use proto::v1alpha1::{AgentFrame, HostPlan, Telemetry};
use tokio::sync::{mpsc, watch};
use units::Nanos;

use crate::clock::ClockEstimate;

/// How often the agent reports until the service says otherwise.
pub const REPORT_INTERVAL: Nanos = Nanos::from_millis(1_000);
/// Plans that wait to be put on pages; each replaces the one before.
const PLANS_MAX: usize = 4;
/// Control frames that wait to be sent: an acknowledgement per plan, a report, neighbours.
const FRAMES_MAX: usize = 16;
/// Telemetry frames that wait: a second's worth of all ports, twice.
const TELEMETRY_MAX: usize = 2 * crate::counters::PORTS_MAX;

/// How the session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionStatus {
    /// Welcomed by the service, and not given up since.
    pub connected: bool,
    /// Counts sessions, so that what each must hear once is sent again.
    pub sessions: u64,
    /// As the service's welcome said.
    pub report_interval: Nanos,
}

impl Default for SessionStatus {
    fn default() -> Self {
        Self { connected: false, sessions: 0, report_interval: REPORT_INTERVAL }
    }
}

/// What the agent's hello says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Introduction {
    /// Names of the ports whose counters are read.
    pub ports: Vec<String>,
    /// Epoch of the plan on the pages; 0: none.
    pub epoch: u64,
}

/// The session's ends.
#[derive(Debug)]
pub struct SessionEnds {
    /// Each plan that comes from the service.
    pub plans: mpsc::Sender<HostPlan>,
    /// The clock, whenever it was estimated anew.
    pub clock: watch::Sender<Option<ClockEstimate>>,
    /// How the session is.
    pub status: watch::Sender<SessionStatus>,
    /// What to say in the next hello.
    pub introduction: watch::Receiver<Introduction>,
    /// To the control stream. Sequence numbers of reports are already in them.
    pub frames: mpsc::Receiver<AgentFrame>,
    /// To a telemetry stream.
    pub telemetry: mpsc::Receiver<Telemetry>,
}

/// The agent's ends.
#[derive(Debug)]
pub struct AgentEnds {
    /// See [`SessionEnds::plans`].
    pub plans: mpsc::Receiver<HostPlan>,
    /// See [`SessionEnds::clock`].
    pub clock: watch::Receiver<Option<ClockEstimate>>,
    /// See [`SessionEnds::status`].
    pub status: watch::Receiver<SessionStatus>,
    /// See [`SessionEnds::introduction`].
    pub introduction: watch::Sender<Introduction>,
    /// See [`SessionEnds::frames`].
    pub frames: mpsc::Sender<AgentFrame>,
    /// See [`SessionEnds::telemetry`].
    pub telemetry: mpsc::Sender<Telemetry>,
}

/// Both sides of new channels. `clock` is what an earlier session knew: it stays good, with a growing bound, until the new
/// session knows better.
#[must_use]
pub fn channels(clock: Option<ClockEstimate>) -> (SessionEnds, AgentEnds) {
    let (plans, plans_out) = mpsc::channel(PLANS_MAX);
    let (clock, clock_out) = watch::channel(clock);
    let (status, status_out) = watch::channel(SessionStatus::default());
    let (introduction_in, introduction) = watch::channel(Introduction::default());
    let (frames_in, frames) = mpsc::channel(FRAMES_MAX);
    let (telemetry_in, telemetry) = mpsc::channel(TELEMETRY_MAX);
    (
        SessionEnds { plans, clock, status, introduction, frames, telemetry },
        AgentEnds {
            plans: plans_out,
            clock: clock_out,
            status: status_out,
            introduction: introduction_in,
            frames: frames_in,
            telemetry: telemetry_in,
        },
    )
}
