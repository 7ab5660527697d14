//! Until when jobs stay. Renewals are not durable: after a restart every lease begins anew.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use units::FabricTime;

use crate::plan::Name;

/// The end of every lease.
#[derive(Clone, Debug, Default)]
pub(crate) struct Leases {
    until: BTreeMap<Name, FabricTime>,
    order: BTreeSet<(FabricTime, Name)>,
}

impl Leases {
    pub(crate) fn set(&mut self, job: &Name, until: Option<FabricTime>) {
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
    pub(crate) fn due(&self, now: FabricTime) -> Vec<Name> {
        self.order.iter().take_while(|(at, _)| *at <= now).map(|(_, job)| job.clone()).collect()
    }
}
