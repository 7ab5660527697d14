//! A validated profile.

use alloc::{format, string::String, vec::Vec};
use core::fmt;

use circle::{PERIOD_TICKS_MAX, PHASES_PER_DEMAND_MAX, RATE_MBPS_MAX};
use fabric::collective::Collective;
use serde::{Deserialize, Serialize};
use units::{Bytes, NAME_BYTES_MAX, Nanos, OneLine, Rate, unseen_in};

use crate::{
    dims::{Dims, Scope},
    document::{ProfileDocument, SCHEMA},
    timestamp::is_rfc3339,
};

/// Where a profile comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// Written by a person.
    Declared,
    /// Computed from model, parallelism and hardware.
    Synthesised,
    /// Learned from counters of a running job.
    Learned,
    /// Converted from a trace of another tool.
    Imported,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Declared => "declared",
            Self::Synthesised => "synthesised",
            Self::Learned => "learned",
            Self::Imported => "imported",
        })
    }
}

/// An Up phase of one collective: every group of `scope` runs it at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Phase {
    /// When it starts, counted from the start of the iteration.
    pub start: Nanos,
    /// How long it lasts; never zero.
    pub duration: Nanos,
    /// Rate of the busiest NIC of one group for this collective; never zero.
    pub rate: Rate,
    /// The pattern of traffic within a group.
    pub collective: Collective,
    /// Which groups run it.
    pub scope: Scope,
}

impl Phase {
    /// One past its last nanosecond.
    #[must_use]
    pub const fn end(&self) -> Nanos {
        Nanos(self.start.0.saturating_add(self.duration.0))
    }

    /// Volume that the busiest NIC of one group sends during the phase, saturating.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        self.rate.bytes_in(self.duration)
    }
}

/// Why a profile was refused: the key path and the value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {}", OneLine(path), OneLine(problem))]
pub struct ProfileError {
    /// Key path within the document, for example `phases[3].rate_mbps`.
    pub path: String,
    /// What is wrong, with the offending value.
    pub problem: String,
}

pub(crate) fn refuse(path: impl Into<String>, problem: impl Into<String>) -> ProfileError {
    ProfileError { path: path.into(), problem: problem.into() }
}

/// The traffic of a job during one iteration: how much, and when.
///
/// Phases of one collective and scope never overlap; phases of different ones may. What is not
/// in a phase is Down. A phase that runs over the end of the iteration is written as two.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    name: String,
    model: String,
    period: Nanos,
    phases: Vec<Phase>,
    dims: Dims,
    variance: f64,
    confidence: f64,
    source: Source,
    iterations: u64,
    collected_at: Option<String>,
}

impl Profile {
    /// Name of the profile.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Name of the model; empty when nobody said.
    #[must_use]
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Length of one iteration.
    #[must_use]
    pub const fn period(&self) -> Nanos {
        self.period
    }

    /// The phases, by ascending start.
    #[must_use]
    pub fn phases(&self) -> &[Phase] {
        &self.phases
    }

    /// The parallel dimensions.
    #[must_use]
    pub const fn dims(&self) -> &Dims {
        &self.dims
    }

    /// Standard deviation of the iteration time divided by its mean.
    #[must_use]
    pub const fn variance(&self) -> f64 {
        self.variance
    }

    /// How far the profile can be trusted, 0 to 1.
    #[must_use]
    pub const fn confidence(&self) -> f64 {
        self.confidence
    }

    /// Where it comes from.
    #[must_use]
    pub const fn source(&self) -> Source {
        self.source
    }

    /// How many iterations were seen; 0 unless learned or imported.
    #[must_use]
    pub const fn iterations(&self) -> u64 {
        self.iterations
    }

    /// When it was collected, RFC 3339.
    #[must_use]
    pub fn collected_at(&self) -> Option<&str> {
        self.collected_at.as_deref()
    }
}

impl TryFrom<ProfileDocument> for Profile {
    type Error = ProfileError;

    fn try_from(doc: ProfileDocument) -> Result<Self, ProfileError> {
        // The reader has checked the schema of a text; a document made in code passes here only.
        if doc.schema != SCHEMA {
            return Err(refuse("schema", format!("{:?}; must be {SCHEMA:?}", doc.schema)));
        }
        check_name("name", &doc.name, 1)?;
        check_name("model", &doc.model, 0)?;
        if doc.period_ns == 0 || doc.period_ns > PERIOD_TICKS_MAX {
            return Err(refuse("period_ns", format!("{}; must be 1 to {PERIOD_TICKS_MAX}", doc.period_ns)));
        }
        // The dimensions are checked before the phases, whose scopes refer to them.
        doc.ranks.check().map_err(|e| refuse("ranks", format!("{e}")))?;
        let phases = check_phases(&doc)?;
        check_fraction("variance", doc.variance)?;
        check_fraction("confidence", doc.confidence)?;
        if doc.source == Source::Learned && doc.iterations == 0 {
            return Err(refuse("iterations", "0; a learned profile has seen at least 1"));
        }
        if let Some(at) = doc.collected_at.as_deref().filter(|at| !is_rfc3339(at)) {
            return Err(refuse("collected_at", format!("{at:?}; must be an RFC 3339 date-time such as 2026-11-21T10:00:00Z")));
        }
        Ok(Self {
            name: doc.name,
            model: doc.model,
            period: Nanos(doc.period_ns),
            phases,
            dims: doc.ranks,
            variance: doc.variance,
            confidence: doc.confidence,
            source: doc.source,
            iterations: doc.iterations,
            collected_at: doc.collected_at,
        })
    }
}

fn check_name(path: &str, name: &str, least: usize) -> Result<(), ProfileError> {
    if name.len() < least || name.len() > NAME_BYTES_MAX {
        return Err(refuse(path, format!("{} bytes; must be {least} to {NAME_BYTES_MAX}", name.len())));
    }
    unseen_in(name).map_or(Ok(()), |unseen| Err(refuse(path, format!("{name:?} has the character {unseen:?}, which nobody sees"))))
}

fn check_fraction(path: &str, value: f64) -> Result<(), ProfileError> {
    // NaN is in no range, so it is refused as well.
    if (0.0..=1.0).contains(&value) { Ok(()) } else { Err(refuse(path, format!("{value}; must be 0 to 1"))) }
}

fn check_phases(doc: &ProfileDocument) -> Result<Vec<Phase>, ProfileError> {
    if doc.phases.len() > PHASES_PER_DEMAND_MAX {
        return Err(refuse("phases", format!("{} phases; the limit is {PHASES_PER_DEMAND_MAX}", doc.phases.len())));
    }
    let mut phases: Vec<Phase> = Vec::with_capacity(doc.phases.len());
    // The list holds where the last phase of each collective and scope ended: at most 7 x 6 entries.
    let mut busy: Vec<(Collective, Scope, u64)> = Vec::new();
    let mut last_start = 0;
    for (i, p) in doc.phases.iter().enumerate() {
        let at = |key: &str, problem: String| refuse(format!("phases[{i}].{key}"), problem);
        let collective: Collective = p.collective.parse().map_err(|e| at("collective", format!("{e}")))?;
        // A sum that overflows lies beyond every period and is refused alike.
        let end = p.start_ns.checked_add(p.duration_ns).filter(|&end| end <= doc.period_ns);
        let Some(end) = end else {
            return Err(at(
                "duration_ns",
                format!("{} from {}; must end within the period of {}", p.duration_ns, p.start_ns, doc.period_ns),
            ));
        };
        if p.duration_ns == 0 {
            return Err(at("duration_ns", "0; must be at least 1".into()));
        }
        if p.rate_mbps == 0 || p.rate_mbps > RATE_MBPS_MAX {
            return Err(at("rate_mbps", format!("{}; must be 1 to {RATE_MBPS_MAX}", p.rate_mbps)));
        }
        // The sweeps over phases (`demand`, `duty`) rely on the order by start.
        if p.start_ns < last_start {
            return Err(at("start_ns", format!("{}; must not be before the phase before it ({last_start})", p.start_ns)));
        }
        last_start = p.start_ns;
        // A group of one rank has nobody to send to.
        if doc.ranks.degree(p.scope) < 2 {
            return Err(at("scope", format!("{}; ranks has only one rank in each of those groups", p.scope)));
        }
        match busy.iter_mut().find(|(c, s, _)| (*c, *s) == (collective, p.scope)) {
            Some((.., until)) if p.start_ns < *until => {
                return Err(at("start_ns", format!("{}; the {} {collective} before it lasts until {until}", p.start_ns, p.scope)));
            }
            Some((.., until)) => *until = end,
            None => busy.push((collective, p.scope, end)),
        }
        let (start, duration, rate) = (Nanos(p.start_ns), Nanos(p.duration_ns), Rate(p.rate_mbps));
        phases.push(Phase { start, duration, rate, collective, scope: p.scope });
    }
    Ok(phases)
}
