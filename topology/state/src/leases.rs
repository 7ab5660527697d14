//! Until when jobs stay. Renewals are not durable: after a restart every lease begins anew.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    vec::Vec,
};

use units::{FabricTime, Nanos};

/// How long a job stays, and by whose word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// How long it stays without a renewal.
    pub length: Nanos,
    /// As granted; reports renew it without the store.
    pub until: FabricTime,
    /// Who set the length, where that is known. Who renews it afterwards changes nothing.
    pub by: Option<Arc<str>>,
}

impl Lease {
    /// Whether these are the same terms, whenever they end.
    pub(crate) fn has_terms_of(&self, other: &Self) -> bool {
        (self.length, &self.by) == (other.length, &other.by)
    }
}

/// The end of every lease.
#[derive(Clone, Debug, Default)]
pub(crate) struct Leases {
    until: BTreeMap<Arc<str>, FabricTime>,
    order: BTreeSet<(FabricTime, Arc<str>)>,
}

impl Leases {
    pub(crate) fn set(&mut self, job: &Arc<str>, until: Option<FabricTime>) {
        // Both maps change together: `order` holds exactly the pairs of `until`, and `due` reads nothing else.
        if let Some(old) = self.until.remove(job) {
            self.order.remove(&(old, job.clone()));
        }
        if let Some(until) = until {
            self.until.insert(job.clone(), until);
            self.order.insert((until, job.clone()));
        }
    }

    pub(crate) fn of(&self, job: &str) -> Option<FabricTime> {
        self.until.get(job).copied()
    }

    /// When the next one ends.
    pub(crate) fn first(&self) -> Option<FabricTime> {
        self.order.first().map(|(at, _)| *at)
    }

    /// The jobs whose leases have ended.
    pub(crate) fn due(&self, now: FabricTime) -> Vec<Arc<str>> {
        self.order.iter().take_while(|(at, _)| *at <= now).map(|(_, job)| job.clone()).collect()
    }
}
