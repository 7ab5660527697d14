//! How the rest of the service speaks to the brain.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use fabric::Fabric;
use proto::v1alpha1::ServiceFrame;
use state::{AgentReport, Event, JobDefinition, Refusal, Reply, SessionId};
use tokio::sync::{mpsc, oneshot};
use units::Nanos;

use super::Snapshot;

/// Commands that wait for the brain. An agent's report takes microseconds and a commit milliseconds, so this is seconds of work;
/// beyond it senders wait.
pub(super) const QUEUE_MAX: usize = 4_096;

/// What the brain is asked.
#[derive(Debug)]
pub(super) enum Command {
    /// Change the plan.
    Mutate { mutation: Mutation, reply: oneshot::Sender<Result<Reply, Refusal>> },
    /// Show the state.
    View { reply: oneshot::Sender<Arc<Snapshot>> },
    /// Frames for a session go here.
    Register { session: SessionId, frames: mpsc::Sender<ServiceFrame> },
    /// What an agent said.
    Agent(Event),
}

/// A change of the plan.
#[derive(Debug)]
pub enum Mutation {
    /// Commit jobs.
    Commit {
        /// Version of the fabric on which `jobs` stand.
        fabric_version: u64,
        /// All or nothing.
        jobs: Vec<JobDefinition>,
        /// Refuse unless the plan is at this epoch.
        if_epoch: Option<u64>,
        /// How long they stay without renewal.
        lease: Option<Nanos>,
        /// Idempotency key; empty: none.
        key: String,
    },
    /// Forget jobs.
    Release {
        /// By name.
        jobs: Vec<String>,
    },
    /// Replace the fabric.
    SetFabric {
        /// The graph.
        fabric: Arc<Fabric>,
        /// Its document.
        text: Arc<str>,
    },
}

/// The brain has stopped: the service is going down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the service is stopping")]
pub struct Stopped;

/// Speaks to the brain. Cloning it is cheap.
#[derive(Clone, Debug)]
pub struct BrainHandle {
    pub(super) commands: mpsc::Sender<Command>,
    pub(super) sessions: Arc<AtomicU64>,
}

impl BrainHandle {
    /// Changes the plan; the answer comes when the change is durable.
    ///
    /// # Errors
    /// [`Stopped`]; inside, why the change was refused.
    pub async fn mutate(&self, mutation: Mutation) -> Result<Result<Reply, Refusal>, Stopped> {
        let (reply, answer) = oneshot::channel();
        self.send(Command::Mutate { mutation, reply }).await?;
        answer.await.map_err(|_| Stopped)
    }

    /// The present state: every change that was answered before is in it, and reports of agents up to a tenth of a second ago.
    ///
    /// # Errors
    /// [`Stopped`].
    pub async fn snapshot(&self) -> Result<Arc<Snapshot>, Stopped> {
        let (reply, answer) = oneshot::channel();
        self.send(Command::View { reply }).await?;
        answer.await.map_err(|_| Stopped)
    }

    /// A number for a new connection of an agent: never used twice, later ones greater.
    #[must_use]
    pub fn next_session(&self) -> SessionId {
        SessionId(self.sessions.fetch_add(1, Ordering::Relaxed))
    }

    /// Where frames for a session go. To be called before [`BrainHandle::hello`]. A receiver that is full when a plan is due, or
    /// gone, ends the session: its agent connects again and gets the whole plan. The channel closes after the last frame.
    ///
    /// # Errors
    /// [`Stopped`].
    pub async fn register(&self, session: SessionId, frames: mpsc::Sender<ServiceFrame>) -> Result<(), Stopped> {
        self.send(Command::Register { session, frames }).await
    }

    /// An agent said hello. `epoch` is that of the plan on its pages.
    ///
    /// # Errors
    /// [`Stopped`].
    pub async fn hello(&self, session: SessionId, host: String, version: String, ports: Vec<String>, epoch: u64) -> Result<(), Stopped> {
        self.agent(Event::AgentHello { session, host, version, ports, epoch }).await
    }

    /// A session ended.
    ///
    /// # Errors
    /// [`Stopped`].
    pub async fn gone(&self, session: SessionId) -> Result<(), Stopped> {
        self.agent(Event::AgentGone { session }).await
    }

    /// An agent wrote its pages.
    ///
    /// # Errors
    /// [`Stopped`].
    pub async fn ack(&self, session: SessionId, epoch: u64) -> Result<(), Stopped> {
        self.agent(Event::PlanAck { session, epoch }).await
    }

    /// An agent reported.
    ///
    /// # Errors
    /// [`Stopped`].
    pub async fn report(&self, session: SessionId, report: AgentReport) -> Result<(), Stopped> {
        self.agent(Event::Report { session, report }).await
    }

    async fn agent(&self, event: Event) -> Result<(), Stopped> {
        self.send(Command::Agent(event)).await
    }

    async fn send(&self, command: Command) -> Result<(), Stopped> {
        self.commands.send(command).await.map_err(|_| Stopped)
    }
}
