//! A job as the network sees it, where it stands, and where it could stand instead.

use alloc::{collections::BTreeMap, string::String, sync::Arc, vec::Vec};

use circle::{PERIOD_TICKS_MAX, PHASES_PER_DEMAND_MAX};
use fabric::collective::{Collective, Endpoint};
use profile::{Profile, Scope};
use serde::{Deserialize, Serialize};
use units::{JobId, Nanos, Rate};

/// A training job as the network sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Unique name.
    pub name: String,
    /// GPUs it holds: its weight in ranking by time. A job that declares none counts as one.
    pub gpus: u32,
    /// Scheduled length of one iteration.
    pub period: Nanos,
    /// Whether its starts may be delayed.
    pub hold: Hold,
    /// When it sends during an iteration, in any order; phases may overlap and then add up.
    pub phases: Vec<TrafficPhase>,
}

/// Whether gates may delay the starts of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Hold {
    /// Where that is predicted to help.
    #[default]
    Auto,
    /// The same, and by turns the job asks before each of its Up phases, not once an iteration for all of them.
    Phases,
    /// The job waits for nobody, neither for a turn nor for a slot. Its traffic counts as that of any other job.
    Never,
}

/// What is no [`Hold`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("hold: {0:?}; expected auto, phases or never")]
pub struct UnknownHold(pub String);

impl Hold {
    /// As documents and messages name it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Phases => "phases",
            Self::Never => "never",
        }
    }
}

impl core::str::FromStr for Hold {
    type Err = UnknownHold;

    fn from_str(word: &str) -> Result<Self, UnknownHold> {
        let all = [Self::Auto, Self::Phases, Self::Never];
        all.into_iter().find(|hold| hold.word() == word).ok_or_else(|| UnknownHold(word.into()))
    }
}

/// A span of an iteration in which groups of ranks run a collective.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrafficPhase {
    /// First nanosecond, counted from the start of the iteration.
    pub start: Nanos,
    /// One past the last nanosecond; at most the period.
    pub end: Nanos,
    /// Rate of the busiest NIC during the phase.
    pub rate: Rate,
    /// The collective that the groups run.
    pub collective: Collective,
    /// Groups of ranks, by index into [`Placement::ranks`]; each group runs its own collective.
    /// Phases that share the allocation share their routes.
    pub groups: Arc<[Vec<u32>]>,
}

/// Where the ranks of one job stand; empty = the job is not running.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Placement {
    /// One host and NIC per rank.
    pub ranks: Vec<Endpoint>,
}

/// One placement of the cluster under evaluation: what differs from the base placements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Candidate {
    /// Name for people.
    pub id: String,
    /// The jobs that stand elsewhere than in the base; each job at most once.
    pub placements: Vec<(JobId, Placement)>,
}

/// Why something is no periodic job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("job {job:?}: {problem} {value}")]
pub struct JobError {
    /// Its name.
    pub job: String,
    /// What is wrong.
    pub problem: &'static str,
    /// The offending value.
    pub value: u64,
}

impl Job {
    /// The traffic of a profile: its phases with the rank groups that run them.
    ///
    /// # Errors
    /// The dimensions of the profile have no groups of some scope.
    pub fn of_profile(name: String, profile: &Profile, hold: Hold) -> Result<Self, profile::DimsError> {
        let mut groups: BTreeMap<Scope, Arc<[Vec<u32>]>> = BTreeMap::new();
        let mut phases = Vec::with_capacity(profile.phases().len());
        for phase in profile.phases() {
            let members = match groups.get(&phase.scope) {
                // Phases of one scope share one allocation, by which their routes are shared too (`TrafficPhase::groups`).
                Some(members) => Arc::clone(members),
                None => {
                    let members: Arc<[Vec<u32>]> = profile::groups(profile.dims(), phase.scope)?.into();
                    groups.insert(phase.scope, Arc::clone(&members));
                    members
                }
            };
            let collective: Collective = phase.collective;
            phases.push(TrafficPhase { start: phase.start, end: phase.end(), rate: phase.rate, collective, groups: members });
        }
        let gpus = profile.dims().ranks();
        Ok(Self { name, gpus, period: profile.period(), hold, phases })
    }

    /// Refuses what cannot be a periodic job.
    ///
    /// # Errors
    /// [`JobError`] names the job and the value.
    pub fn validate(&self) -> Result<(), JobError> {
        let refuse = |problem: &'static str, value: u64| Err(JobError { job: self.name.clone(), problem, value });
        // The limits are those of the crate `circle`, which wraps the phases around the period.
        if self.period.0 == 0 || self.period.0 > PERIOD_TICKS_MAX {
            return refuse("its period is out of range (ns)", self.period.0);
        }
        if self.phases.len() > PHASES_PER_DEMAND_MAX {
            return refuse("it has too many phases", self.phases.len() as u64);
        }
        for (i, phase) in self.phases.iter().enumerate() {
            // A phase over the end of the iteration is written as two, so no phase wraps around.
            if phase.start >= phase.end || phase.end > self.period {
                return refuse("a phase does not satisfy start < end <= period; phase", i as u64);
            }
        }
        Ok(())
    }
}
