//! What the topology service keeps: typed records, and a trait for whatever keeps them.
//!
//! - [`Record`] is everything that is kept: the fabric, the plan version, jobs, their slots, answers under idempotency keys, and what was
//!   submitted to the scheduler.
//!   Each kind of record has one type and one encoding, which [`SCHEMA`] numbers.
//! - [`Store`] is what a store does: hand over everything, append a batch, and verify what it holds after an error.
//! - [`StateFile`] is the store of a single service: one file, with redb inside.
//!
//! A store does not say who may write. Where several services share one, a leader is elected elsewhere; a service that is no
//! longer the leader learns from [`AppendError::Moved`] that another one wrote, and nothing of its batch is in force.
#![forbid(unsafe_code)]

mod disk;
mod error;
mod file;
mod line;
mod migrate;
mod record;
mod trial;

use std::fmt;

pub use disk::SyncGuard;
pub use error::{AppendError, StoreError};
pub use file::StateFile;
pub use line::{PROBLEM_BYTES_MAX, cut, one_line};
pub use record::{
    AnswerRecord, AuditRecord, Change, ComparedJobRecord, ComparisonRecord, ControlRecord, FabricRecord, JobRecord, Key, LeaseRecord,
    MeasuredRecord, PlanVersionRecord, Record, RecordError, SCHEMA, SlotRecord, SubmissionRecord, SubmissionStateRecord,
};

/// Counts the batches that a store took since it was made or migrated to schema 2. The count only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl Revision {
    /// The revision of the next batch.
    #[must_use]
    pub const fn next(self) -> Self {
        // Saturation is out of reach: a batch a microsecond for half a million years ends below it.
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Everything that a store holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loaded {
    /// The batch after which it was so.
    pub revision: Revision,
    /// At most one record of each key.
    pub records: Vec<Record>,
}

/// Keeps records. One writer uses it, from one thread.
///
/// What [`Store::load`] returned, changed by every batch for which [`Store::append`] returned `Ok`, is what the store
/// acknowledged. Nothing that was acknowledged is lost, whenever the service or its machine ends.
pub trait Store: Send {
    /// Everything that is acknowledged.
    ///
    /// # Errors
    /// [`StoreError`] names the store; a record that cannot be read is [`StoreError::Damaged`].
    fn load(&mut self) -> Result<Loaded, StoreError>;

    /// Makes all changes of a batch durable together, and returns the revision that has them. `after` is the revision on which
    /// the caller builds: a store compares it with its own in the same step in which it writes.
    ///
    /// # Errors
    /// [`AppendError`]: nothing of the batch is acknowledged. While [`Store::doubt`] says something, a process that opens the
    /// store may find the batch all the same.
    fn append(&mut self, after: Revision, changes: &[Change]) -> Result<Revision, AppendError>;

    /// Why the store may hold something else than what was acknowledged, on one line; `None` while it cannot.
    fn doubt(&self) -> Option<&str>;

    /// Looks whether the store is still where it was, makes one that is in doubt hold exactly what was acknowledged, and returns its
    /// revision. Writes nothing to one that is not in doubt. The next [`Store::append`] does the same first, so this is for times without changes.
    ///
    /// # Errors
    /// [`AppendError`]: the store stays in doubt.
    fn verify_and_resync(&mut self) -> Result<Revision, AppendError>;

    /// How often the store was in doubt and came out of it.
    fn resyncs(&self) -> u64;
}
