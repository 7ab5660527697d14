//! Values that are one of a few words.

use serde::Deserialize;

/// How jobs are kept apart that gain by it, as [`plan::Control`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Control {
    /// By event: a job goes when those ahead of it have ended.
    Turns,
    /// By time: each job starts in its slot.
    Slots,
    /// Not at all: what turns would bring is predicted and shown.
    #[default]
    Observe,
}

impl From<plan::Control> for Control {
    fn from(control: plan::Control) -> Self {
        match control {
            plan::Control::Turns => Self::Turns,
            plan::Control::Slots => Self::Slots,
            plan::Control::Observe => Self::Observe,
        }
    }
}

impl Control {
    /// As the configuration names it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Turns => "turns",
            Self::Slots => "slots",
            Self::Observe => "observe",
        }
    }
}

impl From<Control> for plan::Control {
    fn from(control: Control) -> Self {
        match control {
            Control::Turns => Self::Turns,
            Control::Slots => Self::Slots,
            Control::Observe => Self::Observe,
        }
    }
}

/// What becomes of what agents see of the cabling by LLDP, which nobody signs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Discovery {
    /// Nothing.
    Off,
    /// It is compared with the fabric, and differences are shown; the fabric is never changed.
    #[default]
    Compare,
    /// Where nobody sets a fabric it is the fabric, which grows with it.
    Grow,
}

/// What turns are chosen for, as [`plan::turns::Objective`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Objective {
    /// Short iterations.
    #[default]
    Time,
    /// Links that are seldom above capacity, where iterations are hardly longer for it.
    Quiet,
}

impl From<Objective> for plan::turns::Objective {
    fn from(objective: Objective) -> Self {
        match objective {
            Objective::Time => Self::Time,
            Objective::Quiet => Self::Quiet,
        }
    }
}
