//! What holds the jobs, and where there is what. Pure.

use serde::{Deserialize, Serialize};

use crate::case::CaseError;

/// Who holds the jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Control {
    /// This process writes the schedule pages itself.
    #[default]
    Direct,
    /// The topology service and one agent beside every rank, over a network of their own.
    Service,
}

/// What the jobs are held by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Hold {
    /// A ready job goes when those ahead of it have ended.
    Turns,
    /// A ready job goes at its next slot.
    Slots,
}

/// What is played beside the run that was asked for, in a run of its own, to compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Baseline {
    /// The control of the CASSINI paper: jobs begin at their time-shifts, and a job that has drifted from it by more than 5 % of its
    /// period delays one start.
    Drift,
    /// Nobody is held; a sender grows its window by the part of the iteration's bytes that it has sent (MLTCP, arXiv 2402.09589).
    Mltcp,
    /// Held to slots.
    Slots,
}

/// Something of each baseline that was played.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Baselines<T> {
    /// See [`Baseline::Drift`].
    #[serde(default = "not_played", skip_serializing_if = "Option::is_none")]
    pub drift: Option<T>,
    /// See [`Baseline::Mltcp`].
    #[serde(default = "not_played", skip_serializing_if = "Option::is_none")]
    pub mltcp: Option<T>,
    /// See [`Baseline::Slots`].
    #[serde(default = "not_played", skip_serializing_if = "Option::is_none")]
    pub slots: Option<T>,
}

fn not_played<T>() -> Option<T> {
    None
}

impl Baseline {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 3] = [Self::Drift, Self::Mltcp, Self::Slots];

    /// The word for people and for documents.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Drift => "drift",
            Self::Mltcp => "mltcp",
            Self::Slots => "slots",
        }
    }

    /// What its run is.
    #[must_use]
    pub fn about(self) -> &'static str {
        match self {
            Self::Drift => "shifted once, then corrected for drift",
            Self::Mltcp => "as they come, over MLTCP",
            Self::Slots => "held to slots",
        }
    }
}

impl<T> Baselines<T> {
    /// What `of` says of each of these.
    ///
    /// # Errors
    /// The first of `of`.
    pub fn try_of<E>(these: &[Baseline], mut of: impl FnMut(Baseline) -> Result<T, E>) -> Result<Self, E> {
        let mut one = |baseline: Baseline| these.contains(&baseline).then(|| of(baseline)).transpose();
        Ok(Self { drift: one(Baseline::Drift)?, mltcp: one(Baseline::Mltcp)?, slots: one(Baseline::Slots)? })
    }

    /// Of one of them, if it was played.
    #[must_use]
    pub fn get(&self, baseline: Baseline) -> Option<&T> {
        match baseline {
            Baseline::Drift => self.drift.as_ref(),
            Baseline::Mltcp => self.mltcp.as_ref(),
            Baseline::Slots => self.slots.as_ref(),
        }
    }

    /// Those that were played, in the order in which they are shown.
    pub fn iter(&self) -> impl Iterator<Item = (Baseline, &T)> {
        Baseline::ALL.into_iter().filter_map(|baseline| Some((baseline, self.get(baseline)?)))
    }

    /// Something else of each that was played.
    #[must_use]
    pub fn map<U>(&self, of: impl Fn(Baseline, &T) -> U) -> Baselines<U> {
        let one = |baseline| self.get(baseline).map(|value| of(baseline, value));
        Baselines { drift: one(Baseline::Drift), mltcp: one(Baseline::Mltcp), slots: one(Baseline::Slots) }
    }
}

/// Where a case is played: what can hold jobs differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Kernel(Control),
    VirtualTime,
}

impl Hold {
    /// The word for people and for documents.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Turns => "turns",
            Self::Slots => "slots",
        }
    }

    /// What holds the jobs there: what was asked for, else the first of what is there. The one place that decides it.
    ///
    /// # Errors
    /// A [`CaseError`] for what cannot hold jobs there.
    pub(crate) fn decide(asked: Option<Self>, place: Place) -> Result<Self, CaseError> {
        let there = place.holds();
        let hold = asked.or(there.first().copied()).unwrap_or(Self::Slots);
        if there.contains(&hold) {
            return Ok(hold);
        }
        let known: Vec<&str> = there.iter().map(|hold| hold.word()).collect();
        let problem = format!("{}: {} {}", hold.word(), place.words(), known.join(" or "));
        Err(CaseError::Value { place: "--hold".into(), problem })
    }
}

impl Place {
    /// What jobs can be held by, the default first.
    pub(crate) fn holds(self) -> &'static [Hold] {
        match self {
            // Turns need somebody who hears that a job has ended, and pages written by hand hear nothing.
            Self::Kernel(Control::Direct) => &[Hold::Slots],
            Self::Kernel(Control::Service) => &[Hold::Turns, Hold::Slots],
            Self::VirtualTime => &[Hold::Turns, Hold::Slots],
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Kernel(Control::Direct) => "pages that the lab writes itself hold jobs by",
            Self::Kernel(Control::Service) => "the service and its agents hold jobs by",
            Self::VirtualTime => "in virtual time jobs are held by",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing is held in another way than it was asked for, and without a wish in the first way that the place knows.
    #[test]
    fn what_holds_jobs_is_decided_by_the_place() {
        for place in [Place::Kernel(Control::Direct), Place::Kernel(Control::Service), Place::VirtualTime] {
            assert_eq!(Hold::decide(None, place), Ok(place.holds()[0]));
            assert_eq!(Hold::decide(Some(Hold::Slots), place), Ok(Hold::Slots));
        }
        let refused = Hold::decide(Some(Hold::Turns), Place::Kernel(Control::Direct)).unwrap_err().to_string();
        assert_eq!(refused, "--hold: turns: pages that the lab writes itself hold jobs by slots");
    }
}
