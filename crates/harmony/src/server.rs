//! Servers, and where jobs stand on them.

use alloc::vec::Vec;

use crate::job::{Demand, Job, Part};

/// What a server has: four GPUs, and cores and memory for four ranks that load and two parameter servers.
pub const SERVER: Demand = [4, 20, 64];

/// What a job has on one server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seat {
    /// Which server.
    pub server: usize,
    /// Ranks there.
    pub ranks: u32,
    /// Parameter servers there.
    pub parameter_servers: u32,
}

/// Where a job stands: its seats by server, none empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stand(Vec<Seat>);

impl Stand {
    /// The seats, by server.
    #[must_use]
    pub fn seats(&self) -> &[Seat] {
        &self.0
    }

    /// Puts one more part on a server.
    pub fn add(&mut self, server: usize, part: Part) {
        let at = self.0.partition_point(|seat| seat.server < server);
        if self.0.get(at).is_none_or(|seat| seat.server != server) {
            self.0.insert(at, Seat { server, ..Seat::default() });
        }
        if let Some(seat) = self.0.get_mut(at) {
            match part {
                Part::Rank => seat.ranks += 1,
                Part::ParameterServer => seat.parameter_servers += 1,
            }
        }
    }

    /// How many parts of that sort stand.
    #[must_use]
    pub fn placed(&self, part: Part) -> u32 {
        let of = |seat: &Seat| if part == Part::Rank { seat.ranks } else { seat.parameter_servers };
        self.0.iter().map(of).sum()
    }

    /// Whether all parts of `job` stand, and no more.
    #[must_use]
    pub fn is_whole(&self, job: &Job) -> bool {
        Part::ALL.into_iter().all(|part| self.placed(part) == job.count(part))
    }

    /// What the job takes of each server where it stands.
    pub fn taken<'a>(&'a self, job: &'a Job) -> impl Iterator<Item = (usize, Demand)> + 'a {
        let (rank, server) = (job.demand(Part::Rank), job.demand(Part::ParameterServer));
        let of = move |seat: &Seat| core::array::from_fn(|r| seat.ranks * rank[r] + seat.parameter_servers * server[r]);
        self.0.iter().map(move |seat| (seat.server, of(seat)))
    }
}

/// What is free on each of `servers` beside who stands there.
#[must_use]
pub fn free<'a>(servers: usize, standing: impl Iterator<Item = (&'a Job, &'a Stand)>) -> Vec<Demand> {
    let mut free = alloc::vec![SERVER; servers];
    for (job, stand) in standing {
        for (server, taken) in stand.taken(job) {
            if let Some(free) = free.get_mut(server) {
                free.iter_mut().zip(taken).for_each(|(free, taken)| *free = free.saturating_sub(taken));
            }
        }
    }
    free
}

/// Takes `demand` of what is free, and says whether it fitted; if not, nothing is taken.
pub fn takes(free: &mut Demand, demand: &Demand) -> bool {
    let fits = free.iter().zip(demand).all(|(free, demand)| free >= demand);
    if fits {
        free.iter_mut().zip(demand).for_each(|(free, demand)| *free -= demand);
    }
    fits
}
