//! The writer: a thread that makes batches of records durable, several batches to one fsync.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use state::{Record, Ticket};
use store::{Revision, Store};

use crate::{records, vital};

/// Most batches in one transaction. The state machine has one under way at a time, with all changes that came meanwhile; so this only
/// bounds what another writer of batches could make of one.
const BATCHES_MAX: usize = 256;
/// How often it is looked after a store while nobody asks for a change: one in doubt is verified and synced again, and one that was
/// taken away is noticed.
const RESYNC_EVERY: Duration = Duration::from_secs(5);

/// What became of batches: all of one transaction together; none, where a store in doubt was verified and synced again by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The batches.
    pub tickets: Vec<Ticket>,
    /// Why they are not on disk.
    pub result: Result<(), String>,
    /// How long the transaction took.
    pub took: Duration,
    /// Whether the store was in doubt, because a write had failed, and is no longer.
    pub resynced: bool,
}

/// How long a change may wait for the disk before the store counts as hanging: a sync takes milliseconds, and some seconds on a disk
/// that is busy with others.
pub const HANGS_AFTER: Duration = Duration::from_secs(5);

/// How the store is, for `/readyz`.
#[derive(Clone, Debug, Default)]
pub struct StoreHealth(Arc<Mutex<Health>>);

#[derive(Debug, Default)]
struct Health {
    /// Why the last write failed; `None` after one that did not.
    failed: Option<String>,
    /// When the batches came that are not written yet, the oldest first.
    waiting: VecDeque<Instant>,
}

impl StoreHealth {
    /// What is wrong now, on one line: the last write failed, or one hangs.
    #[must_use]
    pub fn problem(&self, now: Instant) -> Option<String> {
        let health = self.lock();
        let hangs = health.waiting.front().map(|since| now.saturating_duration_since(*since)).filter(|waits| *waits >= HANGS_AFTER);
        let hangs = hangs.map(|waits| format!("a change has waited for the disk for {} s", waits.as_secs()));
        hangs.or_else(|| health.failed.clone())
    }

    /// A batch came.
    pub(crate) fn waits(&self, since: Instant) {
        self.lock().waiting.push_back(since);
    }

    /// So many batches, the oldest ones, are written, or failed.
    pub(crate) fn done(&self, batches: usize, failed: Option<String>) {
        let mut health = self.lock();
        let batches = batches.min(health.waiting.len());
        health.waiting.drain(..batches);
        health.failed = failed;
    }

    fn lock(&self) -> MutexGuard<'_, Health> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Hands batches to the writer's thread.
#[derive(Debug)]
pub struct Writer {
    batches: mpsc::Sender<(Ticket, Vec<Record>)>,
    thread: JoinHandle<()>,
    health: StoreHealth,
}

impl Writer {
    /// Starts the thread on a store whose last batch is `revision`; `done` is called on it after every transaction, in order.
    ///
    /// # Errors
    /// The operating system has no thread to give.
    pub fn start(store: impl Store + 'static, revision: Revision, done: impl FnMut(Outcome) + Send + 'static) -> std::io::Result<Self> {
        let (batches, queue) = mpsc::channel();
        let health = StoreHealth::default();
        // A store that was opened in doubt is not well before its first write.
        health.done(0, store.doubt().map(str::to_owned));
        let seen = health.clone();
        let thread = vital::spawn("store", move || run(store, revision, &queue, &seen, done))?;
        Ok(Self { batches, thread, health })
    }

    /// Queues a batch. The queue is as long as requests are in flight, and those are limited.
    pub fn persist(&self, ticket: Ticket, records: Vec<Record>) {
        // Before the thread can have written it.
        self.health.waits(Instant::now());
        // Fails only when the thread panicked, and then the process ends.
        let _ = self.batches.send((ticket, records));
    }

    /// How the store is.
    #[must_use]
    pub fn health(&self) -> StoreHealth {
        self.health.clone()
    }

    /// Writes what is queued and closes the store.
    pub fn finish(self) {
        // A channel without a sender ends the thread's loop once the queue is empty: nothing that was queued is lost.
        drop(self.batches);
        let _ = self.thread.join();
    }
}

fn run(
    mut store: impl Store,
    mut revision: Revision,
    queue: &mpsc::Receiver<(Ticket, Vec<Record>)>,
    health: &StoreHealth,
    mut done: impl FnMut(Outcome),
) {
    loop {
        let batches: Vec<_> = match queue.recv_timeout(RESYNC_EVERY) {
            // Whatever waits goes into the same transaction: one sync serves up to `BATCHES_MAX` batches.
            Ok(first) => std::iter::once(first).chain(queue.try_iter().take(BATCHES_MAX - 1)).collect(),
            Err(mpsc::RecvTimeoutError::Timeout) => Vec::new(),
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
        };
        let tickets: Vec<Ticket> = batches.iter().map(|(ticket, _)| *ticket).collect();
        let (began, resyncs, doubted) = (Instant::now(), store.resyncs(), store.doubt().is_some());
        // The revision moves only with a success: the next append builds on what is acknowledged.
        let result = write(&mut store, revision, &batches).map(|now| revision = now);
        // The health is set before the outcome goes out: a caller that is refused finds `/readyz` saying so.
        health.done(batches.len(), result.as_ref().err().cloned());
        let resynced = store.resyncs() > resyncs;
        // Nobody needs to hear that a store which was well still is.
        if !tickets.is_empty() || doubted || resynced || result.is_err() {
            done(Outcome { tickets, result, took: began.elapsed(), resynced });
        }
    }
    // The last chance to clear a doubt: once the file is closed, a restart may find what was refused.
    if let Err(reason) = store.verify_and_resync() {
        tracing::error!(%reason, "the store is closed in doubt: the next start may find changes that were refused");
    }
}

/// Writes batches in one transaction. Without any, a store in doubt is made well again.
pub(crate) fn write(store: &mut impl Store, revision: Revision, batches: &[(Ticket, Vec<Record>)]) -> Result<Revision, String> {
    let mut changes = Vec::new();
    for record in batches.iter().flat_map(|(_, records)| records) {
        // A record that cannot be converted refuses all batches of the transaction before anything is written.
        changes.extend(records::changes(record)?);
    }
    let written = if changes.is_empty() { store.verify_and_resync() } else { store.append(revision, &changes) };
    written.map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use store::{Loaded, PlanVersionRecord, StateFile};

    use super::*;
    use crate::vital::tests::{alone, was_ended_by};

    /// A store with a defect.
    struct Panics;

    impl Store for Panics {
        fn load(&mut self) -> Result<Loaded, store::StoreError> {
            Ok(Loaded::default())
        }

        fn append(&mut self, _: Revision, _: &[store::Change]) -> Result<Revision, store::AppendError> {
            panic!("as a defect would")
        }

        fn doubt(&self) -> Option<&str> {
            None
        }

        fn verify_and_resync(&mut self) -> Result<Revision, store::AppendError> {
            Ok(Revision::default())
        }

        fn resyncs(&self) -> u64 {
            0
        }
    }

    #[test]
    fn a_panic_of_the_store_ends_the_process() {
        let output = alone("writer::tests::a_panic_of_the_store_ends_the_process", || {
            let writer = Writer::start(Panics, Revision::default(), drop).unwrap();
            writer.persist(Ticket(1), vec![Record::PlanVersion { plan_version: 1, control: plan::Control::Observe }]);
        });
        was_ended_by(output, "store");
    }

    #[test]
    fn a_store_that_takes_nothing_for_long_is_not_well() {
        let (health, start) = (StoreHealth::default(), Instant::now());
        let later = |secs| start + Duration::from_secs(secs);
        assert_eq!(health.problem(later(100)), None, "nobody waits");
        health.waits(start);
        health.waits(later(3));
        assert_eq!(health.problem(later(4)), None);
        assert_eq!(health.problem(later(7)).unwrap(), "a change has waited for the disk for 7 s");
        health.done(1, None);
        assert_eq!(health.problem(later(7)), None, "the other one came later");
        health.done(1, Some("disk full".into()));
        assert_eq!(health.problem(later(100)).unwrap(), "disk full");
        health.done(0, None);
        assert_eq!(health.problem(later(100)), None);
    }

    #[test]
    fn every_batch_is_answered_in_order_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.redb");
        let (send, outcomes) = mpsc::channel();
        let file = StateFile::open(&path).unwrap();
        let writer = Writer::start(file, Revision::default(), move |o| send.send(o).unwrap()).unwrap();
        for n in 0..1_000 {
            writer.persist(Ticket(n), vec![Record::PlanVersion { plan_version: n, control: plan::Control::Observe }]);
        }
        writer.finish();
        let all: Vec<Outcome> = outcomes.iter().collect();
        assert!(all.iter().all(|o| o.result.is_ok() && o.tickets.len() <= BATCHES_MAX));
        let tickets: Vec<u64> = all.iter().flat_map(|o| &o.tickets).map(|t| t.0).collect();
        assert_eq!(tickets, (0..1_000).collect::<Vec<_>>());
        let loaded = StateFile::open(&path).unwrap().load().unwrap();
        assert_eq!(
            loaded,
            Loaded {
                revision: Revision(all.len() as u64),
                records: vec![store::Record::PlanVersion(PlanVersionRecord {
                    plan_version: 999,
                    control: Some(store::ControlRecord::Observe)
                })]
            }
        );
    }
}
