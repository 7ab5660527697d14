//! Elastic scheduling: how many GPUs of which type each job has in the next round. Beside `schedule/`, whose jobs have the GPUs that they ask for.
//!
//! An [`ElasticScheduler`] is asked once a round. Each policy is a room that opens with its rules: `sia`, `gavel`, `pollux`. Who asks runs
//! the jobs, keeps each [`ElasticJob`] current, and checks what was decided with [`check`].
//!
//! Pure: the same jobs in the same order, and the same rounds before, give the same decisions.

mod aware;
mod check;
mod gavel;
mod in_turn;
mod job;
mod linear;
mod place;
mod pollux;
mod population;
mod shapes;
mod sia;
mod sighted;
mod speeds;

use alloc::vec::Vec;

pub use self::{
    aware::{Foresight, NoContention, Sight},
    check::{UnfitError, check},
    job::{ElasticJob, Pool, Shape, Stand},
    pollux::{PolluxOptions, Search},
    shapes::shapes,
    sia::{Placing, SiaOptions},
    speeds::RESTART_S as POLLUX_RESTART_S,
};
use self::{gavel::Gavel, pollux::Pollux, sia::Sia};

/// By what rule GPUs are given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ElasticRule {
    /// Counts and types by goodput, a power mean over jobs, solved exactly.
    Sia(SiaOptions),
    /// Counts by goodput, a power mean over jobs, blind to types.
    Pollux(PolluxOptions),
    /// Types for jobs whose counts are given, by shares of time.
    Gavel,
}

impl ElasticRule {
    /// How long a round lasts as published, in seconds: 60 (Sia, section 4.3; Pollux), 360 (Gavel).
    #[must_use]
    pub fn round_s(&self) -> f64 {
        match self {
            Self::Sia(_) | Self::Pollux(_) => 60.0,
            Self::Gavel => 360.0,
        }
    }

    /// Whether it tunes batches and counts. Where it does not, jobs have those that they ask for.
    #[must_use]
    pub fn tunes(&self) -> bool {
        !matches!(self, Self::Gavel)
    }

    /// Whether it counts with no batch that is larger than the one that the job asks for.
    #[must_use]
    pub fn asked_batches(&self) -> bool {
        matches!(self, Self::Sia(options) if options.asked_batches)
    }

    /// Whether it tells types of GPUs apart.
    #[must_use]
    pub fn sees_types(&self) -> bool {
        !matches!(self, Self::Pollux(_))
    }
}

/// A policy at work on a cluster.
#[derive(Clone, Debug)]
pub struct ElasticScheduler {
    pools: Vec<Pool>,
    room: Room,
}

#[derive(Clone, Debug)]
enum Room {
    Sia(Sia),
    Pollux(Pollux),
    Gavel(Gavel),
}

impl ElasticScheduler {
    /// A scheduler of nodes without jobs.
    #[must_use]
    pub fn new(rule: ElasticRule, pools: Vec<Pool>) -> Self {
        let room = match rule {
            ElasticRule::Sia(options) => Room::Sia(Sia::new(&pools, options)),
            ElasticRule::Pollux(options) => Room::Pollux(Pollux::new(options)),
            ElasticRule::Gavel => Room::Gavel(Gavel::new(pools.len(), rule.round_s())),
        };
        Self { pools, room }
    }

    /// Where each job stands in the next round, `None` where it waits; in the order of the jobs.
    pub fn decide(&mut self, jobs: &[ElasticJob]) -> Vec<Option<Stand>> {
        match &mut self.room {
            Room::Sia(room) => room.decide(&self.pools, jobs),
            Room::Pollux(room) => room.decide(&self.pools, jobs),
            Room::Gavel(room) => room.decide(&self.pools, jobs),
        }
    }

    /// The same with the network in view; Sia has eyes for it, with the placer of its paper, and the others have not.
    pub fn decide_with(&mut self, jobs: &[ElasticJob], sight: Sight, foresight: &mut dyn Foresight) -> Vec<Option<Stand>> {
        match &self.room {
            Room::Sia(room) if sight != Sight::Blind && room.keeps() => sighted::decide(room, &self.pools, jobs, sight, foresight),
            _ => self.decide(jobs),
        }
    }
}
