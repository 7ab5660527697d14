//! What is compared: who shares GPUs, who chooses places, and what keeps jobs apart.

use ::sim::trace::{NetworkControl, Ranker};
use policy::schedule::{GandivaOptions, MuriOptions, Rule};

/// The policy under which nobody shares GPUs, with the order of Muri-S.
pub(super) const ALONE: &str = "srsf";

/// All policies, the one under which nobody shares first.
pub(super) const POLICIES: [&str; 3] = [ALONE, "gandiva", GROUPED];

/// The policy whose groups can be chosen with the network in view.
const GROUPED: &str = "muri-s";

/// A way to run the same mix.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scheme {
    pub(super) policy: &'static str,
    pub(super) ranker: Ranker,
    pub(super) control: NetworkControl,
    /// Muri: groups are chosen without the network, although the planner chooses places.
    pub(super) blind: bool,
}

impl Scheme {
    pub(super) fn rule(&self) -> Rule {
        match self.policy {
            GROUPED => Rule::Muri(MuriOptions { offers: !self.blind, ..MuriOptions::default() }),
            "gandiva" => Rule::Gandiva(GandivaOptions::default()),
            _ => Rule::Srsf,
        }
    }

    pub(super) fn ranker_name(&self) -> &'static str {
        match self.ranker {
            Ranker::None => "none",
            Ranker::Random => "random",
            Ranker::Cassini => "cassini",
            Ranker::Antiphase => "antiphase",
        }
    }

    pub(super) fn control_name(&self) -> &'static str {
        match self.control {
            NetworkControl::Ideal => "ideal",
            NetworkControl::Free => "free",
            NetworkControl::Paper => "paper",
            NetworkControl::Slots => "slots",
            NetworkControl::Turns => "turns",
        }
    }
}

/// Everything that is played: each policy on a network that is in nobody's way, then every ranker under every control; of Muri also with groups that
/// are chosen without the network.
pub(super) fn schemes() -> Vec<Scheme> {
    use NetworkControl::{Free, Ideal, Paper, Turns};
    use Ranker::{Antiphase, Cassini, None};
    let mut schemes = Vec::new();
    for policy in POLICIES {
        schemes.push(Scheme { policy, ranker: None, control: Ideal, blind: false });
        for ranker in [None, Cassini, Antiphase] {
            schemes.extend([Free, Paper, Turns].map(|control| Scheme { policy, ranker, control, blind: false }));
        }
    }
    schemes.extend([Free, Turns].map(|control| Scheme { policy: GROUPED, ranker: Antiphase, control, blind: true }));
    schemes
}

/// The place of a scheme whose groups are as the policy has them.
pub(super) fn find(schemes: &[Scheme], policy: &str, ranker: &str, control: &str) -> Option<usize> {
    schemes.iter().position(|s| s.policy == policy && !s.blind && s.ranker_name() == ranker && s.control_name() == control)
}

/// The place of the scheme whose groups are blind, beside places by the planner.
pub(super) fn find_blind(schemes: &[Scheme], policy: &str, control: &str) -> Option<usize> {
    schemes.iter().position(|s| s.policy == policy && s.blind && s.control_name() == control)
}
