//! The store: a thread that makes batches of records durable, several batches to one fsync.

mod disk;
mod file;
pub mod record;

use std::{
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread::{Builder, JoinHandle},
    time::{Duration, Instant},
};

use state::{Record, Ticket};

pub use disk::SyncGuard;
pub use file::{StateFile, StoreError};

/// Most batches in one transaction: enough that an fsync of 5 ms serves 50,000 commits a second.
const BATCHES_MAX: usize = 256;
/// How often a file that is in doubt is written anew while nobody asks for a change.
const HEAL_EVERY: Duration = Duration::from_secs(5);

/// What became of batches: all of one transaction together; none, where a file in doubt was written anew by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The batches.
    pub tickets: Vec<Ticket>,
    /// Why they are not on disk.
    pub result: Result<(), String>,
    /// How long the transaction took.
    pub took: Duration,
    /// Whether the whole file was written anew, because a write had failed.
    pub rewritten: bool,
}

/// Why the last write failed; `None` after one that did not. For `/readyz`.
#[derive(Clone, Debug, Default)]
pub struct StoreHealth(Arc<Mutex<Option<String>>>);

impl StoreHealth {
    /// The reason, on one line.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, problem: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = problem;
    }
}

/// Hands batches to the store's thread.
#[derive(Debug)]
pub struct Store {
    batches: mpsc::Sender<(Ticket, Vec<Record>)>,
    thread: JoinHandle<()>,
    health: StoreHealth,
}

impl Store {
    /// Starts the thread on an open file; `done` is called on it after every transaction, in order.
    ///
    /// # Errors
    /// The operating system has no thread to give.
    pub fn start(file: StateFile, done: impl FnMut(Outcome) + Send + 'static) -> std::io::Result<Self> {
        let (batches, queue) = mpsc::channel();
        let health = StoreHealth::default();
        let seen = health.clone();
        let thread = Builder::new().name("store".into()).spawn(move || run(file, &queue, &seen, done))?;
        Ok(Self { batches, thread, health })
    }

    /// Queues a batch. The queue is as long as requests are in flight, and those are limited.
    pub fn persist(&self, ticket: Ticket, records: Vec<Record>) {
        // Fails only when the thread panicked; then nothing is answered, and the requests time out.
        let _ = self.batches.send((ticket, records));
    }

    /// How the file is.
    #[must_use]
    pub fn health(&self) -> StoreHealth {
        self.health.clone()
    }

    /// Writes what is queued and closes the file.
    pub fn finish(self) {
        drop(self.batches);
        let _ = self.thread.join();
    }
}

fn run(mut file: StateFile, queue: &mpsc::Receiver<(Ticket, Vec<Record>)>, health: &StoreHealth, mut done: impl FnMut(Outcome)) {
    loop {
        let first = if file.doubt().is_some() { queue.recv_timeout(HEAL_EVERY) } else { queue.recv().map_err(Into::into) };
        let batches: Vec<_> = match first {
            Ok(first) => std::iter::once(first).chain(queue.try_iter().take(BATCHES_MAX - 1)).collect(),
            Err(mpsc::RecvTimeoutError::Timeout) => Vec::new(),
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
        };
        let tickets = batches.iter().map(|(ticket, _)| *ticket).collect();
        let (began, rewrites) = (Instant::now(), file.rewrites());
        let changes: Result<Vec<_>, _> = batches.iter().flat_map(|(_, records)| records).map(record::change).collect();
        let write = |changes: Vec<record::Change>| if changes.is_empty() { file.heal() } else { file.write(&changes) };
        let result = changes.map_err(|e| e.to_string()).and_then(write);
        health.set(result.as_ref().err().cloned());
        done(Outcome { tickets, result, took: began.elapsed(), rewritten: file.rewrites() > rewrites });
    }
    if let Err(reason) = file.heal() {
        tracing::error!(reason, "the state file is closed in doubt: the next start may find changes that were refused");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_batch_is_answered_in_order_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.redb");
        let (send, outcomes) = mpsc::channel();
        let store = Store::start(StateFile::open(&path).unwrap(), move |o| send.send(o).unwrap()).unwrap();
        for n in 0..1_000 {
            store.persist(Ticket(n), vec![Record::Epoch { epoch: n }]);
        }
        store.finish();
        let all: Vec<Outcome> = outcomes.iter().collect();
        assert!(all.iter().all(|o| o.result.is_ok() && o.tickets.len() <= BATCHES_MAX));
        let tickets: Vec<u64> = all.iter().flat_map(|o| &o.tickets).map(|t| t.0).collect();
        assert_eq!(tickets, (0..1_000).collect::<Vec<_>>());
        assert_eq!(StateFile::open(&path).unwrap().records().unwrap(), [Record::Epoch { epoch: 999 }]);
    }
}
