//! What is compared: who chooses places, and what keeps jobs apart.

use ::sim::trace::{NetworkControl, Ranker};

/// A way to run the same trace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scheme {
    pub(super) name: &'static str,
    /// What that is, for readers.
    pub(super) about: &'static str,
    pub(super) ranker: Ranker,
    pub(super) control: NetworkControl,
}

const fn scheme(name: &'static str, about: &'static str, ranker: Ranker, control: NetworkControl) -> Scheme {
    Scheme { name, about, ranker, control }
}

/// The first is what the others are compared with. "Placing only" and "turns only" say what of the gain is which. The last three are
/// placed anywhere, as in a cluster whose scheduler knows no leaves.
pub(super) const SCHEMES: [Scheme; 10] = [
    scheme("Themis", "packs jobs by leaf, and nothing keeps them apart", Ranker::None, NetworkControl::Free),
    scheme(
        "CASSINI",
        "the paper's choice among ten places, its time-shifts, and its correction of drift",
        Ranker::Cassini,
        NetworkControl::Paper,
    ),
    scheme("placing only", "the planner's choice among ten places", Ranker::Antiphase, NetworkControl::Free),
    scheme("turns only", "Themis' places, and turns where they are predicted to gain", Ranker::None, NetworkControl::Turns),
    scheme("slots", "the planner's choice, and slots where they are predicted to gain", Ranker::Antiphase, NetworkControl::Slots),
    scheme("turns", "the planner's choice, and turns where they are predicted to gain", Ranker::Antiphase, NetworkControl::Turns),
    scheme("ideal", "Themis' places on a network that is in nobody's way", Ranker::None, NetworkControl::Ideal),
    scheme("random", "jobs anywhere, and nothing keeps them apart", Ranker::Random, NetworkControl::Free),
    scheme("random, shifts", "jobs anywhere, and the paper's time-shifts", Ranker::Random, NetworkControl::Paper),
    scheme("random, turns", "jobs anywhere, and turns", Ranker::Random, NetworkControl::Turns),
];
