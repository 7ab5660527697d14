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
