//! How the rest of the service speaks to the scheduler.

use std::sync::Arc;

use state::scheduler::{RunReport, Submission, SubmissionRefusal, SubmissionSpec};
use tokio::sync::{mpsc, oneshot};
use units::FabricTime;

use crate::{config::SchedulerConfig, controller::Stopped};

/// Requests that wait for the thread; beyond it senders wait.
pub(crate) const QUEUE_MAX: usize = 1_024;

pub(crate) type Answer = oneshot::Sender<Result<Arc<Submission>, SubmissionRefusal>>;

/// What the scheduler is asked.
#[derive(Debug)]
pub(crate) enum Command {
    Submit {
        by: Arc<str>,
        name: Arc<str>,
        spec: Arc<SubmissionSpec>,
        answer: Answer,
    },
    Withdraw {
        by: Arc<str>,
        name: String,
        answer: Answer,
    },
    Report {
        name: String,
        attempt: u32,
        report: RunReport,
        answer: Answer,
    },
    Queue {
        answer: oneshot::Sender<Queue>,
    },
    /// What a defect would do.
    #[cfg(test)]
    Panic,
}

/// All submissions at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    /// Each with what it waits for, in order of submission.
    pub(crate) submissions: Vec<(Arc<Submission>, Option<String>)>,
    /// When.
    pub(crate) now: FabricTime,
    /// GPUs on which jobs may be started, and those that jobs hold.
    pub(crate) gpus: u32,
    pub(crate) gpus_held: u32,
}

/// Speaks to the scheduler. Cloning it is cheap.
#[derive(Clone, Debug)]
pub(crate) struct SchedulerHandle {
    pub(crate) commands: mpsc::Sender<Command>,
    /// As the scheduler was configured.
    pub(crate) config: SchedulerConfig,
}

impl SchedulerHandle {
    pub(crate) async fn submit(
        &self,
        by: Arc<str>,
        name: Arc<str>,
        spec: SubmissionSpec,
    ) -> Result<Result<Arc<Submission>, SubmissionRefusal>, Stopped> {
        self.ask(|answer| Command::Submit { by, name, spec: Arc::new(spec), answer }).await
    }

    pub(crate) async fn withdraw(&self, by: Arc<str>, name: String) -> Result<Result<Arc<Submission>, SubmissionRefusal>, Stopped> {
        self.ask(|answer| Command::Withdraw { by, name, answer }).await
    }

    pub(crate) async fn report(
        &self,
        name: String,
        attempt: u32,
        report: RunReport,
    ) -> Result<Result<Arc<Submission>, SubmissionRefusal>, Stopped> {
        self.ask(|answer| Command::Report { name, attempt, report, answer }).await
    }

    pub(crate) async fn queue(&self) -> Result<Queue, Stopped> {
        self.ask(|answer| Command::Queue { answer }).await
    }

    async fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Result<T, Stopped> {
        let (answer, answered) = oneshot::channel();
        self.commands.send(command(answer)).await.map_err(|_| Stopped)?;
        // A scheduler that stopped drops the sender. Nobody knows then whether the change became durable.
        answered.await.map_err(|_| Stopped)
    }
}
