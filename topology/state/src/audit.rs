//! Who changed what: the last changes that somebody asked for, durable together with the change itself.
//!
//! Where the trail is full, whoever has most entries loses the oldest of them: one who changes things without end pushes out nobody
//! else's. What was refused has no entry.

use alloc::{
    collections::{BTreeMap, VecDeque},
    string::String,
    sync::Arc,
    vec::Vec,
};
use core::cmp::Reverse;

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

/// The entries that are kept, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct AuditTrail {
    entries: VecDeque<Arc<AuditEntry>>,
    owners: Owners,
    last: u64,
}

/// The numbers of everybody's entries, in order.
#[derive(Clone, Debug, Default)]
struct Owners(BTreeMap<Arc<str>, VecDeque<u64>>);

impl Owners {
    fn add(&mut self, entry: &AuditEntry) {
        self.0.entry(entry.by.clone()).or_default().push_back(entry.number);
    }

    /// Takes out the oldest entry of whoever has most; of several the oldest of all.
    fn take(&mut self) -> Option<u64> {
        let order = |numbers: &VecDeque<u64>| numbers.front().map(|first| (numbers.len(), Reverse(*first)));
        let (by, _) = self.0.iter().max_by_key(|(_, numbers)| order(numbers))?;
        let by = by.clone();
        let numbers = self.0.get_mut(&by)?;
        let taken = numbers.pop_front();
        if numbers.is_empty() {
            self.0.remove(&by);
        }
        taken
    }
}

impl AuditTrail {
    /// What was kept.
    pub(crate) fn of(mut entries: Vec<Arc<AuditEntry>>) -> Self {
        entries.sort_by_key(|entry| entry.number);
        let last = entries.last().map_or(0, |entry| entry.number);
        let mut owners = Owners::default();
        entries.iter().for_each(|entry| owners.add(entry));
        Self { entries: entries.into(), owners, last }
    }

    /// Entries with the numbers that they get when they are durable, each with the number of the one that makes room for it.
    pub(crate) fn numbered(&self, entries: &[AuditEntry]) -> Vec<(Option<u64>, Arc<AuditEntry>)> {
        let number = |(number, entry): (u64, &AuditEntry)| Arc::new(AuditEntry { number, ..entry.clone() });
        let numbered = (self.last + 1..).zip(entries).map(number);
        if self.entries.len() + entries.len() <= AUDIT_MAX {
            return numbered.map(|entry| (None, entry)).collect();
        }
        let (mut owners, mut kept) = (self.owners.clone(), self.entries.len());
        let room = |entry: Arc<AuditEntry>| {
            let gone = if kept < AUDIT_MAX { None } else { owners.take() };
            kept += usize::from(gone.is_none());
            owners.add(&entry);
            (gone, entry)
        };
        numbered.map(room).collect()
    }

    /// These are durable.
    pub(crate) fn keep(&mut self, entries: Vec<(Option<u64>, Arc<AuditEntry>)>) {
        for (_, entry) in entries {
            if self.entries.len() >= AUDIT_MAX
                && let Some(gone) = self.owners.take()
            {
                // In the order of numbers, so the entry is found at once.
                let at = self.entries.partition_point(|entry| entry.number < gone);
                self.entries.remove(at);
            }
            self.last = entry.number;
            self.owners.add(&entry);
            self.entries.push_back(entry);
        }
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

#[cfg(test)]
mod tests {
    use alloc::{collections::BTreeSet, format, string::ToString};

    use super::*;

    fn entry(by: &str, n: usize) -> AuditEntry {
        AuditEntry { number: 0, at: FabricTime(n as u64), by: by.into(), kind: "committed".into(), message: n.to_string(), plan_version: 1 }
    }

    /// What a store holds that does what it is told.
    fn store(trail: &mut AuditTrail, stored: &mut BTreeSet<u64>, entries: &[AuditEntry]) {
        let numbered = trail.numbered(entries);
        for (gone, entry) in &numbered {
            if let Some(gone) = gone {
                assert!(stored.remove(gone), "{gone} is gone already");
            }
            stored.insert(entry.number);
        }
        trail.keep(numbered);
        assert!(stored.len() <= AUDIT_MAX && trail.after(0).map(|entry| entry.number).eq(stored.iter().copied()));
    }

    #[test]
    fn who_changes_without_end_pushes_out_nobody_elses_entries() {
        let (mut trail, mut stored) = (AuditTrail::default(), BTreeSet::new());
        for n in 0..40 {
            store(&mut trail, &mut stored, &[entry("ann", n), entry("bob", n)]);
        }
        for n in 0..12 {
            store(&mut trail, &mut stored, &(0..1_000).map(|m| entry("mallory", 1_000 * n + m)).collect::<Vec<_>>());
        }
        let of = |trail: &AuditTrail, by: &str| trail.after(0).filter(|entry| &*entry.by == by).count();
        assert_eq!((of(&trail, "ann"), of(&trail, "bob"), of(&trail, "mallory")), (40, 40, AUDIT_MAX - 80));
        assert_eq!(trail.after(0).find(|entry| &*entry.by == "mallory").unwrap().message, "2080", "the latest of each");
        // What is kept is the same after a restart.
        let mut again = AuditTrail::of(trail.after(0).cloned().collect());
        for n in 0..100 {
            let entries = [entry("ann", 40 + n), entry("mallory", 12_000 + n)];
            assert_eq!(again.numbered(&entries), trail.numbered(&entries));
            let numbered = again.numbered(&entries);
            again.keep(numbered);
            store(&mut trail, &mut stored, &entries);
        }
        assert_eq!((of(&trail, "ann"), again.len()), (140, AUDIT_MAX));
    }

    #[test]
    fn of_many_who_have_one_each_the_oldest_goes() {
        let (mut trail, mut stored) = (AuditTrail::default(), BTreeSet::new());
        let all: Vec<AuditEntry> = (0..AUDIT_MAX + 10).map(|n| entry(&format!("user {n}"), n)).collect();
        all.chunks(3_000).for_each(|entries| store(&mut trail, &mut stored, entries));
        assert_eq!(trail.after(0).next().unwrap().message, "10");
    }
}
