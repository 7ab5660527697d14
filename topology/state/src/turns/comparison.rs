//! What the last comparison of a group found, in the form in which it is kept.
//!
//! Turns that were let go would else be tried again by each service that starts: with a service that ends every minute, its jobs would take
//! turns that make them slower for as long.

use alloc::{sync::Arc, vec::Vec};

use units::Nanos;

use super::TurnGroup;

/// Mean and number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeanOf {
    /// How many.
    pub count: u64,
    /// Their mean; zero of none.
    pub mean: Nanos,
}

impl MeanOf {
    /// This, moved by a part of the difference to what was seen since.
    pub(super) fn towards(self, now: Self) -> Self {
        let parts = u128::from(self.mean.0) * 3 + u128::from(now.mean.0);
        if self.count == 0 { now } else { Self { count: now.count, mean: Nanos(u64::try_from(parts / 4).unwrap_or(u64::MAX)) } }
    }
}

/// What the last comparison of a group found, and when the next one is due.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// The jobs of the group, in its order. What was found is kept under the name of the first one.
    pub jobs: Vec<ComparedJob>,
    /// Whether the group is held since; else it runs free.
    pub hold: bool,
    /// Stretches of iterations until the next trial.
    pub left: u64,
    /// Stretches between the last trial and the next one.
    pub apart: u64,
    /// How often turns were let go.
    pub let_go: u32,
}

/// A job of a group that was compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComparedJob {
    /// Its name.
    pub name: Arc<str>,
    /// One iteration alone, as it was planned.
    pub iteration: Nanos,
    /// Its iterations while the group was held.
    pub held: MeanOf,
    /// Its iterations while the group ran free.
    pub free: MeanOf,
}

impl Comparison {
    /// The record's key, the first job's name; `None` without jobs.
    #[must_use]
    pub fn name(&self) -> Option<&Arc<str>> {
        self.jobs.first().map(|job| &job.name)
    }

    /// The names of the jobs.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.jobs.iter().map(|job| &job.name)
    }

    /// Whether it is of this group: of the same jobs, which are planned with the same iterations.
    #[must_use]
    pub fn is_of(&self, group: &TurnGroup) -> bool {
        let planned = group.jobs.iter().zip(&group.group.members).map(|(job, member)| (&job.name, member.iteration));
        self.jobs.iter().map(|job| (&job.name, job.iteration)).eq(planned)
    }
}
