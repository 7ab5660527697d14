//! How the rest of the service speaks to the controller.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures_util::future::BoxFuture;
use state::{AuditEntry, Change, Event, Refusal, Reply, SessionId};
use tokio::sync::{mpsc, oneshot};

use super::{FabricView, Snapshot};
use crate::{
    links::LinkTable,
    quic::{self, Outbox},
    traces::Waiting,
    turns::{TurnsHandle, TurnsSnapshot},
};

/// Commands that wait for the controller. An agent's report takes microseconds and a commit milliseconds, so this is seconds of work;
/// beyond it senders wait.
pub(super) const QUEUE_MAX: usize = 4_096;

/// Who waits for a change.
pub(super) type Answer = Waiting<Result<Reply, Refusal>>;

/// What the controller is asked.
#[derive(Debug)]
pub(super) enum Command {
    /// Change the plan.
    Change { change: Change, reply: Answer },
    /// Show the state.
    View { reply: oneshot::Sender<Arc<Snapshot>> },
    /// Show the fabric.
    Fabric { reply: oneshot::Sender<Option<FabricView>> },
    /// Show who changed what: so many entries after a number, or the last ones.
    Audit { after: Option<u64>, limit: usize, reply: oneshot::Sender<Vec<Arc<AuditEntry>>> },
    /// What nothing else says of these jobs, or of all where none is named.
    Warnings { jobs: Vec<String>, reply: oneshot::Sender<Vec<String>> },
    /// Show the links with demand.
    Links { reply: oneshot::Sender<Arc<LinkTable>> },
    /// What an agent said.
    Agent(Event),
    /// What a defect would do.
    #[cfg(test)]
    Panic,
}

/// The controller has stopped: the service is going down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the service is stopping")]
pub struct Stopped;

/// Speaks to the controller. Cloning it is cheap.
#[derive(Clone, Debug)]
pub struct ControllerHandle {
    pub(super) commands: mpsc::Sender<Command>,
    pub(super) outboxes: Outboxes,
    pub(super) turns: TurnsHandle,
}

/// Where plans for each session go. Sessions enter before their hello, and leave when the controller hears that they are gone.
#[derive(Clone, Debug, Default)]
pub(super) struct Outboxes(Arc<Mutex<BTreeMap<SessionId, Outbox>>>);

impl Outboxes {
    pub(super) fn with<T>(&self, session: SessionId, act: impl FnOnce(&Outbox) -> T) -> Option<T> {
        self.map().get(&session).map(act)
    }

    pub(super) fn leave(&self, session: SessionId) {
        self.map().remove(&session);
    }

    fn map(&self) -> MutexGuard<'_, BTreeMap<SessionId, Outbox>> {
        // The map is whole after each call, so a panic elsewhere under the lock leaves nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ControllerHandle {
    /// Changes the plan; the answer comes when the change is durable. The jobs of a commit
    /// are placed again if the fabric is not the one that it names, and those of a [`Change::SetFabric`] are filled in.
    ///
    /// # Errors
    /// [`Stopped`]; inside, why the change was refused.
    pub async fn change(&self, change: Change) -> Result<Result<Reply, Refusal>, Stopped> {
        let (reply, answer) = oneshot::channel();
        self.send(Command::Change { change, reply: Answer::new(reply) }).await?;
        // A controller that stopped drops the sender. Nobody knows then whether the change became durable.
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

    /// The fabric, without the rest.
    ///
    /// # Errors
    /// [`Stopped`].
    pub async fn fabric(&self) -> Result<Option<FabricView>, Stopped> {
        let (reply, answer) = oneshot::channel();
        self.send(Command::Fabric { reply }).await?;
        answer.await.map_err(|_| Stopped)
    }

    /// What nothing else says of these jobs, or of all where none is named ([`state::View::warnings`]).
    ///
    /// # Errors
    /// [`Stopped`].
    pub async fn warnings(&self, jobs: Vec<String>) -> Result<Vec<String>, Stopped> {
        let (reply, answer) = oneshot::channel();
        self.send(Command::Warnings { jobs, reply }).await?;
        answer.await.map_err(|_| Stopped)
    }

    /// Who changed what: `limit` entries after a number, or the last ones.
    ///
    /// # Errors
    /// [`Stopped`].
    pub async fn audit(&self, after: Option<u64>, limit: usize) -> Result<Vec<Arc<AuditEntry>>, Stopped> {
        let (reply, answer) = oneshot::channel();
        self.send(Command::Audit { after, limit, reply }).await?;
        answer.await.map_err(|_| Stopped)
    }

    /// The links with demand, under the present plan.
    ///
    /// # Errors
    /// [`Stopped`].
    pub async fn links(&self) -> Result<Arc<LinkTable>, Stopped> {
        let (reply, answer) = oneshot::channel();
        self.send(Command::Links { reply }).await?;
        answer.await.map_err(|_| Stopped)
    }

    /// The turns of jobs now, or up to half a second ago.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn look_at_turns(&self) -> Result<Arc<TurnsSnapshot>, Stopped> {
        self.turns.look().ok_or(Stopped)
    }

    async fn send(&self, command: Command) -> Result<(), Stopped> {
        self.commands.send(command).await.map_err(|_| Stopped)
    }
}

impl quic::Controller for ControllerHandle {
    fn register(&self, session: SessionId, outbox: Outbox) {
        // The outbox is there before the hello is handled: the first plan comes with the hello.
        self.outboxes.map().insert(session, outbox);
    }

    fn turns(&self) -> Option<TurnsHandle> {
        Some(self.turns.clone())
    }

    fn tell(&self, event: Event) -> BoxFuture<'_, Result<(), quic::ControllerGone>> {
        Box::pin(async move { self.send(Command::Agent(event)).await.map_err(|Stopped| quic::ControllerGone) })
    }
}
