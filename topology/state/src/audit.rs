//! Who changed what: the last changes that somebody asked for, durable together with the change itself.

use alloc::{collections::VecDeque, string::String, sync::Arc, vec::Vec};

use units::FabricTime;

/// Entries that are kept: months of a cluster with a hundred changes a day.
pub const AUDIT_MAX: usize = 10_000;
/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// Counts changes that were asked for, over restarts.
    pub number: u64,
    /// When it was made.
    pub at: FabricTime,
    /// Who asked for it.
    pub by: Arc<str>,
    /// The kind of its first notice: committed, released, fabric; of the scheduler submitted,
    /// and of what was withdrawn job_withdrawn, job_preempt where it has to stop first, withdrawing where it is stopping already.
    pub kind: String,
    /// What its notices said.
    pub message: String,
    /// The version of the plan from then on.
    pub plan_version: u64,
}

/// The last entries, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct AuditTrail {
    entries: VecDeque<Arc<AuditEntry>>,
    last: u64,
}

impl AuditTrail {
    /// What was kept.
    pub(crate) fn of(mut entries: Vec<Arc<AuditEntry>>) -> Self {
        entries.sort_by_key(|entry| entry.number);
        let last = entries.last().map_or(0, |entry| entry.number);
        Self { entries: entries.into(), last }
    }

    /// Entries with the numbers that they get when they are durable.
    pub(crate) fn numbered(&self, entries: &[AuditEntry]) -> Vec<Arc<AuditEntry>> {
        (self.last + 1..).zip(entries).map(|(number, entry)| Arc::new(AuditEntry { number, ..entry.clone() })).collect()
    }

    /// The number of the entry that makes room for this one, if one has to.
    pub(crate) fn gone(number: u64) -> Option<u64> {
        number.checked_sub(AUDIT_MAX as u64).filter(|gone| *gone > 0)
    }

    /// These are durable.
    pub(crate) fn keep(&mut self, entries: Vec<Arc<AuditEntry>>) {
        for entry in entries {
            self.last = entry.number;
            self.entries.push_back(entry);
        }
        let over = self.entries.len().saturating_sub(AUDIT_MAX);
        self.entries.drain(..over);
    }

    /// The first entries after a number.
    pub(crate) fn after(&self, number: u64) -> impl Iterator<Item = &Arc<AuditEntry>> {
        let from = self.entries.partition_point(|entry| entry.number <= number);
        self.entries.range(from..)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}
