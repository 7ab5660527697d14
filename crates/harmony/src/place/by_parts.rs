//! Placers that choose a server for one part after the other: ranks first, then parameter servers. If a part fits nowhere, the job waits.

use alloc::vec::Vec;

use crate::{
    draw::Draw,
    interference::{PPM, Speeds},
    job::{Demand, Job, Part, RESOURCES},
    server::{SERVER, Stand, takes},
    world::{Placer, View},
};

/// Parts of a share.
const PERMILLE: u32 = 1_000;

/// Puts all parts of `job` where `best` has the least, of the servers with room; of equal ones the first.
pub(super) fn by_parts(view: &View<'_>, job: &Job, mut best: impl FnMut(usize, &[Demand], &Stand, Part) -> u64) -> Option<Stand> {
    let mut free: Vec<Demand> = view.free.to_vec();
    let mut stand = Stand::default();
    for part in Part::ALL {
        let demand = job.demand(part);
        for _ in 0..job.count(part) {
            let room = |server: &usize| free.get(*server).is_some_and(|free| takes(&mut free.clone(), &demand));
            let server = (0..free.len()).filter(room).min_by_key(|server| best(*server, &free, &stand, part))?;
            takes(free.get_mut(server)?, &demand);
            stand.add(server, part);
        }
    }
    Some(stand)
}

/// What is free of a server, as the mean share of its resources in thousandths.
fn free_permille(free: &Demand) -> u64 {
    let share = free.iter().zip(SERVER).map(|(free, all)| free * PERMILLE / all).sum::<u32>();
    u64::from(share) / RESOURCES as u64
}

/// Load balancing, as Kubernetes and Mesos do: each part on the server with the most free.
#[derive(Clone, Copy, Debug, Default)]
pub struct Balance;

impl Placer for Balance {
    fn place(&mut self, view: &View<'_>, job: &Job) -> Option<Stand> {
        by_parts(view, job, |server, free, _, _| u64::MAX - free_permille(&free[server]))
    }
}

/// Bin packing, as Tetris does: each part on the server with the least free.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pack;

impl Placer for Pack {
    fn place(&mut self, view: &View<'_>, job: &Job) -> Option<Stand> {
        by_parts(view, job, |server, free, _, _| free_permille(&free[server]))
    }
}

/// Least interference first: each part on the server where it costs and is cost least, pair by pair, as pairs of jobs were measured. Of equal
/// servers the one with the most free.
#[derive(Clone, Copy)]
pub struct LeastInterference<'a> {
    speeds: &'a dyn Speeds,
}

impl core::fmt::Debug for LeastInterference<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("LeastInterference")
    }
}

impl<'a> LeastInterference<'a> {
    /// With what is known of pairs.
    #[must_use]
    pub fn new(speeds: &'a dyn Speeds) -> Self {
        Self { speeds }
    }

    /// What the job loses and makes others lose on `server`, in millionths, each of the others alone beside it.
    fn lost(&self, view: &View<'_>, job: &Job, stand: &Stand) -> u64 {
        let beside = |running: &&crate::world::Running| {
            running.stand.seats().iter().any(|seat| stand.seats().iter().any(|own| own.server == seat.server))
        };
        let pair = |running: &crate::world::Running| {
            let speeds = self.speeds.speeds(view.servers, &[(job, stand), (&running.job, &running.stand)]);
            speeds.iter().map(|speed| PPM - u64::from(*speed)).sum::<u64>()
        };
        view.running.iter().filter(beside).map(pair).sum()
    }
}

impl Placer for LeastInterference<'_> {
    fn place(&mut self, view: &View<'_>, job: &Job) -> Option<Stand> {
        by_parts(view, job, |server, free, stand, part| {
            let mut stand = stand.clone();
            stand.add(server, part);
            // Interference decides; what is free, below a thousand, only between equals.
            self.lost(view, job, &stand) * u64::from(2 * PERMILLE) + u64::from(PERMILLE) - free_permille(&free[server])
        })
    }
}

/// Anywhere with room, from a seed: what a model of speeds learns from.
#[derive(Clone, Debug)]
pub struct Anywhere(Draw);

impl Anywhere {
    /// From that seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Draw::new(seed, 1))
    }
}

impl Placer for Anywhere {
    fn place(&mut self, view: &View<'_>, job: &Job) -> Option<Stand> {
        by_parts(view, job, |_, _, _, _| self.0.below(u64::from(u32::MAX)))
    }
}
