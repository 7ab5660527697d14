//! The scheduler's thread: it owns `state::scheduler::Scheduling`, and does what that says.
//!
//! Changes go to the controller as those of clients do. Places are ranked where questions compute, so a ranking takes no thread that
//! others wait for. The policy decides on this thread, which nobody else needs.

mod driver;
mod placed;

use std::{sync::Arc, thread::JoinHandle};

use state::scheduler::{RunReport, Scheduling, Submission, SubmissionRefusal, SubmissionSpec};
use tokio::sync::{mpsc, oneshot, watch};
use units::FabricTime;

pub(crate) use placed::placed;

use crate::{
    api::Api,
    config::SchedulerConfig,
    controller::{ControllerHandle, Stopped, Surroundings},
};

/// Requests that wait for the thread; beyond it senders wait.
const QUEUE_MAX: usize = 1_024;

type Answer = oneshot::Sender<Result<Arc<Submission>, SubmissionRefusal>>;

/// What the scheduler is asked.
#[derive(Debug)]
enum Command {
    Submit { name: Arc<str>, spec: Arc<SubmissionSpec>, answer: Answer },
    Withdraw { name: String, answer: Answer },
    Report { name: String, attempt: u32, report: RunReport, answer: Answer },
    Queue { answer: oneshot::Sender<Queue> },
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
    commands: mpsc::Sender<Command>,
    /// As the scheduler was configured.
    pub(crate) config: SchedulerConfig,
}

impl SchedulerHandle {
    pub(crate) async fn submit(&self, name: Arc<str>, spec: SubmissionSpec) -> Result<Result<Arc<Submission>, SubmissionRefusal>, Stopped> {
        self.ask(|answer| Command::Submit { name, spec: Arc::new(spec), answer }).await
    }

    pub(crate) async fn withdraw(&self, name: String) -> Result<Result<Arc<Submission>, SubmissionRefusal>, Stopped> {
        self.ask(|answer| Command::Withdraw { name, answer }).await
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

/// The running scheduler.
#[derive(Debug)]
pub struct Scheduler {
    stop: watch::Sender<bool>,
    thread: JoinHandle<()>,
}

impl Scheduler {
    /// Starts the thread on what was kept, and lets `api` speak to it.
    ///
    /// # Errors
    /// The operating system has no thread to give.
    pub fn start(
        config: &SchedulerConfig,
        api: Api,
        controller: ControllerHandle,
        around: Surroundings,
        kept: Vec<Arc<Submission>>,
    ) -> std::io::Result<Self> {
        let (commands, queue) = mpsc::channel(QUEUE_MAX);
        let (stop, stopped) = watch::channel(false);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let scheduling = Scheduling::new(config.settings(), around.clock.now(), kept);
        tracing::info!(policy = config.policy.word(), submissions = scheduling.submissions().len(), "the scheduler runs");
        api.attach(SchedulerHandle { commands, config: config.clone() });
        let driver = driver::Driver::new(scheduling, config.clone(), api, controller, around);
        let thread = std::thread::Builder::new().name("scheduler".into());
        let thread = thread.spawn(move || runtime.block_on(driver.run(queue, stopped)))?;
        Ok(Self { stop, thread })
    }

    /// Takes no more requests, and returns when the thread has ended. What was begun is still written by the controller.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        let _ = tokio::task::spawn_blocking(move || self.thread.join()).await;
    }
}
