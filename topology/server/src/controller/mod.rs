//! The controller: one thread that owns the state machine, hands it what happens and does what it says.

mod adapter;
mod handle;
#[cfg(test)]
mod hanging;
mod snapshot;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    thread::JoinHandle,
    time::{Duration, Instant},
};

use proto::v1alpha1 as pb;
use state::{Action, Change, Commit, Config, Event, JobDefinition, Refusal, RequestId, Service, config::GATES_PER_REPORT_MAX};
use store::{Loaded, Store};
use tokio::sync::{mpsc, watch};
use units::{FabricTime, Nanos};

pub(crate) use adapter::SHARED_LINKS_MAX;
pub use handle::{ControllerHandle, Stopped};
pub use snapshot::{FabricView, JobView, Snapshot, slot_message};

use crate::{
    FabricClock,
    events::EventLog,
    links::LinkTable,
    metrics::Metrics,
    resolve,
    telemetry::TelemetryHandle,
    turns::{TurnsHandle, TurnsThread},
    vital,
    writer::{Outcome, StoreHealth, Writer},
};
use handle::{Answer, Command, Outboxes, QUEUE_MAX};

/// How old a snapshot may be as to what agents reported. What clients changed is always in it.
const SNAPSHOT_AGE_MAX: Duration = Duration::from_millis(100);
/// Changes that wait while a new fabric is on its way to the disk.
const WAITING_MAX: usize = 1_024;
/// How long stopping waits for the disk.
const STOP_MAX: Duration = Duration::from_secs(10);
/// Least time between two ticks, so that a deadline that does not move cannot keep the thread busy.
const TICK_MIN: Duration = Duration::from_millis(1);
/// A stretch of work in which nobody could be heard, from which on it does not count as silence: a fraction of the time after
/// which an agent is given up.
const STALL_MIN: Nanos = Nanos(1_000_000_000);
/// How often series of jobs that are gone are forgotten.
const PRUNE_EVERY: Duration = Duration::from_secs(10);

/// What the controller tells others.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// Fabric time.
    pub clock: FabricClock,
    /// Where notices go.
    pub events: EventLog,
    /// Where iteration times go.
    pub telemetry: TelemetryHandle,
    /// Where durations go.
    pub metrics: Arc<Metrics>,
}

impl Surroundings {
    /// Those of a service that starts now.
    ///
    /// # Errors
    /// The metrics cannot be registered.
    pub fn start() -> Result<Self, prometheus::Error> {
        let clock = FabricClock::start();
        let metrics = Arc::new(Metrics::new()?);
        Ok(Self { clock, events: EventLog::new(clock.now()), telemetry: TelemetryHandle::default(), metrics })
    }
}

/// The running controller.
#[derive(Debug)]
pub struct Controller {
    /// Speaks to the controller.
    pub handle: ControllerHandle,
    /// How the controller's store is.
    pub health: StoreHealth,
    stop: watch::Sender<bool>,
    thread: JoinHandle<()>,
    turns: TurnsThread,
}

impl Controller {
    /// Restores the state from what a store holds and starts the threads.
    ///
    /// # Errors
    /// One line: what in the store cannot be used, or which thread could not be had.
    pub fn start(config: &Config, store: impl Store + 'static, loaded: Loaded, around: Surroundings) -> Result<Self, String> {
        // The state is restored before any thread starts: a record that cannot be used ends the start with nothing to stop.
        let service = adapter::restore(config, around.clock.now(), loaded.records)?;
        // One batch is under way at most, and a store in doubt adds an outcome every few seconds: the channel needs no bound.
        let (send, outcomes) = mpsc::unbounded_channel();
        let metrics = Arc::clone(&around.metrics);
        let writer = Writer::start(store, loaded.revision, move |outcome: Outcome| {
            metrics.store_commit(outcome.took, outcome.result.is_ok(), outcome.resynced);
            // The controller is gone only after the writer.
            let _ = send.send(outcome);
        })
        .map_err(|e| format!("cannot start the writer's thread: {e}"))?;
        let health = writer.health();
        // A full queue makes senders wait: an agent that reports too fast is read more slowly, and memory stays bounded.
        let (commands, queue) = mpsc::channel(QUEUE_MAX);
        let (stop, stopped) = watch::channel(false);
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(|e| format!("cannot start the controller: {e}"))?;
        let outboxes = Outboxes::default();
        let verdicts = commands.clone();
        let turns = TurnsThread::start(around.clock, Arc::clone(&around.metrics), move |found| {
            // A verdict is in force already, and a measurement is made again: a controller that is too busy hears the next one.
            let _ = verdicts.try_send(Command::Agent(found));
        });
        let turns = turns.map_err(|e| format!("cannot start the thread of turns: {e}"))?;
        let task = Task {
            service,
            writer,
            around,
            outboxes: outboxes.clone(),
            turns: turns.handle.clone(),
            answers: BTreeMap::new(),
            next_request: 0,
            fabric_request: None,
            waiting: VecDeque::new(),
            snapshot: None,
            changed: true,
            links: Arc::default(),
            links_of: (0, 0),
            pruned: Instant::now(),
        };
        let thread = vital::spawn("controller", move || runtime.block_on(task.run(queue, outcomes, stopped)));
        let thread = thread.map_err(|e| format!("cannot start the controller's thread: {e}"))?;
        let handle = ControllerHandle { commands, outboxes, turns: turns.handle.clone() };
        Ok(Self { handle, health, stop, thread, turns })
    }

    /// Takes no more commands, waits for the disk and closes the file. Blocks, for at most ten seconds and one write.
    pub fn stop(self) {
        self.stop.send_replace(true);
        let _ = self.thread.join();
        self.turns.stop();
    }
}

struct Task {
    service: Service,
    writer: Writer,
    around: Surroundings,
    outboxes: Outboxes,
    turns: TurnsHandle,
    answers: BTreeMap<RequestId, Answer>,
    next_request: u64,
    /// A new fabric is on its way to the disk. Jobs stand on nodes of one fabric, so no other change runs beside it.
    fabric_request: Option<RequestId>,
    waiting: VecDeque<(Change, Answer)>,
    /// The last snapshot and when it was made; a change makes it old, but its definitions may still be good.
    snapshot: Option<(Arc<Snapshot>, Instant)>,
    changed: bool,
    links: Arc<LinkTable>,
    /// The plan version of the links, and how many verdicts on turns there were then.
    links_of: (u64, u64),
    pruned: Instant,
}

impl Task {
    async fn run(
        mut self,
        mut commands: mpsc::Receiver<Command>,
        mut outcomes: mpsc::UnboundedReceiver<Outcome>,
        mut stop: watch::Receiver<bool>,
    ) {
        self.act();
        loop {
            let now = self.around.clock.now();
            // The tick comes before the wait, so a queue that is never empty cannot keep leases and silences waiting.
            if self.service.deadline().is_some_and(|due| due <= now) {
                self.handle(Event::Tick);
            }
            let wait =
                self.service.deadline().map_or(PRUNE_EVERY, |due| Duration::from_nanos(due.since(now).0).clamp(TICK_MIN, PRUNE_EVERY));
            tokio::select! {
                // The disk comes first: an outcome frees callers that wait already, and commands would only add to them.
                biased;
                Some(outcome) = outcomes.recv() => self.written(outcome),
                _ = stop.changed() => break,
                command = commands.recv() => match command {
                    Some(command) => self.command(command),
                    None => break,
                },
                () = tokio::time::sleep(wait) => {}
            }
            self.prune();
        }
        // New commands are refused from here on; what was begun is still written and answered.
        commands.close();
        self.finish(&mut outcomes).await;
    }

    /// Waits until what was begun is on disk and answered.
    async fn finish(mut self, outcomes: &mut mpsc::UnboundedReceiver<Outcome>) {
        let until = tokio::time::Instant::now() + STOP_MAX;
        // Every open answer waits for an outcome. `STOP_MAX` bounds the wait where a disk hangs.
        while !self.answers.is_empty() {
            match tokio::time::timeout_at(until, outcomes.recv()).await {
                Ok(Some(outcome)) => self.written(outcome),
                _ => break,
            }
        }
        // The writer's thread syncs the last batches and closes the file, which gives its lock to the next service.
        self.writer.finish();
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Change { change, reply } => self.change(change, reply),
            // A client that went away needs no answer.
            Command::View { reply } => drop(reply.send(self.snapshot())),
            Command::Fabric { reply } => drop(reply.send(adapter::fabric(self.service.view()))),
            Command::Audit { after, limit, reply } => drop(reply.send(adapter::audit(self.service.view(), after, limit))),
            Command::Warnings { jobs, reply } => drop(reply.send(self.service.view().warnings(&jobs))),
            Command::Links { reply } => drop(reply.send(self.links())),
            #[cfg(test)]
            Command::Panic => panic!("as a defect would"),
            Command::Agent(event) => {
                let mut gates: Vec<String> = Vec::new();
                match &event {
                    // The session is over: a plan that a later event causes finds no outbox.
                    Event::AgentGone { session } => self.outboxes.leave(*session),
                    Event::Report { report, .. } => gates.extend(report.gates.iter().take(GATES_PER_REPORT_MAX).map(|g| g.job.clone())),
                    _ => {}
                }
                // Reports that the state machine takes are stamped from here on, which tells `record` those that count.
                let before = self.around.clock.now();
                self.handle(event);
                self.record(before, &gates);
            }
        }
    }

    /// Iteration times for the graphs, of those gates whose reports were taken since `before`: an agent speaks for the jobs that it
    /// leads and for no others.
    fn record(&self, before: FabricTime, gates: &[String]) {
        let view = self.service.view();
        for name in gates {
            // The state machine decides whose report counts (P122); the graphs follow it instead of checking again.
            let taken = view.job(name).and_then(|job| job.report()).filter(|(at, _)| *at >= before);
            if let Some((at, state::GateReport { iteration: Some(iteration), phase_error: Some(error), .. })) = taken {
                self.around.telemetry.job(at, name, *iteration, *error);
            }
        }
    }

    fn change(&mut self, change: Change, reply: Answer) {
        let exclusive = matches!(change, Change::SetFabric { .. });
        // Changes keep their order: a change that could run waits behind a fabric that waits, which could otherwise wait for ever.
        let busy = self.fabric_request.is_some() || !self.waiting.is_empty() || (exclusive && !self.answers.is_empty());
        if !busy {
            self.begin(change, reply);
        } else if self.waiting.len() < WAITING_MAX {
            self.waiting.push_back((change, reply));
        } else {
            // `WAITING_MAX` bounds what waits in memory; a caller that is refused may try again.
            let value = self.waiting.len() as u64 + 1;
            let refusal = Refusal::Limit { what: "changes that wait for a new fabric", value, max: WAITING_MAX as u64 };
            reply.answer(Err(refusal));
        }
    }

    /// Begins what had to wait, as far as it may.
    fn resume(&mut self) {
        // Each turn takes one change off the line or returns. A fabric that begins makes the next turn return.
        while let Some((change, _)) = self.waiting.front() {
            let exclusive = matches!(change, Change::SetFabric { .. });
            if self.fabric_request.is_some() || (exclusive && !self.answers.is_empty()) {
                return;
            }
            if let Some((change, reply)) = self.waiting.pop_front() {
                self.begin(change, reply);
            }
        }
    }

    fn begin(&mut self, change: Change, mut reply: Answer) {
        // A plan costs up to seconds: one for which nobody waits would keep those who do. Whoever was told that the outcome is unknown finds
        // by the key that nothing was done.
        if reply.is_left() {
            return;
        }
        reply.plans();
        self.next_request += 1;
        let request = RequestId(self.next_request);
        let exclusive = matches!(change, Change::SetFabric { .. });
        match self.placed(change) {
            Err(problem) => reply.answer(Err(Refusal::Policy(problem))),
            Ok(change) => {
                // The answer is entered before the event is handled: the state machine may reply within this call.
                self.answers.insert(request, reply);
                if exclusive {
                    self.fabric_request = Some(request);
                }
                self.handle(Event::Asked { request, change });
                // Who has no answer yet waits for the disk.
                self.answers.get_mut(&request).into_iter().for_each(Answer::writes);
            }
        }
    }

    /// A change whose jobs stand on the fabric on which it will be made: nobody else knows which that is. Their documents were read
    /// before; here they are only placed.
    fn placed(&self, change: Change) -> Result<Change, String> {
        let view = self.service.view();
        let documents = |kept: &mut dyn Iterator<Item = &JobDefinition>| -> Result<Vec<_>, String> {
            kept.map(|definition| resolve::kept(&definition.job.name, &definition.document)).collect()
        };
        match (change, view.fabric()) {
            // The fabric changed while the request was read.
            (Change::Commit(commit), Some(fabric)) if commit.if_fabric.is_some_and(|version| version != view.fabric_version()) => {
                // The ids of nodes are placed anew, and `if_fabric` names the fabric on which they now stand.
                let jobs = resolve::definitions(fabric, &documents(&mut commit.jobs.iter())?)?;
                Ok(Change::Commit(Commit { jobs, if_fabric: Some(view.fabric_version()), ..commit }))
            }
            (Change::SetFabric { fabric, text, by, if_fabric, .. }, _) => {
                // The list is complete: no other change runs beside a fabric, so no job comes or goes before it is in force.
                let jobs: Vec<state::JobView<'_>> = view.jobs().collect();
                let jobs = resolve::each(&fabric, &documents(&mut jobs.iter().map(|job| job.planned()))?)?;
                Ok(Change::SetFabric { fabric, text, jobs, if_fabric, by })
            }
            (change, _) => Ok(change),
        }
    }

    fn written(&mut self, outcome: Outcome) {
        // A transaction holds whole batches, so all its tickets share one fate.
        for ticket in outcome.tickets {
            let event = match &outcome.result {
                Ok(()) => Event::Persisted { ticket },
                Err(reason) => Event::PersistFailed { ticket, reason: reason.clone() },
            };
            self.changed = true;
            self.handle(event);
        }
        if let Err(reason) = outcome.result {
            tracing::error!(reason, "the state file is in doubt and cannot be written anew; changes are refused until it can");
        }
    }

    fn handle(&mut self, event: Event) {
        let began = self.around.clock.now();
        self.service.handle(began, event);
        // A change of a large plan takes long, and what agents said meanwhile waits in the queue.
        let now = self.around.clock.now();
        let lasted = now.since(began);
        // Below `STALL_MIN` the error is a fraction of the silence after which an agent is given up (P123).
        if lasted >= STALL_MIN {
            self.service.handle(now, Event::Stalled { lasted });
        }
        self.act();
    }

    /// Does everything that the service wants done.
    fn act(&mut self) {
        // Answers are sent last, so that a client which was answered finds the events of its change.
        let mut answered = Vec::new();
        // The queue is emptied before the next command, so its length is that of what one event causes.
        while let Some(action) = self.service.poll() {
            match action {
                Action::Persist { ticket, records } => self.writer.persist(ticket, records),
                Action::Reply { request, result } => {
                    self.changed = true;
                    // A fabric that was refused ends the wait as well as one that is in force.
                    if self.fabric_request == Some(request) {
                        self.fabric_request = None;
                    }
                    answered.extend(self.answers.remove(&request).map(|answer| (answer, result)));
                }
                Action::SendPlan { session, plan_version, slots } => {
                    let plan = pb::HostPlan { plan_version, slots: slots.iter().map(slot_message).collect() };
                    // A session without an outbox is gone; its `AgentGone` is on the way or was handled.
                    let _ = self.outboxes.with(session, |outbox| outbox.plan(plan));
                }
                Action::Disconnect { session, reason } => {
                    let _ = self.outboxes.with(session, |outbox| outbox.end(reason, true));
                }
                Action::Turns { groups, known } => self.turns.groups(groups, known),
                Action::Notice(notice) => self.notice(notice),
            }
        }
        for (answer, result) in answered {
            answer.answer(result);
        }
        // This comes last: a change that begins here calls `act` again, and all answers of this turn are out.
        if !self.waiting.is_empty() {
            self.resume();
        }
    }

    fn notice(&self, notice: state::Notice) {
        let (kind, plan_version, job, host) = (notice.kind.word(), notice.plan_version, notice.job.as_deref(), notice.host.as_deref());
        match notice.severity {
            state::Severity::Info => tracing::info!(kind, plan_version, job, host, "{}", notice.message),
            state::Severity::Warning => tracing::warn!(kind, plan_version, job, host, "{}", notice.message),
            state::Severity::Error => tracing::error!(kind, plan_version, job, host, "{}", notice.message),
        }
        self.around.metrics.notice(notice.kind);
        self.around.events.push(notice);
    }

    fn snapshot(&mut self) -> Arc<Snapshot> {
        let now = Instant::now();
        // A change makes the snapshot old at once, so a caller reads its own change; reports may be `SNAPSHOT_AGE_MAX` old.
        if let Some((snapshot, made)) = &self.snapshot
            && !self.changed
            && now.duration_since(*made) < SNAPSHOT_AGE_MAX
        {
            return Arc::clone(snapshot);
        }
        // Reports grow old even if nothing happens, and the view's time moves with events only.
        self.handle(Event::Tick);
        let earlier = self.snapshot.as_ref().map(|(snapshot, _)| &**snapshot);
        let snapshot = Arc::new(adapter::snapshot(self.service.view(), earlier));
        self.snapshot = Some((Arc::clone(&snapshot), now));
        self.changed = false;
        snapshot
    }

    /// Links change with the plan, and with the groups that are let go or held again.
    fn links(&mut self) -> Arc<LinkTable> {
        let view = self.service.view();
        // The plan version stands for the links: whatever changes slots, jobs or fabric raises it.
        let now = (view.plan_version(), view.verdicts());
        if self.links_of != now {
            (self.links, self.links_of) = (Arc::new(adapter::links(view)), now);
        }
        Arc::clone(&self.links)
    }

    fn prune(&mut self) {
        if self.pruned.elapsed() < PRUNE_EVERY {
            return;
        }
        // Every job and port is looked at, so this runs once in `PRUNE_EVERY` and not with each command.
        self.pruned = Instant::now();
        let view = self.service.view();
        self.around.telemetry.prune(self.around.clock.now(), |job| view.job(job).is_some());
    }
}

#[cfg(test)]
mod tests {
    use store::{StateFile, Store as _};

    use super::*;
    use crate::vital::tests::{alone, was_ended_by};

    #[test]
    fn a_panic_of_the_controller_ends_the_process() {
        let output = alone("controller::tests::a_panic_of_the_controller_ends_the_process", || {
            let folder = tempfile::tempdir().unwrap();
            let mut file = StateFile::open(&folder.path().join("state.redb")).unwrap();
            let loaded = file.load().unwrap();
            let around = Surroundings::start().unwrap();
            let controller = Controller::start(&Config::default(), file, loaded, around).unwrap();
            controller.handle.commands.blocking_send(Command::Panic).unwrap();
            let _ = controller.thread.join();
        });
        was_ended_by(output, "controller");
    }
}
