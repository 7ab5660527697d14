//! The channels between the session with the service and the rest of the agent.
//!
//! Both run on one thread, so a channel is only a queue; each is bounded, and what does not fit is dropped and counted by
//! the sender, because what is old is worth nothing here. The agent works without a session, and a test can hold the
//! session's ends.

use std::{sync::Arc, time::Duration};

use proto::v1alpha1::{AgentFrame, HostPlan, Telemetry, TurnNote, TurnOrder};
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
    time::timeout,
};
use units::Nanos;

use crate::{
    clock::ClockEstimate,
    config::{Config, ServiceConfig},
    session::{self, Credentials, LinkState, Session, SessionConfig, SessionStats},
};

/// How often the agent reports until the service says otherwise.
pub const REPORT_INTERVAL: Nanos = Nanos::from_millis(1_000);
/// Plans that wait to be put on pages; each replaces the one before.
const PLANS_MAX: usize = 4;
/// Control frames that wait to be sent: an acknowledgement per plan, a report, neighbours.
const FRAMES_MAX: usize = 16;
/// Longest time for the session's goodbye to get out, when the agent stops.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);
/// Telemetry frames that wait: a second's worth of all ports, twice.
const TELEMETRY_MAX: usize = 2 * crate::config::PORTS_MAX;

/// Turn notes that wait: of every job that a host may lead. They wait for a turn of the loop, and not for the network.
const NOTES_MAX: usize = crate::pages::PAGES_MAX;
/// Orders that wait: one for each job.
const ORDERS_MAX: usize = crate::pages::PAGES_MAX;

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

/// The session's ends.
#[derive(Debug)]
pub struct SessionEnds {
    /// Each plan that comes from the service.
    pub plans: mpsc::Sender<HostPlan>,
    /// The clock, whenever it was estimated anew.
    pub clock: watch::Sender<Option<ClockEstimate>>,
    /// How the session is.
    pub status: watch::Sender<SessionStatus>,
    /// To the control stream. Sequence numbers of reports are already in them.
    pub frames: mpsc::Receiver<AgentFrame>,
    /// To a telemetry stream.
    pub telemetry: mpsc::Receiver<Telemetry>,
    /// To datagrams.
    pub notes: mpsc::Receiver<TurnNote>,
    /// From datagrams. One that finds no room is dropped: the note that it answers is repeated.
    pub orders: mpsc::Sender<TurnOrder>,
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
    /// See [`SessionEnds::frames`].
    pub frames: mpsc::Sender<AgentFrame>,
    /// See [`SessionEnds::telemetry`].
    pub telemetry: mpsc::Sender<Telemetry>,
    /// See [`SessionEnds::notes`].
    pub notes: mpsc::Sender<TurnNote>,
    /// See [`SessionEnds::orders`].
    pub orders: mpsc::Receiver<TurnOrder>,
}

/// Both sides of new channels. `clock` is the estimate of an earlier session: the estimate stays good, with a growing bound,
/// until the new session has its own.
#[must_use]
pub fn channels(clock: Option<ClockEstimate>) -> (SessionEnds, AgentEnds) {
    let (plans, plans_out) = mpsc::channel(PLANS_MAX);
    let (clock, clock_out) = watch::channel(clock);
    let (status, status_out) = watch::channel(SessionStatus::default());
    let (frames_in, frames) = mpsc::channel(FRAMES_MAX);
    let (telemetry_in, telemetry) = mpsc::channel(TELEMETRY_MAX);
    let (notes_in, notes) = mpsc::channel(NOTES_MAX);
    let (orders, orders_out) = mpsc::channel(ORDERS_MAX);
    (
        SessionEnds { plans, clock, status, frames, telemetry, notes, orders },
        AgentEnds {
            plans: plans_out,
            clock: clock_out,
            status: status_out,
            frames: frames_in,
            telemetry: telemetry_in,
            notes: notes_in,
            orders: orders_out,
        },
    )
}

/// A session that is carried to and from the agent's ends.
#[derive(Debug)]
pub struct Connection {
    goodbye: oneshot::Sender<()>,
    session: JoinHandle<()>,
    carrier: JoinHandle<()>,
    stats: Arc<SessionStats>,
}

impl Connection {
    /// Starts a session and carries everything between it and `ends`; `None` if the configuration names no service.
    #[must_use]
    pub fn start(config: &Config, ports: Vec<String>, ends: SessionEnds) -> Option<Self> {
        let config = session_config(&config.service, &config.host, ports)?;
        let (goodbye, shutdown) = oneshot::channel();
        // A sender that is dropped wakes the receiver as well, so a lost `Connection` ends its session.
        let Session { plans, clock, link, orders, uplink, stats, task, .. } = session::start(config, async { drop(shutdown.await) });
        let counts = Arc::clone(&stats);
        let carrier = tokio::spawn(carry(plans, clock, link, orders, uplink, ends));
        Some(Self { goodbye, session: task, carrier, stats: counts })
    }

    /// Counts of the session.
    #[must_use]
    pub fn stats(&self) -> Arc<SessionStats> {
        Arc::clone(&self.stats)
    }

    /// Says goodbye to the service, and waits a little for it to get out.
    pub async fn close(self) {
        let Self { goodbye, mut session, carrier, .. } = self;
        // A session that is gone already hears no goodbye.
        let _ = goodbye.send(());
        // CLOSE_WITHIN bounds the goodbye: an agent that was told to stop must not hang in it.
        if !session.is_finished() && timeout(CLOSE_WITHIN, &mut session).await.is_err() {
            session.abort();
        }
        carrier.abort();
    }

    /// Waits for the end of the session by itself, which is a defect of ours: losses of the connection do not end it.
    pub async fn ended(&mut self) {
        tokio::select! {
            // Both tasks run for as long as the agent does, so the end of either is the defect.
            _ = &mut self.session => {}
            _ = &mut self.carrier => {}
        }
    }
}

fn session_config(service: &ServiceConfig, host: &str, ports: Vec<String>) -> Option<SessionConfig> {
    let credentials = match &service.tls {
        Some(tls) if !service.insecure_loopback => {
            Credentials::Files { ca: tls.ca.clone(), certificate: tls.cert.clone(), key: tls.key.clone() }
        }
        // The configuration was checked: without certificates the address is a loopback one, and tls.rs refuses any other.
        _ => Credentials::InsecureLoopback,
    };
    Some(SessionConfig {
        service: service.address.clone()?,
        server_name: service.server_name.clone(),
        host: host.into(),
        version: env!("CARGO_PKG_VERSION").into(),
        ports,
        credentials,
    })
}

/// Until the session or the agent is gone.
async fn carry(
    mut plans: mpsc::Receiver<HostPlan>,
    mut clock: watch::Receiver<Option<ClockEstimate>>,
    mut link: watch::Receiver<LinkState>,
    mut orders: mpsc::Receiver<TurnOrder>,
    uplink: session::Uplink,
    mut ends: SessionEnds,
) {
    loop {
        tokio::select! {
            plan = plans.recv() => {
                let Some(plan) = plan else { return };
                // A full channel makes this wait, and the session keeps only the newest of the plans that come meanwhile.
                if ends.plans.send(plan).await.is_err() {
                    return;
                }
            }
            // A watch whose sender is gone only disables its branch; the end of the session is seen at `plans`.
            Ok(()) = clock.changed() => {
                let estimate = *clock.borrow_and_update();
                // The estimate of an earlier session stays until this one has its own.
                if estimate.is_some() {
                    ends.clock.send_replace(estimate);
                }
            }
            Ok(()) = link.changed() => {
                let pace = match &*link.borrow_and_update() {
                    LinkState::Up(pace) => Some(*pace),
                    // The interval and the count of the last session stay: only a welcome brings new ones.
                    LinkState::Down { .. } => None,
                };
                ends.status.send_modify(|status| {
                    status.connected = pace.is_some();
                    if let Some(pace) = pace {
                        // A reload brings an `Up` without a `Down` before it, and is a new session all the same.
                        status.sessions += 1;
                        status.report_interval = Nanos(u64::try_from(pace.report_interval.as_nanos()).unwrap_or(u64::MAX));
                    }
                });
            }
            frame = ends.frames.recv() => {
                let Some(frame) = frame else { return };
                uplink.send(frame);
            }
            Some(frame) = ends.telemetry.recv() => uplink.telemetry(frame),
            Some(note) = ends.notes.recv() => uplink.note(note),
            Some(order) = orders.recv() => {
                // The agent takes orders before anything but its heartbeat: without room it is stopped, and the order old.
                let _ = ends.orders.try_send(order);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A session that panics would leave an agent that looks connected for ever.
    #[tokio::test]
    async fn a_session_that_ends_by_itself_is_noticed() {
        let of = |session| {
            let (goodbye, _) = oneshot::channel();
            Connection { goodbye, session, carrier: tokio::spawn(std::future::pending()), stats: Arc::default() }
        };
        let mut broken = of(tokio::spawn(async { panic!("as a defect would") }));
        timeout(Duration::from_secs(20), broken.ended()).await.unwrap();
        broken.close().await;
        // A live session has not ended; close times out anyway.
        let mut lives = of(tokio::spawn(std::future::pending()));
        assert!(timeout(Duration::from_millis(50), lives.ended()).await.is_err());
        lives.close().await;
    }
}
