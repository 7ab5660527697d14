//! The scheduler's thread: it owns `state::scheduler::Scheduling`, and does what that says.
//!
//! Changes go to the controller as those of clients do. Places are ranked where questions compute, so a ranking takes no thread that
//! others wait for. The policy decides on this thread, which nobody else needs.

mod driver;

use std::{sync::Arc, thread::JoinHandle};

use state::scheduler::{Scheduling, Submission};
use tokio::sync::{mpsc, watch};

use crate::{
    api::Api,
    config::SchedulerConfig,
    controller::{ControllerHandle, Surroundings},
    queue::{QUEUE_MAX, SchedulerHandle},
    vital,
};

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
        let thread = vital::spawn("scheduler", move || runtime.block_on(driver.run(queue, stopped)))?;
        Ok(Self { stop, thread })
    }

    /// Takes no more requests, and returns when the thread has ended. What was begun is still written by the controller.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        let _ = tokio::task::spawn_blocking(move || self.thread.join()).await;
    }
}

#[cfg(test)]
mod tests {
    use store::{StateFile, Store as _};

    use super::*;
    use crate::{
        api::Parts,
        config::Config,
        controller::Controller,
        discovery::Discovery,
        queue::Command,
        vital::tests::{alone, was_ended_by},
    };

    #[test]
    fn a_panic_of_the_scheduler_ends_the_process() {
        let output = alone("scheduler::tests::a_panic_of_the_scheduler_ends_the_process", || {
            let folder = tempfile::tempdir().unwrap();
            let mut file = StateFile::open(&folder.path().join("state.redb")).unwrap();
            let loaded = file.load().unwrap();
            let around = Surroundings::start().unwrap();
            let controller = Controller::start(&state::Config::default(), file, loaded, around.clone()).unwrap();
            let (_latest, config) = watch::channel(Arc::new(Config::default()));
            let api = Api::new(Parts {
                controller: controller.handle.clone(),
                health: controller.health.clone(),
                telemetry: around.telemetry.clone(),
                discovery: Discovery::default(),
                events: around.events.clone(),
                metrics: Arc::clone(&around.metrics),
                sessions: Arc::default(),
                clock: around.clock,
                config,
            });
            let config: SchedulerConfig = toml::from_str("policy = \"fifo\"").unwrap();
            let scheduler = Scheduler::start(&config, api.clone(), controller.handle.clone(), around, Vec::new()).unwrap();
            api.scheduler().unwrap().commands.blocking_send(Command::Panic).unwrap();
            let _ = scheduler.thread.join();
        });
        was_ended_by(output, "scheduler");
    }
}
