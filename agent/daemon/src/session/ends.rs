//! What a session takes from the agent and hands to it.

use std::sync::Arc;

use proto::v1alpha1::{AgentFrame, HostPlan, Telemetry, TurnNote, TurnOrder, agent_frame};
use tokio::sync::{Notify, mpsc, watch};

use super::{ClockEstimate, LinkState, SessionStats};

/// Our ends of what [`super::Session`] holds.
pub(super) struct Ends {
    pub(super) plans: mpsc::Sender<HostPlan>,
    pub(super) clock: watch::Sender<Option<ClockEstimate>>,
    pub(super) link: watch::Sender<LinkState>,
    pub(super) frames: mpsc::Receiver<AgentFrame>,
    pub(super) telemetry: mpsc::Receiver<Telemetry>,
    pub(super) notes: mpsc::Receiver<TurnNote>,
    pub(super) orders: mpsc::Sender<TurnOrder>,
    pub(super) stats: Arc<SessionStats>,
    pub(super) reload: Arc<Notify>,
    /// Version of the last plan that the agent acknowledged: the plan that is on its pages.
    pub(super) plan_version: u64,
}

impl Ends {
    /// Takes note of a frame that goes out, or would.
    pub(super) fn note(&mut self, frame: &AgentFrame) {
        // A frame that is dropped counts as well: the next Hello says what is on the pages, not what the service has heard of.
        if let Some(agent_frame::Kind::PlanAck(ack)) = &frame.kind {
            self.plan_version = ack.plan_version;
        }
    }
}
